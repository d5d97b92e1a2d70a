"""Runs of methods that learn from annotators: what they give back, what they may see, and what scores mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from eager import eagerly
from sklearn.metrics import r2_score, roc_auc_score

from mogp.book.runs.annotator_methods import CLASS_METHODS, VALUE_METHODS, fitted
from mogp.book.runs.annotator_runs import annotated, annotator_run, recovered, scores

SIZE = {"N": 40, "test": 30}
SMALL = {"inducing": 4, "steps": 1, "batch_size": 10}


@pytest.fixture(autouse=True)
def eager():
    """One step does not pay for a compiled graph."""
    with eagerly():
        yield


@pytest.mark.parametrize("method", CLASS_METHODS)
def test_every_method_for_classes_runs_and_scores_what_it_predicts(method):
    data = annotated("annotators-synth-class", **SIZE)
    found = fitted(method, data.train, **SMALL)
    p, sd = found.gold(data.test.X)
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-6)
    assert p.shape == sd.shape == (30, 3)
    score = scores(found, data.train, data.test)
    labels = data.test.Y[:, 0]
    each = [roc_auc_score(labels == k, p[:, k]) * np.mean(labels == k) for k in range(3)]
    assert score["auc"] == pytest.approx(sum(each), rel=1e-9)
    assert score["accuracy"] == np.mean(p.argmax(1) == labels)
    assert ("recovered" in score) == (found.reliability is not None)


def test_a_run_is_a_fit_to_the_published_split_and_its_scores():
    data = annotated("annotators-synth-class", **SIZE)
    expected = scores(fitted("MA-DGRL", data.train), data.train, data.test)
    found = annotator_run("annotators-synth-class", "real", "MA-DGRL", loading=SIZE)
    assert np.isnan(found.pop("still_gained"))
    assert found == expected


def test_repetitions_without_a_published_split_are_different_splits():
    how = {"loading": {"most_rows": 60, "embedding": "pca"}}
    first, again, second = (annotator_run("wine", "stand-in", "MA-LFC-C", repetition=r, **how) for r in (0, 0, 1))
    assert first["nlpd"] == again["nlpd"] != second["nlpd"]


@pytest.mark.parametrize("method", VALUE_METHODS)
def test_every_method_for_values_runs_and_scores_what_it_predicts(method):
    data = annotated("annotators-synth-reg", **SIZE)
    found = fitted(method, data.train, **SMALL)
    mean, sd = found.gold(data.test.X)
    assert mean.shape == sd.shape == (30, 1)
    assert (sd >= 0).all()
    score = scores(found, data.train, data.test)
    assert score["r2"] == pytest.approx(r2_score(data.test.Y[:, 0], mean[:, 0]), rel=1e-9, abs=1e-12)
    if found.reliability is not None:
        estimate, true = found.reliability(data.test.X)[0], data.test.per_row["variance"]
        expected = [r2_score(true[:, r], estimate[:, r]) for r in range(5)]
        np.testing.assert_allclose(score["recovered"], expected, rtol=1e-9)


@pytest.mark.parametrize("method", ["GPC-MV", "GPC-DS", "MA-LFC-C", "CCGPMA-C"])
def test_only_gold_sees_the_truth(method):
    train = annotated("annotators-synth-class", **SIZE).train
    blind = replace(train, Y=np.zeros_like(train.Y))
    a, b = (fitted(method, part, **SMALL).gold(train.X)[0] for part in (train, blind))
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("method", ["GPR-Av", "MA-LFCR", "CCGPMA-R"])
def test_predictions_and_noise_follow_a_change_of_units(method):
    train = annotated("annotators-synth-reg", **SIZE).train
    other = replace(train, per_row={**train.per_row, "annotations": 30 + 7 * train.per_row["annotations"]})
    a, b = (fitted(method, part, **SMALL) for part in (train, other))
    for before, after, scale, shift in ((a.gold, b.gold, 7, 30), (a.reliability, b.reliability, 49, 0)):
        if before is not None:
            (m, s), (m2, s2) = before(train.X), after(train.X)
            np.testing.assert_allclose(m2, shift + scale * m, rtol=1e-6)
            np.testing.assert_allclose(s2, scale * s, rtol=1e-6, atol=1e-9)


def test_thinning_keeps_some_of_what_was_told_and_no_more():
    whole = annotated("annotators-synth-class", **SIZE).train.per_row["annotations"]
    thin = annotated("annotators-synth-class", told=2, **SIZE).train.per_row["annotations"]
    kept = np.isfinite(thin)
    assert (kept.sum(1) == 2).all()
    assert kept.any(0).all()
    np.testing.assert_array_equal(thin[kept], whole[kept])


def test_the_truth_recovers_itself_and_its_opposite_does_not():
    data = annotated("annotators-synth-class", **SIZE).test
    true = data.per_row["reliability"]
    np.testing.assert_array_equal(recovered(true, data), 1)
    np.testing.assert_array_equal(recovered(1 - true, data), 0)


def test_a_table_is_sampled_before_it_is_annotated_and_annotators_are_right_where_reliable():
    data = annotated("wine", "stand-in", most_rows=60, embedding="pca")
    assert len(data) == 60
    right = data.per_row["annotations"] == data.Y
    np.testing.assert_array_equal(right, data.per_row["reliability"] >= 0.5)


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match="no method 'KAAR'; there are GPC-GOLD"):
        annotator_run("annotators-synth-class", "real", "KAAR", loading=SIZE)
