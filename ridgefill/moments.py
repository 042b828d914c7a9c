"""Streamed first and second moments of layer inputs: activations are reduced chunk by chunk and never stored.

Each chunk is centred on its own mean before its products are formed in the activations' own precision, and
chunks are merged in fp64. On data with massive channels this keeps six digits where subtracting the mean
afterwards loses the first (METHOD section 2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ridgefill.errors import NumericsError, ResultsError
from ridgefill.files import replacing


@dataclass(frozen=True)
class Moments:
    """Moments of the split states and of every later layer's input.

    splits: split layers. rows: calibration rows seen. mean[l]: fp64 ``[d]`` for every layer involved.
    scatter[l]: fp64 scalar, summed squared deviation of layer ``l``'s input. gram[S]: fp64 ``[d, d]``, centred
    Gram matrix of the split state. cross[S]: fp64 ``[d, n * d]``, centred cross-moments of the split state with
    the inputs of layers ``S + 1 .. L - 1`` side by side.
    """

    layers: int
    splits: tuple[int, ...]
    rows: int
    mean: Mapping[int, Tensor]
    scatter: Mapping[int, Tensor]
    gram: Mapping[int, Tensor]
    cross: Mapping[int, Tensor]

    def targets(self, split: int) -> range:
        """Layers predicted from ``split`` that need cross-moments."""
        return range(split + 1, self.layers)


def chunk_moments(inputs: Mapping[int, Tensor], splits: Sequence[int], layers: int) -> Moments:
    """Moments of one chunk; ``inputs[l]`` is ``[rows, d]`` in any float type, for every layer from the first split.

    Raises ``NumericsError`` when an input holds a NaN or infinity.
    """
    mean, centred, scatter = {}, {}, {}
    for layer in range(min(splits), layers):
        x = inputs[layer].float()
        if not bool(torch.isfinite(x).all()):
            raise NumericsError(
                f"the input of layer {layer} holds values that are not finite; expected none. Check the model "
                "files' checksums, or capture with dtype=float32."
            )
        mean[layer] = x.double().mean(0)
        # Subtracted in fp64: an fp32 mean of a massive channel is off by more than the merge forgives.
        centred[layer] = (x.double() - mean[layer]).float()
        scatter[layer] = centred[layer].double().square().sum()
    gram = {split: (centred[split].T @ centred[split]).double() for split in splits}
    cross = {}
    for split in splits:
        later = [centred[layer] for layer in range(split + 1, layers)] or [centred[split][:, :0]]
        cross[split] = (centred[split].T @ torch.cat(later, dim=1)).double()
    rows = int(inputs[min(splits)].shape[0])
    return Moments(layers, tuple(sorted(splits)), rows, mean, scatter, gram, cross)


def merge(a: Moments, b: Moments) -> Moments:
    """Moments of both sets of rows together (pairwise update of Chan, Golub and LeVeque 1983)."""
    if (a.layers, a.splits) != (b.layers, b.splits):
        raise ResultsError(
            f"moments of splits {a.splits} and {b.splits} cannot be merged; capture both with one configuration"
        )
    rows = a.rows + b.rows
    weight = a.rows * b.rows / rows
    shift = {layer: b.mean[layer] - a.mean[layer] for layer in a.mean}
    mean = {layer: a.mean[layer] + shift[layer] * (b.rows / rows) for layer in a.mean}
    scatter = {layer: a.scatter[layer] + b.scatter[layer] + weight * shift[layer].square().sum() for layer in a.mean}
    gram, cross = {}, {}
    for split in a.splits:
        later = torch.cat([shift[layer] for layer in a.targets(split)] or [shift[split][:0]])
        gram[split] = a.gram[split] + b.gram[split] + weight * torch.outer(shift[split], shift[split])
        cross[split] = a.cross[split] + b.cross[split] + weight * torch.outer(shift[split], later)
    return Moments(a.layers, a.splits, rows, mean, scatter, gram, cross)


def save_moments(path: Path, moments: Moments, metadata: Mapping[str, str]) -> None:
    """Write moments to one safetensors file, atomically."""
    tensors = {f"mean.{layer}": value for layer, value in moments.mean.items()}
    tensors |= {f"scatter.{layer}": value.reshape(1) for layer, value in moments.scatter.items()}
    tensors |= {f"gram.{split}": value for split, value in moments.gram.items()}
    tensors |= {f"cross.{split}": value for split, value in moments.cross.items()}
    header = {
        "layers": str(moments.layers),
        "splits": ",".join(map(str, moments.splits)),
        "rows": str(moments.rows),
        **metadata,
    }
    with replacing(path) as temporary:
        try:
            save_file({name: value.contiguous() for name, value in tensors.items()}, temporary, metadata=header)
        except SafetensorError as error:  # its own type, also when the disk is full
            raise OSError(str(error)) from error


def load_moments(path: Path) -> Moments:
    """Read what ``save_moments`` wrote. Raises ``ResultsError`` when the file is missing or damaged."""
    try:
        with safe_open(path, framework="pt") as stored:
            header = stored.metadata()
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    except (OSError, ValueError, RuntimeError) as error:
        raise ResultsError(f"{path} is not a readable moments file ({error}); delete it and capture again") from error
    except SafetensorError as error:
        raise ResultsError(f"{path} is damaged ({error}); delete it and capture again") from error
    if not header or not {"layers", "splits", "rows"} <= header.keys():
        raise ResultsError(f"{path} is no moments file: it lacks the header that a capture writes; capture again")
    groups: dict[str, dict[int, Tensor]] = {"mean": {}, "scatter": {}, "gram": {}, "cross": {}}
    for name, value in tensors.items():
        group, number = name.split(".")
        groups[group][int(number)] = value[0] if group == "scatter" else value
    splits = tuple(int(split) for split in header["splits"].split(","))
    return Moments(int(header["layers"]), splits, int(header["rows"]), **groups)
