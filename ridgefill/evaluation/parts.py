"""Finished items of an interrupted evaluation, so that running it again carries on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ridgefill.files import write_text


class Parts:
    """One JSON file per finished item in ``folder``; an item made under another ``fingerprint`` is not used.

    The fingerprint names everything the rows depend on: configuration, maps, model and registration.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder
        self.fingerprint = fingerprint

    def get(self, item: str) -> dict[str, Any] | None:
        """What was stored for ``item``, or None when it has to be computed."""
        path = self.folder / f"{item}.json"
        try:
            stored = json.loads(path.read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        if not isinstance(stored, dict) or stored.get("fingerprint") != self.fingerprint:
            return None
        payload: dict[str, Any] = stored["payload"]
        return payload

    def put(self, item: str, payload: Mapping[str, Any]) -> None:
        """Store the finished ``item`` (JSON values; floats survive exactly)."""
        record = {"fingerprint": self.fingerprint, "payload": dict(payload)}
        write_text(self.folder / f"{item}.json", json.dumps(record, allow_nan=False))
