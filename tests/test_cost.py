"""Multiply-accumulates, ceilings and break-evens of ``ridgefill.cost``."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgefill import cost
from ridgefill.errors import ConfigError

LLAMA = cost.Geometry(layers=32, hidden=4096, q=4096, kv=1024, ff=14336)
QWEN3 = cost.Geometry(layers=36, hidden=4096, q=4096, kv=1024, ff=12288)
TAIL = 4096

small_geometry = st.builds(
    cost.Geometry,
    layers=st.integers(3, 6),
    hidden=st.integers(1, 9),
    q=st.integers(1, 9),
    kv=st.integers(1, 5),
    ff=st.integers(1, 12),
)


def naive(g, tokens, split, tail, fill, exact_rows, mapped, rank=None):
    """One row of one layer at a time, as METHOD section 7 words it."""
    total = 0
    full = [p >= tokens - tail or p in exact_rows for p in range(tokens)]
    for layer in range(g.layers):
        for p in range(tokens):
            late = layer >= split
            if not late or full[p]:
                visible = sum(full[: p + 1]) if late and fill == "none" else p + 1
                total += g.hidden * g.q + 2 * g.hidden * g.kv + g.q * g.hidden + 3 * g.hidden * g.ff
                total += 2 * g.q * visible
            elif fill != "none":
                total += 2 * g.hidden * g.kv
                if fill == "ridge" and (layer > split or mapped):
                    total += g.hidden**2 if rank is None else g.hidden * rank + rank * g.hidden
    return total


@pytest.mark.parametrize(("tokens", "times"), [(9216, 1.64), (16384, 1.78), (32768, 1.88)])
def test_flash_next_ceilings_are_the_published_ones(tokens, times):
    """48 layers, split 24, tail 2,048: the layer-count ceilings of the paper."""
    assert round(cost.ceiling(cost.layer_share(48, 24, 2048, tokens)), 2) == times


@pytest.mark.parametrize(
    ("g", "split", "thousands"), [(LLAMA, 16, 14.4), (LLAMA, 20, 45.7), (QWEN3, 13, 10.6), (QWEN3, 22, 58.9)]
)
def test_crossovers_with_pop_are_the_published_ones(g, split, thousands):
    """The first multiple of 100 tokens at which the fill, a map at every late layer, is cheaper than POP."""
    tokens = cost.crossover_with_pop(g, split, TAIL)
    assert math.ceil(tokens / 100) / 10 == thousands


def test_crossovers_need_the_map_of_the_split_layer():
    """Without a map at the split layer the break-even of split 20 would be 44.5K, not the published 45.7K."""
    assert math.ceil(cost.crossover_with_pop(LLAMA, 20, TAIL, mapped_split_layer=False) / 100) == 445


@pytest.mark.parametrize(("split", "tokens", "ratio"), [(13, 32768, 0.759), (22, 32768, 1.042), (22, 65536, 0.994)])
def test_ratios_to_pop_are_the_published_ones(split, tokens, ratio):
    """Qwen3-8B with a 4,096-token tail, K meaning 1,024 in the lengths."""
    macs = cost.fill_macs(QWEN3, tokens=tokens, split=split, tail=TAIL)
    assert round(macs / cost.pop_macs(QWEN3, tokens), 3) == ratio


@pytest.mark.parametrize(("g", "split"), [(LLAMA, 16), (LLAMA, 20), (QWEN3, 13), (QWEN3, 22)])
def test_crossover_is_the_first_cheaper_length(g, split):
    """One token less and POP is still no dearer."""
    tokens = cost.crossover_with_pop(g, split, TAIL)
    assert cost.fill_macs(g, tokens=tokens, split=split, tail=TAIL) < cost.pop_macs(g, tokens)
    assert cost.fill_macs(g, tokens=tokens - 1, split=split, tail=TAIL) >= cost.pop_macs(g, tokens - 1)


def test_no_crossover_at_or_above_the_split_of_pop():
    """A fill that skips no more layers than POP never becomes cheaper."""
    assert cost.crossover_with_pop(LLAMA, 22, TAIL) is None
    assert cost.crossover_with_pop(LLAMA, 25, TAIL) is None


@given(st.data(), small_geometry, st.sampled_from(["ridge", "identity", "none"]), st.booleans())
def test_closed_form_equals_counting_row_by_row(data, g, fill, mapped):
    """Every arm, with and without exact prefix rows, equals the naive count."""
    tokens = data.draw(st.integers(1, 14))
    tail = data.draw(st.integers(1, 16))
    split = data.draw(st.integers(1, g.layers - 1))
    prefix = max(0, tokens - tail)
    rows = data.draw(st.sets(st.integers(0, prefix - 1))) if prefix else set()
    rank = data.draw(st.none() | st.integers(1, g.hidden))
    words = {"exact_rows": list(rows), "mapped_split_layer": mapped, "rank": rank}
    ours = cost.fill_macs(g, tokens=tokens, split=split, tail=tail, fill=fill, **words)
    assert ours == naive(g, tokens, split, tail, fill, rows, mapped, rank)


@given(small_geometry, st.integers(1, 30), st.integers(0, 5), st.sampled_from(["ridge", "identity", "none"]))
def test_prompt_within_the_tail_costs_exact(g, tokens, extra, fill):
    """With no row to fill, every arm is exact prefill."""
    assert cost.fill_macs(g, tokens=tokens, split=1, tail=tokens + extra, fill=fill) == cost.exact_macs(g, tokens)


def test_running_every_prefix_row_costs_exact():
    """All prefix rows exact leaves nothing filled."""
    g = cost.Geometry(4, 8, 8, 4, 16)
    for fill in ("ridge", "identity", "none"):
        macs = cost.fill_macs(g, tokens=20, split=2, tail=5, fill=fill, exact_rows=range(15))
        assert macs == cost.exact_macs(g, 20)


@given(small_geometry, st.integers(2, 40), st.data())
def test_matched_tail_is_the_closest_one(g, tokens, data):
    """No other tail of the no-fill arm comes closer to the fill's cost, and the residual is what remains."""
    split = data.draw(st.integers(1, g.layers - 1))
    target = cost.fill_macs(g, tokens=tokens, split=split, tail=data.draw(st.integers(1, tokens)))
    tail, residual = cost.match_no_fill_tail(g, tokens, split, target)
    gaps = [cost.fill_macs(g, tokens=tokens, split=split, tail=t, fill="none") - target for t in range(1, tokens + 1)]
    assert residual == gaps[tail - 1]
    assert abs(residual) == min(abs(gap) for gap in gaps)


