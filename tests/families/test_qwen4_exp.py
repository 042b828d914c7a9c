"""Flash-Next's architecture: four streams, sparse attention with an indexer, recurrent states, experts, n-grams."""

import runpy
from pathlib import Path

import pytest
import torch
from transformers import DynamicCache

from ridgefill import fill
from ridgefill.arms import Arm
from ridgefill.cost import Geometry
from ridgefill.decode import decode_greedy
from ridgefill.errors import ConfigError, ModelError
from ridgefill.fill import oracle, run_late
from ridgefill.models.wrap import adapter_for
from ridgefill.passes import run_exact, run_lower
from ridgefill.rows import RowPlan, plan_rows
from ridgefill.selectors.context import Context

BUILD = runpy.run_path(str(Path(__file__).parent / "builders.py"))
VOCABULARY, EOS = BUILD["VOCABULARY"], BUILD["VOCABULARY"] - 1
SPLIT, TAIL = 4, 20
LENGTHS = [1, 2, TAIL - 1, TAIL, TAIL + 1, 63, 64, 65]
DTYPES = [torch.float32, torch.bfloat16]
GEOMETRY = Geometry(layers=6, hidden=32, q=64, kv=32, ff=64)
# The oracle path multiplies the same matrices by fewer rows at a time, so sums may be taken in another order:
# some fp32 roundings of the largest value, METHOD's own bound.
TOLERANCE = 1e-5


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield


def build(dtype=torch.float32):
    model = BUILD["qwen4_exp"](dtype)
    return model, adapter_for(model)


def prompt(tokens, seed=0):
    generator = torch.Generator().manual_seed(1000 * seed + tokens)
    return torch.randint(0, VOCABULARY, (1, tokens), generator=generator)


def error(found, expected):
    """Largest difference in units of the largest expected value."""
    scale = float(expected.double().abs().max()) + 1e-30
    return float((found.double() - expected.double()).abs().max()) / scale


def ours(adapter, cache, layer, tokens):
    """Everything a layer keeps in our cache, by name."""
    if adapter.kinds[layer] == "indexed_attention":
        key, value = cache.visible(layer, 0, tokens)
        return {"key": key, "value": value, "index": cache.visible_indexed(layer, 0, tokens)}
    return states(cache.states[layer])


def stocks(kept):
    """The same of a layer of transformers' own cache."""
    if hasattr(kept, "indexer_keys"):
        return {"key": kept.keys, "value": kept.values, "index": kept.indexer_keys}
    return states(kept)


def states(kept):
    convolved = {f"conv{number}": state for number, state in kept.conv_states.items() if state is not None}
    return {**convolved, "recurrent": kept.recurrent_states[0]}


def require_equal(adapter, cache, stock, tokens):
    """Bit for bit, every layer, and as many things as stock keeps."""
    for layer, kept in enumerate(stock.layers):
        mine, theirs = ours(adapter, cache, layer, tokens), stocks(kept)
        assert mine.keys() == theirs.keys()
        assert [name for name in mine if not torch.equal(mine[name], theirs[name])] == []


def plan(tokens, exact):
    exact = torch.tensor(sorted(exact))
    filled = torch.tensor([row for row in range(tokens) if row not in set(exact.tolist())], dtype=torch.int64)
    return RowPlan(filled, exact, TAIL, 0, ())


def chosen_rows(tokens, rows):
    chosen = set(range(max(0, tokens - TAIL), tokens))
    return chosen | set(range(1, tokens, 5)) if rows == "scattered" else chosen


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", LENGTHS)
def test_the_exact_pass_is_the_stock_model_bit_for_bit(tokens, dtype):
    """Off gate: logits, keys, values, indexer keys, convolution windows, recurrent states, recent token ids."""
    model, adapter = build(dtype)
    ids = prompt(tokens)
    stock = model(ids, use_cache=True)
    done = run_exact(adapter, ids, capacity=tokens + 9)
    assert torch.equal(adapter.logits(done.hidden), stock.logits)
    require_equal(adapter, done.cache, stock.cache, tokens)
    assert {"conv0", "conv1", "conv2"} < states(done.cache.states[1]).keys()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize("name", ["ridgefill", "no_fill"])
def test_an_arm_with_no_filled_row_is_the_stock_model_bit_for_bit(tokens, dtype, name):
    """Off gate through the fill path: with a tail as long as the prompt nothing differs."""
    model, adapter = build(dtype)
    ids = prompt(tokens)
    arm = Arm(name, "none" if name == "no_fill" else "identity", split=SPLIT, tail=tokens)
    lower = run_lower(adapter, ids, SPLIT)
    plan = plan_rows(arm, Context.around(adapter, lower), GEOMETRY)
    done = run_late(adapter, lower, plan, adapter.block_input, arm)
    stock = model(ids, use_cache=True)
    assert torch.equal(adapter.logits(done.hidden), stock.logits)
    require_equal(adapter, done.cache, stock.cache, tokens)


