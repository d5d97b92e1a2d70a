"""Sparse and exact regression with mixtures of latent GPs, by dense formulas: slow, obvious."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
from scipy import stats

from mogp.data import MultiOutputData
from mogp.models import SparseMOGP


class Observed:
    """All targets of a table below each other, and covariances of the prior with them."""

    def __init__(self, model: SparseMOGP, data: MultiOutputData) -> None:
        self.d = np.concatenate([np.full(len(o), i) for i, o in enumerate(data)])
        self.X = np.concatenate([data.inputs(i) for i in range(data.num_outputs)])
        self.y = np.concatenate([o.Y[:, 0] for o in data])
        noise = [float(one.variance.numpy()) for one in model.likelihood.likelihoods]
        self.noise = np.array(noise)[self.d]
        prior = model.prior
        self.W, self.kernels = np.asarray(prior.W), prior.kernels.kernels
        self.bias = np.zeros(len(self.W)) if prior.bias is None else np.asarray(prior.bias)
        Z = np.asarray(model.inducing.Z)
        self.Z = [Z if Z.ndim == 2 else Z[q % len(self.kernels)] for q in range(self.W.shape[1])]

    def kernel(self, q: int) -> Any:
        return self.kernels[q % len(self.kernels)]

    def prior(self, d: np.ndarray, X: np.ndarray, e: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Covariance of functions `d` at `X` and `e` at `V`."""
        return sum(np.outer(self.W[d, q], self.W[e, q]) * self.kernel(q)(X, V).numpy() for q in range(self.W.shape[1]))

    def with_u(self, d: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Covariance with the inducing values of all latent GPs, one latent GP after the other."""
        parts = [self.W[d, q][:, None] * self.kernel(q)(X, self.Z[q]).numpy() for q in range(self.W.shape[1])]
        return np.hstack(parts)

    def of_u(self) -> np.ndarray:
        each = [self.kernel(q)(z).numpy() + gpflow.default_jitter() * np.eye(len(z)) for q, z in enumerate(self.Z)]
        sizes = np.cumsum([0, *map(len, each)])
        K = np.zeros((sizes[-1], sizes[-1]))
        for one, start, stop in zip(each, sizes, sizes[1:], strict=False):
            K[start:stop, start:stop] = one
        return K


def titsias(model: SparseMOGP, data: MultiOutputData) -> float:
    """The collapsed bound log N(y | b, Q + Σ) - ½ tr(Σ⁻¹ (K - Q))."""
    o = Observed(model, data)
    Kfu = o.with_u(o.d, o.X)
    Q = Kfu @ np.linalg.solve(o.of_u(), Kfu.T)
    bound = stats.multivariate_normal(o.bias[o.d], Q + np.diag(o.noise)).logpdf(o.y)
    return float(bound - 0.5 * np.sum((np.diag(o.prior(o.d, o.X, o.d, o.X)) - np.diag(Q)) / o.noise))


def sparse_posterior(model: SparseMOGP, data: MultiOutputData, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean `[N J]` and covariance of all functions at `X` under the best q(u), functions side by side at each row."""
    o = Observed(model, data)
    Kuu, Kfu = o.of_u(), o.with_u(o.d, o.X)
    J = len(o.W)
    d, V = np.tile(np.arange(J), len(X)), np.repeat(X, J, 0)
    cross = o.with_u(d, V)
    inner = np.linalg.inv(Kuu + Kfu.T @ (Kfu / o.noise[:, None]))
    mean = o.bias[d] + cross @ inner @ Kfu.T @ ((o.y - o.bias[o.d]) / o.noise)
    return mean, o.prior(d, V, d, V) - cross @ np.linalg.solve(Kuu, cross.T) + cross @ inner @ cross.T


def exact(model: SparseMOGP, data: MultiOutputData, X: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Log evidence, mean and covariance of all functions at `X` of exact regression."""
    o = Observed(model, data)
    C = o.prior(o.d, o.X, o.d, o.X) + np.diag(o.noise)
    J = len(o.W)
    d, V = np.tile(np.arange(J), len(X)), np.repeat(X, J, 0)
    cross = o.prior(d, V, o.d, o.X)
    mean = o.bias[d] + cross @ np.linalg.solve(C, o.y - o.bias[o.d])
    evidence = stats.multivariate_normal(o.bias[o.d], C).logpdf(o.y)
    return float(evidence), mean, o.prior(d, V, d, V) - cross @ np.linalg.solve(C, cross.T)
