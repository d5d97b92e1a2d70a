"""`fit`: train a model in one compiled loop, and say how it went."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpflow.models import BayesianModel

from mogp.data import LabelData, MultiOutputData
from mogp.models.base import MOGP
from mogp.optimizers import LBFGS, Adam, Optimizer, Problem
from mogp.training.diagnosis import diagnose
from mogp.training.history import History
from mogp.training.interrupts import interrupts
from mogp.training.loop import Loop, Monitor, progress_bar
from mogp.training.state import State

Source = Callable[[Any], Any]


def fit(
    model: BayesianModel,
    data: MultiOutputData | LabelData | Source,
    *,
    steps: int = 1000,
    optimizer: Optimizer | None = None,
    batch_size: Any = None,
    seed: int = 0,
    patience: int | None = None,
    window: int = 100,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = True,
    jit_compile: bool = False,
    monitor: Monitor | None = None,
    every: int = 100,
) -> History:
    """Train a model with `training_loss(batch)`.

    Args:
        model: any model of `mogp`, or any GPflow model with external data.
        data: a `MultiOutputData` or `LabelData`, or a function from the step number to that step's
            batch (in TensorFlow operations).
        steps: how many (L-BFGS: iterations at most).
        optimizer: `Adam(0.01)` if None; `NaturalAdam()`, `LBFGS()`.
        batch_size: rows a step, one number or one an output; None for all. (`LatentMOGP`: outputs a
            step, or a pair (outputs, rows of each).)
        seed: of the mini-batches.
        patience: stop when the mean ELBO of a window has not improved for this many steps.
        window: steps a window.
        checkpoint: a file kept up to date about every second; a run that finds it continues from
            it, with the very history an uninterrupted run would have had (L-BFGS restarts from its
            last iterate).
        progress: show a bar with the ELBO and the time left.
        jit_compile: compile with XLA (for GPUs; slower on CPUs).
        monitor: called before the first step and after every `every` steps, between steps; the
            numbers, strings or lists it returns are kept in `History.monitored` (and in a
            checkpoint). Its time is not counted.
        every: steps between two calls of `monitor`.

    Returns:
        The `History`. Ctrl-C ends the training after the current steps and keeps what was learned;
        a second one aborts.
    """
    _check_numbers(steps, window, patience, every)
    problem = _problem(model, data, batch_size, seed)
    optimizer = Adam() if optimizer is None else optimizer
    optimizer.start(model)
    run = f"{type(optimizer).__name__}, seed {seed}, batches of {batch_size}"
    path = None if checkpoint is None else Path(checkpoint)
    state = State(model, optimizer.variables, path, run)
    history = state.restore()
    with interrupts() as interrupted, progress_bar(progress, steps) as report:
        loop = Loop(
            problem, history, state, steps, window, patience, monitor, every, interrupted, report
        )
        if not history.monitored:
            loop.look()
        said = optimizer.run(problem, loop, jit_compile)
    if history.status == "finished":
        history.message = said
    state.save(history, force=True)
    history.diagnosis = diagnose(model, history.elbo, deterministic=isinstance(optimizer, LBFGS))
    return history


def _check_numbers(steps: int, window: int, patience: int | None, every: int) -> None:
    if steps < 1:
        raise ValueError(f"steps={steps}; at least one is needed.")
    if window < 1 or (patience is not None and patience < 1):
        raise ValueError(f"window={window}, patience={patience}; both must be at least 1.")
    if every < 1:
        raise ValueError(f"every={every}; a monitor is called after at least one step.")


def _problem(
    model: BayesianModel, data: MultiOutputData | LabelData | Source, batch_size: Any, seed: int
) -> Problem:
    """What to minimise: a model of `mogp` says it itself, others take batches from a function."""
    if isinstance(model, MOGP):
        return model.problem(data, batch_size, seed)
    if not callable(data):
        raise TypeError(
            f"{type(model).__name__} is not a model of mogp and cannot read"
            f" {type(data).__name__}; give a function from the step number to the batch that its"
            " training_loss takes."
        )
    return Problem(model, model.training_loss, data)
