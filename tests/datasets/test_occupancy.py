from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.occupancy import FILES, HEADER, occupancy, occupancy_standin, read_occupancy


@pytest.fixture
def raw(shared_data, monkeypatch):
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    return pd.concat([pd.read_csv(shared_data / file) for file in FILES])


def test_classification_takes_five_sensors_of_all_three_files(raw):
    data = occupancy()
    sensors = raw[["Temperature", "Humidity", "Light", "CO2", "HumidityRatio"]].to_numpy()
    np.testing.assert_allclose(data.X, (sensors - sensors.mean(0)) / sensors.std(0), atol=1e-8)
    np.testing.assert_array_equal(data.Y[:, 0], raw["Occupancy"])
    assert data.X.shape == (20560, 5)
    assert data.Y.sum() == 4750


def test_human_layout_has_outputs_of_three_types_over_time(raw):
    data = occupancy(layout="human")
    assert data.likelihoods == ("Bernoulli", "HeteroscedasticGaussian", "Beta")
    ordered = raw.sort_values("date")
    np.testing.assert_array_equal(data.Y[:, 0], ordered["Occupancy"])
    log = np.log(ordered["CO2"])
    np.testing.assert_allclose(data.Y[:, 1], (log - log.mean()) / log.std(ddof=0), atol=1e-5)
    humidity = (ordered["Humidity"] - raw["Humidity"].min()) / np.ptp(raw["Humidity"])
    np.testing.assert_allclose(data.Y[:, 2], humidity.clip(1e-3, 0.99), atol=1e-12)
    assert (np.diff(data.X[:, 0]) > 0).all()


def test_standin_office_is_used_about_as_much(raw):
    for layout in ("classification", "human"):
        real, standin = occupancy(layout=layout), occupancy_standin(layout=layout)
        assert real.X.shape == standin.X.shape
        assert abs(real.Y[:, 0].mean() - standin.Y[:, 0].mean()) < 0.05


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layout": "long"}, '"classification" or "human"'),
        ({"annotators": "real"}, 'None or "simulated"'),
        ({"layout": "human", "annotators": "simulated"}, 'layout="classification"'),
    ],
)
def test_unknown_options_are_met_with_what_there_is(options, words):
    with pytest.raises(ValueError, match=words):
        occupancy_standin(**options)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ('"1","yesterday",1,2,3,4,5,1', "date"),
        ('"1","2015-02-02 14:19:00",1,2,dark,4,5,1', "'Light'"),
        ('"1","2015-02-02 14:19:00",1,2,3,4,5,7', "more than 0 and 1"),
    ],
)
def test_unexpected_content_is_refused(row, words, tmp_path):
    path = tmp_path / "data.txt"
    path.write_text(",".join(f'"{name}"' for name in HEADER) + f"\n{row}\n")
    with pytest.raises(DataFormatError, match=words):
        read_occupancy(path)
