"""Replicas that are nested in outputs: a number means another replica in each of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mogp.data import MultiOutputData
from mogp.models import hgp_ind, hmogp_lv
from mogp.models.latent import LatentMOGP

X, RUN = np.tile(np.linspace(0, 3, 4), 3), np.repeat([0, 1, 2], 4)


def nested_data() -> MultiOutputData:
    Y = np.random.default_rng(0).normal(size=(12, 2))
    return MultiOutputData.from_arrays(X, Y, names=["a", "b"], replica=RUN, nested=True)


def told_apart(data: MultiOutputData) -> MultiOutputData:
    """The same with numbers that no two outputs share."""
    D = data.num_outputs
    outputs = tuple(replace(o, replica=o.replica * D + d) for d, o in enumerate(data.outputs))
    return replace(data, outputs=outputs, nested=False)


def randomised(model: LatentMOGP) -> LatentMOGP:
    rng = np.random.default_rng(1)
    model.posterior.q_mu.assign(rng.normal(size=model.posterior.q_mu.shape))
    model.latent_mean.assign(rng.normal(size=model.latent_mean.shape))
    return model


@pytest.fixture(scope="module")
def models() -> tuple[LatentMOGP, LatentMOGP]:
    data = nested_data()
    options = {"latent_dim": 1, "inducing": 3, "latent_inducing": 2, "start": "random"}
    return tuple(randomised(hmogp_lv(one, **options, scaling=None)) for one in (data, told_apart(data)))


@pytest.mark.parametrize("full_cov", [False, True])
def test_functions_of_nested_replicas_are_those_of_replicas_with_numbers_of_their_own(models, full_cov):
    nested, plain = models
    new = [0.3, 1.7]
    for d, name in enumerate(nested.names):
        for r in (0, 2, 7):
            found = nested.predict_f(new, name, replica=r, full_cov=full_cov)
            expected = plain.predict_f(new, name, replica=r * 2 + d, full_cov=full_cov)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_everything_else_tells_nested_replicas_apart(models):
    nested, plain = models
    data = nested_data()
    at = {"samples": 3, "seed": 4}
    for d, name in enumerate(nested.names):
        for ask in ("predict_y_samples", "predict_f_samples"):
            found = getattr(nested, ask)([0.3, 1.7], name, replica=1, **at)
            expected = getattr(plain, ask)([0.3, 1.7], name, replica=2 + d, **at)
            np.testing.assert_allclose(found, expected, rtol=1e-8)
    ours, theirs = nested.predict_log_density(data), plain.predict_log_density(told_apart(data))
    for name in nested.names:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-10)
    tables = nested.predictions(data, quantiles=()), plain.predictions(told_apart(data), quantiles=())
    np.testing.assert_allclose(tables[0]["mean"], tables[1]["mean"], rtol=1e-10)
    assert set(tables[0]["replica"]) == {0, 1, 2}


def test_joint_draws_of_all_outputs_have_the_covariance_between_them(models):
    """Against the law of total covariance, by the draws of the latent variables."""
    model = models[0]
    model.latent_var.assign(np.full(model.latent_var.shape, 1e-10))
    at = np.array([0.4])
    draws = model.predict_f_samples(at, samples=20_000, seed=1, replica=1).numpy()[:, 0]
    f = model.predict_f(at, replica=1)
    np.testing.assert_allclose(draws.mean(0), f.mean[0], atol=5 * np.sqrt(np.max(f.var)) / 140)
    np.testing.assert_allclose(draws.var(0), f.var[0], rtol=0.06)
    h = model.latent_mean.numpy()
    Z, K = model.latent_inducing.numpy(), model.latent_kernel
    root = np.linalg.cholesky(K(Z).numpy() + 1e-6 * np.eye(len(Z)))
    k = np.linalg.solve(root, K(Z, h).numpy())
    where = np.array([[0.4, 2.0], [0.4, 3.0]])  # replica 1 of outputs 0 and 1
    Zx = model.inducing.inputs.numpy()
    Lx = np.linalg.cholesky(model.kernel(Zx).numpy() + 1e-6 * np.eye(len(Zx)))
    a = np.linalg.solve(Lx, model.kernel(Zx, where).numpy())
    T_x, T_h = model.posterior.q_sqrt_x.numpy(), model.posterior.q_sqrt_h.numpy()
    expected = (
        K(h).numpy()[0, 1] * model.kernel(where).numpy()[0, 1]
        - (k[:, 0] @ k[:, 1]) * (a[:, 0] @ a[:, 1])
        + (k[:, 0] @ T_h @ T_h.T @ k[:, 1]) * (a[:, 0] @ T_x @ T_x.T @ a[:, 1])
    )
    spread = np.sqrt(np.prod(draws.var(0)))
    assert abs(np.cov(draws.T)[0, 1] - expected) < 0.04 * spread


def test_models_with_functions_of_replicas_for_each_output_read_nested_numbers_as_they_are():
    data = nested_data()
    a, b = hgp_ind(data, inducing=2, scaling=None), hgp_ind(replace(data, nested=False), inducing=2, scaling=None)
    np.testing.assert_allclose(a.elbo(data), b.elbo(replace(data, nested=False)), rtol=1e-12)
    np.testing.assert_allclose(a.predict_y([0.5], replica=1).mean, b.predict_y([0.5], replica=1).mean, rtol=1e-12)
