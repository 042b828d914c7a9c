"""``ridgefill doctor``: whether a vLLM server fills, and if not, why and what to do."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from ridgefill.errors import RidgeFillError


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the parser."""
    about = "say whether a vLLM server fills, and if not, why and what to do"
    parser = commands.add_parser("doctor", help=about, description=about)
    parser.add_argument("--maps", help="folder of maps (default: what RIDGEFILL_VLLM says)")
    parser.add_argument("--model", type=Path, metavar="FOLDER", help="folder of the model that is served")
    parser.add_argument("--python", metavar="FILE", help="the interpreter that vLLM runs in (default: this one)")
    parser.add_argument("--log", type=Path, metavar="FILE", help="output of a server")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    from ridgefill.vllm_plugin.diagnosis import Asked, diagnose

    found = diagnose(
        Asked(arguments.maps, arguments.model, arguments.python, arguments.log, environment=dict(os.environ))
    )
    if arguments.json:
        rows = [{"what": one.what, "good": one.good, "says": one.says} for one in found.findings]
        print(json.dumps({"active": found.active, "first": found.first, "findings": rows}))
    else:
        print(found.first)
        marks = {True: "good", False: "wrong", None: "unseen"}
        for one in found.findings:
            print(f"  {one.what:<8}{marks[one.good]:<7} {one.says}")
    return 0 if found.active else RidgeFillError.exit_code
