"""Going on from prefilled caches: every row after the prompt runs the full model over what an arm left there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ridgefill.decode import Choose, Finished, decode_greedy, most_likely
from ridgefill.models.base import Adapter
from ridgefill.models.cache import RowCache, decode_mask, stack
from ridgefill.passes import require_finite


@dataclass(frozen=True)
class Reached:
    """How far one arm is: its cache of ``tokens`` rows, the last layer's output ``[1, 1, hidden]`` on the last one."""

    adapter: Adapter
    cache: RowCache
    hidden: Tensor
    tokens: int


def extend(reached: Reached, ids: Sequence[int]) -> tuple[Reached, Tensor]:
    """Run every layer on ``ids`` at once, as rows after those that are there: all of decoding but the choice of tokens.

    Returns where that leads, in a cache of its own, and the last layer's output on the new rows, ``[1, R, hidden]``.
    Recurrent states go on from where they are. Raises ``NumericsError`` when an output is not finite.
    """
    adapter, tokens = reached.adapter, reached.tokens
    cache, starts = stack([reached.cache], [tokens], len(ids))
    cache.start = starts[0]
    given = torch.tensor([list(ids)], device=adapter.device)
    positions = torch.arange(tokens, tokens + len(ids), device=adapter.device)
    rows = {start: adapter.rows(positions, start=start, ids=given) for start in set(cache.start)}
    x = adapter.embed(given)
    for layer in range(adapter.layers):
        x = adapter.run_layer(layer, x, rows[cache.start[layer]], cache)
    require_finite(x, "the rows after a prompt")
    return Reached(adapter, cache, x[:, -1:], tokens + len(ids)), x


def step_by_step(reached: Sequence[Reached], count: int, choose: Callable[[int, Tensor], int]) -> Iterator[Tensor]:
    """Logits of ``count`` steps, fp32 ``[A, vocabulary]`` each; between two, all entries are fed the same token.

    choose: from a step's number and its logits, the token that follows. The entries have one adapter and one number of
    tokens; their caches are copied. Raises ``NumericsError`` when an output is not finite.
    """
    adapter, tokens = reached[0].adapter, reached[0].tokens
    cache, starts = stack([one.cache for one in reached], [one.tokens for one in reached], count)
    x = torch.cat([one.hidden for one in reached])
    for step in range(count):
        logits = adapter.logits(x)[:, -1].float()
        yield logits
        if step + 1 < count:
            ids = torch.full((len(reached), 1), choose(step, logits), device=adapter.device)
            x = _step(adapter, cache, starts, ids, tokens + step)
            require_finite(x, "a decoding step")


def _step(adapter: Adapter, cache: RowCache, starts: Sequence[Sequence[int]], ids: Tensor, position: int) -> Tensor:
    """One token of every entry, int64 ``[A, 1]``, at the same position of each: output ``[A, 1, hidden]``."""
    rows = adapter.rows(torch.tensor([position], device=adapter.device), ids=ids)
    x = adapter.embed(ids)
    for layer in range(adapter.layers):
        kind = adapter.kinds[layer]
        mask = decode_mask(starts, layer, rows.begin[kind], rows.stop, adapter.device)
        x = adapter.run_layer(layer, x, replace(rows, mask={kind: mask}), cache)
    return x


def answers(
    reached: Sequence[Reached],
    new_tokens: int,
    stop_ids: Collection[int],
    finished: Finished,
    choose: Choose = most_likely,
    never_first: Collection[int] = (),
) -> list[list[int]]:
    """Tokens from each entry, as ``decode_greedy`` gives them; entries with one adapter as one batch.

    finished, choose: as there, with an entry's number among all. never_first: token ids that no answer begins with.
    """
    groups: dict[int, list[int]] = {}
    for place, one in enumerate(reached):
        groups.setdefault(id(one.adapter), []).append(place)
    outputs: list[list[int]] = [[] for _ in reached]
    for places in groups.values():
        adapter, entries = reached[places[0]].adapter, [reached[place] for place in places]
        first = torch.cat([adapter.logits(one.hidden)[:, 0] for one in entries])
        first[:, list(never_first)] = -torch.inf

        def ended(entry: int, ids: list[int], places: list[int] = places) -> bool:
            return finished(places[entry], ids)

        def chosen(entries: Sequence[int], logits: Tensor, places: list[int] = places) -> Tensor:
            return choose([places[entry] for entry in entries], logits)

        written = decode_greedy(
            adapter,
            [one.cache for one in entries],
            first,
            prompt_tokens=[one.tokens for one in entries],
            new_tokens=new_tokens,
            stop_ids=stop_ids,
            finished=ended,
            choose=chosen,
        )
        for place, ids in zip(places, written, strict=True):
            outputs[place] = ids
    return outputs
