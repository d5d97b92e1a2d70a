"""A row effect: Gaussian outputs that share an effect at each row."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
from gpflow import kernels as k
from scipy import stats

import mogp
from mogp.data import MultiOutputData, Output
from mogp.errors import UnsupportedError
from mogp.inducing import InducingPoints, given_points
from mogp.likelihoods import Gaussian, HeteroscedasticGaussian, Poisson
from mogp.models import ExactLMC, RowEffectMOGP, SparseMOGP, hetmogp_lmc
from mogp.optimizers import LBFGS
from mogp.posteriors import Full, Parsimonious
from mogp.priors import ICM, LMC

NOISE = np.array([0.2, 0.05, 0.4])
EFFECT = np.array([[0.6, 0.1], [-0.3, 0.4], [0.5, -0.2]])
SIGMA = EFFECT @ EFFECT.T + np.diag(NOISE)
CLOSE = {"rtol": 1e-8, "atol": 1e-8}


def build(randomise, posterior=Full, seed: int = 0) -> RowEffectMOGP:
    rng = np.random.default_rng(seed)
    model = RowEffectMOGP(
        LMC([k.Matern32(1.0, 0.9), k.SquaredExponential(1.0, 1.5)], functions=3, rank=2, bias=0.2, seed=1),
        InducingPoints(rng.normal(size=(5, 2))),
        [Gaussian(v) for v in NOISE],
        posterior(),
        names=["a", "b", "c"],
        effect=EFFECT,
    )
    randomise(model, 4)
    return model


def table(data: MultiOutputData) -> np.ndarray:
    """Targets `[N, D]`, NaN where there are none."""
    Y = np.full((len(data.X), data.num_outputs), np.nan)
    for d, own in enumerate(data):
        Y[own.rows, d] = own.Y[:, 0]
    return Y


# ---------------------------------------------------------------------------- the bound


@pytest.mark.parametrize("posterior", [Full, lambda: Full(whiten=False), Parsimonious])
def test_bound_is_the_expectation_under_the_dense_posterior(posterior, shared, randomise, dense):
    """log N(y | m, Σ) - ½ tr(Σ⁻¹S) of the outputs each row has, with the KL of the model."""
    model = build(randomise, posterior)
    mean, cov = dense(model, shared.X)
    expected = 0.0
    for n, y in enumerate(table(shared)):
        o = np.flatnonzero(~np.isnan(y))
        own = SIGMA[np.ix_(o, o)]
        expected += stats.multivariate_normal(mean[n, o], own).logpdf(y[o])
        expected -= 0.5 * np.trace(np.linalg.solve(own, cov[n, :, n][np.ix_(o, o)]))
    np.testing.assert_allclose(model.elbo(shared) + model.kl(), expected, rtol=1e-8)


def test_data_term_is_the_average_of_log_densities_over_draws(shared, randomise, dense, rng):
    model = build(randomise)
    mean, cov = dense(model, shared.X)
    Y, values, samples = table(shared), [], 4000
    for n, y in enumerate(Y):
        o = np.flatnonzero(~np.isnan(y))
        f = rng.multivariate_normal(mean[n], cov[n, :, n], size=samples)
        values.append(stats.multivariate_normal(np.zeros(len(o)), SIGMA[np.ix_(o, o)]).logpdf(y[o] - f[:, o]))
    drawn = np.sum(values, 0)
    found = float(model.elbo(shared) + model.kl())
    assert abs(found - drawn.mean()) < 4 * drawn.std() / np.sqrt(samples)


def test_points_at_the_data_and_the_best_posterior_reach_the_exact_evidence(shared):
    """One natural step of size one; the evidence by the dense formula, and that of `ExactLMC`."""
    kernel, W = k.Matern32(1.0, 0.8), np.array([[1.0], [-0.7], [0.4]])
    likelihoods = [Gaussian(v) for v in NOISE]
    with gpflow.config.as_context(gpflow.config.Config(jitter=1e-10)):
        model = RowEffectMOGP(
            ICM(kernel, 3, W=W), given_points(shared.X), likelihoods, names=shared.names, effect=EFFECT
        )
        pair = (model.posterior.q_mu, model.posterior.q_sqrt)
        loss = model.training_loss_closure(shared.full(), compile=False)
        gpflow.optimizers.NaturalGradient(1.0).minimize(loss, [pair])
        found = float(model.elbo(shared))
    Y = table(shared)
    n, d = np.nonzero(~np.isnan(Y))
    K = np.outer(W[d], W[d]) * kernel(shared.X[n]).numpy() + SIGMA[np.ix_(d, d)] * (n[:, None] == n)
    expected = stats.multivariate_normal(np.zeros(len(n)), K).logpdf(Y[n, d])
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    exact = ExactLMC(shared, kernel=kernel, A=W[None], row_effect=2, scaling=None)
    exact.noise.assign(NOISE)
    exact.effect.assign(EFFECT)
    np.testing.assert_allclose(exact.elbo(), expected, rtol=1e-9)


def test_without_weights_the_bound_is_that_of_independent_noise(shared, uneven, randomise):
    for data in (shared, uneven):
        model = build(randomise)
        model.effect.assign(0 * EFFECT)
        plain = SparseMOGP(model.prior, model.inducing, model.likelihood, names=model.names)
        randomise(plain, 4)
        named = MultiOutputData.from_list([(data.inputs(d), data[d].Y) for d in range(3)], names=["a", "b", "c"])
        np.testing.assert_allclose(model.elbo(named), plain.elbo(named), rtol=1e-10)


def test_mini_batches_over_a_partition_average_to_the_full_bound(shared, randomise):
    model = build(randomise)
    source = model.batches(shared, 4, seed=1)
    bounds = [float(model.elbo(source(step))) for step in range(3)]
    np.testing.assert_allclose(np.mean(bounds), model.elbo(shared), rtol=1e-10)


# ---------------------------------------------------------------------------- predictions


def test_predictions_given_targets_are_those_of_dense_conditioning(randomise, dense, told, rng):
    model, X = build(randomise), rng.normal(size=(6, 2))
    known = rng.normal(size=(6, 3))
    known[[0, 3], 0] = known[[1, 3], 1] = known[[0, 2, 4], 2] = np.nan
    f_mean, f_cov, y_mean, y_cov = told(*dense(model, X), SIGMA, known)
    given = dict(zip(model.names, known.T, strict=True))
    f = model.predict_f(X, given=given, full_cov=True)
    np.testing.assert_allclose(f.mean, f_mean, **CLOSE)
    np.testing.assert_allclose(f.var, np.einsum("njmj->jnm", f_cov), **CLOSE)
    y = model.predict_y(X, given=given)
    np.testing.assert_allclose(y.mean, y_mean, **CLOSE)
    np.testing.assert_allclose(y.var, np.einsum("njnj->nj", y_cov), **CLOSE)
    samples = 20_000
    drawn = np.asarray(model.predict_y_samples(X, given=given, samples=samples, seed=2)).reshape(samples, -1)
    cov = y_cov.reshape(18, 18)
    sd = np.sqrt(np.diag(cov).clip(0))
    np.testing.assert_array_less(np.abs(np.cov(drawn.T) - cov), 5 * np.sqrt(2 / samples) * np.outer(sd, sd) + 1e-5)


def test_targets_have_the_effect_and_functions_have_not(randomise, dense, rng):
    model, X = build(randomise), rng.normal(size=(4, 2))
    mean, cov = dense(model, X)
    f, y = model.predict_f(X), model.predict_y(X)
    np.testing.assert_allclose(f.var, np.einsum("njnj->nj", cov), **CLOSE)
    np.testing.assert_allclose(y.mean, mean, **CLOSE)
    np.testing.assert_allclose(y.var, np.einsum("njnj->nj", cov) + np.diag(SIGMA), **CLOSE)


@pytest.mark.parametrize("family", ["sparse", "exact"])
def test_draws_of_targets_are_joint_over_outputs_at_a_row_and_not_between_rows(family, shared, randomise):
    samples, X = 20_000, np.array([[9.0, 9.0], [-9.0, 9.0]])  # far from the data and each other
    if family == "sparse":
        model = build(randomise)
        B = np.asarray(model.prior.W) @ np.asarray(model.prior.W).T
    else:
        model = ExactLMC(shared, row_effect=2, scaling=None)
        model.noise.assign(NOISE)
        model.effect.assign(EFFECT)
        W = np.asarray(model.kernel.kernels[1].W)
        B = W @ W.T
    y = np.asarray(model.predict_y_samples(X, samples=samples, seed=1)).reshape(samples, -1)
    expected = np.kron(np.eye(2), B + SIGMA)
    sd = np.sqrt(np.diag(expected))
    np.testing.assert_array_less(np.abs(np.cov(y.T) - expected), 5 * np.sqrt(2 / samples) * np.outer(sd, sd))


def test_densities_are_those_of_predictions(shared, randomise):
    model = build(randomise)
    found = model.predict_log_density(shared)
    for own in shared:
        mean, var = (np.asarray(a)[:, 0] for a in model.predict_y(shared.inputs(own.name), own.name))
        np.testing.assert_allclose(found[own.name], stats.norm(mean, np.sqrt(var)).logpdf(own.Y[:, 0]), rtol=1e-8)


# ---------------------------------------------------------------------------- learning


def simulated(rows: int, seed: int) -> tuple[MultiOutputData, np.ndarray]:
    """Three outputs of two inputs, an ICM, with an effect of rank one; and the noise covariance at a row."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 2))
    K = k.SquaredExponential(1.0, 0.5)(X).numpy() + 1e-8 * np.eye(rows)
    f = np.linalg.cholesky(K) @ rng.normal(size=rows)
    effect = np.array([0.5, -0.4, 0.6])
    noise = np.array([0.05, 0.1, 0.08])
    shared = rng.normal(size=rows)
    Y = np.outer(f, [1.0, 0.8, -0.5]) + np.outer(shared, effect) + rng.normal(size=(rows, 3)) * np.sqrt(noise)
    return MultiOutputData.from_arrays(X, Y, names=["a", "b", "c"]), np.outer(effect, effect) + np.diag(noise)


