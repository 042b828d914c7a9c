"""Engines in environments of their own, each a process that is asked for one new token after a prompt."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, Any

from ridgefill.errors import RidgeFillError

SERVE = Path(__file__).parent / "drivers" / "serve.py"
LOAD_SECONDS = 600.0
"""How long an engine may take to load, its first conversion of the weights included."""
REQUEST_SECONDS = 600.0
"""How long it may take for one prompt."""


class EngineError(RidgeFillError):
    """An engine that is not installed, stopped, or did not answer as it should."""


@dataclass(frozen=True)
class Engine:
    """How to start an engine. python: of its environment. driver: a module beside ``serve.py``.

    build: the command that makes the environment. environment: variables set for it on top of this process's own.
    files: what must be there before it is started.
    """

    name: str
    python: Path
    driver: str
    build: str
    settings: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[Path] = ()
    serve: Path = SERVE


@dataclass(frozen=True)
class Serving:
    """An engine that has been loaded. ready: what it says of itself. ask: token ids to seconds until one new token."""

    engine: Engine
    ready: Mapping[str, Any]
    ask: Callable[[Sequence[int]], float]


@contextmanager
def serving(engine: Engine) -> Iterator[Serving]:
    """The engine, loaded; it ends with the context. Raises ``EngineError``, also from ``ask``, with one sentence."""
    _require(engine)
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [str(engine.python), str(engine.serve), engine.driver, json.dumps(dict(engine.settings))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **engine.environment},
        )
        try:
            talk = _Talk(engine, process, errors)
            ready = talk.reply(LOAD_SECONDS, "ready")
            if not isinstance(ready, dict):
                raise EngineError(f"{engine.name} was loaded and said {ready!r} of itself; expected an object")
            yield Serving(engine, ready, talk.seconds)
        finally:
            _end(process)


def _require(engine: Engine) -> None:
    """Refuse to start what is not there."""
    if not engine.python.is_file():
        raise EngineError(f"{engine.name} is not installed (looked for {engine.python}); {engine.build} installs it")
    for path in engine.files:
        if not path.exists():
            raise EngineError(
                f"{engine.name} needs {path}, which is not there; {engine.build} and the model's rule make it"
            )


class _Talk:
    """Lines to and from an engine's process; a thread reads, so that waiting can end."""

    def __init__(self, engine: Engine, process: subprocess.Popen[str], errors: IO[bytes]) -> None:
        self._engine, self._process, self._errors = engine, process, errors
        self._lines: SimpleQueue[str] = SimpleQueue()
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)
        self._lines.put("")

    def seconds(self, ids: Sequence[int]) -> float:
        """Seconds that the engine took for one new token after ``ids``."""
        stdin = self._process.stdin
        # When nobody reads there any more, the reply, or that there is none, says why.
        with suppress(BrokenPipeError):
            if stdin is not None and not stdin.closed:
                stdin.write(json.dumps({"ids": list(ids)}) + "\n")
                stdin.flush()
        taken = self.reply(REQUEST_SECONDS, "seconds")
        if isinstance(taken, bool) or not isinstance(taken, int | float) or not 0 < taken < REQUEST_SECONDS:
            raise EngineError(
                f"{self._engine.name} answered seconds={taken!r} to {len(ids)} tokens; expected a positive number of "
                "seconds"
            )
        return float(taken)

    def reply(self, limit: float, key: str) -> Any:
        """What the next line says of ``key``."""
        name = self._engine.name
        try:
            line = self._lines.get(timeout=limit)
        except Empty:
            raise EngineError(f"{name} gave no answer in {limit:.0f} s, so it was ended") from None
        if not line:
            self._lines.put("")
            raise EngineError(f"{name} stopped{self._last_words()}; expected an answer with {key!r}")
        try:
            reply = json.loads(line)
        except ValueError:
            reply = None
        if isinstance(reply, dict) and "error" in reply:
            raise EngineError(f"{name} could not go on: {_one_line(str(reply['error']))}")
        if not isinstance(reply, dict) or key not in reply:
            raise EngineError(f"{name} answered {_one_line(line)!r}; expected a JSON object with {key!r}")
        return reply[key]

    def _last_words(self) -> str:
        """How the process ended, and the last line that it wrote about it."""
        _end(self._process)
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return f" with exit status {self._process.returncode}" + (f" ({_one_line(lines[-1])})" if lines else "")


def _one_line(text: str) -> str:
    """The first 200 characters of ``text``, as one line."""
    return " ".join(text.split())[:200]


def _end(process: subprocess.Popen[str]) -> None:
    """End an engine: its input ends, and if that is not enough, it is killed."""
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.close()
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
