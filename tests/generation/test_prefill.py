"""``prefill`` gives a stock cache from which the stock model continues as our own decoding would."""

import copy

import pytest
import torch
from transformers.cache_utils import DynamicCache

from ridgefill.generation.prefill import prefill
from ridgefill.models.base import LINEAR
from ridgefill.models.wrap import adapter_for

TAIL, NEW = 20, 12
# Batch entries of other lengths and masked zeros add in another order: some fp32 roundings of the largest value.
TOLERANCE = 1e-5


def close(found, expected):
    """Whether two tensors differ by less than the tolerance, in units of the largest expected value."""
    difference = float((found.double() - expected.double()).abs().max())
    return difference <= TOLERANCE * float(expected.double().abs().max())


def contents(cache):
    """Every tensor that a stock cache holds, by layer and name."""
    found = {}
    for number, layer in enumerate(cache.layers):
        for name in ("keys", "values", "indexer_keys", "indexer_position_ids"):
            if getattr(layer, name, None) is not None:
                found[number, name] = getattr(layer, name)
        for name in ("conv_states", "recurrent_states"):
            for index, state in getattr(layer, name, {}).items():
                if state is not None:
                    found[number, name, index] = state
    return found


@pytest.mark.parametrize("split_layer", ["exact", "mapped"])
@pytest.mark.parametrize("tokens", [TAIL + 1, 50, 65])
def test_the_stock_model_continues_from_the_cache(
    family, model_of, maps_of, prompt, own_decoding, greedy, tokens, split_layer
):
    """The first token from the logits, the others by ``generate`` given the cache, prompt and first token."""
    model, ids = model_of(family), prompt(tokens)
    maps = maps_of(model)
    done = prefill(maps, model, ids, tail=TAIL, split_layer=split_layer)
    assert (done.filled, done.tokens) == (tokens - TAIL, tokens)
    first = done.logits.argmax(-1, keepdim=True)
    found = greedy(model, NEW - 1, input_ids=torch.cat([ids, first], 1), cache=done.cache)
    assert [first.item(), *found[0]] == own_decoding(model, maps, ids, split_layer=split_layer)


def test_all_but_the_last_token_can_be_prefilled(family, model_of, maps_of, prompt, own_decoding, greedy):
    """``generate`` runs the last prompt token on the cache of the others: the same tail, one token of it later."""
    model, ids = model_of(family), prompt(50)
    maps = maps_of(model)
    done = prefill(maps, model, ids[:, :-1], tail=TAIL - 1)
    assert greedy(model, input_ids=ids, cache=done.cache)[0] == own_decoding(model, maps, ids)


def test_forward_continues_from_the_cache_too(family, model_of, maps_of, prompt, own_decoding):
    """Several new tokens at once, without ``generate``: the logits choose the tokens that follow them."""
    model, ids = model_of(family), prompt(50)
    maps = maps_of(model)
    expected = own_decoding(model, maps, ids)
    done = prefill(maps, model, ids, tail=TAIL)
    with torch.no_grad():
        logits = model(torch.tensor([expected[:-1]]), cache=done.cache, use_cache=True).logits
    assert logits.argmax(-1)[0].tolist() == expected[1:]


