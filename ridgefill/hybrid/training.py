"""Training a checkpoint: dense questions, a curriculum of lengths, and forcing, in steps that a seed decides."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from ridgefill.errors import ModelError, NumericsError
from ridgefill.files import replacing
from ridgefill.hybrid.batches import Batch, training_batch
from ridgefill.hybrid.network import untrained
from ridgefill.hybrid.optimizers import Optimizers, rate_factor
from ridgefill.hybrid.passes import Cut, hidden_states
from ridgefill.hybrid.settings import Hybrid

NETWORK, OPTIMIZERS = "network.", "optimizers."
"""How names of a training checkpoint's tensors begin."""


@dataclass(frozen=True)
class Step:
    """What a step showed: mean loss of answers and of the rest, shares of answer digits foreseen in forced and in
    whole episodes (None without such), the gradients' norm, and the processor time of the training so far."""

    step: int
    length: int
    answers: float
    rest: float
    forced: float | None
    whole: float | None
    norm: float
    seconds: float


@dataclass(frozen=True)
class Progress:
    """Where a training stands: its next step, and the processor seconds it has taken."""

    step: int
    seconds: float


def train(
    hybrid: Hybrid,
    resume: Path,
    every: int,
    seen: Callable[[Step], None],
    until: int | None = None,
) -> tuple[Any, Progress]:
    """Train to the end, or to step ``until``; the network in fp32, and where it stands.

    resume: a file written after every ``every`` steps and at the end, and read first when it is there. seen: called
    after each step. Raises ModelError when the file belongs to other settings, NumericsError when the loss is no
    number.
    """
    network = untrained(hybrid)
    optimizers = Optimizers(network, hybrid.optimizer)
    progress = restore(resume, hybrid, network, optimizers)
    last = hybrid.steps if until is None else min(until, hybrid.steps)
    network.train()
    while progress.step < last:
        began = time.process_time()
        shown = one_step(hybrid, network, optimizers, progress.step)
        progress = Progress(progress.step + 1, progress.seconds + time.process_time() - began)
        seen(replace(shown, seconds=progress.seconds))
        if progress.step % every == 0 or progress.step == last:
            keep(resume, hybrid, network, optimizers, progress)
    return network.eval(), progress


def one_step(hybrid: Hybrid, network: Any, optimizers: Optimizers, step: int) -> Step:
    """One batch forward, backward, and a move of the weights."""
    batch = training_batch(hybrid, step)
    cut = Cut(hybrid.forcing.attention, hybrid.forcing.states, batch.start * batch.forced)
    hidden = hidden_states(network, batch.ids, cut)
    answers, rest, right = losses(network, hidden, batch)
    loss: Any = answers + hybrid.optimizer.rest * rest
    loss.backward()
    norm = optimizers.step(rate_factor(hybrid.optimizer, step, hybrid.steps))
    if not torch.isfinite(answers + rest):
        raise NumericsError(f"{hybrid.name}: the loss at step {step} is not a number; lower optimizer.rate or clip")
    where = batch.forced.unsqueeze(1).expand_as(batch.answers)[batch.answers]
    return Step(
        step, batch.ids.shape[1], answers.item(), rest.item(), _share(right[where]), _share(right[~where]), norm, 0.0
    )


def losses(network: Any, hidden: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Mean cross-entropy of answer digits and of the rest, and which answer digits are right, boolean ``[answers]``."""
    before, after = hidden[:, :-1], batch.ids[:, 1:]
    found = network.lm_head(before[batch.answers]).float()
    truth = after[batch.answers]
    other = network.lm_head(before[batch.rest]).float()
    return (
        functional.cross_entropy(found, truth),
        functional.cross_entropy(other, after[batch.rest]),
        found.argmax(-1) == truth,
    )


def keep(resume: Path, hybrid: Hybrid, network: Any, optimizers: Optimizers, progress: Progress) -> None:
    """Write everything that a later run of the same settings needs to go on."""
    parts = {NETWORK: network.state_dict(), OPTIMIZERS: optimizers.tensors()}
    # Copies, as tied weights are one tensor under two names, which the format does not hold.
    tensors = {f"{part}{name}": value.clone() for part, named in parts.items() for name, value in named.items()}
    metadata = {"settings": settings_text(hybrid), "step": str(progress.step), "seconds": repr(progress.seconds)}
    with replacing(resume) as temporary:
        save_file(tensors, temporary, metadata=metadata)


def restore(resume: Path, hybrid: Hybrid, network: Any, optimizers: Optimizers) -> Progress:
    """Load what ``keep`` wrote; the start when there is none."""
    if not resume.exists():
        return Progress(0, 0.0)
    try:
        with safe_open(resume, framework="pt") as stored:
            said = stored.metadata() or {}
            settings, progress = said["settings"], Progress(int(said["step"]), float(said["seconds"]))
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - no mapping
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise ModelError(f"{resume} could not be read as a training checkpoint; delete it to train anew") from error
    if settings != settings_text(hybrid):
        raise ModelError(
            f"{resume} belongs to other settings than those of {hybrid.name} now; delete it to train anew, or undo the "
            "change"
        )
    network.load_state_dict(_part(tensors, NETWORK))
    optimizers.restore(_part(tensors, OPTIMIZERS))
    return progress


def _part(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    return {name.removeprefix(part): value for name, value in tensors.items() if name.startswith(part)}


def settings_text(hybrid: Hybrid) -> str:
    """The settings as one line, to compare."""
    return json.dumps(hybrid.model_dump(mode="json", exclude={"about"}), sort_keys=True)


def _share(right: Tensor) -> float | None:
    return right.float().mean().item() if right.numel() else None
