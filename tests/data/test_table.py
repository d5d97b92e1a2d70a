from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from mogp.data import InputColumn, MultiOutputData


def same(a: MultiOutputData, b: MultiOutputData) -> None:
    """The two hold the same observations (the order of rows aside)."""
    assert a.names == b.names
    for first, second in zip(a.outputs, b.outputs, strict=True):
        left = np.column_stack([a.inputs(first.name), first.Y, first.observed])
        right = np.column_stack([b.inputs(second.name), second.Y, second.observed])
        np.testing.assert_array_equal(left[np.lexsort(left.T)], right[np.lexsort(right.T)])


# ---------------------------------------------------------------------------------------------------- from_arrays


def test_missing_targets_become_missing_rows_and_never_nan(rng):
    X, Y = rng.normal(size=(6, 2)), rng.normal(size=(6, 3))
    Y[0, 0] = Y[1, 2] = Y[5, 2] = np.nan
    data = MultiOutputData.from_arrays(X, Y)
    assert data.names == ("output 0", "output 1", "output 2")
    assert data.sizes == (5, 6, 4)
    for d, output in enumerate(data):
        seen = ~np.isnan(Y[:, d])
        np.testing.assert_array_equal(output.Y[:, 0], Y[seen, d])
        np.testing.assert_array_equal(data.inputs(d), X[seen])
        assert np.isfinite(output.Y).all()
        assert output.observed.all()


def test_mask_and_nan_say_the_same(rng):
    X, Y = rng.normal(size=(6, 2)), rng.normal(size=(6, 2))
    mask = rng.random((6, 2)) > 0.3
    same(MultiOutputData.from_arrays(X, Y, mask=mask), MultiOutputData.from_arrays(X, np.where(mask, Y, np.nan)))


@pytest.mark.parametrize("hole", [np.inf, -np.inf, np.nan, 1e300])
def test_what_stands_under_the_mask_does_not_matter(hole):
    data = MultiOutputData.from_arrays([0.0, 1.0], [3.0, hole], mask=[1, 0])
    np.testing.assert_array_equal(data["output 0"].Y, [[3.0]])


def test_masked_arrays_keep_their_mask():
    data = MultiOutputData.from_arrays([0.0, 1.0, 2.0], np.ma.masked_array([1, 2, 3], [False, True, False]))
    np.testing.assert_array_equal(data["output 0"].Y[:, 0], [1, 3])
    np.testing.assert_array_equal(data.inputs(0)[:, 0], [0, 2])


@pytest.mark.parametrize(
    "Y",
    [
        np.array([True, False]),
        np.array([1, 0]),
        np.array([1, 0], np.uint8),
        np.array([1.0, 0.0], np.float32),
        np.array([1, 0], object),
        [1, 0],
        pd.Series([1, 0], dtype="Int64"),
        pd.Series([True, False], dtype="boolean"),
        pd.DataFrame({"y": [1.0, 0.0]}),
    ],
    ids=lambda y: f"{type(y).__name__}-{getattr(y, 'dtype', '')}",
)
def test_every_numeric_type_becomes_float64_columns(Y):
    output = MultiOutputData.from_arrays([0.0, 1.0], Y).outputs[0]
    assert output.Y.dtype == np.float64
    np.testing.assert_array_equal(output.Y, [[1.0], [0.0]])


def test_nullable_integers_with_missing_values_are_missing_targets():
    data = MultiOutputData.from_arrays([0.0, 1.0, 2.0], pd.Series([1, None, 3], dtype="Int64"))
    np.testing.assert_array_equal(data["output 0"].Y[:, 0], [1, 3])


def test_one_row_of_one_output_is_enough():
    data = MultiOutputData.from_arrays([[1.0, 2.0]], [3.0])
    assert (data.num_outputs, data.input_dim, data.sizes) == (1, 2, (1,))
    assert not data.shares_inputs


