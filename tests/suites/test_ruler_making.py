"""Every task of RULER, at short lengths: samples fit, repeat exactly, and end in one sentence where they cannot."""

import hashlib
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from ridgefill.errors import ConfigError, TextError
from ridgefill.suites.questions import Question, QuestionSet
from ridgefill.suites.ruler import TASKS, locate_needles, question_first

ROOT = Path(__file__).parents[2]
HERE = runpy.run_path(str(ROOT / "tests/suites/ruler_samples.py"))
NAIVE = runpy.run_path(str(ROOT / "tests/naive/ruler.py"))
make, maker, used, cut, SHORT = (HERE[name] for name in ("make", "maker", "used", "cut", "SHORT"))
NEW_TOKENS = {"vt": 30, "cwe": 120, "fwe": 50, "qa_1": 32, "qa_2": 32}
PUBLISHED = {  # of samples whose hashes are in published results
    "niah_single_1": "18c8279b88952db28765743f8e27624c9eee9258098e5c9b52826bbc6677d2cd",
    "niah_multikey_1": "2e230f251d8418505c8be42de6a9a6a0ec0dc3bc685e06f98915f96cfea11107",
    "niah_multivalue": "3b7056f4f5496f7d2909861bb36a47f65fc736105684118af8d6cc0a781d69eb",
    "niah_multiquery": "1ba0576919dd15737f0f283b09447dc846293ff216399da50b80c5e80f8e895d",
}


def digest(samples):
    text = [[s.question_prompt, s.answer_prefix, s.references, s.question] for s in samples]
    return hashlib.sha256(json.dumps(text).encode()).hexdigest()


def test_the_thirteen_tasks_are_known_with_their_answers_length_and_metric():
    """New tokens and metric of the table; an unknown name lists the known ones."""
    assert len(TASKS) == 13
    for name, task in TASKS.items():
        assert task.new_tokens == NEW_TOKENS.get(name, 128)
        assert task.metric == ("part" if name.startswith("qa") else "all")
        assert {sample.metric for sample in make(name)} == {task.metric}
    with pytest.raises(ConfigError, match="the known tasks are niah_single_1, "):
        make("niah_single_9", 512)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("length", [None, 1500, 4096])
def test_prompt_overhead_and_answer_fit_the_length_and_come_close_to_it(task, length):
    """Never above the length; within a step of it, unless the documents run out."""
    for sample in make(task, length, chat_overhead=9):
        total = used(sample) + 9 + sample.new_tokens
        assert total <= sample.length
        if task not in ("qa_1", "qa_2") or sample.length < 1000:
            assert total > (0.85 if sample.length >= 1000 else 0.7) * sample.length


@pytest.mark.parametrize("task", TASKS)
def test_the_size_is_the_one_that_trying_every_size_finds(task):
    """Doubling and bisection against a linear search over first draws."""
    one = maker(task)
    limits = one.task.plan.limits(one._place(0))

    def needed(size):
        return one.needed(one.draw(0, size))

    assert one.largest_size() == NAIVE["largest_size"](needed, one.length, limits.floor, limits.most)


@pytest.mark.parametrize("task", TASKS)
def test_a_sample_depends_on_seed_task_length_and_number_only(task):
    """More samples change none; another seed changes all."""
    four = make(task, count=4)
    assert make(task, count=2) == four[:2]
    assert make(task, count=4, seed=43)[3] != four[3]
    assert len({sample.question_prompt for sample in four}) == 4


