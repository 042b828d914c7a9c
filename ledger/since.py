"""Go on from a checkpoint: read and check only the entries that came after it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ledger.branches import DEFAULT, MAIN, branch_names, branch_path
from ledger.chain import Prefix, read_chain
from ledger.checkpoint import Checkpoint
from ledger.checkpoints import known_keys, range_path, read_note, read_range, stored_sizes
from ledger.custody import Trust
from ledger.errors import BrokenLedger, FormatError, NoLedger, UsageError
from ledger.findings import Finding, error, note
from ledger.folders import entry_path


@dataclass(frozen=True)
class Fresh:
    """What was found behind a checkpoint; ``checkpoint`` is the text over everything up to now."""

    branch: str
    since: int
    signers: tuple[str, ...]
    size: int
    checkpoint: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.level != "error" for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """0, or 4 for a broken ledger."""
        return 0 if self.ok else BrokenLedger.exit_code

    def to_json(self) -> dict[str, Any]:
        """The outcome as JSON-ready values."""
        return {**asdict(self), "ok": self.ok}

    def text(self) -> str:
        """The outcome for a person."""
        by = ", ".join(self.signers) or "nobody whose key is known"
        lines = [
            f"{self.branch}: checkpoint {self.since} signed by {by}; {self.size - self.since} entries since then",
            *(f"  {finding.line()}" for finding in self.findings),
            "  not checked: entries before the checkpoint, files that entries name, accounting, verdicts",
        ]
        return "\n".join([*lines, "new entries verified" if self.ok else "VERIFICATION FAILED"])


def verify_since(root: Path, branch: str, size: int, trust: Trust) -> Fresh:
    """Verify the entries of one branch from number ``size`` on.

    What came before is vouched for by the checkpoint of that size: its root must follow from the frontier
    kept beside it and, when ``trust`` names keys, must be signed by one of them. UsageError when there is no
    such checkpoint; FormatError when it does not hold.
    """
    known = branch_names(root)
    name = branch if branch != "all" else (DEFAULT if DEFAULT in known else MAIN)
    path = branch_path(root, name)
    if name not in known:
        raise NoLedger(f"there is no ledger branch {name!r} (found: {', '.join(known) or 'none'})")
    if size not in stored_sizes(path) or not range_path(path, size).exists():
        sizes = ", ".join(str(item) for item in stored_sizes(path)) or "none"
        raise UsageError(f"found no checkpoint {size} of branch {name} to go on from (there: {sizes})")
    point = read_note(path, size).point
    frontier, last = read_range(path, point)
    chain = read_chain(path, Prefix(size, last, point.origin))
    signers = _signers(path, size, trust, chain.entries)
    grown = frontier.extend(bytes.fromhex(leaf) for leaf in chain.leaves)
    total = size + len(chain.leaves)
    findings = list(chain.findings)
    if not entry_path(path, size - 1).exists():
        findings.append(error("truncated", size - 1, f"the last entry that checkpoint {size} vouched for is not here"))
    if not signers:
        findings.append(note("unsigned_checkpoint", None, f"checkpoint {size}: no signature by a key you named"))
    return Fresh(name, size, signers, total, Checkpoint(point.origin, total, grown.root()).text(), tuple(findings))


def _signers(path: Path, size: int, trust: Trust, entries: Any) -> tuple[str, ...]:
    """Names of keys that signed the checkpoint; with keys brought along, one of those must have."""
    from ledger.signing.notes import check_signatures, parse_verifier_key

    brought = tuple(parse_verifier_key(text) for text in trust.keys)
    found = check_signatures(read_note(path, size).note, brought or known_keys(entries))
    if brought and not found:
        raise FormatError("unknown_key", f"checkpoint {size} is signed by none of the keys you named")
    return tuple(f"{item.key.name}+{item.key.key_id.hex()}" for item in found)
