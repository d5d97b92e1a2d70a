from __future__ import annotations

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from gpflow import kernels as k
from scipy import stats

from mogp import likelihoods as lik
from mogp.data import MultiOutputData
from mogp.inducing import InducingPoints, given_points, subset_points
from mogp.kernels import unit_kernels
from mogp.models import SparseMOGP
from mogp.models import tables as tables_module
from mogp.posteriors import Full, Parsimonious
from mogp.priors import ICM, LMC, Independent


@pytest.fixture
def little_jitter():
    """Equalities with exact formulas hold to the jitter."""
    with gpflow.config.as_context(gpflow.config.Config(jitter=1e-10)):
        yield


def natural_step(model: SparseMOGP, data: MultiOutputData, gamma: float = 1.0) -> None:
    pair = (model.posterior.q_mu, model.posterior.q_sqrt)
    gpflow.optimizers.NaturalGradient(gamma).minimize(model.training_loss_closure(data.full(), compile=False), [pair])


def lmc_covariance(model: SparseMOGP, data: MultiOutputData) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Prior covariance of the observed function values, their noise variances, and the targets, all stacked."""
    W, kernels = np.asarray(model.prior.W), model.prior.kernels.kernels
    d = np.concatenate([np.full(len(o), i) for i, o in enumerate(data)])
    X = np.concatenate([data.inputs(i) for i in range(data.num_outputs)])
    K = sum(np.outer(W[d, q], W[d, q]) * kernels[q % len(kernels)](X).numpy() for q in range(W.shape[1]))
    noise = np.array([float(likelihood.variance.numpy()) for likelihood in model.likelihood.likelihoods])[d]
    return K, noise, np.concatenate([o.Y[:, 0] for o in data])


def log_marginal(model: SparseMOGP, data: MultiOutputData) -> float:
    K, noise, y = lmc_covariance(model, data)
    return float(stats.multivariate_normal(np.zeros(len(y)), K + np.diag(noise)).logpdf(y))


def gaussians(count: int, seed: int = 0) -> list[lik.Gaussian]:
    return [lik.Gaussian(v) for v in np.random.default_rng(seed).uniform(0.1, 0.6, count)]


# ---------------------------------------------------------------------------- against the exact log marginal


def test_one_latent_with_points_at_the_data_reaches_the_exact_log_marginal(uneven, little_jitter):
    """Ma T2.1, Giraldo 11.8: one natural step of size one, from any start."""
    model = SparseMOGP(ICM(k.Matern32(1.0, 0.8), 3, W=[[1.0], [-0.7], [0.4]]), given_points(uneven.X), gaussians(3))
    model.posterior.q_mu.assign(np.random.default_rng(0).normal(size=model.posterior.q_mu.shape))
    natural_step(model, uneven)
    np.testing.assert_allclose(model.elbo(uneven), log_marginal(model, uneven), rtol=1e-7)


def test_bound_is_below_the_log_marginal_for_any_posterior_and_points(uneven, randomise):
    """Ma T2.2."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        model = SparseMOGP(
            LMC([k.Matern32(), k.SquaredExponential(lengthscales=0.5)], 3, rank=2, seed=seed),
            InducingPoints(rng.normal(size=(2, 4, 2))),
            gaussians(3, seed),
            Full(whiten=bool(seed % 2)) if seed % 3 else Parsimonious(),
        )
        if seed:
            randomise(model, seed)
        assert model.elbo(uneven) < log_marginal(model, uneven)


