"""Token masks agree with their naive definitions."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.errors import NumericsError, TextError
from ridgefill.suites.masks import key_mask, novel_mask

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "masks.py"))
losses = st.floats(0, 20)


@given(st.lists(st.integers(0, 2), max_size=60), st.integers(1, 8))
def test_the_novel_mask_equals_the_quadratic_one(tokens, run):
    """Same flags for any tokens and any run length, also where runs overlap themselves."""
    assert novel_mask(tokens, run).tolist() == NAIVE["novel_mask"](tokens, run)


def test_a_repeated_run_is_not_novel_and_its_first_occurrence_is():
    """8 tokens copied later: only the copy is marked, and only for runs of 8 or more."""
    copied = list(range(100, 108))
    mask = novel_mask([*copied, 1, 2, *copied, 3])
    assert mask.tolist() == [True] * 10 + [False] * 8 + [True]
    assert novel_mask([*copied[:7], 1, 2, *copied[:7], 3]).all()


def test_a_prompt_shorter_than_a_run_is_all_novel():
    """Empty and short prompts have no run."""
    assert novel_mask([]).tolist() == []
    assert novel_mask([1] * 7).all()


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
