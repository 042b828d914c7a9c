"""Fitting deltas, and their files: by value and in the published order, where widths differ and where they do not."""

import json
import runpy
import struct
from itertools import product
from pathlib import Path

import pytest
import torch
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

from ridgefill.amend import Amendments
from ridgefill.corrections.deltas import fit_deltas
from ridgefill.corrections.files import correction_bytes, load_correction, read_correction, save_correction
from ridgefill.corrections.scan import state_of
from ridgefill.corrections.state import StateCorrection, state_shape
from ridgefill.errors import ConfigError, MapError, NumericsError, ResultsError, TextError
from ridgefill.files import sha256_file
from ridgefill.models.base import LINEAR
from ridgefill.models.wrap import adapter_for
from ridgefill.passes import run_exact

TESTS = Path(__file__).parents[1]
BUILT = runpy.run_path(str(TESTS / "families" / "builders.py"))
NAIVE = runpy.run_path(str(TESTS / "naive" / "hybrid.py"))
# fp32 scans in chunks against fp64 row by row, relative to the largest value; METHOD's own bound.
TOLERANCE = 1e-5


def square():
    """A hybrid whose recurrent keys and values are equally wide, as the published ones: a transpose has its shape.

    In fp64, as what is compared is an order of values and not the rounding of two passes, which differs by machine.
    """
    torch.manual_seed(21)
    rotary = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1]}
    sizes = BUILT["COMMON"] | BUILT["HYBRID"] | {"linear_key_head_dim": 8, "linear_value_head_dim": 8}
    model = Qwen3_5ForCausalLM(Qwen3_5TextConfig(**sizes, rope_parameters=rotary))
    return adapter_for(BUILT["settled"](BUILT["remembering"](model, 21), torch.float64, 21))


def naive_deltas(one, pieces, every, *, transposed=False):
    """Layer -> ``[H, K, V]`` or, as files have it, ``[H, V, K]``: one row at a time in fp64, in order of the text."""
    naive = NAIVE["NaiveHybrid"](one.adapter.model)
    late = [layer for layer in range(one.split + 1, naive.layers) if naive.kinds[layer] != "full_attention"]
    differences = {layer: [] for layer in late}
    for piece in pieces:
        inputs, _ = naive.run_exact(piece)
        for layer in late:
            weight, bias = one.maps.weights[layer].double(), one.maps.biases[layer].double()
            exact, filled = {}, {}
            for row in range(len(piece)):
                naive.step(layer, exact, inputs[layer][row], row, wanted=False)
                naive.step(layer, filled, weight @ inputs[one.split][row] + bias, row, wanted=False)
                if (row + 1) % every == 0:
                    differences[layer].append((exact["state"] - filled["state"]).clone())
    means = {layer: sum(found) / len(found) for layer, found in differences.items()}
    if not transposed:
        return means
    by_value = {layer: torch.empty(len(mean), mean.shape[2], mean.shape[1]) for layer, mean in means.items()}
    for layer, mean in means.items():
        for head, key, value in product(*map(range, mean.shape)):
            by_value[layer][head, value, key] = mean[head, key, value]
    return by_value


@pytest.mark.parametrize("family", ["qwen3_5", "qwen3_next"])
def test_deltas_are_the_naive_means_over_every_chunk_end_of_every_piece(request_of, error, family):
    """Pieces of one, two and a half, and no chunk; a rest counts for nothing."""
    one = request_of(family, 40)
    pieces = [one.ids[0, :16].tolist(), one.ids[0].tolist(), one.ids[0, 5:12].tolist()]
    done = []
    found = fit_deltas(one.adapter, one.maps, pieces, one.split, every=16, progress=done.append)
    expected = naive_deltas(one, pieces, 16)
    assert done == [16, 40, 7]
    assert set(found) == set(expected)
    for layer, delta in expected.items():
        assert found[layer].dtype == torch.float32
        assert error(found[layer], delta) <= TOLERANCE


