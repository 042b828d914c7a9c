"""``ridgefill fit``: maps for a model from a folder of texts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgefill.errors import ConfigError, TextError

if TYPE_CHECKING:
    from ridgefill.pretrained import RidgeFillMaps

SUFFIXES = (".md", ".txt")
Texts = list[tuple[str, list[int]]]


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the parser."""
    about = "fit maps for a model on a folder of texts; nothing is trained, and no GPU is needed"
    parser = commands.add_parser("fit", help=about, description=about)
    parser.add_argument("--model", required=True, help="folder or hub repository of a causal language model")
    parser.add_argument("--split", type=int, required=True, help="first late layer, counted from 0")
    parser.add_argument("--texts", type=Path, required=True, metavar="DIR", help="folder of *.txt and *.md files")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the maps; must not exist")
    penalty = parser.add_mutually_exclusive_group()
    penalty.add_argument("--lam", type=float, default=0.03, help="penalty, scale free (default: 0.03)")
    penalty.add_argument(
        "--lam-grid", metavar="A,B,...", help="choose the penalty on held-out text; 'default' for 0.00001 to 1"
    )
    parser.add_argument("--per-layer", action="store_true", help="choose a penalty of the grid for every layer")
    parser.add_argument("--towards", choices=["zero", "identity"], default="zero", help="what the penalty pulls to")
    parser.add_argument("--rank", type=int, metavar="K", help="maps of rank K (default: full)")
    parser.add_argument("--tokens", type=int, metavar="N", help="tokens to fit on, dealt over the files (default: all)")
    parser.add_argument(
        "--heldout-share",
        type=float,
        default=0.1,
        metavar="X",
        help="share of the files kept for testing (default: 0.1)",
    )
    parser.add_argument("--chunk", type=int, default=2048, metavar="N", help="tokens run at once (default: 2048)")
    parser.add_argument("--threads", type=int, metavar="N", help="processor threads (default: torch's own choice)")
    parser.add_argument(
        "--device", default="cpu", help="of the model: cpu (default), cuda, or cuda:0,cuda:1 to spread it"
    )
    parser.add_argument(
        "--dtype", choices=["auto", "float32", "bfloat16"], default="auto", help="of the model (default: as stored)"
    )
    parser.add_argument("--encoding", choices=["bf16", "int8"], default="bf16", help="of the maps (default: bf16)")
    parser.set_defaults(run=_fit)


def _fit(arguments: argparse.Namespace) -> int:
    # Refused before minutes of work, not after them.
    if arguments.out.exists():
        raise ConfigError(f"{arguments.out} exists already; give a new folder, or delete it first")
    grid = _grid(arguments.lam_grid)
    documents = read_texts(arguments.texts)
    fitted, heldout = share_out(documents, arguments.heldout_share)
    from dataclasses import replace

    import torch

    from ridgefill.evaluation.prompts import opening
    from ridgefill.fitting import fit_maps
    from ridgefill.mapfiles.int8 import GROUP
    from ridgefill.models.load import load_any

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    loaded = load_any(arguments.model, arguments.dtype, arguments.device)
    loaded.adapter.require_split(arguments.split)
    if arguments.encoding == "int8" and loaded.adapter.width % GROUP:
        raise ConfigError(f"the model is {loaded.adapter.width} wide, no multiple of {GROUP}; use --encoding bf16")
    texts, tests = (_tokenised(part, loaded.tokenizer) for part in (fitted, heldout))
    mark = opening(loaded.tokenizer)
    maps = fit_maps(
        loaded.network,
        _dealt(texts, arguments.chunk, arguments.tokens, mark),
        split=arguments.split,
        lam=None if arguments.lam_grid else arguments.lam,
        heldout=_dealt(tests, arguments.chunk, _test_tokens(arguments), mark, at_most=True),
        lam_grid=grid,
        towards=arguments.towards,
        rank=arguments.rank,
        lam_for="layer" if arguments.per_layer else "split",
        chunk=arguments.chunk,
    )
    fit = {**maps.fit, "files": len(fitted), "heldout_files": len(heldout)}
    maps = replace(maps, architecture=loaded.architecture, fit=fit)
    maps.save_pretrained(arguments.out, encoding=arguments.encoding)
    print(_said(maps, arguments))
    return 0


