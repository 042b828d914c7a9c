"""Inside ``with maps.fill(model)``, ``generate`` gives what the fill and stock decoding give; outside, stock."""

import warnings

import pytest
import torch
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration, pipeline
from transformers.cache_utils import DynamicCache
from transformers.generation.streamers import BaseStreamer

TAIL, NEW = 20, 12


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    """A fill that silently did not happen would show here; transformers' own warnings go to its logger."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def new_tokens(model, ids, **options):
    """Tokens that ``generate`` adds, one list per sequence, with the options of these tests."""
    options = {"max_new_tokens": NEW, "do_sample": False, "pad_token_id": 0} | options
    options.setdefault("attention_mask", torch.ones_like(ids))
    return model.generate(ids, **options)[:, ids.shape[1] :].tolist()


@pytest.mark.parametrize("split_layer", ["exact", "mapped"])
@pytest.mark.parametrize("tokens", [TAIL + 1, 64, 65])
def test_greedy_generation_equals_our_own_decoding(
    family, model_of, maps_of, prompt, own_decoding, tokens, split_layer
):
    """Token by token on the same plan; for one family also that stock tokens are others: this says something."""
    model, ids = model_of(family), prompt(tokens)
    maps = maps_of(model)
    with maps.fill(model, tail=TAIL, split_layer=split_layer) as done:
        found = new_tokens(model, ids)
    assert found == [own_decoding(model, maps, ids, split_layer=split_layer)]
    assert [(one.filled, one.tokens) for one in done] == [(tokens - TAIL, tokens)]
    if family == "llama" and tokens > 60:
        assert found != new_tokens(model, ids)


@pytest.mark.parametrize("tokens", [2, TAIL, 65])
def test_without_fill_or_with_a_short_prompt_generation_is_stock(family, model_of, maps_of, prompt, tokens):
    """Off gate: every step's logits and the cache that is left, bit for bit."""
    model, ids = model_of(family), prompt(tokens)
    options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "attention_mask": torch.ones_like(ids)}
    options |= {"return_dict_in_generate": True, "output_logits": True}
    stock = model.generate(ids, **options)
    with maps_of(model).fill(model, tail=TAIL, fill=tokens <= TAIL) as done:
        found = model.generate(ids, **options)
    assert done == []
    assert torch.equal(found.sequences, stock.sequences)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(found.logits, stock.logits, strict=True))
    for ours, theirs in zip(found.cache.layers, stock.cache.layers, strict=True):
        kept = getattr(theirs, "keys", None)
        assert kept is None or torch.equal(ours.keys, kept)


def test_a_left_padded_batch_equals_each_prompt_alone(family, model_of, maps_of, prompt, padded):
    """Three prompts, one of them too short for a fill."""
    model = model_of(family)
    maps = maps_of(model)
    prompts = [prompt(60), prompt(41, 1), prompt(TAIL - 3, 2)]
    batch = padded(*prompts)
    with maps.fill(model, tail=TAIL) as done:
        together = new_tokens(model, batch["input_ids"], attention_mask=batch["attention_mask"])
        alone = [new_tokens(model, one)[0] for one in prompts]
    assert together == alone
    assert [one.filled for one in done] == [40 + 21, 40, 21]


def test_sampling_equals_sampling_by_hand(model_of, maps_of, prompt):
    """With the same seed: softmax of the prefill's logits, then of stock steps on its cache."""
    model, ids = model_of("llama"), prompt(60)
    maps = maps_of(model)
    with maps.fill(model, tail=TAIL):
        torch.manual_seed(5)
        found = new_tokens(model, ids, do_sample=True, top_k=0, temperature=1.0)[0]
    done = maps.prefill(model, ids, tail=TAIL)
    torch.manual_seed(5)
    logits, expected = done.logits, []
    with torch.no_grad():
        for _ in range(NEW):
            token = torch.multinomial(logits.softmax(-1), 1)
            expected.append(token.item())
            logits = model(token, cache=done.cache, use_cache=True).logits[:, -1]
    assert found == expected
    assert found != new_tokens(model, ids)[0]


def test_several_sequences_of_one_prompt_share_its_prefill(model_of, maps_of, prompt):
    """``num_return_sequences``: copies of a prompt are prefilled once and then go their own ways."""
    model, ids = model_of("gemma3"), prompt(60)
    with maps_of(model).fill(model, tail=TAIL) as done:
        torch.manual_seed(5)
        found = new_tokens(model, ids, do_sample=True, num_return_sequences=3)
    assert len({tuple(one) for one in found}) == 3
    assert [(one.filled, one.tokens) for one in done] == [(3 * 40, 3 * 60)]
    assert done[0].cache.layers[0].keys.shape[0] == 3


