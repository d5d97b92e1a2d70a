"""Input columns: names and dates of the data, and new inputs read the same way."""

from __future__ import annotations

import datetime
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from mogp.data import InputColumn, MultiOutputData, column_names, columns_agree, read_inputs
from mogp.data.inputs import give_back, recognise_inputs

LON, LAT, DAY = InputColumn("lon"), InputColumn("lat"), InputColumn("day", date=True)
BLANK = InputColumn()


def test_the_room_needs_no_tensorflow():
    code = "import sys, mogp.data, mogp.data.table; sys.exit(any(m.startswith('tensor') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ([BLANK], ("x",)),
        ([DAY], ("day",)),
        ([BLANK, BLANK], ("x0", "x1")),
        ([LON, BLANK, LAT], ("lon", "x1", "lat")),
        ([], ()),
    ],
)
def test_columns_without_names_are_numbered(columns, names):
    assert column_names(columns) == names


@pytest.mark.parametrize(
    ("a", "b", "agree"),
    [
        ([LON, LAT], [LON, LAT], True),
        ([LON, LAT], [LAT, LON], False),
        ([LON, BLANK], [BLANK, LAT], True),
        ([BLANK], [BLANK, BLANK], False),
        ([DAY], [BLANK], False),
        ([DAY], [InputColumn(date=True)], True),
        ([DAY], [InputColumn("day")], False),
    ],
)
def test_columns_agree_where_both_have_names_and_dates_are_dates(a, b, agree):
    assert columns_agree(a, b) is columns_agree(b, a) is agree


def test_names_of_a_frame_go_from_the_data_to_the_long_table_and_back():
    wide = pd.DataFrame({"lon": [1.0, 2.0], "lat": [3, 4], "rain": [5.0, 6.0]})
    for data in (
        MultiOutputData.from_table(wide, ["lat", "lon"], "rain"),
        MultiOutputData.from_arrays(wide[["lat", "lon"]], wide[["rain"]]),
        MultiOutputData.from_list([(wide[["lat", "lon"]], wide["rain"])], names=["rain"]),
    ):
        assert data.columns == (LAT, LON)
        assert data.input_names == ("lat", "lon")
        assert data.names == ("rain",)
        frame = data.frame()
        assert list(frame.columns) == ["lat", "lon", "output", "target"]
        np.testing.assert_array_equal(frame["lat"], [3, 4])
        again = MultiOutputData.from_long(frame, ["lat", "lon"])
        assert again.columns == data.columns
        np.testing.assert_array_equal(again.inputs(0), data.inputs(0))


def test_arrays_and_frames_that_number_their_columns_have_no_names(shared):
    assert shared.columns == (BLANK, BLANK)
    assert shared.input_names == ("x0", "x1")
    numbered = MultiOutputData.from_arrays(pd.DataFrame(shared.X), pd.DataFrame({"y": np.ones(12)}))
    assert numbered.columns == (BLANK, BLANK)
    assert MultiOutputData.from_arrays([1.0], [2.0]).input_names == ("x",)


def test_parts_of_the_data_keep_columns_and_classes():
    frame = pd.DataFrame({"lon": np.arange(8.0), "kind": list("abcabcab")})
    data = MultiOutputData.from_table(frame, "lon", "kind")
    for part in (*data.split(0.5), data.take({"kind": [7]})):
        assert part.columns == (LON,)
        assert part["kind"].classes == ("a", "b", "c")
        assert set(part.frame()["target"]) <= set("abc")


