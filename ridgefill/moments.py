"""Streamed first and second moments of block inputs: activations are reduced chunk by chunk and never stored.

Each chunk is centred on its own mean before its products are formed in fp32, and what chunks add up to is kept in
fp64. On data with massive channels this keeps six digits where subtracting the mean afterwards loses the first
(METHOD section 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ridgefill.errors import ResultsError, TextError
from ridgefill.files import replacing
from ridgefill.moment_sums import Columns, MomentSums

Chunk = tuple[Mapping[int, Tensor], Mapping[int, Tensor] | None]
"""Block inputs by layer, and split states by split where those are not block inputs."""


@dataclass(frozen=True)
class Moments:
    """Moments of the split states and of every late layer's block input.

    splits: split layers. rows: calibration rows seen. mean[l]: fp64 ``[hidden]``, block input of every layer
    involved. scatter[l]: fp64 scalar, its summed squared deviation. gram[S]: fp64 ``[width, width]``, centred
    Gram matrix of the split state. cross[S]: fp64 ``[width, n * hidden]``, centred cross-moments of the split
    state with the block inputs of ``targets(S)`` side by side. state_mean[S]: fp64 ``[width]``, of the split state
    where that is not the split layer's block input (hyper-connections), else empty: ``mean[S]`` is both then.
    """

    layers: int
    splits: tuple[int, ...]
    rows: int
    mean: Mapping[int, Tensor]
    scatter: Mapping[int, Tensor]
    gram: Mapping[int, Tensor]
    cross: Mapping[int, Tensor]
    state_mean: Mapping[int, Tensor] = field(default_factory=dict)

    def targets(self, split: int) -> range:
        """Layers predicted from ``split`` that need cross-moments; the split layer too where its block input is
        not the split state."""
        return range(split if self.state_mean else split + 1, self.layers)

    def mean_state(self, split: int) -> Tensor:
        """Mean of the split state, fp64 ``[width]``."""
        return self.state_mean[split] if self.state_mean else self.mean[split]


def chunk_moments(
    inputs: Mapping[int, Tensor], splits: Sequence[int], layers: int, states: Mapping[int, Tensor] | None = None
) -> Moments:
    """Moments of one chunk.

    inputs: ``[rows, hidden]`` in any float type, for every layer from the first split. states: ``[rows,
    width]`` by split, where the split state is not the split layer's block input. Raises ``NumericsError`` when an
    input holds a NaN or infinity.
    """
    return stream_moments([(inputs, states)], splits, layers)


def stream_moments(chunks: Iterable[Chunk], splits: Sequence[int], layers: int) -> Moments:
    """Moments of all chunks together: what ``chunk_moments`` of each, merged, gives, with far less memory traffic.

    chunks: inputs and states as ``chunk_moments`` takes them, one chunk at a time; none is kept. Raises
    ``NumericsError`` for values that are not finite and ``TextError`` for no chunk at all.
    """
    splits = tuple(sorted(splits))
    sums = None
    for inputs, states in chunks:
        stated = [] if states is None else [states[split] for split in splits]
        values = stated + [inputs[layer] for layer in range(splits[0], layers)]
        if sums is None:
            labels = [*splits[: len(stated)], *range(splits[0], layers)]
            widths = [x.shape[1] for x in values]
            products = _products(splits, widths, len(stated))
            sums = MomentSums(labels, widths, len(stated), products, values[0].device)
        sums.add(values)
    if sums is None:
        raise TextError("the capture was given no text; expected at least one piece")
    sums.finish()
    return _finished(sums, splits, layers)


def _products(splits: Sequence[int], widths: Sequence[int], stated: int) -> list[Columns]:
    """Columns of every split's Gram matrix, then of every split's cross-moments. stated: states before the inputs."""
    ends = [0, *accumulate(widths)]
    places = [place if stated else split - splits[0] for place, split in enumerate(splits)]
    states = [slice(ends[place], ends[place + 1]) for place in places]
    # Where the state is the split layer's input, the Gram matrix is that layer's cross-moment.
    firsts = [stated + split - splits[0] + (not stated) for split in splits]
    later = [slice(ends[first], ends[-1]) for first in firsts]
    return [*zip(states, states, strict=True), *zip(states, later, strict=True)]


def _finished(sums: MomentSums, splits: tuple[int, ...], layers: int) -> Moments:
    stated = len(sums.blocks) - (layers - splits[0])
    means = [sums.mean[block] for block in sums.blocks]
    late = range(splits[0], layers)
    return Moments(
        layers,
        splits,
        sums.rows,
        dict(zip(late, means[stated:], strict=True)),
        dict(zip(late, sums.scatter, strict=True)),
        dict(zip(splits, sums.totals[: len(splits)], strict=True)),
        dict(zip(splits, sums.totals[len(splits) :], strict=True)),
        dict(zip(splits, means[:stated], strict=False)),
    )


def merge(a: Moments, b: Moments) -> Moments:
    """Moments of both sets of rows together (pairwise update of Chan, Golub and LeVeque 1983)."""
    if (a.layers, a.splits, a.state_mean.keys()) != (b.layers, b.splits, b.state_mean.keys()):
        raise ResultsError(
            f"moments of splits {a.splits} and {b.splits} cannot be merged; capture both with one configuration"
        )
    rows = a.rows + b.rows
    weight = a.rows * b.rows / rows
    shift = {layer: b.mean[layer] - a.mean[layer] for layer in a.mean}
    mean = {layer: a.mean[layer] + shift[layer] * (b.rows / rows) for layer in a.mean}
    moved = {split: b.mean_state(split) - a.mean_state(split) for split in a.splits}
    state_mean = {split: old + moved[split] * (b.rows / rows) for split, old in a.state_mean.items()}
    scatter = {layer: a.scatter[layer] + b.scatter[layer] + weight * shift[layer].square().sum() for layer in a.mean}
    gram, cross = {}, {}
    for split in a.splits:
        later = torch.cat([shift[layer] for layer in a.targets(split)] or [shift[split][:0]])
        gram[split] = a.gram[split] + b.gram[split] + weight * torch.outer(moved[split], moved[split])
        cross[split] = a.cross[split] + b.cross[split] + weight * torch.outer(moved[split], later)
    return Moments(a.layers, a.splits, rows, mean, scatter, gram, cross, state_mean)


def save_moments(
    path: Path, moments: Moments, metadata: Mapping[str, str], shorter: Mapping[int, Moments] | None = None
) -> None:
    """Write moments to one safetensors file, atomically. shorter: by number of tokens, those of the first ones alone,
    of the same splits; their tensors' names begin with ``tokens<n>.``."""
    shorter = shorter or {}
    tensors = _tensors(moments)
    for tokens, one in shorter.items():
        tensors |= {f"tokens{tokens}.{name}": value for name, value in _tensors(one).items()}
    header = {
        "layers": str(moments.layers),
        "splits": ",".join(map(str, moments.splits)),
        "rows": str(moments.rows),
        **{f"tokens{tokens}.rows": str(one.rows) for tokens, one in shorter.items()},
        **metadata,
    }
    with replacing(path) as temporary:
        try:
            save_file({name: value.contiguous() for name, value in tensors.items()}, temporary, metadata=header)
        except SafetensorError as error:  # its own type, also when the disk is full
            raise OSError(str(error)) from error


