"""Replicas crossed with outputs, or nested in them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from mogp.data import MultiOutputData
from mogp.data.padded import PaddedSource, distinct_inputs, replica_numbers

X, Y = np.array([0.0, 0.0, 1.0]), np.ones((3, 2))


def build(how: str, nested: bool, replica=(0, 1, 2)) -> MultiOutputData:
    wide = pd.DataFrame({"x": X, "output 0": 1.0, "output 1": 1.0, "r": list(replica)})
    long = wide.melt(["x", "r"], var_name="output", value_name="target")
    return {
        "arrays": lambda: MultiOutputData.from_arrays(X, Y, replica=list(replica), nested=nested),
        "list": lambda: MultiOutputData.from_list([(X, Y[:, 0])] * 2, replicas=[list(replica)] * 2, nested=nested),
        "table": lambda: MultiOutputData.from_table(wide, "x", ["output 0", "output 1"], replica="r", nested=nested),
        "long": lambda: MultiOutputData.from_long(long, "x", replica="r", nested=nested),
    }[how]()


@pytest.mark.parametrize("how", ["arrays", "list", "table", "long"])
def test_every_builder_says_whether_replicas_are_nested(how):
    crossed, nested = build(how, False), build(how, True)
    assert not crossed.nested
    assert nested.nested
    for a, b in zip(crossed, nested, strict=True):
        np.testing.assert_array_equal(a.replica, [0, 1, 2])
        np.testing.assert_array_equal(a.replica, b.replica)
    assert nested.take({"output 0": [0]}).nested
    assert all(part.nested for part in nested.split(1 / 3))
    assert repr(crossed).endswith("'output 1': 3; 3 replicas)")
    assert repr(nested).endswith("'output 1': 3; 6 replicas, nested)")


def test_data_without_replicas_are_not_nested():
    data = MultiOutputData.from_arrays(X, Y, nested=True)
    assert not data.nested
    assert "replica" not in repr(data)


def test_numbers_of_nested_replicas_are_apart_and_say_output_and_replica():
    every = {(r, d): int(replica_numbers(r, d, 3, True)) for r in range(5) for d in range(3)}
    assert sorted(every.values()) == list(range(15))
    for (r, d), number in every.items():
        assert divmod(number, 3) == (r, d)
        assert replica_numbers(r, d, 3, False) == r
    np.testing.assert_array_equal(replica_numbers(np.array([0, 1]), np.array([2, 0]), 3, True), [2, 3])
    np.testing.assert_array_equal(replica_numbers(tf.constant([0, 1]), 1, 2, True), [1, 3])


def test_distinct_inputs_tell_nested_replicas_apart():
    crossed, rows = distinct_inputs(build("arrays", False))
    np.testing.assert_array_equal(crossed, [[0, 0], [0, 1], [1, 2]])
    np.testing.assert_array_equal(rows, [[0, 1, 2]] * 2)
    nested, rows = distinct_inputs(build("arrays", True))
    np.testing.assert_array_equal(nested[:, 0], [0, 0, 1, 0, 0, 1])
    np.testing.assert_array_equal(nested[:, 1], [0, 2, 4, 1, 3, 5])
    np.testing.assert_array_equal(rows, [[0, 1, 2], [3, 4, 5]])
    batch = PaddedSource(build("arrays", True))(0)
    np.testing.assert_array_equal(batch.X, nested)
    np.testing.assert_array_equal(batch.rows, rows)


def test_labels_are_numbered_together_if_crossed_and_apart_if_nested():
    pairs = [([0.0, 1.0], [1.0, 2.0]), ([2.0, 3.0], [3.0, 4.0])]
    labels = [["p1", "p2"], ["p3", "p4"]]
    crossed = MultiOutputData.from_list(pairs, replicas=labels)
    nested = MultiOutputData.from_list(pairs, replicas=labels, nested=True)
    assert [o.replica.tolist() for o in crossed] == [[0, 1], [2, 3]]
    assert [o.replica.tolist() for o in nested] == [[0, 1], [0, 1]]


@pytest.mark.parametrize("replica", [[0, 1, np.inf], [0.0, -np.inf, 1], np.array([0, 1, np.inf], object)])
@pytest.mark.parametrize("how", ["arrays", "list", "table", "long"])
def test_infinite_replica_numbers_are_refused(how, replica):
    with pytest.raises(ValueError, match="is infinite, first at row"):
        build(how, False, replica)


def test_numbers_too_large_for_an_index_are_labels():
    data = MultiOutputData.from_arrays(X, Y, replica=[1e300, 0.0, 1e300])
    np.testing.assert_array_equal(data[0].replica, [1, 0, 1])
