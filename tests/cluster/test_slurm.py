"""The workflow on a real Slurm: every job through sbatch, what it asks for reaches it, and it ends as it should."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

# One Slurm and one finished run serve all; minutes, most of them start-up of one process a job.
pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.slow]
ON_GPU = {"capture", "fit", "shard", "ruler", "documents"}
SHARDS = 2
LONGEST_WAIT = 2400


def command(*targets, settings=()):
    """The profile as it is shipped, with its table of partitions; jobs asked about sooner, their logs kept."""
    table = ("--slurm-partition-config", "profiles/slurm/partitions.yaml")
    asked_sooner = ("--slurm-init-seconds-before-status-checks", "3")
    options = (
        "--profile",
        "profiles/slurm",
        *table,
        *asked_sooner,
        "--slurm-keep-successful-logs",
        "--max-threads",
        "1",
    )
    return ["-m", "snakemake", *options, *targets, "--config", "model_path=model", *settings]


def run(checkout, *arguments):
    """``python ARGUMENTS`` to its end, which is as late as a busy machine makes it."""
    process = checkout.start(*arguments)
    try:
        out, err = process.communicate(timeout=LONGEST_WAIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def rule_of(job):
    """The rule a Slurm job was for, as the executor's comment has it."""
    return job.get("Comment", "").removeprefix("rule_").split("_wildcards_")[0]


def since(slurm, number):
    """Jobs submitted after the first ``number``."""
    return slurm.jobs()[number:]


def statuses(checkout):
    """Runs of the ledger's branch with how they ended, in order."""
    (branch,) = json.loads(checkout.ledger("verify", "--json").stdout)["branches"]
    return [(run["run"], run["status"]) for run in branch["runs"]]


def until(said, happened):
    """Wait for something to happen."""
    end = time.monotonic() + LONGEST_WAIT
    while not happened():
        assert time.monotonic() < end, said
        time.sleep(0.3)


@pytest.fixture(scope="module")
def ran(slurm, fresh, tmp_path_factory):
    """The checkout after a complete run with retrieval and documents divided, and the jobs that Slurm had for it."""
    made = fresh.copy(tmp_path_factory.mktemp("slurm") / "checkout")
    before = len(slurm.jobs())
    done = run(made, *command("results/tiny", settings=(f"shards={SHARDS}",)))
    assert done.returncode == 0, done.stdout + done.stderr
    return made, since(slurm, before)


def test_every_job_of_the_experiment_is_slurms_and_the_report_verifies(ran, tidy):
    """From nothing to a verified report: a Slurm job for each rule that is not local, all completed, the ledger whole.

    Each job left the log of its step, in which srun started the rule.
    """
    checkout, jobs = ran
    assert {job["JobState"] for job in jobs} == {"COMPLETED"}
    rules = sorted(rule_of(job) for job in jobs)
    once = ["overlap", "capture", "fit", "ruler", "documents", "report", "verify"]
    assert rules == sorted([*once, *["text_source"] * 3, *["shard"] * (2 * SHARDS)])
    assert all(job["JobName"].startswith("ridgefill_") and job["Requeue"] == "0" for job in jobs)
    logs = {path.stem for path in (checkout.root / ".snakemake/slurm_logs").rglob("*.log")}
    assert {job["JobId"] for job in jobs} <= logs
    assert json.loads((checkout.results / "verification.json").read_text("utf-8"))["passed"]
    first, second, *side_by_side = statuses(checkout)
    assert [first, second] == [("capture", "ok"), ("fit", "ok")]
    assert sorted(side_by_side) == [("documents", "ok"), ("ruler", "ok")]
    tidy(checkout.root)


def test_what_a_rule_asks_for_reaches_its_job(slurm, ran):
    """GPUs, partition, memory and time: jobs with a model have one device each, the others none."""
    _, jobs = ran
    for job in jobs:
        with_gpu = rule_of(job) in ON_GPU
        assert job.get("TresPerJob") == ("gres:gpu:1" if with_gpu else None), job
        assert job["Partition"] == ("gpu" if with_gpu else "cpu"), job
        assert slurm.devices(job["JobId"]) <= {"0", "1"}
        assert len(slurm.devices(job["JobId"])) == with_gpu, job
    (capture,) = (job for job in jobs if rule_of(job) == "capture")
    assert (capture["MinMemoryNode"], capture["TimeLimit"]) == ("4000M", "04:00:00")


