"""`LatentMOGP.joint_posterior` against dense formulas: Kronecker products in full, explicit inverses, quadrature."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from case_data import reals
from dense_latent import (
    common_data,
    dense,
    dense_kl,
    dense_moments,
    dense_terms,
    exact_log_evidence,
    expectations,
    latent_kl,
    levels_of,
    mixture,
    nodes,
    over_replicas,
    table,
    toy,
    uneven_data,
)
from gpflow.kernels import SquaredExponential

import mogp
from mogp.data import MultiOutputData
from mogp.errors import UnsupportedError
from mogp.inducing import ReplicaPoints
from mogp.kernels import hierarchical
from mogp.likelihoods import Gaussian, Poisson
from mogp.models import LatentMOGP, closed_form, hmogp_lv
from mogp.models.new_outputs import add_outputs
from mogp.optimizers import Adam
from mogp.posteriors import JointGrid, Kronecker
from mogp.training import fit

K_X = over_replicas()
DATA = {"common": common_data, "uneven": uneven_data}


@pytest.fixture
def little_jitter():
    """Equalities with exact formulas hold to the jitter."""
    with gpflow.config.as_context(gpflow.config.Config(jitter=1e-10)):
        yield


def variables(*parameters: gpflow.Parameter) -> list[tf.Variable]:
    return [one.unconstrained_variable for one in parameters]


def random_joint(model: LatentMOGP, seed: int = 0) -> LatentMOGP:
    """The model with a random joint posterior."""
    rng, (M_x, M_h) = np.random.default_rng(seed), (int(n) for n in model.posterior.q_mu.shape)
    size = M_x * M_h
    model.posterior = JointGrid()
    model.posterior.build(M_x, M_h)
    model.posterior.q_mu.assign(rng.normal(size=(M_x, M_h)))
    model.posterior.q_sqrt.assign(np.tril(0.2 * rng.normal(size=(size, size)), -1) + np.diag(rng.uniform(0.3, 1, size)))
    return model


def best_of_all(model: LatentMOGP, data: MultiOutputData) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the best q(vec U), with psi-statistics by quadrature and inverses."""
    q = dense(model, K_X)
    inverse = np.linalg.inv(q.K)
    P, r = inverse.copy(), np.zeros(len(q.K))
    noise = np.broadcast_to(model.noise.numpy(), data.num_outputs)
    for d, own in enumerate(data.outputs):
        h, w = nodes(model.latent_mean.numpy()[d], model.latent_var.numpy()[d])
        Psi, Phi = expectations(q, h, w, table(data, d))
        P += inverse @ Phi @ inverse / noise[d]
        r += inverse @ Psi.T @ own.Y[:, 0] / noise[d]
    return np.linalg.solve(P, r), np.linalg.inv(P)


@pytest.mark.parametrize("name", DATA)
def test_the_bound_of_a_joint_posterior_equals_the_dense_one(name):
    data = DATA[name]()
    model = random_joint(toy(data))
    terms = dense_terms(model, data, K_X)
    np.testing.assert_allclose(model.data_terms(data), terms, rtol=1e-8)
    np.testing.assert_allclose(model.kl_inducing(), dense_kl(model, K_X), rtol=1e-8)
    np.testing.assert_allclose(model.elbo(data), terms.sum() - dense_kl(model, K_X) - latent_kl(model).sum(), rtol=1e-8)