def test_windows_leave_only_their_rows_to_fill():
    """Five of six late layers windowed: the share filled is what 511 rows before a tail of 128 leave (Gemma 3 270M)."""
    full = cost.Geometry(layers=18, hidden=640, q=1024, kv=256, ff=2048)
    windows = tuple(None if layer in (5, 11, 17) else 512 for layer in range(18))
    windowed = cost.Geometry(layers=18, hidden=640, q=1024, kv=256, ff=2048, windows=windows)
    row = full.filled_row + full.hidden**2
    options = {"tokens": 4096, "split": 12, "tail": 128}
    identity = cost.fill_macs(windowed, fill="identity", **options)
    saved = cost.fill_macs(windowed, **options) - identity
    assert saved == (5 * 511 + 3968) * full.hidden**2
    seen_by_tail = 2 * full.q * sum(position + 1 - 512 for position in range(3968, 4096))
    seen_below = 2 * full.q * sum(max(0, position + 1 - 512) for position in range(4096))
    difference = cost.fill_macs(full, **options) - cost.fill_macs(windowed, **options)
    assert difference == 10 * seen_below + 5 * (seen_by_tail + (3968 - 511) * row)


def test_a_windowed_layer_in_between_may_leave_no_crossover():
    """With it POP's cost minus the fill's is a line, here falling; without it a parabola that must cross."""
    g = cost.Geometry(layers=6, hidden=100, q=1, kv=1, ff=1, windows=(None, None, None, 4, None, None))
    assert cost.crossover_with_pop(g, 3, 8) is None
    assert cost.crossover_with_pop(cost.Geometry(layers=6, hidden=100, q=1, kv=1, ff=1), 3, 8) > 8


def test_matched_tail_is_longer_than_the_fill_it_matches():
    """Filling costs something, so at equal cost no fill affords a longer tail (Llama, split 12, 32K)."""
    target = cost.fill_macs(LLAMA, tokens=32768, split=12, tail=TAIL)
    tail, residual = cost.match_no_fill_tail(LLAMA, 32768, 12, target)
    late_row = (LLAMA.layers - 12) * (LLAMA.row + 2 * LLAMA.q * tail)
    assert TAIL < tail < 32768
    assert abs(residual) <= late_row / 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": 0}, "at least 1"),
        ({"split": 32}, "expected 0 to 31"),
        ({"tail": -1}, "0 or more"),
        ({"exact_rows": [5, 5]}, "listed twice"),
        ({"exact_rows": [900]}, "leave the prefix of 900 rows"),
        ({"exact_rows": [-1]}, "leave the prefix"),
        ({"rank": 4097}, "rank is 4097; expected 1 to 4096"),
    ],
)
def test_settings_that_cannot_be_are_refused(change, message):
    """Each impossible setting is one sentence, not a number."""
    with pytest.raises(ConfigError, match=message):
        cost.fill_macs(LLAMA, **{"tokens": 1000, "split": 16, "tail": 100, **change})


def test_share_and_ceiling_refuse_what_is_undefined():
    """No layers, no tokens, or no work left have no ceiling."""
    with pytest.raises(ConfigError, match="undefined"):
        cost.layer_share(0, 0, 1, 10)
    with pytest.raises(ConfigError, match="no ceiling"):
        cost.ceiling(0.0)
