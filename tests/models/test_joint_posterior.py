"""`SparseMOGP.joint_posterior` against exact regression and dense formulas; what `fit` and files make of it."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from dense_mixture import exact, sparse_posterior, titsias
from gpflow import kernels as k
from scipy import sparse

import mogp
from mogp import likelihoods as lik
from mogp.data import MultiOutputData
from mogp.errors import UnsupportedError
from mogp.inducing import InducingPoints, given_points, subset_points
from mogp.models import ExactLMC, SparseMOGP, closed_form, hetmogp_lmc, hgp_ind, lmc_stacked
from mogp.optimizers import Adam, NaturalAdam
from mogp.posteriors import Full, Joint, Parsimonious
from mogp.priors import ICM, LMC, Independent
from mogp.training import fit

W = [[1.0, 0.3], [-0.7, 0.6], [0.4, -1.0]]


@pytest.fixture
def little_jitter():
    """Equalities with exact formulas hold to the jitter."""
    with gpflow.config.as_context(gpflow.config.Config(jitter=1e-10)):
        yield


def gaussians(count: int = 3, seed: int = 0) -> list[lik.Gaussian]:
    return [lik.Gaussian(v) for v in np.random.default_rng(seed).uniform(0.1, 0.6, count)]


def lmc(points: InducingPoints, **how: Any) -> SparseMOGP:
    kernels = [k.Matern32(lengthscales=0.9), k.Matern12(lengthscales=1.5)]
    return SparseMOGP(LMC(kernels, 3, W=W, bias=[0.2, -0.4, 1.0]), points, gaussians(), **how)


def few(data: MultiOutputData) -> InducingPoints:
    return given_points(data.X[::3])


@pytest.mark.parametrize("table", ["uneven", "shared"])
def test_with_points_at_the_data_it_is_exact_regression(table, request, little_jitter):
    data = request.getfixturevalue(table)
    model = lmc(given_points(data.X))
    model.joint_posterior(data)
    X = np.random.default_rng(1).normal(size=(4, 2))
    evidence, mean, cov = exact(model, data, X)
    np.testing.assert_allclose(model.elbo(data), evidence, rtol=1e-6)
    f = model.predict_f(X, full_output_cov=True)
    np.testing.assert_allclose(np.reshape(f.mean, -1), mean, rtol=1e-6, atol=1e-7)
    each = cov.reshape(4, 3, 4, 3)
    np.testing.assert_allclose(f.var, np.einsum("njnk->njk", each), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(model.predict_f(X).var, np.diag(cov).reshape(4, 3), rtol=1e-6, atol=1e-7)
    joint = model.predict_f(X, full_cov=True)
    np.testing.assert_allclose(joint.var, np.einsum("njmj->jnm", each), rtol=1e-6, atol=1e-7)


def test_with_points_at_the_data_it_is_exact_lmc(shared, little_jitter):
    """The two models of the library agree: log evidence, means, variances, densities, given targets."""
    reference = ExactLMC(
        shared, kernel=[k.Matern32(lengthscales=0.9), k.Matern12(lengthscales=1.5)],
        A=np.array(W).T[..., None], noise=0.3, scaling=None,
    )  # fmt: skip
    kernels = [k.Matern32(lengthscales=0.9), k.Matern12(lengthscales=1.5)]
    noise = [lik.Gaussian(0.3) for _ in range(3)]
    model = SparseMOGP(LMC(kernels, 3, W=W), given_points(shared.X), noise, names=shared.schema)
    model.joint_posterior(shared)
    X = np.random.default_rng(1).normal(size=(4, 2))
    np.testing.assert_allclose(model.elbo(shared), reference.elbo(shared), rtol=1e-6)
    for how in ({}, {"given": {"b": [0.3, np.nan, -1.0, 2.0]}}):
        for ours, theirs in zip(model.predict_y(X, **how), reference.predict_y(X, **how), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_that_of_titsias_and_predictions_are_those_of_the_best_posterior(uneven, seed):
    """Few points, one set or a set for each kernel, rank 1 and 2, targets missing and outputs with own inputs."""
    rng = np.random.default_rng(seed)
    kernels = [k.Matern32(lengthscales=0.7), k.SquaredExponential(lengthscales=1.1)]
    rank = 1 + seed % 2
    prior = LMC(kernels, 3, rank=rank, seed=seed, bias=rng.normal(size=3))
    Z = rng.normal(size=(2, 5, 2) if seed < 2 else (5, 2))
    model = SparseMOGP(prior, InducingPoints(Z), gaussians(seed=seed), Full(whiten=seed != 3))
    before = float(model.elbo(uneven))
    rise = model.joint_posterior(uneven)
    assert isinstance(model.posterior, Joint)
    np.testing.assert_allclose(model.elbo(uneven), titsias(model, uneven), rtol=1e-9)
    np.testing.assert_allclose(model.elbo(uneven), before + rise, rtol=1e-9)
    X = rng.normal(size=(4, 2))
    mean, cov = sparse_posterior(model, uneven, X)
    f = model.predict_f(X)
    np.testing.assert_allclose(np.reshape(f.mean, -1), mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(np.reshape(f.var, -1), np.diag(cov), rtol=1e-6, atol=1e-9)


def test_predictions_of_a_joint_posterior_are_the_dense_ones(uneven, dense, randomise):
    """Any joint posterior, not only the best: marginals, covariances, outputs apart, in the bound too."""
    model = lmc(few(uneven), posterior=Joint())
    randomise(model, 1)
    X = np.random.default_rng(2).normal(size=(5, 2))
    mean, cov = dense(model, X)
    f = model.predict_f(X)
    np.testing.assert_allclose(f.mean, mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(f.var, np.einsum("njnj->nj", cov), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.predict_f(X, 1).var[:, 0], np.einsum("nn->n", cov[:, 1, :, 1]), rtol=1e-8)
    np.testing.assert_allclose(model.predict_f(X, full_cov=True).var, np.einsum("njmj->jnm", cov), atol=1e-10)
    np.testing.assert_allclose(
        model.predict_f(X, full_output_cov=True).var, np.einsum("njnk->njk", cov), rtol=1e-8, atol=1e-10
    )
    conditional = model.condition(tf.constant(X))
    by_row = conditional.marginals(tf.constant([[0, 2], [1, 1]], tf.int64), tf.constant([3, 0], tf.int64), True)
    np.testing.assert_allclose(by_row.var[0], cov[3][[0, 2]][:, 3, [0, 2]], rtol=1e-8)
    np.testing.assert_allclose(by_row.var[1], np.full((2, 2), cov[0, 1, 0, 1]), rtol=1e-8)
    apart = conditional.contrasts(tf.constant([[1, 2]] * 5), tf.constant([0] * 5))
    V = np.einsum("njnk->njk", cov)
    np.testing.assert_allclose(apart.mean, mean[:, 1:] - mean[:, :1], rtol=1e-8)
    expected = V[:, [1, 2], [1, 2]] + V[:, [0, 0], [0, 0]] - 2 * V[:, [0, 0], [1, 2]]
    np.testing.assert_allclose(apart.var, expected, rtol=1e-8)
    alone = conditional.contrasts(tf.constant([[1, 2]] * 5), tf.constant([0] * 5), independent=True)
    np.testing.assert_allclose(alone.var, V[:, [1, 2], [1, 2]] + V[:, [0, 0], [0, 0]], rtol=1e-8)
    terms = [model.likelihood.likelihoods[d].variational_expectations(
        own.Y, *(a[:, d : d + 1] for a in model.predict_f(uneven.inputs(d))), own.Y
    ).numpy().sum() for d, own in enumerate(uneven)]  # fmt: skip
    np.testing.assert_allclose(model.elbo(uneven), sum(terms) - float(model.kl()), rtol=1e-9)
    np.testing.assert_allclose(model.data_terms(uneven), terms, rtol=1e-9)


def test_draws_have_the_covariance_between_rows_and_functions(uneven):
    model = lmc(few(uneven))
    model.joint_posterior(uneven)
    X = np.array([[0.0, 0.0], [0.3, -0.2]])
    mean, cov = sparse_posterior(model, uneven, X)
    count = 20000
    draws = model.predict_f_samples(X, samples=count).numpy().reshape(count, -1)
    found = np.cov(draws.T)
    error = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / count)
    assert (np.abs(found - cov) < 5 * error + 1e-5).all()
    assert (np.abs(draws.mean(0) - mean) < 5 * np.sqrt(np.diag(cov) / count)).all()
    at_rows = model.condition(tf.constant(X)).points(
        range(3), tf.random.stateless_normal([count, 2, 2], [1, 2], dtype=tf.float64)
    )
    for n in range(2):
        own = slice(3 * n, 3 * n + 3)
        assert (np.abs(np.cov(at_rows[:, n].numpy().T) - cov[own, own]) < 5 * error[own, own] + 1e-5).all()


def test_known_outputs_condition_the_joint_posterior(uneven, told):
    model = lmc(few(uneven))
    model.joint_posterior(uneven)
    X = np.random.default_rng(0).normal(size=(3, 2))
    mean, cov = sparse_posterior(model, uneven, X)
    noise = np.diag([float(one.variance.numpy()) for one in model.likelihood.likelihoods])
    known = np.array([[np.nan, 0.5, np.nan], [1.0, -0.3, np.nan], [np.nan] * 3])
    f_mean, f_cov, y_mean, y_cov = told(mean.reshape(3, 3), cov.reshape(3, 3, 3, 3), noise, known)
    given = {model.names[0]: known[:, 0], model.names[1]: known[:, 1]}
    f = model.predict_f(X, given=given)
    np.testing.assert_allclose(f.mean, f_mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(f.var, np.einsum("njnj->nj", f_cov), rtol=1e-6, atol=1e-8)
    y = model.predict_y(X, 2, given=given)
    np.testing.assert_allclose(y.mean[:, 0], y_mean[:, 2], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(y.var[:, 0], np.einsum("njnj->nj", y_cov)[:, 2], rtol=1e-6, atol=1e-8)


# ---------------------------------------------------------------------------- the best, of any model


def _replicas() -> MultiOutputData:
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(12, 2))
    Y[3, 1] = np.nan
    return MultiOutputData.from_arrays(np.tile(np.linspace(0, 1, 6), 2), Y, replica=np.repeat([0, 1], 6))


def _sparse_inputs() -> MultiOutputData:
    rng = np.random.default_rng(0)
    X = sparse.random_array((20, 6), density=0.4, rng=rng, format="csr")
    return MultiOutputData.from_arrays(X, rng.normal(size=(20, 3)))


def _table(seed: int = 0) -> MultiOutputData:
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(15, 3))
    Y[[0, 5], 1] = np.nan
    Y[[2, 3, 9], 2] = np.nan
    return MultiOutputData.from_arrays(rng.normal(size=(15, 2)), Y, names=["a", "b", "c"])


MODELS: dict[str, Any] = {
    "lmc": (_table, lambda d: lmc(few(d))),
    "icm": (_table, lambda d: SparseMOGP(ICM(k.Matern32(), 3, rank=2), few(d), gaussians())),
    "unwhitened": (_table, lambda d: lmc(few(d), posterior=Full(whiten=False))),
    "tempered": (_table, lambda d: lmc(few(d), kl_weight=0.3)),
    "units": (_table, lambda d: hetmogp_lmc(d, gaussians(), latents=2, inducing=4)),
    "row effect": (_table, lambda d: hetmogp_lmc(d, gaussians(), latents=2, inducing=4, row_effect=2)),
    "replicas": (_replicas, lambda d: lmc_stacked(d, latents=2, inducing=3)),
    "replicas, apart": (_replicas, lambda d: hgp_ind(d, inducing=3)),
    "apart": (_table, lambda d: SparseMOGP(Independent([k.Matern32() for _ in "abc"]), few(d), gaussians())),
    "one latent": (_table, lambda d: SparseMOGP(ICM(k.Matern32(), 3), few(d), gaussians(), Full(whiten=False))),
    "sparse inputs": (_sparse_inputs, lambda d: hetmogp_lmc(d, gaussians(), latents=2, inducing=4)),
    "gpflow": (
        _table,
        lambda d: SparseMOGP(
            LMC([k.Matern32(), k.Matern12()], 3, W=W),
            few(d),
            [gpflow.likelihoods.Gaussian(scale=0.5), gpflow.likelihoods.Gaussian(0.2), lik.Gaussian(0.3)],
        ),
    ),
    "noise that reads inputs": (
        _table,
        lambda d: SparseMOGP(
            LMC([k.Matern32(), k.Matern12()], 3, W=W),
            few(d),
            [gpflow.likelihoods.Gaussian(scale=gpflow.functions.Linear(A=np.full((2, 1), 0.1), b=0.9)), *gaussians(2)],
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_bound_rises_as_told_to_where_its_gradient_is_zero(name):
    data, build = MODELS[name][0](), MODELS[name][1]
    model = build(data)
    before = float(model.elbo(data))
    rise = model.joint_posterior(data)
    assert rise > 0
    assert isinstance(model.posterior, Joint if model.prior.W is not None and model.prior.num_latents > 1 else Full)
    with tf.GradientTape() as tape:
        bound = model.elbo(data)
    np.testing.assert_allclose(bound, before + rise, rtol=1e-9)
    own = [p.unconstrained_variable for p in (model.posterior.q_mu, model.posterior.q_sqrt)]
    for gradient in tape.gradient(bound, own):
        np.testing.assert_allclose(gradient, 0, atol=1e-6)
    kept = model.posterior
    assert model.joint_posterior(data) == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(model.elbo(data), bound, rtol=1e-12)
    assert type(model.posterior) is type(kept)


@pytest.mark.parametrize("name", ["lmc", "row effect", "sparse inputs"])
def test_rows_in_pieces_give_the_same(name, monkeypatch):
    data, build = MODELS[name][0](), MODELS[name][1]
    whole, parts = build(data), build(data)
    whole.joint_posterior(data)
    monkeypatch.setattr(closed_form, "_AT_ONCE", 32)
    parts.joint_posterior(data)
    np.testing.assert_allclose(parts.posterior.q_mu, whole.posterior.q_mu, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(parts.posterior.q_sqrt, whole.posterior.q_sqrt, rtol=1e-9, atol=1e-12)


def test_training_of_the_posterior_alone_ends_there(uneven, either_way):
    """Natural steps of size one on a joint posterior: one is enough, as on any Gaussian model."""
    model, best = lmc(few(uneven), posterior=Joint()), lmc(few(uneven))
    best.joint_posterior(uneven)
    fit(
        model,
        uneven,
        steps=2,
        optimizer=NaturalAdam(gamma=1.0, learning_rate=1e-12, warm_up=0, trust=None),
        progress=False,
    )
    assert isinstance(model.posterior, Joint)
    np.testing.assert_allclose(model.elbo(uneven), best.elbo(uneven), rtol=1e-6)


def test_a_rise_that_rounding_would_undo_leaves_the_posterior(uneven, monkeypatch):
    model = lmc(few(uneven))
    old, assign = model.posterior, closed_form._assign
    monkeypatch.setattr(closed_form, "_assign", lambda q, factors, m, T: assign(q, factors, m + 1e4, T))
    assert model.joint_posterior(uneven) < 0
    assert model.posterior is old
    assert "left out" in model.last_step(uneven)


def test_in_single_precision_it_is_that_of_double_precision(shared, float32):
    model = lmc(few(shared))
    before = float(model.elbo(shared))
    rise = model.joint_posterior(shared)
    assert {v.dtype for v in model.trainable_variables} == {tf.float32}
    np.testing.assert_allclose(model.elbo(shared), before + rise, rtol=1e-4)
    with gpflow.config.as_context(gpflow.config.Config(float=np.float64, jitter=1e-4)):
        double = lmc(few(shared))
        double.joint_posterior(shared)
        expected = double.predict_f(shared.X)
    for ours, theirs in zip(model.predict_f(shared.X), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)


def test_functions_that_were_not_observed_are_covered_as_often_as_they_should_be(little_jitter):
    """Functions and targets drawn from the prior, the model as drawn: squares of errors over variances average one.

    The third output is the difference of the latent GPs, of which the first two tell the sum: the best factorised
    posterior takes it for known where it was not observed.
    """
    x, rng, draws = np.linspace(0, 3, 12)[:, None], np.random.default_rng(0), 60
    kernels, noise = [k.Matern32(lengthscales=0.8), k.Matern12(lengthscales=2.0)], 0.02
    mixing = np.array([[1.0, 1.0], [1.0, 0.9], [1.0, -1.0]])
    roots = [np.linalg.cholesky(one(x).numpy() + 1e-9 * np.eye(12)) for one in kernels]
    squares: dict[str, list[float]] = {"Joint": [], "Full": []}
    hidden = np.arange(12) % 6 > 0
    for _ in range(draws):
        f = np.stack([root @ rng.normal(size=12) for root in roots], 1) @ mixing.T
        Y = f + np.sqrt(noise) * rng.normal(size=f.shape)
        Y[hidden, 2] = np.nan
        data = MultiOutputData.from_arrays(x, Y)
        model = SparseMOGP(
            LMC(kernels, 3, W=mixing), given_points(x), [lik.Gaussian(noise) for _ in range(3)], names=data.schema
        )
        model.joint_posterior(data)
        for _ in range(2):
            mean, var = (np.asarray(a)[hidden, 0] for a in model.predict_f(x, 2))
            squares[type(model.posterior).__name__].append(float(np.mean((f[hidden, 2] - mean) ** 2 / var)))
            model.problem(data)
    joint, factorised = np.array(squares["Joint"]), np.array(squares["Full"])
    error = joint.std() / np.sqrt(draws)
    assert abs(joint.mean() - 1) < 4 * error
    assert factorised.mean() > 1 + 10 * error


# ---------------------------------------------------------------------------- fit, files, words


def test_fit_goes_on_from_the_closest_factorised_posterior(uneven, either_way):
    """Its bound is the best of all factorised ones, between that before and the joint one."""
    for whiten in (True, False):
        model = lmc(few(uneven), posterior=Full(whiten=whiten))
        fit(model, uneven, steps=3, optimizer=Adam(0.05), progress=False)
        before = float(model.elbo(uneven))
        joint = before + model.joint_posterior(uneven)
        mean = model.posterior.moments(model.factors())[0].numpy()
        model.problem(uneven)
        assert isinstance(model.posterior, Full)
        assert model.posterior.whiten is whiten
        np.testing.assert_allclose(model.posterior.moments(model.factors())[0], mean, atol=1e-8)
        with tf.GradientTape() as tape:
            best = model.elbo(uneven)
        assert before < best < joint
        own = [p.unconstrained_variable for p in (model.posterior.q_mu, model.posterior.q_sqrt)]
        for gradient in tape.gradient(best, own):
            np.testing.assert_allclose(gradient, 0, atol=1e-5)
        model.joint_posterior(uneven)
        history = fit(model, uneven, steps=5, optimizer=Adam(0.01), progress=False)
        np.testing.assert_allclose(history.elbo[0], best, rtol=1e-9)
        assert isinstance(model.posterior, Full)


def test_a_joint_posterior_that_was_asked_for_is_trained_and_stays(uneven, either_way):
    model = lmc(few(uneven), posterior=Joint())
    history = fit(model, uneven, steps=20, optimizer=Adam(0.05), progress=False)
    assert history.elbo[-1] > history.elbo[0]
    assert isinstance(model.posterior, Joint)
    assert model.last_step(uneven) == ""
    assert model.joint_posterior(uneven) > 0
    fit(model, uneven, steps=1, optimizer=Adam(0.01), progress=False)
    assert isinstance(model.posterior, Joint)


def test_a_checkpoint_is_found_again_after_the_posterior_was_replaced(uneven, tmp_path, either_way):
    """With the same model, which has the joint posterior, and with one that is built anew."""
    path = tmp_path / "run.npz"
    model = lmc(few(uneven))
    how = {"optimizer": Adam(0.05), "checkpoint": path, "progress": False}
    first = fit(model, uneven, steps=6, **how)
    assert model.last_step(uneven)
    again = fit(model, uneven, steps=10, **how)
    np.testing.assert_array_equal(again.elbo[:6], first.elbo)
    whole = fit(lmc(few(uneven)), uneven, steps=10, optimizer=Adam(0.05), progress=False)
    np.testing.assert_allclose(again.elbo, whole.elbo, rtol=1e-10)
    anew = fit(lmc(few(uneven)), uneven, steps=12, **how)
    np.testing.assert_array_equal(anew.elbo[:10], again.elbo)


def test_the_last_step_says_what_it_did(uneven):
    model = lmc(few(uneven))
    before = float(model.elbo(uneven))
    said = model.last_step(uneven)
    rise = float(model.elbo(uneven)) - before
    assert said == f"Closed form of q(u): the bound rose by {rise:.1f} nats."
    assert "posterior   Joint, whitened" in str(model)
    assert model.last_step(lambda step: uneven.full()) == ""


def test_files_keep_a_joint_posterior(uneven, tmp_path):
    model = lmc(few(uneven))
    model.joint_posterior(uneven)
    again = mogp.load(mogp.save(model, tmp_path / "model.mogp"))
    X = uneven.X[:3]
    for ours, theirs in zip(again.predict_f(X, full_cov=True), model.predict_f(X, full_cov=True), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    fit(again, uneven, steps=1, optimizer=Adam(0.01), progress=False)
    assert isinstance(again.posterior, Full)


def test_what_has_no_closed_form_is_refused_and_left_alone(shared):
    counts = MultiOutputData.from_arrays(np.linspace(0, 1, 6), np.ones((6, 2)))
    points = subset_points(counts, 3)
    cases = {
        r"Poisson targets are not Gaussian": SparseMOGP(
            LMC([k.Matern32(), k.Matern12()], 2), points, [lik.Poisson(), lik.Gaussian()], names=counts.schema
        ),
        r"posterior Parsimonious": SparseMOGP(
            LMC([k.Matern32(), k.Matern12()], 2), points, gaussians(2), Parsimonious(), names=counts.schema
        ),
        r"kl_weight=0": SparseMOGP(
            LMC([k.Matern32(), k.Matern12()], 2), points, gaussians(2), names=counts.schema, kl_weight=0.0
        ),
        r"3003 inducing variables": SparseMOGP(
            LMC([k.Matern32() for _ in range(1001)], 2), points, gaussians(2), names=counts.schema
        ),
    }
    for match, model in cases.items():
        old = model.posterior
        with pytest.raises(UnsupportedError, match=match):
            model.joint_posterior(counts)
        assert model.last_step(counts) == ""
        assert model.posterior is old
    other = mogp.models.hetmogp_cpm(shared, gaussians(), latents=2, inducing=3)
    with pytest.raises(UnsupportedError, match="prior CPM"):
        other.joint_posterior(shared)
    with pytest.raises(UnsupportedError, match=r"Joint posterior with priors that mix.*CPM.*Full"):
        SparseMOGP(other.prior, other.inducing, gaussians(), Joint())
