from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from gpflow import kernels as k
from gpflow.keras import tf_keras
from gpflow.optimizers import NaturalGradient

from mogp.data import MultiOutputData
from mogp.inducing import given_points
from mogp.likelihoods import Gaussian, Poisson
from mogp.models import SparseMOGP
from mogp.optimizers import Adam, NaturalAdam
from mogp.posteriors import Full
from mogp.priors import ICM, LMC, Independent


class Quadratic(tf.Module):
    """A loss with a variable that it does not depend on, and one of another shape and type."""

    def __init__(self) -> None:
        super().__init__()
        self.a = tf.Variable([1.0, -2.0, 3.0], dtype=tf.float64)
        self.b = tf.Variable(0.5, dtype=tf.float32)
        self.unused = tf.Variable(7.0, dtype=tf.float64)

    def loss(self) -> tf.Tensor:
        return tf.reduce_sum(self.a**2 * [1.0, 10.0, 100.0]) + tf.cast((self.b - 3) ** 4, tf.float64)


def adam_by_hand(theta, gradient, steps, rate, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    m = v = 0.0
    for t in range(1, steps + 1):
        g = gradient(theta)
        m, v = beta_1 * m + (1 - beta_1) * g, beta_2 * v + (1 - beta_2) * g**2
        step = rate(t - 1) if callable(rate) else rate
        theta = theta - step * np.sqrt(1 - beta_2**t) / (1 - beta_1**t) * m / (np.sqrt(v) + epsilon)
    return theta


@pytest.mark.parametrize("rate", [0.05, lambda t: 0.1 / (1.0 + tf.cast(t, tf.float64))], ids=["constant", "schedule"])
def test_adam_follows_its_published_formula(rate):
    model, adam = Quadratic(), Adam(rate)
    adam.start(model)
    step = tf.function(lambda: adam.step(model, model.loss))
    values = [float(step()) for _ in range(30)]
    by_hand = (lambda t: 0.1 / (1 + t)) if callable(rate) else rate
    expected = adam_by_hand(np.array([1.0, -2.0, 3.0]), lambda a: 2 * a * [1, 10, 100], 30, by_hand)
    np.testing.assert_allclose(model.a, expected, rtol=1e-10)
    np.testing.assert_allclose(model.b, adam_by_hand(0.5, lambda b: 4 * (b - 3) ** 3, 30, by_hand), rtol=1e-4)
    assert model.unused.numpy() == 7.0
    assert values[0] == pytest.approx(1 + 40 + 900 + 2.5**4)


def test_adam_takes_keras_schedules_and_agrees_with_keras():
    """To the precision of Keras, which rounds its betas to float32."""
    ours, theirs = Quadratic(), Quadratic()
    schedule = tf_keras.optimizers.schedules.ExponentialDecay(0.1, 5, 0.5)
    adam, keras = Adam(schedule), tf_keras.optimizers.Adam(schedule, epsilon=1e-8)
    adam.start(ours)
    for _ in range(20):
        adam.step(ours, ours.loss)
        with tf.GradientTape() as tape:
            value = theirs.loss()
        keras.apply_gradients([(tape.gradient(value, theirs.a), theirs.a)])
    np.testing.assert_allclose(ours.a, theirs.a, rtol=1e-4)


class Table(tf.Module):
    """A loss that reads some rows of a table, one of them twice."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = tf.Variable(np.arange(10.0).reshape(5, 2) / 3)
        self.other = tf.Variable(1.5, dtype=tf.float64)

    def loss(self, rows) -> tf.Tensor:
        read = tf.gather(self.rows, rows)
        return tf.reduce_sum((read - self.other) ** 2 * [1.0, 3.0])


def test_lazy_adam_is_adam_on_the_visits_of_each_row():
    model, adam = Table(), Adam(0.05, lazy=True)
    adam.start(model)
    batches = [[0, 2], [2, 3, 2], [0, 3], [2, 0]]
    step = tf.function(lambda rows: adam.step(model, lambda: model.loss(rows)), autograph=False, reduce_retracing=True)
    table, other = model.rows.numpy(), 1.5
    m, v, t = np.zeros((5, 2)), np.zeros((5, 2)), np.zeros(5)
    m_other = v_other = 0.0
    for number, batch in enumerate(batches, 1):
        times = np.bincount(batch, minlength=5)[:, None]
        g = times * 2 * (table - other) * [1, 3]
        g_other = -g.sum()
        seen = times[:, 0] > 0
        t[seen] += 1
        m[seen], v[seen] = 0.9 * m[seen] + 0.1 * g[seen], 0.999 * v[seen] + 0.001 * g[seen] ** 2
        rate = 0.05 * np.sqrt(1 - 0.999 ** t[seen]) / (1 - 0.9 ** t[seen])
        table[seen] -= rate[:, None] * m[seen] / (np.sqrt(v[seen]) + 1e-8)
        m_other, v_other = 0.9 * m_other + 0.1 * g_other, 0.999 * v_other + 0.001 * g_other**2
        scale = 0.05 * np.sqrt(1 - 0.999**number) / (1 - 0.9**number)
        other -= scale * m_other / (np.sqrt(v_other) + 1e-8)
        step(tf.constant(batch))
        np.testing.assert_allclose(model.rows, table, rtol=1e-12)
        np.testing.assert_allclose(model.other, other, rtol=1e-12)
    np.testing.assert_array_equal(model.rows.numpy()[[1, 4]], (np.arange(10.0).reshape(5, 2) / 3)[[1, 4]])
    state = [part.numpy() for part in adam.variables if part.shape.rank and part.shape[0] == 5]
    assert [part.shape for part in state] == [(5, 2), (5, 2), (5,)]
    assert not any(np.any(part[[1, 4]]) for part in state)


def test_adam_that_is_not_lazy_goes_on_moving_rows_that_are_not_read():
    model, adam = Table(), Adam(0.05)
    adam.start(model)
    adam.step(model, lambda: model.loss([0, 2]))
    before = model.rows.numpy()
    adam.step(model, lambda: model.loss([3]))
    assert (np.abs(model.rows.numpy() - before)[[0, 2]] > 0).all()


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_step_sizes_that_are_not_positive_are_refused(rate):
    with pytest.raises(ValueError, match=f"learning_rate={rate} must be positive"):
        Adam(rate)


def test_parameters_that_are_not_trainable_stay(uneven):
    model = SparseMOGP(LMC([k.Matern32()], 3), given_points(uneven.X[:3]), [Gaussian() for _ in range(3)])
    gpflow.set_trainable(model.inducing, False)
    adam = Adam(0.1)
    adam.start(model)
    before = np.asarray(model.inducing.Z).copy()
    adam.step(model, lambda: model.training_loss(uneven))
    np.testing.assert_array_equal(model.inducing.Z, before)
    assert np.abs(model.posterior.q_mu).max() > 0


def natural_model(data: MultiOutputData, whiten: bool = True) -> SparseMOGP:
    return SparseMOGP(
        ICM(k.Matern32(), 3, W=[[1.0], [0.5], [-1.0]]),
        given_points(data.X[:5]),
        [Gaussian(0.3) for _ in range(3)],
        Full(whiten),
    )


def test_a_natural_step_of_size_one_without_warm_up_reaches_the_optimum_of_a_conjugate_model(uneven):
    """The optimum in closed form: S⁻¹ = K⁻¹ + K⁻¹ Kuf D Kfu K⁻¹, m = S K⁻¹ Kuf r."""
    model = natural_model(uneven, whiten=False)
    W, Z = np.asarray(model.prior.W)[:, 0], np.asarray(model.inducing.Z)
    kernel = model.prior.kernels.kernels[0]
    inverse = np.linalg.inv(kernel(Z) + gpflow.default_jitter() * np.eye(5))
    precision, linear = inverse.copy(), np.zeros(5)
    for d, o in enumerate(uneven):
        A = W[d] * inverse @ kernel(Z, uneven.inputs(d)).numpy()
        precision += A @ A.T / 0.3
        linear += A @ o.Y[:, 0] / 0.3
    natural = NaturalAdam(gamma=1.0, learning_rate=1e-12, warm_up=1)
    natural.start(model)
    natural.step(model, lambda: model.training_loss(uneven))
    np.testing.assert_allclose(model.posterior.q_mu[:, 0], np.linalg.solve(precision, linear), rtol=1e-5, atol=1e-7)
    S = model.posterior.q_sqrt[0] @ tf.transpose(model.posterior.q_sqrt[0])
    np.testing.assert_allclose(S, np.linalg.inv(precision), rtol=1e-5, atol=1e-7)


def test_natural_adam_is_gpflows_natural_step_then_adam_on_the_rest(uneven):
    """Up to the jitter that GPflow adds when it goes from natural parameters to mean and covariance."""
    ours, theirs = natural_model(uneven), natural_model(uneven)
    natural = NaturalAdam(gamma=0.3, learning_rate=0.05, warm_up=2)
    natural.start(ours)
    reference = Adam(0.05)
    q = [p.unconstrained_variable for p in (theirs.posterior.q_mu, theirs.posterior.q_sqrt)]
    reference.start_on([v for v in theirs.trainable_variables if not any(v is own for own in q)])
    for step in range(3):
        natural.step(ours, lambda: ours.training_loss(uneven))
        gamma = 0.3 * 1e-3 ** (1 - min((step + 1) / 2, 1))
        NaturalGradient(gamma).minimize(
            lambda: theirs.training_loss(uneven), [(theirs.posterior.q_mu, theirs.posterior.q_sqrt)]
        )
        reference.step(theirs, lambda: theirs.training_loss(uneven))
    for a, b in zip(ours.trainable_variables, theirs.trainable_variables, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_natural_steps_work_when_nothing_else_is_trained(uneven):
    model = natural_model(uneven)
    for part in (model.prior, model.inducing, model.likelihood):
        gpflow.set_trainable(part, False)
    natural = NaturalAdam(gamma=0.5, warm_up=0)
    natural.start(model)
    before = float(model.elbo(uneven))
    natural.step(model, lambda: model.training_loss(uneven))
    assert float(model.elbo(uneven)) > before


def test_natural_steps_raise_the_bound_of_a_model_that_is_not_conjugate(rng):
    data = MultiOutputData.from_arrays(rng.normal(size=(15, 1)), rng.poisson(3.0, 15))
    model = SparseMOGP(Independent([k.Matern32()]), given_points(data.X[:6]), Poisson())
    natural = NaturalAdam(gamma=0.2, learning_rate=1e-3)
    natural.start(model)
    step = tf.function(lambda: natural.step(model, lambda: model.training_loss(data)), autograph=False)
    bounds = [-float(step()) for _ in range(25)]
    assert (np.diff(bounds) > -1e-6).all()


@pytest.mark.parametrize("gamma", [0.0, -0.1, 1.5])
def test_natural_step_sizes_outside_zero_and_one_are_refused(gamma):
    with pytest.raises(ValueError, match=rf"gamma={gamma}.*\(0, 1\]"):
        NaturalAdam(gamma)


def test_natural_gradients_need_a_gaussian_posterior_over_inducing_variables():
    with pytest.raises(ValueError, match=r"Quadratic has no posterior.*Full or Parsimonious.*Use Adam"):
        NaturalAdam().start(Quadratic())
