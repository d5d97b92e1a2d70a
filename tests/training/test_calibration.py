from __future__ import annotations

import numpy as np
import pytest
from gpflow import kernels as k
from scipy.stats import binom, norm

from mogp import LabelData, MultiOutputData, fit
from mogp.inducing import given_points, kmeans_points
from mogp.likelihoods import Bernoulli, Gaussian, Poisson
from mogp.models import GPAR, ExactLMC, SparseMOGP, hetmogp_lmc, mlgpf, mogps_ar
from mogp.posteriors import Full
from mogp.priors import LMC, Independent
from mogp.training import calibration, diagnose
from mogp.training.calibration import binomial_interval, calibration_error
from mogp.training.collapse import kernels_run_off, latents_alike, noise_at_bound, posterior_as_prior
from mogp.training.evidence import some_of
from mogp.training.scales import badly_scaled

FLAT = np.zeros(200)


def waves(rng, rows: int = 80, noise: float = 0.2) -> MultiOutputData:
    x = np.sort(rng.uniform(0, 1, rows))
    Y = np.column_stack([np.sin(9 * x), np.cos(7 * x)])
    return MultiOutputData.from_arrays(x, Y + noise * rng.normal(size=Y.shape), names=["a", "b"])


def fitted(data: MultiOutputData, **options) -> ExactLMC:
    model = ExactLMC(data, latents=2, **options)
    fit(model, data, progress=False)
    return model


@pytest.fixture(scope="module")
def good():
    data = waves(np.random.default_rng(0))
    return fitted(data), data


def test_a_good_fit_has_converged_and_nothing_is_said_of_it(good):
    model, data = good
    told = diagnose(model, FLAT, data=data)
    assert told.useful is True
    assert str(told) == "Converged."


def test_a_fit_of_noise_is_never_called_converged(rng):
    data = MultiOutputData.from_arrays(np.linspace(0, 1, 60), rng.normal(size=(60, 1)), names=["a"])
    model = hetmogp_lmc(data, [Gaussian()], inducing=10)
    history = fit(model, data, progress=False)
    told = str(history.diagnosis)
    assert history.diagnosis.useful is False
    assert "Converged." not in told
    assert "No better than a constant for 'a' (log density" in told


@pytest.mark.parametrize("lengthscale", [1e-4, 1e4])
def test_a_fit_out_of_reach_of_its_inputs_is_told_what_to_do(lengthscale, rng):
    data = waves(rng)
    model = ExactLMC(data, kernel=k.SquaredExponential(lengthscales=lengthscale))
    told = diagnose(model, FLAT, data=data)
    assert told.useful is False
    said = "'x'" if lengthscale < 1 else "Input 'x' is not used"
    assert any(said in finding for finding in told.findings)


def test_one_useless_output_of_two_is_named(rng):
    data = waves(rng)
    Y = np.column_stack([data["a"].Y[:, 0], rng.normal(size=80)])
    data = MultiOutputData.from_arrays(data.X, Y, names=["a", "noise"])
    model = hetmogp_lmc(data, [Gaussian(), Gaussian()], inducing=15)
    told = fit(model, data, progress=False).diagnosis
    assert told.useful is False
    assert "constant for 'noise' (" in "".join(told.findings)


def test_too_few_steps_and_unknown_data_are_not_judged(good):
    model, data = good
    assert diagnose(model, np.zeros(5), data=data).useful is None
    assert diagnose(model, FLAT).useful is None
    assert diagnose(model, FLAT, data=lambda step: None).useful is None
    assert diagnose(object(), FLAT, data=data).useful is None


def test_bands_of_the_truth_cover_and_those_of_wrong_noise_do_not(rng):
    """The predictive distribution of held-out rows is known: a function of zero, and noise of variance 1."""
    y = rng.normal(size=400)
    data = MultiOutputData.from_arrays(np.linspace(0, 1, 400), y, names=["a"])
    said = {}
    for variance in (0.25, 1.0, 9.0):
        prior = Independent([k.SquaredExponential(variance=1e-8)])
        model = SparseMOGP(prior, given_points([[0.5]]), [Gaussian(variance)], Full(), names=["a"])
        found = calibration(model, data, held_out=data)
        inside = np.mean(np.abs(y) <= 1.96 * np.sqrt(variance))
        assert found.table.loc["a", "95 %"] == pytest.approx(inside, abs=0.02)
        said[variance] = " ".join(found.findings)
    assert "too narrow" in said[0.25]
    assert "too wide" in said[9.0]
    assert "band" not in said[1.0]


