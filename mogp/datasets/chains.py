"""Outputs that depend on one another in a chain: the synthetic data of Xia, chapter 4.

Each generator makes noise-free latents h_1, …, h_D, in which h_d depends on the input x and on h_1
to h_(d-1), and observes them. A layer with the kernel k(x, x') + k(h, h') is the sum of two
independent draws: for an SE kernel over the latents a draw of `draws.draw` with one lengthscale a
latent, for a linear kernel h·w with w_j ~ N(0, v_j).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.dataset import Dataset
from mogp.datasets.draws import draw, rounded
from mogp.datasets.entry import Entry
from mogp.datasets.making import made

Floats = NDArray[np.float64]


def xia_functions(
    *,
    n: int = 100,
    noise_sd: float = 0.05,
    spacing: Literal["grid", "random"] = "grid",
    missing: bool = False,
    seed: int = 0,
) -> Dataset:
    """Three functions of x in [0, 1], each of the ones before it, 100 points (Xia, figures 4.1 to
    4.3).

    h_1 = -sin(10π(x + 1))/(2x + 1) - x⁴, h_2 = cos²(h_1) + sin(3x), h_3 = h_2 h_1² + 3x, observed
    with noise. The printed cos²(h_1 + sin 3x) is a slip (C9 of the specification), and its noise
    level a standard deviation (C20). The document draws x at random, its author's code takes a grid
    (`spacing`). With `missing`, targets of y1 at x in [0.2, 0.4] and of y2 in [0.6, 0.8] are held
    out: points 10 to 19 and 30 to 39 of the author's `n=50` (figure 4.3). `extras`: the latents `h`
    [n, 3], and the `truth` [1000, 3] on the grid `x` [1000, 1].
    """
    rng = np.random.default_rng(seed)
    if spacing == "grid":
        X = np.linspace(0.0, 1.0, _positive(n))[:, None]
    elif spacing == "random":
        X = rounded(np.sort(rng.uniform(size=(_positive(n), 1)), axis=0))
    else:
        raise ValueError(f'spacing is {spacing!r}; choose "grid" or "random".')
    grid, h = np.linspace(0.0, 1.0, 1000)[:, None], _functions(X)
    held_out = np.zeros(h.shape, bool)
    held_out[:, 0] = (X[:, 0] >= 0.2) & (X[:, 0] <= 0.4)
    held_out[:, 1] = (X[:, 0] >= 0.6) & (X[:, 0] <= 0.8)
    return made(
        "xia-functions",
        "synthetic",
        f"three functions of x and of one another, {n} points with noise of standard deviation"
        f" {noise_sd}",
        "R. Xia (2020), section 4.2.1",
        X=X,
        Y=rounded(h + noise_sd * rng.standard_normal(h.shape)),
        inputs=("x",),
        outputs=("y1", "y2", "y3"),
        likelihoods=("Gaussian",),
        held_out=held_out if missing else None,
        extras={"h": h, "x": grid, "truth": _functions(grid), "noise_sd": np.array(noise_sd)},
    )


def _functions(x: Floats) -> Floats:
    h1 = -np.sin(10.0 * np.pi * (x + 1.0)) / (2.0 * x + 1.0) - x**4
    h2 = np.cos(h1) ** 2 + np.sin(3.0 * x)
    return rounded(np.hstack([h1, h2, h2 * h1**2 + 3.0 * x]))


def xia_gplar_nonlinear(
    *, noise_sd: float = 0.5, train: int = 100, test: int = 100, seed: int = 0
) -> Dataset:
    """A draw of three outputs with SE kernels over x and the earlier outputs, 100 + 100 points
    (Xia, figure 4.4).

    k_1 = SE(x; 0.1), k_2 = SE(x; 0.05) + SE(h_1; 10), k_3 = SE(x; 0.2) + SE(h_1, h_2; 10, 5),
    variances 1, on a grid of 1000 points of [-3, 3], from which `train` and `test` points are taken
    without replacement. The document's noise "variance" is taken to be a standard deviation (C20 of
    the specification). `extras`: the latents `h` [train + test, 3], and the `truth` [1000, 3] on
    the grid `x` [1000, 1].
    """
    rng, x = np.random.default_rng(seed), np.linspace(-3.0, 3.0, 1000)[:, None]
    h = _chain(x, (0.1, 0.05, 0.2), _se, ((10.0,), (10.0, 5.0)), rng)
    about = "a draw of three outputs, each with SE kernels over x and over the ones before it"
    return _sampled(
        "xia-gplar-nonlinear", about, "figure 4.4", x, h, np.full(3, noise_sd), train, test, rng
    )


def xia_gplar_linear(
    *,
    noise_sd: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0, 0.1),
    train: int = 100,
    test: int = 100,
    seed: int = 0,
) -> Dataset:
    """A draw of five outputs with linear kernels over the earlier outputs, 100 + 100 points (Xia,
    figure 4.5).

    k_d = SE(x; ℓ_d) + Σ_j v_dj h_j h'_j with ℓ = 0.1, 0.2, 0.05, 0.02, 0.1 and v = (1), (5, 1), (1,
    5, 2), (1, 3, 2, 5). The document says that the noise is large on outputs 1 to 4 and small on 5:
    `noise_sd` is the specification's choice (Q13). The grid and `extras` are those of
    "xia-gplar-nonlinear".
    """
    if len(noise_sd) != 5:
        raise ValueError(
            f"noise_sd has {len(noise_sd)} values; give one for each of the 5 outputs."
        )
    rng, x = np.random.default_rng(seed), np.linspace(-3.0, 3.0, 1000)[:, None]
    variances = ((1.0,), (5.0, 1.0), (1.0, 5.0, 2.0), (1.0, 3.0, 2.0, 5.0))
    h = _chain(x, (0.1, 0.2, 0.05, 0.02, 0.1), _linear, variances, rng)
    about = "a draw of five outputs, each with linear kernels over the ones before it"
    return _sampled(
        "xia-gplar-linear", about, "figure 4.5", x, h, np.array(noise_sd), train, test, rng
    )


def xia_hetero(
    *,
    dependence: Literal["nonlinear", "linear"] = "nonlinear",
    noise_sd: float = 0.1,
    seed: int = 0,
) -> Dataset:
    """A draw of two real and two binary outputs on [0, 2], 200 points, 50 labels missing (Xia,
    figure 4.14).

    k_1 = SE(x; 0.02), k_2 = 2 SE(x; 0.05) + SE(h_1; 1), k_3 = SE(x; 0.5) + SE(h_1, h_2; 1, 2), k_4
    = SE(x; 0.3) + SE(h_1, h_2, h_3; 1, 2, 1) on 1000 points, of which every fifth is observed; y1,
    y2 with Gaussian noise, y3, y4 ~ Bernoulli(1/(1 + exp(-h))) of latents whose mean is taken off.
    Labels of y4 at points 100 to 149, x in [1, 1.5], are held out (C18 of the specification). With
    `dependence="linear"` the kernels over the latents are linear with variances 1: the document
    shows that case and does not give its kernels. `extras`: the latents `h` [200, 4], and the
    `truth` [1000, 4] on the grid `x` [1000, 1].
    """
    rng, x = np.random.default_rng(seed), np.linspace(0.0, 2.0, 1000)[:, None]
    if dependence not in LAYERS:
        raise ValueError(f'dependence is {dependence!r}; choose "nonlinear" or "linear".')
    layer, over = LAYERS[dependence]
    truth = _chain(
        x, (0.02, 0.05, 0.5, 0.3), layer, over, rng, variances=(1.0, 2.0, 1.0, 1.0), centred=(2, 3)
    )
    h = truth[::5]
    real = rounded(h[:, :2] + noise_sd * rng.standard_normal((200, 2)))
    binary = rng.uniform(size=(200, 2)) < 1.0 / (1.0 + np.exp(-h[:, 2:]))
    held_out = np.zeros((200, 4), bool)
    held_out[100:150, 3] = True
    return made(
        "xia-hetero",
        "synthetic",
        f"a draw of two real and two binary outputs with {dependence} dependence, 200 points",
        "R. Xia (2020), figure 4.14",
        X=x[::5],
        Y=np.hstack([real, binary.astype(float)]),
        inputs=("x",),
        outputs=("y1", "y2", "y3", "y4"),
        likelihoods=("Gaussian", "Gaussian", "Bernoulli", "Bernoulli"),
        held_out=held_out,
        classes={"y3": ("0", "1"), "y4": ("0", "1")},
        extras={"h": h, "x": x, "truth": truth, "noise_sd": np.array(noise_sd)},
    )


Layer = Callable[[Floats, Sequence[float], np.random.Generator], Floats]


def _se(h: Floats, lengthscales: Sequence[float], rng: np.random.Generator) -> Floats:
    return draw(h, np.array(lengthscales), rng)


def _linear(h: Floats, variances: Sequence[float], rng: np.random.Generator) -> Floats:
    return np.asarray(h @ (np.sqrt(variances) * rng.standard_normal(len(variances))))


LAYERS: dict[str, tuple[Layer, Sequence[Sequence[float]]]] = {
    "nonlinear": (_se, ((1.0,), (1.0, 2.0), (1.0, 2.0, 1.0))),
    "linear": (_linear, ((1.0,), (1.0, 1.0), (1.0, 1.0, 1.0))),
}


def _chain(
    x: Floats,
    lengthscales: Sequence[float],
    layer: Layer,
    over: Sequence[Sequence[float]],
    rng: np.random.Generator,
    variances: Sequence[float] | None = None,
    centred: Sequence[int] = (),
) -> Floats:
    """Latents [N, D]: draws over x with `lengthscales` and `variances`, plus, for layers 2 to D,
    one over the latents before with the parameters `over[d - 1]`; the mean of `centred` layers is
    taken off.
    """
    h = np.empty((len(x), 0))
    for d, lengthscale in enumerate(lengthscales):
        f = draw(x, lengthscale, rng) * np.sqrt(1.0 if variances is None else variances[d])
        if d:
            f = f + layer(h, over[d - 1], rng)
        h = np.column_stack([h, rounded(f - f.mean() if d in centred else f)])
    return h


def _sampled(
    name: str,
    about: str,
    where: str,
    x: Floats,
    truth: Floats,
    noise_sd: Floats,
    train: int,
    test: int,
    rng: np.random.Generator,
) -> Dataset:
    """`train` and `test` points of the grid, in the order of x."""
    if train < 1 or test < 0 or train + test > len(x):
        raise ValueError(
            f"train={train}, test={test}: give at least one training point, and at most {len(x)}"
            " points altogether."
        )
    chosen = rng.permutation(len(x))[: train + test]
    rows = np.sort(chosen)
    h = truth[rows]
    return made(
        name,
        "synthetic",
        f"{about}, {train} training and {test} test points",
        f"R. Xia (2020), {where}",
        X=x[rows],
        Y=rounded(h + noise_sd * rng.standard_normal(h.shape)),
        inputs=("x",),
        outputs=tuple(f"y{d + 1}" for d in range(h.shape[1])),
        likelihoods=("Gaussian",),
        held_out=np.isin(rows, chosen[train:]),
        extras={"h": h, "x": x, "truth": truth, "noise_sd": noise_sd},
    )


def _positive(n: int) -> int:
    if n < 1:
        raise ValueError(f"{n} points were asked for; there must be at least one.")
    return n


ENTRIES = {
    "xia-functions": Entry(xia_functions),
    "xia-gplar-nonlinear": Entry(xia_gplar_nonlinear),
    "xia-gplar-linear": Entry(xia_gplar_linear),
    "xia-hetero": Entry(xia_hetero),
}
