"""L-BFGS that steps back from points at which the objective cannot be evaluated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from mogp.data import Array


class LineSearch(gpflow.optimizers.Scipy):
    """GPflow's interface to SciPy's L-BFGS-B, with an objective that need not exist everywhere.

    A line search may try a point where a covariance has no Cholesky factor, or where the objective is NaN or infinite.
    Such a point is taken for one higher than any seen so far, on a slope that rises from the last one that could be
    evaluated, so that the search goes back there. An objective that fails at the start raises as it would have.

    Attributes:
        refused: how many points could not be evaluated, in the last call of `minimize`.
    """

    refused = 0

    def eval_func(self, *args: Any, **options: Any) -> Callable[[Array], tuple[Array, Array]]:
        """The objective and its gradient at a vector: see above."""
        evaluate = super().eval_func(*args, **options)
        good: Array | None = None
        highest = -np.inf
        self.refused = 0

        def anywhere(x: Array) -> tuple[Array, Array]:
            nonlocal good, highest
            try:
                value, gradient = evaluate(x)
            except tf.errors.InvalidArgumentError:
                if good is None:
                    raise
                value, gradient = np.asarray(np.nan), x
            if good is None or (np.isfinite(value) and np.isfinite(gradient).all()):
                good, highest = x.copy(), max(highest, float(value))
                return value, gradient
            self.refused += 1
            away = x - good
            rise = abs(highest) + 1.0
            return np.asarray(highest + rise), rise * away / max(float(away @ away), 1e-300)

        return anywhere
