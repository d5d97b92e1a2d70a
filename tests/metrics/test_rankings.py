"""Scores of rankings of labels: by hand, against loops over their definitions, and against scikit-learn's."""

from __future__ import annotations

import re
from math import log, log2, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import dcg_score, ndcg_score

from mogp import metrics
from mogp.metrics import rankings

PLAIN = {"precision": metrics.precision_at, "ndcg": metrics.ndcg_at}
WEIGHTED = {"precision": metrics.psp_at, "ndcg": metrics.psndcg_at}

# Row 1 has three tied scores, row 2 no label, row 1 fewer than three.
Y = np.array([[1, 0, 0, 1, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 0, 1]])
SCORES = np.array([[0.9, 0.1, 0.8, 0.7, 0.2], [0.5, 0.5, 0.1, 0.0, 0.5], [3, 1, 2, 5, 4], [1, 2, 3, 4, 5.0]])
RANKING = np.array([[0, 2, 3, 4, 1], [0, 1, 4, 2, 3], [3, 4, 0, 2, 1], [4, 3, 2, 1, 0]])
P = np.array([1 / 2, 1 / 4, 1, 1 / 2, 1 / 5])
L = 1 / log2(3)


def stored(scores):
    """Finite scores as a sparse matrix, zeros among them too."""
    rows, columns = np.nonzero(np.isfinite(scores))
    return sparse.csr_matrix((scores[rows, columns], (rows, columns)), shape=scores.shape)


def ranked(scores):
    """The finite scores of each row in the order of their definition: high first, then low label."""
    return [sorted(np.flatnonzero(np.isfinite(row)), key=lambda c: (-row[c], c)) for row in scores]


def naive(kind, labels, order, k, p=None):
    """The mean over rows of a score, place by place."""
    total = 0.0
    for y, places in zip(labels, order, strict=True):
        gain = best = 0.0
        for r in range(1, k + 1):
            share = 1 / k if kind == "precision" else 1 / log2(r + 1)
            best += share if kind == "precision" or r <= sum(y) else 0.0
            if r <= len(places) and y[places[r - 1]]:
                gain += share / (1.0 if p is None else p[places[r - 1]])
        total += gain / best if sum(y) else 0.0
    return total / len(labels)


def oracle(labels, p):
    return [sorted(np.flatnonzero(y), key=lambda c: (p[c], c)) for y in labels]


@st.composite
def cases(draw):
    """Labels, scores with many ties and gaps, k and propensities, for up to 6 rows and 7 labels."""
    N, K = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    labels = (rng.random((N, K)) < draw(st.sampled_from([0.1, 0.4, 0.9]))).astype(int)
    scores = rng.integers(-2, draw(st.sampled_from([-1, 1, 50])), (N, K)).astype(float)
    scores[rng.random((N, K)) < draw(st.sampled_from([0.0, 0.3, 0.8]))] = -np.inf
    return labels, scores, draw(st.integers(1, 9)), rng.uniform(0.05, 1.0, K)


# ----------------------------------------------------------------------------------------------------------- by hand


def test_precision_equals_the_shares_counted_by_hand():
    assert metrics.precision_at(Y, RANKING, 1) == pytest.approx((1 + 0 + 0 + 1) / 4)
    assert metrics.precision_at(Y, RANKING, 3) == pytest.approx((2 / 3 + 1 / 3 + 0 + 2 / 3) / 4)
    assert metrics.precision_at(Y, RANKING, 5) == pytest.approx((2 / 5 + 1 / 5 + 0 + 4 / 5) / 4)


def test_ndcg_equals_the_discounts_added_by_hand():
    """Places 1, 2, 3 are worth 1, L = 1 / log2(3), 1/2; the rows have 2, 1, 0 and 4 labels."""
    rows = [(1 + 1 / 2) / (1 + L), L / 1, 0, (1 + 1 / 2) / (1 + L + 1 / 2)]
    assert metrics.ndcg_at(Y, RANKING, 3) == pytest.approx(sum(rows) / 4)


