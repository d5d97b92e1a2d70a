"""`ReadsData`: what a model is of: outputs with names, input columns, and the units it works in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from mogp.data import (
    Array,
    InputColumn,
    LabelData,
    MultiOutputData,
    Output,
    Scaling,
    Schema,
    is_sparse,
)
from mogp.data.batches import input_rows
from mogp.errors import UnsupportedError
from mogp.models.naming import listed
from mogp.models.points import read_points
from mogp.priors import Marginals

Data = MultiOutputData | LabelData
Replica = int | npt.ArrayLike | None


class ReadsData(ABC):
    """The names, columns and units of a model: the part of `MOGP` that computes nothing.

    Attributes:
        schema: names of outputs, input columns and classes: those of the data the model was built
            from, or else of the first it is fitted on.
        scaling: the units in which the model computes. Inputs, targets and predictions are in those
            of the data all the same; kernels and noises are of scaled data. None if there is none.
        reads_sparse: whether its kernels read inputs as sparse matrices.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import ExactLMC
    >>> model = ExactLMC(MultiOutputData.from_arrays([0.0, 1.0], [[2.0, 5.0], [4.0, 5.0]]))
    >>> model.index("output 1"), model.scaled(MultiOutputData.from_arrays([0.5], [[3.0, 6.0]]))
    (1, MultiOutputData(2 outputs over 1 inputs of dimension 1; 'output 0': 1, 'output 1': 1))
    """

    schema: Schema
    scaling: Scaling | None = None
    has_replicas: ClassVar[bool] = False
    reads_sparse: ClassVar[bool] = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return self.schema.names

    @property
    @abstractmethod
    def input_dim(self) -> int:
        """Columns of the inputs, `P`, without a replica number."""

    @property
    def reported(self) -> range:
        """The outputs that predictions of targets are of unless one is named: all."""
        return range(len(self.names))

    def index(self, output: int | str) -> int:
        """Position of an output given by name or position."""
        if isinstance(output, str):
            if output not in self.names:
                raise KeyError(f"no output {output!r}; the outputs are {listed(self.names)}.")
            return self.names.index(output)
        if not 0 <= output < len(self.names):
            raise IndexError(f"no output {output}; there are {len(self.names)}.")
        return int(output)

    # --- inputs and data

    def at(self, Xnew: Any, replica: Replica = None) -> tf.Tensor | tf.SparseTensor:
        """Inputs as the kernels read them, checked: `[N, P]`, or `[N, P + 1]` with a replica.

        Args:
            Xnew: an array or tensor, dense or sparse, or a data frame.
            replica: see `predict_f`.
        """
        if replica is not None:
            raise self.unsupported("has no replicas", "Leave replica out, or use hmogp_lv or HGP.")
        return self.scaled_inputs(self.read(Xnew))

    def read(self, Xnew: Any) -> tf.Tensor | tf.SparseTensor:
        """Inputs `[N, P]`, checked, in the units of the data.

        Args:
            Xnew: see `at`.
        """
        if (is_sparse(Xnew) or isinstance(Xnew, tf.SparseTensor)) and not self.reads_sparse:
            raise self.unsupported("does not read sparse inputs", "Give it Xnew.toarray().")
        return read_points(Xnew, self.schema.columns or (InputColumn(),) * self.input_dim)

    def aligned(self, data: Any) -> Any:
        """Data to predict, with an empty output for each of the model that they lack; raise unless
        they are of this model.

        Args:
            data: of some or all outputs, in the order of the model.
        """
        self.check_names(data, some=True)
        if isinstance(data, LabelData) or len(data.names) == len(self.names):
            return data
        there = {o.name: o for o in data.outputs}
        return replace(
            data, outputs=tuple(there.get(n, Output.without_rows(n)) for n in self.names)
        )

    def check_names(self, data: Data, some: bool = False) -> None:
        """Raise unless outputs and input columns of the data are those of the model.

        Args:
            data: to train on, or to predict.
            some: whether outputs may be missing.
        """
        self.schema.check(data.schema, some=some)
        if data.input_dim != self.input_dim:
            raise ValueError(
                f"the data have {data.input_dim} input columns, the model reads {self.input_dim}."
            )

    def of_data(self, found: dict[str, tf.Tensor], data: Data) -> dict[str, tf.Tensor]:
        """What was found for all outputs, for those that the data have."""
        missing = set(self.names) - set(data.names) if len(data.names) < len(self.names) else ()
        return {name: values for name, values in found.items() if name not in missing}

    def observed_at(self, data: Data) -> tuple[tf.Tensor, list[Array]]:
        """Inputs in the units that the data have, with a replica number where the model reads one,
        and for each output the rows at which it was observed.

        Args:
            data: aligned.
        """
        X = input_rows(data.X)(None)
        if isinstance(data, LabelData):
            return X, [np.arange(data.num_points)]
        return X, [o.rows for o in data.outputs]

    def _wanted(self, output: int | str | None) -> Sequence[int]:
        return self.reported if output is None else [self.index(output)]

    def unsupported(self, what: str, instead: str) -> UnsupportedError:
        """The error for what the model cannot do.

        Args:
            what: it cannot do, or has not.
            instead: what to use.
        """
        return UnsupportedError(f"{type(self).__name__} {what}. {instead}")

    # --- units

    def scaled(self, data: Any) -> Any:
        """Data as the kernels and likelihoods read them.

        Args:
            data: of all outputs of the model, in their own units; or scaled by it already.
        """
        return data if self.scaling is None else self.scaling.data(data)

    def scaled_inputs(self, X: tf.Tensor | tf.SparseTensor) -> tf.Tensor | tf.SparseTensor:
        """Inputs as the kernels read them.

        Args:
            X: `[N, P]`, or `[N, P + 1]` with a replica number, in the units of the data.
        """
        if self.scaling is None:
            return X
        if isinstance(X, tf.SparseTensor):
            if not self.scaling.moves_inputs:
                return X
            X = tf.sparse.to_dense(X)
        P = self.input_dim
        return tf.concat([self.scaling.inputs(X[:, :P]), X[:, P:]], 1)

    def log_jacobian(self, data: Data) -> list[Array]:
        r"""$\log\partial y / \partial\tilde y$ of targets that were observed, summed over a row,
        `[N_d]` by output.

        What the log density of scaled targets has too much, given the data's own units.

        Args:
            data: aligned.
        """
        if self.scaling is None or isinstance(data, LabelData):
            return [np.zeros(1)] * len(self.names)
        return [
            -np.sum(np.where(own.observed, self.scaling.log_slope(own.Y, d), 0.0), 1)
            for d, own in enumerate(data.outputs)
        ]

    def jacobian(self, data: Any) -> float:
        """What a bound of scaled data is higher by than that of the data; 0 for a batch of them.

        Args:
            data: of all outputs, or a batch.
        """
        if not isinstance(data, MultiOutputData) or data.scaled_by is not None:
            return 0.0
        return float(sum(np.sum(one) for one in self.log_jacobian(self.aligned(data))))

    def _y_draws(self, Y: tf.Tensor, outputs: Sequence[int]) -> tf.Tensor:
        """Draws `[S, N, T]` of targets in the units of the data."""
        m, s = (a[list(outputs)] for a in self._affine())
        values = Y * s + m if m.any() or (s != 1).any() else Y
        if self.scaling is None or not self.scaling.transforms:
            return values
        each = zip(outputs, np.moveaxis(np.asarray(values), -1, 0), strict=True)
        back = ((self.scaling.transform(d), own) for d, own in each)
        return tf.stack([own if g is None else g.inverse(own) for g, own in back], -1)

    def _f_units(self, f: Marginals, outputs: Sequence[int]) -> Marginals:
        """Mean and variances (or covariances `[J, N, N]`) of functions in the units of the data."""
        if not self._has_units:
            return f
        m, s = self._of_functions(outputs)
        return Marginals(f.mean * s + m, f.var * _squared(s, f.var.shape.rank))

    def _f_draws(self, F: tf.Tensor, outputs: Sequence[int]) -> tf.Tensor:
        """Draws `[S, N, J]` of functions in the units of the data."""
        if not self._has_units:
            return F
        m, s = self._of_functions(outputs)
        return F * s + m

    @property
    def _has_units(self) -> bool:
        """Whether targets of some output are scaled."""
        m, s = self._affine()
        return bool(m.any() or (s != 1).any())

    def _affine(self) -> tuple[Array, Array]:
        """Location and scale of the targets, `[D]`."""
        if self.scaling is None:
            return np.zeros(len(self.names)), np.ones(len(self.names))
        return self.scaling.location, self.scaling.scale

    def _of_functions(self, outputs: Sequence[int]) -> tuple[Array, Array]:
        """What the functions of some outputs are multiplied by and moved by, `[J]`: one function an
        output, unless a family says otherwise.
        """
        m, s = self._affine()
        return m[list(outputs)], s[list(outputs)]


def _squared(s: Array, rank: int) -> Array:
    """Squares to multiply variances `[N, J]`, or covariances `[J, N, N]`, by."""
    return s**2 if rank == 2 else (s**2)[:, None, None]
