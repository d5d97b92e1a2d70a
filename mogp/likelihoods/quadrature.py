"""Gauss-Hermite quadrature that finds where the integrand is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from check_shapes import inherit_check_shapes
from gpflow.base import TensorType
from gpflow.quadrature import NDiagGHQuadrature

__all__ = ["SMALLEST_VARIANCE", "GaussHermite"]

SMALLEST_VARIANCE = 1e-12
TEMPERATURES = [*(16.0**-k for k in range(5, -1, -1)), 1.0]
WIDENING = 0.05


class GaussHermite(NDiagGHQuadrature):
    r"""GPflow's Gauss-Hermite quadrature, safe for small variances and for peaks.

    The integrals are over $q(f) = \prod_j \mathcal N(f_j \mid m_j, v_j)$. Variances that rounding
    brought to zero or below it are raised to $10^{-12}$.

    `logspace`, $\log\int e^{h(f)} q(f)\,df$, puts its nodes not where $q$ is but where $e^h q$ is.
    (The Poisson density of a count of 1000, as a function of $f$, is 60 times narrower than $q$
    with $v = 4$ and falls between the nodes of the fixed rule, which with 20 of them is wrong by
    150 nats.) With $f = m + \sqrt v\,z$, a normal $r(z) = \mathcal N(c, LL^\top)$ starts as
    $p(z) = \mathcal N(0, I)$ and is matched in turn to the mean and the covariance of $e^{th}p$ for
    $t = 16^{-5}, ..., \tfrac1{16}, 1, 1$, each found with the nodes of the $r$ before it, and
    widened by a little of that. The integral is $\int (e^h p / r)\,r\,dz$ with the nodes of the
    last.
    """

    @inherit_check_shapes
    def _build_X_W(self, mean: TensorType, var: TensorType) -> tuple[tf.Tensor, tf.Tensor]:
        points: tuple[tf.Tensor, tf.Tensor] = super()._build_X_W(
            mean, tf.maximum(var, SMALLEST_VARIANCE)
        )
        return points

    @inherit_check_shapes
    def logspace(
        self,
        fun: Callable[..., tf.Tensor],
        mean: TensorType,
        var: TensorType,
        *args: Any,
        **kwargs: Any,
    ) -> tf.Tensor:
        r"""$\log\int e^{h(f)} q(f)\,df$, [..., N, 1], where `fun` takes f [S, ..., N, J] to $h(f)$
        [S, ..., N, 1].
        """
        mean, scale = tf.convert_to_tensor(mean), tf.sqrt(tf.maximum(var, SMALLEST_VARIANCE))
        nodes = tf.reshape(
            tf.cast(self.Z, mean.dtype), [-1, *[1] * (len(mean.shape) - 1), self.dim]
        )
        log_weights = tf.math.log(tf.reshape(tf.cast(self.dZ, mean.dtype), nodes.shape[:-1]))

        def log_terms(z: tf.Tensor, factor: tf.Tensor, temperature: float) -> tf.Tensor:
            h = fun(mean + scale * z, *args, **kwargs)[..., 0]
            log_volume = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)), axis=-1)
            return (
                temperature * h
                + 0.5 * tf.reduce_sum(nodes**2 - z**2, axis=-1)
                + log_volume
                + log_weights
            )

        z, factor = nodes + tf.zeros_like(mean), tf.linalg.diag(tf.ones_like(mean))
        for temperature in TEMPERATURES:
            weights = tf.nn.softmax(log_terms(z, factor, temperature), axis=0)[..., None]
            centre = tf.reduce_sum(weights * z, axis=0)
            deviation = tf.sqrt(weights) * (z - centre)
            covariance = tf.einsum("s...i,s...j->...ij", deviation, deviation)
            factor = tf.linalg.cholesky(
                covariance + WIDENING * tf.matmul(factor, factor, transpose_b=True)
            )
            # The integral does not depend on where its nodes are, so they carry no gradient.
            z, factor = (
                tf.stop_gradient(centre + tf.linalg.matvec(factor, nodes)),
                tf.stop_gradient(factor),
            )
        return tf.reduce_logsumexp(log_terms(z, factor, 1.0), axis=0)[..., None]
