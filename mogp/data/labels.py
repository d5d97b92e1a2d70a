"""`LabelData`: points with any number of labels each, over dense or sparse inputs, validated once,
at the door.

With thousands of labels, a target for every point and label would be mostly zeros. Here the labels
that a point has are what is stored, as a sparse matrix, and so are inputs that are given as one:
neither is ever made dense as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from mogp.data.fingerprint import fingerprint
from mogp.data.inputs import InputColumn
from mogp.data.matrices import Array, Matrix, is_sparse, sparse_inputs, sparse_rows, stored
from mogp.data.schema import Schema

if TYPE_CHECKING:
    from mogp.data.batches import LabelBatches

__all__ = ["Array", "LabelData", "Matrix", "is_sparse", "sparse_rows", "unit_rows"]


@dataclass(frozen=True)
class LabelData:
    """Inputs `X [N, P]` and labels `Y [N, K]`: point `n` has label `k` where `Y` has an entry.

    Build it with `LabelData.of(X, Y)`.

    Args:
        X: `[N, P]`, dense or CSR.
        Y: `[N, K]`, CSR of ones, indices sorted.
        name: of the one output that the labels are, in errors and tables.

    >>> import numpy as np
    >>> data = LabelData.of(np.eye(3), np.array([[1, 0], [1, 1], [0, 0]]))
    >>> data
    LabelData(3 points with 2 labels, 1.0 a point; 3 dense inputs)
    >>> data.counts
    array([2, 1])
    """

    X: Matrix
    Y: csr_array
    name: str = "labels"

    @classmethod
    def of(
        cls,
        X: Any,
        Y: Any,
        labels: int | None = None,
        normalise: bool = False,
        name: str = "labels",
    ) -> LabelData:
        """Check inputs and labels, and store them.

        Args:
            X: `[N, P]` numbers, dense or any SciPy sparse matrix.
            Y: `[N, K]` zeros and ones, dense or sparse; or `N` lists of label numbers.
            labels: `K`; needed for lists of which none has the last label.
            normalise: divide every row of `X` by its length (rows of zeros stay).
            name: see above.

        >>> import numpy as np
        >>> LabelData.of(np.eye(2), [[0], [2, 1]]).Y.toarray()
        array([[1, 0, 0],
               [0, 1, 1]], dtype=int8)
        """
        inputs = _inputs(X)
        targets = _targets(Y, labels)
        if inputs.shape[0] != targets.shape[0]:
            raise ValueError(
                f"X has {inputs.shape[0]} rows, Y has {targets.shape[0]}; they must match row by"
                " row."
            )
        return cls(unit_rows(inputs) if normalise else inputs, targets, name)

    @property
    def num_points(self) -> int:
        """Points, `N`."""
        return int(self.X.shape[0])

    @property
    def num_labels(self) -> int:
        """Labels, `K`."""
        return int(self.Y.shape[1])

    @property
    def input_dim(self) -> int:
        """Columns of the inputs, `P`."""
        return int(self.X.shape[1])

    @property
    def counts(self) -> Array:
        """Points that have each label, `[K]`."""
        counts: Array = np.bincount(self.Y.indices, minlength=self.num_labels)
        return counts

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits that change with anything the data say."""
        X: tuple[Any, ...] = stored(self.X) if is_sparse(self.X) else (self.X,)
        return fingerprint(self.name, *X, *stored(self.Y))

    @property
    def outputs(self) -> tuple[LabelData, ...]:
        """The labels are one output: this."""
        return (self,)

    @property
    def names(self) -> tuple[str, ...]:
        """Its name."""
        return (self.name,)

    @property
    def schema(self) -> Schema:
        """Its name, and input columns without names."""
        return Schema(self.names, (InputColumn(),) * self.input_dim)

    @property
    def num_outputs(self) -> int:
        """One."""
        return 1

    def take(self, rows: Any) -> LabelData:
        """Some of the points.

        Args:
            rows: their positions, or a mask `[N]`.

        >>> import numpy as np
        >>> LabelData.of(np.eye(3), [[0], [1], []]).take([2, 0]).X
        array([[0., 0., 1.],
               [1., 0., 0.]])
        """
        return LabelData(self.X[rows], self.Y[rows], self.name)

    def split(self, test: float = 0.25, seed: int = 0) -> tuple[LabelData, LabelData]:
        """Random train and test points.

        Args:
            test: share of the points that is held out.
            seed: of the draw.

        >>> import numpy as np
        >>> [part.num_points for part in LabelData.of(np.eye(4), [[0]] * 4).split(test=0.25)]
        [3, 1]
        """
        held = round(test * self.num_points)
        if not 0 < test < 1 or not 0 < held < self.num_points:
            raise ValueError(
                f"test={test} of {self.num_points} points leaves one side empty; use another share."
            )
        order = np.random.default_rng(seed).permutation(self.num_points)
        return self.take(np.sort(order[held:])), self.take(np.sort(order[:held]))

    def batches(self, size: int | None = None, seed: int = 0) -> LabelBatches:
        """Mini-batches drawn inside the compiled graph; see `mogp.data.batches.LabelBatches`."""
        from mogp.data.batches import LabelBatches

        return LabelBatches(self, size, seed)

    def full(self) -> Any:
        """All the data as one batch."""
        return self.batches()(0)

    def __repr__(self) -> str:
        inputs = f"{self.input_dim} {'sparse' if is_sparse(self.X) else 'dense'} inputs"
        mean = self.Y.nnz / max(self.num_points, 1)
        return (
            f"LabelData({self.num_points} points with {self.num_labels} labels, {mean:.1f} a point;"
            f" {inputs})"
        )


