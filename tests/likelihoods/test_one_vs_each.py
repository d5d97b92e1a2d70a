"""One-vs-each against the softmax, enumeration, Monte Carlo and SciPy's quadrature."""

from __future__ import annotations

from itertools import combinations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate, special, stats

from mogp.likelihoods import OneVsEach, Softmax, Targets, check_targets
from mogp.likelihoods.one_vs_each import expected_log_sigmoid, log_one_vs_each
from mogp.priors import Marginals, View, independent_functions


def scores(classes: int, rows: int = 200, scale: float = 3.0, seed: int = 0) -> np.ndarray:
    return scale * np.random.default_rng(seed).normal(size=(rows, classes))


def direct(F: np.ndarray) -> np.ndarray:
    """The product of comparisons, class by class."""
    others = [np.delete(F, k, axis=-1) for k in range(F.shape[-1])]
    return np.stack([special.log_expit(F[..., k, None] - rest).sum(-1) for k, rest in enumerate(others)], -1)


def moments(rows: int, classes: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = (np.arange(rows) % classes)[:, None].astype(float)
    return rng.normal(size=(rows, classes)), rng.uniform(0.1, 0.8, (rows, classes)), labels


def view(Fmu: np.ndarray, Fvar: np.ndarray) -> View:
    f = independent_functions(Marginals(tf.constant(Fmu), tf.constant(Fvar)))
    return View(f, 0, Fmu.shape[1], None)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_product_is_that_of_all_comparisons_and_below_the_softmax(classes):
    F = scores(classes)
    bound, softmax = log_one_vs_each(F).numpy(), special.log_softmax(F, axis=1)
    np.testing.assert_allclose(bound, direct(F), atol=1e-12)
    assert (bound <= softmax + 1e-12).all()
    assert (np.exp(bound).sum(1) <= 1 + 1e-12).all()
    np.testing.assert_array_equal(bound.argmax(1), softmax.argmax(1))
    np.testing.assert_allclose(log_one_vs_each(F + 7.5), bound, atol=1e-12)


def test_two_classes_give_the_softmax_itself():
    F = scores(2)
    np.testing.assert_allclose(log_one_vs_each(F), special.log_softmax(F, axis=1), atol=1e-12)


def test_ten_nodes_agree_with_adaptive_quadrature_for_variances_up_to_one():
    for mean, var in [(-5.0, 1.0), (0.3, 0.5), (4.0, 1.0), (1.0, 0.01)]:
        density = stats.norm(mean, np.sqrt(var)).pdf
        truth = integrate.quad(lambda d, p=density: special.log_expit(d) * p(d), mean - 12, mean + 12)[0]
        np.testing.assert_allclose(expected_log_sigmoid(mean, var), truth, atol=2e-7)


def test_the_expectation_equals_that_of_samples_of_the_product():
    Fmu, Fvar, Y = moments(4, 5)
    F = Fmu + np.sqrt(Fvar) * np.random.default_rng(2).normal(size=(400_000, *Fmu.shape))
    rows = np.arange(4)
    draws = direct(F)[:, rows, Y[:, 0].astype(int)]
    found = OneVsEach(5).variational_expectations(np.zeros((4, 0)), Fmu, Fvar, Y)
    assert (np.abs(found - draws.mean(0)) < 5 * draws.std(0) / np.sqrt(len(draws))).all()


def test_for_two_classes_the_expectation_is_that_of_the_softmax_and_of_a_bernoulli_on_the_difference():
    Fmu, Fvar, Y = moments(6, 2)
    found = OneVsEach(2, nodes=20).variational_expectations(np.zeros((6, 0)), Fmu, Fvar, Y)
    binary = gpflow.likelihoods.Bernoulli(invlink=tf.math.sigmoid)
    difference, spread = (Fmu[:, :1] - Fmu[:, 1:]), Fvar.sum(1, keepdims=True)
    truth = binary.variational_expectations(np.zeros((6, 0)), difference, spread, 1.0 - Y)
    np.testing.assert_allclose(found, truth, atol=1e-4)
    points, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    exact = [
        weights @ special.log_expit((1 - 2 * y) * (m + np.sqrt(v) * points))
        for m, v, y in zip(difference[:, 0], spread[:, 0], Y[:, 0], strict=True)
    ]
    np.testing.assert_allclose(found, exact, atol=1e-8)


def test_sampled_rivals_average_to_all_of_them_over_every_subset():
    Fmu, Fvar, Y = moments(3, 5)
    every = OneVsEach(5).variational_expectations(np.zeros((3, 0)), Fmu, Fvar, Y)
    some = OneVsEach(5, negatives=2)
    subsets = list(combinations(range(4), 2))
    estimates = []
    for subset in subsets:
        labels = Y[:, 0].astype(int)
        drawn = np.array([[c + (c >= label) for c in subset] for label in labels])
        some.draw_negatives = lambda _, drawn=drawn: tf.constant(drawn, tf.int64)
        estimates.append(some.variational_expectations(np.zeros((3, 0)), Fmu, Fvar, Y))
    np.testing.assert_allclose(np.mean(estimates, 0), every, atol=1e-12)


def test_the_predictive_bound_equals_that_of_samples_and_lies_below_the_softmax():
    Fmu, Fvar, _ = moments(4, 3)
    likelihood = OneVsEach(3, prediction_samples=20_000)
    log_p = likelihood.log_bound(view(Fmu, Fvar)).numpy()
    F = Fmu + np.sqrt(Fvar) * np.random.default_rng(5).normal(size=(200_000, 4, 3))
    draws = np.exp(direct(F))
    spread = draws.std(0) * np.sqrt(1 / 20_000 + 1 / 200_000)
    assert (np.abs(np.exp(log_p) - draws.mean(0)) < 5 * spread).all()
    softmax, _ = likelihood.predictive(view(Fmu, Fvar))
    assert (np.exp(log_p) < softmax.numpy()).all()
    normalised = np.exp(likelihood.log_bound(view(Fmu, Fvar), normalise=True))
    np.testing.assert_allclose(normalised, np.exp(log_p) / np.exp(log_p).sum(1, keepdims=True), rtol=1e-12)


def test_predictions_are_those_of_the_softmax():
    Fmu, Fvar, Y = moments(5, 4)
    one, other = OneVsEach(4, seed=3), Softmax(4, seed=3)
    np.testing.assert_array_equal(one.predictive(view(Fmu, Fvar))[0], other.predictive(view(Fmu, Fvar))[0])
    targets = Targets(tf.constant(Y), tf.ones_like(Y, tf.bool), tf.range(5))
    np.testing.assert_array_equal(
        one.log_density(view(Fmu, Fvar), targets), other.log_density(view(Fmu, Fvar), targets)
    )


def test_large_differences_stay_finite_in_value_and_gradient_in_single_precision():
    F = tf.constant([[500.0, -500.0, 0.0]], tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(F)
        value = tf.reduce_sum(log_one_vs_each(F)) + tf.reduce_sum(expected_log_sigmoid(F, tf.square(F)))
    assert value.dtype == tf.float32
    assert np.isfinite(value)
    assert np.isfinite(tape.gradient(value, F)).all()


def test_bad_numbers_are_refused():
    with pytest.raises(ValueError, match="at least 2 classes, got 1"):
        OneVsEach(1)
    with pytest.raises(ValueError, match="negatives=0"):
        OneVsEach(3, negatives=0)
    with pytest.raises(ValueError, match="nodes=0"):
        OneVsEach(3, nodes=0)
    with pytest.raises(ValueError, match="labels must be whole numbers from 0 to 2"):
        check_targets(OneVsEach(3), np.array([[0.0], [3.0]]), "digit")
