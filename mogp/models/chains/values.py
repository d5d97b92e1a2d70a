"""What the layers of GPAR read: standardised targets, values of the outputs before, and inducing
inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from mogp.data import Array, MultiOutputData, Output
from mogp.inducing import kmeans_points
from mogp.kernels import LayerKernels
from mogp.models.chains.regression import Regression
from mogp.models.lengthscales import start_lengthscales


class Scale(NamedTuple):
    """Mean and standard deviation of the training targets of an output."""

    mean: float
    sd: float

    @classmethod
    def of(cls, output: Output) -> Scale:
        """Of the targets; a standard deviation of one for targets that are all alike, or none."""
        if not len(output):
            return cls(0.0, 1.0)
        sd = float(np.std(output.Y))
        return cls(float(np.mean(output.Y)), sd if sd > 0 else 1.0)


class Targets(NamedTuple):
    """Rows and standardised values of the observations of an output."""

    name: str
    rows: Array
    y: Array

    @classmethod
    def of(cls, output: Output) -> Targets:
        """The observations of an output with one target column."""
        scale = Scale.of(output)
        return cls(output.name, output.rows, (output.Y[:, 0] - scale.mean) / scale.sd)


class Values(NamedTuple):
    """What layers read: `[N, D + l]` at all rows, NaN where an output has no value; `[M, D + l]` at
    inducing inputs.
    """

    X: Array
    Z: Array | None

    def first(self, columns: int) -> Values:
        """The first of the columns."""
        return Values(self.X[:, :columns], None if self.Z is None else self.Z[:, :columns])

    def seen_by(self, targets: Targets, reads: range) -> tuple[Array, Array, Array | None]:
        """Inputs, targets and inducing inputs of the next layer."""
        kept = self._complete(reads)[targets.rows]
        if len(targets.rows) and not kept.any():
            raise ValueError(
                f"no observation of {targets.name!r} is at a row where all outputs it reads have a"
                " value; use impute=True, or another order."
            )
        return np.nan_to_num(self.X[targets.rows[kept]]), targets.y[kept], self.Z

    def extended(
        self, layer: Regression, targets: Targets, reads: range, replace: bool, impute: bool
    ) -> Values:
        """With the values of one more output: observed, or means of its layer."""
        complete = self._complete(reads)
        column = np.full(len(self.X), np.nan)
        column[complete] = layer.mean(
            tf.constant(np.nan_to_num(self.X[complete]), gpflow.default_float())
        )
        count = np.bincount(targets.rows, minlength=len(column))
        if not impute:
            column[count == 0] = np.nan
        if not replace:
            total = np.bincount(targets.rows, targets.y, minlength=len(column))
            column[count > 0] = total[count > 0] / count[count > 0]
        if self.Z is None:
            return Values(np.column_stack([self.X, column]), None)
        at_inducing = layer.mean(tf.constant(self.Z, gpflow.default_float()))
        return Values(np.column_stack([self.X, column]), np.column_stack([self.Z, at_inducing]))

    def _complete(self, reads: range) -> Array:
        """Rows `[N]` at which all these columns have a value."""
        return np.asarray(np.isfinite(self.X[:, reads.start : reads.stop]).all(axis=1))


def layer_kernels(data: MultiOutputData, kernel: LayerKernels | None) -> LayerKernels:
    """The recipe given, checked; without one linear and nonlinear terms over the outputs, and
    lengthscales of a tenth of the range of each input column.
    """
    if kernel is None:
        return LayerKernels(data.input_dim, input_lengthscale=start_lengthscales(data.X, "columns"))
    if kernel.input_dim != data.input_dim:
        raise ValueError(
            f"kernels for {kernel.input_dim} input columns; the data have {data.input_dim}. Give"
            f" LayerKernels({data.input_dim}, …)."
        )
    return kernel


def inducing_inputs(data: MultiOutputData, inducing: int | npt.ArrayLike, seed: int = 0) -> Array:
    """`[M, D]` in the units of the model: those given, in the units of the data, or so many, evenly
    spaced over one input column and centres of clusters of several.

    All distinct inputs if there are no more than that.
    """
    if np.ndim(inducing) == 0:
        count, distinct = int(np.asarray(inducing)), np.unique(data.X, axis=0)
        if count < 1:
            raise ValueError(f"inducing={count}; at least one inducing input is needed.")
        if count >= len(distinct):
            return np.asarray(distinct)
        if data.input_dim == 1:
            return np.asarray(np.linspace(distinct[0], distinct[-1], count))
        centres: Array = np.asarray(kmeans_points(data, count, seed=seed).Z)
        return centres
    Z: Array = np.asarray(inducing, dtype=float)
    Z = Z[:, None] if Z.ndim == 1 else Z
    if Z.ndim != 2 or Z.shape[1] != data.input_dim or not np.isfinite(Z).all():
        raise ValueError(
            f"inducing inputs have shape {Z.shape}; expected finite numbers, [M, {data.input_dim}]."
        )
    scaled: Array = Z if data.scaled_by is None else data.scaled_by.inputs(Z)
    return scaled


def checked_order(names: Sequence[str], order: Sequence[str]) -> tuple[str, ...]:
    """The order, which must name every output once."""
    if sorted(order) != sorted(names):
        raise ValueError(
            f"order={list(order)}; every output must be named once: {', '.join(names)}."
        )
    return tuple(order)
