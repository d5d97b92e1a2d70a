"""What the named chains are made of, and where they start."""

from __future__ import annotations

import pickle

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from chain_cases import X, Z, observed, recipe, targets

import mogp.training
from mogp import likelihoods as lik
from mogp.data import MultiOutputData
from mogp.models import GPAR, additive_gplar, bi_gplar, dgp, gplar
from mogp.models.chains.additive import additive_paths

NOISE = np.random.default_rng(0).normal(size=(20, 1, 9))


@pytest.mark.parametrize("L", [1, 2, 3, 4])
def test_additive_chains_have_as_many_components_as_their_formulas_say(L):
    """T15."""
    assert len(additive_paths(L, fully=False, bidirectional=False)) == L * (L + 1) // 2
    assert len(additive_paths(L, fully=True, bidirectional=False)) == 2**L - 1
    assert len(additive_paths(L, fully=True, bidirectional=True)) == 2 * (2**L - 1) - L
    assert len(additive_paths(L, fully=False, bidirectional=True)) == L * L


@pytest.mark.parametrize(("fully", "bidirectional"), [(False, False), (True, False), (True, True), (False, True)])
def test_components_of_an_additive_chain_read_what_table_3_2_says(fully, bidirectional):
    """With every component a line of slope one: the sums are those of the table, by hand."""
    data = observed(missing=False)
    model = additive_gplar(
        data,
        kernel=recipe(kind="linear"),
        fully=fully,
        bidirectional=bidirectional,
        inducing=[[0.5]],
        start="zero",
        inner=0.0,
        scaling=None,
    )
    for Z_c in model.inducing[3:]:
        Z_c.assign([[1.0]])
    model.start_at([[m] for m in [0.3, -0.7, 1.1] + [1.0] * (model.num_gps - 3)], 1e-7)
    g = [0.3, -0.7, 1.1]
    found = model.run(tf.constant([[0.5]], tf.float64), tf.zeros([model.num_gps, 1, 1], tf.float64)).mean[0, 0]
    if fully:
        down = [g[0], g[1] + g[0], g[2] + g[0] + g[1] + g[0]]
        up = [g[1] + g[2] + g[2], g[2], 0.0]
    else:
        down = [g[0], g[1] + g[0], g[2] + g[0] + (g[1] + g[0])]
        up = [(g[1] + g[2]) + g[2], g[2], 0.0]
    expected = np.array(down) + (np.array(up) if bidirectional else 0)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_markov_chain_reads_nothing_but_the_output_before():
    """T20."""
    model = gplar(observed(missing=False), kernel=recipe(markov=1), inducing=Z, start="zero", inner=0.0, scaling=None)
    model.start_at([np.sin(9 * Z[:, 0] + c) for c in range(3)], 0.1)
    at = tf.constant(X, tf.float64)
    first, other, second = (tf.constant(np.full(9, v)) for v in (0.4, -2.0, 0.9))
    third = [model.run(at, NOISE[:3], given={0: one, 1: second}).mean[..., 2] for one in (first, other)]
    np.testing.assert_array_equal(*third)
    moved = model.run(at, NOISE[:3], given={0: first, 1: other}).mean[..., 2]
    assert np.abs(moved - third[0]).max() > 1e-3


def test_an_order_is_the_chain_of_reordered_outputs():
    Y, start = targets(), np.sin(4 * Z) * [1.0, 2.0, 3.0]
    names = ["a", "b", "c"]
    data = MultiOutputData.from_arrays(X, Y, names=names)
    turned = MultiOutputData.from_arrays(X, Y[:, [2, 0, 1]], names=["c", "a", "b"])
    one = gplar(data, kernel=recipe(), inducing=Z, start=start, order=["c", "a", "b"], scaling=None)
    other = gplar(turned, kernel=recipe(), inducing=Z, start=start[:, [2, 0, 1]], scaling=None)
    np.testing.assert_allclose(one.elbo(data, NOISE[:3]), other.elbo(turned, NOISE[:3]), rtol=1e-10)


