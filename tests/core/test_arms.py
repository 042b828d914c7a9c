"""The table of arms, and what no arm can be."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from ridgefill import config
from ridgefill.arms import ARM_NAMES, Arm, ArmSettings, arm_table, make_arm
from ridgefill.errors import ConfigError
from ridgefill.fitted_names import needs_frequencies
from ridgefill.map_options import PLAIN, RidgeOptions
from ridgefill.selectors.attention import AttentionRows
from ridgefill.selectors.controls import RandomRows
from ridgefill.selectors.probed import ProbedRows
from ridgefill.selectors.protected import ProtectedTokens
from ridgefill.selectors.question import QuestionBlindRows
from ridgefill.tables.folder import ARM_LABELS, arm_order

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/add-an-arm.md").read_text(encoding="utf-8")
SETTINGS = ArmSettings(layers=30, split=19, tail=128, rows_share=0.2, window=48, split_layer="mapped")
TABLE = arm_table(SETTINGS)
OLD = sorted((ROOT / "data/results").glob("*/experiment.json"))


def test_every_arm_of_the_table_is_another():
    """No two differ in their name alone, and the experiment's settings reach each of them."""
    assert tuple(TABLE) == ARM_NAMES
    unnamed = [replace(arm, name="", order="given") for arm in TABLE.values()]
    moved = [name for name, arm in TABLE.items() if arm.order == "question_first"]
    assert len(set(unnamed)) == len(unnamed) - len(moved)
    for name, arm in TABLE.items():
        assert (arm.name, arm) == (name, make_arm(name, **vars(SETTINGS)))
        assert arm.split == (None if name == "exact" else math.ceil(2 * 30 / 3) if name == "pop_native" else 19)
        assert arm.tail == {"exact": 0, "pop_native": 1, "swiftkv_released": 1}.get(name, 128)


@pytest.mark.parametrize("fill", ["identity", "ridgefill"])
def test_each_fill_has_its_controls(fill):
    """Chosen rows, as many random, blind or later ones, and a question in front, each one step from the plain arm."""
    plain = TABLE[fill]
    assert (plain.split_layer, plain.rows, plain.longer, plain.order) == ("mapped", None, 0.0, "given")
    steps = {
        "rows": {"rows": AttentionRows(0.2, 48)},
        "random_rows": {"rows": RandomRows(0.2)},
        "question_blind_rows": {"rows": QuestionBlindRows(0.2, 48)},
        "longer_tail": {"longer": 0.2},
        "rows_question_first": {"rows": AttentionRows(0.2, 48), "order": "question_first"},
    }
    for end, step in steps.items():
        assert TABLE[f"{fill}_{end}"] == replace(plain, name=f"{fill}_{end}", **step)


def test_names_say_what_is_rescaled_corrected_and_spliced():
    """And what a control draws as many rows as, or is matched to."""
    for name, arm in TABLE.items():
        parts = name.removeprefix("splice_exact_").split("_") if name.startswith("splice") else []
        assert arm.splice == (("keys", "values", "states") if parts == ["all"] else tuple(parts))
        scaled = {"scale_keys_tail": ("key",), "scale_values_tail": ("value",)}
        assert arm.rescale == scaled.get(name, ())
        assert arm.state_correction == (name == "ridgefill_state_correction")
        assert arm.exact_rows == ("swiftkv" if name == "swiftkv_released" else "original")
        assert arm.maps == PLAIN
    assert TABLE["ridgefill_probe_random"].rows.like == TABLE["ridgefill_probe"].rows
    assert TABLE["no_fill_longer_tail"].matched == TABLE["ridgefill"]


def test_every_arm_has_a_printed_name_of_its_own_and_a_place_on_the_page():
    """An arm added to the table is added to both."""
    assert set(ARM_LABELS) == set(ARM_NAMES)
    assert len(set(ARM_LABELS.values())) == len(ARM_LABELS)
    listed = PAGE.split("## The table")[1].split("## Refused")[0]
    assert [name for name in ARM_NAMES if f"`{name}`" not in listed] == []
    assert len({arm_order(name) for name in ARM_NAMES}) == len(ARM_NAMES)


