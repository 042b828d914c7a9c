"""Tables about the fit (lam grid, maps) and the list of facts that opens the report."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ridgefill.tables.folder import Folder, number_entry
from ridgefill.tables.grid import Column, Entry, Table

COMPONENTS = {
    "key": "keys",
    "value": "values",
    "index": "indexer keys",
    "qkv": "recurrent inputs",
    "b": "write strengths",
    "a": "decays",
    "input": "inputs",
}

# key of setup.sql -> (words, file whose run is cited)
_SETUP = {
    "samples": ("RULER samples", "ruler/samples.parquet"),
    "filled_samples": ("of them with every needle in the filled region", "ruler/samples.parquet"),
    "queried_samples": ("of them with every queried needle in the filled region", "ruler/samples.parquet"),
    "tasks": ("RULER tasks", "ruler/samples.parquet"),
    "longest_prompt": ("longest RULER prompt, tokens", "ruler/samples.parquet"),
    "documents": ("documents", "documents/documents.parquet"),
    "domains": ("domains", "documents/documents.parquet"),
    "scored_tokens": ("scored tokens", "documents/tokens.parquet"),
    "novel_tokens": ("of them novel", "documents/tokens.parquet"),
    "key_tokens": ("of them key", "documents/tokens.parquet"),
    "key_documents": ("documents with key tokens", "documents/tokens.parquet"),
}


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def lam_table(folder: Folder) -> Table:
    """Held-out cosine by lam, a column per split and component; the chosen lam of a split stands out."""
    found = {row[:3]: row[3:] for row in folder.query("lam")}
    sets = sorted({(split, part) for split, _, part in found}, key=lambda s: (s[0], list(COMPONENTS).index(s[1])))
    origin = folder.origin("lam", "lam/lam_curve.parquet")
    rows = []
    for lam in sorted({lam for _, lam, _ in found}):
        entries = [Entry(label=f"{lam:g}")]
        for split, part in sets:
            cosines, picked = found.get((split, lam, part), ([], False))
            identity = f"lam.{split}.{lam:g}.{part}"
            mark = " \u25c0" if picked else ""
            entries.append(
                number_entry(identity, _mean(cosines), "cosine", len(cosines), origin, suffix=mark, strong=bool(picked))
            )
        rows.append(tuple(entries))
    columns = (
        Column("lam", "lam", label=True),
        *(Column(f"split{s}_{p}", f"Split {s}", COMPONENTS[p]) for s, p in sets),
    )
    caption = (
        "Mean cosine, over the late layers, between what a layer writes to its cache from the "
        "predicted and from the true "
        "input, on held-out documents. \u25c0 marks the lam chosen for that split."
    )
    return Table("lam", "Choosing lam", caption, columns, tuple(rows))


def fit_table(folder: Folder) -> Table:
    """The maps of every split: conditioning, and the variance the regression leaves."""
    origin = folder.origin("fit", "fit/fit_layers.parquet")
    rows = []
    for split, layers, lam, worst, residuals in folder.query("fit"):
        identity = f"fit.{split}"
        rows.append(
            (
                Entry(label=str(split)),
                number_entry(f"{identity}.layers", layers, "count", layers, origin),
                number_entry(f"{identity}.lam", f"{lam:g}", "text", layers, origin),
                number_entry(f"{identity}.condition", worst, "power", layers, origin),
                number_entry(f"{identity}.residual_mean", _mean(residuals), "percent", layers, origin),
                number_entry(f"{identity}.residual_worst", max(residuals), "percent", layers, origin),
            )
        )
    columns = (
        Column("split", "Split layer", label=True),
        Column("layers", "Mapped layers"),
        Column("lam", "lam"),
        Column("condition", "Worst condition number"),
        Column("residual_mean", "Residual variance, mean", "%"),
        Column("residual_worst", "Residual variance, worst layer", "%"),
    )
    marked = frozenset(i for i, row in enumerate(rows) if row[0].label == str(folder.settings.split))
    caption = "Residual variance: what the map leaves unexplained of a layer's input on the calibration rows."
    return Table("fit", "The fitted maps", caption, columns, tuple(rows), marked)


def setup_table(folder: Folder) -> Table:
    """Sizes of the experiment as two columns, fact and number."""
    settings = folder.settings
    origin = folder.origin("setup", "ruler/samples.parquet")
    given = {
        "layers": ("layers", settings.layers),
        "split": ("split layer", settings.split),
        "tail": ("exact tail, tokens", settings.tail),
        "resamples": ("bootstrap resamples", settings.resamples),
    }
    rows = [
        (Entry(label=words), number_entry(f"setup.{key}", value, "count", 1, origin))
        for key, (words, value) in given.items()
    ]
    for (key, (words, file)), value in zip(_SETUP.items(), folder.query("setup")[0], strict=True):
        cited = folder.origin("setup", file)
        rows.append((Entry(label=words), number_entry(f"setup.{key}", value or 0, "count", 1, cited)))
    columns = (Column("fact", "Fact", label=True), Column("value", "Value"))
    return Table(
        "setup",
        "What was measured",
        "Counted on the exact arm; every arm sees the same.",
        columns,
        tuple(rows),
    )