def test_a_job_that_fails_twice_ends_the_run_with_its_sentence(slurm, fresh, refused, tmp_path):
    """Weights that are no numbers: retried once, then one sentence, an empty queue, both attempts in the ledger.

    The model of GPU that is asked for reaches the job as well.
    """
    from safetensors.torch import load_file, save_file

    checkout = fresh.copy(tmp_path / "checkout")
    weights = load_file(checkout.root / "model/model.safetensors")
    weights["model.layers.3.mlp.down_proj.weight"][0, 0] = float("nan")
    save_file(weights, checkout.root / "model/model.safetensors", metadata={"format": "pt"})
    before = len(slurm.jobs())
    done = run(checkout, *command("results/tiny", "--set-resources", "capture:gpu_model=small"))
    refused(done, "not finite")
    jobs = since(slurm, before)
    captures = [job for job in jobs if rule_of(job) == "capture"]
    assert [job["JobState"] for job in captures] == ["FAILED", "FAILED"]
    assert {job["TresPerJob"] for job in captures} == {"gres:gpu:small:1"}
    assert {rule_of(job) for job in jobs} == {"text_source", "overlap", "capture"}
    assert slurm.active() == []
    assert statuses(checkout) == [("capture", "failed")] * 2
    assert not (checkout.results / "capture/moments.safetensors").exists()


def test_gpus_that_no_node_has_end_the_run_at_once(slurm, fresh, tmp_path):
    """Slurm refuses the job when it is sent, or fails it before it starts; nothing waits for such a node."""
    checkout = fresh.copy(tmp_path / "checkout")
    before = len(slurm.jobs())
    frequencies = "results/tiny/capture/frequencies.safetensors"
    done = run(checkout, *command(frequencies, "--set-resources", "frequencies:gpu=9", "--retries", "0"))
    said = done.stdout + done.stderr
    assert done.returncode != 0
    sent = [job for job in since(slurm, before) if rule_of(job) == "frequencies"]
    assert sent or "Requested node configuration is not available" in said, said
    assert all((job["JobState"], job["NodeList"]) == ("FAILED", "") for job in sent), sent
    assert slurm.active() == []
    assert not (checkout.root / frequencies).exists()


def test_a_run_that_was_killed_carries_on_after_unlocking(slurm, fresh, tmp_path):
    """kill -9 of Snakemake: its jobs finish, the folder stays locked, and unlocked the same command ends well."""
    checkout = fresh.copy(tmp_path / "checkout")
    count = len(slurm.jobs())
    wanted = command("results/tiny/overlap.json")
    process = checkout.start(*wanted, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until("no job ran", lambda: any(job["JobState"] == "RUNNING" for job in slurm.active()))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    until("the jobs did not end", lambda: not slurm.active())
    left = since(slurm, count)
    assert {(rule_of(job), job["JobState"]) for job in left} == {("text_source", "COMPLETED")}
    locked = run(checkout, *wanted)
    assert locked.returncode != 0
    assert "--unlock" in locked.stdout + locked.stderr
    assert run(checkout, "-m", "snakemake", "--unlock").returncode == 0
    done = run(checkout, *wanted)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (checkout.root / "results/tiny/overlap.json").is_file()
    assert {job["JobState"] for job in since(slurm, count)} == {"COMPLETED"}


def test_the_mini_cluster_is_gone_when_it_is_stopped(slurm):
    """A second Slurm beside this one: stopping it ends its job and its daemons and removes its folder."""
    module = sys.modules["cluster_mini_slurm"]
    second = module.started()
    second.run("sbatch", "--output=/dev/null", "--wrap", "sleep 600")
    until("the job did not start", lambda: [job["JobState"] for job in second.active()] == ["RUNNING"])
    assert slurm.active() == []
    second.stop()
    assert not second.folder.exists()
    assert all(daemon.poll() is not None for daemon in second.daemons)
    assert slurm.run("sinfo", "--noheader", "-o", "%T").split()
