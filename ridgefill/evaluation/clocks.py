"""Seconds and bytes of a piece of work, on whatever device does it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, TypeVar

import torch
from torch.profiler import ProfilerActivity, profile

Clock = Callable[[], float]
"""Seconds since some moment, read when all work that was begun is done."""

_T = TypeVar("_T")
# Above the profiler library's own levels: it says on the terminal that it starts, otherwise.
_SILENT = "99"


def device_clock(device: torch.device) -> Clock:
    """The process's clock; on CUDA it waits for the device first, which runs behind what Python has asked for."""
    if device.type != "cuda":
        return perf_counter

    def read() -> float:
        torch.cuda.synchronize(device)
        return perf_counter()

    return read


def timed(work: Callable[[], _T], clock: Clock) -> tuple[_T, float]:
    """What ``work`` returns, and the seconds that it took; giving memory back is not part of them."""
    begin = clock()
    made = work()
    return made, clock() - begin


def peak_bytes(work: Callable[[], object], devices: Sequence[torch.device]) -> int:
    """Most bytes that tensors made by ``work``, its result among them, took at once, beyond what was there before.

    CUDA: as its allocator counts, the peaks of several devices added, though they need not fall together. CPU: from the
    profiler's record of torch's allocator, which sees every tensor and the buffers inside its operations, but not what
    a matrix library keeps for itself. The peak of a process's resident memory would add what earlier work freed and the
    C library kept, so it says little about a single request.
    """
    if devices[0].type == "cuda":
        before = 0
        for device in devices:
            torch.cuda.synchronize(device)
            torch.cuda.reset_peak_memory_stats(device)
            before += int(torch.cuda.memory_allocated(device))
        work()
        return sum(int(torch.cuda.max_memory_allocated(device)) for device in devices) - before
    os.environ.setdefault("KINETO_LOG_LEVEL", _SILENT)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        kept = work()
    del kept
    return _peak(record)


def _peak(record: Any) -> int:
    """The highest running sum of what was taken and given back."""
    changes = [event for event in record.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for change in sorted(changes, key=lambda event: int(event.start_ns())):
        now += int(change.nbytes())
        most = max(most, now)
    return most
