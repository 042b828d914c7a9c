"""Hybrids with Gated DeltaNet layers: states are carried from row to row, through chunks, decoding and batches.

The gates that every family passes are in ``test_family_gates.py``; they compare states too.
"""

import copy
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

from ridgefill.arms import Arm
from ridgefill.cost import Geometry
from ridgefill.decode import decode_greedy
from ridgefill.errors import MapError, NumericsError
from ridgefill.fill import predictor, run_late
from ridgefill.mapfiles.match import require_match
from ridgefill.models import visible
from ridgefill.models.base import LINEAR, view
from ridgefill.models.wrap import adapter_for
from ridgefill.passes import run_exact, run_lower
from ridgefill.rows import RowPlan, plan_rows
from ridgefill.selectors.context import Context

BUILT = runpy.run_path(str(Path(__file__).with_name("builders.py")))
SHAPE = Geometry(layers=8, hidden=32, q=64, kv=32, ff=64)
# Sums over rows are taken in another order, in fp32; METHOD's own bound, relative to the largest value.
TOLERANCE = 1e-5
SCATTERED = [1, 2, 30, *range(45, 65)]


@pytest.fixture(params=["qwen3_5", "qwen3_next"])
def hybrid(request):
    """The adapter of a hybrid in fp32; layers 3 and 7 attend, the others are recurrent."""
    return adapter_for(BUILT["FAMILIES"][request.param]())


def recurrent(cache, layer):
    return cache.state(layer).recurrent_states[0]


def decode(adapter, caches, hidden, lengths):
    logits = torch.cat([adapter.logits(one[:, -1:])[:, 0] for one in hidden])
    return decode_greedy(
        adapter, caches, logits,
        prompt_tokens=lengths, new_tokens=12, stop_ids=(), finished=lambda *_: False,
    )  # fmt: skip


def test_exact_rows_feed_a_state_among_the_others_not_after_them(hybrid, prompt, plan, error):
    """In order of position the state is stock's to rounding; with the exact rows last it is far off."""
    planned, exact = plan(65, SCATTERED), run_exact(hybrid, prompt(65), keep=[4])
    block = hybrid.decoder.layers[4].linear_attn
    for order, right in ((torch.arange(65), True), (torch.cat([planned.filled, planned.exact]), False)):
        cache = hybrid.new_cache(65)
        states = view(cache, hybrid.rows(torch.arange(65)), LINEAR)
        hybrid.rule.mix(block, hybrid.normed(4, exact.inputs[4][:, order]), torch.arange(45, 65), states)
        found = error(recurrent(cache, 4), recurrent(exact.cache, 4))
        assert found <= TOLERANCE if right else found > 1000 * TOLERANCE


@pytest.mark.parametrize(("tokens", "step"), [(20, 1), (41, 2), (65, 7), (65, 64), (130, 65)])
def test_a_prefill_in_chunks_is_the_stock_model_over_its_own_cache_bit_for_bit(
    hybrid, prompt, stored_by_stock, monkeypatch, tokens, step
):
    """Consecutive calls of ``run_layer`` carry keys, values and states as stock forward calls do.

    Attention takes its whole mask here, as the stock model's does; that parting it changes nothing but the rounding
    is what tests/core/test_visible.py and the next test are about.
    """
    monkeypatch.setattr(visible, "_parted", lambda *_: False)
    ids, cache, kept = prompt(tokens), hybrid.new_cache(tokens), None
    for begin in range(0, tokens, step):
        part = ids[:, begin : begin + step]
        stock = hybrid.model(part, use_cache=True, cache=kept)
        x, rows, kept = hybrid.embed(part), hybrid.rows(torch.arange(begin, begin + part.shape[1])), stock.cache
        for layer in range(hybrid.layers):
            x = hybrid.run_layer(layer, x, rows, cache)
        assert torch.equal(hybrid.logits(x), stock.logits)
    for layer in range(hybrid.layers):
        for ours, theirs in stored_by_stock(hybrid, cache, kept.layers[layer], layer, tokens).values():
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("step", [1, 7, 64])
def test_every_layer_gives_the_same_in_chunks_as_in_one_pass(hybrid, prompt, stored, error, step):
    """From the true inputs of each layer: outputs, keys, values and states."""
    whole, cache = run_exact(hybrid, prompt(65), keep=range(hybrid.layers)), hybrid.new_cache(65)
    rows = [hybrid.rows(part) for part in torch.arange(65).split(step)]
    for layer in range(hybrid.layers):
        out = hybrid.run_late(layer, whole.inputs[layer], rows, None, None, cache)
        assert error(out, whole.inputs.get(layer + 1, whole.hidden)) <= TOLERANCE
        found = stored(hybrid, cache, layer, 0, 65)
        for name, expected in stored(hybrid, whole.cache, layer, 0, 65).items():
            assert error(found[name], expected) <= TOLERANCE


