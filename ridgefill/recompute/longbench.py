"""What the LongBench tables must hold, and the answers behind them, from their Parquet rows in plain Python."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Generator, Iterator, Sequence
from fractions import Fraction
from typing import Any

from ridgefill.recompute.bootstrap import sum_exactly
from ridgefill.recompute.data import Data, Found

V1, V2 = "longbench_v1", "longbench_v2"
KINDS = ("difficulty", "length", "domain")
Row = dict[str, Any]
# Items of an arm and of exact: what an item is grouped by, the arm's value, exact's.
Items = list[tuple[str, float | None, float | None]]
Number = tuple[str, float | int | None, str]
Numbers = Iterator[Number]
_LETTER = (re.compile(r"The correct answer is \(([A-D])\)"), re.compile(r"The correct answer is ([A-D])"))
_PUNCTUATION = re.compile(f"[{re.escape(string.punctuation)}]")


def longbench_numbers(data: Data) -> Numbers:
    """Cell, value and kind (``points``, ``difference``, ``count`` or ``p``) of both tables."""
    for arm, items in _by_arm(data, V1):
        names = sorted({name for name, _, _ in items})
        means = {}
        for name in ("all", *names):
            inside = [item for item in items if name in ("all", item[0])]
            means[name] = yield from _compared(data, f"{V1}.{arm}.{name}", "score", arm, inside, over_items=False)
        each = [means[name].estimate for name in names]
        known = [mean for mean in each if mean is not None]
        yield f"{V1}.{arm}.average.n", means["all"].n, "count"
        average = sum_exactly(known) / len(known) if len(known) == len(each) else None
        yield f"{V1}.{arm}.average.score", average, "points"
    for arm, items in _by_arm(data, V2):
        places: dict[tuple[str, ...], Items] = {("all",): items}
        for groups, own, exact in items:
            for kind, name in zip(KINDS, groups.split("@", 2), strict=True):
                places.setdefault((kind, name), []).append((groups, own, exact))
        for place, inside in places.items():
            identity = ".".join((V2, arm, *place))
            yield from _compared(data, identity, "accuracy", arm, inside, over_items=True)
            yield from _discordant(identity, inside) if arm != "exact" else ()


def _by_arm(data: Data, metric: str) -> Iterator[tuple[str, Items]]:
    base = data.at(metric, "exact", data.split)
    for arm in data.arms(data.split) if base else ():
        own = data.at(metric, arm, data.split)
        if own:
            order = sorted(base, key=lambda item: (base[item][0], item))
            yield arm, [(base[item][0], own.get(item, ("", None))[1], base[item][1]) for item in order]


def _compared(
    data: Data, identity: str, name: str, arm: str, items: Items, over_items: bool
) -> Generator[Number, None, Found]:
    """The arm's mean with its n, and the difference to exact with its own."""
    alone = [(label, own) for label, own, _ in items if own is not None]
    both = [(label, own - exact) for label, own, exact in items if own is not None and exact is not None]
    mean = _describe(data, alone, over_items)
    yield f"{identity}.n", mean.n, "count"
    yield from _ends(f"{identity}.{name}", mean, "points")
    if arm != "exact":
        difference = _describe(data, both, over_items)
        yield f"{identity}.pairs", difference.n, "count"
        yield from _ends(f"{identity}.difference", difference, "difference")
    return mean


def _describe(data: Data, items: Sequence[tuple[str, float]], over_items: bool) -> Found:
    return data.describe([label for label, _ in items], [value for _, value in items], False, True, over_items)


def _ends(identity: str, found: Found, kind: str) -> Numbers:
    for end, value in (("", found.estimate), (".low", found.low), (".high", found.high)):
        if value is not None or not end:
            yield identity + end, value, kind


def _discordant(identity: str, items: Items) -> Numbers:
    pairs = [(own, exact) for _, own, exact in items if own is not None and exact is not None]
    only = [sum(own > exact for own, exact in pairs), sum(own < exact for own, exact in pairs)]
    yield f"{identity}.arm_only", only[0] if pairs else None, "count"
    yield f"{identity}.exact_only", only[1] if pairs else None, "count"
    yield f"{identity}.p_value", two_sided(*only) if pairs else None, "p"


def two_sided(one: int, other: int) -> float:
    """Chance of a fair coin to fall as unevenly as ``one`` against ``other``, or more so, to either side."""
    throws = one + other
    as_uneven = [k for k in range(throws + 1) if abs(2 * k - throws) >= abs(one - other)]
    return float(Fraction(sum(math.comb(throws, k) for k in as_uneven), 2**throws))


def wrong_answers(data: Data) -> Iterator[tuple[str, str, str]]:
    """Rows whose stored verdict or score is not what their text earns, as (where, stored, recomputed).

    v1 is earned again where the row alone is enough: F1 of other than Chinese words, counts and retrieval.
    """
    for row in data.rows.get(f"{V2}/samples.parquet", ()):
        where = f"{V2}/samples.parquet verdict of {row['item']} {row['arm']}@{row['split']}"
        stored, earned = (row["status"], row["choice"], row["correct"]), verdict(row)
        if stored != earned:
            yield where, str(stored), str(earned)
    for row in data.rows.get(f"{V1}/samples.parquet", ()):
        scorer = None if row["dataset"] == "multifieldqa_zh" else _SCORERS.get(row["metric"])
        if scorer is None or row["status"] != "ok" or row["score"] is None:
            continue
        answer = row["prediction"]
        if row["dataset"] == "triviaqa":
            answer = answer.lstrip("\n").partition("\n")[0]
        best = max(scorer(answer, reference) for reference in row["references"])
        if abs(best - row["score"]) > 1e-9:
            where = f"{V1}/samples.parquet score of {row['dataset']}/{row['sample']} {row['arm']}@{row['split']}"
            yield where, str(row["score"]), str(best)


def verdict(row: Row) -> tuple[str, str | None, bool | None]:
    """Status, letter and whether it is right, from what an arm wrote in the two requests of a v2 item."""
    if not row["reasoning"] or not row["response"]:
        return "empty", None, None
    plain = "".join(row["response"].split("*"))
    found = [match.group(1) for match in (pattern.search(plain) for pattern in _LETTER) if match]
    return ("ok", found[0], found[0] == row["answer"]) if found else ("no_answer", None, False)


def _words(text: str) -> list[str]:
    plain = re.sub(r"\b(?:a|an|the)\b", " ", _PUNCTUATION.sub("", text.lower()))
    return plain.split()


def _f1(answer: str, reference: str) -> float:
    said, left = _words(answer), _words(reference)
    length, hits = len(said) + len(left), 0
    for word in said:
        if word in left:
            left.remove(word)
            hits += 1
    return 2 * hits / length if hits else 0.0


def _numbers(answer: str, wanted: str) -> float:
    found = re.findall(r"\d+", answer)
    return float(sum(one == wanted for one in found) / max(1, len(found)))


def _retrieved(answer: str, reference: str) -> float:
    named = re.search(r"(?:Paragraph |段落)(\d+)", reference)
    return _numbers(answer, named.group(1) if named else "")


_SCORERS: dict[str, Callable[[str, str], float]] = {"f1": _f1, "count": _numbers, "retrieval": _retrieved}
