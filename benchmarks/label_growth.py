"""Step time and memory of MLGPF as the labels grow from a thousand to a million.

100 000 sparse inputs (50 of them in a row), 5000 rows with up to 10 labels each, P=30 factors, M=100 inducing points
in a fixed subspace of 100 dimensions, SE kernel, batches of 500, float32, one thread, `Adam(lazy=True)`. Of the labels
that a row has not, 500 are sampled at each step: one set for all rows, or 500 for each row. A step reads and writes the
rows of Φ, of the biases and of their moments that it needs, so its time should not depend on the number of labels, and
memory should grow by those tables alone.

Memory is that of a process of its own that makes a model, traces it and takes five steps; the growth is that over a
thousand labels.

Predictions are those of the models that took the steps above: wall time a row of the best five labels, and of the log
density of all labels, at a million of them.
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

import gpflow
import numpy as np
import tensorflow as tf
from common import REPEATS, Timing, one_thread
from scipy.sparse import csr_array

N, D, P, M, BATCH, RANK, NEGATIVES = 5_000, 100_000, 30, 100, 500, 100, 500
WORDS, OWN = 50, 10
LABELS = (1_000, 10_000, 100_000, 1_000_000)
RANKED, DENSITIES = 1_000, 128
MB = 1e6


class Training:
    """A model ready to step."""

    def __init__(self, labels: int, shared: bool) -> None:
        from mogp import LabelData
        from mogp.inducing import SubspacePoints
        from mogp.models import mlgpf
        from mogp.optimizers import Adam

        rng = np.random.default_rng(0)

        def sparse(width: int, entries: int, dtype: type) -> csr_array:
            columns = rng.integers(0, width, (N, entries))
            starts = np.arange(N + 1) * entries
            return csr_array((np.ones(N * entries, dtype), columns.ravel(), starts), shape=(N, width))

        data = LabelData.of(
            sparse(D, WORDS, np.float32), list(rng.integers(0, labels, (N, OWN))), labels, normalise=True
        )
        basis = np.linalg.qr(rng.normal(size=(D, RANK)))[0].T
        points = SubspacePoints(rng.normal(size=(M, RANK)), basis, unit=True)
        model = mlgpf(data, latents=P, inducing=points, kernel="se", negatives=NEGATIVES, shared_negatives=shared)
        adam, source, count = Adam(0.01, lazy=True), data.batches(BATCH), tf.Variable(0, dtype=tf.int64)
        adam.start(model)

        def step() -> tf.Tensor:
            batch = source(count.assign_add(1))
            return adam.step(model, lambda: model.training_loss(batch))

        self.step: Callable[[], tf.Tensor] = tf.function(step, autograph=False)
        self.model, self.data = model, data

    def best_labels(self) -> None:
        self.model.top_labels(self.data.X[:RANKED], k=5)

    def densities(self) -> None:
        self.model.predict_log_density(self.data.take(slice(0, DENSITIES)))


def memory_of(labels: int) -> float:
    """Megabytes of a fresh process after five steps."""
    found = subprocess.run([sys.executable, __file__, str(labels)], check=True, capture_output=True)
    return float(json.loads(found.stdout))


def measure(labels: int) -> None:
    run = Training(labels, shared=True)
    for _ in range(5):
        run.step()
    gc.collect()
    print(json.dumps(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / MB))


def growth() -> None:
    memory = {K: memory_of(K) for K in LABELS}
    runs = {(K, shared): Training(K, shared) for K in LABELS for shared in (True, False)}
    laps: dict[tuple[int, bool], list[float]] = {case: [] for case in runs}
    for _ in range(REPEATS):
        for case, run in runs.items():
            laps[case].append(1e3 * Timing.of(run.step, 5).step)
    times = {case: float(np.median(own)) for case, own in laps.items()}
    print(f"{'labels':>9}{'step ms, shared':>17}{'step ms, own':>14}{'memory MB':>11}")
    for K in LABELS:
        print(f"{K:9}{times[K, True]:17.1f}{times[K, False]:14.1f}{memory[K]:11.1f}")
    few, many = LABELS[0], LABELS[-1]
    for shared, what in ((True, "one set for all rows"), (False, "labels for each row")):
        ratio = times[many, shared] / times[few, shared]
        print(f"MLGPF step, a million labels / a thousand, {what}: {ratio:.2f} (target < 1.5)")
    for what, rows, ask, target in (
        ("the best five labels", RANKED, runs[many, True].best_labels, "< 5"),
        ("log density of all labels", DENSITIES, runs[many, True].densities, "none"),
    ):
        each = 1e3 * Timing.of(ask, REPEATS).step / rows
        print(f"MLGPF prediction at a million labels, {what}, ms a row: {each:.2f} (target {target})")
    state = (3 * (P + 1) + 2) * 4 * (many - few) / MB
    print(
        f"memory, a million labels - a thousand, over that of Φ, the biases and their state in Adam ({state:.0f} MB): "
        f"{(memory[many] - memory[few]) / state:.2f} (target <= 1)"
    )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    one_thread()
    gpflow.config.set_default_float(np.float32)
    gpflow.config.set_default_jitter(1e-4)
    if len(sys.argv) > 1:
        measure(int(sys.argv[1]))
    else:
        growth()
