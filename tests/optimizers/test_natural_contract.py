"""Natural gradients on every case of `cases.py`: one step is GPflow's, or is refused by a named error.

The reference is `gpflow.optimizers.NaturalGradient` on plain parameters `q_mu [M, L]`, `q_sqrt [L, M, M]` of the same
loss. GPflow has no such step for parsimonious posteriors: there it is the step of natural parameters, with the Fisher
information by automatic differentiation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from case_data import colours
from cases import CASES, Case, run_of
from gpflow.optimizers import NaturalGradient

from mogp import fit
from mogp.data.class_batches import ClassBatches
from mogp.errors import UnsupportedError
from mogp.models import ovse
from mogp.models.chains.chain import LatentChain
from mogp.optimizers import Adam, Natural
from mogp.posteriors import Full, Joint, Parsimonious
from mogp.training.state import _generator_states

GAMMA = 0.01
TOLERANCE = {Full: 1e-5, Joint: 1e-5, Parsimonious: 1e-4}
"""Of the change; a parsimonious step factorises `S o S` with jitter."""
CLASSES = 3


def loss_of(model: Any, data: Any) -> Callable[[], tf.Tensor]:
    """The loss on all data, the same whenever it is asked for."""
    if isinstance(model, LatentChain):
        noise = np.random.default_rng(0).standard_normal((model.num_gps, 2, len(data.X)))
        return lambda: -model.elbo(data, noise)
    batch, states = model.batches(data)(0), [(v, v.numpy()) for v in _generator_states(model)]
    if (before := model.before_step()) is not None:
        before(batch)

    def loss() -> tf.Tensor:
        for state, value in states:
            state.assign(value)
        return model.training_loss(batch)

    return loss


def natural_step_of_gpflow(posterior: Full, loss: Callable[[], tf.Tensor], gamma: float) -> list[np.ndarray]:
    """On plain parameters, which take the place of the posterior's."""
    posterior.q_mu = gpflow.Parameter(np.asarray(posterior.q_mu))
    NaturalGradient(gamma).minimize(loss, [(posterior.q_mu, posterior.q_sqrt)])
    return [np.asarray(posterior.q_mu), np.asarray(posterior.q_sqrt)]


def natural_step_by_fisher(model: Any, loss: Callable[[], tf.Tensor], gamma: float) -> list[np.ndarray]:
    """θ ← θ − β F⁻¹∇ for θ = (S⁻¹m, −λ/2), latent by latent; F is the Jacobian of the expectations (m, S_ii + m_i²)."""
    posterior = model.posterior
    old = [np.asarray(posterior.mu).copy(), np.asarray(posterior.sigma).copy()]
    posterior.mu, posterior.sigma = (gpflow.Parameter(values) for values in old)
    variables = [posterior.mu.unconstrained_variable, posterior.sigma.unconstrained_variable]
    with tf.GradientTape() as tape:
        value = loss()
    by_mu, by_sigma = (tf.convert_to_tensor(g).numpy() for g in tape.gradient(value, variables))
    Kuu = np.asarray(model.inducing.Kuu(model.prior.kernels))
    M, latents = old[0].shape
    new = [np.empty((M, latents)), np.empty((M, latents))]
    for latent in range(latents):
        K = Kuu[latent % len(Kuu)] + gpflow.default_jitter() * np.eye(M)
        inverse, mu, sigma = np.linalg.inv(K), old[0][:, latent], old[1][:, latent]
        theta = tf.Variable(np.concatenate([(inverse + np.diag(1 / sigma)) @ K @ mu, -0.5 / sigma]))
        with tf.GradientTape(persistent=True) as tape:
            S = tf.linalg.inv(inverse + tf.linalg.diag(-2 * theta[M:]))
            m = tf.linalg.matvec(S, theta[:M])
            expectations = tf.concat([m, tf.linalg.diag_part(S) + m**2], 0)
            parameters = tf.concat([tf.linalg.matvec(inverse, m), -0.5 / theta[M:]], 0)
        by = np.concatenate([by_mu[:, latent], by_sigma[:, latent]])
        by_theta = tape.jacobian(parameters, theta).numpy().T @ by
        after = theta.numpy() - gamma * np.linalg.solve(tape.jacobian(expectations, theta).numpy(), by_theta)
        new[1][:, latent] = -0.5 / after[M:]
        new[0][:, latent] = inverse @ np.linalg.solve(inverse + np.diag(-2 * after[M:]), after[:M])
    return new


def parameters_of(posterior: Any) -> list[np.ndarray]:
    names = ("mu", "sigma") if isinstance(posterior, Parsimonious) else ("q_mu", "q_sqrt")
    return [np.asarray(getattr(posterior, name)).copy() for name in names]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name, marks=run_of(case)) for case in CASES])
