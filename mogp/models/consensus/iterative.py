"""What the baselines for several annotators share: checks, and steps that climb an objective."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Self

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.preprocessing import StandardScaler

from mogp.data import Array, MultiOutputData

__all__ = ["Baseline", "Climber", "check_positive", "design", "everywhere"]


class Baseline:
    """What is known of the data a baseline was fitted to, and the check of inputs against it."""

    _annotators = 0
    _input_dim = 0

    def _fitted_to(self, data: MultiOutputData) -> Self:
        self._annotators, self._input_dim = data[0].Y.shape[1], data.input_dim
        return self

    def _inputs(self, Xnew: npt.ArrayLike) -> Array:
        if not self._annotators:
            raise NotFittedError(f"{type(self).__name__} was not fitted; call fit(data) first.")
        X = np.asarray(Xnew, float)
        X = X[:, None] if X.ndim == 1 else X
        if X.ndim != 2 or X.shape[1] != self._input_dim or not np.isfinite(X).all():
            raise ValueError(
                f"Xnew has shape {X.shape} and {np.sum(~np.isfinite(X))} values that are not"
                f" finite; expected finite inputs [N, {self._input_dim}], as those of the data that"
                f" {type(self).__name__} was fitted to."
            )
        return X


class Climber(Baseline):
    """A baseline that is fitted by steps none of which decreases its objective."""

    log_likelihood_: Array

    def __init__(self, iterations: int, tolerance: float) -> None:
        check_positive(iterations=iterations, tolerance=tolerance)
        self.iterations, self.tolerance = iterations, tolerance

    def _climb(self, step: Callable[[], float]) -> None:
        """Take steps, which return the objective, until one gains less than `tolerance` of it."""
        trace = [-np.inf]
        for _ in range(self.iterations):
            trace.append(step())
            if trace[-1] - trace[-2] <= self.tolerance * abs(trace[-1]):
                break
        else:
            warnings.warn(
                f"{type(self).__name__} still gained more than tolerance={self.tolerance} in the"
                f" last of {self.iterations} iterations; raise iterations or tolerance.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.log_likelihood_ = np.array(trace[1:])


def everywhere(X: Array, values: Array) -> tuple[Array, Array]:
    """Values `[R]` that hold at every input, with certainty."""
    mean = np.tile(values, (len(X), 1))
    return mean, np.zeros_like(mean)


def check_positive(**settings: float) -> None:
    """Refuse settings that are not above zero."""
    for name, value in settings.items():
        if not value > 0:
            raise ValueError(f"{name}={value}; expected a number above zero.")


def design(scaler: StandardScaler, X: Array) -> Array:
    """`[N, P + 1]`, a column of ones and the standardised inputs."""
    return np.column_stack([np.ones(len(X)), scaler.transform(X)])
