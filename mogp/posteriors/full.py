"""The full Gaussian posterior, whitened or not."""

from __future__ import annotations

from itertools import pairwise

import gpflow
import numpy as np
import tensorflow as tf
from check_shapes import inherit_check_shapes
from gpflow.utilities import triangular

from mogp.linalg import cholesky
from mogp.posteriors.base import Factors, Posterior, by_latent, column_squares, squares

_BLOCK = 32


class Full(Posterior):
    r"""A Gaussian with a full covariance for every latent GP: $M(M+3)/2$ parameters for each.

    $q(u_l) = N(m_l, S_l)$ with $S_l = L_S L_S^\top$. With `whiten`, the parameters are those of
    $v_l$ in $u_l = L_u v_l$, $K_{uu} = L_u L_u^\top$, whose prior is $N(0, I)$. With
    $A = L_u^{-1} K_{uf}$ the marginals are

    $$\mu = A^\top m_v, \qquad \sigma^2 = k_{ff} - \mathrm{diag}(A^\top A)
      + \mathrm{diag}(A^\top S_v A),$$

    and without it the same, with $A$ replaced by $L_u^{-\top} A$ in the terms of $m$ and $S$. The
    parameters are laid out as GPflow's, `q_mu [M, L]` and `q_sqrt [L, M, M]`, so GPflow's natural
    gradients apply.

    Args:
        whiten: parametrise $v$ (the default) or $u$ itself.

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from mogp.posteriors import Full
    >>> posterior = Full()
    >>> posterior.build(kernels=1, copies=1, inducing=2)
    >>> _ = posterior.q_mu.assign([[1.0], [0.0]])
    >>> factors = posterior.factorise(tf.eye(2, batch_shape=[1], dtype=tf.float64))
    >>> Kuf = tf.constant([[[0.5], [0.0]]], tf.float64)
    >>> mean, var = posterior.project(factors, Kuf, Kff=tf.ones([1, 1], tf.float64))
    >>> np.round(mean, 3).tolist(), np.round(var, 3).tolist()
    ([[0.5]], [[1.0]])
    """

    def __init__(self, whiten: bool = True) -> None:
        super().__init__()
        self.whiten = whiten

    def _create(self, latents: int, inducing: int) -> None:
        dtype = gpflow.default_float()
        self.q_mu = gpflow.Parameter(np.zeros((inducing, latents), dtype))
        self.q_sqrt = gpflow.Parameter(
            np.tile(np.eye(inducing, dtype=dtype), (latents, 1, 1)), transform=triangular()
        )

    @inherit_check_shapes
    def factorise(self, Kuu: tf.Tensor) -> Factors:
        """One Cholesky factor for each distinct kernel and set of inducing inputs."""
        sqrt = tf.convert_to_tensor(self.q_sqrt)
        scale = tf.reshape(sqrt, [self.copies, -1, *sqrt.shape[1:]])
        return Factors(Kuu, cholesky(Kuu, name="Kuu"), self._by_copy(self.q_mu), scale)

    @inherit_check_shapes
    def project(
        self, factors: Factors, Kuf: tf.Tensor, Kff: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Moments of the latent GPs: see `Posterior.project`."""
        A = tf.linalg.triangular_solve(factors.cholesky, Kuf)
        residual = Kff - squares(A, Kff)
        if not self.whiten:
            A = tf.linalg.triangular_solve(factors.cholesky, A, adjoint=True)
        mean = tf.linalg.matvec(A, factors.location, transpose_a=True)
        return by_latent(mean), by_latent(residual + _spread(factors.scale, A, Kff))

    @inherit_check_shapes
    def kl(self, factors: Factors) -> tf.Tensor:
        r"""$\tfrac12[\|\alpha\|^2 + \|T\|_F^2 - M - \log|S| + \log|K_{uu}|]$ of every latent.

        $\alpha = L_u^{-1} m$ and $T = L_u^{-1} L_S$; whitened, $L_u$ is the identity here.
        """
        m, S = factors.location, factors.scale
        logs = -tf.reduce_sum(tf.math.log(tf.square(tf.linalg.diag_part(S))), -1)
        alpha, T = tf.transpose(m, [1, 2, 0])[..., None], _side_by_side(S)
        if not self.whiten:
            L = factors.cholesky
            logs += 2 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(L)), -1)
            alpha, T = _solved(L, alpha), _solved(L, T)
        both = tf.reduce_sum(tf.square(alpha), (1, 3)) + tf.reduce_sum(tf.square(T), (1, 3))
        return tf.reshape(0.5 * (tf.transpose(both) + logs - float(S.shape[-1])), [-1])

    @inherit_check_shapes
    def weights(self, factors: Factors) -> tf.Tensor:
        r"""$L_u^{-\top} m_v$, or $K_{uu}^{-1} m$: see `Posterior.weights`."""
        alpha = tf.transpose(factors.location, [1, 2, 0])
        if not self.whiten:
            alpha = tf.linalg.triangular_solve(factors.cholesky, alpha)
        return tf.transpose(
            tf.linalg.triangular_solve(factors.cholesky, alpha, adjoint=True), [2, 0, 1]
        )

    @inherit_check_shapes
    def moments(self, factors: Factors) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and covariance of the inducing values: see `Posterior.moments`."""
        m, S = factors.location[..., None], factors.scale
        if self.whiten:
            m, S = tf.linalg.matmul(factors.cholesky, m), tf.linalg.matmul(factors.cholesky, S)
        return by_latent(m[..., 0]), by_latent(tf.linalg.matmul(S, S, transpose_b=True))


def _side_by_side(S: tf.Tensor) -> tf.Tensor:
    """Matrices `[R, G, M, M']` of the copies of each kernel beside one another, `[G, M, R, M']`.

    What they are multiplied with is the same for all copies: one product of two matrices then
    serves them all.
    """
    return tf.transpose(S, [1, 2, 0, 3])


def _solved(L: tf.Tensor, S: tf.Tensor) -> tf.Tensor:
    """`L⁻¹ S` for `S [G, M, R, M']` of all copies."""
    columns = tf.reshape(S, tf.concat([tf.shape(S)[:2], [-1]], 0))
    return tf.reshape(tf.linalg.triangular_solve(L, columns), tf.shape(S))


def _spread(S: tf.Tensor, A: tf.Tensor, Kff: tf.Tensor) -> tf.Tensor:
    r"""$A^\top S_l S_l^\top A$, or its diagonal, as `Kff` has covariances or variances.

    Args:
        S: `[R, G, M, M]`, lower triangular.
        A: `[G, M, N]`.
        Kff: `[G, N]` or `[G, N, N]`.
    """
    copies, M = S.shape[0], S.shape[-1]
    if copies == 1 or Kff.shape.rank == 3:
        return squares(tf.linalg.matmul(S, A, transpose_a=True), Kff)
    wide, edges = _side_by_side(S), np.linspace(0, M, max(1, M // _BLOCK) + 1).astype(int)
    parts = []
    # Some columns of S at a time, without the rows above them, which are zero.
    for start, stop in pairwise(edges.tolist()):
        own = wide[:, start:, :, start:stop]
        columns = tf.reshape(own, [-1, M - start, copies * (stop - start)])
        product = tf.linalg.matmul(columns, A[:, start:], transpose_a=True)
        by_copy = tf.stack([tf.shape(A)[0], copies, stop - start, tf.shape(A)[-1]])
        parts.append(column_squares(tf.reshape(product, by_copy)))
    return tf.transpose(tf.add_n(parts), [1, 0, 2])
