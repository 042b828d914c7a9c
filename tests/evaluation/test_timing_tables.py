"""The tables of speed and serving: there only when such runs were made, right in every number, recomputed elsewhere."""

import csv
import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from ridgefill.cost import layer_share
from ridgefill.recompute import recompute
from ridgefill.results import write_table
from ridgefill.tables import render

BUILD = runpy.run_path(str(Path(__file__).parents[1] / "tables" / "conftest.py"))
LAYERS, SPLIT, TAIL, REPEATS = BUILD["LAYERS"], BUILD["SPLIT"], BUILD["TAIL"], 7
METADATA = {"git_commit": "0" * 40, "config_sha256": "1" * 64, "ledger_entry": "11"}
ALIKE = {"experiment": "e", "model": "tiny", "device": "cpu", "threads": 2, "dtype": "float32"}
CELLS = {"arm": ("ridgefill", "identity"), "length": (1024, 4096)}


def speed_rows(rng):
    """Requests of two arms at two lengths, every time drawn by itself; one arm's memory is not known."""
    return [
        ALIKE
        | {
            "arm": arm,
            "split": SPLIT,
            "length": length,
            "repeat": repeat,
            "exact_seconds": length * rng.uniform(0.9, 1.1),
            "seconds": length * rng.uniform(0.6, 0.8),
            "filled_rows": length - TAIL - repeat,
            "exact_rows": TAIL + repeat,
            "macs": 700 + repeat,
            "exact_macs": 1000,
            "peak_bytes": None if arm == "identity" else 900,
            "exact_peak_bytes": None if arm == "identity" else 800,
        }
        for arm in CELLS["arm"]
        for length in CELLS["length"]
        for repeat in range(REPEATS)
    ]


def serving_rows(rng):
    """Pairs of runs of two arms at one length; latencies with a long end."""
    return [
        _served(f"{arm}@{SPLIT}", who, repeat, (rng.gamma(1.0, 0.1, 8) * factor).tolist())
        for arm in CELLS["arm"]
        for repeat in range(REPEATS)
        for who, factor in (("exact", 1.0), (arm, 0.7))
    ]


