"""All branches of a project side by side, and look-ups across them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from ledger.chain import Chain
from ledger.checkpoint import Checkpoint, parse_checkpoint
from ledger.claims import Claim
from ledger.entry import GRADED, Entry
from ledger.errors import ClaimError, FormatError
from ledger.grades import holds, inherited
from ledger.history import History, histories
from ledger.registration import stored_claim


class World:
    """All branches that were read. ``chains`` is by branch name, ``by_origin`` by origin."""

    def __init__(self, chains: Mapping[str, Chain]) -> None:
        self.chains = chains
        self.by_origin = {chain.origin: (name, chain) for name, chain in chains.items()}
        self._results: dict[str, Mapping[int, tuple[Entry, ...]]] = {}
        self._claims: dict[str, Claim | ClaimError | None] = {}
        self._entries = {name: {entry.seq: entry for entry in chain.entries} for name, chain in chains.items()}

    def entry(self, branch: str, seq: int) -> Entry | None:
        """Entry of a branch by number, if it could be read."""
        return self._entries[branch].get(seq)

    def registration_of(self, start: Entry) -> tuple[str, Entry] | None:
        """(branch, entry) of the registration or amendment a start names, if it is here with that leaf hash."""
        wanted = (start.body or {})["registration"]
        if wanted["origin"] not in self.by_origin:
            return None
        branch = self.by_origin[wanted["origin"]][0]
        entry = self.entry(branch, wanted["seq"])
        if entry is None or entry.leaf != wanted["leaf"] or entry.kind not in GRADED:
            return None
        if wanted["origin"] == start.header["origin"] and entry.seq >= start.seq:
            return None
        return branch, entry

    def claim_of(self, version: Entry) -> Claim | None:
        """The claim in a ``register`` or ``amend`` entry, checked once; None when withheld, ClaimError when invalid."""
        if version.leaf not in self._claims:
            try:
                self._claims[version.leaf] = stored_claim(version)
            except ClaimError as failure:
                self._claims[version.leaf] = failure
        found = self._claims[version.leaf]
        if isinstance(found, ClaimError):
            raise found
        return found

    @cached_property
    def withheld(self) -> tuple[Entry, ...]:
        """Entries of all branches whose bodies are not here."""
        return tuple(entry for chain in self.chains.values() for entry in chain.entries if entry.body is None)

    @cached_property
    def registrations(self) -> tuple[tuple[str, History], ...]:
        """(branch, history) of every registration, in the order of branches and entries."""
        return tuple((name, item) for name, chain in self.chains.items() for item in histories(chain.entries))

    @cached_property
    def histories(self) -> Mapping[str, tuple[str, History]]:
        """(branch, history) by the leaf hash of each of its versions."""
        return {version.leaf: (name, item) for name, item in self.registrations for version in item.versions}

    @cached_property
    def starts(self) -> Mapping[str, tuple[tuple[str, Entry], ...]]:
        """(branch, start) by the leaf hash of the registration or amendment it names."""
        found: dict[str, list[tuple[str, Entry]]] = {}
        for name, chain in self.chains.items():
            for entry in chain.entries:
                if entry.kind == "start" and entry.body is not None:
                    found.setdefault(entry.body["registration"]["leaf"], []).append((name, entry))
        return {leaf: tuple(starts) for leaf, starts in found.items()}

    def results(self, branch: str) -> Mapping[int, tuple[Entry, ...]]:
        """Results of a branch, as far as bodies are here, by the number of the start they name."""
        if branch not in self._results:
            found: dict[int, list[Entry]] = {}
            for entry in self.chains[branch].entries:
                if entry.kind == "result" and entry.body is not None:
                    found.setdefault(entry.body["start"]["seq"], []).append(entry)
            self._results[branch] = {seq: tuple(results) for seq, results in found.items()}
        return self._results[branch]

    def starts_under(self, history: History) -> tuple[tuple[str, Entry], ...]:
        """(branch, start) of every start that names the registration or one of its amendments."""
        return tuple(item for version in history.versions for item in self.starts.get(version.leaf, ()))

    def started(self, history: History) -> set[str]:
        """Run ids that any branch started under a registration or its amendments."""
        return {(start.body or {})["run"] for _, start in self.starts_under(history)}

    def find(self, point: Checkpoint) -> Chain | None:
        """The chain a checkpoint belongs to, if it is here and has that root."""
        chain = self.by_origin[point.origin][1] if point.origin in self.by_origin else None
        return chain if chain is not None and holds(chain, point) else None

    def inherited(self, branch: str) -> tuple[Entry, ...] | None:
        """Entries that a branch stands on, oldest first; None when its parent is not here."""
        chain = self.chains[branch]
        return inherited(chain.entries[0] if chain.entries else None, self.find)

    def precedes(self, branch: str, seq: int, other: str, other_seq: int) -> bool:
        """Whether entry ``seq`` of ``branch`` provably came before entry ``other_seq`` of ``other``.

        In one branch the numbers say so. A branch comes after what its ``fork`` entry stands on.
        """
        if branch == other:
            return seq < other_seq
        parent = self._parents.get(other)
        return parent is not None and self.precedes(branch, seq, *parent)

    @cached_property
    def _parents(self) -> Mapping[str, tuple[str, int]]:
        """(parent branch, entries it had) by forked branch; only where the root agrees, so never in a circle."""
        found: dict[str, tuple[str, int]] = {}
        for name in self.chains:
            first = self.entry(name, 0)
            if first is None or first.kind != "fork" or first.body is None:
                continue
            try:
                point = parse_checkpoint(first.body["checkpoint"])
            except FormatError:
                continue  # reported by ledger.accounting
            if self.find(point) is not None and self.by_origin[point.origin][0] != name:
                found[name] = (self.by_origin[point.origin][0], point.size)
        return found