def test_one_natural_step_is_that_of_gpflow_or_refused(case: Case, randomise):
    data = case.data("several", 0)
    how = {"scaling": None} if case.scales else {}
    ours, theirs = case.build(data, **how), case.build(data, **how)
    optimizer = Natural(Adam(), GAMMA, trust=None)
    if not isinstance(getattr(ours, "posterior", None), Full | Joint | Parsimonious):
        with pytest.raises(UnsupportedError, match=f"{type(ours).__name__} has no posterior.*Adam"):
            optimizer.start(ours)
        return
    for model in (ours, theirs):
        randomise(model, 4)
    before = parameters_of(ours.posterior)
    optimizer.start(ours)
    optimizer.step(ours, loss_of(ours, data))
    if isinstance(ours.posterior, Full | Joint):
        expected = natural_step_of_gpflow(theirs.posterior, loss_of(theirs, data), GAMMA)
    else:
        expected = natural_step_by_fisher(theirs, loss_of(theirs, data), GAMMA)
    for new, other, old in zip(parameters_of(ours.posterior), expected, before, strict=True):
        change = np.abs(other - old).max()
        assert change > 1e-6
        np.testing.assert_allclose(new, other, atol=TOLERANCE[type(ours.posterior)] * change, rtol=0)


# ---------------------------------------------------------------------------- batches of one class


@pytest.fixture(params=["full", "parsimonious"])
def classes(request, randomise) -> tuple[Any, Any, Any]:
    """Twice the same one-vs-each model, with as many inducing inputs as classes, and its data."""
    data = colours("several", 0)
    models = [ovse(data, CLASSES, posterior=request.param, inducing=CLASSES, scaling=None) for _ in range(2)]
    for model in models:
        randomise(model, 5)
    return *models, data


def dense_class_loss(model: Any, batch: Any) -> tf.Tensor:
    """−C [w Σ E log σ(f_k − f_l) − KL_k], with the functions of all classes."""
    factors = model.posterior.factorise(model.inducing.Kuu(model.prior.kernels))
    f = model.prior.condition(batch.X, model.inducing, model.posterior, factors).marginals(range(CLASSES))
    k, rivals = int(batch.classes[0]), [int(c) for c in batch.classes[1:]]
    x, w = np.polynomial.hermite.hermgauss(60)
    compared = 0.0
    for rival in rivals:
        mean, var = f.mean[:, k] - f.mean[:, rival], f.var[:, k] + f.var[:, rival]
        at = mean[:, None] + tf.sqrt(2 * var)[:, None] * x
        compared += tf.reduce_sum(tf.math.log_sigmoid(at) * (w / np.sqrt(np.pi)))
    return -CLASSES * (batch.weight * compared - model.posterior.kl(factors)[k])


def test_a_step_on_a_batch_of_one_class_is_a_share_of_gpflows_and_leaves_other_classes_alone(classes):
    ours, theirs, data = classes
    batch = ClassBatches(data, 3, 0, classes=CLASSES, rivals=1)(0)
    before = parameters_of(ours.posterior)
    history = fit(ours, data, steps=1, batch_size=3, optimizer=Natural(Adam(), 10 * GAMMA), progress=False)
    np.testing.assert_allclose(-history.elbo[0], dense_class_loss(theirs, batch), rtol=1e-5)
    share = 10 * GAMMA / CLASSES
    if isinstance(ours.posterior, Full | Joint):
        expected = natural_step_of_gpflow(theirs.posterior, lambda: dense_class_loss(theirs, batch), share)
    else:
        expected = natural_step_by_fisher(theirs, lambda: dense_class_loss(theirs, batch), share)
    read = sorted(int(c) for c in batch.classes)
    (other,) = set(range(CLASSES)) - set(read)
    for new, theirs_new, old in zip(parameters_of(ours.posterior), expected, before, strict=True):
        if new.ndim == 2:
            new, theirs_new, old = new.T, theirs_new.T, old.T
        change = np.abs(theirs_new - old).max()
        np.testing.assert_allclose(new[read], theirs_new[read], atol=1e-3 * change, rtol=0)
        np.testing.assert_allclose(new[other], old[other], rtol=1e-14)


def test_natural_steps_of_constant_size_on_batches_of_one_class_come_near_the_optimum(classes):
    """The optimum is that of 100 steps on all data. Without the share, every step would be three times as large."""
    ours, theirs, data = classes
    for model in (ours, theirs):
        for part in (model.prior, model.inducing):
            gpflow.set_trainable(part, False)
    before = float(ours.elbo(data))
    fit(theirs, data, steps=100, optimizer=Natural(Adam(), 0.3), progress=False)
    history = fit(ours, data, steps=150, batch_size=4, optimizer=Natural(Adam(), 0.3), progress=False)
    assert history.status == "finished"
    assert float(ours.elbo(data)) > 0.5 * (before + float(theirs.elbo(data)))