@pytest.mark.parametrize("split", [2, 3, SPLIT, 5])
@pytest.mark.parametrize("split_layer", ["exact", "mapped"])
@pytest.mark.parametrize("rows", ["tail", "scattered"])
@pytest.mark.parametrize("tokens", LENGTHS)
def test_true_block_inputs_through_the_fill_path_give_the_exact_result(tokens, rows, split_layer, split):
    """Oracle gate: outputs of the exact rows, and everything every layer keeps, also with scattered rows."""
    _, adapter = build()
    exact = run_exact(adapter, prompt(tokens), keep=range(2, 6))
    planned = plan(tokens, chosen_rows(tokens, rows))
    arm = Arm("ridgefill", "ridge", split=split, tail=TAIL, split_layer=split_layer)
    done = run_late(adapter, exact.lower(split), planned, oracle(adapter, exact.inputs, planned.filled), arm)
    assert error(done.hidden, exact.hidden[:, planned.exact]) <= TOLERANCE
    for layer in range(adapter.layers):
        found, expected = (ours(adapter, cache, layer, tokens) for cache in (done.cache, exact.cache))
        for name in expected:
            assert error(found[name], expected[name]) <= TOLERANCE


@pytest.mark.parametrize("kind", ["recurrent layer", "sparse layer"])
def test_a_wrong_block_input_fails_the_oracle_gate(kind):
    """The gate can fail: filled rows with their neighbours' inputs in one kind of layer are far outside it."""
    _, adapter = build()
    exact = run_exact(adapter, prompt(65), keep=range(2, 6))
    planned = plan(65, range(45, 65))
    truth = oracle(adapter, exact.inputs, planned.filled)
    wrong = {"recurrent layer": 4, "sparse layer": 5}[kind]

    def shifted(layer, state):
        return truth(layer, state).roll(1, dims=1) if layer == wrong else truth(layer, state)

    arm = Arm("ridgefill", "ridge", split=SPLIT, tail=TAIL, split_layer="mapped")
    done = run_late(adapter, exact.lower(SPLIT), planned, shifted, arm)
    assert error(done.hidden, exact.hidden[:, planned.exact]) > 1000 * TOLERANCE


def test_the_oracle_gate_holds_in_bfloat16_to_its_own_rounding():
    """bf16 keeps 8 bits; what the recurrent layer above the split makes of it stays within a few roundings."""
    _, adapter = build(torch.bfloat16)
    exact = run_exact(adapter, prompt(65), keep=range(2, 6))
    planned = plan(65, range(45, 65))
    arm = Arm("ridgefill", "ridge", split=SPLIT, tail=TAIL)
    done = run_late(adapter, exact.lower(SPLIT), planned, oracle(adapter, exact.inputs, planned.filled), arm)
    assert error(done.hidden, exact.hidden[:, planned.exact]) <= 8 * 2**-8


@pytest.mark.parametrize("step", [7, 30])
def test_a_prefill_in_chunks_is_the_one_pass(step, monkeypatch):
    """Chunks carry windows, states and recent token ids on; late layers may be cut at other places too."""
    _, adapter = build()
    ids, tokens = prompt(65), 65
    exact = run_exact(adapter, ids, keep=range(2, 6))
    cache, parts = adapter.new_cache(tokens), []
    for positions in torch.arange(tokens).split(step):
        rows = adapter.rows(positions, ids=ids[:, positions])
        x = adapter.embed(ids[:, positions])
        for layer in range(adapter.layers):
            x = adapter.run_layer(layer, x, rows, cache)
        parts.append(x)
    assert error(torch.cat(parts, 1), exact.hidden) <= TOLERANCE
    monkeypatch.setattr(fill, "ROWS_AT_ONCE", step)
    planned = plan(tokens, chosen_rows(tokens, "scattered"))
    arm = Arm("ridgefill", "ridge", split=3, tail=TAIL)
    done = run_late(adapter, exact.lower(3), planned, oracle(adapter, exact.inputs, planned.filled), arm)
    assert error(done.hidden, exact.hidden[:, planned.exact]) <= TOLERANCE


