"""Samples of y given functions, from our likelihoods and from GPflow's."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from gpflow import likelihoods as stock
from scipy import stats

from mogp import likelihoods
from mogp.likelihoods import sample_y

STOCK = {
    "Gaussian": (stock.Gaussian(0.3), 1),
    "Gaussian by scale": (stock.Gaussian(scale=0.6), 1),
    "StudentT": (stock.StudentT(0.5, df=8.0), 1),
    "Exponential": (stock.Exponential(), 1),
    "Gamma": (stock.Gamma(shape=2.0), 1),
    "Beta": (stock.Beta(scale=4.0), 1),
    "Poisson": (stock.Poisson(binsize=2.0), 1),
    "Bernoulli": (stock.Bernoulli(), 1),
    "HeteroskedasticTFPConditional": (stock.HeteroskedasticTFPConditional(), 2),
}


def test_samples_given_functions_have_the_moments_of_scipy(case):
    draws = 100_000
    f = np.array(case.means[: case.functions])
    y = sample_y(case.make(), np.broadcast_to(f, (draws, case.functions)), seed=1).numpy()
    given = case.given(*f)
    assert y.shape == (draws, 1)
    fourth = np.mean((y - given.mean()) ** 4)
    assert abs(y.mean() - given.mean()) < 5 * np.sqrt(given.var() / draws)
    assert abs(y.var() - given.var()) < 5 * np.sqrt(fourth / draws)


def test_samples_are_targets_the_likelihood_takes(case):
    F = np.random.default_rng(0).normal(size=(1000, case.functions))
    likelihood = case.make()
    likelihoods.check_targets(likelihood, sample_y(likelihood, F, seed=2).numpy(), "drawn")


@pytest.mark.parametrize("name", STOCK)
def test_samples_of_stock_likelihoods_have_their_conditional_moments(name):
    likelihood, functions = STOCK[name]
    draws, f = 100_000, np.array([[0.3, -0.4][:functions]])
    y = sample_y(likelihood, np.repeat(f, draws, 0), seed=1).numpy()
    X = np.zeros((1, 1))
    mean, variance = (
        float(np.squeeze(h(X, f))) for h in (likelihood.conditional_mean, likelihood.conditional_variance)
    )
    assert y.shape == (draws, 1)
    assert abs(y.mean() - mean) < 5 * np.sqrt(variance / draws)
    assert abs(y.var() - variance) < 5 * np.sqrt(np.mean((y - mean) ** 4) / draws)


@pytest.mark.parametrize("make", [stock.Softmax, likelihoods.Softmax, stock.MultiClass, likelihoods.RobustMax])
def test_sampled_labels_have_the_frequencies_of_the_class_probabilities(make):
    likelihood, f = make(3), np.array([[0.3, 1.0, -0.5]])
    y = sample_y(likelihood, np.repeat(f, 50_000, 0).reshape(2, 25_000, 3), seed=1).numpy()
    assert y.shape == (2, 25_000, 1)
    expected = likelihood.conditional_mean(np.zeros((1, 1)), f)[0]
    np.testing.assert_allclose([np.mean(y == k) for k in range(3)], expected, atol=0.012)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_samples_keep_batch_shape_and_precision(case, dtype):
    with gpflow.config.as_context(gpflow.config.Config(float=dtype)):
        y = sample_y(case.make(), np.zeros((4, 3, case.functions), dtype), seed=0)
    assert y.shape == (4, 3, 1)
    assert y.dtype == dtype


def test_the_same_seed_gives_the_same_draw_in_any_order_and_compiled(case):
    likelihood, F = case.make(), tf.zeros([50, case.functions], tf.float64)
    first = sample_y(likelihood, F, seed=5)
    sample_y(likelihood, F, seed=6)
    tf.random.set_seed(123)
    np.testing.assert_array_equal(sample_y(likelihood, F, seed=5), first)
    np.testing.assert_array_equal(tf.function(lambda: sample_y(likelihood, F, seed=5))(), first)
    if isinstance(likelihood, likelihoods.DistributionLikelihood):
        np.testing.assert_array_equal(likelihood.sample_y(F, 5), first)


def test_large_seeds_and_pairs_are_taken_and_differ():
    F = np.zeros((20, 1))
    draws = [sample_y(likelihoods.Gaussian(), F, seed).numpy() for seed in (1, 2**40 + 1, [1, 7], np.int64(3))]
    for i in range(4):
        for j in range(i):
            assert not np.allclose(draws[i], draws[j])


def test_noise_that_depends_on_the_inputs_needs_them():
    noise = gpflow.functions.Linear(A=np.array([[1.0]]), b=np.array([0.1]))
    likelihood, F = stock.Gaussian(variance=noise), np.zeros((50_000, 1))
    with pytest.raises(ValueError, match="variance of the likelihood Gaussian is a function of the inputs"):
        sample_y(likelihood, F, seed=0)
    X = np.full((50_000, 1), 3.9)
    assert sample_y(likelihood, F, seed=0, X=X).numpy().var() == pytest.approx(4.0, rel=0.05)


def test_an_unknown_likelihood_is_named_in_the_error():
    with pytest.raises(TypeError, match=r"cannot sample from the likelihood Ordinal.*conditional\(F\)"):
        sample_y(stock.Ordinal(np.array([0.0, 1.0])), np.zeros((3, 1)), seed=0)


def test_poisson_samples_follow_the_whole_distribution():
    y = sample_y(likelihoods.Poisson(), np.full((50_000, 1), np.log(3.0)), seed=8).numpy()[:, 0]
    observed = np.bincount(y.astype(int), minlength=12)[:12]
    expected = 50_000 * stats.poisson(3.0).pmf(np.arange(12))
    assert stats.chi2(11).sf(np.sum((observed - expected) ** 2 / expected)) > 1e-4


@pytest.mark.parametrize("likelihood", [likelihoods.Beta(), likelihoods.Gamma()])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_draws_stay_inside_an_open_support_where_rounding_would_put_them_on_its_end(likelihood, dtype):
    y = sample_y(likelihood, np.full((1000, 2), -6.0, dtype), seed=0).numpy()
    likelihoods.check_targets(likelihood, y, "drawn")
    assert np.all(np.isfinite(likelihood.log_prob(np.zeros((1000, 0)), np.zeros((1000, 2), dtype), y)))
