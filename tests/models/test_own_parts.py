"""An LMC whose functions have own parts: its bound by elimination, its weights, when it is the default."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
from dense_mixture import exact, sparse_posterior, titsias

import mogp
from mogp import MultiOutputData
from mogp.inducing import InducingPoints, given_points
from mogp.kernels import unit_kernels
from mogp.likelihoods import Gaussian, HeteroscedasticGaussian, Poisson
from mogp.models import SparseMOGP, hetmogp_lmc
from mogp.models.collapsed import Collapsed
from mogp.optimizers import Adam
from mogp.posteriors import Joint
from mogp.priors import LMC, SharedAndOwn


def model_of(shared: int, points: InducingPoints | None = None, seed: int = 0) -> SparseMOGP:
    """Three functions of two inputs with random weights, offsets, noises and inducing inputs."""
    rng = np.random.default_rng(seed)
    kernels = unit_kernels(shared + 3, 2, 1.0)
    for kernel in kernels:
        kernel.lengthscales.assign(rng.uniform(0.5, 2.0, 2))
    prior = SharedAndOwn(kernels, 3, rng.normal(size=(3, shared)), rng.normal(size=3), rng.normal(size=3))
    points = InducingPoints(rng.normal(size=(shared + 3, 5, 2))) if points is None else points
    return SparseMOGP(prior, points, [Gaussian(v) for v in rng.uniform(0.1, 0.6, 3)])


@pytest.mark.parametrize("shared", [0, 1, 2])
def test_the_bound_by_elimination_is_that_of_titsias(uneven, shared):
    model = model_of(shared)
    found = Collapsed(model).bound(model.batches(uneven)(0))
    np.testing.assert_allclose(found, titsias(model, uneven), rtol=1e-9)


def test_its_best_posterior_is_the_dense_one(uneven):
    model = model_of(2)
    model.joint_posterior(uneven)
    X = np.random.default_rng(1).normal(size=(4, 2))
    mean, cov = sparse_posterior(model, uneven, X)
    f = model.predict_f(X)
    np.testing.assert_allclose(np.reshape(f.mean, -1), mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(np.reshape(f.var, -1), np.diag(cov), rtol=1e-6, atol=1e-9)


def test_with_points_at_the_data_it_is_exact_regression(uneven):
    with gpflow.config.as_context(gpflow.config.Config(jitter=1e-10)):
        model = model_of(2, given_points(uneven.X))
        model.joint_posterior(uneven)
        np.testing.assert_allclose(model.elbo(uneven), exact(model, uneven, uneven.X)[0], rtol=1e-6)


def test_without_shared_latents_outputs_say_nothing_of_each_other(uneven):
    """B of every kernel has one entry, and the other outputs' targets do not move an output."""
    model = model_of(0)
    B = model.prior.coregionalisation().numpy()
    np.testing.assert_allclose(B, [np.diag(np.eye(3)[j]) * model.prior.W.numpy()[j, j] ** 2 for j in range(3)])
    model.joint_posterior(uneven)
    alone = model_of(0)
    rows = {name: np.full(size, name == "gaps") for name, size in zip(uneven.names, uneven.sizes, strict=True)}
    alone.joint_posterior(uneven.take(rows))
    X = np.random.default_rng(1).normal(size=(4, 2))
    for found, expected in zip(model.predict_f(X, 1), alone.predict_f(X, 1), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize("optimizer", [None, Adam(0.05)])
def test_training_leaves_the_zeros_of_the_weights_alone(uneven, optimizer):
    model = model_of(1)
    before = model.prior.W.numpy()
    mogp.fit(model, uneven, steps=3, optimizer=optimizer, progress=False)
    after = model.prior.W.numpy()
    assert (before[:, 1:][~np.eye(3, dtype=bool)] == 0).all()
    assert (after[before == 0] == 0).all()
    assert (after[before != 0] != before[before != 0]).all()
    assert model.prior.W.unconstrained_variable.shape == (6,)


def table(outputs: int, rows: int = 30) -> MultiOutputData:
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, rows)
    Y = np.sin(6 * x)[:, None] * rng.normal(size=outputs) + 0.1 * rng.normal(size=(rows, outputs))
    return MultiOutputData.from_arrays(x, Y)


def test_own_parts_are_the_default_of_few_latents_for_many_gaussian_outputs():
    many, few = table(7), table(2)
    prior = hetmogp_lmc(many, [Gaussian()] * 7, inducing=4).prior
    assert isinstance(prior, SharedAndOwn)
    assert prior.shared == 3
    for data, likelihoods, how in (
        (few, [Gaussian()] * 2, {}),
        (many, [Gaussian()] * 7, {"own": False}),
        (many, [Gaussian()] * 7, {"start": "plain"}),
        (many, [Gaussian()] * 7, {"rank": 2}),
        (many, [HeteroscedasticGaussian(), *[Gaussian()] * 6], {}),
        (table(200), [Gaussian()] * 200, {"inducing": 20}),
    ):
        assert isinstance(hetmogp_lmc(data, likelihoods, **{"inducing": 4} | how).prior, LMC)


def test_own_parts_can_be_asked_for_with_any_likelihood():
    data = MultiOutputData.from_arrays(np.arange(8.0), np.arange(16.0).reshape(8, 2))
    model = hetmogp_lmc(data, [HeteroscedasticGaussian(), Poisson()], latents=1, own=True, inducing=3)
    assert model.prior.W.shape == (3, 4)
    assert np.isfinite(mogp.fit(model, data, steps=2, progress=False).elbo).all()


def test_shared_and_own_parts_begin_with_a_variance_of_one():
    prior = hetmogp_lmc(table(7), [Gaussian() for _ in range(7)], inducing=4).prior
    np.testing.assert_allclose(np.square(prior.W.numpy()).sum(1), 1.0, atol=0.3)


def test_saved_own_parts_come_back(tmp_path):
    data = table(7)
    model = hetmogp_lmc(data, [Gaussian() for _ in range(7)], inducing=4)
    mogp.fit(model, data, steps=3, progress=False)
    mogp.save(model, tmp_path / "a.mogp")
    again = mogp.load(tmp_path / "a.mogp")
    assert isinstance(again.posterior, Joint)
    np.testing.assert_array_equal(again.prior.W, model.prior.W)
    np.testing.assert_array_equal(again.predict_y([0.3]).var, model.predict_y([0.3]).var)


def test_wrong_shapes_and_ranks_are_told():
    with pytest.raises(ValueError, match=r"3 kernels for 2 functions, W of shape \(2, 2\)"):
        SharedAndOwn(unit_kernels(3, 1, 1.0), 2, np.ones((2, 2)), np.ones(2))
    with pytest.raises(ValueError, match="own=True with rank=2"):
        hetmogp_lmc(table(2), [Gaussian()] * 2, rank=2, own=True, inducing=4)
