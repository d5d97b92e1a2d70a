"""Fingerprints: the same for the same data, another for anything that differs."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from mogp.data import InputColumn, LabelData, MultiOutputData


def data() -> MultiOutputData:
    return MultiOutputData.from_arrays(
        [[0.0, 1.0], [2.0, 3.0]], [[1.0, 2.0], [3.0, np.nan]], names=["a", "b"], replica=[0, 1]
    )


def first(**change) -> MultiOutputData:
    given = data()
    return replace(given, outputs=(replace(given.outputs[0], **change), given.outputs[1]))


def test_the_same_data_have_the_same_fingerprint_of_16_hex_digits():
    assert re.fullmatch("[0-9a-f]{16}", data().fingerprint)
    assert data().fingerprint == data().fingerprint
    again = MultiOutputData.from_long(data().frame(), ["x0", "x1"], replica="replica", like=data())
    assert again.fingerprint == data().fingerprint


@pytest.mark.parametrize(
    "other",
    [
        lambda: replace(data(), X=data().X + 1e-12),
        lambda: replace(data(), columns=(InputColumn("lon"), InputColumn())),
        lambda: replace(data(), columns=(InputColumn(date=True), InputColumn())),
        lambda: replace(data(), nested=True),
        lambda: replace(data(), outputs=data().outputs[::-1]),
        lambda: replace(data(), outputs=data().outputs[:1]),
        lambda: first(name="z"),
        lambda: first(rows=np.array([1, 0])),
        lambda: first(Y=np.array([[1.0], [3.5]])),
        lambda: first(observed=np.array([[True], [False]])),
        lambda: first(replica=np.array([1, 1])),
        lambda: first(replica=None),
        lambda: first(classes=("u", "v")),
        lambda: data().take({"a": [0]}),
    ],
)
def test_anything_that_differs_changes_it(other):
    assert other().fingerprint != data().fingerprint


def test_index_types_of_a_platform_do_not_matter():
    assert first(rows=data()[0].rows.astype(np.int32)).fingerprint == data().fingerprint


def test_it_is_computed_once(monkeypatch):
    import mogp.data.table as table

    given, calls = data(), []
    monkeypatch.setattr(table, "fingerprint", lambda *parts: calls.append(1) or "f")
    assert [given.fingerprint, given.fingerprint] == ["f", "f"]
    assert len(calls) == 1


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_points_with_labels_have_one_too(form):
    X, Y = np.diag([1.0, 2.0, 3.0]), [[0], [1], [0, 1]]
    given = LabelData.of(form(X), Y)
    assert re.fullmatch("[0-9a-f]{16}", given.fingerprint)
    assert given.fingerprint == LabelData.of(form(X), csr_array([[1, 0], [0, 1], [1, 1]])).fingerprint
    for other in (
        LabelData.of(form(X * 2), Y),
        LabelData.of(form(X[[1, 0, 2]]), Y),
        LabelData.of(form(X), [[1], [1], [0, 1]]),
        LabelData.of(form(X), Y, labels=3),
        LabelData.of(form(X), Y, name="tags"),
        given.take([0, 1]),
    ):
        assert other.fingerprint != given.fingerprint


def test_long_and_short_indices_of_a_sparse_matrix_are_the_same_data():
    short = LabelData.of(csr_array(np.eye(3)), [[0], [1], [0]])
    long = csr_array(
        (short.X.data, short.X.indices.astype(np.int64), short.X.indptr.astype(np.int64)), shape=short.X.shape
    )
    assert LabelData(long, short.Y).fingerprint == short.fingerprint
