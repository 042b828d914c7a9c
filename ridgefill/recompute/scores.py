"""RULER scores a second time, from the stored predictions and references."""

from __future__ import annotations

from collections.abc import Iterator

from ridgefill.recompute.data import Data


def score(prediction: str, references: list[str], part: bool) -> float:
    """Share of references found in the prediction, ignoring case; with ``part``, whether any is."""
    text = "".join(" " if ord(letter) < 32 else letter for letter in prediction).casefold()
    hits = [reference.casefold() in text for reference in references]
    return float(any(hits)) if part else sum(hits) / len(hits)


def wrong_scores(data: Data) -> Iterator[tuple[str, str, str]]:
    """Rows whose stored score is not what their prediction earns, as (where, stored, recomputed)."""
    for row in data.rows["ruler/samples.parquet"]:
        if row["status"] != "ok" or row["score"] is None or not row["references"]:
            continue
        earned = score(row["prediction"], row["references"], part=row["task"].startswith("qa"))
        if abs(earned - row["score"]) > 1e-9:
            place = f"{row['task']}/{row['length']}/{row['sample']} {row['arm']}@{row['split']}"
            yield f"ruler/samples.parquet score of {place}", str(row["score"]), str(earned)
    for row in data.rows.get("turns/samples.parquet", ()):
        for turn in ("first", "second"):
            stored, references = row[f"{turn}_score"], row[f"{turn}_references"]
            if row["status"] != "ok" or stored is None or not references:
                continue
            earned = score(row[f"{turn}_prediction"], references, part=False)
            if abs(earned - stored) > 1e-9:
                place = f"{row['task']}/{row['length']}/{row['sample']} {row['arm']}@{row['split']}"
                yield f"turns/samples.parquet {turn}_score of {place}", str(stored), str(earned)
