"""Ctrl-C at every stage of a whole run: nothing half written, no attempt left open, and it carries on."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from contextlib import suppress

import pytest
from faults_book import attempts, open_starts, started_meanwhile, verified
from faults_compared import digests
from faults_processes import running, started, until

pytestmark = [pytest.mark.xdist_group("faults"), pytest.mark.slow]

SEED = int(os.environ.get("RIDGEFILL_FAULT_SEED", "11"))
STAGES = {
    "ridgefill.texts": 1.0, "workflow.jobs.overlap": 1.0, "workflow.jobs.capture": 0.4, "workflow.jobs.fit": 1.0,
    "workflow.jobs.ruler": 3.0, "workflow.jobs.documents": 1.0, "workflow.jobs.report": 4.0,
    "workflow.jobs.verify": 2.0,
}  # fmt: skip
"""Modules of the stages, and within how many seconds of their start they are interrupted."""


def begun(checkout, module):
    """Whether a stage is at work: those of the ledger once they have an open start, the others once they are there."""
    run = module.rsplit(".", 1)[1]
    return run in open_starts(checkout) if run in GATED else running(checkout.root, module)


GATED = ("capture", "fit", "ruler", "documents")


def test_a_run_stopped_by_ctrl_c_at_every_stage_ends_like_one_that_never_was(
    fresh, finished, tidy, record_property, tmp_path
):
    """As a terminal does it: SIGINT to Snakemake and all it started, at a random moment of each stage.

    Each time every process ends, the folder is unlocked, no temporary file is left, and every attempt has its result.
    A run that was over before the signal came has nothing to interrupt.
    """
    draw, checkout = random.Random(SEED), fresh.copy(tmp_path / "stopped")
    points = {module: draw.uniform(0, longest) for module, longest in STAGES.items()}
    record_property("points", json.dumps(points))
    sys.stdout.write(f"seed {SEED}: {points}\n")
    for module, after in points.items():
        with started(checkout, checkout.command("results/tiny")) as process:
            until(f"{module} never began", lambda module=module: begun(checkout, module) or process.poll() is not None)
            time.sleep(after)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            said, _ = process.communicate(timeout=120)
            # A stage may be over, and the whole run with it, before a busy machine has noticed that it began.
            assert process.returncode != 0 or (checkout.results / "verification.json").is_file(), (module, said)
            # On a busy machine a job may write its last words after Snakemake's, and leaving here kills what is left.
            until(f"{module} did not end", lambda: running(checkout.root) == [])
        assert open_starts(checkout) == [], (module, said)
        assert not list((checkout.root / ".snakemake/locks").glob("*")), module
        for folder in ("results", "texts", "data", "model"):
            tidy(checkout.root / folder)
    done = checkout.snakemake("results/tiny")
    assert done.returncode == 0, done.stdout + done.stderr
    assert digests(checkout.results) == digests(finished.results)
    assert started_meanwhile(checkout) == []
    assert sum(run is not None for run, _ in attempts(checkout)) > 4, "no attempt was ever interrupted"
    assert "orphaned_start" not in verified(checkout)