def test_conjugate_natural_step_gives_the_titsias_bound(rng, little_jitter):
    """Giraldo 11.8 with fewer points than data, against GPflow's SGPR."""
    X, Y, Z = rng.normal(size=(15, 2)), rng.normal(size=(15, 1)), rng.normal(size=(5, 2))
    data = MultiOutputData.from_arrays(X, Y)
    sgpr = gpflow.models.SGPR((X, Y), k.Matern52(0.9, 0.7), Z, noise_variance=0.3)
    for whiten in (True, False):
        model = SparseMOGP(Independent([k.Matern52(0.9, 0.7)]), given_points(Z), lik.Gaussian(0.3), Full(whiten))
        natural_step(model, data)
        np.testing.assert_allclose(model.elbo(data), sgpr.elbo(), rtol=1e-7)
        for ours, theirs in zip(model.predict_f(Z + 0.1), sgpr.predict_f(Z + 0.1), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


def test_several_latents_one_step_gives_optimal_covariances_and_iteration_the_exact_mean(uneven, little_jitter):
    """Giraldo 11.9."""
    kernels = [k.Matern32(lengthscales=0.9), k.Matern12(lengthscales=1.5)]
    model = SparseMOGP(
        LMC(kernels, 3, W=[[1.0, 0.3], [-0.7, 0.6], [0.4, -1.0]]),
        given_points(uneven.X),
        gaussians(3),
        Full(whiten=False),
    )
    natural_step(model, uneven)
    W, noise = np.asarray(model.prior.W), [float(one.variance.numpy()) for one in model.likelihood.likelihoods]
    precision = np.zeros((2, len(uneven.X), len(uneven.X)))
    for q, kernel in enumerate(kernels):
        precision[q] = np.linalg.inv(kernel(uneven.X))
        for d, o in enumerate(uneven):
            precision[q][o.rows, o.rows] += W[d, q] ** 2 / noise[d]
    S = model.posterior.moments(model.factors())[1].numpy()
    np.testing.assert_allclose(S, np.linalg.inv(precision), rtol=1e-5, atol=1e-8)

    natural, pair = gpflow.optimizers.NaturalGradient(0.7), (model.posterior.q_mu, model.posterior.q_sqrt)
    damped = tf.function(lambda: natural.minimize(lambda: model.training_loss(uneven), [pair]), autograph=False)
    for _ in range(60):
        damped()
    K, noise_of_rows, y = lmc_covariance(model, uneven)
    d = np.concatenate([np.full(len(o), i) for i, o in enumerate(uneven)])
    X = np.concatenate([uneven.inputs(i) for i in range(3)])
    exact, variances = [], []
    for q, kernel in enumerate(kernels):
        cross = kernel(uneven.X, X).numpy() * W[d, q]
        exact.append(cross @ np.linalg.solve(K + np.diag(noise_of_rows), y))
        variances.append(
            kernel(uneven.X, full_cov=False) - np.sum(cross * np.linalg.solve(K + np.diag(noise_of_rows), cross.T).T, 1)
        )
    m, S = (a.numpy() for a in model.posterior.moments(model.factors()))
    np.testing.assert_allclose(m, exact, atol=1e-4)
    assert (np.diagonal(S, axis1=1, axis2=2) < np.array(variances) + 1e-9).all()
    assert model.elbo(uneven) < log_marginal(model, uneven)


def test_bayesian_gplvm_with_known_inputs_is_the_titsias_bound_minus_the_kl(rng):
    """Ma T2.6, GPflow's own classes: the reference that later latent-variable models are held against."""
    H, Y, Z = rng.normal(size=(9, 2)), rng.normal(size=(9, 3)), rng.normal(size=(4, 2))
    variance = 1e-10
    kernel = k.SquaredExponential(1.3, [0.8, 1.1])
    gplvm = gpflow.models.BayesianGPLVM(Y, H, np.full((9, 2), variance), kernel, inducing_variable=Z)
    gplvm.likelihood.variance.assign(0.2)
    columns = sum(
        float(gpflow.models.SGPR((H, Y[:, j : j + 1]), kernel, Z, noise_variance=0.2).elbo()) for j in range(3)
    )
    kl = 0.5 * np.sum(H**2 + variance - 1 - np.log(variance))
    np.testing.assert_allclose(gplvm.elbo(), columns - kl, rtol=1e-6)


# -------------------------------------------------------------------------------------- against stock GPflow


def gradients(loss, variables):
    with tf.GradientTape() as tape:
        value = loss()
    return value, [tf.convert_to_tensor(g) for g in tape.gradient(value, variables)]


@pytest.mark.parametrize("whiten", [True, False])
@pytest.mark.parametrize(
    "likelihood", [gpflow.likelihoods.Gaussian(0.4), gpflow.likelihoods.StudentT(), gpflow.likelihoods.Bernoulli()]
)
def test_one_output_equals_stock_svgp_in_bound_gradient_and_prediction(rng, whiten, likelihood):
    X, Y, Z = rng.normal(size=(11, 2)), rng.integers(0, 2, size=(11, 1)).astype(float), rng.normal(size=(4, 2))
    kernel = k.Matern32(0.7, [0.5, 1.5])
    stock = gpflow.models.SVGP(
        kernel, likelihood, gpflow.inducing_variables.InducingPoints(Z), whiten=whiten, num_data=30
    )
    model = SparseMOGP(Independent([kernel]), given_points(Z), likelihood, Full(whiten))
    for parameter, value in (("q_mu", rng.normal(size=(4, 1))), ("q_sqrt", np.tril(rng.normal(size=(1, 4, 4))))):
        getattr(stock, parameter).assign(value)
        getattr(model.posterior, parameter).assign(value)
    data = MultiOutputData.from_arrays(X, Y)
    batch = data.full()
    scaled = batch._replace(outputs=(batch.outputs[0]._replace(weight=batch.outputs[0].weight * 30 / 11),))

    own = [kernel.variance, kernel.lengthscales, *likelihood.parameters]
    ours = [*own, model.posterior.q_mu, model.posterior.q_sqrt, model.inducing.Z]
    theirs = [*own, stock.q_mu, stock.q_sqrt, stock.inducing_variable.Z]
    a = gradients(lambda: model.elbo(scaled), [p.unconstrained_variable for p in ours])
    b = gradients(lambda: stock.elbo((X, Y)), [p.unconstrained_variable for p in theirs])
    np.testing.assert_allclose(a[0], b[0], rtol=1e-9)
    for one, other in zip(a[1], b[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
    for full_cov in (False, True):
        for one, other in zip(
            model.predict_f(X, full_cov=full_cov), stock.predict_f(X, full_cov=full_cov), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
    for one, other in zip(model.predict_y(X), stock.predict_y(X), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        model.predict_log_density(data)["output 0"], stock.predict_log_density((X, Y)), rtol=1e-6, atol=1e-8
    )


def test_lmc_equals_stock_linear_coregionalization_in_bound_and_gradient(rng):
    X, Y, Z, W = rng.normal(size=(9, 2)), rng.normal(size=(9, 3)), rng.normal(size=(2, 4, 2)), rng.normal(size=(3, 2))
    kernels = [k.SquaredExponential(0.7), k.Matern32(1.2, [0.5, 1.5])]
    noise = gpflow.likelihoods.Gaussian(0.3)
    stacked = k.LinearCoregionalization(kernels, W=W)
    sets = gpflow.inducing_variables.SeparateIndependentInducingVariables(
        [gpflow.inducing_variables.InducingPoints(z) for z in Z]
    )
    stock = gpflow.models.SVGP(stacked, noise, sets, num_latent_gps=2, q_mu=np.zeros((4, 2)))
    model = SparseMOGP(LMC(kernels, 3, W=W), InducingPoints(Z), [noise] * 3)
    for parameter, value in (("q_mu", rng.normal(size=(4, 2))), ("q_sqrt", np.tril(rng.normal(size=(2, 4, 4))))):
        getattr(stock, parameter).assign(value)
        getattr(model.posterior, parameter).assign(value)
    own = [p for one in kernels for p in (one.variance, one.lengthscales)] + [noise.variance]
    ours = [*own, model.prior.W, model.posterior.q_mu, model.posterior.q_sqrt, model.inducing.Z]
    theirs = [*own, stacked.W, stock.q_mu, stock.q_sqrt, *(s.Z for s in sets.inducing_variable_list)]
    a = gradients(lambda: model.elbo(MultiOutputData.from_arrays(X, Y)), [p.unconstrained_variable for p in ours])
    b = gradients(lambda: stock.elbo((X, Y)), [p.unconstrained_variable for p in theirs])
    np.testing.assert_allclose(a[0], b[0], rtol=1e-9)
    expected = [*b[1][:-2], tf.stack(b[1][-2:])]
    for one, other in zip(a[1], expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


def test_natural_gradients_of_mean_and_covariance_are_giraldos(uneven):
    """Giraldo 11.11 (section 4.3), with a Poisson likelihood, whose derivatives are in closed form."""
    counts = MultiOutputData.from_list(
        [(uneven.inputs(d), np.random.default_rng(d).poisson(2.0, len(o))) for d, o in enumerate(uneven)],
        names=uneven.names,
    )
    kernels = [k.Matern32(), k.Matern12(lengthscales=2.0)]
    model = SparseMOGP(LMC(kernels, 3), subset_points(counts, 5), [lik.Poisson() for _ in range(3)], Full(whiten=False))
    rng = np.random.default_rng(1)
    m = tf.constant(0.3 * rng.normal(size=(5, 2)))
    V = tf.constant(np.stack([np.eye(5) * 0.3 + 0.1] * 2))
    W, Z = np.asarray(model.prior.W), np.asarray(model.inducing.Z)
    jitter = gpflow.default_jitter() * np.eye(5)

    with tf.GradientTape() as tape:
        tape.watch((m, V))
        model.posterior.q_mu, model.posterior.q_sqrt = m, tf.linalg.cholesky(V)
        nelbo = -model.elbo(counts)
    by_m, by_V = tape.gradient(nelbo, (m, V))

    mean, var = (a.numpy() for a in model.predict_f(counts.X))
    for q, kernel in enumerate(kernels):
        inverse = np.linalg.inv(kernel(Z) + jitter)
        expected_m, expected_V = inverse @ m.numpy()[:, q], -0.5 * (np.linalg.inv(V[q]) - inverse)
        for d, o in enumerate(counts):
            A = W[d, q] * kernel(counts.inputs(d), Z).numpy() @ inverse
            rate = np.exp(mean[o.rows, d] + 0.5 * var[o.rows, d])
            expected_m = expected_m + A.T @ (rate - o.Y[:, 0])
            expected_V = expected_V + A.T @ np.diag(0.5 * rate) @ A
        np.testing.assert_allclose(by_m[:, q], expected_m, rtol=1e-6, atol=1e-8)
        symmetric = 0.5 * (by_V[q] + tf.transpose(by_V[q]))
        np.testing.assert_allclose(symmetric, expected_V, rtol=1e-6, atol=1e-7)


# -------------------------------------------------------------------------------------- parts of the bound


def mixed_data() -> tuple[MultiOutputData, dict]:
    """Outputs of many kinds, some of the same kind apart from each other, with gaps and with inputs of their own."""
    rng = np.random.default_rng(8)
    X, own = rng.normal(size=(8, 2)), rng.normal(size=(5, 2))
    real, gaps = rng.normal(size=8), rng.normal(size=8)
    gaps[[0, 6]] = np.nan
    count, labels = rng.poisson(2.0, size=8).astype(float), rng.integers(0, 3, size=5)
    binary = rng.integers(0, 2, 8)
    student, stock = gpflow.likelihoods.StudentT, gpflow.likelihoods.Gaussian
    varying = stock(scale=gpflow.functions.Linear([[0.1], [0.2]], 1.0))
    targets = {
        "a": (X, real, lik.Gaussian(0.3)),
        "counts": (X, count, lik.Poisson()),
        "b": (X, gaps, lik.Gaussian(0.9)),
        "labels": (own, labels, lik.RobustMax(3)),
        "yes": (X, binary, lik.Bernoulli()),
        "heavy": (X, real, student(0.5, df=4.0)),
        "heavier": (X, real + 1, student(0.8, df=2.5)),
        "no": (own, labels > 0, lik.Bernoulli()),
        "stock": (own, rng.normal(size=5), stock(0.2)),
        "noisy": (X, real, lik.HeteroscedasticGaussian()),
        "probit": (X, binary, gpflow.likelihoods.Bernoulli()),
        "varying": (X, real, varying),
    }
    pairs = [(x, y) for x, y, _ in targets.values()]
    return MultiOutputData.from_list(pairs, names=list(targets)), {name: kind for name, (_, _, kind) in targets.items()}


@pytest.fixture(scope="module")
def mixed(randomise) -> tuple[SparseMOGP, MultiOutputData]:
    data, kinds = mixed_data()
    functions = sum(one.latent_dim or 1 for one in kinds.values())
    model = SparseMOGP(LMC(unit_kernels(2, 2), functions, bias=0.1), subset_points(data, 4, sets=2), kinds)
    randomise(model, 1)
    return model, data


def by_hand(model: SparseMOGP, data: MultiOutputData, dense) -> np.ndarray:
    mean, cov = dense(model, data.X)
    var = np.einsum("njnj->nj", cov)
    terms = []
    for d, (kind, o) in enumerate(zip(model.likelihood.likelihoods, data, strict=True)):
        own = list(model.likelihood.functions(d))
        each = kind.variational_expectations(data.inputs(d), mean[o.rows][:, own], var[o.rows][:, own], o.Y)
        terms.append(float(tf.reduce_sum(each)))
    return np.array(terms)


def test_data_term_of_every_output_is_its_own_expectation_at_dense_marginals(mixed, dense):
    model, data = mixed
    expected = by_hand(model, data, dense)
    np.testing.assert_allclose(model.data_terms(data), expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(model.elbo(data), expected.sum() - float(model.kl()), rtol=1e-7)


def test_mini_batches_over_a_partition_average_to_the_full_bound(mixed):
    """Giraldo 11.18, each output with a size that divides its rows."""
    model, data = mixed
    wanted = [max(b for b in range(1, 5) if n % b == 0) for n in data.sizes]
    source = data.batches(wanted, seed=4)
    common = int(np.lcm.reduce([n // b for n, b in zip(data.sizes, wanted, strict=True)]))
    assert common == 10
    average = np.mean([model.data_terms(source(step)) for step in range(common)], axis=0)
    np.testing.assert_allclose(average, model.data_terms(data), rtol=1e-9)


def test_joint_batches_with_missing_targets_average_to_the_full_bound(shared, randomise):
    """Giraldo 11.18, rows drawn for all outputs together."""
    model = SparseMOGP(LMC(unit_kernels(2, 2), 3), subset_points(shared, 4), gaussians(3))
    randomise(model, 2)
    source = shared.batches(4, seed=1)
    assert source(0).outputs[0].rows is None
    average = np.mean([model.elbo(source(step)) for step in range(3)])
    np.testing.assert_allclose(average, model.elbo(shared), rtol=1e-10)


def test_a_duplicated_output_doubles_the_data_term_and_leaves_the_kl(randomise):
    """Giraldo 11.17."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(7, 2)), rng.normal(size=7)
    W = rng.normal(size=(2, 2))
    points = rng.normal(size=(3, 2))
    once = SparseMOGP(LMC(unit_kernels(2, 2), 2, W=W), given_points(points), lik.HeteroscedasticGaussian())
    twice = SparseMOGP(
        LMC(unit_kernels(2, 2), 4, W=np.tile(W, (2, 1))), given_points(points), [lik.HeteroscedasticGaussian()] * 2
    )
    for model in (once, twice):
        randomise(model, 3)
    one, two = MultiOutputData.from_arrays(X, y), MultiOutputData.from_arrays(X, np.column_stack([y, y]))
    np.testing.assert_allclose(tf.reduce_sum(twice.data_terms(two)), 2 * once.data_terms(one)[0], rtol=1e-12)
    np.testing.assert_allclose(twice.kl(), once.kl(), rtol=1e-12)


# -------------------------------------------------------------------------------------- full and parsimonious


def test_parsimonious_at_the_data_attains_the_optimum_of_full(rng, little_jitter):
    """Panos 10.13, Z = X: at mu = (K + s² I)⁻¹ y, Sigma = s² I the bound is the exact log marginal, and stationary."""
    X, y = rng.normal(size=(8, 2)), rng.normal(size=8)
    data, kernel, noise = MultiOutputData.from_arrays(X, y), k.Matern32(0.9), 0.3
    model = SparseMOGP(Independent([kernel]), given_points(X), lik.Gaussian(noise), Parsimonious())
    K = kernel(X).numpy() + noise * np.eye(8)
    model.posterior.mu.assign(np.linalg.solve(K, y)[:, None])
    model.posterior.sigma.assign(np.full((8, 1), noise))
    value, slopes = gradients(
        lambda: model.elbo(data),
        [model.posterior.mu.unconstrained_variable, model.posterior.sigma.unconstrained_variable],
    )
    np.testing.assert_allclose(value, stats.multivariate_normal(np.zeros(8), K).logpdf(y), rtol=1e-8)
    assert max(np.abs(s).max() for s in slopes) < 1e-6


def test_the_best_parsimonious_bound_is_below_the_best_full_bound_and_more_points_raise_it(rng):
    """Panos 10.13 and 10.15."""
    X, y = rng.normal(size=(14, 1)), rng.normal(size=14)
    data = MultiOutputData.from_arrays(X, y)
    best = []
    for count in (2, 3, 4, 5):
        full = SparseMOGP(Independent([k.Matern32()]), given_points(X[:count]), lik.Gaussian(0.3))
        natural_step(full, data)
        best.append(float(full.elbo(data)))
    assert (np.diff(best) > -1e-6).all()
    model = SparseMOGP(Independent([k.Matern32()]), given_points(X[:5]), lik.Gaussian(0.3), Parsimonious())
    for fixed in (model.prior, model.inducing, model.likelihood):
        gpflow.set_trainable(fixed, False)
    gpflow.optimizers.Scipy().minimize(model.training_loss_closure(data.full()), model.trainable_variables)
    assert float(model.elbo(data)) < best[-1]


def test_full_posterior_with_points_at_the_data_is_the_posterior_of_the_functions(rng):
    """Panos 10.16."""
    X = rng.normal(size=(6, 2))
    with gpflow.config.as_context(gpflow.config.Config(jitter=0.0)):
        model = SparseMOGP(Independent([k.Matern12()]), given_points(X), lik.Gaussian(), Full(whiten=False))
        model.posterior.q_mu.assign(rng.normal(size=(6, 1)))
        model.posterior.q_sqrt.assign(np.tril(rng.normal(size=(1, 6, 6))))
        f = model.predict_f(X, full_cov=True)
        m, S = model.posterior.moments(model.factors())
    np.testing.assert_allclose(f.mean[:, 0], m[0], atol=1e-9)
    np.testing.assert_allclose(f.var, S, atol=1e-9)


# -------------------------------------------------------------------------------------- prediction

KINDS = {
    "Gaussian": (lambda: lik.Gaussian(0.3), 1, stats.norm(0, 1)),
    "HeteroscedasticGaussian": (lik.HeteroscedasticGaussian, 1, stats.norm(0, 1)),
    "Beta": (lik.Beta, 1, stats.uniform(0.1, 0.8)),
    "Gamma": (lik.Gamma, 1, stats.expon(0.1)),
    "Exponential": (lik.Exponential, 1, stats.expon(0.1)),
    "Bernoulli": (lik.Bernoulli, 1, stats.bernoulli(0.5)),
    "Poisson": (lik.Poisson, 1, stats.poisson(2.0)),
    "ZeroInflatedPoisson": (lik.ZeroInflatedPoisson, 1, stats.poisson(1.0)),
    "Softmax": (lambda: lik.Softmax(3, prediction_samples=20_000), 3, stats.randint(0, 3)),
    "RobustMax": (lambda: lik.RobustMax(3), 3, stats.randint(0, 3)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_agree_with_monte_carlo(kind, randomise):
    """Independent functions, so that the product of marginals of `predict_y` is what `predict_y_samples` draws from."""
    make, columns, targets = KINDS[kind]
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, size=(4, 1))
    y = targets.rvs(size=4, random_state=3)
    data = MultiOutputData.from_arrays(X, y.astype(float))
    likelihood = make()
    J = likelihood.latent_dim
    model = SparseMOGP(Independent(k.SquaredExponential(0.3), functions=J, bias=0.2), given_points(X[:3]), likelihood)
    randomise(model, 1)
    model.posterior.q_mu.assign(0.5 * np.asarray(model.posterior.q_mu))

    mean, var = (a.numpy() for a in model.predict_y(X))
    assert mean.shape == var.shape == (4, columns)
    draws = model.predict_y_samples(X, 0, samples=40_000, seed=5).numpy()
    assert draws.shape == (40_000, 4, 1)
    if columns > 1:
        draws = (draws == np.arange(columns)).astype(float)
    error = draws.std(0) / np.sqrt(len(draws))
    np.testing.assert_array_less(np.abs(draws.mean(0) - mean), 5 * error + 1e-2 * (columns > 1) + 1e-9)
    fourth = np.mean((draws - draws.mean(0)) ** 4, axis=0)
    np.testing.assert_array_less(
        np.abs(draws.var(0) - var), 6 * np.sqrt(fourth / len(draws)) + 1e-2 * (columns > 1) + 1e-9
    )

    f = model.predict_f(X)
    F = f.mean + np.sqrt(f.var) * rng.normal(size=(40_000, 4, J))
    log_p = likelihood.log_prob(np.zeros((40_000, 4, 0)), F, np.broadcast_to(data.outputs[0].Y, (40_000, 4, 1))).numpy()
    density = np.exp(log_p)
    found = np.exp(model.predict_log_density(data)["output 0"])
    assert found.shape == (4,)
    np.testing.assert_array_less(
        np.abs(found - density.mean(0)), 6 * density.std(0) / 200 + 1e-2 * (columns > 1) + 1e-9
    )


def test_draws_of_functions_have_the_mean_and_covariance_of_the_posterior(mixed, dense):
    model, _ = mixed
    X = np.random.default_rng(1).normal(size=(3, 2))
    draws = model.predict_f_samples(X, samples=20_000, output="noisy", seed=2).numpy()
    assert draws.shape == (20_000, 3, 2)
    mean, cov = dense(model, X)
    own = list(model.likelihood.functions(model.index("noisy")))
    np.testing.assert_allclose(draws.mean(0), mean[:, own], atol=0.06)
    for i, function in enumerate(own):
        np.testing.assert_allclose(np.cov(draws[..., i].T), cov[:, function, :, function], rtol=0.1, atol=0.05)


def test_draws_survive_smooth_functions_of_large_amplitude_and_many_points():
    for scale in (1e-6, 1.0, 1e6):
        model = SparseMOGP(ICM(k.SquaredExponential(), 1, W=[[scale]]), given_points([-1.0, 1.0]), lik.Gaussian())
        draws = model.predict_f_samples(np.linspace(-1, 1, 60), samples=3).numpy()
        assert np.isfinite(draws).all()
        assert np.abs(draws).max() < 10 * scale + 0.1


def test_outputs_stand_side_by_side_and_can_be_asked_for_alone(mixed):
    model, data = mixed
    X = data.X[:3]
    mean, var = model.predict_y(X)
    start = 0
    for d, name in enumerate(model.names):
        for output in (d, name):
            own_mean, own_var = model.predict_y(X, output)
            width = own_mean.shape[1]
            np.testing.assert_allclose(own_mean, mean[:, start : start + width], rtol=1e-12)
            np.testing.assert_allclose(own_var, var[:, start : start + width], rtol=1e-12)
        start += width
    assert start == mean.shape[1] == 12 + 2


def test_log_density_is_reported_for_every_observed_target_by_name(mixed, dense):
    model, data = mixed
    densities = model.predict_log_density(data)
    assert list(densities) == list(data.names)
    assert [len(v) for v in densities.values()] == list(data.sizes)
    mean, cov = dense(model, data.X)
    for name in ("a", "b", "stock"):
        o, d = data[name], model.likelihood.functions(data.index(name))[0]
        noise = float(model.likelihood.likelihoods[data.index(name)].variance.numpy())
        expected = stats.norm(mean[o.rows, d], np.sqrt(cov[o.rows, d, o.rows, d] + noise)).logpdf(o.Y[:, 0])
        np.testing.assert_allclose(densities[name], expected, rtol=1e-6)


def test_table_of_predictions_has_quantiles_of_the_predictive_distribution(mixed, monkeypatch):
    model, data = mixed
    X = data.X[:5]
    table = model.predict(X, "a", quantiles=(0.1, 0.5, 0.9), samples=20_000)
    mean, var = (v.numpy()[:, 0] for v in model.predict_y(X, "a"))
    assert list(table.columns) == ["row", "x0", "x1", "output", "target", "mean", "sd", "q0.1", "q0.5", "q0.9"]
    np.testing.assert_allclose(table["mean"], mean, rtol=1e-12)
    np.testing.assert_allclose(table["sd"], np.sqrt(var), rtol=1e-12)
    for q in (0.1, 0.5, 0.9):
        np.testing.assert_allclose(table[f"q{q}"], stats.norm(mean, np.sqrt(var)).ppf(q), atol=0.06)

    monkeypatch.setattr(tables_module, "_ROWS_AT_ONCE", 2)
    pieces = model.predict(X, "a", quantiles=())
    assert list(pieces["row"]) == list(range(5))
    np.testing.assert_allclose(pieces["mean"], mean, rtol=1e-12)


def test_table_of_all_outputs_has_a_row_for_every_point_output_and_target(mixed):
    model, data = mixed
    table = model.predict(data.X[:2], samples=50)
    counts = table.groupby("output", sort=False).size()
    assert list(counts.index) == list(model.names)
    assert counts["labels"] == 6
    assert counts.drop("labels").eq(2).all()
    labels = table[table["output"] == "labels"]
    np.testing.assert_allclose(labels.groupby("row")["mean"].sum(), 1.0, rtol=1e-6)


def test_no_points_give_no_predictions(mixed):
    model, _ = mixed
    empty = np.zeros((0, 2))
    assert model.predict_f(empty).mean.shape == (0, model.prior.num_functions)
    assert model.predict_y(empty)[0].shape[0] == 0
    assert len(model.predict(empty)) == 0


@pytest.mark.parametrize(
    "X",
    [
        [[0.1, 0.2]],
        np.array([[0.1, 0.2]], np.float32),
        tf.constant([[0.1, 0.2]]),
        pd.DataFrame({"u": [0.1], "v": [0.2]}),
    ],
)
def test_points_may_be_lists_tensors_or_frames_of_any_float(mixed, X):
    model, _ = mixed
    np.testing.assert_allclose(model.predict_f(X).mean, model.predict_f(np.array([[0.1, 0.2]])).mean, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda m: m.predict_f(np.zeros((3, 1))), ValueError, r"Xnew has 1 columns; .*expected \[N, 2\]"),
        (lambda m: m.predict_f(np.zeros(3)), ValueError, r"expected \[N, 2\]"),
        (lambda m: m.predict_f(np.zeros((3, 2)), full_cov=True, full_output_cov=True), ValueError, "not both"),
        (lambda m: m.predict_y(np.zeros((3, 2)), "nope"), KeyError, "no output 'nope'; the outputs are 'a', 'counts'"),
        (lambda m: m.predict_y(np.zeros((3, 2)), 12), IndexError, "no output 12; there are 12"),
        (lambda m: m.predict(np.zeros((3, 2)), quantiles=(0.0,)), ValueError, "strictly between 0 and 1"),
    ],
)
def test_wrong_questions_are_refused_with_what_was_given(mixed, call, error, said):
    with pytest.raises(error, match=said):
        call(mixed[0])


# -------------------------------------------------------------------------------------- construction


def points() -> InducingPoints:
    return given_points(np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("inducing", "likelihood", "options", "said"),
    [
        (points, lik.HeteroscedasticGaussian, {}, "read 2 latent functions .*HeteroscedasticGaussian: 2.*functions=2"),
        (lambda: given_points(np.zeros((1, 2)), sets=2), lik.Gaussian, {}, "2 sets of inducing inputs for 1 distinct"),
        (points, lik.Gaussian, {"names": ["a", "b"]}, r"2 names \(a, b\) for 1 outputs"),
        (points, list, {}, "no likelihood"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(inducing, likelihood, options, said):
    with pytest.raises(ValueError, match=said):
        SparseMOGP(LMC([k.Matern12()], 1), inducing(), likelihood(), **options)


def test_data_that_do_not_fit_the_model_are_refused():
    model = SparseMOGP(LMC([k.Matern12()], 2), points(), {"a": lik.Poisson(), "b": lik.Gaussian()})
    X = np.zeros((2, 2))
    for data, said in (
        (MultiOutputData.from_arrays(X, [1.0, 2.0]), "the data have 1 outputs .*the model has 2"),
        (
            MultiOutputData.from_arrays([1.0, 2.0], np.ones((2, 2)), names=["a", "b"]),
            "1 input columns, the model reads 2",
        ),
        (
            MultiOutputData.from_arrays(X, -np.ones((2, 2)), names=["a", "b"]),
            "output 'a' .Poisson. has 2 negative targets",
        ),
        (MultiOutputData.from_arrays(X, np.ones((2, 2)), names=["b", "a"]), "order"),
    ):
        for call in (model.elbo, model.predict_log_density):
            with pytest.raises(ValueError, match=said):
                call(data)


def test_outputs_in_another_order_than_the_model_knows_them_are_refused():
    model = SparseMOGP(LMC([k.Matern12()], 2), points(), gaussians(2), names=["a", "b"])
    with pytest.raises(ValueError, match="order"):
        model.elbo(MultiOutputData.from_arrays(np.zeros((2, 2)), np.ones((2, 2)), names=["b", "a"]))


def test_one_likelihood_object_for_several_outputs_is_one_set_of_parameters():
    noise = lik.Gaussian()
    model = SparseMOGP(LMC([k.Matern12()], 3), points(), [noise] * 3)
    assert sum(v is noise.variance.unconstrained_variable for v in model.trainable_variables) == 1


# -------------------------------------------------------------------------------------- GPflow's tools, XLA, float32


def test_gpflows_own_tools_work_on_the_model(uneven, capsys):
    model = SparseMOGP(LMC(unit_kernels(2, 2), 3), subset_points(uneven, 4), gaussians(3))
    gpflow.utilities.print_summary(model)
    said = capsys.readouterr().out
    assert "SparseMOGP.prior.W" in said
    assert "SparseMOGP.posterior.q_mu" in said
    gpflow.set_trainable(model.inducing, False)
    assert not any(v is model.inducing.Z.unconstrained_variable for v in model.trainable_variables)
    before, Z = float(model.elbo(uneven)), np.asarray(model.inducing.Z).copy()
    loss = model.training_loss_closure(uneven.full())
    gpflow.optimizers.Scipy().minimize(loss, model.trainable_variables, options={"maxiter": 5})
    assert float(model.elbo(uneven)) > before
    np.testing.assert_array_equal(model.inducing.Z, Z)
    copy = gpflow.utilities.deepcopy(model)
    np.testing.assert_array_equal(copy.elbo(uneven), model.elbo(uneven))
    gpflow.utilities.multiple_assign(copy, {".prior.W": np.zeros((3, 2))})
    assert float(copy.elbo(uneven)) != float(model.elbo(uneven))


@pytest.mark.parametrize("posterior", [Full, Parsimonious])
def test_bound_and_gradient_compile_with_xla_and_agree(uneven, randomise, posterior):
    model = SparseMOGP(LMC(unit_kernels(2, 2), 3), subset_points(uneven, 4, sets=2), gaussians(3), posterior())
    randomise(model, 4)
    source = uneven.batches()

    def value(step):
        with tf.GradientTape() as tape:
            bound = model.elbo(source(step))
        return bound, [tf.convert_to_tensor(g) for g in tape.gradient(bound, model.trainable_variables)]

    plain, compiled = value(tf.constant(1, tf.int64)), tf.function(value, jit_compile=True)(tf.constant(1, tf.int64))
    np.testing.assert_allclose(compiled[0], plain[0], rtol=1e-8)
    for a, b in zip(compiled[1], plain[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("posterior", [Full, Parsimonious])
def test_everything_is_float32_when_that_is_the_default(float32, posterior):
    data, _ = mixed_data()
    _, kinds = mixed_data()
    kinds.pop("varying")
    data = MultiOutputData(data.X, tuple(o for o in data if o.name != "varying"))
    functions = sum(one.latent_dim or 1 for one in kinds.values())
    model = SparseMOGP(LMC(unit_kernels(2, 2), functions, bias=0.1), subset_points(data, 4, sets=2), kinds, posterior())
    assert {v.dtype for v in model.trainable_variables} == {tf.float32}
    with tf.GradientTape() as tape:
        bound = model.elbo(data.batches(3)(0))
    assert bound.dtype == tf.float32
    assert all(np.isfinite(tf.convert_to_tensor(g)).all() for g in tape.gradient(bound, model.trainable_variables))
    assert all(
        a.dtype == tf.float32 and np.isfinite(a).all() for a in (*model.predict_f(data.X), *model.predict_y(data.X))
    )
    assert all(np.isfinite(v).all() for v in model.predict_log_density(data).values())
    assert np.isfinite(model.predict_f_samples(np.linspace(-1, 1, 80).reshape(40, 2))).all()
    assert np.isfinite(model.predict(data.X, samples=20).select_dtypes(float)).all(axis=None)


def test_draws_of_functions_that_share_a_latent_move_together():
    x = np.linspace(0, 1, 4)[:, None]
    prior = ICM(gpflow.kernels.SquaredExponential(), functions=2, W=[[1.0], [-2.0]], bias=[0.5, 0.0])
    model = SparseMOGP(prior, given_points(x), [lik.Gaussian(), lik.Gaussian()])
    draws = model.predict_f_samples(x, samples=50, seed=1).numpy()
    np.testing.assert_allclose(draws[..., 1], -2 * (draws[..., 0] - 0.5), rtol=1e-9, atol=1e-9)


def test_drawn_targets_have_the_predicted_moments_also_with_correlated_functions():
    prior = ICM(gpflow.kernels.SquaredExponential(variance=0.3), functions=2, W=[[1.0], [1.0]])
    model = SparseMOGP(prior, given_points([[0.0]]), lik.Gamma())
    mean, var = (a.numpy() for a in model.predict_y([[0.0]]))
    draws = model.predict_y_samples([[0.0]], 0, samples=200_000).numpy()
    np.testing.assert_allclose(draws.mean(0), mean, rtol=0.02)
    np.testing.assert_allclose(draws.var(0), var, rtol=0.15)


def test_densities_of_outputs_with_like_likelihoods_are_those_of_each_alone(uneven, randomise):
    """They are evaluated together, with the noise variance of each; outputs have rows of their own."""
    model = SparseMOGP(
        LMC([k.Matern32()], 3),
        given_points(uneven.X[:4]),
        [lik.Gaussian(0.1), lik.Gaussian(0.5), lik.Gaussian(2.0)],
        names=uneven.names,
    )
    randomise(model, 1)
    found = model.predict_log_density(uneven)
    for d, own in enumerate(uneven):
        f = model.predict_f(uneven.inputs(d), d)
        sd = np.sqrt(np.asarray(f.var)[:, 0] + (0.1, 0.5, 2.0)[d])
        expected = -0.5 * np.log(2 * np.pi * sd**2) - 0.5 * ((own.Y[:, 0] - np.asarray(f.mean)[:, 0]) / sd) ** 2
        np.testing.assert_allclose(found[own.name], expected, rtol=1e-10)
