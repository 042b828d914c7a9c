"""Every suite that can be divided, divided: the bytes of its files are those of one job, however items and arms fall.

A tiny model with random maps; the ledger's side of shards is in tests/end_to_end/test_shards.py.
"""

import importlib
import runpy
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from ridgefill.config import cost_geometry, experiment_arms, load_experiment
from ridgefill.errors import ConfigError
from ridgefill.evaluation import ruler
from ridgefill.evaluation.parts import Parts
from ridgefill.evaluation.runs import Setup
from ridgefill.models.llama import LlamaAdapter
from ridgefill.models.load import Loaded
from ridgefill.results import METADATA_KEYS
from ridgefill.texts import fetch, load_sources
from workflow.gate import SHARDED
from workflow.jobs.common import Job
from workflow.jobs.evaluate import Bench
from workflow.jobs.shards import Share, in_batches

TESTS = Path(__file__).parents[1]
MATERIAL = runpy.run_path(str(TESTS / "end_to_end" / "material.py"))
CASES = runpy.run_path(str(TESTS / "evaluation" / "arm_cases.py"))
DATA = TESTS / "suites" / "longbench" / "data"
LEAF = "0" * 64
ARMS = [
    "exact", "no_fill", "identity", "ridgefill", "ridgefill_rows", "ridgefill_random_rows",
    "no_fill_longer_tail", "identity_rows_question_first", "ridgefill_rows_question_first",
]  # fmt: skip
OWN = ["identity", "ridgefill_rows", "ridgefill_random_rows"]
SUITES = {
    "agreement": {"documents": 2, "lengths": [72, 96], "new_tokens": 6, "arms": OWN},
    "turns": {"lengths": [400, 416], "samples": 1, "new_tokens": 6, "arms": [*OWN, "identity_rows_question_first"]},
    "longbench_v1": {"folder": str(DATA / "v1"), "datasets": ["trec", "lcc"], "samples": 1, "budget": 120},
    "longbench_v2": {"file": str(DATA / "v2.json"), "samples": 2, "budget": 200, "arms": OWN},
}
MAIN = {"samples.parquet", "documents.parquet"}
"""The files whose rows are one for each prompt and arm."""
DECODED = {
    "prediction", "score", "generated_tokens", "first_prediction", "first_score", "first_tokens", "second_prediction",
    "second_score", "second_tokens", "second_prompt_tokens", "token", "copyable", "top1", "kl", "status", "reasoning",
    "reasoning_tokens", "at_cap", "answer_seed", "answer_prompt_tokens", "answer_filled_rows", "response",
    "response_tokens", "choice", "correct",
}  # fmt: skip
"""Columns of what an arm writes, and of what follows from it."""


