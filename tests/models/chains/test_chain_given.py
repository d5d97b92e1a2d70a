"""Outputs known at new rows: against dense conditioning, and against importance sampling by hand."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from chain_cases import chain, paths_by_hand
from scipy.stats import norm
from test_gpar import CLOSED, KERNELS, NAMES, NOISE, Y, data_of, kernel, model_of, standardised
from test_gpar import X as INPUTS

from mogp.errors import UnsupportedError
from mogp.models import GPAR
from mogp.models.chains.weights import weighted_paths

NEW = np.array([[0.43], [0.9], [1.15]])


def units(model, name, values):
    return (np.asarray(values) - model.scale[name].mean) / model.scale[name].sd


def dense(inputs, y, new):
    """Moments `[R, N]` of a layer of `KERNELS` at its start values, at points `new [R, N, P]`."""
    seen = np.isfinite(y)
    solve = np.linalg.inv(kernel(inputs[seen], inputs[seen]) + NOISE * np.eye(seen.sum()))
    flat = new.reshape(-1, new.shape[-1])
    k = kernel(flat, inputs[seen])
    own = 1.0 if new.shape[-1] == 1 else 2 + 0.5 * (flat[:, 1:] ** 2).sum(1)
    var = own - np.einsum("nm,ml,nl->n", k, solve, k, optimize=True)
    return (k @ solve @ y[seen]).reshape(new.shape[:-1]), var.reshape(new.shape[:-1])


def importance_sampling(passes, known, paths=200_000, seed=5):
    """Moments `[N, L]` of standardised targets, by sending plain draws down the chain and weighting each by the
    density of what is known *given the draw*: no draw is told of its own output."""
    rng, Z, inputs = np.random.default_rng(seed), standardised(CLOSED), INPUTS
    path, log_w, ys = np.tile(NEW, (paths, 1, 1)), np.zeros((paths, len(NEW))), []
    for d, y in enumerate(Z.T):
        m, v = dense(inputs, y, path)
        f = m + np.sqrt(np.maximum(v, 0)) * rng.standard_normal(m.shape)
        there = ~np.isnan(known[:, d])
        log_w[:, there] += norm(f, np.sqrt(NOISE)).logpdf(known[:, d])[:, there]
        target = np.where(there, known[:, d], f + np.sqrt(NOISE) * rng.standard_normal(m.shape))
        ys.append(target)
        path = np.concatenate([path, (target if passes == "noisy" else f)[..., None]], -1)
        stand_in = dense(inputs, y, inputs[None])[0][0]
        inputs = np.column_stack([inputs, np.where(np.isfinite(y), y, stand_in) if passes == "noisy" else stand_in])
    w = np.exp(log_w - log_w.max(0))
    w /= w.sum(0)
    assert (1 / (w**2).sum(0) > 2000).all()
    means = np.stack([(w * y).sum(0) for y in ys], -1)
    return means, np.stack([(w * y**2).sum(0) for y in ys], -1) - means**2


@pytest.mark.parametrize("passes", ["functions", "noisy", "means"])
@pytest.mark.parametrize("which", [(2,), (1,), (0, 2)], ids=["the last", "the second", "first and last"])
def test_known_outputs_weigh_paths_as_importance_sampling_does(passes, which):
    """`"means"` passes on draws of functions where a later output is known: there it is `"functions"`."""
    model = model_of(CLOSED, replace=passes != "noisy", passes=passes)
    known, free = np.full((3, 3), np.nan), model.predict_y(NEW)
    away = np.array([[0.5, -0.7, 0.7], [0.7, 0.6, -0.8], [-0.6, 0.7, 0.8]])  # as model and noise go, plausible
    for d in which:
        y = np.asarray(free.mean)[:, d] + away[:, d] * np.sqrt(np.asarray(free.var)[:, d])
        known[:, d] = units(model, NAMES[d], y)
    given = {NAMES[d]: model.scale[NAMES[d]].mean + model.scale[NAMES[d]].sd * known[:, d] for d in which}
    expected = importance_sampling("functions" if passes == "means" else passes, known)
    mean, var = (np.asarray(a) for a in model.predict_y(NEW, given=given, samples=20_000))
    until = max(which) + 1 if passes == "means" else 3
    for d, name in enumerate(NAMES[:until]):
        np.testing.assert_allclose(units(model, name, mean[:, d]), expected[0][:, d], atol=0.05)
        np.testing.assert_allclose(var[:, d] / model.scale[name].sd ** 2, expected[1][:, d], rtol=0.1, atol=0.01)


def test_a_known_target_takes_its_noise_off_as_in_training():
    """With means passed on: the answer is that of a chain that has one more row of the known output."""
    x, value = np.array([[0.43]]), 0.9
    model = model_of(Y)
    order = np.argsort(np.append(INPUTS[:, 0], x[0, 0]))
    # Standardised by the rows before, so that nothing else changes.
    Z = np.vstack([standardised(Y), [[units(model, "first", value), np.nan, np.nan]]])[order]
    inputs = np.vstack([INPUTS, x])[order]
    m1, v1 = (a[0] for a in dense(inputs, Z[:, 0], x[None]))
    first = model.predict_f(x, "first", given={"first": [value]})
    np.testing.assert_allclose(units(model, "first", first.mean[0, 0]), m1[0], atol=1e-8)
    np.testing.assert_allclose(first.var[0, 0] / model.scale["first"].sd ** 2, v1[0], atol=1e-8)
    read = np.column_stack([INPUTS, dense(INPUTS, standardised(Y)[:, 0], INPUTS[None])[0][0]])
    m2, v2 = dense(read, standardised(Y)[:, 1], np.array([[[x[0, 0], m1[0]]]]))
    second = model.predict_y(x, "second", given={"first": [value]})
    np.testing.assert_allclose(units(model, "second", second.mean[0, 0]), m2[0, 0], atol=1e-7)
    np.testing.assert_allclose(second.var[0, 0] / model.scale["second"].sd ** 2, v2[0, 0] + NOISE, atol=1e-7)


def test_noisy_targets_are_read_as_they_are_known():
    model, known = model_of(Y, replace=False), np.array([0.3, -1.0, 0.4])
    given = {"first": known}
    mean, var = model.predict_y(NEW, "second", given=given)
    m, v = model.layers[1].moments(np.column_stack([NEW[:, 0], units(model, "first", known)]))
    centre, sd = model.scale["second"]
    np.testing.assert_allclose(mean[:, 0], centre + sd * m)
    np.testing.assert_allclose(var[:, 0], sd**2 * (v + NOISE))
    draws = model.predict_y_samples(NEW, samples=3, given=given)
    np.testing.assert_allclose(draws[..., 0], np.tile(known, (3, 1)))
    mean, var = model.predict_y(NEW, "first", given={"first": [0.3, np.nan, 0.4]})
    np.testing.assert_allclose(np.asarray(mean)[[0, 2], 0], [0.3, 0.4])
    np.testing.assert_array_equal(np.asarray(var)[:, 0] > 0, [False, True, False])
    with pytest.raises(ValueError, match="2 values for 3 rows"):
        model.predict_f(NEW, given={"first": np.zeros(2)})


class LineLayer:
    """A layer whose function is linear in what it reads, plus a stationary GP: a chain of them is Gaussian."""

    def __init__(self, slopes, noise):
        self.slopes, self.noise = np.array(slopes), tf.constant(noise, tf.float64)

    def cov(self, x):
        return 0.5 * np.exp(-0.5 * np.square((x[:, None] - x) / 0.4))

    def moments(self, columns):
        mean = tf.linalg.matvec(columns, tf.constant(self.slopes[: columns.shape[-1]]))
        return mean, 0.5 * tf.ones_like(mean)

    def draws(self, columns, normal, known):
        from mogp.models.chains.regression import _told

        mean = self.moments(columns)[0]
        cov = tf.tile(tf.constant(self.cov(columns[0, :, 0].numpy()))[None], [len(columns), 1, 1])
        log_p = tf.zeros([len(columns)], tf.float64)
        if known is not None:
            rows = np.flatnonzero(~np.isnan(known))
            mean, cov, log_p = _told(mean, cov, self.noise, rows, tf.gather(known, rows))
        root = tf.linalg.cholesky(cov + 1e-10 * tf.eye(cov.shape[-1], dtype=cov.dtype))
        return mean, tf.linalg.diag_part(cov), mean + tf.linalg.matvec(root, normal), log_p


LINE = (LineLayer([0.3, 0, 0], 0.1), LineLayer([-0.2, 1.2, 0], 0.3), LineLayer([0.1, 0.5, -0.8], 0.2))


class LineChain(GPAR):
    """GPAR with `LINE` as its layers."""

    layers = property(lambda self: LINE)


def line_chain(**how):
    model = LineChain(data_of(Y), KERNELS, **how, scaling=None)
    for name in NAMES:
        model.scale[name] = model.scale[name]._replace(mean=0.0, sd=1.0)
    return model


def dense_line(x, known, noisy):
    """Mean `[3 n]` and covariance of all targets given those known `[n, 3]`, outputs one after the other."""
    n, mean, rows = len(x), [], []
    # Every function and target as mean + a row of weights over independent parts: GPs, then noises.
    parts = np.zeros((6 * n, 6 * n))
    for d, layer in enumerate(LINE):
        parts[d * n : (d + 1) * n, d * n : (d + 1) * n] = layer.cov(x)
        parts[(3 + d) * n : (4 + d) * n, (3 + d) * n : (4 + d) * n] = float(layer.noise) * np.eye(n)
    passed = []
    for d, layer in enumerate(LINE):
        m, w = layer.slopes[0] * x, np.zeros((n, 6 * n))
        w[:, d * n : (d + 1) * n] = np.eye(n)
        for slope, (pm, pw) in zip(layer.slopes[1:], passed, strict=False):
            m, w = m + slope * pm, w + slope * pw
        y = w.copy()
        y[:, (3 + d) * n : (4 + d) * n] = np.eye(n)
        passed.append((m, y if noisy else w))
        mean.append(m)
        rows.append(y)
    mean, W = np.concatenate(mean), np.vstack(rows)
    C = W @ parts @ W.T
    flat = known.T.reshape(-1)
    k = np.flatnonzero(~np.isnan(flat))
    gain = C[:, k] @ np.linalg.inv(C[np.ix_(k, k)])
    return mean + gain @ (flat[k] - mean[k]), C - gain @ C[k]


@pytest.mark.parametrize("passes", ["functions", "noisy"])
def test_a_linear_chain_is_conditioned_as_a_dense_gaussian(passes):
    known = np.array([[np.nan, 0.4, np.nan], [np.nan, np.nan, -0.6], [0.2, np.nan, 0.5]])
    model = line_chain(replace=passes != "noisy", passes=passes)
    given = {name: known[:, d] for d, name in enumerate(NAMES)}
    mean, var = (np.asarray(a) for a in model.predict_y(NEW, given=given, samples=50_000))
    for n, x in enumerate(NEW[:, 0]):
        m, C = dense_line(np.array([x]), known[[n]], passes == "noisy")
        np.testing.assert_allclose(mean[n], m, atol=0.02)
        np.testing.assert_allclose(var[n], np.diag(C), rtol=0.03, atol=1e-9)


@pytest.mark.parametrize("passes", ["functions", "noisy"])
def test_joint_draws_of_a_linear_chain_are_given_all_that_is_known(passes):
    known = np.array([[np.nan, 0.4, np.nan], [np.nan, np.nan, -0.6], [0.2, np.nan, np.nan]])
    model = line_chain(replace=passes != "noisy", passes=passes)
    given = {name: known[:, d] for d, name in enumerate(NAMES)}
    draws = model.predict_y_samples(NEW, samples=50_000, given=given).numpy()
    m, C = dense_line(NEW[:, 0], known, passes == "noisy")
    flat = draws.transpose(0, 2, 1).reshape(len(draws), -1)
    np.testing.assert_allclose(flat.mean(0), m, atol=0.03)
    np.testing.assert_allclose(np.cov(flat.T), C, atol=0.04)


def test_joint_draws_given_targets_are_those_of_a_dense_posterior():
    model, S = model_of(Y), 20_000
    known = np.array([0.9, np.nan, 0.1])
    draws = model.predict_f_samples(NEW, "first", samples=S, given={"first": known}).numpy()[..., 0]
    inputs = np.vstack([INPUTS, NEW[[0, 2]]])
    y = np.append(standardised(Y)[:, 0], units(model, "first", known[[0, 2]]))
    solve = np.linalg.inv(kernel(inputs, inputs) + NOISE * np.eye(len(inputs)))
    k = kernel(NEW, inputs)
    C = kernel(NEW, NEW) - k @ solve @ k.T
    found = units(model, "first", draws)
    np.testing.assert_allclose(found.mean(0), k @ solve @ y, atol=5 * np.sqrt(C.max() / S))
    np.testing.assert_allclose(np.cov(found.T), C, atol=0.04 * C.max())


def test_rows_do_not_tell_of_each_other():
    model = model_of(CLOSED, passes="functions")
    given = {"third": np.array([1.0, np.nan, 2.0])}
    whole = model.predict_y(NEW, given=given, samples=2000)
    free = model.predict_y(NEW, samples=2000)
    spread = np.sqrt(np.asarray(free.var)[1] / 2000)
    assert (np.abs(np.asarray(whole.mean)[1] - np.asarray(free.mean)[1]) < 5 * spread).all()
    nothing = model.predict_y(NEW, given={"third": np.full(3, np.nan)}, samples=50)
    np.testing.assert_array_equal(nothing.mean, model.predict_y(NEW, samples=50).mean)


def test_too_few_effective_paths_are_an_error_that_says_what_to_do():
    model = model_of(CLOSED, passes="functions")
    with pytest.raises(ValueError, match=r"at row 0 leaves .* effective paths of 65536.*at least 50.*more samples"):
        model.predict_y(NEW[:1], "first", given={"third": [1e7]})
    with pytest.raises(KeyError, match="no output 'fourth'"):
        model.predict_y(NEW, given={"fourth": np.zeros(3)})


def test_short_rows_get_more_proposals_until_they_have_enough():
    asked = []

    def propose(rows, paths):
        asked.append((list(rows), paths))
        f = np.random.default_rng(paths).normal(size=(paths, len(rows)))
        width = np.where(rows == 1, 0.01, 10.0)
        return [f], -0.5 * ((f - 0.5) / width) ** 2

    (f,) = weighted_paths(propose, 3, 200, 100_000)
    assert asked == [([0, 1, 2], 200), ([1], 800), ([1], 3200), ([1], 12800)]
    np.testing.assert_allclose(f[:, 1].mean(), 0.5, atol=0.01)
    assert f.shape == (200, 3)
    with pytest.raises(ValueError, match="at row 1 leaves"):
        weighted_paths(propose, 3, 200, 3200)


def test_later_outputs_of_gplar_weigh_its_paths():
    """The reference draws its own paths, and weights them by the density of what is known."""
    model = chain(inner=0.0)
    new, known, S = np.array([[0.2], [1.1]]), np.array([0.8, -0.5]), 100_000
    noise = np.random.default_rng(2).standard_normal((3, S, 2))
    mean, var, draws = paths_by_hand(model, new, noise)
    w = norm(mean[..., 2], np.sqrt(var[..., 2] + 0.4)).pdf(known)
    w /= w.sum(0)
    found = model.predict_f(new, given={"output 2": known}, samples=20_000)
    for d in (0, 1):
        expected = (w * draws[..., d]).sum(0)
        spread = (w * draws[..., d] ** 2).sum(0) - expected**2
        np.testing.assert_allclose(found.mean[:, d], expected, atol=0.05)
        np.testing.assert_allclose(found.var[:, d], spread, rtol=0.06)
    with pytest.raises(UnsupportedError, match="does not draw rows jointly given outputs that are known"):
        model.predict_y_samples(new, given={"output 2": known})
