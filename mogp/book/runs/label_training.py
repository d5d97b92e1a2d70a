"""Training of the variants of MLGPF: optimisers, curves of scores and of the objective, time."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["TRACE", "label_optimizer", "trained"]

TRACE = 30
"""Points of a curve of the objective at most, each the mean over a stretch of steps."""


def label_optimizer(rmsprop: bool, rate: float, falls_over: int | None) -> Any:
    """RMSProp, or Adam whose step size falls to nothing over the last half of the steps."""
    from gpflow.keras import tf_keras

    from mogp.optimizers import Adam, Keras

    if rmsprop:
        return Keras(tf_keras.optimizers.RMSprop(rate))
    return Adam(
        rate if falls_over is None else functools.partial(_falling, rate=rate, steps=falls_over)
    )


def _falling(step: Any, rate: float, steps: int) -> Any:
    """`rate` over the first half of the steps, then down to nothing in a straight line."""
    import tensorflow as tf

    left = 1 - tf.cast(step, tf.float64) / steps
    return rate * tf.minimum(tf.constant(1.0, tf.float64), 2 * left)


def trained(
    model: Any,
    data: Any,
    score: Callable[[], dict[str, Any]],
    steps: int,
    batch: int,
    optimizer: Any,
    looks: int,
    seed: int,
) -> dict[str, Any]:
    """Fit, and gather what `score` says along the way, the objective, and how long a step takes.

    The first stretch of steps holds the compilation; seconds a step are the median over the others.
    """
    from mogp.training import fit

    every = max(1, steps // looks)
    clock: list[tuple[float, float]] = []

    def monitor() -> dict[str, Any]:
        arrived = time.process_time()
        seen = score()
        clock.append((arrived, time.process_time()))
        return seen

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        history = fit(
            model,
            data,
            steps=steps,
            batch_size=batch,
            optimizer=optimizer,
            seed=seed,
            progress=False,
            monitor=monitor,
            every=every,
        )
    at = [seen["step"] for seen in history.monitored]
    laps = [
        (after[0] - before[1]) / (later - earlier)
        for before, after, earlier, later in zip(clock, clock[1:], at, at[1:], strict=False)
    ]
    stretch = max(1, -(-history.steps // TRACE))
    pieces = [history.elbo[i : i + stretch] for i in range(0, history.steps, stretch)]
    names = [name for name in history.monitored[0] if name != "step"]
    middles = [1 + i * stretch + (len(piece) - 1) / 2 for i, piece in enumerate(pieces)]
    return {
        "look": np.array(at),
        **{name: [seen[name] for seen in history.monitored] for name in names},
        "trace_step": np.array(middles),
        "trace": np.array([piece.mean() for piece in pieces]),
        "step_seconds": float(np.median(laps[1:] or laps)),
        "status": history.status,
    }
