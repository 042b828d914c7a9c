"""Training in miniature: it learns, a seed decides it, and stopping it changes nothing."""

import runpy
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
import torch

from ridgefill.errors import ModelError
from ridgefill.hybrid.batches import stage_of, training_batch
from ridgefill.hybrid.network import remembering, untrained
from ridgefill.hybrid.optimizers import Optimizers, rate_factor
from ridgefill.hybrid.passes import convolve
from ridgefill.hybrid.training import one_step, train

toy = runpy.run_path(str(Path(__file__).with_name("toy.py")))["toy"]
TOY = toy()


@pytest.fixture(autouse=True)
def one_thread():
    """Sums in one order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trained(folder, hybrid=TOY, **options):
    seen = []
    network, progress = train(hybrid, folder / "toy.safetensors", 3, seen.append, **options)
    return network.state_dict(), progress, seen


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


def test_a_few_steps_lower_the_loss(tmp_path):
    """From the level of a guess, for answers and for the rest, on forced and whole episodes."""
    _, progress, seen = trained(tmp_path)
    assert progress.step == TOY.steps == len(seen)
    assert [step.step for step in seen] == list(range(TOY.steps))
    for part in ("answers", "rest"):
        losses = [getattr(step, part) for step in seen]
        assert fmean(losses[-5:]) < fmean(losses[:5]) - 0.5
    assert any(step.forced is not None for step in seen)
    assert any(step.whole is not None for step in seen)


def test_stopped_and_resumed_is_the_same_to_the_bit(tmp_path):
    """Whether at a training checkpoint or between two: weights and steps are those of one uninterrupted run."""
    whole, _, steps = trained(tmp_path / "whole", until=12)
    trained(tmp_path / "parts", until=7)
    weights, progress, rest = trained(tmp_path / "parts", until=12)
    assert same(whole, weights)
    assert progress.step == 12
    assert [replace(one, seconds=0) for one in rest] == [replace(one, seconds=0) for one in steps[7:]]


def test_a_seed_decides(tmp_path):
    """The same seed gives the same weights and another one others."""
    first, _, _ = trained(tmp_path / "a", until=4)
    again, _, _ = trained(tmp_path / "b", until=4)
    other, _, _ = trained(tmp_path / "c", hybrid=toy(seed=4), until=4)
    assert same(first, again)
    assert not same(first, other)


def test_a_training_checkpoint_of_other_settings_is_refused(tmp_path):
    """So is one that cannot be read; each in a sentence that names the file."""
    trained(tmp_path, until=1)
    with pytest.raises(ModelError, match="other settings"):
        trained(tmp_path, hybrid=toy(seed=4))
    (tmp_path / "toy.safetensors").write_bytes(b"nothing")
    with pytest.raises(ModelError, match="could not be read"):
        trained(tmp_path)


def test_forcing_takes_gradients_from_what_it_cuts():
    """With everything of the prefix cut, no gradient of an answer's loss goes through the prefix.

    Convolutions, which look three rows back across the question as they do in use, are made to look at their own row.
    """
    everything = toy(
        forcing={"attention": [3, 7], "states": [0, 1, 2, 4, 5, 6]},
        optimizer={**TOY.optimizer.model_dump(), "rest": 0.0},
        stages=[{**TOY.stages[0].model_dump(), "forced": 1.0}],
    )
    network = untrained(everything)
    with torch.no_grad():
        for layer in everything.network.states:
            network.model.layers[layer].linear_attn.conv1d.weight[..., :-1] = 0
    batch = training_batch(everything, 0)
    reached = []

    def note(module, inputs, output):
        output.retain_grad()
        reached.append(output)

    network.model.embed_tokens.register_forward_hook(note)
    optimizers = Optimizers(network, everything.optimizer)
    one_step(everything, network, optimizers, 0)
    gradient = reached[0].grad.abs().sum(-1)
    for row, start in enumerate(batch.start.tolist()):
        # Decays of rows before a reset cancel in sums of fp32.
        assert gradient[row, :start].max() < 1e-6 * gradient[row, start:].max()


def test_the_loss_counts_answers_and_what_can_be_foreseen():
    """Digits of answers, and everything else but other numbers and padding."""
    batch = training_batch(TOY, 2)
    assert not (batch.answers & batch.rest).any()
    following = batch.ids[:, 1:]
    digits = (following >= 8) & (following < 18)
    assert digits[batch.answers].all()
    assert not digits[batch.rest].any()
    assert (following[~batch.answers & ~batch.rest & ~digits] == 0).all()


def test_batches_follow_the_curriculum():
    """Stage by stage, of about so many tokens."""
    assert stage_of(TOY, 35) is TOY.stages[0]
    assert stage_of(TOY, 36) is TOY.stages[1]
    assert all(training_batch(TOY, step).ids.shape == (4, 64) for step in range(3))
    assert {training_batch(TOY, step).ids.shape[1] for step in range(36, 60)} == {64, 96}


def test_rates_rise_stay_and_fall():
    """Up over the warm-up, flat, down to nothing over the last part."""
    factors = [rate_factor(TOY.optimizer, step, 20) for step in range(20)]
    assert factors[:3] == pytest.approx([1 / 3, 2 / 3, 1])
    assert factors[3:14] == [1] * 11
    assert factors[14:] == pytest.approx([1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])


def test_a_head_starts_with_the_half_life_it_was_given():
    """The decay that a bias means, halved so many rows later."""
    bias = remembering((4, 1000), 3)
    left = torch.exp(-torch.nn.functional.softplus(bias.double()))
    assert (left ** torch.tensor([4, 1000**0.5 * 2, 1000]).double()).tolist() == pytest.approx([0.5] * 3, rel=1e-3)


def test_paired_layers_begin_by_finding_what_followed_a_row():
    """Before training: a row like an earlier one reads the value of the row after that, and nothing like the others.

    Without noise, every weight but the pairs drawn as usual; the last row repeats the third, and the fourth is found.
    """
    data = TOY.model_dump(mode="json")
    data["network"]["recurrent"] |= {"late_pairs": 1e-9, "key_dim": 64, "late_half_lives": [1e6, 1e6]}
    block = untrained(toy(network=data["network"])).model.layers[4].linear_attn
    rows = torch.randn(1, 10, 32, generator=torch.Generator().manual_seed(1))
    rows[0, -1] = rows[0, 2]
    mixed = torch.nn.functional.silu(convolve(block.in_proj_qkv(rows), block.conv1d.weight))[0].detach()
    query, key, _ = mixed.split([block.key_dim, block.key_dim, block.value_dim], -1)
    near = torch.nn.functional.cosine_similarity(query[-1:], key)
    assert int(near.argmax()) == 3
    assert float(near[3]) == pytest.approx(1, abs=1e-5)
    assert float(near[1:3].max()) < 0.9
    assert float(near[4:9].max()) < 0.9
