"""A suite divided over several jobs: the same bytes as from one, under one attempt of the ledger that outlives them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ledger.lease import lease

# A checkout of their own, so that they can run beside the other end-to-end tests.
# A second complete run of the tiny experiment and more; tests/evaluation/test_sharded_suites.py needs no ledger.
pytestmark = [pytest.mark.xdist_group("end_to_end_shards"), pytest.mark.slow]
DATA = Path(__file__).parents[1] / "suites/longbench/data/v1"
SUITES = {"ruler": 4, "documents": 2, "agreement": 2, "turns": 3, "longbench_v1": 2}
"""How many items each has. Two samples of each length of retrieval are decoded as one batch."""
TIMED = ("ruler", "documents")
MORE = f"""\
  agreement: {{documents: 2, lengths: [72, 96], new_tokens: 8, arms: [identity, ridgefill_rows]}}
  turns: {{lengths: [400], samples: 3, new_tokens: 8, arms: [identity, ridgefill_rows]}}
  longbench_v1: {{folder: {DATA}, datasets: [trec, lcc], samples: 1, budget: 120, arms: [identity]}}
"""
LENGTHS = ("lengths: [400, 416, 432, 448, 464, 480, 496, 512]", "lengths: [400, 432, 464, 512]")


@pytest.fixture(scope="module")
def fitted(fresh, material, tmp_path_factory):
    """The checkout with texts and fitted maps, and no suite run yet."""
    made = fresh.copy(tmp_path_factory.mktemp("shards") / "fitted")
    made.edit("workflow/config/experiments/tiny.yaml", *LENGTHS)
    made.edit("workflow/config/experiments/tiny.yaml", "samples: 1", "samples: 2")
    made.edit("workflow/config/experiments/tiny.yaml", "statistics:", f"{MORE}statistics:")
    runs = [
        f"  - {{id: {run}, configs: [{material.EXPERIMENT}, {material.MODEL}]}}\n" for run in SUITES if run not in TIMED
    ]
    made.edit(material.CLAIM, "predictions:", "".join([*runs, "predictions:"]))
    made.register()
    done = made.snakemake("results/tiny/maps/SHA256SUMS")
    assert done.returncode == 0, done.stdout + done.stderr
    return made


@pytest.fixture
def ready(fitted, tmp_path):
    """A copy of it."""
    return fitted.copy(tmp_path / "ready")


@pytest.fixture(scope="module")
def alone(fitted, tmp_path_factory, job):
    """The checkout after one job a suite."""
    made = fitted.copy(tmp_path_factory.mktemp("alone") / "checkout")
    for suite in SUITES:
        ended(job(made, suite))
    return made


def ended(done):
    assert done.returncode == 0, done.stdout + done.stderr


def bytes_of(checkout):
    """Every table of the suites but timings, which are measured, by path."""
    found = checkout.hashes(*(f"results/tiny/{suite}" for suite in SUITES))
    return {path: digest for path, digest in found.items() if "timings" not in path}


def timed(checkout, suite):
    """What timings are of."""
    table = pq.read_table(checkout.results / suite / "timings.parquet")
    return table.select(["suite", "item", "arm", "split"])


def parts(checkout, suite="ruler"):
    return {path.name: path.read_bytes() for path in (checkout.results / suite / "parts").glob("*.json")}


def results_of(checkout, run):
    """Status and message of every attempt of a run, in order; None for one without a result."""
    bodies = [json.loads(path.read_text()) for path in sorted((checkout.root / "data/ledger/local/bodies").glob("*"))]
    starts = json.loads(checkout.ledger("verify", "--json").stdout)["branches"][0]["runs"]
    said = {body["start"]["seq"]: body["message"] for body in bodies if "start" in body}
    return [(one["status"], said.get(one["start"])) for one in starts if one["run"] == run]


def same_as_alone(checkout, alone):
    assert len(bytes_of(alone)) == 11
    assert bytes_of(checkout) == bytes_of(alone)
    for suite in TIMED:
        assert timed(checkout, suite).equals(timed(alone, suite))
    assert checkout.entries() == alone.entries()


def test_tables_do_not_depend_on_the_shards(ready, alone, job, tidy):
    """Every Parquet file has the bytes that one job writes, metadata and ledger entry included; shares cover all items,
    one of them is empty, and nothing of them is left. What was stored under another fingerprint is not used.
    """
    for suite, count in SUITES.items():
        ended(job(ready, suite, "--open"))
        for number in (3, 1, 2):
            ended(job(ready, suite, "--shard", f"{number}/3"))
        markers = sorted((ready.results / suite / "shards").glob("*-of-*.json"))
        items = [item for path in markers for item in json.loads(path.read_text())["items"]]
        assert sorted(f"{item}.json" for item in items) == sorted(parts(ready, suite))
        assert len(set(items)) == len(items) == count
        foreign = ready.results / suite / "parts" / f"{items[0]}.json"
        foreign.write_text(json.dumps({"fingerprint": "another", "payload": {}}))
        ended(job(ready, suite))
    same_as_alone(ready, alone)
    tidy(ready.root)


def test_a_shard_works_only_under_an_open_attempt(ready, job, refused):
    """Without one, with one that has its result, and with one for other weights a shard makes nothing."""
    refused(job(ready, "ruler", "--shard", "1/2"), "works under an open attempt", "attempt.json names none")
    ended(job(ready, "ruler", "--open"))
    weights = ready.root / "model/model.safetensors"
    original = weights.stat()
    weights.write_bytes(weights.read_bytes())
    refused(job(ready, "ruler", "--shard", "1/2"), "was opened for other maps, settings, code, model files")
    os.utime(weights, ns=(original.st_atime_ns, original.st_mtime_ns))
    opened = json.loads((ready.results / "ruler/shards/attempt.json").read_text())
    ended(ready.ledger("result", str(opened["seq"]), "--failed", "stopped by hand"))
    refused(job(ready, "ruler", "--shard", "1/2"), rf"start #{opened['seq']} of branch local.*not open any more")
    assert not (ready.results / "ruler/shards/attempt.json").exists()
    assert parts(ready) == {}


def test_a_shard_of_an_unregistered_claim_is_refused(ready, job, refused):
    """An edit after the attempt was opened stops its shards as it stops every job."""
    ended(job(ready, "ruler", "--open"))
    ready.edit("workflow/config/experiments/tiny.yaml", "samples: 2", "samples: 3")
    refused(job(ready, "ruler", "--shard", "1/2"), "tiny.yaml changed", "register")
    assert parts(ready) == {}


def test_shards_run_side_by_side_and_none_twice(ready, job, refused):
    """While one is at work another may be, but neither the same one, nor the whole suite, nor another opening."""
    ended(job(ready, "ruler", "--open"))
    with lease(ready.root, "tiny", "ruler", "shard 2"):
        refused(job(ready, "ruler", "--shard", "2/3"), "another attempt of tiny ruler shard 2 is running")
        refused(job(ready, "ruler"), "shard 2 of tiny ruler is running")
        refused(job(ready, "ruler", "--open"), "shard 2 of tiny ruler is running")
        ended(job(ready, "ruler", "--shard", "1/3"))
    with lease(ready.root, "tiny", "ruler", ""):
        refused(job(ready, "ruler", "--shard", "2/3"), "an attempt of tiny ruler is running")
    assert results_of(ready, "ruler")[-1][0] not in ("ok", "failed")


def test_a_shard_carries_on_and_one_job_may_finish_what_shards_began(ready, alone, job):
    """A shard that is made again keeps its finished items byte for byte; the same attempt is closed by a run that is
    not divided any more, which makes the items that no shard made.
    """
    ended(job(ready, "ruler", "--open"))
    ended(job(ready, "ruler", "--shard", "1/2"))
    before = parts(ready)
    kept, lost = sorted(before)
    (ready.results / "ruler/parts" / lost).unlink()
    ended(job(ready, "ruler", "--shard", "1/2"))
    assert parts(ready)[kept] == before[kept]
    assert parts(ready).keys() == before.keys()
    for suite in SUITES:
        ended(job(ready, suite))
    same_as_alone(ready, alone)
    assert results_of(ready, "ruler") == [("ok", "")]


def test_a_refusal_in_a_shard_closes_the_attempt_as_failed(ready, job, refused, tidy):
    """The ledger says which shard it was and why; opening another leaves it as it is, and closes one left open."""
    from safetensors.torch import load_file, save_file

    weights = load_file(ready.root / "model/model.safetensors")
    weights["model.layers.3.mlp.down_proj.weight"][0, 0] = float("nan")
    save_file(weights, ready.root / "model/model.safetensors", metadata={"format": "pt"})
    # They would say that the maps were fitted on other weights.
    (ready.results / "capture/moments.safetensors").unlink()
    ended(job(ready, "ruler", "--open"))
    refused(job(ready, "ruler", "--shard", "1/2"), "values that are not finite")
    ((status, message),) = results_of(ready, "ruler")
    assert status == "failed"
    assert re.match("shard 1: NumericsError: .*not finite", message)
    assert not (ready.results / "ruler/shards/attempt.json").exists()
    assert parts(ready) == {}
    for _ in range(2):
        ended(job(ready, "ruler", "--open"))
    assert [status for status, _ in results_of(ready, "ruler")[:2]] == ["failed", "failed"]
    assert results_of(ready, "ruler")[1][1].startswith("given up")
    tidy(ready.root)


def counted(done):
    """How many jobs of each rule a dry run plans."""
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (done.stdout + done.stderr).splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("Job stats")) + 3
    return {line.split()[0]: int(line.split()[1]) for line in lines[first : lines.index("", first)]}


def test_the_plan_has_as_many_shards_as_were_asked_for(ready, plan, refused):
    """Three for each suite and one opening of each attempt; by default neither; no other words for a number."""
    one = counted(plan(ready, "-n", "results/tiny"))
    three = counted(plan(ready, "-n", "results/tiny", settings=["shards=3"]))
    assert not {"shard", "open_attempt"} & one.keys()
    assert {rule: count for rule, count in three.items() if one.get(rule) != count and rule != "total"} == {
        "shard": 3 * len(SUITES),
        "open_attempt": len(SUITES),
    }
    for text in ("0", "many", "1001"):
        refused(plan(ready, "-n", "results/tiny", settings=[f"shards={text}"]), f"shards={text}, expected")


def test_the_workflow_runs_shards_and_makes_a_lost_one_again(ready, alone, job, plan, tidy):
    """From fitted maps to the same bytes as one job's; nothing is left to do, and no trace of the shards is left."""
    settings, shard = ["shards=3"], "results/tiny/ruler/shards/2-of-3.json"
    # As an interruption leaves it: the attempt is open, and what a shard finished is kept.
    ended(ready.snakemake(shard, "--notemp", settings=settings))
    (ready.root / shard).unlink()
    kept = parts(ready)
    assert len(kept) == 1
    ended(ready.snakemake("results/tiny/ruler/samples.parquet", settings=settings, cores=2))
    assert not (ready.results / "ruler/shards").exists()
    assert not (ready.results / "ruler/parts").exists()
    for suite in list(SUITES)[1:]:
        ended(job(ready, suite))
    same_as_alone(ready, alone)
    again = plan(ready, "-n", "results/tiny/ruler/samples.parquet", settings=settings)
    assert "Nothing to be done" in again.stdout + again.stderr
    tidy(ready.root)
