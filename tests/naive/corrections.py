"""METHOD sections 4 and 5 read out loud: corrections and splices one row and one head at a time, in fp64.

``Llama`` and ``Hybrid`` wrap the naive models of ``prefill.py`` and ``hybrid.py`` behind the same few words. Nothing
here comes from ridgefill.
"""

import torch


def mean_ratio(true, predicted):
    """One head's scale from its vectors row by row; rows whose predicted vector is zero say nothing."""
    ratios = []
    for a, b in zip(true, predicted, strict=True):
        length = sum(float(one) ** 2 for one in b) ** 0.5
        if length > 0:
            ratios.append(sum(float(one) ** 2 for one in a) ** 0.5 / length)
    return sum(ratios) / len(ratios) if ratios else 1.0


def rho(decays, filled):
    """Filled rows' share of each head's state: decays[row][head] are g, filled[row] says whether it is filled."""
    shares = []
    for head in range(len(decays[0])):
        total = part = 0.0
        for row, g in enumerate(decays):
            gate = float(torch.exp(torch.as_tensor(g[head], dtype=torch.float64)))
            total = gate * total + 1
            part = gate * part + (1 if filled[row] else 0)
        shares.append(min(max(part / total, 0.0), 1.0))
    return shares


class Llama:
    """Every layer attends."""

    def __init__(self, naive):
        self.naive = naive

    def attends(self, layer):
        return True

    def entry(self, layer, x, row):
        """(rotated key, value) ``[kv_heads, width]`` that a layer input leaves."""
        return self.naive.key_value(layer, x, row)

    def attend(self, layer, x, row, entries):
        """A row's next input, given the entries of all rows up to its own."""
        return self.naive.finish(layer, x, row, [entries[seen] for seen in sorted(entries) if seen <= row])


class Hybrid:
    """Some layers attend, the others feed a state."""

    def __init__(self, naive):
        self.naive = naive

    def attends(self, layer):
        return self.naive.kinds[layer] == "full_attention"

    def entry(self, layer, x, row):
        memory = {}
        self.naive.step(layer, memory, x, row, wanted=False)
        return memory["rows"][row]

    def attend(self, layer, x, row, entries):
        return self.naive.step(layer, {"rows": {seen: entries[seen] for seen in sorted(entries) if seen < row}}, x, row)

    def decay(self, layer, x):
        """g of each value head for one layer input."""
        normed = self.naive.norm(layer, "input_layernorm", x)
        a = self.naive.project(layer, normed)[3]
        step = torch.nn.functional.softplus(a + self.naive[layer, "linear_attn.dt_bias"])
        return (-torch.exp(self.naive[layer, "linear_attn.A_log"]) * step).tolist()


def run_filled(
    model, inputs, split, exact, predict, prefix,
    *, true_split_layer=True, rescale=(), measured=512, deltas=None, splice=(),
):  # fmt: skip
    """Late layers of a filled prefill with corrections or splices before the tail reads the filled rows.

    inputs: the exact pass's, by layer and row. Returns the exact rows' outputs by position, and by layer what was
    measured (scales per part and head, or shares per head).
    """
    states, late = inputs[split], range(split, model.naive.layers)
    x, found = {row: states[row] for row in exact}, {}
    for layer in late:
        true_input = layer == split and true_split_layer

        def guess(row, layer=layer, true_input=true_input):
            return states[row] if true_input else predict(layer, states[row])

        if model.attends(layer):
            x, found[layer] = _attention(
                model, layer, x, inputs, guess, prefix, () if true_input else rescale, measured, splice
            )
        else:
            delta = None if true_input or deltas is None else deltas.get(layer)
            x, found[layer] = _recurrent(model, layer, x, inputs, guess, prefix, delta, splice)
    return x, found


def _attention(model, layer, x, inputs, guess, prefix, rescale, measured, splice):
    tokens = len(inputs[0])
    tail = list(range(prefix, tokens))[:measured]
    true = [model.entry(layer, x[row], row) for row in tail]
    predicted = [model.entry(layer, guess(row), row) for row in tail]
    heads, scales = range(true[0][0].shape[0]), {}
    for part in rescale:
        at = ("key", "value").index(part)
        scales[part] = [mean_ratio([row[at][h] for row in true], [row[at][h] for row in predicted]) for h in heads]
    entries = {}
    for row in range(tokens):
        if row in x:
            entries[row] = model.entry(layer, x[row], row)
            continue
        key, value = (part.clone() for part in model.entry(layer, guess(row), row))
        for head in heads:
            key[head] *= scales["key"][head] if "key" in scales else 1
            value[head] *= scales["value"][head] if "value" in scales else 1
        truth = model.entry(layer, inputs[layer][row], row)
        entries[row] = (truth[0] if "keys" in splice else key, truth[1] if "values" in splice else value)
    return {row: model.attend(layer, one, row, entries) for row, one in x.items()}, scales


def _recurrent(model, layer, x, inputs, guess, prefix, delta, splice):
    memory, after, decays, share = {}, {}, [], None
    for row in range(len(inputs[0])):
        if row == prefix and row > 0 and delta is not None:
            share = rho(decays, [one not in x for one in range(prefix)])
            for head, one in enumerate(share):
                memory["state"][head] += one * delta[head].double()
        fed = x[row] if row in x else inputs[layer][row] if "states" in splice else guess(row)
        decays.append(model.decay(layer, fed))
        done = model.naive.step(layer, memory, fed, row, wanted=row in x)
        if row in x:
            after[row] = done
    return after, share
