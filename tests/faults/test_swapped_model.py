"""A model file that is replaced by another: after registering, and between the jobs of one experiment."""

from __future__ import annotations

import hashlib
import json
import os

import pytest
from faults_book import attempts, verified

pytestmark = [pytest.mark.xdist_group("faults"), pytest.mark.slow]


@pytest.fixture
def other_weights(checkout):
    """Other weights of the same shapes, with the time of the old file, as a copy that keeps times would have."""
    from safetensors.torch import load_file, save_file

    path = checkout.root / "model/model.safetensors"
    before, state = path.read_bytes(), path.stat()
    weights = load_file(path)
    weights["model.layers.5.mlp.down_proj.weight"] *= 1.5
    save_file(weights, path, metadata={"format": "pt"})
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert path.stat().st_size == len(before)
    return path, before


def test_a_model_swapped_after_registering_is_recorded_as_the_one_that_was_run(checkout, job, other_weights):
    """A hub model without a pinned revision is held against nothing: the start of the capture says what it was."""
    path, before = other_weights
    assert job(checkout, "capture").returncode == 0
    seq = attempts(checkout)[-1][1]
    start = json.loads((checkout.root / f"data/ledger/local/bodies/{seq:08d}.json").read_text("utf-8"))
    recorded = {one["path"]: one["sha256"] for one in start["inputs"]}
    assert recorded["model/model.safetensors"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert recorded["model/model.safetensors"] != hashlib.sha256(before).hexdigest()


@pytest.mark.parametrize("name", ["ruler", "documents"])
def test_a_model_swapped_after_the_capture_is_refused(checkout, job, refused, tidy, other_weights, name):
    """Maps that were fitted on other weights are not tried on these; put back, the model runs."""
    path, before = other_weights
    entries = attempts(checkout)
    words = r"model/model\.safetensors has SHA-256 [0-9a-f]{64}; the maps were fitted on a model where it is"
    refused(job(checkout, name), words, r"Put the model's files back, or delete results/tiny/capture/moments")
    assert attempts(checkout) == entries
    tidy(checkout.root)
    path.write_bytes(before)
    assert job(checkout, name).returncode == 0
    verified(checkout)


def test_a_second_file_of_weights_beside_the_first_is_refused(checkout, job, refused):
    """The folder that was captured had one."""
    (checkout.root / "model/more.safetensors").write_bytes(b"")
    refused(job(checkout, "ruler"), r"more\.safetensors has SHA-256 e3b0c442.*where it is none")
