"""Near-duplicates are pairs that share many short runs, whichever is the longer text."""

from hypothesis import given
from hypothesis import strategies as st

from ridgefill.suites.duplicates import near_duplicates, shared_share, shingles


def naive(first, second, size):
    """Share of the text with fewer different runs that the other has too, by comparing lists of words."""
    runs = [[words[i : i + size] for i in range(len(words) - size + 1)] for words in (first, second)]
    different = [[run for place, run in enumerate(found) if run not in found[:place]] for found in runs]
    few, many = sorted(different, key=len)
    return sum(run in many for run in few) / len(few) if few else 0.0


@given(*(st.lists(st.sampled_from("ab"), max_size=14) for _ in range(2)), st.integers(1, 4))
def test_the_shared_share_is_that_of_comparing_all_runs(first, second, size):
    """Same share as the naive one, and the same both ways round."""
    made = [shingles(" ".join(words), size) for words in (first, second)]
    assert shared_share(*made) == shared_share(*made[::-1]) == naive(first, second, size)


def test_a_part_of_a_text_is_its_near_duplicate_and_another_text_is_not(prose):
    """The shorter text counts: a tenth of a text copied whole shares everything."""
    texts = [("whole", prose("x", 400)), ("other", prose("y", 400)), ("part", prose("x", 40))]
    (pair,) = near_duplicates(texts)
    assert (pair.first, pair.second, pair.share) == ("whole", "part", 1.0)
