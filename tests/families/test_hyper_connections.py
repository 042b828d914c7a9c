"""Where the split state is not a layer's block input: moments, maps and selectors of a four-stream model."""

import copy
import runpy
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import (
    PreTrainedTokenizerFast,
    Qwen4ExpConfig,
    Qwen4ExpForConditionalGeneration,
    Qwen4ExpVisionConfig,
)

from ridgefill.arms import Arm
from ridgefill.capture import capture
from ridgefill.errors import ConfigError, ModelError, ResultsError
from ridgefill.fill import predictor, run_late
from ridgefill.lam import cache_write_cosines
from ridgefill.map_options import PLAIN
from ridgefill.models.load import load_model_folder
from ridgefill.models.wrap import adapter_for
from ridgefill.moments import chunk_moments, load_moments, merge, save_moments
from ridgefill.passes import run_exact, run_lower
from ridgefill.ridge import factorise, residual_shares, solve
from ridgefill.rows import RowPlan
from ridgefill.selectors.attention import AttentionRows
from ridgefill.selectors.context import Context
from ridgefill.settings import HubSource, ModelConfig, ModelGeometry

HERE = Path(__file__).parent
BUILD = runpy.run_path(str(HERE / "builders.py"))
NAIVE = runpy.run_path(str(HERE.parent / "naive" / "regression.py"))
SPLIT, WIDTH, HIDDEN = 4, 128, 32
PIECES = [40, 7, 64, 33] * 6


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module")
def model():
    return BUILD["qwen4_exp"]()


@pytest.fixture(scope="module")
def adapter(model):
    return adapter_for(model)


@pytest.fixture(scope="module")
def texts():
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(0, BUILD["VOCABULARY"], (size,), generator=generator).tolist() for size in PIECES]


@pytest.fixture(scope="module")
def stored(model, texts):
    """The stock model's own activations, by hooks: what enters layer 4, and what its and layer 5's projections take."""
    seen = {"state": [], SPLIT: [], SPLIT + 1: []}
    layers = model.model.layers
    hooks = [
        layers[4].register_forward_pre_hook(lambda _, args: seen["state"].append(args[0][0])),
        layers[4].linear_attn.in_proj_qkv.register_forward_pre_hook(lambda _, args: seen[4].append(args[0][0])),
        layers[5].self_attn.k_proj.register_forward_pre_hook(lambda _, args: seen[5].append(args[0][0])),
    ]
    with torch.inference_mode():
        for ids in texts:
            model(torch.tensor([ids]))
    for hook in hooks:
        hook.remove()
    return {name: torch.cat(parts) for name, parts in seen.items()}


@pytest.fixture(scope="module")
def moments(adapter, texts):
    return capture(adapter, texts, (SPLIT,))


def test_captured_moments_are_those_of_the_stock_activations(moments, stored):
    """State and block inputs have their own means; the split layer is among the targets."""
    assert moments.gram[SPLIT].shape == (WIDTH, WIDTH)
    assert moments.cross[SPLIT].shape == (WIDTH, 2 * HIDDEN)
    assert list(moments.targets(SPLIT)) == [4, 5]
    for place, layer in enumerate((4, 5)):
        mx, my, gram, cross, total = NAIVE["moments"](stored["state"], stored[layer])
        torch.testing.assert_close(moments.mean_state(SPLIT), mx, rtol=0, atol=1e-6)
        torch.testing.assert_close(moments.mean[layer], my, rtol=0, atol=1e-6)
        assert float((moments.gram[SPLIT] - gram).abs().max() / gram.abs().max()) < 1e-6
        block = moments.cross[SPLIT][:, HIDDEN * place : HIDDEN * (place + 1)]
        assert float((block - cross).abs().max() / cross.abs().max()) < 1e-6
        assert float(moments.scatter[layer]) == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("lam", [0.001, 0.03, 1.0])
