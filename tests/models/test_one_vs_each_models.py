"""One-vs-each and robust-max models: enumeration, dense formulas, and what a step may touch."""

from __future__ import annotations

from itertools import combinations, product

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from eager import eagerly
from scipy import special

import mogp
from mogp.book.methods import CLASS_METHODS
from mogp.data import MultiOutputData
from mogp.data.batches import Batch
from mogp.data.class_batches import ClassBatch, ClassBatches
from mogp.inducing import InducingPoints
from mogp.likelihoods import OneVsEach
from mogp.models import LinearOneVsEach, OneVsEachMOGP, ovse, ovse_linear, robust_max
from mogp.models.multiclass import class_points
from mogp.optimizers import Adam
from mogp.posteriors import Full, Parsimonious
from mogp.priors import Independent

METHODS = ("OvsE-P", "OvsE-F", "OvsE-P-SH", "OvsE-F-SH")
COUNTS = (2, 3, 4)


@pytest.fixture(scope="module")
def data() -> MultiOutputData:
    """Nine rows of three classes, of which there are 2, 3 and 4."""
    rng = np.random.default_rng(0)
    return MultiOutputData.from_arrays(rng.normal(size=(9, 2)), np.repeat([0.0, 1, 2], COUNTS), names=["y"])


def many(classes: int, each: int = 4, seed: int = 1) -> MultiOutputData:
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(classes), each)).astype(float)
    return MultiOutputData.from_arrays(rng.normal(size=(len(labels), 2)) + labels[:, None] / 5, labels, names=["y"])


def named(data, method, **options):
    """The model that the thesis has under this name."""
    make = robust_max if method.startswith("RM") else ovse
    return make(data, **CLASS_METHODS[method], **options, scaling=None)


def ready(data, method, randomise, inducing=2, **options) -> OneVsEachMOGP:
    model = named(data, method, inducing=inducing, lengthscale=1.3, variance=1.7, **options)
    randomise(model, 4)
    rng = np.random.default_rng(5)
    model.prior.bias.assign(rng.normal(size=model.num_classes))
    if method == "OvsE-P-SH":
        model.prior.kernels.form.lengthscales.assign(rng.uniform(0.8, 1.6, model.num_classes))
        model.prior.kernels.form.variance.assign(rng.uniform(0.8, 1.6, model.num_classes))
    return model


def of_rows(data: MultiOutputData, classes: tuple[int, ...], rows) -> ClassBatch:
    C, N_k = 3, COUNTS[classes[0]]
    weight = (C - 1) / (len(classes) - 1) * N_k / len(rows)
    return ClassBatch(tf.constant(data.X[list(rows)]), tf.constant(classes, tf.int64), tf.constant(weight, tf.float64))