@pytest.mark.parametrize(
    ("X", "Y", "options", "said"),
    [
        (np.zeros((0, 2)), np.zeros((0, 1)), {}, r"X is empty \(shape \(0, 2\)\).*at least one row"),
        (np.zeros((2, 0)), np.zeros(2), {}, r"X is empty \(shape \(2, 0\)\)"),
        (np.zeros((2, 2)), np.zeros((2, 0)), {}, r"Y is empty \(shape \(2, 0\)\)"),
        (np.zeros((2, 2, 2)), np.zeros(2), {}, r"X has shape \(2, 2, 2\); expected \[N, columns\]"),
        (0.0, 0.0, {}, r"X has shape \(\)"),
        (np.zeros(3), np.zeros(2), {}, "X has 3 rows and Y has 2"),
        (
            [0, np.nan],
            [0, 1],
            {},
            r"X has 1 values that are not finite, first at row 1, column 0 \(nan\).*drop or impute",
        ),
        ([0, np.inf], [0, 1], {}, r"X has 1 values that are not finite.*\(inf\)"),
        ([0, 1], [0, -np.inf], {}, "Y has 1 infinite targets, first at row 1.*use NaN"),
        ([0, 1], [np.nan, np.nan], {}, "no observed target: every entry is NaN or masked.*At least one output"),
        ([0, 1], [1, 2], {"mask": [0, 0]}, "no observed target"),
        (["a", "b"], [0, 1], {}, "X holds values that are not numbers, first 'a' at row 0, column 0.*factorize"),
        ([1 + 1j, 2], [0, 1], {}, "X holds values that are not numbers"),
        ([0, 1], [1 + 1j, 2], {}, "Y holds values that are not numbers"),
        ([[0, 1], [1]], [0, 1], {}, "X holds values that are not numbers"),
        ([0, 1], [0, 1], {"mask": [True]}, r"mask has shape \(1, 1\); the targets have shape \(2, 1\)"),
        ([0, 1], [0, 1], {"mask": [0.5, 1]}, "mask must hold booleans"),
        ([0, 1], [0, 1], {"names": ["a", "b"]}, "2 names for 1 outputs"),
        ([0, 1], [[0, 1], [0, 1]], {"names": ["a", "a"]}, "given twice: 'a'"),
        ([0, 1], [0, 1], {"replica": [0]}, r"replica has shape \(1,\).*\(2,\)"),
        ([0, 1], [0, 1], {"replica": [0, np.nan]}, "replica is missing in 1 rows"),
        ([0, 1], [0, 1], {"replica": [None, "r"]}, "replica is missing in 1 rows"),
        ([0, 1], [0, 1], {"replica": [0, np.inf]}, "replica is infinite, first at row 1; expected numbers 0, 1, …"),
    ],
)
def test_wrong_arrays_are_refused_with_what_was_given_and_what_to_do(X, Y, options, said):
    with pytest.raises(ValueError, match=said):
        MultiOutputData.from_arrays(X, Y, **options)


def test_replica_labels_of_any_kind_become_numbers():
    data = MultiOutputData.from_arrays([0, 1, 2, 3], [1.0, np.nan, 2, 3], replica=["b", "a", "a", "b"])
    np.testing.assert_array_equal(data.outputs[0].replica, [1, 0, 1])


def test_replica_numbers_mean_the_same_in_every_output_and_in_every_part_of_the_data():
    X, Y = np.arange(4.0), np.ones(4)
    data = MultiOutputData.from_list([(X, Y), (X[:2], Y[:2])], replicas=[[0, 1, 2, 3], [1, 3]])
    np.testing.assert_array_equal(data.outputs[1].replica, [1, 3])
    part = MultiOutputData.from_arrays(X[2:], Y[2:], replica=[2, 3])
    np.testing.assert_array_equal(part.outputs[0].replica, [2, 3])


# ------------------------------------------------------------------------------------------------------ from_list


def test_outputs_given_equal_inputs_share_rows_and_others_do_not(uneven):
    assert len(uneven.X) == 12 + 5
    assert uneven.sizes == (12, 9, 5)
    np.testing.assert_array_equal(uneven["gaps"].rows, np.setdiff1d(np.arange(12), [1, 4, 7]))
    assert uneven["own"].rows.min() == 12
    assert uneven.shares_inputs


