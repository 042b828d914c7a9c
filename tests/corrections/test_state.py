"""Terminal-state correction: what is added, when, how much of it, and that chunks take it back."""

import pytest
import torch

from ridgefill.amend import Amendments
from ridgefill.corrections.scan import scan_prefix, state_of
from ridgefill.corrections.state import StateCorrection, state_shape
from ridgefill.errors import ConfigError, MapError
from ridgefill.models.base import LINEAR

# Sums over rows in another order, in fp32; METHOD's own bound, relative to the largest value.
TOLERANCE = 1e-5
NONE = Amendments()


def recurrent(one):
    return [layer for layer in range(one.split, one.adapter.layers) if one.adapter.kinds[layer] == LINEAR]


def some_deltas(one, size=1.0):
    generator = torch.Generator().manual_seed(7)
    return {layer: size * torch.randn(state_shape(one.adapter), generator=generator) for layer in recurrent(one)}


def test_states_have_different_key_and_value_widths_here(hybrid):
    """So that nothing below passes with the two swapped."""
    one = hybrid(40)
    heads, key, value = state_shape(one.adapter)
    assert key != value
    assert state_of(one.pass_.cache, recurrent(one)[-1]).shape == (1, heads, key, value)


@pytest.mark.parametrize("split_layer", ["exact", "mapped"])
def test_at_the_end_of_the_prefix_the_delta_is_added_once_to_each_late_state(hybrid, split_layer):
    """Seen before the tail runs, in a chunk that ends with the prefix; an exact split layer gets nothing."""
    one = hybrid(60)
    deltas, seen = some_deltas(one), {}
    for name, how in (("plain", NONE), ("corrected", Amendments(correction=StateCorrection(deltas)))):
        cache, notes = one.pass_.cache.lower(one.split), {}
        one._chunk(how, one.predict, split_layer, cache, notes, 0, one.prefix, 1024)
        seen[name] = {layer: state_of(cache, layer).clone() for layer in recurrent(one)}
    for layer, delta in deltas.items():
        added = seen["corrected"][layer] - seen["plain"][layer]
        exact = layer == one.split and split_layer == "exact"
        torch.testing.assert_close(added[0], torch.zeros_like(delta) if exact else delta, rtol=1e-4, atol=TOLERANCE)


def test_with_exact_rows_in_the_prefix_each_head_gets_its_own_share(hybrid):
    """The difference at the end of the prefix is rho times the delta, rho from the scan's own gates."""
    one = hybrid(60, chosen=[0, 5, 30, 37, 39])
    deltas, layer = some_deltas(one), recurrent(one)[-1]
    before = one.exact[one.exact < one.prefix]
    rows = [one.adapter.rows(before)]
    x = one.pass_.inputs[layer][:, before]
    states = []
    for correction in (None, StateCorrection(deltas)):
        cache = one.adapter.new_cache(60)
        written = one.adapter.rows(one.filled, attend=False)
        scanned = scan_prefix(one.adapter, layer, x, rows, one.predict(layer, one.filled), written, cache)
        carried = None if correction is None else correction.add(layer, scanned, cache)
        states.append(state_of(cache, layer).clone())
    rho = carried.share.rho
    assert scanned.is_filled.tolist() == [row not in before.tolist() for row in range(one.prefix)]
    assert scanned.decay.shape == (one.prefix, len(rho))
    assert bool(((rho > 0) & (rho < 1)).all())
    assert len(set(rho.tolist())) > 1
    added = (rho[:, None, None] * deltas[layer]).float()
    torch.testing.assert_close((states[1] - states[0])[0], added, rtol=1e-4, atol=TOLERANCE)
    assert torch.equal(carried.own, states[0])


def test_a_delta_of_zero_changes_nothing_but_rounding(hybrid, kept, error):
    """The scan stops at the end of the prefix and goes on, as the stock layers' own chunks do."""
    one = hybrid(60, chosen=[3, 30])
    correction = StateCorrection(some_deltas(one, 0.0))
    plain, corrected = one.run(NONE), one.run(Amendments(correction=correction))
    assert error(corrected[0], plain[0]) <= TOLERANCE
    for layer in recurrent(one):
        for name, expected in kept(one.adapter, plain[1], layer).items():
            assert error(kept(one.adapter, corrected[1], layer)[name], expected) <= TOLERANCE


