"""Tiny models of every family with random maps, and the same fill done by the project's own decoding."""

import runpy
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast

from ridgefill.arms import Arm
from ridgefill.decode import decode_greedy
from ridgefill.fill import run_late
from ridgefill.generation.options import make_options, plan_prompt
from ridgefill.maps import RidgeMaps
from ridgefill.models.wrap import adapter_for
from ridgefill.passes import run_lower
from ridgefill.pretrained import RidgeFillMaps

BUILT = runpy.run_path(str(Path(__file__).parents[1] / "families" / "builders.py"))
TAIL, NEW = 20, 12


def pytest_generate_tests(metafunc):
    if "family" in metafunc.fixturenames:
        metafunc.parametrize("family", BUILT["FAMILIES"])


@pytest.fixture
def model_of():
    """``model_of(family, dtype)``: a stock model, the same object every time."""
    return lambda family="llama", dtype=torch.float32: BUILT["FAMILIES"][family](dtype)


@pytest.fixture
def maps_of():
    """``maps_of(model, split)``: dense random maps with offsets, far from the identity."""

    def make(model, split=None):
        adapter = adapter_for(model)
        split = split or BUILT["SPLITS"].get(adapter.fingerprint["family"], 3)
        generator = torch.Generator().manual_seed(split)
        late = range(split, adapter.layers)
        shape = (adapter.hidden, adapter.width)
        weights = {layer: torch.randn(shape, generator=generator) * shape[1] ** -0.5 for layer in late}
        biases = {layer: torch.randn(shape[0], generator=generator) * 0.1 for layer in late}
        return RidgeFillMaps(RidgeMaps(split, weights, biases), dict(adapter.fingerprint), {})

    return make


@pytest.fixture(scope="session")
def prompt():
    """``prompt(tokens, seed)``: random token ids ``[1, tokens]``."""

    def make(tokens, seed=0):
        generator = torch.Generator().manual_seed(1000 * seed + tokens)
        return torch.randint(0, BUILT["VOCABULARY"] - 1, (1, tokens), generator=generator)

    return make


@pytest.fixture
def own_decoding():
    """``own_decoding(model, maps, ids, ...)``: greedy tokens by ``decode_greedy`` on the same plan."""

    @torch.inference_mode()
    def decode(model, maps, ids, *, tail=TAIL, rows=None, split_layer="exact", new=NEW):
        adapter, tokens = adapter_for(model), ids.shape[1]
        choice = make_options(maps.split, tail=tail, rows=rows, fill=True, split_layer=split_layer, min_filled=1)
        lower = run_lower(adapter, ids, maps.split, capacity=tokens + new)
        arm = Arm("ridgefill", "ridge", split=maps.split, tail=tail, split_layer=split_layer)
        done = run_late(adapter, lower, plan_prompt(choice, adapter, lower, 1), maps.maps.predict, arm)
        logits = adapter.logits(done.hidden[:, -1:])[:, 0]
        options = {"new_tokens": new, "stop_ids": (), "finished": lambda *_: False}
        return decode_greedy(adapter, [done.cache], logits, prompt_tokens=[tokens], **options)[0]

    return decode


@pytest.fixture
def padded():
    """``padded(*prompts, columns=0)``: one left-padded batch of ``[1, n]`` prompts, and its attention mask."""

    def make(*prompts, columns=0):
        columns = max(columns, *(one.shape[1] for one in prompts))
        ids = torch.zeros(len(prompts), columns, dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for entry, one in enumerate(prompts):
            ids[entry, columns - one.shape[1] :] = one
            mask[entry, columns - one.shape[1] :] = 1
        return {"input_ids": ids, "attention_mask": mask}

    return make


@pytest.fixture
def greedy():
    """``greedy(model, new=NEW, **inputs)``: the new tokens of ``generate``, a list for each batch entry."""

    def generate(model, new=NEW, **inputs):
        inputs.setdefault("attention_mask", torch.ones_like(inputs["input_ids"]))
        options = {"max_new_tokens": new, "do_sample": False, "pad_token_id": 0} | inputs
        return model.generate(**options)[:, inputs["input_ids"].shape[1] :].tolist()

    return generate


@pytest.fixture(scope="session")
def tiny_tokenizer():
    """Words ``w0 .. w94`` to ids 2 .. 96, as many as the tiny models have, padding and unknown below."""
    words = {"<pad>": 0, "<unk>": 1} | {f"w{number}": number + 2 for number in range(BUILT["VOCABULARY"] - 2)}
    plain = Tokenizer(WordLevel(words, unk_token="<unk>"))
    plain.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=plain, pad_token="<pad>", unk_token="<unk>", eos_token="<unk>", padding_side="left"
    )


@pytest.fixture(scope="session")
def saved(tmp_path_factory, tiny_tokenizer):
    """Folders of a tiny model with its tokenizer, and of random maps for it (bf16): ``(model, maps)``."""
    folder = tmp_path_factory.mktemp("saved")
    model = BUILT["FAMILIES"]["llama"](torch.float32)
    model.save_pretrained(folder / "model")
    tiny_tokenizer.save_pretrained(folder / "model")
    adapter = adapter_for(model)
    generator = torch.Generator().manual_seed(3)
    weights = {layer: torch.randn(32, 32, generator=generator) * 32**-0.5 for layer in range(3, 6)}
    biases = {layer: torch.randn(32, generator=generator) * 0.1 for layer in range(3, 6)}
    maps = RidgeFillMaps(RidgeMaps(3, weights, biases), dict(adapter.fingerprint), {})
    maps.save_pretrained(folder / "maps")
    return folder / "model", folder / "maps"
