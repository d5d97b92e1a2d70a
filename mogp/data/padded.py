"""Many outputs side by side: their rows as one padded table, for models with a latent variable for
each output.

A batch of `mogp.data.batches` holds a tensor for every output, which is right for a few outputs
that differ. Models whose outputs are all alike but for a latent variable have thousands of them:
here output `d` is row `d` of a table.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import gpflow
import numpy as np
import tensorflow as tf
from check_shapes import check_shapes

from mogp.data import Array, MultiOutputData
from mogp.data.matrices import check_dense
from mogp.data.replicas import replica_numbers
from mogp.data.shuffle import shuffled
from mogp.forms import handed

__all__ = ["BatchSize", "PaddedBatch", "PaddedSource", "distinct_inputs", "replica_numbers"]

BatchSize: TypeAlias = int | tuple[int | None, int | None] | None
"""Outputs a step, or (outputs, rows of each); None for all."""


class PaddedBatch(NamedTuple):
    r"""Some outputs, some rows of each.

    Attributes:
        X: `[U, P + 1]` distinct inputs, the replica number as last column.
        outputs: `[B]` which outputs.
        rows: `[B, n]` rows of `X` at which each was observed; None if every output was observed at
            all of them.
        Y: `[B, n]` targets; where there is none, any of the data.
        weight: `[B, n]` what a target counts in the data term, 0 where there is none; None if all
            count `scale`.
        scale: `[]`, what an output counts, all outputs / outputs in the batch.

    >>> batch = PaddedSource(MultiOutputData.from_arrays([5.0, 6.0], np.ones((2, 3))))(0)
    >>> batch.Y.shape.as_list(), batch.X.numpy().tolist()
    ([3, 2], [[5.0, 0.0], [6.0, 0.0]])
    """

    X: tf.Tensor
    outputs: tf.Tensor
    rows: tf.Tensor | None
    Y: tf.Tensor
    weight: tf.Tensor | None
    scale: tf.Tensor


class PaddedSource:
    r"""Calling it with a step gives that step's batch of outputs, and of rows of each.

    The outputs are read in passes, each a fresh random order, and so are the rows of each output. A
    target of output $d$ counts $\frac{D}{B}\frac{N_d}{n_d}$, so that the expected data term is that
    of all data. An output without observations has targets of weight 0 only.

    Args:
        data: one target column an output.
        size: outputs a step, or (outputs, rows of each); None for all.
        seed: the one seed of all draws.

    >>> data = MultiOutputData.from_arrays([5.0, 6.0], np.ones((2, 3)))
    >>> source = PaddedSource(data, size=(2, 1))
    >>> source(0).Y.shape.as_list(), source(0).weight.numpy()[0], source.steps_per_epoch
    ([2, 1], array([3.]), 4)
    """

    _untraced = ("seed",)

    def __init__(self, data: MultiOutputData, size: BatchSize = None, seed: int = 0) -> None:
        self.seed, self._seed = int(seed), handed(int(seed), tf.int64)
        wide = [o.name for o in data.outputs if o.Y.shape[1] != 1]
        if wide:
            raise ValueError(
                f"one target column an output is expected; {', '.join(wide[:3])} has more."
            )
        check_dense(data.X)
        self.X, rows = distinct_inputs(data)
        self.sizes = np.array([len(o) for o in data.outputs])
        self.num_outputs, self.longest = len(self.sizes), int(self.sizes.max())
        self.B, self.n = _sizes(size, self.num_outputs, self.longest)
        # Places without a target hold one of the data: a likelihood may know no value at another.
        filler = next((o.Y[0, 0] for o in data.outputs if len(o)), 0.0)
        Y = np.full((self.num_outputs, self.longest), filler, float)
        place = np.zeros((self.num_outputs, self.longest), np.int64)
        for d, (own, where) in enumerate(zip(data.outputs, rows, strict=True)):
            Y[d, : len(own)], place[d, : len(own)] = own.Y[:, 0], where
        everywhere = np.arange(len(self.X))
        self.common = self.longest == len(self.X) and all(
            np.array_equal(where, everywhere) for where in rows
        )
        dtype = gpflow.default_float()
        self._X, self._Y = handed(self.X, dtype), handed(Y, dtype)
        self._rows = None if self.common else handed(place, tf.int64)
        self._sizes = handed(self.sizes, tf.int64)

    @property
    def steps_per_epoch(self) -> int:
        """Steps after which every row of every output has been seen about once."""
        return -(-self.num_outputs // self.B) * -(-self.longest // self.n)

    def __call__(self, step: tf.Tensor | int) -> PaddedBatch:
        """The batch of step `step` (0, 1, …)."""
        dtype, turn = self._Y.dtype, tf.cast(step, tf.int64)
        X, Y = (tf.convert_to_tensor(values) for values in (self._X, self._Y))
        if self.num_outputs == self.B:
            outputs = tf.range(self.num_outputs, dtype=tf.int64)
            rows = None if self._rows is None else tf.convert_to_tensor(self._rows)
        else:
            position = turn * self.B + tf.range(self.B, dtype=tf.int64)
            outputs, turn = (
                shuffled(position, self.num_outputs, self._seed),
                position // self.num_outputs,
            )
            Y = tf.gather(Y, outputs)
            rows = None if self._rows is None else tf.gather(self._rows, outputs)
        scale = tf.constant(self.num_outputs / self.B, dtype)
        if self.n < self.longest:
            Y, rows, weight = self._some_rows(turn, outputs, Y, rows)
            return PaddedBatch(X, outputs, rows, Y, weight * scale, scale)
        weight = None
        if rows is not None:
            sizes = tf.gather(self._sizes, outputs)
            weight = scale * tf.cast(tf.range(self.longest, dtype=tf.int64) < sizes[:, None], dtype)
        return PaddedBatch(X, outputs, rows, Y, weight, scale)

    def _some_rows(
        self, turn: tf.Tensor, outputs: tf.Tensor, Y: tf.Tensor, rows: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """The `turn`-th draw of `n` rows of each output, a turn `[]` or `[B]`; those with fewer
        give them all.
        """
        # An empty output draws from one row that is not there, with weight 0.
        there = tf.gather(self._sizes, outputs)[:, None]
        sizes = tf.maximum(there, 1)
        taken = tf.minimum(sizes, self.n)
        offset = tf.range(self.n, dtype=tf.int64)[None]
        seeds = self._seed * 1_000_003 + 1 + outputs[:, None]
        position = tf.reshape(turn, [-1, 1]) * taken + tf.minimum(offset, taken - 1)
        picked = shuffled(position, sizes, seeds)
        counts = tf.cast(offset < tf.minimum(there, self.n), Y.dtype)
        present = counts * tf.cast(sizes, Y.dtype) / tf.cast(taken, Y.dtype)
        rows = picked if rows is None else tf.gather(rows, picked, batch_dims=1)
        return tf.gather(Y, picked, batch_dims=1), rows, present


@check_shapes("return[0]: [U, P_plus_one]", "return[1][all]: [.]")
def distinct_inputs(data: MultiOutputData) -> tuple[Array, list[Array]]:
    """The distinct `[x, replica]` of all outputs `[U, P + 1]`, and where among them the rows of
    each output are.

    They are in the order in which the data have them. Data without replicas have replica 0
    everywhere; nested replicas are told apart (`replica_numbers`).

    Args:
        data: of `D` outputs.

    >>> data = MultiOutputData.from_arrays([5.0, 5.0], [1.0, 2.0], replica=[0, 1])
    >>> distinct_inputs(data)
    (array([[5., 0.],
           [5., 1.]]), [array([0, 1])])
    """
    D, nested = data.num_outputs, data.nested
    numbers = [
        replica_numbers(
            np.zeros(len(o), np.int64) if o.replica is None else o.replica, d, D, nested
        )
        for d, o in enumerate(data.outputs)
    ]
    pairs = np.concatenate(
        [np.column_stack([o.rows, r]) for o, r in zip(data.outputs, numbers, strict=True)]
    )
    distinct, first, where = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    X = np.column_stack([data.X[distinct[order, 0]], distinct[order, 1]])
    ends = np.cumsum([len(o) for o in data.outputs])
    return X, np.split(rank[where.reshape(-1)], ends[:-1])


def _sizes(size: BatchSize, outputs: int, rows: int) -> tuple[int, int]:
    B, n = size if isinstance(size, tuple) else (size, None)
    for value, what in ((B, "outputs"), (n, "rows of each output")):
        if value is not None and (not isinstance(value, int | np.integer) or value < 1):
            raise ValueError(
                f"{value!r} {what} a step; expected a whole number of at least 1, or None for all."
            )
    return min(int(B or outputs), outputs), min(int(n or rows), rows)
