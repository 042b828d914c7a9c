"""From model files to an adapter: GGUF to a plain safetensors folder once, then a folder to a model."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from ridgefill.errors import ModelError
from ridgefill.files import replacing, sha256_file, write_text
from ridgefill.models.base import Adapter
from ridgefill.models.source import RECORD
from ridgefill.models.wrap import ADAPTERS
from ridgefill.settings import ModelConfig

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Loaded:
    """A model ready to run: its adapter, tokenizer, and the SHA-256 of the tokenizer file."""

    adapter: Adapter
    tokenizer: PreTrainedTokenizerBase
    tokenizer_sha256: str

    @property
    def architecture(self) -> dict[str, Any]:
        """The fingerprint that map files carry: geometry, layer types and tokenizer."""
        return {**self.adapter.fingerprint, "tokenizer_sha256": self.tokenizer_sha256}


def _quiet() -> None:
    """The jobs have one progress bar of their own; transformers' bars for millisecond steps would bury it."""
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()


def convert_gguf(gguf: Path, folder: Path) -> None:
    """Write a GGUF's weights and tokenizer as a plain safetensors folder (fp32), complete or not at all.

    Loading a GGUF dequantises every tensor, which takes longer than a whole capture starts up; so it is done once.
    """
    _quiet()
    try:
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    except Exception as error:  # the readers raise many types; all mean that the file cannot be used
        raise ModelError(f"{gguf} could not be read as a GGUF model ({error}); delete it to fetch it again") from error
    config = copy.deepcopy(loaded.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = type(loaded)(config)
    plain.load_state_dict(loaded.state_dict())
    with replacing(folder) as temporary:
        temporary.mkdir(parents=True)
        try:
            plain.save_pretrained(temporary)
        except SafetensorError as error:  # its own type, also when the disk is full
            raise OSError(str(error)) from error
        tokenizer.save_pretrained(temporary)
        files = {path.name: sha256_file(path) for path in sorted(temporary.iterdir())}
        write_text(temporary / RECORD, json.dumps({"from": gguf.name, "files": files}, indent=2) + "\n")


def load_model_folder(folder: Path, model: ModelConfig, dtype: str) -> Loaded:
    """Load a model folder in ``dtype``. Raises ``ModelError`` when it is missing, damaged or another model."""
    if model.family not in ADAPTERS:
        raise ModelError(
            f"model {model.name} is of family {model.family}, which has no adapter yet; adapters: {', '.join(ADAPTERS)}"
        )
    _check_files(folder)
    _quiet()
    try:
        config = AutoConfig.from_pretrained(folder)
        _check_geometry(config, model, folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        network, report = AutoModelForCausalLM.from_pretrained(
            folder, dtype=DTYPES[dtype], attn_implementation="sdpa", output_loading_info=True
        )
    except ModelError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"{folder} could not be loaded as {model.name} ({reason}); {_repair(folder)}") from error
    if absent := sorted(report["missing_keys"]):
        raise ModelError(
            f"the weights in {folder} lack {len(absent)} tensors, among them {absent[0]}; fetch the model's files again"
        )
    if len(tokenizer) > int(config.vocab_size):
        raise ModelError(
            f"the tokenizer in {folder} has {len(tokenizer)} tokens, more than the model's {config.vocab_size}; "
            "use the tokenizer that belongs to the model"
        )
    return Loaded(ADAPTERS[model.family](network), tokenizer, sha256_file(folder / "tokenizer.json"))


def _repair(folder: Path) -> str:
    """What to do about a damaged folder: ours can be built again, a user's own must not be deleted."""
    return "delete it to build it again" if (folder / RECORD).is_file() else "fetch the model's files again"


def _check_files(folder: Path) -> None:
    record = folder / RECORD
    if not folder.is_dir():
        raise ModelError(f"{folder} does not exist; run `snakemake --cores all {folder}/{RECORD}` to build it")
    if not record.is_file():
        return
    try:
        files = json.loads(record.read_text("utf-8"))["files"]
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{record} is damaged ({error}); delete {folder} to build it again") from error
    for name, expected in files.items():
        path = folder / name
        found = sha256_file(path) if path.is_file() else "no such file"
        if found != expected:
            raise ModelError(f"{path} has SHA-256 {found}; expected {expected}. Delete {folder} to build it again")


def _check_geometry(config: Any, model: ModelConfig, folder: Path) -> None:
    geometry = model.geometry
    pairs = {
        "layers": (config.num_hidden_layers, geometry.layers),
        "hidden": (config.hidden_size, geometry.hidden),
        "heads": (config.num_attention_heads, geometry.heads),
        "kv_heads": (config.num_key_value_heads, geometry.kv_heads),
        "head_dim": (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
            geometry.head_dim,
        ),
        "intermediate": (config.intermediate_size, geometry.intermediate),
        "vocab": (config.vocab_size, geometry.vocab),
    }
    for name, (found, expected) in pairs.items():
        if found != expected:
            raise ModelError(f"the model in {folder} has {name} {found}; {model.name} expects {expected}")
