"""What is measured: the requests that servers get, and the rows that come of them."""

import math
import re
from dataclasses import replace
from time import perf_counter

import pytest

from ridgefill.cost import Geometry, exact_macs, fill_macs
from ridgefill.errors import ConfigError
from ridgefill.result_schemas import SCHEMAS
from ridgefill.served.measuring import (
    Measured,
    among_users,
    first_tokens,
    pairs_planned,
    prompts_needed,
    require_filled,
    too_short,
)
from ridgefill.served.server import ServerError
from ridgefill.suite_settings import ServedSuite

GEOMETRY = Geometry(layers=6, hidden=32, q=64, kv=16, ff=64)
SPLIT, TAIL = 3, 32
SUITE = {
    "lengths": (48, 64), "repeats": 5, "dtype": "bfloat16", "chunk": 64, "min_filled": 16, "users": 3, "user_prompt": 8,
    "new_tokens": 120, "runs": 2, "long": 50,
    "short": {"prompt": 10, "new_tokens": 4, "pairs": 3, "burst": 2, "rounds": 2},
}  # fmt: skip
LABELS = {"experiment": "e", "model": "m", "device": "cpu", "threads": 2, "dtype": "bfloat16"}
FILLED = "RidgeFill filled {} of 99 rows of request r, from position 0; its tail begins at position 9\n"


class Prompts:
    """Prompts that are numbers counted up, so that no two begin alike."""

    def __init__(self):
        self.given = 0

    def __call__(self, tokens):
        self.given += 1
        return [self.given] * tokens


@pytest.fixture
def run():
    """A measurement of a small suite; ``run.told`` counts."""
    counted = []
    made = Measured(
        ServedSuite(**SUITE), "ridgefill", SPLIT, TAIL, False, GEOMETRY, Prompts(), LABELS, lambda: counted.append(1)
    )
    return made, counted


def slow(prompt, filled):
    """A filled long prompt takes half of what an exact one takes."""
    return len(prompt) * (0.0004 if filled else 0.0008)


def complete(rows, schema):
    """Whether every row has the columns of its schema."""
    return all(set(row) == set(SCHEMAS[schema].names) for row in rows)


def test_times_to_first_token_are_pairs_on_one_server_with_prompts_all_different(fake, run):
    """Filled and exact take turns at being first; the first pair of a length is not counted."""
    server, asked = fake(wait=slow)
    rows = list(first_tokens(run[0], server))
    assert complete(rows, "speed")
    assert [(row["length"], row["repeat"]) for row in rows] == [(n, r) for n in (48, 64) for r in range(5)]
    bodies = asked.asked
    assert [body["vllm_xargs"]["ridgefill"] for body in bodies] == [0, 1, 1, 0] * 6
    assert len({tuple(body["prompt"]) for body in bodies}) == len(bodies)
    assert len(run[1]) == 12
    last = rows[-1]
    assert (last["exact_seconds"] >= slow([0] * 64, False), last["seconds"] >= slow([0] * 64, True)) == (True, True)
    assert (last["filled_rows"], last["exact_rows"]) == (32, 32)
    assert last["exact_macs"] == exact_macs(GEOMETRY, 64)
    assert last["macs"] == fill_macs(GEOMETRY, tokens=64, split=SPLIT, tail=TAIL, mapped_split_layer=False)


def test_users_are_measured_while_the_long_prompt_is_there(fake, run):
    """Tokens of that time alone count, and gaps that lie in it or reach into it."""
    server, _ = fake(wait=lambda prompt, filled: 0.0 if len(prompt) < 20 else 2 * slow(prompt, filled), step=0.005)
    rows = list(among_users(run[0], server))
    assert complete(rows, "serving")
    assert [(row["arm"], row["repeat"]) for row in rows] == [(a, r) for r in range(2) for a in ("exact", "ridgefill")]
    for row in rows:
        assert row["first_token_seconds"] >= 2 * slow([0] * 64, row["arm"] != "exact")
        # A token each five milliseconds or a little more, for each of three users.
        assert 0 < row["tokens_per_second"] <= 3 / 0.005
        assert row["latency_p50"] <= row["latency_p99"] <= row["latency_max"] == max(row["latencies"])
        assert len(row["latencies"]) + len(row["alone"]) <= 3 * 119
    assert [row["filled_rows"] for row in rows] == [0, 32, 0, 32]


def test_users_that_are_done_too_soon_are_refused(fake, run):
    """Nothing could be said of the time after them."""
    server, _ = fake(wait=lambda prompt, filled: 0.0 if len(prompt) < 20 else 0.4)
    with pytest.raises(ConfigError, match=r"before the long prompt's first token; let suites\.served\.new_tokens"):
        list(among_users(run[0], server))


