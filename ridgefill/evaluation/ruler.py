"""RULER retrieval for every arm: one exact pass per sample, the arms of a few samples decoded as one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ridgefill.cost import exact_macs
from ridgefill.decode import decode_greedy
from ridgefill.evaluation.prompts import Prompt, ruler_prompt
from ridgefill.evaluation.runs import ArmRun, Setup, kept_layers, run_arms, timing_rows
from ridgefill.passes import run_exact
from ridgefill.suites.ruler import RulerSample, filled_region, locate_needles
from ridgefill.suites.scorer import score

Row = dict[str, Any]
DECODE_BYTES = 3 * 2**30
"""Memory for the caches of the samples that are decoded as one batch."""


@dataclass(frozen=True)
class RulerRun(Setup):
    """What an evaluation of samples needs; ``seed_for`` gives the run seed of a label (63 bits)."""

    seed_for: Callable[[str], int]
    labels: Mapping[str, str]


@dataclass(frozen=True)
class _Prefilled:
    """One sample after prefill: its prompt, every arm's run, and the exact pass's seconds."""

    sample: RulerSample
    prompt: Prompt
    done: list[ArmRun]
    exact_seconds: float

    @property
    def item(self) -> str:
        return item_name(self.sample)


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


def evaluate_samples(run: RulerRun, samples: Sequence[RulerSample]) -> list[tuple[list[Row], list[Row]]]:
    """Rows for ``ruler_samples`` and ``timings`` of each sample, one per arm. Raises ``NumericsError``.

    The samples, of one length, are prefilled one by one and decoded as one batch.
    """
    with torch.inference_mode():
        prefilled = [_prefill(run, sample) for sample in samples]
        outputs = _decode(run, prefilled)
    results = []
    for one, written in zip(prefilled, outputs, strict=True):
        spans = locate_needles(one.sample, one.prompt.text, one.prompt.offsets)
        region = filled_region(spans, len(one.prompt.ids), run.tail)
        rows = [_row(run, one, region, arm_run, ids) for arm_run, ids in zip(one.done, written, strict=True)]
        results.append((rows, timing_rows("ruler", one.item, one.done, one.exact_seconds)))
    return results


def _prefill(run: RulerRun, sample: RulerSample) -> _Prefilled:
    prompt = ruler_prompt(run.loaded.tokenizer, sample)
    tokens = len(prompt.ids)
    exact = run_exact(
        run.loaded.adapter,
        torch.tensor([prompt.ids]),
        keep=kept_layers(run.arms),
        window=(max(0, tokens - run.window), tokens),
    )
    seed = run.seed_for(f"rows/ruler/{item_name(sample)}")
    runs = run_arms(run.loaded.adapter, exact, run.arms, run.maps, run.geometry, seed=seed, tokens=tokens)
    return _Prefilled(sample, prompt, list(runs), exact.clock[-1])


def _decode(run: RulerRun, prefilled: Sequence[_Prefilled]) -> list[list[list[int]]]:
    """Tokens per sample and arm."""
    adapter, tokenizer = run.loaded.adapter, run.loaded.tokenizer
    entries = [(one, arm_run) for one in prefilled for arm_run in one.done]

    def finished(entry: int, ids: list[int]) -> bool:
        # Once every reference has appeared nothing later can change the score.
        references = entries[entry][0].sample.references
        return score(tokenizer.decode(ids, skip_special_tokens=True), references, "all") == 1.0

    outputs = decode_greedy(
        adapter,
        [arm_run.cache for _, arm_run in entries],
        torch.cat([adapter.logits(arm_run.hidden[:, -1:])[:, 0] for _, arm_run in entries]),
        prompt_tokens=[len(one.prompt.ids) for one, _ in entries],
        new_tokens=prefilled[0].sample.new_tokens,
        stop_ids={int(tokenizer.eos_token_id)},
        finished=finished,
    )
    arms = len(run.arms)
    return [outputs[place * arms : (place + 1) * arms] for place in range(len(prefilled))]


def _row(run: RulerRun, one: _Prefilled, region: tuple[bool, bool], done: ArmRun, output: list[int]) -> Row:
    prediction = run.loaded.tokenizer.decode(output, skip_special_tokens=True)
    return {
        **run.labels,
        "task": one.sample.task,
        "length": one.sample.length,
        "sample": one.sample.index,
        "prompt_sha256": one.prompt.sha256,
        "prompt_tokens": len(one.prompt.ids),
        "tail": done.tail,
        "split": done.arm.split,
        "arm": done.arm.name,
        "filled_rows": done.filled_rows,
        "exact_rows": done.exact_rows,
        "in_filled_region": region[0],
        "in_filled_region_queried": region[1],
        "prediction": prediction,
        "references": list(one.sample.references),
        "score": score(prediction, one.sample.references, "all"),
        "status": "ok",
        "generated_tokens": len(output),
        "macs": done.macs,
        "exact_macs": exact_macs(run.geometry, len(one.prompt.ids)),
    }
