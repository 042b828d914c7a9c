"""The agreement suite's documents are a seeded draw, balanced over lengths, that depends on nothing else."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.errors import TextError
from ridgefill.suites.balance import balanced, surely_tokens
from ridgefill.suites.manifest import Document, text_hash

LENGTHS = (80, 160, 320)


def document(number, tokens, domain="prose"):
    """A document of ``tokens`` tokens, where the tests count a character as one."""
    return Document(f"{domain}/{number}", "evaluation", domain, "s", "m", 0, tokens, text_hash(str(number)), "CC0-1.0")


def draw(documents, count, lengths=LENGTHS, seed=0):
    return balanced(documents, count, lengths, seed, tokens=lambda one: one.length)


MANY = [document(number, 400, f"d{number % 4}") for number in range(40)]


@given(st.lists(st.sampled_from([40, 80, 120, 160, 320, 500]), max_size=20), st.integers(1, 12), st.integers(0, 3))
def test_a_draw_exists_exactly_when_every_length_can_have_its_share(tokens, count, seed):
    """Shares differ by one at most, first lengths first; no document twice, each long enough; refused otherwise."""
    documents = [document(number, size, f"d{number % 3}") for number, size in enumerate(tokens)]
    share = {length: count // 3 + (place < count % 3) for place, length in enumerate(LENGTHS)}
    # Long documents serve short lengths too: enough when, from each length up, there are as many as are needed.
    needed = {length: sum(share[other] for other in LENGTHS if other >= length) for length in LENGTHS}
    if all(sum(size >= length for size in tokens) >= needed[length] for length in LENGTHS):
        found = draw(documents, count, seed=seed)
        assert Counter(length for _, length in found) == Counter(share)
        assert len({one.id for one, _ in found}) == count
        assert all(one.length >= length for one, length in found)
        assert [length for _, length in found] == sorted(length for _, length in found)
    else:
        with pytest.raises(TextError, match="are left of at least"):
            draw(documents, count, seed=seed)


@given(st.permutations(MANY), st.integers(0, 5))
def test_the_draw_does_not_depend_on_the_order_of_the_documents(documents, seed):
    """Same seed, same documents at the same lengths, in the same order."""
    assert draw(documents, 20, seed=seed) == draw(MANY, 20, seed=seed)


def test_another_seed_draws_others():
    """Five seeds give five different draws."""
    assert len({tuple(one.id for one, _ in draw(MANY, 20, seed=seed)) for seed in range(5)}) == 5


def test_twenty_over_three_lengths_are_seven_seven_and_six():
    """As many of each as possible, and the lengths named first get one more."""
    assert Counter(length for _, length in draw(MANY, 20)) == {80: 7, 160: 7, 320: 6}


def test_domains_take_turns_at_every_length():
    """Four domains with documents enough: at each length no domain has two more than another."""
    for length in LENGTHS:
        domains = Counter(one.domain for one, at in draw(MANY, 20) if at == length)
        assert max(domains.values()) - min(domains.get(f"d{number}", 0) for number in range(4)) <= 1


@pytest.mark.parametrize(("count", "lengths"), [(0, (8,)), (3, ()), (3, (8, 8))])
def test_a_question_that_makes_no_sense_is_refused(count, lengths):
    """No documents, no lengths, or the same length twice."""
    with pytest.raises(TextError, match="different lengths"):
        draw(MANY, count, lengths)


def test_without_a_tokenizer_tokens_are_counted_low():
    """A document is taken to have one token for 5.5 characters."""
    assert surely_tokens(document(1, 54_000)) == 9_818
