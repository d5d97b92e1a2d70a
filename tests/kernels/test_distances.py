"""One product for all latent GPs gives the distances that each would have by itself."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gpflow.kernels import Matern32, SquaredExponential

from mogp.kernels import KernelRows, KernelStack
from mogp.kernels.products import gram, square_distance, weighted_square_distance


def naive(A: np.ndarray, X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """A loop over latents, rows and columns of the result."""
    G = weights.shape[0]
    A, X = (np.broadcast_to(a, (G, *a.shape[-2:])) for a in (A, X))
    found = np.empty((G, A.shape[1], X.shape[1]))
    for g in range(G):
        for m, a in enumerate(A[g]):
            for n, x in enumerate(X[g]):
                found[g, m, n] = np.sum(weights[g, 0] * (a - x) ** 2)
    return found


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("sets", [False, True])
@pytest.mark.parametrize("other", ["shared", "its own", "itself"])
def test_distances_are_those_of_a_double_loop(width, sets, other, rng):
    weights = rng.uniform(0.3, 3.0, (3, 1, width))
    A = rng.normal(size=(3, 5, 4) if sets else (5, 4))
    X = {"shared": rng.normal(size=(6, 4)), "its own": rng.normal(size=(3, 6, 4)), "itself": None}[other]
    if X is not None:
        X[..., 0, :] = A[..., 0, :] if X.ndim == A.ndim else A.reshape(-1, 4)[0]
    given = None if X is None else tf.constant(X)
    found = weighted_square_distance(tf.constant(A), given, tf.constant(weights))
    direct = naive(A, A if X is None else X, np.broadcast_to(weights, (3, 1, 4)))
    np.testing.assert_allclose(found, direct, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_a_common_offset_costs_no_digits(offset, rng):
    weights = tf.constant(rng.uniform(0.3, 3.0, (2, 1, 3)))
    # Multiples of a power of two, so that adding the offset rounds nothing.
    A, X = np.round(rng.normal(size=(2, 5, 3)) * 1024) / 1024, np.round(rng.normal(size=(6, 3)) * 1024) / 1024
    near = naive(A, X, weights.numpy())
    found = weighted_square_distance(tf.constant(A + offset), tf.constant(X + offset), weights)
    np.testing.assert_allclose(found, near, rtol=1e-10, atol=1e-12)
    alone = weighted_square_distance(tf.constant(A + offset), None, weights)
    np.testing.assert_allclose(alone, naive(A, A, weights.numpy()), rtol=1e-10, atol=1e-12)


def test_far_points_and_duplicates(rng):
    A = rng.normal(size=(2, 5, 3))
    A[:, 1], A[:, 2] = A[:, 0], 1e4
    weights = np.ones((2, 1, 3))
    found = weighted_square_distance(tf.constant(A), None, tf.constant(weights)).numpy()
    np.testing.assert_allclose(found, naive(A, A, weights), rtol=1e-10, atol=1e-7)
    assert (np.diagonal(found, axis1=1, axis2=2) == 0).all()


def gradients(make, values: list[tf.Tensor]) -> list[np.ndarray]:
    with tf.GradientTape() as tape:
        tape.watch(values)
        total = make(*values)
    return [g.numpy() for g in tape.gradient(total, values)]


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("other", ["shared", "its own", "itself"])
def test_gradients_are_those_of_the_differences(width, other, rng):
    A, weights = tf.constant(rng.normal(size=(3, 5, 4))), tf.constant(rng.uniform(0.3, 3.0, (3, 1, width)))
    X = tf.constant(rng.normal(size=(6, 4) if other == "shared" else (3, 6, 4)))
    upstream = tf.constant(rng.normal(size=(3, 5, 5 if other == "itself" else 6)))

    def direct(A, weights, X=None):
        B = A if X is None else X
        B = B[None] if B.shape.rank == 2 else B
        return tf.reduce_sum(upstream * tf.reduce_sum(weights[:, None] * (A[:, :, None] - B[:, None]) ** 2, -1))

    def ours(A, weights, X=None):
        return tf.reduce_sum(upstream * weighted_square_distance(A, X, weights))

    values = [A, weights] if other == "itself" else [A, weights, X]
    for own, expected in zip(gradients(ours, values), gradients(direct, values), strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-10, atol=1e-11)


def test_the_gradient_of_a_gram_matrix_has_a_gradient(rng):
    A, C = tf.constant(rng.normal(size=(4, 3))), tf.constant(rng.normal(size=(4, 4)))

    def second(products):
        with tf.GradientTape() as outer:
            outer.watch(A)
            with tf.GradientTape() as inner:
                inner.watch(A)
                value = tf.reduce_sum(C * products(A) ** 2)
            slope = tf.reduce_sum(tf.sin(inner.gradient(value, A)))
        return outer.gradient(slope, A)

    plain = second(lambda A: tf.linalg.matmul(A, A, transpose_b=True))
    np.testing.assert_allclose(second(gram), plain, rtol=1e-10)


@pytest.mark.parametrize("ard", [False, True])
@pytest.mark.parametrize("kernel", [SquaredExponential, Matern32])
def test_rows_of_kernels_and_stacked_kernels_have_the_covariances_of_gpflow(kernel, ard, rng):
    Z, X = rng.normal(size=(3, 5, 4)), rng.normal(size=(6, 4))
    lengths = rng.uniform(0.5, 2.0, (3, 4) if ard else (3,))
    each = [kernel(variance=0.5 + g, lengthscales=lengths[g]) for g in range(3)]
    rows = KernelRows(each[0], 3)
    rows.form.lengthscales.assign(lengths)
    rows.form.variance.assign([0.5, 1.5, 2.5])
    for stack in (KernelStack(each), rows):
        direct = np.stack([k(z, X) for k, z in zip(each, Z, strict=True)])
        np.testing.assert_allclose(stack.K(tf.constant(Z), tf.constant(X)), direct, rtol=1e-10)
        itself = np.stack([k(z) for k, z in zip(each, Z, strict=True)])
        np.testing.assert_allclose(stack.K(tf.constant(Z)), itself, rtol=1e-10)
    sparse = rows.K(tf.constant(Z), tf.sparse.from_dense(X))
    np.testing.assert_allclose(sparse, rows.K(tf.constant(Z), tf.constant(X)), rtol=1e-10)


@pytest.mark.usefixtures("float32")
@pytest.mark.parametrize("sparse", [False, True])
def test_single_precision_stays_finite_and_hardly_below_zero(sparse, rng):
    X = (100 + rng.normal(size=(40, 5))).astype(np.float32)
    Z = np.stack([X[:10], X[5:15]])
    weights = tf.constant(rng.uniform(0.1, 10.0, (2, 1, 5)), tf.float32)
    rows = tf.sparse.from_dense(X - 100) if sparse else tf.constant(X)
    Z = Z - 100 if sparse else Z
    found = weighted_square_distance(tf.constant(Z), rows, weights).numpy()
    assert found.dtype == np.float32
    assert np.isfinite(found).all()
    assert found.min() > -1e-4
    direct = naive(Z.astype(float), (X - 100 if sparse else X).astype(float), weights.numpy())
    np.testing.assert_allclose(found, direct, rtol=1e-4, atol=1e-3)


def test_distances_of_one_lengthscale_and_one_set_are_computed_once(rng):
    """The product in the graph is of the set itself, not of a copy for each latent GP."""
    Z, X = tf.constant(rng.normal(size=(5, 4))), tf.constant(rng.normal(size=(6, 4)))
    stack = KernelStack([SquaredExponential(lengthscales=length) for length in (0.5, 1.0, 2.0)])
    graph = tf.function(lambda: stack.K(Z, X)).get_concrete_function().graph
    products = [op.outputs[0].shape.as_list() for op in graph.get_operations() if "MatMul" in op.type]
    assert products == [[5, 6]]
    assert np.isfinite(square_distance(Z, X)).all()


def test_numbers_of_rows_and_columns_need_not_be_known_to_the_graph(rng):
    weights = tf.constant(rng.uniform(0.3, 3.0, (2, 1, 4)))
    for shape in ((5, 4), (2, 5, 4)):
        A, X = rng.normal(size=shape), rng.normal(size=(6, 4))
        unknown = [tf.TensorSpec([None] * len(a.shape), tf.float64) for a in (A, X)]
        for w in (weights, weights[..., :1]):
            found = tf.function(lambda A, X, w=w: weighted_square_distance(A, X, w), input_signature=unknown)(A, X)
            direct = naive(A, X, np.broadcast_to(w, (2, 1, 4)))
            np.testing.assert_allclose(found, direct, rtol=1e-10, atol=1e-13)
