from __future__ import annotations

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from scipy.io import loadmat, savemat

from mogp.datasets import heterogeneous
from mogp.datasets import traffic as traffic_module
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.heterogeneous import human_standin, naval, naval_standin, sarcos, sarcos_standin
from mogp.datasets.store import DataUnavailableError
from mogp.datasets.traffic import traffic


@pytest.fixture
def mirror(shared_data, monkeypatch):
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    return shared_data


def test_human_has_outputs_of_three_types_at_times_of_their_own():
    data = human_standin()
    assert tuple(np.bincount(data.output)) == (5000, 5000, 21000)
    assert data.likelihoods == ("Bernoulli", "HeteroscedasticGaussian", "Beta")
    at_home, distance, active = (data.Y[data.output == d, 0] for d in range(3))
    assert set(np.unique(at_home)) == {0.0, 1.0}
    np.testing.assert_allclose([distance.mean(), distance.std()], [0.0, 1.0], atol=1e-9)
    assert 0.0 < active.min() < active.max() < 1.0
    np.testing.assert_allclose([data.X.mean(), data.X.std()], [0.0, 1.0], atol=1e-9)


def test_naval_has_two_constant_sensors_and_a_repeated_one(mirror):
    raw = np.loadtxt(mirror / "naval" / "naval.txt")
    assert np.flatnonzero(np.ptp(raw, axis=0) == 0).tolist() == [8, 11]
    np.testing.assert_array_equal(raw[:, 5], raw[:, 6])


def test_naval_drops_the_ninth_sensor_and_clips_the_targets(mirror):
    raw = np.loadtxt(mirror / "naval" / "naval.txt")
    data = naval()
    assert data.X.shape == (11934, 15)
    kept = np.delete(raw[:, :16], 8, axis=1)
    sd = kept.std(axis=0)
    sd[10] = 1.0
    np.testing.assert_allclose(data.X, (kept - kept.mean(axis=0)) / sd, atol=1e-9)
    assert (data.X[:, 10] == 0.0).all()
    decay = (raw[:, 16:] - raw[:, 16:].min(0)) / np.ptp(raw[:, 16:], axis=0)
    np.testing.assert_allclose(data.Y[:, 0], np.clip(decay[:, 0], 1e-5, 0.999), rtol=1e-12)
    np.testing.assert_allclose(data.Y[:, 1], np.clip(decay[:, 1], 1e-5, 1.0), rtol=1e-12)
    assert naval(constant="all").X.shape == naval_standin(constant="all").X.shape == (11934, 14)


def test_sarcos_test_file_is_standardised(mirror):
    raw = loadmat(mirror / "sarcos" / "sarcos_inv_test.mat")["sarcos_inv_test"]
    data = sarcos(part="test")
    np.testing.assert_allclose(
        np.hstack([data.X, data.Y]), (raw - raw.mean(axis=0)) / raw.std(axis=0), rtol=0, atol=1e-9
    )
    assert data.held_out is None
    assert "split again" in data.description


def test_sarcos_with_both_files_has_the_published_split(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    (tmp_path / "sarcos").mkdir()
    files = {"train": rng.standard_normal((20, 28)), "test": rng.standard_normal((5, 28))}
    for part, file in heterogeneous.SARCOS.items():
        savemat(tmp_path / file, {"sarcos_inv" if part == "train" else "sarcos_inv_test": files[part]})
    monkeypatch.setattr(heterogeneous, "path_of", lambda path: tmp_path / path)
    data = sarcos(part="all")
    assert data.held_out.tolist() == [False] * 20 + [True] * 5
    stacked = np.vstack([files["train"], files["test"]])
    np.testing.assert_allclose(data.X, ((stacked - stacked.mean(0)) / stacked.std(0))[:, :21], atol=1e-9)
    assert len(sarcos()) == 20


def test_sarcos_standin_has_the_published_sizes():
    assert len(sarcos_standin()) == 44484
    data = sarcos_standin(part="all")
    assert (len(data.train), len(data.test)) == (44484, 4449)


def test_sarcos_without_the_training_file_says_that_the_test_file_is_there(mirror, monkeypatch):
    monkeypatch.setenv("MOGP_OFFLINE", "1")
    with pytest.raises(DataUnavailableError, match='part="test"'):
        sarcos()


def test_traffic_on_major_roads_before_2003_has_the_documents_1712_counts(mirror):
    counts = pd.read_csv(mirror / traffic_module.TRAFFIC)
    features = json.loads((mirror / traffic_module.LOCATIONS).read_text())["features"]
    places = {f["properties"]["cp"]: f for f in features}
    kept = counts[(counts["year"] < 2003) & counts["cp"].map(lambda cp: places[cp]["properties"]["rcat"][0] in "PT")]
    assert len(kept) == 1712
    data = traffic()
    X = np.array(
        [
            [
                *places[row.cp]["geometry"]["coordinates"],
                pd.Timestamp(row.year, row.min_month, row.min_dayofmonth).dayofyear,
            ]
            for row in kept.itertuples()
        ]
    )
    np.testing.assert_allclose(data.X, (X - X.mean(0)) / X.std(0), atol=1e-9)
    Y = kept[["pc", "2wmv", "car", "bus"]].to_numpy(float)
    np.testing.assert_array_equal(data.Y, np.rint(500 * Y / Y.std(axis=0)))
    assert len(traffic(roads="all")) == 2153
    assert len(traffic(roads="all", before=2017)) == 12763


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: naval_standin(constant="none"), '"ninth" or "all"'),
        (lambda: sarcos_standin(part="validation"), "train, test, all"),
        (lambda: traffic_module.traffic_standin(roads="minor"), '"major" or "all"'),
        (lambda: traffic_module.traffic_standin(before=2000), "begin in 2000"),
        (lambda: traffic_module.traffic_standin(hours="night"), '"eight" or "day"'),
    ],
)
def test_unknown_options_are_met_with_what_there_is(call, words):
    with pytest.raises(ValueError, match=words):
        call()