def _tensors(moments: Moments) -> dict[str, Tensor]:
    tensors = {f"mean.{layer}": value for layer, value in moments.mean.items()}
    tensors |= {f"scatter.{layer}": value.reshape(1) for layer, value in moments.scatter.items()}
    tensors |= {f"gram.{split}": value for split, value in moments.gram.items()}
    tensors |= {f"cross.{split}": value for split, value in moments.cross.items()}
    tensors |= {f"state_mean.{split}": value for split, value in moments.state_mean.items()}
    return tensors


def load_moments(path: Path, tokens: int | None = None) -> Moments:
    """Read what ``save_moments`` wrote; those of the first ``tokens`` where given. Raises ``ResultsError`` when the
    file is missing or damaged, or does not hold them."""
    prefix = "" if tokens is None else f"tokens{tokens}."
    try:
        with safe_open(path, framework="pt") as stored:
            header = stored.metadata()
            names = [name for name in stored.keys() if prefix or not name.startswith("tokens")]  # noqa: SIM118
            tensors = {name: stored.get_tensor(name) for name in names if name.startswith(prefix)}
    except (OSError, ValueError, RuntimeError) as error:
        raise ResultsError(f"{path} is not a readable moments file ({error}); delete it and capture again") from error
    except SafetensorError as error:
        raise ResultsError(f"{path} is damaged ({error}); delete it and capture again") from error
    if not header or not {"layers", "splits", "rows"} <= header.keys():
        raise ResultsError(f"{path} is no moments file: it lacks the header that a capture writes; capture again")
    if f"{prefix}rows" not in header:
        raise ResultsError(f"{path} holds no moments of the first {tokens} tokens alone; capture again")
    groups: dict[str, dict[int, Tensor]] = {"mean": {}, "scatter": {}, "gram": {}, "cross": {}, "state_mean": {}}
    try:
        for name, value in tensors.items():
            group, number = name.removeprefix(prefix).split(".")
            groups[group][int(number)] = value[0] if group == "scatter" else value
        splits = tuple(int(split) for split in header["splits"].split(","))
        return Moments(int(header["layers"]), splits, int(header[f"{prefix}rows"]), **groups)
    except (ValueError, LookupError, TypeError) as error:
        raise ResultsError(f"{path} is damaged ({error!s:.200}); delete it and capture again") from error
