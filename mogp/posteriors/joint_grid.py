"""The joint posterior of a grid: a Gaussian over all its inducing variables, in any covariance."""

from __future__ import annotations

from typing import Any, NamedTuple

import gpflow
import numpy as np
import tensorflow as tf
from check_shapes import check_shapes
from gpflow.utilities import triangular

from mogp.linalg import cholesky
from mogp.posteriors.joint import check_size
from mogp.posteriors.kronecker import Kronecker, Projected
from mogp.posteriors.optimum import best_kronecker


class JointGridFactors(NamedTuple):
    r"""What all rows of a step share: see `KroneckerFactors`.

    Attributes:
        L_x: $L_X$, `[M_X, M_X]`.
        scale: $(L_H^{-\top} \otimes I)\, T$, `[M_H, M_X, M_H M_X]`.
        root: $L_H^{-1}$, `[M_H, M_H]`.
        prior: $K_H^{-1}$, `[M_H, M_H]`.
        mean: $\tilde M L_H^{-1}$, `[M_X, M_H]`.

    >>> import tensorflow as tf
    >>> from mogp.posteriors import JointGrid
    >>> posterior = JointGrid()
    >>> posterior.build(inputs=3, latents=2)
    >>> factors = posterior.factorise(tf.eye(3, dtype=tf.float64), tf.eye(2, dtype=tf.float64))
    >>> factors.scale.shape.as_list()
    [2, 3, 6]
    """

    L_x: tf.Tensor
    scale: tf.Tensor
    root: tf.Tensor
    prior: tf.Tensor
    mean: tf.Tensor

    def variances(self, x: Projected, pairs: tf.Tensor) -> tf.Tensor:
        """See `KroneckerFactors.variances`."""
        return tf.linalg.matvec(x.posterior, pairs)

    def covariances(self, x: Projected, Phi: tf.Tensor) -> tf.Tensor:
        """See `KroneckerFactors.covariances`."""
        told = tf.linalg.matmul(x.posterior, self.scale)
        parts = [
            tf.linalg.matmul(tf.tensordot(Phi[:, i], told, 1), told[i], transpose_b=True)
            for i in range(Phi.shape[-1])
        ]
        return tf.add_n(parts)

    def given(self, x: Projected, k: tf.Tensor) -> tf.Tensor:
        """See `KroneckerFactors.given`."""
        lower, upper = np.tril_indices(self.root.shape[0])
        pairs = tf.gather(k, lower, axis=-1) * tf.gather(k, upper, axis=-1)
        return tf.linalg.matmul(pairs, x.posterior, transpose_b=True)

    def by_row(self, x: Projected) -> tf.Tensor:
        """See `KroneckerFactors.by_row`."""
        return x.posterior

    def total(self, x: Projected) -> tf.Tensor:
        """See `KroneckerFactors.total`."""
        return tf.reduce_sum(x.posterior, 0)

    def drawn(self, x: Projected, samples: int, seed: list[int]) -> tuple[tf.Tensor, None]:
        """`E` `[S, N, M_H]` of draws of the inducing variables: nothing else varies with them."""
        M_h, M_x, everything = self.scale.shape
        normal = tf.random.stateless_normal([samples, everything], seed, dtype=self.scale.dtype)
        T = tf.reshape(self.scale, [everything, everything])
        apart = tf.reshape(tf.linalg.matmul(normal, T, transpose_b=True), [samples, M_h, M_x])
        values = self.mean + tf.transpose(apart, [0, 2, 1])
        return tf.linalg.matmul(x.posterior, values), None


