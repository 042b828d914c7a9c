"""SwiftKV checkpoints, written by hand in their published layout, against the rule read row by row in fp64."""

import functools
import runpy
from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

from ridgefill import fill
from ridgefill.arms import Arm
from ridgefill.decode import decode_greedy
from ridgefill.fill import predictor, run_late
from ridgefill.models.llama import LlamaAdapter
from ridgefill.models.llama_swiftkv import LlamaSwiftKVAdapter
from ridgefill.models.swiftkv import load_swiftkv
from ridgefill.models.wrap import adapter_for
from ridgefill.passes import run_exact, run_lower
from ridgefill.rows import RowPlan

FILES = runpy.run_path(str(Path(__file__).with_name("swiftkv_checkpoint.py")))
CONFIG, LAYERS, SPLIT, random_weights, write = (
    FILES[name] for name in ("CONFIG", "LAYERS", "SPLIT", "random_weights", "write")
)
NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "swiftkv.py"))
TAIL = 20
LENGTHS = [1, 2, TAIL - 1, TAIL, TAIL + 1, 63, 64, 65]
# fp32 against fp64, or fp32 sums taken in another order, through seven layers: METHOD's bound, of the largest value.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """``checkpoint(group, dtype)``: the loaded checkpoint whose late layers share keys in groups of ``group``."""

    @functools.cache
    def load(group=1, dtype=torch.float32):
        folder = tmp_path_factory.mktemp("swiftkv") / f"group{group}"
        return load_swiftkv(write(folder, random_weights(group), key_value_group_size=group), dtype)

    return load


@pytest.fixture(scope="module")
def stock_llama(tmp_path_factory):
    """``stock_llama(dtype)``: stock transformers on the checkpoint, which leaves out all that SwiftKV added."""
    folder = write(tmp_path_factory.mktemp("stock") / "llama", random_weights(1))
    return lambda dtype: LlamaForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa")


@functools.cache
def naive(group=1):
    return NAIVE["NaiveSwiftKV"](random_weights(group), CONFIG | {"key_value_group_size": group})


@functools.cache
def released(group, tokens):
    """The naive outputs and caches of a whole prompt."""
    return naive(group).released(prompt(tokens)[0].tolist())


def prompt(tokens, seed=0):
    generator = torch.Generator().manual_seed(1000 * seed + tokens)
    return torch.randint(0, FILES["VOCABULARY"], (1, tokens), generator=generator)


def error(found, expected):
    """Largest difference in units of the largest expected value; infinite where either is not a number."""
    difference = float((found.double() - expected.double()).abs().max()) / float(expected.double().abs().max())
    return difference if difference == difference else float("inf")


def filled_pass(adapter, ids, exact, kind="identity"):
    """The fill path with these exact rows, and its plan."""
    arm, start = Arm("swiftkv", kind, split=SPLIT, tail=TAIL), min(exact) if kind == "none" else 0
    filled = sorted(set(range(start, ids.shape[1])) - set(exact))
    plan = RowPlan(torch.tensor(filled, dtype=torch.int64), torch.tensor(exact), TAIL, start, ())
    return run_late(adapter, run_lower(adapter, ids, SPLIT), plan, predictor(arm, {}, adapter), arm), plan


def choose(tokens, rows):
    """Positions of exact rows: the last, a tail, every row, or a tail with rows scattered before it."""
    chosen = {"last": 1, "tail": TAIL, "scattered": TAIL, "all": tokens}[rows]
    extra = set(range(1, tokens, 5)) if rows == "scattered" else set()
    return sorted(set(range(max(0, tokens - chosen), tokens)) | extra)


def cache_error(cache, caches):
    """Largest error of any layer's keys and values against the naive caches."""
    worst = 0.0
    for layer, written in caches.items():
        rows = sorted(written)
        for place, store in enumerate((cache.keys, cache.values)):
            worst = max(worst, error(store[layer][0][:, rows], NAIVE["stack"](caches, layer, place, rows)))
    return worst


