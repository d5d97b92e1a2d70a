"""Labels: the one integral, the estimates with sampled labels, and how they are sampled."""

from __future__ import annotations

from itertools import combinations, product

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from scipy.integrate import quad
from scipy.special import expit, roots_hermitenorm

from mogp.data.batches import Labels
from mogp.likelihoods import BernoulliLabels, Targets
from mogp.likelihoods.logistic import expected_sigmoid, expected_softplus, log_expected_sigmoid
from mogp.priors import View
from mogp.priors.mixing import _Mixed

MEANS, VARIANCES = np.linspace(-5, 5, 11)[:, None], np.array([1e-3, 0.1, 1.0])


def plain_sum(mean, var, nodes=10):
    """The quadrature of the softplus written out, for TensorFlow to differentiate."""
    x, w = roots_hermitenorm(nodes)
    terms = tf.nn.softplus(mean[..., None] + x * tf.sqrt(var)[..., None])
    return tf.reduce_sum(terms * (w / w.sum()), -1)


def integral(function, mean: float, var: float) -> float:
    sd = var**0.5
    density = lambda f: stats.norm.pdf(f, mean, sd) * function(f)  # noqa: E731
    return quad(density, mean - 12 * sd, mean + 12 * sd, points=[0.0], limit=300, epsabs=1e-13)[0]


# ------------------------------------------------------------------------------------------------- the integral


def test_ten_nodes_are_enough_for_variances_up_to_one_and_wrong_by_as_much_as_published_beyond():
    """Panos 10.29 and section 4.5, against adaptive integration."""
    worst = {}
    for var in (1.0, 5.0, 10.0, 50.0):
        exact = [integral(lambda f: np.logaddexp(0, f), m, var) for m in MEANS[:, 0]]
        worst[var] = np.abs(
            expected_softplus(tf.constant(MEANS[:, 0]), tf.fill([11], tf.constant(var, tf.float64))) - exact
        ).max()
    assert worst[1.0] < 1e-6
    np.testing.assert_allclose([worst[5.0], worst[10.0], worst[50.0]], [2.7e-4, 2.4e-3, 5e-2], rtol=0.5)


def test_more_nodes_give_the_integral():
    for mean, var in product([-3.0, 0.0, 2.0], [0.2, 4.0]):
        m, v = tf.constant(mean, tf.float64), tf.constant(var, tf.float64)
        exact = integral(lambda f: np.logaddexp(0, f), mean, var)
        np.testing.assert_allclose(expected_softplus(m, v, nodes=60), exact, rtol=1e-6)
        probability = integral(expit, mean, var)
        np.testing.assert_allclose(expected_sigmoid(m, v, nodes=60), probability, rtol=1e-6)
        np.testing.assert_allclose(log_expected_sigmoid(m, v, nodes=60), np.log(probability), rtol=1e-6)


