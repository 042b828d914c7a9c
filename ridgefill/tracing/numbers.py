"""What the rows behind a cell make: the number again, by plain sums over exactly the rows that are shown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ridgefill.measures import item_value

Row = Mapping[str, Any]
Rows = Sequence[Row]
Made = float | int | str | None


def make(makes: str, rows: Rows, parameters: Mapping[str, Any]) -> tuple[str, Made]:
    """In words what is made of ``rows``, and the number; None when they have no value.

    makes: a key of ``MAKES``, or one of the families ``cost_``, ``spent_``, ``fit_``, ``speed_``, ``serving_``,
    ``served_``, ``mixed_``, ``setup_``. Raises KeyError for any other.
    """
    if makes in MAKES:
        sentence, made = MAKES[makes]
        count = sum(1 for row in rows if _whole(row, makes))
        return sentence.format(n=count or len(rows)), made(rows)
    if makes in ("outcomes", "word"):
        return _outcome(makes, rows, parameters)
    family, _, name = makes.partition("_")
    if family == "setup":
        return f"{name} of the row below", rows[0][name] or 0
    words, function = _INPUTS[family][name]
    return words.format(n=len(rows)), function(rows) if rows else None


def has_own(makes: str) -> bool:
    """Whether plain sums over the shown rows make such a number."""
    family, _, name = makes.partition("_")
    known = makes in MAKES or makes in ("outcomes", "word") or family == "setup"
    return known or name in _INPUTS.get(family, {})


def values_of(rows: Rows, side: str = "own") -> list[float]:
    """Values of one side, items without one left out."""
    return [row[side] for row in rows if row.get(side) is not None]


def differences(rows: Rows) -> list[float]:
    """Own minus other of every item that has both."""
    return [row["own"] - row["other"] for row in rows if row["own"] is not None and row["other"] is not None]


def mean(values: Sequence[float]) -> float | None:
    """Exactly summed; None of nothing."""
    return math.fsum(values) / len(values) if values else None


def quantile(values: Sequence[float], level: float) -> float | None:
    """Between the two neighbours in proportion; None of nothing."""
    ordered = sorted(values)
    place = level * (len(ordered) - 1)
    if not ordered:
        return None
    low = math.floor(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def _whole(row: Row, makes: str) -> bool:
    sides = ("own",) if makes in ("mean", "count", "average") else ("own", "other")
    return all(row.get(side) is not None for side in sides)


def _share(rows: Rows, sign: float) -> float | None:
    """One minus the arm's distance to exact over the fill's; sides are own, other (the fill) and exact."""
    kept = [row for row in rows if None not in (row["own"], row["other"], row["exact"])]
    whole = math.fsum(sign * (row["other"] - row["exact"]) for row in kept)
    return 1 - math.fsum(sign * (row["own"] - row["exact"]) for row in kept) / whole if whole > 0 else None


def _gap(rows: Rows) -> float | None:
    """Mean over domains of the mean over documents of exp(difference) - 1."""
    domains: dict[str, list[float]] = {}
    for row in rows:
        if row["own"] is not None and row["other"] is not None:
            domains.setdefault(row["stratum"], []).append(row["own"] - row["other"])
    each = [value for values in domains.values() for value in values]
    if not each or max(each) > 20.0:
        return None
    return mean([math.fsum(map(math.expm1, values)) / len(values) for values in domains.values()])


def _token_differences(rows: Rows) -> list[float]:
    pairs = [(row["parts"], row["parts_1"]) for row in rows if row["parts"] and row["parts_1"]]
    return [a - b for own, exact in pairs for a, b in zip(own, exact, strict=True)]


def _average(rows: Rows) -> float | None:
    groups: dict[str, list[float]] = {}
    for row in rows:
        groups.setdefault(row["stratum"], []).extend([] if row["own"] is None else [row["own"]])
    means = [mean(values) for values in groups.values()]
    return mean([one for one in means if one is not None]) if None not in means else None


def _only(rows: Rows, sign: int) -> int:
    return sum(1 for difference in differences(rows) if sign * difference > 0)


def _floor(rows: Rows) -> float | None:
    n = len(differences(rows))
    return 100.0 * (1.0 - 0.05 ** (1.0 / n)) if n else None


def _post(name: str) -> Callable[[Rows], float | None]:
    def tokens(rows: Rows) -> list[float]:
        return [value for row in rows for value in row["kl"] if value is not None]

    def means(rows: Rows) -> list[float]:
        known = [None if None in row["kl"] else item_value(row["kl"]) for row in rows]
        return [value for value in known if value is not None]

    shares = {"copy_low": (0.0, 0.2), "copy_middle": (0.2, 0.5), "copy_high": (0.5, math.inf)}
    if name == "top1":
        return lambda rows: mean([item_value(row["top1"]) or 0.0 for row in rows])
    if name == "kl":
        return lambda rows: mean(means(rows))
    if name in ("median", "p99"):
        return lambda rows: quantile(tokens(rows), {"median": 0.5, "p99": 0.99}[name])
    least, below = shares[name]
    return lambda rows: mean(means([row for row in rows if least <= row["copyable"] / row["tokens"] < below]))


MAKES: Mapping[str, tuple[str, Callable[[Rows], float | int | None]]] = {
    "mean": ("the mean of these {n} values", lambda rows: mean(values_of(rows))),
    "difference": ("the mean of these {n} differences", lambda rows: mean(differences(rows))),
    "from_exact": ("the mean of these {n} differences to exact",
                   lambda rows: mean([r["own"] - r["exact"] for r in rows if None not in (r["own"], r["exact"])])),
    "count": ("the number of items with a value", lambda rows: len(values_of(rows))),
    "pairs": ("the number of pairs with both values", lambda rows: len(differences(rows))),
    "average": ("the mean of the means of the groups of these {n} values", _average),
    "wins": ("the number of items with a higher value than exact", lambda rows: _only(rows, 1)),
    "losses": ("the number of items with a lower value than exact", lambda rows: _only(rows, -1)),
    "floor": ("the binomial floor of {n} pairs", _floor),
    "loss_removed": ("1 minus the arm's distance to exact over the fill's, on {n} items", lambda r: _share(r, 1.0)),
    "gap_closed": ("1 minus the arm's distance to exact over the fill's, on {n} items", lambda r: _share(r, -1.0)),
    "gap": ("the mean over domains of exp(difference) - 1 of {n} documents", _gap),
    "tail_mean": ("the mean of these {n} differences", lambda rows: mean(differences(rows))),
    "tail_median": ("the median of these {n} differences", lambda rows: quantile(differences(rows), 0.5)),
    "token_mean": ("the mean over the tokens of {n} documents", lambda r: mean(_token_differences(r))),
    "token_median": ("the median over the tokens of {n} documents", lambda r: quantile(_token_differences(r), 0.5)),
    "token_p99": ("the 99th percentile over the tokens of {n} documents",
                  lambda r: quantile(_token_differences(r), 0.99)),
    "post_top1": ("the mean over {n} documents", _post("top1")),
    "post_kl": ("the mean over {n} documents", _post("kl")),
    "post_median": ("the median over the tokens of {n} documents", _post("median")),
    "post_p99": ("the 99th percentile over the tokens of {n} documents", _post("p99")),
    "post_copy_low": ("the mean over those of {n} documents", _post("copy_low")),
    "post_copy_middle": ("the mean over those of {n} documents", _post("copy_middle")),
    "post_copy_high": ("the mean over those of {n} documents", _post("copy_high")),
    "lam": ("the mean cosine of these layers", lambda rows: mean([row["cosine"] for row in rows])),
}  # fmt: skip


def _total(rows: Rows, column: str) -> int:
    return sum(int(row[column]) for row in rows)


def _seconds(rows: Rows) -> list[float]:
    return [row["lower_seconds"] + row["late_seconds"] for row in rows]


def _time_share(rows: Rows) -> float:
    return _median(own / row["exact_seconds"] for own, row in zip(_seconds(rows), rows, strict=True))


def _median(values: Iterable[float]) -> float:
    return float(statistics.median(values))


def _off(rows: Rows) -> float:
    known = [(int(row["macs"]), int(row["target_macs"])) for row in rows if row["target_macs"] is not None]
    return max(abs(own - target) / target for own, target in known)


def _sooner(rows: Rows, exact: str, own: str) -> float:
    return _median(row[exact] for row in rows) / _median(row[own] for row in rows)


def _memory(rows: Rows) -> float | None:
    known = all(row["peak_bytes"] is not None and row["exact_peak_bytes"] is not None for row in rows)
    return _total(rows, "peak_bytes") / _total(rows, "exact_peak_bytes") if known else None


def _waits(level: float | None) -> Callable[[Rows], float | None]:
    """Times between two tokens of all runs together, over those of exact: a quantile, or the mean."""

    def ratio(rows: Rows) -> float | None:
        sides = [[gap for row in rows for gap in row[name]] for name in ("latencies", "latencies_1")]
        own, exact = (mean(side) if level is None else quantile(side, level) for side in sides)
        return own / exact if own is not None and exact else None

    return ratio


Input = tuple[str, Callable[[Rows], float | int | str | None]]
_COST: Mapping[str, Input] = {
    "prompts": ("the number of these prompts", len),
    "macs": ("the mean macs of these {n} prompts", lambda rows: _total(rows, "macs") / len(rows)),
    "mac_share": ("the sum of macs over the sum of exact_macs of {n} prompts",
                  lambda rows: _total(rows, "macs") / _total(rows, "exact_macs")),
    "ceiling": ("the sum of exact_macs over the sum of macs of {n} prompts",
                lambda rows: _total(rows, "exact_macs") / _total(rows, "macs")),
    "seconds": ("the median of lower_seconds + late_seconds of {n} prompts",
                lambda rows: _median(_seconds(rows))),
    "measured_share": ("the median of (lower_seconds + late_seconds) / exact_seconds of {n} prompts", _time_share),
    "speedup": ("1 over the median of (lower_seconds + late_seconds) / exact_seconds of {n} prompts",
                lambda rows: 1 / _time_share(rows)),
}  # fmt: skip
_SPENT: Mapping[str, Input] = {
    "tail": ("the mean tail of these {n} prompts", lambda rows: _total(rows, "tail") / len(rows)),
    "selected": ("the mean of selected of these {n} prompts", lambda rows: _total(rows, "selected") / len(rows)),
    "selection": ("the sum of selection_macs over that of exact_macs of {n} prompts",
                  lambda rows: _total(rows, "selection_macs") / _total(rows, "exact_macs")),
    "correction": ("the sum of correction_macs over that of exact_macs of {n} prompts",
                   lambda rows: _total(rows, "correction_macs") / _total(rows, "exact_macs")),
    "off": ("the largest distance of macs to target_macs, as a share of it, of {n} prompts", _off),
}  # fmt: skip
_FIT: Mapping[str, Input] = {
    "layers": ("the number of these layers", len),
    "lam": ("the lam of these {n} layers", lambda rows: f"{min(row['lam'] for row in rows):g}"),
    "condition": ("the largest condition of these {n} layers", lambda rows: max(row["condition"] for row in rows)),
    "residual_mean": ("the mean residual_share of these {n} layers",
                      lambda rows: mean([row["residual_share"] for row in rows])),
    "residual_worst": ("the largest residual_share of these {n} layers",
                       lambda rows: max(row["residual_share"] for row in rows)),
}  # fmt: skip
_SPEED: Mapping[str, Input] = {
    "speedup": ("median exact_seconds over median seconds of {n} requests",
                lambda rows: _sooner(rows, "exact_seconds", "seconds")),
    "tokens": ("the length of these {n} prompts", lambda rows: rows[0]["length"]),
    "mac_ceiling": ("the sum of exact_macs over the sum of macs of {n} requests",
                    lambda rows: _total(rows, "exact_macs") / _total(rows, "macs")),
    "filled": ("the sum of filled_rows over the tokens of {n} prompts",
               lambda rows: _total(rows, "filled_rows") / _total(rows, "length")),
    "memory": ("the sum of peak_bytes over that of exact_peak_bytes of {n} requests", _memory),
}  # fmt: skip
_SERVING: Mapping[str, Input] = {
    "first_token": ("median of exact's first_token_seconds over that of the arm in {n} runs",
                    lambda rows: _sooner(rows, "first_token_seconds_1", "first_token_seconds")),
    "tokens": ("the length of these {n} prompts", lambda rows: rows[0]["length"]),
    "users": ("median tokens_per_second of the arm over that of exact in {n} runs",
              lambda rows: _sooner(rows, "tokens_per_second", "tokens_per_second_1")),
    "mean": ("the mean of latencies over that of exact in {n} runs", _waits(None)),
    "p50": ("the median of latencies over that of exact in {n} runs", _waits(0.5)),
    "p99": ("the 99th percentile of latencies over that of exact in {n} runs", _waits(0.99)),
    "longest": ("the longest of latencies over that of exact in {n} runs", _waits(1.0)),
}  # fmt: skip
_SERVED: Mapping[str, Input] = _SPEED | {
    side: (f"the median of {side} of {{n}} requests", lambda rows, side=side: _median(row[side] for row in rows))
    for side in ("exact_seconds", "seconds")
}
_INPUTS = {
    "cost": _COST, "spent": _SPENT, "fit": _FIT, "speed": _SPEED, "serving": _SERVING, "served": _SERVED,
    "mixed": _SERVING,
}  # fmt: skip


def _outcome(makes: str, rows: Rows, parameters: Mapping[str, Any]) -> tuple[str, Made]:
    if makes == "word":
        return "the verdict of this prediction", rows[0]["verdict"] if rows else None
    word = parameters["word"]
    if word == "predictions":
        return "the number of these predictions", len(rows)
    return f"the number of these predictions that are {word}", sum(1 for row in rows if row["verdict"] == word)
