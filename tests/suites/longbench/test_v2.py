"""LongBench v2: two requests, one seed for all arms, and what counts as an answer."""

import re
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.errors import TextError
from ridgefill.suites.longbench import v2
from ridgefill.suites.longbench.files import read_v2
from ridgefill.suites.longbench.v2 import OWN, answer_prompt, extract_choice, judge, read_v2_templates, seed_for_item

NAIVE = runpy.run_path(str(Path(__file__).parents[2] / "naive" / "longbench.py"))
PHRASE = "The correct answer is "
pieces = st.lists(st.sampled_from([PHRASE, "(", ")", "A", "B", "E", "*", "**", " ", "\n", "the ", "(C)", "D)"]))


@pytest.fixture
def items(v2_file):
    return read_v2(v2_file).items


def reasoning_prompt(item, templates, words, **options):
    return v2.reasoning_prompt(item, templates, encode=words.encode, decode=words.decode, **options)


def test_the_protocols_numbers():
    """120,000 prompt tokens, 1,024 to reason, 128 to answer, temperature 0.1."""
    assert (v2.PROMPT_TOKENS, v2.REASONING_TOKENS, v2.ANSWER_TOKENS, v2.TEMPERATURE) == (120_000, 1_024, 128, 0.1)


def test_the_first_request_holds_the_document_and_the_second_the_reasoning(items, words):
    """Both hold the question and all four choices; no mark is left."""
    for item in items:
        first = reasoning_prompt(item, OWN, words).text
        second = answer_prompt(item, "  because of that  ", OWN, encode=words.encode, decode=words.decode).text
        for text in (first, second):
            assert item.question in text
            assert all(f"{letter}: {choice}\n" in text for letter, choice in zip("ABCD", item.choices, strict=True))
            assert not re.search(r"\$[A-Z_]+\$", text)
        assert item.context.strip() in first
        assert item.context.strip() not in second
        assert "Reasoning: because of that\n" in second
        assert "because of that" not in first


def test_marks_inside_a_document_are_only_text(items, words):
    """A document about templates is not filled in."""
    item = replace(items[0], context="the marks $Q$ and $COT$ and $C_A$")
    assert "the marks $Q$ and $COT$ and $C_A$" in reasoning_prompt(item, OWN, words).text


def test_the_whole_prompt_is_cut_and_decoded_as_one(items, words):
    """The cut may fall into anything between the two ends; the decoder is called once."""
    item = replace(items[0], context=" ".join(f"w{place}" for place in range(500)))
    whole = reasoning_prompt(item, OWN, words)
    made = v2.reasoning_prompt(item, OWN, encode=words.encode, decode=lambda ids: f"<{words.decode(ids)}>", budget=100)
    ids = words.encode(whole.text)
    assert (whole.cut, made.cut, made.whole_tokens) == (False, True, len(ids))
    assert made.text == f"<{words.decode(ids[:50] + ids[-50:])}>"


def test_seeds_differ_by_item_and_request_and_know_no_arm(items):
    """The label is all that the seed depends on, so the arms share it."""
    labels = [seed_for_item(item, request, str) for item in items for request in ("reasoning", "answer")]
    assert len(set(labels)) == 2 * len(items)
    assert labels[0] == "sampling/longbench_v2/own-0/reasoning"


@given(pieces.map("".join))
def test_extraction_equals_trying_every_place(text):
    """Any mixture of phrases, letters, parentheses and asterisks."""
    assert extract_choice(text) == NAIVE["extract_choice"](text)


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("The correct answer is (B).", "B"),
        ("**The correct answer is (C)**", "C"),
        ("The correct answer is **D**", "D"),
        ("The correct answer is A, no: The correct answer is (B)", "B"),
        ("The correct answer is Belgium", "B"),
        ("the correct answer is (B)", None),
        ("The correct answer is: (B)", None),
        ("The correct answer is (E)", None),
        ("The correct answer is ( B )", None),
        ("(B)", None),
        ("", None),
    ],
)
def test_extraction_by_hand(text, letter):
    """Parentheses anywhere come before a bare letter anywhere; the phrase is matched to the letter."""
    assert extract_choice(text) == letter


@pytest.mark.parametrize(
    ("reasoning", "answer", "expected"),
    [
        ("so", "The correct answer is (A)", ("A", True, "ok")),
        ("so", "The correct answer is (B)", ("B", False, "ok")),
        ("The correct answer is (A)", "I cannot tell", (None, False, "no_answer")),
        ("so", " ", (None, False, "no_answer")),
        ("so", "", (None, None, "empty")),
        ("", "The correct answer is (A)", (None, None, "empty")),
        ("", "", (None, None, "empty")),
    ],
)
def test_no_letter_is_wrong_and_no_text_is_left_out(reasoning, answer, expected, items):
    """Only the second output is searched; an empty output of either request leaves the denominator."""
    outcome = judge(items[0], reasoning, answer)
    assert (outcome.choice, outcome.correct, outcome.status) == expected
    assert (outcome.item, outcome.difficulty, outcome.length) == ("own-0", "easy", "short")


def test_the_users_templates_are_used_and_labelled_official(tmp_path, items, words):
    """Two files with the marks of the official ones."""
    asked = "$Q$|$C_A$|$C_B$|$C_C$|$C_D$"
    (tmp_path / "cot.txt").write_text(f"$DOC$ {asked}", encoding="utf-8")
    (tmp_path / "ans.txt").write_text(f"{asked} $COT$", encoding="utf-8")
    templates = read_v2_templates(tmp_path / "cot.txt", tmp_path / "ans.txt")
    item = items[0]
    assert templates.source == "official"
    assert len({templates.reasoning_sha256, templates.answer_sha256}) == 2
    assert reasoning_prompt(item, templates, words).text == f"{item.context.strip()} " + "|".join(
        [item.question, *item.choices]
    )
    with pytest.raises(TextError, match=r"lacks \$DOC\$; expected the official 0shot_cot.txt"):
        read_v2_templates(tmp_path / "ans.txt", tmp_path / "ans.txt")
    with pytest.raises(TextError, match="no file at"):
        read_v2_templates(tmp_path / "cot.txt", tmp_path / "none.txt")
    (tmp_path / "ans.txt").write_bytes(b"\xff")
    with pytest.raises(TextError, match="is not UTF-8"):
        read_v2_templates(tmp_path / "cot.txt", tmp_path / "ans.txt")
