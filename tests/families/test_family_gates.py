"""The gates of METHOD section 3 for every family: off is stock bit for bit, and true inputs give the exact result."""

import pytest
import torch

from ridgefill import fill
from ridgefill.arms import Arm
from ridgefill.fill import oracle, run_late
from ridgefill.passes import run_exact, run_lower
from ridgefill.rows import plan_rows
from ridgefill.selectors.context import Context

TAIL = 20
WINDOW = 24
# One row, around the tail, the question window, and the layers' own window, and far longer than any of them.
LENGTHS = [1, 2, TAIL - 1, TAIL, TAIL + 1, WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW, 63, 64, 65, 257]
DTYPES = [torch.float32, torch.bfloat16]
# The fill path multiplies the same matrices by fewer rows at a time, so sums may be taken in another order:
# METHOD's bound in fp32; bf16 keeps 8 bits, and six layers stay within a few of its roundings.
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 8 * 2**-8}


def through_the_fill(case, ids, planned, split_layer="exact", spoil=lambda predicted: predicted):
    """The exact pass, and the fill of the same prompt from its own layer inputs, ``spoil`` applied to them."""
    exact = run_exact(case.adapter, ids, keep=range(case.adapter.layers))
    truth = oracle(case.adapter, exact.inputs, planned.filled)
    arm = Arm("ridgefill", "ridge", split=case.split, tail=TAIL, split_layer=split_layer)
    lower = exact.lower(case.split)
    return exact, run_late(case.adapter, lower, planned, lambda layer, state: spoil(truth(layer, state)), arm)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", LENGTHS)
def test_the_exact_pass_is_the_stock_model_bit_for_bit(case, prompt, stored_by_stock, tokens, dtype):
    """Off gate: logits, and of every layer's cache all that the stock model keeps, with room for more rows."""
    one, ids = case(dtype), prompt(tokens)
    stock = one.model(ids, use_cache=True)
    done = run_exact(one.adapter, ids, capacity=tokens + 9)
    assert torch.equal(one.adapter.logits(done.hidden), stock.logits)
    for layer, kept in enumerate(stock.past_key_values.layers):
        for ours, theirs in stored_by_stock(one.adapter, done.cache, kept, layer, tokens).values():
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize("name", ["identity", "none"])
def test_an_arm_with_no_filled_row_is_the_stock_model_bit_for_bit(case, prompt, stored_by_stock, tokens, dtype, name):
    """Off gate through the fill path: with a tail as long as the prompt nothing is filled and nothing differs."""
    one, ids = case(dtype), prompt(tokens)
    arm = Arm("arm", name, split=one.split, tail=tokens)
    lower = run_lower(one.adapter, ids, one.split)
    planned = plan_rows(arm, Context.around(one.adapter, lower, 0), one.geometry)
    done = run_late(one.adapter, lower, planned, None if name == "none" else one.adapter.block_input, arm)
    stock = one.model(ids, use_cache=True)
    assert torch.equal(one.adapter.logits(done.hidden), stock.logits)
    for layer, kept in enumerate(stock.past_key_values.layers):
        for ours, theirs in stored_by_stock(one.adapter, done.cache, kept, layer, tokens).values():
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", ["tail", "scattered"])
@pytest.mark.parametrize("tokens", LENGTHS)
def test_true_inputs_through_the_fill_path_give_the_exact_result(
    case, prompt, plan, stored, error, tokens, rows, dtype
):
    """Oracle gate: outputs of the exact rows, and of every layer's cache each row that one of them can see, whether
    the split layer takes its own state or a prediction.
    """
    one, ids = case(dtype), prompt(tokens)
    chosen = set(range(max(0, tokens - TAIL), tokens))
    if rows == "scattered":
        chosen |= set(range(1, tokens, 5))
    planned = plan(tokens, chosen)
    for split_layer in ("exact", "mapped"):
        exact, done = through_the_fill(one, ids, planned, split_layer)
        assert error(done.hidden, exact.hidden[:, planned.exact]) <= TOLERANCE[dtype]
        for layer in range(one.adapter.layers):
            begin = one.adapter.first_needed(layer, int(planned.exact[0])) if layer >= one.split else 0
            found = stored(one.adapter, done.cache, layer, begin, tokens)
            for name, expected in stored(one.adapter, exact.cache, layer, begin, tokens).items():
                assert error(found[name], expected) <= TOLERANCE[dtype]


