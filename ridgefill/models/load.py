"""From model files to an adapter: GGUF to a plain safetensors folder once, then a folder to a model."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import dispatch_model
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import cached_file
from transformers.utils import logging as transformers_logging

from ridgefill.devices import take_devices
from ridgefill.errors import ModelError, RidgeFillError
from ridgefill.files import replacing, sha256_file, write_text
from ridgefill.loading import Loading
from ridgefill.models.base import Adapter
from ridgefill.models.claims import require_gguf_held, require_held
from ridgefill.models.source import RECORD
from ridgefill.models.spread import spread_over
from ridgefill.models.swiftkv import MODEL_TYPE, load_swiftkv, register
from ridgefill.models.wrap import ADAPTERS, adapter_for, adapter_of
from ridgefill.settings import ModelConfig

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Loaded:
    """A model ready to run: its adapter, tokenizer, the SHA-256 of the tokenizer file (None when it has no single
    file), and the transformers model that the adapter wraps."""

    adapter: Adapter
    tokenizer: PreTrainedTokenizerBase
    tokenizer_sha256: str | None
    network: Any = None

    @property
    def architecture(self) -> dict[str, Any]:
        """The fingerprint that map files carry: geometry, layer types and tokenizer."""
        tokenizer = {} if self.tokenizer_sha256 is None else {"tokenizer_sha256": self.tokenizer_sha256}
        return {**self.adapter.fingerprint, **tokenizer}


def _quiet() -> None:
    """The jobs have one progress bar of their own; transformers' bars for millisecond steps would bury it."""
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()


