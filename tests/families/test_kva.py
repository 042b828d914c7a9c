"""Filled rows whose keys and values come from KVA heads, against the naive rule read row by row in fp64."""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ridgefill.arms import Arm
from ridgefill.capture import capture
from ridgefill.corrections.rescale import Rescale
from ridgefill.decode import decode_greedy
from ridgefill.errors import ConfigError
from ridgefill.fill import run_late
from ridgefill.models import kva_rows
from ridgefill.models.kva import KVA_FILE, KvaHeads
from ridgefill.passes import run_exact, run_lower

HERE = Path(__file__)
NAIVE = runpy.run_path(str(HERE.parents[1] / "naive" / "kva.py"))
HEADS = runpy.run_path(str(HERE.with_name("kva_heads.py")))
LAYERS, SPLIT, random_heads = (HEADS[name] for name in ("LAYERS", "SPLIT", "random_heads"))
PLAIN = ["llama", "qwen3", "gemma3"]
OTHERS = ["qwen3_5", "qwen3_next", "qwen4_exp"]
TAIL, TOKENS, NEW = 12, 60, 6
ROWS = {"tail": range(TOKENS - TAIL, TOKENS), "last": [TOKENS - 1], "scattered": [3, 17, *range(44, TOKENS)]}
# METHOD's bound: fp32 against fp64 through six layers, of the largest value.
TOLERANCE = 1e-5


def filled_pass(adapter, ids, exact, plan):
    """The fill path of a kva copy with these exact rows."""
    lower = run_lower(adapter, ids, SPLIT, capacity=ids.shape[1] + NEW)
    arm = Arm("kva", "kva", split=SPLIT, tail=TAIL)
    return run_late(adapter, lower, plan(ids.shape[1], exact), adapter.block_input, arm)


def close(found, expected):
    return float((found.double() - expected).abs().max()) <= TOLERANCE * float(expected.abs().max())


def equals_the_naive_prefill(one, ids, exact, plan, blocks=0):
    """Outputs of exact rows, every written row at its position, and the tokens that follow."""
    heads = random_heads(one.adapter, blocks)
    adapter = one.adapter.filling("kva", heads=heads)
    done = filled_pass(adapter, ids, exact, plan)
    model = NAIVE["FAMILIES"][one.family](one.model)
    naive = NAIVE["NaiveHeads"](heads.tensors, heads.eps, model.theta, blocks, 3)
    inputs = model.run_exact(ids[0].tolist())
    outputs, caches = NAIVE["run_filled"](model, naive, inputs, SPLIT, exact)
    assert close(done.hidden[0], torch.stack([outputs[row] for row in exact]))
    for layer, written in caches.items():
        # Rows that no exact row can see are not written here; the naive prefill writes them and never looks.
        first = adapter.first_needed(layer, exact[0]) if layer >= SPLIT else 0
        wanted = [row for row in sorted(written) if row >= first]
        for place, store in enumerate((done.cache.keys, done.cache.values)):
            expected = torch.stack([written[row][place] for row in wanted], dim=1)
            assert close(store[layer][0, :, wanted], expected)
    made = decode_greedy(
        adapter, [done.cache], adapter.logits(done.hidden[:, -1:])[:, 0],
        prompt_tokens=[TOKENS], new_tokens=NEW, stop_ids=(), finished=lambda *_: False,
    )  # fmt: skip
    assert made == [model.decode(outputs[TOKENS - 1], caches, TOKENS, NEW)]


@pytest.mark.parametrize("family", PLAIN)
@pytest.mark.parametrize("rows", ROWS)
def test_a_kva_prefill_equals_the_naive_one_and_decodes_as_it_does(case, prompt, plan, rows):
    """Heads that read a row's own split state, with a tail, its last row alone, and exact rows in the prefix."""
    equals_the_naive_prefill(case(), prompt(TOKENS), sorted(ROWS[rows]), plan)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
@pytest.mark.parametrize("rows", ["tail", "last"])
def test_heads_with_a_context_equal_the_naive_ones(case, prompt, plan, rows):
    """Two blocks that mix each row with all before it."""
    equals_the_naive_prefill(case(), prompt(TOKENS), sorted(ROWS[rows]), plan, 2)


@pytest.mark.parametrize("family", PLAIN)
def test_heads_that_are_the_layers_own_projections_are_the_identity_fill(case, prompt, plan, family):
    """Cross-check with another path: POP's fill, which norms and projects the split state with the late layer's own."""
    one = case()
    heads = random_heads(one.adapter, eps=one.model.config.rms_norm_eps)
    tensors = dict(heads.tensors)
    for layer in range(SPLIT, LAYERS):
        block = one.adapter.decoder.layers[layer]
        shift = 1.0 if family == "gemma3" else 0.0
        tensors[f"layers.{layer}.norm.weight"] = block.input_layernorm.weight + shift
        for part in "kv":
            tensors[f"layers.{layer}.{part}.weight"] = getattr(block.self_attn, f"{part}_proj").weight
            tensors[f"layers.{layer}.{part}.bias"] = torch.zeros_like(tensors[f"layers.{layer}.{part}.bias"])
    found = filled_pass(
        one.adapter.filling("kva", heads=replace(heads, tensors=tensors)), prompt(40), range(30, 40), plan
    )
    assert close(found.hidden, filled_pass(one.adapter, prompt(40), range(30, 40), plan).hidden.double())
    other = filled_pass(one.adapter.filling("kva", heads=heads), prompt(40), range(30, 40), plan)
    assert not close(other.hidden, found.hidden.double())


