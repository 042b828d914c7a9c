"""Tiny random models with random maps, served by the engine's own interpreter in a process beside the tests."""

import json
import os
import select
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from ridgefill.maps import RidgeMaps
from ridgefill.models.wrap import adapter_for
from ridgefill.pretrained import RidgeFillMaps

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
LAYERS, SPLIT, HIDDEN, VOCABULARY = 6, 3, 64, 97
TAIL, LEAST = 40, 16
PATIENCE = 1800
"""Seconds for one answer: an engine starts in twenty, and machines are shared and stopped."""
COMMON = {
    "enforce_eager": True,
    "skip_tokenizer_init": True,
    "max_model_len": 1024,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 4096,
    "block_size": 32,
    "enable_prefix_caching": False,
    "kv_cache_memory_bytes": 1 << 27,
}
"""What every engine is told."""


def pytest_collection_modifyitems(config, items):
    """Tests with an engine take minutes; one process of a parallel run has all engines, so each is started once."""
    for item in items:
        if "engines" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
            if config.pluginmanager.hasplugin("xdist"):
                item.add_marker(pytest.mark.xdist_group("vllm"))


def random_model(family, configuration):
    """A model whose attention is far from uniform and whose best token stands out, as a trained model's does."""
    torch.manual_seed(5)
    config = configuration(
        num_hidden_layers=LAYERS,
        hidden_size=HIDDEN,
        intermediate_size=128,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        vocab_size=VOCABULARY,
        max_position_embeddings=1024,
        initializer_range=0.2,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    return family(config).eval()


def random_maps(model):
    """Random maps near the identity with offsets: what they predict differs from the truth, and tokens with it."""
    generator = torch.Generator().manual_seed(3)
    late = range(SPLIT, LAYERS)
    eye = torch.eye(HIDDEN)
    weights = {layer: eye + 0.5 * torch.randn(HIDDEN, HIDDEN, generator=generator) * HIDDEN**-0.5 for layer in late}
    biases = {layer: 0.2 * torch.randn(HIDDEN, generator=generator) for layer in late}
    return RidgeFillMaps(RidgeMaps(SPLIT, weights, biases), dict(adapter_for(model).fingerprint), {})


@pytest.fixture(scope="session")
def tiny():
    """A Llama model."""
    return random_model(LlamaForCausalLM, LlamaConfig)


@pytest.fixture(scope="session")
def normed():
    """A Qwen3 model whose norms of keys differ from head dimension to head dimension, as a trained model's do."""
    model = random_model(Qwen3ForCausalLM, Qwen3Config)
    generator = torch.Generator().manual_seed(9)
    for layer in model.model.layers:
        for norm in (layer.self_attn.q_norm, layer.self_attn.k_norm):
            norm.weight.data = 1 + 0.5 * torch.randn(norm.weight.shape, generator=generator)
    return model


def saved(model, folder):
    """Folders of a model and of its maps, which are bf16 there: ``(model, maps)``."""
    model.save_pretrained(folder / "model")
    random_maps(model).save_pretrained(folder / "maps")
    return folder / "model", folder / "maps"


@pytest.fixture(scope="session")
def folders(tiny, tmp_path_factory):
    """Those of the Llama model."""
    return saved(tiny, tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def normed_folders(normed, tmp_path_factory):
    """Those of the Qwen3 model."""
    return saved(normed, tmp_path_factory.mktemp("served_normed"))


@pytest.fixture(scope="session")
def prompt():
    """``prompt(tokens, seed)``: random token ids."""

    def make(tokens, seed=0):
        generator = torch.Generator().manual_seed(1000 * seed + tokens)
        return torch.randint(0, VOCABULARY, (tokens,), generator=generator).tolist()

    return make


def with_pictures():
    """Environment in which the engine finds torchvision, or what stands in for it."""
    if list(PYTHON.parents[1].glob("lib/*/site-packages/torchvision")):
        return {}
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(Path(__file__).with_name("pictures")), *([before] if before else [])])}


class Engine:
    """One running engine. ``act`` does something with it; ``log`` is all that it has written."""

    def __init__(self, words, environment, log):
        self.file = log
        with open(log, "wb") as stream:
            self.process = subprocess.Popen(
                words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stream, text=True
            )

    def act(self, act, **arguments):
        """The answer, and the lines logged meanwhile. The test fails when there is none."""
        begin = len(self.log)
        with suppress(BrokenPipeError):
            print(json.dumps({"act": act, **arguments}), file=self.process.stdin, flush=True)
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            self.stop()
            pytest.fail(f"the engine gave no answer:\n{self.log[-6000:]}")
        return json.loads(line), self.log[begin:].splitlines()

    @property
    def log(self):
        return self.file.read_text("utf-8", "replace")

    def stop(self):
        self.process.kill()
        self.process.wait()


