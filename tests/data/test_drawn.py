from __future__ import annotations

from itertools import pairwise

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from mogp.data import MultiOutputData
from mogp.data.batches import BatchSource
from mogp.data.drawn import OutputBatch, each_row, together
from mogp.likelihoods import Bernoulli, Gaussian, HeteroscedasticGaussian, Poisson
from mogp.models import hetmogp_lmc

X = np.linspace(-1, 1, 9)[:, None]


def shared() -> MultiOutputData:
    """Five outputs at the same inputs, one of them with gaps, one without any observation."""
    Y = np.arange(45.0).reshape(9, 5)
    Y[::2, 1] = np.nan
    Y[:, 3] = np.nan
    return MultiOutputData.from_arrays(X, Y)


def apart() -> MultiOutputData:
    """Outputs with inputs of their own; the third has two columns."""
    return MultiOutputData.from_list(
        [(X[:4], np.arange(4.0)), (X[2:], np.arange(7.0)), (X, np.arange(18.0).reshape(9, 2)), (X[5:], -np.arange(4.0))]
    )


def plain(data: MultiOutputData, batch) -> list[OutputBatch]:
    """The rows of each output, looked up in the data by their numbers."""
    found = []
    for own, one in zip(data.outputs, batch.outputs, strict=True):
        at = {int(row): i for i, row in enumerate(own.rows)}
        here = [int(row) in at for row in one.ids.numpy()]
        Y = np.array([own.Y[at.get(int(row), 0)] for row in one.ids.numpy()]).reshape(-1, own.Y.shape[1])
        found.append((np.array(here, bool), Y, one.ids.numpy()))
    return found


@pytest.mark.parametrize("data", [shared(), apart()], ids=["shared", "apart"])
@pytest.mark.parametrize("size", [None, 3])
def test_rows_of_an_output_are_those_of_the_data_and_weigh_as_many_rows_as_it_has(data, size):
    batch = BatchSource(data, size, seed=1)(2)
    inputs = np.asarray(batch.X)
    for d, (here, Y, ids) in enumerate(plain(data, batch)):
        own, one = data[d], batch.outputs[d]
        np.testing.assert_array_equal(one.Y.numpy()[here], Y[here])
        np.testing.assert_array_equal(one.weight.numpy() > 0, here)
        np.testing.assert_array_equal(one.observed.numpy().any(1), here)
        rows = np.arange(len(inputs)) if one.rows is None else one.rows.numpy()
        np.testing.assert_array_equal(inputs[rows], data.X[ids])
        if size is None:
            assert here.sum() == len(own) == one.weight.numpy().sum()
        elif len(own):
            whole = len(data.X) if data.shares_inputs else len(own)
            np.testing.assert_allclose(one.weight.numpy()[here], whole / len(ids))


@pytest.mark.parametrize("data", [shared(), apart()], ids=["shared", "apart"])
@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize("which", [[0], [0, 1], [1, 3], [3, 0, 1], [2, 3]])
def test_rows_read_together_are_those_of_the_outputs_one_after_the_other(data, size, which):
    batch = BatchSource(data, size, seed=1)(2)
    if len({data[d].Y.shape[1] for d in which}) > 1:
        pytest.skip("these outputs have different numbers of columns")
    found = together(batch.outputs, which)
    each = [batch.outputs[d] for d in which]
    assert [int(n) for n in found.sizes] == [len(one.weight) for one in each]
    for name in ("ids", "Y", "observed", "weight"):
        expected = np.concatenate([getattr(one, name).numpy() for one in each])
        np.testing.assert_array_equal(getattr(found.own, name).numpy(), expected)
    every = np.arange(len(batch.X))
    positions = np.concatenate([every if one.rows is None else one.rows.numpy() for one in each])
    rows = np.tile(every, len(which)) if found.own.rows is None else found.own.rows.numpy()
    np.testing.assert_array_equal(rows, positions)
    weights = found.own.weight.numpy()
    starts = np.cumsum([0, *found.sizes])
    sums = [weights[a:b].sum() for a, b in pairwise(starts)]
    np.testing.assert_allclose(found.sums(found.own.weight), sums)
    # A batch that someone wrote down as a tuple is read the same.
    plainly = together(tuple(batch.outputs), which)
    np.testing.assert_array_equal(plainly.own.Y, found.own.Y)
    np.testing.assert_array_equal(plainly.own.weight, found.own.weight)


