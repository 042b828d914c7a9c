"""Needles are found in the final prompt, and the filled region follows the definition."""

import re
from dataclasses import replace

import pytest

from ridgefill.errors import TextError
from ridgefill.suites.needles import Needle, RulerSample, TokenSpan, filled_region, locate_needles, question_first

PROMPT = "Read this.\nA magic number for x is: 7. Filler words here. A magic number for y is: 8.\nWhat is x?"


def sample():
    needles = tuple(
        Needle(found[0], queried, found.start(), found.end())
        for found, queried in zip(re.finditer(r"A magic.*?\d\.", PROMPT), (True, False), strict=True)
    )
    question = (PROMPT.index("What"), len(PROMPT))
    return RulerSample("niah_multikey_1", 64, 0, PROMPT, " It is", ("7",), needles, 8, question)


def offsets_of(text):
    """Word tokens that carry their leading space, as byte-level tokenizers report them."""
    return [found.span() for found in re.finditer(r"\s?\w+|\s?[^\w\s]|\s", text)]


def cut(sample, start, end):
    return sample.question_prompt[start:end]


def test_the_question_moves_to_the_front_and_every_span_with_it():
    """Question, newline, the rest without the newline that led to the question; needles keep their text."""
    moved = question_first(sample())
    assert moved.question_prompt == "What is x?\n" + PROMPT.removesuffix("\nWhat is x?")
    assert cut(moved, *moved.question) == "What is x?"
    for needle in moved.needles:
        assert cut(moved, needle.char_start, needle.char_end) == needle.text
    same = {"answer_prefix", "references", "new_tokens", "task", "length", "index"}
    assert all(getattr(moved, name) == getattr(sample(), name) for name in same)


def test_a_question_in_the_middle_leaves_what_follows_it_in_place():
    """A needle behind the question moves by another amount than one before it."""
    start = PROMPT.index("Filler words here.")
    moved = question_first(replace(sample(), question=(start, start + len("Filler words here."))))
    assert moved.question_prompt.startswith("Filler words here.\nRead this.\nA magic number for x is: 7. A magic")
    for needle in moved.needles:
        assert cut(moved, needle.char_start, needle.char_end) == needle.text


def test_a_question_in_front_stays():
    """Moving twice is moving once."""
    moved = question_first(sample())
    assert question_first(moved) == moved


@pytest.mark.parametrize("question", [(5, 5), (-1, 4), (8, 10_000)])
def test_a_question_outside_the_turn_is_refused(question):
    """Characters that hold no question end in one sentence."""
    with pytest.raises(TextError, match="give the question's place"):
        question_first(replace(sample(), question=question))


def test_a_needle_over_the_question_is_refused():
    """Such a needle would be torn apart."""
    start, end = sample().question
    with pytest.raises(TextError, match="overlaps the question"):
        question_first(replace(sample(), question=(start - 3, end)))


def test_spans_cover_the_needles_and_nothing_more():
    """The tokens from first to last spell the needle, whatever the template put before it."""
    for head in ("", "<user>system says things. "):
        text = head + PROMPT + "<end> It is"
        offsets = offsets_of(text)
        for span, needle in zip(locate_needles(sample(), text, offsets), sample().needles, strict=True):
            covered = text[offsets[span.first][0] : offsets[span.last][1]]
            assert covered.strip() == needle.text
            assert span.queried == needle.queried


def test_special_tokens_of_no_width_are_passed_over():
    """(0, 0) offsets, as a begin-of-text token has, never count as part of a needle."""
    text = PROMPT + " It is"
    plain = locate_needles(sample(), text, offsets_of(text))
    shifted = locate_needles(sample(), text, [(0, 0), *offsets_of(text)])
    assert [(span.first + 1, span.last + 1) for span in plain] == [(s.first, s.last) for s in shifted]


def test_a_template_that_alters_the_user_turn_is_refused():
    """A stripped or rewritten turn would give wrong spans, so it is an error."""
    with pytest.raises(TextError, match="not in the final prompt unchanged"):
        locate_needles(sample(), PROMPT.replace("Filler", "filler"), [])


def test_offsets_of_another_prompt_are_refused():
    """A needle that no token covers is an error."""
    with pytest.raises(TextError, match="no token covers the needle"):
        locate_needles(sample(), PROMPT, [(0, 4)])


@pytest.mark.parametrize(("last", "inside"), [(5, True), (15, True), (16, False), (25, False)])
def test_a_needle_is_filled_when_its_last_token_is_before_the_tail(last, inside):
    """20 tokens with a tail of 4: positions 0..15 are the prefix."""
    region = filled_region([TokenSpan(2, last, True)], prompt_tokens=20, tail=4)
    assert region == (inside, inside)


def test_a_distractor_in_the_tail_counts_for_inserted_only():
    """Inserted asks for all needles, queried for those of the question."""
    spans = [TokenSpan(1, 3, True), TokenSpan(17, 18, False)]
    assert filled_region(spans, 20, 4) == (False, True)
    assert filled_region([spans[1]], 20, 4) == (False, False)


def test_a_prompt_inside_the_tail_has_no_filled_region():
    """Tail as long as the prompt, or longer: nothing is filled."""
    assert filled_region([TokenSpan(0, 1, True)], 20, 20) == (False, False)
    assert filled_region([], 20, 4) == (False, False)
