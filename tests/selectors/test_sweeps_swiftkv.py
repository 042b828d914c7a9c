"""Two sweeps on a SwiftKV checkpoint, whose exact rows may write every late layer as soon as they meet the first."""

import runpy
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from ridgefill.arms import Arm
from ridgefill.fill import run_late
from ridgefill.models.llama_swiftkv import LlamaSwiftKVAdapter
from ridgefill.models.swiftkv import load_swiftkv
from ridgefill.passes import run_lower
from ridgefill.rows import planned
from ridgefill.selectors.context import Context
from ridgefill.selectors.sweeps import two_sweeps

FILES = runpy.run_path(str(Path(__file__).parents[1] / "families" / "swiftkv_checkpoint.py"))


@dataclass(frozen=True)
class Best:
    """The ten rows that a probe ranks highest."""

    def rows(self, context):
        return tuple(sorted(context.probe(12)[:10]))


@pytest.mark.parametrize("exact_rows", ["swiftkv", "original"])
def test_two_sweeps_are_one_sweep_with_the_same_rows(tmp_path, error, exact_rows):
    """Under the model's own rule and with exact rows of the original layers."""
    model = load_swiftkv(FILES["write"](tmp_path / "model", FILES["random_weights"](1)), torch.float32)
    adapter, split = LlamaSwiftKVAdapter(model, exact_rows), FILES["SPLIT"]
    ids = torch.randint(0, FILES["VOCABULARY"], (1, 90), generator=torch.Generator().manual_seed(1))
    arm, lower = Arm("swiftkv", "identity", split=split, tail=30), run_lower(adapter, ids, split)
    context = Context(tuple(ids[0].tolist()), 60, adapter=adapter, lower=lower)
    done = two_sweeps(adapter, context, adapter.block_input, Best(), arm)
    plan = planned(90, 60, done.plan.selected, adapter.device)
    once = run_late(adapter, lower, plan, adapter.block_input, arm)
    assert len(done.plan.selected) == 10
    # The same numbers from products of other sizes, relative to the largest.
    assert error(done.filled.hidden, once.hidden) <= 1e-5