@pytest.mark.parametrize("family", ["exact", "sparse"])
def test_the_effect_is_recovered_from_simulated_data(family):
    """Entries of Σ = B + diag(σ²) within four standard errors of a covariance of so many rows.

    Var of an estimated covariance of `N` normal pairs: (Σ_ii Σ_jj + Σ_ij²) / N; smooth functions cost few rows.
    """
    rows = 200
    data, truth = simulated(rows, seed=0)
    if family == "exact":
        model = ExactLMC(data, row_effect=1, scaling=None)
        mogp.fit(model, data, steps=200, progress=False)
        noise = np.asarray(model.noise)
    else:
        kinds = [Gaussian(0.1) for _ in range(3)]
        model = hetmogp_lmc(data, kinds, latents=1, inducing=20, row_effect=1, scaling=None)
        mogp.fit(model, data, optimizer=LBFGS(), steps=200, progress=False)
        noise = np.array([float(one.variance.numpy()) for one in model.likelihood.likelihoods])
    W = np.asarray(model.effect)
    found = W @ W.T + np.diag(noise)
    error = np.sqrt((np.outer(np.diag(truth), np.diag(truth)) + truth**2) / rows)
    np.testing.assert_array_less(np.abs(found - truth), 4 * error)
    off = ~np.eye(3, dtype=bool)
    assert (np.sign((W @ W.T)[off]) == np.sign(truth[off])).all()


