r"""What the bound of a `LatentMOGP` is made of: moments of functions under $q(U)\,q(H)$, and the
data terms that they give.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.kernels import SquaredExponential
from numpy.polynomial.hermite_e import hermegauss
from scipy.stats import norm, qmc

from mogp.data.padded import PaddedBatch
from mogp.kernels import expected_k, expected_kk
from mogp.kernels.expected import paired, symmetric
from mogp.linalg import cholesky
from mogp.models.replicas import LEAST_VARIANCE
from mogp.priors import Marginals

_MOST_TENSOR_NODES = 3
_QUASI_RANDOM_NODES = 64
_MOST_EMPTY = 10


class GridFactors(NamedTuple):
    r"""What all rows of a batch share.

    Attributes:
        L_x: $L_X$.
        Z_h: $Z^H$.
        kernel: $k_H$, its parameters read.
        prior: $K_H^{-1}$.
        posterior: $L_H^{-\top} T_H T_H^\top L_H^{-1}$.
        mean: $\tilde M L_H^{-1}$.
        root: $L_H^{-1}$.
    """

    L_x: tf.Tensor
    Z_h: tf.Tensor
    kernel: SquaredExponential
    prior: tf.Tensor
    posterior: tf.Tensor
    mean: tf.Tensor
    root: tf.Tensor


class Projected(NamedTuple):
    r"""What is known of rows: `E` $= a_n^\top \tilde M L_H^{-1}$, $|a_n|^2$, $|T_X^\top a_n|^2$ and
    $k_{nn}$.
    """

    E: tf.Tensor
    prior: tf.Tensor
    posterior: tf.Tensor
    diagonal: tf.Tensor


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


def few_inputs(batch: PaddedBatch) -> bool:
    """Whether outputs have their inputs in common to a degree that a table of weights `[B, U]`
    pays.
    """
    if batch.rows is None:
        return True
    longest = batch.rows.shape[1]
    return longest is not None and bool(batch.X.shape[0] <= _MOST_EMPTY * longest)


def _tables(batch: PaddedBatch, *values: tf.Tensor) -> list[tf.Tensor]:
    """Values `[B, n]` as tables `[B, U]` over the distinct inputs; those of repeated rows are
    added.
    """
    rows = tf.convert_to_tensor(batch.rows)
    B, U = rows.shape[0], batch.X.shape[0]
    cells = tf.reshape(rows + U * tf.range(B, dtype=tf.int64)[:, None], [-1])
    return [
        tf.reshape(tf.math.unsorted_segment_sum(tf.reshape(v, [-1]), cells, B * U), [B, U])
        for v in values
    ]


def log_det(T: tf.Tensor) -> tf.Tensor:
    """Logarithm of the absolute determinant of a triangular matrix."""
    return 0.5 * tf.reduce_sum(tf.math.log(tf.square(tf.linalg.diag_part(T))))


def common_term(
    batch: PaddedBatch, factors: GridFactors, x: Projected, latent: Marginals, noise: tf.Tensor
) -> tf.Tensor:
    """The data term of Gaussian outputs that were all observed at all rows of `X`, without a
    number for each.
    """
    mean, var = latent
    weight = batch.scale / noise
    Psi = expected_k(factors.kernel, factors.Z_h, mean, var)
    pairs = tf.linalg.matvec(
        expected_kk(factors.kernel, factors.Z_h, mean, var), weight, transpose_a=True
    )
    Phi = symmetric(pairs, factors.Z_h.shape[0])
    spread = factors.kernel.variance * tf.reduce_sum(weight) * tf.reduce_sum(
        x.diagonal
    ) + tf.reduce_sum(
        Phi
        * (
            tf.linalg.matmul(x.E, x.E, transpose_a=True)
            - factors.prior * tf.reduce_sum(x.prior)
            + factors.posterior * tf.reduce_sum(x.posterior)
        )
    )
    fitted = tf.reduce_sum(tf.reduce_sum(tf.linalg.matmul(batch.Y, x.E) * Psi, -1) * weight)
    squares = tf.reduce_sum(tf.reduce_sum(tf.square(batch.Y), -1) * weight)
    rows = tf.cast(tf.shape(batch.X)[0], batch.Y.dtype)
    logs = batch.scale * rows * tf.reduce_sum(tf.math.log(2 * np.pi * noise))
    return -0.5 * (logs + squares - 2 * fitted + spread)


def table_term(
    batch: PaddedBatch, factors: GridFactors, x: Projected, latent: Marginals, noise: tf.Tensor
) -> tf.Tensor:
    """The data term of Gaussian outputs that were observed at some rows of `X`.

    Sums over rows are products with a table of weights `[B, U]`.
    """
    mean, var = latent
    W, WY = _tables(batch, batch.weight, batch.weight * batch.Y)
    Psi = expected_k(factors.kernel, factors.Z_h, mean, var)
    pairs = expected_kk(factors.kernel, factors.Z_h, mean, var)
    by_row = paired(x.E[:, :, None] * x.E[:, None, :])
    by_row += x.posterior[:, None] * paired(factors.posterior) - x.prior[:, None] * paired(
        factors.prior
    )
    spread = factors.kernel.variance * tf.linalg.matvec(W, x.diagonal)
    spread += tf.reduce_sum(tf.linalg.matmul(W, by_row) * pairs, -1)
    fitted = tf.reduce_sum(tf.linalg.matmul(WY, x.E) * Psi, -1)
    squares = tf.reduce_sum(batch.weight * tf.square(batch.Y), -1)
    logs = tf.reduce_sum(batch.weight, -1) * tf.math.log(2 * np.pi * noise)
    return -0.5 * tf.reduce_sum(logs + (squares - 2 * fitted + spread) / noise)


def moments(factors: GridFactors, x: Projected, latent: Marginals) -> tuple[tf.Tensor, tf.Tensor]:
    """First and second moment of the functions, `[B, n]`."""
    mean, var = latent
    Psi = expected_k(factors.kernel, factors.Z_h, mean, var)
    pairs = expected_kk(factors.kernel, factors.Z_h, mean, var)
    Phi = symmetric(pairs, factors.Z_h.shape[0])
    prior = tf.linalg.matvec(pairs, paired(factors.prior))[:, None]
    posterior = tf.linalg.matvec(pairs, paired(factors.posterior))[:, None]
    m = tf.linalg.matmul(x.E, Psi[:, :, None])[..., 0]
    square = tf.reduce_sum(tf.linalg.matmul(x.E, Phi) * x.E, -1)
    return (
        m,
        factors.kernel.variance * x.diagonal - prior * x.prior + posterior * x.posterior + square,
    )


def given_latent(factors: GridFactors, x: Projected, h: tf.Tensor) -> Marginals:
    """Mean and variance `[B, S, n]` of the functions for latent values `h [B, S, Q]`."""
    k = factors.kernel(tf.reshape(h, [-1, factors.Z_h.shape[1]]), factors.Z_h)
    k = tf.reshape(k, tf.concat([tf.shape(h)[:2], [factors.Z_h.shape[0]]], 0))
    prior, posterior = (
        tf.reduce_sum(tf.linalg.matmul(k, P) * k, -1)[..., None]
        for P in (factors.prior, factors.posterior)
    )
    f_mean = tf.linalg.matmul(k, x.E, transpose_b=True)
    f_var = factors.kernel.variance * x.diagonal[:, None] - prior * x.prior[:, None]
    return Marginals(f_mean, tf.maximum(f_var + posterior * x.posterior[:, None], LEAST_VARIANCE))


def on_rows(rule: Any, f: Marginals, *Y: tf.Tensor) -> Any:
    """A rule of a likelihood, which takes columns, on tensors of any shape."""
    flat = [tf.reshape(a, [-1, 1]) for a in (*f, *Y)]
    result = rule(tf.zeros([tf.shape(flat[0])[0], 0], flat[0].dtype), *flat)
    shape = tf.shape(f.mean)
    return (
        tuple(tf.reshape(r, shape) for r in result)
        if isinstance(result, tuple)
        else tf.reshape(result, shape)
    )


def collapsed_term(
    Y: tf.Tensor,
    factors: GridFactors,
    A: tf.Tensor,
    diagonal: tf.Tensor,
    latent: Marginals,
    noise: tf.Tensor,
) -> tf.Tensor:
    r"""The data term with the best $q(U)$, less its KL: see `LatentMOGP.collapsed_elbo`.

    Args:
        Y: `[D, N]` targets.
        factors: of the inducing variables.
        A: `[M_X, N]`, $L_X^{-1} k_X(Z^X, x_n)$.
        diagonal: `[N]`, $k_X(x_n, x_n)$.
        latent: $\mu$ and $s$.
        noise: `[D]` variances.
    """
    mean, var = latent
    pairs = tf.linalg.matvec(
        expected_kk(factors.kernel, factors.Z_h, mean, var), 1 / noise, transpose_a=True
    )
    Phi = symmetric(pairs, factors.Z_h.shape[0])
    values_h, V_h = tf.linalg.eigh(
        tf.linalg.matmul(tf.linalg.matmul(factors.root, Phi), factors.root, transpose_b=True)
    )
    values_x, V_x = tf.linalg.eigh(tf.linalg.matmul(A, A, transpose_b=True))
    Psi = expected_k(factors.kernel, factors.Z_h, mean, var) / noise[:, None]
    Psi = tf.linalg.matmul(Psi, factors.root, transpose_b=True)
    inner = tf.linalg.matmul(tf.linalg.matmul(A, Y, transpose_b=True), Psi)
    T = tf.linalg.matmul(tf.linalg.matmul(V_x, inner, transpose_a=True), V_h)
    lam = tf.maximum(values_x, 0)[:, None] * tf.maximum(values_h, 0)
    second = tf.square(Y) + factors.kernel.variance * diagonal
    term = -0.5 * tf.reduce_sum(tf.math.log(2 * np.pi * noise[:, None]) + second / noise[:, None])
    best = 0.5 * tf.reduce_sum(tf.square(T) / (1 + lam) - tf.math.log1p(lam) + lam)
    return term + best


def expectations(
    factors: GridFactors, latent: Marginals
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    r"""$\Psi_d$ `[B, M_H]`, $\Phi_d$ `[B, M_H, M_H]`, and the traces `[B]` of $\Phi_d$ with
    $K_H^{-1}$ and with its posterior counterpart.
    """
    Psi = expected_k(factors.kernel, factors.Z_h, *latent)
    pairs = expected_kk(factors.kernel, factors.Z_h, *latent)
    prior, posterior = (
        tf.linalg.matvec(pairs, paired(one)) for one in (factors.prior, factors.posterior)
    )
    return Psi, symmetric(pairs, factors.Z_h.shape[0]), prior, posterior


def curves(
    factors: GridFactors,
    E: tf.Tensor,
    covariances: tuple[tf.Tensor, tf.Tensor, tf.Tensor],
    h: tf.Tensor,
    normal: tf.Tensor,
) -> tf.Tensor:
    r"""Joint draws `[S, D N]` of the functions of $D$ outputs, given their latent variables.

    With the rows of output after output, and $k_d = k_H(h_d, Z^H)$, the covariance of rows $i, j$
    of outputs $d, d'$ is
    $k_H(h_d, h_{d'}) k_{ij} - k_d K_H^{-1} k_{d'}^\top a_i^\top a_j
    + k_d L_H^{-\top} T_H T_H^\top L_H^{-1} k_{d'}^\top (T_X^\top a_i)^\top T_X^\top a_j$.

    Args:
        factors: of the inducing variables.
        E: `[D N, M_H]`, see `Projected`.
        covariances: $k_{ij}$, $a_i^\top a_j$, $(T_X^\top a_i)^\top T_X^\top a_j$, `[D N, D N]`.
        h: `[S, D, Q_H]`.
        normal: `[S, D N]` standard normal draws.
    """
    S, D, Q = h.shape
    N = E.shape[0] // D
    kernel = factors.kernel
    k = tf.reshape(kernel(tf.reshape(h, [-1, Q]), factors.Z_h), [S, D, -1])
    between = (
        kernel(h),
        -tf.linalg.matmul(tf.linalg.matmul(k, factors.prior), k, transpose_b=True),
        tf.linalg.matmul(tf.linalg.matmul(k, factors.posterior), k, transpose_b=True),
    )
    cov = tf.add_n(
        [
            tf.repeat(tf.repeat(outputs, N, 1), N, 2) * rows
            for outputs, rows in zip(between, covariances, strict=True)
        ]
    )
    mean = tf.reduce_sum(tf.repeat(k, N, 1) * E, -1)
    return mean + tf.linalg.matvec(cholesky(cov, name="the covariance of the draws"), normal)
