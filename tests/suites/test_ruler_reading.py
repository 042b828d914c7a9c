"""Questions about documents: the files' shapes, the small set of our own, and the samples made of them."""

import hashlib
import json
import re
import runpy
from pathlib import Path

import pytest

from ridgefill.errors import ConfigError, TextError
from ridgefill.suites.questions import Question, QuestionSet, question_set, read_hotpotqa, read_squad, small_set

ROOT = Path(__file__).parents[2]
HERE = runpy.run_path(str(ROOT / "tests/suites/ruler_samples.py"))
make, cut, SMALL, QUESTIONS = (HERE[name] for name in ("make", "cut", "SMALL", "QUESTIONS"))
READERS = {"squad": read_squad, "hotpotqa": read_hotpotqa}


def part(name):
    return json.loads(SMALL.read_text("utf-8"))[name]


@pytest.fixture
def write(tmp_path):
    def write(value):
        path = tmp_path / "set.json"
        path.write_text(json.dumps(value), encoding="utf-8")
        return path

    return write


def test_our_own_set_says_that_it_is_ours_and_under_which_licence():
    """Enough questions and paragraphs of both shapes; every SQuAD answer where the record says."""
    raw = json.loads(SMALL.read_text("utf-8"))
    assert "written for RidgeFill" in raw["about"]
    assert raw["licence"].startswith("Apache-2.0")
    assert len(QUESTIONS["qa_1"].questions) >= 12
    assert len(QUESTIONS["qa_2"].questions) >= 12
    assert len(QUESTIONS["qa_1"].documents) >= 40
    for article in raw["squad"]["data"]:
        for paragraph in article["paragraphs"]:
            for answer in (answer for asked in paragraph["qas"] for answer in asked["answers"]):
                start = answer["answer_start"]
                assert paragraph["context"][start : start + len(answer["text"])] == answer["text"]


def test_a_task_asks_the_users_file_or_our_set(write, monkeypatch):
    """SQuAD for qa_1, HotpotQA for qa_2, and ours where no file is named."""
    monkeypatch.chdir(ROOT)
    for task, name in (("qa_1", "squad"), ("qa_2", "hotpotqa")):
        assert question_set(task) == QUESTIONS[task]
        path = write(part(name))
        assert question_set(task, path) == READERS[name](path)
    with pytest.raises(ConfigError, match="such tasks are qa_1 and qa_2"):
        question_set("fwe")


@pytest.mark.parametrize(("task", "name"), [("qa_1", "squad"), ("qa_2", "hotpotqa")])
def test_a_users_file_and_our_set_are_read_alike(task, name, write):
    """The same records under the set's own name and hash; the results can tell them apart."""
    path = write(part(name))
    found = READERS[name](path)
    assert (found.documents, found.questions) == (QUESTIONS[task].documents, QUESTIONS[task].questions)
    assert (found.name, QUESTIONS[task].name) == (name, f"qa_small/{name}")
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert READERS[name](path, found.sha256) == found
    with pytest.raises(TextError, match=f"has SHA-256 {found.sha256}, expected 0000"):
        READERS[name](path, "0" * 64)


def test_impossible_questions_are_left_out_and_repeated_answers_kept_once(write):
    """As SQuAD 2.0 has them."""
    paragraph = {
        "context": "It is red.",
        "qas": [
            {"question": "Colour?", "answers": [{"text": "red"}, {"text": "red"}], "is_impossible": False},
            {"question": "Size?", "answers": [], "is_impossible": True},
        ],
    }
    other = {"context": "It is old.", "qas": []}
    found = read_squad(write({"data": [{"title": "It", "paragraphs": [paragraph, other, paragraph]}]}))
    assert found.documents == ("It is old.", "It is red.")
    (first, second) = found.questions
    assert first == second
    assert (first.answers, first.documents, first.answered_by, first.related) == (("red",), (1,), (1,), (0,))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("squad", []),
        ("squad", {"data": []}),
        ("squad", {"data": [{"paragraphs": [{"context": 7, "qas": []}]}]}),
        ("squad", {"data": [{"paragraphs": [{"context": "a", "qas": [{"question": "b"}]}]}]}),
        ("hotpotqa", {"data": []}),
        ("hotpotqa", [{"question": "a", "answer": "b", "context": [["t", ["s"]]]}]),
        ("hotpotqa", [{"question": "a", "answer": "b", "context": [["t"]], "supporting_facts": [["t", 0]]}]),
        ("hotpotqa", [{"question": "a", "answer": "b", "context": [["t", ["s"]]], "supporting_facts": [["u", 0]]}]),
        ("hotpotqa", [{"question": "a", "answer": "", "context": [["t", ["s"]]], "supporting_facts": [["t", 0]]}]),
        ("hotpotqa", [{"question": 3, "answer": "b", "context": [["t", ["s"]]], "supporting_facts": [["t", 0]]}]),
    ],
)
def test_a_file_of_another_shape_is_refused(name, value, write):
    """One sentence that names the set."""
    with pytest.raises(TextError, match=f"does not have the shape of a {name} file"):
        READERS[name](write(value))


