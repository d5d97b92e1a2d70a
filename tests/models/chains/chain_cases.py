"""Chains for the tests, and their formulas written out with inverses."""

from __future__ import annotations

import gpflow
import numpy as np
from gpflow.kernels import Linear, SquaredExponential

from mogp.data import MultiOutputData
from mogp.kernels import LayerKernels
from mogp.likelihoods import Gaussian
from mogp.models import Component, LatentChain

X = np.linspace(0, 1, 9)[:, None]
Z = np.linspace(0, 1, 4)[:, None]


def targets(seed: int = 0, outputs: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.sin(4 * X * np.arange(1, outputs + 1)) + 0.3 * rng.normal(size=(len(X), outputs))


def observed(missing: bool = True, outputs: int = 3) -> MultiOutputData:
    Y = targets(outputs=outputs)
    if missing:
        Y[2:4, 0], Y[6:, 1] = np.nan, np.nan
    return MultiOutputData.from_arrays(X, Y)


def recipe(**how) -> LayerKernels:
    return LayerKernels(1, **{"input_lengthscale": 0.3, "linear_variance": 0.7, **how})


def chain(
    outputs: int = 3, inducing=None, shared=Z, kernels=None, likelihoods=None, seed: int = 0, **how
) -> LatentChain:
    """A plain chain with tied inducing inputs and a random posterior."""
    rng = np.random.default_rng(seed)
    layers = [recipe().layer(p) for p in range(outputs)] if kernels is None else kernels
    components = [Component(kernel, tuple((i,) for i in range(p))) for p, kernel in enumerate(layers)]
    model = LatentChain(
        components,
        [{p: 1.0} for p in range(outputs)],
        [Gaussian(0.2 + 0.1 * p) for p in range(outputs)] if likelihoods is None else likelihoods,
        [None] * outputs if inducing is None else inducing,
        shared,
        input_dim=1,
        **how,
    )
    return randomised(model, rng)


def randomised(model: LatentChain, rng: np.random.Generator) -> LatentChain:
    q = model.posterior
    q.q_mu.assign(0.5 * rng.normal(size=q.q_mu.shape))
    q.q_sqrt.assign(np.tril(0.3 * rng.normal(size=q.q_sqrt.shape)) + np.eye(q.q_sqrt.shape[-1]))
    return model


def layer_moments(model: LatentChain, c: int, Z_c: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, ...]:
    """Mean and variance of GP `c` at `columns`, and the mean of its inducing values, from the formula with inverses."""
    kernel = model.kernels[c]
    K = kernel(Z_c).numpy() + gpflow.default_jitter() * np.eye(len(Z_c))
    L = np.linalg.cholesky(K)
    root = L if model.posterior.whiten else np.eye(len(L))
    m = root @ model.posterior.q_mu.numpy()[:, c]
    S = root @ model.posterior.q_sqrt.numpy()[c]
    S = S @ S.T
    k, inverse = kernel(Z_c, columns).numpy(), np.linalg.inv(K)
    middle = inverse @ (K - S) @ inverse
    var = kernel(columns, full_cov=False).numpy() - np.einsum("mn,ml,ln->n", k, middle, k, optimize=True)
    return k.T @ inverse @ m, var + model.inner.numpy()[c], m


def paths_by_hand(model: LatentChain, inputs: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, ...]:
    """Means, variances and draws `[S, N, GPs]` of a plain chain with tied inducing inputs."""
    columns, Z_c, moments = np.tile(inputs, (noise.shape[1], 1)), model.shared.numpy(), []
    for c in range(model.num_gps):
        mean, var, m = layer_moments(model, c, Z_c, columns)
        moments.append((mean, var, mean + noise[c].reshape(-1) * np.sqrt(var)))
        columns, Z_c = np.column_stack([columns, moments[-1][2]]), np.column_stack([Z_c, m])
    return tuple(np.stack(same, -1).reshape(*noise.shape[1:], -1) for same in zip(*moments, strict=True))


def kl_by_hand(model: LatentChain) -> float:
    """KL of whitened posteriors against N(0, I)."""
    total = 0.0
    for c in range(model.num_gps):
        m, T = model.posterior.q_mu.numpy()[:, c], model.posterior.q_sqrt.numpy()[c]
        S = T @ T.T
        total += 0.5 * (np.trace(S) + m @ m - len(m) - np.linalg.slogdet(S)[1])
    return total


def se(lengthscale: float = 0.3, dims=(0,), variance: float = 1.0) -> SquaredExponential:
    return SquaredExponential(variance, [lengthscale] * len(dims), active_dims=list(dims))


def linear(dims=(1,), variance: float = 1.0) -> Linear:
    return Linear([variance] * len(dims), active_dims=list(dims))
