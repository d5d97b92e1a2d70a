"""Points to predict at: arrays, frames, tensors and sparse matrices as one kind of tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from mogp.data import InputColumn, is_sparse, read_inputs, sparse_rows
from mogp.data.batches import input_rows


def read_points(Xnew: Any, columns: Sequence[InputColumn]) -> tf.Tensor | tf.SparseTensor:
    """Inputs `[N, P]` for a model with these columns: finite, in the precision of GPflow.

    Args:
        Xnew: an array or tensor, dense or sparse, or a data frame, which is read by name.
        columns: `P` of them.

    >>> read_points([0.5, 0.7], [InputColumn()]).shape.as_list()
    [2, 1]
    """
    if isinstance(Xnew, tf.SparseTensor):
        Xnew = tf.sparse.reorder(Xnew)
    if is_sparse(Xnew):
        rows = sparse_rows(Xnew)
        bad = int(np.sum(~np.isfinite(rows.data)))
        if bad:
            raise ValueError(
                f"Xnew has {bad} entries that are not finite; inputs must be finite numbers."
            )
        Xnew = input_rows(rows)(tf.range(rows.shape[0], dtype=tf.int64))
    symbolic = tf.is_tensor(Xnew) and not tf.executing_eagerly()
    if symbolic or isinstance(Xnew, tf.SparseTensor):
        if Xnew.shape.rank != 2 or Xnew.shape[1] != len(columns):
            raise ValueError(
                f"Xnew has shape {tuple(Xnew.shape)}; expected [N, {len(columns)}], as the model"
                " reads."
            )
        return tf.cast(Xnew, gpflow.default_float())
    X = read_inputs(np.asarray(Xnew) if tf.is_tensor(Xnew) else Xnew, columns, "Xnew")
    return tf.convert_to_tensor(X, gpflow.default_float())