BASE = Arm("arm", "ridge", split=5, tail=20)
IMPOSSIBLE = {
    "unknown fill": ({"fill": "mean"}, "has fill 'mean'; expected one of exact, none, identity, ridge, kva, swiftkv"),
    "no fill with rows": ({"fill": "none", "rows": AttentionRows()}, "cannot have exact rows beside the tail"),
    "no fill with a splice": ({"fill": "none", "splice": ("keys",)}, "cannot have corrections or splices"),
    "no fill with a rescale": ({"fill": "none", "rescale": ("key",)}, "cannot have corrections or splices"),
    "exact with a split": ({"fill": "exact"}, "cannot have the split 5; take another fill than exact"),
    "a fill without a split": ({"split": None}, "has no split; expected the first layer to fill"),
    "kva rescaled": ({"fill": "kva", "rescale": ("value",)}, "predicts no layer inputs"),
    "swiftkv corrected": ({"fill": "swiftkv", "state_correction": True}, "predicts no layer inputs"),
    "maps unread": ({"fill": "identity", "maps": RidgeOptions(rank=3)}, "has the fill identity, which reads no maps"),
    "blind and asked first": (
        {"rows": QuestionBlindRows(), "order": "question_first"},
        "moves the question in front of the prompt",
    ),
    "matched to a probe": ({"matched": replace(BASE, rows=ProbedRows())}, "cannot be matched through a probe"),
    "a matched probe": ({"rows": ProbedRows(), "matched": BASE}, "cannot be matched through a probe"),
    "a matched control of a probe": (
        {"rows": RandomRows(like=ProbedRows()), "matched": BASE},
        "cannot be matched through a probe",
    ),
    "matched and longer": ({"longer": 0.1, "matched": BASE}, "expected one of the two"),
    "matched elsewhere": ({"matched": replace(BASE, split=4)}, "arm@4 and has the split 5; expected both at one split"),
    "matched to exact": ({"matched": Arm("exact", "exact")}, "expected both at one split"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_no_arm_can_be_is_refused_when_it_is_made(case):
    """By the arm's name and with the reason."""
    changed, reason = IMPOSSIBLE[case]
    with pytest.raises(ConfigError, match="arm arm ") as caught:
        replace(BASE, **changed)
    assert reason in str(caught.value)


def test_an_arm_needs_what_the_arm_it_is_matched_to_needs():
    """Its plan is made on the same prompt, with the same texts and frequencies."""
    matched = replace(BASE, rows=RandomRows(), matched=replace(BASE, rows=ProtectedTokens()))
    assert matched.needs == ProtectedTokens.needs
    assert needs_frequencies([matched])
    assert not needs_frequencies([replace(BASE, rows=RandomRows())])


def test_an_unknown_name_or_split_is_refused_with_what_there_is():
    """A split outside the model names the last possible one."""
    with pytest.raises(ConfigError, match="arm 'rigdefill' is not known; expected one of exact, no_fill"):
        make_arm("rigdefill", layers=6, split=3, tail=1, rows_share=0.1)
    for split in (0, 6):
        with pytest.raises(ConfigError, match=f"split {split} is outside the model; expected 1 to 5"):
            make_arm("ridgefill", layers=6, split=split, tail=1, rows_share=0.1)


@pytest.mark.skipif(not OLD, reason="no published results beside this checkout")
@pytest.mark.parametrize("path", OLD, ids=lambda path: path.parent.name)
def test_experiments_from_before_parameters_resolve_as_they_did(path):
    """Their configuration is hashed in the ledger: no key more or less, in the order of old."""
    published = json.loads(path.read_text(encoding="utf-8"))["experiment"]
    if published.get("name") not in config.known_experiments(ROOT):
        pytest.skip("not an experiment of the configuration")
    seeds = {"ruler": published["suites"]["ruler"]["seed"], "statistics": published["statistics"]["seed"]}
    asked = iter(seeds.values())
    now = config.with_seeds(config.load_experiment(published["name"], ROOT), lambda _: next(asked))
    assert json.dumps(now.model_dump(mode="json")) == json.dumps(published)
