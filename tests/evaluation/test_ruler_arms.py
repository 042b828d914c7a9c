"""Retrieval samples under every arm: two orders of the prompt, one filled region, rows blind to the question, seeds."""

import runpy
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from ridgefill.arms import ArmSettings, arm_table
from ridgefill.cost import exact_macs
from ridgefill.errors import ConfigError
from ridgefill.evaluation import ruler
from ridgefill.evaluation.ruler import RulerRun, evaluate_samples, item_name
from ridgefill.evaluation.runs import Fitted, require_arms
from ridgefill.models.load import Loaded
from ridgefill.models.swiftkv import load_swiftkv
from ridgefill.models.wrap import adapter_for
from ridgefill.results import SCHEMAS, write_table
from ridgefill.selectors.context import Context
from ridgefill.selectors.controls import RandomRows
from ridgefill.suites.needles import Needle, RulerSample

CASES = runpy.run_path(str(Path(__file__).with_name("arm_cases.py")))
SWIFTKV = runpy.run_path(str(Path(__file__).parents[1] / "families" / "swiftkv_checkpoint.py"))
TAIL, WINDOW, case_of = (CASES[name] for name in ("TAIL", "WINDOW", "case_of"))
LABELS = {"experiment": "tiny", "model": "llama", "source": "ruler-style"}
METADATA = {"git_commit": "0", "config_sha256": "0", "ledger_entry": "local/1"}
NEEDLE, ANSWER = "Ann's code is 731.", " Code:"
TEXT = "The 3 Keepers sat. " * 4 + NEEDLE + " Nobody saw them go, and 9 of 12 doors stayed shut all night. " * 2
TABLES = {"rows": "ruler_samples", "timings": "timings", "arms": "arm_runs", "measured": "measured"}


def sample(question="Ann's code?", text=TEXT, index=0):
    """A sample whose question comes last, after a line break."""
    place = text.index(NEEDLE)
    return RulerSample(
        "niah_single_1", 400, index, f"{text}\n{question}", ANSWER, ("731",),
        (Needle(NEEDLE, True, place, place + len(NEEDLE)),), 6, (len(text) + 1, len(text) + 1 + len(question)),
    )  # fmt: skip


def seed_for(label):
    """Any 63 bits that depend on the label."""
    return int.from_bytes(sha256(label.encode()).digest()[:8], "big") >> 1


@pytest.fixture(scope="module")
def run(characters):
    """Every arm that makes sense on a tiny Llama, a token for each character."""
    setup = case_of("llama").setup
    loaded = Loaded(setup.loaded.adapter, characters, None)
    return RulerRun(loaded, setup.arms, setup.fitted, setup.geometry, TAIL, WINDOW, seed_for, LABELS)


@pytest.fixture(scope="module")
def evaluated(run):
    """Two samples under all arms."""
    with torch.inference_mode():
        return evaluate_samples(run, [sample(), sample("Bob's mark!", index=1)])


def by_arm(rows):
    return {row["arm"]: row for row in rows}


def test_every_table_of_a_sample_is_one_that_can_be_written(evaluated, run, tmp_path):
    """One row per arm, in the order of the experiment; timings, arms and measurements beside them."""
    for name, schema in TABLES.items():
        rows = [row for one in evaluated for row in getattr(one, name)]
        write_table(tmp_path / f"{name}.parquet", schema, rows, METADATA)
        assert pq.read_table(tmp_path / f"{name}.parquet").schema.names == SCHEMAS[schema].names
        if name != "measured":
            assert [row["arm"] for row in rows] == [arm.name for arm in run.arms] * 2
    scaled = {arm.name for arm in run.arms if arm.rescale}
    assert {row["arm"] for row in evaluated[0].measured} == scaled >= {"scale_keys_tail", "both_scales", "probe_scaled"}


