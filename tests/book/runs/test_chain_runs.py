"""Comparisons of chains: scores of mixtures against SciPy, and a run of two models on functions with gaps."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from mogp.book.runs.chains import SCORES, Fitter, chain_run, gap_kind, load_rows, train_chain
from mogp.book.runs.mixtures import LEVELS, Mixture, coverage_of
from mogp.kernels import LayerKernels


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


def test_rows_and_parts_of_a_mixture_are_those_of_its_arrays(mixture):
    first, rest = mixture.split(1)
    np.testing.assert_array_equal(first.mean, mixture.mean[:, :1])
    np.testing.assert_array_equal(rest.var, mixture.var[:, 1:])
    np.testing.assert_array_equal(mixture.rows(np.array([True, False, False, True])).mean, mixture.mean[:, [0, 3]])


@pytest.fixture(scope="module")
def fitter():
    data = load_rows("xia-functions", "synthetic", {"n": 12, "missing": True}).train.data
    return Fitter(data, LayerKernels(1, input_lengthscale=0.1), steps=1, gpar_steps=1)


def test_a_start_from_zero_differs_from_the_adopted_one_inside_gaps_only(fitter):
    zero, adopted = (fitter.chain(name).posterior.q_mu.numpy() for name in ("GPLAR, from zero", "GPLAR"))
    x = fitter.data.X[:, 0]
    gaps = np.column_stack([(x >= 0.2) & (x <= 0.4), (x >= 0.6) & (x <= 0.8), np.zeros(12, bool)])
    np.testing.assert_array_equal(zero, np.where(gaps, 0.0, adopted))


def test_frozen_inducing_inputs_move_in_the_first_layer_only(fitter):
    assert [Z.trainable for Z in fitter.chain("GPLAR, frozen").inducing] == [True, False, False]
    assert fitter.chain("GPLAR, C").shared.trainable


@pytest.mark.parametrize("gamma", [0.0, 0.1])
def test_a_chain_of_standardised_targets_trains_to_the_same_bound(fitter, gamma):
    """The bound is that of standardised targets, whatever the units."""
    data = fitter.data
    outputs = tuple(replace(own, Y=(own.Y - own.Y.mean()) / own.Y.std()) for own in data.outputs)
    plain = Fitter(replace(data, outputs=outputs), fitter.recipe, steps=1, gpar_steps=1)
    models = [one.chain("GPLAR") for one in (fitter, plain)]
    bounds = [train_chain(model, one.data, 3, 0.01, gamma) for model, one in zip(models, (fitter, plain), strict=True)]
    np.testing.assert_allclose(models[1].scale, 1.0)
    np.testing.assert_allclose(*bounds, rtol=1e-8)
    np.testing.assert_allclose(*(model.posterior.q_mu for model in models), rtol=1e-6, atol=1e-8)


def test_a_model_that_is_not_known_is_named_in_the_error(fitter):
    with pytest.raises(ValueError, match=r"no model 'GPLR'; there are IGP, GPAR"):
        fitter.chain("GPLR")
