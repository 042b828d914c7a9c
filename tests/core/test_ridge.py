"""Ridge maps equal least squares, layer by layer, and a fit without a unique answer is refused."""

import runpy
from functools import reduce
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.errors import NumericsError
from ridgefill.moments import chunk_moments, merge
from ridgefill.ridge import best_lam, factorise, residual_shares, solve

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "regression.py"))
WIDTH, LAYERS, SPLIT, ROWS = 8, 5, 2, 600


def activations(seed=0, rows=ROWS):
    """Layer inputs 2 to 4 that depend on each other, with offsets and unequal channels."""
    generator = torch.Generator().manual_seed(seed)
    scale = torch.logspace(-1, 1, WIDTH)
    inputs = {SPLIT: torch.randn(rows, WIDTH, generator=generator) * scale + 3.0}
    for layer in range(SPLIT + 1, LAYERS):
        mix = torch.randn(WIDTH, WIDTH, generator=generator)
        noise = torch.randn(rows, WIDTH, generator=generator)
        inputs[layer] = inputs[layer - 1] @ mix * 0.5 + noise - layer
    return inputs


def fitted(inputs):
    rows = inputs[SPLIT].shape[0]
    cuts = [slice(begin, begin + 100) for begin in range(0, rows, 100)]
    parts = [chunk_moments({layer: x[cut] for layer, x in inputs.items()}, (SPLIT,), LAYERS) for cut in cuts]
    return factorise(reduce(merge, parts), SPLIT)


def same(found, expected, tolerance=2e-6):
    """fp32 weights from fp32 products: a few roundings of the largest entry."""
    return float((found.double() - expected).abs().max()) <= tolerance * float(expected.abs().max())


@pytest.mark.parametrize("lam", [0.001, 0.03, 1.0])
def test_the_shared_factorisation_gives_every_layers_own_solution(lam):
    """One eigendecomposition for all layers and lams equals least squares solved per layer."""
    inputs = activations()
    maps = solve(fitted(inputs), lam)
    assert sorted(maps.weights) == sorted(maps.biases) == [2, 3, 4]
    for layer in range(SPLIT, LAYERS):
        weight, bias = NAIVE["ridge"](inputs[SPLIT], inputs[layer], lam)
        assert same(maps.weights[layer], weight)
        assert same(maps.biases[layer], bias)
        assert maps.weights[layer].dtype == maps.biases[layer].dtype == torch.float32


def test_predictions_are_the_least_squares_predictions():
    """``predict`` applies weight and offset to rows."""
    inputs = activations()
    maps = solve(fitted(inputs), 0.03)
    weight, bias = NAIVE["ridge"](inputs[SPLIT], inputs[4], 0.03)
    assert same(maps.predict(4, inputs[SPLIT][None])[0], inputs[SPLIT].double() @ weight.T + bias)


def test_the_split_layers_own_map_shrinks_towards_the_mean():
    """Its target is its input: nearly the identity for a small lam, and always symmetric."""
    factors = fitted(activations())
    weight = solve(factors, 1e-9).weights[SPLIT]
    assert same(weight, torch.eye(WIDTH, dtype=torch.float64), 1e-4)
    larger = solve(factors, 0.3).weights[SPLIT]
    assert same(larger, larger.T.double())
    assert sorted(solve(factors, 0.3, mapped_split_layer=False).weights) == [3, 4]


def test_the_offset_is_not_penalised():
    """Moving a target by a constant moves only its offset; an endless penalty leaves the mean."""
    inputs = activations()
    before = solve(fitted(inputs), 0.1)
    shift = torch.linspace(-50, 50, WIDTH)
    after = solve(fitted({**inputs, 3: inputs[3] + shift}), 0.1)
    assert same(after.weights[3], before.weights[3].double(), 1e-5)
    assert same(after.biases[3], before.biases[3].double() + shift, 1e-5)
    endless = solve(fitted(inputs), 1e12)
    assert float(endless.weights[4].abs().max()) < 1e-9
    assert same(endless.biases[4], inputs[4].double().mean(0))


def test_alpha_is_scale_free():
    """Ten times larger states with the same lam give a tenth of the weights."""
    inputs = activations()
    small = solve(fitted(inputs), 0.03).weights[4]
    large = solve(fitted({**inputs, SPLIT: inputs[SPLIT] * 10}), 0.03).weights[4]
    assert same(large * 10, small.double(), 1e-5)


@pytest.mark.parametrize("lam", [1e-6, 0.03, 1.0, 100.0])
def test_residual_shares_equal_the_residuals(lam):
    """The share from moments alone is the one computed from every row's residual."""
    inputs = activations()
    factors = fitted(inputs)
    maps, shares = solve(factors, lam), residual_shares(factors, lam)
    assert sorted(shares) == [3, 4]
    for layer, share in shares.items():
        direct = NAIVE["residual_share"](inputs[SPLIT], inputs[layer], maps.weights[layer], maps.biases[layer])
        assert share == pytest.approx(direct, abs=1e-6)
        assert 0.0 < share < 1.0


def test_the_condition_number_is_that_of_the_penalised_system():
    """Largest over smallest eigenvalue after alpha is added."""
    inputs = activations()
    factors = fitted(inputs)
    _, _, gram, _, _ = NAIVE["moments"](inputs[SPLIT], inputs[SPLIT])
    alpha = 0.03 * float(gram.trace()) / WIDTH
    assert factors.alpha(0.03) == pytest.approx(alpha, rel=1e-6)
    system = gram + alpha * torch.eye(WIDTH, dtype=torch.float64)
    assert factors.condition(0.03) == pytest.approx(float(torch.linalg.cond(system)), rel=1e-5)


@pytest.mark.parametrize("kind", ["copied channel", "sum of channels", "constant channel", "dead channel"])
def test_a_singular_gram_matrix_is_refused(kind):
    """A penalty would hide it; the eigenvalue is named, and what to do."""
    inputs = activations()
    x = inputs[SPLIT]
    x[:, 3] = {
        "copied channel": x[:, 5],
        "sum of channels": x[:, 1] + x[:, 2],
        "constant channel": torch.full((ROWS,), 7.25),
        "dead channel": torch.zeros(ROWS),
    }[kind]
    with pytest.raises(NumericsError, match="split 2 is singular: its smallest eigenvalue"):
        fitted(inputs)


def test_a_massive_channel_is_not_mistaken_for_a_singular_fit():
    """One channel 10,000 larger with a spread like the others leaves the fit as it was."""
    inputs = activations()
    plain = solve(fitted(inputs), 0.03)
    massive = {**inputs, SPLIT: inputs[SPLIT].clone()}
    massive[SPLIT][:, 4] += 1e4
    assert same(solve(fitted(massive), 0.03).weights[4], plain.weights[4].double(), 1e-3)


@pytest.mark.parametrize("rows", [1, WIDTH - 1, WIDTH])
def test_too_few_rows_are_refused(rows):
    """Fewer calibration rows than columns: both numbers are named."""
    with pytest.raises(NumericsError, match=f"{rows} rows for a map of width {WIDTH}.*capture.tokens"):
        fitted(activations(rows=rows))


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.5, 0.9]), st.sampled_from([0.01, 0.1, 1.0])), min_size=1))
def test_the_best_lam_has_the_highest_score_and_the_larger_penalty_on_ties(pairs):
    """Property: no pair beats the chosen one, in score and then in lam."""
    scores, lams = zip(*pairs, strict=True)
    chosen = best_lam(lams, scores)
    assert chosen == max(lam for score, lam in pairs if score == max(scores))
