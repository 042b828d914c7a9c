"""Generated retrieval samples have the tasks' parameters, fit their budget and repeat exactly."""

import re

import pytest

from ridgefill.errors import TextError
from ridgefill.suites.haystack import DEPTHS, Essays
from ridgefill.suites.ruler import generate
from ridgefill.suites.wording import NOISE, listed, needle
from ridgefill.suites.words import Words, distinct_keys, load_words

WORDS = Words(tuple(f"adj{i}" for i in range(30)), tuple(f"noun{i}" for i in range(30)))
ESSAYS = " ".join(f"Sentence {i} says a thing about matter {i * 7 % 11}." for i in range(900))
SHAPE = {  # needles, references
    "niah_single_1": (1, 1),
    "niah_single_2": (1, 1),
    "niah_single_3": (1, 1),
    "niah_multikey_1": (4, 1),
    "niah_multikey_2": (1, 1),
    "niah_multikey_3": (1, 1),
    "niah_multivalue": (4, 4),
    "niah_multiquery": (4, 4),
}
WORD, NUMBER = r"adj\d+-noun\d+", r"[1-9]\d{6}"
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
KEY = dict.fromkeys(SHAPE, WORD) | {"niah_multikey_3": UUID}
VALUE = dict.fromkeys(SHAPE, NUMBER) | {"niah_single_3": UUID, "niah_multikey_3": UUID}
HAYSTACK = {"niah_single_1": "noise", "niah_multikey_2": "needles", "niah_multikey_3": "needles"}


def tokenize(text):
    return re.findall(r"\w+|[^\w\s]", text)


def make(task, length=1024, count=6, **options):
    settings = {"seed": 42, "tokenize": tokenize, "words": WORDS, "essays": ESSAYS} | options
    return generate(task, length, count, **settings)


def used(sample):
    return len(tokenize(sample.question_prompt + sample.answer_prefix))


@pytest.mark.parametrize("task", SHAPE)
def test_keys_values_and_references_have_the_tasks_numbers(task):
    """The right count of needles; the references are the values of the queried needles, nothing else."""
    needles, references = SHAPE[task]
    for sample in make(task):
        assert len(sample.needles) == needles
        assert len(set(sample.references)) == len(sample.references) == references
        queried = [hidden.text for hidden in sample.needles if hidden.queried]
        assert len(queried) == references
        for value in sample.references:
            assert re.fullmatch(VALUE[task], value)
            assert sum(value in text for text in queried) == 1
            assert sample.question_prompt.count(value) == 1


@pytest.mark.parametrize("task", SHAPE)
def test_queried_keys_are_in_the_question_and_distractors_are_not(task):
    """The question asks for all queried keys and no other."""
    for sample in make(task):
        question = sample.question_prompt.rsplit("\n", 1)[1]
        for hidden in sample.needles:
            key = re.search(KEY[task], hidden.text)[0]
            asked = re.findall(KEY[task], question)
            assert (key in asked) == hidden.queried
            assert re.findall(KEY[task], sample.answer_prefix) == asked


@pytest.mark.parametrize("task", SHAPE)
@pytest.mark.parametrize("length", [512, 1024, 4096, 6000])
def test_prompt_and_new_tokens_fit_the_length(task, length):
    """Prompt + chat overhead + 128 new tokens never exceed the length, and short ones come close to it."""
    for sample in make(task, length, chat_overhead=30):
        assert used(sample) + 30 + 128 <= length
        if length < 4096:
            assert used(sample) + 30 + 128 > 0.85 * length


def test_the_same_seed_gives_the_same_samples_and_more_samples_change_none():
    """Sample i depends on seed, task, length and i only."""
    six = make("niah_multikey_1")
    assert make("niah_multikey_1", count=3) == six[:3]
    assert make("niah_multikey_1", seed=43)[0] != six[0]
    assert len({sample.question_prompt for sample in six}) == 6


