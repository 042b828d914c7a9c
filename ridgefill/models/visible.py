"""Masks that know their own shape, so that attention of few rows over many keys needs no mask in its inner loop.

Rows that all see the first keys, and of the rest those up to themselves, attend to both parts by themselves; the two
outputs are merged by their log-sum-exp, which is how blockwise attention merges its blocks (Dao et al. 2022,
FlashAttention, section 3.1). The unmasked part takes the queries of all heads that share a key-value head at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

_FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


class VisibleKeys(Tensor):
    """A boolean mask ``[1, 1, R, keys]``, True = visible, that stock attention takes as any other.

    before: how many of the first keys every row sees. causal: whether the rest is one key for each row, seen by it and
    the rows after it. groups: query heads that share a key-value head. Anything but attention sees a plain tensor.
    """

    before: int
    causal: bool
    groups: int

    @classmethod
    def of(cls, mask: Tensor, before: int, causal: bool, groups: int) -> VisibleKeys:
        """``mask`` with what is known of it."""
        made = mask.as_subclass(cls)
        made.before, made.causal, made.groups = before, causal, groups
        return made

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Attention in two parts where that is possible; every other function on plain tensors."""
        given = dict(kwargs or {})
        if func is torch.nn.functional.scaled_dot_product_attention:
            mask = given.get("attn_mask", args[3] if len(args) > 3 else None)
            if isinstance(mask, cls) and len(args) == 3 and _parted(mask, args[0], args[1], given):
                return _attend(*args, mask, given.get("scale"))
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **given)


def _parted(mask: VisibleKeys, query: Tensor, key: Tensor, given: Mapping[str, Any]) -> bool:
    """Whether the call can be made in two parts: the processor's kernel returns the log-sum-exp that it takes.

    Only in fp32: in smaller types each part would be rounded before they are merged, which doubles the error.
    """
    plain = not given.get("dropout_p") and not given.get("enable_gqa") and not given.get("is_causal")
    rows = query.shape[2] == mask.shape[2] and query.shape[1] == key.shape[1]
    return plain and rows and mask.before > 0 and query.device.type == "cpu" and query.dtype == torch.float32


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: VisibleKeys, scale: float | None) -> Tensor:
    """Attention of ``query`` ``[B, heads, R, d]`` over all keys ``[B, heads, keys, d]``, key-value heads repeated."""
    batch, heads, count, width = query.shape
    groups, before = mask.groups, mask.before
    with torch._C.DisableTorchFunctionSubclass():
        seen, weight = _FLASH(
            query.reshape(batch, heads // groups, groups * count, width),
            key[:, ::groups, :before],
            value[:, ::groups, :before],
            scale=scale,
        )
        inner = None if mask.causal else torch.where(mask[..., before:], 0.0, float("-inf"))
        rest, weight_rest = _FLASH(
            query, key[:, :, before:], value[:, :, before:], is_causal=mask.causal, attn_mask=inner, scale=scale
        )
        share = torch.sigmoid(weight_rest - weight.reshape(batch, heads, count))[..., None]
        return torch.lerp(seen.reshape(query.shape), rest, share)
