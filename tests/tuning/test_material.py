"""Texts in four roles: nothing that development has seen can turn up in confirmation."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgefill.errors import TextError
from ridgefill.suites.overlap import overlap
from ridgefill.suites.ruler import generate
from ridgefill.suites.words import Words
from ridgefill.tuning.material import (
    ROLES,
    Material,
    Stage,
    Text,
    deal,
    own_material,
    own_words,
    parts,
    related,
    stage_seed,
    stages,
)

WORDS = Words(tuple(f"odd{n}" for n in range(40)), tuple(f"thing{n}" for n in range(40)))


@pytest.fixture(scope="module")
def files(prose):
    """Twelve texts that share nothing."""
    return [(f"{'ab'[number % 2]}/{number}.txt", prose(number, 300 + 20 * number)) for number in range(12)]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=7), st.data())
def test_groups_are_those_of_comparing_all_runs(naive, prose, seeds, data):
    """Each text is one or two blocks of words; texts with a block in common are related, also through others."""
    texts = []
    for number, seed in enumerate(seeds):
        second = data.draw(st.one_of(st.none(), st.integers(0, 7)))
        texts.append((f"t{number}", prose(seed, 60) + (" " + prose(second, 60) if second is not None else "")))
    found = {frozenset(name for name, _ in group) for group in related(texts)}
    assert found == naive["groups"](texts, 50)


@settings(deadline=None, max_examples=25)
@given(st.integers(4, 14), st.randoms(use_true_random=False))
def test_every_text_gets_one_role_and_every_role_a_text(prose, count, random):
    """Whatever their sizes and order; half of all text is for fitting when texts are many and alike."""
    texts = [(f"{number}.txt", prose(number, 60 + 40 * random.randrange(9))) for number in range(count)]
    dealt = deal(random.sample(texts, count))
    assert sorted(name for given in dealt.values() for name, _ in given) == sorted(name for name, _ in texts)
    assert all(dealt[role] for role in ROLES)
    assert dealt == deal(texts)


def test_texts_with_a_run_in_common_are_never_in_two_roles(prose, files):
    """A licence at the head of three files keeps them together, and no role shares a run with another."""
    licence = prose(99, 60)
    texts = [(name, f"{licence} {text}" if number < 3 else text) for number, (name, text) in enumerate(files)]
    dealt = deal(texts)
    (role,) = [role for role in ROLES if texts[0] in dealt[role]]
    assert all(texts[number] in dealt[role] for number in range(3))
    for one in ROLES:
        for other in ROLES:
            assert one == other or not overlap(dealt[one], dealt[other])


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_no_prompt_key_or_document_of_development_is_in_confirmation(files, seed):
    """Samples made from the two stages share no prompt and no needle's key; their documents are other files."""
    material = own_material(files, 500, seed)
    first, second = material.development, material.confirmation
    made = [
        generate(
            "niah_multikey_1", 400, 6, stage.seed, tokenize=str.split, words=stage.words,
            essays="\n".join(one.text for one in stage.essays),
        )
        for stage in (first, second)
    ]  # fmt: skip
    prompts = [{one.question_prompt for one in samples} for samples in made]
    assert not prompts[0] & prompts[1]
    assert not set(first.words.adjectives) & set(second.words.adjectives)
    assert not set(first.words.nouns) & set(second.words.nouns)
    names = [{one.name.partition(",")[0] for one in stage.texts} for stage in (first, second)]
    assert not names[0] & names[1]


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_stages_never_share_a_seed(a, b):
    """Neither with each other nor with the other stage of another search."""
    assert stage_seed(a, "development") != stage_seed(b, "confirmation")


def test_material_with_something_in_two_roles_cannot_be_made(prose):
    """A text, a run of words, a key or a seed: each is refused, and texts are named."""
    one, two, three, four = (Text(f"{n}.txt", "d", prose(n, 80)) for n in range(4))
    first, second = stages(([three], [four]), ([three], [four]), WORDS, 0)
    Material((one,), (two,), first, second)
    copied = Text("copy.txt", "d", f"new words {four.text}")
    with pytest.raises(TextError, match=r"calibration text copy\.txt and the confirmation text 3\.txt share a run"):
        Material((copied,), (two,), first, second)
    with pytest.raises(TextError, match=r"2\.txt is a held-out and a development text"):
        Material((one,), (three,), first, second)
    leaked = Stage("confirmation", (three,), (four,), second.words, second.seed)
    with pytest.raises(TextError, match=r"2\.txt is a development and a confirmation text"):
        Material((one,), (two,), first, leaked)
    for words, seed in ((first.words, second.seed), (second.words, first.seed)):
        with pytest.raises(TextError, match=r"share .* or their seed"):
            Material((one,), (two,), first, Stage("confirmation", (four,), (four,), words, seed))
    with pytest.raises(TextError, match="no texts for heldout"):
        Material((one,), (), first, second)


def test_too_few_texts_or_words_are_refused(prose, files):
    """Four related files are one group; a few words name no needles."""
    same = prose(5, 80)
    with pytest.raises(TextError, match=r"4 texts were given.*in 1 groups; expected 4 or more"):
        deal([(str(number), f"{same} {prose(number, 20)}") for number in range(4)])
    with pytest.raises(TextError, match="hold 2 different words"):
        own_words(["only these, only these"])
    words = own_words([text for _, text in files])
    assert not set(words.adjectives) & set(words.nouns)


def test_documents_are_parts_of_files_and_lose_only_the_rest():
    """A file shorter than a part is whole."""
    text = Text("a.txt", "d", "0123456789")
    assert [one.text for one in parts(text, 4)] == ["0123", "4567"]
    assert [one.name for one in parts(text, 4)] == ["a.txt, part 1", "a.txt, part 2"]
    assert parts(text, 6) == parts(text, 99) == [text]
    assert json.dumps([one.domain for one in parts(text, 4)]) == '["d", "d"]'
