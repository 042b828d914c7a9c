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


def extended(x, y, lam, identity):
    """Centred rows and the ``sqrt(alpha) I`` rows below them that make the penalty a least-squares error: the
    targets of those are zero, or the map's own input when it is pulled towards the identity.
    """
    mx, my, gram, _, _ = moments(x, y)
    width = x.shape[1]
    root = (lam * float(gram.trace()) / width) ** 0.5 * torch.eye(width, dtype=torch.float64)
    wanted = root if identity else torch.zeros(width, y.shape[1], dtype=torch.float64)
    return torch.cat([x.double() - mx, root]), torch.cat([y.double() - my, wanted])


def towards_identity(x, y, lam):
    """Weight and offset that minimise the squared error plus ``alpha |A - I|^2``, by least squares."""
    rows, targets = extended(x, y, lam, identity=True)
    weight = torch.linalg.lstsq(rows, targets).solution.T
    return weight, y.double().mean(0) - weight @ x.double().mean(0)


def reduced_rank(x, y, lam, rank, identity=False):
    """The best weight of ``rank`` (the best whose difference from the identity has it) and its offset: inputs are
    whitened by a QR decomposition, then the fitted targets are cut to their leading singular directions.
    """
    rows, targets = extended(x, y, lam, identity)
    base = torch.eye(x.shape[1], dtype=torch.float64) if identity else torch.zeros(x.shape[1], y.shape[1]).double()
    white, mixing = torch.linalg.qr(rows)
    u, s, v = torch.linalg.svd(white.T @ (targets - rows @ base), full_matrices=False)
    best = u[:, :rank] * s[:rank] @ v[:rank]
    weight = (base + torch.linalg.solve_triangular(mixing, best, upper=True)).T
    return weight, y.double().mean(0) - weight @ x.double().mean(0)


def penalised_error(x, y, lam, weight, identity=False):
    """What a weight is judged by: squared error over centred rows plus the penalty."""
    rows, targets = extended(x, y, lam, identity)
    return float(((rows @ weight.double().T - targets) ** 2).sum())
