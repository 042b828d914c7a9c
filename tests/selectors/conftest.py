"""Every family's tiny model, and the slow references."""

import functools
import runpy
from pathlib import Path

import pytest
import torch

from ridgefill.maps import RidgeMaps
from ridgefill.models.wrap import adapter_for
from ridgefill.passes import LowerPass, selector_layers

TESTS = Path(__file__).parents[1]
BUILT = runpy.run_path(str(TESTS / "families" / "builders.py"))


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield


@functools.cache
def adapter_of(family, dtype=torch.float32):
    """The adapter of a family's tiny model."""
    return adapter_for(BUILT["FAMILIES"][family](dtype))


@pytest.fixture(scope="session")
def adapters():
    """``adapters(family)``, the same object every time."""
    return adapter_of


@pytest.fixture(scope="session")
def split():
    """``split(family)``: split of a family's tests."""
    return lambda family: BUILT["SPLITS"].get(family, 3)


@pytest.fixture(scope="session")
def prompt():
    """``prompt(tokens, seed)``: random token ids ``[1, tokens]`` of the tiny models."""

    def make(tokens, seed=0):
        generator = torch.Generator().manual_seed(1000 * seed + tokens)
        return torch.randint(0, BUILT["VOCABULARY"], (1, tokens), generator=generator)

    return make


@pytest.fixture(scope="session")
def random_maps():
    """``random_maps(adapter, split)``: dense maps with offsets, far from the identity."""

    def make(adapter, split):
        generator = torch.Generator().manual_seed(split)
        late, shape = range(split, adapter.layers), (adapter.hidden, adapter.width)
        return RidgeMaps(
            split,
            {layer: torch.randn(shape, generator=generator) * shape[1] ** -0.5 for layer in late},
            {layer: torch.randn(shape[0], generator=generator) * 0.1 for layer in late},
        )

    return make


@pytest.fixture(scope="session")
def in_chunks():
    """``in_chunks(adapter, ids, split, step, window=64)``: the lower pass, ``step`` rows at a time."""

    def run(adapter, ids, split, step, window=64):
        tokens = ids.shape[1]
        cache, states = adapter.new_cache(tokens), []
        kept = {layer: [] for layer in selector_layers(adapter) if layer < split}
        for positions in torch.arange(tokens).split(step):
            part = ids[:, positions]
            rows, x = adapter.rows(positions, ids=part), adapter.embed(part)
            for layer in range(split):
                if layer in kept:
                    kept[layer].append(x)
                x = adapter.run_layer(layer, x, rows, cache)
            states.append(x)
        span = (max(0, tokens - window), tokens)
        inputs = {layer: torch.cat(parts, 1)[:, slice(*span)] for layer, parts in kept.items()}
        return LowerPass(split, tokens, cache, torch.cat(states, 1), span, inputs, 0.0)

    return run


@pytest.fixture(scope="session")
def error():
    """``error(found, expected)``: largest difference in units of the largest expected value."""

    def measure(found, expected):
        found, expected = torch.as_tensor(found).double(), torch.as_tensor(expected).double()
        return float((found - expected).abs().max() / expected.abs().max())

    return measure
