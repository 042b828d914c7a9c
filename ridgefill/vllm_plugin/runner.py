"""The engine's worker and model runner for CPUs, which tell the model which rows of a step are filled."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from vllm.config import VllmConfig
from vllm.forward_context import get_forward_context
from vllm.tokenizers import cached_tokenizer_from_config
from vllm.v1.attention.backend import CommonAttentionMetadata
from vllm.v1.worker.cpu_model_runner import CPUModelRunner
from vllm.v1.worker.cpu_worker import CPUWorker

from ridgefill.errors import ConfigError
from ridgefill.vllm_plugin.logs import say_filled
from ridgefill.vllm_plugin.model import FilledStep
from ridgefill.vllm_plugin.picked import picked_tokens
from ridgefill.vllm_plugin.requests import first_exact
from ridgefill.vllm_plugin.settings import Settings, settings_of_this_process
from ridgefill.vllm_plugin.steps import Step, divide


class RidgeFillModelRunner(CPUModelRunner):
    """The stock runner; overrides the one call that runs the model, where the engine offers that."""

    def __init__(self, vllm_config: VllmConfig, device: torch.device, settings: Settings) -> None:
        super().__init__(vllm_config, device)
        self.settings = settings
        model = vllm_config.model_config
        tokenizer = cached_tokenizer_from_config(model) if settings.rows else None
        self.picked = picked_tokens(settings.rows, tokenizer, model.get_vocab_size())

    def _model_forward(
        self,
        input_ids: Tensor | None = None,
        positions: Tensor | None = None,
        intermediate_tensors: Any = None,
        inputs_embeds: Tensor | None = None,
        **model_kwargs: Any,
    ) -> Any:
        filled = self._filled_step()
        if filled is not None:
            model_kwargs["filled"] = filled
        return super()._model_forward(input_ids, positions, intermediate_tensors, inputs_embeds, **model_kwargs)

    def _filled_step(self) -> FilledStep | None:
        """This step's filled rows, None when it has none, which is so for every step of decoding alone."""
        batch, count = self.input_batch, self.input_batch.num_reqs
        computed, prompts = batch.num_computed_tokens_cpu[:count], batch.num_prompt_tokens[:count]
        if not (computed < prompts - self.settings.tail).any():
            return None
        boundaries = [
            first_exact(self.settings, int(prompts[place]), self.requests[batch.req_ids[place]].sampling_params)
            for place in range(count)
        ]
        starts = self.query_start_loc.np[: count + 1].astype(np.int64)
        picked = None if self.picked is None else self.picked[self.input_ids.np[: starts[-1]]]
        step = divide(boundaries, computed.astype(np.int64), starts, picked)
        if step is None:
            return None
        for place in np.nonzero(step.counts)[0]:
            rows, scheduled = int(step.counts[place]), int(starts[place + 1] - starts[place])
            say_filled(batch.req_ids[place], rows, scheduled, int(computed[place]), boundaries[place])
        filled, exact = torch.from_numpy(step.filled), torch.from_numpy(step.exact)
        return FilledStep(filled, exact, self._metadata(step, exact))

    def _metadata(self, step: Step, exact: Tensor) -> dict[str, Any]:
        """Attention metadata for the exact rows alone, by late layer that attends; empty when there are none.

        The kernel puts a request's queries at the end of its sequence, so each run of exact rows is a request to it
        whose sequence ends with the run, over the same blocks. Requests without any are left out.
        """
        late = set(self.model.late_attention().values()) if step.requests.size else set()
        found: dict[str, Any] = {}
        for group in (one for groups in self.attn_groups for one in groups):
            if mine := late.intersection(group.layer_names):
                found |= dict.fromkeys(mine, self._of_group(group, step, exact))
        return found

    def _of_group(self, group: Any, step: Step, exact: Tensor) -> Any:
        """Of the layers that share one table of blocks."""
        context, name = get_forward_context(), group.layer_names[0]
        whole = context.attn_metadata[name]
        requests = torch.from_numpy(step.requests)
        begins = torch.from_numpy(np.concatenate([[0], np.cumsum(step.queries)]).astype(np.int32))
        lengths = torch.from_numpy(step.lengths).to(whole.seq_lens)
        return group.build_metadata(
            CommonAttentionMetadata(
                query_start_loc=begins,
                query_start_loc_cpu=begins,
                seq_lens=lengths,
                num_reqs=len(step.requests),
                num_actual_tokens=len(step.exact),
                max_query_len=int(step.queries.max()),
                max_seq_len=int(lengths.max()),
                block_table_tensor=whole.block_table[requests],
                slot_mapping=context.slot_mapping[name][exact],
                causal=True,
            )
        )


class RidgeFillWorker(CPUWorker):
    """The stock worker with the runner above."""

    def init_device(self) -> None:
        """Prepare the processor, then put the runner in the place of the stock one, which holds nothing yet."""
        super().init_device()
        settings = settings_of_this_process()
        if self.use_v2_model_runner:
            raise ConfigError(
                "vLLM chose its second model runner, and RidgeFill fills in the first; set VLLM_USE_V2_MODEL_RUNNER=0"
            )
        self.model_runner = RidgeFillModelRunner(self.vllm_config, torch.device("cpu"), settings)
