"""Densities, expectations and predictions of the likelihoods against SciPy, dense grids and Monte Carlo."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate

from mogp import likelihoods
from mogp.likelihoods import bounded

CLOSED = ["Gaussian", "HeteroscedasticGaussian", "Exponential", "Poisson"]


def no_inputs(rows):
    return np.zeros((len(rows), 0))


def test_log_density_equals_scipy(case):
    mu, _, Y = case.q()
    measured = case.make().log_prob(no_inputs(mu), mu, Y)
    np.testing.assert_allclose(measured, case.log_density(Y[:, 0], mu), rtol=1e-12, atol=1e-12)


def test_conditional_moments_equal_scipy(case):
    mu, _, _ = case.q()
    likelihood, given = case.make(), case.given(*mu.T)
    np.testing.assert_allclose(likelihood.conditional_mean(no_inputs(mu), mu)[:, 0], given.mean(), rtol=1e-12)
    np.testing.assert_allclose(likelihood.conditional_variance(no_inputs(mu), mu)[:, 0], given.var(), rtol=1e-11)


def test_predictive_density_sums_or_integrates_to_one(case):
    likelihood = case.make()
    mu, var = (np.array([part[: case.functions]]) for part in (case.means, case.variances))

    def log_density(Y):
        mean, variance = np.repeat(mu, len(Y), 0), np.repeat(var, len(Y), 0)
        return likelihood.predict_log_density(no_inputs(Y), mean, variance, Y).numpy()

    if case.discrete:
        np.testing.assert_allclose(np.exp(log_density(case.support[:, None])).sum(), 1.0, atol=1e-5)
    else:
        low, high = case.support
        t = np.linspace(-1 if low < 0 or high == 1 else 0, 1, 602)[1:-1]
        y = 0.5 * (1 + np.sin(np.pi * t / 2)) if high == 1 else np.sinh(13 * t) / np.sinh(13) * high
        np.testing.assert_allclose(integrate.trapezoid(np.exp(log_density(y[:, None])), y), 1.0, atol=2e-3)


@pytest.mark.parametrize("case", CLOSED, indirect=True)
def test_closed_forms_use_no_quadrature_and_equal_100_nodes(case, expectation):
    mu, var, Y = case.q()
    measured = case.make(nodes=1).variational_expectations(no_inputs(mu), mu, var, Y)
    expected = [
        expectation(lambda F, y=y: case.log_density(y, F), m, v) for m, v, y in zip(mu, var, Y[:, 0], strict=True)
    ]
    np.testing.assert_allclose(measured, expected, rtol=1e-11, atol=1e-11)


def test_expected_log_density_equals_100_nodes(case, expectation):
    mu, var, Y = case.q()
    measured = case.make(nodes=60).variational_expectations(no_inputs(mu), mu, var, Y)
    expected = [
        expectation(lambda F, y=y: case.log_density(y, F), m, v) for m, v, y in zip(mu, var, Y[:, 0], strict=True)
    ]
    np.testing.assert_allclose(measured, expected, rtol=1e-10, atol=1e-10)


def test_twenty_nodes_are_enough_for_moderate_variances(case, expectation):
    mu, var, Y = case.q()
    measured = case.make().variational_expectations(no_inputs(mu), mu, var, Y)
    expected = [
        expectation(lambda F, y=y: case.log_density(y, F), m, v) for m, v, y in zip(mu, var, Y[:, 0], strict=True)
    ]
    np.testing.assert_allclose(measured, expected, atol=2e-6)


def test_bonnet_and_price_gradients_are_expected_derivatives(case, expectation):
    """dE/dm = E[d log p / df] and dE/dv = E[d2 log p / df2] / 2, derivatives by autodiff at 60 nodes a function."""
    likelihood = case.make(nodes=60)
    mu, var, Y = (tf.constant(part) for part in case.q())
    with tf.GradientTape() as tape:
        tape.watch([mu, var])
        value = likelihood.variational_expectations(no_inputs(mu), mu, var, Y)
    by_mean, by_variance = tape.gradient(value, [mu, var])

    def derivatives(F, y):
        F = tf.constant(F)
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(F)
            with tf.GradientTape() as inner:
                inner.watch(F)
                log_p = likelihood.log_prob(no_inputs(F), F, tf.fill([len(F), 1], y))
            slope = inner.gradient(log_p, F)
            columns = [slope[:, j] for j in range(case.functions)]
        curvature = [outer.gradient(column, F)[:, j] for j, column in enumerate(columns)]
        return np.hstack([slope.numpy(), 0.5 * np.stack(curvature, 1)])

    for n in range(len(mu)):
        expected = expectation(lambda F, y=Y[n, 0]: derivatives(F, y), mu[n].numpy(), var[n].numpy(), nodes=60)
        np.testing.assert_allclose(np.r_[by_mean[n], by_variance[n]], expected, rtol=1e-7, atol=1e-7)


def test_predictive_moments_equal_100_nodes(case, expectation):
    mu, var, _ = case.q()
    mean, variance = case.make(nodes=60).predict_mean_and_var(no_inputs(mu), mu, var)
    first = [expectation(lambda F: case.given(*F.T).mean() + 0 * F[:, 0], m, v) for m, v in zip(mu, var, strict=True)]
    second = [
        expectation(lambda F: case.given(*F.T).var() + case.given(*F.T).mean() ** 2, m, v)
        for m, v in zip(mu, var, strict=True)
    ]
    np.testing.assert_allclose(mean[:, 0], first, rtol=1e-9)
    np.testing.assert_allclose(variance[:, 0], np.array(second) - np.array(first) ** 2, rtol=1e-8)


def test_predictive_moments_equal_those_of_samples(case):
    likelihood, draws = case.make(), 200_000
    mu, var = (np.array(part[: case.functions]) for part in (case.means, case.variances))
    F = mu + np.sqrt(var) * np.random.default_rng(0).normal(size=(draws, case.functions))
    y = likelihoods.sample_y(likelihood, F, seed=3).numpy()[:, 0]
    mean, variance = (
        part.numpy().item() for part in likelihood.predict_mean_and_var(no_inputs(mu[None]), mu[None], var[None])
    )
    kurtosis = np.mean((y - mean) ** 4) / variance**2
    assert abs(y.mean() - mean) < 5 * np.sqrt(variance / draws)
    assert abs(y.var() - variance) < 5 * variance * np.sqrt(kurtosis / draws)


def test_predictive_log_density_equals_a_dense_grid(case):
    """Also where the posterior is wide: 501 points a function over 10 standard deviations to each side."""
    mu, var, Y = case.q(spread=4.0)
    measured = case.make().predict_log_density(no_inputs(mu), mu, var, Y).numpy()
    for n in range(len(mu)):
        np.testing.assert_allclose(measured[n], dense_log_density(case, mu[n], var[n], Y[n, 0], 501), atol=1e-3)


@pytest.mark.parametrize(
    ("case", "mu", "var", "y"),
    [
        ("Poisson", [4.0], [1.0], 100),
        ("Poisson", [7.0], [4.0], 1000),
        ("Poisson", [9.0], [1.0], 20000),
        ("Poisson", [9.0], [1.0], 0),
        ("Gamma", [5.0, 3.0], [0.3, 0.5], 9.0),
        ("Beta", [5.0, 5.0], [0.5, 0.5], 0.3),
        ("ZeroInflatedPoisson", [-3.0, 6.0], [1.0, 1.0], 400),
        ("HeteroscedasticGaussian", [0.0, -6.0], [1e-4, 2.0], 0.5),
    ],
    indirect=["case"],
)
def test_predictive_log_density_finds_peaks_between_the_nodes(case, mu, var, y):
    mu, var = np.array(mu), np.array(var)
    measured = case.make().predict_log_density(np.zeros((1, 0)), mu[None], var[None], np.array([[float(y)]]))
    np.testing.assert_allclose(measured, dense_log_density(case, mu, var, y), atol=1e-3)


def dense_log_density(case, mu, var, y, points=1001):
    axes = [
        np.linspace(m - 10 * s, m + 10 * s, 4001 if len(mu) == 1 else points)
        for m, s in zip(mu, np.sqrt(var), strict=True)
    ]
    F = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(mu))
    log_q = -0.5 * np.sum((F - mu) ** 2 / var + np.log(2 * np.pi * var), axis=1)
    with np.errstate(all="ignore"):
        log_p = np.nan_to_num(case.log_density(y, F), nan=-np.inf)
    return np.logaddexp.reduce(log_p + log_q) + sum(np.log(axis[1] - axis[0]) for axis in axes)


def test_jensen_predictive_log_density_is_at_least_the_expected_one(case):
    for spread in (0.01, 1.0, 10.0):
        mu, var, Y = case.q(spread)
        likelihood = case.make()
        density = likelihood.predict_log_density(no_inputs(mu), mu, var, Y).numpy()
        assert np.all(density >= likelihood.variational_expectations(no_inputs(mu), mu, var, Y).numpy() - 1e-9)


def test_predictive_log_density_has_the_gradient_of_a_finite_difference(case):
    likelihood = case.make()
    mu, var, Y = (tf.constant(part) for part in case.q())
    with tf.GradientTape() as tape:
        tape.watch([mu, var])
        value = likelihood.predict_log_density(no_inputs(mu), mu, var, Y)
    by_mean, by_variance = tape.gradient(value, [mu, var])
    step = 1e-5
    for j in range(case.functions):
        shift = step * tf.one_hot(j, case.functions, dtype=mu.dtype)
        for gradient, (up, down) in (
            (by_mean, ((mu + shift, var), (mu - shift, var))),
            (by_variance, ((mu, var + shift), (mu, var - shift))),
        ):
            difference = likelihood.predict_log_density(no_inputs(mu), *up, Y) - likelihood.predict_log_density(
                no_inputs(mu), *down, Y
            )
            np.testing.assert_allclose(gradient[:, j], difference / (2 * step), atol=2e-4)


def test_exponential_is_gamma_with_shape_one():
    f, Y = np.linspace(-3, 3, 7)[:, None], np.linspace(0.1, 4, 7)[:, None]
    both = np.hstack([np.zeros_like(f), f])
    one = likelihoods.Exponential().log_prob(no_inputs(f), f, Y)
    np.testing.assert_allclose(one, likelihoods.Gamma().log_prob(no_inputs(f), both, Y), rtol=1e-12)
    shape_known = np.hstack([np.zeros_like(f), np.full_like(f, 0.4)])
    np.testing.assert_allclose(
        likelihoods.Exponential().variational_expectations(no_inputs(f), f, np.full_like(f, 0.4), Y),
        likelihoods.Gamma().variational_expectations(no_inputs(f), both, shape_known, Y),
        rtol=1e-9,
    )


def test_zero_inflated_poisson_without_extra_zeros_is_poisson():
    f, Y = np.linspace(-2, 3, 6)[:, None], np.array([[0.0], [1], [2], [5], [0], [30]])
    both, var = np.hstack([np.full_like(f, -1e5), f]), np.full_like(f, 0.3)
    variances = np.hstack([np.zeros_like(f), var])
    zip_, poisson, X = likelihoods.ZeroInflatedPoisson(nodes=40), likelihoods.Poisson(), no_inputs(f)
    np.testing.assert_allclose(zip_.log_prob(X, both, Y), poisson.log_prob(X, f, Y), rtol=1e-12)
    np.testing.assert_allclose(
        zip_.variational_expectations(X, both, variances, Y), poisson.variational_expectations(X, f, var, Y), rtol=1e-9
    )
    for ours, theirs in zip(
        zip_.predict_mean_and_var(X, both, variances), poisson.predict_mean_and_var(X, f, var), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_heteroscedastic_gaussian_with_known_noise_is_gaussian():
    mu, var, Y = np.array([[0.3], [-1.0]]), np.array([[0.2], [0.7]]), np.array([[1.0], [2.0]])
    both, variances = np.hstack([mu, np.full_like(mu, np.log(0.3))]), np.hstack([var, np.zeros_like(var)])
    varying, constant, X = likelihoods.HeteroscedasticGaussian(), likelihoods.Gaussian(0.3), no_inputs(mu)
    np.testing.assert_allclose(
        varying.variational_expectations(X, both, variances, Y),
        constant.variational_expectations(X, mu, var, Y),
        rtol=1e-9,
    )
    np.testing.assert_allclose(
        varying.predict_log_density(X, both, variances, Y), constant.predict_log_density(X, mu, var, Y), rtol=1e-6
    )


def test_heteroscedastic_gaussian_with_correlated_functions_equals_rotated_quadrature():
    mu, Y = np.array([[0.3, -0.5], [1.0, 0.2]]), np.array([[1.0], [-0.4]])
    cov = np.array([[[0.6, 0.35], [0.35, 0.5]], [[0.2, -0.25], [-0.25, 0.9]]])
    measured = likelihoods.HeteroscedasticGaussian().variational_expectations_joint(mu, cov, Y)
    z, w = np.polynomial.hermite_e.hermegauss(80)
    grid, weight = np.stack(np.meshgrid(z, z), -1).reshape(-1, 2), np.outer(w, w).ravel() / w.sum() ** 2
    for n in range(2):
        f, g = (mu[n] + grid @ np.linalg.cholesky(cov[n]).T).T
        log_p = -0.5 * (np.log(2 * np.pi) + g + (Y[n, 0] - f) ** 2 * np.exp(-g))
        np.testing.assert_allclose(measured[n], weight @ log_p, rtol=1e-11)


def test_heteroscedastic_gaussian_without_correlation_equals_the_product_of_marginals():
    mu, var, Y = np.array([[0.3, -0.5]]), np.array([[0.6, 0.5]]), np.array([[1.0]])
    likelihood = likelihoods.HeteroscedasticGaussian()
    np.testing.assert_allclose(
        likelihood.variational_expectations_joint(mu, var[..., None] * np.eye(2), Y),
        likelihood.variational_expectations(no_inputs(mu), mu, var, Y),
        rtol=1e-14,
    )


def test_gaussian_noise_can_be_fixed():
    assert len(likelihoods.Gaussian(0.1).trainable_variables) == 1
    fixed = likelihoods.Gaussian(0.1, trainable=False)
    assert not fixed.trainable_variables
    np.testing.assert_allclose(fixed.variance, 0.1)


def test_bounded_is_the_identity_up_to_20_and_never_flat():
    f = tf.constant(np.r_[np.linspace(-19.9, 19.9, 11), 20.5, 30.0, 1e3, 1e6, -20.5, -1e6])
    with tf.GradientTape() as tape:
        tape.watch(f)
        g = bounded(f)
    slope = tape.gradient(g, f).numpy()
    np.testing.assert_array_equal(g[:11], f[:11])
    np.testing.assert_allclose(slope[:11], 1.0)
    assert np.all(slope > 0)
    assert np.all(np.abs(g) < 35)
    np.testing.assert_allclose(np.exp(g[12]) / np.exp(20), 1 + 10, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_and_gradients_are_finite_at_extreme_functions(case, dtype):
    levels, spreads = (0.3, 15, -15, 50, -50, 1e4, -1e4), (-1e-14, 0.0, 0.5, 30, 1e4)
    extreme = {"Beta": (1e-5,), "Gamma": (1e-6, 1e6), "Poisson": (1e4,), "ZeroInflatedPoisson": (1e3,)}
    rows = [
        ([m, s * m], v, y)
        for m in levels
        for s in (1, -1)
        for v in spreads
        for y in case.targets + extreme.get(type(case.make()).__name__, ())
    ]
    with gpflow.config.as_context(gpflow.config.Config(float=dtype)):
        likelihood = case.make()
        mu = tf.constant([m[: case.functions] for m, _, _ in rows], dtype)
        var = tf.constant([[v] * case.functions for _, v, _ in rows], dtype)
        Y, X = tf.constant([[y] for _, _, y in rows], dtype), tf.zeros([len(rows), 0], dtype)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([mu, var])
            expected = likelihood.variational_expectations(X, mu, var, Y)
            log_p = likelihood.log_prob(X, mu, Y)
            density = likelihood.predict_log_density(X, mu, var, Y)
        mean, variance = likelihood.predict_mean_and_var(X, mu, var)
    values = [expected, log_p, density, *tape.gradient(expected, [mu, var]), tape.gradient(log_p, mu), mean]
    for value in values:
        assert value.dtype == dtype
        assert np.all(np.isfinite(value))
    assert not np.any(np.isnan(variance))
    if not isinstance(likelihood, gpflow.likelihoods.Gaussian):
        assert np.all(variance.numpy() >= 0)


def test_float32_agrees_with_float64(case):
    mu, var, Y = case.q()
    exact = case.make()
    with gpflow.config.as_context(gpflow.config.Config(float=np.float32)):
        single = case.make()
        for name in ("variational_expectations", "predict_log_density"):
            measured = getattr(single, name)(*(np.float32(part) for part in (no_inputs(mu), mu, var, Y)))
            np.testing.assert_allclose(measured, getattr(exact, name)(no_inputs(mu), mu, var, Y), rtol=2e-4, atol=2e-4)


def test_compiled_by_xla_gives_the_same_value_and_gradient(case):
    likelihood = case.make()
    mu, var, Y = (tf.constant(part) for part in case.q())

    def value_and_gradient(mu, var, Y):
        with tf.GradientTape() as tape:
            tape.watch([mu, var])
            value = likelihood.variational_expectations(tf.zeros([len(mu), 0], mu.dtype), mu, var, Y)
        return value, *tape.gradient(value, [mu, var])

    compiled = tf.function(value_and_gradient, jit_compile=True)(mu, var, Y)
    for ours, eager in zip(compiled, value_and_gradient(mu, var, Y), strict=True):
        np.testing.assert_allclose(ours, eager, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["variational_expectations", "predict_log_density"])
def test_a_graph_for_any_number_of_rows_gives_the_eager_values(case, name):
    likelihood, parts = case.make(), [tf.constant(part) for part in case.q()]

    @tf.function(input_signature=[tf.TensorSpec([None, part.shape[1]], tf.float64) for part in parts])
    def graph(mu, var, Y):
        return getattr(likelihood, name)(tf.zeros_like(mu), mu, var, Y)

    np.testing.assert_allclose(
        graph(*parts), getattr(likelihood, name)(no_inputs(parts[0]), *parts), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("case", ["Bernoulli", "Poisson", "ZeroInflatedPoisson"], indirect=True)
def test_integer_targets_are_taken(case):
    mu, var, Y = case.q()
    likelihood = case.make()
    np.testing.assert_array_equal(
        likelihood.variational_expectations(no_inputs(mu), mu, var, Y.astype(int)),
        likelihood.variational_expectations(no_inputs(mu), mu, var, Y),
    )
