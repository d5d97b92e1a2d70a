"""`History`: what a fit did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from mogp.data import Array
from mogp.training.diagnosis import Diagnosis

Status = Literal["finished", "stopped early", "interrupted", "failed"]


@dataclass(frozen=True)
class StageRecord:
    """What one stage of a training did.

    Attributes:
        name: what was trained.
        steps: how many.
        seconds: time they took.
        message: why it ended, in words.
        converged: whether it is at an optimum by the optimiser's own rule; None if it has none.

    >>> StageRecord("rain", steps=12, seconds=0.3, message="L-BFGS: converged").steps
    12
    """

    name: str
    steps: int
    seconds: float
    message: str
    converged: bool | None = None


@dataclass
class History:
    """What a fit did.

    Attributes:
        elbo: the objective at every step, on that step's batch (before the step). Models that are
            trained in stages (`GPAR`, layer by layer) have that of one stage after the other.
        seconds: time spent training, over all resumed parts.
        status: "finished", "stopped early", "interrupted" or "failed"; then the model is in its
            last good state, and `elbo` ends there (see `mogp.fit`).
        message: the reason, in words.
        diagnosis: what to know about the fitted model; print it.
        monitored: what the `monitor` returned along the way, each with its `step`.
        stages: what each stage did; one for most models.
        recipe: what `fit` chose itself, in words; "" with an optimiser of the caller's.
        last_step: what it did after the last step, in words; "" if nothing.

    >>> import numpy as np
    >>> history = History(elbo=np.array([-3.0, -2.0]), seconds=0.5)
    >>> history.frame()
       step  elbo
    0     1  -3.0
    1     2  -2.0
    >>> print(history)
    finished after 2 steps in 0.5 s, ELBO -2.5 (mean of the last steps).
    """

    elbo: Array = field(default_factory=lambda: np.empty(0))
    seconds: float = 0.0
    status: Status = "finished"
    message: str = ""
    diagnosis: Diagnosis | None = None
    monitored: list[dict[str, Any]] = field(default_factory=list)
    stages: list[StageRecord] = field(default_factory=list)
    recipe: str = ""
    last_step: str = ""

    @property
    def converged(self) -> bool | None:
        """Whether the objective had stopped rising, for the reason in `message`; None if too few
        steps to tell.
        """
        return None if self.diagnosis is None else self.diagnosis.converged

    @property
    def steps(self) -> int:
        """Steps taken."""
        return len(self.elbo)

    def frame(self) -> pd.DataFrame:
        """A row a step: `step`, `elbo`; with several stages also the name of the `stage`."""
        table = pd.DataFrame({"step": np.arange(1, self.steps + 1), "elbo": self.elbo})
        if len(self.stages) > 1:
            names = np.repeat([s.name for s in self.stages], [s.steps for s in self.stages])
            table.insert(1, "stage", names)
        return table

    def plot(self, ax: Any = None) -> Any:
        """The ELBO against the step, with a running median; returns the axes."""
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(6, 3))[1] if ax is None else ax
        frame = self.frame()
        window = max(1, self.steps // 50)
        ax.plot(frame["step"], frame["elbo"], lw=0.6, alpha=0.4, label="each step")
        ax.plot(
            frame["step"],
            frame["elbo"].rolling(window, min_periods=1).median(),
            lw=1.6,
            label=f"median of {window}",
        )
        if self.steps > 10:
            low, high = np.quantile(self.elbo[self.steps // 20 :], [0.01, 1.0])
            ax.set_ylim(low - 0.1 * (high - low) - 1e-9, high + 0.1 * (high - low) + 1e-9)
        ax.set(xlabel="step", ylabel="ELBO (nats)")
        ax.legend(frameon=False)
        return ax

    def __str__(self) -> str:
        said = f"{self.status} after {self.steps} steps in {self.seconds:.1f} s"
        if self.steps and len(self.stages) < 2:
            last = np.mean(self.elbo[-min(100, self.steps) :])
            said += f", ELBO {last:.4g} (mean of the last steps)"
        parts = [self.message]
        if len(self.stages) > 1:
            parts = [
                f"{s.name}: {s.steps} steps, {s.seconds:.2f} s. {s.message}" for s in self.stages
            ]
        recipe = f"Recipe: {self.recipe}." if self.recipe else ""
        lines = [f"{said}.", recipe, *parts, self.last_step, str(self.diagnosis or "")]
        return "\n".join(filter(None, lines))