def test_inducing_points_from_observations_are_rows_with_all_outputs_up_to_the_layer():
    data = observed()
    model = gplar(data, kernel=recipe(), strategy="A", inducing=100, start="zero", scaling=None)
    table = np.full((9, 3), np.nan)
    for d, own in enumerate(data.outputs):
        table[own.rows, d] = (own.Y[:, 0] - model.location[d]) / model.scale[d]
    closed = np.isfinite(table).all(1)
    assert model.num_inducing == closed.sum() == 4
    for p, (Z_c, layer) in enumerate(zip(model.inducing, model.layers(), strict=True)):
        rows = [np.flatnonzero(X[:, 0] == z[0])[0] for z in Z_c.numpy()]
        np.testing.assert_allclose(Z_c.numpy()[:, 1:], table[rows, :p])
        np.testing.assert_allclose(layer.mean[0], table[rows, p], atol=1e-6)
        assert not Z_c.trainable
    own_inputs = MultiOutputData.from_list([(X, targets()[:, 0]), (X + 5, targets()[:, 1])])
    with pytest.raises(ValueError, match="use strategy 'B' or 'C'"):
        gplar(own_inputs, kernel=recipe(), strategy="A", inducing=4, scaling=None)


@pytest.fixture(scope="module")
def gpar() -> GPAR:
    fitted = GPAR(observed(), recipe(), scaling=None)
    mogp.fit(fitted, observed(), steps=20, progress=False)
    return fitted


def test_chains_start_at_the_means_of_gpar_with_a_posterior_near_them(gpar):
    means = gpar.posterior_means(Z)
    for strategy in ("B", "C"):
        for whiten in (True, False):
            how = {"strategy": strategy, "start": gpar, "adopt": False, "whiten": whiten}
            model = gplar(observed(), kernel=recipe(), inducing=Z, scaling=None, **how)
            for p, layer in enumerate(model.layers()):
                np.testing.assert_allclose(layer.mean[0], means[:, p], atol=1e-6)
                np.testing.assert_allclose(layer.Z, np.hstack([Z, means[:, :p]]), atol=1e-6)
            _, S = model.posterior.moments(layer.factors._replace())
            np.testing.assert_allclose(S[0], 1e-8 * np.eye(4), atol=1e-12)


def test_a_chain_that_adopts_gpar_predicts_as_it_did_where_the_means_say_all(gpar):
    """With M = N and hardly any noise of the paths, the mean of the chain is that of GPAR."""
    how = {"kernel": recipe(), "strategy": "B", "inducing": X, "start": gpar, "scaling": None}
    model, other = gplar(observed(), **how), gplar(observed(), adopt=False, **how)
    assert float(model.elbo(observed())) > float(other.elbo(observed()))
    found = model.run(tf.constant(X), tf.zeros([3, 1, 9], tf.float64)).mean[0].numpy()
    expected = gpar.posterior_means(X)
    np.testing.assert_allclose(found[:, 0], expected[:, 0], atol=1e-3)
    assert np.abs(found - expected).max() < 0.3
    with pytest.raises(ValueError, match="adopt=True takes kernels over from a GPAR"):
        gplar(observed(), kernel=recipe(), start="zero", adopt=True, inducing=Z, scaling=None)


STARTS = [(gplar, {"strategy": strategy, "adopt": adopt}) for strategy in "ABC" for adopt in (False, True)] + [
    (bi_gplar, {"adopt": True}),
    (bi_gplar, {"light": True, "adopt": True, "combine": "sum"}),
    (bi_gplar, {"combine": "sum", "strategy": "C"}),
    (additive_gplar, {}),
    (additive_gplar, {"fully": True, "bidirectional": True}),
]