@pytest.mark.parametrize("columns", [0, 70])
def test_a_padded_batch_equals_each_prompt_alone(family, model_of, maps_of, prompt, padded, greedy, columns):
    """Prompts of other lengths, one of them too short for a fill, with and without columns that are all padding."""
    model = model_of(family)
    maps = maps_of(model)
    prompts = [prompt(50), prompt(37, 1), prompt(TAIL - 5, 2)]
    batch = padded(*prompts, columns=columns)
    together = prefill(maps, model, **batch, tail=TAIL)
    assert (together.filled, together.tokens) == (30 + 17, 50 + 37 + 15)
    alone = [prefill(maps, model, one, tail=TAIL) for one in prompts]
    for entry, one in enumerate(alone):
        assert close(together.logits[entry], one.logits[0])
    first = together.logits.argmax(-1, keepdim=True)
    ids = torch.cat([batch["input_ids"], first], 1)
    mask = torch.cat([batch["attention_mask"], torch.ones_like(first)], 1)
    found = greedy(model, input_ids=ids, attention_mask=mask, cache=together.cache)
    for entry, (one, tokens) in enumerate(zip(alone, prompts, strict=True)):
        assert [found[entry]] == greedy(
            model, input_ids=torch.cat([tokens, first[entry : entry + 1]], 1), cache=one.cache
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tokens", [1, 2, TAIL - 1, TAIL])
def test_a_prompt_no_longer_than_the_tail_is_stock(family, model_of, maps_of, prompt, tokens, dtype):
    """Off gate, bit for bit: logits and every tensor of the cache."""
    model, ids = model_of(family, dtype), prompt(tokens)
    done = prefill(maps_of(model), model, ids, tail=TAIL)
    with torch.no_grad():
        stock = model(ids, use_cache=True, logits_to_keep=1)
    assert done.filled == 0
    assert torch.equal(done.logits, stock.logits[:, -1])
    found, expected = contents(done.cache), contents(stock.cache)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_without_fill_the_prefill_is_stock(family, model_of, maps_of, prompt, padded):
    """``fill=False``, bit for bit, padding included."""
    model = model_of(family)
    batch = padded(prompt(50), prompt(37, 1))
    done = prefill(maps_of(model), model, **batch, tail=TAIL, fill=False)
    positions = (batch["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad():
        stock = model(**batch, position_ids=positions, use_cache=True, logits_to_keep=1)
    assert done.filled == 0
    assert torch.equal(done.logits, stock.logits[:, -1])
    found, expected = contents(done.cache), contents(stock.cache)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("tokens", [50, 65])
def test_the_cache_has_the_shapes_of_a_stock_one(family, model_of, maps_of, prompt, padded, tokens):
    """Same layers, tensors, shapes, types and lengths, so that everything made for a stock cache works on it; layers
    below the split hold the stock rows; nothing is NaN.
    """
    model = model_of(family)
    maps = maps_of(model)
    batch = padded(prompt(tokens), prompt(37, 1))
    cache = prefill(maps, model, **batch, tail=TAIL).cache
    positions = (batch["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad():
        stock = model(**batch, position_ids=positions, use_cache=True).cache
    assert [type(layer) for layer in cache.layers] == [type(layer) for layer in stock.layers]
    assert cache.get_seq_length() == stock.get_seq_length() == tokens
    found, expected = contents(cache), contents(stock)
    assert {name: (kept.shape, kept.dtype) for name, kept in found.items()} == {
        name: (kept.shape, kept.dtype) for name, kept in expected.items()
    }
    assert all(bool(torch.isfinite(kept).all()) for kept in found.values())
    for name, kept in found.items():
        if name[0] < maps.split:  # without the padding, which stock fills with what no one sees
            assert close(kept[:1], expected[name][:1])


def test_attention_rows_and_chosen_rows(model_of, maps_of, prompt, own_decoding, greedy):
    """Both ways of naming exact prefix rows; rows of the tail are exact already."""
    model, ids = model_of("llama"), prompt(65)
    maps = maps_of(model, 4)
    for rows, count in (("attention", 6), ([0, 3, 44, 60], 3)):
        done = prefill(maps, model, ids, tail=TAIL, rows=rows)
        assert done.filled == 45 - count
        first = done.logits.argmax(-1, keepdim=True)
        found = greedy(model, NEW - 1, input_ids=torch.cat([ids, first], 1), cache=done.cache)
        assert [first.item(), *found[0]] == own_decoding(model, maps, ids, rows=rows)


def test_a_callers_empty_cache_is_used(model_of, maps_of, prompt):
    """With or without layers laid out in advance."""
    model, ids = model_of("llama"), prompt(50)
    maps = maps_of(model)
    expected = contents(prefill(maps, model, ids, tail=TAIL).cache)
    for cache in (DynamicCache(), DynamicCache(config=model.config)):
        assert prefill(maps, model, ids, tail=TAIL, cache=cache).cache is cache
        assert all(torch.equal(kept, expected[name]) for name, kept in contents(cache).items())


def test_one_prefill_answers_several_questions(family, model_of, maps_of, prompt, greedy):
    """A copy of the cache continues as the cache itself would: nothing in it is shared with the copy."""
    model, ids = model_of(family), prompt(50)
    done = prefill(maps_of(model), model, ids, tail=TAIL)
    answers = []
    for question in (prompt(5, 7), prompt(6, 8), prompt(5, 7)):
        cache = copy.deepcopy(done.cache)
        answers.append(greedy(model, input_ids=torch.cat([ids, question], 1), cache=cache)[0])
    assert answers[0] == answers[2] != answers[1]


def test_the_models_parameters_keep_their_gradient_flags(model_of, maps_of, prompt):
    """A prefill does not freeze the caller's model, and records no gradient of it."""
    model = copy.deepcopy(model_of("llama")).requires_grad_(True)
    done = prefill(maps_of(model_of("llama")), model, prompt(50), tail=TAIL)
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not done.logits.requires_grad


def test_every_family_has_a_layer_that_is_filled(family, model_of, maps_of):
    """The tests above say something: late layers of the kinds that the family has."""
    model = model_of(family)
    adapter, split = adapter_for(model), maps_of(model).split
    assert any(kind != LINEAR for kind in adapter.kinds[split:])
