"""`LabelData` and its batches: what goes in comes out, and what is wrong is said at the door."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from scipy.sparse import coo_array, csr_array, csr_matrix

from mogp.data.batches import LabelBatches, input_rows
from mogp.data.labels import LabelData, unit_rows
from mogp.inducing import kmeans_points

Y = np.array([[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]])
LISTS = [[2, 0], [], [0, 1, 2, 3], [3], [1], [2], [0]]


@pytest.fixture
def X(rng) -> np.ndarray:
    inputs = rng.normal(size=(7, 5)) * (rng.random((7, 5)) < 0.5)
    inputs[3] = 0
    return inputs


def as_dense(batch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, labels `[B, 4]` and row numbers of a batch."""
    inputs = tf.sparse.to_dense(batch.X) if isinstance(batch.X, tf.SparseTensor) else batch.X
    own = batch.outputs[0]
    labels = np.zeros((len(own.ids), 4), int)
    labels[own.Y.row, own.Y.label] += 1
    np.testing.assert_array_equal(own.Y.count, labels.sum(1))
    return np.asarray(inputs), labels, np.asarray(own.ids)


# ------------------------------------------------------------------------------------------------- what goes in


@pytest.mark.parametrize(
    "given",
    [
        Y,
        Y.astype(bool),
        Y.astype(float),
        pd.DataFrame(Y, columns=list("abcd")),
        tf.constant(Y),
        csr_matrix(Y),
        coo_array(Y),
        LISTS,
        [np.array(one, int) for one in LISTS],
    ],
    ids=["integers", "booleans", "floats", "frame", "tensor", "csr", "coo", "lists", "arrays"],
)
def test_labels_are_the_same_however_they_are_given(X, given):
    data = LabelData.of(X, given)
    np.testing.assert_array_equal(data.Y.toarray(), Y)
    np.testing.assert_array_equal(data.counts, Y.sum(0))
    assert (data.num_points, data.num_labels, data.input_dim, data.num_outputs) == (7, 4, 5, 1)


def test_an_entry_stored_twice_counts_once_among_labels_and_adds_up_among_inputs(X):
    twice = coo_array((np.ones(3, int), ([0, 0, 1], [2, 2, 0])), shape=(2, 3))
    repeated = csr_array((np.ones(3, int), [2, 2, 0], [0, 2, 3]), shape=(2, 3))
    for given in (twice, repeated):
        data = LabelData.of(repeated.astype(float), given)
        np.testing.assert_array_equal(data.Y.toarray(), [[0, 0, 1], [1, 0, 0]])
        np.testing.assert_array_equal(data.X.toarray(), [[0, 0, 2], [1, 0, 0]])
        assert data.X.nnz == 2
    np.testing.assert_array_equal(
        LabelData.of(repeated.astype(float), twice, normalise=True).X.toarray(), data.Y.toarray()
    )


def test_stored_zeros_are_no_labels(X):
    given = csr_array((np.array([1, 0]), [1, 3], [0, 1, 2]), shape=(2, 4))
    np.testing.assert_array_equal(LabelData.of(X[:2], given).Y.toarray(), [[0, 1, 0, 0], [0, 0, 0, 0]])


def test_data_do_not_change_with_the_matrices_they_were_made_of(X):
    inputs, labels = csr_array(X), csr_array(Y)
    data = LabelData.of(inputs, labels)
    inputs.data[:] = 7
    labels.data[:] = 0
    np.testing.assert_array_equal(data.X.toarray(), X)
    np.testing.assert_array_equal(data.Y.toarray(), Y)


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_rows_are_brought_to_length_one_and_rows_of_zeros_stay(X, form):
    scaled = LabelData.of(form(X), Y, normalise=True).X
    scaled = scaled if isinstance(scaled, np.ndarray) else scaled.toarray()
    lengths = np.linalg.norm(X, axis=1)
    np.testing.assert_allclose(np.linalg.norm(scaled, axis=1), lengths > 0, atol=1e-15)
    np.testing.assert_allclose(scaled * lengths[:, None], X, atol=1e-15)
    np.testing.assert_array_equal(unit_rows(np.zeros((2, 3))), np.zeros((2, 3)))


