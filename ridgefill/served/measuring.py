"""What is measured on running servers, as rows of results. Every request has a prompt of its own.

Three tables: times to first token, filled and exact in turn on one server; a long prompt that users meet while they
decode, the same way; and requests too short to fill, on a server that fills and on the stock one, each alone and then
both among long prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import sleep
from typing import Any

import numpy as np

from ridgefill.cost import Geometry, exact_macs, fill_macs
from ridgefill.errors import ConfigError
from ridgefill.served.client import Answer, Asked, ask, ask_among, ask_together
from ridgefill.served.server import Running, ServerError
from ridgefill.suite_settings import ServedSuite

Row = dict[str, Any]
Prompt = Callable[[int], Sequence[int]]
"""Tokens to a prompt of so many that was not used before."""
Told = Callable[[], object]
ALONE, BURST, MIX = "fresh", "after_burst", "mix"
PHASES = (ALONE, BURST, MIX)
SHORT_BESIDE_LONG = 6
APART = 0.01
"""Seconds between the requests of a mix, so that the long prompt is the first one in the queue."""


@dataclass(frozen=True)
class Measured:
    """What all parts need. labels: of every row. mapped: whether the split layer's filled rows come from its map."""

    suite: ServedSuite
    arm: str
    split: int
    tail: int
    mapped: bool
    geometry: Geometry
    prompt: Prompt
    labels: Mapping[str, Any]
    told: Told = lambda: None

    def filled_rows(self, tokens: int) -> int:
        """Rows of a prompt that a request which asks for it has filled."""
        bulk = tokens - self.tail
        return bulk if bulk >= self.suite.min_filled else 0

    def macs(self, tokens: int) -> int:
        """Multiply-accumulates of such a prefill."""
        if not self.filled_rows(tokens):
            return exact_macs(self.geometry, tokens)
        return fill_macs(
            self.geometry, tokens=tokens, split=self.split, tail=self.tail, fill="ridge", mapped_split_layer=self.mapped
        )


def pairs_planned(suite: ServedSuite) -> int:
    """How often ``told`` is called: once for each pair, those that are not counted included."""
    return (
        2 * suite.short.pairs + 2 * suite.short.rounds + 1 + len(suite.lengths) * (suite.repeats + 1) + suite.runs + 1
    )


def prompts_needed(suite: ServedSuite) -> int:
    """At least as many as all parts ask for."""
    of_a_pair = 2 * (1 + max(suite.users, SHORT_BESIDE_LONG, suite.short.burst))
    return of_a_pair * pairs_planned(suite)


def require_filled(run: Measured, server: Running) -> None:
    """Raise ``ServerError`` unless the server says that it filled just the rows that its requests asked for."""
    suite = run.suite
    wanted = (suite.repeats + 1) * sum(map(run.filled_rows, suite.lengths))
    wanted += (suite.runs + 1) * run.filled_rows(suite.lengths[-1])
    wanted += (2 * suite.short.rounds + suite.short.burst) * run.filled_rows(suite.long)
    if (found := server.log().rows) != wanted:
        raise ServerError(
            f"the server filled {found} rows by its log; expected {wanted}, so these times are of something else; its "
            f"log is {server.served.log}"
        )


def first_tokens(run: Measured, server: Running) -> Iterator[Row]:
    """Rows of ``speed``: at every length one pair that is not counted, then ``repeats``, the order turning."""
    for length in run.suite.lengths:
        for repeat in range(-1, run.suite.repeats):
            taken = {fill: ask(server, Asked(run.prompt(length), 1, fill)).first for fill in _order(repeat)}
            run.told()
            if repeat < 0:
                continue
            yield {
                **run.labels,
                "arm": run.arm,
                "split": run.split,
                "length": length,
                "repeat": repeat,
                "exact_seconds": taken[False],
                "seconds": taken[True],
                **_rows(run, length),
                "macs": run.macs(length),
                "exact_macs": exact_macs(run.geometry, length),
                "peak_bytes": None,
                "exact_peak_bytes": None,
            }


def among_users(run: Measured, server: Running) -> Iterator[Row]:
    """Rows of ``serving``: the longest prompt among users, exact and filled in turn; one pair is not counted."""
    suite, length = run.suite, run.suite.lengths[-1]
    for repeat in range(-1, suite.runs):
        found = {}
        for fill in _order(repeat):
            users = [Asked(run.prompt(suite.user_prompt), suite.new_tokens) for _ in range(suite.users)]
            found[fill] = ask_among(server, users, Asked(run.prompt(length), 1, fill))
        run.told()
        for fill in (False, True) if repeat >= 0 else ():
            yield {
                **run.labels,
                "pair": f"{run.arm}@{run.split}",
                "arm": run.arm if fill else "exact",
                "split": run.split if fill else None,
                "length": length,
                "repeat": repeat,
                "users": suite.users,
                "user_prompt": suite.user_prompt,
                "chunk": suite.chunk,
                **(_rows(run, length) if fill else {"filled_rows": 0, "exact_rows": length}),
                **_waits(*found[fill], repeat),
            }


