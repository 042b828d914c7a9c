"""The grade of a registration or amendment, computed from what stands before it in the chain."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ledger import folders
from ledger.chain import Chain, read_chain
from ledger.checkpoint import Checkpoint, checkpoint_of, parse_checkpoint
from ledger.entry import Entry


def grade_of(body: Mapping[str, Any], started: Collection[str]) -> str:
    """Grade of a ``register`` or ``amend`` body, given the experiments of which a run had started before it.

    ``follow_up`` when a run of the same experiment had started already, so its results could have been
    seen (a run killed at its last second counts); else ``no_prediction`` when the claim predicts nothing;
    else ``confirmatory``.
    """
    if body["experiment"] in started:
        return "follow_up"
    claim = body["claim"]
    predictions = claim.get("predictions") if isinstance(claim, Mapping) else None
    return "confirmatory" if predictions else "no_prediction"


def started_experiments(entries: Iterable[Entry]) -> set[str]:
    """Experiments of which a run was started among ``entries``, as far as bodies are here."""
    return {entry.body["experiment"] for entry in entries if entry.kind == "start" and entry.body is not None}


Find = Callable[[Checkpoint], Chain | None]


def inherited(first: Entry | None, find: Find) -> tuple[Entry, ...] | None:
    """Entries a fork stands on, oldest first; empty for a genesis, None when the parent is not here.

    ``find`` returns the chain that a checkpoint belongs to, with the root it names, or None.
    """
    if first is None or first.kind != "fork":
        return ()
    if first.body is None:
        return None
    point = parse_checkpoint(first.body["checkpoint"])
    chain = find(point)
    if chain is None:
        return None
    older = inherited(chain.entries[0] if chain.entries else None, find)
    return None if older is None else (*older, *chain.entries[: point.size])


def among_siblings(path: Path) -> Find:
    """Look for parents among the ledgers beside the one in ``path``, reading them from the disk."""

    def find(point: Checkpoint) -> Chain | None:
        for sibling in sorted(path.parent.iterdir()):
            if folders.is_ledger(sibling):
                chain = read_chain(sibling)
                if chain.origin == point.origin and holds(chain, point):
                    return chain
        return None

    return find


def holds(chain: Chain, point: Checkpoint) -> bool:
    """Whether ``chain`` has at least the checkpoint's entries and its root there."""
    if point.size > len(chain.leaves):
        return False
    return checkpoint_of(point.origin, chain.leaves[: point.size]) == point
