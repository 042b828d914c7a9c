"""vLLM with this project's plugin, asked for tokens after a prompt too short to fill, by our methods or stock ones."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any


def load(settings: dict[str, Any]) -> tuple[dict[str, Any], Callable[[list[int]], int]]:
    """What was loaded, and numbers to a token: 1 or 0, whether the plugin's methods run or those that they override,
    then token ids of a prompt.

    settings: ``model`` (folder), ``context`` (most tokens of a request), ``new`` (tokens to make), ``memory`` (bytes of
    KV cache). Both ways run in one process on the same memory, so nothing but the methods is different.
    """
    import vllm
    from vllm import LLM, SamplingParams
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.worker.cpu_model_runner import CPUModelRunner

    engine = LLM(
        settings["model"],
        dtype="bfloat16",
        enforce_eager=True,
        enable_prefix_caching=False,
        skip_tokenizer_init=True,
        max_model_len=settings["context"],
        max_num_seqs=1,
        kv_cache_memory_bytes=settings["memory"],
    )
    core = engine.llm_engine.engine_core.engine_core
    runner = core.model_executor.driver_worker.worker.model_runner
    network = runner.model
    _, _, stock_network, *_ = type(network).__mro__
    overridden = [
        (runner, CPUModelRunner, "_model_forward"),
        (network, stock_network, "forward"),
        (core.scheduler, Scheduler, "add_request"),
        (core.scheduler, Scheduler, "schedule"),
    ]
    sampling = SamplingParams(max_tokens=settings["new"], temperature=0.0, detokenize=False, ignore_eos=True)

    def last_token(numbers: list[int]) -> int:
        ours, *ids = numbers
        for owner, stock, name in overridden:
            vars(owner).pop(name, None)
            if not ours:
                setattr(owner, name, MethodType(getattr(stock, name), owner))
        done = engine.generate([{"prompt_token_ids": ids}], sampling, use_tqdm=False)
        return int(done[0].outputs[0].token_ids[-1])

    return {"engine": f"vLLM {vllm.__version__}", "network": stock_network.__name__}, last_token
