"""Families whose outputs have replicas, or a latent variable each: HGP, DHGP, LVMOGP, HMOGP-LV."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from gpflow.kernels import Kernel, Matern32, Matern52, SquaredExponential
from gpflow.utilities import set_trainable

import mogp
from calibration.drawn import (
    INPUTS,
    Array,
    Family,
    Found,
    Rng,
    draw,
    in_gap,
    matern32,
    matern52,
    places,
    squared_exponential,
    standardised,
)
from mogp import MultiOutputData
from mogp.inducing import ReplicaPoints
from mogp.kernels import hierarchical
from mogp.likelihoods import Gaussian
from mogp.models import DHGP, HGP, LatentMOGP

REPLICAS, SHORT = 3, np.linspace(0, 1, 12)[:, None]
"""Replicas of an output, and the inputs of each."""
ROWS = np.concatenate([np.column_stack([SHORT, np.full(len(SHORT), r)]) for r in range(REPLICAS)])
"""`[x, replica]`."""
NOISE = np.array([0.02, 0.05, 0.1, 0.02, 0.05])
_TINY = 1e-9


def levels() -> list[Kernel]:
    """Of what all replicas share, and of each replica."""
    return [Matern52(variance=0.7, lengthscales=0.3), Matern32(variance=0.3, lengthscales=0.15)]


def of_levels(X: Array, replicas: bool = True) -> Array:
    """Covariance of a function of `[x, replica]`, `[N, N]`."""
    K = matern52(X[:, :1], 0.3, 0.7)
    return K + (X[:, 1:] == X[:, 1]) * matern32(X[:, :1], 0.15, 0.3) if replicas else K


# --- exact


def exact(rng: Rng, shared: bool) -> Found:
    """Two outputs, three replicas; the first output of the last replica was not observed.

    Args:
        rng: of all draws.
        shared: whether both outputs lie around one more function (DHGP); otherwise each is for itself (HGP).
    """
    x_near, x_away = places(rng)
    new = np.array([[x_near, 0.0], [x_away, REPLICAS - 1.0]])
    both = np.concatenate([ROWS, new])
    top, K = draw(matern52(both[:, :1], 0.4), rng) if shared else 0.0, of_levels(both)
    noise = NOISE[[1, 1]] if shared else NOISE[:2]
    f, Y = np.zeros((len(both), 2)), np.zeros((len(ROWS), 2))
    for d in range(2):
        f[:, d] = top + draw(K, rng)
        Y[:, d] = f[:-2, d] + np.sqrt(noise[d]) * rng.standard_normal(len(ROWS))
    Y[ROWS[:, 1] == REPLICAS - 1, 0] = np.nan
    data = MultiOutputData.from_arrays(ROWS[:, :1], Y, replica=ROWS[:, 1].astype(int))
    kernels = [Matern52(lengthscales=0.4), *levels()] if shared else levels()
    model = (DHGP if shared else HGP)(data, kernel=kernels, scaling=None)
    model.noise.assign(noise[0] if shared else noise)
    return judged(model, new, f[-2:], int(rng.integers(2)))


def judged(model: Any, new: Array, truth: Array, output: int) -> Found:
    """Some output near its rows, and the first where it was not observed; `truth` is `[2, D]`."""
    found = []
    for row, d in enumerate((output, 0)):
        f = model.predict_f(new[row : row + 1, :1], d, replica=int(new[row, 1]))
        found.append(standardised(truth[row, d], f.mean[0, 0], f.var[0, 0]))
    return Found(*found)


# --- latent variables


@dataclass(frozen=True)
class Latent:
    """Outputs that are points of a latent space.

    Attributes:
        replicas: whether rows have them (HMOGP-LV); the first output then misses one, otherwise (LVMOGP) a gap.
        fit: puts in the posterior of a model whose latent variables are at their true values.
        known: whether these are all that the posterior of the latent variables holds.
        every: inducing inputs are every so many rows.
    """

    replicas: bool
    fit: Callable[[Any, Any], float]
    known: bool = True
    every: int = 1

    def run(self, rng: Rng) -> Found:
        """Draw a data set, find the posterior, and see where the drawn functions lie under it."""
        D = len(NOISE)
        kernel = hierarchical(levels() if self.replicas else levels()[:1], 1)
        H = self._latents(rng)
        X = ROWS if self.replicas else np.column_stack([INPUTS, 0 * INPUTS])
        new = np.column_stack([places(rng), [0.0, (REPLICAS - 1.0) * self.replicas]])
        both = np.concatenate([X, new])
        root = np.linalg.cholesky(squared_exponential(H) + _TINY * np.eye(D))
        f = draw(of_levels(both, self.replicas), rng, D) @ root.T
        Y = f[:-2] + np.sqrt(NOISE) * rng.standard_normal((len(X), D))
        Y[X[:, 1] == REPLICAS - 1 if self.replicas else in_gap(X), 0] = np.nan
        data = MultiOutputData.from_arrays(X[:, :1], Y, replica=X[:, 1].astype(int))
        points = ReplicaPoints(X[:: self.every, :1], X[:: self.every, 1])
        Z = H if self.known else np.linspace(-2.5, 2.5, 7)[:, None]
        start = _TINY if self.known else 0.01
        model = LatentMOGP(
            kernel, SquaredExponential(), points, Z, H, start, likelihood=Gaussian(NOISE), names=data.schema
        )
        rise = self.fit(model, data)
        found = judged(model, new, f[-2:], int(rng.integers(D)))
        return replace(found, rise=rise)

    def _latents(self, rng: Rng) -> Array:
        """Of two dimensions where they are known, else of one; no two outputs are alike to rounding."""
        while True:
            H = rng.standard_normal((len(NOISE), 2 if self.known else 1))
            if not self.known or np.linalg.eigvalsh(squared_exponential(H))[0] > 1e-4:
                return H


def joint_grid(model: Any, data: Any) -> float:
    """The best Gaussian of all, in closed form."""
    model.joint_posterior(data)
    return 0.0


def kronecker(model: Any, data: Any) -> float:
    """The best Kronecker product, from the closed form."""
    model.joint_posterior(data)
    model.posterior = model.posterior.factorised()
    return 0.0


def as_fitted(model: Any, data: Any, last: bool) -> float:
    """Train q(H) and q(U) by the recipe of `fit`, which ends with the joint posterior; or without that end."""
    set_trainable(model, False)
    for one in (model.latent_mean, model.latent_var, model.posterior):
        set_trainable(one, True)
    history = mogp.fit(model, data, progress=False)
    if not last:
        model.posterior = model.posterior.factorised()
    return float(np.median(np.diff(history.elbo[-50:])))


_GRID = "all covariances but Kronecker products"
_H = "dependence between latent variables and q(U)"


def families() -> list[Family]:
    """All of them."""
    return [
        Family("hgp", "HGP, exact", "", partial(exact, shared=False)),
        Family("dhgp", "DHGP, exact", "", partial(exact, shared=True)),
        Family("lvmogp-joint", "LVMOGP, latent variables known, joint", "", Latent(False, joint_grid).run),
        Family("lvmogp-kron", "LVMOGP, latent variables known, Kronecker", _GRID, Latent(False, kronecker).run),
        Family("hmogp-joint", "HMOGP-LV, latent variables known, joint", "", Latent(True, joint_grid).run),
        Family("hmogp-kron", "HMOGP-LV, latent variables known, Kronecker", _GRID, Latent(True, kronecker).run),
        Family(
            "hmogp-joint-18", "HMOGP-LV, the same, joint, half the inducing inputs",
            "what lies between inducing inputs", Latent(True, joint_grid, every=2).run,
        ),
        Family(
            "hmogp-fit", "HMOGP-LV, q(H) trained, joint (what `fit` ends with)", _H,
            Latent(True, partial(as_fitted, last=True), known=False).run,
            100,
        ),
        Family(
            "hmogp-fit-kron", "HMOGP-LV, q(H) trained, Kronecker", f"{_GRID}; {_H}",
            Latent(True, partial(as_fitted, last=False), known=False).run,
            100,
        ),
    ]  # fmt: skip
