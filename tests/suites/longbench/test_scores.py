"""Scores agree with naive definitions on any short text, and with cases counted by hand."""

import runpy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.errors import ConfigError, TextError
from ridgefill.suites.longbench.alignment import edit_ratio, lcs_lengths, rouge_l
from ridgefill.suites.longbench.datasets import DATASETS
from ridgefill.suites.longbench.files import read_v1
from ridgefill.suites.longbench.scores import first_line, score

NAIVE = runpy.run_path(str(Path(__file__).parents[2] / "naive" / "longbench.py"))
few_words = st.lists(st.sampled_from(["the", "cat", "Cat", "a", "dog.", "ran,", ".", "\n", "an-d"]), max_size=7)
sentences = few_words.map(" ".join)
letters = st.text(alphabet="ab c", max_size=7)
numbered = st.text(alphabet="12 x.", max_size=12)
CLASSES = ["Place", "Number", "Number of days", "days", "Colour"]


@given(few_words, few_words)
def test_the_common_subsequence_has_the_length_found_by_trying_all(first, second):
    """Every prefix's entry, not only the last."""
    lengths = lcs_lengths(first, second)
    assert lengths[-1][-1] == NAIVE["lcs_length"](first, second)
    assert lengths[len(first) // 2][-1] == NAIVE["lcs_length"](first[: len(first) // 2], second)


@given(sentences, sentences)
def test_rouge_l_equals_the_recursive_one(prediction, reference):
    """The same words are found, so the same F-measure to the last bit but rounding."""
    assert rouge_l(prediction, reference) == pytest.approx(NAIVE["rouge_l"](prediction, reference), abs=1e-15)


@given(letters, letters)
def test_the_edit_ratio_equals_one_minus_the_share_of_edits(prediction, reference):
    """In whole hundredths."""
    assert edit_ratio(prediction, reference) == NAIVE["edit_ratio"](prediction, reference)


@given(sentences, sentences)
def test_f1_equals_crossing_words_off_by_hand(prediction, reference):
    """Repeated words count as often as both have them."""
    expected = NAIVE["f1"](prediction, reference)
    assert score("qasper", prediction, [reference]) == pytest.approx(expected, abs=1e-15)


@given(numbered, st.sampled_from(["1", "12", "2"]))
def test_count_and_retrieval_are_shares_of_the_numbers_named(prediction, wanted):
    """Digit for digit, so 01 is not 1."""
    expected = NAIVE["share_of_numbers"](prediction, wanted)
    assert score("passage_count", prediction, [wanted]) == expected
    assert score("passage_retrieval_en", prediction, [f"Paragraph {wanted}"]) == expected
    assert score("passage_retrieval_zh", prediction, [f"段落{wanted}"]) == expected


@given(st.lists(st.sampled_from([*CLASSES, "of", "x"]), max_size=5).map(" ".join), st.permutations(CLASSES))
def test_classification_equals_the_recursive_walk(prediction, classes):
    """For every class as the right one and every order of the classes."""
    for reference in classes:
        expected = NAIVE["classification"](prediction, reference, classes)
        assert score("trec", prediction, [reference], classes=classes) == expected


@pytest.mark.parametrize(
    ("dataset", "prediction", "references", "expected"),
    [
        ("hotpotqa", "The 84 kilometres.", ["84 kilometres"], 1.0),
        ("hotpotqa", "it is 84 kilometres", ["84 kilometres"], 2 / 3),  # precision 2/4, recall 2/2
        ("hotpotqa", "84", ["84 kilometres", "84 km"], 2 / 3),
        ("hotpotqa", "red red", ["red"], 2 / 3),  # one of two counts
        ("hotpotqa", "no idea", ["84 km"], 0.0),
        ("hotpotqa", "", ["84 km"], 0.0),
        ("triviaqa", "\n\nLindau\nPassage: Lindau", ["Lindau"], 1.0),
        ("hotpotqa", "\n\nLindau\nPassage", ["Lindau"], 2 / 3),  # all lines count here
        ("passage_count", "There are 3, not 4.", ["3"], 0.5),
        ("passage_count", "three", ["3"], 0.0),
        ("passage_retrieval_en", "Paragraph 12", ["Paragraph 12"], 1.0),
        ("passage_retrieval_en", "Paragraph 12", ["Paragraph 1"], 0.0),
        ("lcc", "\n# mine\nabcd\nabce", ["abce"], 0.75),  # the first line without a mark, 3 of 4 letters common
        ("lcc", "abc // no\n`", ["abce"], 0.0),
        ("repobench-p", "x = 1", ["x = 1"], 1.0),
    ],
)
def test_scores_counted_by_hand(dataset, prediction, references, expected):
    """Best over the references; one line only where the dataset says so."""
    assert score(dataset, prediction, references) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        ("Number of days", "Number of days", 1 / 2),  # "Number" is dropped, "day" after it is passed over
        ("Number", "Number of days", 0.0),
        ("Place or Colour", "Place", 1 / 2),
        ("place", "Place", 0.0),
        ("Place\nColour", "Place", 1.0),
    ],
)
def test_classification_counted_by_hand(prediction, reference, expected):
    """Parts of the right name do not count against it, other names do; case matters; one line is read."""
    classes = ["Place", "Colour", "Number", "Number of days", "day"]
    order = classes if reference != "Number of days" else ["Number", "day", "Number of days", "Place"]
    assert score("trec", prediction, [reference], classes=order) == expected


