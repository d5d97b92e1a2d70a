"""Tables keep sparse inputs sparse, and are otherwise the tables of dense ones."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy.sparse import coo_array, csr_array, csr_matrix, issparse

from mogp import MultiOutputData
from mogp.data import Scaling, distinct_rows
from mogp.data.batches import gather_rows
from mogp.data.class_batches import ClassBatches
from mogp.errors import UnsupportedError
from mogp.inducing import cluster_centres, distinct_points, kmeans_points, subset_points
from mogp.models.lengthscales import start_lengthscales


@pytest.fixture
def X(rng) -> np.ndarray:
    inputs = (rng.random((30, 7)) < 0.3) * rng.integers(-2, 3, (30, 7)).astype(float)
    inputs[12], inputs[20], inputs[5] = inputs[3], inputs[3], 0
    return inputs


@pytest.fixture
def pairs(X, rng) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(X[:20], rng.integers(0, 3, 20)), (X[10:], rng.integers(0, 2, 20)), (X[:0], np.empty(0))]


def both(pairs) -> tuple[MultiOutputData, MultiOutputData]:
    return MultiOutputData.from_list(pairs), MultiOutputData.from_list([(csr_matrix(x), y) for x, y in pairs])


def same(sparse: MultiOutputData, dense: MultiOutputData) -> None:
    assert issparse(sparse.X)
    np.testing.assert_array_equal(sparse.X.toarray(), dense.X)
    for own, other in zip(sparse, dense, strict=True):
        np.testing.assert_array_equal(own.rows, other.rows)
        np.testing.assert_array_equal(own.Y, other.Y)


def test_rows_of_lists_are_joined_as_dense_ones_are(pairs):
    dense, sparse = both(pairs)
    assert dense.X.shape[0] < 40
    same(sparse, dense)


def test_parts_are_those_of_dense_tables(pairs):
    dense, sparse = both(pairs)
    same(sparse.take({"output 0": [4, 2]}), dense.take({"output 0": [4, 2]}))
    for own, other in zip(sparse.split(seed=3), dense.split(seed=3), strict=True):
        same(own, other)
    np.testing.assert_array_equal(sparse.inputs(1).toarray(), dense.inputs(1))
    assert sparse.frame().equals(dense.frame())
    assert "sparse" in repr(sparse)


@pytest.mark.parametrize("form", [csr_matrix, csr_array, coo_array])
def test_any_form_and_any_order_of_entries_is_the_same_table(form, X, rng):
    y = rng.normal(size=30)
    one, other = MultiOutputData.from_arrays(csr_array(X), y), MultiOutputData.from_arrays(form(X), y)
    assert one.fingerprint == other.fingerprint
    changed = X.copy()
    changed[0, 0] += 1
    assert MultiOutputData.from_arrays(form(changed), y).fingerprint != one.fingerprint


def test_distinct_rows_come_in_the_order_of_dense_ones(X):
    stored = csr_array(X)
    first, which = distinct_rows(stored)
    found, at, inverse = np.unique(X, axis=0, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(stored[first].toarray(), found)
    np.testing.assert_array_equal(first, at)
    np.testing.assert_array_equal(which, inverse.reshape(-1))


def test_zeros_that_are_stored_make_no_row_another(X):
    stored = csr_array(X)
    stored.data[:3] = 0
    first, which = distinct_rows(stored)
    np.testing.assert_array_equal(stored[first].toarray()[which], stored.toarray())
    assert len(first) == len(np.unique(stored.toarray(), axis=0))


@pytest.mark.parametrize("size", [None, 5, {"output 0": 4, "output 1": 3}])
def test_batches_carry_the_rows_of_dense_ones(size, pairs):
    dense, sparse = (data.batches(size, seed=2) for data in both(pairs))
    for step in range(3):
        own, other = sparse(step), dense(step)
        assert isinstance(own.X, tf.SparseTensor)
        np.testing.assert_array_equal(tf.sparse.to_dense(own.X), other.X)
        for a, b in zip(own.outputs, other.outputs, strict=True):
            np.testing.assert_array_equal(a.ids, b.ids)


def test_batches_of_a_class_carry_its_rows(X):
    labels = np.arange(30) % 3
    sparse, dense = (ClassBatches(MultiOutputData.from_arrays(x, labels), 4, seed=1) for x in (csr_array(X), X))
    np.testing.assert_array_equal(tf.sparse.to_dense(sparse(5).X), dense(5).X)


def test_rows_of_a_sparse_tensor_are_gathered(X):
    picked = [4, 4, 0, 29]
    rows = tf.function(gather_rows)(tf.sparse.from_dense(X), tf.constant(picked))
    np.testing.assert_array_equal(tf.sparse.to_dense(rows), X[picked])


def test_scaling_leaves_sparse_inputs_alone_and_makes_them_dense_where_it_was_not_made_of_them(X, rng):
    y = rng.normal(size=30)
    dense, sparse = MultiOutputData.from_arrays(X, y), MultiOutputData.from_arrays(csr_array(X), y)
    assert Scaling.of(sparse).data(sparse).X is sparse.X
    scaling = Scaling.of(dense)
    np.testing.assert_array_equal(scaling.data(sparse).X, scaling.data(dense).X)


def test_start_values_are_those_of_dense_inputs(pairs, X):
    dense, sparse = both(pairs)
    np.testing.assert_array_equal(distinct_points(sparse).toarray(), distinct_points(dense))
    for choose in (kmeans_points, subset_points):
        np.testing.assert_allclose(choose(sparse, 4, seed=1).Z, choose(dense, 4, seed=1).Z, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(cluster_centres(csr_array(X), 30), X)
    for rule in ("diagonal", "range", "columns", "median"):
        assert start_lengthscales(csr_array(X), rule) == start_lengthscales(X, rule)


def test_errors_say_what_is_wrong(X):
    with pytest.raises(ValueError, match="are dense, those of 'output 0' are sparse; give all alike"):
        MultiOutputData.from_list([(csr_array(X), np.arange(30)), (X, np.arange(30))])
    with pytest.raises(ValueError, match="X has 1 entries that are NaN or infinite"):
        MultiOutputData.from_arrays(csr_array([[np.nan, 0.0]]), [1.0])
    with pytest.raises(ValueError, match="complex"):
        MultiOutputData.from_arrays(csr_array([[1j]]), [1.0])
    with pytest.raises(ValueError, match="X has 30 rows and Y has 2"):
        MultiOutputData.from_arrays(csr_array(X), [1.0, 2.0])


def test_models_that_read_no_sparse_inputs_say_what_to_do(X, rng):
    from mogp.kernels import Patches
    from mogp.models import GPAR, HGP, ExactLMC, gplar, hmogp_lv, mocgps_ar

    data = MultiOutputData.from_arrays(csr_array(X), rng.normal(size=(30, 2)))
    for make in (ExactLMC, HGP, GPAR, gplar, hmogp_lv):
        with pytest.raises(UnsupportedError, match="toarray"):
            make(data)
    images = MultiOutputData.from_arrays(csr_array(rng.random((6, 16))), np.arange(6) % 3)
    with pytest.raises(UnsupportedError, match="toarray"):
        mocgps_ar(images, patches=Patches((4, 4), (2, 2)))
    dense = MultiOutputData.from_arrays(X, rng.normal(size=(30, 2)))
    with pytest.raises(UnsupportedError, match="toarray"):
        ExactLMC(dense).predict_y(csr_array(X))