def test_another_interpreter_makes_the_same_samples():
    """Nothing depends on the order of a set or on what was made before: tasks in reverse, another hash seed."""
    code = (
        "import runpy, json, hashlib\n"
        "here = runpy.run_path('tests/suites/ruler_samples.py')\n"
        "made = {task: here['make'](task, count=2) for task in reversed(list(here['SHORT']))}\n"
        "text = {task: [[s.question_prompt, s.answer_prefix, s.references, s.question] for s in made[task]]"
        " for task in made}\n"
        "print(json.dumps({task: hashlib.sha256(json.dumps(one).encode()).hexdigest() for task, one in text.items()}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={"PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == {task: digest(make(task, count=2)) for task in TASKS}


@pytest.mark.parametrize("task", PUBLISHED)
def test_the_published_tasks_are_what_they_were(task):
    """Samples of the four tasks in published results are the same to the byte."""
    assert digest(make(task, 1024, new_tokens=64)) == PUBLISHED[task]


@pytest.mark.parametrize("task", TASKS)
def test_needles_and_question_are_where_they_are_said_to_be(task):
    """In reading order, with their own text; the question is the last line, also after it moved to the front."""
    for sample in make(task):
        for one in (sample, question_first(sample)):
            starts = [needle.char_start for needle in one.needles]
            assert starts == sorted(starts)
            for needle in one.needles:
                assert cut(one, needle.char_start, needle.char_end) == needle.text
        assert cut(sample, *sample.question) == sample.question_prompt.rsplit("\n", 1)[1]
        assert question_first(sample).question_prompt.startswith(cut(sample, *sample.question) + "\n")


@pytest.mark.parametrize("task", TASKS)
def test_token_spans_of_all_needles_equal_the_naive_ones(task):
    """Tokens of two or three characters that straddle the needles' ends, behind a chat template."""
    for sample in make(task, count=2):
        text = f"<user>{sample.question_prompt}<end>{sample.answer_prefix}"
        for width in (2, 3):
            offsets = [(start, min(start + width, len(text))) for start in range(0, len(text), width)]
            assert locate_needles(sample, text, offsets) == NAIVE["token_spans"](sample, text, offsets)


@pytest.mark.parametrize("task", sorted(TASKS.keys() - {"fwe"}))
def test_a_task_that_cannot_fit_names_the_least_length(task):
    """The length it names is enough, and one token less is not."""
    with pytest.raises(TextError, match=r"even with the smallest haystack; use a length of at least") as caught:
        make(task, 80, count=1)
    least = int(re.search(r"at least (\d+)", str(caught.value))[1])
    assert used(make(task, least, count=1)[0]) + TASKS[task].new_tokens == least
    with pytest.raises(TextError, match=f"use a length of at least {least} "):
        make(task, least - 1, count=1)


def test_coded_words_need_a_vocabulary_of_four():
    """A mark and three answers: 250 tokens, as the message says."""
    with pytest.raises(TextError, match="would have 3 code words, expected at least 4; use a length of at least 250"):
        make("fwe", 249)
    assert make("fwe", 250)


def test_a_later_sample_that_cannot_fit_ends_in_an_error_not_in_a_loop():
    """The floor is each sample's own: the second question's only document is longer than the length."""
    documents = ("short document", "long document " * 100)
    asked = tuple(Question(f"What is {i}?", ("document",), (i,), (i,)) for i in range(2))
    questions = {"qa_1": QuestionSet("two", "0" * 64, documents, asked)}
    assert len(make("qa_1", 200, count=1, questions=questions)) == 1
    with pytest.raises(TextError, match="qa_1 sample 1 does not fit in 200 tokens"):
        make("qa_1", 200, count=2, questions=questions)


@pytest.mark.parametrize(
    ("task", "length", "size", "step"),
    [
        ("niah_single_2", 8192, 5000, 500),
        ("niah_single_1", 8192, 300, 25),
        ("niah_multikey_3", 8192, 300, 25),
        ("vt", 8192, 300, 10),
        ("cwe", 8192, 900, 10),
        ("qa_1", 8192, 40, 10),
        ("niah_multikey_2", 4000, 200, 5),
        ("vt", 4000, 180, 5),
        ("vt", 1024, 40, 2),
        ("qa_2", 512, 8, 1),
    ],
)
def test_a_haystack_shrinks_by_the_tasks_step(task, length, size, step):
    """RULER's steps; below 4,096 tokens five lines, and never more than a twentieth."""
    assert maker(task, length).step(size) == step
