"""Exchange rates are those of the author's split file in 2007, and of the service's tables in other years."""

from __future__ import annotations

from datetime import date

import numpy as np
import pandas as pd
import pytest
from alike import assert_alike, assert_same_options

from mogp.datasets import DataFormatError, DataUnavailableError
from mogp.datasets.exchange import (
    CURRENCIES,
    ENTRIES,
    FILES,
    SHAPES,
    decimal_year,
    exchange,
    exchange_standin,
    read_rates,
)
from mogp.datasets.formats.frames import read_pickled_frames


@pytest.fixture
def mirror(shared_data, monkeypatch):
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    return shared_data


def test_base_split_is_the_authors(mirror):
    data = exchange()
    split = {
        part: pd.read_csv(mirror / f"gplar_splits/exchange_{part}.csv", index_col=0)
        for part in ("all", "train", "test")
    }
    assert data.outputs == tuple(split["all"].columns)
    np.testing.assert_allclose(data.X[:, 0], split["all"].index, rtol=0, atol=1e-9)
    np.testing.assert_allclose(data.Y, split["all"], rtol=1e-13)
    np.testing.assert_allclose(data.train.Y, split["train"], rtol=1e-13)
    np.testing.assert_allclose(data.test.Y[:, 10:], split["test"], rtol=1e-13)


def test_author_pickle_holds_the_same_frames(mirror):
    frames = read_pickled_frames(mirror / "gplar_splits/eeg_exchange.npy")["exchange"]
    data = exchange()
    for part, Y in (("all", data.Y), ("train", data.train.Y), ("test", data.test.Y[:, 10:])):
        np.testing.assert_allclose(Y, frames[part], rtol=1e-13)


def test_held_out_rows_and_native_gaps_are_those_of_the_specification(mirror):
    data = exchange()
    assert data.Y.shape == (251, 13)
    gaps = dict(zip(data.outputs, data.held_out.T, strict=True))
    for output, stop in (("USD/CAD", 100), ("USD/JPY", 150), ("USD/AUD", 200)):
        np.testing.assert_array_equal(np.flatnonzero(gaps.pop(output)), np.arange(49, stop))
    assert not np.any(list(gaps.values()))
    absent = dict(zip(data.outputs, np.isnan(data.Y).sum(axis=0), strict=True))
    assert {output: n for output, n in absent.items() if n} == {"USD/XAG": 8, "USD/XAU": 9, "USD/XPT": 42}


def test_moments_are_those_the_specification_prints(mirror):
    data = exchange()
    train, test = (part.Y[:, 10:] for part in (data.train, data.test))
    np.testing.assert_allclose(np.nanvar(test, axis=0), [4.474e-4, 1.906e-8, 7.372e-4], rtol=2e-4)
    from_train = np.nanmean((test - np.nanmean(train, axis=0)) ** 2, axis=0) / np.nanvar(test, axis=0)
    np.testing.assert_allclose(from_train[:2], [10.38, 6.29], atol=5e-3)
    np.testing.assert_allclose(from_train[2], 1.013, atol=5e-4)


@pytest.mark.parametrize("year", FILES)
def test_every_year_is_the_rows_of_its_table(mirror, year):
    rows = [
        line.replace('"', "").split(",")
        for line in (mirror / FILES[year]).read_text().splitlines()
        if f'"{year}/' in line
    ]
    data = exchange(year=year, currencies=("JPY", "XAU"), missing=None)
    expected = [[1 / float(row[8]), 1 / float(row[3]) if row[3] else np.nan] for row in rows]
    np.testing.assert_array_equal(data.Y, expected)
    assert 249 < len(data) < 253
    days = [date.fromisoformat(row[1].replace("/", "-")) for row in rows]
    length = 366 if year % 4 == 0 else 365
    np.testing.assert_allclose(data.X[:, 0], [year + (d.timetuple().tm_yday - 1) / length for d in days], atol=1e-9)


def test_other_tables_of_2007_agree_with_the_one_used(mirror):
    data = exchange(missing=None)
    order = ["XAU", "XAG", "XPT", "CAD", "EUR", "JPY", "GBP", "CHF", "AUD", "HKD", "NZD", "KRW", "MXN"]
    columns = [order.index(output.removeprefix("USD/")) for output in data.outputs]
    processed = np.loadtxt(mirror / "exchange/fx2007-processed.csv", delimiter=",")
    np.testing.assert_allclose(np.where(processed < 0, np.nan, processed)[:, columns], 1 / data.Y, rtol=1e-12)
    inverse = pd.read_csv(mirror / "exchange/fxdata2454103-2454466-13outputs.txt", sep=" ").iloc[:, 3:].to_numpy()
    np.testing.assert_allclose(np.where(inverse == 0, np.nan, inverse)[:, columns], data.Y, rtol=1e-3)


@pytest.mark.parametrize("missing", ["bidirectional", "combined"])
def test_experiments_with_backward_gaps_put_mexico_and_new_zealand_first(missing):
    data = exchange_standin(missing=missing)
    assert data.outputs[:3] == ("USD/MXN", "USD/NZD", "USD/CHF")
    assert set(data.outputs) == {f"USD/{name}" for name in CURRENCIES}
    for column in (0, 1):
        np.testing.assert_array_equal(np.flatnonzero(data.held_out[:, column]), np.arange(25, 50))
    later = {output for output, held in zip(data.outputs[2:], data.held_out.T[2:], strict=True) if held.any()}
    assert later == ({"USD/JPY", "USD/AUD"} if missing == "combined" else set())


