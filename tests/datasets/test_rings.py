"""The rings have the sizes the thesis gives and the best possible error the specification computed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from mogp.datasets.rings import ENTRIES, rings


def test_each_ring_has_1000_points_to_train_and_500_to_test():
    data = rings()
    assert (data.X.shape, data.Y.shape) == ((7500, 2), (7500, 1))
    for part, size in ((data.train, 1000), (data.test, 500)):
        np.testing.assert_array_equal(np.bincount(part.Y[:, 0].astype(int)), [size] * 5)
    assert data.source == "synthetic"
    assert ENTRIES["rings"].standin is None


def test_distance_from_the_origin_has_a_rice_distribution():
    data = rings(noise_sd=0.3)
    distance = np.hypot(*data.X.T)
    for k in range(5):
        of_ring = distance[data.Y[:, 0] == k]
        assert stats.kstest(of_ring, stats.rice((k + 1) / 0.3, scale=0.3).cdf).pvalue > 1e-3


def test_angles_are_uniform():
    angle = np.arctan2(*rings().X.T)
    assert stats.kstest(angle, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3


def test_best_possible_error_is_that_of_the_specification():
    densities = [stats.rice((k + 1) / 0.29, scale=0.29).pdf for k in range(5)]
    correct, _ = integrate.quad(lambda r: max(density(r) for density in densities) / 5, 0, 8, limit=300)
    assert 1 - correct == pytest.approx(0.069, abs=5e-4)
    data = rings(train=4000, test=0)
    distance = np.hypot(*data.X.T)
    likeliest = np.argmax([density(distance) for density in densities], axis=0)
    assert np.mean(likeliest != data.Y[:, 0]) == pytest.approx(1 - correct, abs=0.006)


def test_rings_are_the_recorded_ones_on_every_platform():
    np.testing.assert_allclose(rings().X[-1], [-4.038208823, 1.337864404], atol=2e-8)
    assert rings().digest != rings(seed=1).digest


@pytest.mark.parametrize("options", [{"train": 0}, {"test": -1}, {"noise_sd": -0.1}])
def test_impossible_rings_are_refused(options):
    with pytest.raises(ValueError, match="at least one training point"):
        rings(**options)
