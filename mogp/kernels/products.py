"""Inner products and distances with inputs that may be sparse: the only two things that most
kernels read of them.
"""

from __future__ import annotations

import tensorflow as tf


def is_sparse(X: tf.Tensor | tf.SparseTensor | None) -> bool:
    """Whether rows of inputs are given as a `tf.SparseTensor`."""
    return isinstance(X, tf.SparseTensor)


def num_rows(X: tf.Tensor | tf.SparseTensor) -> tf.Tensor:
    """Rows of `X […, N, P]`."""
    return tf.cast(X.dense_shape[0], tf.int32) if is_sparse(X) else tf.shape(X)[-2]


def inner(A: tf.Tensor, X: tf.Tensor | tf.SparseTensor) -> tf.Tensor:
    """`A Xᵀ`, `[…, M, N]`, for dense `A […, M, P]` and `X [N, P]`; a sparse `X` costs `M` times its
    entries.
    """
    if not is_sparse(X):
        return tf.linalg.matmul(A, X, transpose_b=True)
    flat = tf.reshape(A, [-1, A.shape[-1]])
    products = tf.transpose(tf.sparse.sparse_dense_matmul(X, flat, adjoint_b=True))
    return tf.reshape(products, tf.concat([tf.shape(A)[:-1], [num_rows(X)]], 0))


def square_norms(X: tf.Tensor | tf.SparseTensor, weights: tf.Tensor) -> tf.Tensor:
    r"""$\sum_p w_{gp} x_{np}^2$, `[G, N]`, for `X [N, P]` or `[G, N, P]` and weights
    `[G, 1, P or 1]`.
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
    r"""$\sum_p w_{gp}(a_{mp} - x_{np})^2$, `[G, M, N]`, for `A [M, P]` or `[G, M, P]` and sparse
    `X [N, P]`.
    """
    from_left, from_right = square_norms(A, weights), square_norms(X, weights)
    if weights.shape[-1] == 1:
        return from_left[..., None] + from_right[:, None] - 2 * weights * inner(A, X)
    return from_left[..., None] + from_right[:, None] - 2 * inner(A * weights, X)
