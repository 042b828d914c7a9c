"""KVA heads: trained projections from the split state to every late layer's keys and values (kishida, 2026).

One safetensors file, ``kva_projector.safetensors`` in kishida/Q3-8B-KVA-Projector, in the layout that its author's own
demo reads (github.com/kishida/webdemos at 0174ca5e, ``llkvapprox/engine.js``). With ``x`` the split state of a row:

* ``layers.<l>.norm.weight`` ``[d_in]``: RMS norm of ``x``, one for each late layer;
* ``layers.<l>.{k,v}.weight`` ``[kv, d_in]`` and ``.bias`` ``[kv]``: from the normed ``x`` to what the layer's
  ``k_proj`` and ``v_proj`` would give. The model's own ``k_norm`` and rotary at the row's own position follow.

Metadata, all text: ``type``, ``enc_layers`` (the split, 18 when absent), ``eps`` of the norms (1e-6 when absent).
With ``type`` ``ctx`` a causal transformer over the rows, sized by ``d``, ``n_blocks``, ``n_heads`` and ``ffn``, adds
to both:

* ``ctx.inp.weight`` ``[d, d_in]`` after an RMS norm of ``x`` without weights;
* per block ``ctx.blocks.<b>.`` ``n1`` ``[d]``, ``qkv.weight`` ``[3 d, d]``, ``o.weight`` ``[d, d]``, ``n2`` ``[d]``,
  ``{gate,up}.weight`` ``[ffn, d]``, ``down.weight`` ``[d, ffn]``: pre-norm, rotary as in the model, gated by SiLU;
* ``ctx.out_norm.weight`` ``[d]``, then ``ctx.{k,v}_out.<l>.weight`` ``[kv, d]`` for each late layer, without bias.

``architecture``, a fingerprint as JSON, is written here and compared where a file has it; the author's reader skips it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as save_safetensors
from torch import Tensor

from ridgefill.errors import ConfigError, MapError
from ridgefill.files import replacing
from ridgefill.mapfiles.match import require_match
from ridgefill.mapfiles.names import with_metadata

KVA_FILE = "kva_projector.safetensors"
"""Name of the file in the repository that introduced it."""
SPLIT, EPS = 18, 1e-6
"""What the author's reader takes when the file does not say."""
_SIZES = {"width": "d", "blocks": "n_blocks", "heads": "n_heads", "inner": "ffn"}
_TYPES = (torch.float16, torch.bfloat16, torch.float32)


@dataclass(frozen=True)
class KvaContext:
    """Sizes of the causal transformer beside the heads: ``width`` ``d``, ``inner`` ``ffn``."""

    width: int
    blocks: int
    heads: int
    inner: int


@dataclass(frozen=True)
class KvaHeads:
    """Heads of one split. tensors: by the names above. layers: depth of the model. kind: the file's ``type``.

    architecture: fingerprint of the model they were trained for, empty where the file has none.
    """

    split: int
    layers: int
    tensors: Mapping[str, Tensor]
    eps: float = EPS
    context: KvaContext | None = None
    kind: str = "linear"
    architecture: Mapping[str, Any] = field(default_factory=dict)

    def to(self, dtype: torch.dtype, device: torch.device) -> KvaHeads:
        """The same heads in another type and place, such as the model's."""
        return replace(self, tensors={name: one.to(device, dtype) for name, one in self.tensors.items()})

    def require(self, architecture: Mapping[str, Any], where: str = "these KVA heads") -> None:
        """Refuse a model that the heads do not fit, both sides named.

        architecture: the model's fingerprint. Raises ``ConfigError`` for a kind of model that heads cannot serve and
        ``MapError`` for another model, split, layer or shape. where: what to call the heads.
        """
        kinds = architecture["layer_types"]
        if odd := sorted(set(kinds) - {"attention", "sliding_attention"}):
            raise ConfigError(
                f"the model has {', '.join(odd)} layers; KVA heads write keys and values of plain attention only: use "
                "maps (the ridgefill arms) on this model"
            )
        if not 0 < self.split < len(kinds) or self.layers != len(kinds):
            raise MapError(
                f"{where} are split at {self.split} of {self.layers} layers, but the model has {len(kinds)}; use heads "
                "trained for this model"
            )
        if self.context is not None:
            self._require_context(self.context, architecture, where)
        self._require_tensors(architecture, where)
        if self.architecture:
            require_match(self.architecture, architecture, where)

    def _require_context(self, context: KvaContext, architecture: Mapping[str, Any], where: str) -> None:
        if context.width != context.heads * architecture["head_dim"]:
            raise MapError(
                f"{where} mix rows by {context.heads} heads of {context.width} features together; expected heads of "
                f"the model's own width, {architecture['head_dim']}, which its rotary turns"
            )
        if "sliding_attention" in architecture["layer_types"][self.split :]:
            raise ConfigError(
                f"{where} mix every row with all before it, but late layers of this model see a window and are given "
                "no other rows; use heads without a context (type linear)"
            )

    def _require_tensors(self, architecture: Mapping[str, Any], where: str) -> None:
        kv = architecture["kv_heads"] * architecture["head_dim"]
        expected = layout(range(self.split, self.layers), kv, architecture["hidden"], self.context)
        found = {name: tuple(one.shape) for name, one in self.tensors.items()}
        if absent := sorted(set(expected) - set(found)):
            raise MapError(f"{where} lack {absent[0]} and {len(absent) - 1} more; {_wanted(self)}")
        if unknown := sorted(set(found) - set(expected)):
            raise MapError(f"{where} hold {unknown[0]} and {len(unknown) - 1} more not known; {_wanted(self)}")
        for name, shape in expected.items():
            if found[name] != shape:
                raise MapError(f"{where} hold {name} {list(found[name])}; expected {list(shape)} for this model")
            if self.tensors[name].dtype not in _TYPES:
                kind = str(self.tensors[name].dtype).removeprefix("torch.")
                raise MapError(f"{where} hold {name} as {kind}; expected float16, bfloat16 or float32")


