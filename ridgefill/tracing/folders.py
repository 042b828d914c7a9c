"""Which results folders there are: those of a project, by name, and the ones named on the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from ridgefill.errors import ConfigError, ResultsError
from ridgefill.results import FILES, read_json

HOMES = (Path("results"), Path("data/results"))
"""Below the root, the folders that hold results; an experiment in the first hides its namesake in the second."""
CELLS = "cells.json"


@dataclass(frozen=True)
class Results:
    """One results folder and the name of its experiment."""

    name: str
    path: Path


def measured(folder: Path) -> bool:
    """Whether a folder has every table that each results folder has."""
    return (folder / "experiment.json").is_file() and all((folder / name).is_file() for name in FILES)


def reported(folder: Path) -> bool:
    """Whether a folder is measured and has a report."""
    return measured(folder) and (folder / CELLS).is_file()


def all_results(root: Path, wanted: Callable[[Path], bool]) -> list[Results]:
    """Every ``wanted`` folder of the project at ``root``, by name. Raises ConfigError when there is none."""
    found: dict[str, Results] = {}
    for home in HOMES:
        places = sorted((root / home).iterdir()) if (root / home).is_dir() else []
        for path in places:
            if path.is_dir() and path.name not in found and wanted(path):
                found[path.name] = Results(_name(path), path)
    if not found:
        raise ConfigError(
            f"no finished results below {' or '.join(str(root / home) for home in HOMES)}; run an experiment, or name "
            "a folder with --results"
        )
    return [found[name] for name in sorted(found)]


def named_results(root: Path, named: Sequence[str], wanted: Callable[[Path], bool]) -> list[Results]:
    """The folders that ``named`` gives by path or by name, all when it is empty.

    Raises ConfigError for a name that nothing has and for two folders of one experiment, and ResultsError for a
    folder that is not ``wanted``.
    """
    if not named:
        return all_results(root, wanted)
    found = [Results(_name(path), path) for path in (_folder(root, one, wanted) for one in dict.fromkeys(named))]
    for place, one in enumerate(found):
        for other in found[:place]:
            if one.name == other.name:
                raise ConfigError(f"{other.path} and {one.path} both hold {one.name}; name one of them")
    return found


def _folder(root: Path, named: str, wanted: Callable[[Path], bool]) -> Path:
    places = [root / home / named for home in HOMES] if named and "/" not in named else []
    here = [path for path in (*places, Path(named)) if named and path.is_dir()]
    if not here:
        known = [one.path.name for one in all_results(root, wanted)]
        near = get_close_matches(named, known, 3, 0.5) or known
        raise ConfigError(f"no results folder {named!r}; there are {', '.join(near)}")
    path = next((path for path in here if wanted(path)), None)
    if path is None:
        missing = [name for name in ("experiment.json", *FILES, CELLS) if not (here[0] / name).is_file()]
        raise ResultsError(f"{here[0]} lacks {missing[0]}; it is not a finished run, so finish its experiment first")
    return path


def _name(path: Path) -> str:
    """The experiment's name as the results have it; a copy may lie in a folder of another name."""
    resolved = read_json(path / "experiment.json")
    try:
        return str(resolved["experiment"]["name"])
    except (KeyError, TypeError) as error:
        raise ResultsError(f"{path / 'experiment.json'} names no experiment; run its first step again") from error
