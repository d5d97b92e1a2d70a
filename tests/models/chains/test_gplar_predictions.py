"""Predictions along sampled paths, and draws from the prior of chains, against NumPy."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from chain_cases import X, Z, chain, linear, observed, paths_by_hand, recipe, se, targets
from scipy.stats import norm

import mogp
from mogp import likelihoods as lik
from mogp.data import MultiOutputData
from mogp.models import Component, LatentChain, additive_gplar, gplar, igp
from mogp.models.chains import paths as predictions_module

NEW = np.linspace(-0.2, 1.3, 7)[:, None]


def drawn_noise(model: LatentChain, samples: int, rows: int, seed: int) -> np.ndarray:
    return tf.random.stateless_normal([model.num_gps, samples, rows], [seed, 0], dtype=tf.float64).numpy()


def test_predictions_are_moments_and_densities_of_the_mixture_of_paths():
    """T12: with the noise of the targets, and with one path a Gaussian."""
    model, data = chain(inner=0.01), observed()
    mean, var, _ = paths_by_hand(model, NEW, drawn_noise(model, 50, 7, 3))
    f = model.predict_f(NEW, samples=50, seed=3)
    np.testing.assert_allclose(f.mean, mean.mean(0), atol=1e-7)
    np.testing.assert_allclose(f.var, (var + mean**2).mean(0) - mean.mean(0) ** 2, atol=1e-7)
    assert (f.var.numpy() >= var.mean(0) - 1e-9).all()
    y_mean, y_var = model.predict_y(NEW, samples=50, seed=3)
    np.testing.assert_allclose(y_mean, f.mean, atol=1e-9)
    np.testing.assert_allclose(y_var, f.var + np.array([0.2, 0.3, 0.4]), atol=1e-7)
    for samples in (1, 50):
        mean, var, _ = paths_by_hand(model, X, drawn_noise(model, samples, 9, 3))
        log_p = model.predict_log_density(data, samples=samples, seed=3)
        for d, own in enumerate(data.outputs):
            sd = np.sqrt(var[:, own.rows, d] + 0.2 + 0.1 * d)
            each = norm(mean[:, own.rows, d], sd).logpdf(own.Y[:, 0])
            np.testing.assert_allclose(log_p[f"output {d}"], np.logaddexp.reduce(each, 0) - np.log(samples), atol=1e-6)


def test_no_noise_sends_the_means_of_the_layers_down_the_chain():
    """T5: as a denoising GPAR does."""
    model = chain(inner=0.0)
    mean = paths_by_hand(model, NEW, np.zeros((3, 1, 7)))[0][0]
    found = model.run(tf.constant(NEW), tf.zeros([3, 1, 7], tf.float64))
    np.testing.assert_allclose(found.mean[0], mean, atol=1e-8)
    np.testing.assert_allclose(found.draws, found.mean, atol=1e-12)


def test_values_that_are_given_take_the_place_of_draws():
    model, known = chain(inner=0.0), np.sin(NEW[:, 0])
    found = model.predict_f(NEW, samples=4, given={"output 0": known})
    noise = drawn_noise(model, 4, 7, 0)
    means = []
    for s in range(4):
        first = tf.constant(known)
        second = model.run(tf.constant(NEW), noise[:, [s]], given={0: first})
        means.append(second.mean[0])
    np.testing.assert_allclose(found.mean[:, 1:], np.mean(means, 0)[:, 1:], atol=1e-10)
    line = chain(2, kernels=[se(), linear((1,), 1.0)], inner=0.0)
    twice = line.predict_f(NEW, "output 1", given={"output 0": 2 * known}).mean
    np.testing.assert_allclose(twice, 2 * line.predict_f(NEW, "output 1", given={"output 0": known}).mean, atol=1e-8)
    with pytest.raises(ValueError, match="5 values for 7 rows"):
        model.predict_f(NEW, given={"output 0": np.zeros(5)})


def test_rows_in_pieces_are_predicted_as_all_at_once(monkeypatch):
    model = chain()
    whole = model.predict_y(NEW, samples=5)
    monkeypatch.setattr(predictions_module, "_NUMBERS_AT_ONCE", 5 * 4 * 2)
    for a, b in zip(whole, model.predict_y(NEW, samples=5), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_joint_draws_have_the_moments_of_paths_at_each_point_and_hang_together_over_points():
    model = chain(2, inner=0.0)
    draws = model.predict_f_samples(NEW[:3], samples=4000, seed=1).numpy()
    mean, var = (a.numpy() for a in model.predict_f(NEW[:3], samples=4000, seed=2))
    np.testing.assert_allclose(draws.mean(0), mean, atol=0.12)
    np.testing.assert_allclose(draws.var(0), var, rtol=0.15)
    near = model.predict_f_samples([[0.5], [0.501]], samples=50)
    assert np.abs(near[:, 0] - near[:, 1]).max() < 0.1


def prior(model: LatentChain) -> LatentChain:
    model.posterior.q_mu.assign(np.zeros(model.posterior.q_mu.shape))
    model.posterior.q_sqrt.assign(np.tile(np.eye(model.num_inducing), (model.num_gps, 1, 1)))
    return model


def test_outputs_of_a_linear_chain_are_dependent_but_uncorrelated_under_the_prior():
    """T7: E h2 h2' = k2 + v k1, E h1 h2' = 0."""
    k1, k2 = se(0.4), se(0.7)
    model = prior(chain(2, kernels=[k1, k2 + linear((1,), 0.6)], inner=0.0))
    at = np.array([[0.1], [0.4]])
    h = model.predict_f_samples(at, samples=20_000, seed=3).numpy()
    K1, K2 = k1(at).numpy(), k2(at).numpy()
    products = h[:, :, None, 1] * h[:, None, :, 1]
    error = 4.5 * products.std(0) / np.sqrt(len(h))
    assert (np.abs(products.mean(0) - K2 - 0.6 * K1) < error).all()
    cross = h[:, :, None, 0] * h[:, None, :, 1]
    assert (np.abs(cross.mean(0)) < 4.5 * cross.std(0) / np.sqrt(len(h))).all()
    squares = np.corrcoef(h[:, 0, 0] ** 2, h[:, 0, 1] ** 2)[0, 1]
    assert squares > 0.1


def test_linear_chain_with_known_weights_is_a_linear_model_with_triangular_mixing():
    """T6: Cov = B diag(k_j) Bᵀ with B = (I - A)⁻¹; the lines of an additive chain are pinned at their slopes."""
    A = np.array([[0, 0, 0], [0.8, 0, 0], [-0.5, 0.6, 0]])
    data = observed(missing=False)
    model = additive_gplar(data, kernel=recipe(kind="linear"), inducing=[[0.5]], start="zero", inner=0.0, scaling=None)
    model.location[:], model.scale[:] = 0, 1
    slopes = [A[1, 0], A[2, 0], A[2, 1]]
    for Z_c in model.inducing[3:]:
        Z_c.assign([[1.0]])
    model.start_at([[0.0], [0.0], [0.0], *([s] for s in slopes)], 1e-7)
    q_sqrt = model.posterior.q_sqrt.numpy()
    q_sqrt[:3] = 1.0
    model.posterior.q_sqrt.assign(q_sqrt)
    at = np.array([[0.2], [0.5]])
    h = model.predict_f_samples(at, samples=20_000, seed=5).numpy()
    B = np.linalg.inv(np.eye(3) - A)
    K = np.stack([model.kernels[c](at).numpy() for c in range(3)])
    expected = np.einsum("ij,jnm,kj->inkm", B, K, B)
    products = np.einsum("sni,smk->sinkm", h, h)
    error = 4.5 * products.std(0) / np.sqrt(len(h))
    assert (np.abs(products.mean(0) - expected) < error).all()


def test_additive_chain_is_a_chain_whose_kernel_adds_up_over_outputs():
    """T14, at the level of the prior."""
    at = np.array([[0.2], [0.5]])
    data = observed(missing=False)
    additive = prior(
        additive_gplar(data, kernel=recipe(kind="nonlinear"), inducing=[[0.5]], start="zero", inner=0.0, scaling=None)
    )
    layers = [se(), se() + se(1.0, (1,)), se() + se(1.0, (1,)) + se(1.0, (2,))]
    plain = prior(chain(kernels=layers, shared=[[0.5]], inner=0.0))
    additive.location[:], additive.scale[:] = 0, 1
    a, b = (m.predict_f_samples(at, samples=20_000, seed=s).numpy() for s, m in enumerate((additive, plain)))
    for values in (lambda h: h[:, 0] ** 2, lambda h: h[:, 0] * h[:, 1], lambda h: h[:, 0, [0, 1]] * h[:, 0, [1, 2]]):
        x, y = values(a), values(b)
        error = 4.5 * np.sqrt((x.var(0) + y.var(0)) / 20_000)
        assert (np.abs(x.mean(0) - y.mean(0)) < error).all()


def test_draws_of_targets_have_the_quantiles_of_the_mixture():
    model = chain(2)
    table = model.predict(NEW[:2], "output 1", quantiles=(0.1, 0.9), samples=20_000)
    mean, var, _ = paths_by_hand(model, NEW[:2], np.random.default_rng(0).normal(size=(2, 20_000, 2)))
    for row in range(2):
        below = [
            norm(mean[:, row, 1], np.sqrt(var[:, row, 1] + 0.3)).cdf(table[q][row]).mean() for q in ("q0.1", "q0.9")
        ]
        np.testing.assert_allclose(below, [0.1, 0.9], atol=0.012)


def test_predictions_follow_the_units_of_the_targets():
    """T21: y -> a + c y moves means and bands with it, and log densities by -log c."""
    Y = targets()
    plain, moved = (
        gplar(MultiOutputData.from_arrays(X, y), kernel=recipe(), inducing=Z, start="zero", scaling=None)
        for y in (Y, 5.0 + 40.0 * Y)
    )
    mean, var = plain.predict_y(NEW)
    there, wider = moved.predict_y(NEW)
    np.testing.assert_allclose(there, 5.0 + 40.0 * mean, rtol=1e-8)
    np.testing.assert_allclose(wider, 1600.0 * var, rtol=1e-8)
    log_p = plain.predict_log_density(MultiOutputData.from_arrays(X, Y))
    shifted = moved.predict_log_density(MultiOutputData.from_arrays(X, 5.0 + 40.0 * Y))
    for name, values in log_p.items():
        np.testing.assert_allclose(shifted[name], values - np.log(40.0), rtol=1e-8)
    noise = np.random.default_rng(0).normal(size=(3, 1, 9))
    bounds = [float(m.elbo(MultiOutputData.from_arrays(X, y), noise)) for m, y in ((plain, Y), (moved, 5.0 + 40.0 * Y))]
    np.testing.assert_allclose(bounds[1], bounds[0] - 27 * np.log(40.0), rtol=1e-8)


def test_a_saved_chain_predicts_and_trains_on_as_the_one_in_memory(tmp_path):
    model, data = chain(2, likelihoods=[lik.Gaussian(0.2), lik.Bernoulli()]), observed(missing=False, outputs=2)
    binary = MultiOutputData.from_arrays(X, np.column_stack([data.outputs[0].Y, X > 0.5]))
    loaded = mogp.load(mogp.save(model, tmp_path / "chain.mogp"))
    for a, b in zip(model.predict_y(NEW), loaded.predict_y(NEW), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(model.elbo(binary), loaded.elbo(binary))
    parts = mogp.fit(model, binary, steps=4, checkpoint=tmp_path / "run", progress=False)
    resumed = mogp.fit(model, binary, steps=4, checkpoint=tmp_path / "run", progress=False)
    np.testing.assert_array_equal(parts.elbo, resumed.elbo)
    assert parts.status == "finished"


def test_chains_work_in_single_precision(float32):
    data = MultiOutputData.from_arrays(X.astype(np.float32), targets().astype(np.float32))
    model = gplar(data, kernel=recipe(), inducing=4, start="zero", samples=2, scaling=None)
    with tf.GradientTape() as tape:
        loss = model.training_loss(data.full())
    assert loss.dtype == tf.float32
    assert all(np.isfinite(g).all() for g in tape.gradient(loss, model.trainable_variables))
    assert model.predict_y(NEW)[0].dtype == tf.float32


def test_independent_outputs_have_no_spread_over_paths():
    model = igp(observed(), kernel=recipe(), inducing=4, scaling=None)
    a, b = (model.predict_f(NEW, samples=3, seed=seed) for seed in (0, 1))
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-12)
    np.testing.assert_allclose(a.var, b.var, rtol=1e-12)


@pytest.mark.parametrize("call", [lambda m: m.predict_f(NEW, samples=0), lambda m: m.predict_y(NEW, "nothing")])
def test_questions_without_an_answer_are_refused(call):
    with pytest.raises((ValueError, KeyError)):
        call(chain(2))


def test_given_values_are_refused_where_an_output_is_a_sum():
    model = LatentChain([Component(se()), Component(se())], [{0: 0.5, 1: 0.5}], lik.Gaussian(), [Z, Z], input_dim=1)
    with pytest.raises(ValueError, match="of several GPs: its values cannot be given"):
        model.predict_f(NEW, given={"output 0": np.zeros(7)})
    assert gpflow.utilities.parameter_dict(model)
