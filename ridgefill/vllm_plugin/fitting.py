"""Whether maps, a model's configuration and an engine's version belong together. Nothing here imports torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ridgefill.errors import ConfigError, MapError, ModelError
from ridgefill.files import sha256_file
from ridgefill.mapfiles.manifest import GEOMETRY, Manifest, read_manifest
from ridgefill.mapfiles.match import require_match
from ridgefill.mapfiles.names import map_files
from ridgefill.vllm_plugin.settings import ENGINE, Settings, where

FAMILIES = {"LlamaForCausalLM": "llama", "Qwen3ForCausalLM": "qwen3", "Qwen3_5ForCausalLM": "qwen3_5"}
"""Architectures that the plugin has a model for, and what maps call their family."""
KINDS = {"full_attention": "attention", "linear_attention": "linear_attention"}
"""Kinds of layers that can be filled, and what maps call them."""


def require_engine(version: str) -> None:
    """Refuse, with ``ConfigError``, an engine of another minor version than the one that is subclassed here."""
    if version.split("+", maxsplit=1)[0].split(".")[:2] != ENGINE.split("."):
        raise ConfigError(
            f"vLLM is {version}, and this version of RidgeFill fills in vLLM {ENGINE} only; install vLLM {ENGINE}, or "
            "unset RIDGEFILL_VLLM to serve without filling"
        )


def not_served(architecture: str) -> ModelError:
    """The refusal of a model that the plugin has no class for."""
    return ModelError(
        f"the model is a {architecture}, and RidgeFill serves {', '.join(FAMILIES)} models; serve one of those, or "
        "unset RIDGEFILL_VLLM to serve without filling"
    )


def require_maps(settings: Settings, config: Mapping[str, Any], model: Path | None) -> tuple[Path, Manifest]:
    """The maps' folder and manifest, when they fit a model by its ``config.json`` and tokenizer.

    model: its local folder, None when it is not known. Raises ``ModelError``, ``MapError`` or ``ConfigError`` for what
    does not belong together; the map files themselves are hashed when they are loaded.
    """
    folder = where(settings)
    manifest = read_manifest(folder)
    map_files(folder, manifest)
    if settings.split not in (None, manifest.split):
        raise ConfigError(
            f"split {settings.split} was asked for, but the maps in {folder} are for split {manifest.split}; name "
            "other maps, or leave split out"
        )
    require_match(manifest.architecture, fingerprint(config, model), f"the maps in {folder}")
    return folder, manifest


def read_config(model: Path) -> dict[str, Any]:
    """A model folder's ``config.json``. Raises ``ModelError``."""
    try:
        found = json.loads((model / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{model / 'config.json'} could not be read ({reason}); give the model's folder") from error
    if not isinstance(found, dict):
        raise ModelError(f"{model / 'config.json'} is no JSON object; fetch the model's files again")
    return found


def fingerprint(config: Mapping[str, Any], model: Path | None) -> dict[str, Any]:
    """What maps remember of a model, from its ``config.json``; with the tokenizer's SHA-256 where it is local.

    Raises ``ModelError`` for another architecture, ``MapError`` for layers that no maps are made for.
    """
    names = config.get("architectures") or ["none"]
    served = next((name for name in names if name in FAMILIES), None)
    if served is None:
        raise not_served(names[0])
    layers, hidden, heads = (int(config[key]) for key in ("num_hidden_layers", "hidden_size", "num_attention_heads"))
    kinds = config.get("layer_types") or ["full_attention"] * layers
    if odd := sorted(set(kinds) - set(KINDS)):
        raise MapError(
            f"the model has layers of kind {odd[0]}; in vLLM RidgeFill fills layers of {' and '.join(KINDS)}"
        )
    tokenizer = None if model is None else model / "tokenizer.json"
    known = {} if tokenizer is None or not tokenizer.is_file() else {"tokenizer_sha256": sha256_file(tokenizer)}
    return {
        "family": FAMILIES[served],
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": int(config.get("num_key_value_heads") or heads),
        "head_dim": int(config.get("head_dim") or hidden // heads),
        "layer_types": [KINDS[kind] for kind in kinds],
        **{key: value for key, value in config.items() if key in GEOMETRY},
        **known,
    }
