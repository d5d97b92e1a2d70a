r"""Functions of a `LatentMOGP` under $q(U)\,q(H)$: their moments, and joint draws of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.kernels import SquaredExponential
from numpy.polynomial.hermite_e import hermegauss
from scipy.stats import norm, qmc

from mogp.kernels import expected_k, expected_kk
from mogp.kernels.expected import paired, symmetric
from mogp.linalg import cholesky
from mogp.models.replicas import LEAST_VARIANCE
from mogp.posteriors import GridFactors, Projected
from mogp.priors import Marginals

_MOST_TENSOR_NODES = 3
_QUASI_RANDOM_NODES = 64


class Latents(NamedTuple):
    r"""The latent variables $h_d \sim N(\mu_d, \mathrm{diag}\,s_d)$ of $B$ outputs, as $k_H$ sees
    them.

    Attributes:
        kernel: $k_H$, its parameters read.
        Z: $Z^H$, `[M_H, Q_H]`.
        mean: $\mu$, `[B, Q_H]`.
        var: $s$, `[B, Q_H]`.
    """

    kernel: SquaredExponential
    Z: tf.Tensor
    mean: tf.Tensor
    var: tf.Tensor

    def psi(self) -> tf.Tensor:
        r"""$\Psi_d$, `[B, M_H]`."""
        return expected_k(self.kernel, self.Z, self.mean, self.var)

    def phi(self) -> tf.Tensor:
        r"""The pairs of $\Phi_d$, `[B, M_H (M_H + 1) / 2]`: see `expected_kk`."""
        return expected_kk(self.kernel, self.Z, self.mean, self.var)

    def matrices(self, pairs: tf.Tensor) -> tf.Tensor:
        """Pairs as matrices `[…, M_H, M_H]`."""
        return symmetric(pairs, self.Z.shape[0])


def latent_nodes(dim: int, nodes: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Points `[S, dim]` and weights `[S]` that average over a standard normal of `dim`
    dimensions.
    """
    if dim > _MOST_TENSOR_NODES:
        points = np.asarray(
            norm.ppf(qmc.Sobol(dim, scramble=True, rng=0).random(_QUASI_RANDOM_NODES)), float
        )
        points = (points - points.mean(axis=0)) / points.std(axis=0)
        return points, np.full(_QUASI_RANDOM_NODES, 1 / _QUASI_RANDOM_NODES)
    x, w = hermegauss(nodes)  # type: ignore[no-untyped-call]
    grids = np.meshgrid(*[x] * dim, indexing="ij")
    weights = np.prod(np.meshgrid(*[w / w.sum()] * dim, indexing="ij"), axis=0)
    return np.stack([g.reshape(-1) for g in grids], -1), np.asarray(weights, float).reshape(-1)


def moments(factors: GridFactors, x: Projected, latents: Latents) -> tuple[tf.Tensor, tf.Tensor]:
    """First and second moment of the functions, `[B, n]`; of rows `x` `[B, n]` or `[1, n]`."""
    Psi, pairs = latents.psi(), latents.phi()
    m = tf.linalg.matmul(x.E, Psi[:, :, None])[..., 0]
    square = tf.reduce_sum(tf.linalg.matmul(x.E, latents.matrices(pairs)) * x.E, -1)
    return (
        m,
        latents.kernel.variance * x.Kff
        - tf.linalg.matvec(pairs, paired(factors.prior))[:, None] * x.prior
        + factors.variances(x, pairs)
        + square,
    )


def covariances(
    factors: GridFactors, x: Projected, latents: Latents
) -> tuple[tf.Tensor, tf.Tensor]:
    """Means `[B, N]` and covariances `[B, N, N]` of the functions at `N` rows."""
    Psi, pairs = latents.psi(), latents.phi()
    Phi = latents.matrices(pairs)
    m = tf.linalg.matmul(Psi, x.E, transpose_b=True)
    return m, (
        latents.kernel.variance * x.Kff
        - tf.linalg.matvec(pairs, paired(factors.prior))[:, None, None] * x.prior
        + factors.covariances(x, Phi)
        + tf.linalg.matmul(tf.linalg.matmul(x.E, Phi), x.E, transpose_b=True)
        - m[:, :, None] * m[:, None, :]
    )


def over_latents(
    factors: GridFactors, x: Projected, latents: Latents, nodes: int
) -> tuple[Marginals, tf.Tensor]:
    """Mean and variance `[B, S, n]` of the functions given each of `S` values of `h`, and the
    weights `[S]` with which they average over `q(h)`.
    """
    points, weights = latent_nodes(int(latents.Z.shape[1]), nodes)
    mean = latents.mean
    h = mean[:, None] + tf.sqrt(latents.var)[:, None] * tf.constant(points, mean.dtype)
    return given_latent(factors, x, latents, h), tf.constant(weights, mean.dtype)


def given_latent(factors: GridFactors, x: Projected, latents: Latents, h: tf.Tensor) -> Marginals:
    """Mean and variance `[B, S, n]` of the functions for latent values `h [B, S, Q]`."""
    Z = latents.Z
    k = latents.kernel(tf.reshape(h, [-1, Z.shape[1]]), Z)
    k = tf.reshape(k, tf.concat([tf.shape(h)[:2], [Z.shape[0]]], 0))
    prior = tf.reduce_sum(tf.linalg.matmul(k, factors.prior) * k, -1)[..., None]
    f_mean = tf.linalg.matmul(k, x.E, transpose_b=True)
    f_var = latents.kernel.variance * x.Kff[:, None] - prior * x.prior[:, None]
    return Marginals(f_mean, tf.maximum(f_var + factors.given(x, k), LEAST_VARIANCE))


def curves(
    factors: GridFactors,
    x: Projected,
    latents: Latents,
    h: tf.Tensor,
    normal: tf.Tensor,
    seed: list[int],
) -> tf.Tensor:
    r"""Joint draws `[S, D N]` of the functions of $D$ outputs, given their latent variables.

    With the rows of output after output, and $k_d = k_H(h_d, Z^H)$, the covariance of rows $i, j$
    of outputs $d, d'$ is
    $k_H(h_d, h_{d'}) k_{ij} - k_d K_H^{-1} k_{d'}^\top a_i^\top a_j
    + k_d L_H^{-\top} T_H T_H^\top L_H^{-1} k_{d'}^\top (T_X^\top a_i)^\top T_X^\top a_j$
    under a Kronecker posterior; under a joint one the inducing variables are drawn first.

    Args:
        factors: of the inducing variables.
        x: the `D N` rows, with covariances between them.
        latents: of the outputs.
        h: `[S, D, Q_H]`.
        normal: `[S, D N]` standard normal draws.
        seed: of draws of the inducing variables.
    """
    S, D, Q = h.shape
    N = x.E.shape[0] // D
    kernel = latents.kernel
    k = tf.reshape(kernel(tf.reshape(h, [-1, Q]), latents.Z), [S, D, -1])
    E, varies = factors.drawn(x, S, seed)
    between = [
        (kernel(h), x.Kff),
        (-tf.linalg.matmul(tf.linalg.matmul(k, factors.prior), k, transpose_b=True), x.prior),
    ]
    if varies is not None:
        told = tf.linalg.matmul(tf.linalg.matmul(k, varies), k, transpose_b=True)
        between.append((told, x.posterior))
    cov = tf.add_n([tf.repeat(tf.repeat(outputs, N, 1), N, 2) * rows for outputs, rows in between])
    mean = tf.reduce_sum(tf.repeat(k, N, 1) * E, -1)
    return mean + tf.linalg.matvec(cholesky(cov, name="the covariance of the draws"), normal)
