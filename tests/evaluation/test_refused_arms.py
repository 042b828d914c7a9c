"""Arms that a model, or what was fitted, does not allow: refused with the reason before anything runs."""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from ridgefill.arm_specs import ArmSpec, arm_from
from ridgefill.arms import Arm, ArmSettings
from ridgefill.cost import Geometry
from ridgefill.errors import ConfigError, MapError
from ridgefill.evaluation.runs import Fitted, Setup, require_arms
from ridgefill.map_options import PLAIN
from ridgefill.models.base import LINEAR
from ridgefill.models.kva import KvaContext
from ridgefill.models.load import Loaded
from ridgefill.selectors.frequency import Frequencies

CASES = runpy.run_path(str(Path(__file__).with_name("arm_cases.py")))
SPLITS, TAIL, case_of, dense, heads_of, settings = (
    CASES[name] for name in ("SPLITS", "TAIL", "case_of", "dense", "heads_of", "settings")
)


def refused(family, *, arm=None, split=None, like="ridgefill", fitted=None, **given):
    """A setup whose last arm cannot be run there."""
    case = case_of(family)
    at = replace(settings(case.adapter, family), split=split or SPLITS[family])
    made = arm or arm_from(ArmSpec(name="odd", like=like, **given), at)
    maps = {(at.split, PLAIN): dense(case.adapter, at.split).predict}
    arms = [Arm("exact", "exact"), made]
    return replace(case.setup, arms=arms, fitted=fitted or Fitted(maps, {}, Frequencies((0,)), None))


IMPOSSIBLE = {
    "SwiftKV elsewhere": ("llama", {"like": "swiftkv_tail"}, "has no SwiftKV projections; load a llama_swiftkv"),
    "SwiftKV's rows elsewhere": ("llama", {"like": "swiftkv_released"}, "has no SwiftKV projections"),
    "SwiftKV's rows under maps": ("llama", {"like": "swiftkv_released", "fill": "ridge"}, "no SwiftKV projections"),
    "heads that are not there": ("llama", {"like": "kva"}, "needs trained heads for this model; give their file"),
    "a split too deep": ("llama", {"split": 6}, "split 6 is outside the model; expected 1 to 5"),
    "maps of no such split": ("llama", {"fitted": Fitted()}, "needs maps for split 4; fitted are: none"),
    "maps of no such rank": ("llama", {"maps": {"rank": 2}}, "needs maps-rank2 for split 4; fitted are: 4"),
    "no ranking layer": ("llama", {"like": "ridgefill_rows", "split": 3}, "no layer there sees all rows; expected a"),
    "no ranking layer for a match": (
        "llama",
        {"like": "no_fill", "match": "ridgefill_rows", "split": 3},
        "ranks rows by attention below its split",
    ),
    "no frequencies": (
        "llama",
        {"like": "ridgefill_protected", "fitted": Fitted({(4, PLAIN): lambda *_: None})},
        "needs token frequencies of the calibration documents; count them first",
    ),
    "a match of digits": (
        "llama",
        {"like": "ridgefill_digits", "match": "ridgefill"},
        "picks rows by a rule without a share of its own, so their number cannot be matched",
    ),
    "a match of a control": (
        "llama",
        {"rows": {"kind": "random", "like": {"kind": "digits"}}, "match": "ridgefill_rows"},
        "picks rows by a rule without a share of its own",
    ),
    "states of a model without": ("llama", {"like": "splice_exact_states"}, "splices recurrent states, and the model"),
    "all of a model without states": ("gemma3", {"like": "splice_exact_all"}, "splices recurrent states"),
    "offsets that were not fitted": (
        "qwen3_5",
        {"like": "ridgefill_state_correction"},
        "needs the state correction split4; fitted are: none",
    ),
    "offsets of a model without states": (
        "llama",
        {"like": "ridgefill_state_correction", "fitted": Fitted({(4, PLAIN): lambda *_: None}, {"split4": {}})},
        "recurrent layer from split 4 on, and this llama model has none",
    ),
    "no late layer to probe": (
        "gemma3",
        {"like": "ridgefill_probe", "split": 5},
        "probes the late layers, and none of them sees all rows; expected a lower split",
    ),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_an_arm_that_the_model_cannot_run_is_refused_before_anything_runs(monkeypatch, case):
    """By the arm's name, or what it asked for, and with the reason; no layer has run by then."""
    family, given, reason = IMPOSSIBLE[case]
    setup = refused(family, **given)

    def ran(*_, **__):
        raise AssertionError("a layer ran")

    monkeypatch.setattr(type(setup.loaded.adapter), "run_layer", ran)
    with pytest.raises((ConfigError, MapError)) as caught:
        require_arms(setup)
    assert reason in str(caught.value)


class Recurrent:
    """As much of an adapter as a check needs: attention below, recurrent layers above."""

    layers, kinds, windows = 6, ("full_attention",) * 4 + (LINEAR,) * 2, {}
    predicts_inputs = True

    def filling(self, *_):
        return self

    def require_split(self, split):
        pass

    def block_input(self, layer, x):
        return x

    def attends(self, layer):
        return self.kinds[layer] != LINEAR


@pytest.mark.parametrize("like", ["splice_exact_keys", "scale_values_tail", "ridgefill_probe"])
def test_what_only_attention_has_is_refused_above_it(like):
    """Keys to splice, values to rescale, attention to probe, where all late layers are recurrent."""
    arm = arm_from(ArmSpec(name="odd", like=like, fill="identity"), ArmSettings(6, 4, TAIL))
    setup = Setup(
        Loaded(Recurrent(), None, None), [arm], Fitted(frequencies=Frequencies((0,))), Geometry(6, 1, 1, 1, 1), TAIL, 16
    )
    with pytest.raises(ConfigError, match=r"no layer from its split on has any|only recurrent ones|none of them sees"):
        require_arms(setup)


def test_heads_that_mix_rows_take_no_exact_rows():
    """They are handed filled rows only; found with the model, not on the first prompt."""
    case = case_of("llama")
    fitted = Fitted(heads=heads_of(case.adapter, 4, KvaContext(3 * case.adapter.head_dim, 1, 3, 40)))
    require_arms(refused("llama", like="kva", rescale_rows=None, fitted=fitted))
    with pytest.raises(ConfigError, match="mix every row with all before it"):
        require_arms(refused("llama", like="kva", rows={"kind": "random"}, fitted=fitted))
