"""Every family's tiny model behind one fixture; a test that asks for ``family`` runs once for each, or
for those it names.
"""

import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from ridgefill.cost import Geometry
from ridgefill.models.base import LINEAR, Adapter
from ridgefill.models.wrap import adapter_for
from ridgefill.rows import RowPlan

BUILT = runpy.run_path(str(Path(__file__).with_name("builders.py")))
TAIL = 20


def pytest_generate_tests(metafunc):
    named = [mark for mark in metafunc.definition.iter_markers("parametrize") if mark.args[0] == "family"]
    if "family" in metafunc.fixturenames and not named:
        metafunc.parametrize("family", BUILT["FAMILIES"])


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield


@dataclass(frozen=True)
class Case:
    """One family's stock model, its adapter, and the split its tests use."""

    family: str
    model: Any
    adapter: Adapter
    split: int

    @property
    def geometry(self):
        """For plans, which count work only to match it; recurrent layers are counted as attention here."""
        return Geometry(layers=self.adapter.layers, hidden=32, q=32, kv=16, ff=64)


@pytest.fixture
def case(family):
    """``case(dtype)``: the family's ``Case``."""

    def make(dtype=torch.float32):
        model = BUILT["FAMILIES"][family](dtype)
        return Case(family, model, adapter_for(model), BUILT["SPLITS"].get(family, 3))

    return make


@pytest.fixture(scope="session")
def prompt():
    """``prompt(tokens, seed)``: random token ids ``[1, tokens]``."""

    def make(tokens, seed=0):
        generator = torch.Generator().manual_seed(1000 * seed + tokens)
        return torch.randint(0, BUILT["VOCABULARY"], (1, tokens), generator=generator)

    return make


@pytest.fixture(scope="session")
def plan():
    """``plan(tokens, exact)``: a plan with those exact rows, everything else filled."""

    def make(tokens, exact):
        filled = sorted(set(range(tokens)) - set(exact))
        return RowPlan(torch.tensor(filled, dtype=torch.int64), torch.tensor(sorted(exact)), TAIL, 0, ())

    return make


@pytest.fixture(scope="session")
def stored():
    """``stored(adapter, cache, layer, begin, stop)``: all that a layer keeps of those rows, by name."""

    def read(adapter, cache, layer, begin, stop):
        if adapter.kinds[layer] == LINEAR:
            return _states(cache.state(layer))
        key, value = cache.visible(layer, begin, stop)
        found = {"key": key, "value": value}
        if cache.indexed[layer] is not None:
            found["indexed"] = cache.indexed[layer][:, begin:stop]
        return found

    return read


@pytest.fixture(scope="session")
def stored_by_stock(stored):
    """``stored_by_stock(adapter, cache, kept, layer, tokens)``: pairs (ours, stock's) of all that stock kept."""

    def pairs(adapter, cache, kept, layer, tokens):
        if adapter.kinds[layer] == LINEAR:
            theirs, begin = _states(kept), 0
        else:
            theirs = {"key": kept.keys, "value": kept.values}
            begin = tokens - kept.keys.shape[-2]
        ours = stored(adapter, cache, layer, begin, tokens)
        return {name: (ours[name], value) for name, value in theirs.items()}

    return pairs


def _states(layer):
    """States of a recurrent layer by name, those it has."""
    found = {}
    for kind in ("conv", "recurrent"):
        for number, ready in getattr(layer, f"is_{kind}_states_initialized").items():
            if ready:
                found[f"{kind}{number}"] = getattr(layer, f"{kind}_states")[number]
    return found


@pytest.fixture(scope="session")
def error():
    """``error(found, expected)``: largest difference in units of the largest expected value."""

    def measure(found, expected):
        scale = float(expected.double().abs().max())
        return float((found.double() - expected.double()).abs().max()) / scale

    return measure
