from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression

from mogp.book.baselines import (
    DGRL,
    LFC,
    LFCR,
    AnnotatorGPR,
    DawidSkene,
    average,
    majority_vote,
    vote_shares,
)
from mogp.data import MultiOutputData

CLASSIFIERS = (DawidSkene, LFC, DGRL)
REGRESSORS = (LFCR, AnnotatorGPR)
NAN = np.nan


def annotated(X, annotations, mask=None) -> MultiOutputData:
    return MultiOutputData.from_list([(X, annotations)], names=["y"], masks=[mask])


def told(rng, truth, confusion) -> np.ndarray:
    """Labels `[N, R]` drawn from confusion matrices `[R, K, K]`."""
    return np.stack([[rng.choice(len(table), p=table[c]) for c in truth] for table in confusion], 1).astype(float)


def diagonal(K: int, *right: float) -> np.ndarray:
    """Confusion matrices of annotators who are right with these probabilities, whatever the class."""
    return np.stack([np.full((K, K), (1 - p) / (K - 1)) + np.eye(K) * (p - (1 - p) / (K - 1)) for p in right])


def with_gaps(rng, annotations, share=0.3) -> np.ndarray:
    """Some annotations missing, but never all of a row."""
    gaps = rng.uniform(size=annotations.shape) < share
    gaps[np.arange(len(gaps)), rng.integers(0, gaps.shape[1], len(gaps))] = False
    return np.where(gaps, NAN, annotations)


@pytest.fixture
def classes(rng) -> MultiOutputData:
    """Three classes over two inputs, four annotators with gaps."""
    X = rng.normal(size=(80, 2))
    truth = np.argmax(X @ rng.normal(size=(2, 3)) + rng.gumbel(size=(80, 3)), 1)
    return annotated(X, with_gaps(rng, told(rng, truth, diagonal(3, 0.9, 0.8, 0.6, 0.2))))


@pytest.fixture
def values(rng) -> MultiOutputData:
    """A curve over two inputs, three annotators with gaps, far from zero and from unit scale."""
    X = rng.uniform(size=(25, 2))
    y = 30 + 7 * np.sin(5 * X[:, :1]) + 4 * X[:, 1:]
    return annotated(X, with_gaps(rng, y + rng.normal(size=(25, 3)) * [0.5, 1.0, 3.0]))


def test_majority_is_the_most_frequent_label_and_ties_go_to_the_label_more_frequent_overall():
    X = np.arange(5.0)[:, None]
    labels = [[0, 0, 1], [1, 2, NAN], [2, NAN, NAN], [2, 2, 0], [1, 0, NAN]]
    data = annotated(X, labels)
    vote = majority_vote(data, 3)
    # Overall 0 is named four times, 2 four times, 1 three times.
    np.testing.assert_array_equal(vote[0].Y, [[0], [2], [2], [2], [0]])
    np.testing.assert_array_equal(vote.inputs(0), X)
    assert vote[0].observed.all()
    assert vote.names == data.names
    np.testing.assert_allclose(vote_shares(data, 3)[[0, 1, 2]], [[2 / 3, 1 / 3, 0], [0, 0.5, 0.5], [0, 0, 1]])
    np.testing.assert_array_equal(majority_vote(annotated(X[:1], [[2, 1]]), 3)[0].Y, [[1]])


def test_average_is_over_the_annotations_that_were_observed():
    data = annotated([[0.0], [1.0]], [[1.0, 2.0, 6.0], [4.0, NAN, 5.0]], None)
    np.testing.assert_allclose(average(data)[0].Y, [[3.0], [4.5]])
    np.testing.assert_array_equal(average(data).inputs(0), data.inputs(0))


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_no_iteration_decreases_the_penalised_log_likelihood(model, classes):
    for smoothing in (1e-6, 1.0):
        trace = model(3, smoothing=smoothing, tolerance=1e-10, iterations=2000).fit(classes).log_likelihood_
        assert len(trace) > 3
        assert np.diff(trace).min() > -1e-9 * abs(trace[-1])


