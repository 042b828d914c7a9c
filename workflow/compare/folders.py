"""Two results folders: every Parquet file that the first has, the settings both were made with, the verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ridgefill.errors import ResultsError
from ridgefill.result_schemas import FILES, MORE_FILES
from ridgefill.results import metadata_of, read_json, read_table
from workflow.compare.columns import COLUMNS, FITS
from workflow.compare.rows import Difference, FileRows, Row, compare_rows, judged

VERDICTS = "verdicts.json"
SETTINGS = "experiment.json"


@dataclass(frozen=True)
class Comparison:
    """``first`` is the reference. files: what was compared, by name. own: files of the second run alone.

    unknown: settings that only one of the versions knows.
    """

    first: Path
    second: Path
    files: Mapping[str, FileRows]
    own: tuple[str, ...]
    unknown: tuple[str, ...]
    differences: tuple[Difference, ...]

    @property
    def noise(self) -> tuple[Difference, ...]:
        """Differences that are rounding."""
        return tuple(each for each in self.differences if each.noise)

    @property
    def recounts(self) -> tuple[Difference, ...]:
        """Work that another version reckons otherwise, one difference for each arm and column."""
        return tuple(each for each in self.differences if each.recount)

    @property
    def beyond(self) -> tuple[Difference, ...]:
        """Differences that neither explains."""
        return tuple(each for each in self.differences if each.why)


def compare(first: Path, second: Path) -> Comparison:
    """Compare every results file of ``first`` with that of ``second``.

    Raises ResultsError when a folder holds no results, a file is not one of ours, or the experiments differ.
    """
    schemas = FILES | MORE_FILES
    ours = [name for name in schemas if (first / name).is_file()]
    theirs = [name for name in schemas if (second / name).is_file()]
    for folder, names in ((first, ours), (second, theirs)):
        if not names:
            what = "holds no results file" if folder.is_dir() else "is no folder"
            raise ResultsError(f"{folder} {what}; expected a results folder such as data/results/smollm2_split19")
    files: dict[str, FileRows] = {}
    found, unknown = _settings(first, second)
    same_code: set[str] = set()
    # The fits first: whether the maps are the same decides how far losses may lie apart.
    for name in sorted(ours, key=lambda name: name not in FITS):
        if name not in theirs:
            found.append(_difference(name, "the file", "there", "missing", "the second run lacks it"))
            continue
        tables = read_table(first / name, schemas[name]), read_table(second / name, schemas[name])
        mine, other = (metadata_of(table) for table in tables)
        found += _seeds(name, mine, other, unknown is not None)
        if mine["git_commit"] == other["git_commit"]:
            same_code.add(name)
        rows = [table.to_pylist() for table in tables]
        _same_experiment(first, second, *rows)
        refitted = any(files[fit].differences for fit in FITS if fit in files)
        files[name] = compare_rows(name, COLUMNS[schemas[name]], rows[0], rows[1], refitted)
        found += files[name].differences
    per_arm = {(name, arm): count for name, each in files.items() for arm, count in each.per_arm.items()}
    found = [*judged(found, per_arm, same_code), *_verdicts(first, second)]
    own = tuple(name for name in theirs if name not in ours)
    return Comparison(first, second, files, own, unknown or (), tuple(found))


def _difference(file: str, row: str, first: str, second: str, why: str) -> Difference:
    return Difference(file, row, "it", "row", first, second, None, "", why)


def _same_experiment(first: Path, second: Path, ours: Sequence[Row], theirs: Sequence[Row]) -> None:
    names = [rows[0].get("experiment") if rows else None for rows in (ours, theirs)]
    if None not in names and names[0] != names[1]:
        raise ResultsError(f"{first} is of {names[0]} and {second} of {names[1]}; expected two runs of one experiment")


def _settings(first: Path, second: Path) -> tuple[list[Difference], tuple[str, ...] | None]:
    """Settings that differ, and those that only one version knows; None where a folder does not state its settings."""
    if not ((first / SETTINGS).is_file() and (second / SETTINGS).is_file()):
        return [], None
    ours, theirs = (dict(_leaves("", read_json(folder / SETTINGS))) for folder in (first, second))
    why = "the runs had other settings or another registration"
    found = [
        Difference(SETTINGS, "settings", name, "fixed", str(ours[name]), str(theirs[name]), None, "", why)
        for name in ours
        if name in theirs and ours[name] != theirs[name]
    ]
    return found, tuple(sorted(ours.keys() ^ theirs.keys()))


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _leaves(f"{name}.{key}".lstrip("."), below)
    else:
        yield name, value


def _seeds(name: str, ours: Mapping[str, str], theirs: Mapping[str, str], stated: bool) -> Iterator[Difference]:
    """Metadata that two runs of one registration share; a hash of settings says nothing where they can be read."""
    for key in ("run_seed",) if stated else ("run_seed", "config_sha256"):
        # Files of early runs state no seed.
        if key in ours and key in theirs and ours[key] != theirs[key]:
            why = "the runs had other settings or another registration"
            yield Difference(name, "settings", key, "fixed", ours[key][:16], theirs[key][:16], None, "", why)


def _verdicts(first: Path, second: Path) -> Iterator[Difference]:
    if not ((first / VERDICTS).is_file() and (second / VERDICTS).is_file()):
        return
    ours, theirs = (_by_id(folder / VERDICTS) for folder in (first, second))
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        said, now = ours.get(name, "nothing"), theirs.get(name, "nothing")
        if said != now:
            yield Difference(
                VERDICTS, name, "verdict", "fixed", said, now, None, "", "a prediction falls the other way"
            )


def _by_id(path: Path) -> dict[str, str]:
    rows: Any = read_json(path)
    try:
        return {str(row["id"]): str(row["verdict"]) for row in rows}
    except (TypeError, KeyError) as error:
        raise ResultsError(f"{path} is no list of verdicts; run the report step again") from error
