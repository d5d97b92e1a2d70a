"""The textbook HMOGP-LV in numpy: Kronecker products in full, explicit inverses, quadrature over latent variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gpflow
import numpy as np
from gpflow.kernels import Matern32, SquaredExponential
from numpy.polynomial.hermite import hermgauss
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal

from mogp.data import MultiOutputData
from mogp.inducing import ReplicaPoints
from mogp.kernels import hierarchical
from mogp.likelihoods import Gaussian
from mogp.models import LatentMOGP
from mogp.posteriors import JointGrid

Covariance = Callable[[np.ndarray, np.ndarray], np.ndarray]
LEVELS = ((0.7, 1.3), (0.5, 0.6))
"""Variance and lengthscale of the Matérn-3/2 kernels of the levels, the root first."""


def matern32(A: np.ndarray, B: np.ndarray, variance: float, lengthscale: float) -> np.ndarray:
    r = np.sqrt(3) * cdist(A, B) / lengthscale
    return variance * (1 + r) * np.exp(-r)


def rbf(A: np.ndarray, B: np.ndarray, variance: float, lengthscales: np.ndarray) -> np.ndarray:
    return variance * np.exp(-0.5 * cdist(A / lengthscales, B / lengthscales, "sqeuclidean"))


def over_replicas(levels: Sequence[tuple[float, float]] = LEVELS, paths: Any = None) -> Covariance:
    """`k_0 + Σ_l 1[same path down to level l] k_l` on `[x, r]`, one pair of rows after the other."""

    def path(r: float) -> tuple[Any, ...]:
        return (int(r),) if paths is None else tuple(paths[int(r)])

    def covariance(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        total = matern32(A[:, :-1], B[:, :-1], *levels[0])
        for level, parameters in enumerate(levels[1:], 1):
            same = np.array([[path(a)[:level] == path(b)[:level] for b in B[:, -1]] for a in A[:, -1]])
            total = total + same * matern32(A[:, :-1], B[:, :-1], *parameters)
        return total

    return covariance


def levels_of(levels: Sequence[tuple[float, float]] = LEVELS) -> list[Matern32]:
    return [Matern32(variance=v, lengthscales=length) for v, length in levels]


def table(data: MultiOutputData, d: int) -> np.ndarray:
    """`[x, replica]` of the rows of an output."""
    own = data.outputs[d]
    return np.column_stack([data.inputs(d), np.zeros(len(own)) if own.replica is None else own.replica])


def nodes(mean: np.ndarray, var: np.ndarray, count: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Points `[S, Q]` and weights `[S]` of the tensor Gauss-Hermite rule for `N(mean, diag var)`."""
    x, w = hermgauss(count)
    grid = np.stack(np.meshgrid(*[x] * len(mean), indexing="ij"), -1).reshape(-1, len(mean))
    weights = np.prod(np.stack(np.meshgrid(*[w / w.sum()] * len(mean), indexing="ij"), -1), -1).reshape(-1)
    return mean + np.sqrt(2 * var) * grid, weights


class Dense(NamedTuple):
    """`K_UU`, the mean and the covariance of `q(vec U)`.

    `cross(h [S, Q], X [N, P + 1])` is `k_H(h, Z^H) ⊗ k_X(X, Z^X)`, `[S, N, M]`; `prior(X)` the variances `[N]`.
    """

    K: np.ndarray
    m: np.ndarray
    S: np.ndarray
    cross: Callable[[np.ndarray, np.ndarray], np.ndarray]
    prior: Callable[[np.ndarray], np.ndarray]