def value_and_gradients(model, data) -> list[np.ndarray]:
    with tf.GradientTape() as tape:
        value = model.elbo(data)
    gradients = tape.gradient(value, model.trainable_variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return [value.numpy(), *(tf.convert_to_tensor(g).numpy() for g in gradients)]


# ----------------------------------------------------------------------------------------------------- the bound


@pytest.mark.parametrize("method", METHODS)
def test_the_bound_is_that_of_dense_marginals_and_textbook_divergences(data, method, randomise, dense):
    model = ready(data, method, randomise)
    mean, cov = dense(model, data.X)
    var = np.einsum("njnj->nj", cov)
    points, weights = np.polynomial.hermite_e.hermegauss(10)
    labels, total = data.outputs[0].Y[:, 0].astype(int), 0.0
    for n, k in enumerate(labels):
        for rival in set(range(3)) - {k}:
            d, s = mean[n, k] - mean[n, rival], var[n, k] + var[n, rival]
            total += weights @ special.log_expit(d + np.sqrt(s) * points) / weights.sum()
    factors = model.factors()
    m, S = (a.numpy() for a in model.posterior.moments(factors))
    jitter = 0.0 if "-P" in method else gpflow.default_jitter()
    K = np.broadcast_to(factors.Kuu.numpy() + jitter * np.eye(2), (3, 2, 2))
    for m_k, S_k, K_k in zip(m, S, K, strict=True):
        inverse = np.linalg.inv(K_k)
        log_ratio = np.linalg.slogdet(K_k)[1] - np.linalg.slogdet(S_k)[1]
        total -= 0.5 * (m_k @ inverse @ m_k + np.trace(inverse @ S_k) + log_ratio - 2)
    np.testing.assert_allclose(model.elbo(data), total, rtol=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_the_step_is_unbiased_over_all_classes_rivals_and_batches_and_so_is_its_gradient(data, method, randomise):
    model = ready(data, method, randomise)
    labels = data.outputs[0].Y[:, 0]
    estimates = []
    for k, rival in product(range(3), range(3)):
        if k == rival:
            continue
        batches = list(combinations(np.flatnonzero(labels == k), 2))
        estimates.append([value_and_gradients(model, of_rows(data, (k, rival), rows)) for rows in batches])
    within = [[np.mean(parts, 0) for parts in zip(*some, strict=True)] for some in estimates]
    found = [np.mean(parts, 0) for parts in zip(*within, strict=True)]
    for part, truth in zip(found, value_and_gradients(model, data), strict=True):
        np.testing.assert_allclose(part, truth, rtol=1e-9, atol=1e-10)


def test_the_linear_step_is_unbiased_over_all_classes_rivals_and_batches_and_so_is_its_gradient(data, rng):
    model = ovse_linear(data, penalty=0.7, scaling=None)
    model.weights.assign(rng.normal(size=(3, 2)))
    model.bias.assign(rng.normal(size=3))
    labels = data.outputs[0].Y[:, 0]
    found = []
    for k, rival in [(k, r) for k, r in product(range(3), range(3)) if k != r]:
        batches = list(combinations(np.flatnonzero(labels == k), 2))
        each = [value_and_gradients(model, of_rows(data, (k, rival), rows)) for rows in batches]
        found.append([np.mean(parts, 0) for parts in zip(*each, strict=True)])
    F = data.X @ model.weights.numpy().T + model.bias.numpy()
    exact = sum(special.log_expit(F[n, int(k)] - np.delete(F[n], int(k))).sum() for n, k in enumerate(labels))
    exact -= 0.35 * (model.weights.numpy() ** 2).sum()
    np.testing.assert_allclose(model.elbo(data), exact, rtol=1e-12)
    for part, truth in zip(zip(*found, strict=True), value_and_gradients(model, data), strict=True):
        np.testing.assert_allclose(np.mean(part, 0), truth, rtol=1e-9, atol=1e-10)


def test_several_rivals_estimate_the_same_bound(data, randomise):
    model = ready(data, "OvsE-F", randomise, rivals=2)
    labels = data.outputs[0].Y[:, 0]
    whole = [
        model.elbo(of_rows(data, (k, *sorted({0, 1, 2} - {k})), np.flatnonzero(labels == k))).numpy() for k in range(3)
    ]
    np.testing.assert_allclose(np.mean(whole), model.elbo(data), rtol=1e-10)


@pytest.mark.parametrize("whiten", [True, False])
def test_full_and_parsimonious_models_start_with_the_same_moments_and_bound(data, whiten):
    for parsimonious, full in (("OvsE-P", "OvsE-F"), ("RM-P", "RM-F")):
        with gpflow.config.as_context(gpflow.config.Config(jitter=1e-12)):
            one, other = (
                named(data, method, inducing=2, lengthscale=1.0, sigma=0.6, whiten=whiten)
                for method in (parsimonious, full)
            )
            np.testing.assert_allclose(other.elbo(data), one.elbo(data), rtol=1e-9)
            for a, b in zip(*(m.posterior.moments(m.factors()) for m in (one, other)), strict=True):
                np.testing.assert_allclose(b, a, atol=1e-9)


def test_the_bound_is_below_that_of_the_softmax_for_the_same_posterior(data, randomise):
    model = ready(data, "OvsE-F", randomise)
    f = model.predict_f(data.X)
    F = f.mean.numpy() + np.sqrt(f.var.numpy()) * np.random.default_rng(1).normal(size=(100_000, 9, 3))
    labels = data.outputs[0].Y[:, 0].astype(int)
    draws = special.log_softmax(F, axis=-1)[:, np.arange(9), labels].sum(-1)
    softmax = draws.mean() - float(model.kl())
    assert float(model.elbo(data)) < softmax - 5 * draws.std() / np.sqrt(len(draws))


def test_two_classes_cost_at_least_the_divergence_of_one_gp_on_their_difference(randomise):
    """With prior 2k on f_0 - f_1 the data term is the same, and one divergence replaces two that are no smaller."""
    two = many(2)
    model = ready(two, "OvsE-F-SH", randomise)
    K = model.inducing.Kuu(model.prior.kernels)[0].numpy() + gpflow.default_jitter() * np.eye(2)
    m, S = (a.numpy() for a in model.posterior.moments(model.factors()))
    m, S, inverse = m[0] - m[1], S[0] + S[1], np.linalg.inv(2 * K)
    log_ratio = np.linalg.slogdet(2 * K)[1] - np.linalg.slogdet(S)[1]
    single = 0.5 * (m @ inverse @ m + np.trace(inverse @ S) + log_ratio - 2)
    assert 0 < single < float(model.kl())


# ----------------------------------------------------------------------------------- what a step reads and moves


@pytest.mark.parametrize("method", METHODS)
def test_classes_that_a_step_does_not_name_keep_their_parameters_and_their_moments(method):
    some = many(6)
    model, adam = named(some, method, inducing=3), Adam(0.05, lazy=True)
    adam.start(model)
    source = model.batches(some, 3, seed=2)
    touched = {int(c) for step in range(2) for c in source(step).classes}
    untouched = sorted(set(range(6)) - touched)
    owned = [v for v in model.trainable_variables if v.shape.rank and v.shape[0] == 6]
    everything = [*model.trainable_variables, *adam.variables]
    before = [v.numpy() for v in everything]
    for step in range(2):
        adam.step(model, lambda step=step: model.training_loss(source(step)))
    moved = 0
    for variable, was in zip(everything, before, strict=True):
        if variable.shape.rank and variable.shape[0] == 6:
            now = variable.numpy()
            np.testing.assert_array_equal(now[untouched], was[untouched])
            moved += not np.array_equal(now[sorted(touched)], was[sorted(touched)])
    assert len(untouched) >= 2
    assert len(owned) >= 3
    assert moved >= 3 * len(owned)


@pytest.mark.parametrize("method", METHODS)
def test_a_step_reads_rows_of_what_classes_own_and_never_all_of_it(method):
    some = many(7)
    model = named(some, method, inducing=3)
    source = model.batches(some, 3)

    owned = [v for v in model.trainable_variables if v.shape.rank and v.shape[0] == 7]
    with tf.GradientTape() as tape:
        loss = model.training_loss(source(0))
    assert all(isinstance(g, tf.IndexedSlices) for g in tape.gradient(loss, owned))
    step = tf.function(lambda number: model.training_loss(source(number)), autograph=False)
    graph = step.get_concrete_function(tf.TensorSpec([], tf.int64)).graph
    handles = {v.handle.ref() for v in owned}
    inner = {inside.ref() for outside, inside in graph.captures if outside.ref() in handles}
    reads = [op.type for op in graph.get_operations() if any(i.ref() in inner for i in op.inputs)]
    assert len(inner) == len(owned) >= 3
    assert set(reads) == {"ResourceGather"}


def test_the_linear_model_moves_two_classes_a_step():
    some = many(6)
    model, adam = ovse_linear(some, scaling=None), Adam(0.1, lazy=True)
    adam.start(model)
    batch = model.batches(some, 3)(0)
    adam.step(model, lambda: model.training_loss(batch))
    moved = np.flatnonzero(np.any(model.weights.numpy() != 0, axis=1))
    np.testing.assert_array_equal(moved, np.sort(batch.classes))


# -------------------------------------------------------------------------------------------------- the batches


def test_every_pair_of_classes_and_every_row_comes_equally_often():
    some = many(5, each=6)
    labels = some.outputs[0].Y[:, 0]
    draw = tf.function(ClassBatches(some, 2, seed=7, classes=5), autograph=False)
    pairs, rows = np.zeros((5, 5)), np.zeros(len(labels))
    for step in tf.range(5 * 4 * 3):
        batch = draw(step)
        k, rival = batch.classes.numpy()
        pairs[k, rival] += 1
        seen = [int(np.flatnonzero((x == some.X).all(1))[0]) for x in batch.X.numpy()]
        assert (labels[seen] == k).all()
        rows[seen] += 1
        assert float(batch.weight) == 4 * 6 / 2
    np.testing.assert_array_equal(pairs, 3 * (1 - np.eye(5)))
    np.testing.assert_array_equal(rows, 4)


def test_a_batch_is_a_function_of_seed_and_step_and_never_larger_than_its_class(data):
    source = ClassBatches(data, 3, seed=1, classes=3, rivals=5)
    for step in range(6):
        one, again, other = source(step), source(step), ClassBatches(data, 3, 1, classes=3, rivals=5)(step)
        for a, b, c in zip(one, again, other, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)
        assert len(one.X) == min(3, COUNTS[int(one.classes[0])])
        np.testing.assert_array_equal(np.sort(one.classes), [0, 1, 2])
    different = [source(s).classes[0] != ClassBatches(data, 3, 2, classes=3, rivals=5)(s).classes[0] for s in range(12)]
    assert any(map(bool, different))


def test_without_a_batch_size_every_step_is_the_exact_bound(data, randomise):
    model = ready(data, "OvsE-P", randomise)
    batch = model.batches(data)(0)
    assert isinstance(batch, Batch)
    np.testing.assert_allclose(model.training_loss(batch), -model.elbo(data), rtol=1e-12)


# ---------------------------------------------------------------------------------------- the models as a whole


def test_interrupted_training_goes_on_as_if_it_had_not_been(tmp_path):
    some = many(4)
    options = dict(batch_size=3, progress=False, seed=3)
    models = [named(some, "OvsE-P", inducing=3) for _ in range(3)]
    with eagerly():
        through = mogp.fit(models[0], some, steps=7, optimizer=Adam(0.05, lazy=True), **options)
        for model, steps in zip(models[1:], (4, 7), strict=True):
            kept = mogp.fit(
                model, some, steps=steps, optimizer=Adam(0.05, lazy=True), checkpoint=tmp_path / "run", **options
            )
    np.testing.assert_array_equal(kept.elbo, through.elbo)
    np.testing.assert_array_equal(models[2].posterior.mu, models[0].posterior.mu)


def test_training_learns_rings():
    rings = mogp.datasets.load("rings", train=40, test=40)
    model = ovse(rings.train.data, shared=True, inducing=40, lengthscale=1.0, scaling=None)
    adam = Adam(0.1, lazy=True)
    mogp.fit(model, rings.train.data, steps=150, optimizer=adam, batch_size=40, progress=False)
    assert np.mean(model.predict_classes(rings.test.X) != rings.test.Y[:, 0]) < 0.3


@pytest.mark.parametrize("method", ["RM-P", "RM-F"])
def test_robust_max_probabilities_sum_to_one(data, method, randomise):
    model = named(data, method, inducing=3)
    randomise(model, 2)
    p, _ = model.predict_y(data.X)
    np.testing.assert_allclose(tf.reduce_sum(p, -1), 1.0, atol=1e-12)
    assert model.prior.num_latents == 3
    assert model.inducing.num_sets is None


def test_the_six_methods_differ_as_in_the_thesis():
    some, M, D, C = many(4), 3, 2, 4
    q = {"P": 2 * M, "F": M + M * (M + 1) // 2}
    for method in (*METHODS, "RM-P", "RM-F"):
        model = named(some, method, inducing=M)
        sets = C if method in ("OvsE-P", "OvsE-F") else 1
        kernels = 2 * C if method == "OvsE-P-SH" else 2
        family = "P" if "-P" in method else "F"
        count = sum(v.shape.num_elements() for v in model.trainable_variables)
        assert count == C * q[family] + sets * M * D + kernels + C, method
        assert isinstance(model.posterior, Parsimonious if family == "P" else Full)


@pytest.mark.parametrize("shared", [True, False])
def test_a_chosen_kernel_serves_all_classes_or_each_has_its_copy(shared):
    some, chosen = many(4), gpflow.kernels.Matern32(lengthscales=0.7)
    for shared_kernel in (True, False):
        model = ovse(some, shared=shared, inducing=3, kernel=chosen, shared_kernel=shared_kernel, scaling=None)
        own = {v.shape[0] for v in model.prior.kernels.trainable_variables if v.shape.rank}
        assert own == (set() if shared_kernel else {4})
        assert all(isinstance(one, gpflow.kernels.Matern32) for one in model.prior.kernels.kernels)
        assert np.isfinite(model.elbo(model.batches(some, 3)(0)))
    assert isinstance(
        robust_max(some, inducing=3, kernel=chosen, scaling=None).prior.kernels.kernels[0], gpflow.kernels.Matern32
    )


def test_each_class_gets_centres_of_its_own_rows():
    some = many(3, each=5)
    labels = some.outputs[0].Y[:, 0].astype(int)
    Z = class_points(some, labels, 5).Z.numpy()
    for k in range(3):
        np.testing.assert_array_equal(Z[k], np.unique(some.X[labels == k], axis=0))
    few = class_points(some, labels, 2).Z.numpy()
    for k in range(3):
        own = some.X[labels == k]
        assert (few[k].min(0) >= own.min(0) - 1e-12).all()
        assert (few[k].max(0) <= own.max(0) + 1e-12).all()
    with pytest.warns(UserWarning, match="a class has 5 distinct inputs: using 5"):
        assert class_points(some, labels, 9).num_inducing == 5


def test_saved_models_predict_the_same(tmp_path, data, randomise):
    for method in METHODS:
        model = ready(data, method, randomise)
        loaded = mogp.load(mogp.save(model, tmp_path / method))
        np.testing.assert_array_equal(loaded.predict_f(data.X).mean, model.predict_f(data.X).mean)
        np.testing.assert_array_equal(loaded.predict_log_bound(data.X), model.predict_log_bound(data.X))


def test_everything_is_float32_when_that_is_the_default(float32):
    some = many(3)
    for method in METHODS:
        model, adam = named(some, method, inducing=3), Adam(0.01, lazy=True)
        adam.start(model)
        loss = adam.step(model, lambda model=model: model.training_loss(model.batches(some, 3)(0)))
        assert loss.dtype == tf.float32
        assert np.isfinite(loss)
        assert {v.dtype for v in model.trainable_variables} == {tf.float32}
        assert all(np.isfinite(v).all() for v in model.trainable_variables)
        assert model.predict_log_bound(some.X).dtype == tf.float32


# -------------------------------------------------------------------------------------------------------- errors


def of_labels(*labels: float) -> MultiOutputData:
    return MultiOutputData.from_arrays(np.arange(len(labels), dtype=float), np.array(labels), names=["digit"])


@pytest.mark.parametrize("make", [ovse, robust_max, ovse_linear])
def test_labels_that_cannot_be_learned_from_are_refused(make):
    with pytest.raises(ValueError, match=r"'digit' has the label 3.0 at row 1; labels must be whole numbers 0 to 2"):
        make(of_labels(0, 3, 1), classes=3)
    with pytest.raises(ValueError, match="one class only"):
        make(of_labels(0, 0, 0))
    with pytest.raises(ValueError, match=r"1 of 3 classes of 'digit' have no rows \(1\)"):
        make(of_labels(0, 2, 2))
    with pytest.raises(ValueError, match=r"the label -1\.0 at row 0"):
        make(of_labels(-1, 0, 1))
    with pytest.raises(ValueError, match="labels of one output are needed, the data have 2"):
        make(MultiOutputData.from_arrays(np.zeros(2), np.eye(2)))


def test_parts_that_do_not_fit_are_refused(data):
    kernel = gpflow.kernels.SquaredExponential()
    for make in (ovse, robust_max):
        with pytest.raises(ValueError, match="posterior='F'; choose 'full' or 'parsimonious'"):
            make(data, posterior="F")
    with pytest.raises(ValueError, match=r"give the prior bias=0\.0"):
        OneVsEachMOGP(Independent(kernel, functions=3), InducingPoints(np.zeros((2, 2))), OneVsEach(3))
    with pytest.raises(ValueError, match="rivals=0"):
        ovse(data, inducing=2, rivals=0, scaling=None)
    own = [gpflow.kernels.SquaredExponential() for _ in range(3)]
    model = OneVsEachMOGP(Independent(own, bias=0.0), InducingPoints(np.eye(2)), OneVsEach(3), names=["y"])
    with pytest.raises(ValueError, match="use KernelRows"):
        model.elbo(model.batches(data, 2)(0))
    with pytest.raises(ValueError, match="penalty=-1"):
        LinearOneVsEach(3, 2, penalty=-1)
    with pytest.raises(ValueError, match="2 input columns, the model reads 4"):
        LinearOneVsEach(3, 4).check(data)