@pytest.fixture(scope="module")
def both_gpars() -> tuple[MultiOutputData, tuple[GPAR, GPAR]]:
    """Standardised data, and GPARs in both directions fitted to them."""
    data, Y = observed(), np.full((9, 3), np.nan)
    for d, own in enumerate(data.outputs):
        Y[own.rows, d] = (own.Y[:, 0] - own.Y.mean()) / own.Y.std()
    data = MultiOutputData.from_arrays(X, Y, names=data.names)
    orders = (data.names, data.names[::-1])
    forward, backward = (GPAR(data, recipe(), order=order, starts=1, scaling=None) for order in orders)
    for one in (forward, backward):
        mogp.fit(one, data, progress=False)
    return data, (forward, backward)


@pytest.mark.parametrize(("build", "how"), STARTS)
def test_a_start_from_gpar_is_that_of_a_gpar_fitted_before(both_gpars, build, how, monkeypatch):
    """Values and trainability, whatever waits for training; and the model may be pickled while it waits.

    GPARs have one start here: on nine rows the second ends where the evidence is flat, and rounding decides where.
    """
    monkeypatch.setitem(GPAR.__init__.__kwdefaults__, "starts", 1)
    data, gpars = both_gpars
    how = {"kernel": recipe(), "inducing": Z, "scaling": None, **how}
    expected = build(data, start=gpars if build is bi_gplar else gpars[0], **how)
    model = pickle.loads(pickle.dumps(build(data, **how)))
    mogp.training.start(model, data)
    found, wanted = (gpflow.utilities.parameter_dict(m) for m in (model, expected))
    assert found.keys() == wanted.keys()
    for path, parameter in found.items():
        np.testing.assert_allclose(parameter, wanted[path], rtol=1e-6, atol=1e-8)
        assert parameter.trainable == wanted[path].trainable


def test_no_constructor_trains_and_fit_starts_once(monkeypatch):
    fits = []
    monkeypatch.setattr("mogp.models.chains.start.minimise", lambda problem, *_: fits.append(problem))
    data = observed(missing=False, outputs=1)
    model = gplar(data, kernel=recipe(), inducing=Z, scaling=None)
    assert not fits
    np.testing.assert_array_equal(model.posterior.q_mu, 0.0)
    for _ in range(2):
        mogp.fit(model, data, steps=1, progress=False)
        assert len(fits) == 2 * data.num_outputs  # two starts for each layer
    waiting = gplar(data, kernel=recipe(), inducing=Z, scaling=None)
    with pytest.raises(ValueError, match=r"call mogp\.training\.start"):
        mogp.fit(waiting, data.batches(), steps=1, progress=False)
    for start in (np.zeros((4, 1)), "zero"):
        assert gplar(data, kernel=recipe(), inducing=Z, start=start, scaling=None)._prepare is None
    assert gplar(data, kernel=recipe(), inducing=Z, strategy="A", adopt=False, scaling=None)._prepare is None


def test_a_resumed_fit_does_not_start_again(tmp_path):
    data, path = observed(missing=False, outputs=1), tmp_path / "run.npz"
    first, second = (gplar(data, kernel=recipe(), inducing=Z, scaling=None) for _ in range(2))
    mogp.fit(first, data, steps=2, progress=False, checkpoint=path)
    mogp.fit(second, data, steps=4, progress=False, checkpoint=path)
    learned = second.posterior.q_mu.numpy()
    mogp.training.start(second, data)
    np.testing.assert_array_equal(second.posterior.q_mu, learned)


def test_regression_of_a_layer_is_the_optimum_of_its_bound():
    """No small change of the mean or of the root of the first posterior raises the bound of one output."""
    data = MultiOutputData.from_arrays(X, targets(outputs=1))
    model = gplar(data, kernel=recipe(), inducing=Z, start="zero", inner=0.0, scaling=None)
    model.regress(data)
    with tf.GradientTape() as tape:
        bound = model.elbo(data)
    gradients = tape.gradient(bound, [p.unconstrained_variable for p in model.posterior.parameters])
    assert max(np.abs(g).max() for g in gradients) < 1e-5


