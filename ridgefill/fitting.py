"""Maps for a model in one call: capture, factorise, choose ``lam``, solve. The workflow's jobs run the same pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ridgefill.capture import capture, cut
from ridgefill.errors import ConfigError, NumericsError, TextError
from ridgefill.lam import CosineRow, choose_lam, choose_lams, lam_curve, mean_write_cosine
from ridgefill.map_options import PLAIN, LamFor, RidgeOptions, Towards
from ridgefill.models.base import Adapter
from ridgefill.models.wrap import adapter_for
from ridgefill.pretrained import RidgeFillMaps
from ridgefill.progress import progress as progress_bar
from ridgefill.ridge import factorise
from ridgefill.ridge_options import solve_by_layer

LAM_GRID = (0.00001, 0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""What ``lam`` is chosen from unless told otherwise: the paper's range, and below it, as one massive channel can carry
most of the trace that ``lam`` scales with (the embedded model picks 0.001 and 0.0001)."""

SILENT_SECONDS = 5.0
"""Work that ends before this shows no progress bar."""

Progress = Callable[[str, int, int], None]
"""Called with the stage (``capture``, ``lam``), tokens done in it so far, and tokens in all."""

Document = Tensor | Sequence[int]


def fit_maps(
    model: Any,
    documents: Iterable[Document],
    *,
    split: int,
    lam: float | None = 0.03,
    heldout: Iterable[Document] = (),
    lam_grid: Sequence[float] | None = None,
    towards: Towards = "zero",
    rank: int | None = None,
    lam_for: LamFor = "split",
    chunk: int = 2048,
    stride: int = 1,
    progress: Progress | None = None,
) -> RidgeFillMaps:
    """Fit the maps of every layer from ``split`` on, on token ids of calibration text; nothing is trained.

    model: a transformers causal language model of a supported family; it is left in evaluation mode. documents:
    int64 ``[1, n]`` or ``[n]`` each, more tokens than the model is wide; cut into pieces of ``chunk`` tokens, every
    ``stride``-th row kept; a model's opening mark (BOS) that begins a document begins every piece of it. lam:
    scale-free penalty; with ``lam=None`` or a ``lam_grid`` it is chosen on ``heldout`` documents by the mean cosine
    of what layers write to the cache, one for the whole ``split`` or one for each ``layer`` (``lam_for``). towards:
    the penalty pulls maps to ``zero`` or to the ``identity``. rank: fit maps of this rank (of this rank away from
    the identity, with that). progress: see ``Progress``; without it, a bar on standard error for work of more than
    a few seconds.

    ``fit`` of the result says how it was fitted; with ``heldout`` also the mean write cosine. Raises ``ConfigError``
    for settings the model does not allow, ``TextError`` for unusable documents, ``NumericsError`` for a fit without
    a unique answer.
    """
    trained = [parameter for parameter in getattr(model, "parameters", list)() if parameter.requires_grad]
    adapter = adapter_for(model)
    for parameter in trained:  # an adapter freezes its model; this one is the caller's
        parameter.requires_grad_(True)
    options = RidgeOptions(towards, rank, lam_for)
    heldout = list(heldout)
    grid = _grid(lam, lam_grid, lam_for, bool(heldout))
    adapter.require_split(split)
    options.require(adapter.width, adapter.hidden)
    if chunk < 1 or stride < 1:
        raise ConfigError(f"chunk is {chunk} and stride {stride}; expected at least 1 of each")
    pieces = _pieces(documents, chunk, model, "document")
    tests = _pieces(heldout, chunk, model, "held-out document") if heldout else []
    _require_rows(pieces, adapter, stride)
    _require_apart(pieces, tests)
    moments = capture(adapter, _fed(pieces, "capture", progress), [split], stride=stride)
    factors = factorise(moments, split)
    tested = _fed(tests, "lam", progress)
    curve = lam_curve(adapter, {split: factors}, grid, tested, options) if tests else []
    chosen = choose_lam(curve, split, grid)
    lams = choose_lams(curve, split, grid, adapter.layers, lam_for)
    maps = solve_by_layer(factors, lams, options)
    fit = {"model": _name(model), "chunk": chunk, "stride": stride, **factors.record(chosen)}
    fit |= _described(options, curve, lams, chosen)
    # One place and type whatever the model's, so that what is saved does not depend on where it was fitted.
    return RidgeFillMaps(maps.to(torch.float32, torch.device("cpu")), adapter.fingerprint, fit)


def _name(model: Any) -> str:
    """What the model was loaded by; of a folder only its own name, as maps are given away."""
    name = str(getattr(model.config, "_name_or_path", ""))
    return Path(name).resolve().name if Path(name).is_dir() else name


