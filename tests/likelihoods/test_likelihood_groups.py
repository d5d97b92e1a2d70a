"""Outputs with like likelihoods are evaluated together, and nothing changes by it."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from mogp.likelihoods import Bernoulli, Gaussian, HeteroscedasticGaussian, Poisson, Softmax
from mogp.likelihoods.groups import groups

SHARED = Gaussian(0.3)
NOISE_OF_X = gpflow.likelihoods.Gaussian(scale=gpflow.functions.Linear())


@pytest.mark.parametrize(
    ("likelihoods", "expected"),
    [
        ([Gaussian(0.1), Gaussian(0.2), Gaussian(0.3)], [(0, 1, 2)]),
        ([SHARED, Poisson(), SHARED, Poisson()], [(0, 2), (1, 3)]),
        ([HeteroscedasticGaussian(), HeteroscedasticGaussian(nodes=30)], [(0,), (1,)]),
        ([gpflow.likelihoods.Poisson(), gpflow.likelihoods.Poisson(binsize=2.0)], [(0,), (1,)]),
        ([gpflow.likelihoods.Bernoulli(), gpflow.likelihoods.Bernoulli(invlink=tf.sigmoid)], [(0,), (1,)]),
        ([Gaussian(), gpflow.likelihoods.Gaussian()], [(0,), (1,)]),
        ([NOISE_OF_X, NOISE_OF_X, gpflow.likelihoods.Gaussian(scale=gpflow.functions.Linear())], [(0, 1), (2,)]),
        ([Softmax(3), Softmax(3)], [(0,), (1,)]),
        ([Bernoulli()], [(0,)]),
    ],
)
def test_likelihoods_are_grouped_only_when_one_call_can_serve_them(likelihoods, expected):
    assert [group.outputs for group in groups(likelihoods)] == expected


def test_a_group_gives_every_row_the_parameters_of_its_own_output():
    members = [Gaussian(0.1), Gaussian(0.5), Gaussian(2.0)]
    sizes = [2, 1, 3]
    rng = np.random.default_rng(0)
    Fmu, Fvar, Y = rng.normal(size=(6, 1)), rng.uniform(0.1, 1, (6, 1)), rng.normal(size=(6, 1))
    (group,) = groups(members)
    together = group.likelihood(sizes).variational_expectations(np.zeros((6, 0)), Fmu, Fvar, Y)
    noise = np.repeat([0.1, 0.5, 2.0], sizes)[:, None]
    by_hand = -0.5 * np.log(2 * np.pi * noise) - ((Y - Fmu) ** 2 + Fvar) / (2 * noise)
    np.testing.assert_allclose(together, by_hand[:, 0], rtol=1e-12)


def test_gradients_reach_the_parameters_of_every_member():
    members = [Gaussian(0.1), Gaussian(0.5)]
    zeros = np.zeros((2, 1))
    (group,) = groups(members)
    with tf.GradientTape() as tape:
        merged = group.likelihood([1, 1])
        value = tf.reduce_sum(merged.variational_expectations(np.zeros((2, 0)), zeros, zeros, zeros + 1))
    for member, gradient in zip(
        members, tape.gradient(value, [m.variance.unconstrained_variable for m in members]), strict=True
    ):
        noise = float(member.variance.numpy())
        slope = tf.math.sigmoid(member.variance.unconstrained_variable)
        np.testing.assert_allclose(gradient, (-0.5 / noise + 0.5 / noise**2) * slope, rtol=1e-6)
