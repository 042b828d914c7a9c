"""The bounds that ranking by attention rests on (paper section 2.4), in arithmetic and in a model's own layer."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention
from transformers import LlamaConfig, LlamaForCausalLM

from ridgefill.models.wrap import adapter_for
from ridgefill.passes import run_exact

# fp64 through a softmax and a sum of at most 40 rows, relative to the largest value.
ROUNDING = 1e-12


def attend(query, keys, values, added=None):
    """Output ``[rows, width]`` of the kernel that the models use, in fp64; ``added`` to logits ``[rows, keys]``."""
    out = scaled_dot_product_attention(query[None], keys[None], values[None], attn_mask=added)
    return out[0]


def weights(query, keys):
    """Attention each query pays to each row, ``[rows, keys]``."""
    return (query @ keys.T / query.shape[1] ** 0.5).softmax(-1)


@st.composite
def heads(draw):
    """Queries, keys and values of one head, from even to very peaked attention, and one of the rows."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    rows, keys, width = draw(st.integers(1, 4)), draw(st.integers(1, 40)), draw(st.sampled_from([1, 4, 16]))
    scale = draw(st.sampled_from([0.01, 1.0, 10.0]))
    made = [torch.randn(n, width, generator=generator, dtype=torch.float64) for n in (rows, keys, keys)]
    return scale * made[0], made[1], draw(st.sampled_from([1e-3, 1.0, 1e3])) * made[2], draw(st.integers(0, keys - 1))


@given(heads(), st.integers(0, 2**31), st.sampled_from([1e-6, 1.0, 1e3]))
def test_a_value_change_moves_an_output_by_its_attention_times_the_change(head, seed, size):
    """Property: by exactly ``a_i dv``, to fp64 rounding, for every query."""
    query, keys, values, row = head
    change = size * torch.randn(values.shape[1], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    changed = values.clone()
    changed[row] += change
    moved = attend(query, keys, changed) - attend(query, keys, values)
    scale = float(values.abs().max() + change.abs().max())
    torch.testing.assert_close(moved, weights(query, keys)[:, row, None] * change, rtol=0, atol=ROUNDING * scale)


@given(heads(), st.floats(-6, 6))
def test_a_logit_change_moves_an_output_no_further_than_the_bound(head, change):
    """Property: by at most ``2 V a_i (exp(|e|) - 1)``, ``V`` the largest value norm attended to."""
    query, keys, values, row = head
    added = torch.zeros(query.shape[0], keys.shape[0], dtype=torch.float64)
    added[:, row] = change
    moved = (attend(query, keys, values, added) - attend(query, keys, values)).norm(dim=-1)
    largest = float(values.norm(dim=-1).max())
    bound = 2 * largest * weights(query, keys)[:, row] * torch.expm1(torch.tensor(abs(change)).double())
    assert bool((moved <= bound + ROUNDING * largest).all())


def test_the_logit_bound_is_within_a_factor_of_two_of_what_happens():
    """It is no idle one: two opposite values and a small change come to half of it."""
    query, keys = torch.zeros(1, 1, dtype=torch.float64), torch.zeros(1000, 1, dtype=torch.float64)
    values = -torch.ones(1000, 1, dtype=torch.float64)
    values[0] = 1.0
    added = torch.zeros(1, 1000, dtype=torch.float64)
    added[0, 0] = 1e-3
    moved = float((attend(query, keys, values, added) - attend(query, keys, values)).abs())
    assert moved / (2 * 1e-3 * torch.expm1(torch.tensor(1e-3)).item()) == pytest.approx(1.0, rel=0.01)


@pytest.fixture(scope="module")
def single():
    """A model with one head, so that attention received in a layer is that head's."""
    torch.manual_seed(3)
    config = LlamaConfig(
        num_hidden_layers=2, hidden_size=16, intermediate_size=16, num_attention_heads=1, num_key_value_heads=1,
        vocab_size=97, initializer_range=0.3, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return adapter_for(LlamaForCausalLM(config).double().eval())


@given(seed=st.integers(0, 10_000), tokens=st.integers(2, 40), layer=st.integers(0, 1), data=st.data())
def test_received_attention_is_what_a_changed_value_moves_the_layers_own_output_by(single, seed, tokens, layer, data):
    """Property: in the stock layer, before its output projection, ``attention_received`` times the change."""
    row = data.draw(st.integers(0, tokens - 2))
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 97, (1, tokens), generator=generator)
    change = torch.randn(16, generator=generator, dtype=torch.float64)
    with torch.inference_mode():
        exact = run_exact(single, ids, keep=(layer,))
        last = single.rows(torch.tensor([tokens - 1]))
        x = exact.inputs[layer][:, -1:]
        received = single.attention_received(layer, x, last, exact.cache)
        before = mixed(single, layer, x, last, exact.cache)
        exact.cache.values[layer][0, 0, row] += change
        moved = mixed(single, layer, x, last, exact.cache) - before
    # Softmax in fp32 is what the selector is defined by, so its weights are good to 1e-6.
    torch.testing.assert_close(moved, received[row].double() * change, rtol=1e-5, atol=1e-6)


def mixed(adapter, layer, x, rows, cache):
    """What goes into the layer's output projection, ``[width]``."""
    seen = []
    block = adapter.decoder.layers[layer].self_attn.o_proj
    hook = block.register_forward_pre_hook(lambda _, given: seen.append(given[0][0, 0]))
    try:
        adapter.run_layer(layer, x, rows, cache)
    finally:
        hook.remove()
    return seen[0]
