"""Two users and one checkout: the second is told, and what the first does is not disturbed."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from faults_book import attempts, started_meanwhile, verified
from faults_compared import digests
from faults_processes import kill, running, started, until

pytestmark = [pytest.mark.xdist_group("faults"), pytest.mark.slow]
SAMPLES = "results/tiny/ruler/samples.parquet"
NOBODY = 65534


def test_the_same_experiment_a_second_time_waits_for_nobody_and_runs_nothing(checkout, finished, job, refused):
    """Planned beside the first it is refused by Snakemake's lock, started by hand by the lease; the first ends well."""
    for name in ("samples", "timings"):
        (checkout.results / f"ruler/{name}.parquet").unlink()
    with started(checkout, checkout.command(SAMPLES)) as first:
        until("the job did not start", lambda: running(checkout.root, "workflow.jobs.ruler "))
        jobs = running(checkout.root, "workflow.jobs.ruler ")
        until("the attempt did not start", lambda: len(attempts(checkout)) == 9)
        kill(jobs, signal.SIGSTOP)
        before = attempts(checkout)
        second = checkout.snakemake(SAMPLES)
        said = second.stdout + second.stderr
        assert second.returncode != 0
        assert "Directory cannot be locked" in said, said
        assert "Traceback" not in said
        assert "was killed" not in said
        refused(job(checkout, "ruler"), rf"another attempt of tiny ruler is running \(process {jobs[0]} on")
        assert attempts(checkout) == before
        kill(jobs, signal.SIGCONT)
        out, _ = first.communicate()
        assert first.returncode == 0, out
    assert digests(checkout.results) == digests(finished.results)
    assert started_meanwhile(checkout) == []
    verified(checkout)


@pytest.fixture
def shared(finished):
    """The finished checkout where another user may read it, and write where ``chmod`` allows."""
    if os.geteuid() != 0:
        pytest.skip("no test as another user: only root can become one")
    folder = Path(tempfile.mkdtemp(prefix="ridgefill-shared-"))
    folder.chmod(0o755)
    yield finished.copy(folder / "checkout")
    shutil.rmtree(folder)


def test_another_user_who_may_only_read_gets_one_sentence(shared, inside_job, refused):
    """Folders of the first user: no lease, no entry, no result."""
    before = shared.hashes("results", "data")
    (shared.root / "left").mkdir()
    refused(inside_job(shared, ["--user", str(NOBODY)], "ruler"), r"Permission denied")
    assert shared.hashes("results", "data") == before


def test_another_user_who_may_write_carries_on_where_the_first_ended(shared, inside_job):
    """Once folders are open to both, leases and entries of the one are no obstacle to the other."""
    for path in (shared.root, *shared.root.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    done = inside_job(shared, ["--user", str(NOBODY)], "documents")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (shared.results / "documents/tokens.parquet").stat().st_uid == NOBODY
    assert "5 ok" in verified(shared)
