"""``python serve.py DRIVER SETTINGS``: load an engine once, then answer requests line by line until the input ends.

Runs in an environment that has the engine and not RidgeFill, so it uses the standard library alone. DRIVER is a module
beside this file with ``load(settings) -> (describe, first_token)``. SETTINGS is a JSON object. All lines are JSON:

    out  {"ready": {...}}                  once, when the engine is loaded: what it is and how it was set
    in   {"ids": [1, 2, 3]}                a prompt
    out  {"seconds": 0.5, "token": 7}      seconds from asking the engine for one new token until it was there
    out  {"error": "what went wrong"}      instead of either

What the engine itself prints goes to the error stream.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any, TextIO

FirstToken = Callable[[list[int]], int]
"""Token ids of a prompt to the greedy next token."""


def answer(line: str, first_token: FirstToken) -> dict[str, Any]:
    """The reply to one request."""
    ids = json.loads(line)["ids"]
    begin = perf_counter()
    token = first_token(ids)
    return {"seconds": perf_counter() - begin, "token": int(token)}


def serve(driver: str, settings: dict[str, Any], requests: TextIO, replies: TextIO) -> None:
    """Load ``driver`` with ``settings`` and answer ``requests`` until they end; an exception is the last reply."""

    def say(reply: dict[str, Any]) -> None:
        replies.write(json.dumps(reply) + "\n")
        replies.flush()

    try:
        ready, first_token = importlib.import_module(driver).load(settings)
        say({"ready": ready})
        for line in requests:
            say(answer(line, first_token))
    except Exception as error:
        say({"error": f"{type(error).__name__}: {error}"})
        raise


def main() -> None:
    """Keep the output for replies alone, whatever the engine and its children print, and serve."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.argv[1], json.loads(sys.argv[2]), sys.stdin, replies)


if __name__ == "__main__":
    main()
