"""Kernels of the layers of a chain, in which each output reads the inputs and earlier outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Literal, get_args

import numpy as np
import tensorflow as tf
from gpflow.kernels import Kernel, Linear, SquaredExponential
from gpflow.kernels import RationalQuadratic as SlowRationalQuadratic

LayerKind = Literal[
    "independent",
    "linear",
    "linear-input-dependent",
    "nonlinear",
    "nonlinear-input-dependent",
    "linear+nonlinear",
]
"""How a layer reads the outputs before it; see `LayerKernels`."""


class RationalQuadratic(SlowRationalQuadratic):
    r"""GPflow's rational quadratic $v\,(1 + r^2/2\alpha)^{-\alpha}$, by exponential and logarithm.

    The gradient of a power is slow.
    """

    def K_r2(self, r2: tf.Tensor) -> tf.Tensor:
        """The covariance at squared scaled distances (which rounding may have made negative)."""
        r2 = tf.maximum(r2, 0)
        return self.variance * tf.exp(-self.alpha * tf.math.log1p(0.5 * r2 / self.alpha))


@dataclass(frozen=True)
class LayerKernels:
    r"""A recipe for the kernel of every layer of a chain (table 2.1 of Xia's thesis).

    A layer reads $(x, y)$: `D` input columns and, after them, one column for each output before it.
    With $k_{NL}$ the squared exponential or the rational quadratic, and a lengthscale for each
    column, the first layer has $k_{NL}(x, x')$ and later ones

    | kind | kernel |
    |---|---|
    | `independent` | $k_{NL}(x, x')$ |
    | `linear` | $k_{NL}(x, x') + k_{Lin}(y, y')$ |
    | `linear-input-dependent` | $k_{NL}(x, x') + k_{NL}(x, x')\,k_{Lin}(y, y')$ |
    | `nonlinear` | $k_{NL}(x, x') + k_{NL}(y, y')$ |
    | `nonlinear-input-dependent` | $k_{NL}(x, x') + k_{NL}((x, y), (x', y'))$ |
    | `linear+nonlinear` | $k_{NL}(x, x') + k_{NL}(y, y') + k_{Lin}(y, y')$ |

    with $k_{Lin}(y, y') = \sum_j v_j\,y_j y'_j$. Variances of $k_{NL}$ start at one.

    Args:
        input_dim: input columns, `D`.
        kind: see above.
        nonlinear: `se` (squared exponential) or `rq` (rational quadratic).
        input_lengthscale: start value of the lengthscales of the inputs: one for all, or one for
            each column.
        output_lengthscale: start value of the lengthscales of earlier outputs.
        linear_variance: start value of every $v_j$.
        alpha: start value of the exponent of a rational quadratic.
        markov: how many of the outputs just before it a layer reads: all of them if None; none
            (independent outputs) if zero.
        inputs: whether layers from position `cross_from` on have a separate term $k_{NL}(x, x')$.
            Without it they read nothing but other outputs ("cross-channel only"), unless the kind
            reads both together.
        cross_from: see `inputs`; one or more, for the first layer has nothing else to read.

    >>> from mogp.kernels import LayerKernels
    >>> recipe = LayerKernels(input_dim=1, kind="linear", markov=2)
    >>> recipe.reads(position=3)
    range(2, 4)
    >>> [type(term).__name__ for term in recipe.layer(3).kernels]
    ['SquaredExponential', 'Linear']
    """

    input_dim: int
    kind: LayerKind = "linear+nonlinear"
    nonlinear: Literal["se", "rq"] = "se"
    input_lengthscale: float | Sequence[float] = 1.0
    output_lengthscale: float = 1.0
    linear_variance: float = 10.0
    alpha: float = 1e-2
    markov: int | None = None
    inputs: bool = True
    cross_from: int = 1

    def __post_init__(self) -> None:
        if self.input_dim < 1:
            raise ValueError(
                f"input_dim={self.input_dim}; a chain reads at least one input column."
            )
        if self.kind not in get_args(LayerKind):
            raise ValueError(
                f"kind={self.kind!r}; expected one of {', '.join(get_args(LayerKind))}."
            )
        if self.nonlinear not in ("se", "rq"):
            raise ValueError(f"nonlinear={self.nonlinear!r}; expected 'se' or 'rq'.")
        if np.ndim(self.input_lengthscale) and np.shape(self.input_lengthscale) != (
            self.input_dim,
        ):
            raise ValueError(
                f"input_lengthscale has shape {np.shape(self.input_lengthscale)}; expected one"
                f" number, or one for each of the {self.input_dim} input columns."
            )
        if self.markov is not None and self.markov < 0:
            raise ValueError(
                f"markov={self.markov}; expected a number of outputs, or None for all of them."
            )
        if self.cross_from < 1:
            raise ValueError(
                f"cross_from={self.cross_from}; the first layer (position 0) always reads the"
                " inputs."
            )

    def reads(self, position: int) -> range:
        """Columns of `[x, y]` with the earlier outputs that the layer at this position reads."""
        if position < 0:
            raise ValueError(f"position={position}; the first layer has position 0.")
        nearest = position if self.markov is None else min(self.markov, position)
        if self.kind == "independent":
            nearest = 0
        return range(self.input_dim + position - nearest, self.input_dim + position)

    def layer(self, position: int) -> Kernel:
        """A new kernel for the layer that has `position` outputs before it.

        It reads `[..., D + position]` columns. Columns are named by slices where they can be, so
        that the kernels of later layers have one form.
        """
        inputs, outputs = range(self.input_dim), self.reads(position)
        if not outputs:
            return self._nonlinear(inputs)
        terms: list[Kernel] = []
        if self.inputs or position < self.cross_from:
            terms.append(self._nonlinear(inputs))
        if self.kind == "linear-input-dependent":
            terms.append(self._nonlinear(inputs) * self._linear(outputs))
        if self.kind == "nonlinear-input-dependent":
            terms.append(self._nonlinear([*inputs, *outputs]))
        if self.kind in ("nonlinear", "linear+nonlinear"):
            terms.append(self._nonlinear(outputs))
        if self.kind in ("linear", "linear+nonlinear"):
            terms.append(self._linear(outputs))
        return reduce(add, terms)

    def _nonlinear(self, columns: Sequence[int]) -> Kernel:
        starts = np.broadcast_to(np.asarray(self.input_lengthscale, float), (self.input_dim,))
        lengthscales = [
            starts[c] if c < self.input_dim else self.output_lengthscale for c in columns
        ]
        if self.nonlinear == "se":
            return SquaredExponential(lengthscales=lengthscales, active_dims=self._dims(columns))
        return RationalQuadratic(
            lengthscales=lengthscales, alpha=self.alpha, active_dims=self._dims(columns)
        )

    def _linear(self, columns: Sequence[int]) -> Kernel:
        return Linear(
            variance=np.full(len(columns), self.linear_variance), active_dims=self._dims(columns)
        )

    def _dims(self, columns: Sequence[int]) -> slice | list[int]:
        """Columns as GPflow wants them, as slices where they can be.

        Outputs are counted from the end if the layer does not read all of them.
        """
        if isinstance(columns, range) and columns.stop == self.input_dim:
            return slice(0, self.input_dim)
        if isinstance(columns, range):
            return (
                slice(self.input_dim, None)
                if columns.start == self.input_dim
                else slice(-len(columns), None)
            )
        return list(columns)
