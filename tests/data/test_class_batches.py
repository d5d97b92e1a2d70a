"""The one protocol of batches, and batches of one class each."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from mogp.data import LabelData, MultiOutputData
from mogp.data.batches import Batches, BatchSource, LabelBatches
from mogp.data.class_batches import ClassBatches, class_labels
from mogp.data.padded import PaddedSource


def labelled(Y=(0, 1, 2, 0, 1, 0)) -> MultiOutputData:
    return MultiOutputData.from_arrays(np.arange(float(len(Y))), list(Y), names=["kind"])


SOURCES = [
    (BatchSource, labelled()),
    (ClassBatches, labelled()),
    (PaddedSource, labelled()),
    (LabelBatches, LabelData.of(np.eye(6), [[0]] * 6)),
]


@pytest.mark.parametrize(("source", "data"), SOURCES, ids=lambda s: getattr(s, "__name__", ""))
def test_all_sources_follow_one_protocol(source, data):
    assert list(inspect.signature(source).parameters)[:3] == ["data", "size", "seed"]
    made = source(data, 2, 5)
    assert isinstance(made, Batches)
    assert made.seed == 5
    assert made.steps_per_epoch >= 1
    assert isinstance(made.steps_per_epoch, int)
    assert made(0) is not None
    assert source(data).seed == 0


@pytest.mark.parametrize(("size", "steps"), [(None, 1), (2, 2), ((None, 4), 2), ((2, 1), 12), ((3, 6), 1)])
def test_an_epoch_of_a_padded_table_sees_outputs_and_rows(size, steps):
    data = MultiOutputData.from_arrays(np.arange(6.0), np.ones((6, 3)))
    assert PaddedSource(data, size).steps_per_epoch == steps


def test_the_number_of_classes_is_that_of_the_data_unless_it_is_said():
    assert ClassBatches(labelled()).classes == ClassBatches(labelled(), classes=3).classes == 3
    named = MultiOutputData.from_arrays(np.arange(3.0), ["b", "a", "b"])
    assert ClassBatches(named).classes == 2
    with pytest.raises(ValueError, match="1 of 4 classes of 'kind' have no rows"):
        ClassBatches(labelled(), classes=4)


def test_rows_of_a_batch_are_rows_of_its_class_and_weights_are_exact():
    source = ClassBatches(labelled(), size=2, seed=1, rivals=1)
    kinds, counts = np.array([0, 1, 2, 0, 1, 0]), {0: 3, 1: 2, 2: 1}
    for step in range(9):
        batch = source(step)
        k = int(batch.classes[0])
        rows = batch.X.numpy()[:, 0].astype(int)
        assert set(kinds[rows]) == {k}
        assert len(rows) == min(2, counts[k])
        assert float(batch.weight) == 2 * counts[k] / len(rows)
        assert int(batch.classes[1]) != k


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"size": 0}, "batches of 0 rows"),
        ({"rivals": 0}, "rivals=0"),
        ({"classes": 2}, "has the label 2.0 at row 2; labels must be whole numbers 0 to 1"),
    ],
)
def test_wrong_sizes_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        ClassBatches(labelled(), **options)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (MultiOutputData.from_arrays([0.0], [[0, 1]]), "labels of one output are needed, the data have 2"),
        (labelled([0, 0]), "rows of one class only"),
        (labelled([0, 2]), r"1 of 3 classes of 'kind' have no rows \(1\)"),
        (labelled([0.5, 1]), "has the label 0.5 at row 0"),
        (
            MultiOutputData.from_arrays([0.0, 1, 2], np.array(["a", "c", "d"])).take({"output 0": [0, 2]}),
            r"1 of 3 classes of 'output 0' have no rows \('c'\)",
        ),
    ],
)
def test_labels_that_cannot_be_compared_are_refused(data, said):
    with pytest.raises(ValueError, match=said):
        class_labels(data)
