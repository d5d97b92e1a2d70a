from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from gpflow import kernels as k

from mogp.kernels import KernelStack, unit_kernels

STACKS = {
    "squared exponential": lambda: [k.SquaredExponential(v, [0.3, 0.7, v]) for v in (0.5, 2.0, 1.0)],
    "scalar and ARD lengthscales": lambda: [k.SquaredExponential(1.0, 0.5), k.SquaredExponential(2.0, [0.3, 0.7, 1.0])],
    "Matern12": lambda: [k.Matern12(v, v) for v in (0.5, 2.0)],
    "Matern32": lambda: [k.Matern32(v, [0.2, v, 1.0]) for v in (0.5, 2.0)],
    "Matern52": lambda: [k.Matern52(v, v) for v in (0.5, 2.0)],
    "exponential": lambda: [k.Exponential(v, v) for v in (0.5, 2.0)],
    "rational quadratic": lambda: [k.RationalQuadratic(v, v, alpha=3 * v) for v in (0.5, 2.0)],
    "linear": lambda: [k.Linear(0.5), k.Linear([0.1, 0.2, 0.3])],
    "polynomial": lambda: [k.Polynomial(2), k.Polynomial(3, 0.5)],
    "periodic": lambda: [k.Periodic(k.SquaredExponential(v, v), period=0.7 + v) for v in (0.5, 2.0)],
    "static": lambda: [k.White(0.3), k.Constant(2.0), k.White(0.1)],
    "arc cosine": lambda: [k.ArcCosine(0), k.ArcCosine(1)],
    "cosine": lambda: [k.Cosine(1.0, [0.5, 1.0, 2.0]), k.Cosine(0.5, 1.0)],
    "active dimensions": lambda: [
        k.SquaredExponential(1.0, [0.3, 0.7], active_dims=[0, 2]),
        k.SquaredExponential(2.0, [0.5, 0.2], active_dims=[2, 0]),
        k.SquaredExponential(2.0, 0.4, active_dims=slice(1, 3)),
        k.SquaredExponential(2.0, 0.4, active_dims=[1, 2]),
    ],
    "linear in some dimensions": lambda: [k.Linear(0.5, active_dims=[1]), k.Linear([0.1, 0.2], active_dims=[1, 2])],
    "sums": lambda: [k.SquaredExponential(v, v) + k.Linear(v) + k.White(0.1) for v in (0.5, 2.0)],
    "products": lambda: [k.Matern32(v, v, active_dims=[0]) * k.Linear(v, active_dims=[1, 2]) for v in (0.5, 2.0)],
    "sums of products": lambda: [
        k.Linear(v) * k.Matern52(1.0, v) + k.Periodic(k.SquaredExponential()) for v in (1.0, 2.0)
    ],
    "mixed": lambda: [
        k.Matern32(),
        k.SquaredExponential(2.0),
        k.Periodic(k.Matern12()),
        k.Matern32(0.5, 0.2),
        k.SquaredExponential() + k.Linear(),
    ],
    "one": lambda: k.Matern52(0.7, 0.4),
}


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_is_each_kernel_alone(name, rng):
    stack = KernelStack(STACKS[name]())
    X, X2 = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    each, each2 = rng.normal(size=(len(stack), 5, 3)), rng.normal(size=(len(stack), 4, 3))

    for a, b in ((X, X2), (X, each2), (each, X2), (each, each2)):
        one_by_one = [
            kernel(a if a.ndim == 2 else a[g], b if b.ndim == 2 else b[g]) for g, kernel in enumerate(stack.kernels)
        ]
        np.testing.assert_allclose(stack.K(tf.constant(a), tf.constant(b)), one_by_one, rtol=1e-7, atol=1e-9)
    for a in (X, each):
        own = [kernel(a if a.ndim == 2 else a[g], full_cov=False) for g, kernel in enumerate(stack.kernels)]
        np.testing.assert_allclose(stack.K_diag(tf.constant(a)), own, rtol=1e-12)


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_of_one_set_of_points_is_each_kernel_alone(name, rng):
    """Not the same as two equal sets: white noise correlates a point with itself only."""
    stack = KernelStack(STACKS[name]())
    X, each = rng.normal(size=(6, 3)), rng.normal(size=(len(stack), 6, 3))
    for points in (X, each):
        own = [kernel(points if points.ndim == 2 else points[g]) for g, kernel in enumerate(stack.kernels)]
        K = stack.K(tf.constant(points)).numpy()
        np.testing.assert_allclose(K, own, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(K, np.swapaxes(K, 1, 2), rtol=1e-12)


@pytest.mark.parametrize("name", ["squared exponential", "Matern12", "Matern32", "rational quadratic", "mixed", "sums"])
def test_gradients_are_finite_at_duplicated_points(name):
    stack = KernelStack(STACKS[name]())
    X = tf.Variable(np.tile([[0.1, -0.4, 0.7]], (3, 1)) + np.array([[0.0], [0.0], [1e-9]]))
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(stack.K(X))
    gradients = tape.gradient(value, [X, *stack.trainable_variables])
    assert all(np.isfinite(tf.convert_to_tensor(g)).all() for g in gradients if g is not None)


def test_gradients_are_those_of_the_kernels_alone(rng):
    stack = KernelStack(STACKS["mixed"]())
    X = tf.constant(rng.normal(size=(5, 3)))
    weights = tf.constant(rng.normal(size=(len(stack), 5, 5)))
    with tf.GradientTape(persistent=True) as tape:
        together = tf.reduce_sum(weights * stack.K(X))
        alone = tf.add_n([tf.reduce_sum(w * kernel(X)) for w, kernel in zip(weights, stack.kernels, strict=True)])
    for a, b in zip(*(tape.gradient(v, stack.trainable_variables) for v in (together, alone)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


def test_a_kernel_object_may_stand_in_several_places(rng):
    periodic, smooth = k.Periodic(k.SquaredExponential()), k.SquaredExponential(0.5)
    stack = KernelStack([periodic, smooth + periodic, periodic, smooth * periodic])
    X = tf.constant(rng.normal(size=(4, 2)))
    np.testing.assert_allclose(stack.K(X), [kernel(X) for kernel in stack.kernels], rtol=1e-7)
    assert len(stack.trainable_variables) == len(periodic.trainable_variables) + len(smooth.trainable_variables)


def test_transformations_of_parameters_may_differ(rng):
    kernels = [k.Matern32(0.5, 2.0) for _ in range(3)]
    kernels[1].variance = gpflow.Parameter(0.7, transform=gpflow.utilities.positive(lower=0.6))
    kernels[2].lengthscales = gpflow.Parameter(-1.5)
    X = tf.constant(rng.normal(size=(4, 2)))
    np.testing.assert_allclose(KernelStack(kernels).K(X), [kernel(X) for kernel in kernels], rtol=1e-7)


def test_the_graph_has_one_pass_a_form_whatever_the_number_of_kernels(rng):
    X = tf.constant(rng.normal(size=(4, 3)))

    def operations(count):
        stack = KernelStack(unit_kernels(count, 3))
        graph = tf.function(stack.K).get_concrete_function(X).graph
        return sum(op.type in ("BatchMatMulV2", "MatMul", "Exp") for op in graph.get_operations())

    assert operations(2) == operations(9)


def test_stacks_compile_with_xla_and_work_in_float32(float32):
    stack = KernelStack([k.Matern32(2.0, [0.5, 1.0]), k.SquaredExponential(), k.Linear() + k.Matern32()])
    X = tf.constant(np.random.default_rng(0).normal(size=(4, 2)), tf.float32)
    compiled = tf.function(stack.K, jit_compile=True)(X)
    assert compiled.dtype == stack.K_diag(X).dtype == tf.float32
    np.testing.assert_allclose(compiled, [kernel(X) for kernel in stack.kernels], rtol=1e-4, atol=1e-3)


def test_no_kernels_and_what_is_not_a_kernel_are_refused():
    with pytest.raises(ValueError, match="at least one GPflow kernel"):
        KernelStack([])
    with pytest.raises(TypeError, match="expected gpflow kernels, got str"):
        KernelStack([k.White(), "rbf"])


def test_unit_kernels_have_fixed_unit_variance_and_a_lengthscale_for_each_input():
    kernels = unit_kernels(3, 2, lengthscales=[0.1, 1.0, 10.0], kernel=k.Matern52)
    for kernel, start in zip(kernels, [0.1, 1.0, 10.0], strict=True):
        assert isinstance(kernel, k.Matern52)
        np.testing.assert_allclose(kernel.lengthscales, [start, start])
        assert kernel.variance.numpy() == 1
        assert len(kernel.trainable_variables) == 1
    assert len({id(kernel) for kernel in kernels}) == 3
