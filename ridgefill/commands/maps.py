"""``ridgefill maps inspect | verify | quantize``: folders of maps looked at, checked, and made smaller."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ridgefill.errors import MapError, ResultsError


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the parsers."""
    about = "look at, check or quantise a folder of maps"
    actions = commands.add_parser("maps", help=about, description=about).add_subparsers(required=True, metavar="ACTION")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("path", type=Path, metavar="PATH", help="folder that holds ridgefill.json")
    shared.add_argument("--json", action="store_true", help="print one JSON object")

    about = "print what a folder of maps says it holds; no file is hashed"
    action = actions.add_parser("inspect", parents=[shared], help=about, description=about)
    action.set_defaults(run=_inspect)

    about = "check every file's hash, shape and values; exits with 4 when anything is wrong"
    action = actions.add_parser("verify", parents=[shared], help=about, description=about)
    action.set_defaults(run=_verify)

    about = "write bf16 maps as int8, half the size, and print what it costs"
    action = actions.add_parser("quantize", parents=[shared], help=about, description=about)
    action.add_argument("out", type=Path, metavar="OUT", help="folder for the int8 maps; must not exist")
    action.set_defaults(run=_quantize)


def _inspect(arguments: argparse.Namespace) -> int:
    from ridgefill.mapfiles.describe import describe

    found = describe(arguments.path)
    if arguments.json:
        print(json.dumps(found))
        return 0
    shape = f"[{found['d_out']}, {found['d_in']}]"
    lines = [
        ("maps", f"{found['path']}, {found['encoding']}, {_size(found['bytes'])}"),
        ("split", f"{found['split']} of {found['layers']} layers: {len(found['maps'])} maps {shape}"),
        *((key, _shown(value)) for key, value in found["credit"].items()),
        ("fit", ""),
        *((f"  {key}", _shown(value)) for key, value in sorted(found["fit"].items())),
        ("model", ""),
        *((f"  {key}", _shown(value)) for key, value in sorted(found["architecture"].items())),
        ("files", ""),
        *((f"  {one['file']}", f"{one['bytes']:,} bytes") for one in found["maps"]),
        *((f"  {name}", f"{size:,} bytes") for name, size in found["other_files"].items()),
    ]
    print(_columns(lines))
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from ridgefill.mapfiles.manifest import read_manifest
    from ridgefill.mapfiles.verify import verify
    from ridgefill.progress import progress

    files = len(read_manifest(arguments.path).files)
    with progress(files, "verify", "files", delay=2.0) as bar:
        found = verify(arguments.path, lambda: bar.update(1))
    if arguments.json:
        answer = {
            "ok": not found.problems,
            "checked": found.checked,
            "problems": found.problems,
            "absent": found.absent,
        }
        print(json.dumps(answer))
    elif not found.problems:
        absent = f"; not here and not needed: {', '.join(found.absent)}" if found.absent else ""
        print(f"{arguments.path}: {found.checked} files are what their manifest says{absent}")
    for problem in found.problems:
        print(f"error: {problem}", file=sys.stderr)
    return MapError.exit_code if found.problems else 0


def _quantize(arguments: argparse.Namespace) -> int:
    if arguments.out.exists():
        raise ResultsError(f"{arguments.out} exists already; give a new folder, or delete it first")
    from ridgefill.mapfiles.describe import describe
    from ridgefill.mapfiles.quantize import quantize
    from ridgefill.progress import progress

    before = describe(arguments.path)
    with progress(len(before["maps"]), "quantize", "layers", delay=2.0) as bar:
        errors = quantize(arguments.path, arguments.out, lambda: bar.update(1))
    size = describe(arguments.out)["bytes"]
    layers = [{"layer": layer, **vars(one)} for layer, one in errors.items()]
    worst = max(one.worst for one in errors.values())
    mean = sum(one.mean for one in errors.values()) / len(errors)
    if arguments.json:
        answer = {"out": str(arguments.out), "bytes": size, "from_bytes": before["bytes"], "worst": worst, "mean": mean}
        print(json.dumps({**answer, "layers": layers}))
        return 0
    print(f"{'layer':>5}  {'worst error':>11}  {'mean error':>11}  {'relative':>9}")
    for layer, one in errors.items():
        print(f"{layer:>5}  {one.worst:>11.3e}  {one.mean:>11.3e}  {one.relative:>9.5f}")
    print(f"{'all':>5}  {worst:>11.3e}  {mean:>11.3e}")
    print(f"{arguments.out}: int8, {_size(size)}, from {_size(before['bytes'])}")
    return 0


def _size(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB"


def _shown(value: Any) -> str:
    """A value of the manifest on one line; equal neighbours of a list are counted, as layer types mostly repeat."""
    if isinstance(value, list):
        runs: list[tuple[Any, int]] = []
        for one in value:
            runs = [*runs[:-1], (one, runs[-1][1] + 1)] if runs and runs[-1][0] == one else [*runs, (one, 1)]
        return ", ".join(f"{count} x {_shown(one)}" if count > 1 else _shown(one) for one, count in runs)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_shown(one)}" for key, one in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _columns(lines: list[tuple[str, str]]) -> str:
    width = max(len(key) for key, _ in lines) + 2
    return "\n".join(f"{key:<{width}}{value}".rstrip() for key, value in lines)