def test_several_target_columns_stay_together_and_unobserved_entries_are_harmless():
    Y = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan], [4.0, 5.0, np.nan]])
    data = MultiOutputData.from_list([(np.arange(3.0), Y)], names=["annotated"])
    output = data["annotated"]
    np.testing.assert_array_equal(output.rows, [0, 2])
    np.testing.assert_array_equal(output.observed, [[True, False, True], [True, True, False]])
    np.testing.assert_array_equal(output.Y[output.observed], [1, 3, 4, 5])
    for column in range(3):
        assert set(output.Y[:, column]) <= set(Y[:, column][~np.isnan(Y[:, column])])


def test_list_and_arrays_agree_on_shared_inputs(rng):
    X, Y = rng.normal(size=(5, 2)), rng.normal(size=(5, 2))
    Y[2, 1] = np.nan
    listed = MultiOutputData.from_list([(X, Y[:, 0]), (X, Y[:, 1])])
    same(listed, MultiOutputData.from_arrays(X, Y))
    assert listed.shares_inputs


def test_masks_and_replicas_of_a_list_go_with_their_outputs():
    data = MultiOutputData.from_list(
        [([0, 1], [5, 6]), ([2, 3], [7, 8])], masks=[None, [0, 1]], replicas=[[7, 9], None]
    )
    np.testing.assert_array_equal(data.outputs[0].replica, [7, 9])
    assert data.outputs[1].replica is None
    np.testing.assert_array_equal(data.inputs(1), [[3.0]])


@pytest.mark.parametrize(
    ("pairs", "options", "said"),
    [
        ([], {}, "at least one"),
        ([([0], [1], [2])], {}, r"pairs\[0\] has 3 elements; expected \(X, Y\)"),
        ([([0], [1]), ([[0, 1]], [1])], {}, "inputs of 'output 1' have 2 columns, those of 'output 0' have 1"),
        ([([0], [1, 2])], {}, "X of 'output 0' has 1 rows and Y of 'output 0' has 2"),
        ([([0], [np.nan]), ([], [])], {}, "no observed target"),
        ([([0], [1]), ([], [1])], {}, "X of 'output 1' has 0 rows and Y of 'output 1' has 1"),
        ([([[0, 1]], [1]), (np.zeros((0, 3)), [])], {}, "inputs of 'output 1' have 3 columns"),
        ([([0], np.zeros((1, 0)))], {}, r"Y of 'output 0' is empty \(shape \(1, 0\)\)"),
        ([(np.zeros((1, 0)), [1])], {}, r"X of 'output 0' is empty \(shape \(1, 0\)\)"),
        ([([0], [1]), ([0], [np.inf])], {"names": ["a", "b"]}, "Y of 'b' has 1 infinite"),
        ([([0], [1]), ([0], [1])], {"masks": [None]}, "1 masks for 2 outputs"),
        ([([0], [1]), ([0], [1])], {"replicas": [None] * 3}, "3 replicas for 2 outputs"),
        ([([0], [1]), ([0], [1])], {"names": ["a"]}, "1 names for 2 outputs"),
    ],
)
def test_wrong_lists_are_refused_with_what_was_given(pairs, options, said):
    with pytest.raises(ValueError, match=said):
        MultiOutputData.from_list(pairs, **options)


def test_equal_rows_of_inputs_are_merged_in_order_of_first_appearance():
    data = MultiOutputData.from_list(
        [([[3.0, 0.0], [1.0, 1.0], [3.0, -0.0]], [10, 11, 12]), ([[2.0, 2.0], [1.0, 1.0]], [20, 21])]
    )
    np.testing.assert_array_equal(data.X, [[3, 0], [1, 1], [3, 0], [2, 2]])
    np.testing.assert_array_equal(data[0].rows, [0, 1, 2])
    np.testing.assert_array_equal(data[1].rows, [3, 1])
    np.testing.assert_array_equal(data[0].Y[:, 0], [10, 11, 12])
    assert data.shares_inputs


