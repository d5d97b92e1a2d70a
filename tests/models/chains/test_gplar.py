"""The bound of a chain, against GPflow, exact evidence, the formulas written out, and finite differences."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from chain_cases import (
    X,
    Z,
    chain,
    kl_by_hand,
    linear,
    observed,
    paths_by_hand,
    randomised,
    recipe,
    se,
    targets,
)
from scipy.stats import multivariate_normal, norm

import mogp
from mogp import likelihoods as lik
from mogp.data import MultiOutputData
from mogp.data.batches import Batch
from mogp.models import Component, LatentChain, bi_gplar, dgp, gplar, igp
from mogp.optimizers import Adam, Natural


def normal(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def svgp(kernel, inputs, posterior, c: int, variance: float) -> gpflow.models.SVGP:
    """GPflow's own model with the posterior of GP `c`."""
    model = gpflow.models.SVGP(kernel, gpflow.likelihoods.Gaussian(variance), inputs, whiten=posterior.whiten)
    model.q_mu.assign(posterior.q_mu.numpy()[:, [c]])
    model.q_sqrt.assign(posterior.q_sqrt.numpy()[[c]])
    return model


@pytest.mark.parametrize("whiten", [True, False])
def test_one_output_without_inner_noise_is_svgp_whatever_is_drawn(whiten):
    """T1."""
    model, data = chain(1, whiten=whiten, inner=0.0, samples=3), observed(missing=False, outputs=1)
    expected = svgp(model.kernels[0], Z, model.posterior, 0, 0.2).elbo((X, targets(outputs=1)))
    for _ in range(2):
        np.testing.assert_allclose(model.elbo(data), expected, rtol=1e-10)


def test_inner_noise_of_the_last_output_costs_its_share_of_the_noise():
    """T2: L(σ²) - L(0) = -N σ² / (2 σ_y²)."""
    data = observed(missing=False, outputs=1)
    without, with_noise = (float(chain(1, inner=inner).elbo(data)) for inner in (0.0, 0.03))
    np.testing.assert_allclose(with_noise - without, -len(X) * 0.03 / (2 * 0.2), rtol=1e-8)


def test_chain_that_reads_no_output_is_a_sum_of_svgps_for_any_paths_and_order():
    """T3."""
    Y, layers = targets(), [se(), se(0.4), se(0.5)]
    model = chain(kernels=layers, inner=0.0, samples=1)
    alone = [
        float(svgp(k, Z, model.posterior, c, 0.2 + 0.1 * c).elbo((X, Y[:, [c]]))) for c, k in enumerate(model.kernels)
    ]
    data = observed(missing=False)
    for samples, seed in ((1, 3), (4, 5)):
        np.testing.assert_allclose(model.elbo(data, normal(3, samples, 9, seed=seed)), sum(alone), rtol=1e-9)
    nothing = [se(), se(0.4) + linear((1,), 1e-14), se(0.5) + se(1.0, (1, 2), 1e-14)]
    np.testing.assert_allclose(chain(kernels=nothing, inner=0.0).elbo(data), sum(alone), atol=1e-7)
    swapped = LatentChain(
        [Component(layers[c]) for c in (2, 0, 1)],
        [{1: 1.0}, {2: 1.0}, {0: 1.0}],
        model.likelihood,
        [Z] * 3,
        input_dim=1,
        inner=0.0,
    )
    swapped.posterior.q_mu.assign(model.posterior.q_mu.numpy()[:, [2, 0, 1]])
    swapped.posterior.q_sqrt.assign(model.posterior.q_sqrt.numpy()[[2, 0, 1]])
    np.testing.assert_allclose(swapped.elbo(data), sum(alone), rtol=1e-9)


