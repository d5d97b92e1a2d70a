"""The loop of a training: how many steps to take at once, what to keep, and when to end."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from mogp.data import Array
from mogp.optimizers import Problem
from mogp.training.convergence import BLOCK, best_state, diverged, far_below_best, no_better
from mogp.training.history import History
from mogp.training.state import SECONDS_BETWEEN_REPORTS, State

Monitor = Callable[[], Mapping[str, Any]]
_MOST_GROWTH = 4.0
_LAST = 10
_LOOKS = 3


@dataclass
class Loop:
    """What an optimiser reports its steps to: a `Watch`.

    Attributes:
        problem: what is minimised.
        history: what happened so far; it grows.
        state: all variables.
        steps: at most.
        window: steps whose mean objective is compared with that of others; also the most at once.
        patience: see `fit`.
        monitor, every: see `fit`.
        interrupted: whether someone pressed Ctrl-C.
        report: is told the step, how many there are at most, and the objective.
        begun: steps of the stages before this one.
        ready: called before the monitor: see `Stage`.
    """

    problem: Problem
    history: History
    state: State
    steps: int
    window: int
    patience: int | None
    monitor: Monitor | None
    every: int
    interrupted: Callable[[], bool]
    report: Callable[[int, int, float], None]
    begun: int = 0
    ready: Callable[[], object] = lambda: None
    _at_once: int = 1

    @property
    def step(self) -> int:
        """Steps of this stage so far."""
        return self.history.steps - self.begun

    @property
    def left(self) -> int:
        """Steps that are left at most."""
        return self.steps - self.step

    def due(self) -> int:
        """How many steps to take before the next report; 0 to end."""
        if self.history.status != "finished" or self.left < 1:
            return 0
        if self.patience is not None and no_better(self.objective, self.window, self.patience):
            self._end("stopped early", f"No better mean ELBO for {self.patience} steps.")
            return 0
        ends = (size - self.step % size for size in (self.window, BLOCK))
        count = min(self._at_once, self.left, *ends)
        return count if self.monitor is None else min(count, self.every - self.step % self.every)

    def remember(self) -> None:
        """Keep the variables as they are, to go back to should the next steps fail."""
        self.state.remember(self.step)
        if self.step % BLOCK == 0:
            self.state.mark()

    def took(self, losses: Array, seconds: float) -> None:
        """Note steps: their losses, and the time they took."""
        self.history.seconds += seconds
        self.history.elbo = np.concatenate([self.history.elbo, -losses])
        self.look()
        # As many steps at once as take about a second, so that a run can be watched and stopped.
        growth = min(_MOST_GROWTH, SECONDS_BETWEEN_REPORTS / max(seconds, 1e-6))
        self._at_once = max(1, min(self.window, int(len(losses) * growth) or 1))
        self.state.save(self.history, force=self.left == 0)
        self.report(self.step, self.steps, self.history.elbo[-1])
        if self.state.remembers and self.step % BLOCK == 0:
            self._rate()
        if self.interrupted():
            self._end("interrupted", "Interrupted; the model keeps what it had learned.")

    def failed(self, steps: int, why: str) -> None:
        """Go back to the last state that works, and end."""
        reached = self.step + steps
        good = self.state.go_back(self._works)
        self._give_up(good, f"Stopped between steps {good} and {reached}: {why}")

    def settle(self) -> None:
        """After the last step: has the training ended in a state that is worth keeping?"""
        if self.history.status not in ("finished", "stopped early") or not self.state.remembers:
            return
        if far_below_best(self.objective, float(np.median(self.objective[-_LAST:]))):
            self._fallen()
        elif not any(self.state.peek(partial(self._works, self.step)) for _ in range(_LOOKS)):
            good = self.state.go_back(self._works)
            self._give_up(good, f"Step {self.step} led to an objective that is far off or NaN")

    @property
    def objective(self) -> Array:
        """The objective at the steps of this stage."""
        return self.history.elbo[self.begun :]

    def _rate(self) -> None:
        """Compare the state at the start of the block that has just ended with those before."""
        if best_state(self.objective) == self.step // BLOCK - 1:
            self.state.praise()
        if diverged(self.objective):
            self._fallen()

    def _fallen(self) -> None:
        now, reached = float(np.median(self.objective[-_LAST:])), self.step
        good = self.state.go_to_best()
        then = float(np.median(self.objective[good:][:_LAST]))
        why = f"the objective fell to {now:.4g}, far below {then:.4g} in the steps after {good}"
        self._give_up(good, f"Stopped at step {reached}: {why}")

    def _give_up(self, good: int, why: str) -> None:
        kept = (
            f"is as it was at step {good}"
            if self.state.keeps
            else "is too large for a copy, and left as it became"
        )
        self.history.elbo = self.history.elbo[: self.begun + good]
        self._end(
            "failed",
            f"{why}. The model {kept}. A smaller step size or standardised data usually helps.",
        )
        warnings.warn(self.history.message, stacklevel=4)

    def look(self) -> None:
        """Call the monitor, where it is due."""
        if self.monitor is not None and (self.step % self.every == 0 or self.left == 0):
            self.ready()
            self.history.monitored.append({"step": self.history.steps, **self.monitor()})

    def _works(self, step: int) -> bool:
        """Whether the objective is finite and not far below the best."""
        loss = self.problem.loss(self.problem.batches(step))
        value = -float(loss) - self.problem.shift
        return np.isfinite(value) and not far_below_best(self.objective, value)

    def _end(self, status: Any, message: str) -> None:
        self.history.status, self.history.message = status, message
        self.state.save(self.history, force=True)


@contextmanager
def progress_bar(show: bool) -> Iterator[Callable[[int, int, float], None]]:
    """Yield a function of the step, of the most steps and of the objective that moves a bar, if
    one is shown.
    """
    if not show:
        yield lambda step, most, elbo: None
        return
    columns = (
        TextColumn("{task.completed}/{task.total} steps"),
        BarColumn(),
        TextColumn("ELBO {task.fields[elbo]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("fit", total=None, elbo="…")
        yield lambda step, most, elbo: bar.update(
            task, completed=step, total=most, elbo=f"{elbo:.5g}"
        )
