"""Targets that are names of classes: codes inside, names outside, the same codes for test data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mogp.data import MultiOutputData
from mogp.data.targets import read_targets

MISSING = [None, np.nan, pd.NA]


# ---------------------------------------------------------------------------------------------------- codes


@pytest.mark.parametrize("missing", MISSING, ids=["None", "nan", "NA"])
@pytest.mark.parametrize(
    "form", [lambda v: v, lambda v: np.array(v, object), pd.Series, lambda v: pd.Series(v, dtype="string")]
)
def test_strings_are_coded_in_sorted_order_and_missing_ones_stay_missing(form, missing):
    data = MultiOutputData.from_arrays(np.arange(4.0), form(["dog", missing, "ant", "dog"]))
    own = data.outputs[0]
    assert own.classes == ("ant", "dog")
    np.testing.assert_array_equal(own.rows, [0, 2, 3])
    np.testing.assert_array_equal(own.Y, [[1], [0], [1]])
    assert own.Y.dtype == np.float64


@pytest.mark.parametrize(
    ("given", "classes", "codes"),
    [
        (np.array(["b", "a"]), ("a", "b"), [1, 0]),
        (["10", "9"], ("10", "9"), [0, 1]),
        ([True, False], ("False", "True"), [1, 0]),
        (np.array([True, True]), ("False", "True"), [1, 1]),
        (np.array([True, None], object), ("False", "True"), [1]),
        (pd.array([None, False], "boolean"), ("False", "True"), [0]),
        (pd.Categorical(["low", "high"], ["low", "mid", "high"]), ("low", "mid", "high"), [0, 2]),
        (pd.Categorical([30, None], [30, 10]), ("30", "10"), [0]),
        ([2, 1], None, [2, 1]),
        ([0.5, None], None, [0.5]),
        (np.array([True, 3], object), None, [1, 3]),
    ],
    ids=str,
)
def test_what_is_a_class_and_what_a_number(given, classes, codes):
    own = MultiOutputData.from_arrays(np.arange(2.0), given).outputs[0]
    assert own.classes == classes
    np.testing.assert_array_equal(own.Y[:, 0], codes)


def test_what_stands_under_the_mask_is_no_class():
    own = MultiOutputData.from_arrays(np.arange(3.0), ["b", "junk", "a"], mask=[1, 0, 1]).outputs[0]
    assert own.classes == ("a", "b")
    hidden = np.ma.masked_array(np.array(["b", "junk", "a"]), [False, True, False])
    assert MultiOutputData.from_arrays(np.arange(3.0), hidden).outputs[0].classes == ("a", "b")


def test_every_column_of_a_table_has_classes_of_its_own():
    frame = pd.DataFrame({"x": [0, 1], "n": [1.5, 2.5], "sky": ["grey", "blue"], "wet": [True, False]})
    data = MultiOutputData.from_table(frame, "x", ["n", "sky", "wet"])
    assert [o.classes for o in data] == [None, ("blue", "grey"), ("False", "True")]
    np.testing.assert_array_equal([o.Y[:, 0] for o in data], [[1.5, 2.5], [1, 0], [1, 0]])
    both = MultiOutputData.from_arrays(frame[["x"]], frame[["n", "sky", "wet"]])
    assert both.names == ("n", "sky", "wet")
    assert [o.classes for o in both] == [o.classes for o in data]


def test_numbers_beside_strings_in_a_list_stay_numbers():
    data = MultiOutputData.from_arrays([0.0, 1.0], [["b", 1.5], ["a", 2]])
    assert [o.classes for o in data] == [("a", "b"), None]
    np.testing.assert_array_equal(data[1].Y[:, 0], [1.5, 2])
    with pytest.raises(ValueError, match="first 'a' at row 1"):
        MultiOutputData.from_arrays([0.0, 1.0], [1.5, "a"])


def test_annotators_of_one_output_share_its_classes():
    answers = pd.DataFrame({"ann": ["cat", None, "dog"], "bob": ["eel", "cat", None]})
    own = MultiOutputData.from_list([(np.arange(3.0), answers)]).outputs[0]
    assert own.classes == ("cat", "dog", "eel")
    np.testing.assert_array_equal(own.observed, [[1, 1], [0, 1], [1, 0]])
    np.testing.assert_array_equal(own.Y[own.observed], [0, 2, 0, 1])
    ordered = answers.astype(pd.CategoricalDtype(["eel", "dog", "cat"]))
    assert MultiOutputData.from_list([(np.arange(3.0), ordered)]).outputs[0].classes == ("eel", "dog", "cat")
    idle = answers.assign(eve=[None, None, None])
    assert MultiOutputData.from_list([(np.arange(3.0), idle)]).outputs[0].classes == own.classes


def test_a_long_table_has_classes_of_each_output_apart():
    frame = pd.DataFrame(
        {
            "x": [0, 1, 0, 1, 0, 1],
            "output": ["sky", "sky", "n", "n", "pet", "pet"],
            "target": ["grey", "blue", 1.5, None, "b", "a"],
        }
    )
    data = MultiOutputData.from_long(frame, "x")
    assert [o.classes for o in data] == [("blue", "grey"), None, ("a", "b")]
    np.testing.assert_array_equal(data["n"].Y, [[1.5]])
    np.testing.assert_array_equal(data["sky"].Y[:, 0], [1, 0])


def test_a_categorical_column_of_a_long_table_gives_each_output_the_categories_it_has_in_their_order():
    frame = pd.DataFrame(
        {
            "x": [0, 1, 0, 1],
            "output": list("aabb"),
            "target": pd.Categorical(["z", "y", "q", "p"], ["z", "y", "q", "p"]),
        }
    )
    data = MultiOutputData.from_long(frame, "x")
    assert [o.classes for o in data] == [("z", "y"), ("q", "p")]


def test_the_long_table_has_the_names_and_reads_back_the_same():
    frame = pd.DataFrame(
        {"x": [0.0, 1.0], "n": [1.5, np.nan], "sky": ["grey", "blue"], "wet": pd.array([True, None], "boolean")}
    )
    data = MultiOutputData.from_table(frame, "x", ["n", "sky", "wet"])
    long = data.frame()
    assert long["target"].tolist() == [1.5, "grey", "blue", "True"]
    again = MultiOutputData.from_long(long, "x", like=data)
    assert again.fingerprint == data.fingerprint
    answers = pd.DataFrame({"a": ["u", None], "b": ["v", "u"]})
    wide = MultiOutputData.from_list([([0.0, 1.0], answers)]).frame()
    assert wide["target1"].tolist() == ["v", "u"]
    assert wide["target0"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("Y", "said"),
    [
        (np.array(["a", 1.0], object), "Y holds values that are not numbers, first 'a' at row 0, column 0.*throughout"),
        (np.array([1.0, "a"], object), "first 'a' at row 1"),
        (np.array([True, "a"], object), "first 'a' at row 1"),
        (np.array(["2020", "2021"], "M8[D]"), "not numbers, first Timestamp"),
        (np.array([1, 2], "m8[D]"), "not numbers, first Timedelta"),
        (pd.DataFrame({"k": [{}, []]}), "first {} at row 0, column 'k'"),
        (pd.Categorical([1, "1"]), "several categories are written alike, '1', '1'"),
    ],
)
def test_targets_that_are_neither_numbers_nor_classes_are_refused(Y, said):
    with pytest.raises(ValueError, match=said):
        MultiOutputData.from_arrays([0.0, 1.0], Y)


def test_annotators_who_give_numbers_and_names_are_refused():
    with pytest.raises(ValueError, match="Y of 'output 0' has columns of numbers and columns of names"):
        MultiOutputData.from_list([([0.0], pd.DataFrame({"a": [1.0], "b": ["u"]}))])
    mixed = pd.DataFrame({"a": [2.0], "b": [True]})
    np.testing.assert_array_equal(MultiOutputData.from_list([([0.0], mixed)]).outputs[0].Y, [[2, 1]])


# ---------------------------------------------------------------------------------------------------- like


@pytest.fixture
def train() -> MultiOutputData:
    frame = pd.DataFrame(
        {
            "lon": [0.0, 1, 2],
            "lat": [5.0, 6, 7],
            "n": [1.0, 2, 3],
            "sky": ["grey", "blue", "red"],
            "wet": [True, False, True],
        }
    )
    return MultiOutputData.from_table(frame, ["lon", "lat"], ["n", "sky", "wet"])


def test_test_tables_get_the_codes_and_the_order_of_the_training_data(train):
    frame = pd.DataFrame({"sky": ["red", "grey"], "lat": [1, 2], "lon": [3.0, 4], "n": [None, 9.0]})
    test = MultiOutputData.from_table(frame, like=train)
    assert test.names == train.names
    assert test.columns == train.columns
    assert test.sizes == (1, 2, 0)
    np.testing.assert_array_equal(test.X, [[3, 1], [4, 2]])
    np.testing.assert_array_equal(test["sky"].Y[:, 0], [2, 1])
    assert test["wet"].classes == ("False", "True")
    assert test["wet"].Y.shape == (0, 1)
    some = MultiOutputData.from_table(frame, targets="sky", like=train)
    assert some.sizes == (0, 2, 0)
    assert MultiOutputData.from_table(frame, ["lat", "lon"], like=train).fingerprint == test.fingerprint


def test_test_tables_in_long_form_too(train):
    frame = pd.DataFrame({"lat": [1, 2], "lon": [3.0, 4], "output": ["wet", "sky"], "target": [False, "red"]})
    test = MultiOutputData.from_long(frame, like=train)
    assert test.names == train.names
    assert test.sizes == (0, 1, 1)
    np.testing.assert_array_equal(test["sky"].Y, [[2]])
    np.testing.assert_array_equal(test.inputs("sky"), [[4, 2]])
    np.testing.assert_array_equal(test["wet"].Y, [[0]])


def test_numbers_are_names_of_classes_where_those_are_numbers():
    train = MultiOutputData.from_table(pd.DataFrame({"x": [0, 1], "y": pd.Categorical([30, 10], [30, 10])}), "x", "y")
    test = pd.DataFrame({"x": [0, 1, 2], "y": [10, 30, np.nan]})
    for read in (
        MultiOutputData.from_table(test, like=train),
        MultiOutputData.from_long(test.assign(output="y", target=test["y"]), like=train),
    ):
        np.testing.assert_array_equal(read["y"].Y[:, 0], [1, 0])


def test_data_without_names_are_read_by_the_names_of_their_long_table(shared):
    assert MultiOutputData.from_long(shared.frame(), like=shared).columns == shared.columns
    renamed = shared.frame().rename(columns={"x0": "u", "x1": "v"})
    test = MultiOutputData.from_long(renamed, ["u", "v"], like=shared)
    assert test.names == shared.names
    np.testing.assert_array_equal(test.inputs("b"), shared.inputs("b"))


def test_dates_are_read_as_in_the_training_data():
    frame = pd.DataFrame({"day": pd.to_datetime(["1970-01-02"]), "y": [1.0]})
    train = MultiOutputData.from_table(frame, "day", "y")
    test = MultiOutputData.from_table(pd.DataFrame({"day": [2.5], "y": [1.0]}), like=train)
    assert test.columns == train.columns
    np.testing.assert_array_equal(test.X, [[2.5]])
    with pytest.raises(ValueError, match="the table has dates in column 'n'"):
        MultiOutputData.from_table(
            frame.rename(columns={"day": "n"}),
            like=MultiOutputData.from_table(pd.DataFrame({"n": [1], "y": [2]}), "n", "y"),
        )


def test_replicas_are_nested_as_in_the_training_data():
    frame = pd.DataFrame({"x": [0.0, 1], "y": [1.0, 2], "r": [0, 1]})
    train = MultiOutputData.from_table(frame, "x", "y", replica="r", nested=True)
    assert MultiOutputData.from_table(frame, replica="r", like=train).nested
    assert not MultiOutputData.from_table(frame, like=train).nested


def test_outputs_that_are_not_there_have_replicas_too(train):
    frame = pd.DataFrame({"lon": [0.0], "lat": [5.0], "n": [1.0], "trial": ["b"]})
    test = MultiOutputData.from_table(frame, replica="trial", like=train)
    assert [o.replica.tolist() for o in test] == [[0], [], []]


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (
            {"sky": ["pink"]},
            {},
            "has the class 'pink' at row 0, column 'sky', which is not known; .*'blue', 'grey', 'red'",
        ),
        ({"wet": [2]}, {}, "has the class '2' at row 0"),
        ({"n": ["many"]}, {}, r"holds names of classes \('many'\), but the targets of that output are numbers"),
        ({"lon": [np.nan]}, {}, "not finite, first at row 0, column 'lon'"),
        ({}, {"targets": ["lon"]}, "has the output 'lon', like does not: its outputs are 'n', 'sky', 'wet'"),
        ({}, {"targets": []}, "name at least one"),
        ({}, {"inputs": ["lon"]}, r"inputs=\['lon'\], but the inputs of like are 'lon', 'lat'; leave inputs out"),
        ({"sky": [None], "wet": [None], "n": [None]}, {}, "no observed target"),
    ],
)
def test_tables_unlike_the_training_data_are_refused(train, change, options, said):
    frame = pd.DataFrame({"lon": [0.0], "lat": [1.0], "n": [1.0], "sky": ["grey"], "wet": [True], **change})
    with pytest.raises(ValueError, match=said):
        MultiOutputData.from_table(frame, like=train, **options)


def test_tables_without_any_output_or_input_of_the_training_data_are_refused(train):
    with pytest.raises(ValueError, match="no column 'n', 'sky', 'wet'; its columns are 'lon'"):
        MultiOutputData.from_table(pd.DataFrame({"lon": [1.0]}), like=train)
    with pytest.raises(ValueError, match="no column 'lon', 'lat'"):
        MultiOutputData.from_table(pd.DataFrame({"n": [1.0]}), like=train)
    with pytest.raises(ValueError, match="has the output 'fog', like does not"):
        MultiOutputData.from_long(pd.DataFrame({"lon": [1], "lat": [2], "output": "fog", "target": 1}), like=train)
    twice = pd.DataFrame({"lon": [1, 1], "lat": [2, 2], "output": ["n", _N()], "target": [1, 1]})
    with pytest.raises(ValueError, match="given twice: 'n'"):
        MultiOutputData.from_long(twice, like=train)


class _N:
    """Not the string "n", but printed like it."""

    def __str__(self) -> str:
        return "n"


def test_outputs_with_several_target_columns_are_no_column_of_a_table():
    wide = MultiOutputData.from_list([([0.0], [[1.0, 2.0]])], names=["a"])
    with pytest.raises(ValueError, match="output 'a' of like has 2 target columns, the table has 1; use from_list"):
        MultiOutputData.from_table(pd.DataFrame({"x": [0.0], "a": [1.0]}), like=wide)


def test_inputs_and_targets_must_be_named_without_other_data():
    frame = pd.DataFrame({"x": [0.0], "output": ["a"], "target": [1.0]})
    with pytest.raises(ValueError, match=r"inputs is missing.*or give like"):
        MultiOutputData.from_long(frame)
    with pytest.raises(ValueError, match="targets is missing"):
        MultiOutputData.from_table(frame, "x")


def test_known_classes_may_lack_the_last_ones():
    assert read_targets(["a"], known=[("a", "b")]).classes == (("a", "b"),)
    np.testing.assert_array_equal(read_targets([None, "b"], known=[("a", "b")]).Y[:, 0], [np.nan, 1])
