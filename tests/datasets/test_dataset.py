"""A data set keeps its parts together, in every layout: wide, long, sparse, with replicas, splits and images."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from scipy import sparse

from mogp.datasets import Dataset


def wide(**changed) -> Dataset:
    fields = {
        "X": np.arange(12.0).reshape(6, 2),
        "Y": np.arange(18.0).reshape(6, 3),
        "inputs": ("a", "b"),
        "outputs": ("u", "v", "w"),
        "likelihoods": ("Gaussian",),
    }
    return Dataset("w", "synthetic", "d", "l", "c", **{**fields, **changed})


def long(**changed) -> Dataset:
    fields = {
        "X": np.arange(20.0).reshape(10, 2),
        "Y": np.array([0, 0, 0, 1, 1, 1, 0, 1, 2, 2], float)[:, None],
        "output": np.array([0] * 6 + [1] * 4),
        "inputs": ("x",),
        "outputs": ("first", "second"),
        "likelihoods": ("Bernoulli", "Softmax"),
        "classes": {"first": ("no", "yes"), "second": ("p", "q", "r")},
        "per_row": {"id": np.arange(10)},
    }
    return Dataset("l", "synthetic", "d", "l", "c", **{**fields, **changed})


def labelled() -> Dataset:
    X = sparse.csr_matrix(np.eye(4, 6))
    Y = sparse.csr_matrix(np.eye(4, 3, dtype=np.uint8))
    return wide(X=X, Y=Y, inputs=("word",), held_out=np.array([0, 0, 1, 1], bool), likelihoods=("Bernoulli",))


def test_long_layout_gives_each_output_its_own_inputs():
    dataset = long()
    data = dataset.data
    assert data.names == ("first", "second")
    for d, name in enumerate(data.names):
        rows = dataset.output == d
        np.testing.assert_array_equal(data.inputs(name), dataset.X[rows])
        np.testing.assert_array_equal(data[name].Y, dataset.Y[rows])
    frame = dataset.frame
    assert list(frame.columns) == ["x0", "x1", "output", "target"]
    assert list(frame["output"]) == ["first"] * 6 + ["second"] * 4


def test_replicas_reach_the_model():
    dataset = wide(replica=np.array([0, 0, 1, 1, 2, 2]))
    for output in dataset.data:
        np.testing.assert_array_equal(output.replica, [0, 0, 1, 1, 2, 2])
    np.testing.assert_array_equal(dataset.frame["replica"], dataset.replica)
    own = long(replica=np.arange(10) % 2).data
    np.testing.assert_array_equal(own["second"].replica, [0, 1, 0, 1])


def test_split_by_rows_keeps_everything_aligned():
    dataset = long(held_out=np.arange(10) % 3 == 0)
    train, test = dataset.train, dataset.test
    np.testing.assert_array_equal(np.sort(np.r_[train.per_row["id"], test.per_row["id"]]), np.arange(10))
    np.testing.assert_array_equal(test.per_row["id"], [0, 3, 6, 9])
    for part in (train, test):
        np.testing.assert_array_equal(part.X, dataset.X[part.per_row["id"]])
        np.testing.assert_array_equal(part.output, dataset.output[part.per_row["id"]])


def test_split_by_targets_partitions_the_observed_targets():
    held = np.zeros((6, 3), bool)
    held[2:4, 1] = held[5, 2] = True
    Y = np.arange(18.0).reshape(6, 3)
    Y[0, 0] = np.nan
    dataset = wide(Y=Y, held_out=held)
    assert len(dataset.train) == 6
    np.testing.assert_array_equal(np.isnan(dataset.train.Y), held | np.isnan(Y))
    np.testing.assert_array_equal(dataset.test.X, dataset.X[[2, 3, 5]])
    np.testing.assert_array_equal(dataset.test.Y[:, 1], [Y[2, 1], Y[3, 1], np.nan])
    assert np.nansum(dataset.train.Y) + np.nansum(dataset.test.Y) == np.nansum(Y)


def test_data_without_published_split_says_how_to_split():
    for part in ("train", "test"):
        with pytest.raises(ValueError, match=r"no published split; use \.split\(test=0\.25\) or \.folds\(5\)"):
            getattr(wide(), part)
    with pytest.raises(ValueError, match="between 0 and 1"):
        wide().split(test=1.0)


def test_random_split_holds_out_a_share_of_each_output():
    train, test = long().split(test=0.5, seed=3)
    assert (np.bincount(train.output), np.bincount(test.output)) == (pytest.approx([3, 2]), pytest.approx([3, 2]))
    again = long().split(test=0.5, seed=3)[1]
    assert again.digest == test.digest != long().split(test=0.5, seed=4)[1].digest


def test_folds_are_a_stratified_partition():
    rng = np.random.default_rng(0)
    Y = rng.choice(3, 300, p=[0.7, 0.2, 0.1]).astype(float)[:, None]
    dataset = wide(
        X=np.arange(300.0)[:, None],
        Y=Y,
        inputs=("x",),
        outputs=("class",),
        classes={"class": ("a", "b", "c")},
    )
    seen = []
    for train, test in dataset.folds(5, seed=1):
        assert len(train) + len(test) == 300
        assert not set(train.X[:, 0]) & set(test.X[:, 0])
        for label in range(3):
            assert abs(np.count_nonzero(label == test.Y) - np.count_nonzero(label == Y) / 5) <= 1
        seen.extend(test.X[:, 0])
    np.testing.assert_array_equal(np.sort(seen), np.arange(300.0))
    with pytest.raises(ValueError, match="1 folds for 300 rows; give 2 to 300"):
        next(dataset.folds(1))


def test_sparse_data_say_how_to_use_them():
    dataset = labelled()
    with pytest.raises(ValueError, match=r"w is sparse .*call \.dense\(\) first"):
        dataset.data  # noqa: B018
    assert dataset.train.X.shape == (2, 6)
    assert dataset.test.Y.nnz == 1
    dense = dataset.dense()
    np.testing.assert_array_equal(dense.X, np.eye(4, 6))
    assert dense.data.num_outputs == 3
    assert dataset.frame.shape == (4, 9)
    with pytest.raises(ValueError, match="must be CSR, not csc"):
        wide(X=sparse.csc_matrix(np.eye(6, 2)))


def test_sparse_arrays_are_put_in_order_before_they_are_locked():
    unsorted = sparse.csr_matrix((np.ones(3), np.array([2, 0, 0]), np.array([0, 2, 3])), shape=(2, 3))
    dataset = wide(X=unsorted, Y=np.ones((2, 3)), inputs=("word",))
    np.testing.assert_array_equal(dataset.X.indices, [0, 2, 0])
    assert dataset.X.sum() == 3
    np.testing.assert_array_equal(unsorted.indices, [2, 0, 0])


def test_nothing_can_be_written():
    for dataset in (wide(), long(), labelled().dense()):
        for array in (dataset.X, dataset.Y, *dataset.per_row.values()):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        labelled().X.data[0] = 1.0


def test_digest_sees_every_part_and_survives_pickling():
    parts = [
        wide(),
        wide(replica=np.arange(6)),
        wide(held_out=np.arange(6) < 2),
        long(),
        long(output=np.arange(10) % 2),
        labelled(),
    ]
    assert len({dataset.digest for dataset in parts}) == len(parts)
    for dataset in parts:
        assert pickle.loads(pickle.dumps(dataset)).digest == dataset.digest


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"Y": np.ones((5, 3))}, "same N"),
        ({"Y": np.ones((6, 2))}, "every column needs one"),
        ({"inputs": ("a", "b", "c")}, "3 names of inputs"),
        ({"likelihoods": ("Gaussian", "Beta")}, "2 of likelihoods"),
        ({"replica": np.arange(4)}, "replica has 4 entries for 6 rows"),
        ({"per_row": {"z": np.arange(7)}}, "z has 7 entries"),
        ({"held_out": np.ones((6, 2), bool)}, r"held_out \(6, 2\) must be"),
        ({"image_shape": (3, 3)}, r"images of \(3, 3\) pixels in 2 columns"),
        ({"classes": {"nothing": ("a",)}}, "'nothing', which is no output"),
        ({"output": np.zeros(6, int)}, "every column needs one"),
        ({"output": np.full(6, 3), "Y": np.ones((6, 1))}, "numbers 0 to 2"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        wide(**changed)


def test_long_lists_are_cut_in_print():
    many = wide(Y=np.ones((6, 40)), outputs=tuple(f"o{d}" for d in range(40)))
    assert repr(many).endswith("o5 (Gaussian), … (40 outputs))")


def test_sparse_inputs_of_dense_targets_stay_sparse():
    dataset = labelled()
    classes = replace(dataset, Y=np.arange(4.0)[:, None], outputs=("class",), held_out=None)
    assert isinstance(classes.data.batches(2)(0).X, tf.SparseTensor)
    np.testing.assert_array_equal(classes.data.X.toarray(), classes.dense().data.X)
