"""SwiftKV's rule read out loud, beside the naive Llama: one row at a time, fp64, only the tensors of the checkpoint."""

import copy
import runpy
from pathlib import Path

import torch

PREFILL = runpy.run_path(str(Path(__file__).with_name("prefill.py")))
norm, rotate = PREFILL["norm"], PREFILL["rotate"]


class NaiveSwiftKV(PREFILL["NaiveLlama"]):
    """A checkpoint's tensors by their published names, and its config.json."""

    def __init__(self, weights, config):
        self.weights = {name: value.double() for name, value in weights.items()}
        self.layers, self.heads, self.kv_heads = (
            config["num_hidden_layers"], config["num_attention_heads"], config["num_key_value_heads"],
        )  # fmt: skip
        self.width = config["head_dim"]
        self.eps, self.theta = config["rms_norm_eps"], config["rope_theta"]
        self.split, self.group_size = config["num_key_value_layers"], config["key_value_group_size"]

    def shared_key_value(self, layer, state, position):
        """A late row from the split state, by the projections of the first layer of the layer's group."""
        first = self.split + (layer - self.split) // self.group_size * self.group_size
        normed = norm(state, self.weights["model.norm_swiftkv.weight"], self.eps)
        key = (self.weight(first, "self_attn.k_proj_swiftkv") @ normed).view(self.kv_heads, self.width)
        value = (self.weight(first, "self_attn.v_proj_swiftkv") @ normed).view(self.kv_heads, self.width)
        return rotate(key, position, self.theta), value

    def trained_queries(self):
        """The same model with the trained query weights in the place of the original ones."""
        twin = copy.copy(self)
        trained = {name: value for name, value in self.weights.items() if "q_proj_swiftkv" in name}
        twin.weights = self.weights | {name.replace("_swiftkv", ""): value for name, value in trained.items()}
        return twin

    def lower(self, ids):
        """Caches of the lower layers, ``caches[layer][row]``, and the split states of all rows."""
        states, caches = self.embed(ids), {}
        for layer in range(self.split):
            caches[layer] = {row: self.key_value(layer, x, row) for row, x in enumerate(states)}
            states = [self._plain(layer, x, row, caches[layer]) for row, x in enumerate(states)]
        return states, caches

    def released(self, ids, rows=None):
        """The model as published. rows: those whose keys and values exist, all by default.

        Returns their outputs by row and every layer's caches.
        """
        states, caches = self.lower(ids)
        rows, twin = range(len(ids)) if rows is None else rows, self.trained_queries()
        x = {row: states[row] for row in rows}
        for layer in range(self.split, self.layers):
            cache = caches[layer] = {row: self.shared_key_value(layer, states[row], row) for row in rows}
            x = {row: twin._plain(layer, value, row, cache) for row, value in x.items()}
        return x, caches

    def tail(self, ids, exact):
        """Trained keys and values on filled rows; the original late layers, keys and values too, on ``exact`` rows."""
        states, caches = self.lower(ids)
        x = {row: states[row] for row in exact}
        for layer in range(self.split, self.layers):
            cache = caches[layer] = {
                row: self.key_value(layer, x[row], row) if row in x else self.shared_key_value(layer, state, row)
                for row, state in enumerate(states)
            }
            x = {row: self._plain(layer, value, row, cache) for row, value in x.items()}
        return x, caches

    def _plain(self, layer, x, row, cache):
        return self.finish(layer, x, row, [cache[seen] for seen in sorted(cache) if seen <= row])


def stack(caches, layer, place, rows):
    """Keys (place 0) or values (1) of ``rows``, ``[kv_heads, rows, head_dim]``."""
    return torch.stack([caches[layer][row][place] for row in rows], dim=1)
