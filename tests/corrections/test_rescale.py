"""Value and key rescale: the scales, what they leave alone, and what is done where there is little to measure."""

import runpy
from pathlib import Path

import pytest
import torch

from ridgefill.amend import Amendments
from ridgefill.corrections.rescale import Rescale, rescale_rows
from ridgefill.errors import ConfigError, NumericsError
from ridgefill.models.base import LINEAR

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "corrections.py"))
NONE = Amendments()
PARTS = [("value",), ("key",), ("key", "value")]
# fp32 against the same sums row by row in fp64, relative to the largest value; METHOD's own bound.
TOLERANCE = 1e-5


def attention_layers(one, split_layer="exact"):
    """Late layers whose rows are predicted and kept by position."""
    first = one.split + (split_layer == "exact")
    return [layer for layer in range(first, one.adapter.layers) if one.adapter.kinds[layer] != LINEAR]


def written(one, layer, part, block_input):
    """By head: a list of vectors, row by row, in fp64."""
    heads = one.adapter.kv_heads
    flat = one.adapter.writes(layer, block_input)[part][0].double()
    return [list(flat.unflatten(-1, (heads, -1))[:, head]) for head in range(heads)]


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("measured", [1, 7, 20])
def test_scales_are_the_naive_mean_ratio_of_the_first_tail_rows(family, request_of, parts, measured):
    """In the first predicted layer, whose tail inputs are the exact pass's; later ones have their own."""
    one = request_of(family, 70, chosen=[3, 30])
    layer = attention_layers(one)[0]
    _, _, notes = one.run(Amendments(rescale=Rescale(parts, measured)), predict=one.truth)
    tail = torch.arange(one.prefix, one.prefix + measured)
    true, guess = one.truth(layer, tail), one.predict(layer, tail)
    assert set(notes[layer].scales.scales) == set(parts)
    for part in parts:
        pairs = zip(written(one, layer, part, true), written(one, layer, part, guess), strict=True)
        expected = torch.tensor([NAIVE["mean_ratio"](*pair) for pair in pairs])
        found = notes[layer].scales.scales[part]
        # The layers below ran over filled rows written from true inputs, so tail inputs differ by rounding only.
        torch.testing.assert_close(found, expected, rtol=TOLERANCE, atol=0)
        torch.testing.assert_close(
            Rescale(parts, measured).measure(one.adapter, layer, true, guess, one.adapter.kv_heads).scales[part],
            expected, rtol=TOLERANCE, atol=0,
        )  # fmt: skip


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("split_layer", ["exact", "mapped"])
def test_only_filled_rows_of_the_named_part_are_multiplied(family, request_of, kept, parts, split_layer):
    """Every late attention layer: what the fill wrote there times its head's scale."""
    one = request_of(family, 70, chosen=[3, 30])
    _, plain, _ = one.run(NONE, split_layer=split_layer)
    _, scaled, notes = one.run(Amendments(rescale=Rescale(parts, 8)), split_layer=split_layer)
    predicted = attention_layers(one, split_layer)
    for layer in range(one.split, one.adapter.layers):
        assert (notes[layer].scales is not None) == (layer in predicted)
        if one.adapter.kinds[layer] == LINEAR:
            continue
        before, after = kept(one.adapter, plain, layer), kept(one.adapter, scaled, layer)
        for name, entries in before.items():
            scale = notes[layer].scales.scales.get(name) if layer in predicted else None
            rows = one.filled[one.filled >= one.adapter.first_needed(layer, int(one.exact[0]))]
            expected, found = entries[..., rows, :], after[name][..., rows, :]
            if scale is None:
                assert torch.equal(found, expected)
            else:
                assert not torch.equal(found, expected)
                torch.testing.assert_close(found, expected * scale[None, :, None, None], rtol=TOLERANCE, atol=0)


@pytest.mark.parametrize("parts", PARTS)
def test_values_of_the_first_predicted_layer_keep_their_exact_rows_to_the_bit(family, request_of, kept, parts):
    """Tail and selected rows are written by the stock layer from inputs that no rescaled layer has touched yet."""
    one = request_of(family, 70, chosen=[3, 30])
    layer = attention_layers(one)[0]
    plain, scaled = (one.run(how)[1] for how in (NONE, Amendments(rescale=Rescale(parts))))
    for name, entries in kept(one.adapter, plain, layer).items():
        assert torch.equal(kept(one.adapter, scaled, layer)[name][..., one.exact, :], entries[..., one.exact, :])


def test_rotated_keys_may_be_scaled_because_a_rotation_keeps_the_factor(family, request_of, kept):
    """The same as scaling before rotary: projected, scaled, then rotated at each row's position."""
    one = request_of(family, 70)
    layer = attention_layers(one)[-1]
    _, cache, notes = one.run(Amendments(rescale=Rescale(("key",), 8)))
    rows = one.filled[one.filled >= one.adapter.first_needed(layer, one.prefix)]
    flat = one.adapter.writes(layer, one.predict(layer, rows))["key"]
    heads = flat.unflatten(-1, (one.adapter.kv_heads, -1)).transpose(1, 2)
    scaled = heads * notes[layer].scales.scales["key"][None, :, None, None]
    table = one.adapter.rows(rows, attend=False).rotary[one.adapter.kinds[layer]]
    found = kept(one.adapter, cache, layer)["key"][:, :, rows]
    torch.testing.assert_close(found, one.adapter.rotate(scaled, table), rtol=TOLERANCE, atol=TOLERANCE)


