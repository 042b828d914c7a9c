"""RidgeFill in vLLM: a plugin for the stock engine, switched on by the environment variable ``RIDGEFILL_VLLM``."""

from __future__ import annotations


def register() -> None:
    """Entry point of ``vllm.general_plugins``, called in every process of the engine and perhaps more than once.

    Does nothing where ``RIDGEFILL_VLLM`` is not set. Raises ``ConfigError``, which stops the engine, for a setting or
    an engine version that cannot be used.
    """
    from ridgefill.vllm_plugin.settings import settings_from_environment

    settings = settings_from_environment()
    if settings is None:
        return
    # Late, so that reading settings (`ridgefill doctor`) works where there is no engine.
    from ridgefill.vllm_plugin.engine import install

    install()
