"""Mixed serving: who runs when, that users get the tokens they would get alone, and what is counted of it."""

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ridgefill.arms import Arm, ArmSettings, arm_table
from ridgefill.decode import decode_greedy, decode_steps
from ridgefill.errors import ConfigError
from ridgefill.evaluation import serving
from ridgefill.evaluation.chunks import Prefilled, exact_chunks
from ridgefill.evaluation.requests import make_requests
from ridgefill.evaluation.runs import Fitted
from ridgefill.evaluation.serving import ServingRun, requests_needed, serve, serve_arm, unserved
from ridgefill.evaluation.speed import chosen_arms
from ridgefill.fill import predictor, run_late
from ridgefill.map_options import PLAIN
from ridgefill.models.load import Loaded
from ridgefill.passes import run_exact, run_lower
from ridgefill.results import SCHEMAS, read_table, write_table
from ridgefill.rows import plan_rows
from ridgefill.selectors.context import Context
from ridgefill.suite_settings import ServingSuite

MADE = runpy.run_path(str(Path(__file__).with_name("timing_material.py")))
GEOMETRY, adapter_of, prompt = MADE["GEOMETRY"], MADE["adapter_of"], MADE["prompt"]
TOKENS, TAIL, SPLIT, CHUNK, NEW, USERS = 90, 20, 4, 16, 9, 3
SUITE = ServingSuite(lengths=(TOKENS,), users=USERS, user_prompt=12, new_tokens=NEW, chunk=CHUNK, repeats=2)
RIDGE = Arm("ridgefill", "ridge", SPLIT, TAIL)


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield


@pytest.fixture
def run():
    adapter = adapter_of()
    maps = {(SPLIT, PLAIN): MADE["random_maps"](adapter, SPLIT).predict}
    words = prompt(500, 3)[0].tolist()
    requests = make_requests(MADE["Numbers"](), [" ".join(map(str, words))], requests_needed(SUITE, 1), seed=7)
    labels = {"experiment": "e", "model": "m"}
    return ServingRun(
        Loaded(adapter, MADE["Numbers"](), ""), [RIDGE], Fitted(maps), GEOMETRY, TAIL, 64, SUITE, requests, labels
    )


def users_of(adapter, seeds, tokens=12, new=NEW):
    """Users' caches and first logits, and their steps; prompts of ``tokens`` tokens."""
    done = [run_exact(adapter, prompt(tokens, seed)) for seed in seeds]
    logits = torch.cat([adapter.logits(one.hidden[:, -1:])[:, 0] for one in done])
    caches, lengths = [one.cache for one in done], [tokens] * len(done)
    return caches, logits, decode_steps(adapter, caches, logits, prompt_tokens=lengths, new_tokens=new)


def test_steps_are_greedy_decoding_one_at_a_time():
    """As many tokens, the same ones, for prompts of different lengths too."""
    adapter, lengths = adapter_of(), [30, 12, 21]
    done = [run_exact(adapter, prompt(tokens, 5)) for tokens in lengths]
    logits = torch.cat([adapter.logits(one.hidden[:, -1:])[:, 0] for one in done])
    caches = [one.cache for one in done]
    steps = list(decode_steps(adapter, caches, logits, prompt_tokens=lengths, new_tokens=NEW))
    greedy = decode_greedy(
        adapter, caches, logits, prompt_tokens=lengths, new_tokens=NEW, stop_ids=(), finished=lambda *_: False
    )
    assert torch.stack(steps, 1).tolist() == greedy


@pytest.mark.parametrize("family", MADE["FAMILIES"])
def test_users_get_the_tokens_that_they_get_alone_and_so_does_the_prompt(family):
    """The long prompt's chunks and the users' steps share a model, and nothing else."""
    adapter, ids = adapter_of(family), prompt(TOKENS)
    caches, logits, users = users_of(adapter, range(1, USERS + 1))
    served = serve(exact_chunks(adapter, ids, CHUNK), users, adapter.logits, MADE["Ticks"]())
    alone = decode_greedy(
        adapter, caches, logits, prompt_tokens=[12] * USERS, new_tokens=NEW, stop_ids=(), finished=lambda *_: False
    )
    assert [list(made) for made in zip(*served.tokens, strict=True)] == alone
    assert len({tuple(made) for made in alone}) == USERS
    assert served.token == int(adapter.logits(run_exact(adapter, ids).hidden[:, -1:]).argmax())


