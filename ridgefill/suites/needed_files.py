"""The user's own files that an experiment's suites read, and whether they are enough: asked before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ridgefill.errors import ConfigError, TextError
from ridgefill.settings import RulerSuite, Suites, UserPath
from ridgefill.suites.longbench.inputs import require_segmenter, v1_files, v2_files
from ridgefill.suites.questions import SMALL, question_set, small_set
from ridgefill.suites.ruler.official import official_path


@dataclass(frozen=True)
class NeededFile:
    """A file or folder that a suite reads. setting: what of the suite names it. path: as written there."""

    suite: str
    setting: str
    path: Path


def needed_files(suites: Suites) -> list[NeededFile]:
    """Every file or folder of the user's that the suites read. Raises ``ConfigError`` for a setting that no file fits.

    Official RULER samples are the folder they lie in; ``require_files`` looks for each file there.
    """
    given: list[tuple[str, dict[str, Path]]] = [("ruler", _ruler_files(suites.ruler))]
    if suites.longbench_v1 is not None:
        given.append(("longbench_v1", v1_files(suites.longbench_v1)))
    if suites.longbench_v2 is not None:
        given.append(("longbench_v2", v2_files(suites.longbench_v2)))
    return [NeededFile(suite, setting, path) for suite, files in given for setting, path in files.items()]


def _ruler_files(suite: RulerSuite) -> dict[str, Path]:
    if suite.official is not None:
        return {"official": Path(suite.official)}
    named = {"essays_text": suite.essays_text}
    named |= {setting: own for task, setting, own in _own_questions(suite) if task in suite.tasks}
    return {setting: Path(one.path) for setting, one in named.items() if one is not None}


def _own_questions(suite: RulerSuite) -> Iterator[tuple[str, str, UserPath | None]]:
    yield "qa_1", "squad", suite.squad
    yield "qa_2", "hotpotqa", suite.hotpotqa


def require_files(suites: Suites, root: Path) -> None:
    """Refuse files that are not there, too few questions for the samples, and a package that scores need.

    Paths are relative to ``root``. Raises ``ConfigError`` or ``TextError``.
    """
    for one in needed_files(suites):
        if not (root / one.path).exists():
            raise TextError(
                f"suites.{one.suite}.{one.setting} is {one.path}, and nothing is there; correct the path in the "
                "experiment's file, or put it there (see docs/suites.md)"
            )
    if suites.ruler.official is not None:
        for length in suites.ruler.lengths:
            for task in suites.ruler.tasks:
                official_path(root / suites.ruler.official, task, length)
    else:
        _require_questions(suites.ruler, root)
    if suites.longbench_v1 is not None:
        require_segmenter(suites.longbench_v1)


def _require_questions(suite: RulerSuite, root: Path) -> None:
    for task, setting, own in _own_questions(suite):
        if task in suite.tasks:
            found = question_count(task, root / (SMALL if own is None else own.path), own is None)
            if found < suite.samples:
                source = f"our own small set has {found}" if own is None else f"{own.path} has {found}"
                raise ConfigError(
                    f"suites.ruler.samples is {suite.samples} and {task} asks a question once; {source}, so expected "
                    f"at most {found} samples, or a larger file of questions as suites.ruler.{setting}"
                )


@cache
def question_count(task: str, path: Path, small: bool) -> int:
    """Questions in a set: the user's file, or our own small one. Errors as ``question_set``."""
    found = small_set(task, path) if small else question_set(task, path)
    return len(found.questions)
