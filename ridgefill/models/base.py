"""The interface every architecture family implements: embed, run a layer on some rows, write filled rows."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from ridgefill.errors import ConfigError
from ridgefill.models.cache import RowCache, RowIndex, RowView, beside
from ridgefill.models.kva import KVA_FILE, KvaHeads
from ridgefill.models.visible import VisibleKeys

LINEAR = "linear_attention"
"""Kind of a recurrent layer, as transformers names it; every other kind keeps keys and values by position."""


@dataclass(frozen=True)
class Rows:
    """Which rows a layer computes and what they may look at; the same value serves every layer of a pass.

    positions: int64 ``[R]``, ascending. index: where they are written. stop: keys end before this position.
    By kind of layer: ``rotary``, cosine and sine, each ``[1, R, head_dim]``; ``begin``, the first position that
    keys start from; ``mask``, boolean ``[1 or B, 1, R, stop - begin]``, True = visible, None for plain causal
    attention among the rows themselves (or a single new row that sees everything). ids: token ids ``[B, R]`` for
    layers that look at tokens, None where the layers about to run do not.
    """

    positions: Tensor
    index: RowIndex
    stop: int
    rotary: Mapping[str, tuple[Tensor, Tensor]]
    begin: Mapping[str, int]
    mask: Mapping[str, Tensor | None]
    ids: Tensor | None = None
    _elsewhere: dict[torch.device, Rows] = field(default_factory=dict, init=False, repr=False, compare=False)

    def on(self, device: torch.device) -> Rows:
        """The same rows with all their tensors on ``device``, copied there once however many layers ask."""
        if self.positions.device == device:
            return self
        if device not in self._elsewhere:
            self._elsewhere[device] = replace(
                self,
                positions=self.positions.to(device),
                index=beside(self.index, device),
                rotary={kind: (cos.to(device), sin.to(device)) for kind, (cos, sin) in self.rotary.items()},
                mask={kind: None if mask is None else mask.to(device) for kind, mask in self.mask.items()},
                ids=None if self.ids is None else self.ids.to(device),
            )
        return self._elsewhere[device]

    def blocks(self, count: int) -> Iterator[tuple[slice, Rows]]:
        """The same rows, at most ``count`` at a time, to be written and not to look: which of them, and the rows."""
        total = int(self.positions.numel())
        for begin in range(0, total, count):
            part = slice(begin, min(begin + count, total))
            index: RowIndex = self.positions[part]
            if isinstance(self.index, slice):
                index = slice(self.index.start + part.start, self.index.start + part.stop)
            rotary = {kind: (cos[:, part], sin[:, part]) for kind, (cos, sin) in self.rotary.items()}
            none = dict.fromkeys(self.mask)
            yield part, Rows(self.positions[part], index, self.stop, rotary, self.begin, none)


class Adapter(ABC):
    """One architecture; tensors are ``[B, rows, features]``.

    layers: depth. width: features of a layer's input, which are the split state's too. hidden: features of what
    maps predict, the **block input** (the layer input itself but for hyper-connections). kinds: each layer's kind.
    windows: kind -> how many positions a row sees, itself included, for kinds that do not see them all.
    first_split: lowest split the architecture allows; split_reason: why, for the error message. position_axes: how
    often the stock model numbers a row, of text the same on each axis. groups: query heads that share a key-value head.
    kva: trained heads that filled rows are written from instead of predicted block inputs (``filling``). device: where
    rows, states and predictions are. spreads: whether layers may be on other devices than that (``SpreadAdapter``).
    """

    layers: int
    width: int
    hidden: int
    kinds: tuple[str, ...]
    windows: Mapping[str, int]
    first_split: int = 1
    split_reason: str = ""
    position_axes: int = 1
    groups: int = 1
    kva: KvaHeads | None = None
    spreads: bool = True
    device: torch.device
    dtype: torch.dtype
    fingerprint: dict[str, object]

    @abstractmethod
    def embed(self, ids: Tensor) -> Tensor:
        """Token ids int64 ``[B, N]`` to the input of layer 0, ``[B, N, width]``."""

    @abstractmethod
    def rotary(self, positions: Tensor) -> Mapping[str, tuple[Tensor, Tensor]]:
        """Cosine and sine for int64 ``[R]`` positions, each ``[1, R, head_dim]``, by kind of layer."""

    @abstractmethod
    def run_layer(self, layer: int, x: Tensor, rows: Rows, cache: RowCache) -> Tensor:
        """Run one layer in full on the given rows: write their cache entries, attend, return the next input."""

    @abstractmethod
    def write_filled(self, layer: int, block_input: Tensor, rows: Rows, cache: RowCache) -> None:
        """Write the cache entries of filled rows from predicted block inputs ``[B, R, hidden]``, and nothing else.

        Only for layers that keep keys and values (METHOD section 3).
        """

    @abstractmethod
    def writes(self, layer: int, block_input: Tensor) -> dict[str, Tensor]:
        """What a block input would write: ``key`` before rotary and ``value``, each ``[B, R, kv_heads * head_dim]``.

        A recurrent layer's inputs instead: ``qkv``, ``b`` and ``a``.
        """

    @abstractmethod
    def attention_received(self, layer: int, x: Tensor, rows: Rows, cache: RowCache) -> Tensor:
        """Attention that each position before ``rows.stop`` receives from the given rows, fp32 ``[stop]``.

        Softmax in fp32, summed over the rows and the heads of ``layer`` (paper section 2.4).
        """

    @abstractmethod
    def logits(self, x: Tensor) -> Tensor:
        """Output of the last layer to logits ``[B, R, vocabulary]``."""

    @property
    def predicts_inputs(self) -> bool:
        """Whether filled rows are written from predicted block inputs: maps can be fitted, entries rescaled."""
        return self.kva is None

    def filling(self, fill: str, exact_rows: str = "original", heads: KvaHeads | None = None) -> Adapter:
        """The adapter under which an arm's late layers and its decoding run: this one, or a shallow copy.

        fill: ``exact``, ``none``, ``identity``, ``ridge``, ``kva`` or ``swiftkv``. exact_rows: what exact rows compute
        in late layers, the ``original`` model's layers or ``swiftkv``'s. heads: what a ``kva`` arm writes from, for it
        alone; they are brought to the model's type and place, which costs nothing when ``KvaHeads.to`` has done it.
        Raises ``ConfigError`` with the reason where the model cannot do this, ``MapError`` for heads of another model.
        """
        if "swiftkv" in (fill, exact_rows):
            raise ConfigError(
                f"a fill of {fill!r} with {exact_rows!r} exact rows was asked for, and this "
                f"{self.fingerprint['family']} model has no SwiftKV projections; load a llama_swiftkv checkpoint for "
                "the swiftkv arms"
            )
        if exact_rows != "original" or fill not in ("exact", "none", "identity", "ridge", "kva"):
            raise ConfigError(
                f"a fill of {fill!r} with {exact_rows!r} exact rows was asked for; expected exact, none, identity, "
                "ridge, kva or swiftkv, and original or swiftkv"
            )
        if fill != "kva":
            return self if self.kva is None else self._with(None)
        if heads is None:
            raise ConfigError(f"a kva arm needs trained heads for this model; give their file, such as {KVA_FILE}")
        heads.require(self.fingerprint)
        return self._with(heads.to(self.dtype, self.device))

    def _with(self, heads: KvaHeads | None) -> Self:
        twin = copy.copy(self)
        twin.kva = heads
        return twin

    def block_input(self, layer: int, x: Tensor) -> Tensor:
        """What maps of ``layer`` predict, from its true input ``[B, R, width]``: ``[B, R, hidden]``."""
        return x

    def run_late(
        self,
        layer: int,
        x: Tensor,
        exact: Sequence[Rows],
        predicted: Tensor | None,
        filled: Rows | None,
        cache: RowCache,
    ) -> Tensor:
        """One late layer: write the filled rows, then run the exact ones in full and return their next input.

        x: inputs of all exact rows, in the order of ``exact`` (chunks of rows). predicted: block inputs of the
        ``filled`` rows, None when there are none. A recurrent layer sees both kinds of rows in order instead.
        """
        if filled is not None and predicted is not None:
            self.write_filled(layer, predicted, filled, cache)
        parts = x.split([int(rows.positions.numel()) for rows in exact], dim=1)
        return torch.cat([self.run_layer(layer, part, rows, cache) for part, rows in zip(parts, exact, strict=True)], 1)

    @property
    def devices(self) -> tuple[torch.device, ...]:
        """Every device that has a part of the model, ``device`` first."""
        return (self.device,)

    def require_split(self, split: int) -> None:
        """Raise ``ConfigError`` unless layers from ``split`` on may be filled."""
        if not self.first_split <= split < self.layers:
            expected = f"{self.first_split} to {self.layers - 1}{self.split_reason}"
            raise ConfigError(f"split {split} is outside the model; expected {expected}")
        if self.kva is not None and split != self.kva.split:
            raise ConfigError(
                f"split {split} was asked for; these KVA heads were trained for split {self.kva.split} only"
            )

    def attends(self, layer: int) -> bool:
        """Whether every row of ``layer`` attends to all rows before it, so that its attention can rank them."""
        return self.kinds[layer] != LINEAR and self.kinds[layer] not in self.windows

    def first_needed(self, layer: int, first_exact: int) -> int:
        """First position whose cache entry an exact row at ``first_exact`` or later can see in ``layer``."""
        window = self.windows.get(self.kinds[layer])
        return 0 if window is None else max(0, first_exact - window + 1)

    def new_cache(self, capacity: int) -> RowCache:
        """An empty cache for ``capacity`` positions."""
        return RowCache(self.layers, capacity)

    def rows(self, positions: Tensor, *, start: int = 0, attend: bool = True, ids: Tensor | None = None) -> Rows:
        """The rows at ``positions``, which see every position from ``start`` up to their own.

        attend: False for rows that are only written (filled ones): their mask would grow with rows x tokens.
        """
        first, last = int(positions[0]), int(positions[-1])
        count = int(positions.numel())
        contiguous = last - first + 1 == count
        index: RowIndex = slice(first, last + 1) if contiguous else positions
        begin, mask = {}, {}
        for kind in dict.fromkeys(self.kinds):
            window = self.windows.get(kind)
            begin[kind] = start if window is None else max(start, first - window + 1)
            mask[kind] = None
            if attend and kind != LINEAR and not self._plain(kind, contiguous and first == start, count):
                mask[kind] = self._visible(positions, begin[kind], last + 1, window, contiguous)
        return Rows(positions, index, last + 1, self.rotary(positions), begin, mask, ids)

    def _visible(self, positions: Tensor, begin: int, stop: int, window: int | None, contiguous: bool) -> Tensor:
        """The rows' mask over the keys ``begin .. stop``; what lies before the first row all see, if no window ends."""
        first = int(positions[0])
        before = first - begin if window is None or stop - begin <= window else 0
        mask = causal_mask(positions, begin, stop, window)
        return VisibleKeys.of(mask, before, contiguous, self.groups) if mask.device.type == "cpu" else mask

    def _plain(self, kind: str, from_start: bool, count: int) -> bool:
        """Whether rows need no written mask: all that came before is visible, or they see only themselves."""
        return count == 1 or (from_start and count <= self.windows.get(kind, count))


def causal_mask(positions: Tensor, begin: int, stop: int, window: int | None = None) -> Tensor:
    """Boolean ``[1, 1, R, stop - begin]``: query at ``positions[i]`` sees keys ``begin .. positions[i]``.

    With ``window``, only the last ``window`` of those. Written out because attention kernels align a causal flag
    to the top left when there are fewer queries than keys, which silently hides the wrong keys.
    """
    keys = torch.arange(begin, stop, device=positions.device)
    visible = keys[None, :] <= positions[:, None]
    if window is not None:
        visible &= keys[None, :] > positions[:, None] - window
    return visible[None, None]


def view(cache: RowCache, rows: Rows, kind: str) -> RowView:
    """The cache as one call of a stock module of this kind may see it."""
    return RowView(cache, rows.index, rows.begin[kind], rows.stop)
