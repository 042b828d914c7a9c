"""A client of an OpenAI-compatible server: a prompt of token ids in, the moment of every new token out."""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from time import perf_counter, sleep
from typing import Any

from ridgefill.served.server import HOST, NAME, Running, ServerError
from ridgefill.vllm_plugin.settings import SWITCH

REQUEST_SECONDS = 600.0
"""How long a server may say nothing."""
_DATA, _DONE = b"data: ", b"[DONE]"


@dataclass(frozen=True)
class Asked:
    """One request. fill: the plugin's switch, None to say nothing. new: tokens to make, greedily, without an end."""

    ids: Sequence[int]
    new: int
    fill: bool | None = None

    def body(self) -> bytes:
        """As the server reads it."""
        asked: dict[str, Any] = {
            "model": NAME,
            "prompt": list(self.ids),
            "max_tokens": self.new,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "return_token_ids": True,
        }
        return json.dumps(asked if self.fill is None else asked | {"vllm_xargs": {SWITCH: int(self.fill)}}).encode()


@dataclass(frozen=True)
class Answer:
    """What came back. begin: when it was sent. times: when each token was there, by the same clock. tokens: which."""

    begin: float
    times: tuple[float, ...]
    tokens: tuple[int, ...]

    @property
    def first(self) -> float:
        """Seconds from sending the request to its first token."""
        return self.times[0] - self.begin

    @property
    def gaps(self) -> tuple[float, ...]:
        """Seconds between each two tokens."""
        return tuple(after - before for before, after in zip(self.times, self.times[1:], strict=False))


def ask(server: Running, asked: Asked, begun: Event | None = None) -> Answer:
    """Send one request and read its tokens as they come. begun: set at the first of them, or when there is none.

    Raises ``ServerError`` for an answer that is none, or has another number of tokens than were asked for.
    """
    body = asked.body()
    connection = http.client.HTTPConnection(HOST, server.port, timeout=REQUEST_SECONDS)
    times: list[float] = []
    tokens: list[int] = []
    begin = perf_counter()
    try:
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != http.client.OK:
            said = response.read()[:300].decode(errors="replace")
            raise ServerError(f"the server answered {response.status}: {said}; expected new tokens")
        for line in response:
            if not line.startswith(_DATA) or line.strip().endswith(_DONE):
                continue
            now = perf_counter()
            new = _new_tokens(line)
            tokens += new
            times += [now] * len(new)
            if new and begun is not None:
                begun.set()
    except (OSError, http.client.HTTPException) as error:
        server.require_alive()
        raise ServerError(f"the server could not be asked ({error}); its log is {server.served.log}") from error
    finally:
        connection.close()
        if begun is not None:
            begun.set()
    if len(tokens) != asked.new:
        raise ServerError(f"the server gave {len(tokens)} tokens; expected the {asked.new} asked for")
    return Answer(begin, tuple(times), tuple(tokens))


def _new_tokens(line: bytes) -> list[int]:
    """Token ids of one event."""
    try:
        event = json.loads(line.removeprefix(_DATA))
        return [int(one) for choice in event["choices"] for one in choice["token_ids"] or ()]
    except (ValueError, KeyError, TypeError) as error:
        raise ServerError(f"the server sent {line[:200]!r}; expected an event with new tokens") from error


def ask_together(server: Running, asked: Sequence[Asked], apart: float = 0.0) -> list[Answer]:
    """All requests at once, or ``apart`` seconds after each other, each in a connection of its own; in their order."""
    with ThreadPoolExecutor(len(asked)) as pool:
        waiting = []
        for place, one in enumerate(asked):
            if place and apart:
                sleep(apart)
            waiting.append(pool.submit(ask, server, one))
        return [one.result() for one in waiting]


def ask_among(server: Running, users: Sequence[Asked], late: Asked) -> tuple[list[Answer], Answer]:
    """The users' answers, and that to a request which is sent when every user has had a token."""
    begun = [Event() for _ in users]
    with ThreadPoolExecutor(len(users)) as pool:
        waiting = [pool.submit(ask, server, one, event) for one, event in zip(users, begun, strict=True)]
        for event in begun:
            event.wait(REQUEST_SECONDS)
        answer = ask(server, late)
        return [one.result() for one in waiting], answer
