"""Loss differences to exact seen twice more: as perplexity gaps, and as means beside their medians (section 2).

Both tables are of the documents' tokens. Repeated tokens are those that are not novel: they lie inside a run of eight
that occurs earlier in the prompt, so they could be copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ridgefill import stats
from ridgefill.errors import ResultsError
from ridgefill.measures import MISSING, Stat, group, item_value
from ridgefill.tables.folder import Folder, arm_label, arm_order, number_entry, stat_entry
from ridgefill.tables.grid import Column, Entry, Table
from ridgefill.tables.quality import FOOTNOTE, NONE

KINDS = {"all": "All tokens", "novel": "Novel", "repeated": "Repeated", "key": "Key"}
MEANS = ("all", "novel", "key")
HEAVY = "\u00b6"
MOST_NATS = 20.0
"""Above exact: a document beyond it is broken, and the exponential of its loss would be the whole mean."""
QUERY = "loss_differences"
GAPS = (
    "How much higher an arm's perplexity is than exact's: exp of the difference in loss, minus 1, of each document, "
    "averaged within each domain and then across domains. Repeated tokens lie inside a run of eight that occurs "
    "earlier in the prompt: all that are not novel. "
    f"n/a: the loss of a document lies more than {MOST_NATS:.0f} nats above exact's. "
)
TAILS = (
    "Difference in loss to exact, nats. A document's value is the mean of its tokens; the last three columns are over "
    "the key tokens of all documents, each counted once. A few items can carry a mean but not a median. "
    f"{HEAVY} heavy tail: the mean lies outside the quartiles. Documents in which a token has no loss are left out."
)
# Rows of loss_differences.sql for one arm and kind: domain, document, and the losses of the arm and of exact.
Rows = Sequence[tuple[Any, ...]]
Groups = dict[tuple[Any, ...], list[tuple[Any, ...]]]


def perplexity_table(folder: Folder) -> Table | None:
    """One row per arm at the primary split; None where no document was read."""
    groups = group(folder.query(QUERY), 2)
    arms = _arms(groups)
    if not arms:
        return None
    rows = tuple(
        (_label(arm), *(_gap(folder, arm, kind, groups.get((arm, kind), [])) for kind in KINDS)) for arm in arms
    )
    columns = tuple(Column(kind, head, "% above exact", interval=True) for kind, head in KINDS.items())
    head = Column("arm", "Arm", label=True)
    return Table("perplexity", "Perplexity gap", GAPS + FOOTNOTE, (head, *columns), rows, _marked(arms))


def _gap(folder: Folder, arm: str, kind: str, rows: Rows) -> Entry:
    if not rows:
        return NONE
    values = [(row[0], item_value(row[2]), item_value(row[3])) for row in rows]
    kept = [(domain, own, exact) for domain, own, exact in values if own is not None and exact is not None]
    stat = MISSING
    if kept and max(own - exact for _, own, exact in kept) <= MOST_NATS:
        domains, own, exact = zip(*kept, strict=True)
        found = stats.perplexity_gap(own, exact, domains, folder.settings.resamples, folder.settings.seed)
        status = found.status if len(kept) == len(rows) else "incomplete"
        stat = Stat(found.estimate, found.ci_low, found.ci_high, None, found.n, status)
    return stat_entry(f"perplexity.{arm}.{kind}", stat, "percent_difference", _origin(folder))


def tails_table(folder: Folder) -> Table | None:
    """One row per arm at the primary split; None where no document was read."""
    groups = group(folder.query(QUERY), 2)
    arms = _arms(groups)
    if not arms:
        return None
    columns = [Column("arm", "Arm", label=True)]
    for kind in MEANS:
        columns.append(Column(f"{kind}_mean", f"{KINDS[kind]}: mean", "of documents"))
        columns.append(Column(f"{kind}_median", "median", "of documents"))
    columns.append(Column("token_mean", "Key: mean", "of tokens"))
    columns += [Column(f"token_{name}", name, "of tokens") for name in ("median", "p99")]
    rows = tuple((_label(arm), *_tails(folder, arm, groups)) for arm in arms)
    title = "Means beside their medians"
    return Table("tails", title, TAILS, tuple(columns), rows, _marked(arms))


def _tails(folder: Folder, arm: str, groups: Groups) -> list[Entry]:
    entries = []
    for kind in MEANS:
        documents = [math.fsum(own) / len(own) - math.fsum(exact) / len(exact)
                     for own, exact in _complete(groups.get((arm, kind), []))]  # fmt: skip
        entries += _companions(folder, f"tails.{arm}.{kind}", documents)[:2]
    tokens = [a - b for own, exact in _complete(groups.get((arm, "key"), [])) for a, b in zip(own, exact, strict=True)]
    return entries + _companions(folder, f"tails.{arm}.token", tokens)


def _companions(folder: Folder, identity: str, values: Sequence[float]) -> list[Entry]:
    """Mean, median and 99th percentile; dashes where there is no value."""
    if not values:
        return [NONE] * 3
    found, origin = stats.tail(values), _origin(folder)
    numbers = {"mean": found.mean, "median": found.median, "p99": found.p99}
    return [
        number_entry(
            f"{identity}_{name}", value, "nats_difference", found.n, origin,
            suffix=HEAVY if found.heavy and name == "mean" else "",
        )
        for name, value in numbers.items()
    ]  # fmt: skip


def _complete(rows: Rows) -> list[tuple[list[float], list[float]]]:
    """Losses of the arm and of exact of every document that has all; ResultsError where they cannot be paired."""
    pairs = [(row[2], row[3]) for row in rows if row[2] and row[3]]
    for own, exact in pairs:
        if len(own) != len(exact):
            raise ResultsError(
                f"documents/tokens.parquet has {len(own)} losses of an arm for {len(exact)} of exact in one document; "
                "expected the same tokens, so run the documents again"
            )
    return pairs


def _arms(groups: Groups) -> list[str]:
    return sorted({arm for arm, _ in groups}, key=arm_order)


def _label(arm: str) -> Entry:
    return Entry(label=arm_label(arm), strong=arm == "ridgefill")


def _marked(arms: Sequence[str]) -> frozenset[int]:
    return frozenset(place for place, arm in enumerate(arms) if arm == "ridgefill")


def _origin(folder: Folder) -> Any:
    return folder.origin(QUERY, "documents/tokens.parquet")
