from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from mogp.linalg import cholesky, cholesky_and_jitter, first_jitter, log_evidence


def spd(rng: np.random.Generator, *shape: int) -> np.ndarray:
    root = rng.normal(size=(*shape, shape[-1]))
    return root @ np.swapaxes(root, -1, -2) + np.eye(shape[-1])


def test_factor_times_its_transpose_is_the_matrix_with_jitter(rng):
    K = spd(rng, 2, 3, 4)
    L = cholesky(tf.constant(K), jitter=0.01).numpy()
    np.testing.assert_allclose(L @ np.swapaxes(L, -1, -2), K + 0.01 * np.eye(4), rtol=1e-12)
    np.testing.assert_array_equal(L, np.tril(L))


def test_default_jitter_is_gpflows(rng):
    K = spd(rng, 3)
    with gpflow.config.as_context(gpflow.config.Config(jitter=0.5)):
        np.testing.assert_allclose(cholesky(tf.constant(K)), np.linalg.cholesky(K + 0.5 * np.eye(3)), rtol=1e-12)


def test_only_members_that_fail_get_more_jitter(rng):
    good, singular = spd(rng, 4), np.ones((4, 4)) - 1e-5 * np.eye(4)
    L, added = cholesky_and_jitter(tf.constant(np.stack([good, singular, good])), jitter=0.0)
    np.testing.assert_allclose(L[0], np.linalg.cholesky(good), rtol=1e-13)
    np.testing.assert_allclose(L[2], np.linalg.cholesky(good), rtol=1e-13)
    assert added[0] == added[2] == 0
    assert 1e-5 < added[1] <= 1e-3
    np.testing.assert_allclose(L[1] @ tf.transpose(L[1]), singular + added[1] * np.eye(4), atol=1e-12)


def test_the_scale_of_the_matrix_does_not_matter():
    singular = np.ones((3, 3)) - 1e-5 * np.eye(3)
    for scale in (1e-8, 1.0, 1e8):
        _, added = cholesky_and_jitter(tf.constant(scale * singular), jitter=0.0)
        assert added <= 1.001e-3 * scale


@pytest.mark.parametrize("graph", [False, True])
def test_gradient_is_tensorflows(rng, graph):
    K, weights = tf.constant(spd(rng, 3, 5)), tf.constant(rng.normal(size=(3, 5, 5)))

    def gradient(factor):
        def value(K):
            with tf.GradientTape() as tape:
                tape.watch(K)
                out = tf.reduce_sum(weights * factor(K) ** 2)
            return tape.gradient(out, K)

        return (tf.function(value) if graph else value)(K)

    theirs = gradient(tf.linalg.cholesky)
    np.testing.assert_allclose(gradient(lambda K: cholesky(K, jitter=0.0)), theirs, rtol=1e-9, atol=1e-10)


def test_gradient_is_finite_where_jitter_was_needed():
    K = tf.Variable(np.ones((3, 3)) - 1e-6 * np.eye(3))
    with tf.GradientTape() as tape:
        out = tf.linalg.trace(cholesky(K, jitter=0.0))
    assert np.isfinite(tape.gradient(out, K)).all()


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_entries_are_an_error_that_names_the_matrix(graph, bad):
    K = np.eye(3)
    K[1, 0] = K[0, 1] = bad
    call = tf.function(lambda K: cholesky(K, name="Kuu")) if graph else (lambda K: cholesky(K, name="Kuu"))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)Kuu has no Cholesky factor.*NaN or infinite:\D*2\b"):
        call(tf.constant(np.stack([np.eye(3), K])))


@pytest.mark.parametrize("graph", [False, True])
def test_a_matrix_beyond_repair_is_an_error_that_says_what_to_do(graph):
    K = tf.constant(np.diag([1.0, -1.0]))
    call = tf.function(lambda K: cholesky(K, name="Kuu")) if graph else (lambda K: cholesky(K, name="Kuu"))
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"(?s)Kuu has no Cholesky factor.*NaN or infinite:\D*0\b.*fewer inducing points",
    ):
        call(K)


def test_it_compiles_with_xla_and_agrees(rng):
    singular = np.ones((4, 4)) - 1e-5 * np.eye(4)
    K = tf.constant(np.stack([spd(rng, 4), singular]))

    def value(K):
        with tf.GradientTape() as tape:
            tape.watch(K)
            L = cholesky(K)
        return L, tape.gradient(L, K)

    for plain, compiled in zip(value(K), tf.function(value, jit_compile=True)(K), strict=True):
        np.testing.assert_allclose(plain, compiled, rtol=1e-6, atol=1e-9)


def test_float32_stays_float32_and_is_repaired_too(rng, float32):
    points = np.linspace(0, 1, 30, dtype=np.float32)
    K = np.exp(-0.5 * (points[:, None] - points) ** 2 / 0.5**2).astype(np.float32)
    L, added = cholesky_and_jitter(tf.constant(K))
    assert L.dtype == added.dtype == tf.float32
    np.testing.assert_allclose(L.numpy() @ L.numpy().T, K, atol=float(added) + 1e-5)