# ---------------------------------------------------------------------------- what is refused, and said


def test_it_is_off_by_default(shared):
    model = hetmogp_lmc(shared, [Gaussian(0.1) for _ in range(3)], inducing=3)
    assert type(model) is SparseMOGP
    assert ExactLMC(shared).effect is None


@pytest.mark.parametrize("other", [Poisson, HeteroscedasticGaussian])
def test_it_is_for_gaussian_outputs(other):
    data = MultiOutputData.from_arrays(np.arange(4.0), np.ones((4, 2)) + np.arange(4.0)[:, None], names=["a", "b"])
    with pytest.raises(UnsupportedError, match=rf"'b' \({other.__name__}\) is not.*row_effect=0"):
        hetmogp_lmc(data, [Gaussian(0.1), other()], inducing=3, row_effect=1)


@pytest.mark.parametrize("rank", [-1, 1.5])
def test_its_rank_is_a_whole_number(rank, shared):
    with pytest.raises(ValueError, match=f"row_effect={rank}"):
        ExactLMC(shared, row_effect=rank)
    with pytest.raises(ValueError, match=f"row_effect={rank}"):
        hetmogp_lmc(shared, [Gaussian(0.1) for _ in range(3)], inducing=3, row_effect=rank)


def test_batches_that_separate_the_outputs_of_a_row_are_refused(shared, uneven):
    model = hetmogp_lmc(shared, [Gaussian(0.1) for _ in range(3)], inducing=3, row_effect=1)
    for size in ([4, 4, 4], {"a": 4, "b": 4, "c": 4}):
        with pytest.raises(UnsupportedError, match=r"batch_size.*rows for all of them"):
            model.batches(shared, size)
    assert mogp.fit(model, shared, batch_size=4, steps=2, progress=False).steps == 2


def test_two_targets_of_an_output_at_one_row_are_refused():
    twice = Output("a", np.array([0, 0, 1]), np.array([[1.0], [2.0], [3.0]]), np.ones((3, 1), bool))
    with pytest.raises(ValueError, match="several targets at one row"):
        ExactLMC(MultiOutputData(np.array([[0.0], [1.0]]), (twice,)), row_effect=1)


def test_models_say_that_they_have_it_and_are_saved_with_it(shared, tmp_path):
    for model in (
        ExactLMC(shared, row_effect=2),
        hetmogp_lmc(shared, [Gaussian(0.1) for _ in range(3)], inducing=3, row_effect=2),
    ):
        assert "effect of rank 2" in str(model)
        again = mogp.load(mogp.save(model, tmp_path / "model.mogp"))
        np.testing.assert_array_equal(again.effect, model.effect)
    with pytest.raises(UnsupportedError, match="elbo"):
        model.data_terms(shared)