def scripted(order, chunks, new):
    """A prompt of so many chunks, and a user's tokens, which say in ``order`` when they run."""

    def prefill():
        for number in range(chunks):
            order.append(f"chunk {number}")
            yield Prefilled(None, torch.tensor([0.0, 1.0])) if number == chunks - 1 else None

    def decode():
        for number in range(new):
            order.append(f"step {number}")
            yield torch.tensor([number, 10 + number])

    return prefill(), decode()


def test_chunks_and_steps_alternate_until_the_prompt_is_done():
    """A step after every chunk; then the users go on to their end; what they hold at first is theirs beforehand."""
    order = []
    served = serve(*scripted(order, 3, 6), lambda hidden: hidden, MADE["Ticks"]())
    assert order == ["step 0", "chunk 0", "step 1", "chunk 1", "step 2", "chunk 2", "step 3", "step 4", "step 5"]
    assert served.tokens == tuple((number, 10 + number) for number in range(6))
    assert served.token == 1


def test_times_are_read_from_the_clock_where_they_are_said_to_be():
    """By a scripted clock: arrival, each step, the first token before the step that follows it."""
    moments = [100.0, 103.0, 107.0, 109.0, 112.0, 113.0, 115.0]
    served = serve(*scripted([], 3, 6), lambda hidden: hidden, MADE["Script"](moments))
    assert served.latencies == (3.0, 4.0, 5.0)
    assert served.alone == (1.0, 2.0)
    assert served.first_token == 9.0
    # Two steps of two users were over by then.
    assert served.tokens_per_second == 4 / 9


def test_users_who_end_before_the_prompt_are_refused():
    """Three tokens are two steps after the first one, and three chunks want three."""
    with pytest.raises(ConfigError, match="done after 3 tokens, before the long prompt was"):
        serve(*scripted([], 3, 3), lambda hidden: hidden, MADE["Ticks"]())


def test_runs_alternate_with_exact_on_the_same_prompts_which_differ_from_pair_to_pair(run, monkeypatch):
    """Exact, then the arm; one pair more than repeats; the same long prompt and users within a pair, no other."""
    calls = []
    for name, place in (("exact_chunks", 1), ("filled_chunks", 1)):
        plain = getattr(serving, name)

        def heard(*given, name=name, place=place, plain=plain):
            calls.append((name, tuple(given[place][0].tolist()), given[2]))
            return plain(*given)

        monkeypatch.setattr(serving, name, heard)
    steps = serving.decode_steps
    monkeypatch.setattr(
        serving,
        "decode_steps",
        lambda adapter, caches, *a, **k: calls.append(id(caches)) or steps(adapter, caches, *a, **k),
    )
    told = []
    serve_arm(run, RIDGE, TOKENS, 0, MADE["Ticks"](), lambda: told.append(len(calls)))
    prompts = [call for call in calls if isinstance(call, tuple)]
    assert [name for name, _, _ in prompts] == ["exact_chunks", "filled_chunks"] * (SUITE.repeats + 1)
    assert {chunk for _, _, chunk in prompts} == {CHUNK}
    pairs = [(prompts[place][1], prompts[place + 1][1]) for place in range(0, len(prompts), 2)]
    assert all(exact == filled for exact, filled in pairs)
    assert len({exact for exact, _ in pairs}) == SUITE.repeats + 1
    users = [call for call in calls if isinstance(call, int)]
    assert users[0::2] == users[1::2]
    assert told == [4, 8, 12]


def test_every_prompt_of_a_measurement_is_its_own_and_they_are_counted(run):
    """A long prompt and three users in each of three pairs, for two arms at one length."""
    assert requests_needed(SUITE, 2) == 24
    assert len(run.requests.starts) == 12
    assert len(set(run.requests.starts)) == 12
    with pytest.raises(Exception, match="request 13 was asked for"):
        serve_arm(run, RIDGE, TOKENS, 1, MADE["Ticks"]())


