"""The parsimonious posterior: two numbers for each inducing variable, and no inverse of `Kuu`."""

from __future__ import annotations

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from check_shapes import inherit_check_shapes

from mogp.linalg import cholesky
from mogp.posteriors.base import Factors, Posterior, by_latent, squares


class Parsimonious(Posterior):
    r"""A Gaussian with $2M$ parameters for every latent GP, which never inverts $K_{uu}$.

    $m_l = K_{uu}\mu_l$ and $S_l = (K_{uu}^{-1} + \Sigma_l^{-1})^{-1}$ with a diagonal $\Sigma_l$:

    $$\mu = K_{fu}\mu_l, \qquad \sigma^2 = k_{ff} -
      \mathrm{diag}\big(K_{fu}(K_{uu}+\Sigma_l)^{-1}K_{uf}\big),$$
    $$\mathrm{KL} = \tfrac12\{\mu_l^\top K_{uu}\mu_l - \mathrm{tr}((K_{uu}+\Sigma_l)^{-1}K_{uu})
      + \log|K_{uu}+\Sigma_l| - \log|\Sigma_l|\}.$$

    Only $K_{uu}+\Sigma_l$ is factorised, so duplicated inducing inputs do no harm. The price is a
    factor for each latent, even where latents share a kernel.

    Args:
        sigma: start value of the diagonal of every $\Sigma_l$.

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from mogp.posteriors import Parsimonious
    >>> posterior = Parsimonious(sigma=1.0)
    >>> posterior.build(kernels=1, copies=1, inducing=2)
    >>> factors = posterior.factorise(tf.ones([1, 2, 2], tf.float64))
    >>> mean, S = posterior.moments(factors)
    >>> np.round(S[0], 3).tolist()
    [[0.333, 0.333], [0.333, 0.333]]
    """

    def __init__(self, sigma: float = 1.0) -> None:
        super().__init__()
        if not sigma > 0:
            raise ValueError(f"sigma={sigma} must be positive.")
        self._start = sigma

    def _create(self, latents: int, inducing: int) -> None:
        dtype = gpflow.default_float()
        # Kept off zero: K + Sigma is factorised without jitter.
        bounded = tfp.bijectors.Chain(
            [tfp.bijectors.Shift(np.asarray(1e-6, dtype)), tfp.bijectors.Softplus()]
        )
        self.mu = gpflow.Parameter(np.zeros((inducing, latents), dtype))
        self.sigma = gpflow.Parameter(
            np.full((inducing, latents), self._start, dtype), transform=bounded
        )

    @inherit_check_shapes
    def factorise(self, Kuu: tf.Tensor) -> Factors:
        r"""Factors $\hat L\hat L^\top = K_{uu} + \Sigma_l$ of every latent, `[R, G, M, M]`."""
        sigma = self._by_copy(self.sigma)
        L = cholesky(Kuu + tf.linalg.diag(sigma), jitter=0.0, name="Kuu + Sigma")
        return Factors(Kuu, L, self._by_copy(self.mu), sigma)

    @inherit_check_shapes
    def project(
        self, factors: Factors, Kuf: tf.Tensor, Kff: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Moments of the latent GPs: see `Posterior.project`."""
        mean = tf.linalg.matvec(Kuf, factors.location, transpose_a=True)
        everywhere = tf.broadcast_to(
            Kuf, tf.concat([tf.shape(factors.cholesky)[:2], tf.shape(Kuf)[1:]], 0)
        )
        A = tf.linalg.triangular_solve(factors.cholesky, everywhere)
        return by_latent(mean), by_latent(Kff - squares(A, Kff))

    @inherit_check_shapes
    def kl(self, factors: Factors) -> tf.Tensor:
        r"""The KL above, `[L]`.

        It uses $\mathrm{tr}((K+\Sigma)^{-1}K) = M - \sum_j \sigma_j [(K+\Sigma)^{-1}]_{jj}$.
        """
        K, L, mu, sigma = factors
        inverse = tf.linalg.triangular_solve(
            L, tf.eye(tf.shape(L)[-1], batch_shape=tf.shape(L)[:2], dtype=L.dtype)
        )
        trace = tf.reduce_sum(1 - sigma * tf.reduce_sum(inverse**2, -2), -1)
        quadratic = tf.einsum("rgm,gmn,rgn->rg", mu, K, mu)
        logdet = 2 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(L)), -1) - tf.reduce_sum(
            tf.math.log(sigma), -1
        )
        return tf.reshape(0.5 * (quadratic - trace + logdet), [-1])

    @inherit_check_shapes
    def weights(self, factors: Factors) -> tf.Tensor:
        r"""$\mu_l$: see `Posterior.weights`."""
        return factors.location

    @inherit_check_shapes
    def moments(self, factors: Factors) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and covariance of the inducing values: see `Posterior.moments`."""
        K, L = factors.Kuu, factors.cholesky
        A = tf.linalg.triangular_solve(L, tf.broadcast_to(K, tf.shape(L)))
        m = tf.linalg.matvec(K, factors.location)
        return by_latent(m), by_latent(K - tf.linalg.matmul(A, A, transpose_a=True))
