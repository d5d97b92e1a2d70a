"""Rows of outputs one after the other, side by side, dense: shapes in which likelihoods read
functions and targets.
"""

from __future__ import annotations

import tensorflow as tf
from gpflow.likelihoods import Likelihood

from mogp.data.batches import OutputBatch
from mogp.likelihoods import ReadsFunctions, Targets


def reads_jointly(likelihood: Likelihood) -> bool:
    """Whether the functions of a row are dependent when its targets are drawn."""
    return isinstance(likelihood, ReadsFunctions) and likelihood.joint


def dense(X: tf.Tensor | tf.SparseTensor) -> tf.Tensor:
    """Inputs whose covariances are wanted: a dense matrix, as these are."""
    return tf.sparse.to_dense(X) if isinstance(X, tf.SparseTensor) else X


def tiled(X: tf.Tensor | tf.SparseTensor, samples: int) -> tf.Tensor | None:
    """Inputs `[samples, N, P]` for a likelihood that may read them; None if they are sparse."""
    return None if isinstance(X, tf.SparseTensor) else tf.broadcast_to(X, [samples, *X.shape])


def outputs_first(values: tf.Tensor, outputs: int) -> tf.Tensor:
    """`[N, outputs x J_d]` as `[outputs x N, J_d]`."""
    if outputs == 1:
        return values
    split = tf.reshape(values, [tf.shape(values)[0], outputs, values.shape[1] // outputs])
    return tf.reshape(tf.transpose(split, [1, 0, 2]), [-1, values.shape[1] // outputs])


def targets(own: OutputBatch) -> Targets:
    """The targets of some rows."""
    return Targets(own.Y, own.observed, own.ids)
