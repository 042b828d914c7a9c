"""RULER retrieval for every arm: one exact pass per sample, the arms of a few samples decoded as one batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ridgefill.arms import Arm, Order
from ridgefill.cost import exact_macs
from ridgefill.decode import decode_greedy
from ridgefill.evaluation.contexts import prompt_context
from ridgefill.evaluation.further import following, script
from ridgefill.evaluation.prompts import Prompt, ends, ruler_prompt
from ridgefill.evaluation.records import arm_rows, measured_rows
from ridgefill.evaluation.runs import ArmRun, Setup, kept_layers, run_arms, timing_rows
from ridgefill.passes import run_exact
from ridgefill.rows import ranking_window
from ridgefill.selectors.context import Context
from ridgefill.suites.ruler import FilledRegion, RulerSample, filled_region, locate_needles, question_first
from ridgefill.suites.scorer import score

Row = dict[str, Any]
DECODE_BYTES = 3 * 2**30
"""Memory for the caches of the samples that are decoded as one batch."""


@dataclass(frozen=True)
class RulerRun(Setup):
    """What an evaluation of samples needs; ``seed_for`` gives the run seed of a label (63 bits).

    orders: of prompts that arms of other runs on the same samples read; needles have to lie before the tail there too.
    """

    seed_for: Callable[[str], int]
    labels: Mapping[str, str]
    orders: Collection[Order] = ()


@dataclass(frozen=True)
class Evaluated:
    """One sample's results. rows: for ``ruler_samples``; timings: for ``timings``; arms: for ``arm_runs``; measured:
    for ``measured``."""

    rows: list[Row]
    timings: list[Row]
    arms: list[Row]
    measured: list[Row]


@dataclass(frozen=True)
class Prefilled:
    """One sample after prefill: its prompt in each order, every arm's run, and the exact pass's seconds."""

    sample: RulerSample
    prompts: Mapping[Order, Prompt]
    region: FilledRegion
    seed: int
    done: list[ArmRun]
    exact_seconds: float

    @property
    def item(self) -> str:
        return item_name(self.sample)

    def tokens(self, run: ArmRun) -> int:
        """Tokens of the prompt that an arm read."""
        return len(self.prompts[run.arm.order].ids)


def item_name(sample: RulerSample) -> str:
    """What a sample is called in results, seeds and finished parts."""
    return f"{sample.task}-{sample.length}-{sample.index}"


def together(run: RulerRun, samples: Sequence[RulerSample]) -> list[list[RulerSample]]:
    """The samples in order, in groups whose caches fit ``DECODE_BYTES`` while they are decoded as one batch.

    The same configuration gives the same groups, so a run that was interrupted repeats the same products.
    """
    size = torch.finfo(run.loaded.adapter.dtype).bits // 8
    groups: list[list[RulerSample]] = []
    for sample in samples:
        rows = sample.length * run.geometry.layers * len(run.arms)
        fit = max(1, DECODE_BYTES // (2 * rows * run.geometry.kv * size))
        alike = groups and groups[-1][0].length == sample.length and groups[-1][0].new_tokens == sample.new_tokens
        if not alike or len(groups[-1]) >= fit:
            groups.append([])
        groups[-1].append(sample)
    return groups


def evaluate_samples(run: RulerRun, samples: Sequence[RulerSample]) -> list[Evaluated]:
    """Results of each sample under every arm. Raises ``NumericsError``.

    The samples, of one length, are prefilled one by one and decoded as one batch.
    """
    with torch.inference_mode():
        prefilled = [prefill(run, sample) for sample in samples]
        outputs = _decode(run, prefilled)
    return [_evaluated(run, one, written) for one, written in zip(prefilled, outputs, strict=True)]


def _evaluated(run: RulerRun, one: Prefilled, written: Sequence[list[int]]) -> Evaluated:
    arms = [
        row
        for done in one.done
        for row in arm_rows("ruler", one.item, one.seed, [done], exact_macs(run.geometry, one.tokens(done)))
    ]
    return Evaluated(
        [_row(run, one, arm_run, ids) for arm_run, ids in zip(one.done, written, strict=True)],
        timing_rows("ruler", one.item, one.done, one.exact_seconds),
        arms,
        measured_rows("ruler", one.item, one.done),
    )


def prefill(run: RulerRun, sample: RulerSample) -> Prefilled:
    """Prefill of every arm; arms that move the question have an exact pass of their own to start from.

    The filled region is one for every order that some arm reads, also for those that no arm of this run does.
    """
    adapter, seed = run.loaded.adapter, run.seed_for(f"rows/ruler/{item_name(sample)}")
    prompts: dict[Order, Prompt] = {}
    regions: list[FilledRegion] = []
    done: dict[str, ArmRun] = {}
    seconds = 0.0
    own: list[Order] = [arm.order for arm in run.arms]
    every: Sequence[Order] = ("given", *own, *run.orders)
    for order in dict.fromkeys(every):
        placed = question_first(sample) if order == "question_first" else sample
        prompt = prompts[order] = ruler_prompt(run.loaded.tokenizer, placed)
        tokens = len(prompt.ids)
        regions.append(filled_region(locate_needles(placed, prompt.text, prompt.offsets), tokens, run.tail))
        arms = [arm for arm in run.arms if arm.order == order]
        if not arms:
            continue
        window = ranking_window(arms, tokens, run.window)
        exact = run_exact(adapter, torch.tensor([prompt.ids]), keep=kept_layers(run), window=window)
        seconds = seconds or exact.clock[-1]
        done |= {one.arm.key: one for one in run_arms(run, exact, _context(run, placed, prompt, arms, seed), arms)}
    # One set of samples for all arms: needles lie before the tail in every order that some arm reads.
    region = FilledRegion(all(one.inserted for one in regions), all(one.queried for one in regions))
    return Prefilled(sample, prompts, region, seed, [done[arm.key] for arm in run.arms], seconds)


def _context(run: RulerRun, sample: RulerSample, prompt: Prompt, arms: Sequence[Arm], seed: int) -> Context:
    """What selectors see: the user's turn, and the question with the answer's prefix, which names the key too."""
    start = prompt.text.index(sample.question_prompt)
    return prompt_context(
        arms,
        run.loaded.tokenizer,
        prompt.ids,
        text=prompt.text,
        offsets=prompt.offsets,
        seed=seed,
        turn=(start, start + len(sample.question_prompt)),
        question=question_span(sample, prompt),
        frequencies=run.fitted.frequencies,
    )


def question_span(sample: RulerSample, prompt: Prompt) -> tuple[int, int]:
    """Characters of the prompt from the question to the end, the answer's prefix included."""
    return prompt.text.index(sample.question_prompt) + sample.question[0], len(prompt.text)


