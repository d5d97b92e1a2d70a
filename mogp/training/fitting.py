"""`fit`: train a model in one compiled loop, and say how it went."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpflow.models import BayesianModel

from mogp.data import Array, LabelData, MultiOutputData
from mogp.models.base import MOGP
from mogp.models.stages import Stage
from mogp.optimizers import LBFGS, Ending, Optimizer, Problem
from mogp.training.diagnosis import Diagnosis, diagnose
from mogp.training.history import History, StageRecord
from mogp.training.interrupts import interrupts
from mogp.training.loop import Loop, Monitor, progress_bar
from mogp.training.recipe import Open, told
from mogp.training.state import State, read_checkpoint

Source = Callable[[Any], Any]


def fit(
    model: BayesianModel,
    data: MultiOutputData | LabelData | Source,
    *,
    steps: int | None = None,
    optimizer: Optimizer | None = None,
    batch_size: Any = "auto",
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

    With nothing but a model and data it follows a **recipe** (`History.recipe` says which): rates
    that begin high and fall at each plateau of the objective, mini-batches where there are many
    rows, and an end where the objective stays flat (`Falling`); `LBFGS` for exact models and
    `GPAR`. Whether it converged, and by what, is in `History.converged` and `History.message`.

    A training that **fails** says so (`History.status`, its message, a warning), and leaves the
    model in the last good state, never in a worse one. It fails when the objective is NaN or
    infinite; when a matrix cannot be factorised; and when the objective falls far below its best
    and stays there. Every 50 steps the state is kept, and rated by the median objective of the ten
    steps after it. The training has diverged when the median over each of the last two times 50
    steps, or over the last ten steps of all, is below the best rating by more than

    - what that is above the rating of the start,
    - ten times the distance between the quartiles of its ten steps, and
    - a tenth of its size.

    The model then goes back to the best state. (A resumed training knows those since it went on.)

    Args:
        model: any model of `mogp`, or any GPflow model with external data.
        data: a `MultiOutputData` or `LabelData`, or a function from the step number to that step's
            batch (in TensorFlow operations).
        steps: how many at most (L-BFGS: iterations), in each stage of models that have several. If
            None, 5000 by the recipe, 1000 with an optimiser that is given.
        optimizer: `Adam(0.01)`, `NaturalAdam()`, …; the recipe of the model if None.
        batch_size: rows a step, one number or one an output; None for all. (`LatentMOGP`: outputs a
            step, or a pair (outputs, rows of each).) By the recipe if "auto"; all rows with an
            optimiser that is given.
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

    >>> import numpy as np
    >>> from mogp import MultiOutputData, fit
    >>> from mogp.models import ExactLMC
    >>> x = np.linspace(0, 1, 8)
    >>> data = MultiOutputData.from_arrays(x, np.sin(6 * x))
    >>> model = ExactLMC(data)
    >>> history = fit(model, data, steps=20, progress=False)
    >>> history.status, bool(history.elbo[-1] > history.elbo[0])
    ('finished', True)
    """
    _check_numbers(steps, window, patience, every)
    said = Open(steps, optimizer, batch_size)
    rows = said.rows(model, data)
    path = None if checkpoint is None else Path(checkpoint)
    kept = read_checkpoint(path)
    if isinstance(model, MOGP):
        _begin(model, data, resumed=kept is not None)
    stages = _stages(model, data, rows, seed, by_recipe=optimizer is None)
    done = 0 if kept is None else min(len(kept.stages), len(stages) - 1)
    of = getattr(data, "fingerprint", "a function") if path else ""
    run = f"seed {seed}, batches of {rows}, data {of}"
    history = History()
    with interrupts() as interrupted, progress_bar(progress) as report:
        for stage in stages[done:]:
            problem, chosen = stage.problem(), said.of(stage)
            most = said.most
            chosen.start(problem.model)
            state = State(model, chosen.variables, path, f"{type(chosen).__name__}, {run}")
            if kept is not None:
                history, kept = state.restore(kept), None
                del history.stages[done:]
            history.status, begun = "finished", sum(one.steps for one in history.stages)
            history.recipe = told(chosen, rows, most) if optimizer is None else ""
            loop = Loop(
                problem, history, state, most, window, patience, monitor, every, interrupted,
                report, begun, stage.ready or _nothing,
            )  # fmt: skip
            if not history.monitored:
                loop.look()
            ending = chosen.run(problem, loop, jit_compile)
            loop.settle()
            if stage.after is not None:
                stage.after()
            if not _goes_on(stage, history, begun, ending):
                break
    state.save(history, force=True)
    if optimizer is None and isinstance(model, MOGP) and not callable(data):
        history.last_step = model.last_step(data)
    whole = isinstance(chosen, LBFGS)
    history.diagnosis = _diagnosed(model, history, history.elbo[begun:], whole, data)
    return history


