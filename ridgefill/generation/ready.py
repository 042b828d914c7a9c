"""A user's model and maps, checked once and brought together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from ridgefill.errors import ModelError
from ridgefill.generation.options import Options
from ridgefill.models.base import Adapter
from ridgefill.models.wrap import adapter_for

if TYPE_CHECKING:
    from ridgefill.pretrained import RidgeFillMaps

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
MARK = "fills_prompts"
"""Attribute of a ``forward`` that ``filling`` has put in place of the stock one."""


@dataclass(frozen=True)
class Ready:
    """An adapter around the model, maps in its type and on its device, the caller's options, and the stock forward.

    decoder: configuration of the model's text decoder, by which stock caches choose their layers.
    """

    adapter: Adapter
    predict: Callable[[int, Tensor], Tensor]
    options: Options
    stock: Callable[..., Any]
    decoder: Any


def get_ready(maps: RidgeFillMaps, model: Any, options: Options) -> Ready:
    """Check that ``maps`` fit ``model`` and bring them together; the model itself is not changed.

    Raises ``ModelError`` for a model that cannot be filled, ``MapError`` for maps of another model, ``ConfigError`` for
    a split that the model cannot have.
    """
    _check_model(model)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    adapter = adapter_for(model)
    for parameter in trained:  # an adapter freezes its model; this one is the caller's
        parameter.requires_grad_(True)
    if maps.architecture.get("layers") == adapter.layers:
        adapter.require_split(options.split)
    maps.check(adapter)
    placed = maps.maps.to(adapter.dtype, adapter.device)
    forward = model.forward
    stock = forward.__wrapped__ if hasattr(forward, MARK) else forward
    return Ready(adapter, placed.predict, options, stock, model.config.get_text_config(decoder=True))


def _check_model(model: Any) -> None:
    if not isinstance(model, PreTrainedModel):
        raise ModelError(
            f"found a {type(model).__name__}; expected a transformers causal language model (an adapter such as LoRA "
            "must be merged into it first)"
        )
    if model.training:
        raise ModelError("the model is in training mode, where dropout is random; call model.eval() first")
    devices = sorted({str(parameter.device) for parameter in model.parameters()})
    if "meta" in devices:
        raise ModelError(
            f"the model's weights are on {', '.join(devices)}; expected GPUs or the processor, so load it without "
            "offloading"
        )
    for name, module in model.named_modules():
        # Quantised layers of other classes bring their own product; a plain one multiplies its weight as it is.
        if type(module) is torch.nn.Linear and module.weight.dtype not in FLOATS:
            raise ModelError(
                f"{name} has weights of type {module.weight.dtype}, which cannot be projected; load the model in "
                "float32, bfloat16 or float16"
            )
