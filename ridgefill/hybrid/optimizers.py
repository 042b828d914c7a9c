"""Muon for the matrices of the layers, AdamW for everything else, and how their rates go up and down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ridgefill.hybrid.settings import Optimizer

GATES = ("in_proj_a", "in_proj_b")
"""Matrices of a few rows, one a head: orthogonal steps mean nothing to them."""


class Optimizers:
    """Both optimizers as one."""

    def __init__(self, network: Any, settings: Optimizer) -> None:
        matrices: list[Tensor] = []
        others: list[Tensor] = []
        for name, weight in network.named_parameters():
            inner = name.startswith("model.layers.") and weight.ndim == 2
            (matrices if inner and not any(gate in name for gate in GATES) else others).append(weight)
        self.settings = settings
        self.weights = matrices + others
        self.both = (
            torch.optim.Muon(
                matrices,
                lr=settings.matrix_rate,
                weight_decay=settings.weight_decay,
                adjust_lr_fn="match_rms_adamw",
            ),
            torch.optim.AdamW(others, lr=settings.rate, betas=(0.9, 0.98), weight_decay=settings.weight_decay),
        )

    def step(self, factor: float) -> float:
        """Clip, move by ``factor`` of the rates, forget the gradients; the gradients' norm before clipping."""
        norm = float(torch.nn.utils.clip_grad_norm_(self.weights, self.settings.clip))
        for optimizer, rate in zip(self.both, (self.settings.matrix_rate, self.settings.rate), strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return norm

    def tensors(self) -> dict[str, Tensor]:
        """What ``restore`` needs to go on exactly here; ``0.12.exp_avg`` is that of weight 12 in the first one."""
        return {
            f"{number}.{weight}.{name}": value
            for number, optimizer in enumerate(self.both)
            for weight, state in optimizer.state_dict()["state"].items()
            for name, value in state.items()
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from ``tensors``. What else optimizers remember follows from the settings and the step."""
        states: list[dict[int, dict[str, Tensor]]] = [{} for _ in self.both]
        for key, value in tensors.items():
            number, weight, name = key.split(".", 2)
            states[int(number)].setdefault(int(weight), {})[name] = value
        for optimizer, state in zip(self.both, states, strict=True):
            optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def rate_factor(settings: Optimizer, step: int, steps: int) -> float:
    """Share of the rates at a step: up over the warm-up, flat, down to zero over the last part."""
    rising = (step + 1) / (settings.warmup + 1)
    falling = (steps - step) / max(1.0, settings.decay * steps)
    return min(1.0, rising, falling)