def read_texts(folder: Path) -> list[tuple[str, str]]:
    """Names and contents of the texts below ``folder``, by name. Raises ``TextError`` when there are none, or one is
    not UTF-8 or a copy of another."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    if not paths:
        raise TextError(f"{folder} holds no {' or '.join(f'*{end}' for end in SUFFIXES)} files; give a folder of texts")
    found: dict[str, str] = {}
    for path in paths:
        name = str(path.relative_to(folder))
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise TextError(f"{path} is not UTF-8 text ({error.reason}); convert it or take it out") from error
        except OSError as error:
            raise TextError(
                f"{path} could not be read ({error.strerror}); fix its permissions or take it out"
            ) from error
        if text in found:
            raise TextError(f"{name} and {found[text]} in {folder} hold the same text; take one of them out")
        found[text] = name
    return [(name, text) for text, name in found.items()]


def share_out(
    documents: Sequence[tuple[str, str]], share: float
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Documents to fit on and documents to test on: every so many of them by name is held out, at least one unless
    ``share`` is 0 or there is only one. Raises ``ConfigError`` for a share outside 0 to below 1."""
    if not 0.0 <= share < 1.0:
        raise ConfigError(f"the held-out share is {share}; expected at least 0 and less than 1")
    count = min(len(documents) - 1, max(1, round(share * len(documents)))) if share else 0
    # Spread over the names, so that a folder sorted by subject does not lose its last subject.
    chosen = {(2 * number + 1) * len(documents) // (2 * count) for number in range(count)}
    kept = [document for number, document in enumerate(documents) if number not in chosen]
    return kept, [documents[number] for number in sorted(chosen)]


def _grid(written: str | None) -> tuple[float, ...] | None:
    if written in (None, "default"):
        return None
    try:
        return tuple(float(number) for number in str(written).split(","))
    except ValueError:
        raise ConfigError(f"the grid of penalties is {written!r}; expected numbers such as 0.01,0.03,0.1") from None


def _test_tokens(arguments: argparse.Namespace) -> int | None:
    """Tokens to test on, None for all there are: as many for each one fitted on as the share says."""
    if arguments.tokens is None:
        return None
    share = arguments.heldout_share
    return max(arguments.chunk, round(arguments.tokens * share / (1.0 - share)))


def _tokenised(texts: Sequence[tuple[str, str]], tokenizer: Any) -> Texts:
    return [(name, tokenizer(text, add_special_tokens=False)["input_ids"]) for name, text in texts]


def _dealt(
    texts: Texts, chunk: int, tokens: int | None, opening: Sequence[int], *, at_most: bool = False
) -> list[list[int]]:
    """Pieces dealt over the texts, each after the model's opening mark, ``tokens`` in all, None for all there are.

    Raises ``TextError`` when there are fewer, unless that is enough.
    """
    from ridgefill.capture import cut, pieces

    if chunk <= len(opening) or (tokens is not None and tokens < 1):
        raise ConfigError(f"chunk is {chunk} and tokens {tokens}; expected at least {1 + len(opening)} and 1")
    usable = sum(len(opening) + len(piece) for _, ids in texts for piece in cut(ids, chunk - len(opening)))
    wanted = usable if tokens is None else min(tokens, usable) if at_most else tokens
    return list(pieces(texts, chunk, wanted, opening))


def _said(maps: RidgeFillMaps, arguments: argparse.Namespace) -> str:
    """What was fitted, how well it writes, and what to type next."""
    fit = maps.fit
    late = len(maps.maps.biases)
    lams = fit.get("lam_by_layer")
    lam = f"{fit['lam']:g}" if lams is None else ", ".join(f"{value:g} at {layer}" for layer, value in lams.items())
    lines = [
        ("fitted", f"{late} layers from {maps.split} on, {fit['rows']:,} rows of {_files(fit['files'])}"),
        ("lam", f"{lam}; condition number {fit['condition']:.3g}"),
    ]
    if "write_cosine" in fit:
        where = f"{fit['heldout_rows']:,} held-out rows of {_files(fit['heldout_files'])}"
        lines.append(
            ("cosine", f"{fit['write_cosine']:.4f} between what layers write from the maps and exactly, {where}")
        )
    lines.append(("maps", f"{arguments.out} ({arguments.encoding})"))
    words = f"ridgefill generate --model {arguments.model} --maps {arguments.out} --prompt-file prompt.txt --compare"
    lines.append(("next", words))
    return "\n".join(f"{name:<8}{value}" for name, value in lines)


def _files(count: int) -> str:
    return f"{count} file" if count == 1 else f"{count} files"
