"""Training that nobody watches: what start values and searches over models need."""

from __future__ import annotations

import numpy as np

from mogp.data import Array
from mogp.optimizers.base import Optimizer, Problem


class Quiet:
    """A `Watch` that keeps the losses, and ends after a number of steps.

    Args:
        steps: at most.

    Attributes:
        losses: of every step so far, `[step]`.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.losses: Array = np.empty(0)

    @property
    def step(self) -> int:
        """Steps taken so far."""
        return len(self.losses)

    @property
    def left(self) -> int:
        """Steps that are left at most."""
        return self.steps - self.step

    @property
    def objective(self) -> Array:
        """The negative losses."""
        return -self.losses

    def due(self) -> int:
        """All that are left."""
        return max(self.left, 0)

    def remember(self) -> None:
        """Nothing is kept: a step that fails raises."""

    def took(self, losses: Array, seconds: float) -> None:
        """Keep the losses."""
        self.losses = np.concatenate([self.losses, losses])

    def failed(self, steps: int, why: str) -> None:
        """Raise: there is nobody to tell."""
        raise ValueError(
            f"training failed between steps {self.step} and {self.step + steps}: {why}."
            " Standardised data or other start values usually help."
        )


def minimise(problem: Problem, optimizer: Optimizer, steps: int = 1000) -> Array:
    """Take at most `steps` steps without a progress bar, checkpoints or a history.

    Models train parts of themselves this way; `mogp.fit` is for everyone else.

    Args:
        problem: what to minimise.
        optimizer: by what.
        steps: at most.

    Returns:
        The loss of every step, `[steps taken]`.
    """
    optimizer.start(problem.model)
    watch = Quiet(steps)
    optimizer.run(problem, watch)
    return watch.losses
