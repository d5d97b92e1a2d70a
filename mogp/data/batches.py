"""Mini-batches inside the compiled graph: which rows belong to step `t` is a pure function of the
seed and `t`.

Every output is read in passes; each pass is a fresh random permutation of its rows, computed
element by element with a small Feistel cipher. A step therefore costs the same for a hundred rows
and for a hundred million, nothing is stored between steps, and a run resumed at step `t` sees
exactly the rows it would have seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import gpflow
import numpy as np
import tensorflow as tf

from mogp.data import MultiOutputData
from mogp.data.drawn import Drawn, OutputBatch, OutputTables
from mogp.data.labels import LabelData, Matrix, is_sparse
from mogp.data.shuffle import shuffled
from mogp.forms import handed

__all__ = [
    "Batch",
    "BatchSource",
    "Batches",
    "LabelBatches",
    "Labels",
    "OutputBatch",
    "full_batch",
    "gather_rows",
    "input_rows",
    "shuffled",
]


@runtime_checkable
class Batches(Protocol):
    """What training reads: the batch of a step is a pure function of the seed and the step.

    `BatchSource`, `LabelBatches`, `mogp.data.class_batches.ClassBatches` and
    `mogp.data.padded.PaddedSource` are such sources, each made by `(data, size=None, seed=0, …)`.

    Attributes:
        seed: the one seed of all draws.

    >>> isinstance(MultiOutputData.from_arrays([0.0], [1.0]).batches(), Batches)
    True
    """

    seed: int

    @property
    def steps_per_epoch(self) -> int:
        """Steps after which everything has been seen about once."""

    def __call__(self, step: Any) -> Any:
        """The batch of step `step` (0, 1, …)."""


class Labels(NamedTuple):
    """The labels that the rows of a batch have, one after the other: row `row[j]` has label
    `label[j]`.

    Attributes:
        row: `[n]`, ascending.
        label: `[n]`, ascending within a row.
        count: `[B]`, how many labels each row has.

    >>> data = LabelData.of(np.eye(2), [[0, 2], [1]])
    >>> labels = data.full().outputs[0].Y
    >>> labels.row.numpy(), labels.label.numpy(), labels.count.numpy()
    (array([0, 0, 1]), array([0, 2, 1]), array([2, 1]))
    """

    row: tf.Tensor
    label: tf.Tensor
    count: tf.Tensor


class Batch(NamedTuple):
    """Inputs, and, for every output, its rows among them.

    Attributes:
        X: `[B, P]`, a tensor, or a `tf.SparseTensor` where the data's inputs are sparse.
        outputs: `D` of them; `together` reads several at once.

    >>> batch = MultiOutputData.from_arrays([5.0, 6.0], np.ones((2, 3))).full()
    >>> batch.X.shape.as_list(), len(batch.outputs)
    ([2, 1], 3)
    """

    X: tf.Tensor | tf.SparseTensor
    outputs: Sequence[OutputBatch]


def full_batch(data: MultiOutputData) -> Batch:
    """All rows of all outputs, each with weight one.

    Args:
        data: of `D` outputs.

    >>> full_batch(MultiOutputData.from_arrays([5.0, 6.0], [1.0, 2.0])).outputs[0].weight.numpy()
    array([1., 1.])
    """
    return BatchSource(data)(0)


class BatchSource:
    r"""Calling it with a step gives that step's mini-batch.

    With one `size` and outputs that share inputs, `B` rows of the input matrix are drawn for all
    outputs together and an output that was not observed at a row gets weight 0 there. Otherwise
    each output draws `B_d` of its own `N_d` rows. In both cases the expected data term is that of
    the full data, $\sum_d \frac{N_d}{B_d}\sum_{n \in B_d}$. An output without observations has no
    rows in any batch.

    Args:
        data: what to draw from.
        size: rows a step: one number, or one for each output (by name or in order); None takes all
            rows every step.
        seed: the one seed of all draws.

    >>> data = MultiOutputData.from_arrays(np.arange(6.0), np.arange(6.0))
    >>> source = BatchSource(data, size=2, seed=1)
    >>> seen = [source(step).outputs[0].ids.numpy() for step in range(source.steps_per_epoch)]
    >>> np.sort(np.concatenate(seen))
    array([0, 1, 2, 3, 4, 5])
    """

    _untraced = ("data", "seed")

    def __init__(
        self,
        data: MultiOutputData,
        size: int | Mapping[str, int] | Sequence[int] | None = None,
        seed: int = 0,
    ) -> None:
        self.data = data
        self._rows, self._own_rows = data.X.shape[0], data.sizes
        self.seed, self._seed = int(seed), handed(int(seed), tf.int64)
        self.sizes = _sizes(data, size)
        self._joint = isinstance(size, int | np.integer) and data.shares_inputs
        self._inputs = input_rows(data.X)
        self._tables = OutputTables(data.outputs, self._rows, spread=self._joint)

    @property
    def steps_per_epoch(self) -> int:
        """Steps after which every row has been seen about once."""
        if self.sizes is None:
            return 1
        if self._joint:
            return -(-self._rows // self.sizes[0])
        return max(-(-n // b) for n, b in zip(self.data.sizes, self.sizes, strict=True) if b)

    def __call__(self, step: tf.Tensor | int) -> Batch:
        """The batch of step `step` (0, 1, …)."""
        if self.sizes is None:
            drawn = Drawn(self._tables, self._own_rows, [1.0] * len(self._own_rows))
            return Batch(self._inputs(None), drawn)
        step = tf.cast(step, tf.int64)
        if self._joint:
            picked = self._draw(step, self.sizes[:1], [self._rows])
            sizes = [self.sizes[0] if n else 0 for n in self._own_rows]
            scale = [self._rows / self.sizes[0]] * len(sizes)
            drawn = Drawn(self._tables, sizes, scale, picked, shared=True)
            return Batch(self._inputs(picked), drawn)
        picked = self._draw(step, self.sizes, self._own_rows)
        scale = [
            n / size if size else 0.0 for n, size in zip(self._own_rows, self.sizes, strict=True)
        ]
        drawn = Drawn(self._tables, self.sizes, scale, picked)
        return Batch(self._inputs(drawn.ids), drawn)

    def _draw(self, step: tf.Tensor, sizes: Sequence[int], totals: Sequence[int]) -> tf.Tensor:
        """`sizes[d]` rows of the `totals[d]` of each output `d`, one output after the other."""
        each = np.repeat(np.arange(len(sizes)), sizes)
        size, total = np.asarray(sizes)[each], np.asarray(totals)[each]
        offset = np.concatenate([np.arange(n) for n in sizes])
        return shuffled(step * size + offset, total, self._seed * 1_000_003 + each)


class LabelBatches:
    """As `BatchSource`, for points with labels.

    Args:
        data: what to draw from.
        size: points a step; None takes all of them every step.
        seed: the one seed of all draws.

    >>> data = LabelData.of(np.eye(4), [[0], [1], [0, 1], []])
    >>> batch = LabelBatches(data, size=2)(0)
    >>> batch.X.shape.as_list(), batch.outputs[0].weight.numpy()
    ([2, 4], array([2., 2.]))
    """

    _untraced = ("data", "seed")

    def __init__(self, data: LabelData, size: int | None = None, seed: int = 0) -> None:
        if size is not None and (not isinstance(size, int | np.integer) or size < 1):
            raise ValueError(
                f"the batch size is {size!r}; expected a whole number of at least 1, or None for"
                " all."
            )
        self.data, self._points = data, data.num_points
        self.seed, self._seed = int(seed), handed(int(seed), tf.int64)
        self.size = data.num_points if size is None else min(int(size), data.num_points)
        self._inputs = input_rows(data.X)
        self._starts = handed(data.Y.indptr, tf.int64)
        self._labels = handed(data.Y.indices, tf.int64)

    @property
    def steps_per_epoch(self) -> int:
        """Steps after which every point has been seen about once."""
        return -(-self.data.num_points // self.size)

    def __call__(self, step: tf.Tensor | int) -> Batch:
        """The batch of step `step` (0, 1, …)."""
        points = self._points
        picked = tf.range(self.size, dtype=tf.int64)
        if self.size < points:
            picked = shuffled(tf.cast(step, tf.int64) * self.size + picked, points, self._seed)
        row, place, count = _ragged(self._starts, picked)
        weight = tf.fill([self.size], tf.constant(points / self.size, gpflow.default_float()))
        labels = Labels(row, tf.gather(self._labels, place), count)
        return Batch(self._inputs(picked), (OutputBatch(None, picked, labels, None, weight, None),))


def input_rows(X: Matrix) -> Callable[[tf.Tensor | None], tf.Tensor | tf.SparseTensor]:
    """A function from row numbers `[B]` to those rows `[B, P]` of `X`, or from None to all of them:
    a `tf.SparseTensor` where `X` is sparse.

    Args:
        X: `[N, P]`, dense or CSR.

    >>> rows = input_rows(np.array([[5.0], [6.0]]))
    >>> rows(tf.constant([1, 1])).numpy().tolist(), rows(None).numpy().tolist()
    ([[6.0], [6.0]], [[5.0], [6.0]])
    """
    dtype = gpflow.default_float()
    if not is_sparse(X):
        dense = handed(X, dtype)
        return lambda picked: (
            tf.convert_to_tensor(dense) if picked is None else tf.gather(dense, picked)
        )
    starts, columns = handed(X.indptr, tf.int64), handed(X.indices, tf.int64)
    values, (count, width) = handed(X.data, dtype), X.shape

    def rows(picked: tf.Tensor | None) -> tf.SparseTensor:
        picked = tf.range(count, dtype=tf.int64) if picked is None else picked
        return _picked_rows(starts, columns, values, width, picked)

    return rows


def gather_rows(X: tf.Tensor | tf.SparseTensor, picked: tf.Tensor) -> tf.Tensor | tf.SparseTensor:
    """Rows `[B, P]` of a tensor.

    Args:
        X: `[N, P]`, dense, or sparse with its entries in order.
        picked: `[B]` row numbers.

    >>> X = tf.sparse.from_dense([[5.0, 0.0], [0.0, 6.0]])
    >>> tf.sparse.to_dense(gather_rows(X, [1])).numpy().tolist()
    [[0.0, 6.0]]
    """
    if not isinstance(X, tf.SparseTensor):
        return tf.gather(X, picked)
    row, column = X.indices[:, 0], X.indices[:, 1]
    starts = tf.searchsorted(row, tf.range(X.dense_shape[0] + 1), out_type=tf.int64)
    return _picked_rows(starts, column, X.values, X.shape[1], tf.cast(picked, tf.int64))


def _picked_rows(
    starts: tf.Tensor, columns: tf.Tensor, values: tf.Tensor, width: int, picked: tf.Tensor
) -> tf.SparseTensor:
    """Rows of a CSR matrix with `width` columns."""
    row, place, count = _ragged(starts, picked)
    indices = tf.stack([row, tf.gather(columns, place)], 1)
    shape = [tf.shape(count, tf.int64)[0], tf.constant(width, tf.int64)]
    return tf.SparseTensor(indices, tf.gather(values, place), tf.stack(shape))


def _ragged(starts: tf.Tensor, picked: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Entries of rows of a CSR matrix: for each entry its row among those picked and its place;
    entries of each row.
    """
    first = tf.gather(starts, picked)
    count = tf.gather(starts, picked + 1) - first
    row = tf.repeat(tf.range(tf.shape(count, tf.int64)[0]), count)
    offset = tf.range(tf.reduce_sum(count)) - tf.gather(tf.cumsum(count, exclusive=True), row)
    return row, tf.gather(first, row) + offset, count


def _sizes(
    data: MultiOutputData, size: int | Mapping[str, int] | Sequence[int] | None
) -> tuple[int, ...] | None:
    if size is None:
        return None
    if isinstance(size, Mapping):
        for name in size:
            data.index(name)
        missing = [o.name for o in data.outputs if len(o) and o.name not in size]
        if missing:
            raise ValueError(
                f"no batch size for output {', '.join(map(repr, missing))}; name one for every"
                " output."
            )
        wanted = [size.get(n, 1) for n in data.names]
    elif isinstance(size, Sequence | np.ndarray):
        if len(size) != data.num_outputs:
            raise ValueError(f"{len(size)} batch sizes for {data.num_outputs} outputs.")
        wanted = list(size)
    else:
        wanted = [size] * data.num_outputs
    if any(not isinstance(b, int | np.integer) or b < 1 for b in wanted):
        raise ValueError(f"batch sizes must be whole numbers of at least 1, got {wanted}.")
    if isinstance(size, int | np.integer) and data.shares_inputs:
        return (min(int(size), data.X.shape[0]),) * data.num_outputs
    return tuple(min(int(b), n) for b, n in zip(wanted, data.sizes, strict=True))