@pytest.mark.parametrize("group", [1, 2, 3])
@pytest.mark.parametrize("tokens", LENGTHS)
def test_a_pass_over_every_row_is_the_published_rule(checkpoint, tokens, group):
    """Outputs of every row and every cache row; layers of a group share what its first layer projects."""
    adapter = adapter_for(checkpoint(group))
    done = run_exact(adapter, prompt(tokens), capacity=tokens + 5)
    outputs, caches = released(group, tokens)
    assert error(done.hidden[0], torch.stack([outputs[row] for row in range(tokens)])) <= TOLERANCE
    assert cache_error(done.cache, caches) <= TOLERANCE


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("rows", ["last", "tail", "scattered", "all"])
@pytest.mark.parametrize("tokens", LENGTHS)
def test_under_swiftkvs_own_rule_filling_changes_nothing(checkpoint, tokens, rows, group):
    """Released arm: whichever rows are filled by the identity, exact rows and caches are the whole model's."""
    adapter = LlamaSwiftKVAdapter(checkpoint(group), "swiftkv")
    done, plan = filled_pass(adapter, prompt(tokens), choose(tokens, rows))
    outputs, caches = released(group, tokens)
    assert error(done.hidden[0], torch.stack([outputs[row] for row in plan.exact.tolist()])) <= TOLERANCE
    assert cache_error(done.cache, caches) <= TOLERANCE


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("rows", ["last", "tail", "scattered", "all"])
@pytest.mark.parametrize("tokens", LENGTHS)
def test_an_exact_tail_runs_the_original_late_layers(checkpoint, tokens, rows, group):
    """Tail arm: trained keys and values on filled rows only; exact rows are original, queries included."""
    adapter = LlamaSwiftKVAdapter(checkpoint(group), "original")
    done, plan = filled_pass(adapter, prompt(tokens), choose(tokens, rows))
    outputs, caches = naive(group).tail(prompt(tokens)[0].tolist(), plan.exact.tolist())
    assert error(done.hidden[0], torch.stack([outputs[row] for row in plan.exact.tolist()])) <= TOLERANCE
    assert cache_error(done.cache, caches) <= TOLERANCE


def test_late_attention_is_ranked_by_the_trained_queries(checkpoint):
    """What a late layer's rows give to each position, summed over heads, as selectors read it."""
    adapter, model, layer = adapter_for(checkpoint()), naive().trained_queries(), SPLIT + 1
    done = run_exact(adapter, prompt(9), keep=(layer,))
    found = adapter.attention_received(layer, done.inputs[layer], adapter.rows(torch.arange(9)), done.cache)
    keys = [key for key, _ in released(1, 9)[1][layer].values()]
    inputs = done.inputs[layer][0].double()
    rows = [model.attention(layer, x, row, keys[: row + 1]) for row, x in enumerate(inputs)]
    expected = torch.stack([sum(row[:, at].sum() for row in rows[at:]) for at in range(9)])
    assert error(found, expected) <= TOLERANCE


def test_the_two_kinds_of_exact_rows_differ(checkpoint):
    """The tests above would not tell them apart if the trained projections did nothing."""
    found = [
        filled_pass(LlamaSwiftKVAdapter(checkpoint(), kind), prompt(65), choose(65, "tail"))[0].hidden
        for kind in ("swiftkv", "original")
    ]
    assert error(*found) > 1000 * TOLERANCE


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tokens", [*LENGTHS, 257])
def test_the_exact_pass_is_the_models_own_forward_bit_for_bit(checkpoint, tokens, dtype):
    """Off gate: logits and caches of every row as ``model(ids)`` has them, with and without its cache."""
    model, ids = checkpoint(2, dtype), prompt(tokens)
    adapter = adapter_for(model)
    done = run_exact(adapter, ids, capacity=tokens + 9)
    own = model(ids, use_cache=True)
    assert torch.equal(adapter.logits(done.hidden), own.logits)
    assert torch.equal(model(ids, use_cache=False).logits, own.logits)
    for layer, kept in enumerate(own.cache.layers):
        for found, expected in zip(done.cache.visible(layer, 0, tokens), (kept.keys, kept.values), strict=True):
            assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tokens", [*LENGTHS, 257])
