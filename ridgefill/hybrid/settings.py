"""What a checkpoint is made of: one file of ``workflow/config/hybrids`` each, every field checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import Field, ValidationError, model_validator

from ridgefill.errors import ConfigError
from ridgefill.hybrid.language import DIGITS
from ridgefill.sizes import Count, Frozen, Index

FOLDER = Path("workflow/config/hybrids")
ATTENTION_EVERY = 4
"""Three recurrent layers, then one of attention, as the models of the family have them."""
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Layers = tuple[Index, ...]


class RecurrentSizes(Frozen):
    """Heads of the Gated DeltaNet blocks, and the half-lives in tokens that they start with.

    half_lives: (shortest, longest), spaced evenly in their logarithm over the heads of a layer. late_half_lives: the
    same for layers of the second half. conv: the convolutions' weights start evenly spread between minus and plus it.
    late_pairs: when given, layers of the second half start paired, with this noise (``network.pair_rows``).
    """

    key_heads: Count
    value_heads: Count
    key_dim: Count
    value_dim: Count
    half_lives: tuple[Positive, Positive]
    late_half_lives: tuple[Positive, Positive]
    conv: Positive
    late_pairs: Positive | None = Field(default=None, exclude_if=lambda noise: noise is None)


class Network(Frozen):
    """Sizes of a ``Qwen3_5ForCausalLM`` whose every fourth layer attends; ``init`` is the standard deviation of its
    weights before training."""

    layers: Count
    hidden: Count
    intermediate: Count
    heads: Count
    kv_heads: Count
    head_dim: Count
    rotary_share: Share
    context: Count
    init: Positive
    recurrent: RecurrentSizes

    @property
    def attention(self) -> tuple[int, ...]:
        """Layers that attend."""
        return tuple(range(ATTENTION_EVERY - 1, self.layers, ATTENTION_EVERY))

    @property
    def states(self) -> tuple[int, ...]:
        """Layers with a recurrent state."""
        return tuple(layer for layer in range(self.layers) if layer not in self.attention)

    @property
    def split(self) -> int:
        """First layer of the second half: those from here on are the late ones."""
        return self.layers // 2


class Forcing(Frozen):
    """What forced episodes of the training miss from the question on: the keys and values that these attention layers
    wrote before it, and the states that these recurrent layers reached."""

    attention: Layers
    states: Layers


class Stage(Frozen):
    """Part of the curriculum: ``steps`` batches of about ``tokens`` tokens, in episodes of one of ``lengths`` pieces,
    with ``keys`` (fewest, most) needles, as far as they fit, all asked about. forced: share of forced episodes. digits:
    (fewest, most) of an episode's answers."""

    steps: Count
    lengths: Annotated[tuple[Count, ...], Field(min_length=1)]
    tokens: Count
    keys: tuple[Count, Count]
    forced: Share
    digits: tuple[Count, Count] = Field(default=(DIGITS, DIGITS), exclude_if=lambda digits: digits == (DIGITS, DIGITS))


class Optimizer(Frozen):
    """How weights move.

    rate: AdamW's, for embeddings, norms and gates. matrix_rate: Muon's, for the layers' matrices. warmup: steps until
    they are reached. decay: share of the steps over which they fall to zero in the end. clip: largest gradient norm.
    rest: how much a token that is no answer counts in the loss.
    """

    rate: Positive
    matrix_rate: Positive
    warmup: Index
    decay: Share
    weight_decay: Annotated[float, Field(ge=0)]
    clip: Positive
    rest: Share


class Hybrid(Frozen):
    """A checkpoint to train: its network, how it is forced, its curriculum and its seed."""

    name: str
    about: str
    seed: Index
    network: Network
    forcing: Forcing
    optimizer: Optimizer
    stages: Annotated[tuple[Stage, ...], Field(min_length=1)]

    @property
    def steps(self) -> int:
        """Steps of the whole training."""
        return sum(stage.steps for stage in self.stages)

    @model_validator(mode="after")
    def _layers_are_of_their_kind(self) -> Self:
        if not set(self.forcing.attention) <= set(self.network.attention):
            raise ValueError(f"forcing.attention: {self.forcing.attention}, expected among {self.network.attention}")
        if not set(self.forcing.states) <= set(self.network.states):
            raise ValueError(f"forcing.states: {self.forcing.states}, expected among {self.network.states}")
        if max(length for stage in self.stages for length in stage.lengths) > self.network.context:
            raise ValueError(f"stages: a length is above network.context, {self.network.context}")
        return self


def known_hybrids(root: Path | str = ".") -> tuple[str, ...]:
    """Names of the checkpoints configured under ``root``, sorted."""
    return tuple(sorted(path.stem for path in (Path(root) / FOLDER).glob("*.yaml")))


def load_hybrid(name: str, root: Path | str = ".") -> Hybrid:
    """Read and check ``workflow/config/hybrids/<name>.yaml``; raises ConfigError."""
    known = known_hybrids(root)
    if name not in known:
        raise ConfigError(f"unknown hybrid {name!r}; known: {', '.join(known) or f'none in {Path(root) / FOLDER}'}")
    path = Path(root) / FOLDER / f"{name}.yaml"
    try:
        data: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not readable as YAML: {' '.join(str(error).split())}") from None
    made = hybrid_from(data, str(path))
    if made.name != name:
        raise ConfigError(f"{path}: name: is {made.name!r}, expected {name!r} as the file is called")
    return made


def hybrid_from(data: Mapping[str, Any], where: str) -> Hybrid:
    """Check settings that were read from ``where``; ConfigError names the first wrong key."""
    try:
        return Hybrid.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "(whole file)"
        raise ConfigError(f"{where}: {key}: {first['msg']}") from None
