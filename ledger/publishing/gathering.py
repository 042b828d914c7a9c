"""Read and check everything one publication will hold, before any of it is written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ledger.artifacts import results_folder, standing_outputs
from ledger.branches import MAIN
from ledger.chain import Chain
from ledger.errors import FormatError, OutputMismatch, UsageError
from ledger.files import hash_file, inside
from ledger.publishing.redaction import branch_files, pinned_files, redacted, withheld_numbers
from ledger.world import World

RESERVED = ("INDEX.md", "index.json", "SHA256SUMS", ".gitattributes")
LEDGERS = "data/ledger/"


@dataclass(frozen=True)
class Source:
    """A file to publish: its bytes, or the path to copy it from when it is large; hex SHA-256 either way."""

    sha256: str
    data: bytes | None = None
    path: Path | None = None

    @classmethod
    def of(cls, data: bytes) -> Source:
        """Bytes that are in memory."""
        return cls(hashlib.sha256(data).hexdigest(), data)

    def read(self) -> bytes:
        """The bytes; OutputMismatch when a file to copy changed since it was checked."""
        data = self.data if self.path is None else self.path.read_bytes()
        if data is None or hashlib.sha256(data).hexdigest() != self.sha256:
            raise OutputMismatch(f"{self.path} changed while it was published; publish again")
        return data

    def is_at(self, place: Path) -> bool:
        """Whether ``place`` has these bytes already."""
        return place.is_file() and hash_file(place)[0] == self.sha256

    def continues(self, place: Path) -> bool:
        """Whether these bytes may stand for what is at ``place``: the same, or a note with more signatures."""
        if self.is_at(place):
            return True
        if place.suffix != ".note" or not place.is_file():
            return False
        from ledger.signing.notes import parse_note

        try:
            old, new = parse_note(place.read_bytes()), parse_note(self.read())
        except FormatError:
            return False
        return old.text == new.text and set(old.signatures) <= set(new.signatures)


@dataclass(frozen=True)
class Gathered:
    """``ledger`` and ``others`` map paths below the index to files; ``shown`` are entries with their bodies.

    ``changed`` are sentences about pinned files that are not on the disk as they were registered.
    """

    ledger: Mapping[str, Source]
    others: Mapping[str, Source]
    shown: frozenset[int]
    changed: tuple[str, ...]

    @property
    def files(self) -> Mapping[str, Source]:
        """All files, those of the ledger first."""
        return {**self.ledger, **self.others}


def gather(
    root: Path, chain: Chain, branch: str, withhold: Sequence[str], kinds: Sequence[str], results: bool
) -> Gathered:
    """Read one branch and the files that its shown entries name.

    UsageError for entries that cannot be meant or pinned paths that an index needs for itself, OutputMismatch
    for a published output that is missing or has other bytes.
    """
    shown = redacted(chain, withheld_numbers(chain, withhold, kinds))
    prefix = f"{LEDGERS}{branch}/"
    ledger = {prefix + path: Source.of(data) for path, data in branch_files(chain, shown).items()}
    pinned, changed = _pinned(root, shown)
    outputs = dict(_outputs(root, shown, branch)) if results else {}
    outputs |= dict(_beside(root, outputs))
    seen = frozenset(entry.seq for entry in shown.entries if entry.body is not None)
    return Gathered(ledger, {**pinned, **outputs}, seen, tuple(changed))


def _pinned(root: Path, shown: Chain) -> tuple[dict[str, Source], list[str]]:
    files: dict[str, Source] = {}
    changed: list[str] = []
    for (path, sha256), numbers in pinned_files(shown.entries).items():
        if path in RESERVED or path.startswith(LEDGERS) or path.split("/")[0] == ".git":
            raise UsageError(f"entry #{numbers[0]} pins {path}, which an index needs for itself; withhold its body")
        try:
            found = hash_file(inside(root, path))[0]
        except OSError:
            found = "gone"
        if found == sha256:
            files[path] = Source(sha256, path=root / path)
        else:
            named = ", ".join(f"#{seq}" for seq in numbers)
            changed.append(f"{path} as {named} pins it ({sha256[:12]}) is not on the disk (now {found[:12]})")
    return files, changed


def _outputs(root: Path, shown: Chain, branch: str) -> Iterator[tuple[str, Source]]:
    for (experiment, path), output in standing_outputs(World({branch: shown}), branch).items():
        # A branch of one's own keeps no published copies: what its verdicts are decided from is published with it.
        if not output.published and (branch == MAIN or not path.endswith(".parquet")):
            continue
        folder = results_folder(root, branch, experiment)
        name = f"{results_folder(Path(), branch, experiment).as_posix()}/{path}"
        try:
            found = hash_file(inside(folder, path))[0]
        except OSError as failure:
            raise OutputMismatch(
                f"{name}, published by #{output.result}, cannot be read ({failure.strerror}); restore it"
            ) from None
        if found != output.sha256:
            raise OutputMismatch(
                f"{name} has sha256 {found[:12]}, #{output.result} recorded {output.sha256[:12]}; restore the file"
            )
        yield name, Source(output.sha256, path=folder / path)


def _beside(root: Path, outputs: Mapping[str, Source]) -> Iterator[tuple[str, Source]]:
    """JSON files at the top of the outputs' folders: no entry records them, yet verdicts are read with their help."""
    # data/results/EXPERIMENT/... on main, results/EXPERIMENT/... elsewhere
    folders = {"/".join(name.split("/")[: 3 if name.startswith("data/") else 2]) for name in outputs}
    for folder in sorted(folders):
        for path in sorted((root / folder).glob("*.json")):
            if path.is_file() and not path.is_symlink() and f"{folder}/{path.name}" not in outputs:
                yield f"{folder}/{path.name}", Source(hash_file(path)[0], path=path)
