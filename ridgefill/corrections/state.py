"""Terminal-state correction (paper section 2.3): a fitted offset, added once to each late recurrent state.

Under chunked prefill every chunk ends as if the prefix ended there, so what was added is taken back before the next
chunk of the prefix is scanned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from ridgefill.corrections.scan import Scanned, recurrent_layers, state_of
from ridgefill.corrections.share import Share
from ridgefill.errors import MapError
from ridgefill.models.base import Adapter
from ridgefill.models.cache import RowCache


@dataclass(frozen=True)
class Carried:
    """One layer at the end of a chunk: the weights so far, and the state as the scan left it, without correction."""

    share: Share
    own: Tensor


@dataclass(frozen=True)
class StateCorrection:
    """deltas: layer -> fp32 ``[value_heads, key_dim, value_dim]``, the order in which states are kept."""

    deltas: Mapping[int, Tensor]

    def require(self, adapter: Adapter, split: int) -> None:
        """Raise ``ConfigError`` for a model without late recurrent layers, ``MapError`` for deltas of another model.

        The split layer needs no delta: unless it is mapped, its state is exact.
        """
        late = recurrent_layers(adapter, split, "a terminal-state correction")
        given, needed = set(self.deltas), {layer for layer in late if layer > split}
        if odd := sorted((needed - given) | (given - set(late))):
            raise MapError(
                f"the state correction has missing or extra layers {', '.join(map(str, odd))}; expected the recurrent "
                f"layers {', '.join(map(str, late))}. Use a correction fitted for this model and split"
            )
        expected = state_shape(adapter)
        for layer, delta in sorted(self.deltas.items()):
            if tuple(delta.shape) != expected:
                raise MapError(
                    f"the state correction of layer {layer} has shape {list(delta.shape)}; expected {list(expected)} "
                    "(value heads, key, value width). Use a correction fitted for this model"
                )

    def add(self, layer: int, scanned: Scanned, cache: RowCache, before: Carried | None = None) -> Carried:
        """Add ``rho`` times the layer's delta to its state in place, after the prefix rows ``scanned``.

        before: of the chunk before, whose addition must have been taken back (``take_back``) ahead of the scan.
        """
        state = state_of(cache, layer)
        share = Share.empty(int(state.shape[1]), state.device) if before is None else before.share
        share = share.after(scanned.decay.to(state.device), scanned.is_filled.to(state.device))
        own = state.clone()
        state += (share.rho[:, None, None] * self.deltas[layer].to(state.device)).to(state.dtype)
        return Carried(share, own)


def take_back(layer: int, cache: RowCache, before: Carried) -> None:
    """Undo what ``StateCorrection.add`` added at the end of a chunk, to the bit, before the next one is scanned."""
    state_of(cache, layer).copy_(before.own)


def state_shape(adapter: Adapter) -> tuple[int, int, int]:
    """Value heads, key and value width of a hybrid's recurrent states."""
    names = ("linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim")
    heads, key, value = (int(str(adapter.fingerprint[name])) for name in names)
    return heads, key, value
