"""The capture: pieces of text in, the moments of exactly those rows out."""

import runpy
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.capture import capture, capture_lengths, pieces
from ridgefill.errors import NumericsError, TextError
from ridgefill.models.llama import LlamaAdapter

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "regression.py"))
SPLITS = (2, 4)


def stock_inputs(model, ids):
    """Layer inputs of the stock model, by hooks: ``[tokens, 32]`` each."""
    seen = {}
    hooks = [
        block.register_forward_pre_hook(lambda _, args, layer=layer: seen.__setitem__(layer, args[0][0]))
        for layer, block in enumerate(model.model.layers)
    ]
    model(torch.tensor([ids]))
    for hook in hooks:
        hook.remove()
    return seen


@pytest.mark.parametrize("stride", [1, 3])
def test_a_chunked_capture_equals_the_stock_activations_at_once(tiny, adapter, prompt, stride):
    """All pieces' rows stored, then reduced in fp64 in one go: the same means, Grams and cross-moments."""
    texts = [prompt(tokens, seed)[0].tolist() for seed, tokens in enumerate((40, 7, 33, 1, 64))]
    done = []
    found = capture(adapter, texts, SPLITS, stride=stride, progress=done.append)
    assert done == [len(ids) for ids in texts]
    stored = {layer: [] for layer in range(6)}
    for ids in texts:
        for layer, x in stock_inputs(tiny(), ids).items():
            stored[layer].append(x[::stride])
    rows = {layer: torch.cat(parts) for layer, parts in stored.items()}
    assert found.rows == len(rows[0])
    assert found.splits == SPLITS
    for split in SPLITS:
        for place, layer in enumerate(range(split + 1, 6)):
            mx, my, gram, cross, total = NAIVE["moments"](rows[split], rows[layer])
            torch.testing.assert_close(found.mean[split], mx, rtol=0, atol=1e-6)
            torch.testing.assert_close(found.mean[layer], my, rtol=0, atol=1e-6)
            assert float((found.gram[split] - gram).abs().max() / gram.abs().max()) < 1e-6
            block = found.cross[split][:, 32 * place : 32 * (place + 1)]
            assert float((block - cross).abs().max() / cross.abs().max()) < 1e-6
            assert float(found.scatter[layer]) == pytest.approx(total, rel=1e-6)


def test_one_pass_gives_the_moments_of_the_first_tokens_too(adapter, prompt):
    """Each length by itself is a capture of the first pieces that hold it; together they are the whole."""
    texts = [prompt(tokens, seed)[0].tolist() for seed, tokens in enumerate((40, 30, 33, 41, 64))]
    done = []
    found = capture_lengths(adapter, texts, SPLITS, [71, 40], progress=done.append)
    assert done == [len(ids) for ids in texts]
    assert {length: one.rows for length, one in found.items()} == {40: 40, 71: 103, None: 208}
    for length, count in ((40, 1), (71, 3), (None, 5)):
        alone = capture(adapter, texts[:count], SPLITS)
        for split in SPLITS:
            torch.testing.assert_close(found[length].gram[split], alone.gram[split], rtol=1e-5, atol=1e-4)
            torch.testing.assert_close(found[length].cross[split], alone.cross[split], rtol=1e-5, atol=1e-4)
            torch.testing.assert_close(found[length].mean[split], alone.mean[split], rtol=0, atol=1e-6)


def test_a_length_that_takes_all_tokens_is_refused(adapter, prompt):
    """Nothing would be left for the maps fitted on all of them."""
    with pytest.raises(TextError, match="no text"):
        capture_lengths(adapter, [prompt(40, 1)[0].tolist()], SPLITS, [40])


@given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=6),
    chunk=st.integers(1, 25),
    share=st.floats(0.0, 1.0),
)
def test_pieces_give_exactly_the_tokens_asked_for(lengths, chunk, share):
    """Property: no token twice, none moved between texts, no piece too long, and the total is what was
    asked for.
    """
    texts = [(str(name), [100 * name + place for place in range(size)]) for name, size in enumerate(lengths)]
    usable = sum(sum(len(piece) for piece in rounds(ids, chunk)) for _, ids in texts)
    wanted = round(share * usable)
    made = list(pieces(texts, chunk, wanted))
    flat = [token for piece in made for token in piece]
    assert len(flat) == len(set(flat)) == wanted
    for piece in made:
        assert 0 < len(piece) <= chunk
        assert piece == list(range(piece[0], piece[0] + len(piece)))
        assert piece[0] % 100 % chunk == 0


def rounds(ids, chunk):
    cut = [ids[begin : begin + chunk] for begin in range(0, len(ids), chunk)]
    return [piece for place, piece in enumerate(cut) if place == 0 or len(piece) >= chunk // 2]


def test_a_small_budget_sees_every_text():
    """Pieces come in turns: one of each text before the second of any; a short rest is dropped."""
    texts = [("a", list(range(25))), ("b", list(range(100, 108))), ("c", list(range(200, 216)))]
    firsts = [piece[0] for piece in pieces(texts, 8, 24)]
    assert firsts == [0, 100, 200]
    assert [piece[0] for piece in pieces(texts, 8, 48)] == [0, 100, 200, 8, 208, 16]


def test_a_mark_opens_every_piece_and_counts():
    """Pieces are as long as without one, so that much less of the text fits."""
    made = list(pieces([("a", list(range(10, 40)))], 8, 20, opening=[1, 2]))
    assert made == [[1, 2, *range(10, 16)], [1, 2, *range(16, 22)], [1, 2, 22, 23]]


def test_empty_texts_are_refused_by_name():
    """Also when the tokens of the others would have been enough."""
    with pytest.raises(TextError, match="text b is empty"):
        list(pieces([("a", [1, 2, 3]), ("b", [])], 4, 2))


def test_too_little_text_is_refused_with_both_numbers():
    """What there is, what was asked for."""
    with pytest.raises(TextError, match="hold 7 usable tokens; 9 were asked for"):
        list(pieces([("a", [1, 2, 3]), ("b", [4, 5, 6, 7])], 4, 9))


def test_a_capture_of_nothing_is_refused(adapter):
    """No piece at all is a TextError."""
    with pytest.raises(TextError, match="no text"):
        capture(adapter, [], SPLITS)


def test_a_capture_of_broken_weights_is_refused(tiny, prompt):
    """A NaN anywhere in the layers ends the capture with a NumericsError, not with moments."""
    for place in (1, 5):
        broken = type(tiny())(tiny().config)
        broken.load_state_dict(tiny().state_dict())
        broken.model.layers[place].self_attn.v_proj.weight[0, 0] = float("nan")
        with pytest.raises(NumericsError):
            capture(LlamaAdapter(broken), [prompt(9)[0].tolist()], SPLITS)
