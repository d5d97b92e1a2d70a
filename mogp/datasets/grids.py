"""Draws of Gaussian processes on grids, where a random wave is a product of waves along the axes
and costs little.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from mogp.datasets.draws import Floats, rounded

WAVES = 300


def grid_draw(
    axes: Sequence[Floats], lengthscales: Sequence[float], rng: np.random.Generator
) -> Floats:
    """One draw [n_1, n_2, …] of a unit-variance RBF process on the grid of two or more axes [n_1],
    [n_2], …

    f(x) = R^(-1/2) Σ_r a_r cos(ω_r·x) + b_r sin(ω_r·x) as in `draws.draw`, with R = 300: the real
    part of Σ_r (a_r - i b_r) Π_p exp(i ω_rp x_p).
    """
    frequencies = rng.standard_normal((len(axes), WAVES)) / np.array(lengthscales)[:, None]
    a, b = rng.standard_normal((2, WAVES)) / np.sqrt(WAVES)
    waves = [
        np.exp(1j * np.outer(axis, each)) for axis, each in zip(axes, frequencies, strict=True)
    ]
    first = reduce(lambda left, right: left[..., None, :] * right, waves[:-1]) * (a - 1j * b)
    return rounded((first @ waves[-1].T).real)
