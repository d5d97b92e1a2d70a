"""Draws of Gaussian processes that are the same on every platform.

A draw is a sum of random Fourier features. That needs no factor of a nearly singular covariance,
which would turn differences in the last bit, between processors or thread counts, into differences
in the seventh digit; what is left of them is rounded away.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FEATURES = 1000


def draw(
    X: Floats,
    lengthscale: float | Floats,
    rng: np.random.Generator,
    kernel: Literal["rbf", "matern32"] = "rbf",
) -> Floats:
    """One draw [N] at X [N, P] of a unit-variance process: f(x) = R^(-1/2) Σ_r a_r cos(ω_r·x) + b_r
    sin(ω_r·x).

    With a_r, b_r ~ N(0, 1) and ω_r from the kernel's spectral density its covariance is k(x, x')
    for every R, over all ω; given the ω it is that up to a few hundredths. The density is N(0,
    I/ℓ²) for the RBF exp(-|x - x'|²/2ℓ²), and for Matérn-3/2 a multivariate t with 3 degrees of
    freedom: the same normal over the square root of χ²₃/3. A lengthscale [P] scales each input by
    its own.
    """
    frequencies = rng.standard_normal((X.shape[1], FEATURES))
    if kernel == "matern32":
        frequencies = frequencies / np.sqrt(rng.chisquare(3, FEATURES) / 3)
    phases = (X / lengthscale) @ frequencies
    a, b = rng.standard_normal((2, FEATURES))
    return rounded((np.cos(phases) @ a + np.sin(phases) @ b) / np.sqrt(FEATURES))


def rounded(values: Floats) -> Floats:
    """To nine decimals: beyond what differs between platforms."""
    return np.round(values, 9)
