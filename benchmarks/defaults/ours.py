"""Fits of the library: by default, as the first edition had it, tuned, and the exact ICM."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import mogp
from defaults.scores import Prediction, of_model
from defaults.tasks import Data, Options, Split, Task
from mogp import MultiOutputData
from mogp.errors import UnsupportedError
from mogp.models import ExactLMC
from mogp.optimizers import Adam, Falling
from mogp.training import History

Fitted = tuple[Any, History]
_TRIAL, _LONG, _ROWS = 800, 3000, 500
_EXACT_TARGETS = 1500


def default(task: Task, train: Data, split: int) -> Fitted:
    """The constructor and `mogp.fit(model, data)` with nothing else."""
    model = task.model(train)
    return model, mogp.fit(model, train, progress=False)


def old(task: Task, train: Data, split: int) -> Fitted:
    """The default of the first edition (commit 1eb8ae8): 1000 steps of Adam(0.01) on all rows, in units of the data.

    Start values are those of then where arguments can express them: lengthscales of a tenth of the diagonal of the
    inputs' box, the number of inducing points, no scaling (GPLAR scaled Gaussian targets then, and scales inputs, too,
    here). What differs from then: numerical safeguards and bug fixes since; start values that no argument sets; models
    that only L-BFGS trains (exact ones) are trained by it, as they were.
    """
    model = task.model(train, **task.old(train))
    try:
        return model, mogp.fit(model, train, steps=1000, optimizer=Adam(0.01), batch_size=None, progress=False)
    except UnsupportedError:
        return model, mogp.fit(model, train, steps=1000, progress=False)


def tuned(task: Task, train: Data, split: int) -> Fitted:
    """Of a few settings that with the best NLPD on a part of the training data, trained long on all of them."""
    inside = task.validation(train, split)
    settings: list[tuple[Options, float]] = [({}, 0.05), ({}, 0.02), *((one, 0.05) for one in task.larger)]
    found = [_validated(task, inside, options, rate) for options, rate in settings]
    options, rate = settings[int(np.argmin(found))]
    return _long(task, train, options, rate)


def _validated(task: Task, inside: Split, options: Options, rate: float) -> float:
    """NLPD of the held-out part; infinite where the fit fails."""
    try:
        model, history = _long(task, inside.train, options, rate, _TRIAL)
        if history.status == "failed":
            return np.inf
        density = model.predict_log_density(inside.test)
    except (ArithmeticError, ValueError, RuntimeError, tf.errors.OpError) as error:
        print(f"{options}, {rate}: {error!r}"[:300])
        return np.inf
    nlpd = -np.mean(np.concatenate([np.ravel(values) for values in density.values()]))
    print(f"{options}, {rate}: validation NLPD {nlpd:.4f}, {history.steps} steps")
    return float(nlpd) if np.isfinite(nlpd) else np.inf


def _long(task: Task, train: Data, options: Options, rate: float, steps: int = _LONG) -> Fitted:
    """Steps at a rate that falls at plateaus, in mini-batches where there are many rows."""
    model = task.model(train, **options)
    size = _ROWS if train.X.shape[0] > 4 * _ROWS else None
    try:
        how = {"optimizer": Falling(Adam(rate)), "batch_size": size}
        return model, mogp.fit(model, train, steps=steps, progress=False, **how)
    except UnsupportedError:
        return model, mogp.fit(model, train, steps=steps, progress=False)


def exact_icm(task: Task, train: MultiOutputData, split: int) -> Fitted:
    """An exact ICM of rank at most 3, by L-BFGS."""
    model = ExactLMC(train, latents=1, rank=min(train.num_outputs, 3))
    return model, mogp.fit(model, train, progress=False)


def suits_exact(task: Task, train: Data) -> bool:
    """Real targets, few enough, without replicas."""
    few = isinstance(train, MultiOutputData) and sum(train.sizes) <= _EXACT_TARGETS
    return few and task.all_real and not task.crowd and all(o.replica is None for o in train.outputs)


def suits_settings(task: Task, train: Data) -> bool:
    """Whether there is anything to tune."""
    return bool(task.larger)


def predictions(fitted: Fitted, task: Task, split: Split) -> dict[str, Prediction]:
    """Of one of these fits."""
    return of_model(fitted[0], task, split.test)
