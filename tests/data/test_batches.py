from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from mogp.data import MultiOutputData
from mogp.data.batches import BatchSource, shuffled


def passes(size: int, count: int, seed: int = 0) -> np.ndarray:
    return shuffled(tf.range(size * count, dtype=tf.int64), size, seed).numpy().reshape(count, size)


# ------------------------------------------------------------------------------------------------- the shuffle


def test_every_pass_is_a_permutation_for_small_sizes():
    for size in range(1, 301):
        np.testing.assert_array_equal(np.sort(passes(size, 4), axis=1), np.tile(np.arange(size), (4, 1)))


@pytest.mark.parametrize("size", [255, 256, 257, 1023, 1025, 65_537, 100_003])
def test_every_pass_is_a_permutation_for_large_sizes(size):
    np.testing.assert_array_equal(np.sort(passes(size, 2, seed=9), axis=1), np.tile(np.arange(size), (2, 1)))


@pytest.mark.parametrize("size", [3, 7, 61, 10**4 + 1, 10**7 + 19, (1 << 40) + 15, 10**15])
def test_the_first_row_of_a_pass_is_any_row_equally_often(size):
    first = np.concatenate([shuffled(tf.range(2000, dtype=tf.int64) * size, size, seed).numpy() for seed in range(3)])
    bins = min(size, 50)
    counts = np.bincount((first.astype(object) * bins // size).astype(int), minlength=bins)
    # Whole numbers do not fall into equal bins: each has the share of the rows that it holds.
    edges = np.array([-(-b * size // bins) for b in range(bins + 1)], dtype=float)
    assert stats.chisquare(counts, len(first) * np.diff(edges) / size).pvalue > 1e-4


@pytest.mark.parametrize("size", [12, 1000, 10**12])
def test_first_rows_of_passes_and_of_seeds_that_follow_each_other_are_unrelated(size):
    passes_ = shuffled(tf.range(4000, dtype=tf.int64) * size, size, 5).numpy() / size
    seeds = shuffled(tf.zeros(4000, tf.int64), size, tf.range(4000, dtype=tf.int64)).numpy() / size
    for values in (passes_, seeds):
        assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.07
        assert abs(values.mean() - 0.5 * (size - 1) / size) < 0.02


def test_huge_tables_cost_only_the_rows_asked_for():
    size = 10**12
    picked = shuffled(tf.range(1000, dtype=tf.int64) + 7 * size, size, 1).numpy()
    assert len(np.unique(picked)) == 1000
    assert 0 <= picked.min() < picked.max() < size
    assert stats.kstest(picked / size, "uniform").pvalue > 1e-3


def test_passes_and_seeds_differ():
    first, second = passes(50, 2)
    other = passes(50, 1, seed=1)[0]
    for a, b in ((first, second), (first, other), (second, other)):
        assert (a == b).mean() < 0.2


@pytest.mark.parametrize("size", [2, 3, 5, 16, 37])
def test_every_row_comes_at_every_position_equally_often(size):
    table = passes(size, 200 * size)
    counts = np.stack([(table == row).sum(0) for row in range(size)])
    expected = np.full_like(counts, 200)
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert stats.chi2.sf(statistic, (size - 1) ** 2) > 1e-4


def test_all_orders_of_three_rows_are_equally_likely():
    orders = passes(3, 6000)
    counts = np.unique(orders @ [9, 3, 1], return_counts=True)[1]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 1e-4


def test_neighbours_do_not_stay_neighbours():
    order = passes(1000, 1)[0]
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.12
    assert abs(np.corrcoef(order, np.arange(1000))[0, 1]) < 0.12


# ------------------------------------------------------------------------------------------------- the batches


def flat(batch) -> list[np.ndarray]:
    return [np.asarray(t) for t in tf.nest.flatten((batch.X, tuple(batch.outputs)))]


@pytest.mark.parametrize("size", [4, {"full": 5, "gaps": 2, "own": 3}])
def test_a_step_gives_the_same_batch_eagerly_in_a_graph_and_compiled(uneven, size):
    source = BatchSource(uneven, size, seed=3)
    graph = tf.function(source)
    compiled = tf.function(source, jit_compile=True)
    for step in (0, 1, 17, 100_000):
        number = tf.constant(step, tf.int64)
        for other in (graph(number), compiled(number), BatchSource(uneven, size, seed=3)(step)):
            for a, b in zip(flat(source(step)), flat(other), strict=True):
                np.testing.assert_array_equal(a, b)


def test_rows_of_a_batch_are_rows_of_the_data(uneven):
    for size in (4, [5, 2, 3]):
        batch = BatchSource(uneven, size)(2)
        for output, own in zip(uneven, batch.outputs, strict=True):
            rows = np.arange(len(batch.X)) if own.rows is None else own.rows.numpy()
            np.testing.assert_array_equal(batch.X.numpy()[rows], uneven.X[own.ids.numpy()])
            target = dict(zip(output.rows, output.Y[:, 0], strict=True))
            for row, y, weight, observed in zip(
                own.ids.numpy(), own.Y.numpy()[:, 0], own.weight.numpy(), own.observed.numpy()[:, 0], strict=True
            ):
                assert observed == (weight > 0) == (row in target)
                assert not weight or y == target[row]


def test_each_output_has_the_batch_size_asked_for_and_no_more_than_its_rows(uneven):
    batch = BatchSource(uneven, {"own": 50, "full": 4, "gaps": 1})(0)
    assert [len(o.Y) for o in batch.outputs] == [4, 1, 5]
    assert [float(o.weight[0]) for o in batch.outputs] == [3.0, 9.0, 1.0]


def test_weights_are_exact_in_double_precision(shared):
    """A Python number that passes through float32 on its way would be off by 1e-8."""
    for own in (*BatchSource(shared, 7)(0).outputs, *BatchSource(shared, [7, 7, 7])(0).outputs[:1]):
        assert set(own.weight.numpy()) <= {0.0, 12 / 7}


def test_outputs_with_rows_of_their_own_are_shuffled_differently():
    data = MultiOutputData.from_list([(np.arange(40.0), np.arange(40.0)), (np.arange(40.0) + 0.5, np.arange(40.0))])
    batch = BatchSource(data, 40)(0)
    assert not np.array_equal(batch.outputs[0].Y, batch.outputs[1].Y)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_partition_of_the_rows_sees_every_target_once(shared, seed):
    source = BatchSource(shared, 4, seed)
    assert source.steps_per_epoch == 3
    seen = {name: [] for name in shared.names}
    for step in range(3):
        for name, own in zip(shared.names, source(step).outputs, strict=True):
            seen[name] += list(own.Y.numpy()[own.weight.numpy() > 0, 0])
    for output in shared:
        np.testing.assert_array_equal(np.sort(seen[output.name]), np.sort(output.Y[:, 0]))


def test_seeds_give_different_batches(shared):
    a, b = (BatchSource(shared, 6, seed)(0).outputs[0].ids.numpy() for seed in (0, 1))
    assert not np.array_equal(a, b)


def test_no_size_gives_all_rows_in_order(uneven):
    batch = BatchSource(uneven)(5)
    np.testing.assert_array_equal(batch.X, uneven.X)
    for output, own in zip(uneven, batch.outputs, strict=True):
        np.testing.assert_array_equal(own.Y, output.Y)
        np.testing.assert_array_equal(own.weight, np.ones(len(output)))


def test_replicas_travel_with_their_rows():
    data = MultiOutputData.from_arrays(np.arange(6.0), np.arange(12.0).reshape(6, 2), replica=[0, 1, 2, 3, 4, 5])
    for size in (4, [2, 5]):
        for own in BatchSource(data, size)(1).outputs:
            np.testing.assert_array_equal(own.replica, own.ids)


def test_numpy_sizes_mean_what_plain_ones_mean(shared):
    for given, plain in ((np.int64(4), 4), (np.array([4, 3, 2]), [4, 3, 2])):
        for a, b in zip(flat(BatchSource(shared, given)(0)), flat(BatchSource(shared, plain)(0)), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("size", "error", "said"),
    [
        (0, ValueError, "at least 1, got"),
        (-3, ValueError, "at least 1"),
        (2.5, ValueError, "whole numbers"),
        ([1, 2], ValueError, "2 batch sizes for 3 outputs"),
        ([1, 2, 0], ValueError, r"got \[1, 2, 0\]"),
        ({"a": 1, "b": 2}, ValueError, "no batch size for output 'c'"),
        ({"a": 1, "b": 2, "z": 3}, KeyError, "no output 'z'"),
    ],
)
def test_wrong_sizes_are_refused_with_what_was_given(shared, size, error, said):
    with pytest.raises(error, match=said):
        shared.batches(size)
