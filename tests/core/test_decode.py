"""Greedy decoding of several caches at once gives each one what it would get alone."""

import runpy
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgefill.arms import Arm
from ridgefill.decode import decode_greedy
from ridgefill.errors import NumericsError
from ridgefill.fill import predictor, run_late
from ridgefill.map_options import PLAIN
from ridgefill.models.cache import decode_mask, stack
from ridgefill.passes import run_exact, run_lower
from ridgefill.rows import plan_rows
from ridgefill.selectors.context import Context
from ridgefill.selectors.controls import RandomRows

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "prefill.py"))
TOKENS, NEW, TAIL = 50, 16, 20
ARMS = [
    Arm("identity", "identity", split=3, tail=TAIL),
    Arm("no_fill", "none", split=3, tail=TAIL),
    Arm("ridgefill", "ridge", split=3, tail=TAIL),
    Arm("no_fill", "none", split=2, tail=7),
    Arm("random", "ridge", split=5, tail=TAIL, rows=RandomRows(0.1)),
]


@pytest.fixture(scope="module")
def prefilled(adapt, prompt, random_maps):
    """Exact and five arms on one prompt: (cache, last output, plan or None) each."""
    from ridgefill.cost import Geometry

    shape = Geometry(layers=6, hidden=32, q=32, kv=16, ff=64)
    adapter, ids = adapt(), prompt(TOKENS)
    with torch.inference_mode():
        exact = run_exact(adapter, ids, capacity=TOKENS + NEW)
        done = [(exact.cache, exact.hidden[:, -1:], None)]
        for arm in ARMS:
            lower = run_lower(adapter, ids, arm.split, capacity=TOKENS + NEW)
            plan = plan_rows(arm, Context.around(adapter, lower, 4), shape)
            filled = run_late(
                adapter, lower, plan, predictor(arm, {(arm.split, PLAIN): random_maps(arm.split).predict}, adapter), arm
            )
            done.append((filled.cache, filled.hidden[:, -1:], plan))
    return done


def first_logits(adapter, done):
    return torch.cat([adapter.logits(hidden)[:, 0] for _, hidden, _ in done])


def decode(adapter, done, new=NEW, stop_ids=(), finished=lambda *_: False):
    caches = [cache for cache, _, _ in done]
    return decode_greedy(
        adapter,
        caches,
        first_logits(adapter, done),
        prompt_tokens=[TOKENS] * len(caches),
        new_tokens=new,
        stop_ids=stop_ids,
        finished=finished,
    )


def test_a_batch_decodes_each_cache_as_if_it_were_alone(adapter, prefilled):
    """Caches with all rows, with filled rows and with hidden prefixes of different lengths, in one batch."""
    together = decode(adapter, prefilled)
    assert together == [decode(adapter, [one])[0] for one in prefilled]
    assert len({tuple(made) for made in together}) > 4


def test_decoding_equals_the_naive_one(tiny, adapter, prompt, random_maps, prefilled):
    """Row by row in fp64: prompt rows keep their original positions, new rows run every layer over what is
    there.
    """
    naive = NAIVE["NaiveLlama"](tiny())
    inputs = naive.run_exact(prompt(TOKENS)[0].tolist())
    found = decode(adapter, prefilled)
    for arm, (_, _, plan), made in zip(ARMS, prefilled[1:], found[1:], strict=True):
        maps = random_maps(arm.split)
        predict = {
            "none": None,
            "identity": lambda layer, state: state,
            "ridge": lambda layer, state, maps=maps: maps.weights[layer].double() @ state + maps.biases[layer].double(),
        }[arm.fill]
        outputs, caches = naive.run_filled(inputs, arm.split, plan.exact.tolist(), predict, true_split_layer=True)
        assert made == naive.decode(outputs[TOKENS - 1], caches, TOKENS, NEW)


@given(ends=st.lists(st.integers(1, NEW + 2), min_size=6, max_size=6))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_entries_that_finish_leave_the_others_as_they_were(adapter, prefilled, ends):
    """Property: whenever each entry is declared finished, its tokens are a prefix of its full output."""
    with torch.inference_mode():
        full = decode(adapter, prefilled)
        cut = decode(adapter, prefilled, finished=lambda entry, made: len(made) >= ends[entry])
    assert cut == [made[:end] for made, end in zip(full, ends, strict=True)]


