from __future__ import annotations

import json

import numpy as np
import pytest

from mogp.datasets import mobility
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.grids import grid_draw
from mogp.datasets.mobility import bike_nyc, bike_nyc_standin, guangzhou_standin, zip_toy


@pytest.fixture
def flows(shared_data, monkeypatch):
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    content = json.loads((shared_data / mobility.BIKES).read_text())
    return np.array([[content[flow][str(cell)] for cell in range(128)] for flow in ("inflow", "outflow")])


def test_bike_counts_sit_at_their_cell_and_hour(flows):
    data = bike_nyc(first=3, days=2)
    assert data.X.shape == (16 * 8 * 48, 3)
    for n in (0, 100, 3000, 6143):
        row, column, hour = np.rint(data.X[n] * [15, 7, 47]).astype(int)
        np.testing.assert_array_equal(data.Y[n], flows[:, 8 * row + column, 72 + hour])
    np.testing.assert_allclose((bike_nyc(days=92).Y == 0).mean(), 0.411, atol=5e-4)
    assert flows.max() == 496


def test_neighbouring_cells_are_alike_in_rows_of_eight(flows):
    mean = np.log1p(flows.mean(axis=(0, 2)))

    def likeness(shape):
        grid = mean.reshape(shape)
        return min(
            np.corrcoef(grid[1:].ravel(), grid[:-1].ravel())[0, 1],
            np.corrcoef(grid[:, 1:].ravel(), grid[:, :-1].ravel())[0, 1],
        )

    assert likeness((16, 8)) > likeness((8, 16))


def test_city_repeats_by_the_week():
    def field(day):
        return guangzhou_standin(day=day, grid=15).extras["f"][:, 1]

    saturday, next_saturday, tuesday = field(9), field(16), field(12)
    assert np.mean((saturday - next_saturday) ** 2) < 0.5 * np.mean((saturday - tuesday) ** 2)


def test_city_is_the_same_on_every_grid():
    coarse, fine = guangzhou_standin(grid=11), guangzhou_standin(grid=21)
    every_other = fine.extras["f"].reshape(21, 21, 24, 2)[::2, ::2]
    np.testing.assert_allclose(coarse.extras["f"].reshape(11, 11, 24, 2), every_other, atol=2e-9)
    assert coarse.X.min() == 0.0
    assert coarse.X.max() == 1.0


def test_draws_on_a_grid_have_the_rbf_covariance():
    axes, lengthscales = (np.array([0.0, 0.1]), np.array([0.5]), np.array([0.0, 0.2])), (0.2, 1.0, 0.3)
    rng = np.random.default_rng(0)
    draws = np.array([grid_draw(axes, lengthscales, rng).ravel() for _ in range(4000)])
    points = np.array([[x, y, h] for x in axes[0] for y in axes[1] for h in axes[2]]) / lengthscales
    K = np.exp(-0.5 * ((points[:, None] - points[None]) ** 2).sum(axis=-1))
    np.testing.assert_allclose(draws.T @ draws / 4000, K, atol=0.08)


@pytest.mark.parametrize("data", [guangzhou_standin(grid=31), zip_toy(N=20000)], ids=["guangzhou", "zip-toy"])
def test_counts_follow_the_zero_inflated_poisson(data):
    f, y = data.extras["f"], data.Y[:, 0]
    inflation, rate = 1 / (1 + np.exp(-f[:, 0])), np.exp(f[:, 1])
    zero = inflation + (1 - inflation) * np.exp(-rate)
    assert abs(np.mean(y == 0) - zero.mean()) < 4 * np.sqrt(np.mean(zero * (1 - zero)) / len(y))
    mean, variance = (1 - inflation) * rate, (1 - inflation) * rate * (1 + inflation * rate)
    assert abs(np.mean(y - mean)) < 4 * np.sqrt(variance.mean() / len(y))
    assert (y == np.rint(y)).all()


def test_most_of_the_city_is_empty_and_a_day_has_the_stated_size():
    data = guangzhou_standin(day=31)
    assert data.X.shape == (41 * 41 * 24, 3)
    assert 0.5 < (data.Y == 0).mean() < 0.9


@pytest.mark.parametrize("Q", [1, 2, 3])
def test_zip_toy_mixes_its_processes_with_the_published_weights(Q):
    data = zip_toy(Q=Q)
    weights = [(-0.5, 1.1), (0.4, -0.3), (0.1, -0.8)][:Q]
    f = sum(np.outer(data.extras["u"][:, q], weight) for q, weight in enumerate(weights))
    np.testing.assert_allclose(data.extras["f"], f, atol=1e-8)
    np.testing.assert_allclose(data.X[:, 0], np.linspace(-1, 1, 2000))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: guangzhou_standin(day=0), "1 to 31"),
        (lambda: guangzhou_standin(day=32), "1 to 31"),
        (lambda: guangzhou_standin(grid=1), "at least 2"),
        (lambda: bike_nyc_standin(first=92), "0 to 91"),
        (lambda: bike_nyc_standin(first=90, days=3), "0 to 91"),
        (lambda: bike_nyc_standin(days=0), "0 to 91"),
        (lambda: zip_toy(Q=4), "1, 2 or 3"),
        (lambda: zip_toy(N=0), "one point"),
    ],
)
def test_days_grids_and_sizes_out_of_range_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_flows_that_are_no_counts_are_refused(tmp_path):
    path = tmp_path / "flows.json"
    for value, hours in ((0.5, 2208), (-1, 2208), (1, 24)):
        cells = {str(cell): [value] * hours for cell in range(128)}
        path.write_text(json.dumps({"inflow": cells, "outflow": cells}))
        with pytest.raises(DataFormatError, match="2208 hours"):
            mobility.read_flows(path)