def test_arms_that_move_the_question_read_another_prompt(evaluated, run):
    """Theirs has its own hash and length, which all of them share; so do all others."""
    rows, records = (by_arm(table) for table in (evaluated[0].rows, evaluated[0].arms))
    moved = {arm.name for arm in run.arms if arm.order == "question_first"}
    assert moved == {"identity_rows_question_first", "ridgefill_rows_question_first"}
    given, first = (
        {(row["prompt_sha256"], row["prompt_tokens"]) for row in rows.values() if (row["arm"] in moved) == side}
        for side in (False, True)
    )
    turn = sample().question_prompt
    expected = turn + ANSWER, f"Ann's code?\n{TEXT.rstrip()}" + ANSWER
    assert [given, first] == [{(sha256(text.encode()).hexdigest(), len(text))} for text in expected]
    for row in rows.values():
        order = "question_first" if row["arm"] in moved else "given"
        full = exact_macs(run.geometry, row["prompt_tokens"])
        assert records[row["arm"]]["prompt_order"] == order
        assert row["exact_macs"] == records[row["arm"]]["exact_macs"] == full
        assert row["macs"] == records[row["arm"]]["macs"]


def test_the_filled_region_is_one_for_all_arms(run):
    """A needle that a moved question pushes into the tail is in nobody's filled region, also where the arms that move
    it run elsewhere; with given orders it is.
    """
    near = TEXT[: TEXT.index(NEEDLE)] + NEEDLE + " so it was, yes."
    given = [arm for arm in run.arms if arm.order == "given"]
    moved = [arm for arm in run.arms if arm.order != "given"]
    for arms, orders, inside in (
        (run.arms, (), False), (given, ("question_first",), False), (moved, (), False), (given, ("given",), True),
    ):  # fmt: skip
        (one,) = evaluate_samples(replace(run, arms=arms, orders=orders), [sample(text=near)])
        assert {row["in_filled_region"] for row in one.rows} == {inside}
        assert {row["in_filled_region_queried"] for row in one.rows} == {inside}


def test_rows_blind_to_the_question_never_change_with_it(evaluated, run):
    """Nor do those that only read the prefix; rows that the prompt's end picks do, also when it comes first."""
    first, second = (by_arm(one.arms) for one in evaluated)
    changed = {name for name in first if first[name]["selected"] != second[name]["selected"]}
    blind = {arm.name for arm in run.arms if "question" in arm.needs and arm.matched is None}
    assert blind >= {"identity_question_blind_rows", "ridgefill_question_blind_rows", "blind_later"}
    assert not changed & (blind | {"ridgefill_digits", "ridgefill_special", "ridgefill_protected", "last"})
    assert changed >= {"identity_rows", "ridgefill_rows", "ridgefill_rows_question_first"}
    assert all(first[name]["selected"] for name in blind)


def test_the_seed_of_a_sample_is_written_and_draws_its_rows(evaluated):
    """Random rows can be drawn again from what the record holds."""
    seen = set()
    for place, one in enumerate(evaluated):
        records, rows = by_arm(one.arms), by_arm(one.rows)
        seed = seed_for(f"rows/ruler/{item_name(sample(index=place))}")
        assert {row["seed"] for row in records.values()} == {seed}
        tokens = rows["ridgefill_random_rows"]["prompt_tokens"]
        drawn = list(RandomRows(0.1).rows(Context((0,) * tokens, tokens - TAIL, seed=seed)))
        assert records["ridgefill_random_rows"]["selected"] == records["identity_random_rows"]["selected"] == drawn
        assert rows["ridgefill_random_rows"]["exact_rows"] == len(drawn) == round(tokens / 10)
        seen.add(seed)
    assert len(seen) == 2


def test_records_say_what_filled_and_what_was_matched(evaluated, run):
    """Parts of the cost among them, none above the whole."""
    for row in evaluated[0].arms:
        arm = next(arm for arm in run.arms if arm.name == row["arm"])
        assert (row["fill"], row["split"], row["suite"]) == (arm.fill, arm.split, "ruler")
        assert row["matched_to"] == (arm.matched.name if arm.matched else None)
        assert (row["target_macs"] is None) == (arm.matched is None)
        assert row["selection_macs"] + row["correction_macs"] < row["macs"]
        tokens = by_arm(evaluated[0].rows)[arm.name]["prompt_tokens"]
        hidden = tokens - row["tail"] if arm.fill == "none" else 0
        assert row["filled_rows"] + len(row["selected"]) + row["tail"] + hidden == tokens


