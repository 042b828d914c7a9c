"""kill -9 at random points of a whole run: what is restarted ends with the bytes of a run that nobody disturbed."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time

import pytest
from faults_book import attempts, open_starts, started_meanwhile, verified
from faults_compared import digests
from faults_processes import kill, running, started, stopped_by, until

from ledger.lease import holder_of

pytestmark = [pytest.mark.xdist_group("faults"), pytest.mark.slow]

SEED = int(os.environ.get("RIDGEFILL_FAULT_SEED", "11"))
STAGES = {"capture": 0.4, "fit": 1.0, "ruler": 3.0, "documents": 1.0, "report": 2.0}
"""Stages that are stopped once each, and within how many seconds of their start."""
VICTIMS = ("job", "job", "snakemake", "children", "everything")
SAMPLES = "results/tiny/ruler/samples.parquet"
LOCKED = "a run in this folder was killed and left its lock; type `snakemake --unlock`, then the same command again"


def at_work(checkout, stage):
    """Whether a stage has begun: its start is in the ledger, or its process is there where it has none."""
    if stage in ("report", "verify"):
        return running(checkout.root, f"workflow.jobs.{stage} ")
    return stage in open_starts(checkout)


@pytest.fixture
def points(record_property):
    """Where the run will be stopped and who is killed: drawn from the seed, written down with what came of it."""
    draw = random.Random(SEED)
    victims = draw.sample(VICTIMS, len(VICTIMS))
    found = {
        stage: {"victim": victim, "after": draw.uniform(0, longest)}
        for (stage, longest), victim in zip(STAGES.items(), victims, strict=True)
    }
    yield found
    record_property("points", json.dumps(found))
    sys.stdout.write(f"seed {SEED}: {found}\n")


def test_a_run_killed_at_random_points_ends_like_one_that_never_was(fresh, finished, points, refused, tidy, tmp_path):
    """Every stage is stopped once by kill -9 of its job, of Snakemake, of Snakemake's children or of everything.

    The same command is typed each time, after `snakemake --unlock` where Snakemake was killed. Stages are stopped as
    they come: those that need nothing of each other are begun in any order. At the end every file that holds no seconds
    and names no entry has the bytes of the run that was left alone.
    """
    checkout = fresh.copy(tmp_path / "killed")
    command, left = checkout.command("results/tiny"), dict(points)

    def reached(process):
        return next((stage for stage in left if at_work(checkout, stage)), process.poll() is not None and "the end")

    while left:
        with started(checkout, command) as process:
            stage = until(f"none of {list(left)} was reached", lambda process=process: reached(process))
            assert stage in left, process.communicate()[0]
            point = left.pop(stage)
            time.sleep(point["after"])
            point["killed"] = stopped_by(process, checkout.root, point["victim"], stage)
            if not point["killed"]:  # the job ended sooner: any other moment is as good
                stopped_by(process, checkout.root, "everything", stage)
            until("what was killed is still there", lambda: not running(checkout.root))
            assert process.wait() != 0
        point["open"] = open_starts(checkout)
        if list((checkout.root / ".snakemake/locks").glob("*.lock")):
            refused(checkout.snakemake("results/tiny"), LOCKED)
            assert checkout.python("-m", "snakemake", "--unlock").returncode == 0
    done = checkout.snakemake("results/tiny")
    assert done.returncode == 0, done.stdout + done.stderr
    assert digests(checkout.results) == digests(finished.results)
    assert json.loads((checkout.results / "verification.json").read_text("utf-8"))["passed"]
    said = verified(checkout)
    assert said.count("orphaned_start") == len(open_starts(checkout))
    assert started_meanwhile(checkout) == []
    tidy(checkout.results)


def test_a_job_that_outlives_its_snakemake_is_never_run_twice_at_once(checkout, finished, refused):
    """Snakemake is killed, its job goes on: the next run says who is at work, starts nothing, and carries on later."""
    for name in ("samples", "timings"):
        (checkout.results / f"ruler/{name}.parquet").unlink()
    with started(checkout, checkout.command(SAMPLES)) as process:
        until("the job did not start", lambda: (found := holder_of(checkout.root, "tiny", "ruler", "")) and found.start)
        jobs = running(checkout.root, "workflow.jobs.ruler ")
        assert kill(jobs, signal.SIGSTOP) == 1  # so that it is still at work when the next one comes
        kill([process.pid])
        assert process.wait() == -signal.SIGKILL
        refused(checkout.snakemake(SAMPLES), LOCKED)
        assert checkout.python("-m", "snakemake", "--unlock").returncode == 0
        before = attempts(checkout)
        refused(checkout.snakemake(SAMPLES), rf"another attempt of tiny ruler is running \(process {jobs[0]} on ")
        assert attempts(checkout) == before
        kill(jobs, signal.SIGCONT)
        until("the job did not end", lambda: not running(checkout.root))
    assert open_starts(checkout) == []
    done = checkout.snakemake(SAMPLES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert digests(checkout.results) == digests(finished.results)
    assert started_meanwhile(checkout) == []
    assert "5 ok" in verified(checkout) or "6 ok" in verified(checkout)