def test_paths_and_bound_are_those_of_the_formulas_with_inverses():
    model, data, noise = chain(inner=0.01), observed(), normal(3, 2, 9)
    mean, var, draws = paths_by_hand(model, X, noise)
    found = model.run(tf.constant(X), noise)
    for ours, by_hand in zip(found, (mean, var, draws), strict=True):
        np.testing.assert_allclose(ours, by_hand, atol=1e-7)
    expected = -kl_by_hand(model)
    for d, own in enumerate(data.outputs):
        y, v = own.Y[:, 0], 0.2 + 0.1 * d
        m, s2 = mean[:, own.rows, d], var[:, own.rows, d]
        expected += np.mean(norm(m, np.sqrt(v)).logpdf(y) - s2 / (2 * v), 0).sum()
    np.testing.assert_allclose(model.elbo(data, noise), expected, rtol=1e-7)
    np.testing.assert_allclose(
        tf.reduce_sum(model.data_terms(data, noise)) - model.kl(), model.elbo(data, noise), rtol=1e-12
    )


def test_unwhitened_chain_has_the_bound_of_the_whitened_one():
    white, data, noise = chain(), observed(), normal(3, 2, 9)
    plain = chain(whiten=False)
    layers = white.layers()
    roots = np.concatenate([layer.factors.cholesky for layer in layers])
    plain.posterior.q_mu.assign(np.column_stack([np.asarray(layer.mean[0]) for layer in layers]))
    plain.posterior.q_sqrt.assign(roots @ white.posterior.q_sqrt.numpy())
    np.testing.assert_allclose(plain.elbo(data, noise), white.elbo(data, noise), rtol=1e-7)


def exact_evidence(K: np.ndarray, y: np.ndarray, noise: float) -> float:
    return float(multivariate_normal(np.zeros(len(y)), K + noise * np.eye(len(y))).logpdf(y))


def put_optimum(model: LatentChain, c: int, inputs: np.ndarray, y: np.ndarray, noise: float) -> None:
    """The exact posterior of GP `c` at its inducing inputs, given targets there."""
    K = model.kernels[c](inputs).numpy() + gpflow.default_jitter() * np.eye(len(y))
    gain = np.linalg.solve(K + noise * np.eye(len(y)), K)
    q_mu, q_sqrt = model.posterior.q_mu.numpy(), model.posterior.q_sqrt.numpy()
    q_mu[:, c], q_sqrt[c] = gain.T @ y, np.linalg.cholesky(K - K @ gain + 1e-12 * np.eye(len(y)))
    model.posterior.q_mu.assign(q_mu)
    model.posterior.q_sqrt.assign(q_sqrt)


@pytest.fixture
def little_jitter():
    with gpflow.config.as_context(gpflow.config.Config(jitter=1e-10)):
        yield


def test_bound_approaches_the_evidence_of_gpar_as_the_noise_of_the_first_output_vanishes(little_jitter):
    """T4: the gap is of the order of that noise."""
    rng = np.random.default_rng(0)
    inputs = np.linspace(0, 2, 15)[:, None]
    y = np.column_stack([np.sin(5 * inputs[:, 0]), np.cos(3 * inputs[:, 0])]) + 0.1 * rng.normal(size=(15, 2))
    layers, gaps = [se(0.1), se(0.1) + se(0.8, (1,))], []
    both = np.column_stack([inputs, y[:, 0]])
    for noise in (1e-1, 1e-2, 1e-3, 1e-4):
        likelihoods = [lik.Gaussian(noise), lik.Gaussian(0.1)]
        model = chain(2, [inputs, both], None, layers, likelihoods, inner=0.0, whiten=False)
        put_optimum(model, 0, inputs, y[:, 0], noise)
        put_optimum(model, 1, both, y[:, 1], 0.1)
        gpar = exact_evidence(layers[0](inputs).numpy(), y[:, 0], noise)
        gpar += exact_evidence(layers[1](both).numpy(), y[:, 1], 0.1)
        noise_both_ways = np.concatenate([normal(2, 500, 15), -normal(2, 500, 15)], 1)
        bound = model.elbo(MultiOutputData.from_arrays(inputs, y), noise_both_ways)
        gaps.append(gpar - float(bound))
    ratios = np.array(gaps[:-1]) / gaps[1:]
    assert (np.array(gaps) > 0).all()
    assert (ratios > 5).all()
    assert (ratios < 12).all()


