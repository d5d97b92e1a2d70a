"""Where a chain begins: inducing inputs, scales of the targets, and the means its posterior starts
from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow import likelihoods as stock
from gpflow.likelihoods import Likelihood
from gpflow.utilities import multiple_assign, read_values

from mogp.data import Array, MultiOutputData, Scaling
from mogp.kernels import LayerKernels
from mogp.likelihoods import Gaussian, PerOutput
from mogp.models.chains.chain import LatentChain
from mogp.models.chains.gpar import GPAR
from mogp.models.chains.structure import Component
from mogp.models.chains.values import inducing_inputs, layer_kernels
from mogp.optimizers import LBFGS
from mogp.optimizers.quiet import minimise

Likelihoods: TypeAlias = Likelihood | Sequence[Likelihood] | Mapping[str, Likelihood]
Start: TypeAlias = Literal["gpar", "zero"] | npt.ArrayLike | Any
"""Means at the inducing inputs: those of a GPAR that is fitted before the first step of training,
zeros, an array `[M, J]`, or those of a fitted GPAR.
"""
Order: TypeAlias = Sequence[int | str] | None

SANE = {"variance": (1e-6, 1e6), "lengthscales": (1e-3, 1e4), "alpha": (1e-3, 1e3)}
"""Ranges of kernel parameters that are taken over: those of terms that GPAR has no use for run off
to 1e-8 or 1e8, where gradients through sampled paths overflow."""
NEAR_ZERO = 1e-4
"""Standard deviations of posteriors that start at given means."""
MOST_EXACT = 500
"""Rows up to which the GPAR of a start is exact."""


class Given(NamedTuple):
    """What all constructors of the family are given; see `gplar`."""

    likelihood: Likelihoods | None
    kernel: LayerKernels
    inducing: Array
    order: Order
    noise: float
    seed: int
    whiten: bool
    inner: float
    samples: int
    importance: bool

    @classmethod
    def checked(
        cls,
        data: MultiOutputData,
        likelihood: Likelihoods | None,
        kernel: LayerKernels | None,
        inducing: int | npt.ArrayLike,
        order: Order,
        noise: float,
        seed: int,
        **how: Any,
    ) -> Given:
        """With kernels and inducing inputs filled in."""
        recipe, Z = layer_kernels(data, kernel), inducing_inputs(data, inducing, seed)
        return cls(likelihood, recipe, Z, order, noise, seed, **how)


class Setting(NamedTuple):
    """What the constructors of the family have in common.

    Attributes:
        given: by the caller.
        likelihood: of each output.
        order: the latent functions, in the order of the chain.
        location, scale: of the targets of each output.
        reals: `[rows of X, J]` a real number for each function where its output was observed, NaN
            elsewhere.
        units: of the inputs.
    """

    given: Given
    likelihood: PerOutput
    order: tuple[int, ...]
    location: Array
    scale: Array
    reals: Array
    units: Scaling | None

    @property
    def kernels(self) -> LayerKernels:
        """The recipe of the layers."""
        return self.given.kernel

    @property
    def Z(self) -> Array:
        """`[M, P]` inducing inputs."""
        return self.given.inducing

    def chain(
        self,
        data: MultiOutputData,
        components: Sequence[Component],
        functions: Sequence[dict[int, float]],
        sets: Sequence[Any],
        shared: Array | None = None,
    ) -> LatentChain:
        """The chain of these components; see `LatentChain`."""
        given = self.given
        return LatentChain(
            components,
            functions,
            self.likelihood,
            sets,
            shared,
            input_dim=data.input_dim,
            names=data.schema,
            location=self.location,
            scale=self.scale,
            whiten=given.whiten,
            inner=given.inner,
            samples=given.samples,
            importance=given.importance,
            seed=given.seed,
            scaling=data.scaled_by,
        )


def set_up(data: MultiOutputData, given: Given) -> Setting:
    """Fill in what depends on the targets, and check it."""
    likelihood = _per_output(data, given.likelihood, given.noise)
    location, scale = _units(data, likelihood)
    return Setting(
        given=given,
        likelihood=likelihood,
        order=_order(data, likelihood, given.order),
        location=location,
        scale=scale,
        reals=_reals(data, likelihood, location, scale),
        units=data.scaled_by,
    )


def with_start(
    build: Callable[..., LatentChain], data: MultiOutputData, starts: Sequence[Start]
) -> LatentChain:
    """A chain with a closed-form start; where GPARs are to be fitted, `MOGP.start` does it.

    Args:
        build: makes the chain, of the data and `train`: whether GPARs are to be fitted now.
        data: observations.
        starts: that the chain depends on.
    """
    model = build(data, train=False)
    if any(takes_training(start) for start in starts):
        model._prepare = partial(build, train=True)
    return model


def takes_training(start: Start) -> bool:
    """Whether there are no means before a GPAR was fitted."""
    return isinstance(start, str) and start == "gpar"


def begin(data: MultiOutputData, setting: Setting, start: Start, train: bool) -> Any:
    """What `start` stands for: a fitted GPAR, or means `[M, J]`.

    Args:
        data: observations.
        setting: of the chain.
        start: see `gplar`.
        train: whether "gpar" fits one (with the inducing inputs, for many rows); zeros for now if
            not.
    """
    if not isinstance(start, str):
        return start
    if start not in ("gpar", "zero"):
        raise ValueError(
            f"start={start!r}; expected 'gpar', 'zero', means [M, J] or a fitted GPAR."
        )
    if start == "zero" or not train:
        return np.zeros((len(setting.Z), len(setting.order)))
    columns = setting.reals[:, list(setting.order)]
    names = [f"function {j}" for j in setting.order]
    inducing = None if len(data.X) <= MOST_EXACT else setting.Z
    table = MultiOutputData.from_arrays(data.X, columns, names=names)
    gpar = GPAR(table, setting.kernels, inducing=inducing, scaling=None)
    for stage in gpar.stages(table):
        minimise(stage.problem(), stage.optimizer or LBFGS())
    gpar.scaling = setting.units
    return gpar


def adopts(adopt: bool | None, starts: Sequence[Start]) -> bool:
    """Whether kernels are taken over from GPARs: as was said, or if None where there are some.

    Args:
        adopt: what was said.
        starts: GPARs, or what else a chain starts from.
    """
    gpars = all(isinstance(start, GPAR) or takes_training(start) for start in starts)
    if adopt and not gpars:
        raise ValueError(
            "adopt=True takes kernels over from a GPAR; use start='gpar', or give a fitted one."
        )
    return gpars if adopt is None else adopt


def start_means(setting: Setting, start: Any) -> Array:
    """`[M, J]` means at the inducing inputs, by function, in the units of the model."""
    M, J = len(setting.Z), len(setting.order)
    if isinstance(start, GPAR):
        means = np.empty((M, J))
        check_units(setting, start)
        means[:, list(setting.order)] = start.means_at(tf.constant(setting.Z))
        return means
    means = np.asarray(start, float)
    if means.shape != (M, J):
        raise ValueError(
            f"start has shape {means.shape}; expected [{M}, {J}]: a mean for each inducing input"
            " and function."
        )
    return means


def check_units(setting: Setting, gpar: GPAR) -> None:
    """Raise unless a GPAR reads its inputs in the units of the chain."""
    own, other = (
        np.empty(0) if units is None else np.stack([units.centre, units.width])
        for units in (setting.units, gpar.scaling)
    )
    if not np.array_equal(own, other):
        raise ValueError(
            "the GPAR to start from reads inputs in other units than the chain: build both on the"
            " same data with the same scaling."
        )


def adopt_gpars(
    model: LatentChain, gpars: Sequence[GPAR], orders: Sequence[Sequence[int]], least: float
) -> None:
    """Give the GPs of a chain the kernels of GPARs, one GPAR after the other, and Gaussian outputs
    their noise.

    The noise variance is the largest that a GPAR has found, and at least `least`: where a layer
    fits the data exactly, a path that strays a little would otherwise cost more than all else.
    """
    layers = [layer for gpar in gpars for layer in gpar.layers]
    for kernel, layer in zip(model.kernels, layers, strict=False):
        found = read_values(layer.kernel).items()
        multiple_assign(
            kernel, {path: np.clip(value, *SANE[path.split(".")[-1]]) for path, value in found}
        )
    functions = [function for order in orders for function in order]
    outputs = [d for d, size in enumerate(model.likelihood.latent_dims) for _ in range(size)]
    for d, likelihood in enumerate(model.likelihood.likelihoods):
        if isinstance(likelihood, stock.Gaussian):
            found = [
                float(one.noise)
                for one, j in zip(layers, functions, strict=True)
                if outputs[j] == d
            ]
            likelihood.variance.assign(max(least, *found))


def closed_rows(setting: Setting, X: Array) -> list[tuple[Array, Array]]:
    """Strategy A: for each layer inducing inputs `[M, P + position]` and means `[M]` out of the
    observations.

    They are rows at which the outputs of all layers up to this one were observed, `M` of them for
    every layer: as many as inducing inputs, or as the last layer has.
    """
    values = setting.reals[:, list(setting.order)]
    closed = [
        np.flatnonzero(np.isfinite(values[:, : p + 1]).all(1)) for p in range(values.shape[1])
    ]
    M = min(len(setting.Z), len(closed[-1]))
    if M == 0:
        raise ValueError(
            "no input has all outputs observed, so inducing points cannot be taken from the"
            " observations (strategy 'A'); use strategy 'B' or 'C'."
        )
    rng = np.random.default_rng(setting.given.seed)
    picked = [np.sort(rng.choice(rows, M, replace=False)) for rows in closed]
    return [
        (np.hstack([X[rows], values[rows, :p]]), values[rows, p]) for p, rows in enumerate(picked)
    ]


def _per_output(data: MultiOutputData, likelihood: Likelihoods | None, noise: float) -> PerOutput:
    if likelihood is None:
        likelihood = {name: Gaussian(noise) for name in data.names}
    each = PerOutput([likelihood] if isinstance(likelihood, Likelihood) else likelihood)
    each.check(data)
    return each


def _order(data: MultiOutputData, likelihood: PerOutput, order: Order) -> tuple[int, ...]:
    outputs = (
        list(range(data.num_outputs)) if order is None else [data.index(output) for output in order]
    )
    if sorted(outputs) != list(range(data.num_outputs)):
        raise ValueError(
            f"order={order}; expected each of {', '.join(map(repr, data.names))} once."
        )
    return tuple(j for d in outputs for j in likelihood.functions(d))


def _units(data: MultiOutputData, likelihood: PerOutput) -> tuple[Array, Array]:
    """Mean and standard deviation of the targets of Gaussian outputs, zero and one for others."""
    location, scale = np.zeros(data.num_outputs), np.ones(data.num_outputs)
    for d, (own, kind) in enumerate(zip(data.outputs, likelihood.likelihoods, strict=True)):
        if isinstance(kind, stock.Gaussian) and len(own):
            location[d] = own.Y.mean()
            scale[d] = own.Y.std() or 1.0
    return location, scale


def _reals(data: MultiOutputData, likelihood: PerOutput, location: Array, scale: Array) -> Array:
    """Labels as indicators of the classes, other targets as they are (the model's units) for the
    first function.
    """
    reals = np.full((len(data.X), likelihood.num_functions), np.nan)
    for d, (own, kind) in enumerate(zip(data.outputs, likelihood.likelihoods, strict=True)):
        functions, y = likelihood.functions(d), (own.Y[:, 0] - location[d]) / scale[d]
        values = np.zeros((len(own), len(functions)))
        if getattr(kind, "num_classes", 0) == len(functions) > 1:
            values = (y[:, None] == np.arange(len(functions))).astype(float)
        else:
            values[:, 0] = y
        reals[own.rows, functions.start : functions.stop] = values
    return reals
