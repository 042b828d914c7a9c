"""``ridgefill tune``: the setting for a new model under a budget of work, and whether held-out data bear it out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ridgefill.commands.fit import read_texts
from ridgefill.commands.macs import config_root
from ridgefill.errors import ConfigError

if TYPE_CHECKING:
    from ridgefill.tuning.material import Material
    from ridgefill.tuning.settings import Settings


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the parser."""
    about = "choose split, tail, exact rows and maps for a model under a budget of work, and test the choice"
    parser = commands.add_parser("tune", help=about, description=about)
    parser.add_argument("--model", required=True, help="folder or hub repository of a causal language model")
    budget = parser.add_mutually_exclusive_group(required=True)
    budget.add_argument("--budget", type=float, metavar="X", help="most work, as a share of exact prefill's products")
    budget.add_argument("--speedup", type=float, metavar="X", help="the same as a speedup: work of 1/X")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for results; also to carry on")
    parser.add_argument("--length", type=int, default=1024, metavar="N", help="prompt tokens (default: 1024)")
    parser.add_argument("--samples", type=int, default=24, metavar="N", help="development samples (default: 24)")
    parser.add_argument("--confirm", type=int, default=120, metavar="N", help="held-out samples (default: 120)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of samples and resamples (default: 0)")
    parser.add_argument("--texts", type=Path, metavar="DIR", help="folder of *.txt and *.md (default: pinned texts)")
    parser.add_argument("--maps", nargs="+", default=(), metavar="DIR", help="maps fitted before, instead of fitting")
    parser.add_argument("--splits", metavar="A,B,...", help="splits to try (default: six from 3/8 to 3/4 of the depth)")
    parser.add_argument("--tails", metavar="A,B,...", help="tails to try (default: 1/16, 1/8, 1/4 of the prompt)")
    parser.add_argument("--tokens", type=int, default=32768, metavar="N", help="tokens to fit on (default: 32768)")
    parser.add_argument("--threads", type=int, metavar="N", help="processor threads (default: torch's own choice)")
    parser.add_argument(
        "--device", default="cpu", help="of the model: cpu (default), cuda, or cuda:0,cuda:1 to spread it"
    )
    parser.add_argument(
        "--dtype", choices=["auto", "float32", "bfloat16"], default="auto", help="of the model (default: as stored)"
    )
    parser.set_defaults(run=_tune)


def _tune(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    material = _material(arguments, settings)
    import torch

    from ridgefill.models.load import load_any
    from ridgefill.tuning.report import said
    from ridgefill.tuning.run import tune

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    loaded = load_any(arguments.model, arguments.dtype, arguments.device)
    print(said(tune(settings, material, loaded, arguments.out)))
    return 0


def _settings(arguments: argparse.Namespace) -> Settings:
    """The options as values. Raises ``ConfigError`` for numbers that cannot be."""
    budget = arguments.budget
    if arguments.speedup is not None:
        if not arguments.speedup > 1.0:
            raise ConfigError(f"--speedup is {arguments.speedup:g}; expected more than 1")
        budget = 1.0 / arguments.speedup
    if not 0.0 < budget < 1.0:
        raise ConfigError(f"--budget is {budget:g}; expected a share above 0 and below 1, such as 0.7")
    for name, least in (("length", 256), ("samples", 4), ("confirm", 4), ("tokens", 1), ("threads", 1), ("seed", 0)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            raise ConfigError(f"--{name} is {value}; expected at least {least}")
    splits, tails = (_numbers(getattr(arguments, name), name) for name in ("splits", "tails"))
    from ridgefill.tuning.settings import Settings

    return Settings(
        arguments.model, arguments.length, budget, arguments.samples, arguments.confirm, arguments.seed,
        arguments.tokens, tuple(arguments.maps), splits, tails,
    )  # fmt: skip


def _material(arguments: argparse.Namespace, settings: Settings) -> Material:
    from ridgefill.tuning.material import own_material
    from ridgefill.tuning.pinned import CHARS_PER_TOKEN, pinned_material

    if arguments.texts is not None:
        chars = CHARS_PER_TOKEN * settings.document_tokens
        return own_material(read_texts(arguments.texts), chars, settings.seed)
    root = config_root(None)
    return pinned_material(root, _cache(root), settings.document_tokens, settings.seed)


def _cache(root: Path) -> Path:
    """Where the workflow unpacks text sources, as its configuration says."""
    from ridgefill.commands.suites import kept_folders

    return kept_folders(root)["texts"]


def _numbers(written: str | None, name: str) -> tuple[int, ...]:
    if written is None:
        return ()
    try:
        return tuple(int(one) for one in written.split(","))
    except ValueError:
        raise ConfigError(f"--{name} is {written!r}; expected whole numbers such as 15,19,22") from None
