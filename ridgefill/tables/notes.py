"""The prose of a report: methods, deviations and limits, each shown only where its condition holds of the run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from ridgefill.errors import ResultsError
from ridgefill.paper.correspond import FOUR

KEYS = {"methods": {"title", "text"}, "deviations": {"what", "why"}, "limits": {"what"}}
# Tail and prompts of the paper's reference study, in tokens.
PAPER_TAIL, PAPER_PROMPTS = 4096, 8192
CONDITIONS = (
    "wheel", "released_weights", "short_tail", "short_prompts", "ruler_style", "needles_only", "own_texts", "agreement",
    "no_agreement", "turns", "no_turns", "no_longbench", "longbench", "speed", "served",
    "exact_split_layer", "uncounted_selection",
)  # fmt: skip


def conditions(written: Mapping[str, Any], files: Collection[str]) -> frozenset[str]:
    """Which of ``CONDITIONS`` hold of a run, from its ``experiment.json`` and the Parquet files that it has."""
    experiment, model = written["experiment"], written["model"]
    suites: Mapping[str, Any] = experiment.get("suites") or {}
    ruler, texts = suites.get("ruler") or {}, suites.get("documents") or {}
    wheel = str((model.get("source") or {}).get("kind", "")).startswith("wheel")
    longbench = any(suites.get(name) for name in ("longbench_v1", "longbench_v2"))
    holds = {
        "wheel": wheel,
        "released_weights": not wheel,
        "short_tail": experiment["tail"] < PAPER_TAIL,
        "short_prompts": max(ruler.get("lengths") or [0]) < PAPER_PROMPTS,
        "ruler_style": ruler.get("source") == "ruler-style",
        "needles_only": set(ruler.get("tasks") or ()) <= FOUR,
        "own_texts": str(texts.get("manifest", "")).startswith("data/texts/"),
        "longbench": longbench,
        "no_longbench": not longbench,
        "speed": bool(suites.get("speed")),
        "served": bool(suites.get("served")),
        "exact_split_layer": experiment.get("split_layer", "exact") == "exact",
        # Runs that say what each arm spends count the choosing of rows; earlier ones do not.
        "uncounted_selection": "ruler/arms.parquet" not in files,
    }
    for suite in ("agreement", "turns"):
        holds |= {suite: bool(suites.get(suite)), f"no_{suite}": not suites.get(suite)}
    return frozenset(name for name, there in holds.items() if there)


def load_notes(path: Path | None, holds: frozenset[str] | None = None) -> dict[str, list[dict[str, str]]]:
    """Methods (title, text), deviations (what, why) and limits (what); empty lists without a file.

    A note may have ``where``, one of ``CONDITIONS``, and is then kept only when that is in ``holds``; without
    ``holds`` all are kept. A limit may be a plain sentence. ResultsError for a file of another shape.
    """
    if path is None:
        return {key: [] for key in KEYS}
    try:
        notes = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        found = {key: [_note(one) for one in notes.pop(key, None) or []] for key in KEYS}
        shaped = all(set(one) - {"where"} == KEYS[key] for key, some in found.items() for one in some)
    except (OSError, yaml.YAMLError, AttributeError, TypeError, ValueError) as error:
        raise ResultsError(f"{path} is not readable as notes ({error})") from error
    if notes or not shaped:
        raise ResultsError(f"{path}: expected methods (title, text), deviations (what, why), limits; nothing else")
    unknown = {one["where"] for some in found.values() for one in some if "where" in one} - set(CONDITIONS)
    if unknown:
        raise ResultsError(f"{path}: found the condition {min(unknown)!r}; expected one of {', '.join(CONDITIONS)}")
    return {
        key: [one for one in some if holds is None or one.get("where") is None or one["where"] in holds]
        for key, some in found.items()
    }


def _note(one: Any) -> dict[str, str]:
    return {"what": one} if isinstance(one, str) else dict(one)