def unit_rows(X: Matrix) -> Matrix:
    """Rows divided by their lengths; rows of zeros stay.

    Args:
        X: `[N, P]`, dense or CSR.

    >>> import numpy as np
    >>> unit_rows(np.array([[3e200, 4e200], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    # Squares of large entries overflow and those of small ones vanish. A power of two that brings
    # the largest entry of a row to between 1/2 and 1 avoids both, and rounds nothing.
    X = X if X.dtype.kind == "f" else X.astype(np.float64)
    if is_sparse(X):
        exponent = np.frexp(abs(X).max(axis=1).toarray().reshape(-1))[1]
        each = np.diff(X.indptr)
        near = csr_array(
            (np.ldexp(X.data, -np.repeat(exponent, each)), X.indices, X.indptr), shape=X.shape
        )
        lengths = np.sqrt(np.asarray(near.multiply(near).sum(1)).reshape(-1))
        scaled = near.data / np.repeat(np.where(lengths > 0, lengths, 1.0), each)
        return csr_array((scaled, X.indices, X.indptr), shape=X.shape)
    near = np.ldexp(X, -np.frexp(np.abs(X).max(axis=1, keepdims=True))[1])
    lengths = np.linalg.norm(near, axis=1, keepdims=True)
    return near / np.where(lengths > 0, lengths, 1.0)


def _inputs(X: Any) -> Matrix:
    if isinstance(X, np.ma.MaskedArray):
        raise ValueError(
            "X is a masked array; inputs cannot be missing: impute them, or drop those points."
        )
    if is_sparse(X):
        inputs: Any = sparse_inputs(X)
    else:
        kind = np.asarray(X).dtype.kind
        if kind == "c":
            raise ValueError(
                "X holds complex numbers; inputs must be real: give real(X) or abs(X)."
            )
        inputs = np.asarray(X, dtype=None if kind == "f" else float)
        if inputs.ndim != 2:
            raise ValueError(f"X has shape {inputs.shape}; expected [N, P], a row a point.")
        wrong = int(np.sum(~np.isfinite(inputs)))
        if wrong:
            raise ValueError(
                f"X has {wrong} entries that are NaN or infinite; inputs must be finite numbers."
            )
    if 0 in inputs.shape:
        raise ValueError(
            f"X has shape {inputs.shape}; at least one point and one input are needed."
        )
    return inputs


def _targets(Y: Any, labels: int | None) -> csr_array:
    if isinstance(Y, np.ma.MaskedArray):
        raise ValueError(
            "Y is a masked array; a point has a label or has not: fill the masked entries, or drop"
            " those points."
        )
    table = is_sparse(Y) or getattr(Y, "ndim", 1) == 2
    given = (Y if is_sparse(Y) else csr_array(np.asarray(Y))) if table else _from_lists(Y, labels)
    if given.format in ("csr", "csc", "bsr"):
        given.check_format(full_check=True)
    if labels is not None and given.shape[1] != labels:
        raise ValueError(
            f"Y has {given.shape[1]} columns, but labels={labels}; leave labels out, or give Y a"
            " column for each label."
        )
    if given.shape[1] == 0:
        raise ValueError("Y has no labels (no columns); at least one is needed.")
    entries = coo_array(given)
    strange = np.unique(entries.data[(entries.data != 0) & (entries.data != 1)])[:3]
    if len(strange):
        raise ValueError(
            f"Y has entries {strange.tolist()}; expected 1 where a point has a label, and 0."
        )
    present = entries.data != 0
    row, label = entries.row[present], entries.col[present]
    targets = csr_array((np.ones(len(row), np.int32), (row, label)), shape=given.shape)
    return csr_array(
        (np.ones(targets.nnz, np.int8), targets.indices, targets.indptr), shape=targets.shape
    )


def _from_lists(lists: Any, labels: int | None) -> csr_array:
    rows = [np.asarray(one).reshape(-1) for one in lists]
    strange = [
        (n, one.tolist()) for n, one in enumerate(rows) if len(one) and one.dtype.kind not in "iu"
    ]
    if strange:
        raise ValueError(
            f"row {strange[0][0]} of Y is {strange[0][1]}; expected the numbers of its labels, as"
            " [3, 17]."
        )
    flat = np.concatenate([np.empty(0, np.int64), *(one.astype(np.int64) for one in rows)])
    size = int(flat.max(initial=-1)) + 1 if labels is None else labels
    outside = np.flatnonzero((flat < 0) | (flat >= size))
    if len(outside):
        ends = np.cumsum([len(r) for r in rows])
        row = int(np.searchsorted(ends, outside[0], side="right"))
        raise ValueError(
            f"row {row} has the label {flat[outside[0]]}; labels are numbered 0 to {size - 1}. "
            "Correct it, or give labels= the number of labels."
        )
    starts = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
    return csr_array((np.ones(len(flat), np.int8), flat, starts), shape=(len(rows), size))
