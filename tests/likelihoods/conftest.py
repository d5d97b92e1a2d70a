"""The likelihoods under test, each beside its density written with SciPy alone."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from mogp import likelihoods


class ZeroInflated:
    """The zero-inflated Poisson distribution, straight from its definition."""

    def __init__(self, pi, rho):
        self.pi, self.poisson = pi, stats.poisson(rho)
        self.rho = rho

    def logpmf(self, y):
        counted = np.log1p(-self.pi) + self.poisson.logpmf(y)
        return np.where(y == 0, np.logaddexp(np.log(self.pi), counted), counted)

    def mean(self):
        return (1 - self.pi) * self.rho

    def var(self):
        return (1 - self.pi) * (self.rho + self.rho**2) - self.mean() ** 2


@dataclass(frozen=True)
class Case:
    make: Callable[..., Any]
    given: Callable[..., Any]
    targets: tuple[float, ...]
    functions: int
    support: Any
    means: tuple[float, ...] = (0.4, -0.7)
    variances: tuple[float, ...] = (0.5, 0.3)

    @property
    def discrete(self) -> bool:
        return not isinstance(self.support, tuple)

    def log_density(self, y, F):
        distribution = self.given(*np.moveaxis(F, -1, 0))
        return distribution.logpmf(y) if self.discrete else distribution.logpdf(y)

    def q(self, spread=1.0):
        """Rows of (Fmu, Fvar, Y): every target with a few different posteriors."""
        shifts = [(0.0, 1.0), (0.8, 0.6), (-0.6, 1.4)]
        rows = list(product(self.targets, shifts))
        mu = np.array([[m + s for m in self.means[: self.functions]] for _, (s, _) in rows])
        var = np.array([[v * k * spread for v in self.variances[: self.functions]] for _, (_, k) in rows])
        return mu, var, np.array([[float(y)] for y, _ in rows])


def reference_expectation(h, mu, var, nodes=100):
    """E h(f) under N(mu, diag var) by tensor-product Gauss-Hermite in NumPy; h takes [S, J] to [S]."""
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    w = w / w.sum()
    grid = np.stack(np.meshgrid(*[z] * len(mu), indexing="ij"), -1).reshape(-1, len(mu))
    weight = np.prod(np.stack(np.meshgrid(*[w] * len(mu), indexing="ij"), -1).reshape(-1, len(mu)), axis=1)
    return weight @ h(mu + np.sqrt(var) * grid)


COUNTS = np.arange(400.0)
CASES = {
    "Gaussian": Case(
        lambda nodes=20: likelihoods.Gaussian(0.3), lambda f: stats.norm(f, 0.3**0.5), (0.2, -1.5), 1, (-30, 30)
    ),
    "HeteroscedasticGaussian": Case(
        likelihoods.HeteroscedasticGaussian, lambda f, g: stats.norm(f, np.exp(g / 2)), (0.2, -2.5), 2, (-60, 60)
    ),
    "Beta": Case(
        likelihoods.Beta, lambda f, g: stats.beta(np.exp(f), np.exp(g)), (0.03, 0.6, 0.95), 2, (0, 1), (1.0, 0.9)
    ),
    "Gamma": Case(
        likelihoods.Gamma,
        lambda f, g: stats.gamma(np.exp(f), scale=np.exp(-g)),
        (0.1, 1.5, 9.0),
        2,
        (0, 400),
        (1.2, 0.3),
    ),
    "Exponential": Case(likelihoods.Exponential, lambda f: stats.expon(scale=np.exp(-f)), (0.1, 3.0), 1, (0, 400)),
    "Bernoulli": Case(likelihoods.Bernoulli, lambda f: stats.bernoulli(special.expit(f)), (0, 1), 1, np.arange(2.0)),
    "Poisson": Case(likelihoods.Poisson, lambda f: stats.poisson(np.exp(f)), (0, 1, 7), 1, COUNTS),
    "ZeroInflatedPoisson": Case(
        likelihoods.ZeroInflatedPoisson,
        lambda f, g: ZeroInflated(special.expit(f), np.exp(g)),
        (0, 1, 7),
        2,
        COUNTS,
        (-0.3, 0.9),
    ),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.fixture
def expectation():
    return reference_expectation