def _decode(run: RulerRun, prefilled: Sequence[Prefilled]) -> list[list[list[int]]]:
    """Tokens per sample and arm; arms whose late layers are the same are decoded together."""
    tokenizer = run.loaded.tokenizer
    entries = [(one, arm_run) for one in prefilled for arm_run in one.done]
    scripts = [script(tokenizer, one.sample) for one in prefilled for _ in one.done]
    outputs: list[list[int]] = [[] for _ in entries]
    groups: dict[str, list[int]] = {}
    for place, (_, arm_run) in enumerate(entries):
        groups.setdefault(arm_run.arm.exact_rows, []).append(place)
    for places in groups.values():

        def finished(entry: int, ids: list[int], places: list[int] = places) -> bool:
            # Once every reference has appeared nothing later can change the score.
            sample = entries[places[entry]][0].sample
            return score(tokenizer.decode(ids, skip_special_tokens=True), sample.references, sample.metric) == 1.0

        adapter = entries[places[0]][1].adapter
        written = decode_greedy(
            adapter,
            [entries[place][1].cache for place in places],
            torch.cat([adapter.logits(entries[place][1].hidden[:, -1:])[:, 0] for place in places]),
            prompt_tokens=[entries[place][0].tokens(entries[place][1]) for place in places],
            new_tokens=prefilled[0].sample.new_tokens,
            stop_ids=ends(tokenizer),
            finished=finished,
            choose=following([scripts[place] for place in places]),
        )
        for place, ids in zip(places, written, strict=True):
            outputs[place] = ids
    arms = len(run.arms)
    return [outputs[place * arms : (place + 1) * arms] for place in range(len(prefilled))]


def _row(run: RulerRun, one: Prefilled, done: ArmRun, output: list[int]) -> Row:
    prediction = run.loaded.tokenizer.decode(output, skip_special_tokens=True)
    prompt = one.prompts[done.arm.order]
    return {
        **run.labels,
        "task": one.sample.task,
        "length": one.sample.length,
        "sample": one.sample.index,
        "prompt_sha256": prompt.sha256,
        "prompt_tokens": len(prompt.ids),
        "tail": done.tail,
        "split": done.arm.split,
        "arm": done.arm.name,
        "filled_rows": done.filled_rows,
        "exact_rows": len(done.selected),
        "in_filled_region": one.region.inserted,
        "in_filled_region_queried": one.region.queried,
        "prediction": prediction,
        "references": list(one.sample.references),
        "score": score(prediction, one.sample.references, one.sample.metric),
        "status": "ok",
        "generated_tokens": len(output),
        "macs": done.macs.total,
        "exact_macs": exact_macs(run.geometry, len(prompt.ids)),
    }
