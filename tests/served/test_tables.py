"""The tables of a server: there only where one was measured, right in every number, and recomputed elsewhere."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from ridgefill.measures import Measures
from ridgefill.recompute import recompute
from ridgefill.results import write_table
from ridgefill.tables import render
from ridgefill.tables.served import served_markdown
from ridgefill.tracing.basis import Context, basis_of
from ridgefill.tracing.numbers import has_own, make
from ridgefill.tracing.rows import rows_of

BUILD = runpy.run_path(str(Path(__file__).parents[1] / "tables" / "conftest.py"))
LAYERS, SPLIT, TAIL, REPEATS = BUILD["LAYERS"], BUILD["SPLIT"], BUILD["TAIL"], 7
METADATA = {"git_commit": "0" * 40, "config_sha256": "1" * 64, "ledger_entry": "11"}
ALIKE = {"experiment": "e", "model": "tiny", "device": "cpu", "threads": 2, "dtype": "bfloat16"}
PHASES = ("fresh", "after_burst", "mix")
LENGTHS = (1024, 4096)


def requests(rng):
    """Timed pairs at two lengths."""
    return [
        ALIKE
        | {"arm": "ridgefill", "split": SPLIT, "length": length, "repeat": repeat, "filled_rows": length - TAIL}
        | {"exact_rows": TAIL, "macs": 700, "exact_macs": 1000, "peak_bytes": None, "exact_peak_bytes": None}
        | {"exact_seconds": length * rng.uniform(0.9, 1.1), "seconds": length * rng.uniform(0.6, 0.8)}
        for length in LENGTHS
        for repeat in range(REPEATS)
    ]


def runs(rng):
    """Pairs of runs among users."""
    made = []
    for repeat in range(3):
        for arm, factor in (("exact", 1.0), ("ridgefill", 0.7)):
            gaps = (rng.gamma(1.0, 0.1, 8) * factor).tolist()
            made.append(
                ALIKE
                | {"pair": f"ridgefill@{SPLIT}", "arm": arm, "split": None if arm == "exact" else SPLIT}
                | {"length": 4096, "repeat": repeat, "users": 4, "user_prompt": 64, "chunk": 256, "filled_rows": 0}
                | {"exact_rows": TAIL, "first_token_seconds": sum(gaps), "tokens_per_second": 28 / sum(gaps)}
                | {"latency_mean": 0.1, "latency_p50": 0.1, "latency_p99": 0.1, "latency_max": max(gaps)}
                | {"latencies": gaps, "alone": []}
            )
    return made


def one(phase, number, place, arm, role, seconds, tokens):
    """A request of the two servers' pairs."""
    split = None if arm == "exact" else SPLIT
    return ALIKE | {
        "phase": phase, "number": number, "place": place, "role": role, "arm": arm, "split": split, "length": 128,
        "filled_rows": 0, "first_token_seconds": seconds[0], "decode_seconds": seconds[1],
        "gaps": [] if seconds[1] is None else [seconds[1]], "tokens": tokens,
    }  # fmt: skip


