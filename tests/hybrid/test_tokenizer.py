"""The tokenizer's file alone gives the language's own ids, and the text back."""

import pytest
from transformers import AutoTokenizer

from ridgefill.hybrid.language import four_asked, held_out, spell
from ridgefill.hybrid.tokenizer import make_tokenizer
from ridgefill.hybrid.words import START, UNKNOWN, VOCABULARY


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """Saved, and loaded as any other."""
    folder = tmp_path_factory.mktemp("tokenizer")
    make_tokenizer(2048).save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("index", range(10))
def test_text_and_pieces_are_the_same_tokens(tokenizer, index):
    """An episode's text becomes its own ids, and its ids its text, numbers in one piece."""
    one = held_out(four_asked(400), 1, index)
    assert tokenizer(spell(one.pieces)).input_ids == one.ids
    assert tokenizer.decode(one.ids, skip_special_tokens=True) == spell(one.pieces)


def test_an_answer_is_decoded_as_a_number(tokenizer):
    """What follows the prompt, decoded alone, holds the answer's digits side by side."""
    one = held_out(four_asked(400), 2, 0)
    prompt = tokenizer(one.prompt).input_ids
    assert one.ids[: len(prompt)] == prompt
    assert one.references[0] in tokenizer.decode(one.ids[len(prompt) : len(prompt) + 6])


def test_what_the_language_does_not_have_is_unknown(tokenizer):
    """Other words are one unknown token each, known ones around them stay."""
    ids = tokenizer("the xylophone waited.").input_ids
    assert [tokenizer.convert_ids_to_tokens(one) for one in ids] == [START, "▁the", UNKNOWN, "▁waited", "."]
    assert len(tokenizer) == len(VOCABULARY)