def test_rouge_l_counted_by_hand():
    """Two sentences on either side; 5 different words in common, of 6 and of 7."""
    prediction = "una fed the goat. it ate"  # una fed the goat it ate
    reference = "una fed a goat twice. then it ate"  # una fed a goat twice then it ate: common una fed goat it ate
    precision, recall = 5 / 6, 5 / 8
    expected = 2 * precision * recall / (precision + recall + 1e-8)
    assert rouge_l(prediction, reference) == pytest.approx(expected, abs=1e-15)
    assert rouge_l("...", reference) == 0.0
    assert score("samsum", f"\n{reference}\nDialogue: x.", [prediction]) == pytest.approx(expected, abs=1e-15)


def test_of_two_longest_subsequences_the_one_without_the_answers_end_is_taken():
    """ "q r" and "p p" are equally long, but only the first has two different words."""
    assert rouge_l("q r p p", "p p q r") == pytest.approx(2 / 3, abs=1e-7)
    assert rouge_l("p p q r", "q r p p") == pytest.approx(1 / 3, abs=1e-7)


def test_chinese_words_come_from_the_segmenter_and_marks_do_not_count():
    """One character a word here; without a segmenter the message says what to install."""
    assert score("multifieldqa_zh", "三千，册。", ["三千册"], segment=list) == 1.0
    assert score("multifieldqa_zh", "三千本", ["三千册"], segment=list) == pytest.approx(2 / 3)
    assert score("vcsum", "三千", ["三千册"], segment=list) == pytest.approx(0.8, abs=1e-7)
    for dataset in ("multifieldqa_zh", "vcsum", "dureader"):
        with pytest.raises(ConfigError, match="install jieba and pass its lcut"):
            score(dataset, "三千", ["三千册"])


def test_what_cannot_be_scored_is_said():
    """No references, no classes, a reference without its number."""
    with pytest.raises(TextError, match="without references"):
        score("qmsum", "x", [])
    with pytest.raises(TextError, match="without classes"):
        score("trec", "x", ["Place"])
    with pytest.raises(TextError, match="expected one that has 'Paragraph"):
        score("passage_retrieval_en", "1", ["1"])


def test_a_reference_given_as_the_answer_scores_full_marks_in_every_dataset(v1_folder):
    """On the tiny set; ROUGE-L stays under 1 by its softener."""
    for path in v1_folder.glob("*.jsonl"):
        for item in read_v1(v1_folder, path.stem).items:
            for answer in item.answers:
                got = score(item.dataset, answer, item.answers, classes=item.classes, segment=list)
                assert got == pytest.approx(1.0, abs=1e-8 if DATASETS[item.dataset].metric == "rouge_l" else 0)


@given(st.text(alphabet="a\n ", max_size=8))
def test_the_first_line_has_no_break_and_begins_the_answer(text):
    """Line breaks before it are dropped, blanks are kept."""
    line = first_line(text)
    assert "\n" not in line
    assert text.lstrip("\n").startswith(line)
    assert text.lstrip("\n")[len(line) :][:1] in ("", "\n")
