"""Parts and closed forms of the cost model, against counting one row of one layer at a time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgefill import cost
from ridgefill.config import cost_geometry, load_model
from ridgefill.corrections.cost import rescale_macs, state_correction_macs
from ridgefill.errors import ConfigError

small = st.integers(1, 9)
indexers = st.builds(cost.Indexer, small, st.integers(1, 4), st.integers(1, 3))
scans = st.builds(cost.Scan, small, small, small, small)
attention = {"writes": small, "rest": small, "mlp": small, "streams": small, "mix": small, "ngrams": small}
layers = st.one_of(
    st.builds(cost.Layer, **attention, pair=small),
    st.builds(cost.Layer, **attention, pair=small, window=st.integers(1, 8)),
    st.builds(cost.Layer, **attention, pair=small, indexer=indexers),
    st.builds(cost.Layer, **attention, scan=scans),
)


def geometry(each, streams=2, mixer=5):
    """A decoder of those layers whose maps read two streams."""
    return cost.Geometry(len(each), 3, 4, 2, 6, each=tuple(each), streams=streams, mixer=mixer)


geometries = st.lists(layers, min_size=3, max_size=5).map(geometry)


def attended(layer, visible):
    """Rows that one row attends to and what picking them takes, block by block."""
    if layer.indexer is None:
        return min(visible, layer.window or visible), 0
    one = layer.indexer
    blocks = [one.block] * (visible // one.block)
    return sum(blocks[: one.blocks]) + visible - sum(blocks), one.width * len(blocks)


def padded(layer, rows):
    """Rows through a scan, in chunks of 64, product by product of each head."""
    one, total = layer.scan, rows * layer.scan.conv
    for _ in range(0, rows, 64):
        squares = 2 * 64 * 64 * one.key_dim + 64 * 64 * one.value_dim
        solved = sum(range(64)) * (one.key_dim + one.value_dim)
        total += one.value_heads * (squares + solved + 3 * 64 * one.key_dim * one.value_dim)
    return total


def naive(g, tokens, split, tail, fill, rows, mapped, rank, swept):
    """Every row of every layer by itself."""
    total = g.mixer
    full = [p >= tokens - tail or p in rows for p in range(tokens)]
    for number, layer in enumerate(g.each):
        late = number >= split
        runs = [not late or one for one in full]
        present = [fill != "none" or one for one in runs] if late else [True] * tokens
        first = full.index(True) if True in full else tokens
        for p in range(tokens):
            if runs[p]:
                reach = 0 if layer.window is None else max(0, p - layer.window + 1)
                picked, scored = attended(layer, sum(present[reach : p + 1]))
                total += layer.writes + layer.rest + layer.mlp + layer.streams + layer.ngrams
                total += layer.pair * picked + scored
            both = late and swept and layer.scan is None and p < tokens - tail
            if fill != "none" and ((late and not runs[p]) or both):
                unseen = layer.window is not None and p <= first - layer.window
                if unseen and not both:
                    continue
                total += layer.writes
                if fill == "ridge" and (number > split or mapped):
                    total += g.width * g.hidden if rank is None else rank * (g.width + g.hidden)
                else:
                    total += layer.mix
        if layer.scan is not None:
            total += padded(layer, sum(present))
    return total


@settings(max_examples=200)
@given(st.data(), geometries, st.sampled_from(["ridge", "identity", "none"]), st.booleans(), st.booleans())
def test_closed_forms_equal_counting_row_by_row(data, g, fill, mapped, swept):
    """Windows, sparse attention, recurrent layers, streams and two sweeps, with and without exact prefix rows."""
    tokens = data.draw(st.integers(1, 80))
    tail = data.draw(st.integers(1, 20))
    split = data.draw(st.integers(1, g.layers - 1))
    prefix = max(0, tokens - tail)
    rows = data.draw(st.sets(st.integers(0, prefix - 1), max_size=6)) if prefix else set()
    rank = data.draw(st.none() | st.integers(1, g.hidden))
    words = {"exact_rows": list(rows), "mapped_split_layer": mapped, "rank": rank, "swept": swept}
    ours = cost.fill_macs(g, tokens=tokens, split=split, tail=tail, fill=fill, **words)
    assert ours == naive(g, tokens, split, tail, fill, rows, mapped, rank, swept)


@given(geometries, st.integers(1, 90))
def test_exact_prefill_equals_a_prompt_without_a_prefix(g, tokens):
    """All rows in all layers, whatever their kind."""
    assert cost.exact_macs(g, tokens) == cost.fill_macs(g, tokens=tokens, split=1, tail=tokens)


@given(st.data(), geometries, st.sampled_from(["ridge", "identity", "none", "swiftkv"]), st.booleans())
def test_parts_sum_to_the_total(data, g, fill, swept):
    """Exactly, for exact and filled prefill, and no part is empty or named twice."""
    tokens, tail = data.draw(st.integers(1, 80)), data.draw(st.integers(1, 20))
    words = {"tokens": tokens, "split": data.draw(st.integers(1, g.layers - 1)), "tail": tail, "swept": swept}
    parts = cost.fill_parts(g, fill=fill, **words)
    assert sum(part.macs for part in parts) == cost.fill_macs(g, fill=fill, **words)
    assert sum(part.macs for part in cost.exact_parts(g, tokens)) == cost.exact_macs(g, tokens)
    assert len({(part.where, part.what) for part in parts}) == len(parts)
    assert min(part.macs for part in parts) > 0


@given(geometries, st.integers(2, 80))
def test_swiftkv_costs_what_the_identity_costs(g, tokens):
    """Its projections have the shapes of the layer's own."""
    words = {"tokens": tokens, "split": 1, "tail": 1}
    assert cost.fill_macs(g, fill="swiftkv", **words) == cost.fill_macs(g, fill="identity", **words)


