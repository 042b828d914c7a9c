"""llama.cpp through its Python package, asked for one new token: prefill in batches and greedy sampling."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def load(settings: dict[str, Any]) -> tuple[dict[str, Any], Callable[[list[int]], int]]:
    """What was loaded, and token ids of a prompt to the greedy next token.

    settings: ``model`` (GGUF file with bf16 matrices, made once from ``source``, a GGUF file of any type), ``context``
    (most tokens of a request), ``batch`` (tokens of one step), ``threads``, ``flash`` (whether attention is fused).
    Nothing is kept from one prompt for the next.
    """
    import llama_cpp

    model = Path(settings["model"])
    if not model.is_file():
        _to_bf16(Path(settings["source"]), model)
    engine = llama_cpp.Llama(
        str(model),
        n_ctx=settings["context"],
        n_batch=settings["batch"],
        n_ubatch=settings["batch"],
        n_threads=settings["threads"],
        n_threads_batch=settings["threads"],
        flash_attn=settings["flash"],
        verbose=False,
    )

    def first_token(ids: list[int]) -> int:
        engine.reset()
        tokens = engine.generate(ids, temp=0.0, repeat_penalty=1.0)
        token = next(tokens)
        tokens.close()
        return int(token)

    return {"engine": f"llama.cpp ({llama_cpp.__version__})", "batch": settings["batch"]}, first_token


def _to_bf16(source: Path, target: Path) -> None:
    """Write ``source`` again with its matrices in bf16, as llama.cpp's own quantiser reads and writes them."""
    import llama_cpp

    llama_cpp.llama_backend_init()
    how = llama_cpp.llama_model_quantize_default_params()
    how.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_BF16
    how.allow_requantize = True
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(".tmp")
    if llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(temporary), how):
        raise RuntimeError(f"{source} could not be written in bf16")
    temporary.replace(target)