def test_propensity_scores_equal_those_computed_by_hand():
    """1/p = (2, 4, 1, 2, 5): the rows gain 2 + 2, 4, 0 and 5 + 1; the oracle 2 + 2, 4, 0 and 5 + 4 + 2."""
    assert metrics.psp_at(Y, RANKING, 3, P, normalise=False) == pytest.approx((4 + 4 + 0 + 6) / 3 / 4)
    assert metrics.psp_at(Y, RANKING, 3, P) == pytest.approx(14 / 19)
    rows = [(2 + 2 / 2) / (1 + L), 4 * L / 1, 0, (5 + 1 / 2) / (1 + L + 1 / 2)]
    best = [(2 + 2 * L) / (1 + L), 4 / 1, 0, (5 + 4 * L + 2 / 2) / (1 + L + 1 / 2)]
    assert metrics.psndcg_at(Y, RANKING, 3, P, normalise=False) == pytest.approx(sum(rows) / 4)
    assert metrics.psndcg_at(Y, RANKING, 3, P) == pytest.approx(sum(rows) / sum(best))


def test_propensities_equal_the_formula_by_hand():
    """a = 1/2, b = 3, N = 10: C = (log 10 - 1) * 2; labels of 1, 6, 0 rows have 4, 9, 3 under the root."""
    labels = np.zeros((10, 3), int)
    labels[0, 0] = labels[:6, 1] = 1
    C = 2 * (2.302585093 - 1)
    expected = [1 / (1 + C / 2), 1 / (1 + C / 3), 1 / (1 + C / sqrt(3))]
    np.testing.assert_allclose(metrics.propensities(labels, 0.5, 3.0), expected, rtol=1e-9)


@pytest.mark.parametrize(("a", "b"), [(0.55, 1.5), (0.5, 0.4), (0.6, 2.6)])
def test_a_label_seen_once_has_propensity_one_over_log_n_and_frequent_ones_more(a, b):
    labels = np.tri(40, 40, dtype=np.uint8)  # label c is on 40 - c rows
    p = metrics.propensities(sparse.csr_matrix(labels), a, b)
    assert p[-1] == pytest.approx(1 / log(40))
    assert np.all(np.diff(p) < 0)
    assert np.all((p > 0) & (p < 1))


def test_propensities_default_to_those_of_most_data_sets():
    np.testing.assert_array_equal(metrics.propensities(Y), metrics.propensities(Y, 0.55, 1.5))


# -------------------------------------------------------------------------------------------- forms of a prediction


def test_equal_scores_are_ranked_by_label():
    for scores in (SCORES, SCORES.astype(np.float32), sparse.csr_matrix(SCORES + 1)):
        np.testing.assert_array_equal(metrics.top_labels(scores, 5), RANKING)
    np.testing.assert_array_equal(metrics.top_labels(np.zeros((2, 9)), 4), [[0, 1, 2, 3]] * 2)
    np.testing.assert_array_equal(metrics.top_labels([[0.0, -0.0, 1.0, 0.0]], 3), [[2, 0, 1]])


def test_labels_without_a_score_are_never_ranked():
    """Not stored, or -inf; a stored zero and a negative score are scores."""
    scores = sparse.csr_matrix(([0.0, -3.0, -np.inf], [4, 1, 0], [0, 3, 3]), shape=(2, 5))
    np.testing.assert_array_equal(metrics.top_labels(scores, 3), [[4, 1, -1], [-1, -1, -1]])
    dense = np.full((2, 5), -np.inf)
    dense[0, [4, 1]] = 0.0, -3.0
    np.testing.assert_array_equal(metrics.top_labels(dense, 3), [[4, 1, -1], [-1, -1, -1]])
    assert metrics.precision_at([[1, 1, 1, 1, 1], [1, 0, 0, 0, 0]], scores, 3) == pytest.approx((2 / 3 + 0) / 2)


