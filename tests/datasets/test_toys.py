"""The generators of the toy data follow the documents."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mogp.datasets import load
from mogp.datasets.toys import ENTRIES


@pytest.mark.parametrize("name", list(ENTRIES))
def test_another_seed_gives_other_data(name):
    small = {"N": 50} if name == "giraldo-toy" else {}
    assert load(name, seed=1, **small).digest != load(name, seed=2, **small).digest


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("toy-gp-1d", [-0.31933504]),
        ("panos-toy-1d", [0.336927071]),
        ("xia-seven-points", [-1.512832136]),
        ("giraldo-toy", [0.368382833, 0.001119364, 0.0]),
    ],
)
def test_generators_give_the_recorded_numbers_on_every_platform(name, last):
    small = {"N": 50} if name == "giraldo-toy" else {}
    np.testing.assert_allclose(load(name, **small).Y[-1], last, atol=2e-9)


@pytest.mark.parametrize("name", ["toy-gp-1d", "panos-toy-1d", "xia-seven-points"])
@pytest.mark.parametrize("n", [1, 2, 40])
def test_one_dimensional_toys_have_the_points_asked_for(name, n):
    dataset = load(name, n=n)
    assert dataset.X.shape == dataset.Y.shape == (n, 1)
    assert (np.diff(dataset.X[:, 0]) >= 0).all()
    with pytest.raises(ValueError, match="0 points"):
        load(name, n=0)


def test_panos_toy_is_the_printed_function_with_the_printed_noise():
    dataset = load("panos-toy-1d", n=4000)

    def printed(x):
        return 0.1 * x**2 * np.sin(6 * x) + 0.1 * (x * np.cos(5 * x) + np.exp(np.cos(x)))

    residuals = dataset.Y - printed(dataset.X)
    assert residuals.var() == pytest.approx(0.001, rel=0.1)
    np.testing.assert_allclose(dataset.extras["f"], printed(dataset.extras["x"]))
    assert dataset.extras["x"].shape == (1000, 1)
    assert load("panos-toy-1d").X.shape == (10, 1)


def test_seven_points_lie_on_the_drawn_function():
    dataset = load("xia-seven-points")
    on_curve = np.interp(dataset.X[:, 0], dataset.extras["x"][:, 0], dataset.extras["f"][:, 0])
    np.testing.assert_allclose(dataset.Y[:, 0], on_curve, atol=5e-3)


def test_draws_have_the_covariance_of_an_rbf_process():
    draws = np.stack([load("toy-gp-1d", seed=seed, lengthscale=1.5).extras["f"][:, 0] for seed in range(200)])
    x = load("toy-gp-1d").extras["x"][:, 0]
    at = [0, 25, 60]
    empirical = np.cov(draws[:, at].T)
    expected = np.exp(-0.5 * (x[at][:, None] - x[at]) ** 2 / 1.5**2)
    np.testing.assert_allclose(empirical, expected, atol=0.3)


@pytest.mark.parametrize(("variant", "outputs", "functions"), [("T1", 3, 5), ("T2", 5, 8), ("T3", 10, 15)])
def test_giraldo_toy_has_the_outputs_and_functions_of_its_variant(variant, outputs, functions):
    dataset = load("giraldo-toy", variant=variant, N=60)
    assert dataset.Y.shape == (60, outputs)
    assert len(set(dataset.outputs)) == outputs
    assert dataset.extras["f"].shape == (60, functions)
    np.testing.assert_allclose(
        dataset.extras["f"], np.einsum("nq,jq->nj", dataset.extras["u"], dataset.extras["W"]), atol=1e-8
    )


@pytest.mark.parametrize(("P", "points"), [(1, 100), (2, 100), (3, 105), (10, 105)])
def test_giraldo_inputs_are_grids_on_the_unit_interval(P, points):
    X = load("giraldo-toy", P=P, N=105 if P != 1 else 100).X
    assert X.shape == (points, P)
    side = 10 if P == 2 else points
    for column in X.T:
        np.testing.assert_allclose(np.unique(column), np.linspace(0, 1, side))


def test_giraldo_loadings_are_those_of_the_specification():
    W = load("giraldo-toy", variant="T3", N=4).extras["W"]
    np.testing.assert_array_equal(
        W[:5].T, [[-0.1, -0.1, 1.1, 2.1, -1.1], [1.4, -0.5, 0.3, 0.7, 1.5], [0.1, -0.8, 1.3, 1.5, 0.5]]
    )
    np.testing.assert_array_equal(W[5:8].T, [[-0.5, -0.6, 0.1], [-0.3, 0.4, -0.2], [-0.02, 0.01, 0.5]])
    np.testing.assert_array_equal(
        W[8:].T,
        [
            [-1.1, 0.8, 1.5, -0.2, 0.05, 0.06, 0.3],
            [0.4, 0.3, -0.7, -2.1, -0.03, 0.04, -0.5],
            [0.5, 1.0, 0.8, 3.0, 0.1, -0.5, 0.4],
        ],
    )


def test_giraldo_targets_are_distributed_as_their_likelihoods_say():
    """Given the functions, the probability integral transform of each continuous output is uniform."""
    dataset = load("giraldo-toy", variant="T3")
    f, y = dataset.extras["f"], dict(zip(dataset.outputs, dataset.Y.T, strict=True))
    transforms = {
        "Beta": stats.beta.cdf(y["Beta"], np.exp(f[:, 2]), np.exp(f[:, 3])),
        "Gamma": stats.gamma.cdf(y["Gamma"], np.exp(f[:, 5]), scale=np.exp(-f[:, 6])),
        "Exponential": stats.expon.cdf(y["Exponential"], scale=np.exp(-f[:, 7])),
        "Gamma 2": stats.gamma.cdf(y["Gamma 2"], np.exp(f[:, 12]), scale=np.exp(-f[:, 13])),
    }
    for name, transform in transforms.items():
        assert stats.kstest(transform, "uniform").pvalue > 1e-3, name
    chance = 1.0 / (1.0 + np.exp(-f[:, 4]))
    surprise = (y["Bernoulli"] - chance).sum() / np.sqrt((chance * (1 - chance)).sum())
    assert abs(surprise) < 4
    assert set(y["Bernoulli"]) == {0.0, 1.0}
    for name in ("HeteroscedasticGaussian", "Gaussian"):
        assert (y[name].mean(), y[name].std()) == (pytest.approx(0.0, abs=1e-9), pytest.approx(1.0))


def test_giraldo_toy_refuses_what_it_cannot_generate():
    for options, message in (
        ({"variant": "T4"}, "T1, T2, T3"),
        ({"P": 0}, "at least one input"),
        ({"N": 0}, "0 points"),
    ):
        with pytest.raises(ValueError, match=message):
            load("giraldo-toy", **options)
