"""Runs of MLGPF on points with many labels: what they give back, and from what."""

from __future__ import annotations

from itertools import pairwise

import gpflow
import numpy as np
import pytest
from eager import eagerly
from scipy.sparse import csr_array

from mogp import fit, metrics
from mogp.book.runs.digits import digit_run
from mogp.book.runs.labels import EDGES, REVEALED, label_run, labelled, reliability, sparse_steps
from mogp.models import label_blocks, mlgpf
from mogp.optimizers import Adam

SMALL = {"factors": 2, "inducing": 4, "steps": 2, "batch": 10, "looks": 1, "rows": 30}


@pytest.fixture(autouse=True)
def eager():
    """Two steps do not pay for a compiled graph."""
    with eagerly():
        yield


def test_a_run_is_a_fit_to_the_training_points_and_a_ranking_of_the_test_points():
    found = label_run("yeast", "stand-in", "ARD", rate=0.05, extras=("weights", "reveal"), **SMALL)
    train, test = labelled("yeast", "stand-in", 30)
    model = mlgpf(train, latents=2, inducing=4)
    first = float(model.elbo(train))
    history = fit(model, train, steps=2, batch_size=10, optimizer=Adam(0.05), progress=False)
    ranking = model.top_labels(test.X, 5).labels
    np.testing.assert_allclose([found["first_bound"], found["bound"]], [first, float(model.elbo(train))], rtol=1e-10)
    np.testing.assert_allclose(
        found["precision"][-1], [100 * metrics.precision_at(test.Y, ranking, k) for k in (1, 3, 5)]
    )
    np.testing.assert_allclose(found["trace"], history.elbo)
    np.testing.assert_allclose(found["weights"], 1 / model.prior.kernels.kernels[0].lengthscales.numpy() ** 2)
    signs, others = np.zeros(test.Y.shape), test.Y.toarray()
    for n in range(test.num_points):
        own = test.Y[[n]].indices[: REVEALED[1]]
        signs[n, own], others[n, own] = 1, 0
    for name, scores in (("unaware", model.scores(test.X)), ("aware", model.given_labels(test.X, csr_array(signs)))):
        scores[signs == 1] = -np.inf
        expected = [100 * metrics.precision_at(others, metrics.top_labels(scores, 5), k) for k in (1, 3, 5)]
        np.testing.assert_allclose(found[name][1], expected)


def test_a_matched_start_gives_the_full_posterior_the_bound_of_the_parsimonious_one():
    full, parsimonious = (
        label_run("yeast", "stand-in", name, start="matched", jitter=1e-12, **SMALL)["first_bound"]
        for name in ("SE-UN", "SE-UN-PP")
    )
    assert full == pytest.approx(parsimonious, rel=1e-5)


def test_variants_with_ag_are_trained_by_rmsprop():
    slow, fast = (
        label_run("yeast", "stand-in", "LINEAR-PP-AG", rate=rate, **SMALL | {"steps": 1})["bound"]
        for rate in (1e-9, 0.1)
    )
    adam = label_run("yeast", "stand-in", "LINEAR-PP", rate=0.1, **SMALL | {"steps": 1})["bound"]
    assert len({round(slow, 6), round(fast, 6), round(adam, 6)}) == 3


def test_reliability_groups_like_probabilities():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=200)
    true = rng.uniform(size=200) < p
    found = reliability(p, true)
    groups = [(p >= low) & (p < high) for low, high in pairwise(EDGES)]
    some = [g for g in groups if g.any()]
    np.testing.assert_allclose(found["predicted"], [p[g].mean() for g in some])
    np.testing.assert_allclose(found["true"], [true[g].mean() for g in some])
    assert found["error"] == pytest.approx(sum(abs(p[g].sum() - true[g].sum()) for g in some) / 200)
    assert reliability([0.0, 1.0], [0, 1])["error"] == 0


def test_blocks_of_points_hold_no_more_numbers_than_allowed_and_change_nothing(monkeypatch):
    train, test = labelled("yeast", "stand-in", 30)
    model = mlgpf(train, kernel="se", latents=3, inducing=8)
    whole, bound = model.scores(test.X), float(model.elbo(train))
    monkeypatch.setattr(label_blocks, "NUMBERS_AT_ONCE", 7 * max(24, train.input_dim))
    assert [part.num_points for part in model._parts(test)] == [7, 7, 7, 7, 2]
    np.testing.assert_allclose(model.scores(test.X), whole, rtol=1e-10)
    assert float(model.elbo(train)) == pytest.approx(bound, rel=1e-10)


def test_runs_leave_the_jitter_as_it_was():
    before = gpflow.default_jitter()
    label_run("yeast", "stand-in", "SE", jitter=1e-2, **SMALL)
    assert gpflow.default_jitter() == before


@pytest.mark.parametrize("model", ["SE-UN", "RM-F"])
def test_digits_are_classified_by_either_model(model):
    found = digit_run(model, source="stand-in", factors=2, inducing=3, steps=1, batch=10, rows=20, looks=1, images=2)
    assert found["error"].shape == (2,)
    assert ((found["error"] >= 0) & (found["error"] <= 100)).all()
    assert found["first_images"].shape == found["last_images"].shape == (2, 784)
    assert not np.array_equal(found["first_images"], found["last_images"])


def test_steps_on_random_sparse_points_train_in_the_subspace_and_outside():
    size = {"inputs": 60, "labels": 5, "rows": 20, "words": 4, "inducing": 4, "rank": 3, "batch": 8, "steps": 2}
    for method in ("LINEAR-PP", "LINEAR-S-PP"):
        found = sparse_steps(method, **size)
        assert found["status"] == "finished"
        assert found["step_seconds"] > 0
