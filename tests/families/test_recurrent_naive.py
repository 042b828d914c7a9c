"""Hybrids against the naive ones that go row by row and head by head in fp64, and maps fitted on them."""

import copy
import runpy
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from ridgefill.arms import Arm
from ridgefill.capture import capture
from ridgefill.fill import predictor, run_late
from ridgefill.lam import cache_write_cosines, mean_write_cosine
from ridgefill.map_options import PLAIN
from ridgefill.maps import RidgeMaps
from ridgefill.models.base import LINEAR
from ridgefill.models.wrap import adapter_for
from ridgefill.passes import run_exact
from ridgefill.ridge import factorise, residual_shares, solve
from ridgefill.rows import RowPlan
from ridgefill.selectors.attention import AttentionRows
from ridgefill.selectors.context import Context

TESTS = Path(__file__).parents[1]
BUILT = runpy.run_path(str(Path(__file__).with_name("builders.py")))
NAIVE = runpy.run_path(str(TESTS / "naive" / "hybrid.py"))
# fp32 against fp64 through the late layers, relative to the largest value.
TOLERANCE = 1e-5


@cache
def _built(name):
    adapter = adapter_for(BUILT["FAMILIES"][name]())
    return adapter, NAIVE["NaiveHybrid"](adapter.model)


@pytest.fixture(params=["qwen3_5", "qwen3_next"])
def both(request):
    """The adapter of a hybrid, and the naive model with the same weights."""
    return _built(request.param)


def doubled(x):
    """fp32 ``[1, rows, d]`` as the naive model takes it: a list of fp64 rows."""
    return list(x[0].double())


def maps(split, layers=8, width=32):
    """Dense maps with offsets, far from the identity."""
    generator = torch.Generator().manual_seed(split)
    late = range(split, layers)
    return RidgeMaps(
        split,
        {layer: torch.randn(width, width, generator=generator) * width**-0.5 for layer in late},
        {layer: torch.randn(width, generator=generator) * 0.1 for layer in late},
    )


def check_memory(cache, layer, memory, error):
    """What a layer of ours keeps, against the naive memory: written rows, or a window and a state."""
    if "state" in memory:
        state = cache.state(layer)
        assert error(state.recurrent_states[0][0], memory["state"]) <= TOLERANCE
        assert error(state.conv_states[0][0], torch.stack(memory["window"], dim=1)) <= TOLERANCE
        return
    rows = sorted(memory["rows"])
    for place, store in enumerate((cache.keys, cache.values)):
        assert (
            error(store[layer][0, :, rows], torch.stack([memory["rows"][row][place] for row in rows], 1)) <= TOLERANCE
        )


@pytest.mark.parametrize("tokens", [1, 2, 5, 65])
def test_every_layer_equals_the_naive_layer(both, prompt, error, tokens):
    """From the same inputs: outputs, keys and values, windows, and states as ``[value_heads, K, V]``."""
    adapter, naive = both
    exact = run_exact(adapter, prompt(tokens), keep=range(adapter.layers))
    for layer in range(adapter.layers):
        memory, inputs = {}, doubled(exact.inputs[layer])
        found = torch.stack([naive.step(layer, memory, x, row) for row, x in enumerate(inputs)])
        assert error(exact.inputs.get(layer + 1, exact.hidden)[0], found) <= TOLERANCE
        check_memory(exact.cache, layer, memory, error)


@pytest.mark.parametrize(
    ("fill", "rows"),
    [("ridge", []), ("ridge", [0, 1, 17, 30]), ("ridge", range(1, 45, 2)), ("identity", [44]), ("none", [])],
)
@pytest.mark.parametrize("split", [4, 5])
def test_every_fill_equals_the_naive_prefill(both, prompt, plan, error, split, fill, rows):
    """Outputs of the exact rows, with rows after the prompt, and all that the late layers keep."""
    adapter, naive = both
    arm = Arm(fill, fill, split=split, tail=15)
    lower = run_exact(adapter, prompt(70), keep=[split]).lower(split, 60)
    planned, fitted = plan(60, [*rows, *range(45, 60)]), maps(split)
    if fill == "none":
        planned = RowPlan(planned.filled[:0], planned.exact, 15, 45, ())
    done = run_late(
        adapter, lower, planned, predictor(arm, {(split, PLAIN): fitted.predict}, adapter), arm, continuation=10
    )
    predict = {
        "none": None,
        "identity": lambda layer, state: state,
        "ridge": lambda layer, state: fitted.weights[layer].double() @ state + fitted.biases[layer].double(),
    }[fill]
    every = [*planned.exact.tolist(), *range(60, 70)]
    outputs, memories = naive.run_filled({split: doubled(lower.state)}, split, every, predict, true_split_layer=True)
    assert error(done.hidden[0], torch.stack([outputs[row] for row in every])) <= TOLERANCE
    for layer, memory in memories.items():
        check_memory(done.cache, layer, memory, error)


