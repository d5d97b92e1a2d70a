"""Inner products and distances with inputs that may be sparse: all that most kernels read."""

from __future__ import annotations

from collections.abc import Callable

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
    """Inner products `A Xᵀ`, `[…, M, N]`, for dense `A […, M, P]` and `X [N, P]` or `[…, N, P]`.

    One `X [N, P]` for all sets of rows makes it a single product of two matrices. A sparse `X`
    costs `M` times its entries, has these in order, and gets no gradient.
    """
    if X.shape.rank != 2:
        return tf.linalg.matmul(A, X, transpose_b=True)
    flat = _one_matrix(A)
    if is_sparse(X):
        products = _sparse_inner(flat, X)
    else:
        products = tf.linalg.matmul(flat, X, transpose_b=True)
    return tf.reshape(products, tf.concat([tf.shape(A)[:-1], [num_rows(X)]], 0))


def _one_matrix(A: tf.Tensor) -> tf.Tensor:
    """All sets of rows `[…, M, P]` one after the other."""
    return A if A.shape.rank == 2 else tf.reshape(A, [-1, A.shape[-1] or tf.shape(A)[-1]])


def _sparse_inner(A: tf.Tensor, X: tf.SparseTensor) -> tf.Tensor:
    """`A Xᵀ [M, N]` for `A [M, P]`; the products of `tf.sparse` take half as long again."""
    rows = tf.raw_ops.SparseTensorToCSRSparseMatrix(
        indices=X.indices, values=X.values, dense_shape=X.dense_shape
    )

    def times(B: tf.Tensor, transpose_a: bool) -> tf.Tensor:
        return tf.transpose(
            tf.raw_ops.SparseMatrixMatMul(a=rows, b=B, transpose_a=transpose_a, transpose_b=True)
        )

    @tf.custom_gradient
    def of(A: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        return times(A, False), lambda upstream: times(upstream, True)

    products: tf.Tensor = of(A)
    return products


def gram(A: tf.Tensor) -> tf.Tensor:
    """Inner products `A Aᵀ`, `[…, M, M]`, of the rows of `A […, M, P]`."""

    # A product of two matrices that happen to be one would have a gradient of two products.
    @tf.custom_gradient
    def of(A: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            return tf.linalg.matmul(upstream + tf.linalg.matrix_transpose(upstream), A)

        return tf.linalg.matmul(A, A, transpose_b=True), gradient

    products: tf.Tensor = of(A)
    return products


def square_norms(X: tf.Tensor | tf.SparseTensor, weights: tf.Tensor) -> tf.Tensor:
    r"""Weighted square norms $\sum_p w_{gp} x_{np}^2$, `[G, N]`.

    Args:
        X: `[N, P]` or `[G, N, P]`.
        weights: `[G, 1, P]`, or `[G, 1, 1]` for one weight for all columns.
    """
    if weights.shape[-1] == 1:
        total = _sums(X.values**2, X) if is_sparse(X) else tf.reduce_sum(tf.square(X), -1)
        return weights[:, :, 0] * total
    if is_sparse(X):
        squares = X.with_values(tf.square(X.values))
        return tf.transpose(tf.sparse.sparse_dense_matmul(squares, weights[:, 0], adjoint_b=True))
    return inner(weights, tf.square(X))[:, 0]


def _sums(values: tf.Tensor, X: tf.SparseTensor) -> tf.Tensor:
    """Sums over the entries of each row, `[N]`."""
    return tf.math.unsorted_segment_sum(values, X.indices[:, 0], num_rows(X))


def square_distance(A: tf.Tensor, X: tf.Tensor | tf.SparseTensor | None = None) -> tf.Tensor:
    """Square distances `[…, M, N]` between the rows of `A […, M, P]` and `X`.

    Dense ones come from one product, `[A, |A|², 1] [-2X, 1, |X|²]ᵀ`, after a mean row of `A` was
    taken off both: large squares would cancel. Rounding may leave distances a little below zero,
    which GPflow's kernels allow for.

    Args:
        A: rows.
        X: `[…, N, P]`, or `[N, P]` for all sets of rows; sparse only if `[N, P]`; None for `A`
            itself.
    """
    A, X = _centred(A, X)
    if X is None:
        return _from_gram(gram(A))
    a = tf.reduce_sum(tf.square(A), -1, keepdims=True)
    if is_sparse(X):
        return a + (_sums(tf.square(X.values), X) - 2 * inner(A, X))
    x = tf.reduce_sum(tf.square(X), -1, keepdims=True)
    left = tf.concat([A, a, tf.ones_like(a)], -1)
    return inner(left, tf.concat([-2 * X, tf.ones_like(x), x], -1))


def weighted_square_distance(
    A: tf.Tensor, X: tf.Tensor | tf.SparseTensor | None, weights: tf.Tensor
) -> tf.Tensor:
    r"""Weighted square distances $\sum_p w_{gp}(a_{mp} - x_{np})^2$, `[G, M, N]`.

    They are $|a|_w^2 + |x|_w^2 - 2 (w a)^\top x$, which takes a single product `[G M, P] [P, N]`
    where all read one `X [N, P]`. What `square_distance` says of rounding is true here.

    Args:
        A: `[M, P]` or `[G, M, P]`.
        X: `[N, P]` or `[G, N, P]`; sparse only if `[N, P]`; None for `A` itself.
        weights: `[G, 1, P]`, or `[G, 1, 1]` for one weight for all columns.
    """
    if weights.shape[-1] == 1:
        return weights * square_distance(A, X)
    A, X = _centred(A, X)
    if X is None:
        return _from_gram(gram(A * tf.sqrt(weights)))
    weighted = A * weights
    a = tf.reduce_sum(A * weighted, -1, keepdims=True)
    return a + (square_norms(X, weights)[:, None] - 2 * inner(weighted, X))


def _centred(
    A: tf.Tensor, X: tf.Tensor | tf.SparseTensor | None
) -> tuple[tf.Tensor, tf.Tensor | tf.SparseTensor | None]:
    """Both without a mean row of `A`: one row for all sets where these share `X`, which stays as it
    is where it is sparse.
    """
    if is_sparse(X):
        return A, X
    # Distances do not depend on the centre, so it needs no gradient.
    if X is None or X.shape.rank > 2:
        centre = tf.stop_gradient(tf.reduce_mean(A, -2, keepdims=True))
    else:
        centre = tf.stop_gradient(tf.reduce_mean(_one_matrix(A), 0))
    return A - centre, None if X is None else X - centre


def _from_gram(products: tf.Tensor) -> tf.Tensor:
    """Square distances `[…, M, M]` between rows with these inner products."""
    squares = tf.linalg.diag_part(products)
    return squares[..., None] + (squares[..., None, :] - 2 * products)
