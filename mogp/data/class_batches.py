"""Mini-batches of one class each, with classes to compare it with, drawn inside the compiled
graph.
"""

from __future__ import annotations

from typing import NamedTuple

import gpflow
import numpy as np
import tensorflow as tf
from check_shapes import check_shapes

from mogp.data import Array, MultiOutputData
from mogp.data.batches import input_rows
from mogp.data.shuffle import shuffled
from mogp.forms import handed


class ClassBatch(NamedTuple):
    r"""Rows of one class $k$, and rivals $\ell_1 \dots \ell_s$.

    Attributes:
        X: `[B_k, P]` inputs of rows of class $k$, dense or sparse.
        classes: `[1 + s]`, first $k$, then the rivals.
        weight: `[]`, what a comparison of a row with a rival counts,
            $\frac{C-1}{s}\frac{N_k}{B_k}$.

    >>> data = MultiOutputData.from_arrays(np.arange(4.0), [0, 0, 0, 1])
    >>> batch = ClassBatches(data, size=2)(0)
    >>> sorted(batch.classes.numpy().tolist())
    [0, 1]
    """

    X: tf.Tensor | tf.SparseTensor
    classes: tf.Tensor
    weight: tf.Tensor


class ClassBatches:
    r"""Calling it with a step gives that step's `ClassBatch`: a pure function of the seed and the
    step.

    $C$ steps are a sweep: every class once, in random order. Class $k$ reads its $N_k$ rows in
    passes, a batch of $B_k = \min(B, N_k)$ a sweep, and its $C - 1$ rivals in passes, $s$ a sweep;
    every pass in a new random order. So $k$, its rivals and its rows are each uniform at every
    step, and the estimate that weighs them is without bias.

    Args:
        data: one output with class labels.
        size: rows a step at most, $B$; None takes all rows of the class.
        seed: the one seed of all draws.
        classes: number of classes $C$, each of which must occur; as many as the data have if None.
        rivals: how many, $s$; all if larger.

    >>> data = MultiOutputData.from_arrays(np.arange(6.0), [0, 0, 1, 1, 2, 2])
    >>> source = ClassBatches(data, size=1, classes=3)
    >>> sorted(int(source(step).classes[0]) for step in range(source.steps_per_epoch))
    [0, 1, 2]
    """

    _untraced = ("seed",)

    def __init__(
        self,
        data: MultiOutputData,
        size: int | None = None,
        seed: int = 0,
        *,
        classes: int | None = None,
        rivals: int = 1,
    ) -> None:
        if size is not None and size < 1:
            raise ValueError(f"batches of {size} rows; at least one is needed.")
        if rivals < 1:
            raise ValueError(f"rivals={rivals}; a class is compared with at least one other.")
        labels = class_labels(data, classes)
        counts = np.bincount(labels)
        self.seed, self._seed = int(seed), handed(int(seed), tf.int64)
        self.classes, self.rivals = len(counts), min(rivals, len(counts) - 1)
        self._inputs = input_rows(data.X)
        self._rows = handed(data.outputs[0].rows[np.argsort(labels, kind="stable")], tf.int64)
        self._counts = handed(counts, tf.int64)
        self._starts = handed(np.cumsum(counts) - counts, tf.int64)
        self._sizes = handed(counts if size is None else np.minimum(counts, size), tf.int64)

    @property
    def steps_per_epoch(self) -> int:
        """Steps of a sweep through the classes."""
        return self.classes

    def __call__(self, step: tf.Tensor | int) -> ClassBatch:
        """The batch of step `step` (0, 1, …)."""
        step = tf.cast(step, tf.int64)
        sweep, C, s = step // self.classes, self.classes, self.rivals
        seed = self._seed * 1_000_003
        k = shuffled(step, C, seed)
        count, size = tf.gather(self._counts, k), tf.gather(self._sizes, k)
        place = shuffled(sweep * size + tf.range(size), count, seed + 1 + k)
        other = shuffled(sweep * s + tf.range(s, dtype=tf.int64), C - 1, seed + 1 + C + k)
        rivals = other + tf.cast(other >= k, tf.int64)
        dtype = gpflow.default_float()
        return ClassBatch(
            X=self._inputs(tf.gather(self._rows, tf.gather(self._starts, k) + place)),
            classes=tf.concat([k[None], rivals], 0),
            weight=tf.cast(count, dtype) / tf.cast(size, dtype) * ((C - 1) / s),
        )


@check_shapes("return: [N]")
def class_labels(data: MultiOutputData, classes: int | None = None) -> Array:
    """Labels `[N]` of the only output of the data, in which each of the classes occurs.

    Args:
        data: one output with labels 0, 1, ….
        classes: number of classes; if None, as many as have a name, or the largest label and one.

    >>> class_labels(MultiOutputData.from_arrays(np.arange(3.0), ["cat", "dog", "cat"]))
    array([0, 1, 0])
    """
    if data.num_outputs != 1:
        raise ValueError(
            f"labels of one output are needed, the data have {data.num_outputs}; fit a model for"
            " each."
        )
    own = data.outputs[0]
    if len(own) == 0:
        raise ValueError(f"output {own.name!r} has no rows; labels of at least two are compared.")
    if classes is None and own.classes is not None:
        classes = len(own.classes)
    values = np.asarray(own.Y)[:, 0]
    wrong = np.flatnonzero(
        (values < 0) | (values != np.floor(values)) | (values >= (classes or np.inf))
    )
    if len(wrong):
        limit = "0, 1, …" if classes is None else f"0 to {classes - 1}"
        raise ValueError(
            f"output {own.name!r} has the label {values[wrong[0]]} at row {wrong[0]}; labels must"
            f" be whole numbers {limit}. Recode them with numpy.unique(y, return_inverse=True), or"
            " raise the number of classes."
        )
    labels = values.astype(np.int64)
    total = int(labels.max()) + 1 if classes is None else classes
    counts = np.bincount(labels, minlength=total)
    if (counts > 0).sum() < 2:
        raise ValueError(
            f"output {own.name!r} has rows of one class only (label {labels[0]}); at least two"
            " classes are compared."
        )
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        known = [repr(own.classes[k]) if own.classes else str(k) for k in empty[:5]]
        named = ", ".join(known) + (", …" if len(empty) > 5 else "")
        raise ValueError(
            f"{len(empty)} of {total} classes of {own.name!r} have no rows ({named}): nothing can"
            " be learned of them. Number the classes that occur with numpy.unique(y,"
            " return_inverse=True)."
        )
    return labels
