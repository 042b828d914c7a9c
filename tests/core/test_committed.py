"""A checkpoint that this repository holds: copied as it was pinned, or refused in one sentence."""

import hashlib
import json
from pathlib import Path

import pytest

from ridgefill.errors import ModelError
from ridgefill.models import source
from ridgefill.settings import CommittedSource, HubSource, ModelConfig, ModelGeometry

GEOMETRY = ModelGeometry(layers=2, hidden=4, heads=1, kv_heads=1, head_dim=4, intermediate=8, vocab=10, context=64)


def model_of(name, its_source):
    return ModelConfig(name=name, family="llama", geometry=GEOMETRY, qk_norm=False, source=its_source)


FILES = {"config.json": b"{}", "model.safetensors": b"weights", "tokenizer.json": b"words"}


@pytest.fixture
def committed(tmp_path):
    """A checkpoint below ``data/models`` of a checkout, and the model that pins it."""
    folder = tmp_path / "data/models/own"
    folder.mkdir(parents=True)
    for name, content in {**FILES, "training.json": b"not read"}.items():
        (folder / name).write_bytes(content)
    pinned = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    own = CommittedSource(kind="committed", folder="data/models/own", files=pinned)
    return folder, model_of("own", own)


def test_a_committed_checkpoint_is_copied_with_the_hashes_of_its_files(committed, tmp_path):
    """Only what is pinned, and a record beside it as a wheel's model has."""
    _folder, model = committed
    assert source.committed_files(model, tmp_path) == [Path("data/models/own") / name for name in FILES]
    source.copy_committed(model, tmp_path, tmp_path / "models/own")
    assert {path.name for path in (tmp_path / "models/own").iterdir()} == {*FILES, source.RECORD}
    record = json.loads((tmp_path / "models/own" / source.RECORD).read_text())
    assert record == {"from": "data/models/own", "files": model.source.files}
    assert source.committed_files(model_of("other", HubSource(kind="hub", repo="some/Tiny-1B")), tmp_path) == []


def test_an_altered_checkpoint_is_refused_and_nothing_is_left(committed, tmp_path):
    """One sentence names the file, what it is and what it should be."""
    folder, model = committed
    (folder / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(
        ModelError, match=r"own/model\.safetensors has SHA-256 \w{64}, expected \w{64}.*restore"
    ) as error:
        source.copy_committed(model, tmp_path, tmp_path / "models/own")
    assert "\n" not in str(error.value)
    assert not any((tmp_path / "models").iterdir())
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"lacks data/models/own/model\.safetensors; restore it"):
        source.committed_files(model, tmp_path)
