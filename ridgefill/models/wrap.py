"""From a loaded transformers model to its adapter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ridgefill.errors import ModelError
from ridgefill.models.base import Adapter
from ridgefill.models.gemma3 import Gemma3Adapter
from ridgefill.models.llama import LlamaAdapter
from ridgefill.models.llama_swiftkv import LlamaSwiftKVAdapter
from ridgefill.models.qwen3 import Qwen3Adapter
from ridgefill.models.qwen3_5 import Qwen35Adapter
from ridgefill.models.qwen3_next import Qwen3NextAdapter
from ridgefill.models.qwen4_exp import Qwen4ExpAdapter
from ridgefill.models.spread import SpreadAdapter, layer_devices

ADAPTERS: dict[str, Callable[[Any], Adapter]] = {
    "llama": LlamaAdapter,
    "qwen3": Qwen3Adapter,
    "gemma3": Gemma3Adapter,
    "qwen3_5": Qwen35Adapter,
    "qwen3_next": Qwen3NextAdapter,
    "qwen4_exp": Qwen4ExpAdapter,
    "llama_swiftkv": LlamaSwiftKVAdapter,
}
"""By family, as model configurations and map files name it."""

MODEL_TYPES = {
    "llama": "llama",
    "qwen3": "qwen3",
    "gemma3_text": "gemma3",
    "qwen3_5": "qwen3_5",
    "qwen3_5_text": "qwen3_5",
    "qwen3_next": "qwen3_next",
    "qwen4_exp": "qwen4_exp",
    "qwen4_exp_text": "qwen4_exp",
    "llama_swiftkv": "llama_swiftkv",
}
"""transformers' ``config.model_type`` -> family."""


def adapter_of(family: str, model: Any) -> Adapter:
    """The family's adapter of a model, which may have its layers on several devices.

    Raises ``ModelError`` for a layer in two places, or a family whose layers have to be on one device.
    """
    adapter = ADAPTERS[family](model)
    places = layer_devices(model)
    return adapter if set(places) == {adapter.device} else SpreadAdapter(adapter, places)


def adapter_for(model: Any) -> Adapter:
    """The adapter of a causal language model. ModelError names the supported architectures for any other."""
    kind = str(getattr(getattr(model, "config", None), "model_type", type(model).__name__))
    if kind not in MODEL_TYPES:
        raise ModelError(
            f"found a model of type {kind!r}, expected one of {', '.join(sorted(MODEL_TYPES))}; to add a family, write "
            "an Adapter for it (docs/add-a-model.md)"
        )
    return adapter_of(MODEL_TYPES[kind], model)
