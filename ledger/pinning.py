"""The bytes a claim rests on: the claim file and every config it pins, hashed and compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger.claims import Claim, load_claim
from ledger.errors import ClaimError, UsageError
from ledger.files import hash_file, inside, relative_to

GONE = "gone"


@dataclass(frozen=True)
class Pinned:
    """A claim on the disk with the hex SHA-256 of everything it pins, by path relative to the root."""

    claim: Claim
    path: str
    sha256: str
    configs: Mapping[str, str]

    def body(self) -> dict[str, Any]:
        """The fields of a ``register`` or ``amend`` body that say what is claimed and pinned."""
        return {
            "experiment": self.claim.experiment,
            "claim": self.claim.data,
            "claim_file": {"path": self.path, "sha256": self.sha256},
            "configs": [{"path": path, "sha256": self.configs[path]} for path in sorted(self.configs)],
        }


def pin(root: Path, claim_path: Path, absent: str | None = None) -> Pinned:
    """Read a claim and hash it and its configs.

    A config that cannot be read is a ClaimError, or gets the hash ``absent`` when one is given. UsageError
    for a claim outside ``root``.
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


def differences(body: Mapping[str, Any], pinned: Pinned) -> list[str]:
    """One sentence for each file that a ``register`` or ``amend`` body and the disk disagree about."""
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
            changes.append(_changed(path, before, now))
    return changes


def changed_files(root: Path, body: Mapping[str, Any]) -> Iterator[str]:
    """One sentence for each file that a ``register`` or ``amend`` body pins and the disk has otherwise."""
    for item in (body["claim_file"], *body["configs"]):
        try:
            found = hash_file(inside(root, item["path"]))[0]
        except OSError:
            yield f"{item['path']} is gone"
            continue
        if found != item["sha256"]:
            yield _changed(item["path"], item["sha256"], found)


def _changed(path: str, registered: str, now: str) -> str:
    return f"{path} changed (registered {registered[:12]}, now {now[:12]})"
