"""Tests that share something long to make run in one process, where there are several."""

import pytest


@pytest.mark.xdist_group("together")
def test_a_group_is_known_to_the_scheduler(request):
    """By the end of its tests' names; where pytest and xdist disagree on it, groups are spread and nobody is told."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("tests are not run in several processes by group (-n 2 --dist loadgroup)")
    assert request.node.nodeid.endswith("@together")