def dense(model: LatentMOGP, k_x: Covariance) -> Dense:
    jitter = gpflow.default_jitter()
    Z_x, Z_h = np.asarray(model.inducing.inputs), model.latent_inducing.numpy()
    kernel = model.latent_kernel
    scale, lengthscales = float(kernel.variance.numpy()), np.asarray(kernel.lengthscales)
    K_x = k_x(Z_x, Z_x) + jitter * np.eye(len(Z_x))
    K_h = rbf(Z_h, Z_h, scale, lengthscales) + jitter * np.eye(len(Z_h))
    L_x, L_h = np.linalg.cholesky(K_x), np.linalg.cholesky(K_h)
    M = L_x @ model.posterior.q_mu.numpy() @ L_h.T
    if isinstance(model.posterior, JointGrid):
        root = np.kron(L_h, L_x) @ model.posterior.q_sqrt.numpy()
    else:
        root = np.kron(L_h @ model.posterior.q_sqrt_h.numpy(), L_x @ model.posterior.q_sqrt_x.numpy())

    def cross(h: np.ndarray, X: np.ndarray) -> np.ndarray:
        K = k_x(X, Z_x)
        return np.stack([np.kron(row, K) for row in rbf(h, Z_h, scale, lengthscales)[:, None]])

    return Dense(
        K=np.kron(K_h, K_x),
        m=M.reshape(-1, order="F"),
        S=root @ root.T,
        cross=cross,
        prior=lambda X: scale * np.diag(k_x(X, X)),
    )


