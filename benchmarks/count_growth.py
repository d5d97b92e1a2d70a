"""Step time and memory of CCGP-VIK with zero-inflated counts as the data grow to a day of Giraldo's chapter 6.

The synthetic city on a grid of 201 x 201 cells and 24 hours, 969 624 counts, and random parts of it; Q=3, R=2, M=200,
batches of 400. A step draws its rows in the graph, so its time should not depend on how many there are. Memory is the
peak of a process of its own that draws the whole day, makes the model, traces it and takes steps.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from common import REPEATS, Timing, one_thread

GRID, BATCH, Q, R, M = 201, 400, 3, 2, 200
WHOLE = GRID * GRID * 24
SIZES = (10_000, 100_000, WHOLE)
STEPS = int(os.environ.get("MOGP_BENCH_STEPS", "20"))
GIB = 2.0**30


def a_day() -> tuple[np.ndarray, np.ndarray]:
    """Inputs and counts of a day."""
    from mogp import datasets

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", datasets.StandInWarning)
        day = datasets.load("guangzhou", stand_in="allow", day=9, grid=GRID)
    return day.X, day.Y[:, 0]


def training(X: np.ndarray, y: np.ndarray) -> Callable[[], tf.Tensor]:
    """A compiled function that takes one step of natural gradients and Adam on the next mini-batch."""
    from mogp import MultiOutputData
    from mogp.likelihoods import ZeroInflatedPoisson
    from mogp.models import ccgp_vik
    from mogp.optimizers import hyb

    data = MultiOutputData.from_list([(X, y)], names=["users"])
    model = ccgp_vik(data, ZeroInflatedPoisson(), latents=Q, rank=R, inducing=M, scaling=None)
    optimizer, source, count = hyb(), data.batches(BATCH), tf.Variable(0, dtype=tf.int64)
    optimizer.start(model)

    @tf.function(autograph=False)
    def step() -> tf.Tensor:
        batch = source(count.assign_add(1))
        return optimizer.step(model, lambda: model.training_loss(batch))

    return step


def step_times(runs: dict[int, Callable[[], tf.Tensor]]) -> dict[int, float]:
    """Median milliseconds a step, the contenders taking turns."""
    laps: dict[int, list[float]] = {rows: [] for rows in runs}
    for round_number in range(REPEATS + 1):
        for rows, step in runs.items():
            lap = Timing.of(step, 3).step
            if round_number:
                laps[rows].append(lap)
    return {rows: 1e3 * float(np.median(times)) for rows, times in laps.items()}


def peak_memory() -> tuple[float, float]:
    """Peak resident GiB of a fresh process that trains on the whole day, and the loss at its last step."""
    command = [sys.executable, __file__, "day"]
    peak, loss = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return float(peak), float(loss)


def train_on_the_day() -> None:
    step = training(*a_day())
    for _ in range(STEPS):
        loss = float(step())
    print(json.dumps([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB, loss]))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    one_thread()
    if len(sys.argv) > 1:
        train_on_the_day()
        sys.exit()
    peak, loss = peak_memory()  # first: a new process starts at the peak of this one
    X, y = a_day()
    parts = {rows: np.random.default_rng(0).choice(WHOLE, rows, replace=False) for rows in SIZES[:-1]}
    times = step_times({rows: training(X[p], y[p]) for rows, p in parts.items()} | {WHOLE: training(X, y)})
    for rows in SIZES[1:]:
        print(
            f"CCGP-VIK step, {rows} counts / {SIZES[0]}: {times[rows] / times[SIZES[0]]:.2f} (target about 1)  "
            f"[{times[rows]:.1f} ms, {times[SIZES[0]]:.1f} ms]"
        )
    print(
        f"peak memory, training on {WHOLE} counts: {peak:.2f} GiB (target < 2)  [loss after {STEPS} steps {loss:.4g}]"
    )
