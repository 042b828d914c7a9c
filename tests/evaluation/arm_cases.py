"""Every arm that makes sense on three tiny models, run on one prompt of each from one exact pass."""

import runpy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from ridgefill.arm_specs import ArmSpec, arm_from
from ridgefill.arms import ArmSettings, arm_table
from ridgefill.corrections.state import state_shape
from ridgefill.cost import geometry_of
from ridgefill.evaluation.runs import Fitted, Setup, kept_layers, require_arms, run_arms
from ridgefill.fitted_names import correction_name, needed_maps
from ridgefill.maps import RidgeMaps
from ridgefill.models.base import LINEAR
from ridgefill.models.kva import KvaHeads, layout
from ridgefill.models.load import Loaded
from ridgefill.models.sizes import sizes_of
from ridgefill.models.wrap import adapter_for
from ridgefill.passes import run_exact
from ridgefill.rows import ranking_window
from ridgefill.selectors.frequency import Frequencies

TESTS = Path(__file__).parents[1]
BUILT = runpy.run_path(str(TESTS / "families" / "builders.py"))
PROMPTS = runpy.run_path(str(TESTS / "selectors" / "material.py"))
# A layer that ranks rows below the split, and on the hybrid recurrent layers above it whose rows are predicted.
SPLITS = {"llama": 4, "gemma3": 3, "qwen3_5": 4}
TOKENS, TAIL, WINDOW, SEED = 150, 30, 16, 2**62 + 7
QUESTION = (TOKENS - 12, TOKENS)
SWIFTKV = {"swiftkv_tail", "swiftkv_released"}
OWN = [
    {"name": "both_scales", "like": "ridgefill_random_rows", "rescale": ["key", "value"], "rescale_rows": 7},
    {"name": "copied_scales", "like": "identity", "rescale": ["value"], "split_layer": "mapped"},
    {"name": "matched_blind", "like": "ridgefill_random_rows", "match": "ridgefill_question_blind_rows"},
    {"name": "matched_protected", "like": "no_fill", "match": "ridgefill_protected"},
    {"name": "probe_later", "like": "ridgefill_probe", "longer": 0.1},
    {"name": "blind_later", "like": "ridgefill_question_blind_rows", "longer": 0.1},
    {"name": "probe_scaled", "like": "ridgefill_probe", "rescale": ["value"], "splice": ["keys"]},
    {"name": "last", "like": "ridgefill", "rows": {"kind": "last"}},
    {"name": "mapped_identity", "like": "ridgefill", "split_layer": "mapped", "maps": {"towards": "identity"}},
    {"name": "deeper", "like": "ridgefill_rows", "split": 5, "tail": 9, "split_layer": "mapped"},
]
HYBRID_OWN = [
    {"name": "states_and_rows", "like": "ridgefill_state_correction", "rows": {"kind": "random"}, "rescale": ["value"]},
    {"name": "copied_states", "like": "identity", "state_correction": True, "split_layer": "mapped"},
    {"name": "probe_states", "like": "ridgefill_probe", "state_correction": True},
]


@dataclass(frozen=True)
class Case:
    """One prompt of one family: the setup of its experiment, the exact pass, and every arm's run by name."""

    model: Any
    setup: Setup
    context: Any
    exact: Any
    runs: dict

    @property
    def adapter(self):
        return self.setup.loaded.adapter


def dense(adapter, split, seed=0):
    """Maps with offsets, far from the identity."""
    generator = torch.Generator().manual_seed(100 * seed + split)
    late, shape = range(split, adapter.layers), (adapter.hidden, adapter.width)
    weights = {layer: torch.randn(shape, generator=generator) * 1.3 * shape[1] ** -0.5 for layer in late}
    return RidgeMaps(split, weights, {layer: torch.randn(shape[0], generator=generator) * 0.1 for layer in late})


def heads_of(adapter, split, context=None):
    """Seeded KVA heads of this model."""
    generator = torch.Generator().manual_seed(5)
    shapes = layout(range(split, adapter.layers), adapter.kv_heads * adapter.head_dim, adapter.hidden, context)
    tensors = {name: torch.randn(shape, generator=generator) * shape[-1] ** -0.5 for name, shape in shapes.items()}
    return KvaHeads(split, adapter.layers, tensors, context=context, kind="ctx" if context else "linear")


def spelled(ids):
    """A prompt of words, digits and special tokens whose end says again what its middle says, told as suites do."""
    told = PROMPTS["made"](ids, 0, seed=SEED, question=QUESTION, template=((0, 2), (TOKENS - 3, TOKENS)))
    calibration = [[token % 9 + token % 4 for token in ids], list(range(10, 28))]
    return replace(told, frequencies=Frequencies.of(calibration, 97))


def settings(adapter, family):
    return ArmSettings(adapter.layers, SPLITS[family], TAIL, rows_share=0.1, window=WINDOW)


def arms_of(adapter, family):
    """All arms of the table that the model can run, and some with parameters."""
    hybrid = LINEAR in adapter.kinds
    table = arm_table(settings(adapter, family))
    recurrent = {name for name, arm in table.items() if arm.state_correction or "states" in arm.splice}
    left_out = SWIFTKV | ({"kva"} if hybrid else recurrent)
    own = [*OWN, *(HYBRID_OWN if hybrid else [])]
    named = [arm for name, arm in table.items() if name not in left_out]
    return [*named, *(arm_from(ArmSpec.model_validate(one), settings(adapter, family)) for one in own)]


def fitted_for(adapter, family, arms):
    maps = {
        (split, options): dense(adapter, split, seed).predict
        for seed, (split, options) in enumerate(needed_maps(arms, {arm.split for arm in arms if arm.fill == "ridge"}))
    }
    deltas = {}
    for arm in arms:
        if arm.state_correction:
            late = [at for at in range(arm.split, adapter.layers) if adapter.kinds[at] == LINEAR]
            generator = torch.Generator().manual_seed(len(deltas))
            shape = state_shape(adapter)
            deltas[correction_name(arm)] = {at: torch.randn(shape, generator=generator) for at in late}
    heads = None if LINEAR in adapter.kinds else heads_of(adapter, SPLITS[family])
    return Fitted(maps, deltas, Frequencies((1,) * 97), heads)


@cache
def case_of(family):
    """Every arm's run on one prompt, from one exact pass."""
    model = BUILT["FAMILIES"][family](torch.float32)
    adapter = adapter_for(model)
    ids = torch.randint(0, 29, (1, TOKENS), generator=torch.Generator().manual_seed(3))
    ids[0, -22:-4] = ids[0, 40:58]
    arms = arms_of(adapter, family)
    geometry = geometry_of(sizes_of(model.config), family)
    setup = Setup(Loaded(adapter, None, None), arms, fitted_for(adapter, family, arms), geometry, TAIL, WINDOW)
    require_arms(setup)
    context = spelled(ids[0].tolist())
    with torch.inference_mode():
        window = ranking_window(arms, TOKENS, WINDOW)
        exact = run_exact(adapter, ids, keep=kept_layers(setup), window=window)
        runs = {done.arm.name: done for done in run_arms(setup, exact, context, arms)}
    return Case(model, setup, context, exact, runs)
