"""Hybrids of the engine: some layers attend, the others keep states that filled rows pass through."""

from __future__ import annotations

from vllm.model_executor.models.qwen3_5 import Qwen3_5ForCausalLM

from ridgefill.vllm_plugin.model import FilledModel


class RidgeFillQwen3_5ForCausalLM(FilledModel, Qwen3_5ForCausalLM):
    """Qwen3.5 of text alone, whose other layers are Gated DeltaNets."""