@pytest.mark.parametrize("variance", [0.01, 1.0, 100.0])
def test_the_first_jitter_of_float32_leaves_variances_and_log_determinants_right(variance):
    """300 points closer than the lengthscale: against float64 with the same jitter. With 1e-6, variances are NaN."""
    Z, X = (np.random.default_rng(seed).uniform(-1, 1, (300, 2)) for seed in (0, 1))

    def rbf(a, b):
        return variance * np.exp(-0.5 * np.sum((a[:, None] - b) ** 2, -1))

    L, added = cholesky_and_jitter(tf.constant(rbf(Z, Z), tf.float32))
    np.testing.assert_allclose(added, first_jitter(tf.constant(rbf(Z, Z), tf.float32)))
    exact = np.linalg.cholesky(rbf(Z, Z) + float(added) * np.eye(300))
    logs = [np.log(np.diag(factor)).sum() for factor in (L.numpy(), exact)]
    np.testing.assert_allclose(*logs, rtol=1e-3)
    A = tf.linalg.triangular_solve(L, tf.constant(rbf(Z, X), tf.float32))
    left = variance - np.sum(np.square(A), 0)
    assert (left > 0).all()
    np.testing.assert_allclose(left, variance - np.sum(np.linalg.solve(exact, rbf(Z, X)) ** 2, 0), atol=1e-5 * variance)


def test_the_first_jitter_of_float64_is_that_of_gpflow():
    for jitter in (1e-6, 1e-3):
        with gpflow.config.as_context(gpflow.config.Config(jitter=jitter)):
            np.testing.assert_array_equal(first_jitter(1e6 * tf.eye(3, 3, [2], tf.float64)), [jitter, jitter])


def test_one_by_one_and_no_batch():
    np.testing.assert_allclose(cholesky(tf.constant([[4.0]], tf.float64), jitter=0.0), [[2.0]])


def test_log_evidence_and_its_gradient_are_those_of_a_factorised_gaussian(rng):
    A = rng.normal(size=(6, 6))
    K, y = tf.constant(A @ A.T + np.eye(6)), tf.constant(rng.normal(size=6))
    np.testing.assert_allclose(log_evidence(y, K), stats.multivariate_normal(cov=K.numpy()).logpdf(y), rtol=1e-12)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([y, K])
        ours = log_evidence(y, K)
        L = tf.linalg.cholesky(K)
        root = tf.linalg.triangular_solve(L, y[:, None])
        plain = -0.5 * tf.reduce_sum(root**2) - tf.reduce_sum(tf.math.log(tf.linalg.diag_part(L)))
    for a, b in zip(tape.gradient(ours, [y, K]), tape.gradient(plain, [y, K]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("graph", [False, True])
def test_log_evidence_of_a_batch_is_that_of_its_members(rng, graph):
    K, y, weights = tf.constant(spd(rng, 2, 3, 4)), tf.constant(rng.normal(size=(2, 3, 4))), rng.normal(size=(2, 3))

    def value_and_gradients(y, K):
        with tf.GradientTape() as tape:
            tape.watch([y, K])
            value = log_evidence(y, K)
            total = tf.reduce_sum(weights * value)
        return value, *tape.gradient(total, [y, K])

    value, by_y, by_K = (tf.function(value_and_gradients) if graph else value_and_gradients)(y, K)
    assert value.shape == (2, 3)
    for i in np.ndindex(2, 3):
        np.testing.assert_allclose(value[i], stats.multivariate_normal(cov=K[i].numpy()).logpdf(y[i]), rtol=1e-12)
        _, own_y, own_K = value_and_gradients_of_one(y[i], K[i], weights[i])
        np.testing.assert_allclose(by_y[i], own_y, rtol=1e-10)
        np.testing.assert_allclose(by_K[i], own_K, rtol=1e-10, atol=1e-12)


def value_and_gradients_of_one(y, K, weight):
    with tf.GradientTape() as tape:
        tape.watch([y, K])
        L = tf.linalg.cholesky(K)
        root = tf.linalg.triangular_solve(L, y[:, None])
        value = weight * (-0.5 * tf.reduce_sum(root**2) - tf.reduce_sum(tf.math.log(tf.linalg.diag_part(L))))
    return value, *tape.gradient(value, [y, K])


@pytest.mark.parametrize("dtype", [tf.float64, tf.float32])
def test_a_matrix_with_a_negative_diagonal_is_an_error_and_no_endless_loop(dtype):
    for compiled in (cholesky, tf.function(cholesky)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="has no Cholesky factor"):
            compiled(-tf.eye(3, dtype=dtype), jitter=0.0)
