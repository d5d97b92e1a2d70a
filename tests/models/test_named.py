from __future__ import annotations

import numpy as np
import pytest

from mogp import likelihoods as lik
from mogp.data import MultiOutputData
from mogp.models import ccgp, cgp, hetmogp_lmc
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
        cgp(single, lik.HeteroscedasticGaussian(), inducing=6),
        ccgp(single, lik.HeteroscedasticGaussian(), latents=2, inducing=6),
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
    het = hetmogp_lmc(single, lik.HeteroscedasticGaussian(), latents=3, inducing=6, seed=4)
    chained = ccgp(single, lik.HeteroscedasticGaussian(), latents=3, inducing=6, seed=4)
    randomise(het, 1)
    copy_posterior(chained, het)
    np.testing.assert_array_equal(het.elbo(single), chained.elbo(single))


def test_heterogeneous_model_has_the_choices_it_says(several):
    kinds = {"binary": lik.Bernoulli(), "real": lik.HeteroscedasticGaussian(), "count": lik.Poisson()}
    model = hetmogp_lmc(several, kinds, inducing=5)
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
    assert hetmogp_lmc(data, [lik.Gaussian() for _ in range(6)], inducing=4).prior.num_latents == 3
    assert hetmogp_lmc(data, [lik.Gaussian() for _ in range(6)], latents=2, inducing=4).prior.num_latents == 2


def test_variances_of_independent_functions_are_trained(single):
    model = cgp(single, lik.HeteroscedasticGaussian(), inducing=4)
    assert all(kernel.variance.trainable for kernel in model.prior.kernels.kernels)


def test_constant_inputs_still_give_a_model():
    data = MultiOutputData.from_arrays(np.ones((5, 1)), np.arange(5.0))
    with pytest.warns(UserWarning, match="1 distinct inputs"):
        model = ccgp(data, lik.HeteroscedasticGaussian())
    assert np.isfinite(model.elbo(data))


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda d: ccgp(d, lik.HeteroscedasticGaussian()), ValueError, "one output, the data have 3; use hetmogp_lmc"),
        (lambda d: cgp(d, lik.HeteroscedasticGaussian()), ValueError, "one output, the data have 3"),
        (lambda d: hetmogp_lmc(d, [lik.Gaussian()]), ValueError, "for 3 outputs"),
        (lambda d: hetmogp_lmc(d, {"real": lik.Gaussian(), "count": lik.Poisson()}), ValueError, "for 3 outputs"),
        (
            lambda d: hetmogp_lmc(d, {"real": lik.Gaussian(), "count": lik.Poisson(), "typo": lik.Bernoulli()}),
            KeyError,
            "no output 'typo'",
        ),
        (lambda d: hetmogp_lmc(d, [lik.Poisson(), lik.Poisson(), lik.Bernoulli()]), ValueError, "'real'"),
        (lambda d: hetmogp_lmc(d, [lik.Gaussian()] * 3, latents=0), ValueError, "latents=0"),
        (lambda d: hetmogp_lmc(d, [lik.Gaussian()] * 3, inducing=0), ValueError, "0 inducing points"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_was_given(several, call, error, said):
    with pytest.raises(error, match=said):
        call(several)