@settings(max_examples=150, deadline=None)
@given(cases())
def test_scores_equal_loops_over_their_definitions_whatever_the_form_of_the_prediction(case):
    labels, scores, k, p = case
    order = ranked(scores)
    ranking = np.array([(places + [-1] * 9)[:9] for places in order], dtype=np.int32)
    truth = sparse.csr_matrix(labels)
    for kind in PLAIN:
        plain, weighted = naive(kind, labels, order, k), naive(kind, labels, order, k, p)
        best = naive(kind, labels, oracle(labels, p), k, p)
        for given_labels, predicted in ((labels, scores), (truth, stored(scores)), (labels == 1, ranking)):
            assert PLAIN[kind](given_labels, predicted, k) == pytest.approx(plain, rel=1e-12)
            raw = WEIGHTED[kind](given_labels, predicted, k, p, normalise=False)
            assert raw == pytest.approx(weighted, rel=1e-12)
            if labels.any():
                score = WEIGHTED[kind](given_labels, predicted, k, p)
                assert score == pytest.approx(weighted / best, rel=1e-12)
                assert 0 <= score <= 1 + 1e-12


@settings(max_examples=150, deadline=None)
@given(cases())
def test_top_labels_equals_a_full_sort(case):
    _, scores, k, _ = case
    K = scores.shape[1]
    expected = [(places + [-1] * K)[: min(k, K)] for places in ranked(scores)]
    np.testing.assert_array_equal(metrics.top_labels(scores, k), expected)
    np.testing.assert_array_equal(metrics.top_labels(stored(scores), k), expected)


def test_any_sparse_format_and_any_order_of_entries_is_read_and_left_alone():
    shuffled = sparse.csr_matrix(([0.5, 0.25, 2.0, 0.5], [3, 0, 1, 3], [0, 3, 4]), shape=(2, 4))
    repeated = sparse.coo_matrix(([0.25, 0.25, 0.25, 2, 0.5], ([0, 0, 0, 0, 1], [3, 3, 0, 1, 3])), shape=(2, 4))
    for scores in (shuffled, repeated, shuffled.tocsc(), repeated.tolil(), sparse.csr_array(shuffled)):
        np.testing.assert_array_equal(metrics.top_labels(scores, 3), [[1, 3, 0], [3, -1, -1]])
    np.testing.assert_array_equal(shuffled.indices, [3, 0, 1, 3])
    truth = sparse.csr_matrix((np.array([1, 0, 1], np.uint8), [3, 2, 1], [0, 2, 3]), shape=(2, 4))
    for part in (truth.data, truth.indices, truth.indptr):
        part.flags.writeable = False
    for labels in (truth, truth.tocoo(), sparse.csr_array(truth), truth.astype(bool)):
        assert metrics.precision_at(labels, shuffled, 2) == pytest.approx((1 / 2 + 0) / 2)
    np.testing.assert_array_equal(truth.data, [1, 0, 1])


def test_scores_ranked_in_blocks_of_rows_equal_scores_ranked_at_once(monkeypatch):
    scores = np.random.default_rng(4).integers(0, 5, (23, 6)).astype(float)
    expected = [places[:4] for places in ranked(scores)]
    for entries in (1, 13, 6 * 23, 2**20):
        monkeypatch.setattr(rankings, "_BLOCK", entries)
        np.testing.assert_array_equal(metrics.top_labels(scores, 4), expected)
    monkeypatch.setattr(rankings, "_BLOCK", 13)
    scores[17, 2] = np.nan
    with pytest.raises(ValueError, match="scores hold nan at row 17, label 2; expected numbers"):
        metrics.top_labels(scores, 4)


def test_a_hundred_thousand_rows_of_a_million_labels_need_no_dense_table():
    N, K = 100_000, 1_000_000
    row = np.arange(N)
    labels = (row[:, None] * 9 + np.arange(3)) % K
    truth = sparse.csr_matrix((np.ones(3 * N), labels.ravel(), 3 * np.arange(N + 1)), shape=(N, K))
    ranking = (row[:, None] * 9 + np.array([0, 5, 2])) % K
    scores = sparse.csr_matrix((np.tile([3.0, 2.0, 1.0], N), ranking.ravel(), 3 * np.arange(N + 1)), shape=(N, K))
    for predicted in (ranking, scores):
        assert metrics.precision_at(truth, predicted, 3) == pytest.approx(2 / 3)
        assert metrics.ndcg_at(truth, predicted, 3) == pytest.approx((1 + 1 / 2) / (1 + L + 1 / 2))
        assert metrics.psp_at(truth, predicted, 3, metrics.propensities(truth)) < 1