def test_filled_rows_reach_no_expert_and_no_query():
    """Above the split the experts' router and the query projections see the exact rows only."""
    model, adapter = build()
    seen = []
    for layer in (4, 5):
        block = model.model.layers[layer]
        parts = [block.mlp.gate] + ([block.self_attn.q_proj] if layer == 5 else [block.linear_attn.out_proj])
        for part in parts:
            hook = part.register_forward_pre_hook(lambda _, args: seen.append(args[0].numel() // args[0].shape[-1]))
            seen.append(hook)
    hooks, seen[:] = list(seen), []
    lower = run_lower(adapter, prompt(65), SPLIT)
    run_late(adapter, lower, plan(65, range(45, 65)), adapter.block_input, Arm("i", "identity", split=SPLIT, tail=TAIL))
    for hook in hooks:
        hook.remove()
    assert seen == [20] * 4


def test_without_a_fill_recurrent_layers_start_from_nothing():
    """The state after the prompt is that of a stock layer which only ever saw the tail."""
    model, adapter = build()
    arm = Arm("no_fill", "none", split=SPLIT, tail=TAIL)
    lower = run_lower(adapter, prompt(65), SPLIT)
    done = run_late(adapter, lower, plan_rows(arm, Context.around(adapter, lower, 0), GEOMETRY), None, arm)
    alone = DynamicCache(config=model.config)
    model.model.layers[SPLIT](lower.state[:, -TAIL:], position_embeddings=None, cache=alone)
    expected = stocks(alone.layers[SPLIT])
    found = states(done.cache.states[SPLIT])
    assert [name for name in expected if not torch.equal(found[name], expected[name])] == []


def decode(adapter, done, lengths, new):
    logits = torch.cat([adapter.logits(hidden[:, -1:])[:, 0] for _, hidden in done])
    return decode_greedy(
        adapter, [cache for cache, _ in done], logits, prompt_tokens=lengths, new_tokens=new,
        stop_ids=(EOS,), finished=lambda *_: False,
    )  # fmt: skip


@pytest.mark.parametrize("tokens", [1, 2, 65])
def test_decoding_from_the_exact_cache_is_stock_generate(tokens):
    """Off gate, continuation: the same greedy tokens as ``generate`` on the stock model."""
    model, adapter = build()
    ids, count = prompt(tokens), 24
    stock = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False)
    done = run_exact(adapter, ids, capacity=tokens + count)
    made = decode(adapter, [(done.cache, done.hidden)], [tokens], count)
    expected = [token for token in stock[0, tokens:].tolist() if token != EOS]
    assert made == [expected]
    assert len(set(expected)) > 4


def test_prompts_of_two_lengths_decode_together_as_each_would_alone():
    """The shorter one stands at the right: own positions for its indexer's blocks, own states, own visible rows."""
    _, adapter = build()
    done, lengths = [], []
    for tokens in (50, 37):
        exact = run_exact(adapter, prompt(tokens), keep={SPLIT})
        done.append((exact.cache, exact.hidden))
        for arm in (Arm("i", "identity", split=SPLIT, tail=TAIL), Arm("no_fill", "none", split=SPLIT, tail=TAIL)):
            lower = exact.lower(SPLIT)
            predict = adapter.block_input if arm.fill == "identity" else None
            filled = run_late(adapter, lower, plan_rows(arm, Context.around(adapter, lower, 0), GEOMETRY), predict, arm)
            done.append((filled.cache, filled.hidden))
        lengths += [tokens] * 3
    together = decode(adapter, done, lengths, 16)
    alone = [decode(adapter, [one], [length], 16)[0] for one, length in zip(done, lengths, strict=True)]
    assert together == alone
    assert len({tuple(made) for made in together}) > 4


@pytest.mark.parametrize("split", [0, 1, 6])
def test_a_split_at_or_below_the_last_ngram_layer_is_refused(split):
    """Such a layer adds features of the tokens to its own input; the layer is named. So is a split past the end."""
    _, adapter = build()
    assert adapter.first_split == 2
    arm, lower = Arm("a", "none", split=2), run_lower(adapter, prompt(30), split)
    with pytest.raises(ConfigError, match=rf"split {split} .*expected 2 to 5, above the n-gram layers \(1\)"):
        run_late(adapter, lower, plan(30, range(10, 30)), None, arm)


def test_ngram_layers_say_what_they_lack():
    """Rows without token ids, and block inputs that would miss the n-gram features, are ModelErrors."""
    _, adapter = build()
    x = adapter.embed(prompt(3))
    with pytest.raises(ModelError, match=r"layer 1 .*token ids"):
        adapter.run_layer(1, x, adapter.rows(torch.arange(3)), adapter.new_cache(3))
    with pytest.raises(ModelError, match=r"layer 1 .*expected a layer from 2"):
        adapter.block_input(1, x)
