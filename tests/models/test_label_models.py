"""MLGPF: the model against GPflow and closed forms, its names, and how it is trained and asked."""

from __future__ import annotations

from itertools import combinations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from gpflow.utilities import multiple_assign, print_summary, read_values, set_trainable
from scipy.optimize import brentq, minimize
from scipy.sparse import csr_array
from scipy.special import expit, logit

import mogp
from mogp.book.methods import LabelMethod
from mogp.data.labels import LabelData
from mogp.inducing import InducingPoints, kmeans_points
from mogp.likelihoods import BernoulliLabels
from mogp.models import LabelMOGP, label_blocks, mlgpf
from mogp.optimizers import LBFGS, Adam
from mogp.posteriors import Full
from mogp.priors import ICM, Independent

N, D, K, P, M = 12, 4, 5, 3, 4
KERNELS = ("LINEAR", "LINEAR-l", "SE", "SE-p-l", "ARD", "ARD/LINEAR")


def made(sparse: bool = False) -> LabelData:
    """Twelve points: the first without a label, the second with all; the last label is nobody else's."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.7)
    Y = (rng.random((N, K)) < 0.3).astype(int)
    X[:, 0] += 0.3
    Y[:, -1] = 0
    Y[0], Y[1] = 0, 1
    return LabelData.of(csr_array(X) if sparse else X, Y, normalise=True)


@pytest.fixture(scope="module")
def data() -> LabelData:
    return made()


def build(method: str, data: LabelData, rank: int = 3, **options) -> LabelMOGP:
    """The variant of a name; `rank` is the dimension of the subspace of those that have one."""
    chosen = LabelMethod.parse(method)
    more = {"subspace_dim": rank} if chosen.subspace else {}
    return mlgpf(data, **chosen.options, **more, **{"latents": P, "inducing": M, "seed": 1, **options})


def signs(data: LabelData) -> np.ndarray:
    return 2.0 * data.Y.toarray() - 1


def trainable_numbers(model: LabelMOGP) -> int:
    return sum(int(np.prod(v.shape)) for v in model.trainable_variables)


# ------------------------------------------------------------------------------------------------- the bound


def test_the_bound_is_that_of_gpflow_with_the_bias_added_after_mixing(data):
    """Panos 7.10, for one kernel of all factors: GPflow's Bernoulli has twenty nodes and a logistic link here."""
    model = build("ARD", data, nodes=20)
    kernel, Phi, b = model.prior.kernels.kernels[0], np.asarray(model.prior.W), np.asarray(model.prior.bias)
    theirs = gpflow.models.SVGP(
        kernel=gpflow.kernels.LinearCoregionalization([kernel] * P, W=Phi),
        likelihood=gpflow.likelihoods.Bernoulli(invlink=tf.sigmoid),
        inducing_variable=gpflow.inducing_variables.SharedIndependentInducingVariables(
            gpflow.inducing_variables.InducingPoints(np.asarray(model.inducing.inputs))
        ),
        num_latent_gps=P,
        whiten=False,
        mean_function=gpflow.functions.Constant(b),
        q_mu=np.asarray(model.posterior.q_mu),
        q_sqrt=np.asarray(model.posterior.q_sqrt),
    )
    Y = tf.constant(data.Y.toarray(), tf.float64)
    np.testing.assert_allclose(model.elbo(data), theirs.elbo((tf.constant(data.X), Y)), rtol=1e-8)
    for ours, other in zip(model.predict_f(data.X), theirs.predict_f(data.X), strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-7, atol=1e-9)


def test_with_a_factor_for_each_label_it_is_a_binary_classifier_for_each_label(data):
    """Panos 10.7."""
    model = build("SE", data, latents=K, nodes=20)
    model.prior.W.assign(np.eye(K))
    model.prior.bias.assign(np.zeros(K))
    kernel, Z = model.prior.kernels.kernels[0], np.asarray(model.inducing.inputs)
    total = 0.0
    for k in range(K):
        one = gpflow.models.SVGP(
            kernel,
            gpflow.likelihoods.Bernoulli(invlink=tf.sigmoid),
            gpflow.inducing_variables.InducingPoints(Z),
            whiten=False,
            q_mu=np.asarray(model.posterior.q_mu)[:, k : k + 1],
            q_sqrt=np.asarray(model.posterior.q_sqrt)[k : k + 1],
        )
        total += float(one.elbo((data.X, data.Y.toarray()[:, [k]].astype(float))))
    np.testing.assert_allclose(model.elbo(data), total, rtol=1e-8)


