"""Suites whose items several jobs can make: each a share of them, and one that writes the tables from all.

Finished items are files. A shard makes those of its share; the job of the whole suite makes what is missing, which
after the shards is nothing, and writes the tables. So how many shards there are changes no byte of them.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ridgefill.arms import Arm
from ridgefill.evaluation.parts import Parts
from ridgefill.files import write_text
from ridgefill.progress import progress
from ridgefill.results import write_table
from workflow.gate import MOST_SHARDS
from workflow.jobs import common
from workflow.jobs.common import Job, job_from
from workflow.jobs.memory import NOTES, Tables, halving, notes_of
from workflow.jobs.opened import open_run, shard_of, shards_folder, whole_run

if TYPE_CHECKING:
    from ridgefill.evaluation.runs import Setup

One = TypeVar("One")
Run = TypeVar("Run", bound="Setup")


@dataclass(frozen=True)
class Share:
    """One of ``of`` equal shares of a suite; ``number`` counts from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Share:
        """``2/8`` as the second of eight shares; ArgumentTypeError says what was expected."""
        number, _, of = text.partition("/")
        if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of) <= MOST_SHARDS):
            raise argparse.ArgumentTypeError(f"found {text!r}, expected a share such as 2/8, of at most {MOST_SHARDS}")
        return cls(int(number), int(of))

    def of_items(self, items: Sequence[One]) -> Sequence[One]:
        """Every ``of``-th item: items are ordered by length, so each share has its part of the long ones."""
        return items[self.number - 1 :: self.of]


@dataclass(frozen=True)
class Item:
    """What is finished at once: one batch of arms on prompts of one length, with one decode batch at most.

    name: of its file. make: its rows, by table; it must not depend on the items made before it. size: how many of the
    suite's units, which count once for each batch of arms.
    """

    name: str
    make: Callable[[], Tables]
    size: int = 1


@dataclass(frozen=True)
class Prepared:
    """A suite with its model loaded. items: in the order of the tables' rows. said: the job's last word. metadata:
    of its files, beside what every file has."""

    items: Sequence[Item]
    said: str
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """A suite that can be divided.

    run: its run in the ledger, and its folder. unit: what is counted. files, schemas: by table. prepare: loads the
    model and names the items, the same ones for every share. reads: files it reads beside what was fitted.
    """

    run: str
    unit: str
    files: Mapping[str, str]
    schemas: Mapping[str, str]
    prepare: Callable[[Job], Prepared]
    reads: Callable[[Job], Sequence[Path]] = lambda _: ()


def in_batches(run: Run, arms: Sequence[Arm], together: int | None) -> list[Run]:
    """The same run with at most ``together`` of ``arms`` at a time, in order; with all of them at once for None."""
    step = together or max(1, len(arms))
    return [replace(run, arms=arms[first : first + step]) for first in range(0, len(arms), step)]


def fewer_arms(make: Callable[[Run], Tables], run: Run, what: str) -> Tables:
    """``make(run)``; where memory runs out, with half of its arms at a time."""
    return halving(lambda arms: make(replace(run, arms=arms)), run.arms, f"arms on {what}")


def items_of(name: str, make: Callable[[Run], Tables], batches: Sequence[Run], size: int = 1) -> list[Item]:
    """An item for each batch of arms, whose rows ``make`` gives; in fewer arms at a time where memory runs out."""
    makes = [partial(fewer_arms, make, batch, name) for batch in batches]
    if len(makes) == 1:
        return [Item(name, makes[0], size)]
    return [Item(f"{name}-arms{number}", each, size) for number, each in enumerate(makes, start=1)]


def parser(description: str) -> argparse.ArgumentParser:
    """The command line of a suite's job: the whole suite, one share of it, or only the opening of its attempt."""
    made = common.parser(description)
    part = made.add_mutually_exclusive_group()
    part.add_argument("--open", action="store_true", help="open the attempt that shards work under, and end")
    part.add_argument("--shard", type=Share.parse, metavar="K/N", help="finish the items of share K of N, and end")
    return made


def evaluate_suite(suite: Suite, arguments: argparse.Namespace) -> str:
    """Do what the command line says; finished items are not made again. Returns the job's last word."""
    job = job_from(arguments)
    from workflow.jobs.evaluate import fitted_inputs, open_parts

    reads = [*fitted_inputs(job), *suite.reads(job)]

    def parts() -> Parts:
        return open_parts(job, suite.run, reads)

    if arguments.open:
        opened = open_run(job, suite.run, reads, parts().fingerprint)
        return f"{suite.run}: attempt #{opened.seq} of branch {opened.branch} is open"
    if arguments.shard is not None:
        return _make_share(suite, job, arguments.shard, parts())
    return _make_whole(suite, job, reads, parts)


def _make_share(suite: Suite, job: Job, share: Share, parts: Parts) -> str:
    name = f"{suite.run} {share.number}/{share.of}"
    with shard_of(job, suite.run, share.number, parts.fingerprint) as opened:
        items = share.of_items(suite.prepare(job).items)
        for _ in _finished(suite, parts, items, name):
            pass
        record = {"attempt": f"{opened.branch}/{opened.seq}", "items": [item.name for item in items]}
        marker = shards_folder(job, suite.run) / f"{share.number}-of-{share.of}.json"
        write_text(marker, json.dumps(record) + "\n")
    return f"{name}: {sum(item.size for item in items)} {suite.unit}"


def _make_whole(suite: Suite, job: Job, reads: Sequence[Path], open_parts: Callable[[], Parts]) -> str:
    tables: dict[str, list[Mapping[str, Any]]] = {name: [] for name in suite.files}
    with whole_run(job, suite.run, reads, lambda: open_parts().fingerprint) as attempt:
        prepared = suite.prepare(job)
        parts, notes = open_parts(), list[str]()
        for done in _finished(suite, parts, prepared.items, suite.run):
            for name in tables:
                tables[name] += done[name]
            notes += notes_of([done])
        metadata = {**job.metadata(attempt), **prepared.metadata}
        if notes:
            metadata[NOTES] = json.dumps(notes)
        for name, rows in tables.items():
            write_table(job.out / suite.files[name], suite.schemas[name], rows, metadata)
        files = list(suite.files.values())
        attempt.finish(files, job.out, published=files)
    for folder in (parts.folder, shards_folder(job, suite.run)):
        shutil.rmtree(folder, ignore_errors=True)
    return prepared.said


def _finished(suite: Suite, parts: Parts, items: Sequence[Item], stage: str) -> Iterator[Tables]:
    """Rows of each item, made now or before."""
    with progress(sum(item.size for item in items), stage, suite.unit) as bar:
        for item in items:
            done: Tables | None = parts.get(item.name)
            if done is None:
                made = item.make()
                done = {name: made[name] for name in (*suite.files, NOTES) if name in made}
                parts.put(item.name, done)
            yield done
            bar.update(item.size)