def test_bound_never_exceeds_the_exact_evidence_and_reaches_it_at_the_optimum(little_jitter):
    """T16."""
    y, kernel = targets(outputs=1), se(0.3)
    evidence = exact_evidence(kernel(X).numpy(), y[:, 0], 0.2)
    data = MultiOutputData.from_arrays(X, y)
    for seed in range(3):
        assert float(chain(1, kernels=[kernel], seed=seed).elbo(data)) < evidence
    model = chain(1, shared=X, kernels=[kernel], whiten=False, inner=0.0)
    put_optimum(model, 0, X, y[:, 0], 0.2)
    np.testing.assert_allclose(model.elbo(data), evidence, atol=1e-6)


def test_one_natural_step_of_size_one_reaches_the_exact_evidence():
    y, kernel = targets(outputs=1), se(0.3)
    data = MultiOutputData.from_arrays(X, y)
    model = chain(1, shared=X, kernels=[kernel], inner=0.0)
    mogp.fit(model, data, steps=1, optimizer=Natural(Adam(1e-12), gamma=1.0), progress=False)
    np.testing.assert_allclose(model.elbo(data), exact_evidence(kernel(X).numpy(), y[:, 0], 0.2), atol=1e-4)


def test_natural_steps_raise_the_bound_of_all_layers_of_a_chain():
    model, data, noise = chain(2), observed(outputs=2), normal(2, 4, 9)
    optimizer = Natural(Adam(1e-3), gamma=0.3)
    optimizer.start(model)
    bounds = [-float(optimizer.step(model, lambda: -model.elbo(data, noise))) for _ in range(6)]
    assert np.all(np.diff(bounds) > 0)


@pytest.mark.parametrize("masked", [-7.0, 1e6, np.nan])
def test_targets_that_were_not_observed_change_neither_bound_nor_gradients(masked):
    """T8."""
    Y, mask = targets(), np.ones((9, 3), bool)
    mask[2:4, 0] = mask[6:, 1] = False
    reference = MultiOutputData.from_arrays(X, Y, mask=mask)
    Y[~mask] = masked
    model, noise = chain(), normal(3, 1, 9)
    results = []
    for data in (reference, MultiOutputData.from_arrays(X, Y, mask=mask)):
        with tf.GradientTape() as tape:
            bound = model.elbo(data.batches(9)(0)._replace(X=tf.constant(X)), noise)
        gradients = tape.gradient(bound, model.trainable_variables)
        results.append([bound, *gradients])
    for a, b in zip(*results, strict=True):
        assert np.isfinite(a).all()
        np.testing.assert_array_equal(a, b)


def test_output_without_targets_leaves_the_bound_of_the_others_and_has_its_prior_as_optimum():
    """T9."""
    model, data, noise = chain(), observed(missing=False), normal(3, 2, 9)
    q_mu, q_sqrt = model.posterior.q_mu.numpy(), model.posterior.q_sqrt.numpy()
    q_mu[:, 2], q_sqrt[2] = 0.0, np.eye(len(Z))
    model.posterior.q_mu.assign(q_mu)
    model.posterior.q_sqrt.assign(q_sqrt)
    full = data.full()
    nothing = full.outputs[2]._replace(weight=tf.zeros(9, tf.float64))
    with tf.GradientTape() as tape:
        bound = model.elbo(Batch(full.X, (*full.outputs[:2], nothing)), noise)
    by_mean, by_root = tape.gradient(bound, [p.unconstrained_variable for p in model.posterior.parameters])
    first = chain(2)
    first.posterior.q_mu.assign(q_mu[:, :2])
    first.posterior.q_sqrt.assign(q_sqrt[:2])
    two = MultiOutputData.from_arrays(X, targets()[:, :2])
    np.testing.assert_allclose(bound, first.elbo(two, noise[:2]), rtol=1e-9)
    np.testing.assert_allclose(by_mean[:, 2], 0, atol=1e-12)
    np.testing.assert_allclose(by_root[2], 0, atol=1e-12)


