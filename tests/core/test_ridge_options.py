"""Maps towards the identity and of low rank equal least squares on extended rows, layer by layer."""

import dataclasses
import runpy
from functools import reduce
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgefill.errors import ConfigError
from ridgefill.maps import RidgeMaps
from ridgefill.moments import chunk_moments, merge
from ridgefill.ridge import factorise, solve
from ridgefill.ridge_options import LowRankMaps, RidgeOptions, pick, solve_with

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "regression.py"))
WIDTH, LAYERS, SPLIT, ROWS = 8, 5, 2, 400
LATE = range(SPLIT, LAYERS)
IDENTITY = RidgeOptions("identity")
# fp32 weights from fp32 products: a few roundings of the largest entry.
TOLERANCE = 1e-5


def activations(seed=0):
    """Layer inputs 2 to 4 as a residual network has them: each adds something to the one before."""
    generator = torch.Generator().manual_seed(seed)
    scale = torch.logspace(-0.5, 0.5, WIDTH)
    inputs = {SPLIT: torch.randn(ROWS, WIDTH, generator=generator) * scale + 3.0}
    for layer in range(SPLIT + 1, LAYERS):
        mix = torch.randn(WIDTH, WIDTH, generator=generator) * 0.4
        noise = torch.randn(ROWS, WIDTH, generator=generator)
        inputs[layer] = inputs[layer - 1] + torch.tanh(inputs[layer - 1] @ mix) + noise - layer
    return inputs


def fitted(inputs):
    cuts = [slice(begin, begin + 100) for begin in range(0, ROWS, 100)]
    parts = [chunk_moments({layer: x[cut] for layer, x in inputs.items()}, (SPLIT,), LAYERS) for cut in cuts]
    return factorise(reduce(merge, parts), SPLIT)


def wide(seed=0):
    """States of twice the width of what is predicted, as hyper-connections have them, and their moments."""
    inputs = activations(seed)
    state = torch.cat([inputs[SPLIT], torch.tanh(inputs[SPLIT].roll(1, 1)) + 0.1 * inputs[4]], 1)
    return state, inputs, factorise(chunk_moments(inputs, (SPLIT,), LAYERS, {SPLIT: state}), SPLIT)


def same(found, expected, size=None):
    """Equal but for rounding of numbers of ``size`` (the largest entry, unless given)."""
    size = float(expected.abs().max()) if size is None else size
    return float((found.double() - expected).abs().max()) <= TOLERANCE * size


@pytest.mark.parametrize("lam", [0.0, 0.001, 0.03, 1.0, 100.0])
def test_towards_the_identity_is_least_squares_with_the_identity_for_more_rows(lam):
    """Every layer's weight and unpenalised offset, the split layer's own map included."""
    inputs = activations()
    maps = solve_with(fitted(inputs), lam, IDENTITY)
    assert sorted(maps.weights) == sorted(maps.biases) == [*LATE]
    for layer in LATE:
        weight, bias = NAIVE["towards_identity"](inputs[SPLIT], inputs[layer], lam)
        assert same(maps.weights[layer], weight)
        # The split layer's own offset is a difference of means that cancels.
        assert same(maps.biases[layer], bias, size=float(inputs[layer].mean(0).abs().max()))
        assert maps.weights[layer].dtype == maps.biases[layer].dtype == torch.float32


def test_without_a_penalty_both_targets_are_least_squares():
    """At lam 0 nothing pulls anywhere."""
    factors = fitted(activations())
    plain, pulled = solve(factors, 0.0), solve_with(factors, 0.0, IDENTITY)
    for layer in LATE:
        assert same(pulled.weights[layer], plain.weights[layer].double())


def test_an_endless_penalty_leaves_the_identity_and_the_mean_difference():
    """A = I, and the offset is what layers add on average."""
    inputs = activations()
    maps = solve_with(fitted(inputs), 1e12, IDENTITY)
    for layer in LATE:
        assert same(maps.weights[layer], torch.eye(WIDTH, dtype=torch.float64))
        added = (inputs[layer].double() - inputs[SPLIT].double()).mean(0)
        assert same(maps.biases[layer], added, size=float(inputs[layer].mean(0).abs().max()))


def test_the_split_layers_own_map_towards_the_identity_is_the_identity():
    """Its target is its input, whatever the penalty."""
    maps = solve_with(fitted(activations()), 0.3, IDENTITY)
    assert same(maps.weights[SPLIT], torch.eye(WIDTH, dtype=torch.float64))


@pytest.mark.parametrize("identity", [False, True])
@pytest.mark.parametrize("rank", [1, 3, WIDTH - 1, WIDTH])
@pytest.mark.parametrize("lam", [0.0, 0.03, 1.0])
def test_low_rank_maps_are_the_truncated_fit_on_whitened_rows(lam, rank, identity):
    """Weights multiplied out equal an explicit QR and SVD of the rows themselves."""
    inputs = activations()
    maps = solve_with(fitted(inputs), lam, RidgeOptions("identity" if identity else "zero", rank))
    for layer in LATE[1:]:
        weight, bias = NAIVE["reduced_rank"](inputs[SPLIT], inputs[layer], lam, rank, identity)
        assert same(maps.weights[layer], weight)
        assert same(maps.biases[layer], bias)
        assert maps.left[layer].shape == (WIDTH, rank)
        assert maps.right[layer].shape == (rank, WIDTH)


