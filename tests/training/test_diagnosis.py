from __future__ import annotations

import numpy as np
import pytest
from gpflow import kernels as k

from mogp.data import MultiOutputData
from mogp.inducing import InducingPoints, given_points
from mogp.likelihoods import Gaussian
from mogp.models import SparseMOGP
from mogp.posteriors import Parsimonious
from mogp.priors import LMC, Independent
from mogp.training.diagnosis import diagnose

NONE = np.empty(0)


def made(prior, Z, posterior=None) -> SparseMOGP:
    return SparseMOGP(prior, InducingPoints(Z), [Gaussian() for _ in range(prior.num_functions)], posterior)


def said(model, elbo=NONE, **options) -> str:
    return str(diagnose(model, elbo, **options))


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_a_flat_end_has_converged_and_a_rising_one_has_not(rng, noise):
    steps = np.arange(1000)
    risen = 100 - 100 * np.exp(-steps / 50) + noise * rng.normal(size=1000)
    rising = 0.1 * steps + noise * rng.normal(size=1000)
    assert diagnose(None, risen).converged is True
    assert diagnose(None, rising).converged is False
    assert "still rose by 20 nats over the last 200 steps" in said(None, np.arange(1000) * 0.1)


def test_too_few_steps_are_not_judged():
    assert diagnose(None, np.arange(20.0)).converged is None
    assert diagnose(None, NONE).converged is None
    assert "Too few steps" in said(None)


def test_a_deterministic_rise_counts_however_noisy_it_looks():
    elbo = -np.exp(-np.arange(20) / 8.0)
    assert diagnose(None, elbo, deterministic=True).converged is False
    assert diagnose(None, np.r_[np.arange(10.0), np.full(30, 10.0)], deterministic=True).converged is True


def test_a_healthy_model_gives_no_findings():
    model = made(LMC([k.Matern32(), k.Matern12()], 2, W=np.eye(2)), np.linspace(0, 5, 4)[:, None])
    assert diagnose(model, NONE).findings == ()


def test_latents_that_no_function_uses_are_named():
    model = made(LMC([k.Matern32()] * 3, 2, W=[[1.0, 0.01, 0.5], [0.7, 0.0, -1.0]]), np.zeros((1, 1)))
    assert "Latent GP 1 makes up less than 1 % of every function: 2 latent GPs would do" in said(model)


def test_weights_count_with_the_variance_of_their_kernel():
    model = made(LMC([k.Matern32(), k.Matern32(1e6)], 1, W=[[1.0, 0.01]]), np.zeros((1, 1)))
    assert "Latent GP 0" in said(model)


@pytest.mark.parametrize("sets", [False, True])
def test_points_on_top_of_each_other_are_counted_in_lengthscales(sets):
    Z = np.array([[0.0], [0.001], [5.0]])
    kernels = [k.Matern12(lengthscales=1e-3), k.Matern12(lengthscales=1.0)]
    text = said(made(Independent(kernels), np.stack([Z, Z]) if sets else Z))
    assert "2 inducing points of kernel 1 lie within 1 % of a lengthscale" in text
    assert "kernel 0" not in text


def test_only_the_dimensions_a_kernel_sees_count():
    Z = np.array([[0.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
    kernels = [k.Matern12(lengthscales=[1.0, 2.0], active_dims=[0, 2]), k.Matern12(lengthscales=[1.0, 2.0, 3.0])]
    text = said(made(Independent(kernels), Z))
    assert "2 inducing points of kernel 0" in text
    assert "kernel 1 lie" not in text


def test_kernels_without_a_lengthscale_are_passed_over():
    model = made(Independent([k.Linear() + k.White(), k.Periodic(k.Matern12())]), np.array([[0.0], [1e-4]]))
    assert "lengthscale of another" not in said(model)


def test_raised_jitter_is_reported_for_the_kernels_that_needed_it():
    """1e-6 is below the rounding of a singular matrix with entries of 1e12."""
    Z = np.linspace(0, 1, 25)[:, None]
    smooth = k.SquaredExponential(variance=1e12, lengthscales=50.0)
    assert "Kuu of kernel 0 needed jitter" in said(made(Independent([smooth]), Z))
    text = said(made(Independent([k.Matern12(lengthscales=0.1), smooth]), Z))
    assert "Kuu of kernel 1 needed jitter" in text
    assert "needed jitter" not in said(made(Independent([smooth]), Z, Parsimonious()))


def test_a_broken_model_is_described_not_raised():
    model = made(Independent([k.Matern12()]), np.zeros((2, 1)))
    model.prior.kernels.kernels[0].variance.unconstrained_variable.assign(np.nan)
    assert "cannot be factorised" in said(model)


def test_models_of_other_kinds_are_judged_by_their_objective_alone():
    assert diagnose(object(), np.zeros(100)).findings == ()


def test_findings_are_lines_of_a_list():
    data = MultiOutputData.from_arrays([0.0, 1.0], [0.0, 1.0])
    model = SparseMOGP(Independent([k.Matern12()]), given_points(np.zeros((2, 1))), Gaussian())
    assert np.isfinite(model.elbo(data))
    lines = said(model).splitlines()
    assert lines[0].startswith("Too few steps")
    assert all(line.startswith("- ") for line in lines[1:])


@pytest.mark.parametrize(
    ("lengthscales", "said"), [((1.0, 500.0), "latent dimension 1"), ((900.0, 500.0), "one function")]
)
def test_latent_dimensions_in_which_outputs_do_not_differ_are_named(lengthscales, said):
    from mogp import MultiOutputData
    from mogp.models import hmogp_lv

    data = MultiOutputData.from_arrays(
        np.arange(6.0), np.random.default_rng(0).normal(size=(6, 4)), replica=[0, 0, 0, 1, 1, 1]
    )
    model = hmogp_lv(data, start="random", scaling=None)
    assert diagnose(model, np.zeros(0)).findings == ()
    model.latent_kernel.lengthscales.assign(lengthscales)
    (finding,) = diagnose(model, np.zeros(0)).findings
    assert said in finding
