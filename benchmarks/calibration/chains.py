"""Families in which outputs read the outputs before them: GPAR and GPLAR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gpflow.utilities import set_trainable

import mogp
from calibration.drawn import (
    INPUTS,
    Array,
    Family,
    Found,
    Rng,
    draw,
    from_draws,
    in_gap,
    places,
    squared_exponential,
    standardised,
)
from mogp import MultiOutputData
from mogp.kernels import LayerKernels
from mogp.likelihoods import Gaussian
from mogp.models import GPAR, Component, LatentChain
from mogp.models.chains.values import Scale, Targets
from mogp.optimizers import Adam, Falling

LAYERS = LayerKernels(1, "linear+nonlinear", input_lengthscale=0.2, output_lengthscale=1.0, linear_variance=0.5)
LENGTH, NOISE, DRAWS = 3, 0.05, 299


def of_layer(columns: Array) -> Array:
    """Covariance of a layer that reads `[x, outputs before]`, `[N, N]`: see `LAYERS`."""
    x, y = columns[:, :1], columns[:, 1:]
    K = squared_exponential(x, 0.2)
    return K + squared_exponential(y) + 0.5 * y @ y.T if y.shape[1] else K


@dataclass(frozen=True)
class Chain:
    """Three outputs, each a GP of the inputs and of the outputs before it, observed at rows outside the gap.

    Attributes:
        noisy: whether outputs read targets (with noise), or functions.
        judge: the posterior: from data, to the standardised place of the last function's values `[2]` at inputs
            `[2, 1]`.
    """

    noisy: bool
    judge: Callable[[MultiOutputData, Array, Array, Rng], Found]

    def run(self, rng: Rng) -> Found:
        """Draw a data set, and see where the last function lies under the posterior."""
        kept = INPUTS[~in_gap()]
        X = np.concatenate([kept, np.array(places(rng))[:, None]])
        columns, Y = X, []
        for _ in range(LENGTH):
            f = draw(of_layer(columns), rng)
            y = f + np.sqrt(NOISE) * rng.standard_normal(len(f))
            columns = np.column_stack([columns, y if self.noisy else f])
            Y.append(y)
        data = MultiOutputData.from_arrays(kept, np.column_stack(Y)[:-2])
        return self.judge(data, X[-2:], f[-2:], rng)


def gpar(data: MultiOutputData, replace: bool, passes: Any) -> GPAR:
    """With the hyper-parameters of the prior, in the units of the prior: a GPAR standardises its targets."""
    model = GPAR(data, LAYERS, replace=replace, passes=passes, impute=False, noise=NOISE, scaling=None)
    model.scale = {o.name: Scale(0.0, 1.0) for o in data.outputs}
    model._targets = {o.name: Targets(o.name, o.rows, o.Y[:, 0]) for o in data.outputs}
    model._observe(0)
    model.propagate()
    return model


def by_draws(replace: bool, passes: str) -> Callable[..., Found]:
    """Judged by draws of the last function, each along a path of its own."""

    def judge(data: MultiOutputData, new: Array, truth: Array, rng: Rng) -> Found:
        model = gpar(data, replace, passes)
        drawn = model.predict_f_samples(new, LENGTH - 1, DRAWS, int(rng.integers(1 << 31))).numpy()[..., 0]
        return Found(*(from_draws(truth[i], drawn[:, i], rng) for i in range(2)))

    return judge


def by_moments(data: MultiOutputData, new: Array, truth: Array, rng: Rng) -> Found:
    """What a GPAR does unless it is told otherwise: means stand in for the functions before."""
    f = gpar(data, True, "means").predict_f(new, LENGTH - 1)
    return Found(*(standardised(truth[i], f.mean[i, 0], f.var[i, 0]) for i in range(2)))


def gplar(steps: int) -> Callable[..., Found]:
    """A chain of sparse GPs, inducing inputs tied to the means before, at all rows."""

    def judge(data: MultiOutputData, new: Array, truth: Array, rng: Rng) -> Found:
        reads = [Component(LAYERS.layer(p), tuple((j,) for j in range(p))) for p in range(LENGTH)]
        model = LatentChain(
            reads, [{j: 1.0} for j in range(LENGTH)], [Gaussian(NOISE) for _ in range(LENGTH)],
            inducing=[None] * LENGTH, shared=data.X, input_dim=1, names=data.schema, inner=1e-6, samples=4,
        )  # fmt: skip
        model.regress(data)
        set_trainable(model, False)
        set_trainable(model.posterior, True)
        history = mogp.fit(model, data, steps=steps, optimizer=Falling(Adam(0.02)), progress=False)
        drawn = model.predict_f_samples(new, LENGTH - 1, DRAWS, int(rng.integers(1 << 31))).numpy()[..., 0]
        last = history.elbo[-100:].reshape(2, 50).mean(1)
        return Found(*(from_draws(truth[i], drawn[:, i], rng) for i in range(2)), float(last[1] - last[0]))

    return judge


_PLUGGED = "that earlier functions are not known"


def families() -> list[Family]:
    """All of them."""
    return [
        Family("gpar-noisy", "GPAR, `replace=False`", "", Chain(True, by_draws(False, "noisy")).run),
        Family("gpar", "GPAR (default: reads means)", _PLUGGED, Chain(False, by_moments).run),
        Family(
            "gpar-functions", 'GPAR, `passes="functions"`', "the same, in training",
            Chain(False, by_draws(True, "functions")).run,
        ),
        Family("gplar", "GPLAR", "dependence between layers; what lies between inducing inputs",
               Chain(False, gplar(1000)).run, 100),
    ]  # fmt: skip
