"""Texts that a user hands over by path: read as strict UTF-8 or JSON, their SHA-256 recorded."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from ridgefill.errors import TextError

_TEXT_SUFFIXES = (".txt", ".md")


class UserText(NamedTuple):
    """A text and the SHA-256 of the bytes it was read from."""

    text: str
    sha256: str


def read_text(path: Path, expected: str | None = None) -> UserText:
    """The text of a file, or of the ``.txt`` and ``.md`` files of a folder in name order, joined by newlines.

    The hash of a folder is that of its files' hashes and relative names. ``expected`` is the hash that the
    text must have. Raises TextError for a missing, unreadable, empty or different text.
    """
    if not _is_folder(path):
        found = _read(path)
    else:
        files = sorted(one for one in path.rglob("*") if one.suffix in _TEXT_SUFFIXES and one.is_file())
        if not files:
            raise TextError(f"the folder {path} holds no file ending in {' or '.join(_TEXT_SUFFIXES)}; put texts there")
        texts = [_read(one) for one in files]
        names = [one.relative_to(path).as_posix() for one in files]
        listing = "".join(f"{text.sha256}  {name}\n" for text, name in zip(texts, names, strict=True))
        found = UserText("\n".join(text.text for text in texts), hashlib.sha256(listing.encode()).hexdigest())
    if expected is not None and found.sha256 != expected:
        raise TextError(
            f"{path} has SHA-256 {found.sha256}, expected {expected}; restore the file or name its new hash"
        )
    return found


def read_json(path: Path, expected: str | None = None) -> tuple[Any, str]:
    """The value of a JSON file and the file's SHA-256. Raises TextError as ``read_text``, and for other text."""
    if _is_folder(path):
        raise TextError(f"{path} is a folder, expected a JSON file")
    found = read_text(path, expected)
    try:
        return json.loads(found.text), found.sha256
    except (ValueError, RecursionError) as error:
        raise TextError(f"{path} is not valid JSON ({error}); fetch the file again") from None


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:
        raise TextError(f"{path!s:.200} is no path ({error.strerror}); correct it in the configuration") from None


def _read(path: Path) -> UserText:
    try:
        data = path.read_bytes()
        text = data.decode("utf-8")
    except FileNotFoundError:
        raise TextError(f"no file at {path}; correct the path in the configuration") from None
    except OSError as error:
        raise TextError(f"cannot read {path} ({error.strerror}); fix its permissions") from None
    except UnicodeDecodeError as error:
        raise TextError(f"{path} is not UTF-8 text (byte {error.start}); convert it") from None
    except ValueError as error:
        raise TextError(f"{path!s:.200} is no path ({error}); correct it in the configuration") from None
    if not text.strip():
        raise TextError(f"{path} is empty, expected a text")
    return UserText(text, hashlib.sha256(data).hexdigest())
