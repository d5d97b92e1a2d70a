"""Step time and memory of many-class models as the classes grow, and the S-20 set of Ma's chapter 3.

Q=10 latent GPs, M=100, 200 rows a step, 5 inputs, max(2000, 2C) rows with random labels, one thread. MOGPs-AR(5) mixes
the latents for five sampled classes a row, so its step should not depend on C, and its memory only through A and its
two moments in Adam. MG-M needs all classes: mixed, as here, or class-expanded, as in the thesis (a column of Kuf for
every class and row), with draws of the class functions from their marginals. It is run as far as it is affordable.

Peak memory is that of a process of its own that makes a model, traces it and takes five steps, always on 40 000 rows,
so that only classes grow; the growth is that over 20 classes. Beside A and its moments a step holds the gradient of A,
and making the model the start values.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
from common import REPEATS, Timing, one_thread

Q, M, BATCH, INPUTS = 10, 100, 200, 5
CLASSES = (20, 200, 2_000, 20_000)
AFFORDABLE = {"MOGPs-AR(5)": 20_000, "MG-M": 2_000, "MG-M, class-expanded": 200}
MB = 1e6


def random_labels(classes: int, rows: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    rows = max(2_000, 2 * classes) if rows is None else rows
    return rng.normal(size=(rows, INPUTS)), rng.integers(0, classes, rows)


def s20() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import make_classification

    return make_classification(
        2000, INPUTS, n_informative=5, n_redundant=0, n_classes=20, n_clusters_per_class=1, random_state=1
    )


class Training:
    """A model ready to step: `step()` takes one, on the next mini-batch."""

    def __init__(self, kind: str, X: np.ndarray, y: np.ndarray, classes: int) -> None:
        from mogp import MultiOutputData
        from mogp.book.baselines.expanded import class_by_class
        from mogp.inducing import subset_points
        from mogp.models import mg_m, mogps_ar
        from mogp.optimizers import Adam

        data = MultiOutputData.from_arrays(X, y)
        shared = {"latents": Q, "inducing": subset_points(X[:500], M, sets=Q), "lengthscale": 1.0}
        if kind == "MOGPs-AR(5)":
            model = mogps_ar(data, [classes], negatives=5, **shared, scaling=None)
        else:
            model = mg_m(data, [classes], covariance="independent", **shared, scaling=None)
            model = class_by_class(model) if "expanded" in kind else model
        adam, source, count = Adam(0.01), data.batches(BATCH), tf.Variable(0, dtype=tf.int64)
        adam.start(model)

        def step() -> tf.Tensor:
            batch = source(count.assign_add(1))
            return adam.step(model, lambda: model.training_loss(batch))

        self.step: Callable[[], tf.Tensor] = tf.function(step, autograph=False)
        variables = [*model.variables, *adam.variables]
        self.megabytes = sum(v.dtype.size * np.prod(v.shape) for v in variables) / MB


def step_times(runs: dict[str, Training]) -> dict[str, float]:
    """Median milliseconds a step, the contenders taking turns; those of seconds a step take fewer."""
    laps: dict[str, list[float]] = {name: [] for name in runs}
    first = {name: Timing.of(run.step, 1).step for name, run in runs.items()}
    for _ in range(REPEATS):
        for name, run in runs.items():
            laps[name].append(Timing.of(run.step, max(1, min(10, int(1 / first[name])))).step)
    return {name: 1e3 * float(np.median(times)) for name, times in laps.items()}


def memory_of(kind: str, classes: int) -> tuple[float, float, float]:
    """Megabytes of a fresh process (for AR the median of three): its peak, after five steps, and of its variables."""
    command = [sys.executable, __file__, kind, str(classes)]
    rounds = 3 if kind == "MOGPs-AR(5)" else 1
    found = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(rounds)]
    most, after = (float(np.median([f[i] for f in found])) for i in (0, 1))
    return most, after, found[0][2]


def measure(kind: str, classes: int) -> None:
    run = Training(kind, *random_labels(classes, 2 * CLASSES[-1]), classes)
    for _ in range(5):
        run.step()
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / MB
    print(json.dumps([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB, resident, run.megabytes]))


def growth() -> None:
    """Memory first: on Linux the peak of a new process starts at the memory of the one that started it."""
    cases = [(kind, C) for kind, most in AFFORDABLE.items() for C in CLASSES if most >= C]
    memory = {f"{kind} {C}": memory_of(kind, C) for kind, C in cases}
    times = step_times({f"{kind} {C}": Training(kind, *random_labels(C), C) for kind, C in cases})
    print(f"{'':24}{'classes':>9}{'step ms':>10}{'peak MB':>10}{'after MB':>10}{'variables MB':>14}")
    for kind, C in cases:
        most, after, variables = memory[f"{kind} {C}"]
        print(f"{kind:24}{C:9}{times[f'{kind} {C}']:10.1f}{most:10.1f}{after:10.1f}{variables:14.2f}")
    state = 3 * 8 * Q * (CLASSES[-1] - CLASSES[0]) / MB
    few, many = (f"MOGPs-AR(5) {C}" for C in (CLASSES[0], CLASSES[-1]))
    print(f"MOGPs-AR(5) step, 20 000 classes / 20: {times[many] / times[few]:.2f} (target < 1.5)")
    print(f"memory, 20 000 classes - 20, over that of A and its moments ({state:.1f} MB; target <= 1):")
    for place, what in enumerate(("variables", "process after five steps", "peak of the process")):
        print(f"  {what}: {(memory[many][-1 - place] - memory[few][-1 - place]) / state:.2f}")


def scalability() -> None:
    X, y = s20()
    times = step_times({kind: Training(kind, X, y, 20) for kind in AFFORDABLE})
    expanded = "MG-M, class-expanded"
    for kind in ("MOGPs-AR(5)", "MG-M"):
        target = "<= 0.1" if kind == "MOGPs-AR(5)" else "none"
        ratio = times[kind] / times[expanded]
        line = f"[{kind} {times[kind]:.1f} ms, {expanded} {times[expanded]:.1f} ms]"
        print(f"S-20 step, {kind} / {expanded}: {ratio:.3f} (target {target})  {line}")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    one_thread()
    if len(sys.argv) > 1:
        measure(sys.argv[1], int(sys.argv[2]))
    else:
        growth()
        scalability()