@pytest.mark.parametrize("form", [np.asarray, csr_array])
@pytest.mark.parametrize("scale", [1e200, 1e-200, 1e-310])
def test_rows_of_any_size_are_brought_to_length_one(form, scale):
    given = np.array([[3.0, 0.0, -4.0], [0.0, 0.0, 0.0], [0.0, 5.0, 12.0]]) * scale
    scaled = unit_rows(form(given))
    scaled = scaled if isinstance(scaled, np.ndarray) else scaled.toarray()
    np.testing.assert_allclose(scaled, [[0.6, 0, -0.8], [0, 0, 0], [0, 5 / 13, 12 / 13]], rtol=1e-9)


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_lengths_of_ordinary_rows_are_the_textbook_ones_to_the_last_bit(rng, form):
    given = rng.normal(size=(50, 7)) * 10.0 ** rng.integers(-5, 6, (50, 1))
    scaled = unit_rows(form(given))
    scaled = scaled if isinstance(scaled, np.ndarray) else scaled.toarray()
    lengths = np.sqrt(np.asarray(form(given * given).sum(1)).reshape(-1, 1))
    np.testing.assert_array_equal(scaled, given / lengths)


def test_whole_numbers_are_divided_as_floats():
    for small in (np.int8, np.int64):
        given = np.array([[3, 4]], small)
        np.testing.assert_array_equal(unit_rows(given), [[0.6, 0.8]])
        np.testing.assert_array_equal(unit_rows(csr_array(given)).toarray(), [[0.6, 0.8]])


def test_single_precision_is_kept_and_whole_numbers_become_floats(X):
    assert LabelData.of(X.astype(np.float32), Y).X.dtype == np.float32
    assert LabelData.of(csr_array(X.astype(np.float32)), Y).X.dtype == np.float32
    for form in (np.asarray, csr_array):
        assert LabelData.of(form(np.ones((7, 2), int)), Y).X.dtype == np.float64


def test_inputs_with_long_indices_can_be_clustered(X):
    long = csr_array(X)
    long = csr_array((long.data, long.indices.astype(np.int64), long.indptr.astype(np.int64)), shape=long.shape)
    assert long.indices.dtype == np.int64
    for given in (long, LabelData.of(long, Y)):
        assert kmeans_points(given, 3).Z.shape == (3, 5)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"X": np.ones(7)}, r"shape \(7,\); expected \[N, P\]"),
        ({"X": np.ones((7, 0))}, "at least one point and one input"),
        ({"X": np.ones((0, 5)), "Y": np.ones((0, 4))}, "at least one point and one input"),
        ({"X": np.full((7, 5), np.nan)}, "35 entries that are NaN"),
        ({"X": csr_array(np.diag([1, np.inf, 1, 1, 1, 1, 1.0]))}, "1 entries that are NaN or infinite"),
        ({"X": np.ones((6, 5))}, "X has 6 rows, Y has 7"),
        ({"Y": Y * 2}, r"entries \[2\]; expected 1"),
        ({"Y": 2 * Y - 1}, r"entries \[-1\]"),
        ({"Y": np.where(Y, np.nan, 0.0)}, "nan"),
        ({"Y": np.ones((7, 0))}, "at least one is needed"),
        ({"Y": [[0], [1], [4], [], [], [], []], "labels": 4}, "row 2 has the label 4; labels are numbered 0 to 3"),
        ({"Y": [[0], [1], [], [], [], [0, -1], []]}, "row 5 has the label -1"),
        ({"Y": [[0], [1.5], [], [], [], [], []]}, r"row 1 of Y is \[1.5\]; expected the numbers"),
        ({"Y": [["cat"], [], [], [], [], [], []]}, r"row 0 of Y is \['cat'\]"),
        ({"Y": [[], [], [], [], [], [], []]}, "at least one is needed"),
        ({"labels": 5}, "Y has 4 columns, but labels=5; leave labels out"),
        ({"X": np.ma.masked_equal(np.eye(7), 0)}, "X is a masked array; inputs cannot be missing"),
        ({"Y": np.ma.masked_equal(Y, 0)}, "Y is a masked array"),
        ({"X": np.ones((7, 5), complex)}, "X holds complex numbers; inputs must be real"),
        ({"X": csr_array(np.ones((7, 5), complex))}, "X holds complex numbers"),
    ],
)
def test_what_is_wrong_is_said_at_the_door(X, change, problem):
    with pytest.raises(ValueError, match=problem):
        LabelData.of(**{"X": X, "Y": Y, **change})


