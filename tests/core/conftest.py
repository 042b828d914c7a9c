"""Tiny random Llama models: everything the method does, in milliseconds."""

import functools

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from ridgefill.cost import Geometry
from ridgefill.maps import RidgeMaps
from ridgefill.models.llama import LlamaAdapter

VOCABULARY = 97


@functools.cache
def _model(layers, dtype):
    torch.manual_seed(layers)
    config = LlamaConfig(
        num_hidden_layers=layers,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=VOCABULARY,
        max_position_embeddings=512,
        # Wide enough that attention is far from uniform; with the default 0.02 a wrong mask hardly shows.
        initializer_range=0.2,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    return LlamaForCausalLM(config).to(dtype).eval()


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield


@pytest.fixture(scope="session")
def tiny():
    """``tiny(layers, dtype)``: a stock model with seeded random weights, the same object every time."""
    return lambda layers=6, dtype=torch.float32: _model(layers, dtype)


@pytest.fixture(scope="session")
def adapt(tiny):
    """``adapt(layers, dtype)``: the adapter around ``tiny``."""
    return lambda layers=6, dtype=torch.float32: LlamaAdapter(tiny(layers, dtype))


@pytest.fixture
def adapter(adapt):
    """Six layers in fp32."""
    return adapt()


@pytest.fixture
def geometry(adapter):
    """The cost model's view of the six-layer model."""
    return Geometry(layers=adapter.layers, hidden=32, q=32, kv=16, ff=64)


@pytest.fixture(scope="session")
def prompt():
    """``prompt(tokens, seed)``: random token ids ``[1, tokens]``."""

    def make(tokens, seed=0):
        generator = torch.Generator().manual_seed(1000 * seed + tokens)
        return torch.randint(0, VOCABULARY, (1, tokens), generator=generator)

    return make


@pytest.fixture(scope="session")
def random_maps():
    """``random_maps(split, layers)``: dense maps with offsets, far from the identity."""

    def make(split, layers=6, width=32):
        generator = torch.Generator().manual_seed(split)
        late = range(split, layers)
        return RidgeMaps(
            split,
            {layer: torch.randn(width, width, generator=generator) * width**-0.5 for layer in late},
            {layer: torch.randn(width, generator=generator) * 0.1 for layer in late},
        )

    return make
