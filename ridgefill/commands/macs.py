"""``ridgefill macs``: the multiply-accumulates of a filled prefill beside exact prefill, and where each goes."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ridgefill.cost import Geometry, Part

RANKING_ROWS = 64
"""Last rows of the prompt whose attention ranks the prefix (paper section 2.4)."""
SELECTION = "choosing exact rows"
CORRECTIONS = "corrections"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the parser."""
    about = "count the multiply-accumulates of a filled prefill beside exact prefill"
    parser = commands.add_parser("macs", help=about, description=about)
    parser.add_argument("--model", required=True, help="a model of workflow/config/models")
    parser.add_argument("--split", type=int, required=True, help="first late layer, counted from 0")
    parser.add_argument("--tail", type=int, required=True, help="tokens at the end that run every layer")
    parser.add_argument("--tokens", type=int, required=True, help="prompt tokens")
    parser.add_argument("--fill", choices=["ridge", "identity", "none", "kva", "swiftkv"], default="ridge")
    parser.add_argument(
        "--split-layer",
        choices=["mapped", "exact"],
        default="mapped",
        help="whether the split layer has a map too, as the published map files do (default: mapped)",
    )
    parser.add_argument("--rank", type=int, help="rank of low-rank maps (default: full)")
    _add_spent(parser)
    parser.add_argument("--against", choices=["pop", "exact"], help="also give the ratio to this arm")
    parser.add_argument("--explain", action="store_true", help="show where every multiply-accumulate goes")
    parser.add_argument("--root", type=Path, help="folder that holds workflow/config (default: here)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=_macs)


def _add_spent(parser: argparse.ArgumentParser) -> None:
    """Options for what an arm may spend beside filling."""
    parser.add_argument("--rows", type=int, default=0, help="exact prefix rows, spread evenly (default: 0)")
    parser.add_argument("--selection", choices=["attention", "probe"], help="how exact rows are chosen (default: free)")
    parser.add_argument("--sweeps", type=int, choices=[1, 2], help="passes that fill (default: 2 with a probe, else 1)")
    parser.add_argument("--rescale-rows", type=int, default=0, help="tail rows that a rescale is measured on")
    parser.add_argument("--state-correction", action="store_true", help="correct the states of recurrent layers")


def config_root(given: Path | None) -> Path:
    """The folder given, else this one, else the checkout the package was installed from."""
    from ridgefill.config import MODEL_DIR

    if given is not None:
        return given
    checkout = Path(__file__).resolve().parents[2]
    return next((root for root in (Path(), checkout) if (root / MODEL_DIR).is_dir()), Path())


def _macs(arguments: argparse.Namespace) -> int:
    from ridgefill import cost
    from ridgefill.config import cost_geometry, load_model

    g = cost_geometry(load_model(arguments.model, config_root(arguments.root)))
    parts = _parts(arguments, g)
    macs = sum(part.macs for part in parts)
    exact = cost.exact_macs(g, arguments.tokens)
    layers = cost.layer_share(g.layers, arguments.split, arguments.tail, arguments.tokens)
    answer: dict[str, Any] = {
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
    if arguments.json:
        listed = [{"where": part.where, "what": part.what, "macs": part.macs} for part in parts]
        print(json.dumps({**answer, "parts": listed} if arguments.explain else answer))
        return 0
    if arguments.explain:
        print(_explained(parts), end="\n\n")
    print(_as_table(answer))
    return 0


def _parts(arguments: argparse.Namespace, g: Geometry) -> tuple[Part, ...]:
    """Everything that the prefill multiplies, selection and corrections last."""
    from ridgefill import cost

    sweeps = _sweeps(arguments)
    prefix = max(0, arguments.tokens - arguments.tail)
    mapped = arguments.split_layer == "mapped"
    filled = cost.fill_parts(
        g,
        tokens=arguments.tokens,
        split=arguments.split,
        tail=arguments.tail,
        fill=arguments.fill,
        exact_rows=_spread(arguments.rows, prefix),
        mapped_split_layer=mapped,
        rank=arguments.rank,
        swept=sweeps == 2,
    )
    corrected = [
        cost.correction_macs(
            g,
            split=arguments.split,
            prefix=prefix,
            tail=arguments.tokens - prefix,
            fill=arguments.fill,
            mapped_split_layer=mapped,
            rank=arguments.rank,
            **words,
        )
        for words in ({"rescale_rows": arguments.rescale_rows}, {"state_correction": arguments.state_correction})
    ]
    _require_corrected(arguments, prefix, *corrected)
    spent = [
        *_selection(arguments, g, prefix),
        *(cost.Part(CORRECTIONS, what, macs) for what, macs in zip(("rescale", "states"), corrected, strict=True)),
    ]
    return (*filled, *(part for part in spent if part.macs))


def _selection(arguments: argparse.Namespace, g: Geometry, prefix: int) -> list[Part]:
    """Ranking by attention below the split, of which a probe's budget counts some rows, and the probe itself."""
    from ridgefill import cost
    from ridgefill.errors import ConfigError

    if arguments.selection is None or not prefix:
        return []
    layers = cost.ranking_layers(g, arguments.split)
    if not layers:
        raise ConfigError(
            f"no layer below split {arguments.split} of {arguments.model} ranks rows by attention; expected a deeper "
            "split, or rows that are chosen in another way"
        )
    first = max(0, arguments.tokens - RANKING_ROWS)
    ranking = cost.ranking_macs(g, first=first, end=arguments.tokens, layers=layers)
    parts = [cost.Part(SELECTION, "attention below the split", ranking)]
    if arguments.selection == "probe":
        probe = cost.probe_macs(g, tokens=arguments.tokens, prefix=prefix, split=arguments.split)
        parts.append(cost.Part(SELECTION, "probe", probe))
    return parts


def _sweeps(arguments: argparse.Namespace) -> int:
    """Passes that fill. Raises ``ConfigError`` for what no arm can be."""
    from ridgefill.errors import ConfigError

    probes = arguments.selection == "probe"
    if probes and arguments.sweeps == 1:
        raise ConfigError("a probe reads rows that a first sweep has filled; expected --sweeps 2, or no probe")
    sweeps = arguments.sweeps or (2 if probes else 1)
    if arguments.fill == "none" and (arguments.rows or arguments.selection or sweeps == 2):
        raise ConfigError(
            "--fill none fills no row, so it has no exact prefix rows, selection or second sweep; expected a fill"
        )
    return sweeps


def _spread(count: int, prefix: int) -> list[int]:
    """``count`` of ``prefix`` positions; ConfigError for more of them than there are."""
    from ridgefill.cost import spread_rows
    from ridgefill.errors import ConfigError

    if not 0 <= count <= prefix:
        raise ConfigError(f"--rows is {count}; expected 0 to the {prefix} rows before the tail")
    return spread_rows(count, prefix)


def _require_corrected(arguments: argparse.Namespace, prefix: int, rescale: int, states: int) -> None:
    from ridgefill.errors import ConfigError

    for asked, macs, kind in (
        (arguments.rescale_rows, rescale, "attention"),
        (arguments.state_correction, states, "recurrent"),
    ):
        if asked and prefix and not macs:
            raise ConfigError(
                f"no {kind} layer from split {arguments.split} on has predicted inputs to correct; expected a lower "
                "split, or no such correction"
            )


def _explained(parts: tuple[Part, ...]) -> str:
    """One line a part under the place it belongs to, each with its share of them all."""
    total = sum(part.macs for part in parts)
    lines: list[str] = []
    place = ""
    for part in parts:
        if part.where != place:
            place = part.where
            lines.append(place)
        lines.append(f"  {part.what:<26}{part.macs:>26,}{part.macs / total:>9.2%}")
    return "\n".join([*lines, f"{'total':<28}{total:>26,}{1:>9.2%}"])


def _as_table(answer: dict[str, int | float]) -> str:
    def shown(value: int | float) -> str:
        return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"

    return "\n".join(f"{key:<14}{shown(value):>26}" for key, value in answer.items())