def test_disjoint_mini_batches_average_to_the_bound_of_all_rows():
    """T10."""
    model, data, noise = chain(), observed(), normal(3, 2, 9)
    source = data.batches(3, seed=4)
    assert source.steps_per_epoch == 3
    batches = [source(step) for step in range(3)]
    estimates = [model.elbo(b, tf.gather(noise, b.outputs[0].ids, axis=2)) for b in batches]
    np.testing.assert_allclose(np.mean(estimates), model.elbo(data, noise), rtol=1e-9)


def test_tied_inducing_inputs_pass_gradients_to_the_means_and_inputs_they_are_made_of():
    """T11: strategy C against B, and against finite differences."""
    data, noise = observed(), normal(3, 2, 9)
    tied = chain(whiten=False)
    columns = [np.asarray(layer.Z) for layer in tied.layers()]
    fixed = chain(inducing=columns, shared=None, whiten=False)
    np.testing.assert_allclose(fixed.elbo(data, noise), tied.elbo(data, noise), rtol=1e-10)

    def by_means(model):
        with tf.GradientTape() as tape:
            bound = model.elbo(data, noise)
        return tape.gradient(bound, model.posterior.q_mu.unconstrained_variable).numpy()

    moved, still = by_means(tied), by_means(fixed)
    np.testing.assert_allclose(moved[:, 2], still[:, 2], rtol=1e-8)
    assert np.abs(moved[:, :2] - still[:, :2]).min() > 1e-3
    for parameter, at in ((tied.posterior.q_mu, (1, 0)), (tied.posterior.q_mu, (2, 1)), (tied.shared, (1, 0))):
        with tf.GradientTape() as tape:
            bound = tied.elbo(data, noise)
        slope = tape.gradient(bound, parameter.unconstrained_variable).numpy()[at]
        start, values = parameter.numpy().copy(), []
        for step in (1e-5, -1e-5):
            there = start.copy()
            there[at] += step
            parameter.assign(there)
            values.append(float(tied.elbo(data, noise)))
        parameter.assign(start)
        np.testing.assert_allclose(slope, (values[0] - values[1]) / 2e-5, rtol=1e-4)


def test_variance_of_the_estimate_falls_as_one_over_the_number_of_paths():
    """T17, and the mean of estimates from one path is that from many."""
    model, batch = chain(), observed().full()
    bound = tf.function(lambda noise: model.elbo(batch, noise), autograph=False)
    rng = np.random.default_rng(0)
    one = np.array([bound(rng.normal(size=(3, 1, 9))) for _ in range(600)])
    four = np.array([bound(rng.normal(size=(3, 4, 9))) for _ in range(600)])
    assert 0.8 < 4 * four.var() / one.var() < 1.25
    error = np.sqrt(one.var() / 600 + four.var() / 600)
    assert abs(one.mean() - four.mean()) < 4 * error


def test_outputs_with_inputs_of_their_own_are_the_stacked_rows_with_a_block_mask(uneven):
    model = igp(uneven, inducing=4, scaling=None)
    deep = gplar(uneven, inducing=4, start="zero", samples=2, scaling=None)
    stacked = np.full((len(uneven.X), 3), np.nan)
    for d, own in enumerate(uneven.outputs):
        stacked[own.rows, d] = own.Y[:, 0]
    table = MultiOutputData.from_arrays(uneven.X, stacked, names=uneven.names)
    noise = normal(3, 2, len(uneven.X))
    for one in (model, deep):
        np.testing.assert_allclose(one.elbo(uneven, noise), one.elbo(table, noise), rtol=1e-10)
    tasks = sum(deep.data_terms(uneven.full()._replace(X=tf.constant(uneven.X)), noise)[d].numpy() for d in range(3))
    np.testing.assert_allclose(tasks - deep.kl(), deep.elbo(uneven, noise), rtol=1e-10)