@pytest.mark.parametrize("sizes", [(2, 2, 2), (1, 0, 3), (tf.constant(2), tf.constant(1), tf.constant(2))])
def test_each_row_has_the_value_of_its_output(sizes):
    values = np.array([5.0, 6.0, 7.0])
    np.testing.assert_array_equal(each_row(values, sizes), np.repeat(values, [int(n) for n in sizes]))


def nodes(outputs: int, size: int | None, kind: type) -> int:
    """Nodes of the graph of a bound and its gradient; one likelihood serves all outputs."""
    Y = np.random.default_rng(0).integers(0, 2, (9, outputs)).astype(float)
    data = MultiOutputData.from_arrays(X, Y)
    model = hetmogp_lmc(data, [kind()] * outputs, latents=2, inducing=3)
    source = model.batches(data, size)

    def loss(step: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            value = model.training_loss(source(step))
        return tape.gradient(value, model.trainable_variables)

    graph = tf.function(loss, autograph=False).get_concrete_function(tf.TensorSpec([], tf.int64))
    return len(graph.graph.as_graph_def().node)


@pytest.mark.parametrize("size", [None, 4])
@pytest.mark.parametrize("kind", [Bernoulli, HeteroscedasticGaussian])
def test_the_graph_of_a_step_does_not_grow_with_the_number_of_like_outputs(size, kind):
    assert nodes(20, size, kind) == nodes(70, size, kind)


def test_predictions_of_mixed_outputs_are_those_of_each_asked_for_alone():
    rng = np.random.default_rng(0)
    kinds = [Gaussian(0.1), Bernoulli(), Gaussian(0.3), Poisson(), Bernoulli(), HeteroscedasticGaussian()]
    data = MultiOutputData.from_arrays(X, rng.integers(0, 2, (9, 6)).astype(float))
    model = hetmogp_lmc(data, kinds, latents=2, inducing=3)
    model.posterior.q_mu.assign(rng.normal(size=model.posterior.q_mu.shape))
    together_, alone = model.predict_y(X), [model.predict_y(X, output=d) for d in range(6)]
    for field in ("mean", "var"):
        expected = np.concatenate([getattr(one, field) for one in alone], 1)
        np.testing.assert_allclose(getattr(together_, field), expected, rtol=1e-12)


@pytest.mark.parametrize("value", [1e-5, 0.1, 30.0])
def test_the_noise_of_a_gaussian_is_transformed_as_gpflows(value):
    ours, theirs = Gaussian(value), gpflow.likelihoods.Gaussian(value)
    np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-12)
    unconstrained = [float(one.variance.unconstrained_variable.numpy()) for one in (ours, theirs)]
    assert unconstrained[0] == pytest.approx(unconstrained[1], rel=1e-12)
    assert ours.variance_lower_bound == theirs.variance_lower_bound
    assert ours.scale_lower_bound == theirs.scale_lower_bound
    assert set(vars(ours)) >= set(vars(theirs))


def test_one_likelihood_that_reads_inputs_predicts_several_outputs_at_their_inputs():
    """Its noise has a standard deviation linear in the input."""
    x = np.linspace(0, 1, 9)[:, None]
    data = MultiOutputData.from_arrays(x, np.column_stack([np.sin(6 * x), np.cos(6 * x)]))
    likelihood = gpflow.likelihoods.Gaussian(scale=gpflow.functions.Linear(A=[[0.5]], b=[0.3]))
    model = hetmogp_lmc(data, [likelihood] * 2, latents=2, inducing=5, scaling=None)
    noise = model.predict_y(x).var - model.predict_f(x).var
    np.testing.assert_allclose(noise, np.tile((0.3 + 0.5 * x) ** 2, [1, 2]), rtol=1e-8)