@pytest.mark.parametrize("split", [3, 4])
def test_a_fill_may_come_in_pieces(hybrid, prompt, plan, error, split):
    """The late layers of a prompt run as two fills in turn, the second from the states the first left behind."""
    lower, positions = run_lower(hybrid, prompt(65), split), torch.arange(65)
    state, cache = lower.state, hybrid.new_cache(65)
    arm, planned = Arm("identity", "identity", split=split, tail=20), plan(65, [28, 29, *range(45, 65)])
    whole = run_late(hybrid, lower, planned, hybrid.block_input, arm)
    for filled, exact in ((positions[:28], positions[28:30]), (positions[30:45], positions[45:])):
        x, written = state[:, exact], hybrid.rows(filled, attend=False)
        for layer in range(split, hybrid.layers):
            predicted = hybrid.block_input(layer, state[:, filled])
            x = hybrid.run_late(layer, x, [hybrid.rows(exact)], predicted, written, cache)
    assert error(x, whole.hidden[:, 2:]) <= TOLERANCE
    assert error(recurrent(cache, 6), recurrent(whole.cache, 6)) <= TOLERANCE


def test_prompts_and_arms_decoded_together_are_as_each_alone(hybrid, prompt):
    """Exact, filled and empty caches of several lengths: states have no columns to hide, and are copied."""
    arms = [Arm("identity", "identity", split=4, tail=9), Arm("no_fill", "none", split=3, tail=9)]
    caches, hidden, lengths = [], [], []
    for tokens in (40, 33):
        exact = run_exact(hybrid, prompt(tokens), keep=[3, 4], capacity=tokens + 12)
        runs = [exact]
        for arm in arms:
            rows = plan_rows(arm, Context.around(hybrid, exact.lower(arm.split), 0), SHAPE)
            runs.append(run_late(hybrid, exact.lower(arm.split), rows, predictor(arm, {}, hybrid), arm))
        caches += [run.cache for run in runs]
        hidden += [run.hidden for run in runs]
        lengths += [tokens] * 3
    before = [recurrent(cache, 6).clone() for cache in caches]
    together = decode(hybrid, caches, hidden, lengths)
    assert all(torch.equal(old, recurrent(cache, 6)) for old, cache in zip(before, caches, strict=True))
    for place, made in enumerate(together):
        one = slice(place, place + 1)
        assert decode(hybrid, caches[one], hidden[one], lengths[one]) == [made]
    assert len({tuple(made) for made in together}) > 4


def test_rows_of_a_batch_are_as_each_alone(hybrid, prompt, plan, error):
    """Two prompts of one length through the fill path, recurrent and attention layers alike."""
    planned, arm = plan(65, SCATTERED), Arm("identity", "identity", split=3, tail=20)
    lowers = [run_lower(hybrid, prompt(65, seed), 3) for seed in (0, 1)]
    state = torch.cat([lower.state for lower in lowers])
    both = run_late(hybrid, replace(lowers[0], state=state), planned, hybrid.block_input, arm)
    for entry, lower in enumerate(lowers):
        alone = run_late(hybrid, lower, planned, hybrid.block_input, arm)
        assert error(both.hidden[entry], alone.hidden[0]) <= TOLERANCE
        assert error(recurrent(both.cache, 6)[entry], recurrent(alone.cache, 6)[0]) <= TOLERANCE


