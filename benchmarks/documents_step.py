"""CPU seconds a training step of the documents' experiments, against an older version of mogp.

    python documents_step.py path/to/old/checkout [experiment ...]

Three workers in turns, as in `steps_before.py`, which says what its columns are: the old version, the one this file is
of, and the old one again. Inputs are simulated, with the shapes and the shares of zeros of the documents' data.

| experiment | model | sizes |
|---|---|---|
| UJI (Ma, Figs 3.5 to 3.7) | mogps_ar | Q = 12, M = 300, 3 x 200 rows a step, 520 inputs, a lengthscale each |
| Bibtex (Ma, Fig. 3.4) | mogps_ar | Q = 20, M = 100, 200 rows a step, 1836 words, 68 in a row |

Words are given as a sparse matrix to versions that read one. The lines "float32" compare single precision of this
version with double precision of the old one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from steps_before import Models, Setup, compare_all, either, work


def classes_model(data: Any, classes: list[int], Z: np.ndarray, latents: int, negatives: int, width: float) -> Any:
    """MOGPs-AR in the units of the data."""
    from mogp.inducing import given_points
    from mogp.models import mogps_ar

    options = {"latents": latents, "negatives": negatives, "lengthscale": width, "inducing": given_points(Z, latents)}
    return either(lambda: mogps_ar(data, classes, **options, scaling=None), lambda: mogps_ar(data, classes, **options))


def uji() -> Setup:
    from mogp import MultiOutputData

    rng, classes = np.random.default_rng(0), [4, 4, 5]
    pairs = []
    for C in classes:
        X = rng.normal(size=(200 * C, 520))
        X[:, rng.permutation(520)[:310]] = 0.0  # stations that are not heard in a building
        pairs.append((X, np.arange(len(X)) % C))
    Z = np.concatenate([X[:100] for X, _ in pairs])
    data = MultiOutputData.from_list(pairs)
    return Setup(classes_model(data, classes, Z, latents=12, negatives=2, width=20.0), data, 200)


def bibtex() -> Setup:
    from scipy.sparse import csr_array

    from mogp import MultiOutputData

    rng = np.random.default_rng(0)
    X = (rng.uniform(size=(4880, 1836)) < 68 / 1836).astype(float)
    y = np.arange(len(X)) % 148
    data = either(
        lambda: MultiOutputData.from_arrays(csr_array(X), y),
        lambda: MultiOutputData.from_arrays(X, y),
    )
    return Setup(classes_model(data, [148], X[:100], latents=20, negatives=20, width=11.0), data, 200)


def in_floats(floats: str, make: Callable[[], Setup]) -> Setup:
    """The experiment in float32, in a version that has a word for it."""
    import mogp

    if hasattr(mogp, "use"):
        mogp.use(dtype=floats)
    return make()


EXPERIMENTS: Models = {
    f"{name}{'' if floats == 'float64' else ' ' + floats}": partial(in_floats, floats, make)
    for name, make in (("UJI", uji), ("Bibtex", bibtex))
    for floats in ("float64", "float32")
}


if __name__ == "__main__":
    if sys.argv[1:] == ["--worker"]:
        work(EXPERIMENTS)
    elif len(sys.argv) < 2:
        sys.exit(__doc__)
    else:
        here = Path(__file__).resolve()
        compare_all(here, EXPERIMENTS, sys.argv[1], str(here.parents[1]), *sys.argv[2:])
