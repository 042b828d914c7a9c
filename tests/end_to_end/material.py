"""What a tiny experiment is made of: texts in wheels, a tokenizer, a random model, settings and a claim.

Everything is made here from seeds. Nothing is downloaded, and no file of a real model is used.
"""

from __future__ import annotations

import hashlib
import json
import random
import zipfile
from pathlib import Path

import yaml

from ridgefill.suites.manifest import Document, save_manifest, text_hash

LAYERS, WIDTH, VOCABULARY, CONTEXT = 6, 32, 512, 1024
CLAIM = "workflow/claims/tiny.yaml"
EXPERIMENT = "workflow/config/experiments/tiny.yaml"
MODEL = "workflow/config/models/tiny.yaml"
DOCUMENTS = "data/texts/documents.json"
CALIBRATION = "data/texts/calibration.json"
SOURCES = "data/texts/sources.json"
CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
EXPERIMENT_YAML = f"""\
title: Six random layers, split 4, tail 32
model: tiny
split: 4
tail: 32
split_layer: exact
dtype: float32
curve: {{splits: [2, 3, 4], arms: [exact, identity, ridgefill]}}
capture:
  tokens: 1280
  chunk: 128
  stride: 1
  heldout_tokens: 256
  sources: [tinyprose, tinymanual]
fit: {{lam_grid: [0.001, 0.01, 0.1]}}
arms:
  - exact
  - no_fill
  - identity
  - ridgefill
  - pop_native
  - ridgefill_rows
  - ridgefill_random_rows
  - ridgefill_longer_tail
  - no_fill_longer_tail
rows_share: 0.1
window: 16
suites:
  ruler:
    source: ruler-style
    tasks: [niah_multikey_1]
    lengths: [400, 416, 432, 448, 464, 480, 496, 512]
    samples: 1
    new_tokens: 32
    seed: registration
    haystack: tinyprose
    essays: [0, 2]
  documents:
    manifest: {DOCUMENTS}
    domains: [prose, manual]
    per_domain: 1
    prompt_tokens: 96
    scored_tokens: 32
statistics: {{resamples: 200, seed: registration}}
claim: {CLAIM}
"""
MODEL_YAML = f"""\
name: tiny
family: llama
geometry: {{layers: {LAYERS}, hidden: {WIDTH}, heads: 4, kv_heads: 2, head_dim: 8, intermediate: 64, \
vocab: {VOCABULARY}, context: {CONTEXT}}}
qk_norm: false
source: {{kind: hub, repo: example/tiny, revision: null}}
"""
CLAIM_YAML = f"""\
who: A test
title: Random layers
hypothesis: Nothing is to be found in random weights.
experiment: tiny
arms: [exact, no_fill, identity, ridgefill, pop_native, ridgefill_rows, ridgefill_random_rows, \
ridgefill_longer_tail, no_fill_longer_tail]
overrides: {{dtype: [bfloat16]}}
runs:
  - {{id: capture, configs: [{EXPERIMENT}, {MODEL}]}}
  - {{id: fit, configs: [{EXPERIMENT}, {MODEL}]}}
  - {{id: ruler, configs: [{EXPERIMENT}, {MODEL}]}}
  - {{id: documents, configs: [{EXPERIMENT}, {MODEL}, {DOCUMENTS}]}}
predictions:
  - id: needles
    says: A fitted map finds more needles than a copied state.
    rule: {{metric: ruler_filled, arm: ridgefill, baseline: identity, set: {{model: tiny, split: 4}}, \
statistic: ci_low, op: ">", threshold: "0"}}
    min_n: 1
    missing: undecided
  - id: loss
    says: The loss of the fitted map stays finite.
    rule: {{metric: nll_all, arm: ridgefill, baseline: exact, set: {{model: tiny, split: 4}}, \
statistic: estimate, op: "<", threshold: "1000"}}
    min_n: 2
    missing: undecided
"""


def prose(seed: int, words: int) -> str:
    """Sentences of made-up words; two seeds share no run of 50 words."""
    rng = random.Random(seed)
    out: list[str] = []
    while len(out) < words:
        sentence = ["".join(rng.choices(("ta", "mo", "ri", "ke", "su", "lan"), k=2)) for _ in range(9)]
        out += [sentence[0].capitalize(), *sentence[1:-1], sentence[-1] + "."]
    return " ".join(out[:words])


