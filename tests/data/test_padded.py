"""Outputs side by side in one padded table: what is where, and mini-batches of outputs and of rows."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from mogp.data import MultiOutputData
from mogp.data.padded import PaddedSource, distinct_inputs


def uneven() -> MultiOutputData:
    """Sizes 6, 3 and 1; replicas differ; a row that is there twice; the second shares inputs with the first."""
    x = np.array([0.0, 1, 2, 3, 3, 5])
    return MultiOutputData.from_list(
        [(x, x + 0.1), (x[:3], x[:3] + 0.2), ([7.0], [7.3])],
        replicas=[[0, 0, 1, 1, 1, 2], [0, 2, 2], [1]],
    )


def common(D: int = 4, N: int = 6) -> MultiOutputData:
    return MultiOutputData.from_arrays(
        np.arange(N), np.arange(N * D, dtype=float).reshape(N, D), replica=np.arange(N) % 2
    )


def observations(batch) -> list[tuple[int, float, int, float]]:
    """(output, x, replica, target) of every target of a batch that counts."""
    X, Y = batch.X.numpy(), batch.Y.numpy()
    rows = np.tile(np.arange(len(X)), (len(Y), 1)) if batch.rows is None else batch.rows.numpy()
    weight = np.ones(Y.shape) if batch.weight is None else batch.weight.numpy()
    found = []
    for b, d in enumerate(batch.outputs.numpy()):
        for row, y, w in zip(rows[b], Y[b], weight[b], strict=True):
            if w > 0:
                found.append((int(d), float(X[row, 0]), int(X[row, 1]), float(y)))
    return sorted(found)


def given(data: MultiOutputData) -> list[tuple[int, float, int, float]]:
    return sorted(
        (d, float(x), int(r), float(y))
        for d, o in enumerate(data.outputs)
        for x, r, y in zip(data.inputs(d)[:, 0], o.replica, o.Y[:, 0], strict=True)
    )


# ---------------------------------------------------------------------------------------------------- the whole table


@pytest.mark.parametrize("make", [uneven, common])
def test_a_full_batch_holds_every_observation_once(make):
    data = make()
    batch = PaddedSource(data)(0)
    assert observations(batch) == given(data)
    assert float(batch.scale) == 1
    np.testing.assert_array_equal(batch.outputs, range(data.num_outputs))


def test_places_without_a_target_hold_one_of_the_data():
    """A density may have no value at another number: that of positive targets at zero, say."""
    data = MultiOutputData.from_list([([0.0, 1.0, 2.0], [5.0, 6.0, 7.0]), ([0.0], [8.0])])
    batch = PaddedSource(data)(0)
    assert (batch.weight.numpy() == 0).sum() == 2
    assert set(batch.Y.numpy().ravel()) <= {5.0, 6.0, 7.0, 8.0}


def test_outputs_with_the_same_inputs_and_replicas_need_no_table_of_rows():
    batch = PaddedSource(common())(0)
    assert batch.rows is None
    assert batch.weight is None
    np.testing.assert_array_equal(batch.Y, common().outputs[0].Y[:, 0] + np.arange(4)[:, None])


@pytest.mark.parametrize("change", ["missing", "order", "replica"])
def test_outputs_that_differ_in_rows_order_or_replicas_have_one(change):
    x, y = np.arange(3.0), np.arange(3.0)
    second = {"missing": [1, np.nan, 2], "order": y, "replica": y}[change]
    replica = {"missing": [0, 1, 2], "order": [0, 1, 2], "replica": [0, 1, 1]}[change]
    data = MultiOutputData.from_list([(x, y), (x, second)], replicas=[[0, 1, 2], replica])
    if change == "order":
        data = data.take({"output 1": [2, 1, 0]})
    batch = PaddedSource(data)(0)
    assert batch.rows is not None
    assert observations(batch) == given(data)


def test_distinct_inputs_are_in_the_order_of_the_data_and_replicas_tell_equal_ones_apart():
    data = MultiOutputData.from_long(uneven().frame(), "x", replica="replica")
    X, rows = distinct_inputs(data)
    np.testing.assert_array_equal(X, [[0, 0], [1, 0], [2, 1], [3, 1], [5, 2], [1, 2], [2, 2], [7, 1]])
    for d, (own, where) in enumerate(zip(data.outputs, rows, strict=True)):
        np.testing.assert_array_equal(X[where], np.column_stack([data.inputs(d), own.replica]))


def test_data_without_replicas_have_replica_zero():
    X, _ = distinct_inputs(MultiOutputData.from_arrays([3.0, 4.0], [1.0, 2.0]))
    np.testing.assert_array_equal(X, [[3, 0], [4, 0]])


def test_wide_targets_are_refused():
    wide = MultiOutputData.from_list([([0, 1], np.ones((2, 3)))], names=["wide"])
    with pytest.raises(ValueError, match="one target column an output is expected; wide has more"):
        PaddedSource(wide)


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 outputs a step"),
        (-1, "-1 outputs a step"),
        ((2, 0), "0 rows of each output a step"),
        ((None, 1.5), "1.5 rows"),
        (2.0, "2.0 outputs"),
    ],
)
def test_batch_sizes_out_of_range_are_refused(size, said):
    with pytest.raises(ValueError, match=said):
        PaddedSource(common(), size)


@pytest.mark.parametrize("size", [100, (100, None), (None, 100), (100, 100), np.int64(9)])
def test_batches_larger_than_the_data_are_the_data(size):
    assert observations(PaddedSource(common(), size)(3)) == given(common())


def test_float32_is_float32(float32):
    batch = PaddedSource(uneven(), (2, 2))(0)
    assert {a.dtype for a in (batch.X, batch.Y, batch.weight, batch.scale)} == {tf.float32}
    assert gpflow.default_float() == np.float32


# ------------------------------------------------------------------------------------------------------- mini-batches


@pytest.mark.parametrize("make", [uneven, common])
@pytest.mark.parametrize("seed", [0, 5])
def test_a_pass_over_the_outputs_reads_each_once(make, seed):
    data = make()
    source = PaddedSource(data, 1, seed)
    for turn in range(3):
        seen = [source(turn * data.num_outputs + i) for i in range(data.num_outputs)]
        assert sorted(int(b.outputs[0]) for b in seen) == list(range(data.num_outputs))
        assert sorted(o for b in seen for o in observations(b)) == given(data)
        assert all(float(b.scale) == data.num_outputs for b in seen)


@pytest.mark.parametrize("outputs", [None, 2])
def test_a_pass_over_outputs_and_rows_reads_every_observation_once(outputs):
    """Four outputs of six rows: two and three of them a step, so that four steps read all of them once."""
    data, B = common(), outputs or 4
    source = PaddedSource(data, (outputs, 3), seed=2)
    for turn in range(3):
        steps = 2 * (4 // B)
        seen = [source(turn * steps + i) for i in range(steps)]
        assert sorted(o for b in seen for o in observations(b)) == given(data)
        assert all(np.all(b.weight.numpy() == 2 * 4 / B) for b in seen)


def test_an_output_with_fewer_rows_than_asked_gives_them_all_and_counts_in_full():
    """Sizes 6, 3, 1 and four rows of each: weights 6/4, 1 and 1, nothing twice in a batch."""
    source = PaddedSource(uneven(), (None, 4))
    for step in range(4):
        batch = source(step)
        np.testing.assert_allclose(batch.weight, [[1.5] * 4, [1, 1, 1, 0], [1, 0, 0, 0]])
        seen = observations(batch)
        assert len([o for o in seen if o[0] == 0]) == 4
        assert [o for o in seen if o[0] > 0] == [o for o in given(uneven()) if o[0] > 0]


def test_weights_average_to_one_an_observation():
    """Outputs in a batch of two of three, rows in one of two: over the steps after which both repeat."""
    data = uneven()
    source = PaddedSource(data, (2, 2), seed=1)
    steps, total = 3 * 3 * 2, {}
    for step in range(steps):
        batch = source(step)
        X = batch.X.numpy()
        for b, d in enumerate(batch.outputs.numpy()):
            for row, y, w in zip(batch.rows[b].numpy(), batch.Y[b].numpy(), batch.weight[b].numpy(), strict=True):
                name = (int(d), *X[row], float(y))
                total[name] = total.get(name, 0.0) + w / steps
    by_output = [sum(w for name, w in total.items() if name[0] == d) for d in range(3)]
    np.testing.assert_allclose(by_output, data.sizes, rtol=1e-12)


def test_a_step_is_a_function_of_the_seed_and_its_number():
    data = common(D=9)
    for size in (3, (3, 2), (None, 2)):
        one, same, other = (PaddedSource(data, size, seed) for seed in (1, 1, 2))
        assert all(observations(one(s)) == observations(same(s)) for s in range(4))
        assert any(observations(one(s)) != observations(other(s)) for s in range(4))


def test_batches_are_drawn_inside_a_compiled_graph_with_static_shapes():
    source = PaddedSource(uneven(), (2, 3))
    drawn = tf.function(source, autograph=False, input_signature=[tf.TensorSpec([], tf.int64)])
    graph = drawn.get_concrete_function().graph
    assert not [op.type for op in graph.get_operations() if "PyFunc" in op.type]
    batch = drawn(tf.constant(4, tf.int64))
    assert batch.Y.shape == batch.rows.shape == (2, 3)
    assert observations(batch) == observations(source(4))
