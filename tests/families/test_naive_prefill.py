"""Filled prefills and what is decoded from them, against the naive prefill that goes row by row in fp64."""

import runpy
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from ridgefill.arms import Arm
from ridgefill.decode import decode_greedy
from ridgefill.fill import predictor, run_late
from ridgefill.map_options import PLAIN
from ridgefill.maps import RidgeMaps
from ridgefill.passes import run_lower
from ridgefill.rows import plan_rows
from ridgefill.selectors.attention import AttentionRows
from ridgefill.selectors.context import Context
from ridgefill.selectors.controls import RandomRows

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "families.py"))["FAMILIES"]
TAIL, TOKENS, NEW = 12, 60, 6
# fp32 against fp64 through six layers, relative to the largest value.
TOLERANCE = 1e-5
ARMS = {
    "identity": Arm("identity", "identity", split=3, tail=TAIL),
    "ridgefill": Arm("ridgefill", "ridge", split=3, tail=TAIL),
    "ridgefill mapped": Arm("ridgefill", "ridge", split=2, tail=TAIL, split_layer="mapped"),
    "no_fill": Arm("no_fill", "none", split=3, tail=TAIL),
    "pop_native": Arm("pop_native", "identity", split=4, tail=1),
    "random rows": Arm("r", "ridge", split=3, tail=TAIL, rows=RandomRows(0.1)),
    "attention rows": Arm("a", "ridge", split=5, tail=TAIL, rows=AttentionRows(0.1)),
}


@dataclass(frozen=True)
class Truth:
    """The naive model and the inputs of every layer that it finds for the prompt."""

    model: object
    inputs: list


@pytest.fixture(scope="module")
def truths():
    return {}


@pytest.fixture
def truth(case, family, prompt, truths):
    """The family's ``Truth``, found once."""
    if family not in truths:
        model = NAIVE[family](case().model)
        truths[family] = Truth(model, model.run_exact(prompt(TOKENS)[0].tolist()))
    return truths[family]


def random_maps(split, layers=6, width=32):
    """Dense maps with offsets, far from the identity."""
    generator = torch.Generator().manual_seed(split)
    late = range(split, layers)
    return RidgeMaps(
        split,
        {layer: torch.randn(width, width, generator=generator) * width**-0.5 for layer in late},
        {layer: torch.randn(width, generator=generator) * 0.1 for layer in late},
    )


def close(found, expected):
    return float((found.double() - expected).abs().max()) <= TOLERANCE * float(expected.abs().max())


@pytest.mark.parametrize("family", NAIVE)
@pytest.mark.parametrize("name", ARMS)
def test_every_arm_equals_the_naive_prefill_and_decodes_as_it_does(case, prompt, truth, name):
    """Outputs of exact rows, every written row of every cache at its position, and the tokens that follow."""
    one, arm = case(), ARMS[name]
    adapter, maps = one.adapter, random_maps(arm.split)
    lower = run_lower(adapter, prompt(TOKENS), arm.split, capacity=TOKENS + NEW)
    plan = plan_rows(arm, Context.around(adapter, lower, 5), one.geometry)
    done = run_late(adapter, lower, plan, predictor(arm, {(arm.split, PLAIN): maps.predict}, adapter), arm)
    predict = {
        "none": None,
        "identity": lambda layer, state: state,
        "ridge": lambda layer, state: maps.weights[layer].double() @ state + maps.biases[layer].double(),
    }[arm.fill]
    outputs, caches = truth.model.run_filled(
        truth.inputs, arm.split, plan.exact.tolist(), predict, true_split_layer=arm.split_layer == "exact"
    )
    assert close(done.hidden[0], torch.stack([outputs[row] for row in plan.exact.tolist()]))
    for layer, rows in caches.items():
        # Rows that no exact row can see are not written here; the naive prefill writes them and never looks.
        first = adapter.first_needed(layer, int(plan.exact[0])) if layer >= arm.split else 0
        wanted = [row for row in sorted(rows) if row >= first]
        for place, store in enumerate((done.cache.keys, done.cache.values)):
            expected = torch.stack([rows[row][place] for row in wanted], dim=1)
            assert close(store[layer][0, :, wanted], expected)
    made = decode_greedy(
        adapter, [done.cache], adapter.logits(done.hidden[:, -1:])[:, 0],
        prompt_tokens=[TOKENS], new_tokens=NEW, stop_ids=(), finished=lambda *_: False,
    )  # fmt: skip
    assert made == [truth.model.decode(outputs[TOKENS - 1], caches, TOKENS, NEW)]
