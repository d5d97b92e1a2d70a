"""Psi-statistics of the squared exponential kernel, against quadrature, GPflow and limits."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from gpflow.kernels import SquaredExponential
from numpy.polynomial.hermite import hermgauss
from scipy.spatial.distance import cdist

from mogp.kernels import expected_k, expected_kk
from mogp.kernels.expected import paired, symmetric


def case(
    Q: int, D: int = 4, M: int = 3, seed: int = 0
) -> tuple[SquaredExponential, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    kernel = SquaredExponential(variance=1.7, lengthscales=rng.uniform(0.7, 1.5, Q))
    return kernel, rng.normal(size=(M, Q)), rng.normal(size=(D, Q)), rng.uniform(0.05, 0.4, (D, Q))


def k(kernel: SquaredExponential, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    lengthscales = np.asarray(kernel.lengthscales)
    return kernel.variance.numpy() * np.exp(-0.5 * cdist(A / lengthscales, B / lengthscales, "sqeuclidean"))


def full(pairs: tf.Tensor, M: int) -> np.ndarray:
    return symmetric(pairs, M).numpy()


@pytest.mark.parametrize("Q", [1, 2, 3])
def test_psi_statistics_equal_gauss_hermite_quadrature(Q):
    """H2: tensor rule with 60 nodes a dimension, enough for variances this small."""
    kernel, Z, mean, var = case(Q)
    x, w = hermgauss(60)
    grid = np.stack(np.meshgrid(*[x] * Q, indexing="ij"), -1).reshape(-1, Q)
    weights = np.prod(np.stack(np.meshgrid(*[w / w.sum()] * Q, indexing="ij"), -1), -1).reshape(-1)
    for d in range(len(mean)):
        values = k(kernel, mean[d] + np.sqrt(2 * var[d]) * grid, Z)
        np.testing.assert_allclose(expected_k(kernel, Z, mean, var)[d], weights @ values, rtol=1e-9)
        np.testing.assert_allclose(
            full(expected_kk(kernel, Z, mean, var), 3)[d], np.einsum("s,sm,sn->mn", weights, values, values), rtol=1e-9
        )


def test_psi_statistics_equal_monte_carlo():
    """H2."""
    kernel, Z, mean, var = case(2)
    h = mean[:, None] + np.sqrt(var)[:, None] * np.random.default_rng(1).normal(size=(4, 100_000, 2))
    for d in range(4):
        values = k(kernel, h[d], Z)
        products = values[:, :, None] * values[:, None]
        for found, draws in (
            (expected_k(kernel, Z, mean, var)[d], values),
            (full(expected_kk(kernel, Z, mean, var), 3)[d], products),
        ):
            assert np.all(np.abs(found - draws.mean(0)) < 5 * draws.std(0) / np.sqrt(len(h[d])))


def test_psi_statistics_equal_those_of_gpflow():
    kernel, Z, mean, var = case(2)
    points, of = gpflow.inducing_variables.InducingPoints(Z), gpflow.probability_distributions.DiagonalGaussian
    both = (kernel, points)
    np.testing.assert_allclose(
        expected_k(kernel, Z, mean, var), gpflow.expectations.expectation(of(mean, var), both), rtol=1e-10
    )
    np.testing.assert_allclose(
        full(expected_kk(kernel, Z, mean, var), 3),
        gpflow.expectations.expectation(of(mean, var), both, both),
        rtol=1e-10,
    )


def test_without_uncertainty_they_are_the_kernel_and_its_products():
    """H2: `s → 0`."""
    kernel, Z, mean, var = case(2)
    values = k(kernel, mean, Z)
    np.testing.assert_allclose(expected_k(kernel, Z, mean, 1e-12 * var), values, rtol=1e-9)
    np.testing.assert_allclose(
        full(expected_kk(kernel, Z, mean, 0 * var), 3), values[:, :, None] * values[:, None], rtol=1e-10
    )


def test_expected_products_less_products_of_expectations_are_covariances():
    kernel, Z, mean, var = case(2, D=6, M=5, seed=3)
    Psi = expected_k(kernel, Z, mean, var).numpy()
    for d in range(6):
        cov = full(expected_kk(kernel, Z, mean, var), 5)[d] - np.outer(Psi[d], Psi[d])
        assert np.linalg.eigvalsh(cov).min() > -1e-12


def test_one_lengthscale_for_all_dimensions_is_that_lengthscale_for_each():
    _, Z, mean, var = case(2)
    for rule in (expected_k, expected_kk):
        np.testing.assert_allclose(
            rule(SquaredExponential(lengthscales=0.9), Z, mean, var),
            rule(SquaredExponential(lengthscales=[0.9, 0.9]), Z, mean, var),
            rtol=1e-12,
        )


def test_points_far_from_the_origin_keep_their_digits():
    kernel, Z, mean, var = case(2)
    for rule in (expected_k, expected_kk):
        np.testing.assert_allclose(
            rule(kernel, Z + 1e4, mean + 1e4, var), rule(kernel, Z, mean, var), rtol=1e-6, atol=1e-12
        )


def test_values_and_gradients_are_finite_at_and_far_from_the_points():
    kernel, Z, _, _ = case(2)
    mean, var = tf.Variable(np.stack([Z[0], Z[1] + 1e3, Z[2]])), tf.Variable(np.full((3, 2), 1e-10))
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(expected_k(kernel, Z, mean, var)) + tf.reduce_sum(expected_kk(kernel, Z, mean, var))
    found = tape.gradient(value, [mean, var, *kernel.trainable_variables])
    assert all(np.isfinite(tf.convert_to_tensor(g)).all() for g in found)


def test_pairs_make_symmetric_matrices_and_traces():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(2, 4, 4))
    A, B = A + A.T, B + B.T
    pairs = tf.constant(B[np.tril_indices(4)])
    np.testing.assert_allclose(symmetric(pairs, 4), B)
    np.testing.assert_allclose(tf.reduce_sum(paired(tf.constant(A)) * pairs), np.trace(A @ B), rtol=1e-12)
    np.testing.assert_allclose(symmetric(tf.stack([pairs, 2 * pairs]), 4), [B, 2 * B])
    np.testing.assert_allclose(symmetric(tf.constant([3.0]), 1), [[3.0]])


def test_float32_stays_float32(float32):
    kernel, Z, mean, var = case(2)
    Z, mean, var = (tf.constant(a, tf.float32) for a in (Z, mean, var))
    for rule in (expected_k, expected_kk):
        found = rule(kernel, Z, mean, var)
        assert found.dtype == tf.float32
        assert np.isfinite(found).all()
