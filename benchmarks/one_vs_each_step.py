"""Step time of one-vs-each models as the classes grow, against robust-max, which reads all classes.

M=100, 200 rows a step, 10 inputs, 200 rows a class with random inputs, one thread, Adam (lazy for one-vs-each). A step
of one-vs-each reads what two classes own, so it should cost the same for 10 classes and for 1000; one of robust-max
should grow with the classes, and is run as far as it is affordable.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from common import REPEATS, Timing, one_thread

M, BATCH, INPUTS, EACH = 100, 200, 10, 200
CASES = [
    *((method, classes) for method in ("OvsE-P", "OvsE-F", "OvsE-P-SH", "OvsE-F-SH") for classes in (10, 1000)),
    *((method, classes) for method in ("RM-P", "RM-F") for classes in (10, 100)),
]


def step_of(method: str, classes: int) -> Callable[[], tf.Tensor]:
    from mogp import MultiOutputData
    from mogp.book.methods import CLASS_METHODS
    from mogp.inducing import InducingPoints
    from mogp.models import ovse, robust_max
    from mogp.optimizers import Adam

    rng = np.random.default_rng(0)
    labels = np.arange(EACH * classes) % classes
    data = MultiOutputData.from_arrays(rng.normal(size=(len(labels), INPUTS)), labels)
    separate = method in ("OvsE-P", "OvsE-F")
    points = InducingPoints(rng.normal(size=(classes, M, INPUTS) if separate else (M, INPUTS)))
    make = robust_max if method.startswith("RM") else ovse
    model = make(data, **CLASS_METHODS[method], inducing=points, lengthscale=3.0)
    adam, count = Adam(0.001, lazy=not method.startswith("RM")), tf.Variable(0, dtype=tf.int64)
    source = model.batches(data, BATCH) if hasattr(model, "batches") else data.batches(BATCH)
    adam.start(model)

    @tf.function(autograph=False)
    def step() -> tf.Tensor:
        batch = source(count.assign_add(1))
        return adam.step(model, lambda: model.training_loss(batch))

    return step


def main() -> None:
    steps = {case: step_of(*case) for case in CASES}
    first = {case: Timing.of(step, 1).step for case, step in steps.items()}
    laps: dict[tuple[str, int], list[float]] = {case: [] for case in CASES}
    for _ in range(REPEATS):
        for case, step in steps.items():
            laps[case].append(Timing.of(step, max(1, min(10, int(1 / first[case])))).step)
    times = {case: 1e3 * float(np.median(found)) for case, found in laps.items()}
    for (method, classes), milliseconds in times.items():
        print(f"{method:10} {classes:5} classes: {milliseconds:8.1f} ms a step")
    for method in ("OvsE-P", "OvsE-F", "OvsE-P-SH", "OvsE-F-SH"):
        print(f"{method} step, 1000 classes / 10: {times[method, 1000] / times[method, 10]:.2f} (target < 1.5)")
    for method in ("RM-P", "RM-F"):
        print(f"{method} step, 100 classes / 10: {times[method, 100] / times[method, 10]:.2f} (target none)")
    print(f"OvsE-F with 1000 classes / RM-F with 100: {times['OvsE-F', 1000] / times['RM-F', 100]:.3f} (target < 0.5)")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    one_thread()
    main()