@pytest.mark.parametrize("family", PLAIN)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_without_filled_rows_a_kva_copy_is_the_stock_model_bit_for_bit(case, prompt, plan, family, dtype):
    """Off gate: exact rows, tail and decoding know nothing of the heads; neither does the adapter they came from."""
    one, ids = case(dtype), prompt(40)
    adapter = one.adapter.filling("kva", heads=random_heads(one.adapter))
    stock = one.model(ids, use_cache=True).logits
    assert torch.equal(adapter.logits(filled_pass(adapter, ids, range(40), plan).hidden), stock)
    assert torch.equal(adapter.logits(run_exact(adapter, ids).hidden), stock)
    assert one.adapter.kva is None
    assert adapter.filling("identity").kva is None


@pytest.mark.parametrize("family", ["qwen3"])
@pytest.mark.parametrize("blocks", [0, 1])
def test_in_bfloat16_a_filled_row_is_within_its_roundings(case, prompt, plan, family, blocks):
    """Heads of a half-precision file in a bf16 model: keys and values within a few of the type's own roundings."""
    wide, narrow = case(), case(torch.bfloat16)
    heads = random_heads(wide.adapter, blocks)
    tensors = {name: one.bfloat16() for name, one in heads.tensors.items()}
    state = 2 * torch.randn(1, 20, 32, generator=torch.Generator().manual_seed(3))
    found = []
    for one, given in ((wide, replace(heads, tensors={n: t.float() for n, t in tensors.items()})), (narrow, heads)):
        adapter = one.adapter.filling("kva", heads=given)
        cache = adapter.new_cache(20)
        adapter.write_filled(SPLIT, state.bfloat16().to(adapter.dtype), adapter.rows(torch.arange(20)), cache)
        found.append(cache.values[SPLIT])
    assert found[1].dtype == torch.bfloat16
    assert float((found[1].float() - found[0]).abs().max()) <= 8 * 2**-8 * float(found[0].abs().max())


@pytest.mark.parametrize("family", ["qwen3"])
def test_heads_with_a_context_refuse_exact_rows_in_the_prefix(case, prompt, plan, family):
    """They mix every row with all before it, and an exact row's state is not handed over."""
    one = case()
    adapter = one.adapter.filling("kva", heads=random_heads(one.adapter, 1))
    with pytest.raises(ConfigError, match="some prefix rows are exact"):
        filled_pass(adapter, prompt(TOKENS), ROWS["scattered"], plan)


@pytest.mark.parametrize("family", ["qwen3"])
def test_a_context_is_computed_once_for_all_late_layers(case, prompt, plan, monkeypatch, family):
    """It costs as much as layers do, and is the same for each of them."""
    calls, mix = [], kva_rows.mix
    monkeypatch.setattr(kva_rows, "mix", lambda *given: calls.append(len(given)) or mix(*given))
    one = case()
    filled_pass(one.adapter.filling("kva", heads=random_heads(one.adapter, 1)), prompt(TOKENS), ROWS["tail"], plan)
    assert len(calls) == 1


@pytest.mark.parametrize("family", ["gemma3"])
def test_heads_with_a_context_refuse_windows(case, family):
    """Late layers that see a window are handed only the rows in it."""
    adapter = case().adapter
    with pytest.raises(ConfigError, match="see a window"):
        adapter.filling("kva", heads=random_heads(adapter, 1))


@pytest.mark.parametrize("family", OTHERS)
def test_models_with_other_late_layers_refuse_heads(case, qwen3_heads, family):
    """A recurrent layer has no keys, and an indexer none that a head would give."""
    with pytest.raises(ConfigError, match=r"linear_attention layers; KVA heads"):
        case().adapter.filling("kva", heads=qwen3_heads)


@pytest.fixture
def qwen3_heads():
    """Heads of some other model; families that cannot take any never look at them."""
    return KvaHeads(SPLIT, LAYERS, {})


def test_swiftkv_arms_are_refused_on_every_other_family(case, family):
    """They would be mislabelled: a fill or exact rows of projections that the model does not have."""
    adapter = case().adapter
    for fill, rows in (("swiftkv", "swiftkv"), ("swiftkv", "original"), ("identity", "swiftkv"), ("exact", "swiftkv")):
        with pytest.raises(ConfigError, match="no SwiftKV projections; load a llama_swiftkv checkpoint"):
            adapter.filling(fill, rows)


def test_the_other_fills_run_the_adapter_itself(case, family):
    """No copy, so nothing can differ; a fill that nobody knows is refused."""
    adapter = case().adapter
    assert all(adapter.filling(fill) is adapter for fill in ("exact", "none", "identity", "ridge"))
    assert adapter.predicts_inputs
    for fill, rows in (("mean", "original"), ("ridge", "stock")):
        with pytest.raises(ConfigError, match="expected exact, none, identity, ridge, kva or swiftkv"):
            adapter.filling(fill, rows)
    with pytest.raises(ConfigError, match=f"trained heads for this model; give their file, such as {KVA_FILE}"):
        adapter.filling("kva")


@pytest.mark.parametrize("family", ["qwen3"])
def test_a_kva_copy_keeps_to_its_split_and_predicts_nothing(case, family):
    """Another split, a rescale and a fit are refused, each with the reason."""
    adapter = case().adapter.filling("kva", heads=random_heads(case().adapter))
    adapter.require_split(SPLIT)
    with pytest.raises(ConfigError, match="trained for split 3 only"):
        adapter.require_split(SPLIT + 1)
    with pytest.raises(ConfigError, match="without predicting any"):
        Rescale().require(adapter, SPLIT)
    with pytest.raises(ConfigError, match="fit maps on the original model"):
        capture(adapter, [[1, 2, 3]], [SPLIT])
