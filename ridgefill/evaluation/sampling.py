"""Sampling a token: one uniform number of a generator for each, so arms with one seed draw the same numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ridgefill.decode import Choose
from ridgefill.errors import ConfigError


def sample(logits: Tensor, temperature: float, generator: torch.Generator) -> int:
    """A token of the softmax of ``logits / temperature``, logits ``[vocabulary]``, in fp64 on the processor.

    Exactly one number of ``generator`` is used, whatever the logits: the token is the one at which the running sum of
    probabilities passes it. Raises ``ConfigError`` for a temperature that is not above 0.
    """
    if not temperature > 0:
        raise ConfigError(f"the temperature is {temperature}; expected more than 0, or greedy decoding")
    passed = (logits.double().cpu() / temperature).softmax(-1).cumsum(-1)
    drawn = torch.rand((), generator=generator, dtype=torch.float64) * passed[-1]
    # The product may round up to the whole sum; tokens after the last likely one have none of it.
    last = torch.searchsorted(passed, passed[-1])
    return int(torch.searchsorted(passed, drawn, right=True).minimum(last))


def sampler(temperature: float, seeds: Sequence[int]) -> Choose:
    """How ``decode_greedy`` samples: entry ``i`` draws from a generator of its own, seeded with ``seeds[i]``."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def choose(entries: Sequence[int], logits: Tensor) -> Tensor:
        chosen = [sample(row, temperature, generators[entry]) for entry, row in zip(entries, logits, strict=True)]
        return torch.tensor(chosen, device=logits.device)

    return choose
