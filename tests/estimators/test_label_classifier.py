"""`MLGPFClassifier` keeps scikit-learn's contract, and predicts what its model does."""

from __future__ import annotations

from contextlib import nullcontext

import gpflow
import numpy as np
import pytest
from eager import eagerly
from scipy.sparse import csr_array, issparse
from sklearn.datasets import make_multilabel_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import mogp
from mogp.estimators import MLGPFClassifier

SMALL = {"kernel": "se", "latents": 2, "inducing": 5, "steps": 1, "random_state": 0}


@pytest.fixture
def uncompiled():
    """Steps run one by one: a graph for each of some hundred fits of one step would take minutes."""
    with eagerly():
        yield


CHECKS = {
    "-".join([check.func.__name__, *map(str, check.keywords.values())]): check
    for _, check in estimator_checks_generator(MLGPFClassifier(**SMALL))
}
OF_OTHER_ARRAY_LIBRARIES = {name for name in CHECKS if "array_api" in name}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", sorted(set(CHECKS) - OF_OTHER_ARRAY_LIBRARIES))
def test_the_contract_of_scikit_learn_is_kept(name):
    many = "check_classifiers_train" in name
    estimator = MLGPFClassifier(**SMALL | ({"steps": 60, "learning_rate": 0.1} if many else {}))
    with nullcontext() if many else eagerly():
        CHECKS[name](estimator)


@pytest.fixture(scope="module")
def points() -> tuple[np.ndarray, np.ndarray]:
    X, Y = make_multilabel_classification(60, 8, n_classes=4, n_labels=2, random_state=1)
    return X, Y


@pytest.fixture(scope="module")
def fitted(points) -> MLGPFClassifier:
    X, Y = points
    return MLGPFClassifier(latents=3, inducing=10, steps=150, learning_rate=0.05, random_state=0).fit(X, Y)


def test_labels_are_learned_better_than_their_frequencies(fitted, points):
    X, Y = points
    share = Y.mean(0)
    assert (fitted.predict(X) == Y).mean() > np.maximum(share, 1 - share).mean() + 0.1
    best = Y[np.arange(len(Y)), fitted.top_k(X, 1)[:, 0]]
    assert best.mean() > share.max()


def test_predictions_of_labels_agree_with_each_other(fitted, points):
    X, _ = points
    p, odds = fitted.predict_proba(X), fitted.decision_function(X)
    np.testing.assert_allclose(odds, np.log(p) - np.log1p(-p), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(fitted.predict(X), p > 0.5)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_array_equal(fitted.top_k(X, 3), np.argsort(-fitted.model_.scores(unit), axis=1)[:, :3])


def test_sparse_inputs_and_labels_give_what_dense_ones_give(points, uncompiled):
    X, Y = points
    dense = MLGPFClassifier(**SMALL).fit(X, Y)
    sparse_labels = MLGPFClassifier(**SMALL).fit(X, csr_array(Y))
    np.testing.assert_array_equal(sparse_labels.predict_proba(X), dense.predict_proba(X))
    sparse = MLGPFClassifier(**SMALL).fit(csr_array(X), csr_array(Y))
    gpflow.utilities.multiple_assign(sparse.model_, gpflow.utilities.read_values(dense.model_))
    assert issparse(sparse.predict(csr_array(X)))
    np.testing.assert_array_equal(sparse.predict(csr_array(X)).toarray(), dense.predict(X))
    np.testing.assert_allclose(sparse.predict_proba(csr_array(X)), dense.predict_proba(X), rtol=1e-8)


def test_class_probabilities_are_of_one_label_given_that_there_is_one(uncompiled):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), rng.choice(["a", "b", "c"], 30)
    classifier = MLGPFClassifier(**SMALL).fit(X, y)
    p = classifier.model_.predict_proba(X / np.linalg.norm(X, axis=1, keepdims=True))
    only = np.stack([p[:, k] * np.prod(np.delete(1 - p, k, axis=1), axis=1) for k in range(3)], 1)
    np.testing.assert_allclose(classifier.predict_proba(X), only / only.sum(1, keepdims=True), rtol=1e-9)
    np.testing.assert_array_equal(classifier.predict(X), np.array(["a", "b", "c"])[only.argmax(1)])
    assert set(classifier.top_k(X, 3).ravel()) == {"a", "b", "c"}


def test_it_works_in_a_pipeline_with_sampled_labels(points):
    X, Y = points
    pipeline = make_pipeline(StandardScaler(), MLGPFClassifier(**{**SMALL, "negatives": 2, "steps": 3}))
    pipeline.fit(X, Y)
    model = pipeline[-1].model_
    assert model.likelihood.likelihoods[0].negatives == 2
    assert pipeline[-1].history_.steps == 3
    assert 0 <= pipeline.score(X, Y) <= 1


def test_a_random_state_gives_the_same_model_again(points, uncompiled):
    X, Y = points
    first, again, other = (MLGPFClassifier(**{**SMALL, "random_state": r}).fit(X, Y) for r in (3, 3, 4))
    np.testing.assert_array_equal(first.predict_proba(X), again.predict_proba(X))
    assert np.abs(first.predict_proba(X) - other.predict_proba(X)).max() > 1e-3


@pytest.mark.parametrize(
    ("y", "problem"),
    [
        (np.zeros(10), "one class only"),
        (np.linspace(0, 1, 10), "Unknown label type"),
        (np.tile([0, 1, 2], (10, 1)), "multiclass-multioutput"),
        (np.array([[1, -1]] * 10), r"entries \[-1\]"),
        (np.zeros((9, 2), int), "inconsistent numbers of samples"),
    ],
)
def test_targets_that_are_neither_labels_nor_classes_are_refused(y, problem):
    X = np.random.default_rng(0).normal(size=(10, 2))
    with pytest.raises(ValueError, match=problem):
        MLGPFClassifier(**SMALL).fit(X, y)


def test_it_is_a_public_name():
    assert mogp.MLGPFClassifier is MLGPFClassifier
