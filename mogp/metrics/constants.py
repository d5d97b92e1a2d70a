"""The best constant prediction of a set of targets: what any model should beat."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from mogp.metrics.predictions import _finite

Array = NDArray[np.float64]
Kind = Literal["real", "positive", "share", "count", "class"]


def constant_log_density(
    y: ArrayLike, kind: Kind = "real", fitted_to: ArrayLike | None = None
) -> Array:
    r"""Log density of targets under the constant prediction that fits them best, [N].

    By the kind of target: a Gaussian with their mean and variance ("real"), a gamma ("positive")
    or beta ("share", between 0 and 1) distribution with these moments, a negative binomial with
    these moments, or a Poisson if they vary less ("count"), or the shares of the classes
    ("class").

    Args:
        y: [N] targets.
        kind: of the targets.
        fitted_to: other targets, such as those of the training data, in place of `y`. Shares of
            classes then begin with half a row each.

    >>> import numpy as np
    >>> from mogp.metrics import constant_log_density
    >>> y = np.repeat([0.0, 1.0], 500)
    >>> np.round(np.exp(constant_log_density(y, "class")).mean(), 2)
    0.5
    """
    values = _finite("y", y).ravel()
    known = values if fitted_to is None else _finite("fitted_to", fitted_to).ravel()
    if kind == "class":
        return _of_classes(values, known, 0.0 if fitted_to is None else 0.5)
    N, mean = len(known), known.mean()
    var = max(known.var(), 1e-12 * max(1.0, float(np.mean(known**2))))
    if kind == "count":
        if var <= mean or mean == 0:
            return np.asarray(stats.poisson(max(mean, 0.5 / N)).logpmf(values))
        size = mean**2 / (var - mean)
        return np.asarray(stats.nbinom(size, size / (size + mean)).logpmf(values))
    if kind == "positive":
        fitted = stats.gamma(mean**2 / var, scale=var / mean)
    elif kind == "share":
        total = mean * (1 - mean) / var - 1
        fitted = stats.beta(mean * total, (1 - mean) * total)
    else:
        fitted = stats.norm(mean, np.sqrt(var))
    return np.asarray(fitted.logpdf(values))


def _of_classes(values: Array, known: Array, more: float) -> Array:
    classes = np.union1d(values, known)
    counts = np.bincount(np.searchsorted(classes, known), minlength=len(classes)) + more
    return np.asarray(np.log(counts / counts.sum())[np.searchsorted(classes, values)])
