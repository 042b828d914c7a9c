"""How a published index is told from any other folder, and whether it was meant to hold result files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ledger.errors import FormatError
from ledger.files import read_plain

INDEX_TYPE = "urn:ridgefill:ledger:index:v1"
INDEX = "index.json"


def read_index(folder: Path) -> dict[str, Any] | None:
    """The object in the folder's ``index.json``, None when there is no such file; FormatError when it is no index."""
    try:
        value = json.loads(read_plain(folder / INDEX))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or value.get("type") != INDEX_TYPE or not isinstance(value.get("results"), bool):
        raise FormatError("bad_index", f"found {folder / INDEX}, which is not the index of a published ledger")
    return value


def results_left_out(root: Path) -> bool:
    """Whether ``root`` is an index that was published without its result files, so their absence is no error."""
    try:
        index = read_index(root)
    except (FormatError, OSError):
        return False
    return index is not None and not index["results"]
