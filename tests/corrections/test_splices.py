"""Splices: everything spliced is the exact cache, nothing spliced is the filled one to the bit, and each part alone."""

import pytest
import torch

from ridgefill.amend import Amendments
from ridgefill.corrections.rescale import Rescale
from ridgefill.corrections.scan import state_of
from ridgefill.corrections.state import StateCorrection, state_shape
from ridgefill.errors import ConfigError, NumericsError
from ridgefill.models.base import LINEAR
from ridgefill.passes import run_exact
from ridgefill.shares import gap_closed, loss_removed
from ridgefill.splices import Splice, spliced

# The tail is run in other pieces than in the exact pass; METHOD's own bound in fp32, relative to the largest value.
TOLERANCE = 1e-5
NONE = Amendments()
HYBRIDS = ["qwen3_5", "qwen3_next", "qwen4_exp"]


def how(one, *parts):
    return Amendments(splice=Splice(frozenset(parts), one.pass_))


def everything(one):
    return ("keys", "values", "states") if LINEAR in one.adapter.kinds[one.split :] else ("keys", "values")


def visible(one, kept, cache, layer):
    """What a layer keeps that an exact row can see."""
    first = one.adapter.first_needed(layer, int(one.exact[0]))
    found = kept(one.adapter, cache, layer)
    return {name: value if name in ("state", "window") else value[..., first:, :] for name, value in found.items()}


@pytest.mark.parametrize("chosen", [(), (2, 3, 33)])
@pytest.mark.parametrize("tokens", [21, 45, 70, 131])
def test_with_every_part_spliced_the_fill_is_the_exact_pass(family, request_of, kept, error, tokens, chosen):
    """Outputs and all that is kept, from maps that predict nonsense; without the splice they are far off."""
    one = request_of(family, tokens, chosen=[row for row in chosen if row < tokens - 20])
    out, cache, _ = one.run(how(one, *everything(one)), split_layer="mapped")
    expected = one.pass_.hidden[:, one.exact]
    assert error(out, expected) <= TOLERANCE
    for layer in range(one.adapter.layers):
        truth = visible(one, kept, one.pass_.cache, layer)
        for name, found in visible(one, kept, cache, layer).items():
            assert error(found, truth[name]) <= TOLERANCE
    if tokens > 45:
        assert error(one.run(NONE, split_layer="mapped")[0], expected) > 100 * TOLERANCE


@pytest.mark.parametrize("chosen", [(), (2, 3, 33)])
def test_keys_and_values_spliced_over_a_true_recurrent_fill_give_the_exact_pass(
    family, request_of, kept, error, chosen
):
    """Oracle inputs, so that what the splice leaves filled is true as well."""
    one = request_of(family, 70, chosen=chosen)
    out, cache, _ = one.run(how(one, "keys", "values"), predict=one.truth)
    assert error(out, one.pass_.hidden[:, one.exact]) <= TOLERANCE
    for layer in range(one.adapter.layers):
        truth = visible(one, kept, one.pass_.cache, layer)
        for name, found in visible(one, kept, cache, layer).items():
            assert error(found, truth[name]) <= TOLERANCE


@pytest.mark.parametrize("split_layer", ["exact", "mapped"])
def test_with_nothing_spliced_the_fill_is_the_plain_one_to_the_bit(family, request_of, kept, split_layer):
    """An empty splice, and none at all."""
    one = request_of(family, 70, chosen=[2, 3, 33])
    plain, empty = one.run(NONE, split_layer=split_layer), one.run(how(one), split_layer=split_layer)
    assert torch.equal(plain[0], empty[0])
    copied = spliced(one.adapter, plain[1], one.filled, one.split, how(one).splice)
    for layer in range(one.adapter.layers):
        for name, entries in kept(one.adapter, plain[1], layer).items():
            for cache in (empty[1], copied):
                assert torch.equal(kept(one.adapter, cache, layer)[name].nan_to_num(7), entries.nan_to_num(7))


