"""JSON schemas of the configuration files, generated from :mod:`ridgefill.settings`.

``python -m ridgefill.schemas`` rewrites ``workflow/schemas``; a test fails when they have drifted.
Editors use them for completion, and ``snakemake.utils.validate`` can check a file against them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from ridgefill.settings import ExperimentFile, ModelConfig

SCHEMA_DIR = Path("workflow/schemas")
SCHEMAS: dict[str, type[BaseModel]] = {
    "experiment.schema.json": ExperimentFile,
    "model.schema.json": ModelConfig,
}


def schema_text(name: str) -> str:
    """The file ``name`` of ``workflow/schemas`` as it should read."""
    schema = SCHEMAS[name].model_json_schema()
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Write every schema under the root given as the first argument (default: the current folder)."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    folder = Path(arguments[0] if arguments else ".") / SCHEMA_DIR
    folder.mkdir(parents=True, exist_ok=True)
    for name in SCHEMAS:
        unfinished = folder / f"{name}.tmp"
        unfinished.write_text(schema_text(name), encoding="utf-8")
        os.replace(unfinished, folder / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
