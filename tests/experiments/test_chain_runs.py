"""Comparisons of chains: scores of mixtures against SciPy, and a run of two models on functions with gaps."""

import numpy as np
import pytest
from scipy.stats import norm

from mogp.experiments.chains import LEVELS, SCORES, Mixture, chain_run, coverage_of, gap_kind


@pytest.fixture
def mixture():
    rng = np.random.default_rng(0)
    return Mixture(rng.normal(size=(50, 4, 2)), rng.uniform(0.1, 1.0, (50, 4, 2)), np.array([0.1, 0.4]))


def test_the_density_is_that_of_a_mixture_of_normals_with_noise(mixture):
    y = np.array([0.3, -1.0, 2.0, 0.0])
    each = norm.pdf(y, mixture.mean[..., 1], np.sqrt(mixture.var[..., 1] + 0.4))
    np.testing.assert_allclose(mixture.log_density(y, 1), np.log(each.mean(0)))


def test_the_rank_is_the_distribution_function_and_the_band_its_quantiles(mixture):
    lower, upper = mixture.band(0.9, draws=4000)
    np.testing.assert_allclose(mixture.rank(lower[:, 0], 0), 0.05, atol=0.005)
    np.testing.assert_allclose(mixture.rank(upper[:, 0], 0), 0.95, atol=0.005)


def test_uniform_ranks_are_covered_as_often_as_the_level_says():
    ranks = (np.arange(2000) + 0.5) / 2000
    np.testing.assert_allclose(coverage_of(ranks), LEVELS, atol=1e-3)


@pytest.mark.parametrize(
    ("gap", "d", "kind"),
    [([2], 2, "closed downwards"), ([0], 0, "closed upwards"), ([1], 1, "between"), ([0, 1], 1, "closed upwards")],
)
def test_gaps_are_named_by_what_is_observed_before_and_after(gap, d, kind):
    missing = np.zeros((5, 3), bool)
    missing[2:4, gap] = True
    assert gap_kind(missing, d) == kind


def test_a_run_scores_every_model_on_every_held_out_output():
    found = chain_run(
        "xia-functions", "synthetic", ["GPAR", "GPLAR"], options={"n": 20, "missing": True}, inducing=5, steps=1,
        gpar_steps=1, samples=5,
    )  # fmt: skip
    assert found["outputs"] == [0, 1]
    assert found["scores"].shape == (2, 2, len(SCORES))
    assert np.isfinite(found["scores"]).all()
    assert np.isfinite(found["bounds"]).all()
