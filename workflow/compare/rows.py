"""One results file of two runs: rows matched by name, then column by column."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ridgefill.errors import ResultsError
from workflow.compare.columns import (
    COUNTED,
    LOSS,
    MOST_SHARE,
    RECOUNT,
    REFITTED_LOSS,
    WITHOUT_MAPS,
    Bound,
    Columns,
)

Kind = Literal["measure", "answer", "choice", "counted", "fixed", "row"]
Row = Mapping[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Difference:
    """One value that two runs do not share. ``by``: how far apart. ``why``: it is neither noise nor a recount."""

    file: str
    row: str
    column: str
    kind: Kind
    first: str
    second: str
    by: float | None
    arm: str
    why: str = ""

    @property
    def noise(self) -> bool:
        """Whether it is rounding and no more."""
        return not self.why and self.kind != "counted"

    @property
    def recount(self) -> bool:
        """Whether another version reckoned the same work otherwise."""
        return not self.why and self.kind == "counted"

    def __str__(self) -> str:
        by = "" if self.by is None else f", {self.by:.3g} apart"
        said = f"{self.file}: {self.row}: {self.column} {self.first} and {self.second}{by}"
        return f"{said}: {self.why}" if self.why else said


@dataclass(frozen=True)
class FileRows:
    """One file compared: rows that both have, values compared in them, rows of each arm, differences."""

    rows: int
    values: int
    per_arm: Mapping[str, int]
    differences: tuple[Difference, ...]


def compare_rows(
    file: str, columns: Columns, first: Sequence[Row], second: Sequence[Row], refitted: bool = False
) -> FileRows:
    """Differences of one file. Whether turned answers are noise is for :func:`judged`, which knows all files.

    refitted: the maps were fitted to other last bits, so arms that read them may differ by more. Raises ResultsError
    when two rows of one run have the same name.
    """
    ours, theirs = _by_key(file, columns, first), _by_key(file, columns, second)
    shared = [key for key in ours if key in theirs]
    found = [_absent(file, columns, key, "second") for key in ours if key not in theirs]
    found += [_absent(file, columns, key, "first") for key in theirs if key not in ours]
    compared = [name for name in (first[0] if first else {}) if name not in (*columns.keys, *columns.own)]
    for key in shared:
        if ours[key] != theirs[key]:
            found += _in_row(file, columns, key, ours[key], theirs[key], compared, refitted)
    found += _together(file, columns, [(ours[key], theirs[key]) for key in shared], refitted)
    per_arm = Counter(str(ours[key].get("arm", "")) for key in shared)
    return FileRows(len(shared), len(shared) * len(compared), per_arm, tuple(found))


def _by_key(file: str, columns: Columns, rows: Sequence[Row]) -> dict[Key, Row]:
    found: dict[Key, Row] = {}
    for row in rows:
        key = tuple(row[name] for name in columns.keys)
        if key in found:
            raise ResultsError(f"{file} has two rows for {_named(columns, key)}; its step has to be run again")
        found[key] = row
    return found


def _named(columns: Columns, key: Key) -> str:
    return " ".join(f"{name}={value}" for name, value in zip(columns.keys, key, strict=True) if value is not None)


def _absent(file: str, columns: Columns, key: Key, run: str) -> Difference:
    arm = str(dict(zip(columns.keys, key, strict=True)).get("arm", ""))
    first, second = ("there", "missing") if run == "second" else ("missing", "there")
    return Difference(file, _named(columns, key), "row", "row", first, second, None, arm, f"the {run} run lacks it")


def _in_row(
    file: str, columns: Columns, key: Key, first: Row, second: Row, compared: Sequence[str], refitted: bool
) -> Iterator[Difference]:
    row, arm = _named(columns, key), str(first.get("arm", ""))
    # What follows from an answer that differs is part of the same difference.
    turned = {name for name in columns.answers if first[name] != second[name]}
    follows = {name for answer in turned for name in columns.answers[answer]}
    for name in compared:
        one, other = first[name], second[name]
        if one == other or name in follows:
            continue
        bound = _bound(columns, name, arm, refitted)
        kind, by, why = _kind(columns, name, one, other, bound)
        yield Difference(file, row, name, kind, _short(one), _short(other), by, arm, why)


def _bound(columns: Columns, name: str, arm: str, refitted: bool) -> Bound | None:
    bound = columns.measures.get(name)
    return REFITTED_LOSS if bound == LOSS and refitted and not arm.startswith(WITHOUT_MAPS) else bound


def _kind(columns: Columns, name: str, one: Any, other: Any, bound: Bound | None) -> tuple[Kind, float | None, str]:
    if bound is not None and one is not None and other is not None:
        why = "" if bound.allows(one, other) else f"more than rounding, {bound.absolute:g} + {bound.relative:g} of it"
        return "measure", abs(one - other), why
    if name in columns.answers:
        why = "the answers differ from their first letter on" if str(one)[:1] != str(other)[:1] else ""
        return "answer", None, why
    if name in columns.choices:
        return "choice", None, ""
    if name in COUNTED and one is not None and other is not None:
        why = "" if abs(one - other) <= RECOUNT * max(one, other) else f"more than {RECOUNT:.0%} of the count"
        return "counted", abs(one - other), why
    return "fixed", None, "no rounding reaches this column"


def _together(file: str, columns: Columns, pairs: Sequence[tuple[Row, Row]], refitted: bool) -> Iterator[Difference]:
    """Arms whose differences are within the bound one by one, and together no rounding: they lean, or are too many."""
    for name, bound in columns.measures.items():
        apart: dict[tuple[str, Any], list[float]] = {}
        for first, second in pairs:
            if bound.lean is not None and first[name] is not None and second[name] is not None:
                apart.setdefault((str(first["arm"]), first["split"]), []).append(second[name] - first[name])
        for (arm, split), each in apart.items():
            row = f"arm={arm}" + ("" if split is None else f" split={split}")
            of_arm = _bound(columns, name, arm, refitted) or bound
            mean = math.fsum(each) / len(each)
            spread = math.sqrt(math.fsum(value * value for value in each) / len(each))
            for what, value, most, because in (
                ("mean", mean, of_arm.lean, "rounding has no direction"),
                ("root mean square", spread, of_arm.spread, "rounding seldom reaches its bound"),
            ):
                if most is not None and abs(value) > most:
                    why = f"over {len(each)} values it is beyond {most:g}, and {because}"
                    said = f"{value:+.3g}"
                    yield Difference(file, row, f"{what} of {name}", "measure", "0", said, abs(value), arm, why)


def judged(
    differences: Sequence[Difference], per_arm: Mapping[tuple[str, str], int], same_code: Collection[str]
) -> list[Difference]:
    """Settle what one row cannot: turned answers and choices, and recounts.

    A turned answer is noise only where rounding was seen and few of its arm turned. per_arm: rows by (file, arm).
    Logits are not stored, so a near tie cannot be looked at; it is inferred. A recount needs another version:
    same_code has the files that one commit made in both runs.
    """
    rounding = any(each.kind == "measure" and each.noise for each in differences)
    turned = Counter((each.file, each.arm) for each in differences if each.kind in ("answer", "choice"))
    settled = [_judged(each, rounding, turned, per_arm) for each in differences]
    made_alike = "both runs were made by one version, which counts one way"
    settled = [replace(each, why=made_alike) if each.recount and each.file in same_code else each for each in settled]
    return [each for each in settled if not each.recount] + list(_recounts(settled))


def _recounts(differences: Sequence[Difference]) -> Iterator[Difference]:
    """One difference, the largest, for each arm and column that was reckoned otherwise."""
    groups: dict[tuple[str, str, str], list[Difference]] = {}
    for each in differences:
        if each.recount:
            groups.setdefault((each.file, each.arm, each.column), []).append(each)
    for (_, arm, _), group in groups.items():
        largest = max(group, key=lambda each: each.by or 0.0)
        yield replace(largest, row=f"arm={arm}, {len(group)} rows, the largest")


def _judged(
    each: Difference, rounding: bool, turned: Mapping[tuple[str, str], int], per_arm: Mapping[tuple[str, str], int]
) -> Difference:
    if each.kind not in ("answer", "choice") or each.why:
        return each
    place = (each.file, each.arm)
    most = max(1, int(MOST_SHARE * per_arm.get(place, 0)))
    why = ""
    if not rounding:
        why = "no measurement differs in its last bits, so rounding cannot have turned it"
    elif turned[place] > most:
        why = f"{turned[place]} of {per_arm.get(place, 0)} of this arm turned, near ties explain {most}"
    return replace(each, why=why)


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
