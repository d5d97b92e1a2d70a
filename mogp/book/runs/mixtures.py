"""Predictions of a chain as mixtures of normals, one for each path, and how they are scored."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr

from mogp.data import Array

if TYPE_CHECKING:
    from mogp.models import GPAR, LatentChain

LEVELS = np.linspace(0.05, 0.95, 19)
"""Levels of the central intervals whose coverage is followed."""


class Mixture(NamedTuple):
    """Predictions of Gaussian outputs along `S` paths, in the units of the data.

    Attributes:
        mean: `[S, N, D]`.
        var: `[S, N, D]`, of the functions.
        noise: `[D]` variances.
    """

    mean: Array
    var: Array
    noise: Array

    @classmethod
    def of(cls, model: GPAR | LatentChain, X: Array, samples: int, seed: int = 0) -> Mixture:
        """The paths of a model at `X [N, P]`."""
        paths = model.paths(X, samples, seed)
        mean, var = (np.asarray(a) for a in paths[:2])
        noise = np.array([float(np.asarray(one.variance)) for one in model.likelihood.likelihoods])
        if isinstance(model.scale, dict):
            units = np.array([model.scale[name].sd for name in model.names])
            return cls(mean, var, units**2 * noise)
        latent: Any = model
        return cls(
            latent.location + latent.scale * mean, latent.scale**2 * var, latent.scale**2 * noise
        )

    def rows(self, which: Any) -> Mixture:
        """The predictions of some rows."""
        return Mixture(self.mean[:, which], self.var[:, which], self.noise)

    def split(self, *sizes: int) -> list[Mixture]:
        """The first so many rows, the next so many, …, and what is left."""
        ends = [0, *np.cumsum(sizes), self.mean.shape[1]]
        return [self.rows(slice(start, stop)) for start, stop in itertools.pairwise(ends)]

    def log_density(self, y: Array, d: int) -> Array:
        """`log 1/S Σ N(y | mean, var + noise)` `[N]` of one output."""
        var = self.var[..., d] + self.noise[d]
        log_p = -0.5 * (np.log(2 * np.pi * var) + (y - self.mean[..., d]) ** 2 / var)
        density: Array = logsumexp(log_p, axis=0) - np.log(len(log_p))
        return density

    def published_density(self, y: Array, d: int) -> Array:
        """The log density of a Gaussian with the mixture's moments, as the author scored GPAR.

        It leaves out the observation noise.
        """
        mean, var = self.mean[..., d].mean(0), self.var[..., d].mean(0) + self.mean[..., d].var(0)
        density: Array = -0.5 * (np.log(2 * np.pi * var) + (y - mean) ** 2 / var)
        return density

    def rank(self, y: Array, d: int) -> Array:
        """The probability `[N]` of a target below `y`: uniform if predictions are calibrated."""
        sd = np.sqrt(self.var[..., d] + self.noise[d])
        rank: Array = ndtr((y - self.mean[..., d]) / sd).mean(0)
        return rank

    def sd(self) -> Array:
        """Predictive standard deviation of targets, `[N, D]`."""
        sd: Array = np.sqrt(self.var.mean(0) + self.mean.var(0) + self.noise)
        return sd

    def band(self, level: float = 0.95, draws: int = 10, seed: int = 0) -> tuple[Array, Array]:
        """Ends `[N, D]` of the central interval of targets, from `draws` of each path."""
        normal = np.random.default_rng(seed).standard_normal((draws, *self.mean.shape))
        y = (self.mean + np.sqrt(self.var + self.noise) * normal).reshape(-1, *self.mean.shape[1:])
        lower, upper = np.quantile(y, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return lower, upper


def coverage_of(ranks: Array, levels: Array = LEVELS) -> Array:
    """The share of targets inside central intervals, by level, from their `Mixture.rank`."""
    distance = np.abs(np.asarray(ranks, float).reshape(-1) - 0.5)
    return np.array([np.mean(distance <= level / 2) for level in np.atleast_1d(levels)])
