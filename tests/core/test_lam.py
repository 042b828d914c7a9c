"""Cache-write cosines: what each layer writes from predicted against true inputs, on held-out pieces."""

import math
import runpy
from pathlib import Path

import pytest
import torch

from ridgefill.lam import CosineRow, cache_write_cosines, mean_write_cosine
from ridgefill.maps import RidgeMaps

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "prefill.py"))
PIECES = [9, 5, 12]


@pytest.fixture
def texts(prompt):
    return [prompt(tokens)[0].tolist() for tokens in PIECES]


def cosine(a, b):
    return float(a @ b / (a.norm() * b.norm()))


def test_cosines_equal_the_naive_ones(tiny, adapter, random_maps, texts):
    """Keys before rotary, values and inputs, one row at a time in fp64, for two splits at once."""
    candidates = {(split, 0.1): random_maps(split) for split in (2, 4)}
    rows = cache_write_cosines(adapter, texts, candidates)
    naive = NAIVE["NaiveLlama"](tiny())
    expected = {}
    for ids in texts:
        inputs = naive.run_exact(ids)
        for (split, _), maps in candidates.items():
            for layer in range(split + 1, 6):
                weight, bias = maps.weights[layer].double(), maps.biases[layer].double()
                for true, state in zip(inputs[layer], inputs[split], strict=True):
                    guess = weight @ state + bias
                    pairs = {"input": (true, guess)}
                    for name, part in (("key", "self_attn.k_proj"), ("value", "self_attn.v_proj")):
                        pairs[name] = tuple(
                            naive.weight(layer, part)
                            @ NAIVE["norm"](x, naive.weight(layer, "input_layernorm"), naive.eps)
                            for x in (true, guess)
                        )
                    for name, (a, b) in pairs.items():
                        expected.setdefault((split, layer, name), []).append(cosine(a, b))
    assert {(row.split, row.layer, row.component) for row in rows} == set(expected)
    for row in rows:
        values = expected[row.split, row.layer, row.component]
        assert row.rows == len(values) == sum(PIECES)
        assert row.cosine == pytest.approx(math.fsum(values) / len(values), abs=1e-5)


def test_layers_that_change_nothing_are_predicted_perfectly_by_the_identity(adapter, texts):
    """With blocks that add nothing every layer input is the split state: cosine 1 in every component."""
    frozen = type(adapter)(type(adapter.model)(adapter.model.config))
    for block in frozen.model.model.layers:
        block.self_attn.o_proj.weight.zero_()
        block.mlp.down_proj.weight.zero_()
    eye = {layer: torch.eye(32) for layer in range(2, 6)}
    maps = RidgeMaps(2, eye, {layer: torch.zeros(32) for layer in eye})
    rows = cache_write_cosines(frozen, texts, {(2, 0.1): maps})
    assert [row.cosine for row in rows] == pytest.approx([1.0] * len(rows), abs=1e-6)


def test_bfloat16_models_take_maps_of_their_own_type(adapt, random_maps, texts):
    """Maps brought to the model's type give nearly the fp32 cosines."""
    full = cache_write_cosines(adapt(), texts, {(3, 0.1): random_maps(3)})
    half = cache_write_cosines(
        adapt(dtype=torch.bfloat16), texts, {(3, 0.1): random_maps(3).to(torch.bfloat16, torch.device("cpu"))}
    )
    assert [row.cosine for row in half] == pytest.approx([row.cosine for row in full], abs=0.05)


def test_the_selection_score_is_the_mean_of_keys_and_values():
    """Other splits, other lams and the input cosine do not count."""
    rows = [
        CosineRow(3, 0.1, 4, "key", 0.5, 9),
        CosineRow(3, 0.1, 4, "value", 0.7, 9),
        CosineRow(3, 0.1, 4, "input", 0.0, 9),
        CosineRow(3, 0.3, 4, "key", 0.0, 9),
        CosineRow(2, 0.1, 4, "key", 0.0, 9),
    ]
    assert mean_write_cosine(rows, 3, 0.1) == pytest.approx(0.6)
