"""The two gates of METHOD section 3: fill off is the stock model bit for bit; true inputs give the exact
result.
"""

import pytest
import torch

from ridgefill.arms import Arm
from ridgefill.decode import decode_greedy
from ridgefill.errors import ModelError, NumericsError, TextError
from ridgefill.fill import oracle, run_late
from ridgefill.models.llama import LlamaAdapter
from ridgefill.passes import run_exact, run_lower
from ridgefill.rows import RowPlan, plan_rows
from ridgefill.selectors.context import Context

SPLIT, TAIL = 3, 20
# 64 is the question window; around TAIL the number of filled rows goes from none to one.
LENGTHS = [1, 2, TAIL - 1, TAIL, TAIL + 1, 63, 64, 65, 257]
DTYPES = [torch.float32, torch.bfloat16]
# The oracle path multiplies the same matrices by fewer rows at a time, so sums may be taken in another order:
# some fp32 roundings of the largest value, METHOD's own bound.
TOLERANCE = 1e-5


def error(found, expected):
    """Largest difference in units of the largest expected value; the one measure of these tests."""
    scale = float(expected.double().abs().max())
    return float((found.double() - expected.double()).abs().max()) / scale


def plan(tokens, exact, start=0):
    """A plan with the given exact rows, everything else filled."""
    exact = torch.tensor(sorted(exact))
    filled = torch.tensor([row for row in range(tokens) if row not in set(exact.tolist())], dtype=torch.int64)
    return RowPlan(filled, exact, TAIL, start, ())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", LENGTHS)
def test_the_exact_pass_is_the_stock_model_bit_for_bit(tiny, adapt, prompt, tokens, dtype):
    """Off gate, logits and every layer's cache, with room for more rows in the cache."""
    ids = prompt(tokens)
    stock = tiny(dtype=dtype)(ids, use_cache=True)
    adapter = adapt(dtype=dtype)
    done = run_exact(adapter, ids, capacity=tokens + 9)
    assert torch.equal(adapter.logits(done.hidden), stock.logits)
    for layer, kept in enumerate(stock.past_key_values.layers):
        key, value = done.cache.visible(layer, 0, tokens)
        assert torch.equal(key, kept.keys)
        assert torch.equal(value, kept.values)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize("name", ["ridgefill", "identity", "no_fill"])
def test_an_arm_with_no_filled_row_is_the_stock_model_bit_for_bit(tiny, adapt, prompt, geometry, tokens, dtype, name):
    """Off gate through the fill path: with a tail as long as the prompt nothing is filled and nothing
    differs.
    """
    ids = prompt(tokens)
    adapter = adapt(dtype=dtype)
    arm = Arm(name, "none" if name == "no_fill" else "identity", split=SPLIT, tail=tokens)
    lower = run_lower(adapter, ids, SPLIT)
    done = run_late(
        adapter, lower, plan_rows(arm, Context.around(adapter, lower, 0), geometry), adapter.block_input, arm
    )
    stock = tiny(dtype=dtype)(ids, use_cache=True)
    assert torch.equal(adapter.logits(done.hidden), stock.logits)
    for layer, kept in enumerate(stock.past_key_values.layers):
        key, value = done.cache.visible(layer, 0, tokens)
        assert torch.equal(key, kept.keys)
        assert torch.equal(value, kept.values)


@pytest.mark.parametrize("tokens", [1, 2, 65])
def test_decoding_from_the_exact_cache_is_stock_generate(tiny, adapter, prompt, tokens):
    """Off gate, continuation: the same greedy tokens as ``generate`` on the stock model."""
    ids, count = prompt(tokens), 24
    stock = tiny().generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False, pad_token_id=0
    )
    done = run_exact(adapter, ids, capacity=tokens + count)
    made = decode_greedy(
        adapter, [done.cache], adapter.logits(done.hidden[:, -1:])[:, 0],
        prompt_tokens=[tokens], new_tokens=count, stop_ids=(), finished=lambda *_: False,
    )  # fmt: skip
    assert made == [stock[0, tokens:].tolist()]
    assert len(set(made[0])) > 4


