"""Whole late parts with corrections and splices against the naive ones, row by row and head by head in fp64."""

import runpy
from functools import cache
from pathlib import Path

import pytest
import torch

from ridgefill.amend import Amendments
from ridgefill.corrections.rescale import Rescale
from ridgefill.corrections.state import StateCorrection, state_shape
from ridgefill.models.base import LINEAR
from ridgefill.splices import Splice

NAIVE = Path(__file__).parents[1] / "naive"
CORRECTIONS = runpy.run_path(str(NAIVE / "corrections.py"))
# fp32 against fp64 through the late layers, relative to the largest value; METHOD's own bound.
TOLERANCE = 1e-5
TOKENS, TAIL = 45, 20
CHOSEN = {"tail": (), "scattered": (2, 3, 11, 24)}


@cache
def naive(family, model):
    if family == "llama":
        plain = runpy.run_path(str(NAIVE / "prefill.py"))["NaiveLlama"](model)
        plain.width = model.config.head_dim
        return CORRECTIONS["Llama"](plain)
    return CORRECTIONS["Hybrid"](runpy.run_path(str(NAIVE / "hybrid.py"))["NaiveHybrid"](model))


def both(one, family, amendments, split_layer, **settings):
    """Our outputs and notes, and the naive outputs and what they measured."""
    model = naive(family, one.adapter.model)

    def predict(layer, state):
        return one.maps.weights[layer].double() @ state + one.maps.biases[layer].double()

    inputs = {layer: list(one.pass_.inputs[layer][0].double()) for layer in range(one.split, one.adapter.layers)}
    inputs[0] = inputs[one.split]
    expected, measured = CORRECTIONS["run_filled"](
        model, inputs, one.split, one.exact.tolist(), predict, one.prefix,
        true_split_layer=split_layer == "exact", **settings,
    )  # fmt: skip
    out, _, notes = one.run(amendments, split_layer=split_layer)
    return out[0], notes, torch.stack([expected[row] for row in one.exact.tolist()]), measured


@pytest.mark.parametrize("family", ["llama", "qwen3_5", "qwen3_next"])
@pytest.mark.parametrize("rows", CHOSEN)
@pytest.mark.parametrize("split_layer", ["exact", "mapped"])
@pytest.mark.parametrize(("parts", "count"), [(("value",), 512), (("key",), 5), (("value", "key"), 1)])
def test_rescaled_runs_and_their_scales_are_the_naive_ones(request_of, error, family, rows, split_layer, parts, count):
    """Each layer's tail inputs are those of its own run, after the corrections below."""
    one = request_of(family, TOKENS, TAIL, CHOSEN[rows])
    how = Amendments(rescale=Rescale(parts, count))
    out, notes, expected, measured = both(one, family, how, split_layer, rescale=parts, measured=count)
    assert error(out, expected) <= TOLERANCE
    seen = 0
    for layer, scales in measured.items():
        if one.adapter.kinds[layer] == LINEAR or not scales:
            continue
        for part, by_head in scales.items():
            assert error(notes[layer].scales.scales[part], torch.tensor(by_head)) <= TOLERANCE
            seen += 1
    assert seen >= len(parts)


@pytest.mark.parametrize("family", ["qwen3_5", "qwen3_next"])
@pytest.mark.parametrize("rows", CHOSEN)
@pytest.mark.parametrize("split", [3, 4])
@pytest.mark.parametrize("split_layer", ["exact", "mapped"])
def test_state_corrected_runs_and_their_shares_are_the_naive_ones(request_of, error, family, rows, split, split_layer):
    """``rho`` per value head from gates of predicted rows and of exact rows' own inputs, added before the tail."""
    one = request_of(family, TOKENS, TAIL, CHOSEN[rows], split=split)
    generator = torch.Generator().manual_seed(7)
    late = [layer for layer in range(split, one.adapter.layers) if one.adapter.kinds[layer] == LINEAR]
    deltas = {layer: torch.randn(state_shape(one.adapter), generator=generator) for layer in late}
    how = Amendments(correction=StateCorrection(deltas))
    out, notes, expected, measured = both(one, family, how, split_layer, deltas=deltas)
    assert error(out, expected) <= TOLERANCE
    for layer in late:
        if layer == split and split_layer == "exact":
            assert notes[layer].carried is None
            continue
        rho = notes[layer].carried.share.rho
        assert error(rho, torch.tensor(measured[layer])) <= TOLERANCE
        assert (rows == "tail") == bool((rho == 1).all())


@pytest.mark.parametrize("family", ["llama", "qwen3_5", "qwen3_next"])
@pytest.mark.parametrize("rows", CHOSEN)
@pytest.mark.parametrize("parts", [("keys",), ("values",), ("keys", "values"), ("states",), ("values", "states")])
def test_spliced_runs_are_the_naive_ones(request_of, error, family, rows, parts):
    """Exact keys before rotary, rotated where they stand; a splice of states feeds true rows to the scan."""
    if family == "llama" and "states" in parts:
        parts = ()
    one = request_of(family, TOKENS, TAIL, CHOSEN[rows])
    how = Amendments(splice=Splice(frozenset(parts), one.pass_))
    out, _, expected, _ = both(one, family, how, "mapped", splice=parts)
    assert error(out, expected) <= TOLERANCE


@pytest.mark.parametrize("family", ["qwen3_5", "qwen3_next"])
def test_all_corrections_together_are_the_naive_ones(request_of, error, family):
    """Values and keys rescaled and states corrected in one run, with exact rows in the prefix."""
    one = request_of(family, TOKENS, TAIL, CHOSEN["scattered"])
    late = [layer for layer in range(one.split, one.adapter.layers) if one.adapter.kinds[layer] == LINEAR]
    deltas = {layer: torch.full(state_shape(one.adapter), 0.3) for layer in late}
    how = Amendments(Rescale(("key", "value"), 9), StateCorrection(deltas))
    out, _, expected, _ = both(one, family, how, "mapped", rescale=("key", "value"), measured=9, deltas=deltas)
    assert error(out, expected) <= TOLERANCE
