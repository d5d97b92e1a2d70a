"""Data sets drawn from a prior, and where a drawn function lies under a posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gpflow.utilities import set_trainable
from scipy.stats import norm

import mogp
from mogp.optimizers import Adam, Natural

Array = npt.NDArray[np.float64]
Rng = np.random.Generator

INPUTS = np.linspace(0, 1, 36)[:, None]
GAP = (0.4, 0.65)
"""Some function has no observation between these."""
_JITTER = 1e-9


@dataclass(frozen=True)
class Found:
    """What one data set tells of a family: how many posterior standard deviations from the posterior mean a drawn
    function lies, after a change of variables that makes this standard normal for every calibrated posterior.

    Attributes:
        near: at a place with observations around it.
        away: at a place without: in a gap, or of a replica that was not observed.
        rise: of the bound, in nats, in the last step of training: 0 for closed forms.
    """

    near: float
    away: float
    rise: float = 0.0


@dataclass(frozen=True)
class Family:
    """A model with a posterior, judged on data drawn from its prior.

    Attributes:
        name: key of its rows.
        title: what it is, for the page.
        leaves_out: what its posterior leaves out; "" for an exact one, which must pass.
        run: one data set, drawn and judged.
        data_sets: how many.
    """

    name: str
    title: str
    leaves_out: str
    run: Callable[[Rng], Found]
    data_sets: int = 400


def places(rng: Rng) -> tuple[float, float]:
    """An input outside the gap, and one inside of it."""
    low, high = GAP
    near = rng.uniform(0, 1 - (high - low))
    return near if near < low else near + high - low, rng.uniform(low + 0.05, high - 0.05)


def in_gap(x: Array = INPUTS) -> npt.NDArray[np.bool_]:
    """Which rows lie in the gap, `[N]`."""
    return (x[:, 0] > GAP[0]) & (x[:, 0] < GAP[1])


# Covariances of the priors, written out: what is drawn owes nothing to the code that is judged.


def distances(X: Array, lengthscale: float = 1.0) -> Array:
    """Euclidean, of all rows `[N, N]`."""
    apart: Array = np.sqrt(np.square((X[:, None] - X[None]) / lengthscale).sum(-1))
    return apart


def matern52(X: Array, lengthscale: float, variance: float = 1.0) -> Array:
    """Covariance `[N, N]` of a Matérn-5/2 function."""
    r = np.sqrt(5) * distances(X, lengthscale)
    return variance * (1 + r + r**2 / 3) * np.exp(-r)


def matern32(X: Array, lengthscale: float, variance: float = 1.0) -> Array:
    """Covariance `[N, N]` of a Matérn-3/2 function."""
    r = np.sqrt(3) * distances(X, lengthscale)
    return variance * (1 + r) * np.exp(-r)


def squared_exponential(X: Array, lengthscale: float = 1.0, variance: float = 1.0) -> Array:
    """Covariance `[N, N]` of a smooth function."""
    return variance * np.exp(-0.5 * distances(X, lengthscale) ** 2)


def draw(K: Array, rng: Rng, functions: int | None = None) -> Array:
    """Functions with a covariance `[N, N]`, `[N]` or `[N, functions]`."""
    shape = len(K) if functions is None else (len(K), functions)
    return np.linalg.cholesky(K + _JITTER * np.eye(len(K))) @ rng.standard_normal(shape)


def standardised(truth: float, mean: Any, var: Any) -> float:
    """How far the truth is from the mean of a Gaussian, in its standard deviations."""
    return float((truth - mean) / np.sqrt(var))


def from_draws(truth: float, draws: npt.ArrayLike, rng: Rng) -> float:
    """The same for a posterior of which there are draws `[S]`: the normal quantile of the truth's rank among them.

    The rank of a calibrated posterior is uniform on 0 … S; spread over its interval of length 1 / (S + 1) it is
    uniform on 0 to 1.
    """
    drawn = np.asarray(draws, float)
    return float(norm.ppf((np.sum(drawn < truth) + rng.uniform()) / (len(drawn) + 1)))


def only_posterior(model: Any) -> None:
    """Fix everything but q(u)."""
    set_trainable(model, False)
    set_trainable(model.posterior, True)


def train(model: Any, data: Any, steps: int = 25, gamma: float = 1.0, warm_up: int = 0) -> float:
    """Natural-gradient steps on q(u), all at once; returns by how much the last of them raised the bound."""
    only_posterior(model)
    optimizer = Natural(Adam(), gamma=gamma, warm_up=warm_up)
    history = mogp.fit(model, data, steps=steps, optimizer=optimizer, batch_size=None, progress=False)
    return float(history.elbo[-1] - history.elbo[-2])
