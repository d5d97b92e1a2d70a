"""Augment and reduce: the two bounds on a softmax, and the wrong classes that are drawn for them."""

from itertools import combinations

import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate, special, stats

from mogp.likelihoods import AugmentReduce
from mogp.likelihoods.augment import collapsed_bound, local_bound

F = np.array([[0.3, -1.2, 2.0, 0.9], [4.0, 0.0, -3.0, 1.0], [-0.5, -0.4, -0.6, -0.5]])
X = np.zeros((3, 0))


def wrong(F: np.ndarray, y: int) -> np.ndarray:
    """`f_c - f_y` of the classes other than `y`."""
    return np.delete(F, y, axis=-1) - F[..., [y]]


def gumbel(e: float, location: float = 0.0) -> float:
    return float(np.exp(-(e - location) - np.exp(-(e - location))))


def augmented(e: float, f: np.ndarray, y: int) -> float:
    """log p(y, e | f): the noise of the true class is `e`, and no other class comes out above it."""
    return float(-e - np.exp(-e) - np.sum(np.exp(-(e - wrong(f, y)))))


# --------------------------------------------------------------------------------------------------- the bounds


@pytest.mark.parametrize("y", range(4))
def test_the_largest_of_values_with_gumbel_noise_has_softmax_probabilities(y):
    """T3.1, by quadrature over the noise of the true class."""
    expected = [integrate.quad(lambda e, f=f: np.exp(augmented(e, f, y)), -10, 60, epsabs=1e-11)[0] for f in F]
    np.testing.assert_allclose(special.softmax(F, axis=1)[:, y], expected, atol=1e-8)
    np.testing.assert_allclose(np.exp(AugmentReduce(4).log_prob(X, F, np.full((3, 1), y))), expected, atol=1e-8)


@pytest.mark.parametrize("theta", [1.0, 1.7, 20.0])
def test_the_local_bound_is_the_variational_bound_of_the_augmented_density(theta):
    """Form 0, ∫ q(e) log p(y, e | f) / q(e) de with q(e) = Gumbel(log theta, 1), by quadrature."""
    log_theta = np.log(theta)

    def integrand(e: float, f: np.ndarray) -> float:
        q = gumbel(e, log_theta)
        return q * (augmented(e, f, 2) - (-(e - log_theta) - np.exp(-(e - log_theta)))) if q > 0 else 0.0

    expected = [
        integrate.quad(integrand, log_theta - 6, log_theta + 40, args=(f,), epsabs=1e-10, limit=200)[0] for f in F
    ]
    np.testing.assert_allclose(local_bound(wrong(F, 2), np.full(3, log_theta)), expected, atol=1e-7)


