"""Matrices of inputs, dense or sparse: read at the door, compared and joined row by row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_array, get_index_dtype, issparse
from scipy.sparse import vstack as sparse_vstack

from mogp.errors import UnsupportedError

Array = npt.NDArray[Any]
Matrix: TypeAlias = Array | csr_array
"""Rows of numbers, dense or sparse."""


def is_sparse(X: Any) -> TypeGuard[csr_array]:
    """Whether it is a SciPy sparse matrix.

    Args:
        X: anything.

    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> is_sparse(np.eye(2)), is_sparse(csr_array(np.eye(2)))
    (False, True)
    """
    return bool(issparse(X))


def as_dense(X: Matrix) -> Array:
    """The rows as an array.

    Args:
        X: `[N, P]`, dense or sparse.

    >>> as_dense(csr_array(np.eye(2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    dense: Array = X.toarray() if is_sparse(X) else X
    return dense


def check_dense(X: Any) -> None:
    """Raise if inputs are sparse, for what cannot read them so.

    Args:
        X: anything.

    >>> check_dense(csr_array(np.eye(2)))
    Traceback (most recent call last):
    mogp.errors.UnsupportedError: the inputs are sparse, which this model does not read. Give it X.toarray(); or use a model that does: mogps_ar, mg_m, g_a, g_m, ovse, robust_max or hetmogp_lmc.
    """  # noqa: E501
    if is_sparse(X):
        raise UnsupportedError(
            "the inputs are sparse, which this model does not read. Give it X.toarray(); or use a"
            " model that does: mogps_ar, mg_m, g_a, g_m, ovse, robust_max or hetmogp_lmc."
        )


def sparse_rows(X: Any) -> csr_array:
    """A copy in CSR, each entry stored once, in order, with the shortest index type that SciPy has
    for it.

    Args:
        X: `[N, P]`, sparse in any form.

    >>> from scipy.sparse import coo_array
    >>> sparse_rows(coo_array(([1, 2], ([0, 0], [1, 1])), shape=(1, 2))).toarray()
    array([[0., 3.]])
    """
    rows = csr_array(X, dtype=X.dtype if X.dtype.kind == "f" else float, copy=True)
    rows.sum_duplicates()
    index = get_index_dtype(maxval=max(rows.nnz, *rows.shape))
    return csr_array(
        (rows.data, rows.indices.astype(index), rows.indptr.astype(index)), shape=rows.shape
    )


def sparse_inputs(X: Any, what: str = "X") -> csr_array:
    """Sparse inputs `[N, P]`: real, finite, in the form of `sparse_rows`.

    Args:
        X: sparse in any form.
        what: how errors call it.

    >>> sparse_inputs(csr_array([[0.0, np.nan]]))
    Traceback (most recent call last):
    ValueError: X has 1 entries that are NaN or infinite; inputs must be finite numbers.
    """
    if X.dtype.kind == "c":
        raise ValueError(
            f"{what} holds complex numbers; inputs must be real: give real(X) or abs(X)."
        )
    rows = sparse_rows(X)
    wrong = int(np.sum(~np.isfinite(rows.data)))
    if wrong:
        raise ValueError(
            f"{what} has {wrong} entries that are NaN or infinite; inputs must be finite numbers."
        )
    return rows


def stored(X: csr_array) -> tuple[Array, ...]:
    """What a CSR matrix stores; indices as 64 bits, whatever SciPy chose.

    Args:
        X: the matrix.

    >>> [part.tolist() for part in stored(csr_array([[0.0, 5.0]]))]
    [[1, 2], [0, 1], [1], [5.0]]
    """
    return np.array(X.shape), X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data


def stacked_rows(blocks: Sequence[Matrix]) -> Matrix:
    """The rows of several matrices, one after the other: sparse if they are.

    Args:
        blocks: `[N_d, P]` each, all dense or all sparse.

    >>> stacked_rows([csr_array([[1.0, 0.0]]), csr_array([[0.0, 2.0]])]).toarray().tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    if is_sparse(blocks[0]):
        return csr_array(sparse_vstack(blocks, format="csr"))
    return np.concatenate(blocks)


def ranges(X: Matrix) -> Array:
    """The largest entry of each column minus the smallest, `[P]`.

    Args:
        X: `[N, P]`, dense or sparse.

    >>> ranges(csr_array([[0.0, -2.0], [3.0, -2.0]])).tolist()
    [3.0, 0.0]
    """
    if is_sparse(X):
        X = np.concatenate([as_dense(X.max(axis=0)), as_dense(X.min(axis=0))]).reshape(2, -1)
    spread: Array = np.ptp(X, axis=0)
    return spread


def distinct_rows(X: csr_array) -> tuple[Array, Array]:
    """The distinct rows of a sparse matrix in lexicographic order, as `np.unique` has those of a
    dense one: where each is first, and which of them each row is.

    Args:
        X: CSR, in the form of `sparse_rows`.

    >>> first, which = distinct_rows(csr_array([[1.0, 0.0], [0.0, 2.0], [1.0, 0.0]]))
    >>> first.tolist(), which.tolist()
    ([1, 0], [1, 0, 1])
    """
    X = X.copy()
    X.eliminate_zeros()
    # Where rows differ first, one has an entry. Of entries in order a negative one makes its row
    # smaller, the more so the earlier it is, and a positive one larger; the end of a row is between
    # the two. Ranks by this order, written as bytes, compare as the rows do.
    place = np.append(np.where(X.data > 0, -X.indices.astype(np.int64), X.indices), 0)
    value = np.append(X.data, 0.0)
    sign = np.sign(value)
    order = np.lexsort((value, place, sign))
    new = [np.diff(column[order]) != 0 for column in (value, place, sign)]
    ranks = np.zeros(len(order), ">u4")
    ranks[order] = np.append(0, np.cumsum(np.logical_or.reduce(new)))
    content, end = ranks[:-1].tobytes(), ranks[-1:].tobytes()
    keys = np.empty(X.shape[0], object)
    bounds = 4 * X.indptr.astype(np.int64)
    keys[:] = [content[start:stop] + end for start, stop in pairwise(bounds)]
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return first, which.reshape(-1)


def merge_rows(blocks: Sequence[Matrix]) -> tuple[Matrix, Array]:
    """The rows of several matrices with those they share kept once, and where each row went.

    The first of several equal rows of a matrix is the same as the first of another, the second
    the same as the second, and so on: a matrix that repeats a row keeps both, so that the rows of
    one output are never fewer than its targets.

    Args:
        blocks: `[N_d, P]` each, all dense or all sparse.

    Returns:
        `[N, P]` rows in order of first appearance, and for each row of all blocks, one block after
        the other, where it is among them.

    >>> merge_rows([np.array([[2.0], [1.0], [2.0]]), np.array([[3.0], [2.0]])])
    (array([[2.],
           [1.],
           [2.],
           [3.]]), array([0, 1, 2, 3, 0]))
    """
    X = stacked_rows(blocks)
    turn = np.concatenate([_occurrence(block) for block in blocks])
    first, where = _distinct(np.column_stack([_distinct(X)[1], turn]))
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return X[first[order]], rank[where]


def _occurrence(X: Matrix) -> Array:
    """How many rows before it are equal to a row, `[N]`."""
    same = pd.Series(_distinct(X)[1])
    return same.groupby(same).cumcount().to_numpy()


def _distinct(X: Matrix) -> tuple[Array, Array]:
    """Where each distinct row is first, and which of them each row is."""
    if is_sparse(X):
        return distinct_rows(X)
    # Equal rows have equal bytes once -0 is 0; bytes sort faster than rows of many columns.
    content = np.ascontiguousarray(X + 0).view(np.dtype((np.void, X.shape[1] * X.itemsize)))
    _, first, where = np.unique(content.reshape(-1), return_index=True, return_inverse=True)
    return first, where.reshape(-1)