def test_inputs_of_a_list_are_matched_by_name():
    a = pd.DataFrame({"lon": [1.0], "lat": [2.0]})
    b = pd.DataFrame({"lat": [2.0, 5.0], "lon": [1.0, 6.0]})
    data = MultiOutputData.from_list([(a.to_numpy(), [0.0]), (a, [1.0]), (b, [2.0, 3.0])])
    assert data.columns == (LON, LAT)
    np.testing.assert_array_equal(data.X, [[1, 2], [6, 5]])


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (pd.DataFrame({"lon": [1.0], "alt": [2.0]}), "inputs of 'output 1' are 'lon', 'alt', those of 'output 0'"),
        (pd.DataFrame({"lon": pd.to_datetime(["2020"]), "lat": [2.0]}), r"are 'lon' \(dates\), 'lat', those of"),
    ],
)
def test_inputs_of_a_list_that_differ_in_names_or_dates_are_refused(second, said):
    first = pd.DataFrame({"lon": [1.0], "lat": [2.0]})
    with pytest.raises(ValueError, match=said):
        MultiOutputData.from_list([(first, [0.0]), (second, [1.0])])


@pytest.mark.parametrize("name", ["output", "target", "replica"])
def test_an_input_called_like_a_column_of_the_long_table_is_told_apart(name):
    data = MultiOutputData.from_table(pd.DataFrame({name: [1.0], "y": [2.0]}), name, "y")
    with pytest.raises(ValueError, match=f"the input column '{name}' and another column.*output=, target="):
        data.frame()
    assert list(data.frame(output="what", target="value", replica="trial").columns) == [name, "what", "value"]


# ---------------------------------------------------------------------------------------------------- dates

NOON = 18262.5  # 2020-01-01 12:00


@pytest.mark.parametrize(
    "noon",
    [
        np.array(["2020-01-01T12"], "datetime64[h]"),
        np.array(["2020-01-01T12:00:00"], "datetime64[ns]"),
        [datetime.datetime(2020, 1, 1, 12)],
        [pd.Timestamp("2020-01-01 12:00")],
        np.array([pd.Timestamp("2020-01-01 12:00")], object),
        [pd.Timestamp("2020-01-01 14:00", tz="Europe/Athens")],
        pd.Series(pd.to_datetime(["2020-01-01 12:00"])),
        pd.Series(pd.to_datetime(["2020-01-01 07:00"])).dt.tz_localize("America/New_York"),
        pd.DatetimeIndex(["2020-01-01 12:00"]),
        pd.DataFrame({"day": pd.to_datetime(["2020-01-01 14:00+02:00"])}),
    ],
    ids=lambda v: f"{type(v).__name__}-{getattr(v, 'dtype', '')}",
)
def test_dates_of_every_kind_are_days_since_1970_in_utc(noon):
    X, (column,) = recognise_inputs(noon)
    assert column.date
    np.testing.assert_array_equal(X, [[NOON]])
    np.testing.assert_array_equal(read_inputs(noon, [DAY]), [[NOON]])


def test_zones_may_differ_from_row_to_row_and_days_are_midnights():
    mixed = np.array(
        [
            pd.Timestamp("2020-01-01 14:00", tz="Europe/Athens"),
            pd.Timestamp("2020-01-01 12:00", tz="UTC"),
            datetime.datetime(2020, 1, 1, 12),
        ],
        object,
    )
    np.testing.assert_array_equal(recognise_inputs(mixed)[0][:, 0], [NOON] * 3)
    np.testing.assert_array_equal(recognise_inputs([datetime.date(1970, 1, 3)])[0], [[2.0]])
    np.testing.assert_array_equal(recognise_inputs([datetime.date(1969, 12, 31)])[0], [[-1.0]])


def test_dates_come_back_to_the_microsecond(rng):
    micro = rng.integers(-(10**15), 4 * 10**15, 2000)
    given = (np.datetime64("1970-01-01") + micro.astype("timedelta64[us]")).astype("datetime64[ns]")
    given = np.append(given, np.array(["1999-12-31T23:59:59.999999", "1969-12-31T23:59:59.999999"], "M8[ns]"))
    days = recognise_inputs(given)[0][:, 0]
    back = give_back(days, DAY)
    assert back.dtype == np.dtype("datetime64[ns]")
    near = np.abs(days) < 2**15
    np.testing.assert_array_equal(back[near], given[near])
    assert np.abs(back - given).max() <= np.timedelta64(1, "us"), "after 2059 a float holds half microseconds"


