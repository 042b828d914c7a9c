"""Private, read-only copies of what a registration pins, for a command that must read exactly those bytes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ledger.errors import Drifted, WriteFailed
from ledger.files import inside
from ledger.registration import Registration


@dataclass(frozen=True)
class Frozen:
    """Copies of pinned files in ``folder``, at the same relative paths as below ``root``."""

    root: Path
    folder: Path
    paths: tuple[str, ...]

    def command(self, command: Sequence[str]) -> tuple[str, ...]:
        """The command with each word that names a pinned file, also behind ``=``, naming its copy instead."""
        places = {os.path.realpath(self.root / path): str(self.folder / path) for path in self.paths}
        return tuple(self._word(places, word) for word in command)

    def _word(self, places: Mapping[str, str], word: str) -> str:
        option, sign, path = word.partition("=")
        whole = places.get(os.path.realpath(self.root / word))
        behind = places.get(os.path.realpath(self.root / path)) if sign else None
        return whole or (f"{option}={behind}" if behind else word)


@contextlib.contextmanager
def frozen(root: Path, registration: Registration) -> Iterator[Frozen]:
    """Read the claim and each pinned config once, compare those bytes with the registration, keep copies of them.

    Whoever changes a file afterwards changes nothing for the command. Drifted when a file has other bytes. The
    copies (files 0400, or 0500 where the original may be executed; folders 0500) are gone when the block ends.
    """
    contents = _contents(root, registration)
    try:
        folder = Path(tempfile.mkdtemp(prefix="ledger-run-")).resolve()
    except OSError as failure:
        raise WriteFailed(f"cannot make a temporary folder ({failure.strerror}); set TMPDIR") from None
    try:
        try:
            for path, (data, mode) in contents.items():
                _copy(folder / path, data, mode)
            for place, _, _ in os.walk(folder):
                os.chmod(place, 0o500)
        except OSError as failure:
            raise WriteFailed(f"cannot copy the pinned files to {folder} ({failure.strerror})") from None
        yield Frozen(root, folder, tuple(contents))
    finally:
        try:
            _remove(folder)
        finally:  # again, as Ctrl-C may have come in the middle of it
            _remove(folder)


def _contents(root: Path, registration: Registration) -> dict[str, tuple[bytes, int]]:
    """Path -> (registered bytes, mode of the copy) of everything the registration pins."""
    contents = {}
    pinned = {registration.claim_path: registration.claim_sha256, **registration.configs}
    for path, wanted in sorted(pinned.items()):
        try:
            with inside(root, path).open("rb") as stream:
                data, executable = stream.read(), os.fstat(stream.fileno()).st_mode & 0o100
        except OSError as failure:
            raise Drifted(f"{path} cannot be read ({failure.strerror}); restore the registered file") from None
        found = hashlib.sha256(data).hexdigest()
        if found != wanted:
            raise Drifted(
                f"{path} changed (registered {wanted[:12]}, now {found[:12]}) since registration "
                f"#{registration.seq} of branch {registration.branch}: restore the registered bytes, or register "
                f"what is there now with `ledger register {registration.claim_path}`"
            )
        contents[path] = (data, 0o400 | executable)
    return contents


def _copy(path: Path, data: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def _remove(folder: Path) -> None:
    for place, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):
            os.chmod(place, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