def _served(pair, arm, repeat, gaps):
    settings = {"length": 2048, "users": 4, "user_prompt": 64, "chunk": 256, "filled_rows": 0, "exact_rows": TAIL}
    return (
        ALIKE
        | settings
        | {
            "pair": pair,
            "arm": arm,
            "split": None if arm == "exact" else SPLIT,
            "repeat": repeat,
            "first_token_seconds": sum(gaps),
            "tokens_per_second": 28 / sum(gaps),
            "latency_mean": 0.1,
            "latency_p50": 0.1,
            "latency_p99": 0.1,
            "latency_max": max(gaps),
            "latencies": gaps,
            "alone": [],
        }
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Rows of both suites, and a folder with their report, without figures; shared, so tests must not write into it."""
    rng = np.random.default_rng(3)
    folder = BUILD["build"](tmp_path_factory.mktemp("timed") / "synthetic_split19")
    speed, serving = speed_rows(rng), serving_rows(rng)
    write_table(folder / "speed/requests.parquet", "speed", speed, METADATA)
    write_table(folder / "serving/runs.parquet", "serving", serving, METADATA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ridgefill.tables.figures.pictures", lambda _: [])
        render(folder)
    return speed, serving, folder


def cells(folder):
    return json.loads((folder / "cells.json").read_text())["cells"]


def test_speed_is_the_ratio_of_medians_beside_both_ceilings(made):
    """By hand from the requests of one arm and length."""
    rows = [row for row in made[0] if (row["arm"], row["length"]) == ("ridgefill", 4096)]
    found = {
        name.rpartition("4096.")[2]: one["value"] for name, one in cells(made[2]).items() if "ridgefill.4096" in name
    }
    exact, own = ([row[side] for row in rows] for side in ("exact_seconds", "seconds"))
    ratio = np.median(exact) / np.median(own)
    each = [a / b for a, b in zip(exact, own, strict=True)]
    share = np.mean([layer_share(LAYERS, SPLIT, row["exact_rows"], 4096) for row in rows])
    work = sum(row["macs"] for row in rows) / (1000 * REPEATS)
    assert found == pytest.approx(
        {
            "tokens": 4096, "speedup": ratio, "speedup.low": min(each), "speedup.high": max(each),
            "layer_ceiling": 1 / share, "of_layer_ceiling": ratio * share, "mac_ceiling": 1 / work,
            "of_mac_ceiling": ratio * work, "filled": np.mean([row["filled_rows"] for row in rows]) / 4096,
            "memory": 900 / 800,
        }
    )  # fmt: skip
    assert min(each) < ratio < max(each)


def test_serving_compares_each_arm_with_the_exact_runs_beside_it(made):
    """By hand from the runs of one arm; the other arm's exact runs are others."""
    rows = [row for row in made[1] if row["pair"] == f"identity@{SPLIT}"]
    own, exact = ([row for row in rows if (row["arm"] == "exact") == side] for side in (False, True))
    first, before = ([row["first_token_seconds"] for row in side] for side in (own, exact))
    rates = [np.median([row["tokens_per_second"] for row in side]) for side in (own, exact)]
    gaps = [np.float32([gap for row in side for gap in row["latencies"]]).astype(float) for side in (own, exact)]
    expected = {
        "tokens": 2048, "users": rates[0] / rates[1], "mean": gaps[0].mean() / gaps[1].mean(),
        "first_token": np.median(before) / np.median(first),
        "first_token.low": min(a / b for a, b in zip(before, first, strict=True)),
        "first_token.high": max(a / b for a, b in zip(before, first, strict=True)),
        "longest": gaps[0].max() / gaps[1].max(),
    }  # fmt: skip
    expected |= {
        f"p{level}": np.quantile(gaps[0], level / 100) / np.quantile(gaps[1], level / 100) for level in (50, 99)
    }
    found = {key.rpartition("2048.")[2]: one["value"] for key, one in cells(made[2]).items() if "identity.2048" in key}
    assert found == pytest.approx(expected)


def test_recompute_agrees_in_every_number(made):
    """Other code, same numbers: ten for each of four rows of speed, nine for each of two of serving."""
    found = recompute(made[2])
    assert found.mismatches == ()
    assert (found.counts["speed"], found.counts["serving"]) == (40, 18)


@pytest.mark.parametrize(("table", "cell"), [("speed", "ridgefill.1024.memory"), ("serving", "ridgefill.2048.p99")])
def test_a_changed_digit_is_found_and_named(made, table, cell):
    """One cell of the report, and no other."""
    path = made[2] / "report.html"
    text = path.read_text()
    place = re.search(rf'data-cell="{table}\.{re.escape(cell)}">[^<]*(\d)<', text).start(1)
    path.write_text(f"{text[:place]}{(int(text[place]) + 1) % 10}{text[place + 1 :]}")
    try:
        named = {one.cell for one in recompute(made[2]).mismatches if one.file == "report.html"}
    finally:
        path.write_text(text)
    assert {f"{table}.{cell}"} == named - {"report.html"}


def test_rows_are_in_the_order_of_arms_and_what_is_not_known_is_said(made):
    """Identity before RidgeFill, short prompts before long ones; memory that was not measured is n/a."""
    rows = list(csv.DictReader((made[2] / "tables/speed.csv").open(encoding="utf-8")))
    assert [(row["arm"], row["length"]) for row in rows] == [
        ("identity fill", "1024"), ("identity fill", "4096"), ("RidgeFill", "1024"), ("RidgeFill", "4096"),
    ]  # fmt: skip
    assert [row["memory"] for row in rows] == ["", "", "112.5", "112.5"]
    assert "n/a" in (made[2] / "tables/speed.md").read_text()


def test_folders_without_such_runs_have_no_such_tables(tmp_path, monkeypatch):
    """Nowhere a trace of them, so published results stay what they are."""
    monkeypatch.setattr("ridgefill.tables.figures.pictures", lambda _: [])
    folder = BUILD["build"](tmp_path / "synthetic_split19")
    render(folder)
    assert not [name for name in cells(folder) if name.startswith(("speed.", "serving."))]
    assert not (folder / "tables/speed.md").exists()
    assert "Time to first token" not in (folder / "report.html").read_text()
