"""Softmax by Monte Carlo and robust-max: probabilities, expectations, and randomness that can be repeated."""

import copy

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from mogp.likelihoods import RobustMax, Softmax

MU = np.array([[0.5, -0.3, 1.0], [2.0, 0.0, -1.0], [0.0, 0.0, 0.0], [30.0, -20.0, 0.0]])
VAR = np.array([[0.5, 1.0, 0.2], [1.5, 0.1, 0.7], [1.0, 1.0, 1.0], [0.1, 3.0, 2.0]])
LABELS = np.array([[2.0], [0.0], [1.0], [0.0]])
X = np.zeros((4, 0))


def draws(number):
    return MU + np.sqrt(VAR) * np.random.default_rng(1).normal(size=(number, *MU.shape))


def two_classes(h, mu, var):
    """E h(f_1 - f_0) by 100-node quadrature: with two classes the softmax is a logistic of the difference."""
    z, w = np.polynomial.hermite_e.hermegauss(100)
    difference = (mu[:, 1] - mu[:, 0])[:, None] + np.sqrt(var.sum(1))[:, None] * z
    return h(difference) @ (w / w.sum())


@pytest.mark.parametrize("make", [Softmax, RobustMax])
def test_class_probabilities_sum_to_one_and_match_the_log_density(make):
    likelihood = make(3)
    p, variance = likelihood.predict_mean_and_var(X, MU, VAR)
    np.testing.assert_allclose(np.sum(p, axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(variance, p * (1 - p))
    each = [likelihood.predict_log_density(X, MU, VAR, np.full((4, 1), k)) for k in range(3)]
    np.testing.assert_allclose(np.exp(each).T, p, rtol=1e-10)


def test_softmax_probabilities_equal_those_of_independent_samples():
    p, _ = Softmax(3, prediction_samples=20_000).predict_mean_and_var(X, MU, VAR)
    np.testing.assert_allclose(p, special.softmax(draws(200_000), axis=-1).mean(0), atol=0.01)


def test_softmax_log_density_given_functions_equals_scipy_for_any_batch_shape():
    F = draws(5)
    expected = np.take_along_axis(special.log_softmax(F, axis=-1), LABELS.astype(int)[None].repeat(5, 0), -1)[..., 0]
    np.testing.assert_allclose(Softmax(3).log_prob(X, F, LABELS), expected, rtol=1e-12)


def test_softmax_with_two_classes_equals_the_logistic_of_the_difference():
    mu, var, Y = MU[:3, :2], VAR[:3, :2], np.ones((3, 1))
    likelihood = Softmax(2, samples=40_000, prediction_samples=40_000)
    p, _ = likelihood.predict_mean_and_var(X[:3], mu, var)
    np.testing.assert_allclose(p[:, 1], two_classes(special.expit, mu, var), atol=1e-2)
    np.testing.assert_allclose(
        likelihood.variational_expectations(X[:3], mu, var, Y), two_classes(special.log_expit, mu, var), atol=2e-2
    )


def test_softmax_expectation_is_unbiased_over_calls():
    mu, var, Y = MU[:3, :2], VAR[:3, :2], np.ones((3, 1))
    likelihood = Softmax(2, samples=5)
    values = np.array([likelihood.variational_expectations(X[:3], mu, var, Y) for _ in range(200)])
    error = values.std(0) / np.sqrt(len(values))
    assert np.all(np.abs(values.mean(0) - two_classes(special.log_expit, mu, var)) < 4.5 * error)


def test_softmax_gradient_equals_the_expected_derivative():
    """Bonnet: dE/dm_k = 1[k = y] - E softmax_k."""
    mu, likelihood = tf.constant(MU), Softmax(3, samples=50_000)
    with tf.GradientTape() as tape:
        tape.watch(mu)
        value = likelihood.variational_expectations(X, mu, VAR, LABELS)
    expected = np.eye(3)[LABELS[:, 0].astype(int)] - special.softmax(draws(200_000), axis=-1).mean(0)
    np.testing.assert_allclose(tape.gradient(value, mu), expected, atol=0.01)


def test_softmax_noise_is_new_in_every_call_and_the_same_for_the_same_seed():
    first, second, other = Softmax(3, seed=4), Softmax(3, seed=4), Softmax(3, seed=5)
    sequence = [first.variational_expectations(X, MU, VAR, LABELS).numpy() for _ in range(3)]
    for value in sequence:
        np.testing.assert_array_equal(second.variational_expectations(X, MU, VAR, LABELS), value)
    assert not np.allclose(sequence[0], sequence[1])
    assert not np.allclose(other.variational_expectations(X, MU, VAR, LABELS), sequence[0])


def test_softmax_noise_resumes_from_a_checkpoint(tmp_path):
    likelihood = Softmax(3)
    likelihood.variational_expectations(X, MU, VAR, LABELS)
    path = tf.train.Checkpoint(likelihood=likelihood).save(str(tmp_path / "state"))
    expected = likelihood.variational_expectations(X, MU, VAR, LABELS)
    resumed = Softmax(3, seed=99)
    tf.train.Checkpoint(likelihood=resumed).restore(path).assert_consumed()
    np.testing.assert_array_equal(resumed.variational_expectations(X, MU, VAR, LABELS), expected)


def test_softmax_copies_do_not_share_their_noise():
    likelihood = Softmax(3)
    twin = copy.deepcopy(likelihood)
    expected = likelihood.variational_expectations(X, MU, VAR, LABELS)
    np.testing.assert_array_equal(twin.variational_expectations(X, MU, VAR, LABELS), expected)


def test_softmax_prediction_repeats_ignores_the_other_rows_and_leaves_training_alone():
    used, fresh = Softmax(3), Softmax(3)
    p, _ = used.predict_mean_and_var(X, MU, VAR)
    np.testing.assert_array_equal(used.predict_mean_and_var(X, MU, VAR)[0], p)
    np.testing.assert_allclose(used.predict_mean_and_var(X[1:2], MU[1:2], VAR[1:2])[0], p[1:2], rtol=1e-12)
    np.testing.assert_array_equal(
        used.variational_expectations(X, MU, VAR, LABELS), fresh.variational_expectations(X, MU, VAR, LABELS)
    )


def compiled_value_and_gradient(likelihood):
    @tf.function(jit_compile=True)
    def value_and_gradient(mu):
        with tf.GradientTape() as tape:
            tape.watch(mu)
            value = likelihood.variational_expectations(X, mu, VAR, LABELS)
        return value, tape.gradient(value, mu)

    return value_and_gradient(tf.constant(MU))


@pytest.mark.parametrize("make", [Softmax, RobustMax])
def test_prediction_is_the_same_eager_and_compiled_by_xla_for_any_number_of_rows(make):
    likelihood, rows = make(3), tf.TensorSpec([None, 3], tf.float64)

    @tf.function(jit_compile=True, input_signature=[rows, rows])
    def predict(mu, var):
        return likelihood.predict_mean_and_var(None, mu, var)[0]

    np.testing.assert_allclose(predict(MU, VAR), likelihood.predict_mean_and_var(X, MU, VAR)[0], rtol=1e-9, atol=1e-12)


def test_robust_max_compiled_by_xla_gives_the_eager_value():
    value, gradient = compiled_value_and_gradient(RobustMax(3))
    np.testing.assert_allclose(value, RobustMax(3).variational_expectations(X, MU, VAR, LABELS), rtol=1e-10)
    assert np.all(np.isfinite(gradient))


def test_softmax_compiled_by_xla_repeats_with_its_seed_and_has_the_same_expectation():
    value, gradient = compiled_value_and_gradient(Softmax(3, samples=50_000))
    np.testing.assert_array_equal(compiled_value_and_gradient(Softmax(3, samples=50_000))[0], value)
    np.testing.assert_allclose(
        value, special.log_softmax(draws(200_000), -1).mean(0)[np.arange(4), [2, 0, 1, 0]], atol=0.02
    )
    assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize("make", [Softmax, RobustMax])
def test_float32_gives_float32_close_to_float64(make):
    exact = make(3).predict_log_density(X, MU, VAR, LABELS)
    with gpflow.config.as_context(gpflow.config.Config(float=np.float32)):
        likelihood = make(3)
        single = [np.float32(part) for part in (X, MU, VAR, LABELS)]
        assert likelihood.variational_expectations(*single).dtype == np.float32
        np.testing.assert_allclose(likelihood.predict_log_density(*single), exact, atol=0.06)
    moments = likelihood.predict_mean_and_var(*single[:3])
    assert {part.dtype for part in moments} == {tf.float32}


@pytest.mark.parametrize("make", [Softmax, RobustMax])
def test_values_and_gradients_are_finite_for_extreme_functions(make):
    mu = tf.constant([[1e4, -1e4, 0.0], [-500.0, -500.0, -500.0]], tf.float64)
    var = tf.constant([[0.0, -1e-14, 1e4], [0.0, 0.0, 0.0]], tf.float64)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([mu, var])
        expected = make(3).variational_expectations(X[:2], mu, var, LABELS[:2])
        density = make(3).predict_log_density(X[:2], mu, var, LABELS[:2])
    for value in (expected, density, *tape.gradient(expected, [mu, var])):
        assert np.all(np.isfinite(value))


def test_robust_max_probability_largest_equals_the_frequency_of_the_largest():
    pi = RobustMax(3, nodes=60).probability_largest(MU, VAR)
    frequency = np.eye(3)[draws(300_000).argmax(-1)].mean(0)
    np.testing.assert_allclose(pi, frequency, atol=5e-3)
    np.testing.assert_allclose(np.sum(pi, axis=1), 1.0, rtol=1e-12)


def test_robust_max_probability_largest_equals_the_normal_cdf_for_two_classes():
    mu, var = MU[:, :2], VAR[:, :2]
    expected = special.ndtr((mu[:, 1] - mu[:, 0]) / np.sqrt(var.sum(1)))
    np.testing.assert_allclose(RobustMax(2, nodes=60).probability_largest(mu, var)[:, 1], expected, atol=1e-5)


def test_robust_max_with_the_printed_formula_sums_to_one_minus_epsilon():
    likelihood = RobustMax(3, epsilon=0.05)
    printed = (1 - 0.05) * likelihood.probability_largest(MU, VAR)
    np.testing.assert_allclose(np.sum(printed, axis=1), 1 - 0.05)
    np.testing.assert_allclose(np.sum(likelihood.predict_mean_and_var(X, MU, VAR)[0], axis=1), 1.0)


def test_robust_max_given_functions_follows_its_definition_for_any_batch_shape():
    F, epsilon = draws(5), 0.05
    hit = F.argmax(-1) == LABELS[:, 0]
    expected = np.where(hit, np.log(1 - epsilon), np.log(epsilon / 2))
    likelihood = RobustMax(3, epsilon)
    np.testing.assert_allclose(likelihood.log_prob(X, F, LABELS), expected, rtol=1e-10)
    np.testing.assert_allclose(np.sum(likelihood.conditional_mean(X, F), axis=-1), 1.0)


def test_robust_max_expectation_equals_that_of_samples():
    likelihood = RobustMax(3, epsilon=0.05, nodes=60)
    expected = likelihood.log_prob(X, draws(100_000), LABELS).numpy().mean(0)
    np.testing.assert_allclose(likelihood.variational_expectations(X, MU, VAR, LABELS), expected, atol=0.05)


@pytest.mark.parametrize("make", [Softmax, RobustMax])
def test_jensen_predictive_log_density_is_at_least_the_expected_one(make):
    likelihood = make(3)
    expected = np.mean([likelihood.variational_expectations(X, MU, VAR, LABELS) for _ in range(50)], axis=0)
    assert np.all(likelihood.predict_log_density(X, MU, VAR, LABELS) >= expected - 1e-6)


@pytest.mark.parametrize("make", [Softmax, RobustMax])
def test_one_class_is_refused(make):
    with pytest.raises(ValueError, match="needs at least 2 classes, got 1"):
        make(1)