@pytest.mark.parametrize("parts", [("keys",), ("values",)])
def test_one_part_alone_leaves_the_other_as_filled(family, request_of, kept, parts):
    """Filled rows of every late attention layer: one part is the exact pass's to the bit, the other the fill's.

    A sparse layer's indexer keys go with its keys.
    """
    one = request_of(family, 70, chosen=[2, 33])
    plain, cut = one.run(NONE), one.run(how(one, *parts))
    belongs = {"keys": {"key", "indexed"}, "values": {"value"}}[parts[0]]
    checked = 0
    for layer in range(one.split, one.adapter.layers):
        if one.adapter.kinds[layer] == LINEAR:
            continue
        rows = one.filled[one.filled >= one.adapter.first_needed(layer, int(one.exact[0]))]
        for name, found in kept(one.adapter, cut[1], layer).items():
            source = one.pass_.cache if name in belongs else plain[1]
            assert torch.equal(found[..., rows, :], kept(one.adapter, source, layer)[name][..., rows, :])
            checked += 1
    assert checked >= 2
    assert not torch.equal(plain[0], cut[0])


def test_states_alone_leave_keys_and_values_as_filled(hybrid, kept, error):
    """The first late recurrent layer's states are then the exact pass's, if no filled layer lies below it."""
    one = hybrid(70, chosen=[2, 33], split=4)
    plain, cut = one.run(NONE, split_layer="mapped"), one.run(how(one, "states"), split_layer="mapped")
    for layer in range(one.split, one.adapter.layers):
        if one.adapter.kinds[layer] == LINEAR:
            continue
        for name, found in kept(one.adapter, cut[1], layer).items():
            assert torch.equal(found[..., one.filled, :], kept(one.adapter, plain[1], layer)[name][..., one.filled, :])
    first = next(layer for layer in range(one.split, one.adapter.layers) if one.adapter.kinds[layer] == LINEAR)
    assert first == one.split
    for name, expected in kept(one.adapter, one.pass_.cache, first).items():
        assert error(kept(one.adapter, cut[1], first)[name], expected) <= TOLERANCE
    assert error(state_of(plain[1], first), state_of(one.pass_.cache, first)) > 10 * TOLERANCE
    assert not torch.equal(plain[0], cut[0])


@pytest.mark.parametrize("parts", [("keys",), ("values",), ("keys", "values"), "all"])
def test_a_finished_cache_is_spliced_into_a_new_one(family, request_of, kept, parts):
    """Filled rows and end states are the exact pass's, exact rows stay; the given cache is not touched."""
    one = request_of(family, 70, chosen=[2, 33])
    parts = everything(one) if parts == "all" else parts
    _, cache, _ = one.run(NONE)
    before = {
        layer: {name: value.clone() for name, value in kept(one.adapter, cache, layer).items()}
        for layer in range(one.adapter.layers)
    }
    made = spliced(one.adapter, cache, one.filled, one.split, how(one, *parts).splice)
    belongs = {name for part in parts for name in {"keys": ("key", "indexed"), "values": ("value",)}.get(part, ())}
    for layer, entries in before.items():
        truth, found = kept(one.adapter, one.pass_.cache, layer), kept(one.adapter, made, layer)
        late = layer >= one.split
        for name, value in entries.items():
            assert torch.equal(kept(one.adapter, cache, layer)[name].nan_to_num(7), value.nan_to_num(7))
            if name in ("state", "window"):
                assert torch.equal(found[name], truth[name] if late and "states" in parts else value)
                continue
            expected = value.clone()
            if late and name in belongs:
                rows = one.filled[one.filled >= one.adapter.first_needed(layer, int(one.exact[0]))]
                expected[..., rows, :] = truth[name][..., rows, :]
            assert torch.equal(found[name].nan_to_num(7), expected.nan_to_num(7))


def test_a_new_cache_hides_what_the_given_one_hides(request_of):
    """First visible positions go along, as a list of its own."""
    one = request_of("llama", 40)
    cache = one.run(NONE)[1]
    cache.start[3:] = [20, 20, 20]
    made = spliced(one.adapter, cache, one.filled, 3, how(one, "keys").splice)
    assert made.start == [0, 0, 0, 20, 20, 20]
    assert made.start is not cache.start