def test_bidirectional_sum_whose_way_back_is_nothing_is_the_forward_chain():
    """T13."""
    data, noise = observed(), normal(6, 2, 9)
    start = np.sin(5 * Z) * np.ones(3)
    forward = gplar(data, kernel=recipe(), strategy="B", inducing=Z, start=start, inner=0.0, scaling=None)
    both = bi_gplar(
        data, kernel=recipe(), strategy="B", inducing=Z, start=start, combine="sum", inner=0.0, scaling=None
    )
    for kernel, same in zip(both.kernels[:3], forward.kernels, strict=True):
        gpflow.utilities.multiple_assign(kernel, gpflow.utilities.read_values(same))
    for kernel in both.kernels[3:]:
        for part in getattr(kernel, "kernels", [kernel]):
            part.variance.assign(np.full(part.variance.shape, 1e-13))
    for Z_c, same in zip(both.inducing[:3], forward.inducing, strict=True):
        Z_c.assign(same)
    forward.start_at(list(start.T), 1e-2)
    both.start_at([*start.T, *np.zeros((3, len(Z)))], 1e-2)
    q_mu, q_sqrt = both.posterior.q_mu.numpy(), both.posterior.q_sqrt.numpy()
    q_mu[:, 3:], q_sqrt[3:] = 0.0, np.eye(len(Z))
    both.posterior.q_mu.assign(q_mu)
    both.posterior.q_sqrt.assign(q_sqrt)
    np.testing.assert_allclose(both.elbo(data, noise), forward.elbo(data, noise[:3]), atol=1e-6)


def test_average_of_two_directions_is_their_sum_at_half_the_size():
    data, noise = observed(), normal(6, 2, 9)
    layers = [Component(se(0.3)), Component(se(0.4))]
    outputs = lik.Gaussian(0.2)
    one = MultiOutputData.from_arrays(X, data.outputs[2].Y)
    mean, whole = (
        randomised(
            LatentChain(layers, [{0: w, 1: w}], outputs, [Z, Z], input_dim=1, inner=0.0), np.random.default_rng(0)
        )
        for w in (0.5, 1.0)
    )
    a, b = (m.run(tf.constant(X), noise[:2]) for m in (mean, whole))
    np.testing.assert_allclose(a.mean, 0.5 * b.mean, rtol=1e-12)
    np.testing.assert_allclose(a.var, 0.25 * b.var, rtol=1e-12)
    assert np.isfinite(mean.elbo(one))


def test_copies_of_a_component_are_components_that_share_kernel_and_inducing_inputs():
    """The layers of a deep GP."""
    data, rng = observed(outputs=2), np.random.default_rng(2)
    deep = randomised(dgp(data, width=2, inducing=Z, scaling=None), rng)
    hidden, last = deep.components
    apart = LatentChain(
        [hidden._replace(copies=1)] * 2 + [last._replace(copies=1)] * 2,
        deep.functions,
        deep.likelihood,
        [deep.inducing[0]] * 2 + [deep.inducing[1]] * 2,
        input_dim=1,
        location=deep.location,
        scale=deep.scale,
    )
    apart.posterior.q_mu.assign(deep.posterior.q_mu)
    apart.posterior.q_sqrt.assign(deep.posterior.q_sqrt)
    noise = normal(4, 2, 9)
    np.testing.assert_allclose(apart.elbo(data, noise), deep.elbo(data, noise), rtol=1e-10)
    assert deep.num_gps == 4


# ------------------------------------------------------------------------------------------------ weighted paths