def test_a_missing_transpose_of_a_state_shows(prompt, error):
    """Where key and value heads are equally wide nothing complains, but the naive state is far from the transpose.

    The same goes for value heads tiled over key heads instead of grouped.
    """
    config = copy.deepcopy(BUILT["FAMILIES"]["qwen3_5"]().config)
    config.linear_key_head_dim = config.linear_value_head_dim
    torch.manual_seed(3)
    square = BUILT["remembering"](type(BUILT["FAMILIES"]["qwen3_5"]())(config), 3).eval()
    exact, naive = run_exact(adapter_for(square), prompt(40), keep=[1]), NAIVE["NaiveHybrid"](square)
    memory = {}
    for row, x in enumerate(doubled(exact.inputs[1])):
        naive.step(1, memory, x, row)
    found = exact.cache.state(1).recurrent_states[0][0]
    assert error(found, memory["state"]) <= TOLERANCE
    assert error(found.mT, memory["state"]) > 0.5
    tiled = found.unflatten(0, (2, 3)).transpose(0, 1).flatten(0, 1)
    assert error(tiled, memory["state"]) > 0.5


def test_rows_are_ranked_by_the_attention_of_gated_layers(both, prompt, error):
    """Half of a query head's projection is a gate; recurrent layers rank nothing."""
    adapter, naive = both
    exact = run_exact(adapter, prompt(65), keep=range(adapter.layers), window=(45, 65))
    assert set(exact.window_inputs) == {3, 7}
    memory, received = {}, torch.zeros(65, dtype=torch.float64)
    for row, x in enumerate(doubled(exact.inputs[3])):
        naive.step(3, memory, x, row)
    for row in range(45, 65):
        received[: row + 1] += memory["weights"][row].sum(0)
    window = adapter.rows(torch.arange(45, 65))
    assert error(adapter.attention_received(3, exact.inputs[3][:, 45:], window, exact.cache), received) <= TOLERANCE
    context = replace(Context.around(adapter, exact.lower(5)), prefix=40)
    assert list(AttentionRows(6 / 65, window=20).rows(context)) == sorted(received[:40].topk(6).indices.tolist())


def test_what_a_recurrent_layer_writes_is_what_feeds_its_state(both, prompt, error):
    """Query, key and value before the convolution, write strength, decay; fused projections taken apart."""
    adapter, naive = both
    exact = run_exact(adapter, prompt(9), keep=[4])
    written = adapter.writes(4, exact.inputs[4])
    normed = [naive.norm(4, "input_layernorm", x) for x in doubled(exact.inputs[4])]
    qkv, _, b, a = zip(*(naive.project(4, x) for x in normed), strict=True)
    for name, rows in (("qkv", qkv), ("b", b), ("a", a)):
        assert error(written[name][0], torch.stack(rows)) <= TOLERANCE
    assert set(adapter.writes(3, exact.inputs[4])) == {"key", "value"}


def test_decoding_equals_the_naive_one(both, prompt):
    """Greedy tokens after a filled prefill, from fp64 memories fed row by row."""
    from ridgefill.decode import decode_greedy

    adapter, naive = both
    inputs, memories = naive.run_exact(prompt(50)[0].tolist())
    exact, fitted = run_exact(adapter, prompt(50), keep=[4], capacity=62), maps(4)
    rows = torch.arange(50)
    arm, planned = Arm("r", "ridge", split=4, tail=10), RowPlan(rows[:40], rows[40:], 10, 0, ())
    done = run_late(adapter, exact.lower(4), planned, fitted.predict, arm)
    outputs, late = naive.run_filled(
        inputs, 4, list(range(40, 50)),
        lambda layer, state: fitted.weights[layer].double() @ state + fitted.biases[layer].double(),
        true_split_layer=True,
    )  # fmt: skip
    made = decode_greedy(
        adapter, [done.cache], adapter.logits(done.hidden[:, -1:])[:, 0],
        prompt_tokens=[50], new_tokens=12, stop_ids=(), finished=lambda *_: False,
    )  # fmt: skip
    assert made == [naive.decode(outputs[49], [*memories[:4], *(late[layer] for layer in range(4, 8))], 50, 12)]
    assert len(set(made[0])) > 4


@pytest.mark.parametrize("split", [3, 4])
def test_maps_fitted_on_a_hybrid_predict_its_block_inputs(both, prompt, split):
    """Capture, moments, solve and the choice of lam as on any model: finite, and better than the split state itself."""
    adapter, _ = both
    texts = [prompt(120, seed)[0].tolist() for seed in range(4)]
    factors = factorise(capture(adapter, texts, [split]), split)
    fitted = solve(factors, 0.03)
    shares = residual_shares(factors, 0.03)
    assert set(fitted.weights) == set(range(split, 8))
    eye = RidgeMaps(
        split, dict.fromkeys(range(split, 8), torch.eye(32)), dict.fromkeys(range(split, 8), torch.zeros(32))
    )
    rows = cache_write_cosines(adapter, texts, {(split, 0.03): fitted, (split, 9.0): eye})
    assert {row.component for row in rows if adapter.kinds[row.layer] == LINEAR} == {"input", "qkv", "b", "a"}
    assert {row.component for row in rows if adapter.kinds[row.layer] != LINEAR} == {"input", "key", "value"}
    assert mean_write_cosine(rows, split, 0.03) > mean_write_cosine(rows, split, 9.0)
    exact = [run_exact(adapter, torch.tensor([text]), keep=range(adapter.layers)).inputs for text in texts]
    for layer in range(split + 1, 8):
        truth, state = (torch.cat([inputs[one] for inputs in exact], 1) for one in (layer, split))
        left = (fitted.predict(layer, state) - truth).square().sum()
        assert bool(left.isfinite())
        assert left < (state - truth).square().sum()
        assert 0 < shares[layer] < 1
