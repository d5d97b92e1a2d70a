from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from gpflow import kernels as k
from scipy import integrate, optimize

from mogp import fit
from mogp.data import MultiOutputData
from mogp.inducing import given_points
from mogp.likelihoods import Gaussian
from mogp.models import SparseMOGP
from mogp.optimizers import FNG, VAN, Adam, Newton, Vadam
from mogp.priors import LMC

MINIMA = {
    7: [(-3.598, -0.596), (-0.719, -1.906), (2.157, -1.294)],
    15: [
        (-4.498, -0.319), (-3.114, -0.829), (-1.730, -1.524), (-0.346, -1.978), (1.038, -1.814), (2.422, -1.174),
        (3.806, -0.537),
    ],
    31: [
        (-4.888, -0.232), (-4.214, -0.403), (-3.540, -0.646), (-2.865, -0.954), (-2.191, -1.297), (-1.517, -1.625),
        (-0.843, -1.876), (-0.169, -1.995), (0.506, -1.954), (1.180, -1.764), (1.854, -1.467), (2.528, -1.124),
        (3.203, -0.793), (3.877, -0.516), (4.551, -0.309),
    ],
}  # fmt: skip
"""Minima of the thesis's function in [-5, 5] and its values there, by frequency factor (specification, 1.9)."""


class Point(tf.Module):
    """Parameters with a given loss."""

    def __init__(self, start, loss) -> None:
        super().__init__()
        self.theta = tf.Variable(start, dtype=tf.float64)
        self._loss = loss

    def loss(self) -> tf.Tensor:
        return self._loss(self.theta)


def stepped(model, optimizer, steps):
    """The parameters and σ (if there is one) after 0, 1, … steps."""
    optimizer.start(model)
    step = tf.function(lambda: optimizer.step(model, model.loss), autograph=False)
    rows = []
    for number in range(steps + 1):
        sigma = optimizer.deviation.numpy() if hasattr(optimizer, "deviation") else None
        rows.append((model.theta.numpy(), sigma))
        if number < steps:
            step()
    return [np.array(part) for part in zip(*rows, strict=True)]


def quadratic(rng, size=4):
    """H, b and the loss ½ θᵀHθ - bᵀθ."""
    half = rng.normal(size=(size, size))
    H, b = half @ half.T + 0.5 * np.eye(size), rng.normal(size=size)
    return H, b, lambda theta: 0.5 * tf.tensordot(theta, tf.linalg.matvec(H, theta), 1) - tf.tensordot(b, theta, 1)


def toy(theta, w1=15.0):
    return 2 * np.exp(-0.09 * theta**2) * np.sin(0.3 * w1 * theta)


def toy_slope(theta, w1=15.0):
    w = 0.3 * w1
    return 2 * np.exp(-0.09 * theta**2) * (w * np.cos(w * theta) - 0.18 * theta * np.sin(w * theta))


def toy_loss(theta):
    return tf.reduce_sum(2 * tf.exp(-0.09 * theta**2) * tf.sin(4.5 * theta))


def wavy_loss(theta):
    """Different curvature in every coordinate, and not quadratic."""
    return tf.reduce_sum(tf.cos(theta * [1.0, 2.0, 3.0])) + 0.1 * tf.reduce_sum(theta**4)


def wavy_gradient(theta):
    c = np.array([1.0, 2.0, 3.0])
    return -c * np.sin(c * theta) + 0.4 * theta**3


def noise(seed, step, draw, samples, size):
    """The draws of the optimisers: a pure function of seed, step and number of the draw."""
    return tf.random.stateless_normal([size], [seed, step * max(samples, 1) + draw], dtype=tf.float64).numpy()


def looks(mu, sigma, gradient, seed, step, samples):
    """Means over the draws of a step of the gradient and of its square."""
    points = [mu + sigma * noise(seed, step, s, samples, len(mu)) for s in range(samples)] if samples else [mu]
    values = np.array([gradient(p) for p in points])
    return values.mean(0), (values**2).mean(0)