def test_the_exact_pass_with_original_rows_is_stock_llama_bit_for_bit(checkpoint, stock_llama, tokens, dtype):
    """The checkpoint still holds the model it was distilled from, and that is what quality is measured against."""
    network = stock_llama(dtype)
    ids = prompt(tokens)
    adapter = LlamaSwiftKVAdapter(checkpoint(1, dtype), "original")
    stock = network(ids, use_cache=True)
    assert torch.equal(adapter.logits(run_exact(adapter, ids).hidden), stock.logits)
    every, _ = filled_pass(adapter, ids, choose(tokens, "all"))
    assert torch.equal(adapter.logits(every.hidden), stock.logits)
    for layer, kept in enumerate(stock.cache.layers):
        assert torch.equal(every.cache.visible(layer, 0, tokens)[0], kept.keys)


@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize("kind", ["identity", "none"])
def test_trained_projections_equal_to_the_original_ones_are_pop(tmp_path, tokens, kind):
    """Cross-check: with the original projections copied and the norms of all late layers one, both kinds of fill are
    what the Llama adapter computes, bit for bit; the identity is POP's fill.
    """
    weights = dict(random_weights(1))
    for layer in range(SPLIT, LAYERS):
        block = f"model.layers.{layer}."
        weights[block + "input_layernorm.weight"] = weights["model.norm_swiftkv.weight"]
        for part in "qkv":
            weights[f"{block}self_attn.{part}_proj_swiftkv.weight"] = weights[f"{block}self_attn.{part}_proj.weight"]
    # Files hold no tensor twice.
    folder = write(tmp_path / "same", {name: value.clone() for name, value in weights.items()})
    llama = LlamaAdapter(LlamaForCausalLM.from_pretrained(folder, attn_implementation="sdpa"))
    swift = LlamaSwiftKVAdapter(load_swiftkv(folder), "original")
    ids, exact = prompt(tokens), choose(tokens, "tail")
    (found, _), (expected, _) = (filled_pass(adapter, ids, exact, kind) for adapter in (swift, llama))
    assert torch.equal(found.hidden, expected.hidden)
    for layer in range(LAYERS):
        assert torch.equal(found.cache.keys[layer].nan_to_num(7), expected.cache.keys[layer].nan_to_num(7))
        assert torch.equal(found.cache.values[layer].nan_to_num(7), expected.cache.values[layer].nan_to_num(7))


@pytest.mark.parametrize("tokens", [2, TAIL, 65])
def test_without_a_fill_the_tail_sees_only_itself_in_late_layers(checkpoint, tokens):
    """No-fill arm under SwiftKV's rule: positions are kept, earlier late rows do not exist."""
    adapter, ids, exact = adapter_for(checkpoint()), prompt(tokens), choose(tokens, "tail")
    done, _ = filled_pass(adapter, ids, exact, "none")
    outputs, _ = naive().released(ids[0].tolist(), exact)
    assert error(done.hidden[0], torch.stack([outputs[row] for row in exact])) <= TOLERANCE


@pytest.mark.parametrize("kind", ["swiftkv", "original"])
@pytest.mark.parametrize("step", [1, 7, 19])
def test_exact_rows_may_be_run_in_chunks(checkpoint, monkeypatch, kind, step):
    """The first late layer writes the late rows chunk by chunk, before any later row looks at them."""
    adapter, ids, exact = LlamaSwiftKVAdapter(checkpoint(), kind), prompt(65), choose(65, "scattered")
    whole, _ = filled_pass(adapter, ids, exact)
    monkeypatch.setattr(fill, "ROWS_AT_ONCE", step)
    pieces, _ = filled_pass(adapter, ids, exact)
    assert error(pieces.hidden, whole.hidden) <= TOLERANCE


