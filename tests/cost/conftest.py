"""Tiny models of every family with their sizes, and a counter of what a pass multiplies."""

import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.flop_counter import FlopCounterMode

from ridgefill.cost import Geometry, geometry_of
from ridgefill.maps import RidgeMaps
from ridgefill.models.base import Adapter
from ridgefill.models.llama_swiftkv import LlamaSwiftKVAdapter
from ridgefill.models.sizes import sizes_of
from ridgefill.models.swiftkv import load_swiftkv
from ridgefill.models.wrap import adapter_for
from ridgefill.ridge_options import LowRankMaps

FOLDER = Path(__file__).parents[1] / "families"
BUILT = runpy.run_path(str(FOLDER / "builders.py"))
SWIFTKV = runpy.run_path(str(FOLDER / "swiftkv_checkpoint.py"))


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield


@dataclass(frozen=True)
class Case:
    """A tiny model: adapter, split of its tests, the transformers configuration it was made from."""

    adapter: Adapter
    split: int
    config: Any
    family: str

    @property
    def geometry(self) -> Geometry:
        """Counted from what the configuration states."""
        return geometry_of(sizes_of(self.config), self.family)


@pytest.fixture(scope="session")
def case(tmp_path_factory):
    """``case(family)``; for ``llama_swiftkv`` also with a suffix, whose late layers exact rows run."""

    def make(family):
        if family.startswith("llama_swiftkv"):
            folder = tmp_path_factory.mktemp("swiftkv") / "checkpoint"
            model = load_swiftkv(SWIFTKV["write"](folder, SWIFTKV["random_weights"](1)), torch.float32)
            adapter = LlamaSwiftKVAdapter(model, exact_rows=family.partition(":")[2])
            return Case(adapter, SWIFTKV["SPLIT"], model.config, "llama_swiftkv")
        model = BUILT["FAMILIES"][family](torch.float32)
        return Case(adapter_for(model), BUILT["SPLITS"].get(family, 3), model.config, family)

    return make


@pytest.fixture(scope="session")
def prompt():
    """``prompt(tokens)``: random token ids ``[1, tokens]``."""

    def make(tokens):
        return torch.randint(0, BUILT["VOCABULARY"], (1, tokens), generator=torch.Generator().manual_seed(tokens))

    return make


@pytest.fixture(scope="session")
def maps():
    """``maps(adapter, split, rank=None)``: random ones of full rank, or kept as two factors."""

    def make(adapter, split, rank=None):
        late, generator = range(split, adapter.layers), torch.Generator().manual_seed(split)

        def drawn(*shape):
            return {layer: torch.randn(shape, generator=generator) * shape[-1] ** -0.5 for layer in late}

        offsets = drawn(adapter.hidden)
        if rank is None:
            return RidgeMaps(split, drawn(adapter.hidden, adapter.width), offsets)
        return LowRankMaps(split, drawn(adapter.hidden, rank), drawn(rank, adapter.width), offsets)

    return make


@pytest.fixture
def count(monkeypatch):
    """``count(action)``: multiply-accumulates of all matrix products, convolutions and solves that it runs.

    Attention is counted over the pairs that its mask shows, as kernels may skip the others. What grouped products and
    triangular solves multiply, torch's own counter does not know.
    """
    formulas = {
        torch.ops.aten.linalg_solve_triangular: _solve,
        torch.ops.aten._grouped_mm: _grouped,
        torch.ops.transformers.grouped_mm_fallback: _grouped,
    }

    def run(action):
        pairs = []
        stock = functional.scaled_dot_product_attention

        def attend(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **options):
            batch, heads, rows, width = query.shape
            mask = torch.ones(rows, key.shape[2], dtype=torch.bool) if attn_mask is None else attn_mask
            assert mask.dtype == torch.bool
            if is_causal:
                assert attn_mask is None
                assert rows == key.shape[2]
                mask = mask.tril()
            shown = int(mask.expand(batch, 1, rows, -1).sum())
            pairs.append(shown * heads * (width + value.shape[-1]))
            with _disable_current_modes():
                return stock(query, key, value, attn_mask, dropout_p, is_causal, **options)

        with monkeypatch.context() as patched, FlopCounterMode(display=False, custom_mapping=formulas) as counter:
            patched.setattr(functional, "scaled_dot_product_attention", attend)
            action()
        return counter.get_total_flops() // 2 + sum(pairs)

    return run


def _solve(matrix, right, *_, out_shape=None, **__):
    """Forward substitution by a unit triangle: every entry below it meets every column once; twice that, as flops."""
    size, columns = right[-2:]
    systems = torch.Size(right[:-2]).numel()
    return 2 * systems * columns * size * (size - 1) // 2


def _grouped(rows, weights, *_, out_shape=None, **__):
    """Each row meets one of the matrices ``[E, in, out]``; twice that, as flops."""
    return 2 * rows[0] * weights[-2] * weights[-1]
