"""The synthetic hierarchies of HMOGP-LV: outputs with replicas, drawn from the model itself."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.dataset import Array, Dataset
from mogp.datasets.draws import rounded
from mogp.datasets.entry import Entry
from mogp.datasets.making import made

Floats = NDArray[np.float64]
Variant = Literal["documents", "code"]
Protocol = Literal["points", "replica"]

POINTS = 10
FEATURES = 4000
VARIANCES: dict[Variant, tuple[float, float]] = {"documents": (0.1, 0.02), "code": (1.0, 0.02**2)}
"""Of k_g and of the noise: what the documents print, and what the authors' public code does (0.02
as a deviation).
"""


def hmogp_synth_1(*, variant: Variant = "documents", repetition: int = 0, seed: int = 1) -> Dataset:
    """Fifty outputs, three replicas, half of ten points held out (Ma §5.4.1.1; HMOGP-LV §5.1).

    f_d^r(x) = G(x, h_d) + F^r(x, h_d) with G ~ GP(0, k_H k_g) and F^1 … F^R i.i.d. GP(0, k_H k_f),
    k_g and k_f Matérn-3/2 with lengthscale 1 and variances 0.1 and 1, k_H a unit RBF, and noise of
    variance 0.02. What the documents leave open is as in the authors' public code: h_d = (t_d, t_d)
    with t_d equally spaced on [0, 1], and ten inputs an output, uniform on [0, 10], the same in all
    its replicas. `variant="code"` has k_g of variance 1 and a noise *deviation* of 0.02, as that
    code does. Positions held out of output d are the last five of a permutation seeded by d + 1000
    `repetition`, the same in all replicas.

    `extras`: the latent variables `H` [D, 2], the noise-free values `f` [N] and the
    `noise_variance`.
    """
    data = _Hierarchy("hmogp-synth-1", 50, 3, variant, seed)
    return data.dataset(data.held_out("points", repetition))


def hmogp_synth_2(*, variant: Variant = "documents", repetition: int = 0, seed: int = 1) -> Dataset:
    """Fifty outputs, four replicas of ten points, one held out (Ma §5.4.1.2; HMOGP-LV §5.2).

    The generator is that of `hmogp-synth-1`. Output d misses replica (d + `repetition`) mod 4, both
    counted from 0.
    """
    data = _Hierarchy("hmogp-synth-2", 50, 4, variant, seed)
    return data.dataset(data.held_out("replica", repetition))


def hmogp_synth_3(
    *,
    protocol: Protocol = "points",
    variant: Variant = "documents",
    repetition: int = 0,
    seed: int = 1,
) -> Dataset:
    """Ten outputs with five replicas of ten points, to study Q_H and M_H (Ma §5.4.1.3).

    The generator is that of `hmogp-synth-1`. The thesis does not say what is held out: half of the
    points as in `hmogp-synth-1`, or with `protocol="replica"` a replica an output as in
    `hmogp-synth-2`.
    """
    data = _Hierarchy("hmogp-synth-3", 10, 5, variant, seed)
    return data.dataset(data.held_out(protocol, repetition))


def hmogp_synth_4(
    *, train_points: int = 1, variant: Variant = "documents", repetition: int = 0, seed: int = 1
) -> Dataset:
    """Ten outputs, three replicas of ten points, the last hardly observed (HMOGP-LV, C.1).

    The generator is that of `hmogp-synth-1`. Of the last output, `train_points` (1 to 9) positions
    are observed, the same in all its replicas: the first of a permutation seeded by 9 +
    `repetition`; the rest are held out. The other nine outputs are fully observed.
    """
    if not 1 <= train_points < POINTS:
        raise ValueError(f"train_points={train_points}; expected 1 to {POINTS - 1}.")
    data = _Hierarchy("hmogp-synth-4", 10, 3, variant, seed)
    last = data.D - 1
    tested = np.random.RandomState(last + _natural(repetition)).permutation(POINTS)[train_points:]
    return data.dataset((data.output == last) & np.isin(data.position, tested))


class _Hierarchy:
    """One draw: D outputs, R replicas, ten points; rows by output, then replica, then point."""

    def __init__(self, name: str, D: int, R: int, variant: Variant, seed: int) -> None:
        if variant not in VARIANCES:
            raise ValueError(
                f"variant={variant!r}; choose one of {', '.join(map(repr, VARIANCES))}."
            )
        self.name, self.D, self.R, self.variant = name, D, R, variant
        grid = np.indices((D, R, POINTS)).reshape(3, -1)
        self.output, self.replica, self.position = grid
        rng = np.random.default_rng(seed)
        inputs = rounded(rng.uniform(0.0, 10.0, (D, POINTS)))
        self.x = inputs[self.output, self.position]
        self.H = np.repeat(np.linspace(0.0, 1.0, D)[:, None], 2, axis=1)
        variance_g, self.noise_variance = VARIANCES[variant]
        own = np.flatnonzero(self.replica == 0)
        g = draw_product(self.x[own], self.H[self.output[own]], rng).reshape(D, POINTS)
        f = np.empty((D, R, POINTS))
        for r in range(R):
            rows = np.flatnonzero(self.replica == r)
            lower = draw_product(self.x[rows], self.H[self.output[rows]], rng).reshape(D, POINTS)
            f[:, r] = np.sqrt(variance_g) * g + lower
        self.f = rounded(f.ravel())
        self.y = rounded(self.f + np.sqrt(self.noise_variance) * rng.standard_normal(self.f.shape))

    @property
    def _values(self) -> str:
        return "documents" if self.variant == "documents" else "public code"

    def held_out(self, protocol: Protocol, repetition: int) -> Array:
        """[N] what the published protocol keeps for testing."""
        repetition = _natural(repetition)
        if protocol == "replica":
            return np.asarray(self.replica == (self.output + repetition) % self.R)
        if protocol != "points":
            raise ValueError(f"protocol={protocol!r}; choose 'points' or 'replica'.")
        tested = np.zeros((self.D, POINTS), bool)
        for d in range(self.D):
            tested[
                d, np.random.RandomState(d + 1000 * repetition).permutation(POINTS)[POINTS // 2 :]
            ] = True
        return np.asarray(tested[self.output, self.position])

    def dataset(self, held_out: Array) -> Dataset:
        return made(
            self.name,
            "synthetic",
            f"a draw of the hierarchical model: {self.D} outputs, {self.R} replicas, {POINTS}"
            f" points (values of the {self._values})",
            "C. Ma (2023), chapter 5; C. Ma, A. Leroy and M. A. Álvarez, HMOGP-LV",
            X=self.x[:, None],
            Y=self.y[:, None],
            inputs=("x",),
            outputs=tuple(f"output {d + 1}" for d in range(self.D)),
            likelihoods=("Gaussian",),
            output=self.output,
            replica=self.replica,
            held_out=held_out,
            extras={"H": self.H, "f": self.f, "noise_variance": np.array(self.noise_variance)},
        )


def draw_product(x: Floats, H: Floats, rng: np.random.Generator) -> Floats:
    """One draw [N] at (x_n, h_n) of GP(0, k_x k_h).

    k_x is a unit Matérn-3/2 kernel of x [N], k_h a unit RBF of h [N, Q].

    The spectral density of a product of kernels on separate inputs is the product of theirs, so
    each of the random features has a frequency from the t with 3 degrees of freedom for x and one
    from N(0, I) for h.
    """
    frequency_x = rng.standard_normal(FEATURES) / np.sqrt(rng.chisquare(3, FEATURES) / 3)
    frequency_h = rng.standard_normal((H.shape[1], FEATURES))
    phases = x[:, None] * frequency_x + H @ frequency_h
    a, b = rng.standard_normal((2, FEATURES))
    return rounded((np.cos(phases) @ a + np.sin(phases) @ b) / np.sqrt(FEATURES))


def _natural(repetition: int) -> int:
    if repetition < 0:
        raise ValueError(f"repetition={repetition}; repetitions count from 0.")
    return repetition


ENTRIES = {
    "hmogp-synth-1": Entry(hmogp_synth_1),
    "hmogp-synth-2": Entry(hmogp_synth_2),
    "hmogp-synth-3": Entry(hmogp_synth_3),
    "hmogp-synth-4": Entry(hmogp_synth_4),
}
