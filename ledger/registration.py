"""Registering a claim, and finding the registration that covers what is on the disk now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger.branches import branch_names, open_branch
from ledger.claims import Claim, claim_from, load_claim
from ledger.entry import Entry
from ledger.errors import ClaimError, Drifted, NotInClaim, Unregistered, UsageError
from ledger.files import hash_file, inside, relative_to
from ledger.store import Ledger

GONE = "gone"


@dataclass(frozen=True)
class Registration:
    """A registration that covers the claim and configs on the disk.

    ``configs`` maps each pinned path to its hex SHA-256; ``leaf`` is the hex leaf hash of the entry.
    """

    branch: str
    origin: str
    seq: int
    leaf: str
    grade: str
    claim: Claim
    claim_path: str
    claim_sha256: str
    configs: Mapping[str, str]


@dataclass(frozen=True)
class Pinned:
    """A claim on the disk with the hashes of everything it pins."""

    claim: Claim
    path: str
    sha256: str
    configs: Mapping[str, str]


def pin(root: Path, claim_path: Path, absent: str | None = None) -> Pinned:
    """Read a claim and hash it and its configs.

    A config that cannot be read is a ClaimError, or gets the hash ``absent`` when one is given.
    """
    path = claim_path if claim_path.is_absolute() else root / claim_path
    name = relative_to(root, path)
    if name is None:
        raise UsageError(f"the claim {claim_path} lies outside {root}; move it into the project")
    claim = load_claim(path, name)
    configs: dict[str, str] = {}
    for config in claim.configs:
        try:
            configs[config] = hash_file(inside(root, config))[0]
        except OSError as failure:
            if absent is not None:
                configs[config] = absent
                continue
            raise ClaimError(
                f"{name}: the pinned config {config} cannot be read ({failure.strerror}); create it or correct the path"
            ) from None
    return Pinned(claim, name, hash_file(path)[0], configs)


def register(root: Path, ledger: Ledger, claim_path: Path) -> tuple[Entry, bool]:
    """Append a registration; returns (entry, new), where new is False if the same one stands already."""
    pinned = pin(root, claim_path)
    for entry in _registrations(ledger.entries()):
        if entry.body is not None and _differences(entry.body, pinned) == []:
            return entry, False
    body = {
        "experiment": pinned.claim.experiment,
        "claim": pinned.claim.data,
        "claim_file": {"path": pinned.path, "sha256": pinned.sha256},
        "configs": _pairs(pinned.configs),
    }
    return ledger.append("register", body), True


def find_registration(root: Path, branches: Sequence[str], claim_path: Path) -> Registration:
    """Find the first registration, in the order of ``branches``, of exactly these bytes.

    Branches that do not exist are passed over. Raises Unregistered when the claim was never registered,
    Drifted when it was but the claim or a pinned config has changed since; both name what to type.
    """
    near: list[tuple[str, Entry, list[str]]] = []
    name = relative_to(root, root / claim_path) or str(claim_path)
    command = f"`ledger register {name}`"
    if not (root / claim_path).is_file():
        raise Unregistered(f"there is no claim file {name}; write one and type {command}")
    pinned = pin(root, root / claim_path, absent=GONE)
    known = branch_names(root)
    for branch in dict.fromkeys(branches):
        if branch not in known:
            continue
        ledger = open_branch(root, branch)
        for entry in _registrations(ledger.entries()):
            if entry.body is None:
                continue
            changes = _differences(entry.body, pinned)
            if not changes:
                return _registration(branch, entry)
            if pinned.path == entry.body["claim_file"]["path"]:
                near.append((branch, entry, changes))
    if near:
        branch, entry, changes = near[-1]
        raise Drifted(
            f"{'; '.join(changes)} since registration #{entry.seq} of branch {branch}: restore the "
            f"registered bytes, or register what is there now with {command}"
        )
    where = ", ".join(branch for branch in branches if branch in known) or "no branch yet"
    raise Unregistered(f"the claim {name} is not registered (looked in: {where}); type {command} first")


def recheck(root: Path, registration: Registration) -> None:
    """Re-read the registration entry and re-hash everything it pins; Unregistered or Drifted."""
    entries = open_branch(root, registration.branch).entries()
    if registration.seq >= len(entries) or entries[registration.seq].leaf != registration.leaf:
        raise Unregistered(
            f"registration #{registration.seq} of branch {registration.branch} is not the entry that was "
            "found before; type `ledger verify`"
        )
    pinned = pin(root, root / registration.claim_path, absent=GONE)
    changes = _differences(entries[registration.seq].body or {}, pinned)
    if changes:
        raise Drifted(
            f"{'; '.join(changes)} since registration #{registration.seq} of branch {registration.branch}: "
            f"restore the registered bytes or type `ledger register {registration.claim_path}`"
        )


def check_allowed(registration: Registration, run_id: str, overrides: Mapping[str, str]) -> None:
    """NotInClaim unless the claim names the run and every override value."""
    claim = registration.claim
    if claim.run(run_id) is None:
        known = ", ".join(run.id for run in claim.runs)
        raise NotInClaim(f"the claim {registration.claim_path} has no run {run_id!r}, expected one of {known}")
    for key, value in overrides.items():
        allowed = claim.overrides.get(key, ())
        if value not in allowed:
            listed = ", ".join(allowed) or "no override"
            raise NotInClaim(
                f"found {key}={value}, but registration #{registration.seq} allows {listed} for {key}; drop "
                f"it, or add it to {registration.claim_path} and register again"
            )


def stored_claim(entry: Entry) -> Claim | None:
    """The claim inside a registration entry; None when its body is withheld. ClaimError when invalid."""
    return None if entry.body is None else claim_from(entry.body["claim"], f"entry #{entry.seq}")


def changed_files(root: Path, body: Mapping[str, Any]) -> Iterator[str]:
    """Sentences about the claim file and configs of a registration that differ on the disk now."""
    for item in (body["claim_file"], *body["configs"]):
        try:
            found = hash_file(inside(root, item["path"]))[0]
        except OSError:
            yield f"{item['path']} is gone"
            continue
        if found != item["sha256"]:
            yield f"{item['path']} changed (registered {item['sha256'][:12]}, now {found[:12]})"


def _registrations(entries: Sequence[Entry]) -> Iterator[Entry]:
    return (entry for entry in entries if entry.kind == "register")


def _differences(body: Mapping[str, Any], pinned: Pinned) -> list[str]:
    registered = {body["claim_file"]["path"]: body["claim_file"]["sha256"]}
    registered |= {item["path"]: item["sha256"] for item in body["configs"]}
    present = {pinned.path: pinned.sha256, **pinned.configs}
    changes = []
    for path in sorted(registered.keys() | present.keys()):
        before, now = registered.get(path), present.get(path)
        if before is None:
            changes.append(f"{path} is new")
        elif now is None:
            changes.append(f"{path} is no longer pinned")
        elif now == GONE:
            changes.append(f"{path} is gone")
        elif before != now:
            changes.append(f"{path} changed (registered {before[:12]}, now {now[:12]})")
    return changes


def _pairs(configs: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"path": path, "sha256": configs[path]} for path in sorted(configs)]


def _registration(branch: str, entry: Entry) -> Registration:
    body = entry.body or {}
    return Registration(
        branch=branch,
        origin=str(entry.header["origin"]),
        seq=entry.seq,
        leaf=entry.leaf,
        grade=str(entry.header["grade"]),
        claim=claim_from(body["claim"], f"entry #{entry.seq}"),
        claim_path=body["claim_file"]["path"],
        claim_sha256=body["claim_file"]["sha256"],
        configs={item["path"]: item["sha256"] for item in body["configs"]},
    )
