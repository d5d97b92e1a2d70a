"""The exact posterior of a fitted model: dense formulas, all rows, no inducing inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gpflow
import numpy as np
from gpflow.kernels import Matern32
from gpflow.utilities import positive, set_trainable
from scipy.linalg import cho_factor, cho_solve

import mogp
from calibration.drawn import Array
from mogp import MultiOutputData
from mogp.models import ExactLMC, LatentMOGP, SparseMOGP
from mogp.optimizers import LBFGS

Moments = tuple[Array, Array]


@dataclass(frozen=True)
class Dense:
    """A GP over outputs: cov[f_d(x), f_e(x')] = sum of B_de k(x, x') over its terms, in the units of scaled data.

    Attributes:
        terms: pairs of B `[D, D]` and k, which reads inputs `[N, P]` (with the replica as last column).
        bias: `[D]`.
        noise: variances `[D]`.
    """

    terms: Sequence[tuple[Array, Callable[[Array, Array], Array]]]
    bias: Array
    noise: Array

    def condition(self, rows: Array, output: Array, y: Array) -> Conditioned:
        """On targets `[n]` of outputs `[n]` at rows `[n, P]`."""
        K = self.between(rows, output, rows, output) + np.diag(self.noise[output])
        factor, r = cho_factor(K, lower=True), y - self.bias[output]
        weights = cho_solve(factor, r)
        evidence = -0.5 * (r @ weights + len(r) * np.log(2 * np.pi)) - np.log(np.diag(factor[0])).sum()
        return Conditioned(self, rows, output, factor, weights, float(evidence))

    def between(self, rows: Array, output: Array, others: Array, other: Array) -> Array:
        """Covariances `[n, m]` of functions. Kernels are evaluated once for each distinct row."""
        one, at = np.unique(rows, axis=0, return_inverse=True)
        two, other_at = np.unique(others, axis=0, return_inverse=True)
        total = np.zeros((len(rows), len(others)))
        for B, kernel in self.terms:
            total += B[np.ix_(output, other)] * kernel(one, two)[np.ix_(at.reshape(-1), other_at.reshape(-1))]
        return total


@dataclass(frozen=True)
class Conditioned:
    """A `Dense` given targets, whose log density is the `evidence`."""

    prior: Dense
    rows: Array
    output: Array
    factor: Any
    weights: Array
    evidence: float

    def predict(self, rows: Array, output: int) -> Moments:
        """Mean and variance of targets of an output at rows `[m, P]`."""
        own = np.full(len(rows), output)
        cross = self.prior.between(self.rows, self.output, rows, own)
        diagonal = sum(B[output, output] * np.diag(kernel(rows, rows)) for B, kernel in self.prior.terms)
        mean = self.prior.bias[output] + cross.T @ self.weights
        var = diagonal - np.einsum("nm,nm->m", cross, cho_solve(self.factor, cross))
        return mean, var + self.prior.noise[output]


def _read(kernel: gpflow.kernels.Kernel) -> Callable[[Array, Array], Array]:
    return lambda X, Z: kernel(X, Z).numpy()


def of_lmc(model: SparseMOGP) -> Dense:
    """With the parameters of a sparse LMC of Gaussian outputs."""
    prior = model.prior
    W, kernels = np.asarray(prior.W), prior.kernels.kernels
    terms = [(np.outer(w, w), _read(kernels[number % len(kernels)])) for number, w in enumerate(W.T)]
    noise = np.array([float(one.variance.numpy()) for one in model.likelihood.likelihoods])
    return Dense(terms, np.zeros(len(W)) if prior.bias is None else np.asarray(prior.bias), noise)


def of_latent(model: LatentMOGP) -> Dense:
    """With the parameters of a latent-variable model, its latent variables at their means."""
    H = model.latent_mean.numpy()
    noise = np.broadcast_to(model.noise.numpy(), len(H))
    return Dense([(model.latent_kernel(H).numpy(), _read(model.kernel))], np.zeros(len(H)), noise)


def trained(model: SparseMOGP, data: MultiOutputData, own_part: bool, steps: int) -> ExactLMC:
    """An exact LMC trained on from the parameters of a sparse one.

    Args:
        model: fitted.
        data: to train on.
        own_part: whether every output has a rough GP of its own besides (Matérn-3/2 of one lengthscale for all).
        steps: iterations of L-BFGS.
    """
    kernels = [gpflow.utilities.deepcopy(kernel) for kernel in model.prior.kernels.kernels]
    A = np.asarray(model.prior.W).T[:, :, None]
    if own_part:
        kernels.append(Matern32(lengthscales=float(np.min(kernels[0].lengthscales.numpy()))))
        A = np.concatenate([A, np.zeros_like(A[:1])])
    exact = ExactLMC(data, kernel=kernels, A=A)
    exact.noise.assign([float(one.variance.numpy()) for one in model.likelihood.likelihoods])
    parts = exact.kernel.kernels
    for part in parts:
        set_trainable(part.kernels[0].variance, False)
    if own_part:
        mix = parts[-1].kernels[1]
        set_trainable(mix.W, False)
        mix.kappa = gpflow.Parameter(np.full(data.num_outputs, 0.1), transform=positive())
    mogp.fit(exact, data, steps=steps, optimizer=LBFGS(), progress=False)
    return exact