def test_heavy_tails_are_told_by_the_middle_of_the_bands(rng):
    x = np.linspace(0, 1, 400)
    data = MultiOutputData.from_arrays(x, np.sin(9 * x) + 0.2 * rng.standard_t(1.5, size=400), names=["a"])
    model = ExactLMC(data)
    fit(model, data, progress=False)
    assert any("heavier tails" in finding for finding in calibration(model, data).findings)


def test_bands_are_not_judged_by_rows_that_were_seen(rng):
    data = waves(rng, rows=30)
    model = GPAR(data)
    found = calibration(model, data)
    assert set(found.table["how"]) == {"seen"}
    assert found.table["95 %"].isna().all()
    assert "hold out" in str(found)
    held = calibration(model, data, held_out=waves(rng, rows=30))
    assert set(held.table["how"]) == {"held out"}
    assert held.table["95 %"].notna().all()


def test_probabilities_that_are_too_sure_are_reported(rng):
    x = np.linspace(0, 1, 300)
    data = MultiOutputData.from_arrays(x, (rng.uniform(size=300) < 0.6).astype(float), names=["open"])
    prior = Independent([k.SquaredExponential(variance=1e-8)], bias=[3.0])
    model = SparseMOGP(prior, given_points([[0.5]]), [Bernoulli()], Full(), names=["open"])
    found = calibration(model, data, held_out=data)
    p = 1 / (1 + np.exp(-3.0))
    assert found.table.loc["open", "confidence"] == pytest.approx(p, abs=1e-3)
    assert found.table.loc["open", "error"] == pytest.approx(abs(p - data["open"].Y.mean()), abs=0.15)
    assert any("too sure" in finding for finding in found.findings)


def test_labels_have_probabilities_and_a_constant(rng):
    X = rng.normal(size=(40, 3))
    data = LabelData.of(X, (rng.uniform(size=(40, 5)) < 0.3).astype(int))
    found = calibration(mlgpf(data, latents=2, inducing=3), data)
    assert found.table["how"].tolist() == ["seen"]
    share = (data.counts + 0.5) / 41
    constant = np.where(data.Y.toarray() > 0, np.log(share), np.log1p(-share)).sum(1).mean()
    assert found.table["constant"].iloc[0] == pytest.approx(constant)
    assert len(found.points) == 200


def test_a_sample_keeps_rows_that_outputs_share_and_is_told():
    data = MultiOutputData.from_arrays(np.arange(5000.0), np.ones((5000, 3)))
    some, words = some_of(data, rows=100, outputs=2)
    sizes = [len(o) for o in some if len(o)]
    assert sizes == [100, 100]
    assert len(some.X) == 100
    assert "2 of the 3 outputs" in words
    assert some_of(data, rows=5000, outputs=3) == (data, "")


def test_a_sample_of_outputs_with_rows_of_their_own_has_rows_of_each():
    parts = [(np.arange(200.0)[:, None] + d, np.ones(200)) for d in (0, 1000, 2000)]
    some, _ = some_of(MultiOutputData.from_list(parts), rows=50, outputs=5)
    assert some.sizes == (50, 50, 50)


def test_the_interval_of_a_share_is_that_of_the_binomial():
    low, high = binomial_interval(90, 100)
    assert binom.sf(89, 100, low) == pytest.approx(0.025)
    assert binom.cdf(90, 100, high) == pytest.approx(0.025)
    assert binomial_interval(0, 10)[0] == 0.0
    assert binomial_interval(10, 10)[1] == 1.0


def test_calibrated_probabilities_have_no_error(rng):
    p = rng.uniform(size=100_000)
    assert calibration_error(p, rng.uniform(size=p.size) < p) < 0.01


# --- columns


