"""Copies of modules that compute with other tensors."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from gpflow.kernels import Linear, Matern32, SquaredExponential
from gpflow.utilities import parameter_dict, read_values

from mogp.kernels import KernelStack
from mogp.likelihoods import Gaussian, PerOutput, Poisson
from mogp.modules import own_parameters, with_tensors


def number(value):
    return tf.constant(value, tf.float64)


def test_a_kernel_computes_with_the_tensors_and_the_original_with_its_own(rng):
    kernel, X = SquaredExponential(variance=2.0, lengthscales=0.5), rng.normal(size=(4, 1))
    before = kernel(X).numpy()
    other = with_tensors(kernel, {".variance": number(3.0), ".lengthscales": number(0.7)})
    np.testing.assert_array_equal(other(X), SquaredExponential(variance=3.0, lengthscales=0.7)(X))
    np.testing.assert_array_equal(kernel(X), before)
    assert set(parameter_dict(kernel)) == {".variance", ".lengthscales"}
    assert not parameter_dict(other)
    assert [v.ref() for v in kernel.trainable_variables] == [
        p.unconstrained_variable.ref() for p in (kernel.lengthscales, kernel.variance)
    ]


def test_a_likelihood_reads_a_tensor_row_by_row(rng):
    F, V, Y = rng.normal(size=(3, 1)), rng.uniform(0.1, 1, (3, 1)), rng.normal(size=(3, 1))
    likelihood, noise = Gaussian(0.1), np.array([[0.2], [0.3], [0.5]])
    other = with_tensors(likelihood, {".variance": tf.constant(noise)})
    truth = -0.5 * np.log(2 * np.pi * noise) - ((Y - F) ** 2 + V) / (2 * noise)
    np.testing.assert_allclose(other.variational_expectations(np.zeros((3, 0)), F, V, Y), truth[:, 0], rtol=1e-12)
    assert likelihood.variance.numpy() == pytest.approx(0.1)


def test_parameters_inside_modules_are_replaced_by_their_paths(rng):
    """Lists, tuples and modules on the way are copied; what is not on the way is shared."""
    kernel = Linear(variance=1.5) + SquaredExponential(variance=2.0) * Matern32(variance=0.3)
    stack = KernelStack([kernel, Matern32()])
    X, before = rng.normal(size=(3, 2)), read_values(stack)
    other = with_tensors(stack, {".kernels[0].kernels[1].kernels[0].variance": number(5.0)})
    truth = Linear(variance=1.5)(X) + 5.0 / 2.0 * (SquaredExponential(variance=2.0) * Matern32(variance=0.3))(X)
    np.testing.assert_allclose(other.K(tf.constant(X))[0], truth, rtol=1e-12)
    assert other.kernels[1] is stack.kernels[1]
    assert stack.kernels[0] is kernel
    assert read_values(stack).keys() == before.keys()
    likelihoods = PerOutput({"a": Gaussian(0.1), "b": Poisson()})
    some = with_tensors(likelihoods, {".likelihoods[0].variance": number(0.4)})
    assert float(some.likelihoods[0].variance) == 0.4
    assert some.likelihoods[1] is likelihoods.likelihoods[1]
    assert likelihoods.likelihoods[0].variance.numpy() == pytest.approx(0.1)


def test_stacked_kernels_may_have_tensors_in_place_of_parameters(rng):
    X = tf.constant(rng.normal(size=(3, 1)))
    values = [0.5, 2.0]
    stack = KernelStack([with_tensors(SquaredExponential(), {".variance": number(v)}) for v in values])
    np.testing.assert_allclose(stack.K(X), [SquaredExponential(variance=v)(X) for v in values], rtol=1e-12)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_flow_to_the_tensors_also_in_a_compiled_function(rng, compiled):
    kernel, X = SquaredExponential(variance=2.0), tf.constant(rng.normal(size=(3, 1)))

    def value(variance):
        with tf.GradientTape() as tape:
            tape.watch(variance)
            total = tf.reduce_sum(with_tensors(kernel, {".variance": variance})(X))
        return total, tape.gradient(total, variance), tape.watched_variables()

    def numbers(variance):
        total, slope, variables = value(variance)
        assert [v.ref() for v in variables] == [kernel.lengthscales.unconstrained_variable.ref()]
        return total, slope

    total, slope = (tf.function(numbers) if compiled else numbers)(number(4.0))
    np.testing.assert_allclose(slope, np.sum(kernel(X)) / 2.0, rtol=1e-12)
    np.testing.assert_allclose(total, 4 * slope, rtol=1e-12)


def test_further_attributes_of_the_copy_change_and_the_original_keeps_its_own():
    likelihood = Gaussian(0.1)
    other = with_tensors(likelihood, {}, latent_dim=3, link=[1, 2])
    assert (other.latent_dim, other.link, likelihood.latent_dim) == (3, [1, 2], 1)
    assert "link" not in vars(likelihood)
    assert other.variance is likelihood.variance


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("variance", "not the path of a parameter"),
        (".noise", r"there is no \.noise in a SquaredExponential"),
        (".variance.inner", "there is no"),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(path, message):
    with pytest.raises(ValueError, match=message):
        with_tensors(SquaredExponential(), {path: number(1.0)})


def test_own_parameters_are_those_of_no_module_inside():
    module = gpflow.Module()
    module.kernel, module.W = SquaredExponential(), gpflow.Parameter(np.ones(3))
    assert list(own_parameters(module)) == ["W"]
    assert own_parameters(module)["W"] is module.W
