"""The toy data of the documents: seeded generators that give the same numbers on every platform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.dataset import Dataset
from mogp.datasets.draws import draw, rounded
from mogp.datasets.entry import Entry
from mogp.datasets.making import LICENCE

Floats = NDArray[np.float64]


def toy_gp_1d(
    *, n: int = 6, noise_sd: float = 0.1, lengthscale: float = 1.0, seed: int = 0
) -> Dataset:
    """A few noisy observations of a draw from an RBF process (Ma, figure 2.1).

    The process has unit variance, the `n` places are one in each of n equal parts of [-4, 4].
    `extras`: the draw `f` [200, 1] on the grid `x` [200, 1], and the generator's `lengthscale` and
    `noise_sd`.
    """
    rng = np.random.default_rng(seed)
    X, x, f, f_grid = _observed_draw(_at_least_one(n), 4.0, lengthscale, rng)
    return Dataset(
        name="toy-gp-1d",
        source="synthetic",
        description=f"{n} noisy observations of a draw from an RBF process",
        licence=LICENCE,
        citation="after C. Ma (2023), figure 2.1",
        X=X,
        Y=rounded(f + noise_sd * rng.standard_normal((n, 1))),
        inputs=("x",),
        outputs=("y",),
        likelihoods=("Gaussian",),
        extras={
            "x": x,
            "f": f_grid,
            "lengthscale": np.array(lengthscale),
            "noise_sd": np.array(noise_sd),
        },
    )


def xia_seven_points(*, n: int = 7, lengthscale: float = 1.0, seed: int = 7) -> Dataset:
    """Seven noise-free points of a draw from an SE process (Xia, figure 2.2).

    The process has unit variance, the `n` places are one in each of n equal parts of [-5, 5].
    `extras`: the draw `f` [200, 1] on the grid `x` [200, 1], and the generator's `lengthscale`.
    """
    X, x, f, f_grid = _observed_draw(
        _at_least_one(n), 5.0, lengthscale, np.random.default_rng(seed)
    )
    return Dataset(
        name="xia-seven-points",
        source="synthetic",
        description=f"{n} noise-free points of a draw from an SE process",
        licence=LICENCE,
        citation="after R. Xia (2020), figure 2.2",
        X=X,
        Y=f,
        inputs=("x",),
        outputs=("y",),
        likelihoods=("Gaussian",),
        extras={"x": x, "f": f_grid, "lengthscale": np.array(lengthscale)},
    )


def panos_toy_1d(*, n: int = 10, noise_variance: float = 0.001, seed: int = 0) -> Dataset:
    """Ten noisy values of a wiggly function on [-3, 3] (Panos, figure 1.2).

    The function is f(x) = 0.1 x² sin 6x + 0.1 (x cos 5x + exp cos x). The document does not give
    the places of its ten points: here they are uniform. `extras`: the function `f`
    [1000, 1] on the grid `x` [1000, 1], and the `noise_variance`.
    """
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(-3.0, 3.0, (_at_least_one(n), 1)), axis=0)
    grid = np.linspace(-3.0, 3.0, 1000)[:, None]
    return Dataset(
        name="panos-toy-1d",
        source="synthetic",
        description=f"{n} noisy values of a wiggly function",
        licence=LICENCE,
        citation="A. Panos (2019), figure 1.2",
        X=X,
        Y=rounded(_wiggle(X) + np.sqrt(noise_variance) * rng.standard_normal((n, 1))),
        inputs=("x",),
        outputs=("y",),
        likelihoods=("Gaussian",),
        extras={"x": grid, "f": _wiggle(grid), "noise_variance": np.array(noise_variance)},
    )


def _wiggle(x: Floats) -> Floats:
    f: Floats = 0.1 * x**2 * np.sin(6.0 * x) + 0.1 * (x * np.cos(5.0 * x) + np.exp(np.cos(x)))
    return f


def giraldo_toy(
    *, variant: Literal["T1", "T2", "T3"] = "T1", P: int = 1, N: int = 2000, seed: int = 104
) -> Dataset:
    """Outputs of different types that share three latent processes (Giraldo, toys T1 to T3).

    f = u Wᵀ with Q = 3 processes u_q, and y_d ~ p(y_d | f_d). T1 has 3 outputs and J = 5 parameter
    functions, T2 has 5 and 8, T3 has 10 and 15. The u_q are unit-variance RBF processes on [0, 1]^P
    with length-scales 0.5, 0.05 and 0.1. With P = 2 the inputs are the largest square mesh of at
    most N points; otherwise every input is an equally spaced grid, the second and later ones
    shuffled. `extras`: the latent processes `u` [N, Q], the parameter functions `f` [N, J] and the
    loadings `W` [J, Q].
    """
    if variant not in OUTPUTS:
        raise ValueError(f"variant is {variant!r}; choose one of {', '.join(OUTPUTS)}.")
    if P < 1:
        raise ValueError(f"P is {P}; there must be at least one input.")
    rng = np.random.default_rng(seed)
    X = _giraldo_inputs(_at_least_one(N), P, rng)
    outputs = OUTPUTS[variant]
    W = np.array(LOADINGS[: sum(FUNCTIONS[kind] for kind in outputs)])
    u = np.column_stack([draw(X, lengthscale, rng) for lengthscale in (0.5, 0.05, 0.1)])
    f = rounded(u @ W.T)
    first = np.cumsum([0, *(FUNCTIONS[kind] for kind in outputs)])
    targets = [
        SAMPLERS[kind](f[:, start:stop], rng)
        for kind, start, stop in zip(outputs, first, first[1:], strict=False)
    ]
    return Dataset(
        name="giraldo-toy",
        source="synthetic",
        description=(
            f"{variant}: {len(outputs)} outputs of different types over {P} inputs, {len(X)} points"
        ),
        licence=LICENCE,
        citation="J. J. Giraldo (2021), toy data of chapters 4 and 5",
        X=X,
        Y=rounded(np.column_stack(targets)),
        inputs=tuple(f"x{p + 1}" for p in range(P)),
        outputs=tuple(
            f"{kind} 2" if kind in outputs[:d] else kind for d, kind in enumerate(outputs)
        ),
        likelihoods=outputs,
        extras={"u": u, "f": f, "W": W},
    )


OUTPUTS: dict[str, tuple[str, ...]] = {
    "T1": ("HeteroscedasticGaussian", "Beta", "Bernoulli"),
    "T2": ("HeteroscedasticGaussian", "Beta", "Bernoulli", "Gamma", "Exponential"),
    "T3": (
        *("HeteroscedasticGaussian", "Beta", "Bernoulli", "Gamma", "Exponential"),
        *("Gaussian", "Beta", "Bernoulli", "Gamma", "Exponential"),
    ),
}
FUNCTIONS = {
    "HeteroscedasticGaussian": 2,
    "Beta": 2,
    "Bernoulli": 1,
    "Gamma": 2,
    "Exponential": 1,
    "Gaussian": 1,
}
LOADINGS = (
    (-0.1, 1.4, 0.1),
    (-0.1, -0.5, -0.8),
    (1.1, 0.3, 1.3),
    (2.1, 0.7, 1.5),
    (-1.1, 1.5, 0.5),
    (-0.5, -0.3, -0.02),
    (-0.6, 0.4, 0.01),
    (0.1, -0.2, 0.5),
    (-1.1, 0.4, 0.5),
    (0.8, 0.3, 1.0),
    (1.5, -0.7, 0.8),
    (-0.2, -2.1, 3.0),
    (0.05, -0.03, 0.1),
    (0.06, 0.04, -0.5),
    (0.3, -0.5, 0.4),
)

Sampler = Callable[[Floats, np.random.Generator], Floats]


def _standardised(y: Floats) -> Floats:
    standardised: Floats = (y - y.mean()) / (y.std() or 1.0)
    return standardised


SAMPLERS: dict[str, Sampler] = {
    "HeteroscedasticGaussian": lambda f, rng: _standardised(
        rng.normal(f[:, 0], np.exp(0.5 * f[:, 1]))
    ),
    "Gaussian": lambda f, rng: _standardised(rng.normal(f[:, 0], 0.1)),
    "Beta": lambda f, rng: np.clip(rng.beta(np.exp(f[:, 0]), np.exp(f[:, 1])), 1e-9, 0.99999),
    "Bernoulli": (
        lambda f, rng: (rng.uniform(size=len(f)) < 1.0 / (1.0 + np.exp(-f[:, 0]))).astype(float)
    ),
    "Gamma": lambda f, rng: np.maximum(rng.gamma(np.exp(f[:, 0]), np.exp(-f[:, 1])), 1e-9),
    "Exponential": lambda f, rng: np.maximum(rng.exponential(np.exp(-f[:, 0])), 1e-9),
}


def _giraldo_inputs(N: int, P: int, rng: np.random.Generator) -> Floats:
    if P == 2:
        side = np.linspace(0.0, 1.0, int(np.sqrt(N)))
        return np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])
    grid = np.linspace(0.0, 1.0, N)
    return np.column_stack([grid, *(rng.permutation(grid) for _ in range(P - 1))])


def _observed_draw(
    n: int, bound: float, lengthscale: float, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats, Floats]:
    """Places X [n, 1], a grid x [200, 1], and one draw of the process at both."""
    X = bound * (2.0 * (np.arange(n)[:, None] + rng.uniform(size=(n, 1))) / n - 1.0)
    x = np.linspace(-bound, bound, 200)[:, None]
    f = draw(np.vstack([X, x]), lengthscale, rng)[:, None]
    return X, x, f[:n], f[n:]


def _at_least_one(n: int) -> int:
    if n < 1:
        raise ValueError(f"{n} points were asked for; there must be at least one.")
    return n


ENTRIES = {
    "toy-gp-1d": Entry(toy_gp_1d),
    "panos-toy-1d": Entry(panos_toy_1d),
    "xia-seven-points": Entry(xia_seven_points),
    "giraldo-toy": Entry(giraldo_toy),
}
