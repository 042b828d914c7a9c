"""The LongBench jobs around their evaluation: items of the user's files, hashes kept, finished items not done again."""

import hashlib
import json
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from ridgefill.arms import Arm
from ridgefill.config import load_experiment, load_model
from ridgefill.evaluation.parts import Parts
from ridgefill.results import METADATA_KEYS, SCHEMAS, metadata_of, read_table
from ridgefill.settings import Suites
from workflow.jobs import longbench_v1, longbench_v2

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "suites" / "longbench" / "data"
ZERO = {"str": "", "bool": False, "list": []}
WHOLE = SimpleNamespace(open=False, shard=None)
ARMS = [Arm("exact", "exact"), Arm("no_fill", "none", 19, 8), Arm("identity", "identity", 19, 8)]


class FakeJob:
    """A registered job whose attempt always begins."""

    def __init__(self, out, suites):
        self.root, self.out, self.name = ROOT, out, "smollm2_arms"
        base = load_experiment("smollm2_arms", ROOT)
        self.model = load_model(base.model, ROOT)
        self.experiment = base.model_copy(update={"suites": suites})
        self.inputs, self.finished = [], []

    @contextmanager
    def attempt(self, run, inputs):
        self.run, self.inputs = run, inputs
        yield SimpleNamespace(finish=lambda files, out, published: self.finished.append((files, published)))

    def metadata(self, _):
        return dict.fromkeys(METADATA_KEYS, "0")


@pytest.fixture
def job(monkeypatch, tmp_path):
    """``job(longbench_v1={...})``: the fake job, with nothing loaded and nothing fitted."""

    def make(**suite):
        suites = Suites.model_validate({**load_experiment("smollm2_arms", ROOT).suites.model_dump(), **suite})
        made = FakeJob(tmp_path, suites)
        bench = SimpleNamespace(
            loaded=None, arms=ARMS, fitted=None, geometry=None, seed_for=len, labels={"experiment": "e", "model": "m"}
        )
        monkeypatch.setattr("workflow.jobs.shards.job_from", lambda _: made)
        monkeypatch.setattr("workflow.jobs.shards.whole_run", lambda job, run, inputs, _: job.attempt(run, inputs))
        monkeypatch.setattr("workflow.jobs.evaluate.load_bench", lambda _: bench)
        monkeypatch.setattr("workflow.jobs.evaluate.fitted_inputs", lambda _: [tmp_path / "maps"])
        monkeypatch.setattr(
            "workflow.jobs.evaluate.open_parts", lambda job, run, _: Parts(job.out / run / "parts", "f")
        )
        monkeypatch.setattr("ridgefill.evaluation.runs.require_arms", lambda _: None)
        return made

    return make


def row(name, run, **known):
    """A row of the schema for one item, by which arms and labels can be told."""
    zeros = {field.name: ZERO.get(str(field.type).split("<")[0].replace("string", "str"), 0) for field in SCHEMAS[name]}
    return [{**zeros, **run.labels, "arm": arm.name, "split": arm.split, **known} for arm in run.given]


def test_v1_keeps_items_files_and_the_exact_arm(job, monkeypatch):
    """The first sample of each dataset, the named arm beside exact, SHA-256 of what was read, one file."""
    suite = {"folder": str(DATA / "v1"), "datasets": ["trec", "lcc"], "samples": 1, "budget": 500, "arms": ["identity"]}
    monkeypatch.setattr(
        "ridgefill.evaluation.longbench.evaluate_v1",
        lambda run, item, templates: row("longbench_v1_samples", run, item=item.id, dataset=item.dataset),
    )
    made = job(longbench_v1=suite)
    assert longbench_v1.work(WHOLE) == "longbench_v1: 2 items under 2 arms"
    table = read_table(made.out / "longbench_v1/samples.parquet", "longbench_v1_samples")
    rows = table.to_pylist()
    assert [(one["dataset"], one["arm"]) for one in rows] == [
        ("trec", "exact"), ("trec", "identity"), ("lcc", "exact"), ("lcc", "identity"),
    ]  # fmt: skip
    assert {one["source"] for one in rows} == {"longbench-style"}
    hashes = json.loads(metadata_of(table)["longbench_v1_files"])
    assert hashes == {
        name: hashlib.sha256((DATA / "v1" / f"{name}.jsonl").read_bytes()).hexdigest() for name in ("trec", "lcc")
    }
    assert (made.run, made.finished) == ("longbench_v1", [(["longbench_v1/samples.parquet"],) * 2])
    assert made.inputs[1:] == [DATA / "v1" / "trec.jsonl", DATA / "v1" / "lcc.jsonl"]


def test_v2_carries_on_after_an_interruption(job, monkeypatch):
    """The third item fails once: the next run computes it and the rest, and no finished item again."""
    asked = []

    def evaluated(run, item, templates):
        asked.append(item.id)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return row("longbench_v2_samples", run, item=item.id)

    monkeypatch.setattr("ridgefill.evaluation.longbench_v2.evaluate_v2", evaluated)
    made = job(longbench_v2={"file": str(DATA / "v2.json"), "samples": 4, "budget": 500})
    with pytest.raises(KeyboardInterrupt):
        longbench_v2.work(WHOLE)
    assert not (made.out / "longbench_v2/samples.parquet").exists()
    assert longbench_v2.work(WHOLE) == "longbench_v2: 4 items under 3 arms"
    assert asked == [f"own-{number}" for number in (0, 1, 2, 2, 3)]
    rows = read_table(made.out / "longbench_v2/samples.parquet", "longbench_v2_samples").to_pylist()
    assert [one["item"] for one in rows] == [f"own-{number}" for number in range(4) for _ in ARMS]
    assert not (made.out / "longbench_v2/parts").exists()
