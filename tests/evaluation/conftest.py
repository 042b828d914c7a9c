"""Tokenizers and tiny models for evaluations: one with a real chat template, one with a token for each character."""

import runpy
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import pytest
import torch
from transformers import AutoTokenizer

from ridgefill.maps import RidgeMaps

TESTS = Path(__file__).parents[1]
MATERIAL = runpy.run_path(str(TESTS / "end_to_end" / "material.py"))


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield


@pytest.fixture(scope="session")
def chatty(tmp_path_factory):
    """A byte-level tokenizer with a chat template, and a token that a user added."""
    folder = tmp_path_factory.mktemp("tokenizer")
    MATERIAL["write_tokenizer"](folder, extra=("7up",))
    return AutoTokenizer.from_pretrained(folder)


class Characters:
    """One token for each printable character, and one for a line break; ``~`` ends an answer."""

    bos_token_id, bos_token, unk_token_id, chat_template = None, None, None, None
    eos_token_id, all_special_ids = 94, (94,)
    added_tokens_decoder = MappingProxyType({94: SimpleNamespace(special=True)})

    def __call__(self, text, **_):
        ids = [95 if char == "\n" else ord(char) - 32 for char in text]
        return {"input_ids": ids, "offset_mapping": [(place, place + 1) for place in range(len(ids))]}

    def decode(self, ids, skip_special_tokens=False, **_):
        kept = [token for token in ids if token != 94 or not skip_special_tokens]
        return "".join("\n" if token == 95 else chr(token + 32) if token < 95 else "?" for token in kept)


@pytest.fixture(scope="session")
def characters():
    """``Characters``, whose 96 ids the tiny models know."""
    return Characters()


@pytest.fixture(scope="session")
def random_maps():
    """``random_maps(adapter, split)``: dense maps with offsets, far from the identity."""

    def make(adapter, split):
        generator = torch.Generator().manual_seed(split)
        late, shape = range(split, adapter.layers), (adapter.hidden, adapter.width)
        return RidgeMaps(
            split,
            {layer: torch.randn(shape, generator=generator) * shape[1] ** -0.5 for layer in late},
            {layer: torch.randn(shape[0], generator=generator) * 0.1 for layer in late},
        )

    return make


@pytest.fixture(scope="session")
def error():
    """``error(found, expected)``: largest difference in units of the largest expected value."""

    def measure(found, expected):
        found, expected = torch.as_tensor(found).double(), torch.as_tensor(expected).double()
        return float((found - expected).abs().max() / expected.abs().max())

    return measure
