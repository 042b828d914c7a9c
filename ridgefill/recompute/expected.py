"""What every cell of the report must hold, by cell id, computed from the Parquet rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ridgefill.recompute.bootstrap import sum_exactly
from ridgefill.recompute.data import ANY_SPLIT, Data, Found, answers, in_points, median
from ridgefill.recompute.longbench import longbench_numbers
from ridgefill.recompute.shares import LEAST_SAMPLES
from ridgefill.recompute.spending import spending
from ridgefill.recompute.suites import post_prompt_numbers, suite_numbers
from ridgefill.recompute.timings import timing_numbers


@dataclass(frozen=True)
class Expected:
    """A number in printed units and how it must be printed; ``value`` may also be a word or None.

    raw: the value as ``cells.json`` keeps it. digits: decimals. signed: a plus sign on positive numbers.
    """

    value: float | int | str | None
    raw: float | int | str | None
    digits: int = 0
    signed: bool = False
    scientific: bool = False


Cells = dict[str, Expected]
METRICS = ("ruler_filled", "ruler_all", "nll_all", "nll_novel", "nll_key")
PAIRS = (
    ("ridgefill", "identity"),
    ("ridgefill", "exact"),
    ("ridgefill", "no_fill_longer_tail"),
    ("ridgefill_rows", "ridgefill_random_rows"),
    ("ridgefill_rows", "ridgefill_longer_tail"),
)
SPLICES = (
    "splice_exact_keys",
    "splice_exact_values",
    "splice_exact_keys_values",
    "splice_exact_states",
    "splice_exact_all",
    "scale_keys_tail",
    "scale_values_tail",
    "ridgefill_state_correction",
)


def expected_cells(data: Data) -> Cells:
    """All cells but those of the verdicts."""
    cells: Cells = {}
    parts: tuple[Callable[[Data, Cells], None], ...] = (
        _main,
        _contrasts,
        _curve,
        _tasks,
        _splices,
        _lam,
        _fit,
        _cost,
        _spending,
        _suites,
        _longbench,
        _timings,
        _setup,
    )
    for part in parts:
        part(data, cells)
    return cells


def plain(value: float | None, digits: int, factor: float = 1.0, signed: bool = False) -> Expected:
    """An expected number; ``factor`` turns the raw value into printed units."""
    return Expected(None if value is None else value * factor, value, digits, signed)


def count(value: int) -> Expected:
    """What a cell that counts things should hold and print."""
    return Expected(value, value)


def _interval(
    cells: Cells, identity: str, found: Found, points: bool, signed: bool = False, factor: float = 1.0
) -> None:
    digits = 1 if points else 3
    ends = {"": found.estimate, ".low": found.low, ".high": found.high}
    for end, value in ends.items():
        if value is not None or end == "":
            cells[identity + end] = plain(value, digits, factor, signed)


def _quality(data: Data, cells: Cells, identity: str, arm: str, split: int) -> None:
    """Points as they are, losses against exact; the metric is the last part of ``identity``."""
    metric = identity.rsplit(".", 1)[1]
    ruler = metric.startswith("ruler")
    found = data.found(metric, arm, None if ruler else "exact", split)
    _interval(cells, identity, found, ruler, signed=not ruler)


def _main(data: Data, cells: Cells) -> None:
    work = _work(data, "ruler/samples.parquet")
    for arm in data.arms(data.split):
        for metric in METRICS:
            if arm == "exact" and metric.startswith("nll"):
                found = data.found(metric, arm, None, data.split)
                cells[f"main.exact.{metric}.loss"] = plain(found.estimate, 3)
            else:
                _quality(data, cells, f"main.{arm}.{metric}", arm, data.split)
        own, exact, _ = work.get(arm, (0, 0, 0))
        cells[f"main.{arm}.mac_share"] = plain(own / exact if exact else None, 1, 100.0)
        cells[f"main.{arm}.ceiling"] = plain(exact / own if own else None, 2)


def _contrasts(data: Data, cells: Cells) -> None:
    for arm, baseline in PAIRS:
        for metric in (*METRICS, "agreement_top1", "agreement_kl", "turn2", "longbench_v1", "longbench_v2"):
            if not all(data.at(metric, one, data.split) for one in (arm, baseline, "exact")):
                continue
            points, identity = in_points(metric), f"contrasts.{arm}-{baseline}.{metric}"
            found = data.found(metric, arm, baseline, data.split)
            _interval(cells, identity, found, points, signed=True)
            cells[f"{identity}.n"] = count(found.n)
            if answers(metric) and baseline == "exact":
                cells[f"{identity}.lower"] = plain(found.bound, 1, signed=True)


def _curve(data: Data, cells: Cells) -> None:
    splits: dict[str, set[int]] = {}
    for _, arm, split in data.items:
        if split is not None:
            splits.setdefault(arm, set()).add(split)
    for arm, where in splits.items():
        for split in where if len(where) > 1 else ():
            for metric in ("ruler_filled", "ruler_all", "nll_all", "nll_key"):
                _quality(data, cells, f"split_curve.{split}.{arm}.{metric}", arm, split)


def _tasks(data: Data, cells: Cells) -> None:
    sets = {(row["task"], row["length"]) for row in data.rows["ruler/samples.parquet"]}
    measured = {arm for metric, arm, _ in data.items if metric == "ruler_all"}
    for arm in measured.intersection(data.arms(data.split)):
        for task, length in sets:
            found = data.found(f"ruler_{task}", arm, None, data.split, str(length))
            _interval(cells, f"tasks.{arm}.{task}.{length}", found, points=True, signed=False)


def _splices(data: Data, cells: Cells) -> None:
    measured = data.arms(data.split)
    present = [arm for arm in SPLICES if arm in measured]
    for arm in ["ridgefill"] * ("ridgefill" in measured) + present if present else []:
        for metric in ("nll_novel", "ruler_filled"):
            _quality(data, cells, f"splices.{arm}.{metric}", arm, data.split)
    for arm in present:
        removed = data.share("nll_novel", arm, data.split)
        closed = data.share("ruler_filled", arm, data.split, LEAST_SAMPLES)
        _interval(cells, f"splices.{arm}.loss_removed", removed, points=True, factor=100.0)
        _interval(cells, f"splices.{arm}.gap_closed", closed, points=True, factor=100.0)


def _lam(data: Data, cells: Cells) -> None:
    cosines: dict[tuple[int, float, str], list[float]] = {}
    for row in data.rows["lam/lam_curve.parquet"]:
        cosines.setdefault((row["split"], row["lam"], row["component"]), []).append(row["cosine"])
    for (split, lam, part), values in cosines.items():
        cells[f"lam.{split}.{lam:g}.{part}"] = plain(sum_exactly(values) / len(values), 4)


def _fit(data: Data, cells: Cells) -> None:
    by_split: dict[int, list[dict[str, float]]] = {}
    for row in data.rows["fit/fit_layers.parquet"]:
        by_split.setdefault(row["split"], []).append(row)
    for split, rows in by_split.items():
        worst, left = max(r["condition"] for r in rows), [r["residual_share"] for r in rows]
        lam = f"{min(r['lam'] for r in rows):g}"
        cells[f"fit.{split}.layers"] = count(len(rows))
        cells[f"fit.{split}.lam"] = Expected(lam, lam)
        cells[f"fit.{split}.condition"] = Expected(worst, worst, 2, scientific=True)
        cells[f"fit.{split}.residual_mean"] = plain(sum_exactly(left) / len(left), 1, 100.0)
        cells[f"fit.{split}.residual_worst"] = plain(max(left), 1, 100.0)


def _work(data: Data, file: str) -> dict[str, tuple[int, int, int]]:
    """Multiply-accumulates of each arm at the primary split, those of exact, and prompts."""
    found: dict[str, tuple[int, int, int]] = {}
    for row in data.rows[file]:
        if row["split"] == data.split or row["arm"] in ANY_SPLIT:
            own, exact, prompts = found.get(row["arm"], (0, 0, 0))
            found[row["arm"]] = (own + row["macs"], exact + row["exact_macs"], prompts + 1)
    return found


def _cost(data: Data, cells: Cells) -> None:
    clocks = [*data.rows["ruler/timings.parquet"], *data.rows["documents/timings.parquet"]]
    for suite, file in (("ruler", "ruler/samples.parquet"), ("documents", "documents/documents.parquet")):
        for arm, (own, exact, prompts) in _work(data, file).items():
            mine = [
                (row["lower_seconds"] + row["late_seconds"], row["exact_seconds"])
                for row in clocks
                if row["suite"] == suite and row["arm"] == arm and row["exact_seconds"] > 0
                and (row["split"] == data.split or arm in ANY_SPLIT)
            ]  # fmt: skip
            measured = median(seconds / reference for seconds, reference in mine)
            identity = f"cost.{suite}.{arm}"
            cells[f"{identity}.prompts"] = count(prompts)
            cells[f"{identity}.macs"] = plain(own / prompts, 1, 1e-9)
            cells[f"{identity}.mac_share"] = plain(own / exact if exact else None, 1, 100.0)
            cells[f"{identity}.ceiling"] = plain(exact / own if own else None, 2)
            cells[f"{identity}.seconds"] = plain(median(seconds for seconds, _ in mine), 2)
            cells[f"{identity}.measured_share"] = plain(measured, 1, 100.0)
            cells[f"{identity}.speedup"] = plain(1 / measured if measured else None, 2)


def _suites(data: Data, cells: Cells) -> None:
    for identity, found in suite_numbers(data).items():
        points = identity.endswith(("top1", "turn1", "turn2"))
        for end, value in (("", found.estimate), (".low", found.low), (".high", found.high)):
            if value is not None or not end:
                cells[identity + end] = plain(value, 1 if points else 4)
    for identity, value in post_prompt_numbers(data).items():
        cells[identity] = plain(value, 4)


def _longbench(data: Data, cells: Cells) -> None:
    for identity, value, kind in longbench_numbers(data):
        digits = {"points": 1, "difference": 1, "count": 0, "p": 3}[kind]
        cells[identity] = plain(value, digits, signed=kind == "difference")


def _spending(data: Data, cells: Cells) -> None:
    for identity, value in spending(data).items():
        rows = identity.endswith((".tail", ".selected"))
        cells[identity] = plain(value, 1) if rows else plain(value, 3, 100.0)


def _timings(data: Data, cells: Cells) -> None:
    for identity, value, kind in timing_numbers(data):
        digits, factor = {"percent": (1, 100.0), "points": (1, 1.0), "count": (0, 1.0)}.get(kind, (2, 1.0))
        cells[identity] = plain(value, digits, factor)


def _setup(data: Data, cells: Cells) -> None:
    ruler = [row for row in data.rows["ruler/samples.parquet"] if row["arm"] == "exact"]
    documents = [row for row in data.rows["documents/documents.parquet"] if row["arm"] == "exact"]
    tokens = [row for row in data.rows["documents/tokens.parquet"] if row["arm"] == "exact"]
    numbers = {
        "layers": int(data.model["geometry"]["layers"]),
        "split": data.split,
        "tail": int(data.experiment["tail"]),
        "resamples": data.resamples,
        "samples": len(ruler),
        "filled_samples": sum(row["in_filled_region"] for row in ruler),
        "queried_samples": sum(row["in_filled_region_queried"] for row in ruler),
        "tasks": len({row["task"] for row in data.rows["ruler/samples.parquet"]}),
        "longest_prompt": max((row["prompt_tokens"] for row in ruler), default=0),
        "documents": len(documents),
        "domains": len({row["domain"] for row in data.rows["documents/documents.parquet"]}),
        "scored_tokens": len(tokens),
        "novel_tokens": sum(row["novel"] for row in tokens),
        "key_tokens": sum(row["key"] for row in tokens),
        "key_documents": len({row["document"] for row in tokens if row["key"]}),
    }
    for name, number in numbers.items():
        cells[f"setup.{name}"] = count(number)
