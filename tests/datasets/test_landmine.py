"""The landmine fields have the sizes and the imbalance that were published."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.io
from alike import assert_alike, assert_same_options
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from mogp.datasets import DataFormatError
from mogp.datasets.landmine import ENTRIES, FILE, SHAPES, landmine, landmine_standin, read_fields


@pytest.fixture
def mirror(shared_data, monkeypatch):
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    return shared_data


def test_fields_are_the_cells_of_the_file(mirror):
    cells = scipy.io.loadmat(mirror / FILE)
    data = landmine(tasks=range(1, 30), standardise=False)
    assert (len(data), data.Y.sum()) == (14820, 904)
    for d in range(29):
        np.testing.assert_array_equal(data.X[data.output == d], cells["feature"][0, d])
        np.testing.assert_array_equal(data.Y[data.output == d], cells["label"][0, d])


def test_first_ten_fields_are_the_default(mirror):
    data = landmine()
    assert data.outputs == tuple(f"task {t}" for t in range(1, 11))
    np.testing.assert_array_equal(np.bincount(data.output), [690, 690, 689, 508, 509, 509, 510, 511, 508, 509])
    assert data.classes["task 1"] == ("clutter", "mine")
    np.testing.assert_allclose(data.X.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(data.X.std(axis=0), 1)
    raw = landmine(standardise=False)
    np.testing.assert_allclose(data.X * data.extras["sd"] + data.extras["mean"], raw.X)
    assert data.data.names == data.outputs


def test_fields_come_in_the_order_asked_for(mirror):
    data, all_of_them = landmine(tasks=(7, 2), standardise=False), landmine(standardise=False)
    assert data.outputs == ("task 7", "task 2")
    np.testing.assert_array_equal(data.X[data.output == 0], all_of_them.X[all_of_them.output == 6])
    np.testing.assert_array_equal(data.Y[data.output == 1], all_of_them.Y[all_of_them.output == 1])


@pytest.mark.parametrize("tasks", [(), (0,), (30,), (1, 1)])
def test_unknown_fields_are_refused(tasks):
    with pytest.raises(ValueError, match="1 to 29"):
        landmine_standin(tasks=tasks)


def cells(count=29, rows=3):
    features, labels = np.empty((1, count), object), np.empty((1, count), object)
    for d in range(count):
        features[0, d], labels[0, d] = np.ones((rows, 9)), np.zeros((rows, 1))
    return {"feature": features, "label": labels}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda _: cells(28), "28 fields"),
        (lambda c: c["feature"].__setitem__((0, 4), np.ones((3, 8))), "field 5 has features"),
        (lambda c: c["label"].__setitem__((0, 4), np.zeros((2, 1))), "field 5 has features"),
        (lambda c: c["label"].__setitem__((0, 4), np.full((3, 1), 2.0)), "field 5 has labels other"),
        (lambda c: c["feature"].__setitem__((0, 4), np.full((3, 9), np.nan)), "not finite"),
    ],
)
def test_damaged_files_are_refused(tmp_path, damage, message):
    content = cells()
    scipy.io.savemat(tmp_path / "good.mat", content)
    assert len(read_fields(tmp_path / "good.mat")) == 29
    scipy.io.savemat(tmp_path / "bad.mat", damage(content) or content)
    with pytest.raises(DataFormatError, match=message):
        read_fields(tmp_path / "bad.mat")


def auc(data):
    """Of a linear classifier of all fields together, trained on every other point."""
    model = LogisticRegression(class_weight="balanced").fit(data.X[::2], data.Y[::2, 0])
    return roc_auc_score(data.Y[1::2, 0], model.decision_function(data.X[1::2]))


def test_standin_has_the_form_and_difficulty_of_the_real_fields(mirror):
    assert_same_options(ENTRIES["landmine"])
    real, standin = landmine(tasks=range(1, 30)), landmine_standin(tasks=range(1, 30))
    assert_alike(real, standin)
    np.testing.assert_array_equal(standin.output, real.output)
    np.testing.assert_array_equal(np.bincount(standin.output, standin.Y[:, 0]), np.bincount(real.output, real.Y[:, 0]))
    assert auc(standin) == pytest.approx(auc(real), abs=0.15)
    assert auc(landmine_standin()) == pytest.approx(auc(landmine()), abs=0.15)
    assert standin.digest == landmine_standin(tasks=range(1, 30)).digest


def test_shape_is_that_of_the_readme(mirror):
    sizes = "[690, 690, 689, 508, 509, 509, 510, 511, 508, 509]"
    expected = f"29 tasks, 14820 rows x 9 features; tasks 1-10 n={sizes}; positives 904"
    assert SHAPES[FILE](mirror / FILE) == expected
