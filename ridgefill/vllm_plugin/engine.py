"""Where the plugin enters the engine: two tables of models, and the classes it may be told to use.

This is the one place that touches what the engine does not document as an interface (``MODELS_CONFIG_MAP``), which is
why the engine's version is checked first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import vllm
from vllm import ModelRegistry
from vllm.config import VllmConfig
from vllm.model_executor.models.config import MODELS_CONFIG_MAP, VerifyAndUpdateConfig
from vllm.platforms import current_platform

from ridgefill.errors import ConfigError
from ridgefill.vllm_plugin.fitting import FAMILIES, not_served, require_engine, require_maps
from ridgefill.vllm_plugin.settings import VARIABLE, settings_from_environment

PACKAGE = "ridgefill.vllm_plugin"
WORKER = f"{PACKAGE}.runner.RidgeFillWorker"
SCHEDULER = f"{PACKAGE}.scheduler.RidgeFillScheduler"
LOADERS = ("auto", "hf", "safetensors", "pt")

_Found = Callable[[VllmConfig], Any]
OBSTACLES: tuple[tuple[str, _Found], ...] = (
    ("runs on another device than CPUs", lambda config: not current_platform.is_cpu()),
    ("has a quantised model", lambda config: config.quant_config),
    ("has a quantised cache", lambda config: config.cache_config.cache_dtype.startswith("fp8")),
    ("has LoRA adapters", lambda config: config.lora_config),
    ("decodes speculatively", lambda config: config.speculative_config),
    ("passes caches to other servers", lambda config: config.kv_transfer_config),
    ("divides the model over several workers", lambda config: config.parallel_config.world_size > 1),
    ("runs several copies of the model", lambda config: config.parallel_config.data_parallel_size > 1),
    ("takes prompts as embeddings", lambda config: config.model_config.enable_prompt_embeds),
    ("pools instead of generating", lambda config: config.model_config.runner_type != "generate"),
    ("has a worker class of its own", lambda config: config.parallel_config.worker_cls not in ("auto", WORKER)),
    (
        "has a scheduler class of its own",
        lambda config: config.scheduler_config.scheduler_cls not in (None, SCHEDULER),
    ),
    (
        f"loads weights in a way other than {', '.join(LOADERS)}",
        lambda config: str(config.load_config.load_format) not in LOADERS,
    ),
)
"""What an engine may be told that filling was not made for."""


STOCK = {architecture: MODELS_CONFIG_MAP.get(architecture) for architecture in FAMILIES}
"""What the engine itself checks of the models that can be filled."""
MODULES = {"Qwen3_5ForCausalLM": "hybrid"}
"""Where the class of an architecture is, if not in ``model``."""


class Fitted(VerifyAndUpdateConfig):
    """Of a model that can be filled: checks maps against it, and names the classes that fill."""

    @staticmethod
    def verify_and_update_config(vllm_config: VllmConfig) -> None:
        """Called by the engine while it reads its arguments. Raises one sentence for what cannot be filled."""
        stock = STOCK[vllm_config.model_config.architecture]
        if stock is not None:
            stock.verify_and_update_config(vllm_config)
        settings = settings_from_environment()
        if settings is None:
            return
        for what, found in OBSTACLES:
            if found(vllm_config):
                raise ConfigError(
                    f"this server {what}, which RidgeFill does not support; change that, or unset {VARIABLE} to serve "
                    "without filling"
                )
        if settings.rows and vllm_config.model_config.skip_tokenizer_init:
            raise ConfigError(
                f"{VARIABLE} picks rows by the text of their tokens, and this server has no tokenizer; start it with "
                "one, or leave rows out"
            )
        model = Path(vllm_config.model_config.model)
        config = vllm_config.model_config.hf_config.to_dict()
        config["architectures"] = [vllm_config.model_config.architecture]
        require_maps(settings, config, model if model.is_dir() else None)
        vllm_config.parallel_config.worker_cls = WORKER
        vllm_config.scheduler_config.scheduler_cls = SCHEDULER


class Refused(VerifyAndUpdateConfig):
    """Of every other model: nothing would be filled, and nobody would notice."""

    @staticmethod
    def verify_and_update_config(vllm_config: VllmConfig) -> None:
        """Refuse to start."""
        raise not_served(vllm_config.model_config.architecture)


def install() -> None:
    """Register the model classes and the two checks; harmless when repeated. Raises ``ConfigError``."""
    require_engine(vllm.__version__)
    MODELS_CONFIG_MAP.update(dict.fromkeys(ModelRegistry.get_supported_archs(), Refused))
    for architecture in FAMILIES:
        module = MODULES.get(architecture, "model")
        ModelRegistry.register_model(architecture, f"{PACKAGE}.{module}:RidgeFill{architecture}")
        MODELS_CONFIG_MAP[architecture] = Fitted
