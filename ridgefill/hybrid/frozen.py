"""``python -m ridgefill.hybrid.frozen FOLDER``: the manifests of the texts in the synthetic language, as three files.

The texts follow from their generator, so freezing again gives the same files; a new version of the generator would be
another entry of ``GENERATORS``, beside the old one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ridgefill.files import write_text
from ridgefill.hybrid.texts import DOMAINS, archive, files
from ridgefill.suites.manifest import Document, save_manifest, text_hash, text_set

SOURCE, VERSION, LICENCE = "hybrid-language", "1", "Apache-2.0"
EPISODES = "episodes"
"""Domain of the calibration and held-out texts."""


def source_entry() -> dict[str, Any]:
    """The source as a sources file has it."""
    return {
        "kind": "generated",
        "distribution": SOURCE,
        "version": VERSION,
        "sha256": hashlib.sha256(archive()).hexdigest(),
        "licence": LICENCE,
        "domain": None,
        "members": ["*/*.txt"],
    }


def documents() -> list[Document]:
    """Every text whole: evaluation documents domain by domain, then held-out and calibration texts."""
    texts = files()
    roles = dict.fromkeys(DOMAINS, "evaluation") | {"heldout": "heldout", "calibration": "calibration"}
    return [
        _document(member, texts[member], role, EPISODES if role == folder else folder)
        for folder, role in roles.items()
        for member in sorted(texts)
        if member.startswith(f"{folder}/")
    ]


def _document(member: str, text: str, role: str, domain: str) -> Document:
    name = f"{SOURCE}/{member.removesuffix('.txt')}"
    return Document(name, role, domain, SOURCE, member, 0, len(text), text_hash(text), LICENCE)


def freeze(folder: Path) -> None:
    """Write the set's three files."""
    paths, found = text_set(folder / "documents.json"), documents()
    write_text(paths.sources, json.dumps({SOURCE: source_entry()}, indent=2) + "\n")
    save_manifest(paths.documents, [one for one in found if one.role == "evaluation"])
    save_manifest(paths.calibration, [one for one in found if one.role != "evaluation"])


def main(argv: Sequence[str] | None = None) -> int:
    """Freeze into the folder that is named."""
    parser = argparse.ArgumentParser(prog="python -m ridgefill.hybrid.frozen", description=__doc__)
    parser.add_argument("folder", type=Path)
    freeze(parser.parse_args(argv).folder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