class Engines:
    """Engines of the tiny models, each started once; those not used for longest are stopped, as each is a gigabyte.

    tail, least: of the settings that all of them have.
    """

    tail, least, most = TAIL, LEAST, 4

    def __init__(self, folders, temporary):
        self.folders, self.temporary, self.started, self.running = folders, temporary, 0, {}

    def get(
        self,
        *,
        filled=True,
        dtype="float32",
        model=None,
        maps=None,
        tail=TAIL,
        min_filled=LEAST,
        rows=(),
        pictures=False,
        **arguments,
    ):
        """A running engine. filled: whether the plugin is switched on. pictures: whether its model could see some."""
        model, maps = model or self.folders[0], maps or self.folders[1]
        said = {"maps": str(maps), "tail": tail, "min_filled": min_filled, "rows": list(rows)}
        settings = json.dumps(said) if filled else None
        asked = json.dumps({**COMMON, "model": str(model), "dtype": dtype, **arguments})
        key = (settings, asked, pictures)
        engine = self.running.pop(key, None)
        if engine is None:
            log = self.temporary / f"{self.started}.log"
            self.started += 1
            words = [str(PYTHON), str(Path(__file__).with_name("driver.py")), asked]
            engine = Engine(words, self.environment(settings) | (with_pictures() if pictures else {}), log)
        self.running[key] = engine
        while len(self.running) > self.most:
            self.running.pop(next(iter(self.running))).stop()
        return engine

    @staticmethod
    def environment(settings):
        """Of a process with these settings, whatever this one has. Skips the test where there is no engine."""
        if not PYTHON.is_file():
            pytest.skip(f"{PYTHON.relative_to(ROOT)} is not there: `make vllm-setup` builds the engine's environment")
        own = {name: value for name, value in os.environ.items() if not name.startswith(("RIDGEFILL", "VLLM"))}
        own |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1"}
        return own | ({} if settings is None else {"RIDGEFILL_VLLM": settings})

    def refused(self, settings, **arguments):
        """The sentence of a start that is refused."""
        asked = {"model": str(self.folders[0]), "enforce_eager": True, "skip_tokenizer_init": True, **arguments}
        words = [str(PYTHON), str(Path(__file__).with_name("driver.py")), json.dumps({"max_model_len": 512, **asked})]
        done = subprocess.run(
            words,
            env=self.environment(settings if isinstance(settings, str) else json.dumps(settings)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode != 0, "it started"
        return next(line for line in reversed(done.stderr.splitlines()) if line.startswith("ridgefill.errors."))


@pytest.fixture(scope="session")
def engines(folders, tmp_path_factory):
    """Engines of the tiny models, the Llama one where none is named."""
    found = Engines(folders, tmp_path_factory.mktemp("engines"))
    yield found
    for engine in found.running.values():
        engine.stop()


@pytest.fixture(scope="session")
def close():
    """Largest difference of a log-probability between two ways to add the same numbers up, by dtype.

    Weights of these models are ten times as wide as a trained one's, so their logits span forty, and rounding shows
    ten times as much.
    """
    return {"float32": 2e-3, "bfloat16": 0.25, "float16": 0.05}


@pytest.fixture(scope="session")
def apart():
    """``apart(one, other)``: largest difference of log-probabilities over the steps up to the first other token."""

    def found(one, other):
        worst = 0.0
        for mine, theirs, token, same in zip(
            one["logprobs"], other["logprobs"], one["tokens"], other["tokens"], strict=True
        ):
            ours, stocks = dict(map(tuple, mine)), dict(map(tuple, theirs))
            worst = max(worst, *(abs(ours[key] - stocks[key]) for key in ours.keys() & stocks.keys()))
            if token != same:
                break
        return worst

    return found


@pytest.fixture(scope="session")
def agreement():
    """``agreement(answers, wanted)``: share of steps with the same token, both a list of tokens for each prompt."""

    def share(answers, wanted):
        pairs = [pair for one, two in zip(answers, wanted, strict=True) for pair in zip(one, two, strict=True)]
        return sum(one == two for one, two in pairs) / len(pairs)

    return share
