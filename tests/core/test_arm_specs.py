"""Arms with parameters, as an experiment's file writes them: what each gives, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ridgefill import config
from ridgefill.arm_specs import ArmSpec, arm_from
from ridgefill.arms import ARM_NAMES, Arm, ArmSettings, arm_table
from ridgefill.errors import ConfigError
from ridgefill.fitted_names import correction_name, maps_name, needed_corrections, needed_maps
from ridgefill.map_options import PLAIN, RidgeOptions
from ridgefill.selectors.budget import ProbeBudget
from ridgefill.selectors.controls import LastRows, RandomRows
from ridgefill.selectors.probed import ProbedRows
from ridgefill.selectors.protected import ProtectedTokens

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/add-an-arm.md").read_text(encoding="utf-8")
SETTINGS = ArmSettings(layers=30, split=19, tail=128, rows_share=0.2, window=48, split_layer="mapped")
TABLE = arm_table(SETTINGS)


def blocks(text):
    """Indented blocks of a page, without their indentation."""
    found, inside = [], False
    for line in text.splitlines():
        if line.startswith("    "):
            found += [] if inside else [[]]
            found[-1].append(line[4:])
            inside = True
        elif line:
            inside = False
        elif inside:
            found[-1].append("")
    return ["\n".join(lines) for lines in found]


BLOCKS = blocks(PAGE)
SHOWN = yaml.safe_load(next(block for block in BLOCKS if block.startswith("arms:")))["arms"]


ridge, rows = TABLE["ridgefill"], TABLE["ridgefill_rows"]
EXPECTED = {
    "copied": replace(ridge, fill="identity"),
    "deeper": replace(ridge, split=22),
    "short_tail": replace(rows, tail=64),
    "rarest": replace(ridge, rows=ProtectedTokens(0.5)),
    "random_like_rarest": replace(ridge, rows=RandomRows(like=ProtectedTokens(0.5))),
    "small_probe": replace(ridge, rows=ProbedRows(ProbeBudget(0.5), lexical=None, special=False)),
    "plain_tail": replace(rows, rows=None),
    "tail_and_a_fifth": replace(ridge, longer=0.2),
    "random_matched": replace(TABLE["ridgefill_random_rows"], matched=rows),
    "mapped": replace(ridge, split_layer="mapped"),
    "rank64": replace(ridge, maps=RidgeOptions("identity", 64)),
    "few_tokens": replace(ridge, maps=RidgeOptions(tokens=8192)),
    "lam_by_layer": replace(ridge, maps=RidgeOptions(lam_for="layer")),
    "both_scales": replace(ridge, rescale=("key", "value"), rescale_rows=64),
    "rows_and_states": replace(rows, state_correction=True),
    "spliced_rows": replace(rows, splice=("values",)),
    "digits_asked_first": replace(TABLE["ridgefill_digits"], order="question_first"),
}
"""The arms with parameters that the page shows."""


def test_the_page_shows_every_parameter_and_what_it_gives():
    """Each arm of the example is read as it says, and leaves the rest as the arm it is like."""
    specs = [ArmSpec.model_validate(one) for one in SHOWN if not isinstance(one, str)]
    assert {spec.name: arm_from(spec, SETTINGS) for spec in specs} == {
        name: replace(arm, name=name) for name, arm in EXPECTED.items()
    }
    assert set().union(*(spec.model_fields_set for spec in specs)) == set(ArmSpec.model_fields)


def test_a_split_or_tail_of_its_own_is_that_of_the_arm_it_is_matched_to():
    """Otherwise nothing would be there to compare."""
    arm = arm_from(ArmSpec(name="a", like="no_fill", match="ridgefill", split=7, tail=9), SETTINGS)
    assert (arm.split, arm.matched.split, arm.matched.tail) == (7, 7, 9)
    assert arm_from(ArmSpec(name="b", like="no_fill_longer_tail", split=7), SETTINGS).matched.split == 7


REFUSED = {
    "a name of the table": ({"name": "kva"}, "arm 'kva' is in the table of arms already; give yours another name"),
    "a name with a slash": ({"name": "a/b"}, "should match pattern"),
    "like what is not there": ({"like": "ridge"}, "unknown arm 'ridge'; known: exact, no_fill"),
    "like exact": ({"like": "exact"}, "like: exact has no parameters; take an arm that fills or writes nothing"),
    "an unknown key": ({"share": 0.1}, "Extra inputs are not permitted"),
    "an unknown fill": ({"fill": "mean"}, "'exact', 'none', 'identity', 'ridge', 'kva' or 'swiftkv'"),
    "the fill exact": ({"fill": "exact"}, "take another fill than exact"),
    "a tail of none": ({"tail": 0}, "greater than or equal to 1"),
    "a split as text": ({"split": "19"}, "valid integer"),
    "rows by name": (
        {"rows": "attention"},
        "or a selector such as {kind: attention}, found 'attention'",
    ),
    "rows of no kind": ({"rows": {"share": 0.1}}, "rows of kind None are not known; expected one of attention"),
    "rows without a fill": ({"fill": "none", "rows": {"kind": "digits"}}, "cannot have exact rows beside the tail"),
    "all of the prompt": ({"longer": 1.0}, "less than 1"),
    "matched to what is not there": ({"match": "x"}, "unknown arm 'x'"),
    "matched to exact": ({"match": "exact"}, "expected both at one split"),
    "matched to a probe": ({"match": "ridgefill_probe"}, "cannot be matched through a probe"),
    "matched and longer": ({"match": "identity", "longer": 0.1}, "expected one of the two"),
    "another split layer": ({"split_layer": "ridge"}, "'exact' or 'mapped'"),
    "maps of rank none": ({"maps": {"rank": 0}}, "greater than or equal to 1"),
    "maps towards the mean": ({"maps": {"towards": "mean"}}, "'zero' or 'identity'"),
    "a penalty for each head": ({"maps": {"lam_for": "head"}}, "'split' or 'layer'"),
    "maps of no tokens": ({"maps": {"tokens": 0}}, "greater than or equal to 1"),
    "maps that nothing reads": ({"like": "kva", "maps": {"rank": 2}}, "which reads no maps"),
    "scales of states": ({"rescale": ["states"]}, "'key' or 'value'"),
    "a scale twice": ({"rescale": ["key", "key"]}, "expected some parts, each once, found ['key', 'key']"),
    "no scales": ({"rescale": []}, "expected some parts, each once, found []"),
    "rows of no scale": ({"rescale_rows": 9}, "nothing is rescaled; give rescale too"),
    "scales of trained heads": ({"like": "kva", "rescale": ["key"]}, "predicts no layer inputs"),
    "a splice of heads": ({"splice": ["heads"]}, "'keys', 'values' or 'states'"),
    "a splice twice": ({"splice": ["keys", "keys"]}, "expected some parts, each once"),
    "an order": ({"order": "question_last"}, "'given' or 'question_first'"),
    "blind, asked first": (
        {"like": "ridgefill_question_blind_rows", "order": "question_first"},
        "in front of the prompt, where its selector sees it",
    ),
    "maps at a split that nobody named": ({"like": "pop_native", "fill": "ridge"}, "give the split"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_parameter_is_refused_with_one_sentence(case):
    """When the file is read, before anything is planned."""
    changed, sentence = REFUSED[case]
    with pytest.raises(ValidationError) as caught:
        ArmSpec.model_validate({"name": "mine", "like": "ridgefill"} | changed)
    assert sentence in caught.value.errors()[0]["msg"]
    assert caught.value.error_count() == 1


def test_pop_can_be_matched_where_it_has_the_same_split():
    """Only the experiment's own settings say whether it has."""
    spec = ArmSpec(name="as_pop", like="no_fill", match="pop_native")
    assert arm_from(spec, replace(SETTINGS, split=20)).matched.name == "pop_native"
    with pytest.raises(ConfigError, match="is matched to pop_native@20 and has the split 19"):
        arm_from(spec, SETTINGS)


