"""Candidates and their cost before anything runs."""

import math

import pytest
import torch

from ridgefill.cost import Geometry, exact_macs
from ridgefill.errors import ConfigError
from ridgefill.map_options import PLAIN, RidgeOptions
from ridgefill.rows import plan_macs, planned
from ridgefill.selectors.context import Context
from ridgefill.tuning.candidates import Candidate, Grid, default_maps, default_splits, default_tails, within_reach

GEOMETRY = Geometry(layers=30, hidden=576, q=576, kv=192, ff=1536)
IDENTITY = RidgeOptions("identity")
TOKENS = 500


def grid(**changed):
    given = {"splits": (15, 19), "tails": (32, 64), "rows": (0.05, 0.1), "maps": (PLAIN, IDENTITY)}
    return Grid(**given | changed, ranking=lambda split: split > 15)


@pytest.mark.parametrize("maps", [PLAIN, IDENTITY, RidgeOptions("identity", 72)])
@pytest.mark.parametrize("rows", [0.0, 0.1])
def test_the_share_is_that_of_the_plan_the_arm_would_run(maps, rows):
    """With exact rows, of a plan whose rows are spread over the prefix."""
    one = Candidate(19, 64, rows, maps)
    prefix, count = TOKENS - 64, round(rows * TOKENS)
    spread = [int((place + 0.5) * prefix / count) for place in range(count)]
    context = Context(tuple(range(TOKENS)), prefix)
    macs = plan_macs(one.arm, planned(TOKENS, prefix, spread), context, GEOMETRY)
    assert one.share(GEOMETRY, TOKENS) == macs.total / exact_macs(GEOMETRY, TOKENS)
    assert torch.equal(planned(TOKENS, prefix, spread).exact[:count], torch.tensor(spread))


def test_more_exact_work_costs_more():
    """A higher split, a longer tail, more rows and whole maps each take a larger share."""
    base = Candidate(15, 32, maps=RidgeOptions("identity", 8))
    dearer = [
        Candidate(19, 32, maps=base.maps), Candidate(15, 64, maps=base.maps), Candidate(15, 32, 0.1, base.maps),
        Candidate(15, 32, maps=IDENTITY),
    ]  # fmt: skip
    assert all(one.share(GEOMETRY, TOKENS) > base.share(GEOMETRY, TOKENS) for one in dearer)


def test_keys_tell_all_candidates_of_a_grid_apart():
    """And every variation changes exactly one thing; rows only where a layer below the split ranks them."""
    coarse = grid().coarse()
    assert len(coarse) == 4
    every = [*coarse, *(other for one in coarse for other in grid().variations(one))]
    assert len({one.key for one in every}) == len(every) == 4 + 2 * 1 + 2 * 3
    for one in coarse:
        for other in grid().variations(one):
            assert (other.split, other.tail) == (one.split, one.tail)
            assert (other.rows != one.rows) != (other.maps != one.maps)
            assert not other.rows or other.split == 19


def test_splits_lie_where_the_models_can_be_split():
    """By depth; never below the first allowed; in a model with windows only at layers that see all rows."""
    assert default_splits(32, 1, lambda layer: True, False) == (12, 16, 18, 20, 22, 24)
    assert default_splits(4, 1, lambda layer: True, False) == (2, 3)
    assert min(default_splits(32, 17, lambda layer: True, False)) == 17
    assert default_splits(18, 1, lambda layer: layer % 6 == 5, True) == (5, 11)


def test_tails_grow_with_the_prompt_up_to_the_papers():
    """At least 32 tokens, at most 4,096, each once."""
    assert default_tails(1024) == (64, 128, 256)
    assert default_tails(256) == (32, 64)
    assert default_tails(65536) == (4096,)


def test_maps_towards_the_identity_need_states_like_inputs():
    """Elsewhere only the paper's maps are tried."""
    assert default_maps(576, 576) == (PLAIN, IDENTITY, RidgeOptions("identity", 72))
    assert default_maps(2304, 576) == (PLAIN,)


def test_what_costs_too_much_is_never_run_and_an_impossible_budget_is_refused():
    """The refusal names the cheapest setting, its share and what to do."""
    share = {one: one.share(GEOMETRY, TOKENS) for one in grid().coarse()}
    kept = within_reach(grid().coarse(), share.get, min(share.values()), 0.0)
    assert [one.key for one in kept] == ["split15-tail32"]
    assert len(within_reach(grid().coarse(), share.get, 0.99, math.inf)) == 4
    with pytest.raises(ConfigError, match=r"cheapest setting \(split 15, tail 32\) takes 0\.\d+.*raise --budget"):
        within_reach(grid().coarse(), share.get, 0.2, 0.1)