def test_a_forgotten_row_is_caught(hybrid, prompt):
    """A plan that neither fills nor runs a row ends in a NumericsError: attention layers know their rows."""
    hole = RowPlan(torch.tensor([row for row in range(45) if row != 17]), torch.arange(45, 65), 20, 0, ())
    with pytest.raises(NumericsError, match="identity@3"):
        run_late(
            hybrid, run_lower(hybrid, prompt(65), 3), hole, hybrid.block_input,
            Arm("identity", "identity", split=3, tail=20),
        )  # fmt: skip


def test_without_a_fill_a_state_holds_the_exact_rows_only(hybrid, prompt):
    """Late states do not depend on the prefix: they are those of the exact rows run alone from an empty state."""
    arm, lower = Arm("no_fill", "none", split=4, tail=20), run_lower(hybrid, prompt(65), 4)
    changed = replace(lower, state=lower.state.clone())
    changed.state[:, :45] += 1.0
    rows = plan_rows(arm, Context.around(hybrid, lower, 0), SHAPE)
    found, again = (run_late(hybrid, one, rows, None, arm) for one in (lower, changed))
    assert torch.equal(found.hidden, again.hidden)
    alone = hybrid.new_cache(65)
    hybrid.run_layer(4, lower.state[:, 45:], hybrid.rows(torch.arange(45, 65)), alone)
    assert torch.equal(recurrent(alone, 4), recurrent(found.cache, 4))


@pytest.mark.parametrize("name", ["qwen3_5", "qwen3_next"])
def test_states_stay_in_fp32_in_a_bfloat16_model(name, prompt, plan):
    """Through the exact pass and through the fill; windows are of the model's type, as stock keeps them."""
    adapter = adapter_for(BUILT["FAMILIES"][name](torch.bfloat16))
    arm, lower = Arm("identity", "identity", split=4, tail=20), run_lower(adapter, prompt(65), 4)
    done = run_late(adapter, lower, plan(65, SCATTERED), adapter.block_input, arm)
    for cache, layer in ((lower.cache, 0), (done.cache, 6)):
        assert recurrent(cache, layer).dtype == torch.float32
        assert cache.state(layer).conv_states[0].dtype == torch.bfloat16


@pytest.mark.parametrize("field", ["linear_value_head_dim", "linear_num_value_heads", "linear_conv_kernel_dim"])
def test_maps_for_another_geometry_of_states_are_refused_by_name(hybrid, field):
    """The fingerprint carries the heads of the recurrent layers and which layers those are."""
    assert hybrid.fingerprint["layer_types"] == ([LINEAR] * 3 + ["attention"]) * 2
    other = copy.deepcopy(hybrid.model.config)
    setattr(other, field, 2 * getattr(other, field))
    theirs = adapter_for(type(hybrid.model)(other)).fingerprint
    with pytest.raises(MapError, match=field):
        require_match(theirs, hybrid.fingerprint, "maps")


def test_the_text_part_of_a_model_that_sees_images_is_the_text_model(prompt):
    """Bit for bit, from token ids alone."""
    text = BUILT["FAMILIES"]["qwen3_5"]()
    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 32}
    config = Qwen3_5Config(text_config=text.config.to_dict(), vision_config=vision)
    model = Qwen3_5ForConditionalGeneration(config).eval()
    model.model.language_model.load_state_dict(text.model.state_dict())
    model.lm_head.load_state_dict(text.lm_head.state_dict())
    adapter = adapter_for(model)
    done = run_exact(adapter, prompt(65))
    assert torch.equal(adapter.logits(done.hidden), model(prompt(65)).logits)
    assert torch.equal(adapter.logits(done.hidden), text(prompt(65)).logits)
    assert adapter.fingerprint == adapter_for(text).fingerprint