# ------------------------------------------------------------------------------------------------ invariant 31, edges


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
def test_perfect_scores_have_the_precision_of_the_number_of_labels_and_ndcg_one(k):
    labels = Y[[0, 1, 3]]
    assert metrics.precision_at(labels, labels.astype(float), k) == pytest.approx(
        np.mean(np.minimum(labels.sum(1), k) / k)
    )
    assert metrics.ndcg_at(labels, labels.astype(float), k) == pytest.approx(1)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_ndcg_at_one_equals_precision_at_one(case):
    labels, scores, _, _ = case
    assert metrics.ndcg_at(labels, scores, 1) == pytest.approx(metrics.precision_at(labels, scores, 1), rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_propensities_of_one_give_the_plain_scores_and_the_oracle_scores_one(case):
    labels, scores, k, p = case
    for kind in PLAIN:
        raw = WEIGHTED[kind](labels, scores, k, np.ones_like(p), normalise=False)
        assert raw == pytest.approx(PLAIN[kind](labels, scores, k), rel=1e-12)
        if labels.any():
            assert WEIGHTED[kind](labels, labels / p, k, p) == pytest.approx(1, rel=1e-12)


def test_rows_without_labels_count_as_zeros():
    some, none = Y[[0, 3]], np.zeros((2, 5), int)
    for kind in PLAIN:
        half = PLAIN[kind](np.vstack([some, none]), RANKING, 3)
        assert half == pytest.approx(PLAIN[kind](some, RANKING[:2], 3) / 2)
        assert PLAIN[kind](none, RANKING[:2], 3) == 0
        with pytest.raises(ValueError, match="none of the 2 rows has a label"):
            WEIGHTED[kind](none, RANKING[:2], 3, P)
        assert WEIGHTED[kind](none, RANKING[:2], 3, P, normalise=False) == 0


def test_places_beyond_the_last_label_are_misses():
    assert metrics.precision_at(Y, SCORES, 8) == pytest.approx((2 / 8 + 1 / 8 + 0 + 4 / 8) / 4)
    assert metrics.precision_at(Y, RANKING, 8) == pytest.approx((2 / 8 + 1 / 8 + 0 + 4 / 8) / 4)
    assert metrics.ndcg_at(Y, SCORES, 8) == pytest.approx(metrics.ndcg_at(Y, SCORES, 5))


def test_one_label_and_one_row_are_enough():
    assert metrics.precision_at([[1]], [[0.3]], 1) == 1
    assert metrics.ndcg_at([[1]], [[0]], 3) == 1
    assert metrics.psp_at([[1]], [[-1]], 1, [0.5]) == 0


# ------------------------------------------------------------------------------------------------------ scikit-learn


@pytest.mark.parametrize("k", [1, 3, 10])
def test_ndcg_of_distinct_scores_equals_that_of_scikit_learn(k):
    rng = np.random.default_rng(1)
    labels, scores = (rng.random((60, 12)) < 0.2).astype(int), rng.permuted(np.tile(np.arange(12.0), (60, 1)), axis=1)
    assert (labels.sum(1) == 0).any()
    assert metrics.ndcg_at(labels, scores, k) == pytest.approx(ndcg_score(labels, scores, k=k), rel=1e-12)


@pytest.mark.parametrize("k", [1, 3])
def test_weighted_gains_equal_the_dcg_of_scikit_learn(k):
    """Rows with at least k labels share one denominator. scikit-learn's own nDCG of y/p would divide by row."""
    rng = np.random.default_rng(2)
    labels, scores = (rng.random((60, 12)) < 0.6).astype(int), rng.permuted(np.tile(np.arange(12.0), (60, 1)), axis=1)
    labels[:, :3] = 1
    p = rng.uniform(0.1, 1, 12)
    expected = dcg_score(labels / p, scores, k=k) / sum(1 / log2(r + 1) for r in range(1, k + 1))
    assert metrics.psndcg_at(labels, scores, k, p, normalise=False) == pytest.approx(expected, rel=1e-12)
    best = dcg_score(labels / p, labels / p, k=k)
    assert metrics.psndcg_at(labels, scores, k, p) == pytest.approx(
        dcg_score(labels / p, scores, k=k) / best, rel=1e-12
    )


def test_tied_scores_are_ordered_where_scikit_learn_averages_over_orders():
    assert ndcg_score([[0, 1]], [[0.5, 0.5]], k=2) == pytest.approx((1 + L) / 2)
    assert metrics.ndcg_at([[0, 1]], [[0.5, 0.5]], 2) == pytest.approx(L)
    assert metrics.ndcg_at([[1, 0]], [[0.5, 0.5]], 2) == pytest.approx(1)


# ------------------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("labels", "ranking", "k", "message"),
    [
        (2 * Y - 1, RANKING, 1, "labels have 13 entries other than 0 and 1, first -1 at row 0, label 1; code absent"),
        ([[1, np.nan]], [[0, 1]], 1, "labels have 1 entry other than 0 and 1, first nan at row 0, label 1"),
        (np.zeros((0, 5)), np.zeros((0, 5)), 1, "labels have shape (0, 5); expected (rows, labels)"),
        ([1, 0, 1], [[0]], 1, "labels have shape (3,); expected (rows, labels)"),
        (Y, [], 1, "rankings have shape (0,); expected (rows, labels)"),
        (Y, SCORES[:, :4], 1, "scores have shape (4, 4) where the labels have (4, 5)"),
        (Y, stored(SCORES[:3]), 1, "scores have shape (3, 5) where the labels have (4, 5)"),
        (Y, RANKING[:3], 1, "the ranking has shape (3, 5) for k = 1 and labels of shape (4, 5)"),
        (
            Y,
            RANKING[:, :3],
            5,
            "the ranking has shape (4, 3) for k = 5 and labels of shape (4, 5); expected at least (4, 5)",
        ),
        (Y, RANKING + 1, 5, "the ranking has label 5; expected 0 to 4, or -1 for none"),
        (Y, RANKING - 2, 5, "the ranking has label -2; expected 0 to 4, or -1 for none"),
        (Y, [[0, 1], [1, 2], [3, 3], [0, 1]], 2, "row 2 of the ranking has label 3 more than once"),
        (Y, Y == 1, 2, "the ranking has entries of type bool; expected labels as whole numbers, or scores as floats"),
        (Y, np.full((4, 5), np.nan), 2, "scores hold nan at row 0, label 0"),
        (Y, sparse.csr_matrix(([np.inf], [3], [0, 0, 1, 1, 1]), shape=(4, 5)), 2, "scores hold inf at row 1, label 3"),
        (Y, RANKING, 0, "k is 0; expected one whole number, at least 1"),
        (Y, RANKING, (1, 3, 5), "k is (1, 3, 5); expected one whole number, at least 1"),
        (Y, RANKING, 2.5, "k is 2.5; expected one whole number, at least 1"),
    ],
)
def test_what_cannot_be_scored_is_refused_with_a_reason(labels, ranking, k, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        metrics.precision_at(labels, ranking, k)


def test_propensities_that_are_none_are_refused():
    with pytest.raises(
        ValueError, match=re.escape("the propensities have shape (4,); expected (5,), one for each label")
    ):
        metrics.psp_at(Y, RANKING, 1, P[:4])
    for wrong in (0.0, -0.1, 1.5, np.nan):
        with pytest.raises(ValueError, match=f"the propensity of label 2 is {wrong}; expected probabilities"):
            metrics.psndcg_at(Y, RANKING, 1, [0.5, 1, wrong, 0.5, 0.5])
    with pytest.raises(ValueError, match="2 rows of labels; log N - 1 must be positive"):
        metrics.propensities(Y[:2])
    with pytest.raises(ValueError, match=re.escape("a is 0.55 and b is 0; expected a >= 0 and b > 0")):
        metrics.propensities(Y, b=0)
