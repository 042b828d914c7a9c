"""The probe against the naive one, on every family, and what it leaves behind: nothing."""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.arms import Arm
from ridgefill.cost import Geometry, probe_macs
from ridgefill.errors import ConfigError, NumericsError
from ridgefill.fill import run_late
from ridgefill.models.base import LINEAR
from ridgefill.passes import run_exact, run_lower
from ridgefill.rows import planned
from ridgefill.selectors import probe
from ridgefill.selectors.probe import probe_attention, probe_rows

NAIVE = Path(__file__).parents[1] / "naive"
SLOW = runpy.run_path(str(NAIVE / "selectors.py"))
LLAMA = runpy.run_path(str(NAIVE / "prefill.py"))
HYBRID = runpy.run_path(str(NAIVE / "hybrid.py"))
FAMILIES = ["llama", "qwen3", "gemma3", "qwen3_5", "qwen3_next", "qwen4_exp"]
# fp32 against fp64, or sums in another order, through the late layers, relative to the largest number.
TOLERANCE = 1e-5


def swept(adapter, lower, prefix, predict):
    """A cache whose late attention layers hold a prediction for every prefix row, the rest NaN."""
    cache = lower.cache.lower(lower.split)
    rows = adapter.rows(torch.arange(prefix), attend=False) if prefix else None
    for layer in range(lower.split, adapter.layers):
        if rows is not None and adapter.kinds[layer] != LINEAR:
            adapter.write_filled(layer, predict(layer, lower.state[:, :prefix]), rows, cache)
    return cache


def doubled(maps):
    """The maps on one fp64 row, as naive models call them."""

    def predict(layer, state):
        return maps.weights[layer].double() @ state + maps.biases[layer].double()

    return predict


