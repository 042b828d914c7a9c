"""The arms of a SwiftKV checkpoint, asked for by name: which rule each runs, and what is refused with which reason."""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

from ridgefill.arms import Arm
from ridgefill.capture import capture
from ridgefill.corrections.rescale import Rescale
from ridgefill.decode import decode_greedy
from ridgefill.errors import ConfigError, ModelError
from ridgefill.fill import run_late
from ridgefill.models.kva import KvaHeads
from ridgefill.models.llama import LlamaAdapter
from ridgefill.models.swiftkv import load_swiftkv
from ridgefill.models.wrap import adapter_for
from ridgefill.passes import run_exact, run_lower

HERE = Path(__file__)
FILES = runpy.run_path(str(HERE.with_name("swiftkv_checkpoint.py")))
CONFIG, LAYERS, SPLIT, random_weights, write = (
    FILES[name] for name in ("CONFIG", "LAYERS", "SPLIT", "random_weights", "write")
)
NAIVE = runpy.run_path(str(HERE.parents[1] / "naive" / "swiftkv.py"))
TAIL, NEW = 20, 10
LENGTHS = [2, 23, 64]
# METHOD's bound: fp32 against fp64 through seven layers, of the largest value.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The checkpoint, two late layers to a group, as its files."""
    return write(tmp_path_factory.mktemp("swiftkv") / "model", random_weights(2), key_value_group_size=2)


@pytest.fixture(scope="module")
def loaded(folder):
    """Its adapter as the loaders give it."""
    return adapter_for(load_swiftkv(folder, torch.float32))


@pytest.fixture(scope="module")
def naive():
    return NAIVE["NaiveSwiftKV"](random_weights(2), CONFIG | {"key_value_group_size": 2})


def prefilled(adapter, ids, tail, plan, predict=True):
    """The arm's prompt: the lower layers, then the late ones with the last ``tail`` rows exact."""
    tokens = ids.shape[1]
    rows = plan(tokens, range(max(0, tokens - tail), tokens))
    if not predict:
        rows = replace(rows, filled=rows.filled[:0], start=int(rows.exact[0]))
    lower = run_lower(adapter, ids, SPLIT, capacity=tokens + NEW)
    arm = Arm("swiftkv", "swiftkv", split=SPLIT, tail=tail)
    return run_late(adapter, lower, rows, adapter.block_input if predict else None, arm)


def decoded(adapter, prompts, done):
    """Greedy tokens of all prompts, decoded as one batch."""
    first = torch.stack([adapter.logits(one.hidden[:, -1:])[0, 0] for one in done])
    return decode_greedy(
        adapter, [one.cache for one in done], first,
        prompt_tokens=[ids.shape[1] for ids in prompts], new_tokens=NEW, stop_ids=(), finished=lambda *_: False,
    )  # fmt: skip


def test_swiftkv_released_is_the_stock_model_prefilled_and_decoded(loaded, prompt, plan):
    """A tail of one: greedy tokens are those of ``LlamaSwiftKVForCausalLM.generate``, prompt by prompt."""
    adapter, prompts = loaded.filling("swiftkv", "swiftkv"), [prompt(tokens) for tokens in LENGTHS]
    made = decoded(adapter, prompts, [prefilled(adapter, ids, 1, plan) for ids in prompts])
    options = {"max_new_tokens": NEW, "do_sample": False, "pad_token_id": 0}
    for ids, tokens in zip(prompts, made, strict=True):
        own = adapter.model.generate(ids, attention_mask=torch.ones_like(ids), **options)
        assert own[0, ids.shape[1] :].tolist() == tokens
    assert len({token for tokens in made for token in tokens}) > 4


