"""Many-class models: MOGPs-AR, MG-M, G-A and G-M, against dense formulas, quadrature, and stock GPflow."""

from __future__ import annotations

from itertools import combinations, product

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy import special
from sklearn import metrics as sklearn_metrics

import mogp
from mogp import metrics
from mogp.book.baselines.expanded import class_by_class
from mogp.data import MultiOutputData
from mogp.inducing import InducingPoints, given_points
from mogp.models import SparseMOGP, g_a, g_m, mg_m, mogps_ar
from mogp.optimizers import Adam

CLASSES = (2, 5, 3)


def labels(rng: np.random.Generator, rows: int, classes: int) -> np.ndarray:
    """Labels in which every class occurs."""
    return rng.permutation(np.arange(rows) % classes).astype(float)


@pytest.fixture(scope="module")
def outputs() -> MultiOutputData:
    """Three outputs with inputs of their own and 2, 5 and 3 classes: class offsets 0, 2 and 7."""
    rng = np.random.default_rng(0)
    pairs = [(rng.normal(size=(n, 2)), labels(rng, n, c)) for n, c in zip((6, 9, 7), CLASSES, strict=True)]
    return MultiOutputData.from_list(pairs, names=["two", "five", "three"])


@pytest.fixture(scope="module")
def single() -> MultiOutputData:
    rng = np.random.default_rng(1)
    return MultiOutputData.from_arrays(rng.normal(size=(12, 2)), labels(rng, 12, 4), names=["y"])


def points(sets: int | None, count: int = 4, seed: int = 2) -> InducingPoints:
    rng = np.random.default_rng(seed)
    return InducingPoints(rng.normal(size=(count, 2) if sets is None else (sets, count, 2)))


def ready(make, data, randomise, latents=2, seed=3, **options) -> SparseMOGP:
    """A model with random mixing, kernels and posterior."""
    rng = np.random.default_rng(seed)
    if make in (mogps_ar, mg_m):
        total = int(sum(o.Y.max() + 1 for o in data))
        options = {"latents": latents, "W": rng.normal(size=(total, latents)), **options}
    sets = latents if make in (mogps_ar, mg_m) else None
    model = make(data, **{"inducing": points(sets), "lengthscale": 1.2, "scaling": None, **options})
    for kernel in model.prior.kernels.kernels:
        kernel.lengthscales.assign(rng.uniform(0.8, 1.6, kernel.lengthscales.shape))
    randomise(model, seed)
    return model


