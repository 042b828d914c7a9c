"""``python -m workflow.jobs.hybrid``: train a checkpoint of ``workflow/config/hybrids``, and ask where it retrieves.

Stopped, it goes on from its last training checkpoint when the same command is typed again. Everything is counted in
steps, so the seed and the settings decide the result, however busy the machine is.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ridgefill.hybrid.settings import Hybrid, load_hybrid
from ridgefill.progress import progress
from workflow.jobs.common import run_job

if TYPE_CHECKING:
    from ridgefill.hybrid.training import Step

ABLATED = 1024
"""Prompt length at which parts are taken away."""
LENGTHS = (256, 512, 1024, 2048)
"""Prompt lengths at which the whole checkpoint is asked."""
SHOWN = 50
"""Steps that one line of the log is about."""
HELD_OUT_SEED = 2026


class Curve:
    """A line of the log, and the progress bar, for every few steps of a training."""

    def __init__(self, bar: Any, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.bar, self.log = bar, log
        self.steps: list[Step] = []

    def __call__(self, step: Step) -> None:
        """Take note of a step."""
        self.bar.update(step.step + 1 - self.bar.n)
        self.steps.append(step)
        if (step.step + 1) % SHOWN == 0:
            with open(self.log, "a", encoding="utf-8") as stream:
                stream.write(self.line() + "\n")
            self.steps.clear()

    def line(self) -> str:
        """Means over the steps since the last line."""
        last = self.steps[-1]
        shown = [f"step {last.step + 1}", f"length {last.length}", f"minutes {last.seconds / 60:.1f}"]
        for name in ("answers", "rest", "forced", "whole", "norm"):
            values = [value for step in self.steps if (value := getattr(step, name)) is not None]
            shown.append(f"{name} {fmean(values):.3f}" if values else f"{name} -")
        return ", ".join(shown)


def work(arguments: argparse.Namespace) -> str:
    """Train, or go on training, then measure; with ``--measure`` only measure the folder that is there."""
    import torch

    from ridgefill.hybrid.network import load, save
    from ridgefill.hybrid.training import train

    torch.set_num_threads(1)
    hybrid = load_hybrid(arguments.name)
    if arguments.measure:
        network = load(arguments.out)
        return table(measure(network, hybrid, arguments.prompts))
    place = arguments.work or arguments.out.parent / ".training"
    with progress(hybrid.steps, hybrid.name, "steps") as bar:
        network, stands = train(
            hybrid, place / f"{hybrid.name}.safetensors", arguments.every, Curve(bar, place / f"{hybrid.name}.log")
        )
    record = {
        "settings": hybrid.model_dump(mode="json"),
        "steps": stands.step,
        "processor_minutes": round(stands.seconds / 60, 1),
        "right": measure(network, hybrid, arguments.prompts),
    }
    save(network, hybrid.network.context, arguments.out, json.dumps(record, indent=2) + "\n")
    return table(record["right"]) + f"{arguments.out}: {stands.step} steps in {stands.seconds / 60:.0f} minutes"


def measure(network: Any, hybrid: Hybrid, prompts: int) -> list[dict[str, Any]]:
    """Prompts answered exactly, of ``prompts`` held-out ones: a row for each ablation, length and task."""
    from ridgefill.hybrid.ablations import TASKS, ablations, exactly_right, held_out_episodes

    cuts = ablations(hybrid.network)
    asked = [(cuts[0], length) for length in LENGTHS] + [(cut, ABLATED) for cut in cuts[1:]]
    rows = []
    with progress(len(asked) * len(TASKS), "retrieval", "measures") as bar:
        for cut, length in asked:
            for task in TASKS:
                right = exactly_right(network, held_out_episodes(task, length, prompts, HELD_OUT_SEED), cut)
                rows.append(
                    {"gone": cut.name, "length": length, "task": task, "right": sum(right), "prompts": len(right)}
                )
                bar.update(1)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """The measures as a Markdown table, tasks side by side."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    lines = [f"| gone | tokens | {' | '.join(tasks)} |", "|---" * (2 + len(tasks)) + "|"]
    for gone, length in dict.fromkeys((row["gone"], row["length"]) for row in rows):
        found = {row["task"]: row for row in rows if (row["gone"], row["length"]) == (gone, length)}
        shares = (f"{100 * found[task]['right'] / found[task]['prompts']:.0f} %" for task in tasks)
        lines.append(f"| {gone} | {length} | {' | '.join(shares)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Entry point."""
    command = argparse.ArgumentParser(description=__doc__)
    command.add_argument("--name", required=True, help="a file of workflow/config/hybrids")
    command.add_argument("--out", type=Path, required=True, help="folder of the checkpoint")
    command.add_argument("--work", type=Path, help="folder of the training checkpoint and its log")
    command.add_argument("--every", type=int, default=100, help="steps between training checkpoints")
    command.add_argument("--prompts", type=int, default=100, help="held-out prompts of each measure")
    command.add_argument("--measure", action="store_true", help="train nothing: measure the folder --out")
    command.add_argument("--log", type=Path)
    return run_job(work, command)


if __name__ == "__main__":
    raise SystemExit(main())
