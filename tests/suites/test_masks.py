"""Token masks agree with their naive definitions."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.errors import NumericsError, TextError
from ridgefill.suites.masks import copyable_mask, key_mask, novel_mask

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "masks.py"))
losses = st.floats(0, 20)
# Few different tokens, so that runs repeat, tie and overlap themselves; also pieces pasted again.
few = st.lists(st.integers(0, 2), max_size=60)
pasted = st.builds(lambda head, piece, gap: [*head, *piece, *gap, *piece, *piece[:5]], few, few, few)
tokens_of = st.one_of(few, pasted)


@given(tokens_of, st.integers(1, 8))
def test_the_novel_mask_equals_the_quadratic_one(tokens, run):
    """Same flags for any tokens and any run length, also where runs overlap themselves."""
    assert novel_mask(tokens, run).tolist() == NAIVE["novel_mask"](tokens, run)


def test_a_repeated_run_is_not_novel_and_its_first_occurrence_is():
    """8 tokens copied later: only the copy is marked, and only for runs of 8 or more."""
    copied = list(range(100, 108))
    mask = novel_mask([*copied, 1, 2, *copied, 3])
    assert mask.tolist() == [True] * 10 + [False] * 8 + [True]
    assert novel_mask([*copied[:7], 1, 2, *copied[:7], 3]).all()


def test_a_prompt_shorter_than_a_run_is_all_novel_and_nothing_copyable():
    """Empty and short prompts have no run."""
    assert novel_mask([]).tolist() == copyable_mask([]).tolist() == []
    assert novel_mask([1] * 7).all()
    assert not copyable_mask([1] * 9).any()


@given(tokens_of, st.integers(0, 8))
def test_the_copyable_mask_equals_the_quadratic_one(tokens, before):
    """Same flags for any tokens and any number of tokens in front, down to a token alone."""
    assert copyable_mask(tokens, before).tolist() == NAIVE["copyable_mask"](tokens, before)


@given(tokens_of, st.integers(1, 8))
def test_a_copyable_token_is_never_novel(tokens, run):
    """The token and the 8 before it occurred, so the last 8 of them did."""
    assert not (copyable_mask(tokens, run) & novel_mask(tokens, run)).any()


@given(tokens_of, st.integers(1, 8), st.integers(0, 60))
def test_what_comes_later_changes_no_copyable_flag(tokens, before, kept):
    """A token looks back only, so a prompt cut short keeps its flags. Novelty of a run may end behind the cut."""
    assert copyable_mask(tokens[:kept], before).tolist() == copyable_mask(tokens, before)[:kept].tolist()


@given(tokens_of)
def test_other_names_of_the_tokens_change_nothing(tokens):
    """Both masks depend on which tokens are equal, not on their ids, and take arrays as well as lists."""
    renamed = np.array([7_000 - 11 * token for token in tokens], dtype=np.int32)
    assert copyable_mask(renamed, 3).tolist() == copyable_mask(tokens, 3).tolist()
    assert novel_mask(renamed, 3).tolist() == novel_mask(tokens, 3).tolist()


def test_nine_copied_tokens_make_one_copyable_token():
    """Eight tokens in front must be copied too; a copy that touches its source counts as well."""
    copied = list(range(100, 109))
    assert np.flatnonzero(copyable_mask([*copied, 1, 2, *copied, 3])).tolist() == [19]
    assert np.flatnonzero(copyable_mask([*copied, *copied])).tolist() == [17]
    assert not copyable_mask([*copied[:8], 1, *copied[:8]]).any()


def test_a_token_said_over_and_over_is_copyable_from_the_tenth_on():
    """Overlapping runs: ten equal tokens have two runs of nine, and the second one is a copy."""
    assert np.flatnonzero(copyable_mask([4] * 12)).tolist() == [9, 10, 11]


@given(st.lists(st.tuples(losses, losses), max_size=40))
def test_the_key_mask_equals_the_naive_one(pairs):
    """More than 2 nats, strictly."""
    full, short = [a for a, _ in pairs], [b for _, b in pairs]
    assert key_mask(full, short).tolist() == NAIVE["key_mask"](full, short, 2.0)


def test_exactly_two_nats_is_not_key():
    """The threshold itself does not count."""
    assert key_mask([1.0, 1.0], [3.0, 3.5]).tolist() == [False, True]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_loss_that_is_not_finite_never_passes(bad):
    """NaN compares false, so it must raise."""
    with pytest.raises(NumericsError, match="not a finite number"):
        key_mask([1.0, bad], [1.0, 1.0])


def test_losses_of_different_tokens_are_refused():
    """Shapes must match."""
    with pytest.raises(TextError, match="one value per scored token"):
        key_mask([1.0], [1.0, 2.0])
