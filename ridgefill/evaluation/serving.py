"""Mixed serving on one machine (EVALUATION section 1): one long prompt is prefilled among users who decode.

The scheduler alternates: a chunk of the long prompt, then one step that gives every user a token, until the prompt's
first token is there; then the users go on alone. The same users, prompts and chunks under exact and under an arm, in
turn. The users' batch is real: their prompts are prefilled exactly beforehand, and a step runs the whole model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ridgefill import stats
from ridgefill.arms import Arm
from ridgefill.decode import decode_steps
from ridgefill.errors import ConfigError
from ridgefill.evaluation.chunks import (
    ChunkedFill,
    Prefilled,
    exact_chunks,
    filled_chunks,
    require_chunks,
    unchunked,
)
from ridgefill.evaluation.clocks import Clock
from ridgefill.evaluation.requests import Requests
from ridgefill.evaluation.runs import Setup, arm_adapter, arm_amendments
from ridgefill.evaluation.speed import untimed
from ridgefill.fill import predictor
from ridgefill.models.base import Adapter
from ridgefill.passes import run_exact
from ridgefill.rows import RowPlan, plan_rows
from ridgefill.selectors.context import Context
from ridgefill.suite_settings import ServingSuite

Row = dict[str, Any]
Users = Callable[[], Iterator[Tensor]]
"""Begins the users' decoding anew: their tokens, int64 ``[users]``, a step at a time."""


@dataclass(frozen=True)
class ServingRun(Setup):
    """What a measurement of mixed serving needs. labels: of every row."""

    suite: ServingSuite
    requests: Requests
    labels: Mapping[str, Any]


@dataclass(frozen=True)
class Served:
    """What one run showed, times in seconds.

    first_token: from the long prompt's arrival until its first token, ``token``. latencies: between two tokens of a
    user, for each step while the prompt was prefilled; all users get theirs at once. alone: for each step after it.
    tokens: of every step, of all users, the ones that they held when the prompt arrived first.
    """

    first_token: float
    token: int
    latencies: tuple[float, ...]
    alone: tuple[float, ...]
    tokens: tuple[tuple[int, ...], ...]

    @property
    def tokens_per_second(self) -> float:
        """Tokens that all users together got, per second, until the long prompt's first one was there."""
        return len(self.tokens[0]) * (len(self.latencies) - 1) / self.first_token


def serve(
    chunks: Iterator[Prefilled | None], users: Iterator[Tensor], first: Callable[[Tensor], Tensor], clock: Clock
) -> Served:
    """Run the chunks of one prompt, a step of the users after each, and then the users to their end.

    first: output of the prompt's last row ``[1, 1, hidden]`` to its logits. Raises ``ConfigError`` when the users end
    before the prompt does.
    """
    tokens = [tuple(next(users).tolist())]
    latencies: list[float] = []
    first_token, token = 0.0, -1
    begin = earlier = clock()
    for done in chunks:
        if done is not None:
            token = int(first(done.hidden).argmax(-1))
            first_token = clock() - begin
        step = next(users, None)
        if step is None:
            raise ConfigError(
                f"the users were done after {len(tokens)} tokens, before the long prompt was; let them decode more"
            )
        tokens.append(tuple(step.tolist()))
        now = clock()
        latencies.append(now - earlier)
        earlier = now
    alone: list[float] = []
    for step in users:
        tokens.append(tuple(step.tolist()))
        now = clock()
        alone.append(now - earlier)
        earlier = now
    return Served(first_token, token, tuple(latencies), tuple(alone), tuple(tokens))


def unserved(adapter: Adapter) -> Callable[[Arm], str | None]:
    """Why an arm cannot be served in chunks by a model, as ``speed.chosen_arms`` asks."""
    return lambda arm: untimed(arm) or unchunked(arm, adapter)