class JointGrid(gpflow.Module):
    r"""A Gaussian over a grid of inducing variables `[M_X, M_H]`, with any covariance.

    As `Kronecker`, $U = L_X V L_H^\top$, but with

    $$\mathrm{vec}(V) \sim N(\mathrm{vec}(\tilde M),\, T T^\top), \qquad
      T \text{ `[M_H M_X, M_H M_X]`, lower triangular.}$$

    Targets with Gaussian noise make a posterior whose covariance is no Kronecker product: the best
    `Kronecker` then has variances that are far too small where outputs were not observed.
    `LatentMOGP.joint_posterior` finds the best `JointGrid` in closed form.

    Args:
        replaces: whether it was found in closed form in place of a `Kronecker`, to which `fit`
            goes back before it trains.

    >>> import tensorflow as tf
    >>> from mogp.posteriors import JointGrid
    >>> posterior = JointGrid()
    >>> posterior.build(inputs=2, latents=2)
    >>> posterior.q_mu.shape.as_list(), posterior.q_sqrt.shape.as_list(), float(posterior.kl())
    ([2, 2], [4, 4], 0.0)
    """

    def __init__(self, replaces: bool = False) -> None:
        super().__init__()
        self.replaces = replaces

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
        check_size(inputs * latents)
        dtype = gpflow.default_float()
        self.q_mu = gpflow.Parameter(np.zeros((inputs, latents), dtype))
        self.q_sqrt = gpflow.Parameter(
            np.eye(inputs * latents, dtype=dtype), transform=triangular()
        )

    @check_shapes("K_x: [M_X, M_X]", "K_h: [M_H, M_H]", "return.mean: [M_X, M_H]")
    def factorise(self, K_x: tf.Tensor, K_h: tf.Tensor) -> JointGridFactors:
        """Factorise the covariances of the two sides of the grid: see `Kronecker.factorise`."""
        L_x, L_h = cholesky(K_x, name="K_X"), cholesky(K_h, name="K_H")
        root = tf.linalg.triangular_solve(L_h, tf.eye(K_h.shape[0], dtype=L_h.dtype))
        M_x, M_h = self.q_mu.shape
        T = tf.linalg.matmul(root, tf.reshape(self.q_sqrt, [M_h, -1]), transpose_a=True)
        return JointGridFactors(
            L_x=L_x,
            scale=tf.reshape(T, [M_h, M_x, M_h * M_x]),
            root=root,
            prior=tf.linalg.matmul(root, root, transpose_a=True),
            mean=tf.linalg.matmul(self.q_mu, root),
        )

    @check_shapes("factors.L_x: [M_X, M_X]", "Kuf: [M_X, N]", "Kff: [N, ...]", "return.E: [N, M_H]")
    def project(self, factors: Any, Kuf: tf.Tensor, Kff: tf.Tensor) -> Projected:
        r"""What the posterior knows of some inputs, whatever the latent variable.

        In place of a number for each row, `Projected.posterior` has the pairs (`paired`) of
        $a_n^\top S_{ij} a_n$, `[N, M_H (M_H + 1) / 2]`; with covariances between rows it is
        $A^\top$, `[N, M_X]`.

        Args:
            factors: what `factorise` made of the covariances.
            Kuf: `[M_X, N]`.
            Kff: `[N]` prior variances, or `[N, N]` covariances.
        """
        A = tf.linalg.triangular_solve(factors.L_x, Kuf)
        E = tf.linalg.matmul(A, factors.mean, transpose_a=True)
        if Kff.shape.rank == 2:
            prior = tf.linalg.matmul(A, A, transpose_a=True)
            return Projected(E, prior, tf.transpose(A), Kff)
        lower, upper = np.tril_indices(self.q_mu.shape[1])
        rows, pairs = A.shape[1], list(zip(lower.tolist(), upper.tolist(), strict=True))
        if rows is not None and rows < factors.scale.shape[-1]:
            moved = tf.linalg.matmul(A, factors.scale, transpose_a=True)
            told = [tf.reduce_sum(moved[i] * moved[j], -1) for i, j in pairs]
        else:
            S = [
                tf.linalg.matmul(factors.scale[i], factors.scale[j], transpose_b=True)
                for i, j in pairs
            ]
            told = [tf.reduce_sum(tf.linalg.matmul(one, A) * A, 0) for one in S]
        twice = tf.constant(np.where(lower == upper, 1.0, 2.0), A.dtype)
        return Projected(E, tf.reduce_sum(tf.square(A), 0), tf.stack(told, 1) * twice, Kff)

    def kl(self) -> tf.Tensor:
        r"""$\mathrm{KL}[q(U)\|p(U)] = \tfrac12(|T|^2 + |\tilde M|^2 - M_X M_H) - \log|T|$."""
        T, M = tf.convert_to_tensor(self.q_sqrt), tf.convert_to_tensor(self.q_mu)
        squares = tf.reduce_sum(tf.square(T)) + tf.reduce_sum(tf.square(M))
        logs = tf.reduce_sum(tf.math.log(tf.square(tf.linalg.diag_part(T))))
        return 0.5 * (squares - float(T.shape[0]) - logs)

    @check_shapes("factors.L_x: [M_X, M_X]", "return[0]: [M_X, M_H]", "return[1]: [M, M]")
    def moments(self, factors: JointGridFactors) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean of the inducing values $U$ themselves, and the covariance of $\\mathrm{vec}(U)$."""
        L_h = tf.linalg.inv(factors.root)
        M = tf.linalg.matmul(tf.linalg.matmul(factors.L_x, self.q_mu), L_h, transpose_b=True)
        M_x, M_h = self.q_mu.shape
        T = tf.reshape(self.q_sqrt, [M_h, M_x, -1])
        T = tf.einsum("hi,xy,iyk->hxk", L_h, factors.L_x, T)
        T = tf.reshape(T, [M_h * M_x, -1])
        return M, tf.linalg.matmul(T, T, transpose_b=True)

    def factorised(self) -> Kronecker:
        """The Kronecker posterior that is best where this one is the best of all: it has the same
        mean, and the covariance of `best_kronecker`.
        """
        M_x, M_h = (int(n) for n in self.q_mu.shape)
        T_h, T_x = best_kronecker(self.q_sqrt.numpy(), (M_h, M_x))
        made = Kronecker()
        made.build(inputs=M_x, latents=M_h)
        made.q_mu.assign(self.q_mu)
        made.q_sqrt_h.assign(T_h)
        made.q_sqrt_x.assign(T_x)
        return made