def test_the_rows_of_one_output_stay_as_they_are():
    X = np.array([[1.0], [2.0], [1.0], [1.0]])
    data = MultiOutputData.from_list([(X, [1, 2, 3, 4])])
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data[0].rows, range(4))


def test_repeated_rows_of_two_outputs_are_matched_one_by_one():
    data = MultiOutputData.from_list([([1.0, 1.0], [1, 2]), ([1.0, 1.0, 1.0], [3, 4, 5])])
    np.testing.assert_array_equal(data.X[:, 0], [1, 1, 1])
    np.testing.assert_array_equal(data[1].rows, [0, 1, 2])


def test_inputs_without_equal_rows_are_stacked_as_they_are(rng):
    X = [rng.normal(size=(n, 3)) for n in (4, 1, 6)]
    data = MultiOutputData.from_list([(x, np.ones(len(x))) for x in X])
    np.testing.assert_array_equal(data.X, np.concatenate(X))
    np.testing.assert_array_equal(np.concatenate([o.rows for o in data]), np.arange(11))


def test_merging_is_what_a_dictionary_of_rows_does(rng):
    X = [rng.integers(0, 3, (n, 2)).astype(float) for n in (9, 5, 7)]
    data = MultiOutputData.from_list([(x, np.arange(len(x))) for x in X])
    turns = [[(*row, x[:n].tolist().count(list(row))) for n, row in enumerate(x)] for x in X]
    seen = list(dict.fromkeys(row for own in turns for row in own))
    np.testing.assert_array_equal(data.X, [row[:2] for row in seen])
    for d, x in enumerate(X):
        np.testing.assert_array_equal(data.inputs(d), x)


# -------------------------------------------------------------------------------------------------- data frames


def test_long_table_and_back_is_the_same_data(uneven):
    same(MultiOutputData.from_long(uneven.frame(), ["x0", "x1"]), uneven)


def test_long_table_keeps_the_order_of_first_appearance_and_merges_equal_inputs():
    frame = pd.DataFrame(
        {
            "t": [2.0, 1.0, 1.0, 2.0, 2.0],
            "what": pd.Categorical(["z", "a", "z", "a", "z"], categories=["a", "z"]),
            "value": pd.array([1, 2, 3, None, 5], dtype="Int64"),
            "trial": ["p", "p", "q", "q", "q"],
        }
    )
    data = MultiOutputData.from_long(frame, ["t"], output="what", target="value", replica="trial")
    assert data.names == ("z", "a")
    np.testing.assert_array_equal(data.X, [[1.0], [2.0]])
    np.testing.assert_array_equal(data["z"].Y[:, 0], [1, 3, 5])
    np.testing.assert_array_equal(data.inputs("z")[:, 0], [2, 1, 2])
    np.testing.assert_array_equal(data["z"].replica, [0, 1, 1])
    np.testing.assert_array_equal(data["a"].Y[:, 0], [2])


def test_wide_table_equals_arrays():
    frame = pd.DataFrame(
        {"lon": [0.0, 1.0], "lat": [2, 3], "rain": [1.5, np.nan], "wet": pd.array([True, None], "boolean")}
    )
    data = MultiOutputData.from_table(frame, ["lon", "lat"], ["rain", "wet"])
    same(data, MultiOutputData.from_arrays([[0, 2], [1, 3]], [[1.5, 1], [np.nan, np.nan]], names=["rain", "wet"]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f.drop(columns="x"), "no column 'x'; its columns are 'output', 'target'"),
        (lambda f: f.iloc[:0], "no rows"),
        (lambda f: f.assign(output=["a", None]), "'output' is empty in 1 rows"),
        (lambda f: f.assign(x=["low", "high"]), "not numbers, first 'low' at row 0, column 'x'; .*factorize"),
        (lambda f: f.assign(x=pd.Categorical([1, 2])), "not numbers, first 1 at row 0, column 'x'"),
        (
            lambda f: f.assign(target=pd.to_datetime(["2020", "2021"])),
            "column 'target' of output 'a' holds values that",
        ),
        (lambda f: f.assign(x=[0.0, np.nan]), "the table has 1 values that are not finite.*row 1, column 'x'"),
        (lambda f: f.assign(target=[0.0, np.inf]), "'target' has 1 infinite"),
        (lambda f: f.assign(target=[np.nan, np.nan]), "no observed target"),
        (lambda f: f.assign(output=["1", 1]), "given twice: '1'"),
        (lambda f: pd.concat([f, f[["x"]]], axis=1), "same name"),
    ],
)
def test_wrong_long_tables_are_refused_with_what_was_given(change, said):
    frame = change(pd.DataFrame({"x": [0.0, 1.0], "output": ["a", "b"], "target": [1.0, 2.0]}))
    with pytest.raises(ValueError, match=said):
        MultiOutputData.from_long(frame, ["x"])


