"""int8 weights: the published rule against a group-by-group reference, bit for bit, and what it costs."""

import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgefill.errors import MapError, NumericsError
from ridgefill.mapfiles.int8 import GROUP, Int8Weights, codes_and_scales, dequantise, error, quantise
from ridgefill.mapfiles.layers import layer_bytes, read_layer
from ridgefill.maps import RidgeMaps


def to_float32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def to_bf16(number):
    """Nearest bf16 of a float32, ties to the even one, by its bits."""
    (bits,) = struct.unpack("<I", struct.pack("<f", number))
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
    return struct.unpack("<f", struct.pack("<I", rounded))[0]


def naive(row):
    """One row of weights to its codes and scales, as METHOD section 2 words the rule."""
    codes, scales = [], []
    for first in range(0, len(row), GROUP):
        group = row[first : first + GROUP]
        peak = max(abs(number) for number in group)
        scale = 1.0 if peak == 0 else to_bf16(to_float32(peak / 127))
        scales.append(scale)
        # Python rounds halves to even.
        codes += [max(-127, min(127, round(to_float32(number / scale)))) for number in group]
    return codes, scales


def weights(rows=5, groups=3, seed=0, spread=4.0):
    """Rows of very different sizes, some groups of zeros, some of one value, some values halfway between codes."""
    generator = torch.Generator().manual_seed(seed)
    found = torch.randn(rows, groups * GROUP, generator=generator)
    found *= torch.exp(spread * torch.randn(rows, 1, generator=generator))
    found[1, GROUP : 2 * GROUP] = 0
    found[2, :GROUP] = 0.3125
    found[3, :GROUP] = torch.arange(GROUP) * 0.5
    found[3, 0] = 127.0
    return found


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("seed", range(4))
def test_codes_and_scales_are_the_rules_bit_for_bit(kind, seed):
    """Against plain Python floats; half way between two codes goes to the even one, a group of zeros has scale 1."""
    given_ = weights(seed=seed).to(kind)
    codes, scale = quantise(given_)
    assert (codes.dtype, scale.dtype) == (torch.int8, torch.bfloat16)
    assert (codes.shape, scale.shape) == ((5, 384), (5, 3))
    for row in range(len(given_)):
        expected_codes, expected_scales = naive(given_[row].tolist())
        assert codes[row].tolist() == expected_codes
        assert scale[row].float().tolist() == expected_scales


def test_halves_go_to_the_even_code():
    """With a peak of 127 the scale is 1, so 0.5, 1.5, 2.5 become 0, 2, 2."""
    codes, scale = quantise(weights())
    assert scale[3, 0] == 1
    assert codes[3, 1:6].tolist() == [0, 1, 2, 2, 2]


def test_a_group_of_zeros_has_scale_one_and_zero_codes():
    """As has a group so small that its scale would be zero."""
    tiny = torch.zeros(2, GROUP)
    tiny[1] = 1e-45
    codes, scale = quantise(tiny)
    assert scale.tolist() == [[1.0], [1.0]]
    assert not codes.any()


