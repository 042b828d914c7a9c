"""KVA heads read out loud, beside the naive families: one row at a time, fp64, only the tensors of the file."""

import runpy
from pathlib import Path

import torch

HERE = Path(__file__)
PREFILL = runpy.run_path(str(HERE.with_name("prefill.py")))
FAMILIES = runpy.run_path(str(HERE.with_name("families.py")))["FAMILIES"]
norm, rotate = PREFILL["norm"], PREFILL["rotate"]


class NaiveHeads:
    """A file's tensors by name. blocks, heads: of the context, 0 without one. theta: of the model's rotary."""

    def __init__(self, tensors, eps, theta, blocks=0, heads=0):
        self.tensors = {name: value.double() for name, value in tensors.items()}
        self.eps, self.theta, self.blocks, self.heads = eps, theta, blocks, heads

    def project(self, layer, state, mixed):
        """What the layer's key and value projections would give for one row."""
        normed = norm(state, self.tensors[f"layers.{layer}.norm.weight"], self.eps)
        made = []
        for part in "kv":
            one = self.tensors[f"layers.{layer}.{part}.weight"] @ normed + self.tensors[f"layers.{layer}.{part}.bias"]
            if mixed is not None:
                one = one + self.tensors[f"ctx.{part}_out.{layer}.weight"] @ mixed
            made.append(one)
        return made

    def mix(self, states):
        """The context of every row, in order; None for each where there is no context."""
        if not self.blocks:
            return [None] * len(states)
        rows = [self.tensors["ctx.inp.weight"] @ norm(state, 1.0, self.eps) for state in states]
        for number in range(self.blocks):
            rows = self._block(f"ctx.blocks.{number}.", rows)
        return [norm(row, self.tensors["ctx.out_norm.weight"], self.eps) for row in rows]

    def _block(self, name, rows):
        seen, done = [], []
        for position, row in enumerate(rows):
            fused = self.tensors[name + "qkv.weight"] @ norm(row, self.tensors[name + "n1"], self.eps)
            query, key, value = fused.view(3, self.heads, -1)
            seen.append((rotate(key, position, self.theta), value))
            query, out = rotate(query, position, self.theta), []
            for head in range(self.heads):
                scores = torch.stack([key[head] @ query[head] for key, _ in seen]) * query.shape[-1] ** -0.5
                weights = torch.exp(scores - scores.max())
                values = torch.stack([value[head] for _, value in seen])
                out.append(weights @ values / weights.sum())
            after = row + self.tensors[name + "o.weight"] @ torch.cat(out)
            normed = norm(after, self.tensors[name + "n2"], self.eps)
            gate, up = (self.tensors[f"{name}{part}.weight"] @ normed for part in ("gate", "up"))
            done.append(after + self.tensors[name + "down.weight"] @ (gate * torch.sigmoid(gate) * up))
        return done


def run_filled(model, heads, inputs, split, exact_rows):
    """Late layers of a prefill whose filled rows come from ``heads``, all else from the naive ``model``.

    inputs: what ``model.run_exact`` gave. Returns the outputs of the exact rows by position, and every layer's cache.
    """
    states = inputs[split]
    mixed = heads.mix(states)
    x = {row: states[row] for row in exact_rows}
    caches = {
        layer: {row: model.key_value(layer, value, row) for row, value in enumerate(inputs[layer])}
        for layer in range(split)
    }
    for layer in range(split, model.layers):
        cache = caches[layer] = {}
        for row, state in enumerate(states):
            if row in x:
                cache[row] = model.key_value(layer, x[row], row)
                continue
            key, value = (part.view(model.kv_heads, model.width) for part in heads.project(layer, state, mixed[row]))
            cache[row] = model.turned(layer, model.head_normed(layer, "k_norm", key), row), value
        x = {
            row: model.finish(
                layer, value, row, [cache[seen] for seen in sorted(cache) if model.sees(layer, row, seen)]
            )
            for row, value in x.items()
        }
    return x, caches
