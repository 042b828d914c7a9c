"""Who is asked for the next token: each entry by its own number, over several adapters and after others have ended."""

import runpy
from pathlib import Path

import torch

from ridgefill.evaluation.continuing import Reached, answers
from ridgefill.models.llama import LlamaAdapter
from ridgefill.passes import run_exact

BUILT = runpy.run_path(str(Path(__file__).parents[1] / "families" / "builders.py"))


def test_each_entry_is_asked_by_its_own_number():
    """Entries of two adapters in turn, of which some end early: each gets the tokens of its number, step by step."""
    adapters = [LlamaAdapter(BUILT["llama"]()), LlamaAdapter(BUILT["llama"]())]
    ids = torch.arange(12)[None]
    with torch.inference_mode():
        passes = [run_exact(adapters[place % 2], ids) for place in range(6)]
        reached = [Reached(adapters[place % 2], one.cache, one.hidden[:, -1:], 12) for place, one in enumerate(passes)]
        steps = dict.fromkeys(range(6), 0)

        def choose(entries, logits):
            for entry in entries:
                steps[entry] += 1
            # Entry i says 10 + i; the first three end after three times, which leaves one of the first adapter.
            ends = [entry in (0, 1, 2) and steps[entry] > 3 for entry in entries]
            return torch.tensor([0 if end else 10 + entry for entry, end in zip(entries, ends, strict=True)])

        said = answers(reached, 6, {0}, lambda *_: False, choose=choose)
    assert said == [[10] * 3, [11] * 3, [12] * 3, [13] * 6, [14] * 6, [15] * 6]