@pytest.mark.parametrize("name", ["identity_rows", "no_fill_longer_tail", "kva", "ridgefill_rows_question_first"])
def test_an_answer_does_not_depend_on_who_is_decoded_beside_it(evaluated, run, name):
    """Arms of both samples share a batch; each alone gives the same tokens, whatever order its prompt has."""
    arms = [arm for arm in run.arms if arm.name in ("exact", name)]
    for place, question in enumerate(("Ann's code?", "Bob's mark!")):
        (alone,) = evaluate_samples(replace(run, arms=arms), [sample(question, index=place)])
        found, together = by_arm(alone.rows)[name], by_arm(evaluated[place].rows)[name]
        same = ("prediction", "generated_tokens", "score", "macs", "tail", "exact_rows")
        assert {key: found[key] for key in same} == {key: together[key] for key in same}


def test_a_question_longer_than_the_tail_is_refused_to_blind_arms(run):
    """They would see it; the sentence says where it begins."""
    arms = [arm for arm in run.arms if arm.name in ("exact", "ridgefill_question_blind_rows")]
    with pytest.raises(ConfigError, match=r"the question begins at row \d+, in the prefix of"):
        evaluate_samples(replace(run, arms=arms), [sample("What may the code of our dear Ann be?")])


@pytest.fixture(scope="module")
def swiftkv(characters, tmp_path_factory):
    """The arms of a SwiftKV checkpoint, loaded as jobs load it."""
    folder = SWIFTKV["write"](tmp_path_factory.mktemp("swiftkv") / "model", SWIFTKV["random_weights"](1))
    adapter = adapter_for(load_swiftkv(folder, torch.float32)).filling("exact")
    table = arm_table(ArmSettings(SWIFTKV["LAYERS"], SWIFTKV["SPLIT"], TAIL, window=WINDOW))
    arms = [table[name] for name in ("exact", "swiftkv_released", "no_fill", "swiftkv_tail")]
    geometry = replace(case_of("llama").setup.geometry, layers=SWIFTKV["LAYERS"], each=())
    run = RulerRun(Loaded(adapter, characters, None), arms, Fitted(), geometry, TAIL, WINDOW, seed_for, LABELS)
    require_arms(run)
    return run


def test_arms_are_decoded_by_the_late_layers_they_run(swiftkv, monkeypatch):
    """Two batches: SwiftKV's own rule for the released arm of all samples, the original layers for all others."""
    batches = []

    def recorded(adapter, caches, *given, **named):
        batches.append((adapter.exact_rows, len(caches)))
        return decode(adapter, caches, *given, **named)

    decode = ruler.decode_greedy
    monkeypatch.setattr(ruler, "decode_greedy", recorded)
    samples = [sample(), sample("Bob's mark!", index=1), sample("A dog's day?", index=2)]
    done = evaluate_samples(swiftkv, samples)
    assert batches == [("original", 9), ("swiftkv", 3)]
    for one, result in zip(samples, done, strict=True):
        rows = by_arm(result.rows)
        ids = torch.tensor([swiftkv.loaded.tokenizer(one.question_prompt + ANSWER)["input_ids"]])
        own = swiftkv.loaded.adapter.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, do_sample=False, pad_token_id=0, eos_token_id=94
        )
        said = swiftkv.loaded.tokenizer.decode(own[0, ids.shape[1] :].tolist(), skip_special_tokens=True)
        assert rows["swiftkv_released"]["prediction"] == said
        assert rows["swiftkv_released"]["tail"] == 1
        assert len({row["prediction"] for row in rows.values()}) > 1
        assert [row["arm"] for row in result.rows] == [arm.name for arm in swiftkv.arms]
