"""Variable tracking, common words and coded words: drawn once more by slow code, and counted."""

import collections
import re
import runpy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.suites.needles import filled_region, locate_needles
from ridgefill.suites.ruler.counting import frequencies, vocabulary_size
from ridgefill.suites.wording import NOISE
from ridgefill.suites.words import Words, distinct_words

ROOT = Path(__file__).parents[2]
HERE = runpy.run_path(str(ROOT / "tests/suites/ruler_samples.py"))
NAIVE = runpy.run_path(str(ROOT / "tests/naive/ruler.py"))
make, maker, WORDS = HERE["make"], HERE["maker"], HERE["WORDS"]
SHORT, LONG = (6, 1, 20, 3, 1), (30, 3, 40, 10, 3)


def lines_of(sample):
    """Example's and sample's contexts: what lies between introduction and question, twice."""
    turns = sample.question_prompt.split("\n\n")
    return [turn.split("\n")[1:-1] for turn in turns]


@pytest.mark.parametrize(("length", "example_lines"), [(512, 5), (2000, 5), (4096, 10)])
def test_chains_are_those_of_the_slow_draw(length, example_lines):
    """Noise with one statement per hop put in, in order, for the example and for the sample."""
    one = maker("vt", length)
    size = one.largest_size()
    for sample in make("vt", length, count=3):
        example, asked = NAIVE["chain_lines"](42, length, sample.index, example_lines, NOISE, size)
        assert lines_of(sample) == [example[0], asked[0]]
        assert list(sample.references) == asked[1]
        assert sample.question_prompt.split("\n\n")[0].endswith(" " + " ".join(example[1]))


def test_every_statement_of_the_chain_is_a_needle_and_none_of_the_example():
    """Five statements, all queried: number first, then each variable from the one before it."""
    for sample in make("vt"):
        number = re.search(r"number (\d{5}) ", sample.question_prompt.rsplit("\n", 1)[1])[1]
        given = [number, *sample.references]
        expected = [f"SET {name} := {value}" for name, value in zip(sample.references, given, strict=False)]
        assert [needle.text for needle in sample.needles] == expected
        assert all(needle.queried for needle in sample.needles)
        assert sample.needles[0].char_start > sample.question_prompt.index("\n\n")
        assert number in sample.answer_prefix
        assert all(len(name) == 5 for name in sample.references)


@pytest.mark.parametrize(("length", "repeats"), [(640, SHORT), (4095, SHORT), (4096, LONG)])
def test_common_words_occur_as_often_as_they_should(length, repeats):
    """Ten words 30 times and all others 3 times (6 and 1 at short lengths); the example's 10 and 3 (3 and 1)."""
    for sample in make("cwe", length, count=2):
        (shown,), (asked,) = lines_of(sample)
        counts = NAIVE["listed_words"](asked)
        often = [word for word, count in counts.items() if count == repeats[0]]
        assert sorted(often) == sorted(sample.references)
        assert len(often) == 10
        assert {count for word, count in counts.items() if word not in often} == {repeats[1]}
        example = NAIVE["listed_words"](shown)
        assert sorted(example.values()) == [repeats[4]] * (repeats[2] - 10) + [repeats[3]] * 10
        assert not counts.keys() & example.keys()
        solved = NAIVE["listed_words"](sample.question_prompt.split("\n\n")[0].rsplit(":", 1)[1].strip())
        assert {example[word] for word in solved} == {repeats[3]}
        assert len(solved) == 10


@pytest.mark.parametrize(("length", "repeats"), [(640, SHORT), (4096, LONG)])
def test_word_lists_are_those_of_the_slow_draw(length, repeats):
    """The same lists in the same order."""
    one = maker("cwe", length)
    vocabulary = {*WORDS.adjectives, *WORDS.nouns}
    drawn = one.draw(2, 30)
    lists = NAIVE["word_lists"](42, length, 2, 30, vocabulary, repeats)
    contexts = [turn.split("\n")[1] for turn in drawn.question_prompt.split("\n\n")]
    assert contexts == [" ".join(f"{i}. {word}" for i, word in enumerate(words, 1)) for words, _ in lists]
    assert list(drawn.references) == lists[1][1]


def test_more_words_than_the_lists_hold_become_pairs():
    """All different, whatever the number."""
    import random

    words = Words(("a", "b"), ("c", "d", "e"))
    assert sorted(distinct_words(random.Random(1), words, 5)) == ["a", "b", "c", "d", "e"]
    assert len(set(distinct_words(random.Random(1), words, 6))) == 6


@pytest.mark.parametrize("length", [250, 512, 5000])
def test_coded_texts_are_those_of_the_slow_draw(length):
    """The same words in the same order, and the same three answers."""
    one = maker("fwe", length)
    size = one.largest_size()
    for sample in make("fwe", length):
        text, answers = NAIVE["coded_text"](42, length, sample.index, size)
        assert lines_of(sample) == [[" ".join(text)]]
        assert list(sample.references) == answers


@pytest.mark.parametrize("length", [250, 300, 512, 777, 4096])
def test_the_three_answers_are_the_most_frequent_words_without_a_tie(length):
    """After the dots, in this order or tied among themselves, and strictly before the fourth word."""
    for sample in make("fwe", length):
        counts = collections.Counter(lines_of(sample)[0][0].split(" "))
        assert counts.pop("...") > max(counts.values())
        ranked = [count for _, count in counts.most_common()]
        assert [counts[word] for word in sample.references] == ranked[:3]
        assert ranked[3:4] < ranked[2:3]
        assert all(re.fullmatch("[a-z]{6}", word) for word in counts)


@given(st.integers(27, 200_000), st.integers(4, 60))
def test_frequencies_are_those_of_the_zeta_distribution(size, words):
    """Exponent 2, whole counts, at the largest scale up to ``size`` whose fourth rank beats the fifth."""
    assert frequencies(size, words) == NAIVE["frequencies"](size, words)


def test_the_vocabulary_is_a_fiftieth_of_what_the_answer_leaves():
    """(length - 50) // 50."""
    assert [vocabulary_size(length) for length in (250, 4096, 131_072)] == [4, 80, 2620]


@pytest.mark.parametrize("task", ["cwe", "fwe"])
def test_counted_words_have_no_needles_so_no_sample_is_in_the_filled_region(task):
    """By definition of the region."""
    for sample in make(task):
        text = sample.question_prompt + sample.answer_prefix
        spans = locate_needles(sample, text, [(i, i + 1) for i in range(len(text))])
        assert spans == []
        assert filled_region(spans, len(text), tail=10) == (False, False)
