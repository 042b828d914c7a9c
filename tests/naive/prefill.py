"""METHOD section 3 read out loud: one row at a time, fp64, no kernels, no cache tricks.

Nothing here comes from ridgefill or from transformers' modelling code; only the weights do.
"""

import torch


def norm(x, weight, eps):
    return x / torch.sqrt((x * x).mean() + eps) * weight


def rotate(vector, position, theta):
    """Rotary embedding of ``[heads, width]`` at one position. Angles in fp32, as the stock model has them."""
    width = vector.shape[-1]
    frequency = 1.0 / theta ** (torch.arange(0, width, 2).float() / width)
    angle = torch.cat([position * frequency, position * frequency])
    half = torch.cat([-vector[:, width // 2 :], vector[:, : width // 2]], dim=-1)
    return vector * angle.cos().double() + half * angle.sin().double()


class NaiveLlama:
    """A stock model's weights in fp64."""

    def __init__(self, model):
        config = model.config
        self.weights = {name: value.double() for name, value in model.state_dict().items()}
        self.layers, self.heads, self.kv_heads = (
            config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads,
        )  # fmt: skip
        self.width = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.eps, self.theta = config.rms_norm_eps, config.rope_parameters.get("rope_theta")

    def group(self, head):
        """The key-value head that a query head reads."""
        return head // (self.heads // self.kv_heads)

    def weight(self, layer, name):
        return self.weights[f"model.layers.{layer}.{name}.weight"]

    # What families do in their own way: other classes replace these.

    def normed(self, layer, name, x):
        return norm(x, self.weight(layer, name), self.eps)

    def head_normed(self, layer, name, heads):
        """Queries or keys ``[heads, width]`` before rotary: as they are."""
        return heads

    def turned(self, layer, heads, position):
        return rotate(heads, position, self.theta)

    def scale(self):
        """What scores are multiplied by."""
        return self.width**-0.5

    def sees(self, layer, row, other):
        """Whether ``row`` sees the row at ``other``."""
        return other <= row

    def embed(self, ids):
        return [self.weights["model.embed_tokens.weight"][token] for token in ids]

    def key_value(self, layer, x, position):
        """What a row writes: rotated key and value, each ``[kv_heads, width]``."""
        normed = self.normed(layer, "input_layernorm", x)
        key = (self.weight(layer, "self_attn.k_proj") @ normed).view(self.kv_heads, self.width)
        value = (self.weight(layer, "self_attn.v_proj") @ normed).view(self.kv_heads, self.width)
        return self.turned(layer, self.head_normed(layer, "k_norm", key), position), value

    def attention(self, layer, x, position, keys):
        """Weights ``[heads, keys]`` of one query over the given keys, in their order."""
        normed = self.normed(layer, "input_layernorm", x)
        query = (self.weight(layer, "self_attn.q_proj") @ normed).view(self.heads, self.width)
        query = self.turned(layer, self.head_normed(layer, "q_norm", query), position)
        keys, rows = torch.stack(keys), []
        for head in range(self.heads):
            scores = keys[:, self.group(head)] @ query[head] * self.scale()
            rows.append(torch.exp(scores - scores.max()) / torch.exp(scores - scores.max()).sum())
        return torch.stack(rows)

    def attended(self, layer, x, position, visible):
        """The attention block's output for one row over a list of (key, value), its own entry included."""
        weights = self.attention(layer, x, position, [key for key, _ in visible])
        values = torch.stack([value for _, value in visible])
        out = [weights[head] @ values[:, self.group(head)] for head in range(self.heads)]
        return self.weight(layer, "self_attn.o_proj") @ torch.cat(out)

    def finish(self, layer, x, position, visible):
        """The rest of the layer for one row over what it sees."""
        x = x + self.attended(layer, x, position, visible)
        normed = self.normed(layer, "post_attention_layernorm", x)
        gate = self.weight(layer, "mlp.gate_proj") @ normed
        up = self.weight(layer, "mlp.up_proj") @ normed
        return x + self.weight(layer, "mlp.down_proj") @ (gate * torch.sigmoid(gate) * up)

    def run_exact(self, ids):
        """Inputs of every layer, ``inputs[layer][row]``, the last entry being the last layer's output."""
        inputs = [self.embed(ids)]
        for layer in range(self.layers):
            done = self._layer(layer, dict(enumerate(inputs[-1])))
            inputs.append([done[row] for row in range(len(ids))])
        return inputs

    def run_filled(self, inputs, split, exact_rows, predict, *, true_split_layer):
        """Late layers of a filled prefill.

        inputs: what ``run_exact`` gave. predict(layer, state) gives a filled row's layer input; None writes
        nothing for it. Returns the outputs of the exact rows by position, and every layer's cache:
        layer -> position -> (key, value).
        """
        states = inputs[split]
        x = {row: states[row] for row in exact_rows}
        caches = {
            layer: {row: self.key_value(layer, value, row) for row, value in enumerate(inputs[layer])}
            for layer in range(split)
        }
        for layer in range(split, self.layers):
            cache = {}
            for row, state in enumerate(states):
                if row in exact_rows:
                    cache[row] = self.key_value(layer, x[row], row)
                elif predict is not None:
                    guess = state if layer == split and true_split_layer else predict(layer, state)
                    cache[row] = self.key_value(layer, guess, row)
            x = self._layer(layer, x, cache)
            caches[layer] = cache
        return x, caches

    def logits(self, x):
        return self.weights["lm_head.weight"] @ norm(x, self.weights["model.norm.weight"], self.eps)

    def decode(self, outputs, caches, tokens, count):
        """``count`` greedy tokens after a prompt of ``tokens``: last row's ``outputs``, every layer's
        caches.
        """
        logits, made = self.logits(outputs), []
        for position in range(tokens, tokens + count):
            made.append(int(logits.argmax()))
            (x,) = self.embed(made[-1:])
            for layer in range(self.layers):
                caches[layer][position] = self.key_value(layer, x, position)
                seen = [row for row in sorted(caches[layer]) if self.sees(layer, position, row)]
                x = self.finish(layer, x, position, [caches[layer][row] for row in seen])
            logits = self.logits(x)
        return made

    def _layer(self, layer, x, cache=None):
        if cache is None:
            cache = {row: self.key_value(layer, value, row) for row, value in x.items()}
        return {
            row: self.finish(layer, value, row, [cache[seen] for seen in sorted(cache) if self.sees(layer, row, seen)])
            for row, value in x.items()
        }


def attention_rows(naive, inputs, split, selector_layers, prefix, window, count):
    """Positions picked by attention received, and that attention: one query, one head at a time."""
    tokens = len(inputs[0])
    received = [0.0] * tokens
    for layer in selector_layers:
        if layer >= split:
            continue
        keys = [naive.key_value(layer, x, row)[0] for row, x in enumerate(inputs[layer])]
        for row in range(max(0, tokens - window), tokens):
            weights = naive.attention(layer, inputs[layer][row], row, keys[: row + 1])
            for position in range(row + 1):
                received[position] += float(weights[:, position].sum())
    ranked = sorted(range(prefix), key=lambda position: (-received[position], position))
    return sorted(ranked[:count]), received
