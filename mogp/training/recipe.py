"""What `fit` chooses where its caller leaves something open."""

from __future__ import annotations

from typing import Any, NamedTuple

from mogp.errors import UnsupportedError
from mogp.models.base import MOGP
from mogp.models.stages import Stage
from mogp.optimizers import Adam, Falling, Optimizer

STEPS = 1000
"""At most, of an optimiser that is given."""
RECIPE_STEPS = 5000
"""At most, of a recipe."""


class Open(NamedTuple):
    """What the caller of `fit` said, some of it left open.

    Attributes:
        steps: at most; None if open.
        optimizer: None if open.
        batch_size: rows a step; "auto" if open.
    """

    steps: int | None
    optimizer: Optimizer | None
    batch_size: Any

    def rows(self, model: Any, data: Any) -> Any:
        """Rows a step: what was said, or by the recipe of the model; all with an optimiser that
        was chosen.
        """
        if not (isinstance(self.batch_size, str) and self.batch_size == "auto"):
            return self.batch_size
        with_recipe = self.optimizer is None and isinstance(model, MOGP) and not callable(data)
        return model.usual_rows(data) if with_recipe else None

    def of(self, stage: Stage) -> Optimizer:
        """The optimiser that was chosen, or that of the stage."""
        if self.optimizer is None:
            return Falling(Adam()) if stage.optimizer is None else stage.optimizer
        if stage.only is not None and not isinstance(self.optimizer, stage.only):
            own = stage.only.__name__
            raise UnsupportedError(
                f"this model is trained by {own}, not by {type(self.optimizer).__name__}: leave"
                f" optimizer out, or give {own}() with options."
            )
        return self.optimizer

    @property
    def most(self) -> int:
        """How many steps at most."""
        if self.steps is not None:
            return self.steps
        return RECIPE_STEPS if self.optimizer is None else STEPS


def told(optimizer: Optimizer, rows: Any, most: int) -> str:
    """A recipe in one line.

    >>> from mogp.optimizers import Adam, Falling
    >>> told(Falling(Adam(0.05)), rows=500, most=3000)
    'Falling(Adam(0.05)), batches of 500, at most 3000 steps'
    """
    batches = "all rows at every step" if rows is None else f"batches of {rows}"
    return f"{optimizer!r}, {batches}, at most {most} steps"