def test_swiftkv_tail_runs_and_decodes_the_original_late_layers(loaded, naive, prompt, plan):
    """Trained keys and values on filled rows alone; each next token is the naive one."""
    adapter, prompts = loaded.filling("swiftkv", "original"), [prompt(tokens) for tokens in LENGTHS]
    done = [prefilled(adapter, ids, TAIL, plan) for ids in prompts]
    made = decoded(adapter, prompts, done)
    for ids, tokens, one in zip(prompts, made, done, strict=True):
        length, whole = ids.shape[1], ids[0].tolist() + tokens[:-1]
        begin = max(0, length - TAIL)
        outputs, _ = naive.tail(whole, list(range(begin, len(whole))))
        expected = torch.stack([outputs[row] for row in range(begin, length)])
        assert float((one.hidden[0].double() - expected).abs().max()) <= TOLERANCE * float(expected.abs().max())
        assert [int(naive.logits(outputs[row]).argmax()) for row in range(length - 1, len(whole))] == tokens


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tokens", [1, 20, 65])
def test_the_exact_arm_is_stock_llama_bit_for_bit(folder, prompt, plan, dtype, tokens):
    """Off gate: the pass that quality is measured against is the original model's, whatever rule was loaded."""
    adapter = adapter_for(load_swiftkv(folder, dtype)).filling("exact")
    stock = LlamaForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa")
    own = stock(prompt(tokens), use_cache=True)
    done = run_exact(adapter, prompt(tokens))
    every = prefilled(adapter.filling("swiftkv"), prompt(tokens), tokens, plan)
    assert torch.equal(adapter.logits(done.hidden), own.logits)
    assert torch.equal(adapter.logits(every.hidden), own.logits)
    for layer, kept in enumerate(own.cache.layers):
        for cache in (done.cache, every.cache):
            assert torch.equal(cache.visible(layer, 0, tokens)[0], kept.keys)
            assert torch.equal(cache.visible(layer, 0, tokens)[1], kept.values)


def test_the_no_fill_arm_is_the_original_models(folder, loaded, prompt, plan):
    """Without a fill nothing of SwiftKV is left, so it is what the Llama adapter computes, bit for bit."""
    llama = LlamaAdapter(LlamaForCausalLM.from_pretrained(folder, attn_implementation="sdpa"))
    found, expected = (prefilled(one, prompt(64), TAIL, plan, False) for one in (loaded.filling("none"), llama))
    assert torch.equal(found.hidden, expected.hidden)


def test_all_arms_share_one_lower_pass_and_leave_the_adapter_alone(loaded, prompt, plan):
    """A copy differs above the split only, and asking again gives back what already runs the rule."""
    copies = [loaded.filling("swiftkv", rule) for rule in ("swiftkv", "original")]
    lower = [run_lower(one, prompt(30), SPLIT) for one in copies]
    assert torch.equal(lower[0].state, lower[1].state)
    assert copies[0].model is copies[1].model is loaded.model
    assert (loaded.exact_rows, copies[1].exact_rows) == ("swiftkv", "original")
    assert copies[1].filling("exact") is copies[1]
    late = [prefilled(one, prompt(30), TAIL, plan).hidden for one in copies]
    assert not torch.allclose(*late, rtol=0.01)


REFUSED = {
    ("identity", "original"): "would be reported as POP",
    ("identity", "swiftkv"): "would be reported as POP",
    ("ridge", "original"): "maps have nothing to predict",
    ("kva", "original"): "trained for the original model's layers",
    ("exact", "swiftkv"): "whose exact rows are the original model's",
    ("none", "swiftkv"): "whose exact rows are the original model's",
    ("swiftkv", "stock"): "expected swiftkv with swiftkv or original exact rows",
    ("mean", "original"): "expected swiftkv with swiftkv or original exact rows",
}


@pytest.mark.parametrize(("fill", "rows"), REFUSED)
def test_what_would_be_mislabelled_is_refused_with_the_reason(loaded, fill, rows):
    """One sentence that says what was asked for and what to take instead."""
    with pytest.raises(ConfigError, match=REFUSED[fill, rows]) as caught:
        loaded.filling(fill, rows, KvaHeads(SPLIT, LAYERS, {}))
    assert repr(fill) in str(caught.value)


@pytest.mark.parametrize("rule", ["swiftkv", "original"])
def test_a_checkpoint_takes_no_rescale_and_no_fit(loaded, rule):
    """Nothing is predicted there, so nothing can be compared with the truth or fitted."""
    adapter = loaded.filling("swiftkv", rule)
    with pytest.raises(ConfigError, match="without predicting any; leave the rescale out"):
        Rescale().require(adapter, SPLIT)
    with pytest.raises(ConfigError, match="fit maps on the original model"):
        capture(adapter, [[1, 2, 3]], [SPLIT])


def test_an_export_without_the_original_projections_runs_the_released_arm_alone(tmp_path):
    """The other arms need what it left out, and say so."""
    weights = {
        name: value for name, value in random_weights(1).items()
        if not any(f"layers.{layer}.self_attn.{part}_proj.weight" in name for layer in range(3, 7) for part in "qkv")
    }  # fmt: skip
    adapter = adapter_for(load_swiftkv(write(tmp_path / "export", weights), torch.float32))
    assert adapter.filling("swiftkv", "swiftkv") is adapter
    for fill in ("exact", "none", "swiftkv"):
        with pytest.raises(ModelError, match="only SwiftKV's own projections"):
            adapter.filling(fill)
