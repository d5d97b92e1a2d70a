"""Gaussian expectations of the softplus and the logistic function, for logistic likelihoods."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf
from scipy.special import roots_hermitenorm

from mogp.likelihoods.quadrature import SMALLEST_VARIANCE

__all__ = ["expected_sigmoid", "expected_softplus", "log_expected_odds", "log_expected_sigmoid"]

Pair = tuple[tf.Tensor, tf.Tensor]


def expected_softplus(mean: tf.Tensor, var: tf.Tensor, nodes: int = 10) -> tf.Tensor:
    r"""The expectation $\mathbb E\log(1 + e^f)$ for $f \sim \mathcal N(m, v)$, by elements.

    It is $\sum_s w_s \log(1 + e^{m + x_s\sqrt v})$, whose Gauss-Hermite nodes $x_s$ come in pairs
    $\pm x$ with equal weights. For $m \le 0$, $u = e^m$ and $e = e^{-x\sqrt v}$ a pair is

    $$\log(1 + u/e) + \log(1 + ue) = \log[(e + u)(1 + ue)] + x\sqrt v,$$

    one exponential and one logarithm, of numbers that cannot overflow. The same $u$ and $e$ make
    the gradient, $\partial_m = \sum_s w_s\sigma_s$ and $\partial_v = \sum_s w_s x_s\sigma_s /
    2\sqrt v$ with $\sigma = u/(e + u)$ and $ue/(1 + ue)$. For $m > 0$ it is $m$ and the value at
    $-m$.
    """
    # Beyond it u is kept from vanishing, and e is measured by it.
    limit = 0.9 * float(np.log(np.finfo(mean.dtype.as_numpy_dtype).max))

    @tf.custom_gradient
    def integral(mean: tf.Tensor, var: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], Pair]]:
        sd = tf.sqrt(tf.maximum(var, SMALLEST_VARIANCE))
        shift = tf.nn.relu(tf.abs(mean) - limit)
        u = tf.exp(shift - tf.abs(mean))
        value, by_mean, by_sd = tf.nn.relu(mean), tf.zeros_like(mean), tf.zeros_like(mean)
        for x, w in _half(nodes):
            log_e = tf.minimum(shift - tf.constant(x, mean.dtype) * sd, 0)
            e = tf.exp(log_e)
            ue, sum_a = u * e, e + u
            sum_b = 1 + ue
            sigma_a, sigma_b = u / sum_a, ue / sum_b
            weight = tf.constant(w, mean.dtype)
            value += weight * (tf.math.log(sum_a * sum_b) - log_e)
            by_mean += weight * (sigma_a + sigma_b)
            by_sd += tf.constant(w * x, mean.dtype) * (sigma_a - sigma_b)
        by_mean = tf.where(mean < 0, by_mean, 1 - by_mean)
        return value, lambda upstream: (upstream * by_mean, upstream * by_sd / (2 * sd))

    value: tf.Tensor = integral(mean, var)
    return value


def expected_sigmoid(mean: tf.Tensor, var: tf.Tensor, nodes: int = 20) -> tf.Tensor:
    r"""$\mathbb E_{\mathcal N(f \mid m, v)}\,\sigma(f)$, by elements."""
    sd = tf.sqrt(tf.maximum(var, SMALLEST_VARIANCE))
    terms = [
        tf.constant(w, mean.dtype) * (tf.sigmoid(mean + x * sd) + tf.sigmoid(mean - x * sd))
        for x, w in _half(nodes)
    ]
    return tf.add_n(terms)


def log_expected_sigmoid(mean: tf.Tensor, var: tf.Tensor, nodes: int = 20) -> tf.Tensor:
    r"""The logarithm of $\mathbb E\,\sigma(f)$, $f \sim \mathcal N(m, v)$, by elements.

    It is finite wherever $\log\sigma$ is: where a probability is too small for its type, terms are
    measured by that of the largest node, which is the largest of them.
    """
    small, large = _log_of_both(mean, var, nodes)
    return tf.where(mean < 0, small, large)


def log_expected_odds(mean: tf.Tensor, var: tf.Tensor, nodes: int = 20) -> tf.Tensor:
    r"""$\log\frac{p}{1 - p}$ of the probability $p = \mathbb E\,\sigma(f)$, by elements."""
    small, large = _log_of_both(mean, var, nodes)
    return tf.where(mean < 0, small - large, large - small)


def _log_of_both(mean: tf.Tensor, var: tf.Tensor, nodes: int) -> Pair:
    """Logarithms of the smaller one of $p$ and $1 - p$, which can be very small, and of the
    larger.
    """
    mean = tf.where(mean < 0, mean, -mean)
    p = expected_sigmoid(mean, var, nodes)
    # Beyond it the machine's precision is lost.
    smallest = np.finfo(p.dtype.as_numpy_dtype).tiny / np.finfo(p.dtype.as_numpy_dtype).eps
    small = tf.cond(
        tf.reduce_any(p < smallest),
        lambda: _log_of_small(mean, var, nodes),
        lambda: tf.math.log(p),
    )
    return small, tf.math.log1p(-p)


def _log_of_small(mean: tf.Tensor, var: tf.Tensor, nodes: int) -> tf.Tensor:
    sd = tf.sqrt(tf.maximum(var, SMALLEST_VARIANCE))
    half = _half(nodes)
    largest = tf.math.log_sigmoid(mean + half[-1][0] * sd)
    terms = [
        tf.constant(w, mean.dtype) * tf.exp(tf.math.log_sigmoid(mean + sign * x * sd) - largest)
        for x, w in half
        for sign in (1, -1)
    ]
    return largest + tf.math.log(tf.add_n(terms))


def _half(nodes: int) -> list[tuple[float, float]]:
    r"""Nodes $x \ge 0$ and weights of each of $\pm x$, for a standard normal; half the weight for
    $x = 0$.
    """
    if nodes < 1:
        raise ValueError(f"nodes={nodes}; at least one is needed.")
    points, weights = roots_hermitenorm(nodes)
    weights = weights / weights.sum()
    half = [(float(x), float(w)) for x, w in zip(points, weights, strict=True) if x > 1e-12]
    return half if nodes % 2 == 0 else [(0.0, float(weights[nodes // 2]) / 2), *half]
