"""Every score against its formula written out, and errors that say what is wrong."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import special, stats

from mogp import metrics

RNG = np.random.default_rng(0)
Y = RNG.normal(3.0, 2.0, size=50)
MEAN = Y + RNG.normal(0.0, 0.5, size=50)


def test_importing_metrics_does_not_import_tensorflow():
    code = "import sys, mogp.metrics; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nlpd_of_gaussian_predictions_equals_the_formula():
    variance = RNG.uniform(0.1, 2.0, size=50)
    formula = np.mean((Y - MEAN) ** 2 / variance + np.log(variance) + np.log(2 * np.pi)) / 2
    assert metrics.nlpd(stats.norm(MEAN, np.sqrt(variance)).logpdf(Y)) == pytest.approx(formula, rel=1e-12)


def test_nlpd_floors_are_those_of_a_standard_normal_and_a_fair_coin():
    y = stats.norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    assert metrics.nlpd(stats.norm.logpdf(y)) == pytest.approx(0.5 * np.log(2 * np.pi * np.e), abs=1e-4)
    assert metrics.nlpd(np.full(7, np.log(0.5))) == pytest.approx(np.log(2))


def test_errors_equal_loops_over_their_formulas():
    squares = sum((y - m) ** 2 for y, m in zip(Y, MEAN, strict=True))
    spread = sum((y - Y.mean()) ** 2 for y in Y)
    assert metrics.rmse(Y, MEAN) == pytest.approx(np.sqrt(squares / 50))
    assert metrics.smse(Y, MEAN) == pytest.approx(squares / spread)
    assert metrics.nmse(Y, MEAN) == pytest.approx(squares / spread)
    assert metrics.r2(Y, MEAN) == pytest.approx(1 - squares / spread)
    from_train = sum((y - 1.5) ** 2 for y in Y)
    assert metrics.smse(Y, MEAN, reference="train", y_train=[1.0, 2.0]) == pytest.approx(squares / from_train)


def test_predicting_the_mean_scores_one_and_the_truth_zero():
    assert metrics.smse(Y, np.full(50, Y.mean())) == pytest.approx(1.0)
    assert metrics.r2(Y, Y) == 1.0
    assert metrics.rmse(Y, Y) == 0.0


def test_scores_do_not_depend_on_the_shape_of_the_arrays():
    assert metrics.nmse(Y.reshape(10, 5), MEAN.reshape(10, 5)) == metrics.nmse(Y, MEAN)


def test_hll_sums_the_log_of_the_mean_density_over_paths():
    log_p = RNG.normal(-1.0, 1.0, size=(20, 50))
    expected = np.sum(np.log(np.mean(np.exp(log_p), axis=0)))
    assert metrics.hll(log_p) == pytest.approx(expected)
    assert metrics.hll(log_p, average=True) == pytest.approx(expected / 50)
    assert metrics.hll(log_p - 1e4) == pytest.approx(expected - 50e4)
    assert metrics.hll(log_p[0]) == pytest.approx(log_p[0].sum())


def test_hll_with_a_scale_is_the_likelihood_in_original_units():
    standardised = stats.norm(0.2, 0.7).logpdf(Y / 4.0)
    original = stats.norm(0.8, 2.8).logpdf(Y)
    assert metrics.hll(standardised, scale=4.0) == pytest.approx(original.sum())


def test_weighted_scores_equal_a_loop_over_classes():
    labels, predicted = RNG.integers(0, 4, 80), RNG.integers(0, 5, 80)
    precision = recall = f1 = 0.0
    for k in np.unique(labels):
        both = np.sum((labels == k) & (predicted == k))
        p, r = both / max(np.sum(predicted == k), 1), both / np.sum(labels == k)
        weight = np.mean(labels == k)
        precision, recall = precision + weight * p, recall + weight * r
        f1 += weight * (2 * p * r / (p + r) if p + r else 0.0)
    assert metrics.weighted_precision(labels, predicted) == pytest.approx(precision)
    assert metrics.weighted_recall(labels, predicted) == pytest.approx(recall)
    assert metrics.weighted_recall(labels, predicted) == pytest.approx(np.mean(labels == predicted))
    assert metrics.weighted_f1(labels, predicted) == pytest.approx(f1)


def test_a_class_never_predicted_scores_zero_without_a_warning(recwarn):
    assert metrics.weighted_precision([0, 1], [0, 0]) == pytest.approx(0.25)
    assert metrics.weighted_f1([0, 0], [1, 1]) == 0.0
    assert not recwarn.list


def mann_whitney(positive, scores):
    """The share of (positive, negative) pairs in the right order, ties half."""
    difference = scores[positive][:, None] - scores[~positive]
    return np.mean((difference > 0) + 0.5 * (difference == 0))


def test_auc_of_two_classes_is_the_share_of_ordered_pairs():
    labels = RNG.integers(0, 2, 60)
    scores = np.round(labels + RNG.normal(size=60), 1)
    assert metrics.auc(labels, scores) == pytest.approx(mann_whitney(labels == 1, scores))
    assert metrics.auc(labels, scores[:, None]) == pytest.approx(mann_whitney(labels == 1, scores))
    two = special.expit(np.stack([-scores, scores], 1))
    assert metrics.auc(labels, two) == pytest.approx(mann_whitney(labels == 1, scores))


def test_auc_of_many_classes_weights_each_by_its_prevalence_and_ignores_absent_ones():
    labels, scores = RNG.choice([0, 1, 3], size=90, p=[0.5, 0.3, 0.2]), RNG.normal(size=(90, 4))
    expected = sum(np.mean(labels == k) * mann_whitney(labels == k, scores[:, k]) for k in (0, 1, 3))
    assert metrics.auc(labels, scores) == pytest.approx(expected)


def test_coverage_of_calibrated_samples_is_the_level():
    samples = RNG.normal(size=(1500, 3000))
    y = RNG.normal(size=3000)
    for level in (0.5, 0.9):
        assert metrics.coverage(y, samples, level) == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / 3000))
    levels, shares = metrics.calibration_curve(y, samples[:500])
    assert levels.shape == shares.shape == (19,)
    np.testing.assert_allclose(shares, levels, atol=0.05)
    assert np.all(np.diff(shares) >= 0)


def test_coverage_counts_targets_between_the_quantiles():
    samples = np.arange(101.0)[:, None].repeat(4, 1)
    assert metrics.coverage([4.9, 5.0, 95.0, 95.1], samples, 0.9) == 0.5
    np.testing.assert_array_equal(metrics.calibration_curve([4.9, 5.0, 95.0, 95.1], samples, [0.9])[1], [0.5])
    assert metrics.interval_coverage([1, 2, 3], [1, 0, 4], [1, 1, 5]) == pytest.approx(1 / 3)


def test_overconfident_samples_cover_less_than_the_level():
    assert metrics.coverage(RNG.normal(size=500), 0.3 * RNG.normal(size=(500, 500)), 0.95) < 0.6


@pytest.mark.parametrize(
    ("score", "arguments"),
    [
        (metrics.nlpd, ([],)),
        (metrics.hll, (np.zeros((0, 3)),)),
        (metrics.rmse, ([], [])),
        (metrics.smse, ([], [])),
        (metrics.weighted_f1, ([], [])),
        (metrics.auc, ([], [])),
        (metrics.coverage, ([], np.zeros((5, 0)))),
    ],
)
def test_empty_input_is_refused(score, arguments):
    with pytest.raises(ValueError, match=r"is empty .*nothing to score"):
        score(*arguments)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_input_names_the_array_and_the_place(bad):
    with pytest.raises(ValueError, match=r"mean has 1 non-finite value, first at \(1,\)"):
        metrics.rmse([1.0, 2.0], [1.0, bad])
    with pytest.raises(ValueError, match="log_density has 2 non-finite values"):
        metrics.nlpd([bad, bad])


def test_shapes_that_would_broadcast_are_refused():
    with pytest.raises(ValueError, match=r"shapes differ: y \(50,\), mean \(50, 1\)"):
        metrics.rmse(Y, MEAN[:, None])
    with pytest.raises(ValueError, match="shapes differ"):
        metrics.weighted_f1([0, 1], [0])
    with pytest.raises(ValueError, match=r"samples have shape \(7, 4\)"):
        metrics.coverage([1.0, 2.0], np.zeros((7, 4)))
    with pytest.raises(ValueError, match="for 3 labels"):
        metrics.auc([0, 1, 1], [0.1, 0.2])
    with pytest.raises(ValueError, match=r"expected \(points,\) or \(paths, points\)"):
        metrics.hll(np.zeros((2, 2, 2)))


def test_scores_without_a_scale_or_a_second_class_are_refused():
    with pytest.raises(ValueError, match=r"all 3 targets equal the reference 2\.0"):
        metrics.nmse([2.0, 2.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="all 2 labels are 1"):
        metrics.auc([1, 1], [0.3, 0.4])
    with pytest.raises(ValueError, match="whole numbers from 0 to 1"):
        metrics.auc([-1, 1], [0.3, 0.4])


def test_options_out_of_range_are_refused():
    with pytest.raises(ValueError, match="level is 95"):
        metrics.coverage([1.0], [[1.0]], 95)
    with pytest.raises(ValueError, match="give y_train if, and only if"):
        metrics.smse(Y, MEAN, reference="train")
    with pytest.raises(ValueError, match="reference is 'best'"):
        metrics.smse(Y, MEAN, reference="best")
    with pytest.raises(ValueError, match="scale is 0"):
        metrics.hll([0.0], scale=0.0)


def test_crps_of_normal_draws_is_the_closed_form(rng):
    """E|Y - y| - ½E|Y - Y'| = σ(z(2Φ(z) - 1) + 2φ(z) - 1/√π) for Y ~ N(m, σ²), z = (y - m)/σ."""
    from scipy.stats import norm

    y, m, sd = np.array([0.3, -1.0, 2.0]), np.array([0.0, 0.5, 1.0]), np.array([1.0, 0.4, 2.0])
    z = (y - m) / sd
    expected = np.mean(sd * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi)))
    draws = m + sd * rng.standard_normal((200_000, 3))
    assert metrics.crps(y, draws) == pytest.approx(expected, abs=5e-3)