def test_objectives_are_the_penalised_log_likelihoods_written_out(classes):
    own, X, a, rho = classes[0], classes.inputs(0), 0.3, 0.7
    seen = [[(r, int(own.Y[n, r])) for r in np.flatnonzero(own.observed[n])] for n in range(len(own))]
    for model in (DawidSkene(3, smoothing=a), LFC(3, ridge=rho, smoothing=a), DGRL(3, ridge=rho, smoothing=a)):
        p = model.fit(classes).predict_y(X)[0]
        if isinstance(model, DGRL):
            phi = model.phi_
            rows = [sum(np.log(phi[r] * p[n, j] + (1 - phi[r]) / 3) for r, j in seen[n]) for n in range(len(own))]
            value = sum(rows) + a * np.sum(np.log(phi * (1 - phi)))
        else:
            rows = [np.log(p[n] @ np.prod([model.confusion_[r, :, j] for r, j in seen[n]], 0)) for n in range(len(own))]
            value = sum(rows) + a * np.sum(np.log(model.confusion_))
        if isinstance(model, DawidSkene):
            value += a * np.sum(np.log(model.prior_))
        else:
            scaled = np.column_stack([np.ones(len(X)), (X - X.mean(0)) / X.std(0)])
            centred = np.log(p) - np.log(p).mean(1, keepdims=True)
            W = np.linalg.lstsq(scaled, centred, rcond=None)[0]
            value -= rho / 2 * np.sum(W[1:] ** 2)
        np.testing.assert_allclose(model.log_likelihood_[-1], value, rtol=1e-9)


@pytest.mark.parametrize("model", [DawidSkene, LFC])
def test_posterior_is_that_of_bayes_in_plain_probabilities(model, rng):
    X = rng.normal(size=(6, 1))
    data = annotated(X, with_gaps(rng, rng.integers(0, 3, (6, 2)).astype(float)))
    fitted = model(3, smoothing=0.5).fit(data)
    prior, own = fitted.predict_y(X)[0], data[0]
    for n in range(6):
        joint = prior[n].copy()
        for k, r in product(range(3), range(2)):
            if own.observed[n, r]:
                joint[k] *= fitted.confusion_[r, k, int(own.Y[n, r])]
        np.testing.assert_allclose(fitted.posterior_[n], joint / joint.sum(), rtol=1e-10)
        assert fitted.labels(data)[0].Y[n, 0] == np.argmax(joint)


def test_dawid_skene_recovers_confusions_and_beats_the_majority_where_one_annotator_is_adversarial(rng):
    N, prior = 3000, np.array([0.5, 0.3, 0.2])
    truth = rng.choice(3, N, p=prior)
    confusion = np.stack(
        [
            [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]],
            [[0.9, 0.05, 0.05], [0.1, 0.6, 0.3], [0.0, 0.2, 0.8]],
            [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.15, 0.15, 0.7]],
            [[0.05, 0.9, 0.05], [0.05, 0.05, 0.9], [0.9, 0.05, 0.05]],
        ]
    )
    data = annotated(np.zeros((N, 1)), told(rng, truth, confusion))
    model = DawidSkene(3).fit(data)
    # Standard errors of a share among the rows of a class whose class is known; it is not, hence six of them.
    error = np.sqrt(np.maximum(confusion * (1 - confusion), 0.01) / (N * prior[:, None]))
    assert np.all(np.abs(model.confusion_ - confusion) < 6 * error)
    np.testing.assert_allclose(model.prior_, prior, atol=6 * np.sqrt(0.25 / N))
    right = np.mean(model.labels(data)[0].Y[:, 0] == truth)
    assert right > np.mean(majority_vote(data, 3)[0].Y[:, 0] == truth) + 0.05
    assert model.reliability(np.zeros((1, 1)))[0][0].argmin() == 3


