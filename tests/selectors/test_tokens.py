"""What a real kind of tokenizer says of its tokens: texts inside a text, special ids, places of characters."""

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from ridgefill.errors import TextError
from ridgefill.selectors.tokens import outside, positions_of, special_ids, token_texts


def bytewise():
    """Bytes, spaces kept: every text comes back as it was."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: place for place, letter in enumerate(letters)}
    space = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(" ")[0][0]
    vocabulary[f"{space}T"] = len(vocabulary)
    made = Tokenizer(BPE(vocabulary, [(space, "T")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


def pieces():
    """SentencePiece's way: a bar for the space, and a decoder that drops the first space of a text."""
    letters = ["▁", "a", "T", "h", "e", "é", "7"]
    vocabulary = {letter: place for place, letter in enumerate(letters)} | {"▁T": 7, "<u>": 8}
    made = Tokenizer(BPE(vocabulary, [("▁", "T")], unk_token="<u>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return made


@pytest.fixture(params=[bytewise, pieces])
def tokenizer(request):
    made = request.param()
    made.add_special_tokens([AddedToken("<end>", special=True)])
    made.add_tokens([AddedToken("<tag>", special=False)])
    unknown = {"unk_token": "<u>"} if request.param is pieces else {}
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>", **unknown)


@pytest.mark.parametrize("text", [" The a", "The The", "a T<end> h<tag>e", " ", "  T"])
def test_texts_of_tokens_put_together_are_the_text(tokenizer, text):
    """White space before a word is kept, for the first token too, and special tokens have their names."""
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    texts = token_texts(tokenizer, ids)
    assert "".join(texts) == text
    assert len(texts) == len(ids) > 0


def test_a_part_of_a_character_is_no_text():
    """The two bytes of a letter outside ASCII."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytewise())
    assert token_texts(tokenizer, tokenizer("é")["input_ids"]) == ("\ufffd", "\ufffd")


def test_special_ids_are_told_apart(tokenizer):
    """Control tokens, the unknown one where there is one, and tokens that a user added."""
    found = special_ids(tokenizer)
    assert found.control == {tokenizer.convert_tokens_to_ids("<end>")}
    assert found.user_defined == {tokenizer.convert_tokens_to_ids("<tag>")}
    unknown = tokenizer.unk_token_id
    assert found.unknown == (set() if unknown is None else {unknown})
    assert found.all == found.control | found.unknown | found.user_defined


OFFSETS = ((0, 0), (0, 3), (3, 5), (5, 6), (5, 6), (6, 9))


@pytest.mark.parametrize(
    ("chars", "positions"), [((0, 3), (1, 2)), ((2, 4), (1, 3)), ((5, 6), (3, 5)), ((0, 9), (1, 6)), ((8, 20), (5, 6))]
)
def test_positions_hold_every_token_with_one_of_the_characters(chars, positions):
    """Tokens that share a character are all in; tokens without one are not."""
    assert positions_of(OFFSETS, *chars) == positions


def test_characters_of_no_token_are_refused():
    """Beyond the text, and none at all."""
    for chars in ((9, 12), (4, 4)):
        with pytest.raises(TextError, match="no token holds characters"):
            positions_of(OFFSETS, *chars)


def test_what_lies_outside_the_users_text_is_the_templates():
    """Before it and after it, where there is something."""
    assert outside(OFFSETS, 3, 6) == ((0, 2), (5, 6))
    assert outside(OFFSETS, 0, 9) == ((0, 1),)
    assert outside(OFFSETS[1:], 0, 9) == ()