def test_weighted_bound_grows_from_the_elbo_to_that_of_rows_independent_given_the_inducing_values():
    """One output: the limit of many paths is known, and below the evidence of the model of independent rows."""
    model, data = chain(1, shared=Z[[0, 3]], inner=0.0), observed(missing=False, outputs=1)
    y, kernel, rng = targets(outputs=1)[:, 0], model.kernels[0], np.random.default_rng(3)
    batch, at = data.full(), Z[[0, 3]]
    A = np.linalg.solve(np.linalg.cholesky(kernel(at).numpy() + gpflow.default_jitter() * np.eye(2)), kernel(at, X))
    bound = tf.function(lambda n, v: model.importance_bound(batch, n, v), autograph=False)
    values = rng.normal(size=(300, 1, 2))
    one, few, many = (np.array([bound(rng.normal(size=(1, S, 9)), v) for v in values]) for S in (1, 5, 400))

    u = model.posterior.q_mu.numpy()[:, 0] + values[:, 0] @ model.posterior.q_sqrt.numpy()[0].T
    var = 1.0 - (A**2).sum(0)
    log_p = norm(u @ A, np.sqrt(0.2)).logpdf(y).sum(1) - var.sum() / (2 * 0.2)
    limits = norm(u @ A, np.sqrt(var + 0.2)).logpdf(y).sum(1)
    kl = kl_by_hand(model)
    for found, expected in ((one, log_p), (many, limits - 9 * 0.01)):
        gap = found + kl - expected
        assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(300) + 0.15
    assert one.mean() < few.mean() < many.mean() < limits.mean() - kl
    evidence = multivariate_normal(np.zeros(9), A.T @ A + np.diag(var + 0.2)).logpdf(y)
    assert limits.mean() - kl < evidence


def test_weighted_bound_of_a_chain_is_a_log_mean_over_paths_of_products_over_outputs():
    model, data, noise, values = chain(inner=0.01), observed(), normal(3, 5, 9), normal(3, 4, seed=2)
    at = chain(inner=0.01)
    roots = model.posterior.q_sqrt.numpy()
    at.posterior.q_mu.assign(model.posterior.q_mu.numpy() + np.einsum("cij,cj->ic", roots, values))
    at.posterior.q_sqrt.assign(1e-9 * np.tile(np.eye(4), (3, 1, 1)))
    at.inducing, at.shared = tuple(gpflow.Parameter(layer.Z) for layer in model.layers()), None
    draws = at.run(tf.constant(X), noise).draws.numpy()
    log_p = np.zeros((5, 9))
    for d, own in enumerate(data.outputs):
        log_p[:, own.rows] += norm(draws[:, own.rows, d], np.sqrt(0.2 + 0.1 * d)).logpdf(own.Y[:, 0])
    expected = (np.logaddexp.reduce(log_p, 0) - np.log(5)).sum() - kl_by_hand(model)
    np.testing.assert_allclose(model.importance_bound(data, noise, values), expected, rtol=1e-6)
    trained = chain(importance=True, samples=5)
    assert np.isfinite(trained.training_loss(data))


# ------------------------------------------------------------------------------------------------ other likelihoods


def ahead_by(margin: float, likelihood) -> LatentChain:
    """Two class functions of which the second is the first and a margin: a GP, a line of slope one, a constant."""
    line, constant = gpflow.kernels.Linear(), gpflow.kernels.Constant()
    model = LatentChain(
        [Component(se()), Component(line, ((0,),), inputs=False), Component(constant)],
        [{0: 1.0}, {1: 1.0, 2: 1.0}],
        likelihood,
        [[[0.5]], [[1.0]], [[0.0]]],
        input_dim=1,
        inner=0.0,
    )
    model.start_at([[0.0], [1.0], [margin]], 1e-8)
    q_sqrt = model.posterior.q_sqrt.numpy()
    q_sqrt[0] = 1.0
    model.posterior.q_sqrt.assign(q_sqrt)
    return model


