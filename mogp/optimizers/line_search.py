"""L-BFGS that steps back from points at which the objective cannot be evaluated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from mogp.data import Array

Objective = Callable[[Array], tuple[Array, Array]]
"""A vector to the value there and the gradient."""


class StepsBack:
    """An objective that need not exist everywhere, for a line search.

    A line search may try a point where a covariance has no Cholesky factor, or where the objective
    is NaN or infinite. Such a point is taken for one higher than any seen so far, on a slope that
    rises from the last one that could be evaluated, so that the search goes back there. An
    objective that fails at the start raises as it would have.

    Attributes:
        refused: how many points could not be evaluated.
    """

    def __init__(self, evaluate: Objective) -> None:
        self._evaluate = evaluate
        self._good: Array | None = None
        self._highest = -np.inf
        self.refused = 0

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """The objective and its gradient at a vector: see above."""
        try:
            value, gradient = self._evaluate(x)
        except tf.errors.InvalidArgumentError:
            if self._good is None:
                raise
            value, gradient = np.asarray(np.nan), x
        if self._good is None or (np.isfinite(value) and np.isfinite(gradient).all()):
            self._good, self._highest = x.copy(), max(self._highest, float(value))
            return value, gradient
        self.refused += 1
        away = x - self._good
        rise = abs(self._highest) + 1.0
        return np.asarray(self._highest + rise), rise * away / max(float(away @ away), 1e-300)


class LineSearch(gpflow.optimizers.Scipy):
    """GPflow's interface to SciPy's L-BFGS-B, with an objective that need not exist everywhere: see
    `StepsBack`.
    """

    _objective: StepsBack | None = None

    @property
    def refused(self) -> int:
        """How many points could not be evaluated, in the last call of `minimize`."""
        return 0 if self._objective is None else self._objective.refused

    def eval_func(self, *args: Any, **options: Any) -> Objective:
        """The objective and its gradient at a vector."""
        self._objective = StepsBack(super().eval_func(*args, **options))
        return self._objective