def test_a_mapped_split_layer_gets_a_delta_too(hybrid):
    """Where it is recurrent; the others' are the same."""
    low = 2 if hybrid(40).adapter.family == "qwen4_exp" else 4
    one = hybrid(40, split=low)
    pieces = [one.ids[0].tolist()]
    exact, mapped = (
        fit_deltas(one.adapter, one.maps, pieces, low, every=20, split_layer=how) for how in ("exact", "mapped")
    )
    assert one.adapter.kinds[low] == LINEAR
    assert set(mapped) == {low, *exact}
    assert float(mapped[low].abs().max()) > 0
    assert all(torch.equal(mapped[layer], delta) for layer, delta in exact.items())
    StateCorrection(exact).require(one.adapter, low)
    StateCorrection(mapped).require(one.adapter, low)


def test_true_inputs_leave_no_difference(hybrid, error):
    """Maps that are the truth: deltas within rounding of the states."""
    one = hybrid(40)

    class Truth:
        def __init__(self):
            self.begin = dict.fromkeys(range(one.adapter.layers), 0)

        def predict(self, layer, state):
            begin = self.begin[layer]
            self.begin[layer] += state.shape[1]
            return one.truth(layer, torch.arange(begin, begin + state.shape[1]))

    found = fit_deltas(one.adapter, Truth(), [one.ids[0].tolist()], one.split, every=20)
    for layer, delta in found.items():
        assert float(delta.abs().max()) <= TOLERANCE * float(state_of(one.pass_.cache, layer).abs().max())


def test_a_single_chunk_end_is_corrected_to_the_exact_state_through_a_file(hybrid, error, tmp_path):
    """Fitted on the prompt's own prefix, saved, loaded and added: the state of the exact prefix, by value."""
    one = hybrid(60)
    prefix = one.ids[:, : one.prefix]
    fitted = fit_deltas(one.adapter, one.maps, [prefix[0].tolist()], one.split, every=one.prefix)
    save_correction(tmp_path / "correction.safetensors", fitted)
    deltas = load_correction(tmp_path / "correction.safetensors")
    cache = one.pass_.cache.lower(one.split)
    how = Amendments(correction=StateCorrection(deltas))
    how.require(one.adapter, one.split)
    one._chunk(how, one.predict, "exact", cache, {}, 0, one.prefix, 1024)
    exact = run_exact(one.adapter, prefix).cache
    for layer in deltas:
        assert error(state_of(cache, layer), state_of(exact, layer)) <= TOLERANCE


def test_with_equal_widths_a_file_read_in_the_published_order_corrects_and_a_transposed_one_does_not(request_of, error):
    """Key and value both 8 wide. The file is written here value by value from the naive states: ``[H, V, K]``."""
    one = request_of("qwen3_5", 60)
    one = type(one)(square(), 60, 20, split=4)
    piece = one.ids[0, : one.prefix].tolist()
    by_hand = naive_deltas(one, [piece], one.prefix, transposed=True)
    data = save_safetensors({f"st.{layer}": delta.float().contiguous() for layer, delta in by_hand.items()})
    exact = run_exact(one.adapter, one.ids[:, : one.prefix]).cache
    deltas = read_correction(data, "a file")
    _, key, value = state_shape(one.adapter)
    assert key == value
    wrong = {layer: delta.transpose(-1, -2) for layer, delta in deltas.items()}
    for given, right in ((deltas, True), (wrong, False)):
        cache = one.pass_.cache.lower(one.split)
        how = Amendments(correction=StateCorrection(given))
        how.require(one.adapter, one.split)
        one._chunk(how, one.predict, "exact", cache, {}, 0, one.prefix, 1024)
        for layer in deltas:
            found = error(state_of(cache, layer), state_of(exact, layer))
            assert found <= TOLERANCE if right else found > 1000 * TOLERANCE
    ours = load_safetensors(correction_bytes(fit_deltas(one.adapter, one.maps, [piece], 4, every=one.prefix)))
    assert {
        name: error(found, load_safetensors(data)[name]) <= TOLERANCE for name, found in ours.items()
    } == dict.fromkeys(["st.5", "st.6"], True)


