"""RULER retrieval for every arm: one exact pass per sample, all arms decoded as one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ridgefill.arms import Arm
from ridgefill.cost import Geometry, exact_macs
from ridgefill.decode import decode_greedy
from ridgefill.evaluation.prompts import Prompt, ruler_prompt
from ridgefill.evaluation.runs import ArmRun, kept_layers, run_arms
from ridgefill.fill import Predict
from ridgefill.models.load import Loaded
from ridgefill.passes import run_exact
from ridgefill.suites.ruler import RulerSample, filled_region, locate_needles
from ridgefill.suites.scorer import score

Row = dict[str, Any]


@dataclass(frozen=True)
class RulerRun:
    """What an evaluation of samples needs; ``seed_for`` gives the run seed of a label (63 bits)."""

    loaded: Loaded
    arms: Sequence[Arm]
    maps: Mapping[int, Predict]
    geometry: Geometry
    tail: int
    window: int
    seed_for: Callable[[str], int]
    labels: Mapping[str, str]


def evaluate_sample(run: RulerRun, sample: RulerSample) -> tuple[list[Row], list[Row]]:
    """Rows for ``ruler_samples`` and ``timings`` of one sample, one per arm. Raises ``NumericsError``."""
    prompt = ruler_prompt(run.loaded.tokenizer, sample)
    tokens = len(prompt.ids)
    item = f"{sample.task}-{sample.length}-{sample.index}"
    with torch.inference_mode():
        exact = run_exact(
            run.loaded.adapter,
            torch.tensor([prompt.ids]),
            capacity=tokens + sample.new_tokens,
            keep=kept_layers(run.arms),
            window=(max(0, tokens - run.window), tokens),
        )
        done = list(
            run_arms(
                run.loaded.adapter, exact, run.arms, run.maps, run.geometry,
                seed=run.seed_for(f"rows/ruler/{item}"), tokens=tokens,
            )
        )  # fmt: skip
        outputs = _decode(run, sample, done, tokens)
    region = filled_region(locate_needles(sample, prompt.text, prompt.offsets), tokens, run.tail)
    rows = [_row(run, sample, prompt, region, arm_run, output) for arm_run, output in zip(done, outputs, strict=True)]
    return rows, timing_rows("ruler", item, done, exact.clock[-1])


def timing_rows(suite: str, item: str, runs: Sequence[ArmRun], exact_seconds: float) -> list[Row]:
    """Rows for ``timings``: what each arm's layers took in this process, beside the exact pass."""
    return [
        {
            "suite": suite,
            "item": item,
            "arm": run.arm.name,
            "split": run.arm.split,
            "lower_seconds": run.seconds[0],
            "late_seconds": run.seconds[1],
            "exact_seconds": exact_seconds,
        }
        for run in runs
    ]


def _decode(run: RulerRun, sample: RulerSample, done: Sequence[ArmRun], tokens: int) -> list[list[int]]:
    tokenizer = run.loaded.tokenizer
    first = torch.cat([run.loaded.adapter.logits(one.hidden[:, -1:])[:, 0] for one in done])

    def finished(_: int, ids: list[int]) -> bool:
        # Once every reference has appeared nothing later can change the score.
        return score(tokenizer.decode(ids, skip_special_tokens=True), sample.references, "all") == 1.0

    return decode_greedy(
        run.loaded.adapter,
        [one.cache for one in done],
        first,
        prompt_tokens=tokens,
        new_tokens=sample.new_tokens,
        stop_ids={int(tokenizer.eos_token_id)},
        finished=finished,
    )


def _row(
    run: RulerRun,
    sample: RulerSample,
    prompt: Prompt,
    region: tuple[bool, bool],
    done: ArmRun,
    output: list[int],
) -> Row:
    prediction = run.loaded.tokenizer.decode(output, skip_special_tokens=True)
    return {
        **run.labels,
        "task": sample.task,
        "length": sample.length,
        "sample": sample.index,
        "prompt_sha256": prompt.sha256,
        "prompt_tokens": len(prompt.ids),
        "tail": done.tail,
        "split": done.arm.split,
        "arm": done.arm.name,
        "filled_rows": done.filled_rows,
        "exact_rows": done.exact_rows,
        "in_filled_region": region[0],
        "in_filled_region_queried": region[1],
        "prediction": prediction,
        "references": list(sample.references),
        "score": score(prediction, sample.references, "all"),
        "status": "ok",
        "generated_tokens": len(output),
        "macs": done.macs,
        "exact_macs": exact_macs(run.geometry, len(prompt.ids)),
    }
