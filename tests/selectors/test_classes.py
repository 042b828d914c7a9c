"""Token classes by text: the paper's eight, each on the texts that define it."""

import runpy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.selectors.classes import ELIGIBLE, TokenClass, token_class

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "selectors.py"))
EXAMPLES = {
    TokenClass.SPACE: ["", " ", "\n\n", "\t ", "\u00a0"],
    TokenClass.NUMBER: ["7", " 42", "3.14", "(1)", "-5%", " ٣", "²"],
    TokenClass.PUNCT: [".", " --", '."', "!?\n", " $"],
    TokenClass.START: [" the", "\nword", " ünder", " 漢"],
    TokenClass.START_CAPITALISED: [" The", "\tWord", " Ünder"],
    TokenClass.PIECE: ["ing", "ß", "漢字", "the "],
    TokenClass.PIECE_CAPITALISED: ["The", "É", "ABC"],
    TokenClass.MIXED: ["a1", " don't", "_x", "\ufffd", "…", "“", " x-y", "½", "a b"],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in EXAMPLES.items() for text in texts])
def test_each_class_holds_the_texts_that_define_it(kind, text):
    """Punctuation outside ASCII and parts of characters are mixed; the space before a word makes it a start."""
    assert token_class(text) is kind


def test_every_class_has_examples_and_four_are_eligible():
    """Capitalised starts and pieces, lower-case pieces, mixed: no lower-case start, no number (paper section 2.4)."""
    assert set(EXAMPLES) == set(TokenClass)
    assert {kind.value for kind in ELIGIBLE} == {
        "capitalised word start", "capitalised word piece", "word piece", "mixed",
    }  # fmt: skip


@given(st.text(st.characters() | st.sampled_from(" \n.7aA-"), max_size=6))
def test_classes_equal_the_naive_ones(text):
    """Property: on any text, counted character by character."""
    assert token_class(text).value == NAIVE["token_class"](text)
