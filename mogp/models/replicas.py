"""What models of outputs with replicas have in common: predictions are of an output, in a
replica.
"""

from __future__ import annotations

from dataclasses import replace as changed
from typing import Any, ClassVar

import gpflow
import numpy as np
import tensorflow as tf

from mogp.data import Array, MultiOutputData
from mogp.data.padded import distinct_inputs
from mogp.kernels import with_replica
from mogp.models.base import MOGP, Replica

LEAST_VARIANCE = 1e-6


class ReplicatedMOGP(MOGP):
    """A model of outputs that were each observed in several replicas.

    A replica is named by its number, for all rows of `Xnew` or for each. One that was never
    observed is allowed: what is known of it is what it shares with the others.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> x, run = np.tile([0.0, 1.0, 2.0], 2), np.repeat([0, 1], 3)
    >>> data = MultiOutputData.from_arrays(x, np.column_stack([x, -x]), replica=run)

    >>> from mogp.models import HGP, ReplicatedMOGP
    >>> model = HGP(data)
    >>> isinstance(model, ReplicatedMOGP)
    True
    >>> list(model.predict([0.5], "output 0", quantiles=(), replica=1).columns)
    ['row', 'replica', 'x', 'output', 'target', 'mean', 'sd']
    """

    has_replicas: ClassVar[bool] = True

    @property
    def num_replicas(self) -> int | None:
        """How many replicas the model knows; None if any number will do."""
        return None

    def at(self, Xnew: Any, replica: Replica = None) -> tf.Tensor:
        """`[N, P + 1]`: the inputs with the replica number as last column; 0 if None."""
        X = self.scaled_inputs(self.read(Xnew))
        numbers = np.broadcast_to(np.asarray(0 if replica is None else replica), (X.shape[0],))
        if numbers.dtype.kind not in "iu" or numbers.min(initial=0) < 0:
            raise ValueError(f"replica={replica!r}; replicas are numbered 0, 1, …")
        if self.num_replicas is not None and numbers.max(initial=0) >= self.num_replicas:
            raise ValueError(
                f"replica {numbers.max()} is not in the tree of {self.num_replicas} replicas; add"
                " its path to the tree."
            )
        return with_replica(X, numbers)

    def observed_at(self, data: Any) -> tuple[tf.Tensor, list[Array]]:
        """Distinct inputs `[n, P + 1]` with the number of the replica, and the rows of each
        output.
        """
        # Numbers of nested replicas are those of their output: `_predict_y` tells them apart.
        X, rows = distinct_inputs(changed(data, nested=False))
        return tf.constant(X, gpflow.default_float()), list(rows)

    def check(self, data: MultiOutputData) -> None:
        """Raise unless the model can be trained on the data: outputs, inputs, replicas, one target
        column each.
        """
        self.check_names(data)
        wide = [o.name for o in data.outputs if o.Y.shape[1] != 1]
        if wide:
            shown = ", ".join(wide[:5]) + (", …" if len(wide) > 5 else "")
            raise ValueError(f"one target column an output is expected; {shown} has more.")
        numbers = [o.replica for o in data.outputs if o.replica is not None and len(o)]
        highest = max((int(r.max()) for r in numbers), default=0)
        if self.num_replicas is not None and highest >= self.num_replicas:
            raise ValueError(
                f"the data have replica {highest}, the tree of the model {self.num_replicas}"
                " replicas."
            )