def test_gap_of_figure_4_12_starts_and_ends_when_the_document_says(mirror):
    data = exchange(missing="bidirectional")
    held = data.X[data.held_out[:, 0], 0]
    np.testing.assert_allclose((held[0], held[-1]), (2007.098, 2007.195), atol=5e-3)


def test_gaps_do_not_count_days_without_a_rate():
    data = exchange_standin(missing={"XPT": (0, 251)})
    assert data.held_out.sum() == 251 - 42
    assert np.isfinite(data.Y[data.held_out]).all()


def test_decimal_years_know_leap_years():
    assert decimal_year(date(2007, 1, 1)) == 2007
    assert decimal_year(date(2008, 12, 31)) == pytest.approx(2008 + 365 / 366)
    assert decimal_year(date(2007, 7, 2)) == pytest.approx(2007.4986, abs=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"year": 2014}, "2003 to 2013"),
        ({"currencies": ("ZZZ",), "missing": None}, "CHF, EUR"),
        ({"currencies": (), "missing": None}, "choose different"),
        ({"currencies": ("CHF",)}, "a gap in 'CAD'"),
        ({"missing": "all"}, "'base', 'bidirectional', 'combined'"),
        ({"missing": {"CHF": (-1, 3)}}, "0 <= start"),
    ],
)
def test_unknown_options_are_met_with_the_known_ones(options, message):
    with pytest.raises(ValueError, match=message):
        exchange_standin(**options)


def test_without_files_the_error_says_what_to_run():
    with pytest.raises(DataUnavailableError, match="fxdata2007"):
        exchange()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text.replace("XAU/USD", "AUX/USD"), "line 1"),
        (lambda text: text.replace("1.16490", "-1.16490"), "not positive"),
        (lambda text: text.replace("1.16490", "0"), "not positive"),
        (lambda text: text.replace("1.16490", "one"), "not a number"),
        (lambda text: text.replace("2007/01/02", "2007/13/02"), "YYYY/MM/DD"),
        (lambda text: text.replace("1.16490,", ""), "line 2"),
        (lambda text: "", "names|rows|header"),
    ],
)
def test_damaged_tables_are_refused(tmp_path, damage, message):
    header = '"Jul.Day","YYYY/MM/DD","Wdy",' + ",".join(f'"{name}/USD"' for name in ORDER)
    text = f'{header}\n2454103,"2007/01/02","Tue",,,,1.16490,{",".join(["1.5"] * 9)}\n'
    (tmp_path / "good.csv").write_text(text)
    assert read_rates(tmp_path / "good.csv")[1]["CAD"].tolist() == [1.1649]
    (tmp_path / "bad.csv").write_text(damage(text))
    with pytest.raises(DataFormatError, match=message):
        read_rates(tmp_path / "bad.csv")


ORDER = ("XAU", "XAG", "XPT", "CAD", "EUR", "JPY", "GBP", "CHF", "AUD", "HKD", "NZD", "KRW", "MXN")


def fitted(data):
    """Mean R², against the training mean, of a ridge regression on the outputs without gaps."""
    complete = ~(data.held_out | np.isnan(data.Y)).any(axis=0)
    scaled = data.Y[:, complete] / data.Y[:, complete].std(axis=0)
    scores = []
    for y, held in zip(data.Y.T, data.held_out.T, strict=True):
        if held.any():
            mean, A = y[~held].mean(), scaled - scaled[~held].mean(axis=0)
            weights = np.linalg.solve(A[~held].T @ A[~held] + np.eye(A.shape[1]), A[~held].T @ (y[~held] - mean))
            scores.append(1 - np.mean((A[held] @ weights + mean - y[held]) ** 2) / np.mean((y[held] - mean) ** 2))
    return np.mean(scores)


def test_standin_has_the_form_and_difficulty_of_the_real_year(mirror):
    assert_same_options(ENTRIES["exchange"])
    real, standin = exchange(), exchange_standin()
    assert_alike(real, standin)
    np.testing.assert_array_equal(np.isnan(standin.Y).sum(axis=0), np.isnan(real.Y).sum(axis=0))
    assert standin.digest == exchange_standin().digest != exchange_standin(year=2008).digest
    assert fitted(standin) == pytest.approx(fitted(real), abs=0.15)
    moves = [np.nanmedian(np.nanstd(np.diff(np.log(data.Y), axis=0), axis=0)) for data in (real, standin)]
    assert moves[1] == pytest.approx(moves[0], rel=0.4)


def test_shapes_are_those_of_the_readme(mirror):
    days = "251 days x 13 rates, dates 2007/01/02..2007/12/31, missing 59"
    assert SHAPES["exchange/fxdata*.csv"](mirror / "exchange/fxdata2007.csv") == days
    days = "1003 days x 13 rates, dates 2003/01/02..2006/12/29, missing 107"
    assert SHAPES["exchange/fxdata*.csv"](mirror / "exchange/fxdata03-06.csv") == days
    assert SHAPES["exchange/fx2007-processed.csv"](mirror / "exchange/fx2007-processed.csv") == "251 x 13"
    assert SHAPES["gplar_splits/*.csv"](mirror / "gplar_splits/exchange_train.csv") == "251 x 13, 362 missing"
    frames = SHAPES["gplar_splits/eeg_exchange.npy"](mirror / "gplar_splits/eeg_exchange.npy")
    assert "eeg_train 256 x 7, 300 missing" in frames
    assert "exchange_test 151 x 3, 150 missing" in frames
