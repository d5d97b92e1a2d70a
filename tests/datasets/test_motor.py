"""The motorcycle data are the published ones, and their stand-in is as difficult."""

from __future__ import annotations

import numpy as np
import pytest

from mogp.datasets import load
from mogp.datasets.motor import motor_standin


def test_motor_is_the_published_table(shared_data, monkeypatch):
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    dataset = load("motor", standardise=False)
    assert dataset.source == "real"
    assert (dataset.X.shape, dataset.Y.shape) == ((133, 1), (133, 1))
    np.testing.assert_allclose(dataset.frame.iloc[[0, 1, -1]], [[2.4, 0.0], [2.6, -1.3], [57.6, 10.7]])
    assert dataset.Y.min() == -134.0


@pytest.mark.filterwarnings("ignore::mogp.datasets.StandInWarning")
@pytest.mark.parametrize("name", ["real", "stand-in"])
def test_standardised_motor_has_zero_mean_and_unit_spread_and_can_be_undone(name, request, monkeypatch):
    if name == "real":
        monkeypatch.setenv("MOGP_DATA_MIRROR", str(request.getfixturevalue("shared_data")))
    dataset, raw = (load("motor", stand_in="allow", standardise=on) for on in (True, False))
    assert dataset.source == name
    table = dataset.frame.to_numpy()
    np.testing.assert_allclose(table.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(table.std(axis=0), 1.0)
    np.testing.assert_allclose(table * dataset.extras["sd"] + dataset.extras["mean"], raw.frame, atol=1e-12)


def test_standin_of_motor_is_as_difficult_as_the_real_data(shared_data, monkeypatch):
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    real, standin = load("motor", standardise=False), motor_standin(standardise=False)
    assert real.X.shape == standin.X.shape
    for statistic in (np.min, np.max, np.std):
        assert statistic(standin.Y) == pytest.approx(statistic(real.Y), rel=0.3)
    quiet, loud = (standin.Y[standin.X < 11].std(), standin.Y[standin.X > 40].std())
    assert loud > 5 * quiet