@pytest.mark.parametrize("chosen", [(), (3, 17, 30, 41)])
@pytest.mark.parametrize("ends", [[70, 90], [30, 70, 90], [16, 32, 48, 64, 80, 90], [10, 20, 75, 90]])
def test_chunked_prefill_takes_back_what_the_last_chunk_added(hybrid, kept, error, chosen, ends):
    """Chunks of the prefix, with exact rows or none, that end at the prefix's end or around it: as in one pass."""
    one = hybrid(90, chosen=chosen)
    how = Amendments(correction=StateCorrection(some_deltas(one)))
    whole, cache, notes = one.run(how)
    out, pieces, found = one.run(how, chunks=ends)
    assert error(out, whole) <= TOLERANCE
    for layer in recurrent(one):
        for name, expected in kept(one.adapter, cache, layer).items():
            assert error(kept(one.adapter, pieces, layer)[name], expected) <= TOLERANCE
        if layer > one.split:  # the split layer's state is exact
            torch.testing.assert_close(
                found[layer].carried.share.rho, notes[layer].carried.share.rho, rtol=1e-6, atol=0
            )


def test_forgetting_to_take_back_is_seen(hybrid, error, monkeypatch):
    """The chunk test can fail."""
    one = hybrid(90)
    how = Amendments(correction=StateCorrection(some_deltas(one)))
    whole = one.run(how)[0]
    monkeypatch.setattr("ridgefill.amend.take_back", lambda *_: None)
    assert error(one.run(how, chunks=[30, 69, 90])[0], whole) > 100 * TOLERANCE


@pytest.mark.parametrize("step", [1, 7, 24])
def test_exact_rows_in_pieces_that_straddle_the_end_of_the_prefix_are_parted_there(hybrid, error, step):
    """The same with exact rows run piece by piece, whatever the pieces."""
    one = hybrid(90, chosen=range(2, 70, 6))
    how = Amendments(correction=StateCorrection(some_deltas(one)))
    assert error(one.run(how, at_once=step)[0], one.run(how)[0]) <= TOLERANCE


def test_a_prompt_without_filled_rows_is_exact_to_the_bit(hybrid):
    """rho would be zero; nothing is parted or added."""
    one = hybrid(20, tail=20)
    out, _, notes = one.run(Amendments(correction=StateCorrection(some_deltas(one))))
    assert torch.equal(out, one.run(NONE)[0])
    assert all(note.carried is None for note in notes.values())


def test_a_chunk_without_filled_rows_still_counts_in_the_share(hybrid, error):
    """Exact rows of a whole chunk push the filled ones before it out of the state."""
    one = hybrid(90, chosen=range(40, 70))
    how = Amendments(correction=StateCorrection(some_deltas(one)))
    whole, _, notes = one.run(how)
    out, _, found = one.run(how, chunks=[40, 70, 90])
    assert error(out, whole) <= TOLERANCE
    layer = recurrent(one)[-1]
    torch.testing.assert_close(found[layer].carried.share.rho, notes[layer].carried.share.rho, rtol=1e-6, atol=0)
    assert float(notes[layer].carried.share.rho.max()) < 1


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3"])
def test_a_model_without_recurrent_layers_is_refused(request_of, family):
    """By name of the family and with the split."""
    one = request_of(family, 40)
    with pytest.raises(ConfigError, match=f"recurrent layer from split 3 on, and this {family} model has none"):
        StateCorrection({}).require(one.adapter, 3)


def test_deltas_of_other_layers_or_shapes_are_refused(hybrid):
    """Missing, extra, swapped widths; the split layer's is optional."""
    one = hybrid(40)
    deltas = some_deltas(one)
    StateCorrection(deltas).require(one.adapter, one.split)
    without_split = {layer: delta for layer, delta in deltas.items() if layer != one.split}
    StateCorrection(without_split).require(one.adapter, one.split)
    last = max(deltas)
    short = {layer: delta for layer, delta in deltas.items() if layer != last}
    with pytest.raises(MapError, match=f"missing or extra layers {last};"):
        StateCorrection(short).require(one.adapter, one.split)
    with pytest.raises(MapError, match="missing or extra layers 1;"):
        StateCorrection({**deltas, 1: deltas[last]}).require(one.adapter, one.split)
    swapped = {layer: delta.transpose(-1, -2) for layer, delta in deltas.items()}
    with pytest.raises(MapError, match=r"expected .*value heads, key, value width"):
        StateCorrection(swapped).require(one.adapter, one.split)
