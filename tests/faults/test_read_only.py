"""A results folder that cannot be written: one sentence, and what is there stays as it is."""

from __future__ import annotations

import pytest
from faults_book import attempts, open_starts

pytestmark = [pytest.mark.xdist_group("faults"), pytest.mark.slow]


@pytest.mark.parametrize("name", ["capture", "fit", "documents", "report"])
def test_a_read_only_results_folder_stops_a_job_with_one_sentence(checkout, inside_job, refused, name):
    """Jobs of every kind name the file that they could not write, and the ledger keeps the attempt as failed."""
    before, entries = checkout.hashes("results"), len(attempts(checkout))
    refused(inside_job(checkout, ["--read-only", "results"], name), r"Read-only file system", "permissions")
    assert checkout.hashes("results") == before
    assert open_starts(checkout) == []
    assert len(attempts(checkout)) == entries + (0 if name == "report" else 2)


def test_a_read_only_ledger_starts_nothing(checkout, inside_job, refused):
    """Without a lease and a start entry no work is done."""
    before = checkout.hashes("results", "data")
    done = inside_job(checkout, ["--read-only", "data"], "capture")
    refused(done, "Read-only file system")
    assert checkout.hashes("results", "data") == before


def test_the_workflow_in_a_read_only_folder_says_so(checkout, inside):
    """Snakemake itself cannot make its notes there: it ends, and nothing is lost."""
    before = checkout.hashes("results", "data")
    words = checkout.command("results/tiny/overlap.json", "--force")[2:]
    done = inside(checkout, ["--read-only", "."], "snakemake", *words)
    assert done.returncode != 0
    assert "Read-only file system" in done.stdout + done.stderr
    assert checkout.hashes("results", "data") == before
