"""Models that read words compute with sparse inputs what they compute with dense ones."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy.sparse import csr_array

from mogp import MultiOutputData, fit, load, save
from mogp.likelihoods import HeteroscedasticGaussian, Poisson
from mogp.models import g_a, g_m, hetmogp_lmc, mg_m, mogps_ar, ovse, ovse_linear, robust_max


def heterogeneous(data, **options):
    return hetmogp_lmc(data, [HeteroscedasticGaussian(), Poisson()], inducing=8, **options)


def words() -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.random((40, 12)) < 0.25) * rng.integers(1, 4, (40, 12)).astype(float)


def two(X, Y):
    return MultiOutputData.from_list([(X[:30], Y[:30, 0]), (X[10:], Y[10:, 1])])


def one(X, Y):
    return MultiOutputData.from_arrays(X, Y[:, 0])


MODELS = {
    "mogps_ar": (lambda d, **o: mogps_ar(d, latents=3, inducing=8, negatives=None, **o), two),
    "mg_m": (lambda d, **o: mg_m(d, latents=3, inducing=8, **o), two),
    "g_a": (lambda d, **o: g_a(d, inducing=8, **o), one),
    "g_m": (lambda d, **o: g_m(d, inducing=8, **o), one),
    "ovse": (lambda d, **o: ovse(d, inducing=5, **o), one),
    "robust_max": (lambda d, **o: robust_max(d, inducing=5, **o), one),
    "ovse_linear": (ovse_linear, one),
    "hetmogp_lmc": (heterogeneous, MultiOutputData.from_arrays),
}


@pytest.mark.parametrize("name", MODELS)
def test_bound_gradient_and_predictions_are_those_of_dense_inputs(name):
    make, table = MODELS[name]
    X = words()
    Y = np.column_stack([np.arange(40) % 3, np.arange(40) // 10]).astype(float)
    data = {"dense": table(X, Y), "sparse": table(csr_array(X), Y)}
    found = {}
    for kind, own in data.items():
        model = make(own, scaling=None)
        batch = model.batches(own, 9, seed=1)(2)
        assert isinstance(batch.X, tf.SparseTensor) == (kind == "sparse")
        with tf.GradientTape() as tape:
            loss = model.training_loss(batch)
        slopes = tape.gradient(loss, model.trainable_variables)
        at = csr_array(X[:7]) if kind == "sparse" else X[:7]
        found[kind] = [
            loss,
            model.elbo(own),
            *map(tf.convert_to_tensor, slopes),
            *model.predict_f(at),
            *model.predict_y(at),
            *model.predict_log_density(own).values(),
            model.predictions(own, quantiles=())[["mean", "sd"]],
        ]
    for ours, theirs in zip(found["sparse"], found["dense"], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


def test_a_model_of_sparse_inputs_is_fitted_saved_and_loaded(tmp_path):
    X, y = csr_array(words()), np.arange(40) % 4
    data = MultiOutputData.from_arrays(X, y)
    model = mogps_ar(data, latents=2, inducing=6, negatives=1)
    assert not model.scaling.moves_inputs
    history = fit(model, data, steps=3, batch_size=8, progress=False)
    assert history.steps == 3
    save(model, tmp_path / "words")
    again = load(tmp_path / "words")
    np.testing.assert_allclose(again.predict_y(X[:5])[0], model.predict_y(X[:5].toarray())[0], rtol=1e-10)
    assert len(model.predict(X[:5])) == 20


def test_a_model_of_scaled_dense_inputs_scales_sparse_ones_too():
    X = words()
    data = MultiOutputData.from_arrays(X, np.arange(40) % 3)
    model = g_a(data, inducing=6)
    np.testing.assert_allclose(model.predict_y(csr_array(X))[0], model.predict_y(X)[0], rtol=1e-12)


def test_entries_of_a_sparse_tensor_may_be_in_any_order(rng):
    X = words()
    model = g_a(MultiOutputData.from_arrays(csr_array(X), np.arange(40) % 3), inducing=6)
    rows = tf.sparse.from_dense(X)
    order = rng.permutation(rows.indices.shape[0])
    mixed = tf.SparseTensor(tf.gather(rows.indices, order), tf.gather(rows.values, order), rows.dense_shape)
    np.testing.assert_allclose(model.predict_y(mixed)[0], model.predict_y(X)[0], rtol=1e-10)