def test_light_chain_back_reads_one_function_and_starts_at_zero():
    data = observed()
    model = bi_gplar(data, kernel=recipe(), light=True, inducing=Z, start=np.ones((4, 3)), strategy="B", scaling=None)
    back = model.components[3:]
    assert [c.arguments for c in back] == [(), ((3,),), ((4,),)]
    assert [c.inputs for c in back] == [True, False, False]
    assert [weights for weights in model.functions] == [{0: 0.5, 5: 0.5}, {1: 0.5, 4: 0.5}, {2: 0.5, 3: 0.5}]
    assert [Z_c.trainable for Z_c in model.inducing] == [False] * 3 + [True] * 3
    np.testing.assert_allclose(model.posterior.q_mu[:, 3:], 0.0)


def test_full_chain_back_is_the_chain_of_the_reversed_order():
    data, start = observed(), np.sin(4 * Z) * [1.0, 2.0, 3.0]
    both = bi_gplar(data, kernel=recipe(), inducing=Z, start=start, strategy="C", scaling=None)
    forward = gplar(data, kernel=recipe(), inducing=Z, start=start, scaling=None)
    backward = gplar(data, kernel=recipe(), inducing=Z, start=start, order=[2, 1, 0], scaling=None)
    at = tf.constant(X)
    f, b = forward.run(at, NOISE[:3]), backward.run(at, NOISE[3:6])
    mixed = both.run(at, NOISE[:6])
    np.testing.assert_allclose(mixed.mean, 0.5 * (f.mean + b.mean), atol=1e-9)
    np.testing.assert_allclose(mixed.var, 0.25 * (f.var + b.var), atol=1e-9)


def test_classes_start_at_indicators_and_gaussian_targets_are_standardised():
    Y = np.column_stack([np.arange(9) % 3, 10 + 5 * targets(outputs=1)])
    data = MultiOutputData.from_arrays(X, Y, names=["class", "real"])
    model = gplar(
        data,
        {"class": lik.Softmax(3), "real": lik.Gaussian(0.1)},
        kernel=recipe(),
        strategy="A",
        inducing=9,
        scaling=None,
    )
    layers = model.layers()
    rows = [np.flatnonzero(X[:, 0] == z)[0] for z in layers[0].Z.numpy()[:, 0]]
    for k in range(3):
        np.testing.assert_allclose(layers[k].mean[0], np.arange(9)[rows] % 3 == k, atol=1e-4)
    assert model.location[0] == 0
    assert model.scale[0] == 1
    np.testing.assert_allclose(model.location[1], Y[:, 1].mean())


def test_constructors_refuse_what_they_cannot_mean():
    data = observed()
    for call, message in (
        (lambda: gplar(data, kernel=recipe(), strategy="D", start="zero", scaling=None), "strategy='D'"),
        (lambda: gplar(data, kernel=recipe(), start="best", scaling=None), "start='best'"),
        (lambda: gplar(data, kernel=recipe(), start=np.zeros((3, 3)), inducing=Z, scaling=None), r"expected \[4, 3\]"),
        (lambda: gplar(data, kernel=recipe(), order=[0, 1], start="zero", scaling=None), "once"),
        (lambda: gplar(data, kernel=recipe(), inducing=0, start="zero", scaling=None), "at least one inducing input"),
        (lambda: bi_gplar(data, kernel=recipe(), combine="max", start="zero", scaling=None), "combine='max'"),
        (lambda: dgp(data, width=0, scaling=None), "width=0"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(KeyError, match="no output"):
        gplar(data, kernel=recipe(), order=["x", "y", "z"], start="zero", scaling=None)


def test_deep_gps_feed_the_inputs_to_every_layer():
    model = dgp(observed(outputs=2), width=3, depth=3, inducing=4, scaling=None)
    assert [c.inputs for c in model.components] == [True] * 3
    assert [len(c.arguments) for c in model.components] == [0, 3, 3]
    assert [c.copies for c in model.components] == [3, 3, 2]
    assert np.isfinite(model.elbo(observed(outputs=2)))
    assert all(p.trainable for p in model.inducing)
    assert isinstance(model.kernels[1], gpflow.kernels.SquaredExponential)
