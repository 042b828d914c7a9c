"""``ridgefill.json`` and ``SHA256SUMS``: what a folder of maps says it holds, and the model it was fitted for.

Two spellings are read: the one written here (``architecture``, ``fit.split``) and that of the released map
repositories (``model.meta``, ``split``, ``stream_width``). Nothing here imports torch.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ridgefill.errors import MapError

CREDIT = "RidgeFill maps: a closed-form ridge regression from the split state to each late layer's input."
MANIFEST = "ridgefill.json"
SUMS = "SHA256SUMS"
RECURRENT = "linear_attention"
GEOMETRY = (
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "linear_conv_kernel_dim",
)
"""Configuration fields that shape a recurrent state; maps of one geometry are refused by another."""

_OWN = {"format", "credit", "architecture", "fit", "files"}
# A file beside the manifest: no folder, no "..", nothing that a line, a file system or Unicode cannot hold.
_NAME = re.compile(r"(?!\.{1,2}$)[^/\\\s\x00-\x1f\x7f\ud800-\udfff][^/\\\x00-\x1f\x7f\ud800-\udfff]*")
MOST_LAYERS = 10_000
"""More than any model has: numbers past it are damage, and lists of layers would fill the memory."""
_SUM_LINE = re.compile(r"([0-9a-f]{64}) [ *](?:\./)?(.+)")
_RELEASED_GEOMETRY = ("linear_num_value_heads", "linear_value_head_dim", "linear_key_head_dim")


@dataclass(frozen=True)
class Manifest:
    """One folder's manifest.

    architecture: the fingerprint of the model the maps fit; ``layers``, ``hidden`` (``d_out``) and, where it differs,
    ``width`` (``d_in``) among it. fit: how they were fitted. files: SHA-256 of every other file by name.
    extra: keys of the manifest beyond these, kept when the maps are saved again.
    """

    split: int
    architecture: Mapping[str, Any]
    fit: Mapping[str, Any]
    files: Mapping[str, str]
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def d_out(self) -> int:
        """Features that a map predicts."""
        return int(self.architecture["hidden"])

    @property
    def d_in(self) -> int:
        """Features of the split state."""
        return int(self.architecture.get("width", self.d_out))

    def text(self, encoding: str) -> bytes:
        """The manifest file's bytes."""
        written = {
            **self.extra,
            "format": 1,
            "credit": CREDIT,
            "architecture": dict(self.architecture),
            "fit": {**self.fit, "split": self.split, "encoding": encoding},
            "files": dict(self.files),
        }
        return (json.dumps(written, indent=2, sort_keys=True) + "\n").encode()


def hashable(name: str) -> bool:
    """Whether a file is ever hashed: hubs rewrite ``*.md``."""
    return not name.lower().endswith(".md")


def read_manifest(folder: Path) -> Manifest:
    """Read and check a folder's manifest, its checksum included; no other file is opened.

    Raises ``MapError`` for a missing, altered or foreign manifest, or one that disagrees with ``SHA256SUMS``.
    """
    sums = read_sums(folder)
    try:
        data = checked(folder / MANIFEST, sums.get(MANIFEST, f"the digest of a line in {SUMS}, which has none"))
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MapError(f"{folder / MANIFEST} is not JSON ({error}); fetch the maps again") from error
    found = content.get("format") if isinstance(content, dict) else None
    if found != 1:
        raise MapError(f"{folder / MANIFEST} has format {found!r:.60}; this version reads format 1")
    try:
        manifest = _parsed(content)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise MapError(
            f"{folder / MANIFEST} lacks what a manifest of maps holds ({error!r:.200}); expected split, architecture "
            "and files. Fetch the maps again"
        ) from error
    if odd := sorted(name for name in manifest.files if not _plain(name) or name in (MANIFEST, SUMS)):
        raise MapError(f"{folder / MANIFEST} lists {odd[0]!r:.200}, which is no name of a file beside it")
    if altered := sorted(name for name, digest in manifest.files.items() if sums.get(name) != digest):
        raise MapError(f"{folder / SUMS} and {MANIFEST} disagree about {few(altered)}; fetch the maps again")
    return manifest


def read_sums(folder: Path) -> dict[str, str]:
    """Digests by name from ``SHA256SUMS``; lines of any other form are left out, and documentation too."""
    try:
        text = (folder / SUMS).read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise MapError(
            f"{folder / SUMS} is missing; expected a folder of maps with {MANIFEST} and {SUMS}, or one safetensors file"
        ) from error
    pairs = [match.groups() for match in map(_SUM_LINE.fullmatch, text.splitlines()) if match]
    return {name: digest for digest, name in pairs if hashable(name) and _stays_inside(name)}


def _stays_inside(name: str) -> bool:
    """Whether a name of ``SHA256SUMS`` is of a file in the folder or below it; no other file is ever looked at."""
    return all(_plain(part) for part in name.split("/"))


def _plain(name: str) -> bool:
    """Whether it can be the name of a file; file systems hold 255 bytes."""
    return _NAME.fullmatch(name) is not None and len(name.encode()) <= 255


def few(names: Sequence[object]) -> str:
    """The first of them, for a sentence."""
    return ", ".join(str(name)[:80] for name in names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def sums_text(sums: Mapping[str, str]) -> bytes:
    """``SHA256SUMS`` as ``sha256sum -c`` reads it."""
    return "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode()


def checked(path: Path, digest: str) -> bytes:
    """A file's bytes. Raises ``MapError`` naming the file when it is missing, no regular file (a device has no end) or
    its SHA-256 is another.
    """
    if path.exists() and not path.is_file():
        raise MapError(f"{path} is no regular file; fetch or fit the maps again")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise MapError(f"{path} is missing; fetch or fit the maps again") from error
    found = hashlib.sha256(data).hexdigest()
    if found != digest:
        raise MapError(f"{path} has SHA-256 {found}; expected {digest}. Fetch or fit the maps again")
    return data


def _parsed(content: Mapping[str, Any]) -> Manifest:
    fit = dict(content.get("fit") or {})
    split = int(content["split"] if "split" in content else fit["split"])
    architecture = dict(content["architecture"]) if "architecture" in content else _released(content)
    files = {name: str(digest) for name, digest in content["files"].items() if hashable(name)}
    extra = {key: value for key, value in content.items() if key not in _OWN}
    own = {key: value for key, value in fit.items() if key not in ("split", "encoding")}
    manifest = Manifest(split, architecture, own, files, extra)
    if not 0 < split < int(architecture["layers"]) <= MOST_LAYERS or min(manifest.d_out, manifest.d_in) < 1:
        raise ValueError(f"split {split} of {architecture['layers']} layers, maps [{manifest.d_out}, {manifest.d_in}]")
    return manifest


def _released(content: Mapping[str, Any]) -> dict[str, Any]:
    """The fingerprint of a released map repository in our words; it writes every number as text.

    Its layer types only tell recurrent layers from others, so that is all that is taken.
    """
    model, meta = content["model"], content["model"]["meta"]
    kinds = meta["layer_types"].split()
    architecture: dict[str, Any] = {
        "family": meta["model_type"],
        "layers": int(meta["n_layers"]),
        "hidden": int(content["block_in_width"]),
        "width": int(content["stream_width"]),
        "recurrent_layers": [layer for layer, kind in enumerate(kinds) if kind == RECURRENT],
        **{key: int(meta[key]) for key in _RELEASED_GEOMETRY if key in meta},
    }
    if name := model.get("name"):
        architecture["model"] = name
    if digest := (content.get("fit") or {}).get("tokenizer_json_sha256"):
        architecture["tokenizer_sha256"] = digest
    return architecture
