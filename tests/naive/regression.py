"""Moments and ridge maps from stored activations in fp64, two passes, one layer at a time."""

import torch


def moments(x, y):
    """Mean and centred products of two activation matrices ``[rows, d]``: (mx, my, Xc^T Xc, Xc^T Yc, sum
    Yc^2).
    """
    x, y = x.double(), y.double()
    mx, my = x.mean(0), y.mean(0)
    xc, yc = x - mx, y - my
    return mx, my, xc.T @ xc, xc.T @ yc, float((yc * yc).sum())


def raw_gram(x):
    """What not to do: fp32 products first, the mean taken out afterwards."""
    mean = x.float().mean(0)
    return x.float().T @ x.float() - x.shape[0] * torch.outer(mean, mean)


def ridge(x, y, lam):
    """Weight ``[d_out, d_in]`` and offset by least squares on rows extended with ``sqrt(alpha) I``."""
    mx, my, gram, _, _ = moments(x, y)
    width = x.shape[1]
    alpha = lam * float(gram.trace()) / width
    extended = torch.cat([x.double() - mx, alpha**0.5 * torch.eye(width, dtype=torch.float64)])
    target = torch.cat([y.double() - my, torch.zeros(width, y.shape[1], dtype=torch.float64)])
    weight = torch.linalg.lstsq(extended, target).solution.T
    return weight, my - weight @ mx


def residual_share(x, y, weight, bias):
    """Unexplained part of the variance of ``y``, from the residuals themselves."""
    residual = y.double() - (x.double() @ weight.double().T + bias.double())
    centred = y.double() - y.double().mean(0)
    return float((residual**2).sum() / (centred**2).sum())
