"""Masks that let attention skip what every row sees: the outcome is that of the plain mask, whatever the rows."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as attention

from ridgefill.models import visible
from ridgefill.models.base import causal_mask
from ridgefill.models.visible import VisibleKeys

SCATTERED = [3, 4, 9, 17, 18, 30, 31]


def tensors(heads, kv_heads, rows, keys, dtype=torch.float32, seed=0):
    """Queries, and keys and values repeated for the heads that share them, as stock modules hand them over."""
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(1, heads, rows, 16, generator=generator).to(dtype)
    key, value = (
        torch.randn(1, kv_heads, keys, 16, generator=generator).to(dtype).repeat_interleave(heads // kv_heads, dim=1)
        for _ in range(2)
    )
    return query, key, value


def naive(query, key, value, mask):
    """Attention written out in fp64."""
    scores = query.double() @ key.double().transpose(-1, -2) / query.shape[-1] ** 0.5
    return scores.masked_fill(~torch.Tensor.as_subclass(mask, torch.Tensor), float("-inf")).softmax(-1) @ value.double()


def masked(positions, begin, groups):
    positions = torch.tensor(positions)
    stop, first = int(positions[-1]) + 1, int(positions[0])
    contiguous = stop - first == len(positions)
    return VisibleKeys.of(causal_mask(positions, begin, stop), first - begin, contiguous, groups)


@pytest.mark.parametrize("positions", [list(range(20, 32)), SCATTERED, [31], list(range(32))], ids=str)
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (3, 1)])
@pytest.mark.parametrize("begin", [0, 2])
def test_two_parts_merged_are_attention_under_the_whole_mask(positions, heads, kv_heads, begin):
    """Against fp64 written out, for rows in one run and scattered ones, heads that share keys and a later first key."""
    positions = [place for place in positions if place >= begin]
    mask = masked(positions, begin, heads // kv_heads)
    given = tensors(heads, kv_heads, len(positions), mask.shape[-1])
    torch.testing.assert_close(attention(*given, attn_mask=mask).double(), naive(*given, mask), rtol=1e-5, atol=1e-6)


def test_the_unmasked_part_is_really_taken(monkeypatch):
    """Otherwise the tests above would compare a plain mask with itself."""
    calls = []
    monkeypatch.setattr(visible, "_attend", lambda *given: calls.append(given) or given[0])
    mask = masked(list(range(20, 32)), 0, 1)
    attention(*tensors(2, 2, 12, 32), attn_mask=mask)
    assert len(calls) == 1


def test_a_scale_is_obeyed():
    """Stock modules pass their own."""
    mask, given = masked(list(range(20, 32)), 0, 1), tensors(2, 2, 12, 32)
    plain = mask.as_subclass(torch.Tensor)
    torch.testing.assert_close(
        attention(*given, attn_mask=mask, scale=0.7), attention(*given, attn_mask=plain, scale=0.7)
    )


@pytest.mark.parametrize("given", [{"dropout_p": 0.5}, {"enable_gqa": True}])
def test_calls_that_cannot_be_parted_go_to_the_stock_kernel(monkeypatch, given):
    """Dropout, and keys that are not repeated."""
    monkeypatch.setattr(visible, "_attend", lambda *_: pytest.fail("parted"))
    mask = masked(list(range(20, 32)), 0, 1)
    assert attention(*tensors(2, 2, 12, 32), attn_mask=mask, **given).shape == (1, 2, 12, 16)


def test_an_unwritten_key_is_not_hidden_by_the_merge():
    """A NaN in a visible row has to reach the output, as it does under a plain mask."""
    mask = masked(list(range(20, 32)), 0, 1)
    query, key, value = tensors(2, 2, 12, 32)
    key[:, :, 5] = float("nan")
    assert attention(query, key, value, attn_mask=mask).isnan().all()


def test_smaller_types_go_to_the_stock_kernel():
    """Two roundings instead of one would double the error of a part."""
    mask, given = masked(list(range(100, 164)), 0, 2), tensors(4, 2, 64, 164, torch.bfloat16)
    assert torch.equal(attention(*given, attn_mask=mask), attention(*given, attn_mask=mask.as_subclass(torch.Tensor)))


def test_anything_but_attention_sees_a_plain_tensor():
    """Selectors slice, invert and combine masks."""
    mask = masked(SCATTERED, 0, 1)
    for made in (~mask, mask[:, :, None], mask & True, mask.expand(2, -1, -1, -1)):
        assert type(made) is torch.Tensor
    assert bool((mask == causal_mask(torch.tensor(SCATTERED), 0, 32)).all())
