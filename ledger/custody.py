"""Who vouches for a ledger: its key entries, the signatures under its checkpoints, and outside time stamps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ledger.chain import Chain
from ledger.checkpoint import Checkpoint
from ledger.checkpoints import known_keys, read_note, read_range, stored_sizes, stray_names, token_path
from ledger.checkpoints import range_path as frontier_path
from ledger.entry import Entry
from ledger.errors import FormatError
from ledger.files import read_plain
from ledger.findings import Finding, error, from_format, note, warning
from ledger.merkle import Range

if TYPE_CHECKING:
    from ledger.signing.notes import Signed, VerifierKey


@dataclass(frozen=True)
class Trust:
    """What the verifier brings along: C2SP verifier keys, and PEM roots of time-stamping authorities."""

    keys: tuple[str, ...] = ()
    tsa_roots: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Vouched:
    """One checkpoint that agrees with the chain.

    ``signers`` are key names with their ids; ``outside`` says whether one of them is a key the verifier
    brought along, rather than one the ledger itself names. ``stamped`` is the verified time of an outside
    token, UTC like 2026-01-31T23:59:59Z, or None.
    """

    size: int
    signers: tuple[str, ...]
    outside: bool
    stamped: str | None


@dataclass
class Custody:
    """The outcome: what vouches for the ledger, smallest checkpoint first, and what is wrong."""

    vouched: list[Vouched] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def check_custody(chain: Chain, trust: Trust) -> Custody:
    """Check every key entry and stored checkpoint of a chain; only a sound chain is worth asking about."""
    custody = Custody()
    keys = [entry for entry in chain.entries if entry.kind == "key" and entry.body is not None]
    sizes = stored_sizes(chain.path)
    custody.findings += [
        error("unexpected_file", None, f"found checkpoints/{name}, which no checkpoint can have")
        for name in stray_names(chain.path)
    ]
    if keys:
        withheld = any(entry.kind == "key" and entry.body is None for entry in chain.entries)
        custody.findings += _check_keys(keys, withheld)
    if not sizes:
        return custody
    signed: dict[int, tuple[Signed, ...]] = {}
    roots = _roots(chain, sizes)
    for size in sizes:
        try:
            signed[size] = _check_note(chain, size, roots.get(size), trust, custody)
        except FormatError as failure:
            custody.findings.append(from_format(failure, None))
        except OSError as failure:
            custody.findings.append(error("unreadable", None, f"checkpoint {size} cannot be read ({failure.strerror})"))
    custody.findings += _check_rotations(keys, signed)
    return custody


def _roots(chain: Chain, sizes: Sequence[int]) -> dict[int, bytes]:
    """Root of the chain at each size it reaches, in one pass over the leaves."""
    roots, growing = {}, Range.empty()
    for size in sizes:
        if growing.size < size <= len(chain.leaves):
            growing = growing.extend(bytes.fromhex(leaf) for leaf in chain.leaves[growing.size : size])
            roots[size] = growing.root()
    return roots


def _check_note(chain: Chain, size: int, root: bytes | None, trust: Trust, custody: Custody) -> tuple[Signed, ...]:
    from ledger.signing.notes import check_signatures, parse_verifier_key

    stored = read_note(chain.path, size)
    if stored.point.origin != chain.origin:
        raise FormatError("wrong_origin", f"checkpoint {size} is of {stored.point.origin!r}, not {chain.origin!r}")
    brought = tuple(parse_verifier_key(text) for text in trust.keys)
    lost = _lost_before(chain.entries, size)
    known = [key for key in (*brought, *known_keys(chain.entries)) if key.key_id.hex() not in lost]
    found = check_signatures(stored.note, tuple(dict.fromkeys(known)))
    for used in (item.key_id.hex() for item in stored.note.signatures if item.key_id.hex() in lost):
        message = f"checkpoint {size} is signed by the key {used}, which was lost by then; the signature does not count"
        custody.findings.append(warning("lost_key_used", lost[used], message))
    if root is None:
        raise FormatError("truncated", f"{len(chain.leaves)} entries are here, checkpoint {size} vouched for more")
    if root != stored.point.root:
        raise FormatError("checkpoint_mismatch", f"the first {size} entries are not those that checkpoint {size} saw")
    if frontier_path(chain.path, size).exists():
        read_range(chain.path, stored.point)
    if not found:
        custody.findings.append(note("unsigned_checkpoint", None, f"checkpoint {size}: no signature by a known key"))
    outside = any(item.key in brought for item in found)
    stamped = _check_token(chain, stored.point, trust, custody)
    custody.vouched.append(Vouched(size, tuple(_name(item.key) for item in found), outside, stamped))
    return found


def _lost_before(entries: Sequence[Entry], size: int) -> dict[str, int]:
    """Key id -> entry that says it was lost, among the first ``size`` entries."""
    bodies = [(entry.seq, entry.body) for entry in entries if entry.kind == "key" and entry.seq < size]
    return {str(body["replaces"]): seq for seq, body in bodies if body is not None and body["lost"]}


def _check_token(chain: Chain, point: Checkpoint, trust: Trust, custody: Custody) -> str | None:
    path = token_path(chain.path, point.size)
    if not path.exists():
        return None
    if not trust.tsa_roots:
        message = f"checkpoint {point.size} has an outside time stamp; pass --tsa-root FILE to check it"
        custody.findings.append(note("timestamp_unchecked", None, message))
        return None
    from ledger.signing.timestamps import verify_token

    when = verify_token(read_plain(path), point.text().encode("utf-8"), trust.tsa_roots)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def _check_keys(keys: Sequence[Entry], withheld: bool) -> Iterator[Finding]:
    """Do key entries follow from each other; ``withheld`` says that some of them cannot be read here."""
    from ledger.signing.notes import COSIGNATURE, parse_verifier_key

    live: dict[str, str] = {}  # key id -> role
    for entry in keys:
        body = entry.body or {}
        try:
            key = parse_verifier_key(body["public_key"])
        except FormatError as failure:
            yield from_format(failure, entry.seq)
            continue
        if (key.algorithm == COSIGNATURE) != (body["role"] == "cosigner"):
            yield error("bad_key", entry.seq, f"a key of algorithm {key.algorithm} cannot be a {body['role']}'s")
        old = body["replaces"]
        if old is not None and withheld and old not in live:
            yield note("key_unchecked", entry.seq, f"a key entry is withheld, so whose key {old} was is not checked")
        elif old is not None and live.pop(old, None) != body["role"]:
            yield error(
                "unknown_key", entry.seq, f"it replaces the key {old}, which no {body['role']} has at this point"
            )
        if old is None and body["lost"]:
            yield error("unknown_key", entry.seq, "it replaces a lost key without naming it")
        if old is not None and body["lost"]:
            yield warning(
                "signing_break", entry.seq, f"the key {old} was lost; it did not sign that {_name(key)} takes its place"
            )
        if key.key_id.hex() in live:
            yield error("bad_key", entry.seq, f"the key {_name(key)} is there already")
        live[key.key_id.hex()] = body["role"]


def _check_rotations(keys: Sequence[Entry], signed: dict[int, tuple[Signed, ...]]) -> Iterator[Finding]:
    """A rotated key must be handed over by a checkpoint that the old and the new key both signed."""
    for entry in keys:
        body = entry.body or {}
        if body["replaces"] is None or body["lost"]:
            continue
        new = body["public_key"]
        over = [
            {item.key.key_id.hex(): item.key.text() for item in found}
            for size, found in signed.items()
            if size > entry.seq
        ]
        if not any(body["replaces"] in ids and new in ids.values() for ids in over):
            yield warning(
                "rotation_unproven",
                entry.seq,
                f"no checkpoint after it is signed by both the key {body['replaces']} and its successor",
            )


def _name(key: VerifierKey) -> str:
    return f"{key.name}+{key.key_id.hex()}"
