"""A batch of prompts as ``generate`` passes them: token ids, padding on the left, positions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ridgefill.errors import TextError


@dataclass(frozen=True)
class Prompts:
    """Token ids int64 ``[B, N]`` and, for each prompt, the column of its first token (those before are padding)."""

    ids: Tensor
    starts: tuple[int, ...]

    @property
    def columns(self) -> int:
        """``N``: tokens of the longest prompt and whatever padding all of them have."""
        return int(self.ids.shape[1])

    @property
    def lengths(self) -> tuple[int, ...]:
        """Tokens of each prompt."""
        return tuple(self.columns - start for start in self.starts)

    @property
    def mask(self) -> Tensor:
        """Attention mask int64 ``[B, N]``, 1 on tokens."""
        columns = torch.arange(self.columns, device=self.ids.device)
        return (columns >= torch.tensor(self.starts, device=self.ids.device)[:, None]).long()

    @property
    def positions(self) -> Tensor:
        """Positions int64 ``[B, N]`` as ``generate`` numbers them: each prompt from 0, padding 0."""
        return (self.mask.cumsum(-1) - 1).clamp(min=0)

    def distinct(self) -> tuple[list[Tensor], list[int]]:
        """Each different prompt once, ``[1, n]`` without padding, and which of them every batch entry is.

        ``num_return_sequences`` and beams repeat a prompt; one prefill serves all copies.
        """
        places: dict[tuple[int, ...], int] = {}
        rows = [row[start:] for row, start in zip(self.ids, self.starts, strict=True)]
        which = [places.setdefault(tuple(row.tolist()), len(places)) for row in rows]
        return [rows[which.index(place)][None] for place in range(len(places))], which


def read_prompts(ids: Tensor, mask: Tensor | None = None, positions: Tensor | None = None) -> Prompts:
    """The prompts of a call. Raises ``TextError`` when the padding or the positions are of another kind.

    ids: int ``[B, N]``. mask: ``[B, N]``, None without padding. positions: ``[B or 1, N]``, or several such where a
    model numbers images on more axes than text; None means as the mask counts them in ``generate``.
    """
    if ids.ndim != 2 or ids.numel() == 0 or ids.is_floating_point():
        raise TextError(
            f"prompts of shape {list(ids.shape)} and type {ids.dtype} were given; expected token ids [batch, tokens]"
        )
    prompts = Prompts(ids.long(), (0,) * int(ids.shape[0]))
    if mask is not None:
        prompts = Prompts(ids.long(), _starts(ids, mask))
    if positions is not None and not _same_positions(prompts, positions):
        raise TextError("position_ids other than each prompt's own from 0 on were given; leave them out")
    return prompts


def _starts(ids: Tensor, mask: Tensor) -> tuple[int, ...]:
    if mask.shape != ids.shape:
        raise TextError(
            f"the attention mask has shape {list(mask.shape)}; expected that of the prompts, {list(ids.shape)}"
        )
    seen = mask.to(ids.device) != 0
    starts = ids.shape[1] - seen.sum(1)
    columns = torch.arange(ids.shape[1], device=ids.device)
    if not torch.equal(seen, columns >= starts[:, None]) or bool((starts == ids.shape[1]).any()):
        raise TextError(
            "the attention mask hides tokens that are not padding on the left, or a whole prompt; pad on the left "
            "(tokenizer.padding_side = 'left')"
        )
    return tuple(starts.tolist())


def _same_positions(prompts: Prompts, positions: Tensor) -> bool:
    if positions.ndim not in (2, 3) or positions.shape[-1] != prompts.columns:
        return False
    differ = (positions.to(prompts.ids.device) != prompts.positions) & (prompts.mask != 0)
    return not bool(differ.any())