def convert_gguf(gguf: Path, folder: Path) -> None:
    """Write a GGUF's weights and tokenizer as a plain safetensors folder (fp32), complete or not at all.

    Loading a GGUF dequantises every tensor, which takes longer than a whole capture starts up; so it is done once.
    """
    _quiet()
    require_gguf_held(gguf)
    with _readable(f"{gguf} could not be read as a GGUF model", "delete it to fetch it again"):
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
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
    """Load a model folder in ``dtype``, on the device that the model's configuration asks for, leased until the process
    ends. Raises ``ModelError`` when it is missing, damaged or another model, ``ConfigError`` for a device.
    """
    if model.family not in ADAPTERS:
        raise ModelError(
            f"model {model.name} is of family {model.family}, which has no adapter yet; adapters: {', '.join(ADAPTERS)}"
        )
    _check_files(folder)
    _quiet()
    register()
    loading = model.loading or Loading()
    devices = take_devices(loading.device, loading.gpus or 1)
    _choose_kernel(loading.attention)
    with _readable(f"{folder} could not be loaded as {model.name}", _repair(folder)):
        config = AutoConfig.from_pretrained(folder).get_text_config()
        _check_geometry(config, model, folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        network = place(_network(str(folder), DTYPES[dtype]), [device.name for device in devices])
    _require_tokens(str(folder), tokenizer, config)
    return Loaded(adapter_of(model.family, network), tokenizer, sha256_file(folder / "tokenizer.json"), network)


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Only the tokenizer of a model folder. Raises ``ModelError`` when it cannot be loaded."""
    _quiet()
    register()
    with _readable(f"no tokenizer could be loaded from {folder}", _repair(folder)):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    return tokenizer


def load_any(source: str, dtype: str = "auto", device: str = "cpu") -> Loaded:
    """Load a model of any supported family from a folder or a hub repository, with no configuration of ours.

    dtype: ``float32``, ``bfloat16``, or ``auto``, the type it is stored in. device: as torch names it, or several with
    commas, over which the layers are spread. Raises ``ModelError`` when it cannot be loaded, lacks tensors, or is of a
    family that has no adapter.
    """
    _quiet()
    register()
    if Path(source).is_dir():
        _check_files(Path(source))
    what = "give a folder with config.json, weights and tokenizer, or the name of a hub repository that can be reached"
    with _readable(f"{source} could not be loaded as a model", what):
        tokenizer = AutoTokenizer.from_pretrained(source)
        network = place(_network(source, DTYPES.get(dtype, dtype)), device.split(","))
    _require_tokens(source, tokenizer, network.config.get_text_config())
    file = cached_file(source, "tokenizer.json", _raise_exceptions_for_missing_entries=False)
    return Loaded(adapter_for(network), tokenizer, sha256_file(file) if file else None, network)


def place(network: Any, devices: Sequence[str]) -> Any:
    """The model on one device, or its layers in runs over several; its own ``forward`` works as before, by hooks."""
    if len(devices) == 1:
        return network.to(devices[0])
    return dispatch_model(network, spread_over(network, devices), main_device=devices[0])


@contextmanager
def _readable(problem: str, repair: str) -> Iterator[None]:
    """Whatever the libraries' readers raise in the block, as one ``ModelError``: a missing file, an unknown family, a
    damaged tensor. A broken tokenizer panics, which is no Exception. Memory that runs out is not the files' fault.
    """
    try:
        yield
    except (RidgeFillError, torch.OutOfMemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = " ".join(str(error).split())
        raise ModelError(f"{problem} ({reason}); {repair}") from error


def _network(source: str, dtype: torch.dtype | str) -> PreTrainedModel:
    """The model, every tensor of it from its safetensors files: no code of theirs is run, and no pickle is opened."""
    config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    if Path(source).is_dir():
        require_held(Path(source), config, AutoModelForCausalLM.from_config)
    if config.model_type == MODEL_TYPE:
        return load_swiftkv(source, dtype)
    network, report = AutoModelForCausalLM.from_pretrained(
        source,
        dtype=dtype,
        attn_implementation="sdpa",
        output_loading_info=True,
        use_safetensors=True,
        trust_remote_code=False,
    )
    if absent := sorted(report["missing_keys"]):
        raise ModelError(
            f"the weights in {source} lack {len(absent)} tensors, among them {absent[0]}; fetch the model's files again"
        )
    return network


def _choose_kernel(attention: str | None) -> None:
    """Leave torch one way to compute scaled dot product attention in this process, on the processor too."""
    if attention is not None:
        torch.backends.cuda.enable_flash_sdp(attention == "flash")
        torch.backends.cuda.enable_mem_efficient_sdp(attention == "efficient")
        torch.backends.cuda.enable_math_sdp(attention == "math")
        torch.backends.cuda.enable_cudnn_sdp(False)


def _require_tokens(source: str, tokenizer: PreTrainedTokenizerBase, config: Any) -> None:
    if len(tokenizer) > int(config.vocab_size):
        raise ModelError(
            f"the tokenizer in {source} has {len(tokenizer)} tokens, more than the model's {config.vocab_size}; "
            "use the tokenizer that belongs to the model"
        )


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
        files = dict(json.loads(record.read_text("utf-8"))["files"])
        if odd := [name for name in files if Path(name).name != name or "\0" in name]:
            raise ValueError(f"{odd[0]!r:.60} is no name of a file beside it")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
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
        "intermediate": (_intermediate(config), geometry.intermediate),
        "vocab": (config.vocab_size, geometry.vocab),
        "windows": (_windows(config), geometry.windows),
    }
    for name, (found, expected) in pairs.items():
        if found != expected:
            raise ModelError(f"the model in {folder} has {name} {found}; {model.name} expects {expected}")


def _intermediate(config: Any) -> int:
    """Width of the MLP that a row passes; with experts, of those it is routed to and the shared one together."""
    if not getattr(config, "num_experts", None):
        return int(config.intermediate_size)
    shared = int(getattr(config, "shared_expert_intermediate_size", None) or 0)
    return int(config.num_experts_per_tok) * int(config.moe_intermediate_size) + shared


def _windows(config: Any) -> tuple[int | None, ...]:
    """Per layer the positions that a row sees, None for all; empty for a model without windows."""
    kinds = getattr(config, "layer_types", None) or []
    if "sliding_attention" not in kinds:
        return ()
    return tuple(int(config.sliding_window) if kind == "sliding_attention" else None for kind in kinds)