def test_rows_hold_what_the_runs_showed(run, tmp_path):
    """One for exact and one for the arm per repeat, joined by the pair; statistics of the latencies beside them."""
    rows = serve_arm(run, RIDGE, TOKENS, 0, MADE["Ticks"]())
    assert [(row["arm"], row["split"], row["repeat"]) for row in rows] == [
        ("exact", None, 0), ("ridgefill", SPLIT, 0), ("exact", None, 1), ("ridgefill", SPLIT, 1),
    ]  # fmt: skip
    assert {row["pair"] for row in rows} == {"ridgefill@4"}
    assert [(row["filled_rows"], row["exact_rows"]) for row in rows[:2]] == [(0, TOKENS), (TOKENS - TAIL, TAIL)]
    for row in rows:
        assert len(row["latencies"]) == -(-TOKENS // CHUNK)
        assert len(row["alone"]) == NEW - 1 - len(row["latencies"])
        assert row["latency_mean"] == pytest.approx(np.mean(row["latencies"]))
        assert row["latency_p50"] == pytest.approx(np.quantile(row["latencies"], 0.5))
        assert row["latency_p99"] == pytest.approx(np.quantile(row["latencies"], 0.99))
        assert row["latency_max"] == max(row["latencies"])
    metadata = {"git_commit": "c", "config_sha256": "h", "ledger_entry": "local/1"}
    write_table(tmp_path / "runs.parquet", "serving", rows, metadata)
    assert read_table(tmp_path / "runs.parquet", "serving").to_pylist() == rows
    assert set(rows[0]) == set(SCHEMAS["serving"].names)


def test_the_arm_is_prefilled_in_chunks_as_in_one_pass(run, monkeypatch):
    """What is served is the fill: its first token is that of the late pass over the whole prompt."""
    tokens = []
    plain = serving.serve
    monkeypatch.setattr(serving, "serve", lambda *given: tokens.append(plain(*given)) or tokens[-1])
    serve_arm(run, RIDGE, TOKENS, 0, MADE["Ticks"]())
    adapter = run.loaded.adapter
    differ = 0
    for repeat in range(SUITE.repeats + 1):
        ids = torch.tensor([run.requests.context([], repeat * (1 + USERS), TOKENS).ids])
        lower = run_lower(adapter, ids, SPLIT)
        plan = plan_rows(RIDGE, Context.around(adapter, lower), GEOMETRY)
        late = run_late(adapter, lower, plan, predictor(RIDGE, run.fitted.maps, adapter), RIDGE)
        exact, filled = tokens[2 * repeat : 2 * repeat + 2]
        assert filled.token == int(adapter.logits(late.hidden[:, -1:]).argmax())
        assert exact.token == int(adapter.logits(run_exact(adapter, ids).hidden[:, -1:]).argmax())
        assert exact.tokens == filled.tokens
        differ += exact.token != filled.token
    assert differ


def test_arms_that_cannot_be_served_in_chunks_are_left_out_or_refused(run):
    """Unasked they are left out; by name they are refused with the reason, before anything runs."""
    table = list(arm_table(ArmSettings(layers=6, split=SPLIT, tail=TAIL)).values())
    kept = {arm.name for arm in chosen_arms(table, None, unserved(run.loaded.adapter))}
    assert {"ridgefill", "identity", "no_fill", "no_fill_longer_tail", "ridgefill_random_rows"} <= kept
    assert not {"exact", "ridgefill_rows", "ridgefill_probe", "splice_exact_keys"} & kept
    with pytest.raises(ConfigError, match="ridgefill_rows@4 picks exact rows by attention"):
        chosen_arms(table, ("ridgefill_rows",), unserved(run.loaded.adapter))
    scaled = replace(RIDGE, rescale=("value",), rescale_rows=12)
    with pytest.raises(ConfigError, match="measures its rescale on 12 tail rows"):
        serve_arm(run, scaled, TOKENS, 0, MADE["Ticks"]())
