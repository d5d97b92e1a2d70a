"""What models of outputs with replicas have in common: predictions at inputs, for an output, in a
replica.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import gpflow
import numpy as np
import numpy.typing as npt
import pandas as pd
import tensorflow as tf

from mogp.data import Array, MultiOutputData
from mogp.data.padded import distinct_inputs
from mogp.kernels import with_replica
from mogp.priors import Marginals

Replica = int | npt.ArrayLike
LEAST_VARIANCE = 1e-6
_MOST_UNUSED = 10


class ReadsReplicas:
    """Predictions of a model with named outputs, each observed in several replicas.

    A replica is named by its number, for all rows of `Xnew` or for each. One that was never
    observed is allowed: what is known of it is what it shares with the others.
    """

    names: tuple[str, ...]
    _input_dim: int

    @property
    def input_dim(self) -> int:
        """Columns of the inputs, without the replica number."""
        return self._input_dim

    @property
    def num_replicas(self) -> int | None:
        """How many replicas the model knows; None if any number will do."""
        return None

    @abstractmethod
    def moments(self, X: tf.Tensor, outputs: Sequence[int], noise: bool) -> Marginals:
        """Predictive mean and variance `[N, len(outputs)]` of the functions, or with `noise` of the
        targets.

        Args:
            X: `[N, P + 1]`, the replica number as last column.
            outputs: which.
            noise: of the targets rather than of the functions.
        """

    def predict_f(
        self, Xnew: npt.ArrayLike, output: int | str | None = None, replica: Replica = 0
    ) -> Marginals:
        """Mean and variance of the latent functions at `Xnew [N, P]` in a replica: `[N, 1]`, or
        `[N, D]` for all.
        """
        return self.moments(self.at(Xnew, replica), self._wanted(output), noise=False)

    def predict_y(
        self, Xnew: npt.ArrayLike, output: int | str | None = None, replica: Replica = 0
    ) -> Marginals:
        """Mean and variance of the targets at `Xnew [N, P]` in a replica: `[N, 1]`, or `[N, D]` for
        all outputs.
        """
        return self.moments(self.at(Xnew, replica), self._wanted(output), noise=True)

    def predictions(self, data: MultiOutputData) -> pd.DataFrame:
        """Observed targets beside their predictions: `output`, `replica`, input columns, `target`,
        `mean`, `sd`.
        """
        X, rows = distinct_inputs(data)
        at, outputs = (
            tf.constant(X, gpflow.default_float()),
            [self.index(own.name) for own in data.outputs],
        )
        shared = len(X) <= _MOST_UNUSED * max(map(len, rows))
        everywhere = np.asarray(self.moments(at, outputs, noise=True)) if shared else None
        parts = []
        for d, (own, where) in enumerate(zip(data.outputs, rows, strict=True)):
            if everywhere is None:
                mean, var = np.asarray(
                    self.moments(tf.gather(at, where), [outputs[d]], noise=True)
                )[..., 0]
            else:
                mean, var = everywhere[:, where, d]
            columns = {
                f"x{p}" if data.input_dim > 1 else "x": data.inputs(d)[:, p]
                for p in range(data.input_dim)
            }
            seen = {
                "output": own.name,
                "replica": X[where, -1].astype(int),
                **columns,
                "target": own.Y[:, 0],
            }
            parts.append(pd.DataFrame({**seen, "mean": mean, "sd": np.sqrt(var)}))
        return pd.concat(parts, ignore_index=True)

    def at(self, Xnew: npt.ArrayLike, replica: Replica) -> tf.Tensor:
        """`[N, P + 1]`: the inputs with the replica number as last column."""
        X: Array = np.asarray(Xnew, dtype=float)
        X = X[:, None] if X.ndim == 1 else X
        if X.ndim != 2 or X.shape[1] != self.input_dim:
            raise ValueError(f"Xnew has shape {X.shape}; expected [N, {self.input_dim}].")
        numbers = np.broadcast_to(np.asarray(replica), (len(X),))
        if numbers.dtype.kind not in "iu" or numbers.min(initial=0) < 0:
            raise ValueError(f"replica={replica!r}; replicas are numbered 0, 1, …")
        if self.num_replicas is not None and numbers.max(initial=0) >= self.num_replicas:
            raise ValueError(
                f"replica {numbers.max()} is not in the tree of {self.num_replicas} replicas; add"
                " its path to the tree."
            )
        return with_replica(X, numbers)

    def index(self, output: int | str) -> int:
        """Position of an output given by name or position."""
        if isinstance(output, str):
            if output not in self.names:
                shown = ", ".join(map(repr, self.names[:10])) + (
                    ", …" if len(self.names) > 10 else ""
                )
                raise KeyError(f"no output {output!r}; the outputs are {shown}.")
            return self.names.index(output)
        if not 0 <= output < len(self.names):
            raise IndexError(f"no output {output}; there are {len(self.names)}.")
        return output

    def _wanted(self, output: int | str | None) -> Sequence[int]:
        return range(len(self.names)) if output is None else [self.index(output)]

    def check(self, data: MultiOutputData) -> None:
        """Raise unless the model can be trained on the data: outputs, inputs, replicas, one target
        column each.
        """
        if data.names != self.names:
            raise ValueError(
                f"the data have {data.num_outputs} outputs ({_some(data.names)}), the model has"
                f" {len(self.names)} ({_some(self.names)}); names and order must agree."
            )
        if data.input_dim != self.input_dim:
            raise ValueError(
                f"the data have {data.input_dim} input columns, the model reads {self.input_dim}."
            )
        wide = [o.name for o in data.outputs if o.Y.shape[1] != 1]
        if wide:
            raise ValueError(f"one target column an output is expected; {_some(wide)} has more.")
        numbers = [o.replica for o in data.outputs if o.replica is not None and len(o)]
        highest = max((int(r.max()) for r in numbers), default=0)
        if self.num_replicas is not None and highest >= self.num_replicas:
            raise ValueError(
                f"the data have replica {highest}, the tree of the model {self.num_replicas}"
                " replicas."
            )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
