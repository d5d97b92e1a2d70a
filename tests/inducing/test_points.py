from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from mogp.inducing import InducingPoints, given_points, kmeans_points, subset_points
from mogp.kernels import KernelStack


@pytest.fixture
def stack() -> KernelStack:
    return KernelStack(
        [gpflow.kernels.Matern32(0.5, 0.7), gpflow.kernels.SquaredExponential(), gpflow.kernels.Linear()]
    )


@pytest.mark.parametrize("sets", [None, 3])
def test_covariances_are_those_of_the_latent_values_at_the_points(stack, rng, sets):
    Z, X = rng.normal(size=(3, 4, 2)) if sets else rng.normal(size=(4, 2)), rng.normal(size=(6, 2))
    points = InducingPoints(Z)
    each = Z if sets else np.repeat(Z[None], 3, 0)
    np.testing.assert_allclose(points.Kuu(stack), [k(z) for k, z in zip(stack.kernels, each, strict=True)], rtol=1e-7)
    Kuf = [k(z, X) for k, z in zip(stack.kernels, each, strict=True)]
    np.testing.assert_allclose(points.Kuf(stack, tf.constant(X)), Kuf, rtol=1e-7)
    assert points.num_inducing == 4
    assert points.num_sets == sets


def test_white_noise_is_on_the_diagonal_of_kuu_as_in_gpflow(rng):
    kernel, Z = gpflow.kernels.SquaredExponential() + gpflow.kernels.White(0.3), rng.normal(size=(4, 2))
    stock = gpflow.covariances.Kuu(gpflow.inducing_variables.InducingPoints(Z), kernel)
    np.testing.assert_allclose(InducingPoints(Z).Kuu(KernelStack(kernel))[0], stock, rtol=1e-12)


def test_kmeans_finds_the_middles_of_clusters(rng):
    centres = np.array([[0.0, 0.0], [5.0, 5.0], [0.0, 9.0]])
    X = np.concatenate([c + 0.05 * rng.normal(size=(50, 2)) for c in centres])
    found = np.asarray(kmeans_points(X, 3).Z)
    order = np.argsort(found.sum(1))
    np.testing.assert_allclose(found[order], centres[[0, 2, 1]], atol=0.1)


@pytest.mark.parametrize("choose", [kmeans_points, subset_points])
def test_a_seed_fixes_the_choice_and_sets_start_alike(choose, uneven):
    one, again, three = choose(uneven, 4, seed=2), choose(uneven, 4, seed=2), choose(uneven, 4, sets=3, seed=2)
    np.testing.assert_array_equal(one.Z, again.Z)
    assert three.Z.shape == (3, 4, 2)
    for Z in np.asarray(three.Z):
        np.testing.assert_array_equal(Z, one.Z)


def test_a_subset_is_distinct_inputs_of_the_data(rng):
    X = rng.integers(0, 3, size=(60, 2)).astype(float)
    Z = np.asarray(subset_points(X, 5).Z)
    assert len(np.unique(Z, axis=0)) == 5
    assert {tuple(z) for z in Z} <= {tuple(x) for x in X}


@pytest.mark.parametrize("choose", [kmeans_points, subset_points])
def test_more_points_than_distinct_inputs_gives_those_and_says_so(choose):
    with pytest.warns(UserWarning, match="10 inducing points were asked for, the data have 2 distinct inputs"):
        points = choose([1.0, 1.0, 2.0], 10)
    np.testing.assert_array_equal(points.Z, [[1.0], [2.0]])


@pytest.mark.parametrize("choose", [kmeans_points, subset_points])
@pytest.mark.parametrize("count", [0, -1])
def test_no_points_are_refused(choose, count):
    with pytest.raises(ValueError, match=f"{count} inducing points were asked for; at least 1"):
        choose([1.0, 2.0], count)


@pytest.mark.parametrize(
    ("Z", "said"),
    [
        (np.zeros((0, 2)), r"shape \(0, 2\); expected \[M, P\]"),
        (np.zeros((1, 1, 1, 1)), r"shape \(1, 1, 1, 1\)"),
        ([[0.0], [np.nan]], "1 inducing inputs are not finite"),
    ],
)
def test_points_that_cannot_be_are_refused(Z, said):
    with pytest.raises(ValueError, match=said):
        given_points(Z)


def test_a_vector_is_points_in_one_dimension():
    assert given_points([1.0, 2.0], sets=2).Z.shape == (2, 2, 1)
    assert given_points([1.0, 2.0]).Z.shape == (2, 1)


def test_points_take_the_default_float(float32):
    assert given_points([1.0, 2.0]).Z.dtype == tf.float32
