"""From nothing to a verified report, and again: what is built once, what is built anew, what carries on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pyarrow.parquet as pq
import pytest

# One finished run serves all of these tests, so they stay in one process when tests are spread over several.
pytestmark = pytest.mark.xdist_group("end_to_end")

SAMPLES = "results/tiny/ruler/samples.parquet"
TIMINGS = "results/tiny/ruler/timings.parquet"


def planned(done):
    """Rules that a dry run would run."""
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (done.stdout + done.stderr).splitlines()
    if not any(line.startswith("Job stats") for line in lines):
        return set()
    first = next(place for place, line in enumerate(lines) if line.startswith("Job stats")) + 3
    rules = {line.split()[0] for line in lines[first : lines.index("", first)]}
    return rules - {"results/tiny", "total"}


def rows(path):
    """The rows of a Parquet file, without its metadata."""
    return pq.read_table(path).replace_schema_metadata(None)


def test_the_workflow_runs_from_nothing_to_a_verified_report(finished, tidy):
    """Every leaf is there, every number was recomputed, the ledger verifies, nothing half written is left."""
    verification = json.loads((finished.results / "verification.json").read_text("utf-8"))
    assert verification["passed"]
    assert verification["numbers"] > 500
    assert verification["mismatches"] == []
    verdicts = json.loads((finished.results / "verdicts.json").read_text("utf-8"))
    assert {verdict["id"] for verdict in verdicts} == {"needles", "loss"}
    checked = finished.ledger("verify", "--json")
    assert checked.returncode == 0, checked.stdout
    (branch,) = json.loads(checked.stdout)["branches"]
    assert [run["status"] for run in branch["runs"]] == ["ok"] * 4
    assert branch["findings"] == []
    assert not list(finished.results.rglob("parts"))
    tidy(finished.root)


def test_a_second_run_does_nothing(finished, plan):
    """No job, no entry, no changed byte."""
    before = finished.hashes("results", "data")
    done = plan(finished, "results/tiny")
    assert done.returncode == 0, done.stderr
    assert "Nothing to be done" in done.stdout + done.stderr
    assert finished.hashes("results", "data") == before


@pytest.mark.parametrize(
    ("leaf", "rules"),
    [
        ("tables/main.md", {"report", "verify"}),
        ("verification.json", {"verify"}),
        ("documents/tokens.parquet", {"documents", "report", "verify"}),
        ("maps/SHA256SUMS", {"fit", "ruler", "documents", "report", "verify"}),
    ],
)
@pytest.mark.slow
def test_a_deleted_leaf_rebuilds_only_what_needs_it(checkout, plan, leaf, rules):
    """What does not depend on the leaf is not planned."""
    (checkout.results / leaf).unlink()
    assert planned(plan(checkout, "-n", "results/tiny")) == rules


@pytest.mark.slow
def test_a_deleted_report_is_rebuilt_to_the_same_bytes(checkout):
    """Rendering reads only stored results, so the report comes back as it was, and so does everything beside it."""
    before = checkout.hashes("results")
    (checkout.results / "report.html").unlink()
    done = checkout.snakemake("results/tiny")
    assert done.returncode == 0, done.stderr
    assert checkout.hashes("results") == before


def stopped(checkout, number, groups):
    """Start the workflow for the samples, send a signal to all of it once some groups are finished; return those."""
    parts = checkout.results / "ruler/parts"
    # Tests started in the background ignore Ctrl-C, and what they start would inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = checkout.start(*checkout.command(SAMPLES), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    signal.signal(signal.SIGINT, before)
    while len(list(parts.glob("*.json"))) < groups:
        assert process.poll() is None, "the workflow ended before it could be stopped"
        time.sleep(0.02)
    os.killpg(process.pid, number)
    assert process.wait(timeout=60) != 0
    return {path.stem: json.loads(path.read_text("utf-8"))["payload"] for path in parts.glob("*.json")}


@pytest.mark.slow
def test_a_stopped_and_a_killed_run_carry_on(checkout, finished, plan):
    """Ctrl-C, then kill -9, in the middle of the samples: the same command carries on with what was finished.

    The rows are those of the run that was never interrupted, and the ledger keeps both attempts.
    """
    (checkout.root / SAMPLES).unlink()
    (checkout.root / TIMINGS).unlink()
    first = stopped(checkout, signal.SIGINT, 1)
    second = stopped(checkout, signal.SIGKILL, len(first) + 1)
    assert first.items() <= second.items()
    assert len(second) < 8, "nothing was left to do"
    assert not (checkout.root / SAMPLES).exists()
    assert plan(checkout, "--unlock").returncode == 0
    again = checkout.snakemake(SAMPLES)
    assert again.returncode == 0, again.stdout + again.stderr
    assert rows(checkout.root / SAMPLES) == rows(finished.root / SAMPLES)
    timings = rows(checkout.root / TIMINGS).to_pylist()
    for payload in second.values():
        assert all(row in timings for row in payload["timings"])
    assert not (checkout.results / "ruler/parts").exists()
    checked = checkout.ledger("verify")
    assert checked.returncode == 0, checked.stdout
    assert checked.stdout.count("orphaned_start") == 1
    assert "tiny ruler was started and has no result" in checked.stdout
    assert "5 ok, 1 failed, 1 open" in checked.stdout


@pytest.mark.slow
def test_bfloat16_runs_when_the_claim_allows_it(checkout, job):
    """``--config dtype=bfloat16`` captures again, every later job takes it too, the ledger records the override."""
    done = checkout.snakemake("results/tiny/capture/moments.safetensors", settings=["dtype=bfloat16"])
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("fit", "ruler", "documents"):
        done = job(checkout, name, "--override", "dtype=bfloat16")
        assert done.returncode == 0, done.stderr
    bodies = sorted((checkout.root / "data/ledger/local/bodies").glob("*.json"))
    starts = [body for body in (json.loads(path.read_text("utf-8")) for path in bodies) if "overrides" in body]
    ran = [start["run"] for start in starts if start["overrides"] == {"dtype": "bfloat16"}]
    assert ran == ["capture", "fit", "ruler", "documents"]
    assert checkout.ledger("verify").returncode == 0
