"""`Stage`: a part of a training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mogp.optimizers import Optimizer, Problem


@dataclass(frozen=True)
class Stage:
    """A part of a training: most models have one, `GPAR` one for each start of each layer.

    Attributes:
        name: what is trained.
        problem: makes what is minimised, when it is the stage's turn.
        optimizer: what it is minimised with unless the caller of `fit` says otherwise; None for
            Adam.
        only: the one kind of optimiser that can do it; None for any.
        after: what to do when it has ended, or None.
        ready: what has to be done before the model can be asked in the middle of it (by a monitor),
            or None.
    """

    name: str
    problem: Callable[[], Problem]
    optimizer: Optimizer | None = None
    only: type[Optimizer] | None = None
    after: Callable[[], None] | None = None
    ready: Callable[[], None] | None = None
