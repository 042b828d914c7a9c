"""Non-inferiority, perplexity gaps and means beside medians a second time, from the Parquet rows in plain Python."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ridgefill.recompute.bootstrap import bca, by_stratum, sum_exactly
from ridgefill.recompute.data import ANY_SPLIT, Data, median
from ridgefill.recompute.expected import Cells, Expected, count, plain
from ridgefill.recompute.suites import quantile

ALLOWED = (("exact", 2.0), ("pop_native", 3.0))
"""Points that an arm may fall behind each of these."""
KINDS = ("all", "novel", "repeated", "key")
LARGEST = 20.0
"""Nats above exact beyond which a document has no perplexity gap."""

Tokens = dict[int, float | None]
Document = tuple[str, str]
Losses = dict[tuple[str, str], dict[Document, Tokens]]
"""Token losses by position, of every document (domain and name) of an arm and a kind of tokens."""


def companion_cells(data: Data) -> Cells:
    """Cells of the tables ``non_inferiority``, ``perplexity`` and ``tails``."""
    cells: Cells = {}
    _non_inferiority(data, cells)
    losses = _losses(data)
    for (arm, kind), own in losses.items():
        exact = losses.get(("exact", kind))
        if arm == "exact" or exact is None:
            continue
        differences = list(_differences(own, exact))
        _gap(data, cells, f"perplexity.{arm}.{kind}", differences)
        if kind != "repeated":
            means = [sum_exactly(each) / len(each) for _, each in differences if each is not None]
            _companions(cells, f"tails.{arm}.{kind}", means)
        if kind == "key":
            tokens = [value for _, each in differences if each is not None for value in each]
            _companions(cells, f"tails.{arm}.token", tokens, far=True)
    return cells


def _non_inferiority(data: Data, cells: Cells) -> None:
    filling = {
        row["arm"]
        for row in data.rows["ruler/samples.parquet"]
        if row["filled_rows"] > 0 and (row["split"] == data.split or row["arm"] in ANY_SPLIT)
    }
    items = data.at("ruler_filled", "exact", data.split)
    for baseline, margin in ALLOWED if items else ():
        other = data.at("ruler_filled", baseline, data.split)
        for arm in filling - {baseline} if other else ():
            own = data.at("ruler_filled", arm, data.split)
            labels, values = [], []
            for item, (stratum, _) in sorted(items.items()):
                a, b = (side.get(item, (stratum, None))[1] for side in (own, other))
                if a is not None and b is not None:
                    labels.append(stratum)
                    values.append(a - b)
            _pair(data, cells, f"non_inferiority.{arm}-{baseline}", by_stratum(labels, values), margin)


def _pair(data: Data, cells: Cells, identity: str, strata: Sequence[Sequence[float]], margin: float) -> None:
    flat = [value for stratum in strata for value in stratum]
    cells[f"{identity}.n"] = count(len(flat))
    if not flat:
        return
    low, high, bound = bca(strata, (0.025, 0.975, 0.05), data.resamples, data.seed)
    floor = 100.0 * (1.0 - math.exp(math.log(0.05) / len(flat)))
    worst = min(round(bound, 10), -floor)
    for end, value in (("", sum_exactly(flat) / len(flat)), (".low", low), (".high", high)):
        cells[f"{identity}.difference{end}"] = plain(value, 1, signed=True)
    for name, value in (("bootstrap", bound), ("floor", floor), ("bound", worst)):
        cells[f"{identity}.{name}"] = plain(value, 2)
    word = "shown" if worst + margin > 0 else "not shown" if floor < margin else "n too small"
    cells[f"{identity}.verdict"] = Expected(word, word)


def _losses(data: Data) -> Losses:
    found: Losses = {}
    for row in data.rows["documents/tokens.parquet"]:
        arm = row["arm"]
        if row["split"] != data.split and arm not in ANY_SPLIT:
            continue
        value = row["nll"] if row["status"] == "ok" else None
        for kind in ("all", "novel" if row["novel"] else "repeated", *["key"] * row["key"]):
            documents = found.setdefault((arm, kind), {})
            documents.setdefault((row["domain"], row["document"]), {})[row["position"]] = value
    return found


def _differences(
    own: dict[Document, Tokens], exact: dict[Document, Tokens]
) -> Iterator[tuple[str, list[float] | None]]:
    """The domain of every document of exact, and how far each token's loss lies above exact's; None: some have none."""
    for (domain, name), tokens in sorted(exact.items()):
        each = []
        for position, loss in tokens.items():
            mine = own.get((domain, name), {}).get(position)
            if mine is not None and loss is not None:
                each.append(mine - loss)
        yield domain, each if len(each) == len(tokens) else None


def _gap(data: Data, cells: Cells, identity: str, differences: Sequence[tuple[str, list[float] | None]]) -> None:
    """Mean over domains of their documents' mean gaps, and the interval of the documents weighted to give it."""
    pairs = [(domain, sum_exactly(each) / len(each)) for domain, each in differences if each is not None]
    if not pairs or max(nats for _, nats in pairs) > LARGEST:
        cells[identity] = plain(None, 1, 100.0, signed=True)
        return
    strata = by_stratum([domain for domain, _ in pairs], [nats for _, nats in pairs])
    gaps = [[math.expm1(nats) for nats in stratum] for stratum in strata]
    means = [sum_exactly(stratum) / len(stratum) for stratum in gaps]
    weighted = [[gap * len(pairs) / (len(gaps) * len(stratum)) for gap in stratum] for stratum in gaps]
    low, high = bca(weighted, (0.025, 0.975), data.resamples, data.seed)
    for end, value in (("", sum_exactly(means) / len(means)), (".low", low), (".high", high)):
        cells[identity + end] = plain(value, 1, 100.0, signed=True)


def _companions(cells: Cells, identity: str, values: Sequence[float], far: bool = False) -> None:
    if not values:
        return
    numbers = {"mean": sum_exactly(values) / len(values), "median": median(values)}
    if far:
        numbers["p99"] = quantile(values, 99)
    for name, value in numbers.items():
        cells[f"{identity}_{name}"] = plain(value, 3, signed=True)
