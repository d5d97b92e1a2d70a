from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from mogp import likelihoods as lik
from mogp.data import MultiOutputData
from mogp.models import AugmentedMOGP, accgp, ccgp, cgp, hetmogp_cpm, hetmogp_lmc, twofold
from mogp.posteriors import Full
from mogp.priors import LMC, Independent


@pytest.fixture
def single(rng) -> MultiOutputData:
    return MultiOutputData.from_arrays(rng.uniform(size=(20, 1)), rng.normal(size=20), names=["y"])


@pytest.fixture
def several(rng) -> MultiOutputData:
    X = rng.uniform(size=(15, 2))
    return MultiOutputData.from_arrays(
        X,
        np.column_stack([rng.normal(size=15), rng.poisson(2, 15), rng.integers(0, 2, 15)]),
        names=["real", "count", "binary"],
    )


def copy_posterior(target, source) -> None:
    target.posterior.q_mu.assign(source.posterior.q_mu)
    target.posterior.q_sqrt.assign(source.posterior.q_sqrt)


def test_chained_gp_is_the_correlated_one_with_identity_mixing(single, randomise):
    """Giraldo 11.16."""
    plain, correlated = (
        cgp(single, lik.HeteroscedasticGaussian(), inducing=6, scaling=None),
        ccgp(single, lik.HeteroscedasticGaussian(), latents=2, inducing=6, scaling=None),
    )
    assert isinstance(plain.prior, Independent)
    assert isinstance(correlated.prior, LMC)
    correlated.prior.W.assign(np.eye(2))
    randomise(plain, 1)
    copy_posterior(correlated, plain)
    np.testing.assert_allclose(plain.elbo(single), correlated.elbo(single), rtol=1e-12)
    for a, b in zip(plain.predict_y(single.X), correlated.predict_y(single.X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_heterogeneous_model_of_one_output_is_the_correlated_chained_gp(single, randomise):
    """Giraldo 11.16."""
    het = hetmogp_lmc(single, lik.HeteroscedasticGaussian(), latents=3, inducing=6, seed=4, scaling=None)
    chained = ccgp(single, lik.HeteroscedasticGaussian(), latents=3, inducing=6, seed=4, scaling=None)
    randomise(het, 1)
    copy_posterior(chained, het)
    np.testing.assert_array_equal(het.elbo(single), chained.elbo(single))


def test_heterogeneous_model_has_the_choices_it_says(several):
    kinds = {"binary": lik.Bernoulli(), "real": lik.HeteroscedasticGaussian(), "count": lik.Poisson()}
    model = hetmogp_lmc(several, kinds, inducing=5, scaling=None)
    assert model.names == several.names
    assert model.prior.num_functions == 4 == model.prior.num_latents
    assert model.inducing.Z.shape == (4, 5, 2)
    assert isinstance(model.posterior, Full)
    assert model.posterior.whiten
    assert [type(one).__name__ for one in model.likelihood.likelihoods] == [
        "HeteroscedasticGaussian",
        "Poisson",
        "Bernoulli",
    ]
    assert not any(kernel.variance.trainable for kernel in model.prior.kernels.kernels)
    assert np.isfinite(model.elbo(several))


def test_many_outputs_share_three_latents_unless_told(rng):
    data = MultiOutputData.from_arrays(rng.normal(size=(9, 1)), rng.normal(size=(9, 6)))

    def shared(**how):
        noise = [lik.Gaussian() for _ in range(6)]
        return hetmogp_lmc(data, noise, inducing=4, own=False, scaling=None, **how).prior.num_latents

    assert shared() == 3
    assert shared(latents=2) == 2


def test_variances_of_independent_functions_are_trained(single):
    model = cgp(single, lik.HeteroscedasticGaussian(), inducing=4, scaling=None)
    assert all(kernel.variance.trainable for kernel in model.prior.kernels.kernels)


def test_constant_inputs_still_give_a_model():
    data = MultiOutputData.from_arrays(np.ones((5, 1)), np.arange(5.0))
    with pytest.warns(UserWarning, match="1 distinct inputs"), pytest.warns(UserWarning, match="column 0 is constant"):
        model = ccgp(data, lik.HeteroscedasticGaussian(), scaling=None)
    assert np.isfinite(model.elbo(data))


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (
            lambda d: ccgp(d, lik.HeteroscedasticGaussian(), scaling=None),
            ValueError,
            "one output, the data have 3; use hetmogp_lmc",
        ),
        (lambda d: cgp(d, lik.HeteroscedasticGaussian(), scaling=None), ValueError, "one output, the data have 3"),
        (lambda d: hetmogp_lmc(d, [lik.Gaussian()], scaling=None), ValueError, "for 3 outputs"),
        (
            lambda d: hetmogp_lmc(d, {"real": lik.Gaussian(), "count": lik.Poisson()}, scaling=None),
            ValueError,
            "for 3 outputs",
        ),
        (
            lambda d: hetmogp_lmc(
                d, {"real": lik.Gaussian(), "count": lik.Poisson(), "typo": lik.Bernoulli()}, scaling=None
            ),
            KeyError,
            "no output 'typo'",
        ),
        (lambda d: hetmogp_lmc(d, [lik.Poisson(), lik.Poisson(), lik.Bernoulli()], scaling=None), ValueError, "'real'"),
        (lambda d: hetmogp_lmc(d, [lik.Gaussian()] * 3, latents=0, scaling=None), ValueError, "latents=0"),
        (lambda d: hetmogp_lmc(d, [lik.Gaussian()] * 3, inducing=0, scaling=None), ValueError, "0 inducing points"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_was_given(several, call, error, said):
    with pytest.raises(error, match=said):
        call(several)


def test_augmented_model_counts_the_data_twice_and_the_divergence_once(single, randomise):
    """Giraldo 11.17."""
    plain = ccgp(single, lik.HeteroscedasticGaussian(), inducing=6, scaling=None)
    double = accgp(single, lik.HeteroscedasticGaussian(), inducing=6, scaling=None)
    randomise(plain, 2)
    copy_posterior(double, plain)
    double.prior.W.assign(np.vstack([plain.prior.W] * 2))
    np.testing.assert_allclose(double.data_terms(single), np.repeat(plain.data_terms(single), 2), rtol=1e-10)
    np.testing.assert_allclose(double.kl(), plain.kl(), rtol=1e-12)
    np.testing.assert_allclose(double.elbo(single), 2 * plain.data_terms(single)[0] - plain.kl(), rtol=1e-10)


def test_copies_of_an_augmented_output_have_weights_and_mini_batches_of_their_own(single):
    model = accgp(single, lik.HeteroscedasticGaussian(), inducing=6, scaling=None)
    assert isinstance(model, AugmentedMOGP)
    assert model.names == ("y", "y (copy)")
    assert model.prior.W.shape == (4, 2)
    one, two = model.batches(single, 10, seed=3)(tf.constant(0)).outputs
    assert one.Y.shape == two.Y.shape == (5, 1)
    assert not np.array_equal(one.Y, two.Y)
    np.testing.assert_allclose([np.sum(one.weight), np.sum(two.weight)], 20.0)
    whole = model.batches(single)(tf.constant(0)).outputs
    np.testing.assert_array_equal(whole[0].Y, whole[1].Y)


def test_predictions_of_an_augmented_model_are_of_the_first_output_unless_the_copy_is_named(single, randomise):
    model = accgp(single, lik.HeteroscedasticGaussian(), inducing=6, scaling=None)
    randomise(model, 2)
    X = single.X[:4]
    np.testing.assert_array_equal(model.predict_y(X)[0], model.predict_y(X, "y")[0])
    assert np.abs(model.predict_y(X)[0] - model.predict_y(X, "y (copy)")[0]).max() > 1e-3
    assert list(model.predict(X)["output"].unique()) == ["y"]
    density, both = model.predict_log_density(single), model.predict_log_density(twofold(single))
    assert set(density) == {"y"}
    assert set(both) == {"y", "y (copy)"}
    np.testing.assert_array_equal(density["y"], both["y"])


@pytest.mark.parametrize("size", [1, 0, [5, 5], "all"])
def test_augmented_batches_are_one_number_that_can_be_halved(single, size):
    model = accgp(single, lik.HeteroscedasticGaussian(), inducing=6, scaling=None)
    with pytest.raises(ValueError, match="halved for each copy"):
        model.batches(single, size)


def test_an_augmented_model_has_one_output(several):
    with pytest.raises(ValueError, match="one output, the data have 3"):
        accgp(several, lik.Gaussian(), scaling=None)


def test_a_copy_of_an_output_keeps_inputs_columns_and_replicas():
    table = pd.DataFrame({"day": [1.0, 2.0, 3.0], "run": ["p", "q", "p"], "y": [4.0, np.nan, 6.0]})
    data = MultiOutputData.from_table(table, inputs="day", targets="y", replica="run", nested=True)
    both = twofold(data)
    assert both.names == ("y", "y (copy)")
    assert (both.columns, both.nested) == (data.columns, data.nested)
    for own in both.outputs:
        np.testing.assert_array_equal(own.Y, data[0].Y)
        np.testing.assert_array_equal(own.rows, data[0].rows)
        np.testing.assert_array_equal(own.replica, data[0].replica)


@pytest.mark.parametrize("make", [hetmogp_lmc, hetmogp_cpm])
def test_outputs_may_have_their_own_inputs_and_batch_sizes(make, rng):
    data = MultiOutputData.from_list(
        [(rng.uniform(size=(12, 1)), rng.normal(size=12)), (rng.uniform(size=(30, 1)), rng.poisson(2.0, 30))],
        names=["few", "many"],
    )
    model = make(data, [lik.HeteroscedasticGaussian(), lik.Poisson()], inducing=5)
    from mogp import fit

    before = float(model.elbo(data))
    fit(model, data, steps=80, batch_size={"few": 4, "many": 15}, progress=False)
    assert float(model.elbo(data)) > before


def test_mini_batches_of_one_pass_average_to_the_full_objective(rng):
    """Giraldo 11.18."""
    data = MultiOutputData.from_arrays(
        rng.uniform(size=(12, 1)), np.column_stack([rng.normal(size=12), rng.poisson(2.0, 12)]), names=["a", "b"]
    )
    model = hetmogp_lmc(data, [lik.HeteroscedasticGaussian(), lik.Poisson()], inducing=5, scaling=None)
    source = data.batches(4, seed=1)
    parts = [float(model.elbo(source(step))) for step in range(3)]
    np.testing.assert_allclose(np.mean(parts), model.elbo(data), rtol=1e-10)


def test_constant_columns_are_named_in_a_warning(rng):
    X = np.column_stack([rng.uniform(size=10), np.full(10, 3.0)])
    data = MultiOutputData.from_arrays(X, rng.normal(size=10), names=["y"])
    with pytest.warns(UserWarning, match="input column 1 is constant.*Drop it"):
        hetmogp_lmc(data, lik.Gaussian(), inducing=4, scaling=None)
    still = MultiOutputData.from_arrays(X[:, :1], np.zeros(10), names=["flat"])
    with pytest.warns(UserWarning, match="all 10 targets of output 'flat' are 0"):
        hetmogp_cpm(still, lik.Gaussian(), inducing=4, scaling=None)


@pytest.mark.parametrize(
    ("likelihood", "targets", "said"),
    [
        (lik.Beta(), [0.2, 0.0, 0.5], r"1 out-of-range target, first at row 1 \(0.0\).*numpy.clip"),
        (lik.Beta(), [0.2, 0.5, 1.0], r"first at row 2 \(1.0\)"),
        (lik.Poisson(), [1, -2, 3], r"1 negative target, first at row 1 \(-2.0\); counts must be >= 0"),
        (lik.Poisson(), [1, 2.5, 3], r"1 fractional target, first at row 1 \(2.5\)"),
    ],
)
@pytest.mark.parametrize("make", [hetmogp_lmc, hetmogp_cpm, ccgp, accgp, cgp])
def test_targets_that_a_likelihood_cannot_take_are_refused_before_anything_is_built(make, likelihood, targets, said):
    data = MultiOutputData.from_arrays([[0.0], [0.5], [1.0]], targets, names=["y"])
    with pytest.raises(ValueError, match=said):
        make(data, likelihood)
