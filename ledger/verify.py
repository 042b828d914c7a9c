"""Verify a project's ledger offline: every branch, every entry, every file the entries name, every verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ledger.accounting import check_accounting
from ledger.artifacts import FILE_CODES, check_configs, check_outputs, check_published
from ledger.branches import branch_names, branch_path, ledger_home
from ledger.chain import read_chain
from ledger.checkpoint import checkpoint_of
from ledger.custody import Custody, Trust, check_custody
from ledger.errors import NoLedger
from ledger.findings import Finding, error
from ledger.reports import NOT_INTACT, BranchReport, Report, pinned_state
from ledger.runs import run_records
from ledger.tiers import shown_tiers
from ledger.verdicts import Decided, check_published_verdicts, decide_branch
from ledger.world import World


def verify(root: Path, branches: Sequence[str] | None = None, trust: Trust | None = None) -> Report:
    """Verify the named branches (default: all) of the project at ``root``.

    All branches are read, since starts and forks refer to each other; only the named ones are reported.
    ``trust`` holds the keys and time-stamping roots that the verifier brings along. Raises NoLedger when
    there is no branch, or not the one that was named.
    """
    known = branch_names(root)
    for name in branches or ():
        if name not in known:
            listed = ", ".join(known) or "none"
            raise NoLedger(f"there is no ledger branch {name!r} in {ledger_home(root)} (found: {listed})")
    if not known:
        raise NoLedger(f"there is no ledger in {ledger_home(root)}; type `ledger init` to open one, or pass --root")
    world = World({name: read_chain(branch_path(root, name)) for name in known})
    chosen = [name for name in known if branches is None or name in branches]
    custody = {
        name: check_custody(chain, trust or Trust()) if chain.sound else Custody()
        for name, chain in world.chains.items()
    }
    shown = shown_tiers(root, world, {name: item.vouched for name, item in custody.items()})
    general = [*_copies(world), *(check_published(root, world) if branches is None else ())]
    return Report(tuple(_branch(root, world, name, custody[name], shown) for name in chosen), tuple(general))


def _copies(world: World) -> Iterator[Finding]:
    for name, chain in world.chains.items():
        other = world.by_origin[chain.origin][0]
        if other != name:
            yield error("same_origin", None, f"the branches {name} and {other} are both {chain.origin}")


def _branch(root: Path, world: World, name: str, custody: Custody, shown: dict[tuple[str, int], str]) -> BranchReport:
    chain = world.chains[name]
    findings = [*chain.findings, *custody.findings]
    runs = tuple(run_records(world, name, shown)) if chain.sound else ()
    decided: tuple[Decided, ...] = ()
    if chain.sound:
        # A broken chain has said enough: what its entries claim about others is worth nothing.
        findings += check_accounting(world, name)
        findings += check_outputs(root, world, name)
        findings += check_configs(root, world, name)
    broken = any(item.level == "error" and item.code not in FILE_CODES for item in findings)
    if not broken:
        decided = tuple(decide_branch(root, world, name, runs))
        findings += check_published_verdicts(root, world, decided)
    return BranchReport(
        name=name,
        origin=chain.origin,
        size=len(chain.leaves),
        checkpoint=checkpoint_of(chain.origin, chain.leaves).text(),
        state=NOT_INTACT if broken else pinned_state(len(chain.leaves), custody.vouched),
        findings=tuple(findings),
        runs=runs,
        decided=decided,
        vouched=tuple(custody.vouched),
    )
