"""Splices (METHOD section 4): parts of what filled rows left, replaced by what the exact pass has in their place.

Keys and values go in all filled attention layers at once, states in all late recurrent layers: there the filled rows'
true inputs feed the scan. The exact pass's keys are rotated at the rows' own positions already. A sparse layer's raw
indexer keys go with its keys.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from ridgefill.corrections.scan import recurrent_layers
from ridgefill.errors import ConfigError, NumericsError
from ridgefill.models.base import LINEAR, Adapter
from ridgefill.models.cache import RowCache, RowIndex, beside
from ridgefill.passes import ExactPass

Part = Literal["keys", "values", "states"]
PARTS: tuple[Part, ...] = ("keys", "values", "states")
_STORES = {"keys": ("keys", "indexed"), "values": ("values",)}
"""What of a cache belongs to a part; rows are the last axis but one of each."""


@dataclass(frozen=True)
class Splice:
    """parts: what is replaced. exact: the prompt's exact pass; for states it keeps inputs of late recurrent layers."""

    parts: frozenset[Part]
    exact: ExactPass

    def __post_init__(self) -> None:
        if odd := sorted(set(self.parts) - set(PARTS)):
            raise ConfigError(f"a splice of {', '.join(odd)} was asked for; expected some of {', '.join(PARTS)}")

    def require(self, adapter: Adapter, split: int) -> None:
        """Raise ``ConfigError`` for a part that no layer from ``split`` on has, or whose exact inputs were not kept."""
        if self.parts & {"keys", "values"} and all(kind == LINEAR for kind in adapter.kinds[split:]):
            raise ConfigError(
                f"a splice of keys or values needs an attention layer from split {split} on, and there is none; take "
                "a lower split or splice the states"
            )
        if "states" in self.parts:
            lost = set(recurrent_layers(adapter, split, "a splice of states")) - set(self.exact.inputs)
            if lost:
                raise ConfigError(
                    f"the exact pass kept no inputs of layers {', '.join(map(str, sorted(lost)))}, which a splice of "
                    "states needs; run it with these layers in keep"
                )

    def replace_rows(self, cache: RowCache, layer: int, rows: RowIndex) -> None:
        """Overwrite the spliced parts of an attention layer at ``rows``, in place."""
        for mine, theirs in _stores(self.parts, cache, self.exact.cache):
            if theirs[layer] is None or mine[layer] is None:
                continue
            index = (..., beside(rows, mine[layer].device), slice(None))
            mine[layer][index] = theirs[layer][index]

    def true_input(self, adapter: Adapter, layer: int, positions: Tensor) -> Tensor:
        """True block inputs ``[1, R, hidden]`` of rows of a recurrent layer, to feed it in place of predicted ones.

        State and convolution window are then what true inputs of filled rows leave, wherever an exact row reads them.
        """
        return adapter.block_input(layer, self.exact.inputs[layer][:, positions])


def spliced(adapter: Adapter, cache: RowCache, filled: Tensor, split: int, splice: Splice) -> RowCache:
    """A cache like ``cache``, of a prompt that has been prefilled, with the splice's parts of late layers replaced.

    filled: int64 ``[F]``, its filled rows, ascending; those that were never written stay so. Layers that change are
    copied, the others shared. States are those after the last row. What exact rows computed from the filled rows is
    left as it is: to have them read the splice, run them with it (``ridgefill.amend``). Raises ``ConfigError`` as
    ``Splice.require`` does.
    """
    splice.require(adapter, split)
    made = cache.lower(len(cache.keys))
    made.start = list(cache.start)
    for layer in range(split, adapter.layers):
        if adapter.kinds[layer] != LINEAR:
            for mine, _ in _stores(splice.parts, made, splice.exact.cache):
                mine[layer] = None if mine[layer] is None else mine[layer].clone()
            splice.replace_rows(made, layer, _written(cache, layer, filled))
        elif "states" in splice.parts:
            made.states[layer] = copy.deepcopy(splice.exact.cache.states[layer])
    return made


def _written(cache: RowCache, layer: int, rows: Tensor) -> Tensor:
    """Those of ``rows`` that hold something in ``layer``: buffers start as NaN."""
    values = cache.values[layer]
    if values is None:
        raise NumericsError(f"layer {layer} of the cache was spliced before any row was written to it")
    return rows[~values[0, :, rows.to(values.device)].isnan().any(dim=0).any(dim=-1).to(rows.device)]


def _stores(parts: frozenset[Part], mine: RowCache, theirs: RowCache) -> list[tuple[list[Any], list[Any]]]:
    names = [name for part in sorted(parts) for name in _STORES.get(part, ())]
    return [(getattr(mine, name), getattr(theirs, name)) for name in names]
