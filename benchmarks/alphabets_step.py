"""CPU time a training step of MOCGPs-AR on fifty alphabets (Ma, figure 4.7), against an old version of mogp.

    python alphabets_step.py path/to/old/checkout path/to/new/checkout

The sizes are those of the thesis: 1623 characters of 50 outputs, nine images of each output a step, 20 x 20 binary
images, patches of 8 x 8 (169 an image), Q=10, M=200, one negative class. The images are simulated strokes, so that no
data are needed: what a step costs depends on their number and size, and on pixels having two values, on nothing else.

A process for each line, with one TensorFlow thread: they take a step each in turns, and only one works at a time. The
old version has the thesis's set of inducing patches for each latent GP, in float64. The new one has it too, or one set
for all, in float64 or float32. The last lines compare the losses after all those steps: those of the same sets in
float64 are the same up to rounding.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from common import REPEATS, Timing, ratio_line
from steps_before import Setup, Worker, work

IMAGE, PATCH, BATCH, Q, M, DRAWINGS = (20, 20), (8, 8), 9, 10, 200, 13
# fmt: off
CLASSES = (20, 29, 26, 41, 40, 24, 46, 14, 26, 34, 33, 22, 26, 43, 24, 48, 22, 16, 52, 47, 40, 26, 40, 41, 33, 14, 42,
           23, 17, 55, 20, 26, 26, 26, 26, 26, 45, 45, 41, 26, 47, 40, 30, 45, 46, 28, 23, 25, 42, 26)
# fmt: on


def alphabets(shared: bool, floats: Literal["float64", "float32"]) -> Setup:
    """The model and its data, in this process's version of mogp."""
    import gpflow
    from patch_step import strokes

    from mogp import MultiOutputData
    from mogp.inducing import patch_subset
    from mogp.kernels import Patches
    from mogp.models import mocgps_ar

    if floats == "float32":
        gpflow.config.set_default_float(np.float32)
        gpflow.config.set_default_jitter(1e-5)
    cut = Patches(IMAGE, PATCH)
    # Two thirds of the drawings of each character, as in a fold.
    data = MultiOutputData.from_list(
        [(strokes(DRAWINGS * C, seed), np.arange(DRAWINGS * C) % C) for seed, C in enumerate(CLASSES)]
    )
    start = patch_subset(data.X[::200], cut, M, sets=None if shared else Q)
    model = mocgps_ar(data, classes=CLASSES, patches=cut, latents=Q, inducing=start, negatives=1)
    return Setup(model, data, BATCH)


WAYS = {
    f"{sets}, {floats}": partial(alphabets, sets == "shared patches", floats)
    for sets in ("separate patches", "shared patches")
    for floats in ("float64", "float32")
}
PUBLISHED = "separate patches, float64"
TARGETS = {"shared patches, float64": "<= 0.2", "shared patches, float32": "<= 0.2"}


def main(old: str, new: str) -> None:
    workers = {"old": Worker(Path(old).resolve(), Path(__file__).resolve())}
    workers |= {way: Worker(Path(new).resolve(), Path(__file__).resolve()) for way in WAYS}
    times: dict[str, list[Timing]] = {who: [] for who in workers}
    losses = {}
    try:
        for worker, way in zip(workers.values(), (PUBLISHED, *WAYS), strict=True):
            worker.steps(way, 1)
        for _ in range(REPEATS):
            for who, worker in workers.items():
                seconds, losses[who] = worker.steps(PUBLISHED if who == "old" else who, 1)
                times[who].append(Timing(0.0, seconds))
    finally:
        for worker in workers.values():
            worker.end()
    for way in WAYS:
        title = f"50 alphabets, CPU time a step, {way} / version before"
        print(ratio_line(title, times, way, "old", "step", TARGETS.get(way, "none")))
    for way in WAYS:
        print(f"loss after {REPEATS + 1} steps, {way}: {losses[way]:.10g}, version before {losses['old']:.10g}")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if sys.argv[1:] == ["--worker"]:
        work(WAYS)
    elif len(sys.argv) != 3:
        sys.exit(__doc__)
    else:
        main(*sys.argv[1:])
