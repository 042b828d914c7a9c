"""What the tests of speed and serving share: tiny models, maps, a tokenizer for texts of numbers, scripted clocks.

Read with ``runpy``, as tests import nothing from each other.
"""

import functools
import runpy
from pathlib import Path

import torch

from ridgefill.cost import Geometry
from ridgefill.maps import RidgeMaps
from ridgefill.models.wrap import adapter_for

BUILT = runpy.run_path(str(Path(__file__).parents[1] / "families" / "builders.py"))
FAMILIES, SPLITS, VOCABULARY = BUILT["FAMILIES"], BUILT["SPLITS"], BUILT["VOCABULARY"]
LAYERS = 6
GEOMETRY = Geometry(layers=LAYERS, hidden=32, q=64, kv=16, ff=64)


@functools.cache
def adapter_of(family="llama"):
    """The adapter of a family's tiny model, the same object every time."""
    return adapter_for(FAMILIES[family](torch.float32))


def random_maps(adapter, split):
    """Dense maps with offsets, far from the identity."""
    generator = torch.Generator().manual_seed(split)
    late, shape = range(split, adapter.layers), (adapter.hidden, adapter.width)
    return RidgeMaps(
        split,
        {layer: torch.randn(shape, generator=generator) * shape[1] ** -0.5 for layer in late},
        {layer: torch.randn(shape[0], generator=generator) * 0.1 for layer in late},
    )


def prompt(tokens, seed=0):
    """Random token ids ``[1, tokens]``."""
    generator = torch.Generator().manual_seed(1000 * seed + tokens)
    return torch.randint(0, VOCABULARY, (1, tokens), generator=generator)


class Numbers:
    """A tokenizer for texts of numbers between blanks; a mark opens each text when one is given."""

    all_special_ids, added_tokens_decoder, unk_token_id = (), {}, None

    def __init__(self, mark=None):
        self.mark = self.bos_token_id = mark

    def decode(self, ids, **_):
        return " ".join(map(str, ids))

    def __call__(self, text, add_special_tokens=True, **_):
        ids, offsets, place = [], [], 0
        for word in text.split():
            begin = text.index(word, place)
            place = begin + len(word)
            ids.append(int(word) if word.isdigit() else 0)
            offsets.append((begin, place))
        if self.mark is not None and add_special_tokens:
            ids, offsets = [self.mark, *ids], [(0, 0), *offsets]
        return {"input_ids": ids, "offset_mapping": offsets}


class Script:
    """A clock that gives the moments of a list, one after the other."""

    def __init__(self, moments):
        self.moments, self.read = list(moments), 0

    def __call__(self):
        self.read += 1
        return self.moments[self.read - 1]


class Ticks:
    """A clock that is one second later at every look."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        self.now += 1
        return float(self.now)
