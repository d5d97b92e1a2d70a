"""L-BFGS on all the data, by SciPy through GPflow."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from scipy.optimize import OptimizeResult, minimize

from mogp.data import Array
from mogp.errors import UnsupportedError
from mogp.optimizers.base import EVERY, Ending, Loss, Optimizer, Problem, Search, Watch
from mogp.optimizers.line_search import OfVariables, StepsBack


class LBFGS(Optimizer):
    """`scipy.optimize.minimize(method="L-BFGS-B")` on every trainable parameter.

    It needs the same objective at every step: all the data, and no Monte Carlo. A step is an
    iteration, whatever the number of evaluations it takes; points at which the objective cannot be
    evaluated are stepped back from.

    >>> LBFGS({"maxls": 50})
    LBFGS({'maxls': 50})

    Args:
        options: passed to SciPy (`maxls`, `ftol`, `gtol`, …); `fit` sets `maxiter`.
        tolerance: the training has converged, too, when 50 iterations raise the objective by less
            than this many nats for each observed target, as in `Falling`; None for the rules of
            SciPy alone.
    """

    def __init__(
        self, options: dict[str, Any] | None = None, tolerance: float | None = None
    ) -> None:
        if tolerance is not None and not tolerance > 0:
            raise ValueError(f"tolerance={tolerance}; it must be positive.")
        self.options, self.tolerance = dict(options or {}), tolerance

    def __repr__(self) -> str:
        flat = "" if self.tolerance is None else f", tolerance={self.tolerance:g}"
        return f"LBFGS({self.options}{flat})"

    def start(self, model: tf.Module) -> None:
        """Nothing to create: SciPy holds the state, and a resumed run starts afresh."""

    def step(self, model: tf.Module, loss: Loss) -> tf.Tensor:
        """L-BFGS has no step of its own: see `run`."""
        raise UnsupportedError("L-BFGS does not work step by step. Use fit, or call run.")

    @property
    def variables(self) -> Sequence[tf.Variable]:
        """None: a checkpoint holds the last iterate."""
        return ()

    def run(self, problem: Problem, watch: Watch, jit_compile: bool = False) -> Ending:
        """Minimise; the watch hears of every iteration and may end it."""
        if not problem.whole:
            raise ValueError(
                "L-BFGS needs the same objective at every step: use batch_size=None, or Adam()"
                " with mini-batches."
            )
        if problem.before is not None:
            raise ValueError(
                "a likelihood of this model stores theta for each row, updated step by step: use"
                " Adam()."
            )
        if not watch.due():
            return Ending()
        least = 0.0
        if self.tolerance is not None and problem.targets is not None:
            least = self.tolerance * problem.targets
        return self._search(problem.search or _search_of(problem), watch, problem.shift, least)

    def _search(self, given: Search, watch: Watch, shift: float, least: float) -> Ending:
        """Minimise at one long vector; what is reported is higher by `shift`. A rise of the
        objective that is less than `least` nats in 50 iterations ends it.
        """
        start, bounds = given.read(), given.bounds
        if not len(start):
            return Ending("L-BFGS: no parameter is trainable.", True)
        if bounds is not None:
            start = np.clip(start, *np.transpose(bounds))
        safe, flat = StepsBack(given.at), _Flat(least)
        result = minimize(
            safe,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            callback=_reporting(watch, given.write, shift, flat),
            options={"maxiter": watch.left, "maxfun": 20 * watch.left, **self.options},
        )
        given.write(result.x)
        return flat.ending or _said(result, safe.refused)


class _Flat:
    """Notices when the objective has stopped rising."""

    def __init__(self, least: float) -> None:
        self.ending: Ending | None = None
        self._least, self._losses = least, deque[float](maxlen=EVERY + 1)

    def after(self, iteration: int, loss: float) -> bool:
        """Whether the last 50 iterations gained too little."""
        self._losses.append(loss)
        gained = self._losses[0] - loss
        if len(self._losses) <= EVERY or not gained < self._least:
            return False
        self.ending = Ending(
            f"Flat after {iteration} iterations of L-BFGS: the ELBO rose by {gained:.2g} nats in"
            f" {EVERY}.",
            True,
        )
        return True


def _search_of(problem: Problem) -> Search:
    """Over the trainable variables of a model, whose loss must be the same when asked twice."""
    loss, batch = problem.loss, problem.batches(0)
    search = OfVariables(lambda: loss(batch), problem.model.trainable_variables)
    _check_objective(search)
    return search


def _reporting(
    watch: Watch, put: Callable[[Array], None], shift: float, flat: _Flat
) -> Callable[..., None]:
    """What SciPy calls after every iteration: it sets the model, tells the watch, and may end."""
    began = time.perf_counter()

    def after_iteration(intermediate_result: OptimizeResult) -> None:
        nonlocal began
        put(intermediate_result.x)
        losses = np.array([intermediate_result.fun], float) + shift
        watch.took(losses, time.perf_counter() - began)
        # After the last step SciPy ends by itself, and says why.
        if watch.left and (not watch.due() or flat.after(watch.step, intermediate_result.fun)):
            raise StopIteration
        began = time.perf_counter()

    return after_iteration


def _said(result: OptimizeResult, refused: int) -> Ending:
    tried = f" (points tried that could not be evaluated: {refused})"
    message = f"L-BFGS: {result.message}" + (tried if refused else "")
    # Steps that ran out, or a line search that finds nothing better, say nothing of an optimum.
    known = {0: True}
    return Ending(message, known.get(result.status))


def _check_objective(search: Search) -> None:
    """Raise unless the objective is finite and the same when asked twice."""
    start = search.read()
    try:
        first, second = (float(search.at(start)[0]) for _ in range(2))
    except tf.errors.InvalidArgumentError as error:
        raise ValueError(
            f"the objective cannot be evaluated at the start: {error.message}"
        ) from error
    if not np.isfinite(first):
        raise ValueError(
            f"the objective is {first} at the start: check the scale of the data and the start"
            " values."
        )
    if first != second:
        raise ValueError(
            "this objective is random (a Monte-Carlo likelihood): L-BFGS cannot follow it; use"
            " Adam()."
        )
