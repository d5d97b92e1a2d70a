"""Inducing points in a subspace, and on the unit sphere."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gpflow.kernels import Linear, Matern32, SquaredExponential
from gpflow.utilities import set_trainable
from scipy.sparse import csr_array

from mogp.inducing import InducingPoints, SubspacePoints, kmeans_points, subspace_points
from mogp.inducing.subspace import leading_directions
from mogp.kernels import KernelStack

N, P, M, R = 9, 6, 4, 3
KERNELS = {
    "LINEAR": lambda: [Linear(0.7)],
    "SE": lambda: [SquaredExponential(1.2, 0.8)],
    "SE-p-l": lambda: [SquaredExponential(1.2, 0.8), SquaredExponential(0.5, 1.5)],
    "sum": lambda: [SquaredExponential(1.2, 0.8) + Linear(0.3)],
    "ARD": lambda: [SquaredExponential(1.0, np.linspace(0.5, 2.0, P))],
    "LINEAR-l": lambda: [Linear(np.linspace(0.5, 2.0, P))],
    "Matern": lambda: [Matern32(1.0, 0.9)],
}


@pytest.fixture
def X(rng) -> np.ndarray:
    return rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.7)


def both(points: InducingPoints, kernels: KernelStack, X) -> tuple[tf.Tensor, tf.Tensor]:
    return points.Kuu(kernels), points.Kuf(kernels, X)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_covariances_are_those_of_the_points_written_out(name, unit, X, rng):
    """Panos 10.24: with a basis that is not orthonormal, so that its Gram matrix matters, as the weights do."""
    A, basis = rng.normal(size=(M, R)), rng.normal(size=(R, P))
    Z = A @ basis
    Z = Z / np.linalg.norm(Z, axis=1, keepdims=True) if unit else Z
    stack = KernelStack(KERNELS[name]())
    for points in (SubspacePoints(A, basis, unit=unit), SubspacePoints(A, basis, train_basis=True, unit=unit)):
        np.testing.assert_allclose(points.inputs, Z, rtol=1e-12)
        for inputs in (tf.constant(X), tf.sparse.from_dense(X)):
            Kuu, Kuf = both(points, stack, inputs)
            np.testing.assert_allclose(Kuu, [k(Z) for k in stack.kernels], rtol=1e-7, atol=1e-10)
            np.testing.assert_allclose(Kuf, [k(Z, X) for k in stack.kernels], rtol=1e-7, atol=1e-10)


def test_the_gram_matrix_without_weights_would_be_wrong_for_ard(X, rng):
    """Panos 10.24: what the test above would not see if it used the metric of the unweighted kernel."""
    A, basis = rng.normal(size=(M, R)), leading_directions(X, R)
    weights = 1 / np.linspace(0.5, 2.0, P) ** 2
    assert np.abs(basis @ np.diag(weights) @ basis.T - np.eye(R)).max() > 0.1
    stack = KernelStack(KERNELS["ARD"]())
    products = A @ A.T
    lengths = np.diagonal(products)
    unweighted = np.exp(-0.5 * (lengths[:, None] + lengths - 2 * products))
    assert np.abs(SubspacePoints(A, basis).Kuu(stack)[0] - unweighted).max() > 0.1


@pytest.mark.parametrize("name", ["SE", "ARD", "LINEAR"])
def test_a_basis_of_the_whole_space_changes_nothing(name, X, rng):
    """Panos 10.22: equal covariances, and gradients related by the basis."""
    Z, weights = rng.normal(size=(M, P)), rng.normal(size=(M, M + N))
    stack = KernelStack(KERNELS[name]())
    for basis in (np.linalg.qr(rng.normal(size=(P, P)))[0], rng.normal(size=(P, P)) + 3 * np.eye(P)):
        free, within = InducingPoints(Z), SubspacePoints(Z @ np.linalg.inv(basis), basis)
        values, slopes = [], []
        for points in (free, within):
            with tf.GradientTape() as tape:
                Kuu, Kuf = both(points, stack, tf.constant(X))
                value = tf.reduce_sum(weights * tf.concat([Kuu[0], Kuf[0]], 1))
            values.append(value)
            slopes.append(tape.gradient(value, points.trainable_variables)[0])
        np.testing.assert_allclose(values[1], values[0], rtol=1e-9)
        np.testing.assert_allclose(slopes[1], slopes[0] @ basis.T, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("form", [np.asarray, csr_array])
@pytest.mark.parametrize("rank", [2, 5, P])
def test_directions_are_orthonormal_and_hold_the_leading_variance(form, rank, X):
    """Panos 10.23, by the eigenvalues of X'X."""
    basis = leading_directions(form(X), rank)
    np.testing.assert_allclose(basis @ basis.T, np.eye(rank), atol=1e-12)
    held = np.linalg.norm(X @ basis.T, axis=0) ** 2
    np.testing.assert_allclose(held, np.sort(np.linalg.eigvalsh(X.T @ X))[::-1][:rank], rtol=1e-8, atol=1e-12)
    A = np.random.default_rng(0).normal(size=(M, rank))
    np.testing.assert_allclose(np.linalg.norm(SubspacePoints(A, basis).inputs, axis=1), np.linalg.norm(A, axis=1))


