"""Do the files on the disk agree with the entries: outputs of runs, pinned configs, unregistered results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ledger.branches import MAIN
from ledger.entry import GRADED, Entry
from ledger.errors import FormatError
from ledger.files import hash_file, inside
from ledger.findings import Finding, error, from_format, note
from ledger.measures import MeasureError
from ledger.numbers import check_parquet, parquet_metadata
from ledger.pinning import changed_files
from ledger.publishing.marker import results_left_out
from ledger.world import World

FILE_CODES = frozenset(
    {
        "output_changed",
        "output_missing",
        "not_a_number",
        "config_drift",
        "unregistered_results",
        "unregistered_output",
        "wrong_output_seed",
        "wrong_verdict",
    }
)
SEED_KEY = "run_seed"  # Parquet metadata: the seed an output was drawn from, in decimal digits
_NAMED = 3


@dataclass(frozen=True)
class Output:
    """The output that stands for a path: the one of the last successful result naming it."""

    sha256: str
    published: bool
    result: int
    start: Entry


def results_folder(root: Path, branch: str, experiment: str) -> Path:
    """Where outputs are looked up: ``data/results`` for ``main``, ``results`` for every other branch."""
    return (root / "data" / "results" if branch == MAIN else root / "results") / experiment


def standing_outputs(world: World, branch: str) -> dict[tuple[str, str], Output]:
    """(experiment, path) -> output, over the successful results of one branch."""
    outputs: dict[tuple[str, str], Output] = {}
    for entry in world.chains[branch].entries:
        if entry.kind != "result" or entry.body is None or entry.body["status"] != "ok":
            continue
        start = world.entry(branch, entry.body["start"]["seq"])
        if start is None or start.kind != "start" or start.body is None:
            continue
        for item in entry.body["outputs"]:
            key = (start.body["experiment"], item["path"])
            outputs[key] = Output(item["sha256"], item["published"], entry.seq, start)
    return outputs


def _last_withheld(world: World, branch: str) -> int:
    """The last result of a branch whose outputs are not known here, or -1: it may have replaced earlier ones."""

    def hidden(entry: Entry) -> bool:
        start = None if entry.body is None else world.entry(branch, entry.body["start"]["seq"])
        return start is None or start.body is None

    results = (entry for entry in world.chains[branch].entries if entry.kind == "result")
    return max((entry.seq for entry in results if hidden(entry)), default=-1)


def check_outputs(root: Path, world: World, branch: str) -> Iterator[Finding]:
    """Compare every standing output with the file on the disk."""
    others = [standing_outputs(world, name) for name in world.chains if name != branch]
    absent: dict[int, list[str]] = {}
    withheld = _last_withheld(world, branch)
    for (experiment, path), output in standing_outputs(world, branch).items():
        folder = results_folder(root, branch, experiment)
        try:
            found, _ = hash_file(inside(folder, path))
        except FormatError as failure:
            yield from_format(failure, output.result)
            continue
        except OSError:
            if branch == MAIN and output.published and not results_left_out(root):
                yield error("output_missing", output.result, f"{experiment}/{path} is published but not there")
            else:
                absent.setdefault(output.result, []).append(path)
            continue
        if found == output.sha256:
            if path.endswith(".parquet"):
                yield from _check_table(inside(folder, path), f"{experiment}/{path}", output)
            continue
        standing = [other[experiment, path] for other in others if (experiment, path) in other]
        if branch != MAIN and any(item.sha256 == found for item in standing):
            yield note("superseded", output.result, f"{experiment}/{path} is now that of another branch's run")
        elif output.result < withheld:
            message = f"{experiment}/{path} has other bytes; #{withheld}, which is withheld, may have replaced it"
            yield note("output_unchecked", output.result, message)
        else:
            yield error(
                "output_changed",
                output.result,
                f"{experiment}/{path} has sha256 {found[:12]}, recorded was {output.sha256[:12]}",
            )
    for seq, paths in absent.items():
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        yield note("output_absent", seq, f"not here: {', '.join(paths[:_NAMED])}{more}")


def _check_table(path: Path, name: str, output: Output) -> Iterator[Finding]:
    """A result file holds no NaN and, if it states a seed, that of its run; one that is no Parquet is only noted."""
    try:
        stated = parquet_metadata(path).get(SEED_KEY)
    except MeasureError:
        message = f"{name} is not a readable Parquet file, so it can decide nothing"
        yield note("unreadable_results", output.result, message)
        return
    seed = (output.start.body or {})["seed"]
    if stated not in (None, seed):
        yield error("wrong_output_seed", output.result, f"{name} was drawn from seed {stated}, its run had {seed}")
    for said in check_parquet(path):
        yield error("not_a_number", output.result, said.replace(str(path), name))


def check_configs(root: Path, world: World, branch: str) -> Iterator[Finding]:
    """Compare what registrations pin with the disk; an error only under results that ``main`` publishes."""
    withheld = _last_withheld(world, branch)
    under = {
        found[1].leaf
        for output in standing_outputs(world, branch).values()
        if output.published and output.result > withheld and (found := world.registration_of(output.start)) is not None
    }
    for entry in world.chains[branch].entries:
        if entry.kind not in GRADED or entry.body is None:
            continue
        changes = "; ".join(changed_files(root, entry.body))
        if changes and branch == MAIN and entry.leaf in under:
            yield error("config_drift", entry.seq, f"{changes}, yet its results are published")
        elif changes and _can_launch(world, entry):
            yield note("config_changed", entry.seq, f"{changes}; this registration can launch no run any more")


def _can_launch(world: World, version: Entry) -> bool:
    """Whether a registration or amendment is the last version of one that was not voided."""
    if version.leaf not in world.histories:
        return False
    _, history = world.histories[version.leaf]
    return history.void is None and history.current.leaf == version.leaf


def check_published(root: Path, world: World) -> Iterator[Finding]:
    """Results below ``data/results`` that no successful result of ``main`` names."""
    home = root / "data" / "results"
    folders = sorted(path for path in home.iterdir() if path.is_dir()) if home.is_dir() else []
    known = standing_outputs(world, MAIN) if MAIN in world.chains else {}
    withheld = MAIN in world.chains and any(entry.body is None for entry in world.chains[MAIN].entries)
    level = note if withheld else error
    for folder in folders:
        mine = {path for experiment, path in known if experiment == folder.name}
        if not mine:
            yield level("unregistered_results", None, f"data/results/{folder.name}: no result entry names it")
            continue
        for file in sorted(folder.rglob("*.parquet")):
            path = file.relative_to(folder).as_posix()
            if path not in mine:
                yield level(
                    "unregistered_output",
                    None,
                    f"data/results/{folder.name}/{path}: no result entry names it",
                )