@pytest.mark.parametrize("kind", ["swiftkv", "original"])
@pytest.mark.parametrize("rows", ["last", "tail"])
def test_prefill_then_decode_continues_by_the_same_rule(checkpoint, rows, kind):
    """Prompts of three lengths, filled and decoded as one batch: each next token is what the naive model would choose
    after those before it, and ``generate``'s where the rule is the model's own.
    """
    model, count = checkpoint(2), 12
    adapter = LlamaSwiftKVAdapter(model, kind)
    prompts = [prompt(tokens, seed=3) for tokens in (2, 23, 64)]
    done = [filled_pass(adapter, ids, choose(ids.shape[1], rows))[0] for ids in prompts]
    made = decode_greedy(
        adapter, [one.cache for one in done], torch.stack([adapter.logits(one.hidden[:, -1:])[0, 0] for one in done]),
        prompt_tokens=[ids.shape[1] for ids in prompts], new_tokens=count, stop_ids=(), finished=lambda *_: False,
    )  # fmt: skip
    for ids, tokens in zip(prompts, made, strict=True):
        length, whole = ids.shape[1], ids[0].tolist() + tokens[:-1]
        exact = choose(length, rows) + list(range(length, len(whole)))
        outputs, _ = naive(2).released(whole) if kind == "swiftkv" else naive(2).tail(whole, exact)
        assert [int(naive(2).logits(outputs[row]).argmax()) for row in range(length - 1, len(whole))] == tokens
        if kind == "swiftkv":
            options = {"max_new_tokens": count, "do_sample": False, "pad_token_id": 0}
            own = model.generate(ids, attention_mask=torch.ones_like(ids), **options)
            assert own[0, length:].tolist() == tokens
    assert len({token for tokens in made for token in tokens}) > 4


def test_a_padded_batch_generates_what_each_prompt_does_alone(checkpoint):
    """The model's own ``generate``, with left padding: late keys of padding are hidden like any other."""
    model, options = checkpoint(), {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    short, long = prompt(9), prompt(30)
    ids = torch.cat([torch.cat([torch.zeros(1, 21, dtype=torch.int64), short], 1), long])
    mask = torch.ones_like(ids)
    mask[0, :21] = 0
    together = model.generate(ids, attention_mask=mask, **options)[:, 30:]
    for entry, alone in enumerate((short, long)):
        made = model.generate(alone, attention_mask=torch.ones_like(alone), **options)
        assert made[0, alone.shape[1] :].tolist() == together[entry].tolist()


@pytest.mark.parametrize("kind", ["swiftkv", "original"])
def test_every_row_that_is_read_was_written(checkpoint, kind):
    """Buffers begin as NaN: a filled row left out reaches the output instead of passing for a zero."""
    adapter, ids, exact = LlamaSwiftKVAdapter(checkpoint(), kind), prompt(65), choose(65, "tail")
    done, plan = filled_pass(adapter, ids, exact)
    for layer in range(LAYERS):
        assert bool(torch.isfinite(done.cache.keys[layer]).all())
    broken = RowPlan(plan.filled[1:], plan.exact, plan.tail, plan.start, ())
    arm = Arm("swiftkv", "identity", split=SPLIT, tail=TAIL)
    with pytest.raises(Exception, match="not finite"):
        run_late(adapter, run_lower(adapter, ids, SPLIT), broken, predictor(arm, {}, adapter), arm)


@pytest.mark.parametrize("rows", ["last", "tail", "scattered"])
def test_in_bfloat16_the_fill_stays_within_a_few_roundings_of_the_whole_model(checkpoint, rows):
    """bf16 keeps 8 bits; the two paths multiply different numbers of rows at a time, through seven layers."""
    adapter = adapter_for(checkpoint(1, torch.bfloat16))
    done, plan = filled_pass(adapter, prompt(65), choose(65, rows))
    assert error(done.hidden, run_exact(adapter, prompt(65)).hidden[:, plan.exact]) <= 8 * 2**-8


def test_in_bfloat16_exact_rows_round_no_more_than_the_original_model_does(checkpoint):
    """Tail arm against fp64: at most twice the rounding of a plain bf16 pass, whose rows differ, so not the same."""
    adapter, ids, exact = LlamaSwiftKVAdapter(checkpoint(1, torch.bfloat16), "original"), prompt(65), choose(65, "tail")
    rounded = NAIVE["NaiveSwiftKV"]({name: value.bfloat16() for name, value in random_weights(1).items()}, CONFIG)

    def rounding(found, rows):
        outputs, _ = rounded.tail(ids[0].tolist(), rows)
        return error(found[0], torch.stack([outputs[row] for row in rows]))

    plain = rounding(run_exact(adapter, ids).hidden, range(65))
    assert rounding(filled_pass(adapter, ids, exact)[0].hidden, exact) <= 2 * plain
