"""The whole reproduction: verify, rebuild, compare, decide, write ``claims.md`` and ``claims.json``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from ridgefill.errors import ConfigError, RidgeFillError
from ridgefill.files import write_text
from ridgefill.results import write_json
from workflow.reproduce.claims import ClaimFound, claims_found
from workflow.reproduce.evidence import Evidence, gather
from workflow.reproduce.outcome import Outcome
from workflow.reproduce.rebuild import Rebuilt, published_names, rebuild
from workflow.reproduce.text import claims_markdown, experiment_line

TARGET = Path("results/reproduced")
MARK = "README.md"
MARK_TEXT = """\
# Rebuilt by `make reproduce`

From data/results and data/ledger/main alone; every run removes these folders and writes them anew. `claims.md` says
what was expected and what was found, `claims.json` the same for programs.
"""


def reproduce(root: Path, target: Path, jobs: int, say: Callable[[str], None], only: Sequence[str] = ()) -> Outcome:
    """Rebuild every published experiment of the project at ``root`` (or ``only`` some) below ``target``; judge all.

    ``jobs``: processes to use. ``say`` gets a line per experiment, in their order. Raises NoLedger and ResultsError
    where there is nothing to reproduce.
    """
    evidence = gather(root)
    names = published_names(evidence)
    if unknown := [name for name in only if name not in names]:
        raise ConfigError(f"found experiment {unknown[0]!r}, expected one with published results: {', '.join(names)}")
    names = tuple(name for name in names if not only or name in only)
    _claim_folder(root, target)
    rebuilt: list[Rebuilt] = []
    # Fresh processes: a fork of one that has read Parquet may hang in its threads.
    with ProcessPoolExecutor(min(jobs, len(names)), get_context("spawn")) as pool:
        for one in pool.map(partial(rebuild, evidence, target=target), names):
            rebuilt.append(one)
            say(f"[{len(rebuilt)}/{len(names)}] {experiment_line(one)}")
    claims, errors = _claims(evidence)
    outcome = Outcome(tuple(rebuilt), claims, evidence.report.state, (*evidence.errors, *errors))
    write_text(target / "claims.md", claims_markdown(outcome))
    write_json(target / "claims.json", outcome.to_json())
    return outcome


def _claim_folder(root: Path, target: Path) -> None:
    """Make ``target`` ours, or refuse one whose contents are somebody's: what is rebuilt is removed first."""
    if target.resolve().is_relative_to((root / "data").resolve()):
        raise ConfigError(f"found {target} to write to, which is published data; choose a folder outside of data")
    if target.exists() and not target.is_dir():
        raise ConfigError(f"found {target} to write to, which is a file; choose a folder")
    if target.is_dir() and any(target.iterdir()) and not (target / MARK).is_file():
        raise ConfigError(f"{target} holds files that were not rebuilt here; choose another folder, or empty it")
    write_text(target / MARK, MARK_TEXT)


def _claims(evidence: Evidence) -> tuple[tuple[ClaimFound, ...], tuple[str, ...]]:
    """The claims, and why there are none where they cannot be read."""
    try:
        return claims_found(evidence), ()
    except RidgeFillError as error:
        return (), (str(error),)