# ------------------------------------------------------------------------------------------------- what comes out


@pytest.mark.parametrize("form", [np.asarray, csr_array])
@pytest.mark.parametrize("size", [None, 3, 7, 100])
def test_a_batch_has_rows_of_the_data_with_their_labels(X, form, size):
    data = LabelData.of(form(X), Y)
    source = data.batches(size, seed=2)
    for step in (0, 5):
        inputs, labels, ids = as_dense(source(step))
        assert len(ids) == min(size or 7, 7)
        np.testing.assert_array_equal(inputs, X[ids])
        np.testing.assert_array_equal(labels, Y[ids])
        np.testing.assert_array_equal(source(step).outputs[0].weight, np.full(len(ids), 7 / len(ids)))


def test_labels_of_a_batch_are_in_order(X):
    labels = LabelBatches(LabelData.of(X, LISTS), 5)(1).outputs[0].Y
    keys = np.asarray(labels.row) * 10 + np.asarray(labels.label)
    assert (np.diff(keys) > 0).all()


def test_a_pass_sees_every_point_once_and_the_next_in_another_order(X):
    source = LabelData.of(X, Y).batches(1, seed=1)
    assert source.steps_per_epoch == 7
    first, second = ([int(source(t).outputs[0].ids[0]) for t in range(p, p + 7)] for p in (0, 7))
    assert sorted(first) == sorted(second) == list(range(7))
    assert first != second


def test_a_step_is_the_same_eagerly_in_a_graph_and_with_another_number_type(X):
    source = LabelData.of(csr_array(X), Y).batches(3, seed=3)
    graph = tf.function(source)
    for step in (0, 4):
        expected = as_dense(source(step))
        for batch in (graph(tf.constant(step, tf.int64)), source(tf.constant(step, tf.int32)), source(np.int32(step))):
            for a, b in zip(expected, as_dense(batch), strict=True):
                np.testing.assert_array_equal(a, b)


def test_rows_can_be_taken_in_any_order_and_more_than_once(X):
    picked = np.array([6, 3, 3, 0])
    rows = input_rows(csr_array(X))(tf.constant(picked, tf.int64))
    np.testing.assert_array_equal(tf.sparse.to_dense(rows), X[picked])


@pytest.mark.parametrize("size", [0, -1, 2.5, "all"])
def test_batch_sizes_are_whole_numbers_of_at_least_one(X, size):
    with pytest.raises(ValueError, match="expected a whole number of at least 1"):
        LabelData.of(X, Y).batches(size)


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_a_split_is_a_partition(X, form):
    data = LabelData.of(form(np.column_stack([X, np.arange(7)])), Y)
    train, test = data.split(0.3, seed=1)
    inputs = [part.X if isinstance(part.X, np.ndarray) else part.X.toarray() for part in (train, test)]
    rows = np.concatenate(inputs)[:, -1].astype(int)
    assert (train.num_points, test.num_points) == (5, 2)
    assert sorted(rows) == list(range(7))
    np.testing.assert_array_equal(np.concatenate([train.Y.toarray(), test.Y.toarray()]), Y[rows])
    np.testing.assert_array_equal(data.take(np.arange(7) % 2 == 0).Y.toarray(), Y[::2])


@pytest.mark.parametrize("share", [0.0, 1.0, 0.01, -0.5])
def test_a_split_with_an_empty_side_is_refused(X, share):
    with pytest.raises(ValueError, match="leaves one side empty"):
        LabelData.of(X, Y).split(share)
