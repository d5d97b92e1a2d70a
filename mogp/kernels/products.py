"""Inner products and distances with inputs that may be sparse: all that most kernels read."""

from __future__ import annotations

import tensorflow as tf
from check_shapes import register_get_shape


# `check_shapes` knows dense tensors only, and rows of inputs may be sparse.
@register_get_shape(tf.SparseTensor)
def _shape(X: tf.SparseTensor, _context: object) -> tuple[int | None, ...] | None:
    return None if X.shape.rank is None else tuple(X.shape)


def is_sparse(X: tf.Tensor | tf.SparseTensor | None) -> bool:
    """Whether rows of inputs are given as a `tf.SparseTensor`."""
    return isinstance(X, tf.SparseTensor)


def num_rows(X: tf.Tensor | tf.SparseTensor) -> tf.Tensor:
    """Rows of `X […, N, P]`."""
    return tf.cast(X.dense_shape[0], tf.int32) if is_sparse(X) else tf.shape(X)[-2]


def inner(A: tf.Tensor, X: tf.Tensor | tf.SparseTensor) -> tf.Tensor:
    """Inner products `A Xᵀ`, `[…, M, N]`, for dense `A […, M, P]` and `X [N, P]`.

    A sparse `X` costs `M` times its entries.
    """
    if not is_sparse(X):
        return tf.linalg.matmul(A, X, transpose_b=True)
    flat = tf.reshape(A, [-1, A.shape[-1]])
    products = tf.transpose(tf.sparse.sparse_dense_matmul(X, flat, adjoint_b=True))
    return tf.reshape(products, tf.concat([tf.shape(A)[:-1], [num_rows(X)]], 0))


def square_norms(X: tf.Tensor | tf.SparseTensor, weights: tf.Tensor) -> tf.Tensor:
    r"""Weighted square norms $\sum_p w_{gp} x_{np}^2$, `[G, N]`.

    Args:
        X: `[N, P]` or `[G, N, P]`.
        weights: `[G, 1, P]`, or `[G, 1, 1]` for one weight for all columns.
    """
    if weights.shape[-1] == 1:
        total = _sums(X.values**2, X) if is_sparse(X) else tf.reduce_sum(tf.square(X), -1)
        return weights[:, :, 0] * total
    if not is_sparse(X):
        return tf.reduce_sum(tf.square(X) * weights, -1)
    squares = X.with_values(tf.square(X.values))
    return tf.transpose(tf.sparse.sparse_dense_matmul(squares, weights[:, 0], adjoint_b=True))


def _sums(values: tf.Tensor, X: tf.SparseTensor) -> tf.Tensor:
    """Sums over the entries of each row, `[N]`."""
    return tf.math.unsorted_segment_sum(values, X.indices[:, 0], num_rows(X))


def weighted_square_distance(A: tf.Tensor, X: tf.SparseTensor, weights: tf.Tensor) -> tf.Tensor:
    r"""Weighted square distances $\sum_p w_{gp}(a_{mp} - x_{np})^2$, `[G, M, N]`.

    Args:
        A: `[M, P]` or `[G, M, P]`.
        X: sparse, `[N, P]`.
        weights: `[G, 1, P]`, or `[G, 1, 1]` for one weight for all columns.
    """
    from_left, from_right = square_norms(A, weights), square_norms(X, weights)
    if weights.shape[-1] == 1:
        return from_left[..., None] + from_right[:, None] - 2 * weights * inner(A, X)
    return from_left[..., None] + from_right[:, None] - 2 * inner(A * weights, X)
