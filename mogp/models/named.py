"""What models with named outputs have in common: outputs by name, inputs checked, predictions as a
table.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import pandas as pd
import tensorflow as tf

from mogp.data import Array, MultiOutputData
from mogp.data.batches import input_rows
from mogp.data.labels import LabelData, is_sparse, sparse_rows
from mogp.likelihoods import PerOutput

_ROWS_AT_ONCE = 8192
_NUMBERS_AT_ONCE = 1 << 20


class NamedOutputs:
    """A model of outputs with names, each with a likelihood, over inputs of `input_dim` columns."""

    names: tuple[str, ...]
    likelihood: PerOutput

    @property
    @abstractmethod
    def input_dim(self) -> int:
        """Columns of the inputs."""

    @abstractmethod
    def predict_y(
        self, Xnew: npt.ArrayLike, output: int | str | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Predictive mean and variance of the targets at `Xnew [N, P]`, `[N, T_d]`."""

    @abstractmethod
    def predict_y_samples(
        self, Xnew: npt.ArrayLike, output: int | str, samples: int = 100, seed: int = 0
    ) -> tf.Tensor:
        """Draws of the targets of one output, `[samples, N, T_d]`."""

    def predict_classes(self, Xnew: npt.ArrayLike, output: int | str = 0) -> npt.NDArray[np.int64]:
        """The most probable class of one output at each row of `Xnew [N, P]`: labels `[N]`."""
        X, d = self._inputs(Xnew), self.index(output)
        if getattr(self.likelihood.likelihoods[d], "num_classes", 1) < 2:
            kind = type(self.likelihood.likelihoods[d]).__name__
            raise ValueError(
                f"output {self.names[d]!r} has the likelihood {kind}, which has no classes; use"
                " predict_y."
            )
        rows = max(1, min(_ROWS_AT_ONCE, _NUMBERS_AT_ONCE // len(self.likelihood.functions(d))))
        blocks = [_rows(X, start, rows) for start in range(0, X.shape[0], rows)]
        picked = [np.argmax(self.predict_y(block, d)[0], axis=-1) for block in blocks]
        return np.concatenate([np.empty(0, np.int64), *picked])

    def predict(
        self,
        Xnew: npt.ArrayLike,
        output: int | str | None = None,
        quantiles: Sequence[float] = (0.025, 0.5, 0.975),
        samples: int = 1000,
        seed: int = 0,
    ) -> pd.DataFrame:
        """Predictions as a long table: `row`, `output`, `target`, `mean`, `sd` and a column for
        each quantile.

        Quantiles are those of `samples` draws of the target; none are drawn for `quantiles=()`.
        """
        if any(not 0 < q < 1 for q in quantiles):
            raise ValueError(f"quantiles lie strictly between 0 and 1, got {list(quantiles)}.")
        X = self._inputs(Xnew)
        wanted = self.reported if output is None else [self.index(output)]
        parts = []
        for start in range(0, max(X.shape[0], 1), _ROWS_AT_ONCE):
            rows = _rows(X, start, _ROWS_AT_ONCE)
            for d in wanted:
                mean, var = (np.asarray(a) for a in self.predict_y(rows, d))
                columns: dict[str, Array] = {"mean": mean, "sd": np.sqrt(var)}
                if quantiles:
                    draws = np.asarray(self.predict_y_samples(rows, d, samples, seed + start))
                    draws = _as_indicators(draws, mean.shape[-1])
                    for q, values in zip(
                        quantiles, np.quantile(draws, quantiles, axis=0), strict=True
                    ):
                        columns[f"q{q:g}"] = values
                index = pd.MultiIndex.from_product(
                    [range(start, start + len(mean)), range(mean.shape[-1])],
                    names=["row", "target"],
                )
                part = pd.DataFrame(
                    {k: v.reshape(-1) for k, v in columns.items()}, index=index
                ).reset_index()
                part.insert(1, "output", self.names[d])
                parts.append(part)
        return pd.concat(parts, ignore_index=True)

    @property
    def reported(self) -> range:
        """The outputs that predictions are of unless one is named: all."""
        return range(len(self.names))

    def index(self, output: int | str) -> int:
        """Position of an output given by name or position."""
        if isinstance(output, str):
            if output not in self.names:
                raise KeyError(
                    f"no output {output!r}; the outputs are {', '.join(map(repr, self.names))}."
                )
            return self.names.index(output)
        if not 0 <= output < len(self.names):
            raise IndexError(f"no output {output}; there are {len(self.names)}.")
        return output

    @property
    def _columns(self) -> int:
        """Columns of the inputs as kernels read them: replica numbers, where there are any, among
        them.
        """
        return self.input_dim

    def _check_fits(self, data: MultiOutputData | LabelData) -> None:
        if data.num_outputs != len(self.names):
            raise ValueError(
                f"the data have {data.num_outputs} outputs ({', '.join(data.names)}), "
                f"the model has {len(self.names)} ({', '.join(self.names)})."
            )
        if data.names != self.names and sorted(data.names) == sorted(self.names):
            raise ValueError(
                f"the data have the outputs in the order {', '.join(data.names)}, the model in the"
                f" order {', '.join(self.names)}; build the data in the order of the model."
            )
        if data.input_dim != self._columns:
            raise ValueError(
                f"the data have {data.input_dim} input columns, the model reads {self._columns}."
            )
        self.likelihood.check(data)

    def _inputs(self, Xnew: Any) -> tf.Tensor | tf.SparseTensor:
        if is_sparse(Xnew):
            X = input_rows(sparse_rows(Xnew))(tf.range(Xnew.shape[0], dtype=tf.int64))
        elif isinstance(Xnew, tf.SparseTensor) or tf.is_tensor(Xnew):
            X = tf.cast(Xnew, gpflow.default_float())
        else:
            X = tf.convert_to_tensor(np.asarray(Xnew), gpflow.default_float())
        if X.shape.rank == 1:
            X = X[:, None]
        expected = self._columns
        if X.shape.rank != 2 or X.shape[1] != expected:
            raise ValueError(
                f"Xnew has shape {tuple(X.shape)}; expected [N, {expected}], as the inducing"
                " inputs."
            )
        return X


def _rows(X: tf.Tensor | tf.SparseTensor, start: int, count: int) -> tf.Tensor | tf.SparseTensor:
    """Rows `start`, …, at most `count` of them."""
    if isinstance(X, tf.SparseTensor):
        return tf.sparse.slice(X, [start, 0], [count, X.shape[1]])
    return X[start : start + count]


def _as_indicators(draws: Array, targets: int) -> Array:
    """Drawn class labels `[S, N, 1]` as indicators `[S, N, C]`, where the predictive mean has a
    column a class.
    """
    if draws.shape[-1] == targets:
        return draws
    indicators: Array = (draws == np.arange(targets)).astype(float)
    return indicators