def test_a_perfect_prediction_has_the_scale_one_and_changes_nothing(family, request_of, error):
    """With the truth as its own prediction, to rounding: the tail's inputs are those of the exact pass."""
    one = request_of(family, 70)
    one.predict = one.truth
    plain, scaled = one.run(NONE), one.run(Amendments(rescale=Rescale(("key", "value"), 8)))
    for layer in attention_layers(one):
        for scale in scaled[2][layer].scales.scales.values():
            torch.testing.assert_close(scale, torch.ones_like(scale), rtol=TOLERANCE, atol=0)
    assert error(scaled[0], plain[0]) <= TOLERANCE


def test_cost_counts_one_map_and_two_projections_of_keys_and_values_a_row(request_of):
    """Eight rows of a tail; llama keeps two heads of eight for keys and for values, 32 wide inputs."""
    one = request_of("llama", 70)
    _, _, notes = one.run(Amendments(rescale=Rescale(rows=8)))
    assert notes[4].scales.rows == 8
    assert notes[4].scales.macs == 8 * (32 * 32 + 2 * 32 * (16 + 16))


def test_a_tail_shorter_than_asked_for_is_measured_whole(request_of):
    """512 rows by default, of a tail that has 20."""
    one = request_of("llama", 70)
    default, whole = (one.run(Amendments(rescale=how))[2][4].scales for how in (Rescale(), Rescale(rows=20)))
    assert default.rows == 20
    assert torch.equal(default.scales["value"], whole.scales["value"])


def test_a_prompt_without_filled_rows_measures_nothing_and_stays_exact_to_the_bit(family, request_of):
    """A prompt no longer than its tail."""
    one = request_of(family, 20, tail=20)
    out, _, notes = one.run(Amendments(rescale=Rescale(("key", "value"))))
    assert all(note.scales is None for note in notes.values())
    assert torch.equal(out, one.run(NONE)[0])


def test_rows_with_a_zero_prediction_are_left_out_and_a_head_without_others_keeps_one(request_of):
    """A zero block input of llama projects to zero, as the norm of nothing is nothing and there is no bias."""
    one = request_of("llama", 70)
    tail = torch.arange(one.prefix, one.prefix + 6)
    true, guess = one.truth(4, tail), one.predict(4, tail).clone()
    guess[:, 2:4] = 0
    kept_rows = [0, 1, 4, 5]
    measure = Rescale(("key", "value")).measure
    found = measure(one.adapter, 4, true, guess, 2).scales
    expected = measure(one.adapter, 4, true[:, kept_rows], guess[:, kept_rows], 2).scales
    for part in ("key", "value"):
        torch.testing.assert_close(found[part], expected[part], rtol=TOLERANCE, atol=0)
    assert measure(one.adapter, 4, true, torch.zeros_like(guess), 2).scales["value"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_5"])
def test_a_chunked_prefill_measures_and_scales_as_one_pass(request_of, kept, error, family):
    """Rows of earlier chunks are scaled when the tail comes, whether a chunk ends at the prefix's end or past it."""
    one = request_of(family, 90)
    how = Amendments(rescale=Rescale(("key", "value"), 8))
    whole, cache, _ = one.run(how)
    for chunks in ([30, 70, 90], [25, 50, 80, 90]):
        out, pieces, _ = one.run(how, chunks=chunks)
        assert error(out, whole) <= TOLERANCE
        for layer in attention_layers(one):
            rows = one.filled[one.filled >= one.adapter.first_needed(layer, one.prefix)]
            for name, entries in kept(one.adapter, cache, layer).items():
                got = kept(one.adapter, pieces, layer)[name]
                assert error(got[..., rows, :], entries[..., rows, :]) <= TOLERANCE


def test_bf16_entries_are_scaled_in_fp32_and_rounded_once(request_of):
    """A scale that bf16 cannot hold multiplies as it is."""
    one = request_of("llama", 40, dtype=torch.bfloat16)
    _, cache, _ = one.run(NONE)
    before = cache.values[4].clone()
    rescale_rows(cache, 4, slice(0, 20), {"value": torch.tensor([1.0035, 0.5])})
    scale = torch.tensor([1.0035, 0.5])[None, :, None, None]
    assert torch.equal(cache.values[4][:, :, :20], (before[:, :, :20].float() * scale).bfloat16())
    assert torch.equal(cache.values[4][:, :, 20:], before[:, :, 20:])


@pytest.mark.parametrize(("parts", "rows"), [((), 8), (("query",), 8), (("key", "key"), 8), (("value",), 0)])
def test_settings_that_mean_nothing_are_refused(parts, rows):
    """No part, an unknown one, one twice, no row."""
    with pytest.raises(ConfigError, match="expected"):
        Rescale(parts, rows)


def test_a_late_part_without_attention_a_missing_tail_and_an_overflow_are_refused(request_of):
    """Each with its own reason."""
    one = request_of("qwen3_5", 40)
    kinds, one.adapter.kinds = one.adapter.kinds, (LINEAR,) * 8
    with pytest.raises(ConfigError, match="attention layer from split 4"):
        Rescale().require(one.adapter, 4)
    one.adapter.kinds = kinds
    Rescale().require(one.adapter, 4)
    nothing = one.state[:, :0]
    with pytest.raises(ConfigError, match="tail"):
        Rescale().measure(one.adapter, 7, nothing, nothing, 2)
    with pytest.raises(NumericsError, match="not finite"):
        Rescale().measure(one.adapter, 7, one.state * float("nan"), one.state, 2)
    with pytest.raises(NumericsError, match="before any row"):
        rescale_rows(one.adapter.new_cache(4), 7, slice(0, 4), {"value": torch.ones(2)})