def test_without_loadings_the_bound_is_the_entropy_of_the_labels(data):
    """Panos 10.5 and 10.6."""
    model = build("SE", data, whiten=True)
    model.prior.W.assign(np.zeros((K, P)))
    model.posterior.q_mu.assign(np.zeros((M, P)))
    model.posterior.q_sqrt.assign(np.tile(np.eye(M), (P, 1, 1)))
    share = data.counts / N
    model.prior.bias.assign(logit(share))
    entropy = -(share * np.log(share) + (1 - share) * np.log1p(-share)).sum()
    np.testing.assert_allclose(model.elbo(data), -N * entropy, rtol=1e-9)
    model.prior.bias.assign(np.zeros(K))
    np.testing.assert_allclose(model.elbo(data), -N * K * np.log(2), rtol=1e-9)


def test_the_order_and_the_signs_of_factors_do_not_matter(data):
    """Panos 10.9."""
    for method in ("SE", "SE-PP"):
        model = build(method, data)
        before = float(model.elbo(data))
        order, sign = np.array([2, 0, 1]), np.array([1.0, -1.0, -1.0])
        model.prior.W.assign(np.asarray(model.prior.W)[:, order] * sign)
        posterior = model.posterior
        if isinstance(posterior, Full):
            posterior.q_mu.assign(np.asarray(posterior.q_mu)[:, order] * sign)
            posterior.q_sqrt.assign(np.asarray(posterior.q_sqrt)[order])
        else:
            posterior.mu.assign(np.asarray(posterior.mu)[:, order] * sign)
            posterior.sigma.assign(np.asarray(posterior.sigma)[:, order])
        np.testing.assert_allclose(model.elbo(data), before, rtol=1e-12)


def test_utilities_have_the_covariance_of_the_coregionalisation_prior(data):
    """Panos 10.8: draws at q = p against k(x, x') ΦΦ'."""
    model = build("SE", data, whiten=True)
    model.posterior.q_mu.assign(np.zeros((M, P)))
    model.posterior.q_sqrt.assign(np.tile(np.eye(M), (P, 1, 1)))
    X, Phi = data.X[2:4], np.asarray(model.prior.W)
    draws = np.asarray(model.predict_f_samples(X, samples=20_000)) - np.asarray(model.prior.bias)
    found = np.einsum("snj,smk->njmk", draws, draws) / len(draws)
    kernel = model.prior.kernels.kernels[0](X).numpy()
    expected = np.einsum("nm,jk->njmk", kernel, Phi @ Phi.T)
    variance = np.einsum("njnj->nj", expected)
    error = np.sqrt((np.einsum("nj,mk->njmk", variance, variance) + expected**2) / len(draws))
    assert np.abs((found - expected) / error).max() < 5
    np.testing.assert_allclose(model.prior.coregionalisation()[0], Phi @ Phi.T, rtol=1e-12)


def test_parsimonious_and_full_posteriors_with_equal_moments_have_equal_bounds(data):
    """Panos 10.10, and 10.12: the parsimonious one with more points than inputs, where Kuu is singular."""
    with gpflow.config.as_context(gpflow.config.Config(jitter=0.0)):
        parsimonious, full = build("SE-PP", data), build("SE", data)
        m, S = parsimonious.posterior.moments(parsimonious.factors())
        full.posterior.q_mu.assign(tf.transpose(m))
        full.posterior.q_sqrt.assign(tf.linalg.cholesky(S))
        full.prior.W.assign(parsimonious.prior.W)
        np.testing.assert_allclose(full.elbo(data), parsimonious.elbo(data), rtol=1e-9)
    singular = build("LINEAR-PP", data, inducing=9)
    assert np.linalg.matrix_rank(singular.inducing.Kuu(singular.prior.kernels)[0]) == D
    with tf.GradientTape() as tape:
        loss = singular.training_loss(data)
    assert all(np.isfinite(tf.convert_to_tensor(g)).all() for g in tape.gradient(loss, singular.trainable_variables))


