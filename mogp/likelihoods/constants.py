"""The constant functions that explain targets best: where offsets of functions start."""

from __future__ import annotations

from typing import Any, cast

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow import default_float
from scipy.optimize import minimize

Array = npt.NDArray[np.float64]

__all__ = ["best_constants", "density_slopes"]

_SPREAD = 3.0
_ROWS = 2000


def best_constants(likelihood: Any, Y: npt.ArrayLike) -> Array | None:
    r"""Constants $b$ `[J]` in place of the functions of an output that make its targets most
    probable,

    $$\max_b\ \sum_n \log p(y_n \mid f = b) - \frac{|b|^2}{2\cdot 3^2},$$

    where the last term keeps those finite that would run away (of targets that are all zero, say).

    Args:
        likelihood: of the output, of functions that can be given as numbers.
        Y: `[N, T]` targets, of which 2000 evenly spaced ones are read.

    Returns:
        `[J]`; None for likelihoods that cannot be asked for $p(y \mid f)$.

    >>> from mogp.likelihoods import HeteroscedasticGaussian, Poisson
    >>> best_constants(Poisson(), [[1.0], [3.0]] * 50).round(2).tolist()  # log 2
    [0.69]
    >>> best_constants(HeteroscedasticGaussian(), [[1.0], [3.0]] * 50).round(2).tolist()
    [2.0, 0.0]
    """
    targets = _some(Y)
    if isinstance(likelihood, gpflow.likelihoods.Gaussian):
        return targets.mean(0) if len(targets) else None
    start = np.zeros(int(likelihood.latent_dim or 0))
    if not len(start) or not len(targets) or _at(likelihood, start, targets) is None:
        return None

    def objective(b: Array) -> tuple[float, Array]:
        value, slopes = cast(tuple[float, Array], _at(likelihood, b, targets))
        return -value + float(b @ b) / (2 * _SPREAD**2), b / _SPREAD**2 - slopes.sum(0)

    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(-20, 20)] * len(start))
    best: Array = found.x if np.isfinite(found.fun) else start
    return best


def density_slopes(likelihood: Any, b: Array, Y: npt.ArrayLike) -> Array:
    r"""$\partial \log p(y_n \mid f)/\partial f$ at the constants `b [J]`, for every target,
    `[N, J]`: which way each function should move at a row. (Of a Gaussian whose noise reads inputs
    as if its variance were 1.)

    Args:
        likelihood: of the output.
        b: see `best_constants`.
        Y: `[N, T]` targets.

    >>> import numpy as np
    >>> from mogp.likelihoods import Gaussian
    >>> density_slopes(Gaussian(0.5), np.array([1.0]), [[2.0], [0.0]]).round(6).tolist()
    [[2.0], [-2.0]]
    """
    targets = np.asarray(Y, default_float())
    found = _at(likelihood, b, targets)
    if found is not None:
        return found[1]
    gaussian = isinstance(likelihood, gpflow.likelihoods.Gaussian)
    slopes: Array = targets - b if gaussian else np.zeros((len(targets), len(b)))
    return slopes


def _at(likelihood: Any, b: Array, Y: Array) -> tuple[float, Array] | None:
    """The log density of all targets at constants, and its slopes `[N, J]` by each row's functions;
    None where a likelihood does not know them.
    """
    F = tf.constant(np.tile(b, (len(Y), 1)), default_float())
    with tf.GradientTape() as tape:
        tape.watch(F)
        try:
            value = tf.reduce_sum(likelihood.log_prob(tf.zeros([len(Y), 0], F.dtype), F, Y))
        except (NotImplementedError, AttributeError, tf.errors.InvalidArgumentError):
            return None  # not defined, or it reads inputs
    slopes = tape.gradient(value, F)
    return None if slopes is None else (float(value), np.asarray(slopes, float))


def _some(Y: npt.ArrayLike) -> Array:
    targets = np.asarray(Y, default_float())
    if len(targets) <= _ROWS:
        return targets
    taken: Array = targets[np.linspace(0, len(targets) - 1, _ROWS).round().astype(int)]
    return taken