def test_crps_is_the_mean_over_pairs_of_different_draws(rng):
    y, draws = rng.normal(size=4), rng.normal(size=(6, 4))
    pairs = [np.abs(draws[a] - draws[b]) for a in range(6) for b in range(6) if a != b]
    expected = np.mean(np.abs(draws - y).mean(0) - 0.5 * np.mean(pairs, axis=0))
    assert metrics.crps(y, draws) == pytest.approx(expected, rel=1e-12)


def test_crps_of_binary_draws_tends_to_the_brier_score(rng):
    p, y = np.array([0.2, 0.7, 0.95]), np.array([0, 1, 0])
    draws = (rng.uniform(size=(300_000, 3)) < p).astype(float)
    assert metrics.crps(y, draws) == pytest.approx(metrics.brier(y, p), abs=3e-3)


def test_brier_of_classes_is_written_out():
    p = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    expected = np.mean([0.3**2 + 0.2**2 + 0.1**2, 0.1**2 + 0.7**2 + 0.6**2])
    assert metrics.brier([0, 1], p) == pytest.approx(expected)
    assert metrics.brier([1, 0], [0.8, 0.3]) == pytest.approx(np.mean([0.04, 0.09]))


@pytest.mark.parametrize("score", [metrics.crps, metrics.brier])
def test_proper_scores_are_best_for_the_true_distribution(score, rng):
    """A forecast that is off scores worse on average."""
    y = (rng.uniform(size=20_000) < 0.3).astype(float)

    def value(p):
        if score is metrics.brier:
            return score(y, np.full(len(y), p))
        return score(y, (rng.uniform(size=(50, len(y))) < p).astype(float))

    assert value(0.3) < min(value(0.15), value(0.5))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: metrics.crps([1.0], [[0.5]]), "at least two draws"),
        (lambda: metrics.crps([1.0, 2.0], [[0.5], [0.1]]), "expected at least two draws"),
        (lambda: metrics.brier([0, 1], [0.2, 1.2]), "from 0 to 1"),
        (lambda: metrics.brier([0, 2], [0.2, 0.3]), "whole numbers from 0 to 1"),
        (lambda: metrics.brier([0, 1, 0], [0.2, 0.3]), "for 3 labels"),
    ],
)
def test_scores_say_what_is_wrong_with_their_input(call, said):
    with pytest.raises(ValueError, match=said):
        call()
