"""Pareto-smoothed importance weights: how far a weighted average of draws can be trusted."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mogp.metrics.predictions import _finite

Array = NDArray[np.float64]

TRUSTED = 0.7
"""Up to this shape averages of a few hundred draws or more are trusted (Vehtari et al.)."""
_LEAST_TAIL = 5


def pareto_smoothed(log_ratios: ArrayLike) -> tuple[Array, Array]:
    r"""Importance weights with a smoothed tail, and the shape $\hat k$ of that tail (PSIS).

    Of $S$ weights the $\min(S/5, 3\sqrt S)$ largest are replaced by the expected order statistics
    of the generalised Pareto distribution fitted to them (Vehtari, Simpson, Gelman, Yao and Gabry,
    "Pareto smoothed importance sampling", JMLR 2024; the fit is that of Zhang and Stephens, 2009,
    with the weak prior of that paper). Averages are good for $\hat k < 0.5$, usable to 0.7, and
    not to be trusted above.

    Args:
        log_ratios: $\log r_s$ of each draw, [S] or [S, N]: $N$ sets of weights.

    Returns:
        Log weights of the same shape, which sum to one over draws; and $\hat k$, [N] or a scalar
        (infinite where there are too few draws to tell).

    >>> import numpy as np
    >>> from mogp.metrics import pareto_smoothed
    >>> uniform = np.random.default_rng(0).uniform(size=4000)
    >>> weights, k = pareto_smoothed(-0.3 * np.log(uniform))  # Pareto ratios of shape 0.3
    >>> round(float(np.exp(weights).sum()), 6), bool(abs(k - 0.3) < 0.15)
    (1.0, True)
    """
    ratios = _finite("log_ratios", log_ratios)
    if ratios.ndim not in (1, 2):
        raise ValueError(f"log_ratios have shape {ratios.shape}; expected (draws,) or (draws, N).")
    columns = ratios.reshape(len(ratios), -1)
    smoothed = [_one(column) for column in columns.T]
    weights = np.stack([w for w, _ in smoothed], 1).reshape(ratios.shape)
    shapes = np.array([k for _, k in smoothed])
    return weights, shapes if ratios.ndim == 2 else shapes[0]


def _one(log_ratios: Array) -> tuple[Array, float]:
    S = len(log_ratios)
    log_w = log_ratios - log_ratios.max()
    size = int(min(0.2 * S, 3 * np.sqrt(S)))
    k = np.inf
    if size >= _LEAST_TAIL:
        order = np.argsort(log_w)
        tail, below = order[-size:], order[-size - 1]
        threshold = np.exp(log_w[below])
        excess = np.exp(log_w[tail]) - threshold
        if excess[0] <= 1e-12 * excess[-1] or excess[-1] <= np.finfo(float).tiny:
            k = -np.inf if np.ptp(log_w) < 1e-9 or excess[-1] < 1e-9 * threshold else np.inf
        else:
            k, sigma = _pareto_fit(excess)
            p = (np.arange(size) + 0.5) / size
            expected = -np.log1p(-p) if abs(k) < 1e-9 else np.expm1(-k * np.log1p(-p)) / k
            log_w = log_w.copy()
            log_w[tail] = np.minimum(np.log(threshold + sigma * expected), 0.0)
    return log_w - np.logaddexp.reduce(log_w), k


def _pareto_fit(excess: Array) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution, from sorted excesses `[n]`."""
    n = len(excess)
    grid = 30 + int(np.sqrt(n))
    i = np.arange(1, grid + 1)
    quartile = excess[int(n / 4 + 0.5) - 1]
    theta = 1 / excess[-1] + (1 - np.sqrt(grid / (i - 0.5))) / (3 * quartile)
    shape = np.log1p(-theta[:, None] * excess).mean(1)
    likelihood = n * (np.log(-theta / shape) - shape - 1)
    weights = np.exp(likelihood - np.logaddexp.reduce(likelihood))
    best = float(weights @ theta)
    k = float(np.log1p(-best * excess).mean())
    sigma = -k / best
    return (n * k + 10 * 0.5) / (n + 10), sigma