def test_kva_heads_cost_keys_and_values_from_the_split_state():
    """As the identity on plain attention; refused where late layers keep something else."""
    plain = cost.Geometry(layers=4, hidden=8, q=8, kv=4, ff=16)
    words = {"tokens": 30, "split": 2, "tail": 5}
    assert cost.fill_macs(plain, fill="kva", **words) == cost.fill_macs(plain, fill="identity", **words)
    hybrid = geometry([cost.Layer(1, 1, 1, pair=1), cost.Layer(1, 1, 1, scan=cost.Scan(1, 1, 1, 1))], streams=1)
    with pytest.raises(ConfigError, match="without plain attention"):
        cost.fill_macs(hybrid, fill="kva", tokens=30, split=1, tail=5)


def test_a_first_sweep_fills_what_turns_out_exact():
    """One map and one write more for every exact prefix row of an attention layer, and nothing in recurrent ones."""
    g = cost_geometry(load_model("qwen3.5-9b"))
    words = {"tokens": 4096, "split": 12, "tail": 512, "exact_rows": range(0, 3000, 10)}
    more = cost.fill_macs(g, swept=True, **words) - cost.fill_macs(g, **words)
    assert more == 5 * 300 * (g.map_row() + 2 * g.hidden * g.kv)


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("fill", ["ridge", "identity"])
def test_corrections_are_summed_over_the_late_layers_that_have_them(mapped, fill):
    """Qwen3.5-9B from layer 11, attention: no rescale there when its filled rows have their true input."""
    g = cost_geometry(load_model("qwen3.5-9b"))
    words = {"split": 11, "prefix": 640, "tail": 64, "fill": fill, "mapped_split_layer": mapped}
    measured = cost.correction_macs(g, rescale_rows=512, **words)
    map_row = g.hidden**2 if fill == "ridge" else 0
    assert measured == (5 + mapped) * rescale_macs(64, g.hidden, g.kv, map_row)
    states = cost.correction_macs(g, state_correction=True, **words)
    assert states == 15 * state_correction_macs(640, 32, 128, 128)
    assert cost.correction_macs(g, rescale_rows=512, state_correction=True, **words) == measured + states
    assert cost.correction_macs(g, rescale_rows=512, state_correction=True, **{**words, "prefix": 0}) == 0


def test_a_scan_parted_at_the_end_of_the_prefix_pads_one_chunk_more():
    """A prefix of 70 rows and a tail of 30 fill two chunks together and three apart."""
    layer = cost.Layer(1, 1, 1, scan=cost.Scan(2, 3, 4, 5))
    words = {"split": 1, "prefix": 70, "tail": 30, "state_correction": True}
    corrected = cost.correction_macs(geometry([layer, layer]), **words)
    assert corrected == state_correction_macs(70, 2, 3, 4) + layer.scan.chunk


@pytest.mark.parametrize("fill", ["none", "kva", "swiftkv"])
def test_a_fill_without_predictions_cannot_be_corrected(fill):
    """And a negative number of rows is none."""
    g = cost.Geometry(layers=4, hidden=8, q=8, kv=4, ff=16)
    with pytest.raises(ConfigError, match="predicts no layer input"):
        cost.correction_macs(g, split=2, prefix=10, tail=5, rescale_rows=3, fill=fill)
    with pytest.raises(ConfigError, match="expected 0 or more"):
        cost.correction_macs(g, split=2, prefix=10, tail=5, rescale_rows=-1)
