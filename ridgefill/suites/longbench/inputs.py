"""The files that a LongBench suite of an experiment reads, all of them the user's: which they are, and read at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ridgefill.errors import ConfigError
from ridgefill.suite_settings import LongBenchV1Suite, LongBenchV2Suite
from ridgefill.suites.longbench import prompts, v2
from ridgefill.suites.longbench.datasets import find_dataset
from ridgefill.suites.longbench.files import LongBenchItem, V2Item, read_v1, read_v2
from ridgefill.suites.longbench.prompts import Templates
from ridgefill.suites.longbench.scores import Segment
from ridgefill.suites.longbench.v2 import V2Templates

SEGMENTER = "jieba"
"""The package that finds the words of Chinese texts, as the official scores do."""


@dataclass(frozen=True)
class V1Inputs:
    """Items in the order of datasets and files, their templates, and the SHA-256 of every file by its role."""

    items: tuple[LongBenchItem, ...]
    templates: Templates
    hashes: Mapping[str, str]


@dataclass(frozen=True)
class V2Inputs:
    """Items in file order, their templates, and the SHA-256 of every file by its role."""

    items: tuple[V2Item, ...]
    templates: V2Templates
    hashes: Mapping[str, str]


def v1_files(suite: LongBenchV1Suite) -> dict[str, Path]:
    """Every file that the suite reads, by the setting that names it. Raises ``ConfigError`` for an unknown dataset."""
    names = [find_dataset(name).name for name in suite.datasets]
    given = {} if suite.templates is None else {"templates": Path(suite.templates)}
    return {f"folder ({name})": Path(suite.folder) / f"{name}.jsonl" for name in names} | given


def v2_files(suite: LongBenchV2Suite) -> dict[str, Path]:
    """Every file that the suite reads, by the setting that names it.

    Raises ``ConfigError`` when only one of the two templates is given.
    """
    given = (suite.reasoning_template, suite.answer_template)
    if (given[0] is None) != (given[1] is None):
        raise ConfigError("longbench_v2 names one template; give reasoning_template and answer_template, or neither")
    names = ("reasoning_template", "answer_template")
    return {"file": Path(suite.file)} | {name: Path(one) for name, one in zip(names, given, strict=True) if one}


def needs_segmenter(suite: LongBenchV1Suite) -> bool:
    """Whether a dataset is scored over the words of Chinese texts."""
    known = [find_dataset(name) for name in suite.datasets]
    return any(one.language == "zh" and one.metric in ("f1", "rouge_l") for one in known)


def segmenter(suite: LongBenchV1Suite) -> Segment | None:
    """What finds the words of Chinese texts, None where no dataset needs it. Raises ``ConfigError`` when missing."""
    if not needs_segmenter(suite):
        return None
    require_segmenter(suite)
    import jieba  # type: ignore[import-not-found,unused-ignore]

    found: Segment = jieba.lcut
    return found


def require_segmenter(suite: LongBenchV1Suite) -> None:
    """Raise ``ConfigError`` when a dataset needs a package that is not installed."""
    if needs_segmenter(suite) and find_spec(SEGMENTER) is None:
        raise ConfigError(
            f"Chinese datasets of longbench_v1 are scored over words that the package {SEGMENTER} finds, and it is not "
            f"installed; type: pip install {SEGMENTER}, or leave those datasets out"
        )


def read_v1_inputs(suite: LongBenchV1Suite, root: Path = Path()) -> V1Inputs:
    """The first ``samples`` items of each dataset. Raises ``TextError`` for a missing or malformed file."""
    files = {name: read_v1(root / suite.folder, name) for name in suite.datasets}
    templates = prompts.OWN
    if suite.templates is not None:
        templates = prompts.read_templates(root / suite.templates, suite.datasets)
    hashes = {name: one.sha256 for name, one in files.items()}
    hashes |= {"templates": templates.sha256} if templates.sha256 else {}
    return V1Inputs(tuple(item for one in files.values() for item in one.items[: suite.samples]), templates, hashes)


def read_v2_inputs(suite: LongBenchV2Suite, root: Path = Path()) -> V2Inputs:
    """The first ``samples`` items, or all. Raises ``TextError`` for a missing or malformed file."""
    v2_files(suite)
    data, templates = read_v2(root / suite.file), v2.OWN
    if suite.reasoning_template is not None and suite.answer_template is not None:
        templates = v2.read_v2_templates(root / suite.reasoning_template, root / suite.answer_template)
    named = {"reasoning_template": templates.reasoning_sha256, "answer_template": templates.answer_sha256}
    hashes = {"data": data.sha256} | {name: one for name, one in named.items() if one}
    return V2Inputs(data.items[: suite.samples], templates, hashes)