def test_columns_in_units_of_their_own_are_named_where_nothing_scales_them(rng):
    x = np.linspace(0, 1e5, 40)
    data = MultiOutputData.from_arrays(x, 900 + rng.normal(size=40), names=["rain"])
    text = " ".join(badly_scaled(ExactLMC(data, kernel=k.Matern32(), scaling=None), data))
    assert "Targets of 'rain' run from" in text
    assert "Rows are out of reach of each other" in text
    assert 'scaling="standard"' in text
    assert badly_scaled(ExactLMC(data), data) == []


def test_the_column_that_keeps_rows_apart_is_named(rng):
    X = np.column_stack([rng.uniform(size=60), 1e4 * rng.uniform(size=60)])
    data = MultiOutputData.from_arrays(X, rng.normal(size=60))
    (said,) = badly_scaled(ExactLMC(data, kernel=k.Matern32(lengthscales=[1.0, 1.0]), scaling=None), data)
    assert "most of it in input 'x1'" in said


def test_counts_and_classes_have_no_units(rng):
    x = np.linspace(0, 1, 30)
    data = MultiOutputData.from_arrays(x, rng.poisson(500, size=30).astype(float))
    assert badly_scaled(hetmogp_lmc(data, [Poisson()], inducing=5, scaling=None), data) == []


# --- parts that collapsed


def made(prior, noise: float = 1.0) -> SparseMOGP:
    points = given_points(np.linspace(0, 1, 4)[:, None])
    return SparseMOGP(prior, points, [Gaussian(noise) for _ in range(prior.num_functions)])


def test_latents_are_alike_only_if_kernels_and_weights_are():
    same, other = [k.Matern32(), k.Matern32()], [k.Matern32(), k.Matern32(lengthscales=0.1)]
    parallel, apart = [[1.0, 2.0], [3.0, 6.0]], [[1.0, 2.0], [3.0, -6.0]]
    assert latents_alike(made(LMC(same, 2, W=parallel)))
    assert not latents_alike(made(LMC(same, 2, W=apart)))
    assert not latents_alike(made(LMC(other, 2, W=parallel)))


def test_a_posterior_that_learnt_nothing_is_told():
    model = made(Independent([k.Matern32()]))
    assert posterior_as_prior(model)
    model.posterior.q_mu.assign(np.ones((4, 1)))
    assert posterior_as_prior(model) == []


def test_noise_at_its_bound_and_kernels_that_ran_off_are_told():
    assert noise_at_bound(made(Independent([k.Matern32()]))) == []
    assert noise_at_bound(made(Independent([k.Matern32()]), noise=1.1e-6))
    assert kernels_run_off(made(Independent([k.Matern32()]))) == []
    assert kernels_run_off(made(Independent([k.Matern32(variance=1e9)])))


def test_a_model_whose_predictions_fail_is_described_not_raised(good):
    _, data = good
    model = hetmogp_lmc(data, [Gaussian(), Gaussian()], inducing=kmeans_points(data, 4, sets=None))
    model.prior.kernels.kernels[0].variance.unconstrained_variable.assign(np.nan)
    told = diagnose(model, FLAT, data=data)
    assert told.useful is not True
    assert any("not finite" in f or "fail" in f for f in told.findings)


def test_classes_are_judged_by_what_they_say(rng):
    x = np.linspace(0, 1, 120)
    labels = (np.sin(9 * x) + 0.3 * rng.normal(size=120) > 0).astype(int) + (x > 0.7)
    data = MultiOutputData.from_arrays(x, labels, names=["class"])
    model = mogps_ar(data, [3], latents=3, inducing=10)
    fit(model, data, progress=False, steps=500)
    found = calibration(model, data)
    row = found.table.loc["class"]
    assert row["kind"] == "class"
    assert row["gain"] > 0.2
    assert row["right"] > 0.7


def test_held_out_targets_are_compared_with_a_constant_of_the_training_data(good, rng):
    model, data = good
    x = np.linspace(0.1, 0.11, 20)
    other = MultiOutputData.from_arrays(x, np.column_stack([np.sin(9 * x), np.cos(7 * x)]), names=["a", "b"])
    found = calibration(model, data, held_out=other)
    for d, name in enumerate(["a", "b"]):
        y = data[name].Y[:, 0]
        expected = norm(y.mean(), y.std()).logpdf(other[d].Y[:, 0]).mean()
        assert found.table.loc[name, "constant"] == pytest.approx(expected)
