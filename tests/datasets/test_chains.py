"""The chains follow the kernels and sizes of the specification."""

from __future__ import annotations

import numpy as np
import pytest

from mogp.datasets.chains import (
    ENTRIES,
    _chain,
    _linear,
    _se,
    xia_functions,
    xia_gplar_linear,
    xia_gplar_nonlinear,
    xia_hetero,
)


@pytest.mark.parametrize("spacing", ["grid", "random"])
def test_functions_are_those_of_the_specification(spacing):
    data = xia_functions(spacing=spacing, noise_sd=0.0)
    x, (y1, y2, y3) = data.X[:, 0], data.Y.T
    np.testing.assert_allclose(y1, -np.sin(10 * np.pi * (x + 1)) / (2 * x + 1) - x**4, atol=1e-8)
    np.testing.assert_allclose(y2, np.cos(y1) ** 2 + np.sin(3 * x), atol=1e-8)
    np.testing.assert_allclose(y3, y2 * y1**2 + 3 * x, atol=1e-8)
    assert data.held_out is None
    assert (np.diff(x) >= 0).all()
    assert (np.ptp(np.diff(x)) < 1e-12) == (spacing == "grid")


def test_noise_of_the_functions_is_added_to_noise_free_latents():
    data = xia_functions(n=5000, noise_sd=0.05)
    noise = data.Y - data.extras["h"]
    np.testing.assert_allclose(noise.std(axis=0), 0.05, rtol=0.05)
    np.testing.assert_allclose(np.corrcoef(noise.T), np.eye(3), atol=0.06)


def test_missing_targets_are_the_authors_indices():
    data = xia_functions(n=50, missing=True)
    first, second, third = (np.flatnonzero(column) for column in data.held_out.T)
    np.testing.assert_array_equal(first, np.arange(10, 20))
    np.testing.assert_array_equal(second, np.arange(30, 40))
    assert third.size == 0


@pytest.mark.parametrize(("make", "D"), [(xia_gplar_nonlinear, 3), (xia_gplar_linear, 5)])
def test_draws_are_observed_at_different_points_of_the_grid(make, D):
    data = make()
    assert (data.train.Y.shape, data.test.Y.shape) == ((100, D), (100, D))
    assert len(np.unique(data.X)) == 200
    x, truth = data.extras["x"][:, 0], data.extras["truth"]
    assert (x[0], x[-1], len(x)) == (-3.0, 3.0, 1000)
    rows = np.searchsorted(x, data.X[:, 0])
    np.testing.assert_array_equal(x[rows], data.X[:, 0])
    np.testing.assert_array_equal(truth[rows], data.extras["h"])


def test_noise_levels_are_standard_deviations():
    data = xia_gplar_linear(train=500, test=500)
    np.testing.assert_allclose((data.Y - data.extras["h"]).std(axis=0), [1, 1, 1, 1, 0.1], rtol=0.1)
    data = xia_gplar_nonlinear(train=500, test=500)
    np.testing.assert_allclose((data.Y - data.extras["h"]).std(axis=0), 0.5, rtol=0.1)


X = np.array([[0.0], [0.04], [0.15]])


def chains(layer, over, lengthscales, draws=1500):
    """[draws, 3, D] latents at three places."""
    rng = np.random.default_rng(5)
    return np.stack([_chain(X, lengthscales, layer, over, rng) for _ in range(draws)])


def se(x, lengthscales):
    scaled = x / np.asarray(lengthscales)
    return np.exp(-0.5 * ((scaled[..., :, None, :] - scaled[..., None, :, :]) ** 2).sum(axis=-1))


def assert_mean_product(h, expected):
    """Mean outer product over draws [draws, 3, 3] within four standard errors of the expected."""
    products = h[:, :, None] * h[:, None, :]
    error = (products - expected).std(axis=0) / np.sqrt(len(h))
    assert (np.abs((products - expected).mean(axis=0)) < 4 * error).all()