@pytest.mark.parametrize("towards", ["zero", "identity"])
def test_full_rank_is_the_full_map(towards):
    """Rank d takes nothing away."""
    factors = fitted(activations())
    full, low = (solve_with(factors, 0.03, RidgeOptions(towards, rank)) for rank in (None, WIDTH))
    for layer in LATE:
        assert same(low.weights[layer], full.weights[layer].double())
        assert same(low.biases[layer], full.biases[layer].double())


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), st.sampled_from([0.001, 0.1, 1.0]), st.sampled_from(["zero", "identity"]))
def test_the_error_falls_with_the_rank_and_no_other_map_of_that_rank_is_better(seed, lam, towards):
    """Property: the penalised error never rises with k, equals the optimum, and a nudged map of rank k does worse."""
    inputs = activations(seed)
    x, y, identity = inputs[SPLIT], inputs[4], towards == "identity"
    factors, errors = fitted(inputs), []
    for rank in range(1, WIDTH + 1):
        maps = solve_with(factors, lam, RidgeOptions(towards, rank))
        errors.append(NAIVE["penalised_error"](x, y, lam, maps.weights[4], identity))
        best, _ = NAIVE["reduced_rank"](x, y, lam, rank, identity)
        assert errors[-1] == pytest.approx(NAIVE["penalised_error"](x, y, lam, best, identity), rel=TOLERANCE)
        nudge = torch.randn(maps.right[4].shape, generator=torch.Generator().manual_seed(seed)) * 0.01
        other = dataclasses.replace(maps, right={**maps.right, 4: maps.right[4] + nudge})
        assert NAIVE["penalised_error"](x, y, lam, other.weights[4], identity) > errors[-1]
    assert all(fewer <= more * (1 + TOLERANCE) for more, fewer in pairwise(errors))
    assert errors[-1] < errors[0]


@pytest.mark.parametrize("options", [RidgeOptions("zero", 3), RidgeOptions("identity", 3)])
def test_factors_predict_what_the_multiplied_out_map_predicts(options):
    """Two thin products instead of one square one; ``to`` keeps them factors."""
    inputs = activations()
    maps = solve_with(fitted(inputs), 0.03, options)
    dense = RidgeMaps(SPLIT, maps.weights, maps.biases)
    moved = maps.to(torch.float64, torch.device("cpu"))
    for layer in LATE:
        assert same(maps.predict(layer, inputs[SPLIT][None]), dense.predict(layer, inputs[SPLIT][None]).double())
        assert same(moved.predict(layer, inputs[SPLIT].double()), maps.predict(layer, inputs[SPLIT]).double())
    assert isinstance(moved, LowRankMaps)
    assert moved.left[4].dtype == moved.right[4].dtype == moved.biases[4].dtype == torch.float64


def test_a_wide_state_has_low_rank_maps_and_no_identity():
    """Four streams in, one out: reduced rank is the same problem, the identity is none."""
    state, inputs, factors = wide()
    maps = solve_with(factors, 0.03, RidgeOptions("zero", 3))
    for layer in LATE:
        weight, bias = NAIVE["reduced_rank"](state, inputs[layer], 0.03, 3)
        assert maps.weights[layer].shape == (WIDTH, 2 * WIDTH)
        assert same(maps.weights[layer], weight)
        assert same(maps.biases[layer], bias)
    with pytest.raises(ConfigError, match="from 16 to 8 features have no identity"):
        solve_with(factors, 0.03, IDENTITY)


def test_without_options_the_maps_are_those_of_the_paper_bit_for_bit():
    """The workflow's own solution is what runs."""
    factors = fitted(activations())
    plain, found = solve(factors, 0.03), solve_with(factors, 0.03)
    assert all(torch.equal(plain.weights[layer], found.weights[layer]) for layer in LATE)
    assert all(torch.equal(plain.biases[layer], found.biases[layer]) for layer in LATE)


@pytest.mark.parametrize("more", [{"lam_for": "layer"}, {"tokens": 200}, {"lam_for": "layer", "tokens": 200}])
@pytest.mark.parametrize("options", [RidgeOptions(), RidgeOptions("identity"), RidgeOptions("identity", 3)])
def test_who_chooses_lam_and_how_many_tokens_change_nothing_for_given_moments_and_lam(options, more):
    """They decide what is solved, not how: the same moments and penalty give the same maps, bit for bit."""
    factors = fitted(activations())
    found, plain = (solve_with(factors, 0.03, one) for one in (dataclasses.replace(options, **more), options))
    for layer in LATE:
        assert torch.equal(found.weights[layer], plain.weights[layer])
        assert torch.equal(found.biases[layer], plain.biases[layer])


@pytest.mark.parametrize("options", [RidgeOptions(), RidgeOptions("identity"), RidgeOptions("zero", 2)])
def test_every_layer_can_have_its_own_lam(options):
    """Layers are solved alone, so picking them is picking tensors."""
    factors = fitted(activations())
    solved = {lam: solve_with(factors, lam, options) for lam in (0.01, 1.0)}
    mixed = pick(solved, {2: 0.01, 3: 1.0, 4: 0.01})
    assert type(mixed) is type(solved[0.01])
    for layer, lam in {2: 0.01, 3: 1.0, 4: 0.01}.items():
        assert torch.equal(mixed.weights[layer], solved[lam].weights[layer])
        assert torch.equal(mixed.biases[layer], solved[lam].biases[layer])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (RidgeOptions("one"), "towards is 'one'; expected 'zero' or 'identity'"),
        (RidgeOptions("zero", 0), "rank is 0; expected 1 to 8"),
        (RidgeOptions("identity", WIDTH + 1), "rank is 9; expected 1 to 8"),
    ],
)
def test_options_that_cannot_be_are_refused(options, message):
    """One sentence with what was found and expected."""
    with pytest.raises(ConfigError, match=message):
        solve_with(fitted(activations()), 0.03, options)