@pytest.mark.parametrize(("task", "singular"), [("niah_single_1", True), ("niah_multivalue", False)])
def test_one_expected_answer_is_asked_for_in_the_singular(task, singular):
    """q * v = 1 makes the wording singular."""
    sample = make(task)[0]
    assert sample.answer_prefix.endswith(" is" if singular else " are")
    assert ("What is the" in sample.question_prompt) == singular


def test_the_noise_task_is_equal_lines_and_its_needle():
    """Without the needle, the context is the same line over and over."""
    sample = make("niah_single_1")[0]
    lines = sample.question_prompt.split("\n")[1:-1]
    assert len(lines) > 20
    assert [line for line in lines if line != NOISE] == [sample.needles[0].text]


@pytest.mark.parametrize(("task", "kind"), [("niah_multikey_2", "number"), ("niah_multikey_3", "uuid")])
def test_a_haystack_of_needles_is_lines_with_other_keys_and_values(task, kind):
    """Every line has the needle's form, no key or value comes twice, and exactly one line is the needle."""
    for sample in make(task):
        lines = sample.question_prompt.split("\n")[1:-1]
        shape = re.escape(needle("KEY", "VALUE", kind)).replace("KEY", f"({KEY[task]})")
        shape = shape.replace("VALUE", f"({VALUE[task]})")
        pairs = [re.fullmatch(shape, line).groups() for line in lines]
        assert len(pairs) > 10
        assert len({key for key, _ in pairs}) == len({value for _, value in pairs}) == len(pairs)
        assert lines.count(sample.needles[0].text) == 1


@pytest.mark.parametrize("task", SHAPE)
def test_the_haystack_is_the_tasks(task):
    """Noise, other needles, or the essays in their order."""
    text = make(task)[0].question_prompt
    assert (NOISE in text) == (HAYSTACK.get(task) == "noise")
    assert ("Sentence 5 says" in text) == (task not in HAYSTACK)


def test_essay_needles_stand_between_sentences():
    """What comes before a needle ends a sentence or the introduction."""
    for sample in make("niah_multivalue", 2048):
        for hidden in sample.needles:
            before = sample.question_prompt[: hidden.char_start].rstrip()
            assert before.endswith((".", "text.")) or before == ""


def test_depths_are_forty_from_start_to_end():
    """40 depths from 0 to 100 percent, all different; needles of one sample never share one."""
    assert len(set(DEPTHS)) == 40
    assert (DEPTHS[0], DEPTHS[-1]) == (0, 100)


def test_a_short_essay_text_is_repeated():
    """More words than the essays have are drawn from the beginning again."""
    assert " ".join(Essays("one two. three").units(7)) == "one two. three one two. three one"


def test_a_length_without_room_is_an_error_not_an_endless_loop():
    """The floor under the re-draw loop ends in one sentence."""
    with pytest.raises(TextError, match="does not fit in 200 tokens even with the smallest haystack"):
        make("niah_multiquery", 200)


def test_essays_without_words_are_refused():
    """An empty haystack says what to check."""
    with pytest.raises(TextError, match="hold no word"):
        make("niah_multikey_1", essays=" \n ")


def test_too_few_words_for_different_keys_is_an_error(make_source, tmp_path):
    """Word lists come from the source's files; lists too short for the task end in TextError."""
    assets = "wonderwords/assets"
    files = {f"{assets}/adjectivelist.txt": "big\n\nred\n", f"{assets}/nounlist.txt": "car\n"}
    source = make_source("wonderwords", files, domain=None, patterns=(f"{assets}/*.txt",))
    words = load_words(source, tmp_path / "cache")
    assert words == Words(("big", "red"), ("car",))
    with pytest.raises(TextError, match="only 2 different keys"):
        make("niah_multikey_1", words=words)


def test_keys_differ_from_each_other():
    """Four keys of one sample are four keys."""
    import random

    assert len(set(distinct_keys(random.Random(1), WORDS, 4))) == 4


@pytest.mark.parametrize(("keys", "text"), [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b, and c")])
def test_keys_are_listed_as_running_text(keys, text):
    """One, two and more keys read naturally."""
    assert listed(keys) == text
