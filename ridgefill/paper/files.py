"""Reads and checks ``data/paper``: every file against SHA256SUMS, every line against what it should be."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ridgefill.errors import ConfigError, ResultsError
from ridgefill.files import sha256_file
from ridgefill.paper.data import LAYOUTS, STATUSES, Cell, Derivation, Entry, Fact, Paper, Setting
from ridgefill.paper.intervals import printed

FOLDER = Path("data/paper")
FILES = ("derivations.csv", "facts.csv", "index.csv", "methods.csv", "settings.csv", "tables.csv")
T = TypeVar("T")


def find_root(given: Path | None = None) -> Path:
    """The folder that holds ``data/paper``: the one given, else this one, else the checkout of the package."""
    checkout = Path(__file__).resolve().parents[2]
    for root in [given] if given is not None else [Path(), checkout]:
        if (root / FOLDER / "tables.csv").is_file():
            return root
    raise ConfigError(f"{(given or Path()) / FOLDER} holds no tables.csv; name the checkout of the project with --root")


def load_paper(root: Path) -> Paper:
    """Read and check all files below ``root``/data/paper. ResultsError for a changed or malformed one."""
    folder = Path(root) / FOLDER
    _check_sums(folder)
    paper = Paper(
        root=Path(root),
        cells=_read(folder / "tables.csv", _cell),
        facts=_read(folder / "facts.csv", lambda row: Fact(**row)),
        settings=_read(folder / "settings.csv", _setting),
        index=_read(folder / "index.csv", _entry),
        derivations=_read(folder / "derivations.csv", _derivation),
    )
    named: list[Cell | Fact | Setting] = [*paper.cells, *paper.facts, *paper.settings]
    keys = Counter(one.key for one in named)
    twice = [key for key, count in keys.items() if count > 1]
    if twice:
        raise ResultsError(f"{folder}: {twice[0]} stands there twice; expected every number once")
    unknown = {cell.ref for cell in paper.cells} ^ {entry.ref for entry in paper.index}
    if unknown:
        raise ResultsError(f"{folder}: {min(unknown)} is not in both index.csv and tables.csv; add it to the other")
    return paper


def _check_sums(folder: Path) -> None:
    path = folder / "SHA256SUMS"
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise ResultsError(f"{path} is not readable ({error.strerror}); restore it from the repository") from error
    wanted = {name: sum_ for sum_, _, name in (line.partition("  ") for line in lines if line)}
    if sorted(wanted) != sorted(FILES):
        raise ResultsError(f"{path} lists {sorted(wanted)}, expected {sorted(FILES)}; restore it from the repository")
    for name, sum_ in wanted.items():
        found = sha256_file(folder / name) if (folder / name).is_file() else "nothing"
        if found != sum_:
            raise ResultsError(
                f"{folder / name} hashes to {found[:12]}, expected {sum_[:12]}; restore it from the repository"
            )


def _read(path: Path, make: Callable[[dict[str, str]], T]) -> tuple[T, ...]:
    """One value per line of a CSV file; a line that cannot be one is named."""
    with path.open(encoding="utf-8", newline="") as stream:
        made = []
        for number, row in enumerate(csv.DictReader(stream), start=2):
            try:
                made.append(make(row))
            except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
                raise ResultsError(f"{path}, line {number}: {error}; restore it from the repository") from error
    return tuple(made)


def _cell(row: Mapping[str, str]) -> Cell:
    numbers: dict[str, Any] = {name: int(row[name]) if row[name] else None for name in ("split", "tail", "n")}
    texts: dict[str, Any] = {name: row[name] or None for name in ("value", "ci_low", "ci_high")}
    words: dict[str, Any] = {
        name: row[name] for name in ("ref", "model", "arm", "baseline", "metric", "unit", "status", "note")
    }
    _one_of(row["status"], STATUSES)
    if (texts["value"] is None) != (row["status"] in ("n/a", "not run")):
        raise ValueError(f"the status {row['status']!r} does not go with the value {row['value']!r}")
    cell = Cell(**words, **numbers, **texts, sign_restored=bool(int(row["sign_restored"])))
    value, low, high = (
        None if text is None else printed(text).middle for text in (cell.value, cell.ci_low, cell.ci_high)
    )
    if value is not None and ((low is not None and low > value) or (high is not None and high < value)):
        raise ValueError(f"{cell.key}: {cell.value} lies outside its interval {cell.ci_low} to {cell.ci_high}")
    return cell


def _setting(row: Mapping[str, str]) -> Setting:
    rest = {name: row[name] for name in ("ref", "deployment", "setting", "value", "unit", "note")}
    return Setting(subject=row["model_or_measure"] or row["deployment"].replace(" ", "_"), **rest)


def _entry(row: Mapping[str, str]) -> Entry:
    _one_of(row["layout"], LAYOUTS)
    return Entry(row["ref"], row["title"], row["layout"])


def _derivation(row: Mapping[str, str]) -> Derivation:
    _one_of(row["holds"], ("yes", "no"))
    return Derivation(row["target"], row["formula"], row["holds"] == "yes", row["note"])


def _one_of(found: str, allowed: Sequence[str]) -> None:
    if found not in allowed:
        raise ValueError(f"found {found!r}, expected one of {', '.join(allowed)}")