def test_maps_take_all_streams_and_give_block_inputs(moments, stored, lam):
    """``[hidden, 4 hidden]`` for every late layer, the split layer's included: least squares, layer by layer."""
    factors = factorise(moments, SPLIT)
    maps, shares = solve(factors, lam), residual_shares(factors, lam)
    assert sorted(maps.weights) == sorted(shares) == [4, 5]
    for layer in (4, 5):
        weight, bias = NAIVE["ridge"](stored["state"], stored[layer], lam)
        assert maps.weights[layer].shape == (HIDDEN, WIDTH)
        predicted = maps.predict(layer, stored["state"]).double()
        expected = stored["state"].double() @ weight.T + bias
        # Moments from fp32 products, multiplied by an inverse whose condition number is within a thousand.
        assert float((predicted - expected).abs().max() / expected.abs().max()) < 1e-4
        share = NAIVE["residual_share"](stored["state"], stored[layer], weight, bias)
        assert shares[layer] == pytest.approx(share, abs=1e-5)
    assert sorted(solve(factors, lam, mapped_split_layer=False).weights) == [5]


def test_fitted_maps_predict_better_than_the_mean_and_than_the_identity(adapter, moments, stored):
    """Two ways to be useless that they are not, on the rows they were fitted on."""
    maps = solve(factorise(moments, SPLIT), 0.001)
    truth = stored[5]
    fitted = float((truth - maps.predict(5, stored["state"])).square().sum())
    assert fitted < 0.5 * float((truth - truth.mean(0)).square().sum())
    assert fitted < float((truth - adapter.block_input(5, stored["state"])).square().sum())


@pytest.mark.parametrize("split_layer", ["exact", "mapped"])
def test_arms_write_what_maps_or_streams_predict(adapter, moments, split_layer):
    """Filled rows of the sparse layer hold keys, values and indexer keys of the predicted block input."""
    maps = solve(factorise(moments, SPLIT), 0.03)
    lower = run_lower(adapter, torch.arange(60)[None], SPLIT)
    plan = RowPlan(torch.arange(40), torch.arange(40, 60), 20, 0, ())
    for name, predict in (("ridge", maps.predict), ("identity", adapter.block_input)):
        arm = Arm(name, name, split=SPLIT, tail=20, split_layer=split_layer)
        done = run_late(adapter, lower, plan, predictor(arm, {(SPLIT, PLAIN): maps.predict}, adapter), arm)
        written = adapter.writes(5, predict(5, lower.state[:, :40]))
        value = done.cache.visible(5, 0, 40)[1].transpose(1, 2).flatten(2)
        assert torch.equal(value, written["value"])
        assert torch.equal(done.cache.visible_indexed(5, 0, 40), written["index"])


def test_the_split_layers_own_map_is_scored_too(adapter, moments, texts):
    """What it would write is predicted as well, unlike where the state is its input."""
    maps = solve(factorise(moments, SPLIT), 0.03)
    rows = cache_write_cosines(adapter, texts[:2], {(SPLIT, 0.03): maps})
    assert {(row.layer, row.component) for row in rows} == {
        *((4, name) for name in ("input", "qkv", "b", "a")), *((5, name) for name in ("input", "key", "value", "index"))
    }  # fmt: skip
    assert all(0.0 < row.cosine <= 1.0 for row in rows)


def test_moments_with_states_survive_their_file_and_merge_only_with_their_like(moments, tmp_path, stored):
    """Every tensor comes back; moments whose states are their block inputs are another configuration."""
    save_moments(tmp_path / "m.safetensors", moments, {})
    loaded = load_moments(tmp_path / "m.safetensors")
    for field in ("mean", "scatter", "gram", "cross", "state_mean"):
        found, kept = getattr(loaded, field), getattr(moments, field)
        assert found.keys() == kept.keys()
        assert all(torch.equal(found[key], kept[key]) for key in kept)
    plain = chunk_moments({4: stored[4], 5: stored[5]}, (SPLIT,), 6)
    with pytest.raises(ResultsError, match="cannot be merged"):
        merge(moments, plain)


def test_where_the_state_is_the_block_input_both_ways_of_saying_so_agree(stored):
    """Giving the states explicitly changes no map, whatever the chunks: one formula serves both."""
    inputs = {4: stored[4], 5: stored[5]}
    cuts = [slice(begin, begin + 100) for begin in range(0, len(stored[4]), 100)]
    chunks = [{layer: x[cut] for layer, x in inputs.items()} for cut in cuts]
    plain = reduce(merge, [chunk_moments(chunk, (SPLIT,), 6) for chunk in chunks])
    given = reduce(merge, [chunk_moments(chunk, (SPLIT,), 6, {SPLIT: chunk[SPLIT]}) for chunk in chunks])
    first, second = (solve(factorise(one, SPLIT), 0.03) for one in (plain, given))
    for layer in (4, 5):
        torch.testing.assert_close(first.weights[layer], second.weights[layer], rtol=0, atol=1e-6)
        torch.testing.assert_close(first.biases[layer], second.biases[layer], rtol=0, atol=1e-6)


