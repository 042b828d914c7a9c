"""The ``ridgefill`` command: ``macs`` counts multiply-accumulates, ``recompute`` checks a report."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ridgefill import __version__
from ridgefill.commands import fit, generate, maps
from ridgefill.errors import RidgeFillError


def _macs_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "count the multiply-accumulates of a filled prefill beside exact prefill"
    parser = commands.add_parser("macs", help=about, description=about)
    parser.add_argument("--model", required=True, help="a model of workflow/config/models")
    parser.add_argument("--split", type=int, required=True, help="first late layer, counted from 0")
    parser.add_argument("--tail", type=int, required=True, help="tokens at the end that run every layer")
    parser.add_argument("--tokens", type=int, required=True, help="prompt tokens")
    parser.add_argument("--fill", choices=["ridge", "identity", "none"], default="ridge")
    parser.add_argument(
        "--split-layer",
        choices=["mapped", "exact"],
        default="mapped",
        help="whether the split layer has a map too, as the published map files do (default: mapped)",
    )
    parser.add_argument("--rank", type=int, help="rank of low-rank maps (default: full)")
    parser.add_argument("--against", choices=["pop", "exact"], help="also give the ratio to this arm")
    parser.add_argument("--root", type=Path, help="folder that holds workflow/config (default: here)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=_macs)


def _recompute_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "rebuild every table from the results and check every number of the report"
    commands.add_parser("recompute", help=about, add_help=False)


def _config_root(given: Path | None) -> Path:
    """The folder given, else this one, else the checkout the package was installed from."""
    from ridgefill.config import MODEL_DIR

    if given is not None:
        return given
    checkout = Path(__file__).resolve().parent.parent
    return next((root for root in (Path(), checkout) if (root / MODEL_DIR).is_dir()), Path())


def _macs(arguments: argparse.Namespace) -> int:
    from ridgefill import cost
    from ridgefill.config import cost_geometry, load_model

    model = load_model(arguments.model, _config_root(arguments.root))
    g = cost_geometry(model)
    macs = cost.fill_macs(
        g,
        tokens=arguments.tokens,
        split=arguments.split,
        tail=arguments.tail,
        fill=arguments.fill,
        mapped_split_layer=arguments.split_layer == "mapped",
        rank=arguments.rank,
    )
    exact = cost.exact_macs(g, arguments.tokens)
    layers = cost.layer_share(g.layers, arguments.split, arguments.tail, arguments.tokens)
    answer: dict[str, int | float] = {
        "macs": macs,
        "exact_macs": exact,
        "share": macs / exact,
        "ceiling": cost.ceiling(macs / exact),
        "layer_share": layers,
        "layer_ceiling": cost.ceiling(layers),
    }
    if arguments.against:
        other = exact if arguments.against == "exact" else cost.pop_macs(g, arguments.tokens)
        answer["ratio"] = macs / other
    print(json.dumps(answer) if arguments.json else _as_table(answer))
    return 0


def _as_table(answer: dict[str, int | float]) -> str:
    def shown(value: int | float) -> str:
        return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"

    return "\n".join(f"{key:<14}{shown(value):>26}" for key, value in answer.items())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ridgefill", description="Late-layer cache fill: costs and checks.")
    parser.add_argument("--version", action="version", version=f"ridgefill {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _macs_parser(commands)
    _recompute_parser(commands)
    fit.add(commands)
    generate.add(commands)
    maps.add(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit code, 0 for success."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        if words[:1] == ["recompute"]:
            from ridgefill.recompute import main as recompute

            return int(recompute(words[1:]))
        arguments = _parser().parse_args(words)
        return int(arguments.run(arguments))
    except RidgeFillError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in {"", "ridgefill", "ledger"}:
            raise
        print(
            f"error: the Python package {package} is not installed, which `ridgefill {words[0]}` needs; in the "
            "checkout, type: pip install '.[pipeline]'",
            file=sys.stderr,
        )
        return RidgeFillError.exit_code


if __name__ == "__main__":
    sys.exit(main())
