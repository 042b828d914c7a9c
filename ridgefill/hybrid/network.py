"""From settings to an untrained network, and from a trained one to a folder that stock transformers loads."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig
from transformers.utils import logging as transformers_logging

from ridgefill.errors import ModelError
from ridgefill.files import replacing
from ridgefill.hybrid.settings import Hybrid, Network
from ridgefill.hybrid.tokenizer import make_tokenizer
from ridgefill.hybrid.words import PAD, START, VOCABULARY

RECORD = "training.json"
"""What a checkpoint's folder says of its training: settings, steps, processor time, and retrieval."""


def stock_config(network: Network) -> Qwen3_5TextConfig:
    """The configuration of transformers that has these sizes."""
    recurrent = network.recurrent
    return Qwen3_5TextConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=network.hidden,
        intermediate_size=network.intermediate,
        num_hidden_layers=network.layers,
        num_attention_heads=network.heads,
        num_key_value_heads=network.kv_heads,
        head_dim=network.head_dim,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "partial_rotary_factor": network.rotary_share,
        },
        max_position_embeddings=network.context,
        layer_types=[
            "full_attention" if layer in network.attention else "linear_attention" for layer in range(network.layers)
        ],
        linear_num_key_heads=recurrent.key_heads,
        linear_num_value_heads=recurrent.value_heads,
        linear_key_head_dim=recurrent.key_dim,
        linear_value_head_dim=recurrent.value_dim,
        linear_conv_kernel_dim=4,
        initializer_range=network.init,
        tie_word_embeddings=False,
        bos_token_id=VOCABULARY[START],
        eos_token_id=None,
        pad_token_id=VOCABULARY[PAD],
    )


def untrained(hybrid: Hybrid) -> Any:
    """A ``Qwen3_5ForCausalLM`` in fp32 with weights drawn from the seed, and memory as long as its settings say."""
    torch.manual_seed(hybrid.seed)
    made = Qwen3_5ForCausalLM(stock_config(hybrid.network))
    for place in hybrid.network.states:
        block = made.model.layers[place].linear_attn
        recurrent = hybrid.network.recurrent
        lives = recurrent.late_half_lives if place >= hybrid.network.split else recurrent.half_lives
        with torch.no_grad():
            block.conv1d.weight.uniform_(-recurrent.conv, recurrent.conv)
            if recurrent.late_pairs is not None and place >= hybrid.network.split:
                pair_rows(block, recurrent.late_pairs)
            block.A_log.zero_()
            block.dt_bias.copy_(remembering(lives, recurrent.value_heads))
    return made


def pair_rows(block: Any, noise: float) -> None:
    """Let a Gated DeltaNet block begin with writing each row under the row before it, and reading under its own.

    What follows a row is then found by a row that is like it: the pairs that an induction head makes. Keys begin as
    queries of the row before; the convolutions' other weights are evenly spread between minus and plus ``noise``.
    """
    weight, width = block.conv1d.weight, block.key_dim
    weight.uniform_(-noise, noise)
    for first, last, tap in ((0, width, -1), (width, 2 * width, -2), (2 * width, len(weight), -1)):
        weight[first:last, 0, tap] += 1.0
    block.in_proj_qkv.weight[width : 2 * width] = block.in_proj_qkv.weight[:width]


def remembering(half_lives: tuple[float, float], heads: int) -> Tensor:
    """Biases ``[heads]`` with which a state halves in these many tokens, where the input says nothing else.

    half_lives: (shortest, longest), spaced evenly in the logarithm.
    """
    lives = torch.logspace(math.log10(half_lives[0]), math.log10(half_lives[1]), heads, dtype=torch.float64)
    return torch.log(torch.expm1(math.log(2) / lives)).float()


def save(network: Qwen3_5ForCausalLM, context: int, folder: Path, record: str) -> None:
    """Write weights, configuration, tokenizer and the JSON ``record`` of the training (``RECORD``), all or nothing.

    A folder that is there is replaced.
    """
    transformers_logging.disable_progress_bar()
    with replacing(folder) as temporary:
        network.save_pretrained(temporary)
        make_tokenizer(context).save_pretrained(temporary)
        (temporary / RECORD).write_text(record, encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)


def load(folder: Path) -> Any:
    """A saved ``Qwen3_5ForCausalLM``, in fp32. Raises ModelError when the folder has none."""
    try:
        network: Any = Qwen3_5ForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    except Exception as error:  # missing, truncated or foreign files raise many types
        raise ModelError(f"{folder} holds no hybrid that can be loaded ({' '.join(str(error).split())})") from error
    return network.eval()