@pytest.mark.parametrize("scale", [1.0, 3.5])
def test_the_local_bound_at_its_best_theta_is_the_collapsed_bound_with_the_same_gradient(rng, scale):
    """T3.2, the envelope theorem; elsewhere the local bound is lower."""
    log_P = tf.constant(rng.normal(size=(6, 4)) * 2)
    best = np.log1p(scale * np.exp(log_P).sum(1))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(log_P)
        one, zero = collapsed_bound(log_P, scale), local_bound(log_P, best, scale)
    np.testing.assert_allclose(one, -best, rtol=1e-12)
    np.testing.assert_allclose(zero, one, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(tape.gradient(zero, log_P), tape.gradient(one, log_P), rtol=1e-10)
    for shift in (-0.3, 0.3):
        assert np.all(local_bound(log_P, best + shift, scale) < one)


def test_without_uncertainty_the_collapsed_bound_is_the_log_softmax():
    for y in range(4):
        np.testing.assert_allclose(collapsed_bound(wrong(F, y)), special.log_softmax(F, axis=1)[:, y], rtol=1e-12)


def over_subsets(bound, s: int):
    """The mean of a bound over all sets of `s` wrong classes of seven."""
    chosen = np.array(list(combinations(range(7), s)))
    return np.mean([bound(LOG_P[None, c], 7 / s).numpy()[0] for c in chosen])


LOG_P = np.random.default_rng(8).normal(size=7) * 1.5


def test_sampled_classes_raise_the_collapsed_bound_the_less_the_more_there_are():
    """T3.6, enumeration of all subsets: biased upwards, and exact with all wrong classes."""
    full = -np.log1p(np.exp(LOG_P).sum())
    expected = [over_subsets(collapsed_bound, s) for s in range(1, 8)]
    assert np.all(np.diff(expected) < 0)
    assert expected[0] > full + 0.1
    np.testing.assert_allclose(expected[-1], full, rtol=1e-12)


def test_sampled_classes_are_exact_where_all_wrong_classes_weigh_the_same():
    same = np.full((1, 2), 0.7)
    np.testing.assert_allclose(collapsed_bound(same, 7 / 2), -np.log1p(7 * np.exp(0.7)), rtol=1e-12)


def test_sampled_classes_leave_the_local_bound_and_its_gradient_unbiased():
    theta = 2.7
    full = 1 - np.log(theta) - (1 + np.exp(LOG_P).sum()) / theta
    for s in range(1, 8):
        np.testing.assert_allclose(
            over_subsets(lambda log_P, scale: local_bound(log_P, np.log([theta]), scale), s), full, rtol=1e-12
        )
        slopes = np.zeros(7)
        chosen = list(combinations(range(7), s))
        for c in chosen:
            log_P = tf.constant(LOG_P[None, c])
            with tf.GradientTape() as tape:
                tape.watch(log_P)
                value = local_bound(log_P, np.log([theta]), 7 / s)
            slopes[list(c)] += tape.gradient(value, log_P).numpy()[0] / len(chosen)
        np.testing.assert_allclose(slopes, -np.exp(LOG_P) / theta, rtol=1e-10)


def test_bounds_and_gradients_are_finite_where_exponentials_are_not():
    log_P = tf.constant([[1000.0, 0.0], [-1000.0, -2000.0], [800.0, 800.0]], tf.float64)
    theta = tf.constant([1000.0, 0.0, 800.0 + np.log(2)], tf.float64)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(log_P)
        one, zero = collapsed_bound(log_P), local_bound(log_P, theta)
    np.testing.assert_allclose(one, [-1000.0, 0.0, -800.0 - np.log(2)], atol=1e-9)
    np.testing.assert_allclose(zero, [-1000.0, 0.0, -800.0 - np.log(2)], atol=1e-9)
    for value in (one, zero):
        assert np.all(np.isfinite(tape.gradient(value, log_P)))


# ------------------------------------------------------------------------------------------- the classes drawn

SIZES = [(2, 1), (3, 1), (3, 2), (5, 2), (6, 4), (10, 3), (14, 13), (100, 9), (100, 60), (1000, 5), (20_000, 5)]


@pytest.mark.parametrize(("classes", "negatives"), SIZES)
def test_drawn_classes_are_distinct_wrong_ones(classes, negatives, rng):
    """T3.13, for few of many classes, most of them, and all."""
    labels = np.concatenate([[0, classes - 1], rng.integers(classes, size=300)])
    drawn = AugmentReduce(classes, negatives).draw_negatives(labels).numpy()
    assert drawn.shape == (302, negatives)
    assert drawn.min() >= 0
    assert drawn.max() < classes
    assert not (drawn == labels[:, None]).any()
    assert all(len(set(row)) == negatives for row in drawn)


@pytest.mark.parametrize("negatives", [None, 4, 5, 50])
def test_as_many_as_there_are_wrong_classes_means_all_of_them(negatives):
    labels = np.array([0, 2, 4])
    drawn = np.sort(AugmentReduce(5, negatives).draw_negatives(labels).numpy(), axis=1)
    np.testing.assert_array_equal(drawn, [[1, 2, 3, 4], [0, 1, 3, 4], [0, 1, 2, 3]])


@pytest.mark.parametrize(("classes", "negatives"), [(6, 1), (6, 2), (6, 4), (10, 3), (8, 5), (20, 2)])
@pytest.mark.parametrize("end", ["first", "middle", "last"])
def test_every_set_of_wrong_classes_is_as_likely_as_any_other(classes, negatives, end):
    """Both where few are drawn (s² <= C - 1) and where many are; the label at either end or between."""
    label = {"first": 0, "middle": classes // 2, "last": classes - 1}[end]
    subsets = {c: 0 for c in combinations([c for c in range(classes) if c != label], negatives)}
    likelihood = AugmentReduce(classes, negatives, seed=11)
    for row in np.sort(likelihood.draw_negatives(np.full(200 * len(subsets), label)).numpy(), axis=1):
        subsets[tuple(int(c) for c in row)] += 1
    assert stats.chisquare(list(subsets.values())).pvalue > 1e-4


@pytest.mark.parametrize("negatives", [1, 3])
def test_rows_and_calls_are_drawn_independently(negatives):
    """The joint frequency of the smallest class drawn in neighbouring rows, and in one row of two calls."""
    likelihood = AugmentReduce(5, negatives, seed=3)
    labels = np.full(8000, 4)
    first, second = (likelihood.draw_negatives(labels).numpy().min(1) for _ in range(2))
    for a, b in ((first[:-1:2], first[1::2]), (first, second)):
        table = np.histogram2d(a, b, bins=[np.arange(5), np.arange(5)])[0]
        table = table[table.sum(1) > 0][:, table.sum(0) > 0]
        assert stats.chi2_contingency(table).pvalue > 1e-4


def test_draws_repeat_with_the_seed_and_move_on_with_every_call():
    labels = np.arange(50) % 20
    first, second, other = (AugmentReduce(20, 5, seed=s) for s in (4, 4, 5))
    calls = [first.draw_negatives(labels).numpy() for _ in range(3)]
    for value in calls:
        np.testing.assert_array_equal(second.draw_negatives(labels), value)
    assert not np.array_equal(calls[0], calls[1])
    assert not np.array_equal(other.draw_negatives(labels), calls[0])


@pytest.mark.parametrize("negatives", [3, 15])
def test_draws_are_the_same_in_a_graph_for_any_number_of_rows_and_new_in_every_call(negatives):
    eager, compiled = AugmentReduce(20, negatives), AugmentReduce(20, negatives)
    draw = tf.function(compiled.draw_negatives, input_signature=[tf.TensorSpec([None], tf.int64)], autograph=False)
    for rows in (7, 1, 40):
        labels = np.arange(rows, dtype=np.int64) % 20
        np.testing.assert_array_equal(draw(tf.constant(labels)), eager.draw_negatives(labels))


def test_all_wrong_classes_need_no_randomness():
    likelihood = AugmentReduce(6)
    np.testing.assert_array_equal(likelihood.draw_negatives([1, 5]), likelihood.draw_negatives([1, 5]))


# ------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"classes": 1}, "at least 2 classes, got 1"),
        ({"classes": 5, "negatives": 0}, "negatives=0"),
        ({"classes": 5, "negatives": -2}, "negatives=-2"),
        ({"classes": 5, "covariance": "diagonal"}, "diagonal"),
        ({"classes": 5, "theta": "global"}, "global"),
        ({"classes": 5, "theta": "local"}, "rows"),
        ({"classes": 5, "theta": "local", "rows": 0}, "rows"),
        ({"classes": 5, "theta": "local", "rows": 9, "rate": 0.0}, "rate=0.0"),
        ({"classes": 5, "theta": "local", "rows": 9, "rate": 1.5}, "rate=1.5"),
    ],
)
def test_what_cannot_be_is_refused_with_what_was_given(arguments, said):
    with pytest.raises(ValueError, match=said):
        AugmentReduce(**arguments)


def test_float32_bounds_are_float32_and_close_to_float64(float32):
    log_P = wrong(F, 1)
    single = collapsed_bound(tf.constant(log_P, tf.float32), 2.0)
    assert single.dtype == tf.float32
    np.testing.assert_allclose(single, collapsed_bound(log_P, 2.0), rtol=1e-5)
    local = local_bound(tf.constant(log_P, tf.float32), tf.constant([0.1, 0.2, 0.3], tf.float32))
    assert local.dtype == tf.float32