def expectations(q: Dense, h: np.ndarray, w: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`E K_fU` and `E K_Uf K_fU` by the rule with points `h` and weights `w`."""
    each = q.cross(h, X)
    return np.tensordot(w, each, 1), np.tensordot(w[:, None, None] * each, each, [[0, 1], [0, 1]])


def dense_terms(model: LatentMOGP, data: MultiOutputData, k_x: Covariance, count: int = 40) -> np.ndarray:
    """The data terms of Gaussian outputs, `[D]` (spec 3.3 with the sum over outputs)."""
    q = dense(model, k_x)
    inverse = np.linalg.inv(q.K)
    terms = []
    for d, own in enumerate(data.outputs):
        X, y, noise = table(data, d), own.Y[:, 0], float(model.noise.numpy()[d])
        h, w = nodes(model.latent_mean.numpy()[d], model.latent_var.numpy()[d], count)
        Psi, Phi = expectations(q, h, w, X)
        fitted = y @ Psi @ inverse @ q.m
        spread = np.trace(inverse @ Phi @ inverse @ (np.outer(q.m, q.m) + q.S))
        left = q.prior(X).sum() - np.trace(inverse @ Phi)
        logs = len(y) * np.log(2 * np.pi * noise)
        terms.append(-0.5 * (logs + (y @ y - 2 * fitted + spread + left) / noise))
    return np.array(terms)


def dense_kl(model: LatentMOGP, k_x: Covariance) -> float:
    """`KL[q(U) || p(U)]` of two Gaussians."""
    q = dense(model, k_x)
    inverse = np.linalg.inv(q.K)
    logs = np.linalg.slogdet(q.K)[1] - np.linalg.slogdet(q.S)[1]
    return float(0.5 * (np.trace(inverse @ q.S) + q.m @ inverse @ q.m - len(q.m) + logs))


def latent_kl(model: LatentMOGP) -> np.ndarray:
    """`KL[q(h_d) || p(h_d)]` by quadrature of the log ratio."""
    found = []
    for mean, var in zip(model.latent_mean.numpy(), model.latent_var.numpy(), strict=True):
        h, w = nodes(mean, var)
        ratio = multivariate_normal(mean, np.diag(var)).logpdf(h) - multivariate_normal(np.zeros(len(mean))).logpdf(h)
        found.append(np.sum(w * ratio))
    return np.array(found)


def dense_moments(model: LatentMOGP, X: np.ndarray, h: np.ndarray, k_x: Covariance) -> tuple[np.ndarray, np.ndarray]:
    """Means `[S, N]` and covariances `[S, N, N]` of the function at `X [N, P + 1]`, given each value `h [S, Q]`."""
    q = dense(model, k_x)
    A = q.cross(h, X) @ np.linalg.inv(q.K)
    prior = float(model.latent_kernel.variance.numpy()) * k_x(X, X)
    return A @ q.m, prior + A @ (q.S - q.K) @ A.transpose(0, 2, 1)


def mixture(
    model: LatentMOGP, d: int, X: np.ndarray, k_x: Covariance, count: int = 20
) -> tuple[np.ndarray, np.ndarray]:
    """Mean `[N]` and covariance `[N, N]` of the function of an output, its latent variable integrated out."""
    h, w = nodes(model.latent_mean.numpy()[d], model.latent_var.numpy()[d], count)
    means, covs = dense_moments(model, X, h, k_x)
    mean = w @ means
    return mean, np.tensordot(w, covs, 1) + means.T * w @ means - np.outer(mean, mean)


def exact_log_evidence(data: MultiOutputData, H: np.ndarray, kernel: Any, noise: np.ndarray, k_x: Covariance) -> float:
    """`log N(y | 0, K)` of all rows of all outputs, given the latent variables."""
    d = np.repeat(np.arange(data.num_outputs), data.sizes)
    X = np.concatenate([table(data, i) for i in range(data.num_outputs)])
    y = np.concatenate([o.Y[:, 0] for o in data.outputs])
    K = rbf(H[d], H[d], float(kernel.variance.numpy()), np.asarray(kernel.lengthscales)) * k_x(X, X)
    return float(multivariate_normal(np.zeros(len(y)), K + np.diag(np.broadcast_to(noise, len(H))[d])).logpdf(y))


# ------------------------------------------------------------------------------------------------------------ toys


def common_data(D: int = 3, R: int = 2, N: int = 4, seed: int = 0) -> MultiOutputData:
    """All outputs at the same inputs, which differ from replica to replica."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([np.linspace(0, 3, N) + 0.3 * r for r in range(R)])[:, None]
    return MultiOutputData.from_arrays(X, rng.normal(size=(N * R, D)), replica=np.repeat(np.arange(R), N))


def uneven_data(seed: int = 0) -> MultiOutputData:
    """Own inputs, a single point, a missing replica, rows measured twice, and one more output beside the first."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 3, 6)
    replicas = [[0, 0, 1, 1, 2, 2], [2], [1, 1, 2, 2], [0, 0, 0, 1, 2, 2], [2, 1, 0, 0, 1, 2]]
    inputs = [x, [1.1], rng.uniform(0, 3, 4), [0.5, 0.5, 0.5, 1.0, 2.0, 2.0], x]
    pairs = [(np.asarray(a)[:, None], rng.normal(size=len(a))) for a in inputs]
    return MultiOutputData.from_list(pairs, names=["a", "point", "missing", "twice", "e"], replicas=replicas)


def toy(
    data: MultiOutputData,
    *,
    levels: Sequence[tuple[float, float]] = LEVELS,
    tree: Any = None,
    M_x: int = 5,
    M_h: int = 3,
    Q: int = 2,
    replicas: int | None = None,
    seed: int = 1,
    **options: Any,
) -> LatentMOGP:
    """A model of the data with every parameter away from its start value."""
    rng = np.random.default_rng(seed)
    D, P = data.num_outputs, data.input_dim
    R = replicas or max(1 if o.replica is None else int(o.replica.max()) + 1 for o in data.outputs)
    Z = np.column_stack([np.linspace(0, 3, M_x) + 0.05 * p for p in range(P)])
    model = LatentMOGP(
        hierarchical(levels_of(levels), P, tree),
        SquaredExponential(variance=1.4, lengthscales=rng.uniform(0.8, 1.6, Q)),
        ReplicaPoints(Z, np.arange(M_x) % R),
        1.2 * rng.normal(size=(M_h, Q)),
        rng.normal(size=(D, Q)),
        rng.uniform(0.05, 0.5, (D, Q)),
        likelihood=options.pop("likelihood", None) or Gaussian(rng.uniform(0.1, 0.5, D)),
        names=data.names,
        **options,
    )
    random_posterior(model, seed)
    return model


def random_posterior(model: LatentMOGP, seed: int = 1) -> None:
    rng = np.random.default_rng(seed)
    q = model.posterior
    M_x, M_h = q.q_mu.shape
    q.q_mu.assign(rng.normal(size=(M_x, M_h)))
    for parameter, M in ((q.q_sqrt_x, M_x), (q.q_sqrt_h, M_h)):
        parameter.assign(np.tril(0.3 * rng.normal(size=(M, M)), -1) + np.diag(rng.uniform(0.3, 1.2, M)))