@pytest.mark.parametrize("step", [1, 7, 24, 25])
@pytest.mark.parametrize("rows", ["tail", "scattered"])
@pytest.mark.parametrize("fills", ["oracle", "nothing"])
def test_exact_rows_in_pieces_are_one_pass(case, prompt, plan, error, monkeypatch, step, rows, fills):
    """Memory is bounded by running exact rows piece by piece, over a fill and over nothing at all."""
    one, ids = case(), prompt(90)
    chosen = set(range(60, 90)) | (set(range(1, 60, 4)) if rows == "scattered" else set())
    planned = plan(90, chosen)
    exact = run_exact(one.adapter, ids, keep=range(one.adapter.layers))
    lower = exact.lower(one.split)
    if fills == "nothing":
        arm, predict = Arm("arm", "none", split=one.split, tail=30), None
        planned = plan_rows(arm, Context.around(one.adapter, lower, 0), one.geometry)
    else:
        arm = Arm("arm", "ridge", split=one.split, tail=30)
        predict = oracle(one.adapter, exact.inputs, planned.filled)
    whole = run_late(one.adapter, lower, planned, predict, arm).hidden
    monkeypatch.setattr(fill, "ROWS_AT_ONCE", step)
    pieces = run_late(one.adapter, lower, planned, predict, arm).hidden
    assert error(pieces, whole) <= TOLERANCE[torch.float32]


@pytest.mark.parametrize("fills", ["oracle", "identity", "nothing"])
def test_rows_that_nobody_may_read_stay_nan_and_reach_nothing(case, prompt, plan, fills):
    """Buffers start as NaN: unused room, hidden prefixes, and rows that no window reaches stay so, outputs do not."""
    one, tokens, tail = case(), 130, 20
    ids = prompt(tokens)
    exact = run_exact(one.adapter, ids, capacity=tokens + 9, keep=range(one.adapter.layers))
    planned, lower = plan(tokens, range(tokens - tail, tokens)), exact.lower(one.split)
    arm, predict = Arm("arm", "ridge", split=one.split, tail=tail), one.adapter.block_input
    if fills == "oracle":
        predict = oracle(one.adapter, exact.inputs, planned.filled)
    if fills == "nothing":
        arm, predict = Arm("arm", "none", split=one.split, tail=tail), None
        planned = plan_rows(arm, Context.around(one.adapter, lower, 0), one.geometry)
    done = run_late(one.adapter, lower, planned, predict, arm)
    assert bool(one.adapter.logits(done.hidden).isfinite().all())
    for layer in range(one.split, one.adapter.layers):
        keys = done.cache.keys[layer]
        if keys is None:
            continue
        nan = keys.isnan().any(dim=1).any(dim=-1)[0].tolist()
        first = tokens - tail
        if fills != "nothing":
            window = one.adapter.windows.get(one.adapter.kinds[layer])
            first = 0 if window is None else first - window + 1
        assert nan == [row < first or row >= tokens for row in range(tokens + 9)]


def test_a_wrong_layer_input_fails_the_oracle_gate(case, prompt, plan, error):
    """The gate can fail: every filled row with its neighbour's input is far outside the tolerance."""
    one, planned = case(), plan(65, range(45, 65))
    exact, done = through_the_fill(one, prompt(65), planned, spoil=lambda predicted: predicted.roll(1, dims=1))
    assert error(done.hidden, exact.hidden[:, planned.exact]) > 1000 * TOLERANCE[torch.float32]
