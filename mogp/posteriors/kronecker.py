"""The Kronecker posterior: a Gaussian over inducing variables that lie on a grid."""

from __future__ import annotations

from typing import Any, NamedTuple

import gpflow
import numpy as np
import tensorflow as tf
from check_shapes import check_shapes
from gpflow.utilities import triangular

from mogp.kernels.expected import paired
from mogp.linalg import cholesky

_START = np.sqrt(0.1)


class KroneckerFactors(NamedTuple):
    r"""What all rows of a step share.

    Attributes:
        L_x: $L_X$, `[M_X, M_X]`.
        scale: $T_X$, `[M_X, M_X]`.
        root: $L_H^{-1}$, `[M_H, M_H]`.
        prior: $K_H^{-1}$, `[M_H, M_H]`.
        posterior: $L_H^{-\top} T_H T_H^\top L_H^{-1}$, `[M_H, M_H]`.
        mean: $\tilde M L_H^{-1}$, `[M_X, M_H]`.

    >>> import tensorflow as tf
    >>> from mogp.posteriors import Kronecker
    >>> posterior = Kronecker()
    >>> posterior.build(inputs=3, latents=2)
    >>> factors = posterior.factorise(tf.eye(3, dtype=tf.float64), tf.eye(2, dtype=tf.float64))
    >>> factors.mean.shape.as_list(), factors.prior.shape.as_list()
    ([3, 2], [2, 2])
    """

    L_x: tf.Tensor
    scale: tf.Tensor
    root: tf.Tensor
    prior: tf.Tensor
    posterior: tf.Tensor
    mean: tf.Tensor

    def variances(self, x: Projected, pairs: tf.Tensor) -> tf.Tensor:
        r"""What $q(U)$ leaves uncertain at rows, its covariance against $\Phi_d$, `[B, n]`.

        Args:
            x: rows `[B, n]`, or `[1, n]` that all outputs share.
            pairs: of $\Phi_d$, `[B, M_H (M_H + 1) / 2]`.
        """
        return tf.linalg.matvec(pairs, paired(self.posterior))[:, None] * x.posterior

    def covariances(self, x: Projected, Phi: tf.Tensor) -> tf.Tensor:
        r"""The same over `N` rows, `[B, N, N]`.

        Args:
            x: rows, with covariances between them.
            Phi: $\Phi_d$, `[B, M_H, M_H]`.
        """
        return tf.reduce_sum(Phi * self.posterior, [1, 2])[:, None, None] * x.posterior

    def given(self, x: Projected, k: tf.Tensor) -> tf.Tensor:
        r"""The same for latent variables that are known, `[B, S, n]`.

        Args:
            x: rows `[B, n]` or `[1, n]`.
            k: $k_H(h, Z^H)$, `[B, S, M_H]`.
        """
        told = tf.reduce_sum(tf.linalg.matmul(k, self.posterior) * k, -1)
        return told[..., None] * x.posterior[:, None]

    def by_row(self, x: Projected) -> tf.Tensor:
        """Weights `[n, M_H (M_H + 1) / 2]` of rows `[n]`, whose product with pairs is
        `variances`.
        """
        return x.posterior[:, None] * paired(self.posterior)

    def total(self, x: Projected) -> tf.Tensor:
        """The sum of `by_row` over the rows."""
        return tf.reduce_sum(x.posterior) * paired(self.posterior)

    def drawn(self, x: Projected, samples: int, seed: list[int]) -> tuple[tf.Tensor, tf.Tensor]:
        """`E [N, M_H]` at the mean, and what varies with the inducing variables: factors over
        outputs and over rows of its covariance.

        Args:
            x: rows, with covariances between them.
            samples: nothing is drawn here; see `JointGridFactors.drawn`.
            seed: of the draws.
        """
        return x.E, self.posterior