def _waits(users: Sequence[Answer], late: Answer, repeat: int) -> Row:
    """What the users saw while the long prompt was prefilled, and after it.

    Raises ``ConfigError`` when one of them was done before the prompt was.
    """
    end = late.times[0]
    if (done := min(user.times[-1] for user in users)) < end:
        raise ConfigError(
            f"a user of run {repeat} was done {end - done:.2f} s before the long prompt's first token; let "
            "suites.served.new_tokens be more"
        )
    during, alone, tokens = [], [], 0
    for user in users:
        tokens += sum(late.begin < time <= end for time in user.times)
        for before, after in zip(user.times, user.times[1:], strict=False):
            # A gap in which the prompt was there for a while is one that it may have made longer.
            if after > late.begin and before < end:
                during.append(after - before)
            elif before >= end:
                alone.append(after - before)
    return {
        "first_token_seconds": late.first,
        "tokens_per_second": tokens / late.first,
        "latency_mean": float(np.mean(during)),
        "latency_p50": float(np.quantile(during, 0.5)),
        "latency_p99": float(np.quantile(during, 0.99)),
        "latency_max": max(during),
        "latencies": during,
        "alone": alone,
    }


def too_short(run: Measured, filling: Running, stock: Running) -> Iterator[Row]:
    """Rows of ``served_pairs``, in the order in which servers that were just started are to see the requests."""
    servers = {True: filling, False: stock}
    short = run.suite.short
    for server in servers.values():
        ask(server, _short(run))
    yield from _shorts(run, servers, ALONE)
    yield from _longs(run, servers)
    burst = [_long(run, 1) for _ in range(short.burst)]
    for fill in _turns(run, 0):
        answers = ask_together(servers[fill], burst)
        yield from (_one(run, BURST, 0, place, fill, True, one) for place, one in enumerate(answers))
    run.told()
    yield from _shorts(run, servers, BURST)
    for number in range(short.rounds):
        asked = [_long(run, short.new_tokens), *(_short(run) for _ in range(SHORT_BESIDE_LONG))]
        for fill in _turns(run, number):
            for place, one in enumerate(ask_together(servers[fill], asked, APART)):
                yield _one(run, MIX, number, place, fill, place == 0, one)
        run.told()


def _shorts(run: Measured, servers: Mapping[bool, Running], phase: str) -> Iterator[Row]:
    """Short requests, one at a time, the two servers in turn with the same prompt."""
    for number in range(run.suite.short.pairs):
        asked = _short(run)
        for fill in _turns(run, number):
            yield _one(run, phase, number, 1, fill, False, ask(servers[fill], asked))
        run.told()


def _longs(run: Measured, servers: Mapping[bool, Running]) -> Iterator[Row]:
    """Long ones, one at a time, the same way."""
    for number in range(run.suite.short.rounds):
        asked = _long(run, 1)
        for fill in _turns(run, number):
            yield _one(run, ALONE, number, 0, fill, True, ask(servers[fill], asked))
        run.told()


def _short(run: Measured) -> Asked:
    return Asked(run.prompt(run.suite.short.prompt), run.suite.short.new_tokens)


def _long(run: Measured, new: int) -> Asked:
    return Asked(run.prompt(run.suite.long), new)


def _one(run: Measured, phase: str, number: int, place: int, filling: bool, long: bool, answer: Answer) -> Row:
    length = run.suite.long if long else run.suite.short.prompt
    gaps = answer.gaps
    return {
        **run.labels,
        "phase": phase,
        "number": number,
        "place": place,
        "role": "long" if long else "short",
        "arm": run.arm if filling else "exact",
        "split": run.split if filling else None,
        "length": length,
        "filled_rows": run.filled_rows(length) if filling else 0,
        "first_token_seconds": answer.first,
        "decode_seconds": sum(gaps) if gaps else None,
        "gaps": list(gaps),
        "tokens": list(answer.tokens),
    }


def _rows(run: Measured, length: int) -> Row:
    filled = run.filled_rows(length)
    return {"filled_rows": filled, "exact_rows": length - filled}


def _turns(run: Measured, number: int) -> Iterator[bool]:
    """Whose turn of two servers it is, after the pause in which the other one comes to rest."""
    for fill in _order(number):
        sleep(run.suite.short.pause or 0.0)
        yield fill


def _order(number: int) -> tuple[bool, bool]:
    """Which of a pair comes first; it turns."""
    return (False, True) if number % 2 else (True, False)
