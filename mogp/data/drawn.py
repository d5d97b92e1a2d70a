"""Rows of many outputs, read together: the tables of all outputs lie one below the other, and one
gather reads the rows of any number of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, overload

import gpflow
import numpy as np
import tensorflow as tf

from mogp.data.outputs import Array, Output
from mogp.forms import handed

__all__ = ["Drawn", "OutputBatch", "OutputTables", "Together", "each_row", "together"]


class OutputBatch(NamedTuple):
    """Rows of one output; `B_d = 0` if it has none.

    Attributes:
        rows: `[B_d]` positions in `Batch.X`; None means all of them, in order.
        ids: `[B_d]` row numbers of the input matrix of the data.
        Y: `[B_d, T_d]` targets, or the `Labels` of the rows.
        observed: `[B_d, T_d]` which targets count; None for labels, which are all observed.
        weight: `[B_d]` what a row counts in the data term: `N_d / B_d`, and 0 where the output was
            not observed.
        replica: `[B_d]` replica numbers, or None.

    >>> from mogp import MultiOutputData
    >>> data = MultiOutputData.from_arrays([5.0, 6.0], [[1.0, np.nan], [2.0, 3.0]])
    >>> data.full().outputs[1].rows.numpy(), data.full().outputs[1].Y.numpy()
    (array([1]), array([[3.]]))
    """

    rows: tf.Tensor | None
    ids: tf.Tensor
    Y: Any
    observed: tf.Tensor | None
    weight: tf.Tensor
    replica: tf.Tensor | None


class Together(NamedTuple):
    """Rows of several outputs, one output after the other.

    Attributes:
        sizes: rows of each output.
        own: what an `OutputBatch` has of one, of all of them; `rows` is None if each of them has
            all inputs, in order.

    >>> from mogp import MultiOutputData
    >>> data = MultiOutputData.from_arrays([5.0, 6.0], [[1.0, np.nan], [2.0, 3.0]])
    >>> both = together(data.full().outputs, [0, 1])
    >>> both.sizes, both.own.rows.numpy(), both.own.Y[:, 0].numpy()
    ((2, 1), array([0, 1, 1]), array([1., 2., 3.]))
    """

    sizes: tuple[Any, ...]
    own: OutputBatch

    def sums(self, values: tf.Tensor) -> tf.Tensor:
        """Sums over the rows of each output, of values `[n]`."""
        which = each_row(tf.range(len(self.sizes)), self.sizes)
        return tf.math.unsorted_segment_sum(values, which, len(self.sizes))


def together(outputs: Sequence[OutputBatch], which: Sequence[int]) -> Together:
    """The rows of some outputs of a batch, one output after the other.

    Args:
        outputs: of a batch.
        which: their positions.
    """
    if isinstance(outputs, Drawn) and outputs.alike(which):
        return outputs.together(which)
    each = [outputs[d] for d in which]
    sizes = tuple(_length(one.weight) for one in each)
    if len(each) == 1:
        return Together(sizes, each[0])
    if any(one.rows is not None for one in each):
        each = [
            one if one.rows is not None else one._replace(rows=tf.range(tf.cast(n, tf.int64)))
            for one, n in zip(each, sizes, strict=True)
        ]
    return Together(sizes, OutputBatch(*map(_joined, zip(*each, strict=True))))


def each_row(values: Any, sizes: Sequence[Any]) -> tf.Tensor:
    """A value of each output `[D]` for each of its rows, `[n]`.

    Args:
        values: one for each output.
        sizes: rows of each output.

    >>> each_row([5, 7], [1, 2]).numpy()
    array([5, 7, 7], dtype=int32)
    """
    if all(isinstance(n, int) for n in sizes) and len(set(sizes)) == 1:
        values = tf.convert_to_tensor(values)
        return tf.reshape(tf.repeat(values[:, None], sizes[0], 1), [-1])
    return tf.repeat(values, tf.stack(sizes))


class Drawn(Sequence[OutputBatch]):
    """Rows drawn of every output: a sequence of `OutputBatch`, each read when it is asked for.

    Args:
        tables: of the outputs.
        sizes: `[D]`, rows drawn of each.
        scale: `[D]`, what a row of each counts.
        picked: rows of the tables, of one output after the other; `[B]`, the same rows of all
            tables, if `shared`; None for all rows.
        shared: whether all outputs are read at the same rows.

    >>> from mogp import MultiOutputData
    >>> outputs = MultiOutputData.from_arrays([5.0, 6.0], np.ones((2, 3))).full().outputs
    >>> len(outputs), [len(own.Y) for own in outputs[1:]]
    (3, [2, 2])
    """

    def __init__(
        self,
        tables: OutputTables,
        sizes: Sequence[int],
        scale: Sequence[float],
        picked: tf.Tensor | None = None,
        shared: bool = False,
    ) -> None:
        self._tables, self._sizes, self._scale = tables, np.array(sizes), np.array(scale)
        self._picked, self._shared = picked, shared

    # A compiled function may hand a batch out: what it computes are the rows picked.

    def __tf_flatten__(self) -> tuple[Any, Any]:
        return (self._tables, self._sizes, self._scale, self._shared), (self._picked,)

    @classmethod
    def __tf_unflatten__(cls, metadata: Any, components: Any) -> Drawn:
        (picked,) = components
        tables, sizes, scale, shared = metadata
        return cls(tables, sizes, scale, picked, shared)

    def __len__(self) -> int:
        return len(self._sizes)

    @overload
    def __getitem__(self, which: int) -> OutputBatch: ...
    @overload
    def __getitem__(self, which: slice) -> tuple[OutputBatch, ...]: ...
    def __getitem__(self, which: int | slice) -> OutputBatch | tuple[OutputBatch, ...]:
        if isinstance(which, slice):
            return tuple(self[d] for d in range(len(self))[which])
        return self.together([range(len(self))[which]]).own

    def together(self, which: Sequence[int]) -> Together:
        """The rows of some outputs, whose targets have as many columns: see `together`.

        Args:
            which: their positions.
        """
        table, own = self._tables.of(which), np.asarray(which)
        sizes = tuple(self._sizes[own].tolist())
        at = self._at(own)
        ids = _taken(table.rows, at)
        weight = each_row(tf.constant(self._scale[own], table.Y.dtype), sizes)
        if table.present is not None:
            weight = weight * _taken(table.present, at)
        return Together(
            sizes,
            OutputBatch(
                rows=self._positions(own, ids),
                ids=ids,
                Y=_taken(table.Y, at),
                observed=_taken(table.observed, at),
                weight=weight,
                replica=None if table.replica is None else _taken(table.replica, at),
            ),
        )

    @property
    def ids(self) -> tf.Tensor:
        """Row numbers of the input matrix, of one output after the other."""
        everything = range(len(self))
        if self.alike(everything):
            return self.together(everything).own.ids
        return tf.concat([own.ids for own in self], 0)

    def alike(self, which: Sequence[int]) -> bool:
        """Whether the targets of some outputs have as many columns.

        Args:
            which: their positions.
        """
        return self._tables.alike(which)

    def _at(self, own: Array) -> slice | tf.Tensor:
        """Where in the tables the rows of some outputs are."""
        starts, sizes = self._tables.starts[own], self._sizes[own]
        if self._picked is None:
            return _runs(starts, sizes)
        if self._shared:
            return tf.reshape(starts[sizes > 0, None] + self._picked, [-1])
        return each_row(starts, sizes.tolist()) + _taken(self._picked, self._in_turn(own))

    def _positions(self, own: Array, ids: tf.Tensor) -> tf.Tensor | None:
        """Where among the inputs they are."""
        if self._picked is None:
            return None if self._tables.everywhere[own].all() else ids
        if not self._shared:
            where = self._in_turn(own)
            if not isinstance(where, slice):
                return where
            return tf.range(where.start, where.stop, dtype=tf.int64)
        drawn = self._sizes[own] > 0
        return (
            None
            if drawn.all()
            else tf.tile(tf.range(self._sizes.max(), dtype=tf.int64), [drawn.sum()])
        )

    def _in_turn(self, own: Array) -> slice | tf.Tensor:
        """Where the rows of some outputs are among those of all outputs in turn."""
        return _runs((np.cumsum(self._sizes) - self._sizes)[own], self._sizes[own])


class Table(NamedTuple):
    """Observations of outputs whose targets have as many columns, one output below the other.

    Attributes:
        rows: `[R]` rows of the input matrix.
        Y: `[R, T]` targets.
        observed: `[R, T]` which of them count.
        present: `[R]`, 0 where an output was not observed, and 1 elsewhere; None if all were.
        replica: `[R]` replica numbers, or None.
    """

    rows: Any
    Y: Any
    observed: Any
    present: Any
    replica: Any


class OutputTables:
    """The observations of all outputs.

    Args:
        outputs: of the data.
        inputs: rows of the input matrix.
        spread: lay the observations of each output out over all rows of the input matrix.

    Attributes:
        starts: `[D]`, where in its table each output begins.
        everywhere: `[D]`, whether each output was observed at all inputs.
    """

    def __init__(self, outputs: Sequence[Output], inputs: int, spread: bool = False) -> None:
        tables = [_table(one, inputs if spread and len(one) else None) for one in outputs]
        kinds = [(table.Y.shape[1], table.replica is None) for table in tables]
        distinct = list(dict.fromkeys(kinds))
        lengths = np.array([len(table.rows) for table in tables])
        everything = np.arange(inputs)
        self.everywhere = np.array([np.array_equal(one.rows, everything) for one in outputs])
        self._kind = np.array([distinct.index(kind) for kind in kinds])
        self.starts = np.zeros(len(tables), np.int64)
        for kind in range(len(distinct)):
            own = self._kind == kind
            self.starts[own] = np.cumsum(lengths[own]) - lengths[own]
        self._tables = [
            _below([table for table, its in zip(tables, kinds, strict=True) if its == kind])
            for kind in distinct
        ]

    def alike(self, which: Sequence[int]) -> bool:
        """Whether some outputs are in one table."""
        return len(np.unique(self._kind[np.asarray(which)])) == 1

    def of(self, which: Sequence[int]) -> Table:
        """The one table that some outputs are in."""
        table: Table = self._tables[self._kind[which[0]]]
        return table


def _table(output: Output, spread_over: int | None) -> Table:
    """The observations of one output; `spread_over` lays them out over all rows of the inputs."""
    rows, Y, observed, replica = output.rows, output.Y, output.observed, output.replica
    present = np.ones(len(rows))
    if spread_over is not None:
        present = np.zeros(spread_over)
        present[rows] = 1.0
        position = np.zeros(spread_over, np.int64)
        position[rows] = np.arange(len(rows))
        Y, observed = Y[position], observed[position] & (present[:, None] > 0)
        replica = None if replica is None else replica[position]
        rows = np.arange(spread_over)
    return Table(rows, Y, observed, present, replica)


def _below(tables: Sequence[Table]) -> Table:
    """Tables one below the other, as tensors."""
    rows, Y, observed, present, replica = zip(*tables, strict=True)
    dtype = gpflow.default_float()
    everywhere = all(one.all() for one in present)
    return Table(
        handed(np.concatenate(rows), tf.int64),
        handed(np.concatenate(Y), dtype),
        handed(np.concatenate(observed), tf.bool),
        None if everywhere else handed(np.concatenate(present), dtype),
        None if replica[0] is None else handed(np.concatenate(replica), tf.int64),
    )


def _runs(starts: Array, sizes: Array) -> slice | tf.Tensor:
    """The numbers `start`, `start` + 1, … of each output: a slice where they follow each other."""
    before = np.cumsum(sizes) - sizes
    if np.array_equal(starts - starts[0], before):
        return slice(int(starts[0]), int(starts[0] + sizes.sum()))
    return each_row(starts - before, sizes.tolist()) + tf.range(sizes.sum(), dtype=tf.int64)


def _taken(values: tf.Tensor, at: slice | tf.Tensor) -> tf.Tensor:
    if not isinstance(at, slice):
        return tf.gather(values, at)
    whole = (at.start, at.stop) == (0, values.shape[0])
    return tf.convert_to_tensor(values) if whole else values[at]


def _joined(parts: Sequence[Any]) -> Any:
    return None if any(part is None for part in parts) else tf.concat(parts, 0)


def _length(values: tf.Tensor) -> Any:
    return tf.shape(values)[0] if values.shape[0] is None else int(values.shape[0])
