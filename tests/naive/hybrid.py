"""METHOD section 3 for hybrids, read out loud: one row at a time, one head at a time, fp64, no kernels.

Nothing here comes from ridgefill or from transformers' modelling code; only the weights do. A layer's ``memory`` is
what it keeps between rows: keys and values by position, or a window and a state. Rows are fed in order; a row that
is not ``wanted`` only changes the memory.
"""

import torch


def norm(x, weight, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def silu(x):
    return x * torch.sigmoid(x)


def unit(x):
    """Length one, as the recurrence takes queries and keys."""
    return x / torch.sqrt((x * x).sum() + 1e-6)


def rotate(vector, position, theta, turned):
    """The first ``turned`` features of ``[heads, width]`` at one position. Angles in fp32, as the stock model's."""
    frequency = 1.0 / theta ** (torch.arange(0, turned, 2).float() / turned)
    angle = torch.cat([position * frequency, position * frequency])
    first, rest = vector[:, :turned], vector[:, turned:]
    half = torch.cat([-first[:, turned // 2 :], first[:, : turned // 2]], dim=-1)
    return torch.cat([first * angle.cos().double() + half * angle.sin().double(), rest], dim=-1)


class NaiveHybrid:
    """A stock Qwen3.5 or Qwen3-Next model's weights in fp64."""

    def __init__(self, model):
        self.config = config = model.config
        self.weights = {name: value.double() for name, value in model.state_dict().items()}
        self.layers, self.kinds = config.num_hidden_layers, config.layer_types
        self.heads, self.kv_heads, self.width = (
            config.num_attention_heads, config.num_key_value_heads, config.head_dim,
        )  # fmt: skip
        self.turned = int(self.width * config.rope_parameters["partial_rotary_factor"])
        self.key_heads, self.value_heads = config.linear_num_key_heads, config.linear_num_value_heads
        self.key_width, self.value_width = config.linear_key_head_dim, config.linear_value_head_dim

    def __getitem__(self, place):
        layer, name = place
        return self.weights[f"model.layers.{layer}.{name}"]

    def norm(self, layer, name, x):
        """The family's norms are centred on one: a stored weight of zero changes nothing."""
        return norm(x, 1 + self[layer, f"{name}.weight"], self.config.rms_norm_eps)

    def attend(self, layer, memory, normed, row, wanted):
        """Gated attention; what each visible row received is kept under ``weights``."""
        both = (self[layer, "self_attn.q_proj.weight"] @ normed).view(self.heads, 2 * self.width)
        query, gate = both[:, : self.width], both[:, self.width :]
        key = (self[layer, "self_attn.k_proj.weight"] @ normed).view(self.kv_heads, self.width)
        value = (self[layer, "self_attn.v_proj.weight"] @ normed).view(self.kv_heads, self.width)
        theta = self.config.rope_parameters["rope_theta"]
        key = rotate(self.norm(layer, "self_attn.k_norm", key), row, theta, self.turned)
        memory.setdefault("rows", {})[row] = (key, value)
        if not wanted:
            return None
        query = rotate(self.norm(layer, "self_attn.q_norm", query), row, theta, self.turned)
        seen, out, received = list(memory["rows"].values()), [], []
        for head in range(self.heads):
            shared = head // (self.heads // self.kv_heads)
            scores = torch.stack([key[shared] @ query[head] for key, _ in seen]) / self.width**0.5
            received.append(scores.softmax(0))
            out.append(sum(w * value[shared] for w, (_, value) in zip(received[-1], seen, strict=True)))
        memory.setdefault("weights", {})[row] = torch.stack(received)
        return self[layer, "self_attn.o_proj.weight"] @ (torch.stack(out) * torch.sigmoid(gate)).flatten()

    def project(self, layer, normed):
        """Query, key and value together, output gate by value head, write strength and decay input."""
        shared = self.value_heads // self.key_heads
        if f"model.layers.{layer}.linear_attn.in_proj_qkv.weight" in self.weights:
            qkv, z, b, a = (
                self[layer, f"linear_attn.in_proj_{name}.weight"] @ normed for name in ("qkv", "z", "b", "a")
            )
            return qkv, z.view(self.value_heads, self.value_width), b, a
        query, key, value, z, b, a = [], [], [], [], [], []
        sizes = [self.key_width, self.key_width, shared * self.value_width, shared * self.value_width]
        fused = (self[layer, "linear_attn.in_proj_qkvz.weight"] @ normed).split(sum(sizes))
        small = (self[layer, "linear_attn.in_proj_ba.weight"] @ normed).split(2 * shared)
        for group in range(self.key_heads):
            for found, part in zip((query, key, value, z), fused[group].split(sizes), strict=True):
                found.append(part)
            b.append(small[group][:shared])
            a.append(small[group][shared:])
        z = torch.cat(z).view(self.value_heads, self.value_width)
        return torch.cat([*query, *key, *value]), z, torch.cat(b), torch.cat(a)

    def recur(self, layer, memory, normed, row, wanted):
        """Gated delta rule; ``state`` is ``[value_heads, K, V]``, ``window`` the last inputs of the convolution."""
        qkv, z, b, a = self.project(layer, normed)
        kernel = self[layer, "linear_attn.conv1d.weight"][:, 0]
        window = memory.setdefault("window", [torch.zeros_like(qkv)] * kernel.shape[1])
        memory["window"] = window = [*window[1:], qkv]
        mixed = silu(sum(kernel[:, place] * one for place, one in enumerate(window)))
        keys = self.key_heads * self.key_width
        query, key = (part.view(self.key_heads, -1) for part in (mixed[:keys], mixed[keys : 2 * keys]))
        value = mixed[2 * keys :].view(self.value_heads, self.value_width)
        empty = torch.zeros(self.value_heads, self.key_width, self.value_width, dtype=torch.float64)
        state, out = memory.setdefault("state", empty), []
        for head in range(self.value_heads):
            shared = head // (self.value_heads // self.key_heads)
            step = torch.nn.functional.softplus(a[head] + self[layer, "linear_attn.dt_bias"][head])
            state[head] *= torch.exp(-torch.exp(self[layer, "linear_attn.A_log"][head]) * step)
            unit_key = unit(key[shared])
            wrong = value[head] - unit_key @ state[head]
            state[head] += torch.outer(unit_key, torch.sigmoid(b[head]) * wrong)
            out.append(unit(query[shared]) @ state[head] / self.key_width**0.5)
        if not wanted:
            return None
        gated = norm(torch.stack(out), self[layer, "linear_attn.norm.weight"], self.config.rms_norm_eps) * silu(z)
        return self[layer, "linear_attn.out_proj.weight"] @ gated.flatten()

    def gated(self, layer, name, normed):
        gate, up, down = (self[layer, f"{name}.{part}_proj.weight"] for part in ("gate", "up", "down"))
        return down @ (silu(gate @ normed) * (up @ normed))

    def feed_forward(self, layer, normed):
        """One gated layer, or the best experts by router weight and one that every row passes."""
        if f"model.layers.{layer}.mlp.gate.weight" not in self.weights:
            return self.gated(layer, "mlp", normed)
        share, chosen = (self[layer, "mlp.gate.weight"] @ normed).softmax(0).topk(self.config.num_experts_per_tok)
        shared_gate = torch.sigmoid(self[layer, "mlp.shared_expert_gate.weight"] @ normed)
        out = shared_gate * self.gated(layer, "mlp.shared_expert", normed)
        for weight, expert in zip(share / share.sum(), chosen.tolist(), strict=True):
            gate, up = (self[layer, "mlp.experts.gate_up_proj"][expert] @ normed).chunk(2)
            out = out + weight * (self[layer, "mlp.experts.down_proj"][expert] @ (silu(gate) * up))
        return out

    def step(self, layer, memory, x, row, wanted=True):
        """Feed one row to one layer; its next input if ``wanted``."""
        block = self.attend if self.kinds[layer] == "full_attention" else self.recur
        mixed = block(layer, memory, self.norm(layer, "input_layernorm", x), row, wanted)
        if not wanted:
            return None
        x = x + mixed
        return x + self.feed_forward(layer, self.norm(layer, "post_attention_layernorm", x))

    def run_exact(self, ids):
        """Inputs of every layer, ``inputs[layer][row]``, the last being the output; and every layer's memory."""
        inputs, memories = [[self.weights["model.embed_tokens.weight"][token] for token in ids]], []
        for layer in range(self.layers):
            memories.append({})
            inputs.append([self.step(layer, memories[layer], x, row) for row, x in enumerate(inputs[-1])])
        return inputs, memories

    def run_filled(self, inputs, split, exact, predict, *, true_split_layer):
        """Late layers of a filled prefill: outputs of the rows ``exact`` by position, and memories by layer.

        predict(layer, state) gives a filled row's layer input; None feeds nothing for it.
        """
        states, memories = inputs[split], {}
        x = {row: states[row] for row in exact}
        for layer in range(split, self.layers):
            memories[layer], after = {}, {}
            for row, state in enumerate(states):
                if row in x:
                    after[row] = self.step(layer, memories[layer], x[row], row)
                elif predict is not None:
                    guess = state if layer == split and true_split_layer else predict(layer, state)
                    self.step(layer, memories[layer], guess, row, wanted=False)
            x = after
        return x, memories

    def logits(self, x):
        return self.weights["lm_head.weight"] @ norm(x, 1 + self.weights["model.norm.weight"], self.config.rms_norm_eps)

    def decode(self, last, memories, tokens, count):
        """``count`` greedy tokens after ``tokens`` rows, from the last row's output and every layer's memory."""
        made, x = [], last
        for row in range(tokens, tokens + count):
            made.append(int(self.logits(x).argmax()))
            x = self.weights["model.embed_tokens.weight"][made[-1]]
            for layer in range(self.layers):
                x = self.step(layer, memories[layer], x, row)
        return made
