"""``ridgefill bench``: what RidgeFill's work costs beside a reference, measured here and now."""

from __future__ import annotations

import argparse
import sys
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from ridgefill.errors import ConfigError

if TYPE_CHECKING:
    from ridgefill.bench.row import Row

MODEL = Path("models/smollm2-135m-instruct")
MAPS = Path("results/smollm2_split19/maps/split19")
NAMES = (
    "ttft", "rows", "off", "memory", "engines", "plugin", "moments", "fit", "arms", "bootstrap", "best", "demo",
    "query", "recompute",
)  # fmt: skip
"""Families, as ``ridgefill.bench.families`` has them; written here too, as listing them must not load a model."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the parser."""
    about = "measure speed, memory and fitting beside their references and targets"
    parser = commands.add_parser("bench", help=about, description=about)
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="FAMILY", help=f"some of: {', '.join(NAMES)}")
    parser.add_argument("--model", type=Path, default=MODEL, help=f"model folder (default: {MODEL})")
    parser.add_argument("--maps", type=Path, default=MAPS, help=f"maps folder (default: {MAPS})")
    parser.add_argument("--gguf", type=Path, help="the model's GGUF file, for llama.cpp (default: as fetched)")
    parser.add_argument("--results", type=Path, default=Path("data/results"), help="published experiments")
    parser.add_argument("--tuned", type=Path, default=Path("results/tuned"), help="what tune found, by model")
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 4096, 8192], help="prompt tokens")
    parser.add_argument("--repeats", type=int, default=5, help="timed pairs of each row (default: 5)")
    parser.add_argument("--threads", type=int, default=2, help="processor threads (default: 2)")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda: the rows of the model's prefill there")
    parser.set_defaults(run=_bench)


def _bench(arguments: argparse.Namespace) -> int:
    if arguments.repeats < 1 or arguments.threads < 1:
        raise ConfigError(
            f"{arguments.repeats} repeats on {arguments.threads} threads were asked for; expected 1 or more of each"
        )
    import torch

    from ridgefill.bench.families import FAMILIES, ON_DEVICE, Places, Wish
    from ridgefill.bench.row import json_line

    torch.set_num_threads(arguments.threads)
    model = arguments.model
    fetched = sorted((model.parent / ".fetched" / model.name).glob("*.gguf"))
    gguf = arguments.gguf or next(iter(fetched), None)
    places = Places(Path(), model, arguments.maps, gguf, arguments.results, arguments.tuned)
    wish = Wish(arguments.repeats, arguments.threads, tuple(arguments.lengths), arguments.device)
    names = arguments.only or (NAMES if arguments.device == "cpu" else ON_DEVICE)
    found: list[Row] = []
    for name in names:
        for row in FAMILIES[name](places, wish):
            found.append(row)
            sys.stderr.write(f"{row.name}: {_said(row)}\n")
    print(_table(found))
    print(json_line(found))
    return 0


def _said(row: Row) -> str:
    return "no value" if isnan(row.value) else f"{row.value:.3f}, {'met' if row.met else 'missed'}"


def _table(rows: list[Row]) -> str:
    """What each row is, what limits it, and a table; every ratio was taken within one process."""
    lines = ["", "What is measured, and what limits it:", ""]
    for row in rows:
        lines += [f"  {row.name}: {row.what}", f"      {row.limited}"]
    width = max(len(row.name) for row in rows)
    lines += ["", f"{'row':<{width}} {'value':>8} {'low':>8} {'high':>8} {'reference':>9} {'target':>8}  met"]
    for row in rows:
        numbers = "".join(_number(number, size) for number, size in zip(_numbers(row), (9, 9, 9, 10, 7), strict=True))
        bound = "\N{GREATER-THAN OR EQUAL TO}" if row.better == "more" else "\N{LESS-THAN OR EQUAL TO}"
        lines.append(f"{row.name:<{width}}{numbers[:-7]} {bound}{numbers[-7:]}  {'yes' if row.met else 'no'}")
    met = sum(row.met for row in rows)
    lines += ["", f"{met} of {len(rows)} targets met. Low and high: the smallest and largest single repeat.", ""]
    return "\n".join(lines)


def _numbers(row: Row) -> tuple[float, ...]:
    return row.value, row.low, row.high, row.reference, row.target


def _number(number: float, size: int) -> str:
    return f"{'-':>{size}}" if isnan(number) else f"{number:>{size}.3f}"
