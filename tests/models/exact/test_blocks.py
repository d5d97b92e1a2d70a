"""Elimination of the blocks of a tree of functions, against the dense covariance of all rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from dense_latent import levels_of, matern32
from test_exact_hierarchies import NEW, THREE, grid_data

from mogp.data import MultiOutputData
from mogp.models import DHGP
from mogp.models.exact import hierarchies
from mogp.models.exact.blocks import TreeBlocks


def missing_replicas(D: int = 5, R: int = 3, N: int = 4) -> MultiOutputData:
    """Each replica has inputs of its own, which all outputs share; output `d` has no replica `d % R`."""
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0, 3, size=(R, N)), 1)
    kept = [[r for r in range(R) if r != d % R] for d in range(D)]
    return MultiOutputData.from_list(
        [(x[own].ravel(), rng.normal(size=(len(own) * N, 1))) for own in kept],
        replicas=[np.repeat(own, N) for own in kept],
    )


def with_gaps() -> MultiOutputData:
    """A table in which a third of the targets is missing."""
    data = grid_data(D=4, R=3, N=5)
    Y = np.column_stack([o.Y for o in data.outputs])
    Y[np.random.default_rng(2).uniform(size=Y.shape) < 1 / 3] = np.nan
    return MultiOutputData.from_arrays(data.X, Y, replica=data.outputs[0].replica)


def unequal() -> MultiOutputData:
    """Two input columns, repeated rows, replicas of any length, an output of a single row."""
    rng = np.random.default_rng(3)
    sizes = (7, 1, 12, 9)
    return MultiOutputData.from_list(
        [(rng.integers(0, 3, size=(n, 2)).astype(float), rng.normal(size=(n, 1))) for n in sizes],
        replicas=[rng.integers(0, 1 + n // 3, n) for n in sizes],
    )


MADE = [grid_data, missing_replicas, with_gaps, unequal]


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Callable[[MultiOutputData], tuple[DHGP, DHGP]]:
    """The same model by blocks and dense."""

    def build(data: MultiOutputData) -> tuple[DHGP, DHGP]:
        models = []
        for cost in (0, np.inf):
            monkeypatch.setattr(hierarchies, "_COST_OF_BLOCKS", cost)
            models.append(DHGP(data, kernel=levels_of(THREE), noise=0.3))
        assert [model._blocks is None for model in models] == [False, True]
        return models[0], models[1]

    return build


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_blocks_of_any_tree_factorise_its_covariance(depth, seed):
    """Any number of levels, inputs that repeat within leaves and between them, leaves of one row."""
    rng = np.random.default_rng(seed)
    rows, x = 25, np.linspace(0, 2, 6)
    place = rng.integers(0, len(x), rows)
    place[: len(x)] = np.arange(len(x))
    path = np.cumsum(rng.integers(0, 3, size=(rows, depth)) * 3.0 ** -np.arange(depth), 1)
    nodes = [np.unique(column.round(6), return_inverse=True)[1] for column in path.T[::-1]]
    kernels = [matern32(x[:, None], x[:, None], v, s) for v, s in [(1.0, 0.5), (0.3, 2.0), (2.0, 0.1), (0.5, 1.0)]]
    C = 0.2 * np.eye(rows)
    for node, K in zip(nodes, kernels, strict=False):
        C += (node[:, None] == node) * K[np.ix_(place, place)]
    found = TreeBlocks(place, nodes).factorise([tf.constant(K) for K in kernels[:depth]], tf.constant(0.2, tf.float64))
    A = found.whiten(tf.eye(rows, dtype=tf.float64)).numpy()
    np.testing.assert_allclose(A.T @ A, np.linalg.inv(C), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.logdet, np.linalg.slogdet(C)[1], rtol=1e-10)


@pytest.mark.parametrize("make", MADE)
def test_objective_and_gradient_by_blocks_are_the_dense_ones(make, both):
    found = []
    for model in both(make()):
        with tf.GradientTape() as tape:
            value = model.training_loss()
        found.append((value, *tape.gradient(value, model.trainable_variables)))
    for blocks, dense in zip(*found, strict=True):
        np.testing.assert_allclose(blocks, dense, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("make", MADE)
def test_predictions_by_blocks_are_the_dense_ones(make, both):
    """Marginals, covariances and draws; replicas that were seen, that were not, and mixed ones."""
    data = make()
    X = np.repeat(NEW[:, None], data.input_dim, 1)
    known = {data.names[1]: np.array([0.5, np.nan, 0.1, np.nan, np.nan, 2.0])}
    for replica in (1, np.array([0, 1, 1, 2, 7, 0])):
        found = [
            (
                *model.predict_f(X, replica=replica),
                *model.predict_y(X, data.names[0], replica=replica),
                model.predict_f(X, replica=replica, full_cov=True).var,
                *model.predict_y(X, replica=replica, given=known),
                model.predict_f_samples(X, samples=2, seed=1, replica=replica),
            )
            for model in both(data)
        ]
        for blocks, dense in zip(*found, strict=True):
            np.testing.assert_allclose(blocks, dense, rtol=1e-8, atol=1e-8)


def test_densities_by_blocks_are_the_dense_ones(both):
    blocks, dense = (model.predict_log_density(missing_replicas()) for model in both(missing_replicas()))
    for name, found in blocks.items():
        np.testing.assert_allclose(found, dense[name], rtol=1e-9)


def test_equal_inputs_share_their_matrices():
    """A complete table has one block for each level, of the size of a replica, whatever outputs and replicas."""
    for D, R in ((2, 4), (3, 5)):
        model = DHGP(grid_data(D, R, N=4))
        assert [level.place.shape for level in model._blocks.levels] == [(1, 4)] * 3
    model = DHGP(missing_replicas(D=7, R=3, N=4))
    assert [level.place.shape for level in model._blocks.levels] == [(3, 4), (3, 8), (1, 12)]


def test_rows_that_hardly_repeat_are_left_to_the_dense_factor():
    x = np.random.default_rng(0).uniform(size=(2, 30))
    data = MultiOutputData.from_list([(own, np.sin(own)) for own in x], replicas=[np.arange(30) % 3] * 2)
    assert DHGP(data)._blocks is None


def test_dhgp_by_blocks_trains_and_is_saved(tmp_path):
    """The compiled step reads the blocks, and a loaded model predicts the same."""
    import mogp

    data = missing_replicas()
    model = DHGP(data)
    before = float(model.elbo())
    mogp.fit(model, data, steps=5, progress=False)
    assert model._blocks is not None
    assert float(model.elbo()) > before
    loaded = mogp.load(mogp.save(model, tmp_path / "model.mogp"))
    np.testing.assert_array_equal(loaded.predict_y(NEW, replica=1).mean, model.predict_y(NEW, replica=1).mean)
