"""Dividing a suite's items over jobs: no item is lost, made twice, or moved by how many jobs there are."""

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflow.gate import MOST_SHARDS
from workflow.jobs.shards import Item, Prepared, Share, Suite, _finished, items_of, parser


@given(st.lists(st.integers(), max_size=60), st.integers(1, 70))
def test_shares_are_a_partition_for_every_number_of_them(items, of):
    """Property: item i is in share i mod N and in no other, in order; with more shares than items some are empty."""
    places = [Share(number, of).of_items(range(len(items))) for number in range(1, of + 1)]
    assert sorted(place for share in places for place in share) == list(range(len(items)))
    assert all(list(share) == sorted(share) for share in places)
    assert max(map(len, places)) - min(map(len, places)) <= 1
    assert [Share(1, 1).of_items(items), *Share(of, of).of_items(items)] == [items, *items[of - 1 :: of]]


@given(st.integers(1, 5), st.integers(1, 4), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_shards_can_be_made_of_one_batch_of_arms_or_of_one_length(batches, more, samples):
    """Property: a number of shards that the batches divide mixes no batches; as many as there are items, no lengths."""
    items = [(length, batch) for length, count in enumerate(samples) for _ in range(count) for batch in range(batches)]
    for place, of in ((1, batches * more), (0, len(items))):
        shares = [Share(number, of).of_items(items) for number in range(1, of + 1)]
        assert all(len({item[place] for item in share}) <= 1 for share in shares)


def test_items_of_all_arms_keep_the_name_of_the_prompt():
    """Without batches an item is called as before; with some, each has a number, and the suite's units as its size."""
    assert [(one.name, one.size) for one in items_of("a", dict, [None], 3)] == [("a", 3)]
    assert [(one.name, one.size) for one in items_of("a", dict, [None] * 2, 3)] == [("a-arms1", 3), ("a-arms2", 3)]


@pytest.mark.parametrize("text", ["", "1", "0/3", "4/3", "1/0", "a/3", "-1/3", "1/3/5", f"1/{MOST_SHARDS + 1}"])
def test_what_is_no_share_is_refused_with_an_example(text):
    """Numbers count from 1 to the number of shares, of which there are at most as many as leases are looked at."""
    with pytest.raises(argparse.ArgumentTypeError, match="expected a share such as 2/8"):
        Share.parse(text)


def test_a_job_opens_an_attempt_or_makes_a_share_or_the_whole(capsys):
    """The two options exclude each other, and none is the whole suite."""
    command, base = parser("x"), ["--experiment", "e", "--out", "o"]
    assert command.parse_args([*base, "--shard", "2/8"]).shard == Share(2, 8)
    whole = command.parse_args(base)
    assert (whole.open, whole.shard) == (False, None)
    with pytest.raises(SystemExit):
        command.parse_args([*base, "--open", "--shard", "2/8"])
    assert "not allowed with argument" in capsys.readouterr().err


class Kept:
    """Finished parts in memory."""

    def __init__(self):
        self.parts = {}

    def get(self, item):
        return self.parts.get(item)

    def put(self, item, payload):
        assert item not in self.parts, "made twice"
        self.parts[item] = payload


@given(st.integers(0, 12), st.integers(1, 15), st.randoms())
def test_shares_in_any_order_leave_what_one_job_makes(count, of, random):
    """Property: after all shards, in whatever order, the whole run makes nothing and sees every row in its place."""
    made = []

    def rows(place):
        made.append(place)
        return {"rows": [{"place": place}], "unused": []}

    items = [Item(f"item{place}", lambda place=place: rows(place), place % 3) for place in range(count)]
    suite = Suite("run", "items", {"rows": "run/rows.parquet"}, {"rows": "rows"}, lambda _: Prepared(items, ""))
    alone, shared = Kept(), Kept()
    expected = list(_finished(suite, alone, items, "one"))
    numbers = list(range(1, of + 1))
    random.shuffle(numbers)
    made.clear()
    for number in numbers:
        list(_finished(suite, shared, Share(number, of).of_items(items), "share"))
    assert sorted(made) == list(range(count))
    assert list(_finished(suite, shared, items, "merge")) == expected
    assert len(made) == count
    assert shared.parts == alone.parts
