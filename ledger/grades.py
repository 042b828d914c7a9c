"""The grade of a registration, computed from what stands before it in the chain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ledger import folders
from ledger.chain import Chain, read_chain
from ledger.checkpoint import checkpoint_of, parse_checkpoint
from ledger.entry import Entry


def grade_of(body: Mapping[str, Any], before: Iterable[Entry]) -> str:
    """Grade of a ``register`` body given all earlier entries.

    ``follow_up`` when a run of the same experiment had started already, so its results could have been
    seen (a run killed at its last second counts); else ``no_prediction`` when the claim predicts nothing;
    else ``confirmatory``.
    """
    for entry in before:
        if entry.kind == "start" and entry.body and entry.body["experiment"] == body["experiment"]:
            return "follow_up"
    claim = body["claim"]
    predictions = claim.get("predictions") if isinstance(claim, Mapping) else None
    return "confirmatory" if predictions else "no_prediction"


def inherited(path: Path, first: Entry | None) -> tuple[Entry, ...] | None:
    """Entries a fork stands on, oldest first; empty for a genesis, None when the parent is not here.

    The parent is looked for among the sibling folders of ``path`` and must have the root the fork names.
    """
    if first is None or first.kind != "fork":
        return ()
    if first.body is None:
        return None
    point = parse_checkpoint(first.body["checkpoint"])
    for sibling in sorted(path.parent.iterdir()):
        if sibling == path or not folders.is_ledger(sibling):
            continue
        chain = read_chain(sibling)
        if chain.origin == point.origin and holds(chain, point.text()):
            older = inherited(sibling, chain.entries[0] if chain.entries else None)
            return None if older is None else (*older, *chain.entries[: point.size])
    return None


def holds(chain: Chain, checkpoint: str) -> bool:
    """Whether ``chain`` is sound up to and including the checkpoint and has its root there."""
    point = parse_checkpoint(checkpoint)
    if point.size > len(chain.leaves):
        return False
    return checkpoint_of(point.origin, chain.leaves[: point.size]) == point
