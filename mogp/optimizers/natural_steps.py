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
    trust: float | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    r"""One step of `Natural` on a batch of Gaussians $N(\mathbf m, LL^\top)$.

    With $a = L^\top\nabla_{\mathbf m}$ and $I + \beta P = UU^\top$ (see `Natural`) the step is
    $L_{t+1} = LU^{-\top}$, $\mathbf m_{t+1} = \mathbf m_t - \beta LU^{-\top}U^{-1}a$, its length

    $$\mathrm{KL}[q_{t+1}\|q_t] = \tfrac12\big[\|U^{-1}\|_F^2 - M + 2\textstyle\sum_i\log U_{ii}
      + \beta^2\|U^{-\top}U^{-1}a\|^2\big].$$

    Args:
        m: `[..., M]` means.
        L: `[..., M, M]` lower factors of the covariances.
        by_m: `[..., M]` gradient with respect to the means.
        by_L: `[..., M, M]` gradient with respect to the lower triangles.
        step: $\beta$.
        momentum: $\upsilon$.
        before: the means before the last step; needed with momentum.
        trust: $\beta$ is halved until the length is at most `trust` $M$ nats; None for any length.
            (The momentum is not counted: it is what a step before was allowed.)

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
    M = P.shape[-1]
    eye = tf.eye(M, batch_shape=tf.shape(P)[:-2], dtype=P.dtype)
    a = tf.linalg.matvec(L, by_m, transpose_a=True)

    def inverse(beta: tf.Tensor) -> tf.Tensor:
        """`U⁻¹` for the upper `U` with `U Uᵀ = I + β P`; NaN where there is none."""
        # TensorFlow has lower factors only: turned round by 180°, one of them is upper.
        C = tf.reverse(eye + beta[..., None, None] * P, [-2, -1])
        U = tf.reverse(tf.linalg.cholesky(C), [-2, -1])
        return tf.linalg.triangular_solve(U, eye, lower=False)

    def change(beta: tf.Tensor, V: tf.Tensor) -> tf.Tensor:
        """`L⁻¹ (m - m_new)`, without momentum."""
        there = tf.linalg.matvec(V, tf.linalg.matvec(V, a), transpose_a=True)
        return beta[..., None] * there

    def too_far(beta: tf.Tensor, V: tf.Tensor) -> tf.Tensor:
        """Whether the step is longer than trusted, or leads out of the Gaussians."""
        if trust is None:
            return tf.reduce_any(tf.math.is_nan(tf.linalg.diag_part(V)), -1)
        length = 0.5 * (
            tf.reduce_sum(tf.square(V), [-2, -1])
            - M
            - 2 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(V)), -1)
            + tf.reduce_sum(tf.square(change(beta, V)), -1)
        )
        return _above(length, trust * M)

    def halved(beta: tf.Tensor, V: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        smaller = tf.where(too_far(beta, V), 0.5 * beta, beta)
        return smaller, inverse(smaller)

    beta = tf.fill(tf.shape(P)[:-2], tf.convert_to_tensor(step, P.dtype))
    beta, V = tf.while_loop(
        lambda beta, V: tf.reduce_any(too_far(beta, V)),
        halved,
        (beta, inverse(beta)),
        maximum_iterations=_MOST_HALVINGS,
    )
    new_L = tf.linalg.matmul(L, V, transpose_b=True)
    new_m = m - tf.linalg.matvec(L, change(beta, V))
    # V_{t+1} V_t⁻¹ d = L_{t+1} U⁻¹ L_t⁻¹ d: no inverse of a covariance.
    if momentum:
        assert before is not None
        lately = tf.linalg.triangular_solve(L, (m - before)[..., None])
        new_m += momentum * tf.linalg.matmul(new_L, tf.linalg.matmul(V, lately))[..., 0]
    return new_m, new_L


def _above(length: tf.Tensor, most: float) -> tf.Tensor:
    """Whether a length is too large, or NaN."""
    # Not `~(length <= most)`: compiled graphs turn that into `length > most`, which NaN is not.
    return (length > most) | tf.math.is_nan(length)


def parsimonious_step(
    K: tf.Tensor,
    mu: tf.Tensor,
    sigma: tf.Tensor,
    by_mu: tf.Tensor,
    by_sigma: tf.Tensor,
    step: tf.Tensor,
    momentum: float = 0.0,
    before: tf.Tensor | None = None,
    trust: float | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    r"""One step of `Natural` on a batch of `Parsimonious` posteriors.

    Their means are $m = K\mu$, their precisions $K^{-1} + \Lambda$. With the statistics
    $(u, u\circ u)$ this is an exponential family, with natural parameters $S^{-1}m$ and
    $-\tfrac12\lambda$ for $\Lambda = \mathrm{diag}\,\lambda = \Sigma^{-1}$. As
    $\partial S_{ii}/\partial\lambda_j = -S_{ij}^2$,

    $$\lambda_{t+1} = \lambda_t - 2\beta(S\circ S)^{-1}\nabla_\lambda,\qquad
      m_{t+1} = m_t - \beta S_{t+1}\nabla_m + \upsilon S_{t+1}S_t^{-1}(m_t - m_{t-1}),$$

    where $K^{-1}S_{t+1} = (K + \Sigma_{t+1})^{-1}\Sigma_{t+1}$ gives the step of $\mu$. $\beta$ is
    halved where a $\lambda$ would not stay positive, or the step would be longer than trusted. Its
    length $\mathrm{KL}[q_{t+1}\|q_t]$ is, with $d = \mu_{t+1} - \mu_t$ (no momentum) and $w = Kd$,

    $$\tfrac12\Big[\sum_i(\lambda_t - \lambda_{t+1})_i [S_{t+1}]_{ii}
      - \log\frac{|S_{t+1}|}{|S_t|} + d^\top w + w^\top\Lambda_t w\Big],\qquad
      \log|S| = \log|K| + \log|\Sigma| - \log|K + \Sigma|.$$

    Args:
        K: `[..., M, M]` covariances of the inducing variables.
        mu, sigma: `[..., M]` parameters.
        by_mu, by_sigma: `[..., M]` gradients.
        step: $\beta$.
        momentum: $\upsilon$.
        before: `mu` before the last step; needed with momentum.
        trust: see `natural_step`.

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
    M = K.shape[-1]
    old = cholesky(K + tf.linalg.diag(sigma), 0.0, "Kuu + Sigma")
    A = tf.linalg.triangular_solve(old, K)
    S = K - tf.linalg.matmul(A, A, transpose_a=True)
    by_lambda = -tf.square(sigma) * by_sigma
    change = (
        -2 * tf.linalg.cholesky_solve(cholesky(S * S, name="S o S"), by_lambda[..., None])[..., 0]
    )
    uphill = tf.linalg.cholesky_solve(cholesky(K, name="Kuu"), by_mu[..., None])[..., 0]
    precision = 1 / sigma

    def log_ratio(sigma: tf.Tensor, root: tf.Tensor) -> tf.Tensor:
        """`log |S| - log |K|`."""
        diagonal = tf.math.log(tf.linalg.diag_part(root))
        return tf.reduce_sum(tf.math.log(sigma) - 2 * diagonal, -1)

    def moved(root: tf.Tensor, sigma: tf.Tensor, by: tf.Tensor) -> tf.Tensor:
        """`K⁻¹ S K⁻¹ K by = (K + Σ)⁻¹ Σ by`."""
        return tf.linalg.cholesky_solve(root, (sigma * by)[..., None])[..., 0]

    def too_far(beta: tf.Tensor) -> tf.Tensor:
        new = precision + beta[..., None] * change
        outside = tf.reduce_any((new <= 0) | tf.math.is_nan(new), -1)
        if trust is None:
            return outside
        there = tf.where(outside[..., None], sigma, 1 / new)
        root = cholesky(K + tf.linalg.diag(there), 0.0, "Kuu + Sigma")
        A = tf.linalg.triangular_solve(root, K)
        spread = tf.linalg.diag_part(K) - tf.reduce_sum(A * A, -2)
        d = beta[..., None] * moved(root, there, uphill)
        w = tf.linalg.matvec(K, d)
        length = 0.5 * (
            tf.reduce_sum((precision - 1 / there) * spread + d * w + precision * w * w, -1)
            - log_ratio(there, root)
            + log_ratio(sigma, old)
        )
        return outside | _above(length, trust * M)

    beta = tf.fill(tf.shape(K)[:-2], tf.convert_to_tensor(step, K.dtype))
    (beta,) = tf.while_loop(
        lambda beta: tf.reduce_any(too_far(beta)),
        lambda beta: (tf.where(too_far(beta), 0.5 * beta, beta),),
        (beta,),
        maximum_iterations=_MOST_HALVINGS,
    )
    new = 1 / (precision + beta[..., None] * change)
    direction = -beta[..., None] * uphill
    if momentum:
        assert before is not None
        lately = mu - before
        direction += momentum * (lately + precision * tf.linalg.matvec(K, lately))
    root = cholesky(K + tf.linalg.diag(new), 0.0, "Kuu + Sigma")
    return mu + moved(root, new, direction), new