def test_short_requests_are_pairs_of_two_servers_with_the_same_prompt(fake, run):
    """Three phases in their order; long prompts between them; nobody is told to fill or not."""
    (filling, asked), (stock, beside) = fake(wait=slow), fake(wait=slow, default=False)
    rows = list(too_short(run[0], filling, stock))
    assert complete(rows, "served_pairs")
    counted = {}
    for row in rows:
        key = (row["phase"], row["role"], row["arm"])
        counted[key] = counted.get(key, 0) + 1
    assert counted == {
        (phase, role, arm): count
        for arm in ("ridgefill", "exact")
        for phase, role, count in (
            ("fresh", "short", 3), ("fresh", "long", 2), ("after_burst", "short", 3), ("after_burst", "long", 2),
            ("mix", "short", 12), ("mix", "long", 2),
        )
    }  # fmt: skip
    assert not any("vllm_xargs" in body for body in (*asked.asked, *beside.asked))
    alone = [(row["phase"], row["number"], row["place"], row["role"], tuple(row["tokens"])) for row in rows]
    assert len(set(alone)) * 2 == len(alone), "each prompt went to both servers and to neither twice"
    # One for each of both before anything is counted.
    assert len(asked.asked) == len(beside.asked) == len(rows) / 2 + 1
    assert all(math.isclose(row["decode_seconds"], sum(row["gaps"])) for row in rows if row["gaps"])
    assert {row["filled_rows"] for row in rows if row["role"] == "long" and row["arm"] != "exact"} == {18}
    assert {row["filled_rows"] for row in rows if row["role"] == "short" or row["arm"] == "exact"} == {0}


def test_what_is_planned_is_what_is_done(fake, run):
    """Progress ends where it should, and there are prompts enough."""
    made, counted = run
    (filling, _), (stock, _) = fake(), fake(default=False)
    list(too_short(made, filling, stock))
    list(first_tokens(made, filling))
    server, _ = fake(wait=lambda prompt, filled: 0.0 if len(prompt) < 20 else 0.02, step=0.005)
    list(among_users(made, server))
    assert len(counted) == pairs_planned(made.suite)
    assert made.prompt.given <= prompts_needed(made.suite)


def test_a_server_must_have_filled_what_it_was_asked_to(fake, run):
    """By its log: 6 pairs at 48 and 64 tokens, 3 at the longest, 4 long ones and a burst of 2 between short ones."""
    wanted = 6 * (16 + 32) + 3 * 32 + 6 * 18
    require_filled(run[0], fake(log=FILLED.format(wanted - 10) + FILLED.format(10))[0])
    with pytest.raises(ServerError, match=f"filled {wanted - 1} rows by its log; expected {wanted}"):
        require_filled(run[0], fake(log=FILLED.format(wanted - 1))[0])


@pytest.mark.parametrize(
    ("change", "about"),
    [
        ({"lengths": (47, 64)}, "lengths is 47 tokens, which would not be filled; expected at least .* 48"),
        ({"long": 40}, "long is 40 tokens, which would not be filled"),
        ({"user_prompt": 48}, "user_prompt is 48 tokens, which would be filled; expected fewer than"),
        ({"short": SUITE["short"] | {"prompt": 60}}, "short.prompt is 60 tokens, which would be filled"),
        ({"lengths": (48, 401)}, r"lengths is 401 tokens; expected them to fit in the context \(400\)"),
        ({"new_tokens": 393}, "user_prompt plus new_tokens is 401 tokens"),
    ],
)
def test_sizes_that_measure_something_else_are_refused(change, about):
    """By the setting that is wrong."""
    assert ServedSuite(**SUITE).wrong_size(TAIL, 400) is None
    assert re.search(about, ServedSuite(**SUITE | change).wrong_size(TAIL, 400))


def test_a_pause_before_each_turn_lets_the_other_server_come_to_rest(fake, run):
    """One that has just answered waits busily; without the setting nobody waits, and the file does not mention it."""
    made, _ = run
    short = made.suite.short.model_copy(update={"pause": 0.05})
    paused = replace(made, suite=made.suite.model_copy(update={"short": short}))
    seconds = []
    for one in (made, paused):
        (filling, _), (stock, _) = fake(), fake(default=False)
        begin = perf_counter()
        assert len(list(too_short(one, filling, stock))) == 4 * 3 + 2 * 2 + 2 * 2 + 2 * 2 * 7
        seconds.append(perf_counter() - begin)
    turns = 2 * (2 * 3 + 2 + 1 + 2)
    assert seconds[1] - seconds[0] > 0.05 * turns - 0.2
    assert "pause" not in made.suite.model_dump()["short"]
    assert paused.suite.model_dump()["short"]["pause"] == 0.05