RAW = """count_point_id,direction_of_travel,year,count_date,hour,region_name,road_category,latitude,longitude,\
pedal_cycles,two_wheeled_motor_vehicles,cars_and_taxis,buses_and_coaches
6001,N,2001,2001-05-04 00:00:00,7,London,PA,51.5,-0.1,1,2,30,4
6001,S,2001,2001-05-04 00:00:00,7,London,PA,51.5,-0.1,10,20,300,40
6001,N,2001,2001-05-04 00:00:00,8,London,PA,51.5,-0.1,5,5,5,5
6002,N,2002,2002-12-31 00:00:00,8,London,MB,51.4,0.1,7,7,7,7
6003,N,2004,2004-06-01 00:00:00,8,London,TM,51.6,0.2,9,9,9,9
9000,N,2001,2001-05-04 00:00:00,8,Wales,PA,52.0,-3.0,8,8,8,8
"""


def test_raw_counts_are_summed_over_the_hours_and_directions_of_a_day(tmp_path, monkeypatch):
    path = tmp_path / "raw.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("dft_traffic_counts_raw_counts.csv", RAW)
    daily = traffic_module.read_raw_counts(path).set_index("cp")
    assert daily.loc[6001, list(traffic_module.VEHICLES)].tolist() == [16, 27, 335, 49]
    assert daily["day"].tolist() == [124, 365, 153]
    monkeypatch.setattr(traffic_module, "path_of", lambda name: path)
    assert len(traffic(hours="day", before=2005)) == 2
    assert len(traffic(hours="day", roads="all")) == 2
    assert "in a day" in traffic(hours="day", roads="all").description
    for text, words in (
        (RAW.replace("London", "Kent"), "no counts for London"),
        ("a,b\n1,2\n", "not the table of raw"),
    ):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("dft_traffic_counts_raw_counts.csv", text)
        with pytest.raises(DataFormatError, match=words):
            traffic(hours="day")


def test_counts_at_an_unknown_place_are_refused(mirror, tmp_path):
    text = (mirror / traffic_module.TRAFFIC).read_text().splitlines()
    table = tmp_path / "counts.csv"
    table.write_text("\n".join([*text[:3], "1" + text[3]]) + "\n")
    with pytest.raises(DataFormatError, match="1 counts at places"):
        traffic_module.read_traffic(table, mirror / traffic_module.LOCATIONS)
    for day, words in (("32", "calendar"), ("first", "not all numbers")):
        table.write_text("\n".join([text[0], text[1].replace(",27,8,", f",{day},8,")]) + "\n")
        with pytest.raises(DataFormatError, match=words):
            traffic_module.read_traffic(table, mirror / traffic_module.LOCATIONS)
    points = {"type": "FeatureCollection", "features": [_point()]}
    (tmp_path / "places.json").write_text(json.dumps(points))
    with pytest.raises(DataFormatError, match="'cp' and 'rcat'"):
        traffic_module.read_traffic(mirror / traffic_module.TRAFFIC, tmp_path / "places.json")


def _point():
    return {"type": "Feature", "geometry": {"type": "Point", "coordinates": [0.0, 51.0]}, "properties": {"cp": 1}}


def test_a_sarcos_file_of_another_width_is_refused(tmp_path):
    savemat(tmp_path / "s.mat", {"sarcos_inv": np.zeros((3, 4))})
    with pytest.raises(DataFormatError, match="28 columns"):
        heterogeneous.read_sarcos(tmp_path / "s.mat", "train")
