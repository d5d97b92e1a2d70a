"""Natural-gradient steps on Gaussian posteriors, full and parsimonious, as plain functions."""

from __future__ import annotations

import tensorflow as tf

from mogp.linalg import cholesky

__all__ = ["natural_step", "parsimonious_step"]

_MOST_HALVINGS = 60


def natural_step(
    m: tf.Tensor,
    L: tf.Tensor,
    by_m: tf.Tensor,
    by_L: tf.Tensor,
    step: tf.Tensor,
    momentum: float = 0.0,
    before: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    r"""One step of `Natural` on a batch of Gaussians $N(\mathbf m, LL^\top)$.

    Args:
        m: `[..., M]` means.
        L: `[..., M, M]` lower factors of the covariances.
        by_m: `[..., M]` gradient with respect to the means.
        by_L: `[..., M, M]` gradient with respect to the lower triangles.
        step: $\beta$.
        momentum: $\upsilon$.
        before: the means before the last step; needed with momentum.

    Returns:
        The new means and lower factors.

    >>> import tensorflow as tf
    >>> from mogp.optimizers import natural_step
    >>> m, L = tf.constant([0.0]), tf.constant([[1.0]])
    >>> m, L = natural_step(m, L, by_m=tf.constant([-2.0]), by_L=tf.constant([[3.0]]), step=1.0)
    >>> m.numpy().tolist(), L.numpy().tolist()
    ([0.5], [[0.5]])
    """
    inner = tf.linalg.band_part(tf.linalg.matmul(L, by_L, transpose_a=True), -1, 0)
    inner = tf.linalg.set_diag(inner, 0.5 * tf.linalg.diag_part(inner))
    P = inner + tf.linalg.matrix_transpose(inner)
    eye = tf.eye(P.shape[-1], dtype=P.dtype)

    def factor(beta: tf.Tensor) -> tf.Tensor:
        """Upper `U` with `U Uᵀ = I + β P`."""
        # TensorFlow has lower factors only: turned round by 180°, one of them is upper.
        C = eye + beta[..., None, None] * P
        return tf.reverse(tf.linalg.cholesky(tf.reverse(C, [-2, -1])), [-2, -1])

    def failed(U: tf.Tensor) -> tf.Tensor:
        return tf.reduce_any(tf.math.is_nan(tf.linalg.diag_part(U)), -1)

    def halved(
        beta: tf.Tensor, U: tf.Tensor, halvings: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        smaller = tf.where(failed(U), 0.5 * beta, beta)
        return smaller, factor(smaller), halvings + 1

    beta = tf.fill(tf.shape(P)[:-2], tf.convert_to_tensor(step, P.dtype))
    beta, U, _ = tf.while_loop(
        lambda beta, U, halvings: tf.reduce_any(failed(U)) & (halvings < _MOST_HALVINGS),
        halved,
        (beta, factor(beta), tf.constant(0)),
    )
    new_L = tf.linalg.matrix_transpose(
        tf.linalg.triangular_solve(U, tf.linalg.matrix_transpose(L), lower=False)
    )
    new_m = m - beta[..., None] * tf.linalg.matvec(
        new_L, tf.linalg.matvec(new_L, by_m, transpose_a=True)
    )
    # V_{t+1} V_t⁻¹ d = L_{t+1} U⁻¹ L_t⁻¹ d: two triangular solves, no inverse.
    if momentum:
        assert before is not None
        change = tf.linalg.triangular_solve(L, (m - before)[..., None])
        pushed = tf.linalg.matmul(new_L, tf.linalg.triangular_solve(U, change, lower=False))
        new_m += momentum * pushed[..., 0]
    return new_m, new_L


def parsimonious_step(
    K: tf.Tensor,
    mu: tf.Tensor,
    sigma: tf.Tensor,
    by_mu: tf.Tensor,
    by_sigma: tf.Tensor,
    step: tf.Tensor,
    momentum: float = 0.0,
    before: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    r"""One step of `Natural` on a batch of `Parsimonious` posteriors.

    Their means are $m = K\mu$, their precisions $K^{-1} + \Lambda$. With the statistics
    $(u, u\circ u)$ this is an exponential family, with natural parameters $S^{-1}m$ and
    $-\tfrac12\lambda$ for $\Lambda = \mathrm{diag}\,\lambda = \Sigma^{-1}$. As
    $\partial S_{ii}/\partial\lambda_j = -S_{ij}^2$,

    $$\lambda_{t+1} = \lambda_t - 2\beta(S\circ S)^{-1}\nabla_\lambda,\qquad
      m_{t+1} = m_t - \beta S_{t+1}\nabla_m + \upsilon S_{t+1}S_t^{-1}(m_t - m_{t-1}),$$

    where $K^{-1}S_{t+1} = (K + \Sigma_{t+1})^{-1}\Sigma_{t+1}$ gives the step of $\mu$. $\beta$ is
    halved where a $\lambda$ would not stay positive.

    Args:
        K: `[..., M, M]` covariances of the inducing variables.
        mu, sigma: `[..., M]` parameters.
        by_mu, by_sigma: `[..., M]` gradients.
        step: $\beta$.
        momentum: $\upsilon$.
        before: `mu` before the last step; needed with momentum.

    Returns:
        The new `mu` and `sigma`.

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from mogp.optimizers import parsimonious_step
    >>> K, zero, one = tf.eye(2), tf.zeros([2]), tf.ones([2])
    >>> mu, sigma = parsimonious_step(K, zero, one, by_mu=-one, by_sigma=zero, step=1.0)
    >>> np.round(mu, 3).tolist(), np.round(sigma, 3).tolist()
    ([0.5, 0.5], [1.0, 1.0])
    """
    factor = cholesky(K, name="Kuu")
    A = tf.linalg.triangular_solve(cholesky(K + tf.linalg.diag(sigma), 0.0, "Kuu + Sigma"), K)
    S = K - tf.linalg.matmul(A, A, transpose_a=True)
    by_lambda = -tf.square(sigma) * by_sigma
    change = (
        -2 * tf.linalg.cholesky_solve(cholesky(S * S, name="S o S"), by_lambda[..., None])[..., 0]
    )
    precision = 1 / sigma

    def outside(beta: tf.Tensor) -> tf.Tensor:
        return tf.reduce_any(~(precision + beta[..., None] * change > 0), -1)

    beta = tf.fill(tf.shape(K)[:-2], tf.convert_to_tensor(step, K.dtype))
    (beta,) = tf.while_loop(
        lambda beta: tf.reduce_any(outside(beta)),
        lambda beta: (tf.where(outside(beta), 0.5 * beta, beta),),
        (beta,),
        maximum_iterations=_MOST_HALVINGS,
    )
    new = 1 / (precision + beta[..., None] * change)
    direction = -beta[..., None] * tf.linalg.cholesky_solve(factor, by_mu[..., None])[..., 0]
    if momentum:
        assert before is not None
        lately = mu - before
        direction += momentum * (lately + precision * tf.linalg.matvec(K, lately))
    moved = tf.linalg.cholesky_solve(
        cholesky(K + tf.linalg.diag(new), 0.0, "Kuu + Sigma"), (new * direction)[..., None]
    )
    return mu + moved[..., 0], new