def test_nonlinear_layers_add_a_kernel_over_all_earlier_latents():
    """Given the latents before it, layer d has covariance SE(x) + SE(h_1, …, h_(d-1)), on average over draws."""
    h = chains(_se, ((1.0,), (1.0, 0.5)), (0.1, 0.05, 0.2))
    assert_mean_product(h[:, :, 0], se(X, 0.1))
    assert_mean_product(h[:, :, 1], se(X, 0.05) + se(h[:, :, :1], 1.0))
    assert_mean_product(h[:, :, 2], se(X, 0.2) + se(h[:, :, :2], (1.0, 0.5)))


def test_linear_layers_add_the_earlier_latents_with_random_weights():
    h = chains(_linear, ((1.0,), (5.0, 1.0)), (0.1, 0.2, 0.05))
    assert_mean_product(h[:, :, 1], se(X, 0.2) + np.einsum("rnj,rmj->rnm", h[:, :, :1], h[:, :, :1]))
    assert_mean_product(h[:, :, 2], se(X, 0.05) + np.einsum("rnj,rmj,j->rnm", h[:, :, :2], h[:, :, :2], [5.0, 1.0]))


def test_variance_of_a_layer_scales_its_draw_over_the_input():
    rng = np.random.default_rng(6)
    h = np.stack([_chain(X, (0.1,), _se, (), rng, variances=(2.0,)) for _ in range(1500)])
    assert_mean_product(h[:, :, 0], 2 * se(X, 0.1))


@pytest.mark.parametrize("dependence", ["nonlinear", "linear"])
def test_heterogeneous_outputs_have_two_kinds_and_a_gap(dependence):
    data = xia_hetero(dependence=dependence)
    assert data.Y.shape == (200, 4)
    assert set(np.unique(data.Y[:, 2:])) == {0.0, 1.0}
    assert data.likelihoods == ("Gaussian", "Gaussian", "Bernoulli", "Bernoulli")
    rows, columns = np.nonzero(data.held_out)
    np.testing.assert_array_equal(rows, np.arange(100, 150))
    assert set(columns) == {3}
    assert (data.X[rows[0], 0], data.X[rows[-1], 0]) == (pytest.approx(1.0, abs=0.01), pytest.approx(1.5, abs=0.01))
    np.testing.assert_array_equal(data.X, data.extras["x"][::5])
    np.testing.assert_allclose(data.extras["truth"][:, 2:].mean(axis=0), 0, atol=1e-8)


def test_binary_outputs_follow_the_logistic_function_of_their_latents():
    surprise = variance = 0.0
    for seed in range(5):
        data = xia_hetero(seed=seed)
        chance = 1 / (1 + np.exp(-data.extras["h"][:, 2:]))
        surprise += (data.Y[:, 2:] - chance).sum()
        variance += (chance * (1 - chance)).sum()
    assert abs(surprise) < 4 * np.sqrt(variance)


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("xia-functions", [-0.984935391, 0.369998576, 3.474691312]),
        ("xia-gplar-nonlinear", [-2.076303878, 1.020145347, 1.324095864]),
        ("xia-gplar-linear", [-1.559088072, 4.225648423, -1.911101855, 3.301586842, -3.236446237]),
        ("xia-hetero", [0.901222001, 2.654799403, 0.0, 0.0]),
    ],
)
def test_generators_give_the_recorded_numbers_on_every_platform(name, last):
    data = ENTRIES[name].load()
    np.testing.assert_allclose(data.Y[-1], last, atol=2e-8)
    assert data.source == "synthetic"
    assert data.digest != ENTRIES[name].load(seed=99).digest


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: xia_functions(n=0), "0 points"),
        (lambda: xia_functions(spacing="log"), '"grid" or "random"'),
        (lambda: xia_gplar_nonlinear(train=0), "at least one training point"),
        (lambda: xia_gplar_nonlinear(train=900, test=101), "at most 1000"),
        (lambda: xia_gplar_linear(noise_sd=(1.0,)), "one for each of the 5"),
        (lambda: xia_hetero(dependence="cubic"), '"nonlinear" or "linear"'),
    ],
)
def test_what_cannot_be_drawn_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