def requests_needed(suite: ServingSuite, arms: int) -> int:
    """Prompts of all runs: a long one and the users', for the untimed and the timed pairs of every arm and length."""
    return (1 + suite.users) * (1 + suite.repeats) * arms * len(suite.lengths)


def serve_arm(
    run: ServingRun, arm: Arm, length: int, number: int, clock: Clock, told: Callable[[], object] = lambda: None
) -> list[Row]:
    """Rows for ``serving``: exact and the arm in turn, on the same prompts; one untimed pair, then ``repeats``.

    number: of the first request to use; each pair has a long prompt and users' prompts of its own. told: called after
    each pair. Raises ``ConfigError`` for an arm that cannot be prefilled in these chunks.
    """
    rows: list[Row] = []
    with torch.inference_mode():
        for repeat in range(-1, run.suite.repeats):
            own = number + (repeat + 1) * (1 + run.suite.users)
            context = run.requests.context([arm], own, length)
            users = _users(run, own + 1)
            ids = torch.tensor([context.ids])
            plan = _plan(run, arm, context)
            exact = serve(
                exact_chunks(run.loaded.adapter, ids, run.suite.chunk), users(), run.loaded.adapter.logits, clock
            )
            adapter, fill = _fill(run, arm, plan)
            filled = serve(filled_chunks(adapter, ids, run.suite.chunk, fill), users(), adapter.logits, clock)
            if repeat >= 0:
                rows += [_row(run, arm, None, length, repeat, exact), _row(run, arm, plan, length, repeat, filled)]
            told()
    return rows


def _plan(run: ServingRun, arm: Arm, context: Context) -> RowPlan:
    return plan_rows(arm, replace(context, adapter=arm_adapter(run, arm)), run.geometry)


def _fill(run: ServingRun, arm: Arm, plan: RowPlan) -> tuple[Adapter, ChunkedFill]:
    adapter = arm_adapter(run, arm)
    fill = ChunkedFill(arm, plan, predictor(arm, run.fitted.maps, adapter), arm_amendments(arm, run.fitted))
    require_chunks(fill, adapter, run.suite.chunk)
    return adapter, fill


def _users(run: ServingRun, number: int) -> Users:
    """The users' prompts from request ``number`` on, prefilled; a run decodes from copies of these caches."""
    adapter, suite = run.loaded.adapter, run.suite
    contexts = [run.requests.context([], number + user, suite.user_prompt) for user in range(suite.users)]
    done = [run_exact(adapter, torch.tensor([context.ids])) for context in contexts]
    logits = torch.cat([adapter.logits(one.hidden[:, -1:])[:, 0] for one in done])
    caches, lengths = [one.cache for one in done], [suite.user_prompt] * suite.users
    return lambda: decode_steps(adapter, caches, logits, prompt_tokens=lengths, new_tokens=suite.new_tokens)


def _row(run: ServingRun, arm: Arm, plan: RowPlan | None, length: int, repeat: int, served: Served) -> Row:
    """plan: None for the exact run of a pair."""
    found, adapter = stats.tail(served.latencies), run.loaded.adapter
    return {
        **run.labels,
        "pair": arm.key,
        "arm": "exact" if plan is None else arm.name,
        "split": None if plan is None else arm.split,
        "length": length,
        "repeat": repeat,
        "users": run.suite.users,
        "user_prompt": run.suite.user_prompt,
        "chunk": run.suite.chunk,
        "filled_rows": 0 if plan is None else int(plan.filled.numel()),
        "exact_rows": length if plan is None else plan.tail + len(plan.selected),
        "first_token_seconds": served.first_token,
        "tokens_per_second": served.tokens_per_second,
        "latency_mean": found.mean,
        "latency_p50": found.median,
        "latency_p99": found.p99,
        "latency_max": max(served.latencies),
        "latencies": list(served.latencies),
        "alone": list(served.alone),
        "device": adapter.device.type,
        "threads": torch.get_num_threads(),
        "dtype": str(adapter.dtype).removeprefix("torch."),
    }
