"""Documents under every arm: what is written of each, and arms that move a question where none is asked."""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ridgefill.evaluation.documents import DocumentRun, evaluate_document
from ridgefill.models.load import Loaded
from ridgefill.results import write_table
from ridgefill.selectors.context import Context
from ridgefill.selectors.controls import RandomRows

CASES = runpy.run_path(str(Path(__file__).with_name("arm_cases.py")))
TAIL, WINDOW, case_of = (CASES[name] for name in ("TAIL", "WINDOW", "case_of"))
METADATA = {"git_commit": "0", "config_sha256": "0", "ledger_entry": "local/1"}
TABLES = {
    "rows": "documents", "tokens": "document_tokens", "timings": "timings", "arms": "arm_runs", "measured": "measured",
}  # fmt: skip
TEXT = "The 3 Keepers sat down. Nobody saw them go, and 9 of 12 doors stayed shut. " * 3
PROMPT, SCORED, SEED = 120, 9, 77


@pytest.fixture(scope="module", params=["llama", "qwen3_5"])
def run(request, characters):
    """Every arm that makes sense there."""
    setup = case_of(request.param).setup
    loaded = Loaded(setup.loaded.adapter, characters, None)
    labels = {"experiment": "tiny", "model": request.param, "source": "unused"}
    return DocumentRun(loaded, setup.arms, setup.fitted, setup.geometry, TAIL, WINDOW, PROMPT, SCORED, labels)


@pytest.fixture(scope="module")
def scored(run):
    with torch.inference_mode():
        return evaluate_document(run, "d", "prose", TEXT, SEED)


def test_every_table_of_a_document_is_one_that_can_be_written(scored, run, tmp_path):
    """An arm that moves the question has nothing to move, and is left out of all of them."""
    arms = [arm.name for arm in run.arms if arm.order == "given"]
    assert len(arms) == len(run.arms) - 2
    for name, schema in TABLES.items():
        write_table(tmp_path / f"{name}.parquet", schema, getattr(scored, name), METADATA)
    for name in ("rows", "timings", "arms"):
        assert [row["arm"] for row in getattr(scored, name)] == arms
    amended = {arm.name for arm in run.arms if arm.rescale or arm.state_correction}
    assert {row["arm"] for row in scored.measured} == amended


def test_a_document_records_its_seed_and_the_rows_it_drew(scored, run):
    """And costs of the prompt alone, without the scored stretch."""
    records = {row["arm"]: row for row in scored.arms}
    assert {(row["seed"], row["item"], row["suite"]) for row in records.values()} == {(SEED, "d", "documents")}
    drawn = list(RandomRows(0.1).rows(Context((0,) * PROMPT, PROMPT - TAIL, seed=SEED)))
    assert records["ridgefill_random_rows"]["selected"] == drawn
    assert records["exact"]["macs"] == records["ridgefill"]["exact_macs"]
    for row in scored.rows:
        assert (row["macs"], row["tail"], row["exact_rows"]) == (
            records[row["arm"]]["macs"], records[row["arm"]]["tail"], len(records[row["arm"]]["selected"]),
        )  # fmt: skip


def test_an_arms_losses_do_not_depend_on_who_runs_beside_it(scored, run):
    """Each with the exact arm alone, from a pass that kept only what it needs."""
    together = {arm.name: [row["nll"] for row in scored.tokens if row["arm"] == arm.name] for arm in run.arms}
    exact = run.arms[0]
    for arm in run.arms[1:]:
        if arm.order == "given":
            alone = evaluate_document(replace(run, arms=[exact, arm]), "d", "prose", TEXT, SEED)
            found = [row["nll"] for row in alone.tokens if row["arm"] == arm.name]
            assert found == together[arm.name], arm.name
