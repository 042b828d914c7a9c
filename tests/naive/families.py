"""The naive prefill of families other than Llama: what differs, as their papers say it.

Nothing here comes from ridgefill or from transformers' modelling code; only the weights do.
"""

import math
import runpy
from pathlib import Path

import torch

BASE = runpy.run_path(str(Path(__file__).with_name("prefill.py")))
NaiveLlama, norm, rotate = BASE["NaiveLlama"], BASE["norm"], BASE["rotate"]


class NaiveQwen3(NaiveLlama):
    """Every head of queries and keys is normed by itself."""

    def head_normed(self, layer, name, heads):
        return torch.stack([norm(head, self.weight(layer, f"self_attn.{name}"), self.eps) for head in heads])


class NaiveGemma3(NaiveLlama):
    """Norm weights count from one, blocks are normed on their way out, some layers see a window, logits are capped."""

    def __init__(self, model):
        super().__init__(model)
        for name in self.weights:
            if "norm" in name:
                self.weights[name] = self.weights[name] + 1.0
        self.config, self.kinds = model.config, model.config.layer_types

    def head_normed(self, layer, name, heads):
        return torch.stack([norm(head, self.weight(layer, f"self_attn.{name}"), self.eps) for head in heads])

    def turned(self, layer, heads, position):
        rope = self.config.rope_parameters[self.kinds[layer]]
        return rotate(heads, position / rope.get("factor", 1.0), rope["rope_theta"])

    def scale(self):
        return self.config.query_pre_attn_scalar**-0.5

    def sees(self, layer, row, other):
        reach = self.config.sliding_window if self.kinds[layer] == "sliding_attention" else row + 1
        return row - reach < other <= row

    def embed(self, ids):
        return [x * math.sqrt(self.config.hidden_size) for x in super().embed(ids)]

    def finish(self, layer, x, position, visible):
        x = x + self.normed(layer, "post_attention_layernorm", self.attended(layer, x, position, visible))
        normed = self.normed(layer, "pre_feedforward_layernorm", x)
        gate = self.weight(layer, "mlp.gate_proj") @ normed
        gate = 0.5 * gate * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (gate + 0.044715 * gate**3)))
        made = self.weight(layer, "mlp.down_proj") @ (gate * (self.weight(layer, "mlp.up_proj") @ normed))
        return x + self.normed(layer, "post_feedforward_layernorm", made)

    def logits(self, x):
        cap = self.config.final_logit_softcapping
        return cap * torch.tanh(super().logits(x) / cap)


FAMILIES = {"llama": NaiveLlama, "qwen3": NaiveQwen3, "gemma3": NaiveGemma3}