def test_a_damaged_or_missing_file_is_refused(tmp_path):
    """Each with its own sentence."""
    with pytest.raises(TextError, match="no file at"):
        read_squad(tmp_path / "none.json")
    with pytest.raises(TextError, match="is a folder"):
        read_squad(tmp_path)
    (tmp_path / "half.json").write_text('{"data": [', encoding="utf-8")
    with pytest.raises(TextError, match="is not valid JSON"):
        read_hotpotqa(tmp_path / "half.json")
    with pytest.raises(ConfigError, match="asks no questions"):
        small_set("vt", SMALL)


@pytest.mark.parametrize("task", ["qa_1", "qa_2"])
@pytest.mark.parametrize("length", [512, 1024])
def test_the_answers_documents_are_in_the_context_and_are_the_needles(task, length):
    """All of the question's own documents, each once; needles are those that answer it; references in them."""
    for sample in make(task, length, count=8):
        asked, question = QUESTIONS[task], QUESTIONS[task].questions[sample.index]
        assert cut(sample, *sample.question).endswith(question.text)
        assert sample.references == question.answers
        assert {needle.text for needle in sample.needles} == {asked.documents[i] for i in question.answered_by}
        assert all(needle.queried for needle in sample.needles)
        for number in question.documents:
            assert sample.question_prompt.count(asked.documents[number]) == 1
        if task == "qa_1":
            assert sample.references[0] in sample.needles[0].text


@pytest.mark.parametrize("task", ["qa_1", "qa_2"])
def test_documents_are_numbered_different_and_shuffled(task):
    """1 to n in reading order, none twice; the needle is not always at the same place."""
    places = set()
    for sample in make(task, 1024, count=8):
        body = sample.question_prompt.split("\n\n", 1)[1].rsplit("\n\n", 1)[0]
        numbers = [int(number) for number in re.findall(r"(?:^|\n\n)\[(\d+)\]\n", body)]
        documents = re.split(r"(?:^|\n\n)\[\d+\]\n", body)[1:]
        assert numbers == list(range(1, len(documents) + 1))
        assert len(set(documents)) == len(documents) > 5
        assert set(documents) <= set(QUESTIONS[task].documents)
        places.add(documents.index(sample.needles[0].text) / len(documents))
    assert len(places) > 3


def test_other_documents_of_the_article_come_before_any_others():
    """With room for no more than the article's, every document is of the article."""
    for sample in make("qa_1", 256, count=6):
        asked, question = QUESTIONS["qa_1"], QUESTIONS["qa_1"].questions[sample.index]
        article = {asked.documents[number] for number in (*question.documents, *question.related)}
        documents = {text for text in asked.documents if text in sample.question_prompt}
        assert documents <= article or article <= documents


def test_a_set_that_runs_out_leaves_the_prompt_short_and_repeats_no_document():
    """All 45 paragraphs once."""
    sample = make("qa_1", 16_384, count=1)[0]
    assert all(sample.question_prompt.count(text) == 1 for text in QUESTIONS["qa_1"].documents)


def test_more_samples_than_questions_and_no_set_are_errors():
    """Questions are not asked twice, and none is made up."""
    count = len(QUESTIONS["qa_2"].questions)
    assert len(make("qa_2", count=count)) == count
    with pytest.raises(TextError, match=f"has {count} questions .qa_small/hotpotqa. and sample {count} was asked for"):
        make("qa_2", count=count + 1)
    with pytest.raises(TextError, match="qa_1 has no set of questions"):
        make("qa_1", questions={})


def test_a_question_with_more_documents_than_the_first_has_all_of_them():
    """The size found on the first question, one long document, is below what the second one needs."""
    documents = ("long document " * 60, "first short", "second short", "third short")
    asked = (
        Question("One?", ("long",), (0,), (0,)),
        Question("Three?", ("second",), (1, 2, 3), (2,)),
    )
    first, second = make("qa_1", 200, count=2, questions={"qa_1": QuestionSet("two", "0" * 64, documents, asked)})
    assert [text in first.question_prompt for text in documents[1:]].count(True) < 3
    assert all(text in second.question_prompt for text in documents[1:])
