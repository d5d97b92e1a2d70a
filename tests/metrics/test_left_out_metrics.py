from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mogp.metrics import constant_log_density, pareto_smoothed


@pytest.mark.parametrize("k", [-0.2, 0.2, 0.5, 0.9])
def test_the_shape_of_a_pareto_tail_is_found(rng, k):
    ratios = stats.genpareto(k).rvs(size=(20_000, 20), random_state=rng) + 1e-9
    _, found = pareto_smoothed(np.log(ratios))
    assert abs(found.mean() - k) < 0.1


def test_smoothed_weights_average_as_the_integral(rng):
    """Draws of N(0, 1) weighted to N(0.5, 0.9^2)."""
    x = rng.normal(size=50_000)
    weights, k = pareto_smoothed(stats.norm(0.5, 0.9).logpdf(x) - stats.norm.logpdf(x))
    assert k < 0.5
    assert np.exp(weights) @ x == pytest.approx(0.5, abs=0.03)
    assert np.exp(weights).sum() == pytest.approx(1.0)


def test_equal_weights_stay_equal_and_few_cannot_be_judged():
    weights, k = pareto_smoothed(np.zeros(1000))
    np.testing.assert_allclose(weights, -np.log(1000))
    assert k < 0.5
    assert pareto_smoothed(np.arange(5.0))[1] == np.inf


def test_one_set_of_weights_is_a_column_of_many(rng):
    ratios = rng.normal(size=(400, 3))
    weights, k = pareto_smoothed(ratios)
    one, k_one = pareto_smoothed(ratios[:, 1])
    np.testing.assert_allclose(weights[:, 1], one)
    assert k[1] == k_one


@pytest.mark.parametrize(
    ("kind", "truth"),
    [
        ("real", stats.norm(3, 2)),
        ("positive", stats.gamma(2, scale=3)),
        ("share", stats.beta(2, 5)),
        ("count", stats.nbinom(3, 0.4)),
        ("count", stats.poisson(4)),
    ],
)
def test_a_constant_has_the_density_of_the_truth_that_it_fits(rng, kind, truth):
    y = truth.rvs(size=50_000, random_state=rng)
    density = truth.logpmf if kind == "count" else truth.logpdf
    assert constant_log_density(y, kind).mean() == pytest.approx(density(y).mean(), abs=5e-3)


def test_a_constant_gives_classes_their_shares():
    np.testing.assert_allclose(np.exp(constant_log_density([0, 2, 2, 5], "class")), [0.25, 0.5, 0.5, 0.25])


def test_counts_that_vary_little_are_poisson_and_constants_have_a_density():
    assert np.isfinite(constant_log_density(np.full(20, 4.0), "count")).all()
    assert np.isfinite(constant_log_density(np.zeros(20), "count")).all()
    assert np.isfinite(constant_log_density(np.full(20, 4.0), "real")).all()
