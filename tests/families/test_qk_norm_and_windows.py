"""What tells Qwen3 and Gemma 3 from Llama: norms on queries and keys, rotary tables by kind of layer, windows."""

from dataclasses import replace

import pytest
import torch

from ridgefill.arms import Arm
from ridgefill.cost import Geometry
from ridgefill.errors import ConfigError
from ridgefill.fill import oracle, predictor, run_late
from ridgefill.models.base import causal_mask
from ridgefill.passes import run_exact, run_lower
from ridgefill.rows import plan_rows
from ridgefill.selectors.attention import AttentionRows
from ridgefill.selectors.context import Context

WINDOW, TAIL, TOKENS = 24, 20, 90
TOLERANCE = 1e-5


@pytest.fixture
def oracle_error(prompt, plan, error):
    """``oracle_error(one, change)``: how far the oracle gate is off when ``change`` spoils the adapter's writes."""

    def measure(one, change=lambda adapter: None):
        ids, planned = prompt(TOKENS), plan(TOKENS, range(TOKENS - TAIL, TOKENS))
        exact = run_exact(one.adapter, ids, keep=range(one.adapter.layers))
        change(one.adapter)
        truth = oracle(one.adapter, exact.inputs, planned.filled)
        arm = Arm("ridgefill", "ridge", split=one.split, tail=TAIL)
        done = run_late(one.adapter, exact.lower(one.split), planned, truth, arm)
        return error(done.hidden, exact.hidden[:, planned.exact])

    return measure


def test_a_norm_left_out_or_put_in_fails_the_oracle_gate(case, oracle_error, family):
    """QK-norm where the family has none has no weights to use; one left out is far outside the tolerance."""
    one = case()
    if not hasattr(one.adapter, "qk_norm"):
        pytest.skip("this family has its own way of norming keys")

    def flip(adapter):
        adapter.qk_norm = not adapter.qk_norm

    if family == "llama":
        with pytest.raises(AttributeError, match="k_norm"):
            oracle_error(one, flip)
    else:
        assert oracle_error(one) <= TOLERANCE
        assert oracle_error(one, flip) > 1000 * TOLERANCE


@pytest.mark.parametrize("family", ["gemma3"])
def test_the_other_rotary_table_fails_the_oracle_gate(case, oracle_error, monkeypatch):
    """Filled rows of windowed layers turned by the base of the others, and the other way round."""
    one = case()
    plain, write = type(one.adapter).rotary, type(one.adapter).write_filled

    def swapped(adapter, positions):
        tables = plain(adapter, positions)
        return dict(zip(tables, reversed(list(tables.values())), strict=True))

    def spoil(adapter):
        # Only while filled rows are written: exact rows keep the stock tables.
        def written(layer, x, rows, cache):
            other = replace(rows, rotary=swapped(adapter, rows.positions))
            write(adapter, layer, x, other, cache)

        monkeypatch.setattr(adapter, "write_filled", written)

    assert oracle_error(one) <= TOLERANCE
    assert oracle_error(one, spoil) > 1000 * TOLERANCE


@pytest.mark.parametrize("family", ["gemma3"])
@pytest.mark.parametrize("tokens", [TAIL, TAIL + 1, TAIL + WINDOW - 2, TAIL + WINDOW - 1, TAIL + WINDOW, TOKENS])
@pytest.mark.parametrize("chosen", [(), (15,), (5, 30)])
def test_exactly_the_rows_that_some_window_reaches_are_written(case, prompt, plan, monkeypatch, tokens, chosen):
    """In windowed layers from the first exact row's window on; in the others every filled row. In ascending order."""
    one = case()
    exact = sorted({row for row in chosen if row < tokens} | set(range(tokens - TAIL, tokens)))
    planned, lower, seen = plan(tokens, exact), run_lower(one.adapter, prompt(tokens), one.split), {}
    write = one.adapter.write_filled

    def noted(layer, x, rows, cache):
        assert x.shape[1] == rows.positions.numel()
        seen[layer] = rows.positions.tolist()
        write(layer, x, rows, cache)

    monkeypatch.setattr(one.adapter, "write_filled", noted)
    run_late(one.adapter, lower, planned, one.adapter.block_input, Arm("i", "identity", split=one.split, tail=TAIL))
    for layer in range(one.split, one.adapter.layers):
        windowed = one.adapter.kinds[layer] == "sliding_attention"
        visible = [row for row in planned.filled.tolist() if not windowed or row > exact[0] - WINDOW]
        assert seen.get(layer, []) == visible


@pytest.mark.parametrize("family", ["gemma3"])
def test_windowed_masks_equal_the_definition(case):
    """A row sees itself and the ``WINDOW - 1`` rows before it, from wherever its keys begin."""
    adapter = case().adapter
    positions = torch.tensor([3, 40, 41, 70])
    rows = adapter.rows(positions)
    begin = rows.begin["sliding_attention"]
    assert begin == 0
    for kind, width in (("sliding_attention", WINDOW), ("full_attention", 71)):
        expected = [[row - width < key <= row for key in range(rows.begin[kind], 71)] for row in positions.tolist()]
        assert rows.mask[kind][0, 0].tolist() == expected
    tail = adapter.rows(torch.arange(60, 71))
    assert tail.begin == {"sliding_attention": 60 - WINDOW + 1, "full_attention": 0}
    assert causal_mask(torch.tensor([5]), 2, 7, 3)[0, 0].tolist() == [[False, True, True, True, False]]


@pytest.mark.parametrize("family", ["gemma3"])
@pytest.mark.parametrize("split", [2, 3, 5])
def test_attention_selected_rows_come_from_layers_that_see_all_rows(case, prompt, split):
    """In a windowed model those are few, so each of them below the split ranks the rows; the window's do not."""
    adapter = case().adapter
    lower = run_lower(adapter, prompt(TOKENS), split)
    assert sorted(lower.window_inputs) == [layer for layer in (1, 4) if layer < split]
    geometry = Geometry(layers=6, hidden=32, q=64, kv=16, ff=64)
    arm = Arm("a", "ridge", split=split, tail=TAIL, rows=AttentionRows(0.1))
    planned = plan_rows(arm, Context.around(adapter, lower, 0), geometry)
    around = replace(Context.around(adapter, lower), prefix=TOKENS - TAIL)
    assert planned.selected == AttentionRows(9 / TOKENS).rows(around)
    assert list(planned.selected) != list(range(9))


@pytest.mark.parametrize("family", ["gemma3"])
def test_no_layer_to_rank_rows_with_is_one_sentence(case, prompt):
    """Below the first layer that sees all rows there is nothing to rank by; taking the first rows would be silent."""
    adapter = case().adapter
    lower = run_lower(adapter, prompt(TOKENS), 1)
    with pytest.raises(ConfigError, match="no layer below split 1 ranks rows by attention; expected a deeper split"):
        AttentionRows().rows(replace(Context.around(adapter, lower), prefix=TOKENS - TAIL))
    assert predictor(Arm("i", "identity", split=1), {}, adapter) == adapter.block_input