def test_a_capture_below_the_last_ngram_layer_is_refused(adapter, texts):
    """Before any text is read; the layer is named."""
    with pytest.raises(ConfigError, match=r"split 1 .*n-gram layers \(1\)"):
        capture(adapter, texts, (1, SPLIT))


def test_attention_received_is_the_stock_attention(model, adapter):
    """Of an eager copy of the model, which returns its attention: sparse, summed over heads and question rows."""
    ids = torch.arange(65)[None] % 90
    eager = type(model)._from_config(copy.deepcopy(model.config), attn_implementation="eager").eval()
    eager.load_state_dict(model.state_dict())
    weights = eager(ids, output_attentions=True).attentions
    exact = run_exact(adapter, ids, window=(45, 65))
    before = exact.cache.indexed[3].clone()
    rows = adapter.rows(torch.arange(45, 65))
    received = adapter.attention_received(3, exact.window_inputs[3], rows, exact.cache)
    expected = weights[0][0, :, 45:].sum(dim=(0, 1))
    torch.testing.assert_close(received, expected, rtol=0, atol=1e-5)
    assert torch.equal(exact.cache.indexed[3], before)
    # A row sees 16 to 19 of its tokens, so some tokens get nothing from most of them.
    assert float(received.min()) < 0.5 * float(received.mean())
    context = replace(Context.around(adapter, run_lower(adapter, ids, SPLIT, window=20)), prefix=45)
    assert list(AttentionRows(5 / 65, window=20).rows(context)) == sorted(expected[:45].topk(5).indices.tolist())


def test_the_text_model_of_a_multimodal_one_is_adapted(model):
    """Same weights inside ``ForConditionalGeneration``: same logits as its own stock pass."""
    vision = Qwen4ExpVisionConfig(
        depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32, num_position_embeddings=16
    )
    config = Qwen4ExpConfig(text_config=model.config.to_dict(), vision_config=vision.to_dict())
    whole = Qwen4ExpForConditionalGeneration(config).eval()
    ids = torch.arange(30)[None]
    adapter = adapter_for(whole)
    assert torch.equal(adapter.logits(run_exact(adapter, ids).hidden), whole(ids).logits)


def test_a_saved_model_loads_with_the_width_that_its_experts_have_together(model, tmp_path):
    """Two experts of 16 and the shared one of 16; the n-gram table is stored in parts and comes back whole."""
    model.save_pretrained(tmp_path)
    words = Tokenizer(models.WordLevel({"a": 0, "<unk>": 1}, unk_token="<unk>"))
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>").save_pretrained(tmp_path)
    sizes = {"layers": 6, "hidden": 32, "heads": 4, "kv_heads": 2, "head_dim": 16, "vocab": 97, "context": 512}
    source = HubSource(kind="hub", repo="some/tiny")

    def configured(intermediate):
        geometry = ModelGeometry(**sizes, intermediate=intermediate)
        return ModelConfig(name="tiny", family="qwen4_exp", geometry=geometry, qk_norm=True, source=source)

    ids = torch.arange(30)[None]
    loaded = load_model_folder(tmp_path, configured(48), "float32")
    # Weights lie elsewhere in memory once they are loaded, which changes last bits on some processors: the stock model
    # that gives the same bits is the one with the same weights in the same place.
    kept = dict(loaded.network.named_parameters())
    assert all(torch.equal(kept[name], weight) for name, weight in model.named_parameters())
    assert torch.equal(loaded.adapter.logits(run_exact(loaded.adapter, ids).hidden), loaded.network(ids).logits)
    torch.testing.assert_close(loaded.network(ids).logits, model(ids).logits)
    with pytest.raises(ModelError, match="intermediate 48; tiny expects 64"):
        load_model_folder(tmp_path, configured(64), "float32")