class Registered(Job):
    """A job of a claim that is registered, whose attempts always begin."""

    @property
    def registration(self):
        return SimpleNamespace(leaf=LEAF)

    @contextmanager
    def attempt(self, run, inputs=()):
        yield SimpleNamespace(finish=lambda files, out, published: None)

    def metadata(self, attempt):
        return dict.fromkeys(METADATA_KEYS, "0")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The tiny experiment with every suite, its texts unpacked and its model written."""
    made = tmp_path_factory.mktemp("sharded")
    MATERIAL["write_texts"](made, made / "wheels")
    for source in load_sources(made / MATERIAL["SOURCES"]).values():
        fetch(source, made / "texts", made / "wheels" / f"{source.name}-1.0-py3-none-any.whl")
    MATERIAL["write_model"](made / "model")
    experiment = yaml.safe_load(MATERIAL["EXPERIMENT_YAML"])
    experiment |= {"arms": ARMS, "curve": {"splits": [4, 5], "arms": ["identity"]}}
    experiment["suites"]["ruler"] |= {"lengths": [400, 416], "samples": 2, "new_tokens": 6}
    experiment["suites"] |= SUITES
    # Written out in full: an experiment takes no aliases.
    MATERIAL["write"](made / MATERIAL["EXPERIMENT"], MATERIAL["plain_yaml"](experiment))
    # Room for what LongBench may write, of which the tests write little.
    MATERIAL["write"](made / MATERIAL["MODEL"], MATERIAL["MODEL_YAML"].replace("context: 1024", "context: 4096"))
    return made


@pytest.fixture(scope="module")
def bench(root):
    """The model with random maps for all arms."""
    experiment = load_experiment("tiny", root)
    model = AutoModelForCausalLM.from_pretrained(root / "model")
    adapter = LlamaAdapter(model).filling("exact")
    arms = experiment_arms(experiment, adapter.layers)
    loaded = Loaded(adapter, AutoTokenizer.from_pretrained(root / "model"), "")
    geometry = cost_geometry(Registered(root, "tiny", "local", {}, root, root, root, 1).model)
    labels = {"experiment": "tiny", "model": "tiny"}
    return Bench(loaded, arms, CASES["fitted_for"](adapter, "llama", arms), geometry, labels, LEAF)


@pytest.fixture
def run(root, bench, tmp_path, monkeypatch):
    """``run(suite, together, of)``: its tables by file name, from so many shards and the job that joins them."""
    monkeypatch.chdir(root)
    monkeypatch.setattr("workflow.jobs.evaluate.load_bench", lambda _: bench)
    monkeypatch.setattr("workflow.jobs.evaluate.fitted_inputs", lambda _: [])
    monkeypatch.setattr("workflow.jobs.evaluate.open_parts", lambda job, run, _: Parts(job.out / run / "parts", "f"))
    monkeypatch.setattr("workflow.jobs.shards.whole_run", lambda job, run, *_: job.attempt(run))
    monkeypatch.setattr("workflow.jobs.shards.shard_of", opened)
    monkeypatch.setattr("ridgefill.evaluation.longbench_v2.REASONING_TOKENS", 8)

    def work(suite, together=None, of=1):
        job = Registered(root, "tiny", "local", {}, tmp_path / f"{together}-{of}", root / "model", root / "texts", 1)
        vars(job)["written"] = load_experiment("tiny", root).model_copy(update={"arms_together": together})
        monkeypatch.setattr("workflow.jobs.shards.job_from", lambda _: job)
        module = importlib.import_module(f"workflow.jobs.{suite}")
        for number in reversed(range(1, of + 1)) if of > 1 else ():
            module.work(SimpleNamespace(open=False, shard=Share(number, of)))
        items = sorted(path.stem for path in (job.out / suite / "parts").glob("*"))
        if of > 1:
            monkeypatch.setattr(Parts, "put", refuse)
        module.work(SimpleNamespace(open=False, shard=None))
        monkeypatch.setattr(Parts, "put", PUT)
        assert not (job.out / suite / "parts").exists()
        return {path.name: path for path in sorted((job.out / suite).glob("*.parquet"))}, items

    return work


PUT = Parts.put


def refuse(*_):
    raise AssertionError("something was begun or made that should not have been")


@contextmanager
def opened(*_):
    yield SimpleNamespace(branch="local", seq=1)


def rows(files, name):
    return pq.read_table(files[name], partitioning=None).to_pylist()


@pytest.mark.parametrize("together", [None, 2])
@pytest.mark.parametrize("suite", SHARDED)
def test_files_do_not_depend_on_the_shards(suite, together, run):
    """Three shards in any order make all items, and the files then have the bytes of one job's; only timings differ,
    and they are of the same arms in the same order.
    """
    (alone, _), (shared, items) = run(suite, together), run(suite, together, 3)
    assert len(items) >= 2
    assert alone.keys() == shared.keys()
    for name in alone.keys() - {"timings.parquet"}:
        assert alone[name].read_bytes() == shared[name].read_bytes(), name
    if "timings.parquet" in alone:
        of = ("suite", "item", "arm", "split")
        one, other = ([[row[key] for key in of] for row in rows(at, "timings.parquet")] for at in (alone, shared))
        assert one == other


@pytest.mark.parametrize("suite", SHARDED)
def test_arms_that_run_a_few_at_a_time_are_treated_as_all_at_once(suite, run):
    """Two arms at a time: an item for each two, and the same rows of the same prompts are filled and picked, with the
    same filled region, seeds and costs. What is decoded beside other arms may differ in its last bits.
    """
    (whole, _), (parts, items) = run(suite), run(suite, 2, 2)
    arms = {(row["arm"], row["split"]) for name in MAIN & whole.keys() for row in rows(whole, name)}
    assert {item.rpartition("-arms")[2] for item in items} == {str(1 + place) for place in range(-(-len(arms) // 2))}
    for name in whole.keys() - {"timings.parquet"}:
        one, other = (
            sorted(repr([(key, row[key]) for key in row if key not in DECODED]) for row in rows(at, name))
            for at in (whole, parts)
        )
        assert one == other, name


def test_losses_of_documents_do_not_depend_on_which_arms_run_together(run):
    """An arm's late layers run by themselves, so every file but timings has the same bytes for any number at a time."""
    (whole, _), (parts, _) = run("documents"), run("documents", 2, 3)
    for name in whole.keys() - {"timings.parquet"}:
        assert whole[name].read_bytes() == parts[name].read_bytes(), name


def test_arms_of_another_batch_decide_what_is_filled(run, monkeypatch):
    """Each batch of two asks about both orders of a prompt, whichever its own arms read."""
    asked = []

    def recorded(needles, tokens, tail):
        asked.append(tokens)
        return region(needles, tokens, tail)

    region = ruler.filled_region
    monkeypatch.setattr(ruler, "filled_region", recorded)
    run("ruler", 2)
    batches, samples, orders = 5, 4, 2
    assert len(asked) == batches * samples * orders


def test_batches_of_arms_keep_their_order_and_lose_none(bench):
    """As many as asked for, the last one the rest; all at once by default."""
    setup = Setup(bench.loaded, bench.arms, bench.fitted, bench.geometry, 32, 16)
    for together, sizes in ((None, [10]), (1, [1] * 10), (4, [4, 4, 2]), (10, [10]), (99, [10])):
        batches = in_batches(setup, setup.arms, together)
        assert [len(one.arms) for one in batches] == sizes
        assert [arm for one in batches for arm in one.arms] == bench.arms


@pytest.mark.parametrize("suite", SUITES)
def test_an_experiment_without_the_suite_is_refused_before_a_run_begins(suite, run, root, monkeypatch):
    """Neither an attempt nor a shard of one is begun."""
    job = Registered(root, "tiny", "local", {}, root, root / "model", root / "texts", 1)
    written = load_experiment("tiny", root)
    vars(job)["written"] = written.model_copy(update={"suites": written.suites.model_copy(update={suite: None})})
    monkeypatch.setattr("workflow.jobs.shards.job_from", lambda _: job)
    monkeypatch.setattr("workflow.jobs.shards.whole_run", refuse)
    monkeypatch.setattr("workflow.jobs.shards.shard_of", refuse)
    module = importlib.import_module(f"workflow.jobs.{suite}")
    for shard in (None, Share(1, 2)):
        with pytest.raises(ConfigError, match=f"tiny has no suite {suite}"):
            module.work(SimpleNamespace(open=False, shard=shard))
