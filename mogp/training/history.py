"""`History`: what a fit did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from mogp.data import Array
from mogp.training.diagnosis import Diagnosis

Status = Literal["finished", "stopped early", "interrupted", "failed"]


@dataclass
class History:
    """What a fit did.

    Attributes:
        elbo: the objective at every step, on that step's batch (before the step).
        seconds: time spent training, over all resumed parts.
        status: "finished", "stopped early", "interrupted" or "failed".
        message: the reason, in words.
        diagnosis: what to know about the fitted model; print it.
        monitored: what the `monitor` returned along the way, each with its `step`.
    """

    elbo: Array = field(default_factory=lambda: np.empty(0))
    seconds: float = 0.0
    status: Status = "finished"
    message: str = ""
    diagnosis: Diagnosis | None = None
    monitored: list[dict[str, Any]] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """Steps taken."""
        return len(self.elbo)

    def frame(self) -> pd.DataFrame:
        """A row a step: `step`, `elbo`."""
        return pd.DataFrame({"step": np.arange(1, self.steps + 1), "elbo": self.elbo})

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
        last = (
            f", ELBO {np.mean(self.elbo[-min(100, self.steps) :]):.4g} (mean of the last steps)"
            if self.steps
            else ""
        )
        said = f"{self.status} after {self.steps} steps in {self.seconds:.1f} s{last}."
        return "\n".join(filter(None, [said, self.message, str(self.diagnosis or "")]))