def pairs(rng):
    """Short requests alone, two to a round in the mix, and long ones; one of the fresh ones has another token."""
    made = []
    for phase in PHASES:
        for number in range(REPEATS):
            for arm in ("ridgefill", "exact"):
                for place in (1, 2) if phase == "mix" else (1,):
                    other = arm == "ridgefill" and phase == "fresh" and number == 2
                    seconds = rng.uniform(0.9, 1.1, 2).tolist()
                    made.append(one(phase, number, place, arm, "short", seconds, [5, 7 if other else 6]))
                factor = 0.7 if arm == "ridgefill" else 1.0
                made.append(one(phase, number, 0, arm, "long", [factor * rng.uniform(2, 3), None], [1]))
    return made


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Rows of the three files, and a folder with their report, without figures."""
    rng = np.random.default_rng(7)
    folder = BUILD["build"](tmp_path_factory.mktemp("served") / "synthetic_split19")
    found = requests(rng), runs(rng), pairs(rng)
    for file, schema, rows in zip(
        ("served/requests.parquet", "served/runs.parquet", "served/pairs.parquet", "speed/requests.parquet"),
        ("speed", "serving", "served_pairs", "speed"),
        (*found, requests(rng)[:REPEATS]),
        strict=True,
    ):
        write_table(folder / file, schema, rows, METADATA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ridgefill.tables.figures.pictures", lambda _: [])
        render(folder)
    return (*found, folder)


def cells(folder):
    """Values of all cells."""
    return {key: cell["value"] for key, cell in json.loads((folder / "cells.json").read_text())["cells"].items()}


def test_times_of_the_server_are_ratios_of_medians_beside_both_ceilings_and_seconds(made):
    """By hand from the requests of one length."""
    rows = [row for row in made[0] if row["length"] == 4096]
    exact, own = (float(np.median([row[side] for row in rows])) for side in ("exact_seconds", "seconds"))
    found = cells(made[3])
    share = 1 - (4096 - TAIL) / 4096 * (LAYERS - SPLIT) / LAYERS
    for name, value in {
        "speedup": exact / own, "exact_seconds": exact, "seconds": own, "mac_ceiling": 10 / 7,
        "of_mac_ceiling": exact / own * 0.7, "layer_ceiling": 1 / share, "filled": 1 - TAIL / 4096,
    }.items():  # fmt: skip
        assert found[f"served.ridgefill.4096.{name}"] == pytest.approx(value), name


@pytest.mark.parametrize("phase", PHASES)
def test_short_requests_are_compared_round_by_round(made, phase):
    """Logarithms of ratios; a round of the mix counts once; tokens are compared."""
    rows = [row for row in made[2] if row["phase"] == phase]
    shorts = {
        arm: np.array(
            [
                [
                    (row["first_token_seconds"], row["decode_seconds"])
                    for row in rows
                    if (row["number"], row["arm"], row["role"]) == (number, arm, "short")
                ]
                for number in range(REPEATS)
            ]
        )
        for arm in ("ridgefill", "exact")
    }  # fmt: skip
    first, decode = (100 * np.log(shorts["ridgefill"] / shorts["exact"])).mean(axis=(0, 1))
    long = {arm: [r["first_token_seconds"] for r in rows if (r["arm"], r["role"]) == (arm, "long")] for arm in shorts}
    found = cells(made[3])
    same = 100 * (REPEATS - 1) / REPEATS if phase == "fresh" else 100
    for name, value in {
        "served_first": first, "served_decode": decode, "served_same": same, "n": REPEATS,
        "long": np.median(long["exact"]) / np.median(long["ridgefill"]),
    }.items():  # fmt: skip
        assert found[f"unfilled.{phase}.ridgefill.{name}"] == pytest.approx(value), name
    low, high = (found[f"unfilled.{phase}.ridgefill.served_first.{end}"] for end in ("low", "high"))
    assert low < first < high


def test_recompute_agrees_in_every_number(made):
    """Other code, same numbers."""
    found = recompute(made[3])
    assert found.mismatches == ()
    assert (found.counts["served"], found.counts["mixed"], found.counts["unfilled"]) == (22, 9, 33)


def test_every_number_is_made_again_from_the_rows_that_a_trace_shows(made):
    """All but ends of intervals, which no plain sum over rows gives."""
    measures, traced = Measures(made[3]), 0
    for cell, value in cells(made[3]).items():
        if cell.partition(".")[0] not in ("served", "mixed", "unfilled") or cell.endswith((".low", ".high")):
            continue
        basis = basis_of(cell, Context(SPLIT, {}))
        if has_own(basis.makes):
            _, found = make(basis.makes, rows_of(measures, basis), basis.parameters)
            assert found == pytest.approx(value), cell
            traced += 1
    # Shares of ceilings need the geometry of the model.
    assert traced == 2 * 6 + 7 + 3 * 5


def test_claims_can_ask_for_what_was_reached(made):
    """A share of the ceiling by length; the stock server is the baseline of short requests."""
    measures = Measures(made[3])
    where = {"split": SPLIT, "subset": "4096"}
    rows = [row for row in made[0] if row["length"] == 4096]
    reached = [100 * 0.7 * row["exact_seconds"] / row["seconds"] for row in rows]
    found = measures.lookup("served_ceiling", "ridgefill", None, where)
    assert (found["n"], found["estimate"]) == (REPEATS, pytest.approx(np.mean(reached)))
    plain = measures.lookup("served_first", "ridgefill", None, {"split": SPLIT, "subset": "mix"})
    against = measures.lookup("served_first", "ridgefill", "exact", {"split": SPLIT, "subset": "mix"})
    assert plain["estimate"] == pytest.approx(against["estimate"])
    assert plain["n"] == REPEATS


def test_the_short_table_has_the_reference_beside_the_server_at_lengths_that_both_have(made):
    """1,024 tokens here, for the README."""
    lines = served_markdown(made[3]).splitlines()
    assert [line.split(" | ")[:2] for line in lines[2:]] == [
        ["| reference, in stock transformers", "1,024"],
        ["| vLLM's server, by the plugin", "1,024"],
    ]


def test_folders_without_a_server_have_no_such_tables(tmp_path, monkeypatch):
    """Nowhere a trace of them."""
    monkeypatch.setattr("ridgefill.tables.figures.pictures", lambda _: [])
    folder = BUILD["build"](tmp_path / "synthetic_split19")
    render(folder)
    assert not [name for name in cells(folder) if name.startswith(("served.", "mixed.", "unfilled."))]
    assert "vLLM" not in (folder / "report.html").read_text()
