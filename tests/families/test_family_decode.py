"""Decoding on top of a prefill, for every family: the tokens and step logits of the stock model."""

import pytest
import torch

from ridgefill.arms import Arm
from ridgefill.decode import decode_greedy
from ridgefill.fill import oracle, run_late
from ridgefill.passes import run_exact

WINDOW, NEW = 24, 30
NOWHERE = 1000  # a token id beyond the vocabulary, so that nothing ends early
# Products of two entries at once, and sums over rows of which a mask hides some, are taken in another order. Steps read
# what earlier steps wrote, so roundings add up; the first ones are held to METHOD's bound, the tokens of all compared.
TOLERANCE, STEPS = 1e-5, 8


def heard(adapter, monkeypatch):
    """The logits of every step that ``adapter`` decodes from here on, in order, each ``[B, vocabulary]``."""
    steps, plain = [], adapter.logits

    def listen(x):
        steps.append(plain(x)[:, -1])
        return plain(x)

    monkeypatch.setattr(adapter, "logits", listen)
    return steps


def stock_steps(model, ids):
    """Greedy tokens ``[B, NEW]`` and the logits of every step, by the stock model's own ``generate``."""
    made = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=NEW,
        do_sample=False,
        pad_token_id=0,
        eos_token_id=NOWHERE,
        output_logits=True,
        return_dict_in_generate=True,
    )
    return made.sequences[:, ids.shape[1] :], torch.stack(made.logits)


def decode(adapter, caches, first, lengths):
    return decode_greedy(
        adapter, caches, first, prompt_tokens=lengths, new_tokens=NEW, stop_ids=(), finished=lambda *_: False
    )


@pytest.mark.parametrize("tokens", [1, 2, WINDOW - 1, WINDOW, 65])
def test_decoding_from_the_exact_cache_is_stock_generate(case, prompt, error, monkeypatch, tokens):
    """The same greedy tokens as ``generate``, and the logits of every step within rounding; windows fill on the way."""
    one, ids = case(), prompt(tokens)
    made, logits = stock_steps(one.model, ids)
    done = run_exact(one.adapter, ids, capacity=tokens + NEW)
    steps = heard(one.adapter, monkeypatch)
    first = one.adapter.logits(done.hidden[:, -1:])[:, 0]
    assert decode(one.adapter, [done.cache], first, [tokens]) == made.tolist()
    for found, expected in zip(steps, logits, strict=True):
        assert error(found, expected) <= TOLERANCE
    assert error(logits[-1], logits[0]) > 1000 * TOLERANCE


def test_decoding_in_bfloat16_is_stock_generate(case, prompt):
    """The same greedy tokens where a step runs the same products."""
    one, ids = case(torch.bfloat16), prompt(65)
    done = run_exact(one.adapter, ids, capacity=65 + NEW)
    first = one.adapter.logits(done.hidden[:, -1:])[:, 0]
    assert decode(one.adapter, [done.cache], first, [65]) == stock_steps(one.model, ids)[0].tolist()


def test_decoding_after_an_oracle_fill_is_stock_generate(case, prompt, plan, error, monkeypatch):
    """Filled rows that hold the truth continue as the stock model does, rows that no window reaches being absent."""
    one, ids, tokens = case(), prompt(90), 90
    exact = run_exact(one.adapter, ids, capacity=tokens + NEW, keep=range(one.adapter.layers))
    planned = plan(tokens, range(70, tokens))
    arm = Arm("ridgefill", "ridge", split=one.split, tail=20)
    truth = oracle(one.adapter, exact.inputs, planned.filled)
    done = run_late(one.adapter, exact.lower(one.split), planned, truth, arm)
    made, logits = stock_steps(one.model, ids)
    steps = heard(one.adapter, monkeypatch)
    first = one.adapter.logits(done.hidden[:, -1:])[:, 0]
    assert decode(one.adapter, [done.cache], first, [tokens]) == made.tolist()
    for found, expected in zip(steps, logits, strict=True):
        assert error(found, expected) <= TOLERANCE


@pytest.mark.parametrize("lengths", [(65, 40), (30, 9), (48, 47)])
def test_two_prompts_with_left_padding_decode_as_each_alone(case, prompt, error, monkeypatch, lengths):
    """One batch, the shorter prompt moved to the right: each entry's tokens and step logits are its own."""
    one = case()
    prompts = [prompt(tokens, seed) for seed, tokens in enumerate(lengths, 1)]
    alone = [run_exact(one.adapter, ids, capacity=tokens + NEW) for ids, tokens in zip(prompts, lengths, strict=True)]
    first = torch.cat([one.adapter.logits(done.hidden[:, -1:])[:, 0] for done in alone])
    steps = heard(one.adapter, monkeypatch)
    together = decode(one.adapter, [done.cache for done in alone], first, lengths)
    for entry, ids in enumerate(prompts):
        made, logits = stock_steps(one.model, ids)
        assert [together[entry]] == made.tolist()
        for found, expected in list(zip(steps, logits[1:], strict=True))[:STEPS]:
            assert error(found[entry], expected[0]) <= TOLERANCE
