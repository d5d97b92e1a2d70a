"""Kernels read sparse inputs as they read dense ones."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gpflow.kernels import Linear, Matern12, Matern52, Periodic, RationalQuadratic, SquaredExponential, White

from mogp.kernels import KernelStack
from mogp.kernels.products import inner, square_norms, weighted_square_distance

STACKS = {
    "isotropic": lambda: [SquaredExponential(1.3, 0.7)],
    "a lengthscale each": lambda: [SquaredExponential(1.3, [0.5, 1.0, 2.0, 0.8])],
    "linear": lambda: [Linear(0.6)],
    "a weight each": lambda: [Linear([0.1, 0.5, 1.0, 2.0])],
    "sum": lambda: [SquaredExponential(1.0, [0.5, 1.0, 2.0, 0.8]) + Linear(0.4)],
    "product": lambda: [Matern52(1.0, 0.9) * Linear(0.4)],
    "two of a form": lambda: [SquaredExponential(1.0, 0.5), SquaredExponential(0.3, [0.5, 1.0, 2.0, 0.8])],
    "several forms": lambda: [
        Matern12(1.0, 0.5),
        Linear(2.0),
        RationalQuadratic(1.0, 0.7, 1.5),
        Linear([1, 2, 3, 4.0]),
    ],
}


@pytest.fixture
def X(rng) -> np.ndarray:
    inputs = rng.normal(size=(6, 4)) * (rng.random((6, 4)) < 0.4)
    inputs[[2, 5]] = 0
    return inputs


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("sets", [1, None])
def test_sparse_rows_give_the_covariances_of_dense_ones(name, sets, X, rng):
    stack = KernelStack(STACKS[name]())
    Z = rng.normal(size=(3, 4) if sets else (len(stack), 3, 4))
    direct = np.stack([k(z, X) for k, z in zip(stack.kernels, np.broadcast_to(Z, (len(stack), 3, 4)), strict=True)])
    np.testing.assert_allclose(stack.K(tf.constant(Z), tf.sparse.from_dense(X)), direct, rtol=1e-12, atol=1e-13)
    diagonal = np.stack([k(X, full_cov=False) for k in stack.kernels])
    np.testing.assert_allclose(stack.K_diag(tf.sparse.from_dense(X)), diagonal, rtol=1e-12)


@pytest.mark.parametrize("name", STACKS)
def test_gradients_are_those_of_dense_rows(name, X, rng):
    stack = KernelStack(STACKS[name]())
    Z, found = tf.Variable(rng.normal(size=(3, 4))), []
    weights = rng.normal(size=(len(stack), 3, 6))
    for rows in (tf.constant(X), tf.sparse.from_dense(X)):
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(weights * stack.K(Z, rows)) + tf.reduce_sum(stack.K_diag(rows) ** 2)
        found.append(tape.gradient(value, [Z, *stack.trainable_variables]))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)


def test_entries_may_be_in_any_order(X, rng):
    rows = tf.sparse.from_dense(X)
    order = rng.permutation(rows.indices.shape[0])
    mixed = tf.SparseTensor(tf.gather(rows.indices, order), tf.gather(rows.values, order), rows.dense_shape)
    for weights in (np.full((2, 1, 1), 0.5), rng.uniform(size=(2, 1, 4))):
        expected = (X**2 * weights).sum(-1)
        np.testing.assert_allclose(square_norms(mixed, tf.constant(weights)), expected, rtol=1e-12, atol=1e-15)


def test_squared_distances_are_zero_between_a_point_and_itself_and_positive_elsewhere(X, rng):
    """Panos 10.25."""
    weights = tf.constant(rng.uniform(0.5, 2.0, size=(1, 1, 4)))
    distance = weighted_square_distance(tf.constant(X), tf.sparse.from_dense(X), weights)[0].numpy()
    np.testing.assert_allclose(np.diagonal(distance), 0, atol=1e-14)
    direct = ((X[:, None] - X) ** 2 * weights.numpy()[0]).sum(-1)
    np.testing.assert_allclose(distance, direct, atol=1e-13)


def test_products_with_several_sets_are_products_with_each(X, rng):
    A = rng.normal(size=(2, 3, 4))
    np.testing.assert_allclose(inner(tf.constant(A), tf.sparse.from_dense(X)), A @ X.T, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", ["isotropic", "linear"])
def test_isotropic_kernels_need_inner_products_only(name, X, rng):
    stack = KernelStack([*STACKS[name](), STACKS["product"]()[0]])
    Z = rng.normal(size=(3, 4))
    found = stack.from_products(Z @ X.T, (Z**2).sum(1), (X**2).sum(1))
    np.testing.assert_allclose(found, stack.K(tf.constant(Z), tf.constant(X)), rtol=1e-12)


def test_weights_on_single_inputs_are_not_taken_for_isotropic(X):
    for name in ("a lengthscale each", "a weight each", "sum", "two of a form"):
        stack = KernelStack(STACKS[name]())
        assert not stack.isotropic
        with pytest.raises(ValueError, match="need the inputs"):
            stack.from_products(X @ X.T, (X**2).sum(1), (X**2).sum(1))
    assert not KernelStack(SquaredExponential(active_dims=[0, 1])).isotropic


def test_kernels_that_do_not_read_sparse_rows_say_so(X):
    rows = tf.sparse.from_dense(X)
    for kernel in (Periodic(SquaredExponential()), SquaredExponential(active_dims=[0, 1]), Linear() + White()):
        with pytest.raises(ValueError, match="does not read sparse inputs"):
            KernelStack(kernel).K(tf.constant(X), rows)
        with pytest.raises(ValueError, match="does not read sparse inputs"):
            KernelStack(kernel).K_diag(rows)
    with pytest.raises(ValueError, match="between sparse rows"):
        KernelStack(Linear()).K(rows)


@pytest.mark.usefixtures("float32")
def test_single_precision_is_kept(X, rng):
    stack = KernelStack(STACKS["sum"]())
    rows = tf.sparse.from_dense(tf.constant(X, tf.float32))
    K = stack.K(tf.constant(rng.normal(size=(3, 4)), tf.float32), rows)
    assert K.dtype == stack.K_diag(rows).dtype == tf.float32