def test_the_parsimonious_posterior_is_optimal_where_inducing_inputs_are_the_data():
    """Panos 10.13 and 7.8: the two optima agree, and the stationary values are those of the proposition."""
    rng = np.random.default_rng(3)
    small = LabelData.of(rng.normal(size=(4, 2)), rng.integers(0, 2, size=(4, 3)))
    bounds = {}
    with gpflow.config.as_context(gpflow.config.Config(jitter=1e-12)):
        for method in ("SE-PP", "SE"):
            model = build(method, small, latents=2, inducing=InducingPoints(small.X), seed=2)
            set_trainable(model, False)
            set_trainable(model.posterior, True)
            tight = LBFGS({"ftol": 1e-15, "gtol": 1e-9})
            mogp.fit(model, small, optimizer=tight, steps=2000, progress=False)
            bounds[method] = float(model.elbo(small))
            if method == "SE-PP":
                Phi, f = np.asarray(model.prior.W), model.predict_f(small.X)
                x, w = np.polynomial.hermite_e.hermegauss(10)
                F = np.asarray(f.mean)[..., None] + np.sqrt(f.var)[..., None] * x
                w, y = w / w.sum(), signs(small)
                slope = y * (expit(-y[..., None] * F) @ w)
                bend = (expit(F) * expit(-F)) @ w
                np.testing.assert_allclose(model.posterior.mu, slope @ Phi, atol=1e-4)
                np.testing.assert_allclose(1 / np.asarray(model.posterior.sigma), bend @ Phi**2, rtol=2e-3)
    np.testing.assert_allclose(bounds["SE-PP"], bounds["SE"], rtol=1e-6)


def test_kernels_with_equal_weights_are_isotropic_and_inputs_without_weight_are_ignored(data):
    """Panos 10.27."""
    for weighted, plain in (("ARD", "SE"), ("LINEAR-l", "LINEAR")):
        np.testing.assert_allclose(build(weighted, data).elbo(data), build(plain, data).elbo(data), rtol=1e-9)
    model = build("ARD", data)
    model.prior.kernels.kernels[0].lengthscales.assign([0.7, 0.7, 1e6, 0.7])
    changed = data.X.copy()
    changed[:, 2] += 1.0
    np.testing.assert_allclose(model.scores(changed), model.scores(data.X), rtol=1e-6)


def test_only_the_directions_of_inducing_inputs_count_unless_they_are_free(data):
    """Panos 10.28."""
    for method, same in (("SE", True), ("LINEAR-S", True), ("SE-UN", False)):
        model = build(method, data, rank=3)
        before = float(model.elbo(data))
        points = model.inducing.A if "S" in method.split("-")[1:] else model.inducing.Z
        points.assign(np.asarray(points) * np.array([[2.0], [0.5], [3.0], [1.0]]))
        assert (abs(float(model.elbo(data)) / before - 1) < 1e-7) == same


# ------------------------------------------------------------------------------------------------- sparse inputs


@pytest.mark.parametrize("method", [*KERNELS, "SE-S", "LINEAR-S-B", "ARD-S-PP", "SE-UN-PP"])
def test_sparse_inputs_have_the_bound_the_gradients_and_the_predictions_of_dense_ones(method, data):
    """Panos 10.25."""
    sparse = made(sparse=True)
    model, other = build(method, data, rank=3), build(method, sparse, rank=3)
    multiple_assign(other, read_values(model))
    if "S" in method.split("-")[1:]:
        other.inducing.basis = model.inducing.basis
    found = []
    for one, own in ((model, data), (other, sparse)):
        with tf.GradientTape() as tape:
            bound = one.elbo(own)
        gradients = tape.gradient(bound, one.trainable_variables)
        known = np.eye(N, K)
        found.append(
            [
                bound,
                *(tf.convert_to_tensor(g) for g in gradients),
                one.scores(own.X),
                one.predict_proba(own.X),
                one.log_odds(own.X),
                one.top_labels(own.X, 2).scores,
                one.given_labels(own.X, known),
                one.predict_log_density(own)["labels"],
                one.predict_f(own.X).var,
            ]
        )
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-7)


