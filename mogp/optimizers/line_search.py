"""L-BFGS that steps back from points at which the objective cannot be evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from mogp.compiling import compiled
from mogp.data import Array
from mogp.optimizers.base import Flat, Loss, Search

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


class OfVariables(Search):
    """A loss and its gradient at one long vector of the values of variables, in one compiled call.

    Args:
        loss: of the variables.
        variables: what it is minimised over; the loss need not depend on all of them.

    >>> w = tf.Variable([3.0, 1.0], dtype=tf.float64)
    >>> search = OfVariables(lambda: tf.reduce_sum(w**2), [w])
    >>> search.at(np.array([2.0, 0.0]))
    (array(4.), array([4., 0.]))
    """

    def __init__(self, loss: Loss, variables: Sequence[tf.Variable]) -> None:
        variables = list(variables)
        flat = self._flat = Flat(variables)

        def both(x: tf.Tensor) -> tf.Tensor:
            flat.write(x)
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(variables)
                value = loss()
            gradient = flat.flatten(tape.gradient(value, variables))
            return tf.cast(tf.concat([tf.cast(value, flat.dtype)[None], gradient], 0), tf.float64)

        vector = tf.TensorSpec([flat.size], tf.float64)
        self._both, self._write = compiled(both, vector), compiled(flat.write, vector)

    def at(self, x: Array) -> tuple[Array, Array]:
        """The loss at `x [n]`, and its gradient `[n]`."""
        value, *_ = found = self._both(tf.constant(x, tf.float64)).numpy()
        return np.asarray(value), found[1:]

    def read(self) -> Array:
        """The values of the variables, `[n]`."""
        values: Array = self._flat.read().numpy().astype(np.float64)
        return values

    def write(self, x: Array) -> None:
        """Set the variables to `x [n]`."""
        self._write(tf.constant(x, tf.float64))


class LineSearch(gpflow.optimizers.Scipy):
    """GPflow's interface to SciPy's L-BFGS-B, with an objective that need not exist everywhere: see
    `StepsBack`.
    """

    _objective: StepsBack | None = None

    @property
    def refused(self) -> int:
        """How many points could not be evaluated, in the last call of `minimize`."""
        return 0 if self._objective is None else self._objective.refused

    def eval_func(self, closure: Loss, variables: Sequence[tf.Variable], **_: Any) -> Objective:
        """The objective and its gradient at a vector; it is always compiled."""
        self._objective = StepsBack(OfVariables(closure, variables).at)
        return self._objective
