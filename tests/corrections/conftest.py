"""Tiny models of every family, and the late layers of a prompt run with amendments, as a fill runs them."""

import runpy
from pathlib import Path

import pytest
import torch

from ridgefill.amend import Tail, run_amended
from ridgefill.maps import RidgeMaps
from ridgefill.models.wrap import adapter_for
from ridgefill.passes import run_exact

TESTS = Path(__file__).parents[1]
BUILT = runpy.run_path(str(TESTS / "families" / "builders.py"))
HYBRIDS = ("qwen3_5", "qwen3_next", "qwen4_exp")
# A recurrent layer above the split, whose rows are predicted, in every hybrid.
SPLITS = BUILT["SPLITS"] | {"qwen4_exp": 3}


def pytest_generate_tests(metafunc):
    named = [mark for mark in metafunc.definition.iter_markers("parametrize") if mark.args[0] == "family"]
    if "family" in metafunc.fixturenames and not named:
        metafunc.parametrize("family", BUILT["FAMILIES"])
    if "hybrid" in metafunc.fixturenames:
        metafunc.parametrize("hybrid", HYBRIDS, indirect=True)


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield


class Request:
    """One prompt's exact pass, and which of its rows are exact; the rest of the prefix is filled from dense maps."""

    def __init__(self, adapter, tokens, tail, chosen=(), split=3, dtype=torch.float32):
        self.adapter, self.split, self.tokens, self.prefix = adapter, split, tokens, tokens - tail
        self.maps = dense_maps(adapter, split)
        generator = torch.Generator().manual_seed(tokens)
        self.ids = torch.randint(0, BUILT["VOCABULARY"], (1, tokens), generator=generator)
        self.pass_ = run_exact(adapter, self.ids, keep=range(adapter.layers))
        self.state = self.pass_.inputs[split]
        self.exact = torch.tensor(sorted({*chosen, *range(self.prefix, tokens)}))
        self.filled = torch.tensor(sorted(set(range(tokens)) - set(self.exact.tolist())), dtype=torch.int64)

    def predict(self, layer, positions):
        """Predicted block inputs of rows."""
        return self.maps.predict(layer, self.state[:, positions])

    def truth(self, layer, positions):
        """True block inputs of rows: the oracle."""
        return self.adapter.block_input(layer, self.pass_.inputs[layer][:, positions])

    def run(self, amendments, *, predict=None, split_layer="exact", chunks=None, at_once=1024):
        """Late layers over a fill: (outputs of the exact rows, cache, what each layer measured).

        predict(layer, positions): block inputs of filled rows. chunks: ends of chunked prefill, the prompt's last
        token among them; layers are independent of each other's order, so each chunk passes through all of them.
        """
        predict, cache = predict or self.predict, self.pass_.cache.lower(self.split)
        outputs, notes, begin = [], {}, 0
        for end in chunks or [self.tokens]:
            out = self._chunk(amendments, predict, split_layer, cache, notes, begin, end, at_once)
            outputs.append(out)
            begin = end
        return torch.cat(outputs, dim=1), cache, notes

    def _chunk(self, amendments, predict, split_layer, cache, notes, begin, end, at_once):
        adapter = self.adapter
        exact, filled = (part[(part >= begin) & (part < end)] for part in (self.exact, self.filled))
        before = int((exact < self.prefix).sum())
        rows = [adapter.rows(part) for part in exact.split(at_once)] if exact.numel() else []
        first_exact = int(self.exact[self.exact >= begin][0])
        x = self.state[:, exact]
        for layer in range(self.split, adapter.layers):
            true_input = layer == self.split and split_layer == "exact"
            take = self.truth if true_input else predict
            needed = filled[filled >= adapter.first_needed(layer, first_exact)]
            written = adapter.rows(needed, attend=False) if needed.numel() else None
            predicted = take(layer, needed) if written is not None else None
            tail = Tail(
                before,
                int(exact.numel()) - before,
                None if true_input else lambda count, layer=layer: self.predict(layer, exact[before : before + count]),
                adapter.width * adapter.hidden,
                self._earlier(layer, begin, end),
            )
            carried = notes[layer].carried if layer in notes else None
            done = run_amended(amendments, adapter, layer, x, rows, predicted, written, cache, tail, carried)
            x, notes[layer] = done.x, done
        return x

    def _earlier(self, layer, begin, end):
        """Filled rows of the chunks before, in the first one with tail rows."""
        if begin == 0 or begin > self.prefix or end <= self.prefix:
            return None
        rows = self.filled[self.filled < begin]
        return rows[rows >= self.adapter.first_needed(layer, int(self.exact[0]))]


def dense_maps(adapter, split):
    """Maps with offsets, far from the identity, a little larger than it."""
    generator = torch.Generator().manual_seed(split)
    late = range(split, adapter.layers)
    return RidgeMaps(
        split,
        {
            layer: torch.randn(adapter.hidden, adapter.width, generator=generator) * 1.5 * adapter.width**-0.5
            for layer in late
        },
        {layer: torch.randn(adapter.hidden, generator=generator) * 0.1 for layer in late},
    ).to(adapter.dtype, adapter.device)


@pytest.fixture
def request_of():
    """``request_of(family, tokens, tail, chosen)``: a ``Request`` at the family's split."""

    def make(family, tokens, tail=20, chosen=(), split=None, dtype=torch.float32):
        adapter = adapter_for(BUILT["FAMILIES"][family](dtype))
        return Request(adapter, tokens, tail, chosen, split or SPLITS.get(family, 3))

    return make


@pytest.fixture
def hybrid(request, request_of):
    """``hybrid(tokens, tail, chosen, split)`` of a family with recurrent layers."""
    return lambda *args, **kwargs: request_of(request.param, *args, **kwargs)


@pytest.fixture(scope="session")
def error():
    """``error(found, expected)``: largest difference in units of the largest expected value."""

    def measure(found, expected):
        scale = float(expected.double().abs().max())
        return float((found.double() - expected.double()).abs().max()) / scale

    return measure


@pytest.fixture(scope="session")
def kept():
    """``kept(adapter, cache, layer)``: all that a layer keeps, by name."""

    def read(adapter, cache, layer):
        state = cache.states[layer]
        if state is not None:
            return {"window": state.conv_states[0], "state": state.recurrent_states[0]}
        named = {"key": cache.keys[layer], "value": cache.values[layer], "indexed": cache.indexed[layer]}
        return {name: value for name, value in named.items() if value is not None}

    return read
