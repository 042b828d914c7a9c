"""vLLM's OpenAI-compatible server as a process of its own, stock or with this project's plugin."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ridgefill.errors import RidgeFillError
from ridgefill.vllm_plugin.logs import Log, read_log
from ridgefill.vllm_plugin.settings import VARIABLE

HOST, NAME = "127.0.0.1", "served"
LOAD_SECONDS = 900.0
"""How long a server may take until it answers; half a minute on an idle machine."""
ENGINE = Path(".venv-vllm")
"""Environment of the engine, below the project's root."""
# Several times what the long prompts and the users of a small model need together.
_CACHE_BYTES = 1 << 30
_LAST_WORDS = 300


class ServerError(RidgeFillError):
    """A server that is not installed, did not start, stopped, or did not answer as it should."""


@dataclass(frozen=True)
class Served:
    """What a server is started with.

    root: the checkout, whose ``ridgefill`` is used. model: a Hugging Face folder. context: most tokens of a request.
    chunk: most rows of a step. requests: most at once. threads: of the engine. filling: the plugin's settings, None
    for the stock server. log: file for its output.
    """

    root: Path
    model: Path
    dtype: str
    context: int
    chunk: int
    requests: int
    threads: int
    log: Path
    filling: Mapping[str, Any] | None = field(default=None)

    @property
    def python(self) -> Path:
        """The interpreter of the engine's environment."""
        return self.root.absolute() / ENGINE / "bin" / "python"

    def command(self, port: int) -> list[str]:
        """What starts it. A prompt as long as the model's own context and its new tokens need a little more."""
        options = {
            "model": self.model.absolute(),
            "served-model-name": NAME,
            "host": HOST,
            "port": port,
            "dtype": self.dtype,
            "max-model-len": self.context,
            "hf-overrides": json.dumps({"max_position_embeddings": self.context}),
            "max-num-batched-tokens": self.chunk,
            "max-num-seqs": self.requests,
            "kv-cache-memory-bytes": _CACHE_BYTES,
        }
        words = [str(self.python), "-m", "vllm.entrypoints.openai.api_server"]
        return [*words, "--enforce-eager", *(str(word) for key, one in options.items() for word in (f"--{key}", one))]

    def environment(self) -> dict[str, str]:
        """Of its process. A server keeps a core for its scheduler unless it is told which ones its threads run on."""
        cores = sorted(os.sched_getaffinity(0))[: self.threads]
        openmp = self.python.parents[1] / "lib" / "libiomp5.so"
        own = {name: value for name, value in os.environ.items() if not name.startswith(("VLLM", "RIDGEFILL"))}
        return own | {
            VARIABLE: "" if self.filling is None else json.dumps(dict(self.filling)),
            "PYTHONPATH": str(self.root.absolute()),
            "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores)),
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_LOGGING_LEVEL": "INFO",
            "HF_HUB_OFFLINE": "1",
            **({"LD_PRELOAD": str(openmp)} if openmp.is_file() else {}),
        }


@dataclass(frozen=True)
class Running:
    """A server that answers. port: of this machine alone."""

    served: Served
    port: int
    process: subprocess.Popen[bytes]

    def log(self) -> Log:
        """What its log tells of filling."""
        with open(self.served.log, encoding="utf-8", errors="replace") as stream:
            return read_log(stream)

    def require_alive(self) -> None:
        """Raise ``ServerError`` with its last words when it has ended."""
        if self.process.poll() is not None:
            raise ServerError(f"the server stopped with exit status {self.process.returncode}{last_words(self.served)}")


@contextmanager
def running(served: Served) -> Iterator[Running]:
    """The server, answering; it ends with the context. Raises ``ServerError`` with one sentence.

    A server that is to fill and does not say so in its log is refused, as nothing of it could be compared.
    """
    require_engine(served.root)
    served.log.parent.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    with open(served.log, "wb") as log:
        process = subprocess.Popen(
            served.command(port),
            env=served.environment(),
            cwd=served.log.parent,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        found = Running(served, port, process)
        _await(found)
        if (found.log().ready is not None) != (served.filling is not None):
            raise ServerError(
                f"the server started {'without' if served.filling is not None else 'with'} the plugin; install this "
                f"checkout in {ENGINE} again (make vllm-setup), and see {served.log}"
            )
        yield found
    finally:
        _end(process)


def require_engine(root: Path) -> None:
    """Raise ``ServerError`` where the checkout ``root`` has no engine."""
    python = root / ENGINE / "bin" / "python"
    if not python.is_file():
        raise ServerError(f"vLLM is not installed (looked for {python}); make vllm-setup installs it")


def last_words(served: Served) -> str:
    """Our own refusal in a server's log, or else its last line; for the end of a sentence."""
    with suppress(OSError):
        lines = served.log.read_text("utf-8", "replace").strip().splitlines()
        refused = read_log(lines).refused
        said = refused or (lines[-1] if lines else "")
        return f" ({' '.join(said.split())[:_LAST_WORDS]}); its log is {served.log}"
    return ""


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind((HOST, 0))
        return int(bound.getsockname()[1])


def _await(server: Running) -> None:
    """Wait until it answers."""
    end = time.monotonic() + LOAD_SECONDS
    while time.monotonic() < end:
        server.require_alive()
        with suppress(OSError, http.client.HTTPException):
            asked = http.client.HTTPConnection(HOST, server.port, timeout=5)
            asked.request("GET", "/health")
            if asked.getresponse().status == http.client.OK:
                return
        time.sleep(0.5)
    raise ServerError(f"the server gave no answer in {LOAD_SECONDS:.0f} s; its log is {server.served.log}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the server and the engine's processes, which are a session of their own."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sent)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)
    process.wait()
