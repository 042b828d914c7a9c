"""Where a model goes: the processor, or a GPU of this node that no other job of ours has; and when one is full.

A scheduler gives each job its own GPUs and says so in ``CUDA_VISIBLE_DEVICES``. Where nobody does, as on one machine
with several GPUs, jobs that start side by side would all take the first. So each takes a lease: a lock on a file of
the node, which the system frees when the process ends in any way.
"""

from __future__ import annotations

import fcntl
import gc
import os
import re
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ridgefill.errors import ConfigError

One = TypeVar("One")

LEASES = "RIDGEFILL_DEVICE_LEASES"
"""Environment variable: the folder of the node that holds the locks. By default one of the user's own."""
PATIENCE = 600.0
"""Seconds that a job waits for a GPU; it was planned when fewer jobs than GPUs ran."""
_PAUSE = 1.0


@dataclass(frozen=True)
class Device:
    """name: as torch calls it, ``cpu`` or ``cuda:1``. lease: the lock's file and its open descriptor, until the process
    ends; None for the processor.
    """

    name: str
    lease: tuple[Path, int] | None = None

    def free(self) -> None:
        """Give it back before the process ends."""
        if self.lease is not None:
            os.close(self.lease[1])


def gpu_names() -> list[str]:
    """What each GPU that this process sees is called on the node, in torch's order: its UUID.

    ``CUDA_VISIBLE_DEVICES`` is obeyed, as torch does: it lists only those. Where a driver tells no UUID, what the
    variable says of the GPU, else its number.
    """
    import torch

    listed = [one.strip() for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one.strip()]
    count = int(torch.cuda.device_count())
    spelt = listed if len(listed) >= count else [str(number) for number in range(count)]
    uuids = [getattr(torch.cuda.get_device_properties(number), "uuid", None) for number in range(count)]
    return [str(uuid) if uuid else spelt[number] for number, uuid in enumerate(uuids)]


def leases_folder() -> Path:
    """The node's folder of locks, private to the user: never the shared file system, which other nodes see too."""
    if given := os.environ.get(LEASES):
        return Path(given)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    home = Path(runtime) if runtime and os.access(runtime, os.W_OK) else Path(tempfile.gettempdir())
    return home / f"ridgefill-devices-{os.getuid()}"


def take_devices(
    wanted: str | None,
    count: int = 1,
    *,
    gpus: Callable[[], Sequence[str]] = gpu_names,
    patience: float = PATIENCE,
    say: Callable[[str], object] = sys.stderr.write,
) -> tuple[Device, ...]:
    """The devices of this process, leased until it ends.

    wanted: None or ``cpu``; ``cuda``, any GPUs that it sees; ``cuda:1``, that one; ``auto``, GPUs where there is one.
    count: how many GPUs, all of them or none: a job that held some while it waited for more could wait for ever. gpus:
    their names on the node. Waits ``patience`` seconds for them. Raises ``ConfigError`` when there are not so many, no
    GPU of that number, or too few that became free.
    """
    if wanted in (None, "cpu"):
        return (Device("cpu"),)
    names = list(gpus())
    if not names and wanted == "auto":
        return (Device("cpu"),)
    _, _, number = str(wanted).partition(":")
    if len(names) < count or (number and int(number) >= len(names)):
        seen = os.environ.get("CUDA_VISIBLE_DEVICES")
        limited = "" if seen is None else f" (CUDA_VISIBLE_DEVICES is {seen!r})"
        asked = f"{wanted} {count} times" if count > 1 else wanted
        raise ConfigError(
            f"the model's configuration asks for device {asked}, and this process sees {len(names)} GPUs{limited}; "
            "ask the scheduler for them, or set loading.device to auto or cpu"
        )
    places = [int(number)] if number else list(range(len(names)))
    until, told = time.monotonic() + patience, False
    while True:
        held: list[Device] = []
        for place in places:
            lease = _lock(leases_folder() / f"{re.sub(r'[^A-Za-z0-9.-]', '_', names[place])}.lock")
            held += [] if lease is None else [Device(f"cuda:{place}", lease)]
            if len(held) == count:
                return tuple(held)
        for one in held:
            one.free()
        if time.monotonic() >= until:
            listed = ", ".join(names[place] for place in places)
            raise ConfigError(
                f"of the GPUs that may be taken ({listed}), {count} did not become free for {patience:.0f} seconds: "
                f"they are in use by another job on {socket.gethostname()}; run fewer jobs at once with --resources "
                f"gpu={len(names)}"
            )
        if not told:
            say(f"waiting for {count} GPU(s): of {len(places)} too many are in use by other jobs\n")
            told = True
        time.sleep(_PAUSE)


def _lock(path: Path) -> tuple[Path, int] | None:
    """The lock, or None while another process has it. The file stays: removing it would let two hold it."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.parent.stat().st_uid != os.getuid():
            raise ConfigError(f"{path.parent} belongs to somebody else; set {LEASES} to a folder of your own")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(
            f"cannot take the lease {path} ({error.strerror}); set {LEASES} to a folder of this node that you may write"
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError as error:
        os.close(descriptor)
        raise ConfigError(f"cannot lock {path} ({error.strerror}); set {LEASES} to a local folder") from None
    return path, descriptor


def unless_full(make: Callable[[], One], last: bool) -> One | None:
    """``make()``, or None where a device's memory ran out; that is the error's own when this was the ``last`` try.

    Raises torch's ``OutOfMemoryError`` then. Every other error goes through.
    """
    import torch

    try:
        return make()
    except torch.OutOfMemoryError:
        if last:
            raise
    # Outside the handler: the traceback would keep what the failed pass had allocated.
    gc.collect()
    torch.cuda.empty_cache()
    return None
