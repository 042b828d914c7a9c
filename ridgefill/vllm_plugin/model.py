"""The engine's models with a second way through them, for steps in which rows are filled: one class for each family.

Those of hybrids are in ``hybrid``, as the engine's own module of them needs libraries that these do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from torch import Tensor
from vllm.config import VllmConfig
from vllm.forward_context import get_forward_context, override_forward_context
from vllm.model_executor.models.llama import LlamaForCausalLM
from vllm.model_executor.models.qwen3 import Qwen3ForCausalLM

from ridgefill.errors import ConfigError
from ridgefill.maps import load_maps
from ridgefill.vllm_plugin.late import LateLayers, late_layers
from ridgefill.vllm_plugin.logs import say_ready
from ridgefill.vllm_plugin.settings import settings_of_this_process, where


@dataclass(frozen=True)
class FilledStep:
    """A step with filled rows as the model needs it.

    filled, exact: places of rows, int64. metadata: the engine's attention metadata for the exact rows alone, by the
    name of each late layer that attends; empty when there are no exact rows.
    """

    filled: Tensor
    exact: Tensor
    metadata: Mapping[str, Any]


class FilledModel:
    """Put in front of a stock model: only a step that is given with ``filled`` takes another way through its layers.

    The stock model has ``model`` with ``embed_input_ids``, ``layers`` and ``norm``; a layer takes ``positions``,
    ``hidden_states`` and ``residual``, and gives the last two.
    """

    model: Any

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__(vllm_config=vllm_config, prefix=prefix)  # type: ignore[call-arg]
        settings = settings_of_this_process()
        self.settings, self.dtype, self.name = settings, vllm_config.model_config.dtype, vllm_config.model_config.model
        self.late: LateLayers | None = None

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> set[str]:
        """Load the model's weights as ever, then its maps."""
        loaded: set[str] = super().load_weights(weights)  # type: ignore[misc]
        folder = where(self.settings)
        self.late = late_layers(self.model.layers, load_maps(folder), self.settings, self.dtype)
        say_ready(self.settings, folder, self.name, self.late.split, len(self.model.layers), self.late.bytes)
        return loaded

    def late_attention(self) -> dict[int, str]:
        """The engine's names of the late layers that attend, by layer."""
        return (
            {}
            if self.late is None
            else {layer: self.model.layers[layer].self_attn.attn.layer_name for layer in self.late.projections}
        )

    def forward(
        self,
        input_ids: Tensor | None,
        positions: Tensor,
        intermediate_tensors: Any = None,
        inputs_embeds: Tensor | None = None,
        filled: FilledStep | None = None,
    ) -> Any:
        """Hidden states ``[rows, hidden]``, zero for filled rows, which the engine asks nothing of."""
        if filled is None:
            return super().forward(  # type: ignore[misc]
                input_ids, positions, intermediate_tensors, inputs_embeds
            )
        if self.late is None:
            raise ConfigError("the model's weights were loaded in a way that leaves no maps; use load_format auto")
        hidden = self.model.embed_input_ids(input_ids) if inputs_embeds is None else inputs_embeds
        residual = None
        for block in islice(self.model.layers, self.late.split):
            hidden, residual = block(positions=positions, hidden_states=hidden, residual=residual)
        return self._late(self.late, positions, hidden, residual, filled)

    def _late(
        self, late: LateLayers, positions: Tensor, hidden: Tensor, residual: Tensor | None, step: FilledStep
    ) -> Tensor:
        """The late layers: filled rows are written, exact ones run in full over what is written.

        The stream is kept in two parts, as the engine does: a layer's input is ``hidden + residual``.
        """
        if residual is None:
            raise ConfigError("the maps begin at the first layer; expected a split of at least 1")
        out = hidden.new_zeros(hidden.shape)
        state = hidden[step.filled] + residual[step.filled]
        hidden, residual = hidden[step.exact], residual[step.exact]
        at, own = positions[..., step.filled], positions[..., step.exact]
        context, names = get_forward_context(), self.late_attention()
        slots = {name: context.slot_mapping[name] for name in names.values()}
        within = replace(
            context,
            attn_metadata=step.metadata,
            slot_mapping={name: slot[step.exact] for name, slot in slots.items()},
        )
        for layer in range(late.split, len(self.model.layers)):
            block = self.model.layers[layer]
            if layer not in names:
                hidden, residual = late.scan(layer, block, state, step.filled, step.exact, (hidden, residual))
                continue
            late.write(layer, block, state, at, slots[names[layer]][step.filled])
            if len(step.exact):
                with override_forward_context(within):
                    hidden, residual = block(positions=own, hidden_states=hidden, residual=residual)
        if len(step.exact):
            out[step.exact] = self.model.norm(hidden, residual)[0]
        return out


class RidgeFillLlamaForCausalLM(FilledModel, LlamaForCausalLM):
    """Llama, and models of its architecture such as SmolLM2."""


class RidgeFillQwen3ForCausalLM(FilledModel, Qwen3ForCausalLM):
    """Qwen3, whose keys are normed."""
