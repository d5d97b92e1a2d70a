"""Cholesky factors of nearly singular matrices, and a Gaussian density with a cheap gradient."""

from __future__ import annotations

from collections.abc import Callable

import gpflow
import numpy as np
import tensorflow as tf

__all__ = ["cholesky", "cholesky_and_jitter", "first_jitter", "log_evidence"]

_LARGEST_JITTER = 1e-2
_FLOAT32_JITTER = 1e-4
"""Of the mean diagonal. With less, float32 factors of up to 1000 inducing points that lie close
together exist, but their log determinants are wrong and the variances they leave negative.
"""
_ADVICE = (
    "NaN: the step size may be too large; otherwise: use fewer inducing points, shorter"
    " lengthscales, or float64."
)


def cholesky(K: tf.Tensor, jitter: float | None = None, name: str = "the covariance") -> tf.Tensor:
    """Lower factor `L` with `L Lᵀ = K + ε I` for a batch of matrices.

    Members of the batch whose factorisation fails, and only those, are tried again with ten times
    the jitter `ε`, up to 1e-2 of their mean diagonal; then the error names the matrix. A `K` that
    holds NaN fails at once: no jitter repairs it.

    Args:
        K: `[..., M, M]`.
        jitter: first value of `ε`; that of `first_jitter` if None.
        name: what the error calls the matrix.

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from mogp.linalg import cholesky
    >>> singular = tf.ones([2, 2], tf.float64)
    >>> L = cholesky(singular, jitter=0.0)
    >>> np.round(L @ tf.transpose(L), 6).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    # The gradient depends on the factor alone, not on the jitters tried: it need not go through
    # the loop.
    @tf.custom_gradient
    def factor(K: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        L, _ = cholesky_and_jitter(K, jitter, name)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            """`½ (G + Gᵀ)` with `G = L⁻ᵀ Φ(Lᵀ L̄) L⁻¹`.

            `Φ` keeps the lower triangle and half the diagonal.
            """
            inner = tf.linalg.band_part(tf.linalg.matmul(L, upstream, adjoint_a=True), -1, 0)
            inner = tf.linalg.set_diag(inner, 0.5 * tf.linalg.diag_part(inner))
            left = tf.linalg.triangular_solve(L, inner, adjoint=True)
            G = tf.linalg.triangular_solve(L, tf.linalg.adjoint(left), adjoint=True)
            return 0.5 * (G + tf.linalg.adjoint(G))

        return L, gradient

    L: tf.Tensor = factor(K)
    return L


def log_evidence(y: tf.Tensor, K: tf.Tensor) -> tf.Tensor:
    r"""The Gaussian log density $\log N(y \mid 0, K)$, with its gradient in closed form.

    With $\alpha = K^{-1} y$ the gradients are $-\alpha$ and $\tfrac12(\alpha\alpha^\top - K^{-1})$:
    one inverse, where the gradient of a Cholesky factor takes several products of that size.

    Args:
        y: `[..., N]`.
        K: `[..., N, N]`.

    >>> import tensorflow as tf
    >>> from mogp.linalg import log_evidence
    >>> y, K = tf.constant([1.0, -1.0], tf.float64), tf.eye(2, dtype=tf.float64)
    >>> round(float(log_evidence(y, K)), 4)
    -2.8379
    """

    @tf.custom_gradient
    def density(
        y: tf.Tensor, K: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]]:
        L, _ = cholesky_and_jitter(K, jitter=0.0, name="the covariance of the data")
        alpha = tf.linalg.cholesky_solve(L, y[..., None])
        logdet = 2 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(L)), -1)
        constant = float(np.log(2 * np.pi)) * tf.cast(tf.shape(y)[-1], K.dtype)
        value = -0.5 * (tf.reduce_sum(y * alpha[..., 0], -1) + logdet + constant)

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            eye = tf.eye(tf.shape(L)[-1], batch_shape=tf.shape(L)[:-2], dtype=L.dtype)
            inverse = tf.linalg.cholesky_solve(L, eye)
            by_K = 0.5 * (tf.linalg.matmul(alpha, alpha, transpose_b=True) - inverse)
            return -upstream[..., None] * alpha[..., 0], upstream[..., None, None] * by_K

        return value, gradient

    value: tf.Tensor = density(y, K)
    return value


def cholesky_and_jitter(
    K: tf.Tensor, jitter: float | None = None, name: str = "the covariance"
) -> tuple[tf.Tensor, tf.Tensor]:
    """As `cholesky`, with the jitter `ε [...]` that each member needed and TensorFlow's gradient.

    >>> import tensorflow as tf
    >>> from mogp.linalg import cholesky_and_jitter
    >>> K = tf.stack([tf.eye(2, dtype=tf.float64), tf.ones([2, 2], tf.float64)])
    >>> _, jitter = cholesky_and_jitter(K, jitter=0.0)
    >>> (jitter > 0).numpy().tolist()
    [False, True]
    """
    smallest = 1e-10 if K.dtype == tf.float64 else _FLOAT32_JITTER
    eye = tf.eye(K.shape[-1] or tf.shape(K)[-1], dtype=K.dtype)

    def failed(L: tf.Tensor) -> tf.Tensor:
        return tf.reduce_any(tf.math.is_nan(tf.linalg.diag_part(L)), -1)

    def unfinished(L: tf.Tensor, added: tf.Tensor) -> tf.Tensor:
        repairable = tf.reduce_all(tf.math.is_finite(K), (-2, -1)) & (
            added < _LARGEST_JITTER * _mean_diagonal(K)
        )
        return tf.reduce_any(failed(L) & repairable)

    def harder(L: tf.Tensor, added: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        bad = failed(L)
        more = tf.where(bad, tf.maximum(10 * added, smallest * _mean_diagonal(K)), added)
        again = tf.linalg.cholesky(K + more[..., None, None] * eye)
        return tf.where(bad[..., None, None], again, L), more

    if jitter is None:
        added = first_jitter(K)
    else:
        added = tf.fill(tf.shape(K)[:-2], tf.constant(jitter, K.dtype))
    L = tf.linalg.cholesky(K if jitter == 0 else K + added[..., None, None] * eye)

    def repaired() -> tuple[tf.Tensor, tf.Tensor]:
        better, more = tf.while_loop(unfinished, harder, (L, added))
        said = [
            f"{name} has no Cholesky factor, even with jitter of",
            tf.reduce_max(more),
            "- shape:",
            tf.shape(K),
        ]
        said += [
            "entries that are NaN or infinite:",
            tf.math.count_nonzero(~tf.math.is_finite(K)),
            "- " + _ADVICE,
        ]
        with tf.control_dependencies([tf.debugging.Assert(~tf.reduce_any(failed(better)), said)]):
            return tf.identity(better), more

    # Nearly always the first attempt succeeds, and the loop is never entered.
    factor: tuple[tf.Tensor, tf.Tensor] = tf.cond(
        tf.reduce_any(failed(L)), repaired, lambda: (L, added)
    )
    return factor


def first_jitter(K: tf.Tensor) -> tf.Tensor:
    """`ε [...]` that is added to every member of `K [..., M, M]` before any of them has failed.

    GPflow's default jitter; in float32 at least 1e-4 of the mean diagonal.

    >>> import tensorflow as tf
    >>> from mogp.linalg import first_jitter
    >>> float(first_jitter(tf.eye(2, dtype=tf.float64)))
    1e-06
    >>> round(float(first_jitter(4 * tf.eye(2))), 6)
    0.0004
    """
    default = tf.fill(tf.shape(K)[:-2], tf.constant(gpflow.default_jitter(), K.dtype))
    if K.dtype == tf.float64:
        return default
    return tf.maximum(default, _FLOAT32_JITTER * _mean_diagonal(K))


def _mean_diagonal(K: tf.Tensor) -> tf.Tensor:
    """At least so much that a jitter of 1e-10 of it is not rounded to zero, and can grow."""
    least = 1e-280 if K.dtype == tf.float64 else 1e-30
    return tf.maximum(tf.reduce_mean(tf.linalg.diag_part(K), -1), least)