def test_files_hold_value_before_key_and_read_back_to_the_bit(tmp_path):
    """``st.<layer>``, f32, widths 3 and 2 told apart by shape and by value; the digest is the file's."""
    deltas = {layer: torch.randn(4, 2, 3) for layer in (10, 9)}
    path = tmp_path / "new" / "correction.safetensors"
    digest = save_correction(path, deltas)
    stored = load_safetensors(path.read_bytes())
    assert digest == sha256_file(path)
    assert list(load_correction(path)) == [9, 10]
    for layer, delta in deltas.items():
        one = stored[f"st.{layer}"]
        assert (one.dtype, list(one.shape)) == (torch.float32, [4, 3, 2])
        assert all(one[h, v, k] == delta[h, k, v] for h in range(4) for k in range(2) for v in range(3))
        assert torch.equal(load_correction(path)[layer], delta)
    assert correction_bytes(load_correction(path)) == path.read_bytes()


def test_the_published_files_geometry_gives_its_data_bytes():
    """Flash-Next: 18 recurrent layers from 24 on, ``[48, 128, 128]``; its 56,624,736 bytes less a header."""
    layers = [layer for layer in range(24, 48) if layer % 4 != 3]
    data = correction_bytes({layer: torch.zeros(48, 128, 128) for layer in layers})
    (header,) = struct.unpack_from("<Q", data)
    entries = json.loads(data[8 : 8 + header])
    assert len(data) - 8 - header == 18 * 48 * 128 * 128 * 4 == 56_623_104
    assert sorted(entries) == sorted(f"st.{layer}" for layer in layers)
    assert entries["st.24"]["dtype"] == "F32"
    assert 0 < 56_624_736 - len(data) < 256


@pytest.mark.parametrize(
    ("tensors", "match"),
    [
        ({}, "holds nothing; expected st.<layer> float32"),
        ({"st.04": torch.zeros(1, 2, 2)}, "expected st.<layer>"),
        ({"proj.4": torch.zeros(1, 2, 2)}, "proj.4 float32"),
        ({"st.4": torch.zeros(1, 2, 2, dtype=torch.float64)}, "float64"),
        ({"st.4": torch.zeros(2, 2)}, r"st.4 float32 \[2, 2\]"),
        ({"st.4": torch.zeros(1, 2, 2), "st.5": torch.zeros(1, 2, 3)}, "several shapes"),
        ({"st.4": torch.full((1, 2, 2), float("nan"))}, "not finite in st.4"),
    ],
)
def test_files_of_another_kind_are_refused(tensors, match):
    """Each names the file and what it holds."""
    with pytest.raises(MapError, match=match):
        read_correction(save_safetensors(tensors), "the file")


def test_a_missing_a_broken_and_an_unwritable_file_are_refused(tmp_path):
    """And nothing half written is left."""
    with pytest.raises(MapError, match="could not be read"):
        load_correction(tmp_path / "none")
    with pytest.raises(MapError, match="not a safetensors file"):
        read_correction(b"states", "the file")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ResultsError, match="could not be written"):
        save_correction(tmp_path / "file" / "correction.safetensors", {4: torch.zeros(1, 2, 2)})
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_fits_that_mean_nothing_are_refused(request_of):
    """No recurrent layer, a split outside, too short a text, no interval, an overflow, an exact split layer alone."""
    plain, one = request_of("llama", 40), request_of("qwen3_5", 40)
    ids = one.ids[0].tolist()
    with pytest.raises(ConfigError, match="needs a recurrent layer"):
        fit_deltas(plain.adapter, plain.maps, [ids], 3, every=20)
    with pytest.raises(ConfigError, match="outside the model"):
        fit_deltas(one.adapter, one.maps, [ids], 8, every=20)
    with pytest.raises(TextError, match="41 tokens long"):
        fit_deltas(one.adapter, one.maps, [ids, []], 3, every=41)
    with pytest.raises(ConfigError, match="at least 1"):
        fit_deltas(one.adapter, one.maps, [ids], 3, every=0)
    with pytest.raises(ConfigError, match="only the split layer 6 is recurrent"):
        fit_deltas(one.adapter, one.maps, [ids], 6, every=20)
    one.maps.biases[5][:] = float("nan")
    with pytest.raises(NumericsError, match="not finite"):
        fit_deltas(one.adapter, one.maps, [ids], 3, every=20)
