"""A training step of MOCGPs-AR on images, three ways to the double sum over patches, and the largest tensor of each.

3 x 3 patches of 20 x 20 binary images (324 patches, 104 976 pairs an image), two outputs of 14 classes with 50 images
each a step, Q=10 latent GPs, M=100 inducing patches, one thread.

table    sums over the distinct patches of the data, as MOCGPs-AR does with such images
pieces   the double sum, a few images at a time and computed again for the gradient, as it does with others
plain    the double sum of GPflow's own kernel, all images of the batch at once, one latent GP after the other

The largest tensor of the traced graph is found over all functions it calls, from shapes known when it was traced.
Pieces have shapes that are known only when they run: so the largest tensor of the operations of one step, run one by
one, is shown as well. Peak memory is that of a process of its own that takes three compiled steps.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from common import REPEATS, Timing, one_thread

IMAGE, PATCH, CLASSES, BATCH, Q, M = (20, 20), (3, 3), 14, 50, 10, 100
WAYS = ("table", "pieces", "plain")
GIB = 2**30


def strokes(rows: int, seed: int) -> np.ndarray:
    """Binary images with three random strokes each."""
    rng = np.random.default_rng(seed)
    images = np.zeros((rows, *IMAGE))
    for image in images:
        for start, end in rng.uniform(1, 18, size=(3, 2, 2)):
            along = start + np.linspace(0, 1, 40)[:, None] * (end - start)
            r, c = along.round().astype(int).T
            image[r, c] = image[r + 1, c] = 1.0
    return images.reshape(rows, -1)


def plain_stack(kernels: Any) -> Any:
    """The sums over all patches, kernel by kernel: GPflow's own diagonal, and its covariance with patches."""
    from mogp.kernels import PatchStack

    class Plain(PatchStack):
        def K_diag(self, X: tf.Tensor) -> tf.Tensor:
            return tf.stack([kernel.K_diag(X) for kernel in self.kernels])

        def Kuf(self, Z: tf.Tensor, X: tf.Tensor) -> tf.Tensor:
            each = [
                tf.reduce_sum(kernel.base_kernel.K(z, kernel.get_patches(X)) * kernel.weights, 2) / kernel.num_patches
                for kernel, z in zip(self.kernels, tf.unstack(Z), strict=True)
            ]
            return tf.stack(each)

    return Plain(kernels)


def step_of(way: str) -> Any:
    """A compiled training step; all three ways start from the same model and take the same batches."""
    from mogp import MultiOutputData
    from mogp.kernels import Patches, PatchStack
    from mogp.models import mocgps_ar
    from mogp.optimizers import Adam

    rng = np.random.default_rng(0)
    data = MultiOutputData.from_list([(strokes(280, d), rng.permutation(280) % CLASSES) for d in range(2)])
    model = mocgps_ar(data, patches=Patches(IMAGE, PATCH), latents=Q, inducing=M, negatives=1, lengthscale=1.0)
    if way != "table":
        make = PatchStack if way == "pieces" else plain_stack
        model.prior.kernels = make(model.prior.kernels.kernels)
    adam, source, count = Adam(0.01), data.batches(BATCH), tf.Variable(0, dtype=tf.int64)
    adam.start(model)

    def step() -> tf.Tensor:
        batch = source(count.assign_add(1))
        return adam.step(model, lambda: model.training_loss(batch))

    return tf.function(step, autograph=False)


def largest_traced(graph: Any) -> float:
    """Bytes of the largest tensor of known shape in a graph and in the functions it calls."""
    definition = graph.as_graph_def(add_shapes=True)
    largest = 0.0
    for nodes in (definition.node, *(function.node_def for function in definition.library.function)):
        for node in nodes:
            for found in node.attr["_output_shapes"].list.shape:
                sizes = [d.size for d in found.dim]
                if not found.unknown_rank and -1 not in sizes:
                    largest = max(largest, 8.0 * float(np.prod(sizes)))
    return largest


def largest_run(step: Callable[[], object]) -> tuple[float, str]:
    """Bytes and description of the largest tensor that any operation of a step returns, run one by one."""
    from tensorflow.python.framework import op_callbacks

    largest: tuple[float, str] = (0.0, "")

    def note(kind: str | bytes, inputs: Any, attributes: Any, outputs: Any, *_: Any, **__: Any) -> None:
        nonlocal largest
        for one in outputs:
            if one.dtype.size and one.shape.is_fully_defined():
                size = float(one.dtype.size * one.shape.num_elements())
                name = kind.decode() if isinstance(kind, bytes) else kind
                largest = max(largest, (size, f"{one.shape.as_list()} of {name}"))

    tf.config.run_functions_eagerly(True)
    op_callbacks.add_op_callback(note)
    step()
    op_callbacks.remove_op_callback(note)
    return largest


def measure(way: str) -> None:
    step = step_of(way)
    losses = [float(step()) for _ in range(3)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    traced = largest_traced(step.get_concrete_function().graph)
    print(json.dumps([peak, losses, traced, *largest_run(step)]))


def main() -> None:
    found = {}
    for way in WAYS:
        run = subprocess.run([sys.executable, __file__, way], check=True, capture_output=True)
        found[way] = json.loads(run.stdout)
        np.testing.assert_allclose(found[way][1], found["table"][1], rtol=1e-6)
    steps = {way: step_of(way) for way in WAYS}
    laps: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(max(1, REPEATS // 2)):
        for way, step in steps.items():
            laps[way].append(Timing.of(step, 1).step)
    times = {way: float(np.median(laps[way])) for way in WAYS}
    print(f"{'':8}{'step s':>9}{'peak MB':>10}{'traced MiB':>12}{'run MiB':>10}  the largest tensor run")
    for way in WAYS:
        peak, _, traced, largest, what = found[way]
        print(f"{way:8}{times[way]:9.3f}{peak / 1e6:10.0f}{traced / 2**20:12.1f}{largest / 2**20:10.1f}  {what}")
    for way in WAYS[:2]:
        print(f"step, {way} / plain double sum: {times[way] / times['plain']:.3f} (target none)")
        print(f"largest tensor, {way}: {max(found[way][2:4]) / GIB:.3f} GiB (target <= 1)")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    one_thread()
    if len(sys.argv) > 1:
        measure(sys.argv[1])
    else:
        main()