def test_a_splice_wins_over_a_correction(hybrid, error):
    """Rescaled and corrected rows that are then spliced are exact all the same."""
    one = hybrid(70)
    layers = [layer for layer in range(one.split, one.adapter.layers) if one.adapter.kinds[layer] == LINEAR]
    deltas = {layer: torch.ones(state_shape(one.adapter)) for layer in layers}
    both = Amendments(
        Rescale(("key", "value"), 4), StateCorrection(deltas), Splice(frozenset(everything(one)), one.pass_)
    )
    both.require(one.adapter, one.split)
    assert error(one.run(both)[0], one.pass_.hidden[:, one.exact]) <= TOLERANCE


@pytest.mark.parametrize("chunks", [[25, 50, 70], [30, 45, 70]])
def test_a_chunked_prefill_is_spliced_as_one_pass(family, request_of, error, chunks):
    """All parts, with exact rows in the prefix."""
    one = request_of(family, 70, chosen=[2, 33])
    out = one.run(how(one, *everything(one)), chunks=chunks)[0]
    assert error(out, one.pass_.hidden[:, one.exact]) <= TOLERANCE


def test_splices_that_mean_nothing_are_refused(request_of):
    """States without recurrent layers, an unknown part, inputs that were not kept, a late part without attention."""
    plain, one = request_of("llama", 40), request_of("qwen3_5", 40)
    with pytest.raises(ConfigError, match="a splice of states needs a recurrent layer from split 3"):
        how(plain, "keys", "states").require(plain.adapter, 3)
    with pytest.raises(ConfigError, match="queries was asked for"):
        Splice(frozenset({"queries"}), plain.pass_)
    bare = Splice(frozenset({"states"}), run_exact(one.adapter, one.ids))
    with pytest.raises(ConfigError, match="kept no inputs of layers 4, 5, 6"):
        bare.require(one.adapter, 4)
    kinds, one.adapter.kinds = one.adapter.kinds, (LINEAR,) * 8
    with pytest.raises(ConfigError, match="attention layer from split 4"):
        how(one, "values").require(one.adapter, 4)
    one.adapter.kinds = kinds
    how(one, "keys", "values", "states").require(one.adapter, 4)
    with pytest.raises(NumericsError, match="before any row"):
        spliced(plain.adapter, plain.adapter.new_cache(40), plain.filled, 3, how(plain, "keys").splice)


@pytest.mark.parametrize(
    ("spliced_loss", "filled_loss", "printed"),
    [(0.031, 1.006, 97.0), (0.120, 1.006, 88.1), (0.502, 1.006, 50.1), (0.0, 1.006, 100.0), (0.143, 0.044, -222.4)],
)
def test_loss_removed_is_the_papers_table_23(spliced_loss, filled_loss, printed):
    """Within what three printed decimals of the losses allow."""
    slack = 100 * (0.0005 + abs(spliced_loss / filled_loss) * 0.0005) / filled_loss + 0.05
    assert 100 * loss_removed(spliced_loss, filled_loss) == pytest.approx(printed, abs=slack)


@pytest.mark.parametrize(
    ("spliced_score", "filled_score", "exact_score", "printed"),
    [(99.1, 60.7, 99.6, 98.6), (79.6, 60.7, 99.6, 48.6), (94.2, 93.7, 98.7, 10.7), (82.4, 93.7, 98.7, -221.4)],
)
def test_gap_closed_is_the_papers_table_23(spliced_score, filled_score, exact_score, printed):
    """Llama against its exact arm of the same run, Qwen3-8B; within what one printed decimal of the scores allows."""
    gap = exact_score - filled_score
    slack = 100 * (0.1 + abs((exact_score - spliced_score) / gap) * 0.1) / gap + 0.05
    assert 100 * gap_closed(spliced_score, filled_score, exact_score) == pytest.approx(printed, abs=slack)


def test_shares_of_nothing_do_not_exist_and_those_of_nan_are_refused():
    """A fill that loses nothing, or gains; a splice that makes it worse is negative."""
    assert loss_removed(0.5, 0.0) is None
    assert loss_removed(0.5, -0.1) is None
    assert gap_closed(99.0, 99.0, 99.0) is None
    assert loss_removed(2.0, 1.0) == -1.0
    assert gap_closed(100.0, 90.0, 95.0) == 2.0
    for bad in (float("nan"), float("inf")):
        with pytest.raises(NumericsError):
            loss_removed(bad, 1.0)
        with pytest.raises(NumericsError):
            gap_closed(1.0, bad, 3.0)