def test_directions_of_rank_deficient_inputs_are_orthonormal(rng):
    X = np.outer(rng.normal(size=40), rng.normal(size=30))
    basis = leading_directions(csr_array(X), 3)
    np.testing.assert_allclose(basis @ basis.T, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(X @ basis.T @ basis, X, atol=1e-10)


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_points_start_at_cluster_centres_of_the_coordinates(form, rng):
    """With as many clusters as there are groups of equal inputs, the centres are those inputs, projected."""
    groups = rng.normal(size=(M, P))
    X = np.repeat(groups, 5, axis=0)
    points = subspace_points(form(X), M, R, seed=1)
    expected = groups @ np.asarray(points.basis).T @ np.asarray(points.basis)
    found = np.asarray(points.inputs)
    order = [int(np.argmin(((found - z) ** 2).sum(1))) for z in expected]
    assert sorted(order) == list(range(M))
    np.testing.assert_allclose(found[order], expected, atol=1e-8)


def test_linear_kernels_see_the_projected_inputs_but_their_full_lengths(X):
    """Panos 10.26."""
    points, stack = subspace_points(X, M, R), KernelStack(Linear())
    projected = tf.constant(X @ np.asarray(points.basis).T)
    Kuu, Kuf = both(points, stack, tf.constant(X))
    np.testing.assert_allclose(Kuu, stack.K(tf.constant(points.A)), rtol=1e-10)
    np.testing.assert_allclose(Kuf, stack.K(tf.constant(points.A), projected), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(stack.K_diag(tf.constant(X))[0], (X**2).sum(1))
    assert (stack.K_diag(tf.constant(X)) > stack.K_diag(projected) + 1e-3).numpy().any()


@pytest.mark.parametrize("name", ["SE", "ARD"])
def test_a_trained_basis_is_read_as_it_is_also_when_it_is_frozen_again(name, X, rng):
    points, stack = subspace_points(X, M, R, train_basis=True), KernelStack(KERNELS[name]())
    points.basis.assign(rng.normal(size=(R, P)))
    set_trainable(points, False)
    Z = np.asarray(points.A) @ np.asarray(points.basis)
    np.testing.assert_allclose(points.Kuu(stack), [k(Z) for k in stack.kernels], rtol=1e-10)


def test_only_what_is_trained_is_a_parameter(X):
    assert [v.shape for v in subspace_points(X, M, R).trainable_variables] == [(M, R)]
    trained = subspace_points(X, M, R, train_basis=True).trainable_variables
    assert sorted(tuple(v.shape) for v in trained) == [(R, P), (M, R)]
    assert (SubspacePoints(np.ones((M, R)), np.ones((R, P))).num_inducing, subspace_points(X, M, R).input_dim) == (M, P)


@pytest.mark.parametrize("name", ["LINEAR", "SE", "ARD"])
def test_only_the_direction_of_a_unit_point_counts(name, X, rng):
    """Panos 10.28."""
    stack, Z, factors = KernelStack(KERNELS[name]()), rng.normal(size=(M, P)), rng.uniform(0.1, 9.0, size=(M, 1))
    basis = leading_directions(X, R)
    for make in (lambda Z, unit: InducingPoints(Z, unit), lambda Z, unit: SubspacePoints(Z[:, :R], basis, unit=unit)):
        for one, other in zip(
            both(make(Z, True), stack, tf.constant(X)),
            both(make(factors * Z, True), stack, tf.constant(X)),
            strict=True,
        ):
            np.testing.assert_allclose(one, other, rtol=1e-9)
        free = [make(z, False).Kuf(stack, tf.constant(X)) for z in (Z, factors * Z)]
        assert np.abs(free[0] - free[1]).max() > 0.01
        if name == "LINEAR":
            np.testing.assert_allclose(tf.linalg.diag_part(make(Z, True).Kuu(stack)), np.full((1, M), 0.7))


@pytest.mark.parametrize("name", ["LINEAR", "SE"])
def test_a_point_at_zero_stays_there_with_finite_gradients(name, X, rng):
    Z = rng.normal(size=(M, R))
    Z[1] = 0
    basis = leading_directions(X, R)
    stack = KernelStack(KERNELS[name]())
    found = []
    for points in (InducingPoints(Z @ basis, unit=True), SubspacePoints(Z, basis, unit=True)):
        with tf.GradientTape() as tape:
            Kuu, Kuf = both(points, stack, tf.constant(X))
            value = tf.reduce_sum(Kuu) + tf.reduce_sum(Kuf)
        assert np.isfinite(tape.gradient(value, points.trainable_variables)[0]).all()
        found.append((Kuu, Kuf))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_more_points_than_rows_are_the_rows(form, X):
    with pytest.warns(UserWarning, match="the data have 9 distinct inputs: using those"):
        points = kmeans_points(form(X), 20)
    assert points.Z.shape == (N, P)


@pytest.mark.parametrize("rank", [0, -1, P + 1])
def test_a_subspace_has_at_least_one_dimension_and_no_more_than_the_inputs(rank, X):
    with pytest.raises(ValueError, match=f"have 1 to {P} singular vectors"):
        subspace_points(X, M, rank)


def test_coordinates_and_basis_must_fit():
    with pytest.raises(ValueError, match=r"coordinates of shape \(4, 3\) on a basis of shape \(2, 6\)"):
        SubspacePoints(np.ones((4, 3)), np.ones((2, 6)))