@pytest.mark.parametrize("K", [2, 3])
def test_lfc_with_annotators_who_are_always_right_is_plain_logistic_regression(K, rng):
    X = rng.normal(size=(150, 2)) * [1.0, 20.0] + 3
    scaled = (X - X.mean(0)) / X.std(0)
    truth = np.argmax(scaled @ rng.normal(size=(2, K)) + rng.gumbel(size=(150, K)), 1)
    model = LFC(K, ridge=0.5, smoothing=1e-9, tolerance=1e-12).fit(annotated(X, np.stack([truth] * 3, 1)))
    # With two classes, weights w and -w are penalised twice, for a slope of 2w.
    plain = LogisticRegression(C=4.0 if K == 2 else 2.0, tol=1e-8, max_iter=1000).fit(scaled, truth)
    p, var = model.predict_y(X)
    np.testing.assert_allclose(p, plain.predict_proba(scaled), atol=1e-4)
    np.testing.assert_allclose(var, p * (1 - p))
    np.testing.assert_allclose(model.confusion_, np.stack([np.eye(K)] * 3), atol=1e-6)


def test_lfc_of_two_classes_takes_the_steps_of_sensitivity_and_specificity(rng):
    """Specification 9.4, written out."""
    X = rng.normal(size=(60, 1))
    truth = (X[:, 0] + 0.5 * rng.normal(size=60) > 0).astype(int)
    y = told(rng, truth, diagonal(2, 0.9, 0.7, 0.6))
    model = LFC(2, smoothing=1e-9, tolerance=1e-13, iterations=3000).fit(annotated(X, y))
    p, alpha, beta = model.predict_y(X)[0][:, 1], model.confusion_[:, 1, 1], model.confusion_[:, 0, 0]
    a = p * np.prod(alpha**y * (1 - alpha) ** (1 - y), 1)
    b = (1 - p) * np.prod(beta ** (1 - y) * (1 - beta) ** y, 1)
    mu = a / (a + b)
    np.testing.assert_allclose(model.posterior_[:, 1], mu, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(alpha, mu @ y / mu.sum(), atol=1e-4)
    np.testing.assert_allclose(beta, (1 - mu) @ (1 - y) / (1 - mu).sum(), atol=1e-4)


def test_reliability_under_lfc_is_that_of_the_class_averaged_over_classes(classes):
    model = LFC(3).fit(classes)
    X = classes.inputs(0)[:5]
    p = model.predict_y(X)[0]
    mean, var = model.reliability(X)
    for n, r in product(range(5), range(4)):
        right = np.diag(model.confusion_[r])
        np.testing.assert_allclose(mean[n, r], p[n] @ right)
        np.testing.assert_allclose(var[n, r], p[n] @ (right - mean[n, r]) ** 2, atol=1e-12)


def test_dgrl_tells_an_expert_from_one_who_clicks_at_random(rng):
    X = rng.normal(size=(600, 2))
    truth = np.argmax(X @ np.array([[4.0, -4.0, 0.0], [-2.0, -2.0, 4.0]]) + rng.gumbel(size=(600, 3)), 1)
    confusion = np.concatenate([diagonal(3, 1.0, 1.0), np.full((1, 3, 3), 1 / 3)])
    model = DGRL(3, tolerance=1e-9).fit(annotated(X, told(rng, truth, confusion)))
    assert model.phi_[:2].min() > 0.95
    assert model.phi_[2] < 0.1
    mean, var = model.reliability(X[:4])
    np.testing.assert_array_equal(mean, np.tile(model.phi_, (4, 1)))
    assert not var.any()


def test_dgrl_responsibilities_are_those_of_the_specification(classes):
    """Specification 9.4, written out; at convergence reliabilities are their means."""
    model, own = DGRL(3, smoothing=1e-6, tolerance=1e-10, iterations=2000).fit(classes), classes[0]
    p = model.predict_y(classes.inputs(0))[0]
    for n, r in np.argwhere(own.observed):
        know, guess = model.phi_[r] * p[n, int(own.Y[n, r])], (1 - model.phi_[r]) / 3
        np.testing.assert_allclose(model.responsibility_[n, r], know / (know + guess), rtol=1e-8)
    assert not model.responsibility_[~own.observed].any()
    np.testing.assert_allclose(model.phi_, model.responsibility_.sum(0) / own.observed.sum(0), atol=1e-3)


def test_lfcr_with_annotators_of_equal_noise_is_least_squares_on_the_mean(rng):
    X, y = rng.normal(size=(40, 3)) * [1.0, 50.0, 0.1], rng.normal(size=40)
    plain = LinearRegression().fit(X, y)
    residual, noise = y - plain.predict(X), rng.normal(size=40)
    noise -= residual * (noise @ residual) / (residual @ residual)
    model = LFCR().fit(annotated(X, np.column_stack([y + noise, y - noise])))
    mean, var = model.predict_y(X)
    np.testing.assert_allclose(mean[:, 0], plain.predict(X), atol=1e-8)
    np.testing.assert_allclose(model.noise_, np.mean(residual**2 + noise**2) * np.ones(2))
    D = np.column_stack([np.ones(40), X])
    np.testing.assert_allclose(var[:, 0], model.noise_[0] / 2 * np.diag(D @ np.linalg.inv(D.T @ D) @ D.T), rtol=1e-6)


def test_lfcr_maximises_the_likelihood_of_what_was_observed(values, rng):
    """At the solution weights are least squares over all annotations, precisions as weights; no iteration decreases."""
    model, own, X = LFCR(tolerance=1e-14).fit(values), values[0], values.inputs(0)
    n, r = np.nonzero(own.observed)
    plain = LinearRegression().fit(X[n], own.Y[n, r], sample_weight=1 / model.noise_[r])
    np.testing.assert_allclose(model.predict_y(X)[0][:, 0], plain.predict(X), rtol=1e-5)
    residual = own.Y[n, r] - plain.predict(X)[n]
    np.testing.assert_allclose(model.noise_, [np.mean(residual[r == s] ** 2) for s in range(3)], rtol=1e-4)
    density = norm.logpdf(residual, scale=np.sqrt(model.noise_[r])).sum()
    np.testing.assert_allclose(model.log_likelihood_[-1], density, rtol=1e-8)
    assert np.diff(model.log_likelihood_).min() > -1e-9


def test_lfcr_recovers_the_noise_of_each_annotator(rng):
    N, variance = 3000, np.array([0.1, 1.0, 4.0])
    X = rng.normal(size=(N, 2))
    y = 1 + X @ [[2.0], [-1.0]] + rng.normal(size=(N, 3)) * np.sqrt(variance)
    model = LFCR().fit(annotated(X, with_gaps(rng, y)))
    mean, var = model.reliability(X[:2])
    np.testing.assert_allclose(mean, np.tile(variance, (2, 1)), rtol=5 * np.sqrt(2 / (0.6 * N)))
    assert not var.any()


def test_noise_does_not_fall_to_zero_where_an_annotator_lies_on_the_line(rng):
    X = rng.normal(size=(20, 1))
    y = np.column_stack([2 * X[:, 0] + 1, 2 * X[:, 0] + 1 + rng.normal(size=20)])
    model = LFCR().fit(annotated(X, y))
    np.testing.assert_allclose(model.noise_[0], 1e-6 * np.var(y))
    np.testing.assert_allclose(model.predict_y(X)[0][:, 0], y[:, 0], atol=1e-3)


def stacked(model, data):
    """Annotations that were observed, their covariance, that with `f` at new inputs, and the variance of `f`."""
    n, r = np.nonzero(data[0].observed)
    X = data.inputs(0)[n]
    distance = np.sum((X[:, None] - X[None]) ** 2, -1)
    k, ell = float(model.kernel.variance.numpy()), float(model.kernel.lengthscales.numpy())
    K = k * np.exp(-distance / (2 * ell**2)) + np.diag(model.noise_[r])
    return data[0].Y[n, r], K, lambda a: k * np.exp(-np.sum((a[:, None] - X[None]) ** 2, -1) / (2 * ell**2)), k


@pytest.mark.parametrize("steps", [1, 200])
def test_gp_objective_and_prediction_are_those_of_the_dense_gp_over_all_annotations(steps, values, rng):
    model = AnnotatorGPR(steps=steps).fit(values)
    y, K, cross, k = stacked(model, values)
    c = average(values)[0].Y.mean()
    dense = multivariate_normal(np.full(len(y), c), K).logpdf(y)
    np.testing.assert_allclose(model.log_likelihood_, dense, rtol=1e-8)
    new = rng.uniform(-0.5, 1.5, size=(7, 2))
    Kx = cross(new)
    mean, var = model.predict_y(new)
    assert mean.shape == var.shape == (7, 1)
    np.testing.assert_allclose(mean[:, 0], c + Kx @ np.linalg.solve(K, y - c), rtol=1e-6)
    np.testing.assert_allclose(var[:, 0], k - np.sum(Kx * np.linalg.solve(K, Kx.T).T, 1), rtol=1e-5, atol=1e-8)


def test_gp_is_at_a_maximum_of_its_marginal_likelihood(values):
    model = AnnotatorGPR().fit(values)
    best = model.log_likelihood_
    for parameter in (model.kernel.variance, model.kernel.lengthscales, model._noise):
        kept = parameter.numpy()
        for factor in (0.95, 1.05):
            parameter.assign(kept * factor)
            assert float(model._log_evidence()) < best
        parameter.assign(kept)


def test_gp_recovers_the_noise_of_each_annotator(rng):
    X, variance = rng.uniform(size=(250, 1)), np.array([0.02, 0.2, 1.0])
    y = np.sin(8 * X) + rng.normal(size=(250, 3)) * np.sqrt(variance)
    model = AnnotatorGPR().fit(annotated(X, y))
    np.testing.assert_allclose(model.reliability(X[:1])[0][0], variance, rtol=5 * np.sqrt(2 / 250))
    mean, var = model.predict_y(X)
    assert np.mean(np.abs(mean - np.sin(8 * X)) < 3 * np.sqrt(var)) > 0.95


def test_gp_takes_a_subset_of_many_rows_and_says_so(values):
    with pytest.warns(UserWarning, match="25 rows are more than most_rows=10"):
        model = AnnotatorGPR(steps=3, most_rows=10, seed=4).fit(values)
    rows = np.sort(np.random.default_rng(4).choice(25, 10, replace=False))
    y, K, _, _ = stacked(model, values.take({"y": rows}))
    c = average(values)[0].Y[rows].mean()
    np.testing.assert_allclose(model.log_likelihood_, multivariate_normal(np.full(len(y), c), K).logpdf(y), rtol=1e-8)


def fitted(model, data):
    """Everything that a fit says about new inputs."""
    X = data.inputs(0)[:5]
    return [*model.fit(data).predict_y(X), *model.reliability(X), np.atleast_1d(model.log_likelihood_)]


@pytest.mark.parametrize("model", [DawidSkene(3), LFC(3), DGRL(3), LFCR(), AnnotatorGPR(steps=20)], ids=type)
def test_entries_that_are_masked_do_not_count_whatever_they_hold(model, classes, values, rng):
    data = values if isinstance(model, REGRESSORS) else classes
    own, expected = data[0], fitted(model, data)
    for held in (np.full(own.Y.shape, 1e6), rng.integers(0, 3, own.Y.shape).astype(float)):
        other = annotated(data.inputs(0), np.where(own.observed, own.Y, held), own.observed)
        for one, two in zip(expected, fitted(model, other), strict=True):
            np.testing.assert_array_equal(one, two)
    summary = average if isinstance(model, REGRESSORS) else lambda d: majority_vote(d, 3)
    np.testing.assert_array_equal(summary(data)[0].Y, summary(other)[0].Y)


def patterns(rng, labels: bool) -> dict[str, np.ndarray]:
    full = rng.integers(0, 2, (12, 3)).astype(float) if labels else rng.normal(size=(12, 3))
    silent, single, one = full.copy(), np.full((12, 3), NAN), full[:, :1]
    silent[:, 1] = NAN
    single[np.arange(12), np.arange(12) % 3] = full[:, 0]
    return {"silent": silent, "single": single, "one": one, "same": np.ones((12, 3)), "row": full[:1]}


@pytest.mark.parametrize("pattern", ["silent", "single", "one", "same", "row"])
@pytest.mark.parametrize("model", [*CLASSIFIERS, *REGRESSORS])
def test_any_pattern_of_missing_annotations_gives_finite_predictions(model, pattern, rng):
    Y = patterns(rng, model in CLASSIFIERS)[pattern]
    X = rng.normal(size=(len(Y), 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one = model(3).fit(annotated(X, Y)) if model in CLASSIFIERS else model().fit(annotated(X, Y))
    mean, var = one.predict_y(X)
    trust, _ = one.reliability(X)
    assert mean.shape == var.shape == (len(X), 3 if model in CLASSIFIERS else 1)
    assert trust.shape == (len(X), Y.shape[1])
    assert np.isfinite(mean).all()
    assert np.isfinite(trust).all()
    assert (var >= -1e-12).all()
    if model in CLASSIFIERS:
        np.testing.assert_allclose(mean.sum(1), 1)
    if pattern == "silent":
        known = {DawidSkene: 1 / 3, LFC: 1 / 3, DGRL: 1 / 2}
        if model in known:
            np.testing.assert_allclose(trust[:, 1], known[model])
        else:
            np.testing.assert_allclose(trust[:, 1], trust[:, [0, 2]].mean(1))


def test_a_second_fit_forgets_the_first(classes, values):
    for make, data in ((lambda: LFC(3), classes), (lambda: DGRL(3), classes), (LFCR, values)):
        again, half = make(), data.take({"y": np.arange(12)})
        again.fit(half)
        for one, two in zip(fitted(again, data), fitted(make(), data), strict=True):
            np.testing.assert_array_equal(one, two)


def test_one_dimensional_inputs_are_a_column(rng):
    x, y = rng.normal(size=9), rng.normal(size=(9, 2))
    model = LFCR().fit(annotated(x, y))
    np.testing.assert_array_equal(model.predict_y(x)[0], model.predict_y(x[:, None])[0])


@pytest.mark.parametrize("model", [DawidSkene(3), LFC(3), DGRL(3), LFCR(), AnnotatorGPR()], ids=type)
def test_predictions_before_a_fit_are_refused(model):
    for ask in (model.predict_y, model.reliability):
        with pytest.raises(NotFittedError, match=f"{type(model).__name__} was not fitted; call fit"):
            ask([[0.0]])


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([[0, 1], [3, 1]], r"1 labels that are no class, first at row 1 by annotator 0 \(3.0\); .* from 0 to 2"),
        ([[0, 1], [0, -1]], r"row 1 by annotator 1 \(-1.0\)"),
        ([[NAN, NAN], [0, 0.5]], r"row 1 by annotator 1 \(0.5\)"),
    ],
)
def test_labels_that_are_no_class_are_refused_with_their_row(labels, said):
    for ask in (*(model(3).fit for model in CLASSIFIERS), lambda d: majority_vote(d, 3), lambda d: vote_shares(d, 3)):
        with pytest.raises(ValueError, match=said):
            ask(annotated(np.arange(2.0), labels))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda d: LFC(1), "classes=1; .* at least 2"),
        (lambda d: majority_vote(d, 1), "classes=1"),
        (lambda d: DawidSkene(2.5), "classes=2.5"),
        (lambda d: DawidSkene(3, smoothing=0.0), "smoothing=0.0; expected a number above zero"),
        (lambda d: LFC(3, ridge=0.0), "ridge=0.0"),
        (lambda d: DGRL(3, iterations=0), "iterations=0"),
        (lambda d: LFCR(tolerance=-1.0), "tolerance=-1.0"),
        (lambda d: AnnotatorGPR(most_rows=0), "most_rows=0"),
        (lambda d: LFC(3).fit(d).predict_y([[0.0]]), r"shape \(1, 1\) .* \[N, 2\]"),
        (lambda d: LFC(3).fit(d).predict_y([[0.0, NAN]]), "1 values that are not finite"),
        (lambda d: LFC(3).fit(d).labels(annotated([[0.0, 0.0]], [[1, 2]])), "2 annotators, LFC was fitted to 4"),
        (lambda d: average(MultiOutputData.from_arrays(d.X, d[0].Y)), "4 outputs; expected one .*from_list"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_was_given(call, said, classes):
    with pytest.raises(ValueError, match=said):
        call(classes)


def test_em_that_has_not_settled_says_so(classes):
    with pytest.warns(ConvergenceWarning, match="LFC still gained .* last of 2 iterations"):
        LFC(3, iterations=2).fit(classes)
