"""Maps can be fitted for every family by the same call, and they are least squares on its block inputs."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from ridgefill.capture import capture
from ridgefill.errors import ConfigError
from ridgefill.fitting import fit_maps
from ridgefill.passes import run_exact

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "regression.py"))
# Ranks and limits of maps kept in fp32: a few roundings of the largest entry.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def documents(prompt):
    """Twelve documents of random tokens; 900 rows for states of up to 128 features."""
    return [prompt(75, seed=number) for number in range(12)]


def test_maps_of_every_family_are_least_squares_on_its_block_inputs(case, documents, prompt):
    """From the split state, of all streams where there are several, to what each late layer's block reads."""
    one = case()
    made = fit_maps(one.model, documents, split=one.split, lam=0.01, heldout=[prompt(64, seed=50)])
    kept = range(one.split, one.adapter.layers)
    passes = [run_exact(one.adapter, ids, keep=kept).inputs for ids in documents]
    states = torch.cat([inputs[one.split][0] for inputs in passes])
    # Moments are products in fp32, and solving amplifies their rounding by the condition of the penalised system.
    gram = torch.cov(states.double().T) * (len(states) - 1)
    penalised = gram + 0.01 * gram.trace() / len(gram) * torch.eye(len(gram), dtype=torch.float64)
    bound = torch.finfo(torch.float32).eps * float(torch.linalg.cond(penalised))
    for layer in kept:
        wanted = torch.cat([one.adapter.block_input(layer, inputs[layer])[0] for inputs in passes])
        weight, _ = NAIVE["ridge"](states, wanted, 0.01)
        assert made.maps.weights[layer].shape == (one.adapter.hidden, one.adapter.width)
        error = float((made.maps.weights[layer] - weight).abs().max()) / float(weight.abs().max())
        assert error <= bound
    assert 0.0 < made.fit["write_cosine"] <= 1.0
    made.check(one.model)


def test_a_chosen_lam_never_writes_worse_and_options_hold(case, documents, prompt):
    """On every family: per-layer penalties at least as good as one for all, low rank, and the identity where there
    is one.
    """
    one = case()
    words = {"split": one.split, "lam_grid": (0.001, 0.1), "heldout": [prompt(64, seed=50)]}
    shared, own = (fit_maps(one.model, documents, **words, lam_for=each) for each in ("split", "layer"))
    assert own.fit["write_cosine"] >= shared.fit["write_cosine"]
    low = fit_maps(one.model, documents, split=one.split, rank=4)
    assert torch.linalg.matrix_rank(low.maps.weights[one.adapter.layers - 1].double(), rtol=TOLERANCE) == 4
    low.check(one.model)
    if one.adapter.width == one.adapter.hidden:
        pulled = fit_maps(one.model, documents, split=one.split, lam=1e9, towards="identity")
        assert torch.allclose(pulled.maps.weights[one.split], torch.eye(one.adapter.hidden), atol=TOLERANCE)
    else:
        with pytest.raises(ConfigError, match="have no identity to shrink towards"):
            fit_maps(one.model, documents, split=one.split, towards="identity")


def test_a_split_below_the_familys_lowest_is_refused(case, documents):
    """1 for most; above the last layer that looks at tokens for one."""
    one = case()
    with pytest.raises(ConfigError, match=f"expected {one.adapter.first_split} to {one.adapter.layers - 1}"):
        fit_maps(one.model, documents, split=one.adapter.first_split - 1)


@pytest.fixture
def _no_collecting(monkeypatch):
    """A process full of other tests' objects takes half a second to collect them, at every halving."""
    monkeypatch.setattr("ridgefill.devices.gc", SimpleNamespace(collect=lambda: 0))


@pytest.mark.usefixtures("_no_collecting")
@pytest.mark.parametrize("most", [1, 9, 40])
def test_a_capture_that_does_not_fit_in_memory_runs_fewer_rows_at_a_time(case, documents, monkeypatch, most):
    """Every family over its cache: the same rows, means and products, each halving said once and then kept to."""
    one, said = case(), []
    pieces = [ids[0].tolist() for ids in documents[:3]]
    whole = capture(one.adapter, pieces, [one.split])
    stock = one.adapter.run_layer

    def small(layer, x, rows, cache):
        if x.shape[1] > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return stock(layer, x, rows, cache)

    monkeypatch.setattr(one.adapter, "run_layer", small)
    found = capture(one.adapter, pieces, [one.split], halved=said.append)
    at_once = 75
    for sentence in said:
        assert sentence.startswith(f"{at_once} rows did not fit in memory together and were run {(at_once + 1) // 2}")
        at_once = (at_once + 1) // 2
    assert at_once <= most < 2 * at_once + 1
    assert found.rows == whole.rows
    for part in ("mean", "scatter", "gram", "cross"):
        for layer, wanted in getattr(whole, part).items():
            error = (getattr(found, part)[layer] - wanted).abs().max() / wanted.abs().max()
            assert float(error) < TOLERANCE, (part, layer)


def test_a_row_that_does_not_fit_alone_is_the_errors_own(case, documents, monkeypatch):
    """Nothing is left to halve; the job says it in one sentence."""

    def full(layer, x, rows, cache):
        raise torch.OutOfMemoryError("CUDA out of memory")

    one = case()
    monkeypatch.setattr(one.adapter, "run_layer", full)
    with pytest.raises(torch.OutOfMemoryError):
        capture(one.adapter, [documents[0][0].tolist()], [one.split])
