"""The gated delta rule one row and one head at a time, from an empty state: no chunks, no batches."""

import torch


def by_rows(query, key, value, decay, beta):
    """Outputs ``[B, H, L, V]`` of ``[B, H, L, ...]`` inputs; each row decays the state, corrects it, and reads it."""
    outputs = []
    for one in range(query.shape[0]):
        for head in range(query.shape[1]):
            state = torch.zeros(key.shape[-1], value.shape[-1], dtype=value.dtype)
            for row in range(query.shape[2]):
                at = (one, head, row)
                state = state * decay[at].exp()
                wrong = value[at] - key[at] @ state
                state = state + torch.outer(key[at], beta[at] * wrong)
                outputs.append(query[at] @ state)
    return torch.stack(outputs).view(*query.shape[:3], -1)