def test_beams_equal_beams_from_a_prefilled_cache(family, model_of, maps_of, prompt):
    """Beam search reorders the cache as it does a stock one: same result as when given the prompt's cache."""
    model, ids = model_of(family), prompt(60)
    maps = maps_of(model)
    with maps.fill(model, tail=TAIL):
        found = new_tokens(model, ids, num_beams=3)
    cache = maps.prefill(model, ids[:, :-1].repeat(3, 1), tail=TAIL - 1).cache
    assert found == new_tokens(model, ids, num_beams=3, cache=cache)


def test_prompt_lookup_equals_plain_greedy(model_of, maps_of, prompt):
    """Guessed tokens add rows whose logits are wanted; the tail before them stays whole, so nothing changes."""
    for family in ("llama", "gemma3"):
        model, ids = model_of(family), prompt(30).repeat(1, 2)
        with maps_of(model).fill(model, tail=TAIL) as done:
            plain = new_tokens(model, ids)
            guessed = new_tokens(model, ids, prompt_lookup_num_tokens=4)
        assert guessed == plain
        assert [one.filled for one in done] == [40, 40]


def test_the_text_side_of_an_image_model_is_filled(model_of, maps_of, prompt, padded, own_decoding):
    """Its ``generate`` numbers text on four axes alike; padded, and after another prompt, as the text model alone."""
    text = model_of("qwen3_5")
    vision = {"depth": 1, "hidden_size": 8, "num_heads": 1, "intermediate_size": 8, "out_hidden_size": 32}
    model = Qwen3_5ForConditionalGeneration(
        Qwen3_5Config(text_config=text.config.to_dict(), vision_config=vision, tie_word_embeddings=False)
    ).eval()
    model.model.language_model.load_state_dict(text.model.state_dict())
    model.lm_head.load_state_dict(text.lm_head.state_dict())
    maps, prompts = maps_of(text), [prompt(60), prompt(41, 1)]
    with maps.fill(model, tail=TAIL) as done:
        batch = padded(*prompts)
        found = new_tokens(model, batch["input_ids"], attention_mask=batch["attention_mask"])
        found += new_tokens(model, prompts[1])
    expected = [own_decoding(text, maps, one) for one in prompts]
    assert found == [*expected, expected[1]]
    assert [one.filled for one in done] == [40 + 21, 21]


class Collector(BaseStreamer):
    """Everything put, in order."""

    def __init__(self):
        self.put_tokens, self.ended = [], False

    def put(self, value):
        self.put_tokens += value.flatten().tolist()

    def end(self):
        self.ended = True


def test_a_streamer_gets_the_prompt_and_then_each_token(model_of, maps_of, prompt):
    """In order, and its end."""
    model, ids, streamer = model_of("llama"), prompt(60), Collector()
    with maps_of(model).fill(model, tail=TAIL):
        found = new_tokens(model, ids, streamer=streamer)
    assert streamer.put_tokens == [*ids[0].tolist(), *found[0]]
    assert streamer.ended


def test_a_second_turn_continues_the_filled_cache(family, model_of, maps_of, prompt, own_decoding):
    """Reply and question of the second turn run every layer, on the rows that the first turn filled."""
    model, ids, question = model_of(family), prompt(60), prompt(30, 9)
    maps = maps_of(model)
    with maps.fill(model, tail=TAIL) as done:
        cache = DynamicCache(config=model.config)
        first = new_tokens(model, ids, cache=cache)
        turn = torch.cat([ids, torch.tensor(first), question], 1)
        second = new_tokens(model, turn, cache=cache)
    assert len(done) == 1
    alone = maps.prefill(model, ids, tail=TAIL).cache
    assert second == new_tokens(model, turn, cache=alone)
    assert first == [own_decoding(model, maps, ids)]


def test_a_pipeline_generates_from_the_fill(model_of, maps_of, own_decoding, tiny_tokenizer):
    """transformers' text-generation pipeline, text in and text out."""
    model = model_of("llama")
    maps = maps_of(model)
    text = " ".join(f"w{(7 * number) % 90}" for number in range(50))
    generator = pipeline("text-generation", model=model, tokenizer=tiny_tokenizer, device="cpu")
    with maps.fill(model, tail=TAIL) as done:
        reply = generator(text, max_new_tokens=NEW, do_sample=False, return_full_text=False)[0]["generated_text"]
    ids = tiny_tokenizer(text, return_tensors="pt")["input_ids"]
    assert [one.filled for one in done] == [30]
    assert reply.split() == tiny_tokenizer.decode(own_decoding(model, maps, ids)).split()