def layout(late: range, kv: int, d_in: int, context: KvaContext | None) -> dict[str, tuple[int, ...]]:
    """Every tensor of the file and its shape. kv: features of a layer's keys. d_in: of the split state."""
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in late:
        shapes[f"layers.{layer}.norm.weight"] = (d_in,)
        for part in "kv":
            shapes[f"layers.{layer}.{part}.weight"] = (kv, d_in)
            shapes[f"layers.{layer}.{part}.bias"] = (kv,)
    if context is None:
        return shapes
    width, inner = context.width, context.inner
    shapes |= {"ctx.inp.weight": (width, d_in), "ctx.out_norm.weight": (width,)}
    shapes |= {f"ctx.{part}_out.{layer}.weight": (kv, width) for layer in late for part in "kv"}
    block = {
        "n1": (width,), "n2": (width,), "qkv.weight": (3 * width, width), "o.weight": (width, width),
        "gate.weight": (inner, width), "up.weight": (inner, width), "down.weight": (width, inner),
    }  # fmt: skip
    for number in range(context.blocks):
        shapes |= {f"ctx.blocks.{number}.{name}": shape for name, shape in block.items()}
    return shapes


def load_kva(path: Path, architecture: Mapping[str, Any]) -> KvaHeads:
    """Read a file of heads and check that it fits the model whose fingerprint is given.

    Raises ``MapError`` for a file that is missing, damaged or of another layout or model, ``ConfigError`` for a kind of
    model that heads cannot serve.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError, ValueError) as error:
        raise MapError(
            f"{path} could not be read as a safetensors file ({error}); give the {KVA_FILE} of the heads, or fetch it "
            "again"
        ) from error
    try:
        heads = _parsed(metadata, tensors, int(architecture["layers"]))
    except (KeyError, ValueError, RecursionError) as error:
        raise MapError(
            f"the metadata of {path} is not that of KVA heads ({type(error).__name__} {error!s:.200}); expected "
            "enc_layers, eps and, for type ctx, d, n_blocks, n_heads and ffn"
        ) from error
    heads.require(architecture, f"the KVA heads in {path}")
    if odd := sorted(name for name, one in tensors.items() if not bool(torch.isfinite(one).all())):
        raise MapError(f"{path} holds values that are not finite in {', '.join(odd[:4])}; fetch it again")
    return heads


def save_kva(path: Path, heads: KvaHeads) -> None:
    """Write heads in the layout above, as one unit; the types of their tensors are kept."""
    metadata = {"type": heads.kind, "enc_layers": str(heads.split), "eps": repr(heads.eps)}
    if heads.context is not None:
        metadata |= {key: str(getattr(heads.context, name)) for name, key in _SIZES.items()}
    if heads.architecture:
        metadata["architecture"] = json.dumps(dict(heads.architecture), sort_keys=True)
    data: bytes = save_safetensors({name: one.cpu().contiguous() for name, one in sorted(heads.tensors.items())})
    with replacing(path) as temporary:
        temporary.write_bytes(with_metadata(data, metadata))


def _parsed(metadata: Mapping[str, str], tensors: Mapping[str, Tensor], layers: int) -> KvaHeads:
    kind, eps = metadata.get("type", "linear"), float(metadata.get("eps", EPS))
    if not 0 < eps < 1:
        raise ValueError(f"eps {eps}")
    context = None
    if kind == "ctx":
        sizes = {name: int(metadata[key]) for name, key in _SIZES.items()}
        if min(sizes.values()) < 1 or sizes["blocks"] > len(tensors):
            raise ValueError(f"sizes {sizes}")
        context = KvaContext(**sizes)
    stored = json.loads(metadata.get("architecture", "{}"))
    if not isinstance(stored, dict):
        raise ValueError(f"architecture is a {type(stored).__name__}")
    return KvaHeads(int(metadata.get("enc_layers", SPLIT)), layers, tensors, eps, context, kind, stored)


def _wanted(heads: KvaHeads) -> str:
    beside = "" if heads.context is None else f" beside a context of {heads.context.blocks} blocks"
    return (
        f"expected layers.<l>.norm, .k and .v of layers {heads.split} to {heads.layers - 1}{beside}: use heads trained "
        "for this model and split"
    )
