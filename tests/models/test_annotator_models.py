"""CGPMA and CCGPMA: bounds written out, any pattern of missing annotations, predictions of the truth."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import mogp
from mogp import datasets
from mogp.data import MultiOutputData
from mogp.likelihoods import AnnotatedClasses, AnnotatedValues, HeteroscedasticGaussian, Softmax
from mogp.models import SparseMOGP, ccgpma, cgp, cgpma
from mogp.optimizers import FNG, NaturalAdam
from mogp.posteriors import Full
from mogp.priors import LMC


def classes(rng, rows=60, K=3, R=4, missing=0.5):
    X = rng.uniform(size=(rows, 1))
    truth = np.minimum((K * X[:, 0]).astype(int), K - 1)
    annotations = np.where(rng.uniform(size=(rows, R)) < 0.8, truth[:, None], rng.integers(0, K, (rows, R))).astype(
        float
    )
    annotations[rng.uniform(size=(rows, R)) < missing] = np.nan
    annotations[0] = truth[0]
    return MultiOutputData.from_list([(X, annotations)], names=["class"]), truth


def values(rng, rows=60, R=3, missing=0.3):
    X = rng.uniform(size=(rows, 1))
    truth = np.sin(6 * X[:, 0])
    annotations = truth[:, None] + rng.normal(size=(rows, R)) * np.linspace(0.05, 0.5, R)
    annotations[rng.uniform(size=(rows, R)) < missing] = np.nan
    annotations[0] = truth[0]
    return MultiOutputData.from_list([(X, annotations)], names=["y"]), truth


@pytest.mark.parametrize(("make", "K"), [(classes, 3), (values, None)])
@pytest.mark.parametrize("constructor", [ccgpma, cgpma])
def test_bound_is_the_sum_over_the_annotations_that_were_given(constructor, make, K, randomise, rng):
    data, _ = make(rng)
    model = constructor(data, K, inducing=8)
    randomise(model, 1)
    own = data[0]
    f = model.predict_f(data.inputs(0))
    each = model.annotators.each(f.mean, f.var, own.Y).numpy()
    expected = each[own.observed].sum() - float(model.kl())
    np.testing.assert_allclose(float(model.elbo(data)), expected, rtol=1e-10)


@pytest.mark.parametrize(("make", "K"), [(classes, 3), (values, None)])
def test_mean_over_the_batches_of_an_epoch_is_the_bound_on_all_data(make, K, randomise, rng):
    data, _ = make(rng)
    model = ccgpma(data, K, inducing=8, scaling=None)
    randomise(model, 2)
    source = data.batches(len(data[0]) // 4, seed=3)
    kept = source.steps_per_epoch
    assert len(data[0]) % 4 or kept == 4
    rows = len(data[0]) // 4 * 4
    part = data.take({data.names[0]: np.arange(rows)})
    source = part.batches(rows // 4, seed=3)
    each = [float(model.elbo(source(step))) for step in range(4)]
    np.testing.assert_allclose(np.mean(each), float(model.elbo(part)), rtol=1e-10)


@pytest.mark.parametrize(("make", "K"), [(classes, 3), (values, None)])
def test_independent_functions_are_mixtures_with_identity_weights(make, K, rng):
    data, _ = make(rng)
    independent = cgpma(data, K, inducing=6, scaling=None)
    J = independent.prior.num_functions
    mixed = ccgpma(data, K, inducing=6, scaling=None)
    mixed.prior.W.assign(np.eye(J))
    for model in (independent, mixed):
        model.posterior.q_mu.assign(np.random.default_rng(1).normal(size=model.posterior.q_mu.shape))
    np.testing.assert_allclose(float(independent.elbo(data)), float(mixed.elbo(data)), rtol=1e-10)


def test_one_annotator_of_values_is_a_chained_gp(rng):
    data, _ = values(rng, R=1, missing=0.0)
    as_given = {"inducing": 6, "start": "plain", "scaling": None}
    one, chained = cgpma(data, **as_given), cgp(data, HeteroscedasticGaussian(), **as_given)
    for kernel, other in zip(one.prior.kernels.kernels, chained.prior.kernels.kernels, strict=True):
        other.lengthscales.assign([kernel.lengthscales.numpy()])
    for model in (one, chained):
        model.posterior.q_mu.assign(np.random.default_rng(1).normal(size=(6, 2)))
    np.testing.assert_allclose(float(one.elbo(data)), float(chained.elbo(data)), rtol=1e-10)


def test_annotators_beyond_doubt_give_the_bound_of_a_softmax(rng):
    """With reliabilities of one the bound is that of a softmax on the same labels, once for each annotator."""
    data, _truth = classes(rng, R=2, missing=0.0)
    X = data.inputs(0)
    model = cgpma(data, 3, inducing=6, scaling=None)
    model.posterior.q_mu.assign(np.random.default_rng(1).normal(size=(6, 5)))
    f = model.predict_f(X)
    mean = tf.concat([f.mean[:, :3], tf.fill([len(X), 2], tf.constant(50.0, tf.float64))], 1)
    var = tf.concat([f.var[:, :3], tf.fill([len(X), 2], tf.constant(1e-10, tf.float64))], 1)
    softmax = Softmax(3, samples=20_000, seed=4)
    for r in range(2):
        expected = softmax.variational_expectations(X, f.mean[:, :3], f.var[:, :3], data[0].Y[:, r : r + 1])
        found = model.annotators.each(mean, var, data[0].Y)[:, r]
        np.testing.assert_allclose(tf.reduce_mean(found), tf.reduce_mean(expected), atol=0.01)


@pytest.mark.parametrize(
    "pattern",
    ["one label a row", "an annotator who said nothing", "one class only", "one annotator", "twice the same inputs"],
)
def test_any_pattern_of_annotations_trains(pattern, rng):
    data, _ = classes(rng, missing=0.0)
    X, Y = data.inputs(0).copy(), data[0].Y.copy()
    if pattern == "one label a row":
        kept = rng.integers(0, Y.shape[1], len(Y))
        Y = np.where(np.arange(Y.shape[1]) == kept[:, None], Y, np.nan)
    elif pattern == "an annotator who said nothing":
        Y[:, 2] = np.nan
    elif pattern == "one class only":
        Y[:] = 1.0
    elif pattern == "one annotator":
        Y = Y[:, :1]
    else:
        X, Y = np.repeat(X[:30], 2, axis=0), np.repeat(Y[:30], 2, axis=0)
    data = MultiOutputData.from_list([(X, Y)], names=["class"])
    model = ccgpma(data, 3, inducing=8, scaling=None)
    before = float(model.elbo(data))
    history = mogp.fit(model, data, steps=20, optimizer=NaturalAdam(0.1, 0.01), batch_size=20, progress=False)
    assert history.status == "finished"
    assert float(model.elbo(data)) > before
    assert np.isfinite(model.reliability(X).mean).all()


def test_the_liar_among_annotators_is_found_where_he_lies(rng):
    """An annotator who guesses for x > 1/2 is trusted less there, and the truth is predicted despite him."""
    rows = 400
    X = rng.uniform(size=(rows, 1))
    truth = (np.sin(2 * np.pi * X[:, 0]) > 0).astype(float)
    annotations = np.tile(truth[:, None], (1, 4))
    lies = X[:, 0] > 0.5
    annotations[lies, 3] = rng.integers(0, 2, lies.sum())
    data = MultiOutputData.from_list([(X, annotations)], names=["class"])
    model = ccgpma(data, 2, inducing=15, scaling=None)
    mogp.fit(model, data, steps=400, optimizer=NaturalAdam(0.1, 0.02), progress=False)
    grid = np.linspace(0.02, 0.98, 25)[:, None]
    trust = model.reliability(grid).mean.numpy()
    assert trust[grid[:, 0] > 0.6, 3].max() < trust[grid[:, 0] < 0.4, 3].min()
    assert trust[:, :3].min() > trust[grid[:, 0] > 0.6, 3].max()
    clear = np.abs(grid[:, 0] - 0.5) > 0.05
    expected = (np.sin(2 * np.pi * grid[:, 0]) > 0).astype(int)
    np.testing.assert_array_equal(model.predict_classes(grid[clear]), expected[clear])


def test_noise_of_annotators_of_values_is_found(rng):
    data, _ = values(rng, rows=300, R=3, missing=0.3)
    model = ccgpma(data, inducing=15, scaling=None)
    mogp.fit(model, data, steps=600, optimizer=NaturalAdam(0.1, 0.02), progress=False)
    grid = np.linspace(0.05, 0.95, 20)[:, None]
    noise = np.sqrt(model.reliability(grid).mean).mean(0)
    np.testing.assert_allclose(noise, np.linspace(0.05, 0.5, 3), rtol=0.3)
    gold = model.predict_gold(grid)
    np.testing.assert_allclose(gold.mean[:, 0], np.sin(6 * grid[:, 0]), atol=0.1)
    np.testing.assert_array_equal(gold.mean, model.predict_y(grid)[0])
    test = MultiOutputData.from_arrays(grid, np.sin(6 * grid))
    assert np.mean(model.gold_log_density(test)) > 0.5


def test_predictions_of_classes_agree_with_each_other(rng):
    data, truth = classes(rng)
    model = cgpma(data, 3, inducing=8, scaling=None)
    mogp.fit(model, data, steps=50, optimizer=NaturalAdam(0.1, 0.01), progress=False)
    X = data.inputs(0)
    p, var = model.predict_y(X)
    np.testing.assert_allclose(p, model.predict_gold(X).mean)
    assert (model.predict_gold(X).var.numpy() <= var.numpy() + 1e-12).all()
    np.testing.assert_array_equal(model.predict_classes(X), np.argmax(p, 1))
    table = model.predict(X[:2], samples=2000)
    np.testing.assert_allclose(table["mean"], p.numpy()[:2].ravel())
    gold = MultiOutputData.from_arrays(X, truth[data[0].rows].astype(float))
    expected = np.log(p.numpy()[np.arange(len(X)), truth[data[0].rows]])
    np.testing.assert_allclose(model.gold_log_density(gold), expected, rtol=1e-10)
    assert len(model.predict_log_density(data)["class"]) == len(X)


def test_exploratory_optimisers_and_files_serve_annotators(rng, tmp_path):
    data, _ = classes(rng)
    model = ccgpma(data, 3, inducing=6, whiten=False, scaling=None)
    history = mogp.fit(model, data, steps=10, optimizer=FNG(start=100.0), progress=False)
    assert history.status == "finished"
    mogp.save(model, tmp_path / "model.mogp")
    again = mogp.load(tmp_path / "model.mogp")
    np.testing.assert_array_equal(model.reliability(data.X).mean, again.reliability(data.X).mean)


def test_float32_is_served(float32, rng):
    for make, K in ((classes, 3), (classes, 5), (values, None)):
        data, _ = make(rng)
        model = ccgpma(data, K, inducing=5, scaling=None)
        assert mogp.fit(model, data, steps=5, progress=False).status == "finished"
        assert model.reliability(data.X).mean.dtype == tf.float32


def test_annotated_data_sets_leave_out_what_nobody_annotated():
    toy = datasets.load("annotators-synth-class", N=50, test=20)
    data = toy.annotated
    assert data.sizes == (50,)
    assert data[0].Y.shape == (50, 5)
    np.testing.assert_array_equal(data[0].Y, toy.train.per_row["annotations"])
    with pytest.raises(ValueError, match="no annotations"):
        _ = datasets.load("zip-toy", N=10).annotated


def test_annotators_can_stand_beside_other_outputs(rng):
    """Annotations are an output like others: a second output shares the latent GPs."""
    data, truth = values(rng, rows=40, R=2)
    both = MultiOutputData.from_list(
        [(data.inputs(0), np.where(data[0].observed, data[0].Y, np.nan)), (data.inputs(0), -truth[data[0].rows])],
        names=["told", "measured"],
    )
    kinds = {"told": AnnotatedValues(2), "measured": HeteroscedasticGaussian()}
    model = SparseMOGP(
        LMC(mogp.kernels.unit_kernels(2, 1, 0.2), functions=5),
        mogp.inducing.kmeans_points(both, 8, sets=2),
        kinds,
        Full(),
    )
    assert mogp.fit(model, both, steps=10, batch_size=20, progress=False).status == "finished"
    assert model.predict_y(both.X)[0].shape[1] == 2


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda data: ccgpma(data, 2, scaling=None), "labels must be whole numbers from 0 to 1"),
        (lambda data: ccgpma(data, 3, latents=0, scaling=None), "latents=0"),
        (
            lambda data: ccgpma(MultiOutputData.from_arrays(np.zeros((3, 1)), np.zeros((3, 2))), 2, scaling=None),
            "2 outputs",
        ),
        (lambda data: ccgpma(data, 3, inducing=4, scaling=None).gold_log_density(data), "one output with one column"),
        (
            lambda data: ccgpma(data, 3, inducing=4, scaling=None).gold_log_density(
                MultiOutputData.from_arrays([[0.0]], [[7.0]])
            ),
            "from 0 to 2",
        ),
        (
            lambda data: ccgpma(data, 3, inducing=4, scaling=None).elbo(
                MultiOutputData.from_list([([[0.0]], [[1.0, 1.0]])], ["class"])
            ),
            r"\(1, 2\).*\(rows, 4\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make, said, rng):
    data, _ = classes(rng)
    with pytest.raises(ValueError, match=said):
        make(data)


def test_a_likelihood_of_classes_is_made_for_the_annotators_of_the_data(rng):
    data, _ = classes(rng, R=4)
    model = cgpma(data, 3, inducing=4, scaling=None)
    assert isinstance(model.annotators, AnnotatedClasses)
    assert model.likelihood.function_names(data.names)[-1] == "class/reliability of annotator 3"
