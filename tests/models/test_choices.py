"""Kernels and inducing inputs that a user chooses."""

from __future__ import annotations

import numpy as np
import pytest
from gpflow import kernels as k

from mogp import likelihoods as lik
from mogp.data import MultiOutputData
from mogp.inducing import given_points
from mogp.kernels import Patches
from mogp.models import (
    accgp,
    ccgp,
    ccgp_cpm,
    ccgp_vik,
    ccgpma,
    cgp,
    cgpma,
    g_a,
    g_m,
    hetmogp_cpm,
    hetmogp_lmc,
    mg_m,
    mogps_ar,
)
from mogp.training import fit

X = np.linspace(0, 1, 12)[:, None]
ONE = MultiOutputData.from_arrays(X, np.sin(6 * X))
TOLD = MultiOutputData.from_list([(X, np.add(np.sin(6 * X), [[0.0, 0.1, -0.1]]))])
POINTS = [[0.1], [0.5], [0.9]]
NOISY = {
    "ccgp": lambda **how: ccgp(ONE, lik.HeteroscedasticGaussian(), **how, scaling=None),
    "cgp": lambda **how: cgp(ONE, lik.HeteroscedasticGaussian(), **how, scaling=None),
    "accgp": lambda **how: accgp(ONE, lik.HeteroscedasticGaussian(), **how, scaling=None),
    "hetmogp_lmc": lambda **how: hetmogp_lmc(ONE, [lik.HeteroscedasticGaussian()], **how, scaling=None),
    "ccgpma": lambda **how: ccgpma(TOLD, **how, scaling=None),
    "cgpma": lambda **how: cgpma(TOLD, **how, scaling=None),
}
LABELS = MultiOutputData.from_arrays(X, np.arange(12) % 3)
IMAGES = MultiOutputData.from_arrays(np.random.default_rng(0).random((12, 9)), np.arange(12) % 3)
CLASSES = {"mogps_ar": mogps_ar, "mg_m": mg_m, "g_a": g_a, "g_m": g_m}
CONVOLVED = {
    "hetmogp_cpm": lambda **how: hetmogp_cpm(ONE, [lik.HeteroscedasticGaussian()], **how, scaling=None),
    "ccgp_cpm": lambda **how: ccgp_cpm(ONE, lik.HeteroscedasticGaussian(), **how, scaling=None),
    "ccgp_vik": lambda **how: ccgp_vik(ONE, lik.HeteroscedasticGaussian(), **how, scaling=None),
}


@pytest.mark.parametrize("name", NOISY)
def test_every_latent_gp_has_its_copy_of_the_kernel(name):
    model = NOISY[name](kernel=k.Matern32(lengthscales=0.3), inducing=3)
    kernels = model.prior.kernels.kernels
    assert all(isinstance(one, k.Matern32) for one in kernels)
    assert len({id(one.lengthscales) for one in kernels}) == len(kernels) > 1


@pytest.mark.parametrize("name", NOISY)
def test_a_function_makes_a_kernel_for_each_latent_gp(name):
    made = []

    def make():
        made.append(k.Matern52() + k.Linear())
        return made[-1]

    model = NOISY[name](kernel=make, inducing=3)
    assert [id(one) for one in model.prior.kernels.kernels] == [id(one) for one in made]


@pytest.mark.parametrize("name", [*NOISY, *CONVOLVED])
def test_inducing_points_are_taken_as_they_are(name):
    model = {**NOISY, **CONVOLVED}[name](inducing=given_points(POINTS))
    assert model.inducing.num_inducing == 3
    np.testing.assert_allclose(np.unique(np.asarray(model.inducing.Z)), [0.1, 0.5, 0.9])
    assert np.isfinite(fit(model, TOLD if "ma" in name else ONE, steps=2, progress=False).elbo).all()


@pytest.mark.parametrize("patches", [None, Patches((3, 3), (2, 2))])
@pytest.mark.parametrize("name", CLASSES)
def test_models_of_classes_take_a_kernel_of_inputs_or_of_patches(name, patches):
    data = LABELS if patches is None else IMAGES
    many = {"latents": 2} if name in ("mogps_ar", "mg_m") else {}
    model = CLASSES[name](data, inducing=3, kernel=k.Matern32(lengthscales=0.3), patches=patches, whiten=False, **many)
    kernels = [one if patches is None else one.base_kernel for one in model.prior.kernels.kernels]
    assert [type(one) for one in kernels] == [k.Matern32] * (2 if many else 1)
    assert not model.posterior.whiten
    assert np.isfinite(fit(model, data, steps=1, progress=False).elbo).all()


def test_what_is_no_kernel_and_no_number_is_refused():
    with pytest.raises(TypeError, match="kernel is a str; expected a GPflow kernel"):
        NOISY["ccgp"](kernel="rbf")
    with pytest.raises(TypeError, match="makes a int; expected a GPflow kernel"):
        NOISY["ccgp"](kernel=lambda: 3)
    with pytest.raises(TypeError, match="inducing is a float; expected how many"):
        NOISY["ccgp"](inducing=2.5)
