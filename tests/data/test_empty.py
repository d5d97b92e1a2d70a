"""Outputs without observations: accepted by every builder, and of no weight in any batch."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from mogp.data import MultiOutputData
from mogp.data.batches import Batch, BatchSource, full_batch
from mogp.data.class_batches import class_labels
from mogp.data.padded import PaddedSource, distinct_inputs

X = np.arange(6.0)


def joint() -> MultiOutputData:
    """Three outputs at the same six inputs, the second without targets."""
    Y = np.column_stack([X, np.full(6, np.nan), X + 10])
    return MultiOutputData.from_arrays(X, Y, names=["a", "none", "c"], replica=[0, 1, 0, 1, 0, 1])


def separate() -> MultiOutputData:
    """Inputs of their own; the first output has none."""
    return MultiOutputData.from_list([([], []), (X, X), (X[:3] + 0.5, X[:3])], names=["none", "b", "c"])


def flat(batch) -> list[np.ndarray]:
    parts = (batch.X, tuple(batch.outputs)) if isinstance(batch, Batch) else batch
    return [np.asarray(t) for t in tf.nest.flatten(parts) if t is not None]


# ---------------------------------------------------------------------------------------------------- builders


@pytest.mark.parametrize(
    "make",
    [
        lambda: MultiOutputData.from_arrays([0.0, 1], [[1, np.nan], [2, np.nan]], names=["a", "b"]),
        lambda: MultiOutputData.from_arrays([0.0, 1], np.ones((2, 2)), names=["a", "b"], mask=[[1, 0], [1, 0]]),
        lambda: MultiOutputData.from_arrays([0.0, 1], pd.DataFrame({"a": ["u", "v"], "b": [None, None]})),
        lambda: MultiOutputData.from_list([([0.0, 1], [1, 2]), ([], [])], names=["a", "b"]),
        lambda: MultiOutputData.from_list([([0.0, 1], [1, 2]), (np.zeros((0, 1)), np.zeros((0, 1)))], names=["a", "b"]),
        lambda: MultiOutputData.from_list([([0.0, 1], [1, 2]), ([5.0], [np.nan])], names=["a", "b"]),
        lambda: MultiOutputData.from_table(
            pd.DataFrame({"x": [0, 1], "a": [1, 2], "b": [None, None]}), "x", ["a", "b"]
        ),
        lambda: MultiOutputData.from_long(
            pd.DataFrame({"x": [0, 1, 2], "output": list("aab"), "target": [1, 2, None]}), "x"
        ),
        lambda: MultiOutputData.from_arrays([0.0, 1], np.ones((2, 2)), names=["a", "b"]).take({"b": []}),
    ],
)
def test_every_builder_takes_an_output_without_targets(make):
    data = make()
    assert data.names == ("a", "b")
    assert data.sizes == (2, 0)
    empty = data["b"]
    assert empty.Y.shape == empty.observed.shape == (0, 1)
    assert empty.rows.dtype.kind == "i"
    assert data.inputs("b").shape == (0, 1)
    assert len(data.frame()) == 2
    assert data.fingerprint


def test_an_empty_output_keeps_the_number_of_its_target_columns():
    data = MultiOutputData.from_list([(np.zeros((0, 2)), np.zeros((0, 3))), ([[1.0, 2.0]], [1.0])])
    assert data[0].Y.shape == (0, 3)
    assert data.input_dim == 2
    assert full_batch(data).outputs[0].Y.shape == (0, 3)


def test_inputs_without_rows_say_nothing_about_columns():
    when = np.array(["2020-01-01"], "M8[D]")
    data = MultiOutputData.from_list([([], []), (when, [1.0])])
    assert data.columns[0].date
    wide = MultiOutputData.from_list([([[1.0, 2.0]], [1.0]), ([], [])])
    assert wide.inputs(1).shape == (0, 2)


def test_replicas_of_an_empty_output_are_none_of_any_kind():
    data = MultiOutputData.from_list([(X, X), ([], [])], replicas=[list("uvwuvw"), []])
    np.testing.assert_array_equal(data[0].replica, [0, 1, 2, 0, 1, 2])
    assert data[1].replica.shape == (0,)
    assert data[1].replica.dtype == np.int64
    assert joint()["none"].replica.dtype == np.int64


@pytest.mark.parametrize("make", [joint, separate])
def test_a_split_leaves_empty_outputs_empty_and_splits_the_others(make):
    for part in make().split(1 / 3):
        assert part["none"].Y.shape == (0, 1)
        assert min(n for name, n in zip(part.names, part.sizes, strict=True) if name != "none") > 0
        assert part.names == make().names


# ---------------------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize("make", [joint, separate])
@pytest.mark.parametrize("size", [None, 4, [2, 3, 1]])
def test_an_empty_output_has_no_rows_in_any_batch(make, size):
    data = make()
    source = BatchSource(data, size, seed=2)
    drawn = tf.function(source, autograph=False)
    for step in (0, 5):
        batch = source(step)
        own = batch.outputs[data.index("none")]
        assert own.Y.shape == own.observed.shape == (0, 1)
        assert own.weight.shape == own.ids.shape == own.rows.shape == (0,)
        assert all(np.isfinite(a).all() for a in flat(batch))
        for a, b in zip(flat(batch), flat(drawn(tf.constant(step, tf.int64))), strict=True):
            np.testing.assert_array_equal(a, b)
    assert source.steps_per_epoch >= 1


def test_joint_batches_of_the_other_outputs_are_those_without_the_empty_one():
    data = joint()
    others = MultiOutputData(data.X, (data["a"], data["c"]))
    for step in range(4):
        with_it, without = BatchSource(data, 4, seed=1)(step), BatchSource(others, 4, seed=1)(step)
        np.testing.assert_array_equal(with_it.X, without.X)
        for a, b in zip((with_it.outputs[0], with_it.outputs[2]), without.outputs, strict=True):
            for one, other in zip(flat(a), flat(b), strict=True):
                np.testing.assert_array_equal(one, other)


def test_separate_batches_weigh_the_others_as_ever_and_epochs_do_not_count_the_empty_one():
    source = BatchSource(separate(), 2)
    assert [o.weight.numpy().tolist() for o in source(0).outputs] == [[], [3, 3], [1.5, 1.5]]
    assert source.steps_per_epoch == 3


def test_an_empty_output_needs_no_batch_size():
    source = BatchSource(separate(), {"b": 2, "c": 1})
    assert [len(o.weight) for o in source(0).outputs] == [0, 2, 1]
    with pytest.raises(ValueError, match="no batch size for output 'c'"):
        BatchSource(separate(), {"b": 2})


@pytest.mark.parametrize("make", [joint, separate])
@pytest.mark.parametrize("size", [None, 2, (None, 2), (2, 2), (3, 1)])
def test_an_empty_output_of_a_padded_table_has_weight_zero(make, size):
    data = make()
    source = PaddedSource(data, size, seed=3)
    total = np.zeros(3)
    steps = 18
    for step in range(steps):
        batch = source(step)
        assert all(np.isfinite(a).all() for a in flat(batch))
        np.add.at(total, batch.outputs.numpy(), batch.weight.numpy().sum(1) / steps)
    np.testing.assert_allclose(total, data.sizes, rtol=1e-12)


def test_distinct_inputs_of_an_empty_output_are_none():
    inputs, rows = distinct_inputs(separate())
    assert inputs.shape == (9, 2)
    assert [len(r) for r in rows] == [0, 6, 3]


def test_labels_of_an_output_without_rows_are_refused():
    data = joint()
    with pytest.raises(ValueError, match="output 'none' has no rows"):
        class_labels(MultiOutputData(data.X, (data["none"],)))