def test_no_named_columns_are_refused():
    with pytest.raises(ValueError, match="name at least one"):
        MultiOutputData.from_table(pd.DataFrame({"x": [0.0], "y": [1.0]}), [], ["y"])


# ------------------------------------------------------------------------------------------- looking things up


def test_outputs_are_found_by_name_and_by_position(uneven):
    assert uneven["own"] is uneven[2] is uneven[-1]
    with pytest.raises(KeyError, match=re.escape("no output 'nope'; the outputs are 'full', 'gaps', 'own'")):
        uneven["nope"]
    with pytest.raises(IndexError, match="no output 3; there are 3"):
        uneven[3]


def test_taking_positions_keeps_their_inputs_and_targets(uneven):
    part = uneven.take({"full": [3, 0], "own": np.array([False, True, False, False, True])})
    assert part.sizes == (2, 9, 2)
    np.testing.assert_array_equal(part["full"].Y, uneven["full"].Y[[3, 0]])
    np.testing.assert_array_equal(part.inputs("full"), uneven.inputs("full")[[3, 0]])
    np.testing.assert_array_equal(part.inputs("own"), uneven.inputs("own")[[1, 4]])
    np.testing.assert_array_equal(part.inputs("gaps"), uneven.inputs("gaps"))
    assert len(part.X) == len(np.unique(np.concatenate([uneven["full"].rows[[3, 0]], uneven["gaps"].rows]))) + 2


def test_taking_nothing_of_all_outputs_is_refused(uneven):
    with pytest.raises(ValueError, match="no observed target"):
        uneven.take({name: [] for name in uneven.names})


@pytest.mark.parametrize("name", ["uneven", "shared"])
def test_a_split_is_a_partition_of_every_output(name, request):
    data = request.getfixturevalue(name)
    train, test = data.split(0.3, seed=5)
    for d, output in enumerate(data):
        joined = np.vstack([np.column_stack([part.inputs(d), part[d].Y]) for part in (train, test)])
        whole = np.column_stack([data.inputs(d), output.Y])
        np.testing.assert_array_equal(joined[np.lexsort(joined.T)], whole[np.lexsort(whole.T)])
    again = data.split(0.3, seed=5)
    same(train, again[0])
    assert any(not np.array_equal(a.Y, b.Y) for a, b in zip(train, data.split(0.3, seed=6)[0], strict=True))


def test_a_split_of_shared_inputs_holds_a_point_out_of_all_outputs(shared):
    train, test = shared.split(0.25)
    assert not {tuple(x) for x in train.X} & {tuple(x) for x in test.X}


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 2])
def test_shares_outside_zero_and_one_are_refused(shared, share):
    with pytest.raises(ValueError, match="not a share between 0 and 1"):
        shared.split(share)


def test_a_split_that_leaves_a_side_empty_is_refused():
    with pytest.raises(ValueError, match=r"'output 0' has 1 rows.*leaves one side empty"):
        MultiOutputData.from_arrays([0.0], [1.0]).split(0.5)


def test_columns_that_do_not_fit_the_inputs_are_refused(shared):
    with pytest.raises(ValueError, match="1 input columns are described, X has 2"):
        MultiOutputData(shared.X, shared.outputs, (InputColumn(),))


def test_repr_says_sizes(uneven):
    assert "3 outputs over 17 inputs of dimension 2" in repr(uneven)
    assert "'gaps': 9" in repr(uneven)
