"""Branches: the ledgers of one project, each in its own folder below ``data/ledger``."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from ledger import folders
from ledger.errors import NoLedger, UsageError
from ledger.store import Ledger

MAIN = "main"
DEFAULT = "local"


def ledger_home(root: Path) -> Path:
    """Folder that holds the branches of the project at ``root``."""
    return root / "data" / "ledger"


def branch_path(root: Path, branch: str) -> Path:
    """Folder of one branch; UsageError for a name that is not lower-case letters, digits, - and _."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", branch):
        raise UsageError(
            f"found the branch name {branch!r}, expected lower-case letters, digits, - and _ like {DEFAULT!r}"
        )
    return ledger_home(root) / branch


def branch_names(root: Path) -> tuple[str, ...]:
    """All branches, ``main`` first, then by name."""
    home = ledger_home(root)
    names = os.listdir(home) if home.is_dir() else []
    found = [name for name in names if not name.startswith(".") and folders.is_ledger(home / name)]
    return tuple(sorted(found, key=lambda name: (name != MAIN, name)))


def open_branch(root: Path, branch: str) -> Ledger:
    """Open a branch that exists; NoLedger names those that do."""
    path = branch_path(root, branch)
    if not folders.is_ledger(path):
        known = ", ".join(branch_names(root)) or "none"
        raise NoLedger(
            f"there is no ledger branch {branch!r} in {ledger_home(root)} (found: {known}); "
            f"type `ledger init --branch {branch}` or pass --root"
        )
    return Ledger.open(path)


def create_branch(root: Path, branch: str, origin: str | None = None, title: str = "") -> Ledger:
    """Open a new branch: a fork of ``main`` when there is one, else a genesis."""
    path = branch_path(root, branch)
    if branch != MAIN and folders.is_ledger(branch_path(root, MAIN)):
        return Ledger.fork(path, origin or _fresh_origin(branch), open_branch(root, MAIN))
    return Ledger.init(path, origin or _fresh_origin(branch), title)


def open_for_writing(root: Path, branch: str) -> Ledger:
    """Open a branch, creating any but ``main`` when it is missing; safe among several processes."""
    path = branch_path(root, branch)
    if branch != MAIN and not (folders.entry_path(path, 0)).exists():
        try:
            return create_branch(root, branch)
        except UsageError:
            if not folders.entry_path(path, 0).exists():
                raise
    return open_branch(root, branch)


def _fresh_origin(branch: str) -> str:
    return f"{branch}/{secrets.token_hex(8)}"
