"""The pass that training and ablations use: the stock model's numbers uncut, and a naive memory's when cut."""

import runpy
from pathlib import Path

import pytest
import torch

from ridgefill.hybrid.ablations import ablations, exactly_right
from ridgefill.hybrid.batches import collate
from ridgefill.hybrid.language import Task, held_out
from ridgefill.hybrid.network import untrained
from ridgefill.hybrid.passes import Cut, hidden_states
from ridgefill.hybrid.scan import gated_delta_rule

TESTS = Path(__file__).parents[1]
TOY = runpy.run_path(str(Path(__file__).with_name("toy.py")))["toy"]()
NAIVE = runpy.run_path(str(TESTS / "naive" / "hybrid.py"))
SCAN = runpy.run_path(str(TESTS / "naive" / "delta_rule.py"))
CUTS = ablations(TOY.network)
# fp32 against fp64 through eight layers, relative to the largest value.
TOLERANCE = 2e-5


@pytest.fixture(scope="module")
def network():
    """Random weights, norms moved from their neutral value."""
    made = untrained(TOY).eval()
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if "norm" in name:
                weight.add_(0.3 * torch.randn(weight.shape, generator=generator))
    return made


def close(found, expected):
    scale = expected.abs().max()
    assert (found.double() - expected.double()).abs().max() < TOLERANCE * scale


@torch.no_grad()
def test_uncut_it_is_the_stock_model(network):
    """Hidden states of a padded batch are those of the stock forward pass."""
    batch = collate([held_out(Task(length, 1, 1), 1, length) for length in (50, 64, 80)], [False] * 3)
    close(hidden_states(network, batch.ids), network.model(input_ids=batch.ids).last_hidden_state)


@torch.no_grad()
@pytest.mark.parametrize("cut", CUTS, ids=[cut.name for cut in CUTS])
def test_cut_it_is_a_naive_memory_with_that_part_emptied(network, cut):
    """Rows one at a time in fp64; at the question the cut layers' rows are deleted and states zeroed."""
    episodes = [held_out(Task(48, 1, 1), 2, 0), held_out(Task(44, 1, 1), 2, 1)]
    batch = collate(episodes, [True, True])
    found = hidden_states(network, batch.ids, Cut(cut.attention, cut.states, batch.start))
    naive = NAIVE["NaiveHybrid"](network)
    for row, one in enumerate(episodes):
        expected = by_rows(naive, one, cut)
        close(found[row, : len(one.pieces)], expected)


def by_rows(naive, one, cut):
    """Final hidden states of an episode, whose memories lose what ``cut`` names just before the question."""
    memories = [{} for _ in range(naive.layers)]
    states = []
    for row, token in enumerate(one.ids):
        if row == one.question:
            for layer in cut.attention:
                memories[layer]["rows"].clear()
            for layer in cut.states:
                memories[layer]["state"] = torch.zeros_like(memories[layer]["state"])
        x = naive.weights["model.embed_tokens.weight"][token]
        for layer in range(naive.layers):
            x = naive.step(layer, memories[layer], x, row)
        states.append(NAIVE["norm"](x, 1 + naive.weights["model.norm.weight"], naive.config.rms_norm_eps))
    return torch.stack(states)


@torch.no_grad()
def test_episodes_that_start_at_zero_lose_nothing(network):
    """One batch may hold cut and whole episodes."""
    batch = collate([held_out(Task(60, 1, 1), 3, index) for index in range(2)], [True, False])
    mixed = hidden_states(network, batch.ids, Cut((3, 7), TOY.network.states, batch.start * batch.forced))
    whole = hidden_states(network, batch.ids)
    close(mixed[1], whole[1])
    assert (mixed[0, batch.start[0] :] - whole[0, batch.start[0] :]).abs().max() > 0.01
    close(mixed[0, : batch.start[0]], whole[0, : batch.start[0]])


@pytest.mark.parametrize("length", [1, 15, 16, 17, 70])
def test_the_scan_is_the_rule_row_by_row(length):
    """Outputs and gradients in chunks against one row after another in fp64, with a forgetting row among them."""
    generator = torch.Generator().manual_seed(length)
    shapes = [(2, 3, length, 6), (2, 3, length, 6), (2, 3, length, 5), (2, 3, length), (2, 3, length)]
    query, key, value, decay, beta = (torch.randn(shape, generator=generator) for shape in shapes)
    key = torch.nn.functional.normalize(key, dim=-1)
    decay, beta = -decay.abs() * 0.3, beta.sigmoid()
    decay[1, :, length // 2] -= 40
    given = [part.requires_grad_() for part in (query, key, value, decay, beta)]
    wide = [part.detach().double().requires_grad_() for part in given]
    found, expected = gated_delta_rule(*given), SCAN["by_rows"](*wide)
    close(found, expected)
    weights = torch.randn(expected.shape, generator=generator)
    gradients = torch.autograd.grad((found * weights).sum(), given)
    true = torch.autograd.grad((expected * weights.double()).sum(), wide)
    for ours, theirs in zip(gradients, true, strict=True):
        assert (ours.double() - theirs).abs().max() < TOLERANCE * max(1.0, float(theirs.abs().max()))


@torch.no_grad()
def test_right_means_that_greedy_decoding_says_every_digit(network):
    """A network that says one prompt's text by heart is right there, whatever is cut, and wrong elsewhere."""
    episodes = [held_out(Task(48, 1, 1), 4, index) for index in range(3)]
    assert exactly_right(network, episodes, CUTS[0]) == [False] * 3

    class Told:
        """Hidden states and logits that say the next token of the first episode."""

        model = network.model

        @staticmethod
        def lm_head(hidden):
            logits = torch.zeros(*hidden.shape[:2], 400)
            for row in range(hidden.shape[0]):
                for place, token in enumerate(episodes[0].ids[1:]):
                    logits[row, place, token] = 1
            return logits

    assert exactly_right(Told, episodes, CUTS[-1]) == [True, False, False]