def test_values_are_code_times_scale():
    """Exactly, in fp32: 7 bits of code times 8 of scale."""
    codes, scale = quantise(weights())
    values = dequantise(codes, scale)
    for row in range(5):
        for column in (0, 127, 128, 383):
            assert float(values[row, column]) == int(codes[row, column]) * float(scale[row, column // GROUP])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.0, 12.0))
def test_values_that_came_from_codes_give_the_same_codes(seed, spread):
    """So int8 maps can pass through numbers and be written again byte for byte."""
    codes, scale = quantise(weights(seed=seed, spread=spread))
    again = quantise(dequantise(codes, scale))
    assert torch.equal(again[0], codes)
    assert torch.equal(again[1], scale)


@pytest.mark.parametrize("seed", range(3))
def test_no_weight_moves_by_more_than_half_a_step(seed):
    """A scale rounded down costs the peak a quarter of a step at most, so the clamp never adds to that."""
    given_ = weights(seed=seed)
    codes, scale = quantise(given_)
    moved = (given_ - dequantise(codes, scale)).abs().reshape(5, 3, GROUP)
    # 1e-5: fp32 rounding of the subtraction.
    assert bool((moved <= scale.float()[..., None] * 0.5 * (1 + 1e-5)).all())


def test_the_error_reported_is_the_largest_the_mean_and_the_relative_one():
    """Recomputed in fp64."""
    given_ = weights()
    codes, scale = quantise(given_)
    gap = (given_.double() - dequantise(codes, scale).double()).abs()
    found = error(given_, codes, scale)
    assert found.worst == pytest.approx(float(gap.max()), rel=1e-5)
    assert found.mean == pytest.approx(float(gap.mean()), rel=1e-5)
    assert found.relative == pytest.approx(float(gap.norm() / given_.double().norm()), rel=1e-5)
    assert error(torch.zeros(2, GROUP), *quantise(torch.zeros(2, GROUP))).relative == 0.0


@pytest.mark.parametrize("columns", [1, 127, 129, 576])
def test_a_width_that_is_no_multiple_of_the_group_is_refused(columns):
    """576 is SmolLM2's."""
    with pytest.raises(MapError, match=f"these have {columns}, which is not a multiple of 128; keep them as bf16"):
        quantise(torch.zeros(2, columns))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused(bad):
    """They have no code."""
    given_ = weights()
    given_[0, 5] = bad
    with pytest.raises(NumericsError, match="NaN or an infinity"):
        quantise(given_)


def test_codes_stay_codes_in_memory_and_predict_as_their_values_do():
    """The maps of one layer take a byte per weight, whatever type they are read in."""
    codes, scale = quantise(weights())
    held = RidgeMaps(3, Int8Weights({3: codes}, {3: scale}), {3: torch.ones(5)})
    state = torch.randn(2, 384)
    assert torch.equal(
        held.predict(3, state), torch.nn.functional.linear(state, dequantise(codes, scale), torch.ones(5))
    )
    moved = held.to(torch.bfloat16, torch.device("cpu"))
    assert moved.weights.codes[3].dtype == torch.int8
    assert torch.equal(moved.weights[3], dequantise(codes, scale).bfloat16())
    assert moved.predict(3, state.bfloat16()).dtype == torch.bfloat16
    assert all(map(torch.equal, codes_and_scales(moved.weights, 3), (codes, scale)))
    assert (list(moved.weights), len(moved.weights)) == ([3], 1)


# The credit that the released files carry in their headers.
RELEASED = {
    "format": "ridgefill-projector-1",
    "name": "RidgeFill-Projector-Qwen3.8-Flash-Next-i8",
    "authors": "Dylan Johnston, tcclaviger",
    "license": "Apache-2.0",
    "doi": "10.5281/zenodo.23179168",
}


@pytest.fixture(scope="module")
def flash_next():
    """One layer's file at the size of the released Flash-Next maps."""
    generator = torch.Generator().manual_seed(24)
    codes = torch.randint(-127, 128, (2560, 10240), generator=generator, dtype=torch.int8)
    held = Int8Weights({24: codes}, {24: torch.rand(2560, 80, generator=generator).bfloat16() + 0.5})
    return held, lambda header: layer_bytes(24, held, torch.ones(2560), "int8", header)


def test_a_released_layer_file_has_the_published_size(flash_next):
    """Golden: 26,629,120 bytes of codes, scales and biases; 26,629,560 with the header that holds the credit."""
    _, write = flash_next
    assert len(write(RELEASED)) == 26_629_560
    plain = write({})
    (header,) = struct.unpack("<Q", plain[:8])
    assert len(plain) - 8 - header == 26_629_120 == 2560 * 10240 + 2 * 2560 * 80 + 2 * 2560


def test_headers_are_the_same_every_time_and_tensors_stand_as_without(flash_next):
    """The credit comes first in its own order, the data begin at a multiple of 8."""
    held, write = flash_next
    data = write(RELEASED)
    assert data == write(dict(RELEASED))
    (header,) = struct.unpack("<Q", data[:8])
    assert header % 8 == 0
    assert data[8:].startswith(b'{"__metadata__":{"format":"ridgefill-projector-1","name":')
    read = read_layer("it", data, 24, "int8", 2560, 10240)
    assert torch.equal(read["codes"], held.codes[24])
    assert torch.equal(read["scale"], held.scales[24])


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ((24, "int8", 2560, 5120), r"codes int8 \[2560, 10240\].*expected.*codes int8 \[2560, 5120\]"),
        ((25, "int8", 2560, 10240), r"holds proj.24.bias.*expected proj.25.bias"),
        ((24, "bf16", 2560, 10240), r"expected proj.24.bias bfloat16 \[2560\], proj.24.weight bfloat16"),
    ],
)
def test_another_layer_shape_or_encoding_is_refused_with_both_sides(flash_next, tensors, message):
    """What the file holds and what was expected."""
    with pytest.raises(MapError, match=message):
        read_layer("it", flash_next[1]({}), *tensors)