def test_days_are_given_back_as_series_arrays_and_missing_dates():
    series = give_back(pd.Series([0.0, np.nan], index=[5, 6]), DAY)
    assert list(series.index) == [5, 6]
    assert series.dtype == np.dtype("datetime64[ns]")
    assert series[5] == pd.Timestamp("1970-01-01")
    assert pd.isna(series[6])
    numbers = np.array([1.0])
    assert give_back(numbers, LON) is numbers
    assert give_back(np.array([-1.0]), DAY)[0] == np.datetime64("1969-12-31")


def test_years_that_nanoseconds_cannot_hold_come_as_microseconds_and_others_are_refused():
    for year in ("1066-10-14", "3000-01-01"):
        days = recognise_inputs(np.array([year], "datetime64[D]"))[0][:, 0]
        assert give_back(days, DAY)[0] == np.datetime64(year)
    with pytest.raises(ValueError, match=r"day 1e\+20 after 1970-01-01 is too far away"):
        give_back(np.array([0.0, 1e20]), DAY)


def test_dates_in_a_table_are_kept_and_given_back():
    when = pd.to_datetime(["2020-01-01 12:00", "2020-01-02 00:00"])
    wide = pd.DataFrame({"when": when, "lon": [1.0, 2.0], "y": [3.0, 4.0]})
    data = MultiOutputData.from_table(wide, ["when", "lon"], "y")
    assert data.columns == (InputColumn("when", date=True), LON)
    np.testing.assert_array_equal(data.X, [[NOON, 1], [18263, 2]])
    np.testing.assert_array_equal(data.frame()["when"].to_numpy(), when.to_numpy())
    again = MultiOutputData.from_long(data.frame(), ["when", "lon"])
    assert again.columns == data.columns
    np.testing.assert_array_equal(again.X, data.X)
    arrays = MultiOutputData.from_arrays(when.to_numpy(), [3.0, 4.0])
    assert arrays.columns == (InputColumn(date=True),)
    assert MultiOutputData.from_list([(when.to_numpy(), [3.0, 4.0])]).columns == arrays.columns


# ---------------------------------------------------------------------------------------------------- new inputs


def test_a_frame_is_read_by_name_whatever_its_order_and_other_columns():
    frame = pd.DataFrame({"y": ["a", "b"], "lat": [3, 4], "lon": [1.0, 2.0]})
    np.testing.assert_array_equal(read_inputs(frame, [LON, LAT]), [[1, 3], [2, 4]])


def test_a_frame_is_read_by_position_where_the_model_has_no_names():
    frame = pd.DataFrame({"lat": [3, 4], "lon": [1.0, 2.0]})
    np.testing.assert_array_equal(read_inputs(frame, [BLANK, BLANK]), [[3, 1], [4, 2]])
    with pytest.raises(ValueError, match=r"X has 2 columns; the model has 1 \('x'\): expected \[N, 1\] or \[N\]"):
        read_inputs(frame, [BLANK])


def test_arrays_are_read_by_position():
    np.testing.assert_array_equal(read_inputs([1, 2], [LON]), [[1], [2]])
    np.testing.assert_array_equal(read_inputs([[1, 2]], [LON, LAT]), [[1, 2]])
    np.testing.assert_array_equal(read_inputs(np.array([[True, False]]), [LON, LAT]), [[1, 0]])
    np.testing.assert_array_equal(read_inputs(np.array([[1, 2.5]], object), [LON, LAT]), [[1, 2.5]])
    assert read_inputs(np.zeros((0, 2)), [LON, LAT]).shape == (0, 2)
    assert read_inputs([], [LON]).shape == (0, 1)
    assert read_inputs(np.zeros((0, 2), complex), [LON, LAT]).shape == (0, 2)


