"""Proofs out of a ledger: which checkpoint they stand on, and making them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ledger.branches import open_branch
from ledger.canonical import canonical
from ledger.chain import Chain, read_chain
from ledger.checkpoint import Checkpoint, checkpoint_of
from ledger.checkpoints import note_path, read_note, stored_sizes
from ledger.errors import BrokenLedger, FormatError, UsageError
from ledger.findings import refuse_errors
from ledger.merkle import consistency_proof, inclusion_proof
from ledger.publishing.proofs import Consistency, Inclusion


@dataclass(frozen=True)
class Standing:
    """What a proof stands on: a stored checkpoint, or (``stored`` False) the ledger as it is now."""

    text: str
    point: Checkpoint
    stored: bool

    def sentence(self) -> str:
        """For people."""
        if self.stored:
            return f"the stored checkpoint of {self.point.origin} at {self.point.size} entries"
        return (
            f"{self.point.origin} as it stands now at {self.point.size} entries (no stored checkpoint holds it, "
            "so nothing is signed; `ledger checkpoint` makes one)"
        )


def sound_chain(root: Path, branch: str) -> Chain:
    """The chain of a branch; NoLedger when there is none, BrokenLedger when it does not verify."""
    chain = read_chain(open_branch(root, branch).path)
    refuse_errors(branch, chain.findings)
    return chain


def standing(chain: Chain, at_least: int) -> Standing:
    """The newest stored checkpoint of at least ``at_least`` entries, else the ledger as it stands.

    BrokenLedger when that checkpoint is not one of this ledger.
    """
    sizes = [size for size in stored_sizes(chain.path) if size >= at_least]
    return _stored(chain, max(sizes)) if sizes else _bare(chain, len(chain.leaves))


def prove_inclusion(chain: Chain, seq: int) -> tuple[Inclusion, Standing]:
    """Proof that entry ``seq`` is in the ledger; UsageError when there is no such entry."""
    if not 0 <= seq < len(chain.entries):
        raise UsageError(
            f"branch {chain.path.name} has no entry #{seq}, expected 0 to {len(chain.entries) - 1}; "
            "type `ledger log` for the list"
        )
    ground = standing(chain, seq + 1)
    proof = Inclusion(
        header=canonical(dict(chain.entries[seq].header)),
        hashes=inclusion_proof(_leaves(chain, ground.point.size), seq),
        checkpoint=ground.text,
    )
    proof.check()
    return proof, ground


def prove_consistency(chain: Chain, size: int) -> tuple[Consistency, Standing]:
    """Proof that the ledger still begins with its first ``size`` entries; UsageError for another size."""
    if not 1 <= size <= len(chain.leaves):
        raise UsageError(
            f"found --since {size}, but branch {chain.path.name} has {len(chain.leaves)} entries; "
            "give the size of the checkpoint you hold"
        )
    ground = standing(chain, size)
    old = _stored(chain, size) if size in stored_sizes(chain.path) else _bare(chain, size)
    proof = Consistency(old.text, consistency_proof(_leaves(chain, ground.point.size), size), ground.text)
    proof.check()
    return proof, ground


def _stored(chain: Chain, size: int) -> Standing:
    path = note_path(chain.path, size)
    try:
        stored = read_note(chain.path, size)
    except FormatError as failure:
        raise BrokenLedger(f"the stored checkpoint {path} cannot be read ({failure}); type `ledger verify`") from None
    if size > len(chain.leaves) or stored.point != checkpoint_of(chain.origin, chain.leaves[:size]):
        raise BrokenLedger(f"the stored checkpoint {path} is not one of this ledger; type `ledger verify`")
    return Standing(stored.note.encode().decode("utf-8"), stored.point, True)


def _bare(chain: Chain, size: int) -> Standing:
    point = checkpoint_of(chain.origin, chain.leaves[:size])
    return Standing(point.text(), point, False)


def _leaves(chain: Chain, size: int) -> list[bytes]:
    return [bytes.fromhex(leaf) for leaf in chain.leaves[:size]]