def vprop_by_hand(theta, steps, *, alpha, lam, p, gamma, root, samples, seed, gradient):
    """The recursion of p and μ as the thesis writes it, with p or √p in the update of the mean."""
    scale = (lambda x: np.sqrt(x) + lam) if root else (lambda x: x + lam)
    mu, before, p = np.array(theta, float), np.array(theta, float), np.full(len(theta), float(p))
    for step in range(steps):
        g, square = looks(mu, (p + lam) ** -0.5, gradient, seed, step, samples)
        new = (1 - alpha) * p + alpha * square
        mu, before = mu - alpha * (g + lam * mu) / scale(new) + gamma * scale(p) / scale(new) * (mu - before), mu
        p = new
    return mu, p


# Variational adaptive Newton


def test_one_exact_step_of_size_one_solves_a_penalised_quadratic_from_any_start(rng):
    H, b, loss = quadratic(rng)
    for start in (0.1, 30.0):
        model = Point(5 * rng.normal(size=4), loss)
        van = VAN(1.0, penalty=0.7, start=start, curvature="hessian", covariance="full", samples=0)
        van.start(model)
        van.step(model, model.loss)
        precision = H + 0.7 * np.eye(4)
        np.testing.assert_allclose(van.precision, precision, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(model.theta, np.linalg.solve(precision, b), rtol=1e-10)
        np.testing.assert_allclose(van.deviation, np.sqrt(np.diag(np.linalg.inv(precision))), rtol=1e-12)


def test_without_a_penalty_a_full_precision_gains_the_hessian_at_every_step(rng):
    H, _, loss = quadratic(rng)
    model = Point(rng.normal(size=4), loss)
    van = VAN(0.3, penalty=None, start=0.5, curvature="hessian", covariance="full", samples=2)
    van.start(model)
    for _ in range(3):
        van.step(model, model.loss)
    np.testing.assert_allclose(van.precision, 0.5 * np.eye(4) + 3 * 0.3 * H, rtol=1e-12)


def test_an_indefinite_hessian_never_makes_the_precision_indefinite():
    saddle = Point([0.3, -0.2], lambda theta: 3.0 * theta[0] ** 2 - 3.0 * theta[1] ** 2)
    full = VAN(0.5, penalty=None, start=1.0, curvature="hessian", covariance="full", samples=0)
    full.start(saddle)
    for _ in range(4):
        full.step(saddle, saddle.loss)
        assert np.linalg.eigvalsh(full.precision).min() > 0
    saddle = Point([0.3, -0.2], lambda theta: 3.0 * theta[0] ** 2 - 3.0 * theta[1] ** 2)
    diagonal = VAN(0.5, penalty=None, start=1.0, curvature="hessian", samples=0)
    diagonal.start(saddle)
    diagonal.step(saddle, saddle.loss)
    np.testing.assert_allclose(diagonal.precision, [1 + 0.5 * 6, 1.0])


def test_the_mean_moves_by_the_new_covariance_and_momentum_by_the_ratio_of_precisions(rng):
    """The printed updates, dense: Σ⁻¹ ← Σ⁻¹ + 2α′∇Σ, μ ← μ - αΣ∇μ + γ Σ Σₜ⁻¹ (μₜ - μₜ₋₁)."""
    H, b, loss = quadratic(rng)
    start = rng.normal(size=4)
    model = Point(start, loss)
    rates = {"learning_rate": 0.2, "precision_rate": 0.4, "momentum": 0.6}
    van = VAN(**rates, penalty=0.5, start=2.0, curvature="hessian", covariance="full", samples=0)
    mus, _ = stepped(model, van, 4)
    mu, before, P = start, start, 2.5 * np.eye(4)
    for expected in mus[1:]:
        new = P + 0.4 * (H + 0.5 * np.eye(4) - P)
        change = -0.2 * (H @ mu - b + 0.5 * mu) + 0.6 * P @ (mu - before)
        mu, before, P = mu + np.linalg.solve(new, change), mu, new
        np.testing.assert_allclose(expected, mu, rtol=1e-10)


def test_with_a_frozen_covariance_natural_momentum_is_the_heavy_ball():
    """Constant curvature h = σ⁻² - λ leaves the precision where it is."""
    h, lam, alpha, gamma = np.array([1.0, 4.0]), 0.5, 0.3, 0.7
    model = Point([2.0, -1.0], lambda theta: 0.5 * tf.reduce_sum(h * theta**2))
    van = VAN(alpha, penalty=lam, start=1.0, momentum=gamma, curvature="hessian", samples=0)
    van.start(model)
    van.precision.assign(h + lam)
    mu = before = np.array([2.0, -1.0])
    for _ in range(6):
        van.step(model, model.loss)
        mu, before = mu - alpha / (h + lam) * (h + lam) * mu + gamma * (mu - before), mu
        np.testing.assert_allclose(van.precision, h + lam, rtol=1e-14)
        np.testing.assert_allclose(model.theta, mu, rtol=1e-12)


# The diagonal, Gauss-Newton form


@pytest.mark.parametrize("samples", [0, 1, 3])
@pytest.mark.parametrize("root", [False, True], ids=["literal", "root"])
@pytest.mark.parametrize("gamma", [0.0, 0.8])
def test_van_is_the_recursion_of_the_thesis_in_p(samples, root, gamma):
    options = dict(lam=0.5, p=2.0, gamma=gamma, root=root, samples=samples, seed=4)
    start = [0.4, -1.2, 2.0]
    van = VAN(0.1, penalty=0.5, start=2.0, momentum=gamma, root=root, samples=samples, seed=4)
    model = Point(start, wavy_loss)
    mus, sigmas = stepped(model, van, 7)
    mu, p = vprop_by_hand(start, 7, alpha=0.1, gradient=wavy_gradient, **options)
    np.testing.assert_allclose(mus[-1], mu, rtol=1e-10)
    np.testing.assert_allclose(sigmas[-1], (p + 0.5) ** -0.5, rtol=1e-10)


def test_no_momentum_is_van_without_it(rng):
    runs = []
    for options in ({}, {"momentum": 0.0}, {"momentum": 0.5}):
        runs.append(stepped(Point([0.4, -1.2, 2.0], wavy_loss), VAN(0.1, samples=2, seed=1, **options), 5)[0])
    np.testing.assert_array_equal(runs[0], runs[1])
    assert np.abs(runs[0] - runs[2])[2:].min() > 1e-6


def test_root_and_literal_coincide_where_p_is_zero_or_one():
    """With slopes of 0 and ±1 and p started there, p stays; elsewhere the two differ."""

    def run(start, root):
        model = Point([0.5, -0.5, 0.2], lambda theta: theta[0] - theta[1] + 0.0 * theta[2])
        van = VAN(0.1, penalty=0.5, start=start, momentum=0.5, root=root, samples=0)
        van.start(model)
        van.precision.assign(np.array([1.0, 1.0, start - 1]) + 0.5)
        for _ in range(5):
            van.step(model, model.loss)
        return model.theta.numpy()

    np.testing.assert_allclose(run(1.0, True), run(1.0, False), rtol=1e-13)
    assert abs(run(5.0, True) - run(5.0, False))[2] > 1e-3


@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize("start", [0.0, 50.0])
def test_p_stays_non_negative_and_the_deviation_below_that_of_the_penalty(root, start):
    van = VAN(0.3, penalty=2.0, start=start, momentum=0.5, root=root, samples=1)
    _, sigmas = stepped(Point(np.linspace(-4, 4, 50), toy_loss), van, 60)
    assert (sigmas > 0).all()
    assert (sigmas**2 <= 0.5 * (1 + 1e-12)).all()


def test_a_start_wider_than_the_penalty_is_brought_below_it():
    van = VAN(0.1, precision_rate=0.01, penalty=1.0, start=1 / 9 - 1, samples=10)
    _, sigmas = stepped(Point(np.full(20, -3.0), toy_loss), van, 60)
    np.testing.assert_allclose(sigmas[0], 3.0)
    assert (sigmas[-1] < 1).all()


def test_without_a_penalty_the_precision_only_grows():
    van = VAN(0.5, penalty=None, start=0.2, samples=2)
    _, sigmas = stepped(Point(np.linspace(-4, 4, 30), toy_loss), van, 40)
    assert (np.diff(sigmas, axis=0) <= 0).all()


def test_separate_rates_move_mean_and_precision_separately():
    """One step at the mean by hand."""
    model = Point([0.7, -0.3, 1.1], wavy_loss)
    van = VAN(0.2, precision_rate=0.05, penalty=1.5, start=2.0, samples=0)
    mus, sigmas = stepped(model, van, 1)
    g = wavy_gradient(mus[0])
    precision = 3.5 + 0.05 * (g**2 + 1.5 - 3.5)
    np.testing.assert_allclose(sigmas[1] ** -2, precision, rtol=1e-12)
    np.testing.assert_allclose(mus[1], mus[0] - 0.2 * (g + 1.5 * mus[0]) / precision, rtol=1e-12)


# Vadam


@pytest.mark.parametrize("samples", [0, 1, 4])
def test_vadam_follows_its_published_recursion(samples):
    start = np.array([0.4, -1.2, 2.0])
    vadam = Vadam(0.05, penalty=0.8, start=10.0, beta_1=0.8, beta_2=0.95, samples=samples, seed=7)
    mus, sigmas = stepped(Point(start, wavy_loss), vadam, 6)
    mu, m, s = start, 0.0, np.full(3, 10.0)
    for t in range(1, 7):
        sigma = (s + 0.8) ** -0.5
        np.testing.assert_allclose(sigmas[t - 1], sigma, rtol=1e-10)
        g, square = looks(mu, sigma, wavy_gradient, 7, t - 1, samples)
        m, s = 0.8 * m + 0.2 * (g + 0.8 * mu), 0.95 * s + 0.05 * square
        mu = mu - 0.05 * np.sqrt(1 - 0.95**t) / (1 - 0.8**t) * m / (np.sqrt(s) + 0.8)
        np.testing.assert_allclose(mus[t], mu, rtol=1e-10)


def test_vadam_without_noise_and_with_a_tiny_penalty_is_adam_step_by_step():
    start = [0.4, -1.2, 2.0]
    ours, _ = stepped(Point(start, wavy_loss), Vadam(0.03, penalty=1e-8, start=0.0, samples=0), 25)
    theirs, _ = stepped(Point(start, wavy_loss), Adam(0.03, epsilon=1e-8), 25)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


# The identities behind them


def test_gradients_of_the_penalised_objective_are_those_that_van_uses(rng):
    """E[∇g] + λμ and ½(E[∇²g] + λ - 1/σ²), against autodiff through quadrature and the divergence in closed form."""
    z, w = np.polynomial.hermite_e.hermegauss(80)
    w, lam = w / w.sum(), 1.3
    mu, variance = tf.Variable(0.6, dtype=tf.float64), tf.Variable(0.2, dtype=tf.float64)
    with tf.GradientTape() as tape:
        theta = mu + tf.sqrt(variance) * z
        expected = tf.reduce_sum(w * 2 * tf.exp(-0.09 * theta**2) * tf.sin(4.5 * theta))
        divergence = 0.5 * (lam * variance + lam * mu**2 - 1 - tf.math.log(lam * variance))
        objective = expected + divergence
    by_mu, by_variance = tape.gradient(objective, [mu, variance])
    points = 0.6 + np.sqrt(0.2) * z
    second = (toy_slope(points + 1e-5) - toy_slope(points - 1e-5)) / 2e-5
    np.testing.assert_allclose(by_mu, w @ toy_slope(points) + lam * 0.6, rtol=1e-9)
    np.testing.assert_allclose(by_variance, 0.5 * (w @ second + lam - 1 / 0.2), rtol=1e-7)
    by_hand = integrate.quad(
        lambda x: np.exp(-((x - 0.6) ** 2) / 0.4) / np.sqrt(0.4 * np.pi)
        * (-((x - 0.6) ** 2) / 0.4 - 0.5 * np.log(0.2) + lam * x**2 / 2 - 0.5 * np.log(lam)), -6, 7
    )[0]  # fmt: skip
    np.testing.assert_allclose(divergence, by_hand, rtol=1e-9)


def test_a_gradient_in_mean_parameters_is_the_natural_gradient_in_natural_parameters(rng):
    """∇η = F⁻¹∇ξ, with F the Hessian of the log-partition function, everything by autodiff."""
    size = 3
    low = np.tril_indices(size)
    twice = np.where(low[0] == low[1], 1.0, 2.0)
    A = rng.normal(size=(size, size))

    def matrix(entries):
        lower = tf.scatter_nd(np.stack(low, 1), entries, [size, size])
        return lower + tf.transpose(lower) - tf.linalg.diag(tf.linalg.diag_part(lower))

    def natural(xi):
        Sigma = tf.linalg.inv(-2 * matrix(xi[size:] / twice))
        return tf.linalg.matvec(Sigma, xi[:size]), Sigma

    def objective(mu, Sigma):
        return tf.reduce_sum(tf.sin(A @ Sigma)) + tf.exp(mu[0]) * mu[2] + tf.linalg.logdet(Sigma)

    half, mu = rng.normal(size=(size, size)), rng.normal(size=size)
    Sigma = half @ half.T + np.eye(size)
    xi = tf.constant(np.concatenate([np.linalg.solve(Sigma, mu), -0.5 * np.linalg.inv(Sigma)[low] * twice]))
    eta = tf.constant(np.concatenate([mu, (Sigma + np.outer(mu, mu))[low]]))
    with tf.GradientTape() as tape:
        tape.watch(eta)
        value = objective(eta[:size], matrix(eta[size:]) - eta[:size, None] * eta[None, :size])
    by_eta = tape.gradient(value, eta)
    with tf.GradientTape() as outer:
        outer.watch(xi)
        with tf.GradientTape(persistent=True) as inner:
            inner.watch(xi)
            m, S = natural(xi)
            value, log_partition = objective(m, S), 0.5 * (tf.tensordot(m, xi[:size], 1) + tf.linalg.logdet(S))
        by_log_partition = inner.gradient(log_partition, xi)
    np.testing.assert_allclose(by_log_partition, eta, rtol=1e-9)
    fisher = outer.jacobian(by_log_partition, xi)
    np.testing.assert_allclose(by_eta, np.linalg.solve(fisher, inner.gradient(value, xi)), rtol=1e-8)


# Newton


def test_a_full_newton_step_solves_a_quadratic(rng):
    H, b, loss = quadratic(rng)
    mus, _ = stepped(Point(rng.normal(size=4), loss), Newton(), 1)
    np.testing.assert_allclose(mus[1], np.linalg.solve(H, b), rtol=1e-10)


def test_newton_and_van_take_variables_of_several_shapes_and_precisions(rng):
    class Two(tf.Module):
        def __init__(self):
            super().__init__()
            self.a = tf.Variable(rng.normal(size=(2, 2)), dtype=tf.float64)
            self.b = tf.Variable(0.5, dtype=tf.float32)

        def loss(self):
            return tf.reduce_sum((self.a - 1) ** 2 * [[1.0, 2.0], [3.0, 4.0]]) + tf.cast((self.b - 3) ** 2, tf.float64)

    for optimizer in (Newton(), VAN(1.0, penalty=0.0, start=1.0, curvature="hessian", samples=0)):
        model = Two()
        optimizer.start(model)
        optimizer.step(model, model.loss)
        np.testing.assert_allclose(model.a, np.ones((2, 2)), rtol=1e-6)
        np.testing.assert_allclose(model.b, 3.0, rtol=1e-6)
        assert model.b.dtype == tf.float32


# The thesis's function


@pytest.mark.parametrize("w1", [7, 15, 31])
def test_the_function_has_the_minima_of_the_table(w1):
    grid = np.linspace(-5, 5, 5001)
    rising = np.flatnonzero((toy_slope(grid[:-1], w1) < 0) & (toy_slope(grid[1:], w1) >= 0))
    places = np.array([optimize.brentq(toy_slope, grid[i], grid[i + 1], args=(w1,)) for i in rising])
    np.testing.assert_allclose(np.stack([places, toy(places, w1)], 1), MINIMA[w1], atol=6e-4)


@pytest.mark.parametrize("sigma", [0.05, 0.3, 0.6, 1.0])
def test_the_mean_of_the_function_under_a_gaussian_has_the_closed_form(sigma):
    z, w = np.polynomial.hermite_e.hermegauss(120)
    mu = np.linspace(-5, 5, 41)
    c = 1 + 0.18 * sigma**2
    closed = 2 / np.sqrt(c) * np.exp(-(0.09 * mu**2 + 0.5 * 4.5**2 * sigma**2) / c) * np.sin(4.5 * mu / c)
    np.testing.assert_allclose(toy(mu[:, None] + sigma * z) @ w / w.sum(), closed, rtol=0, atol=1e-14)


def test_newton_from_minus_three_falls_into_the_nearest_minimum():
    full, _ = stepped(Point([-3.0], toy_loss), Newton(), 10)
    damped, _ = stepped(Point([-3.0], toy_loss), Newton(0.05), 80)
    assert full[-1, 0] == pytest.approx(-3.114054, abs=1e-6)
    assert damped[-1, 0] == pytest.approx(-3.114, abs=0.005)


def test_the_penalised_search_reaches_the_global_minimum_from_almost_all_seeds():
    """The settings of Figure 2.2; the copies are independent searches."""
    van = VAN(0.1, precision_rate=0.01, penalty=1.0, start=1 / 9 - 1, samples=50)
    mus, _ = stepped(Point(np.full(200, -3.0), toy_loss), van, 80)
    assert np.mean(np.abs(mus[-1] + 0.346) <= 0.1) >= 0.95


# Draws


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_draws_have_the_moments_of_q_and_leave_the_mean(rng, covariance):
    _, _, loss = quadratic(rng, 3)
    model = Point(rng.normal(size=3), loss)
    van = VAN(0.8, penalty=0.4, curvature="hessian", covariance=covariance, samples=0)
    van.start(model)
    van.step(model, model.loss)
    mean = model.theta.numpy()
    seen = np.array([model.theta.numpy() for _ in van.draws(1500, seed=3)])
    np.testing.assert_array_equal(model.theta, mean)
    P = van.precision.numpy() if covariance == "full" else np.diag(van.precision)
    L = np.linalg.cholesky(P)
    white = (seen - mean) @ L
    np.testing.assert_allclose(white.mean(0), 0, atol=5 / np.sqrt(1500))
    np.testing.assert_allclose(np.cov(white.T), np.eye(3), atol=0.2)
    np.testing.assert_allclose(seen.std(0), van.deviation, rtol=0.1)


def test_draws_put_the_mean_back_when_the_loop_is_left_early(rng):
    model = Point(rng.normal(size=3), wavy_loss)
    van = VAN()
    van.start(model)
    mean = model.theta.numpy()
    with pytest.raises(RuntimeError, match="enough"):
        raise_in_loop(van, model, mean)
    np.testing.assert_array_equal(model.theta, mean)


def raise_in_loop(van, model, mean):
    draws = van.draws(5)
    try:
        for _ in draws:
            assert np.abs(model.theta.numpy() - mean).max() > 0
            raise RuntimeError("enough")
    finally:
        draws.close()


def small_model(data: MultiOutputData) -> SparseMOGP:
    return SparseMOGP(
        LMC([k.Matern32()], 3, W=[[1.0], [0.5], [-1.0]]), given_points(data.X[:4]), [Gaussian(0.3) for _ in range(3)]
    )


def test_predictions_averaged_over_narrow_draws_are_those_at_the_mean(uneven):
    model = small_model(uneven)
    fng = FNG(start=1e16)
    fng.start(model)
    at_mean = model.predict_y(uneven.X, 0)[0].numpy()
    averaged = np.mean([model.predict_y(uneven.X, 0)[0].numpy() for _ in fng.draws(5)], axis=0)
    np.testing.assert_allclose(averaged, at_mean, rtol=1e-6, atol=1e-7)


# Inside `fit`

OPTIMIZERS = {
    "VAN": lambda: VAN(0.001, start=100.0, momentum=0.5, samples=2, seed=2),
    "VAN, root": lambda: VAN(0.001, start=100.0, momentum=0.5, root=True),
    "Vadam": lambda: Vadam(0.01, samples=2, seed=2),
    "FNG": lambda: FNG(seed=2),
    "FNG, literal": lambda: FNG("literal", learning_rate=0.001),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_run_resumed_from_a_checkpoint_is_the_uninterrupted_one(uneven, tmp_path, name):
    make = OPTIMIZERS[name]
    options = {"batch_size": 4, "seed": 1, "progress": False}
    whole, parts = small_model(uneven), small_model(uneven)
    history = fit(whole, uneven, steps=10, optimizer=make(), **options)
    fit(parts, uneven, steps=5, optimizer=make(), checkpoint=tmp_path / "run.npz", **options)
    fresh = small_model(uneven)
    resumed = fit(fresh, uneven, steps=10, optimizer=make(), checkpoint=tmp_path / "run.npz", **options)
    np.testing.assert_array_equal(resumed.elbo, history.elbo)
    for a, b in zip(whole.trainable_variables, fresh.trainable_variables, strict=True):
        np.testing.assert_array_equal(a, b)


def test_parameters_that_are_not_trainable_are_neither_moved_nor_drawn(uneven):
    model = small_model(uneven)
    gpflow.set_trainable(model.inducing, False)
    before = np.asarray(model.inducing.Z).copy()
    van = VAN(0.001, start=10.0)
    van.start(model)
    van.step(model, lambda: model.training_loss(uneven))
    for _ in van.draws(1):
        np.testing.assert_array_equal(model.inducing.Z, before)
    np.testing.assert_array_equal(model.inducing.Z, before)


class Unread(tf.Module):
    """A loss with a variable that it does not read, and one of another shape and precision."""

    def __init__(self) -> None:
        super().__init__()
        self.a = tf.Variable([1.0, -2.0], dtype=tf.float64)
        self.b = tf.Variable([[0.5]], dtype=tf.float32)
        self.unread = tf.Variable(4.0, dtype=tf.float64)

    def loss(self) -> tf.Tensor:
        return tf.reduce_sum(self.a**2) + tf.cast(tf.reduce_sum((self.b - 3) ** 2), tf.float64)


@pytest.mark.parametrize(
    "make", [lambda: VAN(0.1, penalty=0.5, start=1.0), lambda: Vadam(0.1, penalty=0.5, start=1.0, beta_2=0.98)]
)
def test_a_variable_that_the_loss_does_not_read_only_feels_the_penalty(make):
    model, optimizer = Unread(), make()
    optimizer.start(model)
    step = tf.function(lambda: optimizer.step(model, model.loss), autograph=False)
    for _ in range(500):
        step()
    assert abs(model.unread.numpy()) < 0.05
    assert optimizer.deviation.numpy()[-1] == pytest.approx(0.5**-0.5, rel=0.2)
    assert model.b.dtype == tf.float32
    assert abs(model.b.numpy()[0, 0] - 2.4) < 0.6


def test_without_a_penalty_a_variable_that_the_loss_does_not_read_stays():
    model, van = Unread(), VAN(0.1, penalty=None, start=1.0)
    van.start(model)
    for _ in range(3):
        van.step(model, model.loss)
    assert model.unread.numpy() == 4.0
    assert van.deviation.numpy()[-1] == 1.0


def test_the_value_of_a_step_is_the_mean_loss_over_its_draws():
    model = Point([0.4, -1.2, 2.0], wavy_loss)
    van = VAN(0.1, penalty=0.5, start=2.0, samples=3, seed=5)
    van.start(model)
    value = van.step(model, model.loss)
    points = [np.array([0.4, -1.2, 2.0]) + 2.5**-0.5 * noise(5, 0, s, 3, 3) for s in range(3)]
    np.testing.assert_allclose(value, np.mean([wavy_loss(tf.constant(p)) for p in points]), rtol=1e-12)


# What is refused


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: VAN(0.0), "learning_rate=0.0 must be positive"),
        (lambda: VAN(0.1, precision_rate=-1.0), "precision_rate=-1.0 must be positive"),
        (lambda: VAN(float("nan")), "learning_rate=nan must be positive"),
        (lambda: VAN(penalty=-1.0), "penalty=-1.0; a precision is not negative"),
        (lambda: VAN(penalty=1.0, start=-1.0), "start=-1.0, penalty=1.0: .* must be positive"),
        (lambda: VAN(penalty=None, start=0.0), "start=0.0, penalty=None: .* must be positive"),
        (lambda: VAN(momentum=1.0), r"momentum=1.0; it must lie in \[0, 1\)"),
        (lambda: VAN(momentum=-0.1), r"momentum=-0.1; it must lie in \[0, 1\)"),
        (lambda: VAN(curvature="fisher"), "curvature='fisher'.*expected"),
        (lambda: VAN(covariance="low-rank"), "covariance='low-rank'.*expected"),
        (lambda: VAN(covariance="full"), 'full covariance needs curvature="hessian"'),
        (lambda: VAN(covariance="full", curvature="hessian", root=True), "full covariance needs .* root=False"),
        (lambda: VAN(samples=-1), "samples=-1; give the number of draws"),
        (lambda: Vadam(-0.1), "learning_rate=-0.1 must be positive"),
        (lambda: Vadam(penalty=-0.1), "penalty=-0.1; a precision is not negative"),
        (lambda: Vadam(start=-0.5), "start=-0.5; a sum of squared gradients is not negative"),
        (lambda: Vadam(penalty=0.0, start=0.0), "start=0.0, penalty=0.0: .* must be positive"),
        (lambda: Newton(0.0), "learning_rate=0.0 must be positive"),
        (lambda: FNG("adam"), "rule='adam'; expected"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_penalised_optimisation_of_a_negative_log_likelihood_is_variational_inference(rng):
    """Giraldo 11.7: with g = -log p(x | θ), x ~ N(θ, 1), one exact step finds the posterior for θ ~ N(0, 1/λ)."""
    x, lam = rng.normal(1.0, 1.0, 12), 0.7
    model = tf.Module()
    model.theta = tf.Variable([5.0], dtype=tf.float64)
    van = VAN(1.0, penalty=lam, start=3.0, curvature="hessian", samples=4)
    van.start(model)
    van.step(model, lambda: 0.5 * tf.reduce_sum((x - model.theta) ** 2))
    assert float(van.precision[0]) == pytest.approx(len(x) + lam, rel=1e-12)
    mean = float(van.mean[0])
    draws = 5.0 + np.array(
        [float(tf.random.stateless_normal([1], [0, s], dtype=tf.float64)[0]) for s in range(4)]
    ) / np.sqrt(3.7)
    gradient = np.mean(len(x) * draws - x.sum()) + lam * 5.0
    assert mean == pytest.approx(5.0 - gradient / (len(x) + lam), rel=1e-10)
    still = VAN(1.0, penalty=lam, start=3.0, curvature="hessian", samples=0)
    model.theta.assign([5.0])
    still.start(model)
    still.step(model, lambda: 0.5 * tf.reduce_sum((x - model.theta) ** 2))
    assert float(still.mean[0]) == pytest.approx(x.sum() / (len(x) + lam), rel=1e-12)
