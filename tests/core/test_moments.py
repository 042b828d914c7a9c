"""Streamed moments equal those of stored activations, also with a massive channel."""

import runpy
from functools import reduce
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgefill.errors import NumericsError, ResultsError
from ridgefill.moments import chunk_moments, load_moments, merge, save_moments

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "regression.py"))
WIDTH, LAYERS, SPLITS = 6, 4, (1, 2)


def activations(rows, seed=0, massive=0.0):
    """Inputs of layers 1 to 3, ``[rows, WIDTH]`` fp32; chunk means drift, and channel 0 is ``massive``
    larger.
    """
    generator = torch.Generator().manual_seed(seed)
    drift = torch.randn(rows // 50 + 1, WIDTH, generator=generator).repeat_interleave(50, 0)[:rows]
    inputs = {layer: torch.randn(rows, WIDTH, generator=generator) + drift for layer in range(1, LAYERS)}
    for x in inputs.values():
        x[:, 0] += massive
    return inputs


def in_chunks(inputs, sizes):
    """Moments of consecutive chunks of the given sizes."""
    begin, parts = 0, []
    for size in sizes:
        parts.append(chunk_moments({layer: x[begin : begin + size] for layer, x in inputs.items()}, SPLITS, LAYERS))
        begin += size
    return parts


def worst(found, inputs):
    """Largest error of any Gram or cross-moment, in units of the two channels' own spreads."""
    errors = [0.0]
    for split in SPLITS:
        _, _, gram, _, _ = NAIVE["moments"](inputs[split], inputs[split])
        spread = gram.diagonal().sqrt()
        errors.append(float(((found.gram[split] - gram).abs() / torch.outer(spread, spread)).max()))
        for place, layer in enumerate(found.targets(split)):
            _, _, _, cross, _ = NAIVE["moments"](inputs[split], inputs[layer])
            target = (inputs[layer].double() - inputs[layer].double().mean(0)).square().sum(0).sqrt()
            block = found.cross[split][:, place * WIDTH : (place + 1) * WIDTH]
            errors.append(float(((block - cross).abs() / torch.outer(spread, target)).max()))
    return max(errors)


# Products are fp32 within a chunk of at most some thousand rows, centred first: a few units of 6e-8.
TOLERANCE = 1e-6


@pytest.mark.parametrize("massive", [0.0, 1e3, 1e4])
def test_moments_match_the_fp64_truth_also_with_a_massive_channel(massive):
    """A channel 10,000 times its own spread costs no digits, where raw fp32 products lose all of them."""
    inputs = activations(4000, massive=massive)
    found = reduce(merge, in_chunks(inputs, [250] * 16))
    assert worst(found, inputs) < TOLERANCE
    for layer, x in inputs.items():
        mean, _, _, _, total = NAIVE["moments"](x, x)
        assert float((found.mean[layer] - mean).abs().max()) < 1e-9 * max(1.0, massive)
        assert float(found.scatter[layer]) == pytest.approx(total, rel=TOLERANCE)
    _, _, gram, _, _ = NAIVE["moments"](inputs[1], inputs[1])
    raw = float(((NAIVE["raw_gram"](inputs[1]) - gram).abs()).max() / gram.diagonal().max())
    assert raw > 0.2 or massive < 1e4


def test_bfloat16_activations_are_reduced_in_fp32():
    """bf16 inputs give the moments of their own values, not of rounded products."""
    inputs = {layer: x.bfloat16() for layer, x in activations(400, massive=1e3).items()}
    exact = {layer: x.float() for layer, x in inputs.items()}
    assert worst(reduce(merge, in_chunks(inputs, [100] * 4)), exact) < TOLERANCE


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_of_merging_does_not_matter(sizes, order):
    """Property: any cut into chunks, merged in any order, is the one-shot result within its rounding."""
    inputs = activations(sum(sizes), seed=len(sizes), massive=1e3)
    parts = in_chunks(inputs, sizes)
    straight = reduce(merge, parts)
    order.shuffle(parts)
    while len(parts) > 1:
        left, right = parts.pop(order.randrange(len(parts))), parts.pop(order.randrange(len(parts)))
        parts.insert(order.randrange(len(parts) + 1), merge(left, right))
    shuffled = parts[0]
    assert shuffled.rows == straight.rows == sum(sizes)
    for split in SPLITS:
        scale = float(straight.gram[split].abs().max()) + 1e-30
        # fp64 merges of fp64 numbers: only fp64 rounding of the shifts remains.
        assert float((shuffled.gram[split] - straight.gram[split]).abs().max()) <= 1e-10 * scale
        assert float((shuffled.cross[split] - straight.cross[split]).abs().max()) <= 1e-10 * scale
    if sum(sizes) > 2:
        assert worst(straight, inputs) < TOLERANCE


def test_a_single_row_has_a_mean_and_no_spread():
    """The smallest chunk is legal; its centred moments are exactly zero."""
    found = chunk_moments(activations(1), SPLITS, LAYERS)
    assert found.rows == 1
    assert all(float(value.abs().max()) == 0.0 for value in (*found.gram.values(), *found.cross.values()))


def test_the_last_layer_may_be_a_split():
    """A split with no later layer has no cross-moments, and merges all the same."""
    parts = [chunk_moments(activations(60, seed), (2, 3), LAYERS) for seed in (0, 1)]
    found = merge(*parts)
    assert found.cross[3].shape == (WIDTH, 0)
    assert found.gram[3].shape == (WIDTH, WIDTH)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_activations_that_are_not_numbers_are_refused(bad):
    """The layer is named, and what to do."""
    inputs = activations(50)
    inputs[2][7, 3] = bad
    with pytest.raises(NumericsError, match=r"layer 2.*float32"):
        chunk_moments(inputs, SPLITS, LAYERS)


def test_moments_of_different_splits_do_not_merge():
    """Two captures with different configurations are refused, both named."""
    inputs = activations(50)
    with pytest.raises(ResultsError, match=r"\(1, 2\).*\(1,\)"):
        merge(chunk_moments(inputs, SPLITS, LAYERS), chunk_moments(inputs, (1,), LAYERS))


def test_moments_survive_their_file_bit_for_bit(tmp_path):
    """Every tensor, the splits and the row count come back as they were."""
    moments = reduce(merge, in_chunks(activations(300), [100] * 3))
    save_moments(tmp_path / "m.safetensors", moments, {"git_commit": "abc"})
    loaded = load_moments(tmp_path / "m.safetensors")
    assert (loaded.layers, loaded.splits, loaded.rows) == (moments.layers, moments.splits, moments.rows)
    for field in ("mean", "scatter", "gram", "cross"):
        stored, kept = getattr(loaded, field), getattr(moments, field)
        assert stored.keys() == kept.keys()
        assert all(torch.equal(stored[key], kept[key]) for key in kept)


def test_moments_of_fewer_tokens_share_the_file(tmp_path):
    """Each comes back as it was, the whole is what it is without them, and others are refused."""
    part, whole = (reduce(merge, in_chunks(activations(300), [100] * count)) for count in (1, 3))
    path = tmp_path / "m.safetensors"
    save_moments(path, whole, {}, {64: part})
    for tokens, expected in ((None, whole), (64, part)):
        loaded = load_moments(path, tokens)
        assert (loaded.splits, loaded.rows) == (expected.splits, expected.rows)
        assert loaded.gram.keys() == expected.gram.keys()
        assert all(torch.equal(loaded.cross[split], expected.cross[split]) for split in SPLITS)
    with pytest.raises(ResultsError, match="no moments of the first 65 tokens alone; capture again"):
        load_moments(path, 65)


def test_a_missing_or_damaged_moments_file_is_refused(tmp_path):
    """Absent, cut short or not a tensor file: one sentence that names it."""
    path = tmp_path / "m.safetensors"
    with pytest.raises(ResultsError, match=r"m\.safetensors"):
        load_moments(path)
    save_moments(path, chunk_moments(activations(300), SPLITS, LAYERS), {})
    for data in (path.read_bytes()[:-40], b"nonsense", b""):
        path.write_bytes(data)
        with pytest.raises(ResultsError, match=r"m\.safetensors.*capture again"):
            load_moments(path)