@pytest.mark.parametrize("nodes", [1, 2, 9, 10])
def test_value_and_gradient_are_those_of_the_sum_over_nodes(nodes):
    mean, var = (tf.Variable(a) for a in np.broadcast_arrays(MEANS, VARIANCES))
    found = []
    for function in (expected_softplus, plain_sum):
        with tf.GradientTape() as tape:
            value = function(mean, var, nodes)
            weighted = tf.reduce_sum(value * np.arange(33.0).reshape(11, 3))
        found.append((value, *tape.gradient(weighted, [mean, var])))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_gradients_are_the_expectations_of_the_derivatives():
    """Bonnet and Price: d/dm E g(f) = E g'(f), d/dv E g(f) = E g''(f) / 2."""
    mean, var = tf.constant([-2.0, 0.5, 3.0], tf.float64), tf.constant([0.3, 1.0, 0.1], tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(mean)
        with tf.GradientTape() as tape:
            tape.watch([mean, var])
            value = expected_softplus(mean, var, nodes=40)
        by_mean, by_var = tape.gradient(value, [mean, var])
    curvature = outer.gradient(by_mean, mean)
    slope = [integral(expit, m, v) for m, v in zip(mean.numpy(), var.numpy(), strict=True)]
    bend = [integral(lambda f: expit(f) * expit(-f), m, v) for m, v in zip(mean.numpy(), var.numpy(), strict=True)]
    np.testing.assert_allclose(by_mean, slope, rtol=1e-8)
    np.testing.assert_allclose(2 * by_var, bend, rtol=1e-7)
    np.testing.assert_allclose(curvature, bend, rtol=1e-7)


@pytest.mark.parametrize("dtype", [tf.float64, tf.float32])
def test_extreme_arguments_are_finite_with_finite_gradients(dtype):
    grid = np.array(list(product([-1e3, -30.0, 0.0, 30.0, 1e3], [0.0, -1e-9, 1e-12, 1.0, 1e4])))
    mean, var = (tf.Variable(tf.constant(a, dtype)) for a in grid.T)
    for function in (expected_softplus, expected_sigmoid, log_expected_sigmoid):
        with tf.GradientTape() as tape:
            value = function(mean, var)
        assert value.dtype == dtype
        assert np.isfinite(value).all()
        for gradient in tape.gradient(value, [mean, var]):
            assert np.isfinite(gradient).all()
    certain = var.numpy() <= 1e-12
    softplus = expected_softplus(mean, var)
    np.testing.assert_allclose(softplus[certain], np.logaddexp(0, grid[certain, 0]), atol=1e-5)
    np.testing.assert_allclose(
        log_expected_sigmoid(mean, var)[certain], -np.logaddexp(0, -grid[certain, 0]), rtol=1e-5, atol=1e-6
    )


def test_single_precision_is_close_to_double():
    mean, var = np.broadcast_arrays(MEANS, VARIANCES)
    for function in (expected_softplus, expected_sigmoid, log_expected_sigmoid):
        double = function(tf.constant(mean), tf.constant(var))
        np.testing.assert_allclose(
            function(tf.constant(mean, tf.float32), tf.constant(var, tf.float32)), double, rtol=2e-5
        )


def test_no_nodes_are_refused():
    with pytest.raises(ValueError, match="at least one is needed"):
        expected_softplus(tf.zeros(1), tf.ones(1), 0)


# ------------------------------------------------------------------------------------------------- the likelihood

N, K, L = 3, 5, 2
TARGETS = np.array([[1, 0, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]])


def labels(Y: np.ndarray = TARGETS) -> Labels:
    row, label = np.nonzero(Y)
    return Labels(tf.constant(row, tf.int64), tf.constant(label, tf.int64), tf.constant(Y.sum(1), tf.int64))


class Functions:
    """Five functions of two latent GPs at three rows, with variables to differentiate by."""

    def __init__(self) -> None:
        rng = np.random.default_rng(4)
        self.W, self.bias = tf.Variable(rng.normal(size=(K, L))), tf.Variable(rng.normal(size=K))
        self.mean, self.var = tf.Variable(rng.normal(size=(L, N))), tf.Variable(rng.uniform(0.1, 1.0, size=(L, N)))
        self.variables = [self.W, self.bias, self.mean, self.var]

    @property
    def view(self) -> View:
        return View(_Mixed(self.mean, self.var, self.W, self.bias), 0, K, None)

    def evaluate(self, expectations) -> tuple[np.ndarray, list[np.ndarray]]:
        """Values `[N]` of the rows, and the gradient of a weighted sum of them."""
        with tf.GradientTape() as tape:
            value = expectations(self.view)
            weighted = tf.reduce_sum(value * [1.0, 2.0, -0.5])
        return value.numpy(), [tf.convert_to_tensor(g).numpy() for g in tape.gradient(weighted, self.variables)]


@pytest.fixture(scope="module")
def functions() -> Functions:
    return Functions()


@pytest.fixture(scope="module")
def whole(functions):
    return functions.evaluate(lambda f: BernoulliLabels(K).over_all(f, labels()))


def test_all_labels_together_are_a_bernoulli_each(functions):
    """Against GPflow's Bernoulli with the logistic link, which has twenty nodes."""
    stock, ours = gpflow.likelihoods.Bernoulli(invlink=tf.sigmoid), BernoulliLabels(K, nodes=20)
    f, Y, X = functions.view.marginals(), tf.constant(TARGETS, tf.float64), tf.zeros([N, 0], tf.float64)
    own = [slice(k, k + 1) for k in range(K)]
    total = tf.add_n([stock.variational_expectations(X, f.mean[:, k], f.var[:, k], Y[:, k]) for k in own])
    np.testing.assert_allclose(ours.over_all(functions.view, labels()), total, rtol=1e-10)
    np.testing.assert_allclose(ours.variational_expectations(X, f.mean, f.var, Y), total, rtol=1e-10)


def test_predictions_are_integrals_over_the_functions(functions):
    likelihood = BernoulliLabels(K)
    f = functions.view.marginals()
    exact = np.vectorize(lambda m, v: integral(expit, m, v))(f.mean.numpy(), f.var.numpy())
    p, spread = likelihood.predictive(functions.view)
    np.testing.assert_allclose(p, exact, rtol=1e-6)
    np.testing.assert_allclose(spread, exact * (1 - exact), rtol=1e-6)
    expected = np.log(np.where(TARGETS, exact, 1 - exact)).sum(1)
    found = likelihood.log_density(functions.view, Targets(labels(), None, tf.range(N)))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    X, Y = tf.zeros([N, 0], tf.float64), tf.constant(TARGETS, tf.float64)
    np.testing.assert_allclose(likelihood.predict_log_density(X, f.mean, f.var, Y), expected, rtol=1e-6)
    np.testing.assert_allclose(likelihood.predict_mean_and_var(X, f.mean, f.var)[0], exact, rtol=1e-6)


def test_the_density_of_what_was_thought_impossible_is_finite():
    mean = tf.fill([2, K], tf.constant(-900.0, tf.float64))
    f = View(_Mixed(tf.transpose(mean), tf.zeros([K, 2], tf.float64), None, None), 0, K, None)
    found = BernoulliLabels(K).log_density(f, Targets(labels(TARGETS[[2, 1]]), None, tf.range(2)))
    np.testing.assert_allclose(found, [-900.0 * K, 0.0], rtol=1e-6, atol=1e-12)


def test_samples_have_the_probabilities_of_the_labels():
    F = tf.constant([[-2.0, 0.0, 1.0, 3.0, -0.5]], tf.float64)
    draws = BernoulliLabels(K).sample_y(tf.tile(F[None], [4000, 1, 1]), 1)
    assert draws.shape == (4000, 1, K)
    assert set(np.unique(draws)) == {0.0, 1.0}
    p = expit(F.numpy()[0])
    z = (np.mean(draws, axis=(0, 1)) - p) / np.sqrt(p * (1 - p) / 4000)
    assert np.abs(z).max() < 4


# ------------------------------------------------------------------------------------------------- sampled labels


@pytest.mark.parametrize("c", [1, 2, 4])
def test_the_mean_over_all_shared_sets_is_the_whole_with_its_gradient(functions, whole, c):
    """Panos 10.21: every set of c labels is as likely as any other."""
    likelihood = BernoulliLabels(K, c)
    sets = [tf.constant(chosen, tf.int64) for chosen in combinations(range(K), c)]
    values, gradients = zip(
        *(functions.evaluate(lambda f, s=s: likelihood.over_shared(f, labels(), s)) for s in sets), strict=True
    )
    np.testing.assert_allclose(np.mean(values, axis=0), whole[0], rtol=1e-10)
    for ours, theirs in zip(map(np.array, zip(*gradients, strict=True)), whole[1], strict=True):
        np.testing.assert_allclose(ours.mean(0), theirs, rtol=1e-8, atol=1e-11)
    assert np.ptp(values, axis=0)[:2].min() > 0.1


@pytest.mark.parametrize("c", [1, 2, 4])
def test_the_mean_over_all_sets_of_each_row_is_the_whole_with_its_gradient(functions, whole, c):
    """Panos 10.19. Rows have 3, 5 and 0 labels to give: where that is less than c, they count what they have."""
    likelihood = BernoulliLabels(K, c)
    choices = [list(combinations(np.flatnonzero(row == 0), min(c, (row == 0).sum()))) for row in TARGETS]
    values, gradients = [], []
    for chosen in product(*choices):
        drawn, used = np.zeros((N, c), int), np.zeros((N, c), bool)
        for n, own in enumerate(chosen):
            drawn[n, : len(own)], used[n, : len(own)] = own, True
        one = functions.evaluate(
            lambda f, d=drawn, u=used: likelihood.over_own(f, labels(), tf.constant(d), tf.constant(u))
        )
        values.append(one[0])
        gradients.append(one[1])
    np.testing.assert_allclose(np.mean(values, axis=0), whole[0], rtol=1e-10)
    for ours, theirs in zip(map(np.array, zip(*gradients, strict=True)), whole[1], strict=True):
        np.testing.assert_allclose(ours.mean(0), theirs, rtol=1e-8, atol=1e-11)


def test_counting_the_labels_that_points_have_exactly_lowers_the_variance():
    """Panos 10.21: against sampling c of all K labels, those that a point has among them; both enumerated."""
    rng = np.random.default_rng(1)
    labels_of, size, c = np.array([[1, 0, 0, 0, 0, 0, 0, 1]]), 8, 3
    mean, var = tf.constant(rng.normal(-3.0, 0.5, size=(size, 1))), tf.constant(np.full((size, 1), 0.2))
    f = View(_Mixed(mean, var, None, None), 0, size, None)
    likelihood = BernoulliLabels(size, c)
    term = expected_softplus(mean * (1 - 2 * labels_of.T), var).numpy()[:, 0]
    sets = list(combinations(range(size), c))
    uniform = [-size / c * term[list(chosen)].sum() for chosen in sets]
    shared = [float(likelihood.over_shared(f, labels(labels_of), tf.constant(chosen, tf.int64))[0]) for chosen in sets]
    own = [
        float(likelihood.over_own(f, labels(labels_of), tf.constant([chosen]), tf.ones([1, c], tf.bool))[0])
        for chosen in combinations(range(1, 7), c)
    ]
    for estimates in (uniform, shared, own):
        np.testing.assert_allclose(np.mean(estimates), -term.sum(), rtol=1e-9)
    assert np.var(own) < np.var(shared) < np.var(uniform)


def chi_square(counts: np.ndarray) -> float:
    return float(stats.chisquare(counts).pvalue)


def test_shared_sets_are_different_labels_in_order_and_all_sets_are_equally_likely():
    likelihood = BernoulliLabels(6, 2, seed=3)
    draw = tf.function(likelihood.draw_shared)
    drawn = np.array([draw() for _ in range(3000)])
    assert (np.diff(drawn) > 0).all()
    counts = np.unique(drawn @ [6, 1], return_counts=True)[1]
    assert len(counts) == 15
    assert chi_square(counts) > 1e-3


def test_sets_of_each_row_are_labels_it_has_not_and_equally_likely():
    likelihood = BernoulliLabels(6, 2, shared=False, seed=3)
    rows = np.array([[0, 1, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0], [1, 1, 1, 0, 1, 1], [1, 1, 1, 1, 1, 1]])
    repeated = labels(np.tile(rows, (500, 1)))
    drawn, used = (np.array(a) for a in zip(*(likelihood.draw_own(repeated) for _ in range(4)), strict=True))
    drawn = drawn.reshape(-1, 4, 2)
    used = used.reshape(-1, 4, 2)
    np.testing.assert_array_equal(used[0], [[True, True], [True, True], [True, False], [False, False]])
    assert (used == used[0]).all()
    for row, sets in ((0, 6), (1, 15)):
        pairs = np.sort(drawn[:, row])
        assert (np.diff(pairs) > 0).all()
        assert not rows[row, pairs].any()
        counts = np.unique(pairs @ [6, 1], return_counts=True)[1]
        assert len(counts) == sets
        assert chi_square(counts) > 1e-3
    assert (drawn[:, 2, 0] == 3).all()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("Y", [np.zeros((2, 6), int), np.ones((2, 6), int)], ids=["none", "all"])
def test_points_with_no_label_or_with_all_have_finite_estimates(shared, Y):
    """With none, the estimate is exact when all labels have one score; with all, no other label is to be sampled."""
    likelihood = BernoulliLabels(6, 2, shared=shared)
    f = View(_Mixed(tf.fill([6, 2], tf.constant(0.3, tf.float64)), tf.ones([6, 2], tf.float64), None, None), 0, 6, None)
    estimate = tf.function(lambda: likelihood.expectations(f, Targets(labels(Y), None, tf.range(2))))
    np.testing.assert_allclose(estimate(), likelihood.over_all(f, labels(Y)), rtol=1e-12)


def test_enough_negatives_are_all_of_them():
    assert BernoulliLabels(5, 5).negatives is None
    assert BernoulliLabels(5, 99).negatives is None
    assert BernoulliLabels(5, 4).negatives == 4


@pytest.mark.parametrize(("arguments", "problem"), [((0,), "labels=0"), ((3, 0), "negatives=0")])
def test_impossible_numbers_of_labels_are_refused(arguments, problem):
    with pytest.raises(ValueError, match=problem):
        BernoulliLabels(*arguments)
