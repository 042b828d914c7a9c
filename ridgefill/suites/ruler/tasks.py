"""The table of the thirteen tasks (EVALUATION section 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ridgefill.errors import ConfigError
from ridgefill.suites.ruler.chains import Chain
from ridgefill.suites.ruler.counting import CodedWords, CommonWords
from ridgefill.suites.ruler.plans import Plan
from ridgefill.suites.ruler.reading import Reading
from ridgefill.suites.ruler.retrieval import Retrieval


@dataclass(frozen=True)
class Task:
    """One task: its name, how its samples come about, tokens for the answer, and ``all`` or ``part``."""

    name: str
    plan: Plan
    new_tokens: int = 128
    metric: str = "all"


TASKS: Mapping[str, Task] = MappingProxyType(
    {
        task.name: task
        for task in (
            Task("niah_single_1", Retrieval("noise")),
            Task("niah_single_2", Retrieval("essays")),
            Task("niah_single_3", Retrieval("essays", value="uuid")),
            Task("niah_multikey_1", Retrieval("essays", keys=4)),
            Task("niah_multikey_2", Retrieval("needles")),
            Task("niah_multikey_3", Retrieval("needles", key="uuid", value="uuid")),
            Task("niah_multivalue", Retrieval("essays", values=4)),
            Task("niah_multiquery", Retrieval("essays", keys=4, queries=4)),
            Task("vt", Chain(hops=4), new_tokens=30),
            Task("cwe", CommonWords(common=10), new_tokens=120),
            Task("fwe", CodedWords(letters=6), new_tokens=50),
            Task("qa_1", Reading(), new_tokens=32, metric="part"),
            Task("qa_2", Reading(), new_tokens=32, metric="part"),
        )
    }
)


def find_task(name: str) -> Task:
    """The task called ``name``; ConfigError names the known ones."""
    if name not in TASKS:
        raise ConfigError(f"no retrieval task {name!r}; the known tasks are {', '.join(TASKS)}")
    return TASKS[name]