def test_predictions_of_a_joint_posterior_equal_the_dense_ones():
    """The latent variable integrated out, and given: moments, covariances, densities, draws."""
    data = common_data()
    model = random_joint(toy(data))
    x = np.array([0.4, 1.7, 2.9])
    at = np.column_stack([x, np.ones(3)])
    for d, name in enumerate(data.names):
        mean, cov = mixture(model, d, at, K_X, 40)
        f = model.predict_f(x, name, replica=1)
        np.testing.assert_allclose(f.mean[:, 0], mean, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(f.var[:, 0], np.diag(cov), rtol=1e-7)
        joint = model.predict_f(x, name, replica=1, full_cov=True)
        np.testing.assert_allclose(joint.var[0], cov, rtol=1e-7, atol=1e-9)
    model.latent_var.assign(np.full(model.latent_var.shape, 1e-12))
    h, count = model.latent_mean.numpy(), 20000
    draws = model.predict_f_samples(x, replica=1, samples=count).numpy()
    for d in range(data.num_outputs):
        means, covs = dense_moments(model, at, h[d : d + 1], K_X)
        error = np.sqrt((np.outer(*[np.diag(covs[0])] * 2) + covs[0] ** 2) / count)
        assert (np.abs(draws[..., d].mean(0) - means[0]) < 5 * np.sqrt(np.diag(covs[0]) / count)).all()
        assert (np.abs(np.cov(draws[..., d].T) - covs[0]) < 5 * error + 1e-5).all()
    # Draws of two outputs depend on each other through the inducing variables.
    q = dense(model, K_X)
    A = np.concatenate([one @ np.linalg.inv(q.K) for one in q.cross(h[:2], at)])
    scale, lengths = float(model.latent_kernel.variance.numpy()), np.asarray(model.latent_kernel.lengthscales)
    K_h = scale * np.exp(-0.5 * np.sum(((h[:2, None] - h[None, :2]) / lengths) ** 2, -1))
    whole = np.kron(K_h, K_X(at, at)) + A @ (q.S - q.K) @ A.T
    found = np.cov(draws[..., :2].transpose(0, 2, 1).reshape(count, -1).T)
    error = np.sqrt((np.outer(np.diag(whole), np.diag(whole)) + whole**2) / count)
    assert (np.abs(found - whole) < 5 * error + 1e-5).all()
    apart = model.predict(x, data.names[0], quantiles=(0.5,), samples=4000, replica=1)
    assert np.isfinite(apart["q0.5"]).all()


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("shared", [False, True])
def test_it_is_the_best_of_all_gaussians(name, shared):
    """Rows observed by all outputs, and a padded table with rows measured twice; one noise for all, and one each."""
    data = DATA[name]()
    model = toy(data, likelihood=Gaussian(0.3) if shared else None)
    before = float(model.elbo(data))
    mean, cov = best_of_all(model, data)
    rise = model.joint_posterior(data)
    assert isinstance(model.posterior, JointGrid)
    q = dense(model, K_X)
    np.testing.assert_allclose(q.m, mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(q.S, cov, rtol=1e-6, atol=1e-9)
    with tf.GradientTape() as tape:
        bound = model.elbo(data)
    np.testing.assert_allclose(bound, before + rise, rtol=1e-10)
    for gradient in tape.gradient(bound, variables(model.posterior.q_mu, model.posterior.q_sqrt)):
        np.testing.assert_allclose(gradient, 0, atol=1e-7)
    if name == "common":
        np.testing.assert_allclose(bound, model.collapsed_elbo(data), rtol=1e-9)
    assert model.joint_posterior(data) == pytest.approx(0, abs=1e-9)


def test_with_points_at_the_data_and_certain_latents_it_is_exact_regression(little_jitter):
    data = common_data()
    H = np.random.default_rng(0).normal(size=(3, 2))
    latent, X = SquaredExponential(variance=1.4, lengthscales=[0.8, 1.1]), table(data, 0)
    noise = np.linspace(0.2, 0.4, 3)
    model = LatentMOGP(
        hierarchical(levels_of(), 1), latent, ReplicaPoints(X[:, :-1], X[:, -1]), H, H, 1e-12,
        likelihood=Gaussian(noise), names=data.names,
    )  # fmt: skip
    model.joint_posterior(data)
    bound = float(model.elbo(data) + tf.reduce_sum(model.kl_latent()))
    np.testing.assert_allclose(bound, exact_log_evidence(data, H, latent, noise, K_X), rtol=1e-6)
    at = np.column_stack([[0.4, 1.7], [1, 1]])
    K = np.kron(latent(H).numpy(), K_X(X, X)) + np.kron(np.diag(noise), np.eye(len(X)))
    y = np.concatenate([own.Y[:, 0] for own in data.outputs])
    for d, name in enumerate(data.names):
        cross = np.kron(latent(H[d : d + 1], H).numpy(), K_X(at, X))
        f = model.predict_f([0.4, 1.7], name, replica=1)
        np.testing.assert_allclose(f.mean[:, 0], cross @ np.linalg.solve(K, y), rtol=1e-5, atol=1e-6)
        expected = 1.4 * K_X(at, at) - cross @ np.linalg.solve(K, cross.T)
        np.testing.assert_allclose(f.var[:, 0], np.diag(expected), rtol=1e-5, atol=1e-6)


def test_a_replica_that_an_output_lacks_is_covered_as_often_as_it_should_be(little_jitter):
    """Functions and targets drawn from the prior, latents known, the model as drawn: squares of errors over variances
    average one; under the best Kronecker posterior they are larger.
    """
    D, draws, rng = 4, 40, np.random.default_rng(0)
    full = common_data(D=D, R=3, N=4)
    H, latent, noise = rng.normal(size=(D, 1)), SquaredExponential(lengthscales=[1.0]), np.full(D, 0.02)
    X = table(full, 0)
    lacking = [[(d + r) % 3 == 0 for r in X[:, -1].astype(int)] for d in range(D)]
    root = np.linalg.cholesky(np.kron(latent(H).numpy(), K_X(X, X)) + 1e-9 * np.eye(D * len(X)))
    squares: dict[str, list[float]] = {"JointGrid": [], "Kronecker": []}
    for _ in range(draws):
        f = (root @ rng.normal(size=len(root))).reshape(D, -1)
        Y = np.where(lacking, np.nan, f + np.sqrt(noise[:, None]) * rng.normal(size=f.shape))
        data = MultiOutputData.from_arrays(X[:, :-1], Y.T, replica=X[:, -1].astype(int))
        model = LatentMOGP(
            hierarchical(levels_of(), 1), latent, ReplicaPoints(X[:, :-1], X[:, -1]), H, H, 1e-12,
            likelihood=Gaussian(noise), names=data.names,
        )  # fmt: skip
        model.joint_posterior(data)
        for _ in range(2):
            z = []
            for d in range(D):
                rows = np.array(lacking[d])
                q = model.predict_f(X[rows, :-1], d, replica=X[rows, -1].astype(int))
                z.append((f[d, rows] - np.asarray(q.mean)[:, 0]) ** 2 / np.asarray(q.var)[:, 0])
            squares[type(model.posterior).__name__].append(float(np.mean(np.concatenate(z))))
            model.problem(data)
    joint, kronecker = np.array(squares["JointGrid"]), np.array(squares["Kronecker"])
    error = joint.std() / np.sqrt(draws)
    assert abs(joint.mean() - 1) < 4 * error
    assert kronecker.mean() > 1 + 10 * error


@pytest.mark.parametrize("kind", ["gap", "nested", "tree", "row"])
def test_the_bound_rises_as_told_on_all_kinds_of_replicas(kind):
    """Crossed and nested replicas, a tree of them, gaps, outputs of a single row, in the units of the data."""
    data = reals("gap" if kind in ("gap", "row") else "several", 0, replica="run", nested=kind == "nested")
    if kind == "row":
        data = replace(data, outputs=tuple(replace(
            o, rows=o.rows[:1], Y=o.Y[:1], observed=o.observed[:1], replica=o.replica[:1]) for o in data.outputs
        ))  # fmt: skip
    tree = [[0, 0], [0, 1], [1, 0], [1, 1]] if kind == "tree" else None
    model = hmogp_lv(data, latent_dim=1, inducing=2, latent_inducing=2, tree=tree, start="random")
    fit(model, data, steps=3, optimizer=Adam(0.05), progress=False)
    before = float(model.elbo(data))
    rise = model.joint_posterior(data)
    assert rise > 0
    np.testing.assert_allclose(model.elbo(data), before + rise, rtol=1e-9)


def test_rows_in_pieces_give_the_same(monkeypatch):
    data = uneven_data()
    whole, parts = toy(data), toy(data)
    whole.joint_posterior(data)
    monkeypatch.setattr(closed_form, "_AT_ONCE", 8)
    parts.joint_posterior(data)
    np.testing.assert_allclose(parts.posterior.q_sqrt, whole.posterior.q_sqrt, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(parts.posterior.q_mu, whole.posterior.q_mu, rtol=1e-9, atol=1e-12)


def test_in_single_precision_it_is_that_of_double_precision(float32):
    data = common_data()
    model = toy(data)
    rise = model.joint_posterior(data)
    assert rise > 0
    assert {v.dtype for v in model.trainable_variables} == {tf.float32}
    with gpflow.config.as_context(gpflow.config.Config(float=np.float64, jitter=1e-4)):
        double = toy(data)
        assert double.joint_posterior(data) == pytest.approx(rise, rel=1e-3)
        expected = double.predict_f([0.5, 2.0], replica=1)
    for ours, theirs in zip(model.predict_f([0.5, 2.0], replica=1), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=5e-3, atol=5e-3)


def test_fit_goes_on_from_the_closest_kronecker_posterior(either_way):
    data = uneven_data()
    model = toy(data)
    before = float(model.elbo(data))
    said = model.last_step(data)
    joint = float(model.elbo(data))
    assert said == f"Closed form of q(u): the bound rose by {joint - before:.1f} nats."
    assert "posterior   JointGrid, whitened" in str(model)
    mean = model.posterior.q_mu.numpy()
    model.problem(data)
    assert isinstance(model.posterior, Kronecker)
    np.testing.assert_allclose(model.posterior.q_mu, mean)
    with tf.GradientTape() as tape:
        best = model.elbo(data)
    assert before < best < joint
    q = model.posterior
    for gradient in tape.gradient(best, variables(q.q_mu, q.q_sqrt_x, q.q_sqrt_h)):
        np.testing.assert_allclose(gradient, 0, atol=1e-3)
    model.joint_posterior(data)
    history = fit(model, data, steps=4, optimizer=Adam(0.01), progress=False)
    np.testing.assert_allclose(history.elbo[0], best, rtol=1e-6)
    assert history.elbo[-1] > history.elbo[0]


def test_a_model_whose_start_is_still_to_be_found_can_have_one(either_way):
    data = reals("several", 0, replica="run")
    model = hmogp_lv(data, latent_dim=1, inducing=2, latent_inducing=2)
    assert model.joint_posterior(data) > 0
    fit(model, data, steps=1, optimizer=Adam(0.01), progress=False)
    assert isinstance(model.posterior, Kronecker)


def test_files_checkpoints_and_new_outputs_know_a_joint_posterior(tmp_path, either_way):
    data = common_data()
    model, how = toy(data), {"optimizer": Adam(0.01), "checkpoint": tmp_path / "run.npz", "progress": False}
    first = fit(model, data, steps=4, **how)
    assert model.last_step(data)
    again: Any = mogp.load(mogp.save(model, tmp_path / "model.mogp"))
    for ours, theirs in zip(again.predict_y([0.5], replica=1), model.predict_y([0.5], replica=1), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    new = MultiOutputData.from_arrays([0.5, 1.5], [0.5, 1.0], names=["new"], replica=[0, 1])
    more = add_outputs(model, new, candidates=4, restarts=1, steps=2)
    old = model.predict_y([0.5], data.names[0], replica=1)
    for ours, theirs in zip(more.predict_y([0.5], data.names[0], replica=1), old, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)
    resumed = fit(model, data, steps=6, **how)
    np.testing.assert_array_equal(resumed.elbo[:4], first.elbo)


def test_targets_that_are_not_gaussian_and_grids_that_are_too_large_are_refused():
    data = reals("several", 0, replica="run")
    counts = replace(data, outputs=tuple(replace(o, Y=np.ones_like(o.Y)) for o in data.outputs))
    model = hmogp_lv(counts, Poisson(), latent_dim=1, inducing=2, latent_inducing=2, start="random")
    with pytest.raises(UnsupportedError, match="Poisson targets are not Gaussian"):
        model.joint_posterior(counts)
    assert model.last_step(counts) == ""
    large = toy(common_data(), M_x=101, M_h=30)
    with pytest.raises(UnsupportedError, match="3030 inducing variables"):
        large.joint_posterior(common_data())
    assert large.last_step(common_data()) == ""
    assert isinstance(large.posterior, Kronecker)