SELECTED = [
    {"kind": "attention", "share": 0.3}, {"kind": "last"}, {"kind": "digits"}, {"kind": "lexical", "run": 5},
    {"kind": "random", "like": {"kind": "special"}}, {"kind": "probe", "lexical": None}, "none",
]  # fmt: skip
PARAMETERS = {
    "fill": st.sampled_from(["none", "identity", "ridge", "kva"]),
    "split": st.integers(1, 40),
    "tail": st.integers(1, 5000),
    "rows": st.sampled_from(SELECTED),
    "longer": st.sampled_from([0.05, 0.1]),
    "match": st.sampled_from(["ridgefill", "identity_rows", "ridgefill_digits"]),
    "split_layer": st.sampled_from(["exact", "mapped"]),
    "maps": st.fixed_dictionaries({}, optional={"towards": st.just("identity"), "rank": st.integers(1, 9)}),
    "rescale": st.sampled_from([["key"], ["value"], ["key", "value"]]),
    "state_correction": st.booleans(),
    "splice": st.sampled_from([["keys"], ["values", "states"]]),
    "order": st.sampled_from(["given", "question_first"]),
}
parameters = st.sets(st.sampled_from(sorted(PARAMETERS)), max_size=4).flatmap(
    lambda names: st.fixed_dictionaries({name: PARAMETERS[name] for name in names})
)


