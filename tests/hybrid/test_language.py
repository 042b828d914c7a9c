"""The synthetic language: what an episode says about itself is true, and its answer is the only one there."""

from dataclasses import replace
from random import Random

import pytest

from ridgefill.errors import ConfigError
from ridgefill.hybrid.language import (
    DIGITS,
    Task,
    episode,
    four_asked,
    four_keys,
    held_out,
    one_key,
    spell,
)
from ridgefill.hybrid.words import KEYS, NUMBER, PAD, START, UNKNOWN, VOCABULARY

TASKS = [one_key(256), four_keys(256), four_asked(512), Task(96, 3, 3), Task(1024, 8, 8)]


@pytest.fixture(params=TASKS, ids=str)
def made(request):
    """A task and forty of its episodes."""
    return request.param, [held_out(request.param, 5, index) for index in range(40)]


def digits(pieces, span):
    return "".join(pieces[slice(*span)])


def test_needles_and_answers_are_where_the_episode_says(made):
    """Every needle sentence stands in the context once, and each question is answered as its needle says."""
    task, episodes = made
    for one in episodes:
        assert len(one.needles) == task.keys
        said = {spell(one.pieces[slice(*span)]).removeprefix(" ") for span in one.needles}
        assert len(said) == task.keys
        assert len(one.asked) == len(one.references) == task.asked
        for key, answer in zip(one.asked, one.references, strict=True):
            assert f"the code of {key} is {answer}." in said
            assert spell(one.pieces).count(f"the code of {key} is ") == 2


def test_no_other_number_of_the_context_is_an_answer(made):
    """Distractors never equal a needle's number, and needles' numbers differ from each other."""
    _, episodes = made
    for one in episodes:
        inside = [
            span for span in one.numbers if any(start <= span[0] and span[1] <= end for start, end in one.needles)
        ]
        codes = [digits(one.pieces, span) for span in inside]
        assert len(set(codes)) == len(codes) == len(one.needles)
        assert not {digits(one.pieces, span) for span in one.numbers if span not in inside} & set(codes)


def test_distractors_are_there_and_some_look_like_needles():
    """Longer filler holds numbers, as long as an answer, also as a code of words that are never keys."""
    one = [held_out(one_key(1024), 6, index) for index in range(8)]
    others = [digits(episode.pieces, span) for episode in one for span in episode.numbers]
    assert sum(len(number) == DIGITS for number in others) > 8 * 3
    assert any(text.count("the code of ") > 2 for text in (spell(episode.pieces) for episode in one))


def test_lengths_are_kept_almost_to_the_piece(made):
    """Never above the task's length, and below it by less than the longest sentence."""
    task, episodes = made
    for one in episodes:
        assert task.length - 20 < len(one.pieces) <= task.length
        assert one.pieces[one.question] == f"{NUMBER}question"


def test_keys_are_no_filler():
    """A key of one sentence that filler used as well could be found without its needle."""
    filler = {word for index in range(60) for word in held_out(Task(900, 1, 1), 1, index).pieces}
    words = {f"{NUMBER}{key}" for key in KEYS}
    singles = [held_out(Task(900, 1, 1), 1, index) for index in range(60)]
    assert filler & words == {f"{NUMBER}{one.asked[0]}" for one in singles}
    assert len(set(KEYS)) == len(KEYS)


def test_a_seed_decides_and_held_out_prompts_are_not_those_of_training():
    """The same seed and index give the same episode; another role, seed or index gives another context."""
    task = four_keys(256)
    assert held_out(task, 7, 0) == held_out(task, 7, 0)
    training = {episode(task, Random(f"training/7/{index}")).pieces for index in range(200)}
    kept = [held_out(task, 7, index).pieces for index in range(200)]
    assert len(set(kept)) == 200
    assert not training & set(kept)


def test_every_piece_is_a_known_one(made):
    """No word of the language is outside of the vocabulary, and no mark of the tokenizer is in a text."""
    _, episodes = made
    for one in episodes:
        assert set(one.pieces) <= set(VOCABULARY)
        assert one.pieces.count(START) == 1
        assert not {PAD, UNKNOWN} & set(one.pieces)


@pytest.mark.parametrize(
    "task", [Task(20, 1, 1), Task(64, 4, 4), Task(64, 1, 2), Task(64, 0, 0), Task(9999, 200, 1), Task(999, 10, 1, 1)]
)
def test_a_task_that_cannot_be_is_refused(task):
    """Too short, nothing to ask, more questions than needles, more needles than keys or than one-digit numbers."""
    with pytest.raises(ConfigError, match="does not fit"):
        episode(task, Random(1))


def test_the_smallest_task_fits():
    """A length of just the start, one needle and one question holds nothing else."""
    for digits in (1, 4):
        task = Task(999, 2, 1, digits)
        made = episode(replace(task, length=task.least), Random(1))
        assert len(made.pieces) == task.least
        assert [len(answer) for answer in made.references] == [digits]
