"""What lies behind an item: which prompt or document, and what the arm answered, from the per-sample tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ridgefill.measures import OWN_SPLIT, Measures
from ridgefill.recompute.scores import score
from ridgefill.tracing.basis import Basis
from ridgefill.tracing.rows import Row, fetch

_SAMPLE = "task || '/' || length || '/' || lpad(sample::VARCHAR, 5, '0')"
_ANSWER = f"""SELECT {_SAMPLE} AS item, arm, split, prompt_sha256 AS prompt, prompt_tokens, prediction AS answer,
    "references" AS wanted, score, status, task LIKE 'qa%' AS part FROM ruler_samples"""
_TURN = f"""SELECT {_SAMPLE} AS item, arm, split, prompt_sha256 AS prompt, prompt_tokens, TURN_prediction AS answer,
    TURN_references AS wanted, TURN_score AS score, status, false AS part FROM turns_samples"""
SOURCES: Mapping[str, str] = {
    "ruler": _ANSWER,
    "turn1": _TURN.replace("TURN", "first"),
    "turn2": _TURN.replace("TURN", "second"),
    "longbench_v1": "SELECT dataset || '/' || lpad(sample::VARCHAR, 5, '0') AS item, arm, split, "
    'prompt_sha256 AS prompt, prompt_tokens, prediction AS answer, "references" AS wanted, score, status '
    "FROM longbench_v1_samples",
    "longbench_v2": "SELECT item, arm, split, prompt_sha256 AS prompt, prompt_tokens, response AS answer, "
    "[answer] AS wanted, CASE WHEN correct THEN 1.0 ELSE 0.0 END AS score, status FROM longbench_v2_samples",
    "agreement": "SELECT document AS item, arm, split, domain, prompt_tokens, status FROM agreement_documents",
    "nll": "SELECT document AS item, arm, split, domain, prompt_tokens, status FROM documents",
    "served_ceiling": "SELECT length || '/' || lpad(repeat::VARCHAR, 5, '0') AS item, arm, split, "
    "length AS prompt_tokens, seconds, exact_seconds FROM served_requests",
    "served": "SELECT phase || '/' || lpad(number::VARCHAR, 5, '0') AS item, arm, split, max(length) AS prompt_tokens, "
    "list(first_token_seconds ORDER BY place) AS seconds, list(decode_seconds ORDER BY place) AS decode_seconds "
    "FROM served_pairs WHERE role = 'short' GROUP BY phase, number, arm, split",
}
"""SQL by how a metric begins; items are named as the views of views.sql name them."""
SCORED_AGAIN = ("ruler", "turn1", "turn2")


def source_of(metric: str) -> str:
    """The key of :data:`SOURCES` for a metric; empty when none has its items."""
    return next((prefix for prefix in SOURCES if metric.startswith(prefix)), "")


def with_answers(measures: Measures, basis: Basis, rows: Sequence[Row]) -> list[Row]:
    """``rows`` with what lies behind each item: of the arm, and its answer beside that of the baseline.

    A row gains ``prompt`` (SHA-256) or ``domain``, ``prompt_tokens``, ``status``, and for answers ``answer``,
    ``wanted`` and ``baseline_answer``; where time is measured, ``prompt_tokens`` and ``seconds``. One that the tables
    lack is left as it is.
    """
    source = source_of(basis.metric)
    if not source or basis.rows or not rows:
        return list(rows)
    sql = f"SELECT * FROM ({SOURCES[source]}) WHERE arm IN ($arm, $baseline)"
    found = fetch(measures, sql, {"arm": basis.arm, "baseline": basis.baseline or basis.arm})
    here = [row for row in found if row["split"] == basis.split or row["arm"] in OWN_SPLIT]
    own = {row["item"]: row for row in here if row["arm"] == basis.arm}
    other = {row["item"]: row for row in here if row["arm"] == basis.baseline}
    return [_joined(row, own.get(row["item"], {}), other.get(row["item"], {})) for row in rows]


def _joined(row: Row, own: Mapping[str, Any], other: Mapping[str, Any]) -> Row:
    kept = {key: value for key, value in own.items() if key not in ("item", "arm")}
    return {**row, **kept, **({"baseline_answer": other["answer"]} if "answer" in other else {})}


def wrongly_scored(basis: Basis, rows: Sequence[Row]) -> list[str] | None:
    """Items whose stored answer does not earn their stored score; None where answers are not scored here."""
    if source_of(basis.metric) not in SCORED_AGAIN or basis.rows:
        return None
    scored = [row for row in rows if row.get("wanted") and row.get("score") is not None]
    return [
        row["item"]
        for row in scored
        if abs(score(row["answer"], row["wanted"], part=row["part"]) - row["score"]) > 1e-9
    ]