def test_softmax_on_drawn_latents_is_exact_where_published_robust_max_loses_the_dependence():
    data, noise = MultiOutputData.from_arrays(X, np.ones(9)), normal(3, 2000, 9)
    soft = ahead_by(0.3, lik.Softmax(2)).data_terms(data, noise)[0]
    np.testing.assert_allclose(soft, -9 * np.log1p(np.exp(-0.3)), rtol=1e-3)
    robust = ahead_by(0.3, lik.RobustMax(2, 0.1))
    published = float(robust.data_terms(data, noise)[0]) / 9
    share = norm.cdf(0.3 / np.sqrt(2))
    np.testing.assert_allclose(published, share * np.log(0.9) + (1 - share) * np.log(0.1), atol=0.02)
    assert np.log(0.1) <= published <= np.log(0.9)
    assert published < np.log(0.9) - 0.5
    np.testing.assert_allclose(robust.predict_y(X)[0][:, 1], 0.9, rtol=1e-9)


def test_outputs_of_many_kinds_train_together_and_keep_their_gradients_finite():
    rng = np.random.default_rng(5)
    Y = np.column_stack([np.arange(9) % 3, targets(outputs=1), rng.poisson(2, 9), rng.normal(size=9), X[:, 0] > 0.4])
    Y[3:5, 1] = np.nan
    data = MultiOutputData.from_arrays(X, Y, names=["class", "real", "count", "varying", "binary"])
    kinds = {
        "class": lik.Softmax(3),
        "real": lik.Gaussian(0.1),
        "count": lik.Poisson(),
        "varying": lik.HeteroscedasticGaussian(),
        "binary": gpflow.likelihoods.Bernoulli(),
    }
    model = gplar(
        data,
        kinds,
        kernel=recipe(),
        inducing=4,
        start="zero",
        order=["binary", "class", "real", "count", "varying"],
        scaling=None,
    )
    assert model.num_gps == 8
    with tf.GradientTape() as tape:
        loss = model.training_loss(data.batches(6)(0))
    gradients = tape.gradient(loss, model.trainable_variables)
    assert all(np.isfinite(g).all() for g in gradients)
    mean, var = model.predict_y(X)
    assert mean.shape == (9, 7)
    assert (var.numpy() > 0).all()
    np.testing.assert_allclose(tf.reduce_sum(mean[:, :3], 1), 1.0, rtol=1e-9)
    assert set(model.predict_classes(X, "class")) <= {0, 1, 2}
    assert all(np.isfinite(v).all() for v in model.predict_log_density(data).values())


# ------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"components": [Component(se(), ((0,),))]}, "reads GP 0; before it there are 0"),
        ({"components": [Component(se(), inputs=False)]}, "neither inputs nor other GPs"),
        ({"functions": [{1: 1.0}]}, "sums of GPs 0 to 0"),
        ({"functions": [{0: 1.0}, {0: 1.0}]}, "the chain makes 2"),
        ({"inducing": [None]}, "give shared=Z"),
        ({"inducing": [np.zeros((4, 2))]}, "have 2 columns, it reads 1"),
        ({"inducing": [Z, Z]}, "2 sets of inducing inputs for 1 components"),
        ({"samples": 0}, "samples=0; at least one"),
    ],
)
def test_structures_that_make_no_sense_are_refused(change, message):
    given = {"components": [Component(se())], "functions": [{0: 1.0}], "likelihood": lik.Gaussian(), "inducing": [Z]}
    with pytest.raises(ValueError, match=message):
        LatentChain(**{**given, **change}, input_dim=1)


def test_likelihoods_that_ask_for_covariances_are_refused():
    with pytest.raises(TypeError, match="use Softmax"):
        LatentChain([Component(se(), copies=3)], [{0: 1.0}] * 3, lik.AnnotatedValues(2), [Z], input_dim=1)