def latents(model: SparseMOGP, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances `[N, L]` of the latent GPs, with inverses."""
    Z, kernels = np.asarray(model.inducing.Z), model.prior.kernels.kernels
    means, variances = [], []
    for latent in range(model.prior.num_latents):
        g = latent % len(kernels)
        z = Z if Z.ndim == 2 else Z[g]
        Kuu = kernels[g](z).numpy() + gpflow.default_jitter() * np.eye(len(z))
        A = np.linalg.solve(np.linalg.cholesky(Kuu), kernels[g](z, X).numpy())
        S = A.T @ np.asarray(model.posterior.q_sqrt)[latent]
        means.append(A.T @ np.asarray(model.posterior.q_mu)[:, latent])
        variances.append(kernels[g](X, full_cov=False).numpy() - (A**2).sum(0) + (S**2).sum(1))
    return np.stack(means, 1), np.stack(variances, 1)


def mixing(model: SparseMOGP, d: int) -> np.ndarray:
    """Rows of A that belong to output `d`."""
    W = np.eye(model.prior.num_functions) if model.prior.W is None else np.asarray(model.prior.W)
    return W[list(model.likelihood.functions(d))]


def wrong_class_weights(model, data, d, covariance="exact") -> np.ndarray:
    """`P_{d,i,c}` of the wrong classes `[N_d, C_d - 1]`, from the spec's formulas."""
    m, s = (a[data[d].rows] for a in latents(model, data.X))
    A, y = mixing(model, d), data[d].Y[:, 0].astype(int)
    mean = m @ A.T
    if covariance == "exact":
        variance = np.einsum("ncq,nq->nc", (A[None] - A[y][:, None]) ** 2, s)
    else:
        variance = s @ (A**2).T + np.sum(s * A[y] ** 2, 1)[:, None]
    P = np.exp(mean - np.take_along_axis(mean, y[:, None], 1) + variance / 2)
    return np.stack([np.delete(row, label) for row, label in zip(P, y, strict=True)])


def collapsed(model, data, covariance="exact") -> np.ndarray:
    """Form 1 of every output, over all classes."""
    return np.array(
        [-np.log1p(wrong_class_weights(model, data, d, covariance).sum(1)).sum() for d in range(data.num_outputs)]
    )


def divergence(model: SparseMOGP) -> float:
    """KL of the whitened posterior from the standard normal, written out."""
    total = 0.0
    for m, root in zip(np.asarray(model.posterior.q_mu).T, np.asarray(model.posterior.q_sqrt), strict=True):
        S = root @ root.T
        total += 0.5 * (m @ m + np.trace(S) - len(m) - np.linalg.slogdet(S)[1])
    return total


def quadrature(h, mean: np.ndarray, var: np.ndarray, nodes: int = 40) -> np.ndarray:
    """`E h(z)` for independent normals `z [N, L]`; `h` takes `[S, N, L]` to `[S, N, …]`."""
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    grid = np.array(list(product(z, repeat=mean.shape[1])))
    weight = np.prod(np.array(list(product(w / w.sum(), repeat=mean.shape[1]))), 1)
    return np.tensordot(weight, h(mean + np.sqrt(var) * grid[:, None]), 1)


def softmax_term(model, data, d, covariance="exact") -> np.ndarray:
    """`E_q log softmax` of every row of an output, by quadrature over the latents or over the class functions."""
    m, s = (a[data[d].rows] for a in latents(model, data.X))
    A, y = mixing(model, d), data[d].Y[:, 0].astype(int)
    if covariance == "independent":
        m, s, A = m @ A.T, s @ (A**2).T, np.eye(len(A))

    def log_softmax(u: np.ndarray) -> np.ndarray:
        return special.log_softmax(u @ A.T, axis=-1)[:, np.arange(len(y)), y]

    return quadrature(log_softmax, m, s, nodes=40 if m.shape[1] == 2 else 20)


def gradients(loss, variables):
    with tf.GradientTape() as tape:
        value = loss()
    return value, [tf.convert_to_tensor(g).numpy() for g in tape.gradient(value, variables)]


# ------------------------------------------------------------------------------------------------- the bound


@pytest.mark.parametrize("covariance", ["exact", "independent"])
@pytest.mark.parametrize("negatives", [None, 4, 99])
def test_with_all_classes_and_all_rows_the_bound_is_the_formula_and_is_not_random(
    outputs, randomise, covariance, negatives
):
    """T3.5, outputs with different numbers of classes."""
    model = ready(mogps_ar, outputs, randomise, negatives=negatives, covariance=covariance)
    expected = collapsed(model, outputs, covariance)
    np.testing.assert_allclose(model.data_terms(outputs), expected, rtol=1e-6)
    np.testing.assert_allclose(model.elbo(outputs), expected.sum() - divergence(model), rtol=1e-7)
    assert float(model.elbo(outputs)) == float(model.elbo(outputs))


def test_the_exact_bound_is_below_the_expected_log_softmax_for_any_posterior(outputs, randomise):
    """T3.3, every output of many random models, by quadrature over the latents."""
    for seed in range(6):
        model = ready(mogps_ar, outputs, randomise, seed=seed, negatives=None)
        ours = model.data_terms(outputs).numpy()
        exact = np.array([softmax_term(model, outputs, d).sum() for d in range(3)])
        assert np.all(ours <= exact + 1e-9)


def published(covariance: str) -> SparseMOGP:
    """The matrix B of the thesis: a = (3.3534, -3.4531), one latent GP with mean 1 and variance 0.1 at the row."""
    data = MultiOutputData.from_arrays(np.zeros((1, 1)), [0.0])
    model = mogps_ar(
        data,
        [2],
        latents=1,
        inducing=given_points(np.zeros((1, 1)), sets=1),
        W=[[3.353], [-3.453]],
        covariance=covariance,
        negatives=None,
        lengthscale=1.0,
        scaling=None,
    )
    model.posterior.q_mu.assign([[1.0]])
    model.posterior.q_sqrt.assign([[[np.sqrt(0.1)]]])
    return model


def expected_log_logistic(slope: float, variance: float) -> float:
    """E log sigmoid(slope u), u ~ N(1, variance): the softmax of two classes."""
    z, w = np.polynomial.hermite_e.hermegauss(80)
    return float(special.log_expit(slope * (1 + np.sqrt(variance) * z)) @ (w / w.sum()))


def test_the_published_objective_is_not_a_bound_where_classes_are_negatively_correlated():
    """The example of the spec, section 3.4: -0.01116 (exact) < -0.00965 (what is bounded) < -0.00352 (published)."""
    data = MultiOutputData.from_arrays(np.zeros((1, 1)), [0.0])
    exact, independent = (float(published(c).data_terms(data)[0]) for c in ("exact", "independent"))
    bounded = expected_log_logistic(3.353 + 3.453, 0.1)
    np.testing.assert_allclose([exact, bounded, independent], [-0.01116, -0.00965, -0.00352], atol=1e-5)


def test_two_classes_need_no_sampling(randomise):
    """T3.6: with one wrong class every draw is all of them."""
    rng = np.random.default_rng(5)
    data = MultiOutputData.from_arrays(rng.normal(size=(10, 2)), labels(rng, 10, 2))
    model = ready(mogps_ar, data, randomise, negatives=1)
    for _ in range(3):
        np.testing.assert_allclose(model.data_terms(data), collapsed(model, data), rtol=1e-6)


@pytest.mark.parametrize("negatives", [1, 2, 3])
def test_sampled_bounds_average_to_the_mean_over_all_subsets_which_is_above_the_full_bound(
    outputs, randomise, negatives
):
    """T3.6: the bias of class sampling, enumerated for each output."""
    model = ready(mogps_ar, outputs, randomise, negatives=negatives)
    expected = []
    for d in range(3):
        P = wrong_class_weights(model, outputs, d)
        s = min(negatives, P.shape[1])
        subsets = [list(c) for c in combinations(range(P.shape[1]), s)]
        expected.append(np.mean([-np.log1p(P[:, c].sum(1) * P.shape[1] / s).sum() for c in subsets]))
    value = tf.function(lambda: model.data_terms(outputs), autograph=False)
    drawn = np.array([value() for _ in range(400)])
    error = drawn.std(0) / 20 + 1e-9
    assert np.all(np.abs(drawn.mean(0) - expected) < 4.5 * error)
    assert np.all(np.array(expected) >= collapsed(model, outputs) - 1e-9)
    assert expected[1] > collapsed(model, outputs)[1] + 1e-3


@pytest.mark.parametrize("negatives", [1, 2, 3])
def test_the_functions_of_drawn_classes_are_those_of_their_own_output(outputs, negatives):
    """T3.13 in the model: where the wrong classes of an output weigh the same, any draw gives the full bound, and the
    true class, or a class of another output, would not. The latent GP is 1 everywhere, f of the true class 0."""
    data = MultiOutputData.from_list([(o.Y * 0 + d, o.Y * 0 + d % 2) for d, o in enumerate(outputs)])
    W = np.repeat([0.4, -0.9, 1.7], CLASSES)
    for d, start in enumerate((0, 2, 7)):
        W[start + d % 2] = 0.0
    model = mogps_ar(
        data,
        CLASSES,
        latents=1,
        inducing=given_points(np.zeros((1, 1)), sets=1),
        W=W[:, None],
        negatives=negatives,
        lengthscale=1e4,
        scaling=None,
    )
    model.posterior.q_mu.assign([[1.0]])
    model.posterior.q_sqrt.assign([[[1e-5]]])
    weights = np.exp([0.4, -0.9, 1.7]) * (np.array(CLASSES) - 1)
    for _ in range(20):
        np.testing.assert_allclose(model.data_terms(data), -np.log1p(weights) * data.sizes, rtol=1e-4)


def test_a_function_common_to_all_classes_of_an_output_changes_only_the_published_objective(outputs, randomise):
    """T3.7: the softmax does not see a shift of all its functions."""
    rng = np.random.default_rng(6)
    W = rng.normal(size=(10, 3))
    W[:, 2] = np.repeat([0.8, -1.1, 0.6], CLASSES)
    for covariance, same in (("exact", True), ("independent", False)):
        model = ready(mogps_ar, outputs, randomise, latents=3, W=W, negatives=None, covariance=covariance)
        with_common = model.data_terms(outputs).numpy()
        W_without = W * [1, 1, 0]
        model.prior.W.assign(W_without)
        without = model.data_terms(outputs).numpy()
        assert np.allclose(with_common, without, rtol=1e-10) == same
    assert np.all(np.abs(with_common - without) > 1e-2)


def test_outputs_with_latent_gps_of_their_own_are_separate_models(outputs, randomise):
    """T3.9: block-disjoint mixing."""
    rng = np.random.default_rng(7)
    blocks = [rng.normal(size=(c, 2)) for c in CLASSES]
    W = np.zeros((10, 6))
    for d, (block, start) in enumerate(zip(blocks, (0, 2, 7), strict=True)):
        W[start : start + len(block), 2 * d : 2 * d + 2] = block
    joint = ready(mogps_ar, outputs, randomise, latents=6, W=W, negatives=None)
    total, probabilities = 0.0, []
    for d, name in enumerate(outputs.names):
        own = slice(2 * d, 2 * d + 2)
        data = MultiOutputData.from_list([(outputs.inputs(d), outputs[d].Y)], names=[name])
        part = ready(
            mogps_ar,
            data,
            randomise,
            W=blocks[d],
            negatives=None,
            inducing=InducingPoints(np.asarray(joint.inducing.Z)[own]),
        )
        for kernel, other in zip(part.prior.kernels.kernels, joint.prior.kernels.kernels[own], strict=True):
            kernel.lengthscales.assign(other.lengthscales)
        part.posterior.q_mu.assign(np.asarray(joint.posterior.q_mu)[:, own])
        part.posterior.q_sqrt.assign(np.asarray(joint.posterior.q_sqrt)[own])
        total += float(part.elbo(data))
        probabilities.append((part.predict_f(outputs.X)[0], joint.predict_f(outputs.X, name)[0]))
    np.testing.assert_allclose(joint.elbo(outputs), total, rtol=1e-9)
    for one, other in probabilities:
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_mini_batches_over_a_partition_average_to_the_full_bound(outputs, randomise):
    model = ready(mogps_ar, outputs, randomise, negatives=None)
    source = outputs.batches([2, 3, 7], seed=4)
    average = np.mean([model.data_terms(source(step)) for step in range(3)], axis=0)
    np.testing.assert_allclose(average, model.data_terms(outputs), rtol=1e-9)


def test_outputs_on_shared_inputs_with_missing_labels_are_counted_where_they_were_observed(randomise):
    rng = np.random.default_rng(9)
    Y = np.column_stack([labels(rng, 10, 3), labels(rng, 10, 4)])
    Y[[1, 5], 1] = np.nan
    data = MultiOutputData.from_arrays(rng.normal(size=(10, 2)), Y)
    model = ready(mogps_ar, data, randomise, negatives=None)
    np.testing.assert_allclose(model.data_terms(data), collapsed(model, data), rtol=1e-6)
    source = data.batches(5, seed=1)
    average = np.mean([model.data_terms(source(step)) for step in range(2)], axis=0)
    np.testing.assert_allclose(average, collapsed(model, data), rtol=1e-6)


# ------------------------------------------------------------------------------------------------- the local theta


def local(data, randomise, rate=0.1, **options) -> SparseMOGP:
    model = ready(mogps_ar, data, randomise, theta="local", **options)
    for likelihood in model.likelihood.likelihoods:
        likelihood.rate = rate
    return model


def updates(model, data):
    """A compiled update of all thetas, and the data terms after it."""
    batch = data.full()

    def update() -> tf.Tensor:
        model.update_local(batch)
        return model.data_terms(batch)

    return tf.function(update, autograph=False)


def test_with_parameters_held_the_local_bound_rises_to_the_collapsed_one(outputs, randomise):
    """Form 0 with theta <- (1 - rate) theta + rate (1 + P), all classes: theta comes to 1 + P."""
    model = local(outputs, randomise, rate=0.4, negatives=None)
    full, update = collapsed(model, outputs), updates(model, outputs)
    values = np.array([model.data_terms(outputs), *(update() for _ in range(30))])
    assert np.all(np.diff(values, axis=0) > -1e-9)
    assert np.all(values[0] < full - 1e-3)
    np.testing.assert_allclose(values[-1], full, rtol=1e-6)


def test_evaluating_the_bound_moves_no_theta(outputs, randomise):
    model = local(outputs, randomise, negatives=None)
    assert float(model.elbo(outputs)) == float(model.elbo(outputs))


def test_an_update_moves_theta_of_the_rows_of_a_batch_by_the_rate_and_leaves_the_others(outputs, randomise):
    model = local(outputs, randomise, negatives=None)
    batch = outputs.batches(2, seed=1)(0)
    before = [one.log_theta.numpy() for one in model.likelihood.likelihoods]
    model.update_local(batch)
    for d, (likelihood, own) in enumerate(zip(model.likelihood.likelihoods, batch.outputs, strict=True)):
        expected = np.exp(before[d])
        P = np.zeros(len(outputs.X))
        P[outputs[d].rows] = wrong_class_weights(model, outputs, d).sum(1)
        ids = own.ids.numpy()
        expected[ids] = 0.9 * expected[ids] + 0.1 * (1 + P[ids])
        np.testing.assert_allclose(np.exp(likelihood.log_theta), expected, rtol=1e-6)


@pytest.mark.parametrize("negatives", [1, 3])
def test_sampled_local_bounds_and_their_gradients_are_unbiased(single, randomise, negatives):
    """The mean over draws against the bound with all classes, theta held."""
    sampled, full = (local(single, randomise, negatives=n) for n in (negatives, None))
    for model in (sampled, full):
        model.likelihood.likelihoods[0].log_theta.assign(np.random.default_rng(0).uniform(0.5, 2.5, 12))
    batch = single.full()

    def value_and_slope(model) -> tf.Tensor:
        variables = [model.prior.W.unconstrained_variable, model.posterior.q_mu.unconstrained_variable]
        with tf.GradientTape() as tape:
            value = model.elbo(batch)
        slopes = tape.gradient(value, variables)
        return tf.concat([[value], *(tf.reshape(tf.convert_to_tensor(g), [-1]) for g in slopes)], 0)

    draw = tf.function(lambda: value_and_slope(sampled), autograph=False)
    drawn, expected = np.array([draw() for _ in range(600)]), value_and_slope(full).numpy()
    error = drawn.std(0) / np.sqrt(600) + 1e-7 * np.abs(expected) + 1e-9
    assert np.all(np.abs(drawn.mean(0) - expected) < 4.5 * error)


def test_every_row_of_every_output_keeps_a_theta_of_its_own(randomise):
    """Two outputs on the same inputs: with rate 1 both bounds are at their limit, so neither overwrites the other."""
    rng = np.random.default_rng(9)
    data = MultiOutputData.from_arrays(rng.normal(size=(8, 2)), np.column_stack([labels(rng, 8, 3), labels(rng, 8, 4)]))
    model = local(data, randomise, rate=1.0, negatives=None)
    np.testing.assert_allclose(updates(model, data)(), collapsed(model, data), rtol=1e-6)


def test_theta_is_estimated_with_other_classes_than_those_of_the_step(single, randomise):
    """With rate 1 and the classes of the step itself the value would be the biased Form 1; with others it is
    1 - log theta - (1 + P') / theta, P' independent of theta."""
    model = local(single, randomise, rate=1.0, negatives=1)
    P = 3 * wrong_class_weights(model, single, 0)
    theta = 1 + P
    expected = np.sum(1 - np.log(theta).mean(1) - (1 + P.mean(1)) * (1 / theta).mean(1))
    update = updates(model, single)
    values = np.array([update()[0] for _ in range(400)])
    error = values.std() / 20
    assert abs(values.mean() - expected) < 4.5 * error
    assert abs(values.mean() + np.log1p(P).mean(1).sum()) > 4.5 * error


# ------------------------------------------------------------------------------------ the same model another way


@pytest.mark.parametrize(
    ("make", "covariance"), [(mogps_ar, "exact"), (mogps_ar, "independent"), (mg_m, "independent")]
)
def test_class_expanded_and_mixing_evaluations_are_the_same(outputs, randomise, make, covariance):
    """T3.8: means, variances, bound and gradient; with the same draws of classes or of noise."""
    mixed = ready(make, outputs, randomise, covariance=covariance)
    expanded = class_by_class(mixed)
    for one, other in zip(mixed.predict_f(outputs.X), expanded.predict_f(outputs.X), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    a = gradients(lambda: mixed.elbo(outputs), mixed.trainable_variables)
    b = gradients(lambda: expanded.elbo(outputs), expanded.trainable_variables)
    np.testing.assert_allclose(a[0], b[0], rtol=1e-9)
    for one, other in zip(a[1], b[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(mixed.predict_y(outputs.X)[0], expanded.predict_y(outputs.X)[0], rtol=1e-8)


def test_functions_are_those_of_stock_linear_coregionalization(single, randomise):
    """T3.8 against GPflow's own class-expanded conditional."""
    model = ready(mogps_ar, single, randomise)
    mixed = gpflow.kernels.LinearCoregionalization(list(model.prior.kernels.kernels), W=np.asarray(model.prior.W))
    sets = gpflow.inducing_variables.SeparateIndependentInducingVariables(
        [gpflow.inducing_variables.InducingPoints(z) for z in np.asarray(model.inducing.Z)]
    )
    stock = gpflow.models.SVGP(
        mixed,
        gpflow.likelihoods.Softmax(4),
        sets,
        q_mu=np.asarray(model.posterior.q_mu),
        q_sqrt=np.asarray(model.posterior.q_sqrt),
    )
    for one, other in zip(model.predict_f(single.X), stock.predict_f(single.X), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(model.kl(), stock.prior_kl(), rtol=1e-9)


def twin_of_independent(model: SparseMOGP, likelihood) -> gpflow.models.SVGP:
    """GPflow's SVGP with one kernel and one set of points for all classes."""
    return gpflow.models.SVGP(
        gpflow.kernels.SharedIndependent(model.prior.kernels.kernels[0], output_dim=4),
        likelihood,
        gpflow.inducing_variables.SharedIndependentInducingVariables(
            gpflow.inducing_variables.InducingPoints(np.asarray(model.inducing.Z))
        ),
        q_mu=np.asarray(model.posterior.q_mu),
        q_sqrt=np.asarray(model.posterior.q_sqrt),
    )


def test_g_a_is_the_augmented_bound_on_independent_gps_of_stock_gpflow(single, randomise):
    model = ready(g_a, single, randomise)
    stock = twin_of_independent(model, gpflow.likelihoods.Softmax(4))
    mean, var = (a.numpy() for a in stock.predict_f(single.X))
    y = single[0].Y[:, 0].astype(int)
    rows = np.arange(len(y))
    log_P = mean - mean[rows, y][:, None] + 0.5 * (var + var[rows, y][:, None])
    log_P[rows, y] = 0.0
    expected = -special.logsumexp(log_P, axis=1).sum() - float(stock.prior_kl())
    np.testing.assert_allclose(model.elbo(single), expected, rtol=1e-8)


def test_g_m_is_stock_svgp_with_a_softmax(single, randomise):
    """In expectation: both are Monte Carlo."""
    model = ready(g_m, single, randomise, samples=200)
    stock_likelihood = gpflow.likelihoods.Softmax(4)
    stock_likelihood.num_monte_carlo_points = 200
    stock = twin_of_independent(model, stock_likelihood)
    np.testing.assert_allclose(model.kl(), stock.prior_kl(), rtol=1e-9)
    tf.random.set_seed(0)
    pair = (tf.constant(single.X), tf.constant(single[0].Y, tf.int64))
    calls = [tf.function(f, autograph=False) for f in (lambda: model.elbo(single), lambda: stock.elbo(pair))]
    ours, theirs = (np.array([call() for _ in range(100)]) for call in calls)
    error = np.hypot(ours.std(), theirs.std()) / 10
    assert abs(ours.mean() - theirs.mean()) < 4.5 * error


def with_identity_mixing(make, single, randomise, independent: SparseMOGP, **options) -> SparseMOGP:
    model = ready(
        make,
        single,
        randomise,
        latents=4,
        W=np.eye(4),
        inducing=given_points(np.asarray(independent.inducing.Z), sets=4),
        **options,
    )
    for kernel in model.prior.kernels.kernels:
        kernel.lengthscales.assign(independent.prior.kernels.kernels[0].lengthscales)
    for name in ("q_mu", "q_sqrt"):
        getattr(model.posterior, name).assign(getattr(independent.posterior, name))
    return model


@pytest.mark.parametrize("covariance", ["exact", "independent"])
def test_identity_mixing_gives_the_single_output_baseline(single, randomise, covariance):
    """T3.4: MOGPs-AR with Q = C and A = I is G-A, whatever the covariance."""
    baseline = ready(g_a, single, randomise)
    model = with_identity_mixing(mogps_ar, single, randomise, baseline, negatives=None, covariance=covariance)
    np.testing.assert_allclose(model.elbo(single), baseline.elbo(single), rtol=1e-9)
    np.testing.assert_allclose(model.predict_y(single.X)[0], baseline.predict_y(single.X)[0], atol=0.06)


@pytest.mark.parametrize("covariance", ["exact", "independent"])
def test_identity_mixing_of_monte_carlo_models_gives_the_single_output_baseline(single, randomise, covariance):
    """T3.4: MG-M with Q = C and A = I is G-M; both are Monte Carlo, compared in expectation."""
    baseline = ready(g_m, single, randomise, samples=200)
    model = with_identity_mixing(mg_m, single, randomise, baseline, samples=200, covariance=covariance)
    calls = [tf.function(lambda m=m: m.data_terms(single)[0], autograph=False) for m in (baseline, model)]
    one, other = (np.array([call() for _ in range(100)]) for call in calls)
    assert abs(one.mean() - other.mean()) < 4.5 * np.hypot(one.std(), other.std()) / 10


@pytest.mark.parametrize("covariance", ["exact", "independent"])
def test_mg_m_estimates_the_expected_log_softmax(randomise, covariance):
    """Form 2: "exact" draws latents and mixes them, "independent" draws each class function."""
    rng = np.random.default_rng(4)
    data = MultiOutputData.from_list(
        [(rng.normal(size=(5, 2)), labels(rng, 5, 3)), (rng.normal(size=(4, 2)), labels(rng, 4, 2))]
    )
    model = ready(mg_m, data, randomise, samples=100, covariance=covariance)
    expected = [softmax_term(model, data, d, covariance).sum() for d in range(2)]
    value = tf.function(lambda: model.data_terms(data), autograph=False)
    drawn = np.array([value() for _ in range(100)])
    assert np.all(np.abs(drawn.mean(0) - expected) < 4.5 * drawn.std(0) / 10)
    other = [softmax_term(model, data, d, "independent" if covariance == "exact" else "exact").sum() for d in range(2)]
    assert np.all(np.abs(drawn.mean(0) - other) > 4.5 * drawn.std(0) / 10)


def test_the_weight_of_the_kl_makes_the_published_baselines(single, randomise):
    """The published baselines sum a batch unscaled: N/|B| times that is the bound with the KL weighted by N/|B|."""
    batch, weight = single.batches(4, seed=2)(0), 12 / 4
    plain, weighted = (ready(g_a, single, randomise, kl_weight=w) for w in (1.0, weight))
    unscaled = float(plain.data_terms(batch)[0]) / weight - divergence(plain)
    np.testing.assert_allclose(weighted.elbo(batch), weight * unscaled, rtol=1e-7)
    np.testing.assert_allclose(plain.elbo(batch), plain.data_terms(batch)[0] - divergence(plain), rtol=1e-9)


# ------------------------------------------------------------------------------------------------- prediction


def probabilities(model, data, d) -> np.ndarray:
    m, s = latents(model, data.X)
    A = mixing(model, d)
    return quadrature(lambda u: special.softmax(u @ A.T, axis=-1), m, s)


@pytest.mark.parametrize("make", [mogps_ar, mg_m])
def test_class_probabilities_sum_to_one_and_are_those_of_correlated_functions(outputs, randomise, make):
    """T3.12, by quadrature over the latents."""
    model = ready(make, outputs, randomise)
    for likelihood in model.likelihood.likelihoods:
        likelihood.prediction_samples = 20_000
    for d, name in enumerate(outputs.names):
        p, variance = model.predict_y(outputs.X, name)
        np.testing.assert_allclose(np.sum(p, 1), 1.0, atol=1e-12)
        np.testing.assert_allclose(variance, p * (1 - p))
        np.testing.assert_allclose(p, probabilities(model, outputs, d), atol=0.012)


@pytest.mark.parametrize("make", [mogps_ar, mg_m])
def test_with_independent_covariance_probabilities_are_those_of_independent_functions(outputs, randomise, make):
    """As published: every class function is drawn from its marginal."""
    model = ready(make, outputs, randomise, covariance="independent")
    for likelihood in model.likelihood.likelihoods:
        likelihood.prediction_samples = 20_000
    densities = model.predict_log_density(outputs)
    for d, o in enumerate(outputs):
        A, X = mixing(model, d), outputs.inputs(d)
        m, s = latents(model, X)
        noise = np.random.default_rng(0).normal(size=(20_000, len(X), len(A)))
        expected = special.softmax(m @ A.T + np.sqrt(s @ (A**2).T) * noise, axis=-1).mean(0)
        p = model.predict_y(X, o.name)[0].numpy()
        np.testing.assert_allclose(p, expected, atol=0.016)
        np.testing.assert_allclose(np.exp(densities[o.name]), p[np.arange(len(o)), o.Y[:, 0].astype(int)], rtol=1e-9)


def test_probabilities_of_all_outputs_stand_side_by_side_and_repeat(outputs, randomise):
    model = ready(mogps_ar, outputs, randomise)
    everything = model.predict_y(outputs.X)[0].numpy()
    assert everything.shape == (22, 10)
    np.testing.assert_array_equal(model.predict_y(outputs.X)[0], everything)
    np.testing.assert_allclose(model.predict_y(outputs.X, "five")[0], everything[:, 2:7], rtol=1e-12)
    np.testing.assert_allclose(model.predict_y(outputs.X[3:4], "three")[0], everything[3:4, 7:], rtol=1e-9)


def test_log_densities_are_the_logs_of_the_probabilities(outputs, randomise):
    model = ready(mogps_ar, outputs, randomise)
    densities = model.predict_log_density(outputs)
    for d, o in enumerate(outputs):
        p = model.predict_y(outputs.inputs(d), d)[0].numpy()
        np.testing.assert_allclose(np.exp(densities[o.name]), p[np.arange(len(o)), o.Y[:, 0].astype(int)], rtol=1e-9)


def test_predicted_classes_are_the_most_probable_and_ten_times_the_samples_keep_them(outputs, randomise):
    """T3.12: where the two best probabilities differ by more than the Monte Carlo error."""
    few, many = (ready(mogps_ar, outputs, randomise) for _ in range(2))
    for model in (few, many):
        model.prior.W.assign(3 * model.prior.W)
    for likelihood in many.likelihood.likelihoods:
        likelihood.prediction_samples *= 10
    for d, name in enumerate(outputs.names):
        exact = probabilities(few, outputs, d)
        best = np.sort(exact, axis=1)
        clear = best[:, -1] - best[:, -2] > 0.1
        assert clear.sum() >= 5
        found = few.predict_classes(outputs.X, name)
        assert found.shape == (22,)
        assert np.issubdtype(found.dtype, np.integer)
        np.testing.assert_array_equal(found[clear], exact.argmax(1)[clear])
        np.testing.assert_array_equal(many.predict_classes(outputs.X, name)[clear], found[clear])


def test_weighted_recall_of_predicted_classes_is_the_accuracy(outputs, randomise):
    """T3.11, with scikit-learn."""
    model = ready(mogps_ar, outputs, randomise)
    for d, o in enumerate(outputs):
        y, found = o.Y[:, 0], model.predict_classes(outputs.inputs(d), d)
        recall = metrics.weighted_recall(y, found)
        np.testing.assert_allclose(recall, np.mean(y == found))
        np.testing.assert_allclose(
            recall, sklearn_metrics.recall_score(y, found, average="weighted", zero_division=0), rtol=1e-12
        )


def test_drawn_labels_have_the_predicted_frequencies(outputs, randomise):
    model = ready(mogps_ar, outputs, randomise)
    drawn = np.asarray(model.predict_y_samples(outputs.X[:5], "five", samples=4000))[..., 0]
    frequency = np.stack([(drawn == c).mean(0) for c in range(5)], 1)
    np.testing.assert_allclose(frequency, probabilities(model, outputs, 1)[:5], atol=0.04)


# ------------------------------------------------------------------------------------------- coregionalisation


def test_learned_coregionalisation_matrices_have_rank_one_and_the_global_one_averages_their_blocks(outputs):
    """T3.10, and the GACM by its definition: symmetric, non-negative, blind to the order of classes."""
    model = mogps_ar(outputs, latents=3, inducing=4, negatives=2, scaling=None)
    adam = Adam(0.1)
    adam.start(model)
    for _ in range(5):
        adam.step(model, lambda: model.training_loss(outputs))
    B = model.prior.coregionalisation().numpy()
    assert B.shape == (3, 10, 10)
    for B_q in B:
        values = np.linalg.svd(B_q, compute_uv=False)
        assert values[1] < 1e-12 * values[0]
        np.testing.assert_allclose(B_q, B_q.T)
    found = model.global_coregionalisation()
    blocks = [range(2), range(2, 7), range(7, 10)]
    for i, j in product(range(3), repeat=2):
        entries = [abs(B[q, m, n]) for q in range(3) for m in blocks[i] for n in blocks[j]]
        np.testing.assert_allclose(found[i, j], np.mean(entries), rtol=1e-12)
    W = np.asarray(model.prior.W)
    model.prior.W.assign(np.concatenate([W[:2][::-1], W[2:7][[3, 1, 4, 0, 2]], W[7:]]))
    np.testing.assert_allclose(model.global_coregionalisation(), found, rtol=1e-12)


# ------------------------------------------------------------------------------------------------- training


@pytest.mark.parametrize(
    "make",
    [
        lambda data: mogps_ar(data, latents=2, inducing=4, negatives=1, scaling=None),
        lambda data: mogps_ar(data, latents=2, inducing=4, negatives=2, theta="local", scaling=None),
    ],
    ids=["collapsed", "local"],
)
def test_a_resumed_run_has_the_history_and_the_values_of_an_uninterrupted_one(single, make, tmp_path):
    def run(steps: int, checkpoint=None):
        model = make(single)
        return model, mogp.fit(
            model, single, steps=steps, batch_size=4, seed=3, checkpoint=checkpoint, progress=False
        ).elbo

    whole, expected = run(16)
    run(7, tmp_path / "run.npz")
    resumed, found = run(16, tmp_path / "run.npz")
    np.testing.assert_array_equal(found, expected)
    for one, other in zip(resumed.variables, whole.variables, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("theta", ["collapsed", "local"])
def test_predictions_and_further_draws_survive_saving_and_loading(outputs, randomise, theta, tmp_path):
    model = ready(mogps_ar, outputs, randomise, negatives=2, theta=theta)
    model.update_local(outputs.full())
    model.elbo(outputs)
    loaded = mogp.load(mogp.save(model, tmp_path / "model.mogp"))
    np.testing.assert_array_equal(loaded.predict_y(outputs.X)[0], model.predict_y(outputs.X)[0])
    for _ in range(3):
        np.testing.assert_array_equal(loaded.elbo(outputs), model.elbo(outputs))


@pytest.mark.parametrize("theta", ["collapsed", "local"])
def test_eager_and_compiled_bounds_are_the_same_sequence(outputs, randomise, theta):
    eager, compiled = (ready(mogps_ar, outputs, randomise, negatives=2, theta=theta) for _ in range(2))
    bound = tf.function(lambda: compiled.elbo(outputs.full()), autograph=False)
    for _ in range(4):
        np.testing.assert_allclose(eager.elbo(outputs.full()), bound(), rtol=1e-10)


def test_training_separates_clusters_of_several_outputs():
    """Two outputs with 4 and 3 clusters; the recall of held-out rows with one sampled class."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 2)) * 4
    y, z = rng.integers(0, 4, 160), rng.integers(0, 3, 160)
    data = MultiOutputData.from_list(
        [(centres[y] + 0.3 * rng.normal(size=(160, 2)), y), (centres[z][:, ::-1] + 0.3 * rng.normal(size=(160, 2)), z)]
    )
    train, test = data.split(0.25, seed=1)
    model = mogps_ar(train, latents=4, inducing=16, negatives=1, scaling=None)
    mogp.fit(model, train, steps=200, optimizer=Adam(0.05), batch_size=40, progress=False)
    for d, o in enumerate(test):
        assert metrics.weighted_recall(o.Y[:, 0], model.predict_classes(test.inputs(d), d)) > 0.95


def shapes_of(graph) -> set[tuple[int, ...]]:
    """Static shapes of all tensors of a graph and of the functions it calls."""
    found, definition = set(), graph.as_graph_def(add_shapes=True)
    for nodes in (definition.node, *(f.node_def for f in definition.library.function)):
        for node in nodes:
            for shape in node.attr["_output_shapes"].list.shape:
                if not shape.unknown_rank:
                    found.add(tuple(int(d.size) for d in shape.dim))
    return found


def test_no_tensor_of_a_step_is_as_long_as_the_classes_but_the_mixing_matrix_and_its_moments():
    """The step never forms rows times classes."""
    C, rng = 5003, np.random.default_rng(0)
    data = MultiOutputData.from_arrays(rng.normal(size=(40, 2)), rng.integers(0, C, 40))
    model = mogps_ar(data, [C], latents=3, inducing=4, negatives=5, scaling=None)
    adam, source = Adam(0.01), data.batches(8)
    adam.start(model)
    step = tf.function(lambda t: adam.step(model, lambda: model.training_loss(source(t))), autograph=False)
    shapes = shapes_of(step.get_concrete_function(tf.constant(0, tf.int64)).graph)
    assert {s for s in shapes if C in s or C - 1 in s} <= {(C, 3), (C, 1), (C,), (3, C)}
    assert max(np.prod(s) for s in shapes if -1 not in s) <= 3 * C


# ------------------------------------------------------------------------------------------------- edges


def test_a_batch_of_one_row_an_output_is_scaled_to_all_rows(outputs, randomise):
    model = ready(mogps_ar, outputs, randomise, negatives=None)
    batch = outputs.batches(1, seed=2)(0)
    for d, own in enumerate(batch.outputs):
        at = np.flatnonzero(outputs[d].rows == int(own.ids[0]))[0]
        expected = -np.log1p(wrong_class_weights(model, outputs, d)[at].sum()) * len(outputs[d])
        np.testing.assert_allclose(model.data_terms(batch)[d], expected, rtol=1e-6)


def test_duplicated_rows_count_twice(single, randomise):
    model = ready(mogps_ar, single, randomise, negatives=None)
    twice = MultiOutputData.from_arrays(np.tile(single.X, (2, 1)), np.tile(single[0].Y, (2, 1)), names=["y"])
    np.testing.assert_allclose(model.data_terms(twice), 2 * model.data_terms(single), rtol=1e-12)


def test_classes_are_by_default_one_more_than_the_largest_label(outputs):
    assert mogps_ar(outputs, latents=2, inducing=3, scaling=None).prior.num_functions == 10
    more = mogps_ar(outputs, {"two": 4, "five": 5, "three": 9}, latents=2, inducing=3, scaling=None)
    assert [len(more.likelihood.functions(d)) for d in range(3)] == [4, 5, 9]
    assert np.isfinite(more.elbo(outputs))
    assert more.predict_y(outputs.X, "three")[0].shape == (22, 9)


@pytest.mark.parametrize("theta", ["collapsed", "local"])
def test_float32_models_are_close_to_float64(outputs, randomise, theta):
    # The jitter of single precision, for both.
    with gpflow.config.as_context(gpflow.config.Config(jitter=1e-4)):
        exact = ready(mogps_ar, outputs, randomise, negatives=None, theta=theta).elbo(outputs)
    with gpflow.config.as_context(gpflow.config.Config(float=np.float32)):
        model = ready(mogps_ar, outputs, randomise, negatives=None, theta=theta)
        value = model.elbo(outputs)
        assert value.dtype == tf.float32
        np.testing.assert_allclose(value, exact, rtol=1e-3)
        assert model.predict_y(outputs.X, 0)[0].dtype == tf.float32
        sampled = ready(mogps_ar, outputs, randomise, negatives=2, theta=theta)
        sampled.update_local(outputs.full())
        value, slopes = gradients(lambda: sampled.elbo(outputs), sampled.trainable_variables)
        assert np.isfinite(value)
        assert all(np.all(np.isfinite(g)) and g.dtype == np.float32 for g in slopes)


@pytest.mark.parametrize("make", [g_a, g_m])
def test_single_output_baselines_refuse_several_outputs(outputs, make):
    with pytest.raises(ValueError, match="single-output model, and 3 outputs"):
        make(outputs)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda d: mogps_ar(d, [2, 4, 3], inducing=3, scaling=None).elbo(d), ValueError, "'five'.*unknown-class"),
        (lambda d: mogps_ar(d, [2, 5], scaling=None), ValueError, "2.*3"),
        (lambda d: mogps_ar(d, {"two": 2, "five": 5, "typo": 3}, scaling=None), KeyError, "typo"),
        (lambda d: mogps_ar(d, {"two": 2, "five": 5}, scaling=None), ValueError, "three"),
        (lambda d: mogps_ar(d, [1, 5, 3], scaling=None), ValueError, "classes"),
        (lambda d: mogps_ar(d, negatives=0, scaling=None), ValueError, "negatives=0"),
        (lambda d: mogps_ar(d, latents=0, scaling=None), ValueError, "latents=0"),
        (lambda d: mogps_ar(d, inducing=0, scaling=None), ValueError, "0 inducing points"),
        (lambda d: mogps_ar(d, covariance="none", scaling=None), ValueError, "none"),
        (lambda d: mogps_ar(d, theta="none", scaling=None), ValueError, "none"),
        (lambda d: mogps_ar(d, latents=2, W=np.ones((9, 2)), scaling=None), ValueError, r"\(9, 2\)"),
        (lambda d: mogps_ar(d, inducing=points(7), latents=2, scaling=None), ValueError, "7 sets"),
        (lambda d: mg_m(d, samples=0, scaling=None), ValueError, "samples=0"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_was_given(outputs, call, error, said):
    with pytest.raises(error, match=said):
        call(outputs)


@pytest.mark.parametrize("bad", [[0.0, 1.5, 1.0], [0.0, -1.0, 1.0]])
def test_labels_that_are_not_classes_are_refused_by_name(bad):
    data = MultiOutputData.from_arrays(np.arange(3.0), bad, names=["kind"])
    with pytest.raises(ValueError, match=r"'kind'.*labels must be whole numbers"):
        mogps_ar(data, latents=1, inducing=2, scaling=None).elbo(data)


def test_an_output_in_which_one_class_was_seen_has_two():
    data = MultiOutputData.from_arrays(np.arange(3.0), [0.0, 0.0, 0.0])
    model = mogps_ar(data, latents=1, inducing=2, scaling=None)
    assert model.prior.num_functions == 2
    assert np.isfinite(model.elbo(data))


def test_a_local_theta_has_no_row_for_data_it_was_not_made_for(outputs, randomise):
    model = local(outputs, randomise)
    rng = np.random.default_rng(0)
    more = MultiOutputData.from_list(
        [(rng.normal(size=(40, 2)), labels(rng, 40, c)) for c in CLASSES], names=outputs.names
    )
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="rows"):
        model.elbo(more)
