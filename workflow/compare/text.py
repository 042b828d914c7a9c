"""A comparison as text for a person, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from workflow.compare.folders import Comparison
from workflow.compare.rows import Difference


def comparison_text(found: Comparison, show: int) -> str:
    """A line per file, noise by column, up to ``show`` differences of each other kind, and a line that sums up."""
    lines = [f"{found.first} and {found.second}"]
    for name, each in sorted(found.files.items()):
        here = [one for one in found.differences if one.file == name]
        noise, beyond = sum(one.noise for one in here), sum(bool(one.why) for one in here)
        recounted = sum(one.recount for one in here)
        said = f"{noise} noise, {beyond} beyond" + (f", {recounted} recounts" if recounted else "") if here else "equal"
        lines.append(f"  {name:<28} {each.rows:>7} rows {each.values:>9} values  {said}")
    lines += [f"  {name:<28} only in the second run, not compared" for name in found.own]
    if found.unknown:
        lines.append(f"  settings that only one version knows, not compared: {', '.join(found.unknown)}")
    lines += _measured(found.noise)
    lines += _listed("noise", [each for each in found.noise if each.kind != "measure"], show)
    lines += _listed("recount by another version", found.recounts, show)
    lines += _listed("BEYOND NOISE", found.beyond, show)
    values = sum(each.values for each in found.files.values())
    recounts = f", {len(found.recounts)} counts of work reckoned otherwise" if found.recounts else ""
    said = f"{len(found.noise)} differ by rounding{recounts}, {len(found.beyond)} beyond"
    lines.append(f"{values} values compared: {said}")
    return "\n".join(lines) + "\n"


def comparison_json(found: Comparison) -> dict[str, Any]:
    """Everything, as JSON-ready values."""
    return {
        "version": 1,
        "first": str(found.first),
        "second": str(found.second),
        "files": {name: {"rows": each.rows, "values": each.values} for name, each in found.files.items()},
        "only_in_second": list(found.own),
        "noise": [asdict(each) for each in found.noise],
        "recounts": [asdict(each) for each in found.recounts],
        "settings_of_one_version": list(found.unknown),
        "beyond": [asdict(each) for each in found.beyond],
    }


def _measured(noise: Sequence[Difference]) -> list[str]:
    """How many measurements of a column were rounded otherwise, and the largest of them."""
    groups: dict[tuple[str, str], list[Difference]] = {}
    for each in noise:
        if each.kind == "measure":
            groups.setdefault((each.file, each.column), []).append(each)
    lines = []
    for (file, column), group in groups.items():
        largest = max(group, key=lambda each: each.by or 0.0)
        lines.append(f"  noise: {file}: {column}: {len(group)} values, {largest.by:.2g} at most ({largest.row})")
    return lines


def _listed(title: str, differences: Sequence[Difference], show: int) -> list[str]:
    # Other settings explain everything else; then the largest, which are what a reader doubts.
    ordered = sorted(differences, key=lambda each: (each.row != "settings", -(each.by or 0.0)))
    lines = [f"  {title}: {each}" for each in ordered[:show]]
    hidden = len(differences) - len(lines)
    return [*lines, f"  {title}: {hidden} more (--show, --json)"] if hidden > 0 else lines
