"""Which calls a fill block answers, what it leaves to the stock model, and that it leaves no trace."""

import copy
import warnings

import pytest
import torch
from transformers.cache_utils import DynamicCache, StaticCache

from ridgefill.errors import ConfigError

TAIL = 20


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    """A fill that silently did not happen would show here; transformers' own warnings go to its logger."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_a_forward_call_of_ones_own_is_filled_too(model_of, maps_of, prompt):
    """Called as ``generate`` does: by position or name, with a cache or asking for one; the last logits only."""
    model, ids = model_of("llama"), prompt(60)
    maps = maps_of(model)
    expected = maps.prefill(model, ids, tail=TAIL).logits
    with maps.fill(model, tail=TAIL) as done, torch.no_grad():
        by_name = model(input_ids=ids, use_cache=True, logits_to_keep=1)
        by_place = model(ids, None, None, DynamicCache(), logits_to_keep=1)
    assert torch.equal(by_name.logits[:, -1], expected)
    assert torch.equal(by_place.logits[:, -1], expected)
    assert by_name.cache.get_seq_length() == by_place.cache.get_seq_length() == 60
    assert len(done) == 2


REFUSED = {
    "all logits": (lambda ids, model: {"use_cache": True}, "logits of the whole prompt"),
    "no cache": (lambda ids, model: {"use_cache": False, "logits_to_keep": 1}, "no cache was asked for"),
    "static cache": (
        lambda ids, model: {"cache": StaticCache(config=model.config, max_cache_len=80), "logits_to_keep": 1},
        "a StaticCache was given",
    ),
    "hidden states": (
        lambda ids, model: {"use_cache": True, "logits_to_keep": 1, "output_hidden_states": True},
        "output_hidden_states cannot be given",
    ),
    "right padding": (
        lambda ids, model: {
            "use_cache": True, "logits_to_keep": 1, "attention_mask": (torch.arange(60) < 50).long()[None],
        },
        "pad on the left",
    ),
    "own positions": (
        lambda ids, model: {"use_cache": True, "logits_to_keep": 1, "position_ids": torch.arange(60)[None] + 1},
        "position_ids other than",
    ),
    "uncounted padding": (
        lambda ids, model: {
            "use_cache": True, "logits_to_keep": 1, "attention_mask": (torch.arange(60) >= 9).long()[None],
        },
        "positions count the padding",
    ),
    "more logits than tokens": (
        lambda ids, model: {
            "use_cache": True, "logits_to_keep": 20, "attention_mask": (torch.arange(60) >= 50).long()[None],
            "position_ids": (torch.arange(60) - 50).clamp(min=0)[None],
        },
        "logits of 20 rows were asked for",
    ),
    "tokens of an image": (
        lambda ids, model: {"use_cache": True, "logits_to_keep": 1, "mm_token_type_ids": torch.ones_like(ids)},
        "mm_token_type_ids cannot be given",
    ),
    "cache of plain layers": (
        lambda ids, model: {"cache": DynamicCache(), "logits_to_keep": 1}, "was not made for the layers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_filled_is_stock_with_one_warning(model_of, maps_of, prompt, name):
    """The stock result bit for bit; the second time without a word. Gemma 3: its windows need their own layers."""
    model, ids = model_of("gemma3"), prompt(60)
    options, message = REFUSED[name]
    with maps_of(model).fill(model, tail=TAIL) as done, torch.no_grad():
        with pytest.warns(UserWarning, match=message) as told:
            found = model(ids, **options(ids, model)).logits
        again = model(ids, **options(ids, model)).logits
    with torch.no_grad():
        stock = model(ids, **options(ids, model)).logits
    assert torch.equal(found, stock)
    assert torch.equal(again, stock)
    assert (len(told), done) == (1, [])


def test_leaving_restores_the_stock_model(model_of, maps_of, prompt, greedy):
    """Also by an exception, also when somebody else had put a ``forward`` on the model; nothing else ever changes."""
    model, ids = copy.deepcopy(model_of("llama")), prompt(60)
    stock, before = greedy(model, input_ids=ids), dict(vars(model))
    with maps_of(model_of("llama")).fill(model, tail=TAIL):
        assert {name for name in vars(model) if name not in before} == {"forward"}
    assert vars(model) == before
    with pytest.raises(ZeroDivisionError), maps_of(model_of("llama")).fill(model, tail=TAIL):
        raise ZeroDivisionError
    assert vars(model) == before
    assert greedy(model, input_ids=ids) == stock
    theirs = model.forward
    model.forward = theirs
    with maps_of(model_of("llama")).fill(model, tail=TAIL):
        assert greedy(model, input_ids=ids) != stock
    assert model.forward is theirs


def test_a_failing_fill_leaves_no_trace(model_of, maps_of, prompt, greedy):
    """A row that does not exist ends ``generate`` with our sentence; afterwards the model is stock."""
    model, ids = model_of("llama"), prompt(60)
    with (
        maps_of(model).fill(model, tail=TAIL, rows=[60]),
        pytest.raises(ConfigError, match="position 60, but the prompt has 60 tokens"),
    ):
        greedy(model, input_ids=ids)
    assert "forward" not in vars(model)


def test_blocks_cannot_be_nested(model_of, maps_of, prompt, greedy):
    """The same model twice is refused and the outer block goes on; another model is another matter."""
    model, other = model_of("llama"), model_of("qwen3")
    maps = maps_of(model)
    with maps.fill(model, tail=TAIL) as done:
        with pytest.raises(ConfigError, match="already inside a fill block"), maps.fill(model, tail=TAIL):
            pass
        with maps_of(other).fill(other, tail=TAIL) as others:
            greedy(other, input_ids=prompt(60))
        greedy(model, input_ids=prompt(60))
        assert maps.prefill(model, prompt(60), tail=TAIL, fill=False).filled == 0
    assert (len(done), len(others)) == (1, 1)


def test_several_prompts_and_a_rising_minimum(model_of, maps_of, prompt, greedy):
    """Prompts with fewer rows to fill than the minimum run exactly."""
    model = model_of("llama")
    with maps_of(model).fill(model, tail=TAIL, min_filled=30) as done:
        for tokens in (49, 50, 60):
            greedy(model, input_ids=prompt(tokens))
    assert [one.filled for one in done] == [30, 40]