def possible(given, name="mine"):
    """The specification, or None where no arm can have these parameters."""
    try:
        return ArmSpec.model_validate({"name": name, "like": "ridgefill", **given})
    except ValidationError:
        return None


@given(parameters)
def test_a_specification_reads_back_from_json_as_it_was(given):
    """Property: the same arm, and nothing written that was not given."""
    spec = possible(given)
    if spec is None:
        return
    written = json.loads(spec.model_dump_json())
    assert set(written) == {"name", "like", *given}
    again = ArmSpec.model_validate(written)
    assert again == spec
    assert arm_from(again, SETTINGS) == arm_from(spec, SETTINGS)
    assert written == spec.model_dump(mode="json")


@given(st.lists(parameters, max_size=6))
def test_what_has_to_be_fitted_has_one_name_each(given):
    """Property: two arms share a file of maps or offsets exactly when what is fitted is the same."""
    specs = [spec for place, one in enumerate(given) if (spec := possible(one, f"a{place}"))]
    arms = [arm_from(spec, SETTINGS) for spec in specs]
    wanted = needed_maps(arms, [19, 15])
    assert wanted[:2] == ((15, PLAIN), (19, PLAIN))
    assert set(wanted) >= {(arm.split, arm.maps) for arm in arms if arm.fill == "ridge"}
    assert len({maps_name(*one) for one in wanted}) == len(wanted) == len(set(wanted))


@given(st.lists(st.integers(0, 95), min_size=1, unique=True))
def test_offsets_that_are_fitted_differently_have_names_of_their_own(places):
    """Property: as many as there are splits, fills, split layers and maps among the arms; scales do not count."""
    maps = [PLAIN, RidgeOptions("identity"), RidgeOptions(rank=4), RidgeOptions("identity", 4)]
    every = [
        Arm("arm", fill, split=split, split_layer=layer, maps=one, rescale=scale, state_correction=True)
        for split in (1, 11, 19)
        for layer in ("exact", "mapped")
        for scale in ((), ("value",))
        for fill in ("identity", "ridge")
        for one in (maps if fill == "ridge" else [PLAIN] * 4)
    ]
    arms = [every[place] for place in places]
    fitted = {(arm.split, arm.fill, arm.maps, arm.split_layer) for arm in arms}
    found = needed_corrections([*arms, ridge])
    assert len(found) == len(fitted)
    assert all(correction_name(arm) == name for name, arm in found.items())


def test_two_arms_of_one_name_are_refused():
    """Whether one of them has parameters or both."""
    path = ROOT / "workflow/config/experiments/smollm2_split19.yaml"
    file = yaml.safe_load(path.read_text(encoding="utf-8"))
    mine = {"name": "mine", "like": "ridgefill", "tail": 7}
    made = config.ExperimentFile.model_validate({**file, "arms": ["exact", "ridgefill", mine]})
    assert made.arms[2] == ArmSpec.model_validate(mine)
    with pytest.raises(ValidationError, match="lists the same entry twice"):
        config.ExperimentFile.model_validate({**file, "arms": ["exact", mine, {**mine, "tail": 8}]})


def test_the_line_that_the_page_adds_to_the_table_makes_an_arm():
    """With the names that the table's own lines have at hand."""
    line = next(block for block in BLOCKS if block.startswith("replace(ridge"))
    (made,) = eval(f"({line})", {"replace": replace, "ridge": ridge, "LastRows": LastRows, "s": SETTINGS})
    assert made == replace(ridge, name="ridgefill_last_rows", rows=LastRows(0.2))
    assert made.name not in ARM_NAMES
