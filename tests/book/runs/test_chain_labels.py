"""Comparisons of chains with labels: splits, winners and scores against brute force, and a GPflow classifier."""

import gpflow
import numpy as np
import pytest
from eager import eagerly

from mogp.book.runs.chain_labels import labels_run, landmine_run, mine_fields
from mogp.book.runs.chains import load_rows
from mogp.book.runs.property_runs import (
    CENTRE,
    KILOMETRES,
    local_majority,
    london_run,
    property_table,
    types_run,
    winners,
)
from mogp.data import MultiOutputData
from mogp.datasets.london import BOX
from mogp.kernels import LayerKernels
from mogp.likelihoods import RobustMax
from mogp.metrics import auc
from mogp.models import igp


@pytest.fixture
def eager():
    with eagerly():
        yield


def test_fields_are_split_into_points_to_train_on_with_both_labels_and_the_others():
    data, held = mine_fields("stand-in", 20, trial=3, tasks=4)
    whole = load_rows("landmine", "stand-in", {"tasks": range(1, 5)})
    for task, (own, (X, labels)) in enumerate(zip(data.outputs, held, strict=True)):
        field = whole.output == task
        assert len(own) == 20
        assert set(own.Y[:, 0]) == {0.0, 1.0}
        together = np.vstack([np.column_stack([data.X[own.rows], own.Y]), np.column_stack([X, labels])])
        expected = np.column_stack([whole.X[field], whole.Y[field]])
        np.testing.assert_array_equal(np.unique(together, axis=0), np.unique(expected, axis=0))
        assert len(together) == field.sum()


def test_kilometres_of_the_unit_square_are_those_of_a_sphere():
    around = 6371.0 * np.pi / 180
    sides = np.ptp(BOX, axis=0) * around * np.array([np.cos(np.radians(51.5)), 1.0])
    np.testing.assert_allclose(KILOMETRES, sides, rtol=0.005)
    np.testing.assert_allclose(BOX[0] + CENTRE * np.ptp(BOX, axis=0), [-0.1276, 51.5074], atol=1e-3)


def test_flats_are_the_first_kind_in_both_sets_of_homes():
    for name in ("london", "london-3types"):
        whole, table = load_rows(name, "stand-in"), property_table(name, "stand-in", 10**6)
        flat = whole.Y[:, whole.outputs.index("type")] == whole.classes["type"].index("flat")
        expected = np.column_stack([whole.Y[:, whole.outputs.index("log price")], flat])
        found = np.column_stack([table["price"], table["kind"] == 0])
        np.testing.assert_array_equal(*(np.sort(pairs.view(complex), axis=0) for pairs in (found, expected)))


def test_local_majority_is_the_mode_among_the_nearest_by_brute_force():
    rng = np.random.default_rng(0)
    X, kind, at = rng.uniform(size=(200, 2)), rng.integers(0, 3, 200), rng.uniform(size=(15, 2))
    expected = []
    for place in at:
        nearest = np.argsort((((X - place) * KILOMETRES) ** 2).sum(1))[:7]
        expected.append(np.bincount(kind[nearest], minlength=3).argmax())
    np.testing.assert_array_equal(local_majority(X, kind, at, 7), expected)


@pytest.mark.parametrize("whiten", [True, False])
def test_the_winner_at_an_inducing_input_has_the_largest_inducing_value(whiten):
    rng = np.random.default_rng(1)
    X, means = rng.uniform(size=(6, 2)), rng.normal(size=(3, 6))
    data = MultiOutputData.from_arrays(X, np.array([0.0, 1, 2, 0, 1, 2]), ["type"])
    model = igp(
        data, RobustMax(3), kernel=LayerKernels(2, input_lengthscale=0.3), inducing=X, whiten=whiten, scaling=None
    )
    model.start_at(means)
    np.testing.assert_allclose(winners(model, 3), np.column_stack([X, means.argmax(0)]))


def test_the_last_of_indicator_columns_is_learned_as_minus_the_sum_of_the_others(eager):
    found = types_run("stand-in", "london", False, rows=30, steps=25)
    table = property_table("london", "stand-in", 30)
    flat = table["kind"] == 0
    z = (flat - flat.mean()) / flat.std()
    assert found["noise"][-1] < 1e-3
    assert found["input_variance"][-1] < 1e-2 * found["linear"][-1, 0]
    expected = z @ ((1 - flat) - (1 - flat).mean()) / flat.std() / len(z)
    np.testing.assert_allclose(expected, -1.0)
    assert np.isnan(found["linear"][0]).all()


def test_independent_fields_score_as_a_variational_gp_classifier_with_the_same_kernel():
    found = landmine_run(
        "stand-in", 25, 0, ["IGP"], tasks=1, inducing=25, steps=45, rate=1e-9, gamma=0.5, samples=2,
    )  # fmt: skip
    data, [(X, labels)] = mine_fields("stand-in", 25, 0, tasks=1)
    kernel = gpflow.kernels.SquaredExponential(lengthscales=np.full(9, 2.0))
    model = gpflow.models.VGP((data.X, data.outputs[0].Y), kernel, gpflow.likelihoods.Bernoulli())
    gpflow.set_trainable(kernel, False)
    step = gpflow.optimizers.NaturalGradient(0.5)
    for _ in range(15):
        step.minimize(model.training_loss, [(model.q_mu, model.q_sqrt)])
    expected = auc(labels, model.predict_f(X)[0].numpy()[:, 0] / np.sqrt(1 + model.predict_f(X)[1].numpy()[:, 0]))
    np.testing.assert_allclose(found["auc"], [[expected]], atol=2e-3)
    np.testing.assert_allclose(found["folded"], np.maximum(found["auc"], 1 - found["auc"]))


def test_a_chain_on_labels_gives_probabilities_with_their_bands_on_the_grid(eager):
    found = labels_run("linear", ["GPLAR, linear"], inducing=5, steps=1, gpar_steps=1, points=20, samples=9)
    whole = load_rows("xia-hetero", "synthetic", {"dependence": "linear", "seed": 0})
    np.testing.assert_allclose(found["x"], whole.X[::10, 0])
    np.testing.assert_allclose(found["truth"], 1 / (1 + np.exp(-whole.extras["h"][::10, 3])))
    assert (found["lower"] < found["mean"]).all()
    assert (found["mean"] < found["upper"]).all()
    assert np.isfinite(found["bounds"]).all()


def test_scores_of_homes_agree_with_each_other(eager):
    found = london_run(
        "stand-in", "GPLAR", data="london-3types", rows=60, test_rows=50, inducing=5, steps=1, gpar_steps=1, batch=20,
        side=4, samples=8,
    )  # fmt: skip
    wrong, right = np.log(1e-3 / 2), np.log(1 - 1e-3)
    hits = (found["type_published"] - wrong) / (right - wrong) * 50 * 8
    np.testing.assert_allclose(hits, np.round(hits), atol=1e-6)
    np.testing.assert_allclose(found["share"].sum(1), 1.0)
    assert found["share"].shape == (16, 3)
    assert found["type_hll"] >= found["type_published"]
    assert found["after"].shape == (5, 3)
    np.testing.assert_allclose(found["accuracy"] * 50, round(found["accuracy"] * 50), atol=1e-9)
