"""`Scaling`: the units in which a model reads its data, kept with the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mogp.data.matrices import as_dense, is_sparse
from mogp.data.table import MultiOutputData
from mogp.data.transforms import Transform

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Scaling:
    r"""Inputs and targets of order one: what a model computes with in place of the user's units.

    Column $p$ of the inputs and the targets of output $d$ are

    $$\tilde x_p = (x_p - c_p) / w_p,\qquad \tilde y_d = (g_d(y_d) - m_d) / s_d,$$

    with means and standard deviations of the training data, and a `Transform` $g_d$ of targets
    where one was asked for. A density of $y$ is that of $\tilde y$ times $g_d'(y) / s_d$. What has
    no units of its own is left alone ($m = 0$, $s = 1$): counts, shares and classes; and columns
    that never change are only moved. Sparse inputs are left alone, and are made dense where the
    training data were not sparse.

    Args:
        centre: `[P]`, $c$.
        width: `[P]`, $w$.
        location: `[D]`, $m$.
        scale: `[D]`, $s$.
        transforms: `D` of them, None for an output without; or empty, if there are none.

    >>> data = MultiOutputData.from_arrays([0.0, 2000.0], [[5.0, 1.0], [7.0, 0.0]])
    >>> scaling = Scaling.of(data, targets=[True, False])
    >>> scaling.location.tolist(), scaling.scale.tolist()
    ([6.0, 0.0], [1.0, 1.0])
    >>> scaling.data(data).X[:, 0].tolist()
    [-1.0, 1.0]
    """

    centre: Array
    width: Array
    location: Array
    scale: Array
    transforms: tuple[Transform | None, ...] = ()

    @classmethod
    def of(
        cls,
        data: MultiOutputData,
        targets: Sequence[bool] | bool = True,
        inputs: bool = True,
        transforms: Mapping[str, str] | None = None,
    ) -> Scaling:
        """Means and standard deviations of the data.

        Args:
            data: to train on.
            targets: whether each output is real-valued; or all of them, or none.
            inputs: whether input columns are scaled; sparse ones never are.
            transforms: names of transforms, "log" or "yeo-johnson", by output.
        """
        P, D = data.input_dim, data.num_outputs
        centre, width, location, scale = np.zeros(P), np.ones(P), np.zeros(D), np.ones(D)
        if inputs and data.X.shape[0] and not is_sparse(data.X):
            centre, width = _moments(data.X, axis=0)
        real = np.broadcast_to(np.asarray(targets, bool), (D,))
        chosen: list[Transform | None] = [None] * D
        for output, name in (transforms or {}).items():
            d = data.index(output)
            chosen[d] = Transform.of(name, data[d].Y[data[d].observed], output)
        for d, own in enumerate(data.outputs):
            if real[d] and len(own):
                y, g = own.Y[own.observed], chosen[d]
                location[d], scale[d] = _moments(y if g is None else g.forward(y))
        return cls(centre, width, location, scale, tuple(chosen) if transforms else ())

    @property
    def moves_inputs(self) -> bool:
        """Whether some input column is moved or scaled."""
        return bool(self.centre.any() or (self.width != 1).any())

    def inputs(self, X: Any) -> Any:
        r"""Inputs $\tilde x$ `[..., P]`.

        Args:
            X: `[..., P]`, an array or a tensor; or a sparse matrix `[N, P]`.
        """
        if not self.moves_inputs:
            return X
        X = as_dense(X)
        return (X - self.centre.astype(_kind(X))) / self.width.astype(_kind(X))

    def transform(self, output: int) -> Transform | None:
        """What targets of an output go through before they are scaled.

        Args:
            output: its position.
        """
        return self.transforms[output] if self.transforms else None

    def targets(self, y: Array, output: int) -> Array:
        r"""Targets $\tilde y$; NaN stays NaN.

        Args:
            y: of any shape.
            output: which.
        """
        m, s, g = self.location[output], self.scale[output], self.transform(output)
        if g is None and m == 0 and s == 1:
            return y
        scaled: Array = ((y if g is None else g.forward(y)) - m) / s
        return scaled

    def log_slope(self, y: Array, output: int) -> Array:
        r"""$\log\partial\tilde y / \partial y$.

        Args:
            y: targets of any shape.
            output: which.
        """
        g = self.transform(output)
        slope = np.zeros(np.shape(y)) if g is None else g.log_slope(y)
        slopes: Array = slope - np.log(self.scale[output])
        return slopes

    def joined(self, other: Scaling) -> Scaling:
        """The units of these outputs and, after them, of others.

        Args:
            other: of the same inputs.
        """
        location, scale = (
            np.concatenate(pair)
            for pair in ((self.location, other.location), (self.scale, other.scale))
        )
        return Scaling(self.centre, self.width, location, scale)

    def data(self, data: MultiOutputData) -> MultiOutputData:
        r"""The data with $\tilde x$ and $\tilde y$; data that are so already are given back.

        Args:
            data: of the outputs and columns that the scaling was made for.
        """
        if data.scaled_by is self:
            return data
        if data.scaled_by is not None:
            raise ValueError("the data are in the units of another model; give them in their own.")
        outputs = tuple(
            replace(own, Y=self.targets(own.Y, d)) for d, own in enumerate(data.outputs)
        )
        return replace(data, X=self.inputs(data.X), outputs=outputs, scaled_by=self)


def _moments(values: Array, axis: int | None = None) -> tuple[Array, Array]:
    """Mean and standard deviation; 1 in place of a deviation that is nothing but rounding."""
    mean, sd = np.asarray(np.mean(values, axis)), np.std(values, axis)
    largest = np.max(np.abs(values), axis)
    return mean, np.where(sd > 1e-12 * largest, sd, 1.0)


def _kind(X: Any) -> Any:
    dtype = X.dtype
    return dtype if isinstance(dtype, np.dtype) else dtype.as_numpy_dtype