def start(model: MOGP, data: MultiOutputData | LabelData) -> None:
    """Find the start values of a model that take training, as `fit` does before its first step.

    Most models have their start values when they are built, and then nothing happens. A chain with
    `start="gpar"` fits a GPAR, a hierarchy with latent variables smooths its outputs.

    Args:
        model: of `mogp`.
        data: what it will be trained on.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> x = np.linspace(0, 1, 8)
    >>> data = MultiOutputData.from_arrays(x, np.column_stack([np.sin(x), np.cos(x)]))

    >>> from mogp.models import gplar
    >>> from mogp.training import start
    >>> model = gplar(data, inducing=3)  # start="gpar": waits for a GPAR to be fitted
    >>> before = model.posterior.q_mu.numpy().copy()
    >>> start(model, data)
    >>> bool(np.abs(model.posterior.q_mu.numpy() - before).max() > 0)
    True
    """
    model.check(data)
    model.start(data)


def _begin(model: MOGP, data: MultiOutputData | LabelData | Source, resumed: bool) -> None:
    """Find start values that take training; a run that is resumed has left them behind."""
    if resumed:
        model._prepare = None
    elif not callable(data):
        start(model, data)
    elif model._prepare is not None:
        raise ValueError(
            "this model has start values that take training, for which a function that makes"
            " batches is not enough: call mogp.training.start(model, data) first."
        )


def _nothing() -> None:
    """What is to be done where nothing is."""


def _goes_on(stage: Stage, history: History, begun: int, ending: Ending) -> bool:
    """Note the end of a stage; whether the next may begin."""
    undisturbed = history.status == "finished"
    message = ending.message if undisturbed else history.message
    seconds = history.seconds - sum(one.seconds for one in history.stages)
    converged = ending.converged if undisturbed else None
    history.stages.append(
        StageRecord(stage.name, history.steps - begun, seconds, message, converged)
    )
    history.message = message
    return history.status in ("finished", "stopped early")


def _diagnosed(
    model: BayesianModel, history: History, elbo: Array, whole: bool, data: Any
) -> Diagnosis:
    """What to know about the model; the rule of an optimiser comes before that of `diagnose`."""
    ends = {one.converged for one in history.stages}
    rule = None if None in ends else all(ends)
    found = diagnose(model, elbo, deterministic=whole, data=data, converged=rule)
    failed = history.status == "failed" and rule is None and found.converged
    return replace(found, converged=False) if failed else found


def _check_numbers(steps: int | None, window: int, patience: int | None, every: int) -> None:
    if steps is not None and steps < 1:
        raise ValueError(f"steps={steps}; at least one is needed.")
    if window < 1 or (patience is not None and patience < 1):
        raise ValueError(f"window={window}, patience={patience}; both must be at least 1.")
    if every < 1:
        raise ValueError(f"every={every}; a monitor is called after at least one step.")


def _stages(
    model: BayesianModel,
    data: MultiOutputData | LabelData | Source,
    batch_size: Any,
    seed: int,
    by_recipe: bool,
) -> list[Stage]:
    """What to minimise: a model of `mogp` says it itself, others take batches from a function."""
    if isinstance(model, MOGP):
        return (model.usual_stages if by_recipe else model.stages)(data, batch_size, seed)
    if not callable(data):
        raise TypeError(
            f"{type(model).__name__} is not a model of mogp and cannot read"
            f" {type(data).__name__}; give a function from the step number to the batch that its"
            " training_loss takes."
        )
    return [Stage("model", lambda: Problem(model, model.training_loss, data))]