TEXTS = {
    "tinyprose": {
        "tinyprose/a0.txt": prose(1, 600),
        "tinyprose/a1.txt": prose(2, 600),
        "tinyprose/c0.txt": prose(3, 700),
        "tinyprose/d0.txt": prose(4, 300),
        "tinyprose/h0.txt": prose(5, 300),
    },
    "tinymanual": {
        "tinymanual/c0.txt": prose(6, 700),
        "tinymanual/d0.txt": prose(7, 300),
        "tinymanual/h0.txt": prose(8, 300),
    },
    "wonderwords": {
        "wonderwords/assets/adjectivelist.txt": "\n".join(sorted(set(prose(9, 40).lower().split()))),
        "wonderwords/assets/nounlist.txt": "\n".join(sorted(set(prose(10, 40).lower().split()))),
    },
}
ROLES = {"c": "calibration", "d": "evaluation", "h": "heldout"}


def write(path: Path, text: str) -> None:
    """Write a text file, making its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def plain_yaml(data: object) -> str:
    """YAML of JSON's types without aliases, which PyYAML writes for a value that stands in two places."""
    return yaml.safe_dump(json.loads(json.dumps(data)))


def build_wheel(folder: Path, name: str, members: dict[str, str], version: str = "1.0") -> str:
    """A wheel that pip accepts, holding ``members``; returns its SHA-256."""
    info = f"{name}-{version}.dist-info"
    files = {
        **members,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{member},,\n" for member in (*files, f"{info}/RECORD"))
    path = folder / f"{name}-{version}-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in files.items():
            archive.writestr(zipfile.ZipInfo(member), text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_texts(root: Path, wheels: Path) -> None:
    """Wheels of all sources, and the files of ``data/texts`` that pin them."""
    sources, documents = {}, []
    for name, members in TEXTS.items():
        domain = name.removeprefix("tiny") if name.startswith("tiny") else None
        patterns = ["wonderwords/assets/*.txt"] if domain is None else [f"{name}/*.txt"]
        sources[name] = {
            "kind": "wheel", "distribution": name, "version": "1.0", "licence": "CC0-1.0", "domain": domain,
            "sha256": build_wheel(wheels, name, members), "members": patterns,
        }  # fmt: skip
        for member, text in members.items():
            role = ROLES.get(Path(member).name[0]) if domain else None
            if role is not None:
                documents.append(
                    Document(member, role, str(domain), name, member, 0, len(text), text_hash(text), "CC0-1.0")
                )
    write(root / SOURCES, json.dumps(sources, indent=1))
    save_manifest(root / DOCUMENTS, [one for one in documents if one.role == "evaluation"])
    save_manifest(root / CALIBRATION, [one for one in documents if one.role != "evaluation"])


def write_settings(root: Path) -> None:
    """The experiment, its model and its claim."""
    for path, text in ((EXPERIMENT, EXPERIMENT_YAML), (MODEL, MODEL_YAML), (CLAIM, CLAIM_YAML)):
        write(root / path, text)


def write_tokenizer(folder: Path, vocabulary: int = VOCABULARY, extra: tuple[str, ...] = ()) -> None:
    """A byte-level tokenizer of at most ``vocabulary`` tokens, and ``extra`` ones on top."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
    )  # fmt: skip
    core.train_from_iterator([prose(0, 2000), "A special magic number for the text is: 7." * 20], trainer)
    core.add_tokens(list(extra))
    PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token=None, eos_token="<|im_end|>", chat_template=CHAT
    ).save_pretrained(folder)


def write_model(folder: Path) -> None:
    """A random Llama with its tokenizer, in the layout of a hub snapshot."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        num_hidden_layers=LAYERS, hidden_size=WIDTH, intermediate_size=64, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=VOCABULARY, max_position_embeddings=CONTEXT,
        # Wide enough that attention is far from uniform.
        initializer_range=0.2, tie_word_embeddings=False, bos_token_id=None, eos_token_id=1,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    # A stop token that is often the likeliest, so that answers end early.
    model.lm_head.weight.data[config.eos_token_id] *= 3
    model.save_pretrained(folder)
    write_tokenizer(folder)
