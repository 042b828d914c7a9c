"""Whatever a folder of maps holds, it is read or refused in one sentence; hashes that fit do not make it sound."""

import hashlib
import json
import runpy
import shutil
import warnings
from pathlib import Path

import pytest
import torch
from hypothesis import example, given

from ridgefill.cli import main
from ridgefill.mapfiles.describe import describe
from ridgefill.mapfiles.manifest import MANIFEST, SUMS
from ridgefill.mapfiles.match import require_match
from ridgefill.mapfiles.verify import verify
from ridgefill.maps import RidgeMaps, save_maps
from ridgefill.pretrained import RidgeFillMaps

MANGLING = runpy.run_path(str(Path(__file__).with_name("mangling.py")))
FUZZ, as_json, documents, refused_or_read, spoiled, tensor_files = (
    MANGLING[name] for name in ("FUZZ", "as_json", "documents", "refused_or_read", "spoiled", "tensor_files")
)
LAYER = "proj.L1.safetensors"
ARCHITECTURE = {
    "layers": 3, "hidden": 4, "kv_heads": 1, "layer_types": ["attention"] * 3, "tokenizer_sha256": "0" * 64
}  # fmt: skip
FIT = {"lam": 0.1, "rows": 64, "model": "tiny"}


def written(folder):
    generator = torch.Generator().manual_seed(1)
    maps = RidgeMaps(
        1,
        {layer: torch.randn(4, 4, generator=generator) for layer in (1, 2)},
        {layer: torch.randn(4, generator=generator) for layer in (1, 2)},
    )
    save_maps(folder, maps, architecture=ARCHITECTURE, fit=FIT)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return written(tmp_path_factory.mktemp("sound") / "maps")


def _made(request_folder):
    files = written(request_folder / "maps")
    shutil.rmtree(request_folder)
    return files


SOUND = _made(Path(__import__("tempfile").mkdtemp()))
CONTENT = json.loads(SOUND[MANIFEST])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("spoiled") / "maps"


def digest(data):
    return hashlib.sha256(data).hexdigest()


def look(place, files):
    """Write a folder and do everything that reads one."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, data in files.items():
        (place / name).write_bytes(data)
    refused_or_read(lambda: describe(place))
    refused_or_read(lambda: verify(place))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        maps = refused_or_read(lambda: RidgeFillMaps.from_pretrained(place))
        if maps is not None:
            refused_or_read(lambda: require_match(maps.architecture, ARCHITECTURE))
    return maps


def signed(files):
    """With checksums that fit, of the manifest as of every file that it lists and that is there."""
    try:
        content = json.loads(files[MANIFEST])
        for name in content["files"]:
            if name in files:
                content["files"][name] = digest(files[name])
        files = {**files, MANIFEST: as_json(content)}
        names = [*content["files"], MANIFEST]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        content, names = None, [LAYER, MANIFEST]
    lines = []
    for name in names:
        known = content["files"].get(name) if isinstance(content, dict) and name not in files else None
        lines.append(f"{known if known else digest(files.get(name, b''))}  {name}\n")
    return {**files, SUMS: "".join(lines).encode("utf-8", "surrogatepass")}


def test_the_sound_folder_is_read(place):
    assert look(place, SOUND).split == 1
    assert look(place, signed(SOUND)).split == 1


@FUZZ
@given(content=documents(CONTENT))
@example(content={**CONTENT, "architecture": {**ARCHITECTURE, "layers": 10**15}})
@example(content={**CONTENT, "architecture": {**ARCHITECTURE, "layers": float("inf")}})
@example(content={**CONTENT, "files": {**CONTENT["files"], "a\0b": "0" * 64}})
@example(content={**CONTENT, "files": {**CONTENT["files"], "\ud800": "0" * 64}})
@example(content={**CONTENT, "files": {**CONTENT["files"], "..": "0" * 64}})
@example(content={**CONTENT, "files": {**CONTENT["files"], f"proj.L{'1' * 5000}.safetensors": "0" * 64}})
@example(content={**CONTENT, "architecture": {**ARCHITECTURE, "layer_types": 3}})
def test_values_of_a_manifest(place, content):
    look(place, signed({**SOUND, MANIFEST: as_json(content)}))


@FUZZ
@given(data=spoiled(SOUND[MANIFEST]))
@example(data=b"[" * 100_000)
@example(data=b'{"format": 1, "split": ' + b"9" * 5000 + b"}")
def test_bytes_of_a_manifest(place, data):
    look(
        place,
        {**SOUND, MANIFEST: data, SUMS: SOUND[SUMS].replace(digest(SOUND[MANIFEST]).encode(), digest(data).encode())},
    )


@FUZZ
@given(data=spoiled(SOUND[SUMS]))
def test_bytes_of_the_checksums(place, data):
    look(place, {**SOUND, SUMS: data})


@FUZZ
@given(data=tensor_files(SOUND[LAYER]))
def test_a_layers_file(place, data):
    look(place, signed({**SOUND, LAYER: data}))


@FUZZ
@given(content=documents(CONTENT, most=1))
def test_the_commands_say_one_sentence(place, content, capsys):
    look(place, signed({**SOUND, MANIFEST: as_json(content)}))
    for words in (
        ["maps", "inspect", str(place)],
        ["maps", "verify", str(place)],
        ["maps", "verify", str(place), "--json"],
    ):
        code = main(words)
        said = capsys.readouterr().err
        assert code in (0, 4)
        assert "Traceback" not in said
        assert bool(code) == said.startswith("error: ")