@pytest.fixture(scope="module")
def square():
    """A llama whose heads together are as wide as the model, as the naive one has them."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from ridgefill.models.wrap import adapter_for

    torch.manual_seed(6)
    config = LlamaConfig(
        num_hidden_layers=6, hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=97, initializer_range=0.2, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return adapter_for(LlamaForCausalLM(config).eval())


# The tail is longer than the probe, as long, or shorter; a probe of one row; a probe of the whole prompt.
@pytest.mark.parametrize(
    ("tokens", "prefix", "rows"), [(70, 40, 12), (70, 58, 12), (70, 65, 12), (40, 20, 1), (30, 9, 99)]
)
@pytest.mark.parametrize("family", ["llama", "qwen3_5", "qwen3_next"])
def test_the_probe_equals_the_naive_one(
    square, adapters, prompt, random_maps, error, monkeypatch, family, tokens, prefix, rows
):
    """Attention of every prefix row, and the ranking, with rows run piece by piece."""
    monkeypatch.setattr(probe, "ROWS_AT_ONCE", 5)
    adapter = square if family == "llama" else adapters(family)
    slow = LLAMA["NaiveLlama"](adapter.model) if family == "llama" else HYBRID["NaiveHybrid"](adapter.model)
    lower, maps = run_lower(adapter, prompt(tokens), 3), random_maps(adapter, 3)
    found = probe_attention(adapter, lower, swept(adapter, lower, prefix, maps.predict), prefix, rows)
    look = SLOW["probe_llama" if family == "llama" else "probe_hybrid"]
    expected = look(slow, list(lower.state[0].double()), 3, prefix, rows, doubled(maps), true_split_layer=False)
    assert error(found, expected) <= TOLERANCE
    ranking = probe_rows(adapter, lower, swept(adapter, lower, prefix, maps.predict), prefix, rows)
    assert list(ranking) == SLOW["top"](expected, prefix, prefix)


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_gap_the_probe_is_a_prefill_with_an_exact_tail(adapters, split, prompt, random_maps, error, family):
    """Where the tail is what probes, the rows it runs are those of the arm's own late layers.

    Recurrent layers meet the probing rows alone, so the arm writes nothing there.
    """
    adapter, at = adapters(family), split(family)
    tokens, prefix = 90, 50
    lower, maps = run_lower(adapter, prompt(tokens), at), random_maps(adapter, at)
    cache, plan = swept(adapter, lower, prefix, maps.predict), planned(tokens, prefix, (), adapter.device)
    received, x = torch.zeros(tokens), lower.state[:, prefix:]
    rows = adapter.rows(plan.exact)
    whole = swept(adapter, lower, prefix, maps.predict)
    for layer in range(at, adapter.layers):
        after = adapter.run_layer(layer, x, rows, whole)
        if adapter.attends(layer):
            received += adapter.attention_received(layer, x, rows, whole)
        x = after
    found = probe_attention(adapter, lower, cache, prefix, tokens - prefix)
    assert error(found, received[:prefix]) <= TOLERANCE
    if LINEAR not in adapter.kinds:
        arm = Arm("arm", "ridge", split=at, tail=tokens - prefix, split_layer="mapped")
        assert error(x, run_late(adapter, lower, plan, maps.predict, arm).hidden) <= TOLERANCE


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("prefix", "rows"), [(40, 30), (75, 30)])
def test_the_cache_is_the_same_afterwards_bit_for_bit(adapters, split, prompt, random_maps, family, prefix, rows):
    """Keys, values, indexer keys, states; the tail that has not run stays NaN; a failed probe changes nothing."""
    adapter, at, tokens = adapters(family), split(family), 90
    lower, maps = run_lower(adapter, prompt(tokens), at, capacity=tokens + 3), random_maps(adapter, at)
    cache, like = (swept(adapter, lower, prefix, maps.predict) for _ in range(2))
    probe_rows(adapter, lower, cache, prefix, rows)
    spoiled = swept(adapter, lower, prefix, maps.predict)
    late = [layer for layer in range(at, adapter.layers) if adapter.attends(layer)]
    spoiled.keys[late[0]][:, :, 1] = float("nan")
    with pytest.raises(NumericsError, match="attention that filled rows receive"):
        probe_rows(adapter, lower, spoiled, prefix, rows)
    like_spoiled = swept(adapter, lower, prefix, maps.predict)
    like_spoiled.keys[late[0]][:, :, 1] = float("nan")
    for one, two in ((cache, like), (spoiled, like_spoiled)):
        assert one.states[at:] == [None] * (adapter.layers - at)
        for name in ("keys", "values", "indexed"):
            for found, expected in zip(getattr(one, name)[at:], getattr(two, name)[at:], strict=True):
                assert (found is None) == (expected is None)
                assert found is None or torch.equal(found.nan_to_num(7.0), expected.nan_to_num(7.0))
    assert bool(cache.keys[late[0]][:, :, prefix:].isnan().all())


@pytest.mark.parametrize("family", ["qwen3_5", "qwen3_next", "qwen4_exp"])
def test_states_that_a_cache_holds_already_are_left_alone_and_not_read(
    adapters, split, prompt, random_maps, error, family
):
    """After a prefill the same rows receive the same, and its recurrent states are the ones it had."""
    adapter, at, tokens, prefix = adapters(family), split(family), 90, 50
    lower, maps = run_lower(adapter, prompt(tokens), at), random_maps(adapter, at)
    arm = Arm("arm", "ridge", split=at, tail=40, split_layer="mapped")
    done = run_late(adapter, lower, planned(tokens, prefix, (), adapter.device), maps.predict, arm).cache
    states = [state and state.recurrent_states[0].clone() for state in done.states[at:]]
    found = probe_attention(adapter, lower, done, prefix, 20)
    expected = probe_attention(adapter, lower, swept(adapter, lower, prefix, maps.predict), prefix, 20)
    assert error(found, expected) <= TOLERANCE
    for state, before in zip(done.states[at:], states, strict=True):
        assert (state is None and before is None) or torch.equal(state.recurrent_states[0], before)


@pytest.mark.parametrize(
    ("tokens", "prefix", "rows"), [(90, 40, 30), (90, 58, 30), (90, 70, 30), (50, 20, 1), (80, 70, 99)]
)
@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen4_exp"])
def test_probing_rows_see_filled_rows_and_each_other(adapters, family, tokens, prefix, rows):
    """Every kind of layer, windows included, column by column: the tail before the probe is hidden."""
    adapter, first = adapters(family), max(0, tokens - rows)
    for positions in torch.arange(first, tokens).split(7):
        made = probe._rows(adapter, positions, prefix, first)
        for kind in {kind for kind in adapter.kinds if kind != LINEAR}:
            expected = SLOW["visible"](
                adapter.windows.get(kind), positions.tolist(), prefix, first, made.begin[kind], made.stop
            )
            mask = made.mask[kind]
            if mask is None:
                # Plain causal attention among the rows themselves, or one row that sees everything.
                mask = torch.ones(len(positions), made.stop - made.begin[kind], dtype=torch.bool)
                mask = mask.tril(mask.shape[1] - mask.shape[0])[None, None]
            assert mask[0, 0].tolist() == expected


def test_rows_before_the_prefix_end_that_probe_rank_too(square, prompt, random_maps):
    """With a tail shorter than the probe, prefix rows that probe are ranked with the others."""
    lower, maps = run_lower(square, prompt(60), 3), random_maps(square, 3)
    ranking = probe_rows(square, lower, swept(square, lower, 55, maps.predict), 55, 30)
    assert sorted(ranking) == list(range(55))


def test_a_split_with_no_attention_above_it_cannot_be_probed(adapters, prompt):
    """Recurrent layers rank nothing."""
    adapter = adapters("qwen3_5")
    lower = replace(run_lower(adapter, prompt(30), 3), split=8)
    with pytest.raises(ConfigError, match="no layer from split 8 on attends to all rows"):
        probe_rows(adapter, lower, lower.cache, 10)


def test_the_whole_prompt_may_lie_in_one_pass_with_a_continuation(square, prompt, random_maps):
    """Rows after the prompt, which an exact pass may have run too, have no say."""
    ids, maps = prompt(80), random_maps(square, 3)
    more = run_exact(square, ids, keep=(3,)).lower(3, 60)
    alone = run_lower(square, ids[:, :60], 3)
    found, expected = (probe_rows(square, one, swept(square, one, 40, maps.predict), 40, 15) for one in (more, alone))
    assert found == expected


@given(st.integers(1, 40), st.integers(0, 40), st.integers(1, 50), st.sampled_from([None, 1, 3, 8]))
def test_a_probe_costs_its_rows_in_the_late_layers(tokens, prefix, rows, window):
    """Property: projections and MLP of each row, and twice the query width for every row that it sees.

    Layers that see all rows rank: there queries are projected and scored once more.
    """
    prefix, first = min(prefix, tokens), max(0, tokens - rows)
    g = Geometry(layers=5, hidden=6, q=8, kv=4, ff=10, windows=(None, None, None, window, None))
    seen = [
        sum(map(sum, SLOW["visible"](one, range(first, tokens), prefix, first, 0, tokens))) for one in (window, None)
    ]
    expected = 2 * (tokens - first) * g.row + 2 * g.q * sum(seen)
    ranking = [pairs for pairs, reach in zip(seen, (window, None), strict=True) if reach is None]
    expected += len(ranking) * (tokens - first) * g.hidden * g.q + g.q * sum(ranking)
    assert probe_macs(g, tokens=tokens, prefix=prefix, split=3, rows=rows) == expected