def _grid(lam: float | None, lam_grid: Sequence[float] | None, lam_for: LamFor, heldout: bool) -> tuple[float, ...]:
    """The values of ``lam`` to try: one when it is given, else the grid, which needs held-out text."""
    chooses = lam is None or lam_grid is not None
    grid = tuple(sorted(lam_grid if lam_grid is not None else LAM_GRID)) if chooses else (float(lam or 0.0),)
    if not grid or not all(0.0 <= one < float("inf") for one in grid):
        raise ConfigError(f"lam is {', '.join(map(str, grid)) or 'empty'}; expected numbers of at least 0")
    if chooses and not heldout:
        raise ConfigError("choosing lam needs held-out documents and none were given; give heldout, or one lam")
    if lam_for == "layer" and len(grid) < 2:
        raise ConfigError(
            "a lam for each layer is chosen from a grid, and one lam was given; give lam_grid, or lam=None"
        )
    return grid


def _pieces(documents: Iterable[Document], chunk: int, model: Any, what: str) -> list[list[int]]:
    """All pieces of all documents, every document checked. Raises ``TextError`` that numbers the document from 0."""
    vocabulary = int(model.get_input_embeddings().num_embeddings)
    mark = getattr(model.config.get_text_config(), "bos_token_id", None)
    found: list[list[int]] = []
    for number, document in enumerate(documents):
        ids = document if isinstance(document, Tensor) else torch.tensor(document)
        if ids.ndim not in (1, 2) or (ids.ndim == 2 and len(ids) != 1):
            raise TextError(f"{what} {number} has shape {list(ids.shape)}; expected token ids [1, n] or [n]")
        if ids.numel() == 0:
            raise TextError(f"{what} {number} is empty; expected at least one token. Leave it out")
        if ids.is_floating_point() or int(ids.min()) < 0 or int(ids.max()) >= vocabulary:
            raise TextError(
                f"{what} {number} holds {ids.min().item()} to {ids.max().item()} ({ids.dtype}); expected token ids 0 "
                f"to {vocabulary - 1}, from the model's own tokenizer"
            )
        found += _opened(ids.reshape(-1).tolist(), chunk, mark)
    if not found:
        raise TextError(f"no {what} was given; expected at least one")
    return found


def _opened(ids: list[int], chunk: int, mark: int | None) -> list[list[int]]:
    """Pieces of one document; the mark it begins with, if it does, begins every piece, as the model knows text."""
    opening = ids[:1] if len(ids) > 1 and chunk > 1 and ids[0] == mark else []
    return [[*opening, *piece] for piece in cut(ids[len(opening) :], chunk - len(opening))]


def _require_rows(pieces: Sequence[Sequence[int]], adapter: Adapter, stride: int) -> None:
    rows = sum(-(-len(piece) // stride) for piece in pieces)
    if rows <= adapter.width:
        raise NumericsError(
            f"the documents give {rows} rows for maps of width {adapter.width}; a unique fit needs more rows than "
            "columns. Give more text, ten times the width or more, or a smaller stride"
        )


def _require_apart(pieces: Sequence[Sequence[int]], tests: Sequence[Sequence[int]]) -> None:
    fitted = {tuple(piece) for piece in pieces}
    if any(tuple(piece) in fitted for piece in tests):
        raise TextError(
            "a held-out document is also fitted on, so that lam would be chosen on it; leave one of them out"
        )


def _described(
    options: RidgeOptions, curve: Sequence[CosineRow], lams: Mapping[int, float], chosen: float
) -> dict[str, Any]:
    """Fit metadata beyond the plain record; a plain fit with no held-out text adds nothing."""
    said: dict[str, Any] = {}
    if options != PLAIN:
        said |= {"towards": options.towards, "rank": options.rank}
    if set(lams.values()) != {chosen}:
        said["lam_by_layer"] = {str(layer): lam for layer, lam in lams.items()}
    if curve:
        split, layers = curve[0].split, sorted({row.layer for row in curve})
        said["heldout_rows"] = curve[0].rows
        said["write_cosine"] = sum(mean_write_cosine(curve, split, lams[layer], layer) for layer in layers) / len(
            layers
        )
    return said


def _fed(pieces: Sequence[list[int]], stage: str, listener: Progress | None) -> Iterator[list[int]]:
    """The pieces, with progress told after each: on a bar of our own unless somebody listens."""
    done, total = 0, sum(map(len, pieces))
    delay = SILENT_SECONDS if listener is None else float("inf")
    with progress_bar(total, stage, "tokens", delay=delay) as bar:
        for piece in pieces:
            yield piece
            done += len(piece)
            bar.update(len(piece))
            if listener is not None:
                listener(stage, done, total)
