"""Kernels of layers against the formulas of table 2.1, written out in NumPy."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from mogp.kernels import KernelStack, LayerKernels
from mogp.kernels.layers import RationalQuadratic

D, N = 2, 6
RNG = np.random.default_rng(0)


def se(A, B, lengthscales):
    scaled = (A[:, None] - B[None]) / np.asarray(lengthscales)
    return np.exp(-0.5 * (scaled**2).sum(-1))


def rq(A, B, lengthscales, alpha):
    scaled = (A[:, None] - B[None]) / np.asarray(lengthscales)
    return (1 + (scaled**2).sum(-1) / (2 * alpha)) ** -alpha


def points(position):
    XY = RNG.normal(size=(2, N, D + position))
    return XY, XY[..., :D], XY[..., D:]


@pytest.mark.parametrize("position", [1, 3])
def test_kinds_are_the_rows_of_the_table(position):
    (A, B), (x, x2), (y, y2) = points(position)
    on_inputs = se(x, x2, [0.5, 2.0])
    on_outputs = se(y, y2, [0.7] * position)
    both = se(A, B, [0.5, 2.0] + [0.7] * position)
    linear = 3.0 * y @ y2.T
    expected = {
        "independent": on_inputs,
        "linear": on_inputs + linear,
        "linear-input-dependent": on_inputs + on_inputs * linear,
        "nonlinear": on_inputs + on_outputs,
        "nonlinear-input-dependent": on_inputs + both,
        "linear+nonlinear": on_inputs + on_outputs + linear,
    }
    for kind, K in expected.items():
        kernels = LayerKernels(D, kind, input_lengthscale=(0.5, 2.0), output_lengthscale=0.7, linear_variance=3.0)
        np.testing.assert_allclose(kernels.layer(position)(A, B), K, atol=1e-12, err_msg=kind)


def test_rational_quadratics_follow_their_formula_on_inputs_and_outputs():
    (A, B), (x, x2), (y, y2) = points(2)
    kernel = LayerKernels(D, "nonlinear", "rq", input_lengthscale=0.5, alpha=0.3).layer(2)
    np.testing.assert_allclose(kernel(A, B), rq(x, x2, 0.5, 0.3) + rq(y, y2, 1.0, 0.3), atol=1e-12)


@pytest.mark.parametrize("kind", ["linear", "nonlinear-input-dependent", "linear+nonlinear"])
def test_the_first_layer_reads_inputs_only(kind):
    X = RNG.normal(size=(N, D))
    np.testing.assert_allclose(LayerKernels(D, kind, inputs=False).layer(0)(X), se(X, X, 1.0), atol=1e-12)


def test_a_markov_layer_changes_with_the_outputs_just_before_it_and_no_others():
    """T20: `markov=1` leaves the inputs $(x, y_{l-1})$."""
    (A, B), _, _ = points(3)
    kernel = LayerKernels(D, "linear+nonlinear", markov=1).layer(3)
    full = LayerKernels(D, "linear+nonlinear").layer(1)
    np.testing.assert_allclose(kernel(A, B), full(A[:, [0, 1, 4]], B[:, [0, 1, 4]]), atol=1e-12)


def test_markov_zero_is_independent_outputs():
    (A, B), (x, x2), _ = points(3)
    np.testing.assert_allclose(LayerKernels(D, markov=0).layer(3)(A, B), se(x, x2, 1.0), atol=1e-12)


def test_cross_channel_layers_do_not_change_with_the_inputs():
    (A, B), (x, x2), (y, y2) = points(2)
    kernels = LayerKernels(D, "linear+nonlinear", inputs=False, cross_from=2)
    outputs_only = se(y, y2, 1.0) + 10 * y @ y2.T
    np.testing.assert_allclose(kernels.layer(2)(A, B), outputs_only, atol=1e-12)
    first = se(x, x2, 1.0) + se(y[:, :1], y2[:, :1], 1.0) + 10 * y[:, :1] @ y2[:, :1].T
    np.testing.assert_allclose(kernels.layer(1)(A[:, :3], B[:, :3]), first, atol=1e-12)


@pytest.mark.parametrize("kind", ["linear-input-dependent", "nonlinear-input-dependent", "linear+nonlinear"])
def test_stacked_layers_equal_layers_evaluated_one_by_one(kind):
    (A, B), _, _ = points(3)
    kernels = [LayerKernels(D, kind, "rq", input_lengthscale=scale).layer(3) for scale in (0.5, 1.5)]
    one_by_one = np.stack([k(A, B) for k in kernels])
    np.testing.assert_allclose(KernelStack(kernels).K(tf.constant(A), tf.constant(B)), one_by_one, atol=1e-12)


def test_layers_have_parameters_of_their_own():
    kernels = LayerKernels(1, "linear")
    first, second = kernels.layer(1), kernels.layer(1)
    first.kernels[1].variance.assign([2.0])
    np.testing.assert_allclose(second.kernels[1].variance, [10.0])


def test_float32_is_honoured():
    with gpflow.config.as_context(gpflow.config.Config(float=np.float32)):
        XY = RNG.normal(size=(N, D + 1)).astype(np.float32)
        assert LayerKernels(D).layer(1)(XY).dtype == np.float32


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"input_dim": 0}, "at least one input column"),
        ({"kind": "quadratic"}, "expected one of independent"),
        ({"nonlinear": "matern"}, "expected 'se' or 'rq'"),
        ({"input_lengthscale": (1.0, 2.0, 3.0)}, "one for each of the 2 input columns"),
        ({"markov": -1}, "expected a number of outputs"),
        ({"cross_from": 0}, "always reads the inputs"),
    ],
)
def test_wrong_choices_are_named(given, said):
    with pytest.raises(ValueError, match=said):
        LayerKernels(**{"input_dim": 2, **given})
    with pytest.raises(ValueError, match="position 0"):
        LayerKernels(1).layer(-1)


def test_a_rational_quadratic_is_finite_where_rounding_makes_distances_negative():
    kernel = RationalQuadratic(lengthscales=1e-7, alpha=1e-8)
    x = 0.7 + 1e-12 * np.arange(40)[:, None]
    r2 = np.square(x - x.T) / 1e-14
    np.testing.assert_allclose(kernel(x), np.exp(-1e-8 * np.log1p(0.5 * r2 / 1e-8)), atol=1e-6)