def test_every_question_can_be_asked_with_sparse_points():
    data = made(sparse=True)
    model = build("SE", data)
    table, dense = model.predict(data.X, samples=50), model.predict(data.X.toarray(), samples=50)
    assert len(table) == N * K
    np.testing.assert_allclose(table["mean"], dense["mean"], rtol=1e-9)
    draws = model.predict_y_samples(data.X, "labels", samples=7)
    assert draws.shape == (7, N, K)
    np.testing.assert_array_equal(draws, model.predict_y_samples(data.X.toarray(), "labels", samples=7))


# ------------------------------------------------------------------------------------------------- batches and sampling


def gradients(model: LabelMOGP, loss) -> tuple[float, list[np.ndarray]]:
    with tf.GradientTape() as tape:
        value = loss()
    return float(value), [tf.convert_to_tensor(g).numpy() for g in tape.gradient(value, model.trainable_variables)]


def test_the_mean_over_all_batches_is_the_bound_with_its_gradient(data):
    """Panos 10.19: all pairs of the first four points."""
    four = data.take(np.arange(4))
    model = build("ARD", four, inducing=3)
    whole = gradients(model, lambda: model.elbo(four))
    np.testing.assert_allclose(model.elbo(four.full()), whole[0], rtol=1e-12)
    parts = []
    for pair in combinations(range(4), 2):
        batch = four.take(np.array(pair)).full()
        own = batch.outputs[0]
        batch = batch._replace(outputs=(own._replace(weight=own.weight * 2),))
        parts.append(gradients(model, lambda b=batch: model.elbo(b)))
    np.testing.assert_allclose(np.mean([p[0] for p in parts]), whole[0], rtol=1e-10)
    for ours, theirs in zip(zip(*(p[1] for p in parts), strict=True), whole[1], strict=True):
        np.testing.assert_allclose(np.mean(ours, axis=0), theirs, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("shared", [True, False])
def test_with_sampled_labels_only_rows_that_a_batch_reads_have_gradients_and_move(shared):
    rng = np.random.default_rng(0)
    many = 60
    data = LabelData.of(rng.normal(size=(8, 3)), [[n, 59 - n] for n in range(8)], labels=many)
    model = mlgpf(data, kernel="se", latents=2, inducing=3, negatives=4, shared_negatives=shared)
    batch = data.batches(2)(0)
    with tf.GradientTape() as tape:
        loss = model.training_loss(batch)
    W, bias = model.prior.W.unconstrained_variable, model.prior.bias.unconstrained_variable
    slopes = tape.gradient(loss, [W, bias])
    assert all(isinstance(slope, tf.IndexedSlices) for slope in slopes)
    rows = np.unique(slopes[0].indices)
    assert set(np.asarray(batch.outputs[0].Y.label)) <= set(rows)
    assert len(rows) <= (2 * 2 + 4 if shared else 2 * 2 + 2 * 4)
    assert set(rows) == set(np.asarray(slopes[1].indices))

    optimizer = Adam(0.1, lazy=True)
    optimizer.start(model)
    before = {v.ref(): v.numpy() for v in (W, bias)}
    model.likelihood.likelihoods[0].generator.reset_from_seed(0)
    optimizer.step(model, lambda: model.training_loss(batch))
    for variable in (W, bias):
        moved = np.flatnonzero((variable.numpy() != before[variable.ref()]).reshape(many, -1).any(1))
        assert set(moved) == set(rows)
        place = next(i for i, v in enumerate(optimizer._trained) if v is variable)
        for moment in (optimizer._m[place], optimizer._v[place]):
            assert set(np.flatnonzero(moment.numpy().reshape(many, -1).any(1))) == set(rows)


def test_a_run_with_sampled_labels_continues_as_if_it_had_not_stopped(data, tmp_path):
    def run(steps: int, checkpoint=None) -> tuple[LabelMOGP, mogp.History]:
        model = build("SE", data, negatives=2)
        options = {"optimizer": Adam(0.05, lazy=True), "batch_size": 5, "seed": 3, "progress": False}
        return model, mogp.fit(model, data, steps=steps, checkpoint=checkpoint, **options)

    whole, history = run(6)
    run(3, tmp_path / "run")
    model, resumed = run(6, tmp_path / "run")
    np.testing.assert_array_equal(resumed.elbo, history.elbo)
    for a, b in zip(model.trainable_variables, whole.trainable_variables, strict=True):
        np.testing.assert_array_equal(a, b)


def test_training_raises_the_bound_above_what_frequencies_alone_give(data):
    """Panos 10.5."""
    share = data.counts / N
    entropy = -(share * np.log(share) + (1 - share) * np.log1p(-share)).sum()
    model = build("ARD", data)
    history = mogp.fit(model, data, steps=300, optimizer=Adam(0.05), progress=False)
    assert history.status == "finished"
    assert float(model.elbo(data)) > -N * entropy


def test_gpflow_minimises_it_and_prints_it(data, capsys):
    model = build("SE", data)
    before = float(model.elbo(data))
    gpflow.optimizers.Scipy().minimize(
        lambda: model.training_loss(data),
        model.trainable_variables,
        options={"maxiter": 3},
        tf_fun_args={"autograph": False},
    )
    assert float(model.elbo(data)) > before
    print_summary(model)
    assert "LabelMOGP.prior.W" in capsys.readouterr().out


@pytest.mark.parametrize("method", ["ARD", "SE-S-PP", "LINEAR-S-B"])
def test_a_saved_model_says_the_same(method, data, tmp_path):
    model = build(method, data, rank=3, negatives=2)
    again = mogp.load(mogp.save(model, tmp_path / "labels.mogp"))
    np.testing.assert_array_equal(again.scores(data.X), model.scores(data.X))
    np.testing.assert_array_equal(again.elbo(data), model.elbo(data))
    np.testing.assert_array_equal(again.elbo(data.full()), model.elbo(data.full()))


@pytest.mark.usefixtures("float32")
@pytest.mark.parametrize("method", ["ARD/LINEAR", "SE-S-PP"])
def test_single_precision_is_kept_from_inputs_to_predictions(method):
    data = made(sparse=True)
    model = build(method, data, rank=3, negatives=2)
    with tf.GradientTape() as tape:
        loss = model.training_loss(data.batches(5)(0))
    assert loss.dtype == tf.float32
    for g in tape.gradient(loss, model.trainable_variables):
        assert g.dtype == tf.float32
        assert np.isfinite(tf.convert_to_tensor(g)).all()
    assert model.predict_f(data.X).mean.dtype == tf.float32
    for table in (model.scores(data.X), model.predict_proba(data.X), model.given_labels(data.X, np.eye(N, K))):
        assert np.isfinite(table).all()


# ------------------------------------------------------------------------------------------------- predictions


def test_scores_and_rankings_are_the_mean_utilities(data):
    for method, whiten in (("ARD", False), ("ARD", True), ("SE-p-l", False), ("SE-PP", False), ("ARD-S", False)):
        model = build(method, data, rank=3, whiten=whiten)
        mean = np.asarray(model.predict_f(data.X).mean)
        np.testing.assert_allclose(model.scores(data.X), mean, rtol=1e-7, atol=1e-9)
        ranking = model.top_labels(data.X, 3)
        np.testing.assert_array_equal(ranking.labels, np.argsort(-mean, axis=1, kind="stable")[:, :3])
        np.testing.assert_allclose(ranking.scores, -np.sort(-mean, axis=1)[:, :3], rtol=1e-7, atol=1e-9)


def test_answers_do_not_depend_on_the_size_of_blocks(data, monkeypatch):
    model = build("ARD", data)
    known = np.where(np.arange(K) < 3, signs(data), 0)

    def answers() -> list[np.ndarray]:
        table = [model.scores(data.X), model.predict_proba(data.X), model.log_odds(data.X)]
        table.append(model.given_labels(data.X, known))
        return [*table, *model.top_labels(data.X, 2), model.predict_log_density(data)["labels"], model.elbo(data)]

    whole = answers()
    for name, least in (("NUMBERS_AT_ONCE", 2 * P * M), ("_LABELS_AT_ONCE", 2)):
        monkeypatch.setattr(label_blocks, name, least)
    for a, b in zip(whole, answers(), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-11)


@pytest.mark.parametrize("k", [1, 2, 5, 300])
@pytest.mark.parametrize("labels", [300, 2000])
def test_the_best_labels_are_those_of_a_stable_sort_of_all_scores(labels, k, monkeypatch):
    """Whole numbers, of which many are equal: the first of equal ones is the better one."""
    for name, least in (("NUMBERS_AT_ONCE", 3000), ("_LABELS_AT_ONCE", 900)):
        monkeypatch.setattr(label_blocks, name, least)
    rng = np.random.default_rng(k)
    Phi, b, h = (rng.integers(-2, 3, shape) for shape in ((labels, 2), (labels,), (7, 2)))
    prior = ICM(gpflow.kernels.SquaredExponential(), labels, 2, Phi.astype(float), b.astype(float))
    found = label_blocks.best_labels(prior, tf.constant(h, tf.float64), k)
    scores = h @ Phi.T + b
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(found.labels, order)
    np.testing.assert_array_equal(found.scores, np.take_along_axis(scores, order, 1))


def test_the_best_of_very_many_labels_are_those_of_the_plain_formula():
    rng = np.random.default_rng(0)
    Phi, b, h = rng.normal(size=(30_000, 3)), rng.normal(size=30_000), rng.normal(size=(9, 3))
    prior = ICM(gpflow.kernels.SquaredExponential(), len(Phi), 3, Phi, b)
    found = label_blocks.best_labels(prior, tf.constant(h), 5)
    scores = h @ Phi.T + b
    np.testing.assert_array_equal(found.labels, np.argsort(-scores, axis=1)[:, :5])
    np.testing.assert_allclose(found.scores, -np.sort(-scores, axis=1)[:, :5], rtol=1e-12)


@pytest.mark.parametrize("method", ["ARD", "SE-S", "ARD-S-B"])
def test_a_step_normalises_the_inducing_inputs_once(method, data):
    model = build(method, data)
    batch = data.batches(4)(0)
    graph = tf.function(lambda: model.training_loss(batch), autograph=False).get_concrete_function().graph
    assert sum(op.type == "Rsqrt" for op in graph.get_operations()) == 1


def test_log_odds_and_densities_are_those_of_the_probabilities(data):
    model = build("ARD", data)
    p = model.predict_proba(data.X)
    np.testing.assert_allclose(model.log_odds(data.X), logit(p), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(p, model.predict_y(data.X)[0], rtol=1e-12)
    density = np.log(np.where(data.Y.toarray(), p, 1 - p)).sum(1)
    np.testing.assert_allclose(model.predict_log_density(data)["labels"], density, rtol=1e-10)


def test_no_points_have_no_answers(data):
    model, none = build("ARD", data), np.empty((0, D))
    assert model.scores(none).shape == model.predict_proba(none).shape == (0, K)
    assert model.given_labels(none, np.empty((0, K))).shape == (0, K)
    assert model.top_labels(none, 2).labels.shape == (0, 2)


def test_one_hot_classes_are_ranked_by_their_first_label(data):
    """Panos 10.33: with one label a point, P@1 is the accuracy of the best score."""
    classes = np.arange(N) % K
    one_hot = LabelData.of(data.X, [[c] for c in classes])
    assert (np.diff(one_hot.Y.indptr) == 1).all()
    model = build("SE", one_hot)
    scores = model.scores(data.X)
    accuracy = (scores.argmax(1) == classes).mean()
    assert mogp.metrics.precision_at(one_hot.Y, scores, 1) == pytest.approx(accuracy)


# ------------------------------------------------------------------------------------------------- some labels known


def moments(model: LabelMOGP, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Means and variances `[N, P]` of the factors, loadings and biases."""
    m, s = (np.asarray(a).T for a in model.condition(tf.constant(X)).latents())
    return m, s, np.asarray(model.prior.W), np.asarray(model.prior.bias)


def test_the_most_probable_factors_minimise_the_printed_objective(data):
    model = build("ARD", data)
    model.prior.W.assign(3 * np.asarray(model.prior.W))
    known = np.array([[1, -1, 0, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, -1], [-1, 1, -1, 0, 0]])
    m, s, Phi, b = moments(model, data.X[:4])
    found = model.given_labels(data.X[:4], csr_array(known))
    for n, y in enumerate(known):
        o = np.flatnonzero(y)

        def objective(h, y=y, o=o, n=n):
            return np.logaddexp(0, -y[o] * (Phi[o] @ h + b[o])).sum() + 0.5 * ((h - m[n]) ** 2 / s[n]).sum()

        best = minimize(objective, m[n], method="BFGS", options={"gtol": 1e-9}).x
        np.testing.assert_allclose(found[n], Phi @ best + b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sign", [1, -1])
def test_one_known_label_is_a_scalar_equation(data, sign):
    """Panos 10.30."""
    model = build("ARD", data)
    model.prior.W.assign(4 * np.asarray(model.prior.W))
    o, known = 2, np.zeros((N, K))
    known[:, o] = sign
    m, s, Phi, b = moments(model, data.X)
    f, v = m @ Phi.T + b, (s * Phi[o] ** 2).sum(1)
    root = [
        brentq(lambda t, n=n: t - f[n, o] - sign * v[n] * expit(-sign * t), -200, 200, xtol=1e-13) for n in range(N)
    ]
    expected = f + (s * Phi[o]) @ Phi.T * (sign * expit(-sign * np.array(root)))[:, None]
    np.testing.assert_allclose(model.given_labels(data.X, known), expected, rtol=1e-9, atol=1e-10)


def test_what_is_unrelated_to_a_known_label_stays_and_nothing_known_changes_nothing(data):
    """Panos 10.30: label 3 is made orthogonal to label 2 in the metric of the variances at the first point."""
    model = build("ARD", data)
    _, s, Phi, _ = moments(model, data.X[:1])
    Phi[3] -= Phi[2] * (Phi[3] * s[0] * Phi[2]).sum() / (Phi[2] * s[0] * Phi[2]).sum()
    model.prior.W.assign(Phi)
    known = np.zeros((1, K))
    np.testing.assert_allclose(model.given_labels(data.X[:1], known), model.scores(data.X[:1]), rtol=1e-8)
    known[0, 2] = 1
    change = model.given_labels(data.X[:1], known) - model.scores(data.X[:1])
    assert abs(change[0, 3]) < 1e-8
    assert np.abs(change[0, [0, 1, 2, 4]]).min() > 1e-4


def test_far_and_contradictory_labels_converge(data):
    """Newton's method from a bad start: large loadings, labels that the model is sure are not there."""
    model = build("ARD", data)
    model.prior.W.assign(30 * np.asarray(model.prior.W))
    model.prior.bias.assign(np.full(K, -200.0))
    m, s, Phi, b = moments(model, data.X)
    found = model.given_labels(data.X, np.ones((N, K)))
    h = np.linalg.lstsq(Phi, (found - b).T, rcond=None)[0].T
    slope = (expit(-found) @ Phi) - (h - m) / s
    np.testing.assert_allclose(slope, 0, atol=1e-5 * np.abs((h - m) / s).max())


def test_priors_without_loadings_or_biases_can_be_asked_too(data):
    model = LabelMOGP(
        Independent(gpflow.kernels.SquaredExponential(), K),
        kmeans_points(data, M),
        BernoulliLabels(K),
        names=["labels"],
    )
    known = np.zeros((N, K))
    known[:, 0] = 1
    change = model.given_labels(data.X, known) - model.scores(data.X)
    assert (change[:, 0] > 0.1).all()
    np.testing.assert_allclose(change[:, 1:], 0, atol=1e-12)


# ------------------------------------------------------------------------------------------------- choices


def test_the_random_start_draws_biases_and_the_other_takes_them_from_the_data(data):
    drawn = np.asarray(build("SE", data, start="random").prior.bias)
    expected = logit((data.counts + 0.5) / (N + 1))
    np.testing.assert_allclose(build("SE", data).prior.bias, expected, rtol=1e-12)
    assert np.abs(drawn - expected).max() > 0.1
    posterior = build("SE", data).posterior
    np.testing.assert_array_equal(posterior.q_sqrt, np.tile(0.2 * np.eye(M), (P, 1, 1)))
    weight = build("SE", data, lengthscale=2**0.5).prior.kernels.kernels[0].lengthscales
    np.testing.assert_allclose(weight, 2**0.5)


@pytest.mark.parametrize("shared_kernel", [True, False])
def test_a_kernel_of_gpflow_serves_all_latent_gps_or_each_has_its_copy(shared_kernel, data):
    chosen = gpflow.kernels.Matern32(lengthscales=0.4)
    model = mlgpf(data, latents=P, inducing=M, kernel=chosen, shared_kernel=shared_kernel)
    own = model.prior.kernels.kernels
    assert len(own) == (1 if shared_kernel else P)
    assert all(isinstance(one, gpflow.kernels.Matern32) and one is not chosen for one in own)
    assert model.prior.num_latents == P
    assert np.isfinite(model.elbo(data))


# ------------------------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"train_basis": True}, "say of how many dimensions their subspace is, as subspace_dim=250"),
        ({"subspace_dim": 9}, "have 1 to 4 singular vectors"),
        ({"latents": 0}, "at least one latent GP"),
        ({"inducing": 0}, "at least 1 is needed"),
        ({"start": "zero"}, "choose 'data' or 'random'"),
        ({"posterior": "diagonal"}, "choose 'full' or 'parsimonious'"),
        ({"kernel": "RBF"}, "choose one of ard, se, linear"),
        ({"negatives": 0}, "negatives=0"),
    ],
)
def test_models_that_cannot_be_built_say_why(options, problem, data):
    with pytest.raises(ValueError, match=problem):
        mlgpf(data, **{"kernel": "se", "latents": P, "inducing": M, **options})


def test_questions_that_make_no_sense_say_why(data):
    model = build("SE", data)
    for k in (0, K + 1):
        with pytest.raises(ValueError, match=f"k={k} of {K} labels"):
            model.top_labels(data.X, k)
    spoiled = data.X.copy()
    spoiled[0, 0] = np.nan
    for ask in (model.scores, model.predict_proba, model.top_labels, model.log_odds):
        with pytest.raises(ValueError, match="1 entries that are NaN"):
            ask(spoiled)
        with pytest.raises(ValueError, match=r"expected \[N, 4\]"):
            ask(np.ones((3, D + 1)))
    with pytest.raises(ValueError, match=r"known has shape \(12, 4\); expected \(12, 5\)"):
        model.given_labels(data.X, np.zeros((N, K - 1)))
    with pytest.raises(ValueError, match=r"known has entries \[2"):
        model.given_labels(data.X, np.full((N, K), 2))


def test_data_of_another_kind_or_size_are_refused_before_training(data):
    model = build("SE", data)
    with pytest.raises(ValueError, match="has 6 labels, the likelihood 5"):
        mogp.fit(model, LabelData.of(data.X, np.zeros((N, 6))), steps=1)
    with pytest.raises(ValueError, match=r"5 input columns .*, the model has 4"):
        mogp.fit(model, LabelData.of(np.ones((N, 5)), data.Y), steps=1)
    table = mogp.MultiOutputData.from_arrays(data.X, np.zeros(N), names=["labels"])
    with pytest.raises(ValueError, match=r"build the data with mogp\.LabelData\.of"):
        mogp.fit(model, table, steps=1)


def test_one_label_and_batches_larger_than_the_data_work(data):
    one = LabelData.of(data.X, data.Y.toarray()[:, :1])
    model = build("SE", one, negatives=3)
    history = mogp.fit(model, one, steps=2, batch_size=500, progress=False)
    assert np.isfinite(history.elbo).all()
    np.testing.assert_allclose(history.elbo[0], build("SE", one).elbo(one), rtol=1e-12)
    assert model.top_labels(data.X, 1).labels.shape == (N, 1)


def test_it_cites_the_thesis(data):
    assert "panos2019thesis" in mogp.cite(build("SE", data))
