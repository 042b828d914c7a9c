"""``python -m MODULE`` many times over, each in its own process, from one that has imported the slow packages.

Reads one JSON request a line: ``folder`` to run in, ``module``, ``arguments`` and ``file_limit`` (bytes a file
may grow to, or null). Answers with one JSON line: the exit ``code`` and the ``output``. What a job does is the
same as when it is started alone, only the seconds of importing torch and Snakemake are paid once.
"""

from __future__ import annotations

import json
import os
import resource
import runpy
import sys
import traceback
from typing import Any

import duckdb  # noqa: F401
import matplotlib.pyplot  # noqa: F401
import pyarrow.parquet  # noqa: F401
import snakemake.cli  # noqa: F401
import torch  # noqa: F401
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM  # noqa: F401


def run(request: dict[str, Any]) -> int:
    """In the forked process: become ``python -m MODULE``; returns its exit code."""
    os.chdir(request["folder"])
    sys.argv = [request["module"], *request["arguments"]]
    sys.path.insert(0, request["folder"])
    if request["file_limit"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_limit"], request["file_limit"]))
    try:
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Fork, run the request in the child, read what it prints until it ends."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(send, 1)
        os.dup2(send, 2)
        code = run(request)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    os.close(send)
    with open(receive, encoding="utf-8", errors="replace") as stream:
        output = stream.read()
    _, status = os.waitpid(child, 0)
    return {"code": os.waitstatus_to_exitcode(status), "output": output}


def main() -> None:
    """Answer requests until the input ends."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
