"""Where a request's tail begins, asked alike by the scheduler and by the model runner."""

from __future__ import annotations

from typing import Any

from ridgefill.vllm_plugin.settings import Settings, wanted


def first_exact(settings: Settings, prompt_tokens: int, sampling: Any) -> int:
    """First position of the tail, 0 when every row runs every layer.

    sampling: the engine's ``SamplingParams``, or None. A request that pools, or asks for log-probabilities of its
    prompt, needs the last layer's output of every row. One whose switch means nothing runs exactly.
    """
    if sampling is None or sampling.prompt_logprobs is not None:
        return 0
    return settings.boundary(prompt_tokens, bool(wanted(settings, sampling.extra_args)))