@pytest.mark.parametrize("split_layer", ["exact", "mapped"])
@pytest.mark.parametrize("rows", ["tail", "scattered"])
@pytest.mark.parametrize("tokens", LENGTHS)
def test_true_inputs_through_the_fill_path_give_the_exact_result(adapter, prompt, tokens, rows, split_layer):
    """Oracle gate: outputs of the exact rows and every late cache row, with a plain tail and with
    scattered rows.
    """
    ids = prompt(tokens)
    exact = run_exact(adapter, ids, keep=range(adapter.layers))
    chosen = set(range(max(0, tokens - TAIL), tokens))
    if rows == "scattered":
        chosen |= set(range(1, tokens, 5))
    planned = plan(tokens, chosen)
    arm = Arm("ridgefill", "ridge", split=SPLIT, tail=TAIL, split_layer=split_layer)
    done = run_late(adapter, exact.lower(SPLIT), planned, oracle(adapter, exact.inputs, planned.filled), arm)
    assert error(done.hidden, exact.hidden[:, planned.exact]) <= TOLERANCE
    for layer in range(adapter.layers):
        for found, expected in zip(
            done.cache.visible(layer, 0, tokens), exact.cache.visible(layer, 0, tokens), strict=True
        ):
            assert error(found, expected) <= TOLERANCE


def test_the_oracle_gate_holds_in_bfloat16_to_its_own_rounding(adapt, prompt):
    """bf16 keeps 8 bits; through six layers the paths stay within a few of its roundings."""
    adapter, ids = adapt(dtype=torch.bfloat16), prompt(65)
    exact = run_exact(adapter, ids, keep=range(adapter.layers))
    planned = plan(65, range(45, 65))
    arm = Arm("ridgefill", "ridge", split=SPLIT, tail=TAIL)
    done = run_late(adapter, exact.lower(SPLIT), planned, oracle(adapter, exact.inputs, planned.filled), arm)
    assert error(done.hidden, exact.hidden[:, planned.exact]) <= 8 * 2**-8


def test_a_wrong_layer_input_fails_the_oracle_gate(adapter, prompt):
    """The gate can fail: one filled row with its neighbour's input is far outside the tolerance."""
    ids = prompt(65)
    exact = run_exact(adapter, ids, keep=range(adapter.layers))
    planned = plan(65, range(45, 65))
    truth = oracle(adapter, exact.inputs, planned.filled)

    def shifted(layer, state):
        return truth(layer, state).roll(1, dims=1)

    arm = Arm("ridgefill", "ridge", split=SPLIT, tail=TAIL)
    done = run_late(adapter, exact.lower(SPLIT), planned, shifted, arm)
    assert error(done.hidden, exact.hidden[:, planned.exact]) > 1000 * TOLERANCE


def test_the_shared_lower_pass_is_the_separate_one_bit_for_bit(adapter, prompt):
    """What an exact pass lends to the arms is what running only the lower layers gives."""
    ids = prompt(65)
    shared = run_exact(adapter, ids, keep=(SPLIT,)).lower(SPLIT)
    alone = run_lower(adapter, ids, SPLIT)
    assert torch.equal(shared.state, alone.state)
    assert shared.window == alone.window
    assert shared.window_inputs.keys() == alone.window_inputs.keys()
    for layer in range(SPLIT):
        assert torch.equal(shared.cache.keys[layer], alone.cache.keys[layer])
    assert all(key is None for key in shared.cache.keys[SPLIT:])


def test_weights_that_are_not_numbers_are_refused(tiny, prompt):
    """A NaN in one weight ends the exact pass with a NumericsError instead of a result."""
    broken = type(tiny())(tiny().config)
    broken.load_state_dict(tiny().state_dict())
    broken.model.layers[4].mlp.up_proj.weight[3, 5] = float("nan")
    with pytest.raises(NumericsError, match="not finite"):
        run_exact(LlamaAdapter(broken.eval()), prompt(5))


@pytest.mark.parametrize("shape", [(1, 0), (2, 3), (3,)])
def test_an_empty_or_batched_prompt_is_refused(adapter, shape):
    """No token at all, or more than one prompt at a time, is a TextError that shows the shape."""
    ids = torch.zeros(shape, dtype=torch.int64)
    with pytest.raises(TextError, match="expected \\[1, N\\]"):
        run_exact(adapter, ids)
    with pytest.raises(TextError):
        run_lower(adapter, ids, SPLIT)


def test_a_model_with_another_attention_is_refused(tiny):
    """Eager attention takes a missing mask for full attention, so it would be silently wrong."""
    config = type(tiny().config).from_dict(tiny().config.to_dict())
    model = type(tiny())._from_config(config, attn_implementation="eager")
    with pytest.raises(ModelError, match="eager"):
        LlamaAdapter(model)
