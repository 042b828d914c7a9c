"""Stock vLLM's offline engine, asked for one new token: scheduler, prefill and sampling, without a server around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def load(settings: dict[str, Any]) -> tuple[dict[str, Any], Callable[[list[int]], int]]:
    """What was loaded, and token ids of a prompt to the greedy next token.

    settings: ``model`` (folder), ``context`` (most tokens of a request), ``batch`` (most tokens of one step),
    ``memory`` (bytes of KV cache). Threads come from the environment. Nothing is kept from one prompt for the next.
    """
    import vllm
    from vllm import LLM, SamplingParams

    engine = LLM(
        settings["model"],
        dtype="bfloat16",
        enforce_eager=True,
        enable_prefix_caching=False,
        skip_tokenizer_init=True,
        max_model_len=settings["context"],
        # A model's own limit is below a prompt of that length and one new token.
        hf_overrides={"max_position_embeddings": settings["context"]},
        max_num_batched_tokens=settings["batch"],
        max_num_seqs=1,
        kv_cache_memory_bytes=settings["memory"],
    )
    sampling = SamplingParams(max_tokens=1, temperature=0.0, detokenize=False)

    def first_token(ids: list[int]) -> int:
        done = engine.generate([{"prompt_token_ids": ids}], sampling, use_tqdm=False)
        return int(done[0].outputs[0].token_ids[0])

    return {"engine": f"vLLM {vllm.__version__}", "batch": settings["batch"]}, first_token