def test_a_stop_token_ends_an_entry_and_is_not_returned(adapter, prefilled):
    """The output ends before the first stop token, also when it is the very first token."""
    full = decode(adapter, prefilled)
    for stop in ({full[1][4]}, {full[0][0], full[2][7]}):
        expected = [made[: next((n for n, token in enumerate(made) if token in stop), NEW)] for made in full]
        assert decode(adapter, prefilled, stop_ids=stop) == expected


def test_one_token_needs_no_step(adapter, prefilled):
    """The first token comes from the prefill's own logits."""
    expected = first_logits(adapter, prefilled).argmax(-1).tolist()
    assert decode(adapter, prefilled, new=1) == [[token] for token in expected]


def test_decoding_leaves_the_prefilled_caches_alone(adapter, prefilled):
    """The batch is a copy: the same caches can be decoded again, or lent to another arm."""
    before = [cache.keys[4].clone() for cache, _, _ in prefilled]
    decode(adapter, prefilled)
    for (cache, _, _), kept in zip(prefilled, before, strict=True):
        assert torch.equal(cache.keys[4].nan_to_num(7.0), kept.nan_to_num(7.0))


def test_a_forgotten_row_is_caught_while_decoding(adapter, prefilled):
    """A visible row that was never written survives stacking as NaN and ends the run; a hidden one does
    not matter.
    """
    cache, hidden, plan = prefilled[2]
    stacked, starts = stack([cache], [TOKENS], NEW)
    assert starts == [cache.start]
    assert plan.start == TOKENS - TAIL
    assert float(stacked.keys[4][0, :, : plan.start].abs().max()) == 0.0
    keys = cache.keys[4].clone()
    keys[:, :, TOKENS - 3] = float("nan")
    broken, _ = stack([cache], [TOKENS], NEW)
    broken.keys[4], broken.start = keys, list(cache.start)
    with pytest.raises(NumericsError, match="decoding step"):
        decode(adapter, [(broken, hidden, plan)])


def test_a_cache_without_room_is_refused(adapter, prompt):
    """New rows past the capacity would vanish without a word; instead the run ends and says how many fit."""
    exact = run_exact(adapter, prompt(TOKENS), capacity=TOKENS + 2)
    x = adapter.embed(prompt(TOKENS)[:, :1])
    adapter.run_layer(0, x, adapter.rows(torch.tensor([TOKENS + 1])), exact.cache)
    with pytest.raises(NumericsError, match=f"holds {TOKENS + 2} rows"):
        adapter.run_layer(0, x, adapter.rows(torch.tensor([TOKENS + 2])), exact.cache)


def test_prompts_of_different_lengths_decode_together_as_each_would_alone(adapter, prompt, random_maps):
    """Shorter prompts are moved to the right, but keep their own positions and see only their own rows."""
    from ridgefill.cost import Geometry

    shape = Geometry(layers=6, hidden=32, q=32, kv=16, ff=64)
    done, lengths = [], []
    for tokens in (50, 37, 44):
        exact = run_exact(adapter, prompt(50)[:, :tokens], keep={3})
        done.append((exact.cache, exact.hidden[:, -1:], None))
        for arm in ARMS[:3]:
            plan = plan_rows(arm, Context.around(adapter, exact.lower(3), 4), shape)
            filled = run_late(
                adapter, exact.lower(3), plan, predictor(arm, {(3, PLAIN): random_maps(3).predict}, adapter), arm
            )
            done.append((filled.cache, filled.hidden[:, -1:], plan))
        lengths += [tokens] * 4
    options = {"new_tokens": NEW, "stop_ids": (), "finished": lambda *_: False}
    caches = [cache for cache, _, _ in done]
    together = decode_greedy(adapter, caches, first_logits(adapter, done), prompt_tokens=lengths, **options)
    for one, length, made in zip(done, lengths, together, strict=True):
        alone = decode_greedy(adapter, [one[0]], first_logits(adapter, [one]), prompt_tokens=[length], **options)
        assert [made] == alone
    assert len({tuple(made) for made in together}) > 6


def test_the_decoding_mask_hides_what_each_entry_cannot_see():
    """No mask when everything is visible; else one boolean row per entry."""
    device = torch.device("cpu")
    assert decode_mask([[0, 0], [0, 3]], 0, 0, 5, device) is None
    mask = decode_mask([[0, 0], [0, 3]], 1, 0, 5, device)
    assert mask.shape == (2, 1, 1, 5)
    assert mask[:, 0, 0].tolist() == [[True] * 5, [False, False, False, True, True]]