class Projected(NamedTuple):
    r"""What is known of rows $x_n$, with $a_n = L_X^{-1} k_X(Z^X, x_n)$.

    Attributes:
        E: $a_n^\top \tilde M L_H^{-1}$, `[N, M_H]`.
        prior: $a_n^\top a_{n'}$ `[N, N]`, or $|a_n|^2$ `[N]`.
        posterior: $a_n^\top T_X T_X^\top a_{n'}$, or $|T_X^\top a_n|^2$.
        Kff: $k_X(x_n, x_{n'})$, or $k_X(x_n, x_n)$.

    >>> import tensorflow as tf
    >>> from mogp.posteriors import Kronecker
    >>> posterior = Kronecker()
    >>> posterior.build(inputs=3, latents=2)
    >>> factors = posterior.factorise(tf.eye(3, dtype=tf.float64), tf.eye(2, dtype=tf.float64))
    >>> Kuf, Kff = tf.zeros([3, 5], tf.float64), tf.ones([5], tf.float64)
    >>> posterior.project(factors, Kuf, Kff).posterior.shape.as_list()
    [5]
    """

    E: tf.Tensor
    prior: tf.Tensor
    posterior: tf.Tensor
    Kff: tf.Tensor


class Kronecker(gpflow.Module):
    r"""A Gaussian over a grid of inducing variables `[M_X, M_H]`, whose covariance is a product.

    The prior of the variables $U$ is $\mathrm{vec}(U) \sim N(0, K_H \otimes K_X)$. With
    $K_X = L_X L_X^\top$ and $K_H = L_H L_H^\top$ the posterior is that of whitened variables,

    $$U = L_X V L_H^\top, \qquad
      \mathrm{vec}(V) \sim N(\mathrm{vec}(\tilde M),\, T_H T_H^\top \otimes T_X T_X^\top).$$

    It has $M_X M_H + \tfrac12 M_X(M_X+1) + \tfrac12 M_H(M_H+1)$ parameters, and neither a product
    $M_X M_H$ of rows nor a covariance of all variables is ever formed. What multiplies $T_X$ and
    divides $T_H$ cancels: only the product of the two covariances means something.

    A model calls `build` once, and at every step asks for `factorise`, `project` and `kl`, as with
    any `Posterior`. Natural gradients are refused: a step on the Gaussian of all variables leaves
    the family.

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from mogp.posteriors import Kronecker
    >>> posterior = Kronecker()
    >>> posterior.build(inputs=2, latents=1)
    >>> _ = posterior.q_mu.assign([[1.0], [0.0]])
    >>> factors = posterior.factorise(tf.eye(2, dtype=tf.float64), tf.eye(1, dtype=tf.float64))
    >>> M, S_x, S_h = posterior.moments(factors)
    >>> np.round(M, 3).tolist(), np.round(np.kron(S_h, S_x), 3).tolist()
    ([[1.0], [0.0]], [[0.01, 0.0], [0.0, 0.01]])
    """

    def build(self, inputs: int, latents: int) -> None:
        """Create the variational parameters.

        Args:
            inputs: inducing inputs, $M_X$.
            latents: inducing points of the latent space, $M_H$.
        """
        if "q_mu" in vars(self):
            raise ValueError(
                "this posterior already belongs to a model; give every model a new one."
            )
        self.q_mu = gpflow.Parameter(np.zeros((inputs, latents)))
        self.q_sqrt_x = gpflow.Parameter(_START * np.eye(inputs), transform=triangular())
        self.q_sqrt_h = gpflow.Parameter(_START * np.eye(latents), transform=triangular())

    @check_shapes("K_x: [M_X, M_X]", "K_h: [M_H, M_H]", "return.mean: [M_X, M_H]")
    def factorise(self, K_x: tf.Tensor, K_h: tf.Tensor) -> KroneckerFactors:
        """Factorise the covariances of the two sides of the grid, and read the parameters.

        Args:
            K_x: of the inducing inputs.
            K_h: of the inducing points of the latent space.
        """
        L_x, L_h = cholesky(K_x, name="K_X"), cholesky(K_h, name="K_H")
        # The inverse of a small matrix: all else that is made of K_H are products with it.
        root = tf.linalg.triangular_solve(L_h, tf.eye(K_h.shape[0], dtype=L_h.dtype))
        shaped = tf.linalg.matmul(self.q_sqrt_h, root, transpose_a=True)
        return KroneckerFactors(
            L_x=L_x,
            scale=tf.convert_to_tensor(self.q_sqrt_x),
            root=root,
            prior=tf.linalg.matmul(root, root, transpose_a=True),
            posterior=tf.linalg.matmul(shaped, shaped, transpose_a=True),
            mean=tf.linalg.matmul(self.q_mu, root),
        )

    @check_shapes(
        "factors.L_x: [M_X, M_X]",
        "Kuf: [M_X, N]",
        "Kff: [N, ...]",
        "return.E: [N, M_H]",
        "return.prior: [N, ...]",
        "return.posterior: [N, ...]",
    )
    def project(self, factors: Any, Kuf: tf.Tensor, Kff: tf.Tensor) -> Projected:
        """What the posterior knows of some inputs, whatever the latent variable.

        Args:
            factors: what `factorise` made of the covariances.
            Kuf: `[M_X, N]`.
            Kff: `[N]` prior variances, or `[N, N]` covariances.
        """
        A = tf.linalg.triangular_solve(factors.L_x, Kuf)
        TA = tf.linalg.matmul(factors.scale, A, transpose_a=True)
        E = tf.linalg.matmul(A, factors.mean, transpose_a=True)
        prior, posterior = (
            tf.reduce_sum(tf.square(a), 0)
            if Kff.shape.rank == 1
            else tf.linalg.matmul(a, a, transpose_a=True)
            for a in (A, TA)
        )
        return Projected(E, prior, posterior, Kff)

    def kl(self) -> tf.Tensor:
        r"""$\mathrm{KL}[q(U)\|p(U)] = \tfrac12\big(|T_H|^2 |T_X|^2 + |\tilde M|^2 - M_X M_H\big)
        - M_X \log|T_H| - M_H \log|T_X|$: that of whitened variables, whatever the kernels are."""
        T_x, T_h, M = (tf.convert_to_tensor(p) for p in (self.q_sqrt_x, self.q_sqrt_h, self.q_mu))
        M_x, M_h = M.shape
        trace = tf.reduce_sum(tf.square(T_h)) * tf.reduce_sum(tf.square(T_x))
        return (
            0.5 * (trace + tf.reduce_sum(tf.square(M)) - M_x * M_h)
            - M_x * _log_det(T_h)
            - M_h * _log_det(T_x)
        )

    @check_shapes(
        "factors.L_x: [M_X, M_X]",
        "return[0]: [M_X, M_H]",
        "return[1]: [M_X, M_X]",
        "return[2]: [M_H, M_H]",
    )
    def moments(self, factors: KroneckerFactors) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        r"""Mean of the inducing values $U$ themselves, and $S_X$, $S_H$ in their covariance
        $S_H \otimes S_X$."""
        T_x, T_h = (
            tf.linalg.matmul(factors.L_x, factors.scale),
            tf.linalg.triangular_solve(factors.root, self.q_sqrt_h),
        )
        M = tf.linalg.matmul(factors.L_x, self.q_mu)
        return (
            tf.transpose(tf.linalg.triangular_solve(factors.root, tf.transpose(M))),
            tf.linalg.matmul(T_x, T_x, transpose_b=True),
            tf.linalg.matmul(T_h, T_h, transpose_b=True),
        )


def _log_det(T: tf.Tensor) -> tf.Tensor:
    """Logarithm of the absolute determinant of a triangular matrix."""
    return 0.5 * tf.reduce_sum(tf.math.log(tf.square(tf.linalg.diag_part(T))))
