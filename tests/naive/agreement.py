"""Agreement read out loud: a whole pass of the stock model for every token, sums one term at a time."""

import math

import torch


def logits_after(model, ids):
    """What the stock model says after ``ids``, from a pass over all of them."""
    return model(torch.tensor([ids])).logits[0, -1].double()


def greedy(model, ids, count):
    """``count`` greedy tokens after ``ids``, and the logits that each was taken from."""
    ids, steps = list(ids), []
    for _ in range(count):
        steps.append(logits_after(model, ids))
        ids.append(int(steps[-1].argmax()))
    return ids[-count:], steps


def along(model, ids, given):
    """What the stock model says before each of the tokens ``given`` after ``ids``."""
    return [logits_after(model, [*ids, *given[:place]]) for place in range(len(given))]


def fed(naive, outputs, caches, tokens, given):
    """What a naive model says before each of ``given`` after a prompt of ``tokens``; grows ``caches``.

    outputs: of the prompt's last row. caches: layer -> position -> entry, as ``run_filled`` leaves them.
    """
    steps = [naive.logits(outputs)]
    for position, token in enumerate(given[:-1], tokens):
        (x,) = naive.embed([token])
        for layer in range(naive.layers):
            caches[layer][position] = naive.key_value(layer, x, position)
            seen = [row for row in sorted(caches[layer]) if naive.sees(layer, position, row)]
            x = naive.finish(layer, x, position, [caches[layer][row] for row in seen])
        steps.append(naive.logits(x))
    return steps


def divergence(exact, other):
    """KL(exact || other) in nats of two lists of logits."""
    p, q = shares(exact), shares(other)
    return math.fsum(a * (math.log(a) - math.log(b)) for a, b in zip(p, q, strict=True) if a > 0)


def shares(logits):
    most = max(logits)
    weights = [math.exp(value - most) for value in logits]
    whole = math.fsum(weights)
    return [weight / whole for weight in weights]
