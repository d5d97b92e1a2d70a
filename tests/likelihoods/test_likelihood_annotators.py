"""Annotators: expectations against quadrature and Monte Carlo, masks, limits, densities."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import special, stats

from mogp.likelihoods import (
    AnnotatedClasses,
    AnnotatedValues,
    HeteroscedasticGaussian,
    Targets,
    check_targets,
    sample_y,
)
from mogp.priors import Marginals, View, independent_functions

N, R = 4, 3
EMPTY = np.zeros((N, 0))


def moments(rng, functions, spread=0.8):
    return rng.normal(size=(N, functions)), rng.uniform(0.05, spread, (N, functions))


def view(m, v):
    return View(independent_functions(Marginals(tf.constant(m), tf.constant(v))), 0, m.shape[1], None)


def log_pseudo(F, Y, K):
    """log p of every annotation, from the definition: F [..., K + R], Y [..., R]."""
    zeta, trust = special.softmax(F[..., :K], -1), special.expit(F[..., K:])
    told = np.take_along_axis(zeta, np.broadcast_to(Y, (*zeta.shape[:-1], Y.shape[-1])).astype(int), -1)
    return np.log(told**trust * (1 / K) ** (1 - trust))


def by_draws(m, v, function, draws=400_000, seed=1):
    """Means and standard errors over draws of independent functions."""
    rng = np.random.default_rng(seed)
    values = function(m[:, None] + np.sqrt(v)[:, None] * rng.standard_normal((len(m), draws, m.shape[1])))
    return values.mean(1), values.std(1) / np.sqrt(draws)


@pytest.mark.parametrize("K", [2, 3])
def test_expectations_of_few_classes_equal_a_tensor_quadrature(K, rng):
    m, v = moments(rng, K + R)
    Y = rng.integers(0, K, (N, R)).astype(float)
    z, w = np.polynomial.hermite_e.hermegauss(40)
    w = w / w.sum()
    mesh = np.stack(np.meshgrid(*[z] * K, indexing="ij"), -1).reshape(-1, K)
    weight = np.prod(np.meshgrid(*[w] * K, indexing="ij"), axis=0).ravel()
    scores = m[:, None, :K] + np.sqrt(v[:, None, :K]) * mesh
    log_zeta = np.einsum("s,nsk->nk", weight, special.log_softmax(scores, -1))
    trust = special.expit(m[:, K:, None] + np.sqrt(v[:, K:, None]) * z) @ w
    told = np.take_along_axis(log_zeta, Y.astype(int), 1)
    expected = trust * told - (1 - trust) * np.log(K)
    np.testing.assert_allclose(AnnotatedClasses(K, R).each(m, v, Y), expected, rtol=1e-6)


@pytest.mark.parametrize("K", [4, 7, 10])
def test_expectations_of_many_classes_agree_with_monte_carlo(K, rng):
    m, v = moments(rng, K + R)
    Y = rng.integers(0, K, (N, R)).astype(float)
    mean, error = by_draws(m, v, lambda F: log_pseudo(F, Y[:, None], K), draws=100_000)
    ours = AnnotatedClasses(K, R).each(m, v, Y).numpy()
    assert np.abs(ours - mean).max() < 5 * error.max() + 5e-3  # 128 Sobol points: their own error is below 0.005
    finer = AnnotatedClasses(K, R, samples=8192).each(m, v, Y).numpy()
    assert np.abs(finer - mean).max() < 5 * error.max()


def test_expectations_of_values_equal_those_of_one_heteroscedastic_gaussian_an_annotator(rng):
    m, v = moments(rng, 1 + R)
    Y = rng.normal(size=(N, R))
    alone = HeteroscedasticGaussian()
    expected = [
        alone.variational_expectations(EMPTY, m[:, [0, r]], v[:, [0, r]], Y[:, [r - 1]]) for r in range(1, R + 1)
    ]
    np.testing.assert_allclose(AnnotatedValues(R).each(m, v, Y), np.transpose(expected), rtol=1e-12)


def test_one_annotator_of_values_is_the_heteroscedastic_gaussian(rng):
    m, v = moments(rng, 2)
    Y = rng.normal(size=(N, 1))
    one, alone = AnnotatedValues(1), HeteroscedasticGaussian()
    np.testing.assert_allclose(
        one.variational_expectations(EMPTY, m, v, Y), alone.variational_expectations(EMPTY, m, v, Y), rtol=1e-12
    )
    np.testing.assert_allclose(
        one.predict_log_density(EMPTY, m, v, Y), alone.predict_log_density(EMPTY, m, v, Y), rtol=1e-4
    )
    np.testing.assert_allclose(one.log_prob(EMPTY, m, Y), alone.log_prob(EMPTY, m, Y), rtol=1e-12)


def test_annotators_beyond_doubt_are_a_softmax_and_those_without_any_knowledge_a_constant(rng):
    K = 3
    m, v = moments(rng, K + R)
    v[:, K:] = 1e-12
    Y = rng.integers(0, K, (N, R)).astype(float)
    m[:, K:] = 40.0
    sure = AnnotatedClasses(K, R).log_prob(EMPTY, m, Y)
    expected = np.take_along_axis(special.log_softmax(m[:, :K], -1), Y.astype(int), 1).sum(1)
    np.testing.assert_allclose(sure, expected, rtol=1e-12)
    m[:, K:] = -40.0
    np.testing.assert_allclose(AnnotatedClasses(K, R).each(m, v, Y), np.full((N, R), -np.log(K)), rtol=1e-12)


def test_the_model_of_classes_does_not_sum_to_one():
    """0.924 for zeta = (0.7, 0.2, 0.1) and lambda = 1/2; one for lambda 0 and 1 only."""
    scores = np.log([0.7, 0.2, 0.1])

    def total(trust):
        F = np.tile(np.append(scores, trust), (3, 1))
        Y = np.arange(3.0)[:, None]
        return float(tf.reduce_sum(tf.exp(AnnotatedClasses(3, 1).log_prob(np.zeros((3, 0)), F, Y))))

    assert total(0.0) == pytest.approx(np.sum(np.array([0.7, 0.2, 0.1]) ** 0.5) / np.sqrt(3), rel=1e-12)
    assert total(0.0) == pytest.approx(0.924, abs=5e-4)
    assert total(40.0) == pytest.approx(1.0)
    assert total(-40.0) == pytest.approx(1.0)


@pytest.mark.parametrize(("likelihood", "K"), [(AnnotatedClasses(3, R), 3), (AnnotatedValues(R), 1)])
def test_what_nobody_told_does_not_count(likelihood, K, rng):
    m, v = moments(rng, K + R)
    Y = rng.integers(0, 3, (N, R)).astype(float)
    observed = rng.uniform(size=(N, R)) > 0.5
    observed[0] = False
    other = np.where(observed, Y, 2 - Y)
    ids = np.arange(N)
    each = likelihood.each(m, v, Y).numpy()
    found = likelihood.expectations(view(m, v), Targets(Y, observed, ids))
    np.testing.assert_allclose(found, np.where(observed, each, 0).sum(1), rtol=1e-12)
    np.testing.assert_array_equal(found, likelihood.expectations(view(m, v), Targets(other, observed, ids)))
    densities = likelihood.log_density(view(m, v), Targets(Y, observed, ids))
    np.testing.assert_array_equal(densities, likelihood.log_density(view(m, v), Targets(other, observed, ids)))
    assert float(densities[0]) == pytest.approx(0.0, abs=1e-5)
    everything = likelihood.log_density(view(m, v), Targets(Y, np.ones_like(observed), ids))
    np.testing.assert_allclose(everything, likelihood.predict_log_density(EMPTY, m, v, Y), rtol=1e-12)


@pytest.mark.parametrize("K", [2, 3, 5])
def test_gold_classes_and_reliabilities_agree_with_monte_carlo(K, rng):
    m, v = moments(rng, K + R)
    likelihood = AnnotatedClasses(K, R, prediction_samples=4096)
    for found, function in (
        (likelihood.gold(m, v), lambda F: special.softmax(F[..., :K], -1)),
        (likelihood.reliability(m, v), lambda F: special.expit(F[..., K:])),
    ):
        mean, error = by_draws(m, v, function, draws=100_000)
        second, _ = by_draws(m, v, lambda F, function=function: function(F) ** 2, draws=100_000)
        np.testing.assert_allclose(found[0], mean, atol=5 * error.max())
        np.testing.assert_allclose(found[1], second - mean**2, atol=1e-3)
    p, spread = likelihood.predict_mean_and_var(EMPTY, m, v)
    np.testing.assert_allclose(tf.reduce_sum(p, -1), np.ones(N), rtol=1e-12)
    np.testing.assert_allclose(spread, p - p**2, rtol=1e-12)
    Y = rng.integers(0, K, (N, 1)).astype(float)
    np.testing.assert_allclose(
        likelihood.gold_log_density(m, v, Y), np.log(np.take_along_axis(p.numpy(), Y.astype(int), 1))[:, 0], rtol=1e-10
    )


def test_gold_values_and_noise_variances_in_closed_form(rng):
    m, v = moments(rng, 1 + R)
    likelihood = AnnotatedValues(R)
    mean, var = likelihood.gold(m, v)
    np.testing.assert_array_equal(mean, m[:, :1])
    np.testing.assert_array_equal(var, v[:, :1])
    noise = stats.lognorm(s=np.sqrt(v[:, 1:]), scale=np.exp(m[:, 1:]))
    found = likelihood.reliability(m, v)
    np.testing.assert_allclose(found[0], noise.mean(), rtol=1e-10)
    np.testing.assert_allclose(found[1], noise.var(), rtol=1e-10)
    Y = rng.normal(size=(N, 1))
    expected = stats.norm.logpdf(Y[:, 0], m[:, 0], np.sqrt(v[:, 0]))
    np.testing.assert_allclose(likelihood.gold_log_density(m, v, Y), expected, rtol=1e-10)


@pytest.mark.parametrize("K", [3, 5])
def test_density_of_all_annotations_of_a_row_agrees_with_monte_carlo(K, rng):
    m, v = moments(rng, K + R)
    Y = rng.integers(0, K, (N, R)).astype(float)
    mean, error = by_draws(m, v, lambda F: np.exp(log_pseudo(F, Y[:, None], K).sum(-1)))
    found = np.exp(AnnotatedClasses(K, R, prediction_samples=4096).predict_log_density(EMPTY, m, v, Y))
    np.testing.assert_allclose(found, mean, atol=(6 * error).max())
    m, v = moments(rng, 1 + R)
    Y = rng.normal(size=(N, R))
    mean, error = by_draws(
        m, v, lambda F: np.exp(stats.norm.logpdf(Y[:, None], F[..., :1], np.exp(F[..., 1:] / 2)).sum(-1))
    )
    found = np.exp(AnnotatedValues(R).predict_log_density(EMPTY, m, v, Y))
    assert (np.abs(found - mean) < 6 * error).all()


@pytest.mark.parametrize(("likelihood", "K"), [(AnnotatedClasses(4, R), 4), (AnnotatedValues(R), 1)])
def test_density_of_one_annotation_is_not_below_the_exponential_of_its_expected_log(likelihood, K, rng):
    m, v = moments(rng, K + R)
    Y = rng.integers(0, 4, (N, R)).astype(float)
    only = np.zeros((N, R), bool)
    only[:, 1] = True
    density = likelihood.annotations_log_density(m, v, Y, only)
    assert (density.numpy() >= likelihood.each(m, v, Y).numpy()[:, 1] - 5e-3).all()


@pytest.mark.parametrize("likelihood", [AnnotatedClasses(3, R), AnnotatedValues(R)])
def test_gradients_are_finite_at_extreme_functions(likelihood):
    J = likelihood.latent_dim
    for level in (-500.0, 500.0):
        m, v = tf.Variable(np.full((N, J), level)), tf.Variable(np.full((N, J), 50.0))
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(likelihood.each(m, v, np.ones((N, R))))
        assert np.isfinite(total.numpy())
        assert all(np.isfinite(g.numpy()).all() for g in tape.gradient(total, [m, v]))


def test_draws_are_of_the_truth(rng):
    F = rng.normal(size=(200_000, 3 + R))
    F[:] = F[0]
    drawn = sample_y(AnnotatedClasses(3, R), F, seed=3).numpy()[:, 0]
    np.testing.assert_allclose(np.bincount(drawn.astype(int), minlength=3) / 2e5, special.softmax(F[0, :3]), atol=5e-3)
    np.testing.assert_array_equal(sample_y(AnnotatedValues(R), F, seed=3), F[:, :1])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: AnnotatedClasses(1, 3), "classes=1"),
        (lambda: AnnotatedClasses(3, 0), "annotators=0"),
        (lambda: AnnotatedValues(-1), "annotators=-1"),
        (lambda: AnnotatedClasses(4, 2, samples=1), "samples=1"),
        (
            lambda: check_targets(AnnotatedClasses(2, 3), np.zeros((4, 2)), "tumour"),
            r"\(4, 2\).*\(rows, 3\).*annotator",
        ),
        (lambda: check_targets(AnnotatedClasses(2, 2), [[0, 1], [1, 2]], "tumour"), "row 1, column 1.*0 to 1"),
    ],
)
def test_what_does_not_fit_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
