"""Whether maps fit a model: two fingerprints compared key by key. Nothing here imports torch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from ridgefill.errors import MapError
from ridgefill.mapfiles.manifest import RECURRENT

ONLY_WARNED = ("model", "encoding")
"""The model's name and the encoding of its weights: other values change quality at most, never what is computed."""
ALWAYS = ("layers", "hidden")


def require_match(stored: Mapping[str, Any], model: Mapping[str, Any], maps: str = "these maps") -> None:
    """Refuse maps fitted for another model: what both fingerprints tell must agree. Other names only warn.

    stored: the fingerprint that the maps carry. model: the running model's. maps: what to call them. Dimensions, kinds
    of layers, geometry of recurrent heads and the tokenizer's SHA-256 refuse with ``MapError``, both sides named.
    """
    mine, theirs = _complete(stored), _complete(model)
    for key in (*ALWAYS, *sorted((set(mine) & set(theirs)).difference(ALWAYS))):
        found, expected = mine.get(key), theirs.get(key)
        if found == expected or (key == "model" and _last(found) == _last(expected)):
            continue
        if key in ONLY_WARNED:
            warnings.warn(
                f"{maps} were fitted for {key} {found!r}, and the model has {expected!r}; they run, but "
                "nobody measured how well",
                stacklevel=3,
            )
            continue
        raise MapError(
            f"{maps} were fitted for {key} {_short(found)}, but the model has {_short(expected)}; use "
            "maps fitted for this model"
        )


def _complete(architecture: Mapping[str, Any]) -> dict[str, Any]:
    """With what follows from its other keys: the split state's width, and which layers are recurrent."""
    complete = dict(architecture)
    if "hidden" in complete:
        complete.setdefault("width", complete["hidden"])
    kinds = complete.get("layer_types")
    if isinstance(kinds, list | tuple):
        complete.setdefault("recurrent_layers", [layer for layer, kind in enumerate(kinds) if kind == RECURRENT])
    return complete


def _last(name: Any) -> str:
    """A model's own name: without its owner or folder, in one case."""
    return str(name).rstrip("/").rpartition("/")[2].casefold()


def _short(value: Any) -> str:
    """A value for a sentence; the middle of a long list tells nobody anything."""
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:190]} ... {text[-190:]}"
