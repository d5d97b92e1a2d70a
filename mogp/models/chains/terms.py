"""Terms of the bound of a chain: expected log-likelihoods of rows along paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from gpflow import likelihoods as stock
from gpflow.likelihoods import Likelihood

from mogp.data.batches import Batch, OutputBatch
from mogp.likelihoods import Softmax
from mogp.likelihoods.groups import groups
from mogp.models.chains.path_model import Paths

if TYPE_CHECKING:
    from mogp.models.chains.chain import LatentChain


def expectations(
    chain: LatentChain, batch: Batch, paths: Paths
) -> Iterator[tuple[tuple[int, ...], tf.Tensor]]:
    """For each group of outputs with like likelihoods: the outputs, and the weighted
    expectations of their rows.

    Rows are those of each path in turn, of each output in turn.
    """
    S = paths.number
    for group in groups(chain.likelihood.likelihoods):
        own = [(d, batch.outputs[d]) for d in group.outputs]
        parts = [paths.of(chain.likelihood.functions(d), o.rows) for d, o in own]
        f = Paths(
            *(tf.concat([getattr(part, name) for part in parts], 0) for name in Paths._fields)
        )
        Y = tf.concat([tf.tile(_standardised(chain, d, o.Y), [S, 1]) for d, o in own], 0)
        weight = tf.concat([tf.tile(o.weight / float(S), [S]) for _, o in own], 0)
        units = tf.concat(
            [tf.fill([S * tf.shape(o.weight)[0]], _log_scale(chain, d, Y.dtype)) for d, o in own],
            0,
        )
        X = tf.zeros([tf.shape(Y)[0], 0], Y.dtype)
        if group.reads_inputs:
            X = tf.concat([tf.tile(_rows(batch.X, o.rows), [S, 1]) for _, o in own], 0)
        likelihood = group.likelihood([S * tf.shape(o.weight)[0] for _, o in own])
        if reads_jointly(likelihood):
            expected = likelihood.log_prob(X, f.draws, Y)
        else:
            expected = likelihood.variational_expectations(X, f.mean, f.var, Y)
        yield group.outputs, weight * (expected - units)


def log_prob(chain: LatentChain, d: int, own: OutputBatch, X: tf.Tensor, paths: Paths) -> tf.Tensor:
    """`log p(y | h)` of an output at the drawn values, `[S, B_d]`."""
    S = paths.number
    f = paths.of(chain.likelihood.functions(d), own.rows)
    Y = tf.tile(_standardised(chain, d, own.Y), [S, 1])
    inputs = tf.tile(_rows(X, own.rows), [S, 1])
    log_p = chain.likelihood.likelihoods[d].log_prob(inputs, f.draws, Y) - _log_scale(
        chain, d, Y.dtype
    )
    return tf.reshape(log_p, [S, -1])


def _standardised(chain: LatentChain, d: int, Y: tf.Tensor) -> tf.Tensor:
    if chain.location[d] == 0 and chain.scale[d] == 1:
        return Y
    return (Y - tf.constant(chain.location[d], Y.dtype)) / tf.constant(chain.scale[d], Y.dtype)


def _log_scale(chain: LatentChain, d: int, dtype: tf.DType) -> tf.Tensor:
    return tf.constant(np.log(chain.scale[d]), dtype)


def reads_jointly(likelihood: Likelihood) -> bool:
    """Whether a likelihood is evaluated at drawn functions: it reads several, and its density is
    smooth in them.
    """
    if isinstance(likelihood, Softmax):
        return likelihood.joint
    return (likelihood.latent_dim or 1) > 1 and not isinstance(likelihood, stock.MultiClass)


def at_rows(values: tf.Tensor, rows: tf.Tensor | None, size: tf.Tensor) -> tf.Tensor:
    """`[..., B_d]` values at positions `rows` among `size`, zero elsewhere."""
    if rows is None:
        return values
    moved = tf.math.unsorted_segment_sum(tf.transpose(values), rows, size)
    return tf.transpose(moved)


def _rows(values: tf.Tensor, rows: tf.Tensor | None) -> tf.Tensor:
    return values if rows is None else tf.gather(values, rows)