def test_inputs_are_a_copy():
    X = np.ones((2, 1))
    read = read_inputs(X, [LON])
    X[:] = 7
    np.testing.assert_array_equal(read, np.ones((2, 1)))


def test_numbers_in_a_date_column_are_days_already():
    np.testing.assert_array_equal(read_inputs([0.5, 2], [DAY]), [[0.5], [2]])
    mixed = np.array([[np.datetime64("1970-01-02"), 3.0]], object)
    np.testing.assert_array_equal(read_inputs(mixed, [DAY, LON]), [[1, 3]])


def test_masked_arrays_without_masked_entries_are_arrays():
    np.testing.assert_array_equal(read_inputs(np.ma.masked_array([1.0, 2.0]), [LON]), [[1], [2]])


@pytest.mark.parametrize(
    ("X", "columns", "said"),
    [
        (
            pd.DataFrame({"lat": [1.0], "y": [2.0]}),
            [LON, LAT],
            "no column 'lon'; its columns are 'lat', 'y', the inputs",
        ),
        (pd.DataFrame([[1.0, 2.0]]), [LON, LAT], "no column 'lon', 'lat'; its columns are '0', '1', .*'lon', 'lat'"),
        (pd.DataFrame([[1, 2]], columns=["lon", "lon"]), [LON], "several columns 'lon'"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), [BLANK, BLANK], "same name: 'a', 'a'"),
        ([1, 2], [LON, LAT], r"X has 1 columns; the model has 2 \('lon', 'lat'\): expected \[N, 2\]\."),
        (3.0, [LON], r"X has shape \(\)"),
        (np.zeros((1, 1, 1)), [LON], r"X has shape \(1, 1, 1\)"),
        ([[1, 2], [3]], [LON, LAT], "rows of equal length"),
        ([0.0, np.nan], [LON], r"1 values that are not finite, first at row 1, column 'lon' \(nan\)"),
        ([[0.0, 1], [2, -np.inf]], [BLANK, BLANK], r"not finite, first at row 1, column 1 \(-inf\)"),
        ([0.0, None], [LON], "not finite, first at row 1"),
        (np.array(["2020", "NaT"], "M8[D]"), [DAY], r"not finite, first at row 1, column 'day' \(NaT\)"),
        (pd.DataFrame({"lon": pd.array([1, None], "Int64")}), [LON], "not finite, first at row 1, column 'lon'"),
        (np.array([1, 2j]), [LON], "not numbers, first .* at row 0, column 'lon'"),
        (np.array([1, 2j], object), [LON], "not numbers, first 2j at row 1, column 'lon'"),
        (["1", "2"], [LON], "not numbers, first '1' at row 0, column 'lon'.*factorize.*to_datetime"),
        (np.array([1, "b"], object), [LON], "not numbers, first 'b' at row 1"),
        (["2020-01-01"], [DAY], "first '2020-01-01' at row 0, column 'day'.*pandas.to_datetime"),
        (np.array([5], "timedelta64[h]"), [LON], "not numbers, first Timedelta"),
        (pd.DataFrame({"lon": pd.Categorical([1, 2])}), [LON], "not numbers, first 1 at row 0"),
        (
            np.ma.masked_array([[1.0, 2], [3, 4]], [[0, 0], [0, 1]]),
            [LON, LAT],
            "1 values that are masked.*row 1, .*'lat'",
        ),
        (np.array(["2020"], "M8[D]"), [LON], r"X has dates in column 'lon' \(2020-01-01.* at row 0\).*give numbers"),
        (np.array([pd.Timestamp("2020"), 3.0], object), [DAY], "not numbers, first Timestamp.* at row 0"),
    ],
)
def test_wrong_inputs_are_refused_with_row_and_column_of_the_first(X, columns, said):
    with pytest.raises(ValueError, match=said):
        read_inputs(X, columns)
