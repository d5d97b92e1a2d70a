"""HGP and DHGP against GPflow's exact GP and against the dense normal density."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from dense_latent import LEVELS, common_data, levels_of, matern32, table, uneven_data
from gpflow.kernels import Matern32
from gpflow.utilities import print_summary
from scipy.stats import multivariate_normal

import mogp
from mogp.data import MultiOutputData
from mogp.kernels import hierarchical
from mogp.models import DHGP, HGP
from mogp.models.exact import hierarchies
from mogp.optimizers import LBFGS, Adam
from mogp.training import fit

THREE = (*LEVELS, (0.4, 0.9))
NEW = np.linspace(-1, 4, 6)


def grid_data(D: int = 3, R: int = 3, N: int = 4, seed: int = 0) -> MultiOutputData:
    """All outputs and all replicas at the same inputs."""
    rng = np.random.default_rng(seed)
    return MultiOutputData.from_arrays(
        np.tile(np.linspace(0, 3, N), R), rng.normal(size=(N * R, D)), replica=np.repeat(np.arange(R), N)
    )


def stacked(data: MultiOutputData) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`[x, r]`, output and target of all rows."""
    X = np.concatenate([table(data, d) for d in range(data.num_outputs)])
    return X, np.repeat(np.arange(data.num_outputs), data.sizes), np.concatenate([o.Y[:, 0] for o in data.outputs])


def three_levels(A: np.ndarray, d: np.ndarray, B: np.ndarray, e: np.ndarray) -> np.ndarray:
    same_output = d[:, None] == e
    same_replica = same_output & (A[:, None, -1] == B[None, :, -1])
    masks = (1.0, same_output, same_replica)
    return sum(m * matern32(A[:, :-1], B[:, :-1], *p) for m, p in zip(masks, THREE, strict=True))


def gprs(data: MultiOutputData, noise: np.ndarray) -> list[gpflow.models.GPR]:
    return [
        gpflow.models.GPR((table(data, d), o.Y), hierarchical(levels_of(), data.input_dim), noise_variance=v)
        for d, (o, v) in enumerate(zip(data.outputs, noise, strict=True))
    ]


# ----------------------------------------------------------------------------------------------------------------- HGP


@pytest.mark.parametrize("make", [common_data, uneven_data, grid_data])
def test_hgp_is_an_exact_gp_for_each_output(make):
    """Evidence and predictions of GPflow's GPR; outputs of one point, of repeated rows and with a missing replica."""
    data = make()
    model = HGP(data, kernel=levels_of(), scaling=None)
    noise = np.linspace(0.1, 0.4, data.num_outputs)
    model.noise.assign(noise)
    others = gprs(data, noise)
    np.testing.assert_allclose(model.elbo(), sum(o.log_marginal_likelihood() for o in others), rtol=1e-9)
    for d, other in enumerate(others):
        for replica in (0, 2, 9):
            at = np.column_stack([NEW, np.full(6, replica)])
            for one, two in ((model.predict_f, other.predict_f), (model.predict_y, other.predict_y)):
                for a, b in zip(one(NEW, d, replica=replica), two(at), strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)
    together = model.predict_f(NEW, replica=1)
    np.testing.assert_allclose(together.mean[:, 1], model.predict_f(NEW, 1, replica=1).mean[:, 0], rtol=1e-12)


def test_hgp_follows_its_parameters_after_a_prediction():
    data = common_data()
    model = HGP(data, kernel=levels_of(), scaling=None)
    before = model.predict_f(NEW, 0).mean.numpy()
    model.noise.assign([1.0, 2.0, 3.0])
    after = model.predict_f(NEW, 0).mean.numpy()
    assert np.abs(before - after).max() > 1e-3
    np.testing.assert_allclose(after, gprs(data, [1.0, 2.0, 3.0])[0].predict_f(np.column_stack([NEW, 0 * NEW]))[0])


def test_hgp_keeps_outputs_apart():
    """Other targets of two outputs change nothing in the third."""
    data, other = grid_data(), grid_data(seed=1)
    mixed = MultiOutputData(data.X, (data.outputs[0], *other.outputs[1:]))
    found = [HGP(one, kernel=levels_of(), scaling=None).predict_y(NEW, 0, replica=1) for one in (data, mixed)]
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_training_raises_the_evidence(tmp_path, capsys):
    data = uneven_data()
    for model in (HGP(data, scaling=None), DHGP(data, scaling=None)):
        before = float(model.elbo())
        history = fit(model, data, steps=10, optimizer=LBFGS(), progress=False)
        assert float(model.elbo()) > before
        np.testing.assert_allclose(history.elbo[-1], model.elbo(), rtol=1e-9)
        loaded = mogp.load(mogp.save(model, tmp_path / "model.mogp"))
        np.testing.assert_array_equal(loaded.predict_y(NEW, 0, replica=1).mean, model.predict_y(NEW, 0, replica=1).mean)
        print_summary(model)
        assert f"{type(model).__name__}.noise" in capsys.readouterr().out


def test_an_exact_gp_has_no_mini_batches():
    data = common_data()
    with pytest.raises(ValueError, match=r"batch_size=None, or a sparse model \(hgp_ind\)"):
        fit(HGP(data, scaling=None), data, steps=2, optimizer=Adam(), batch_size=2, progress=False)


# ---------------------------------------------------------------------------------------------------------------- DHGP


@pytest.mark.parametrize("make", [common_data, uneven_data, grid_data])
def test_dhgp_has_the_evidence_and_the_predictions_of_the_dense_normal(make):
    """H18: rows of any kind, dense or by blocks, as they are where all outputs and replicas share their inputs."""
    data = make()
    model = DHGP(data, kernel=levels_of(THREE), noise=0.3, scaling=None)
    assert (model._blocks is None) == (make is uneven_data)
    X, d, y = stacked(data)
    K = three_levels(X, d, X, d) + 0.3 * np.eye(len(y))
    np.testing.assert_allclose(model.elbo(), multivariate_normal(np.zeros(len(y)), K).logpdf(y), rtol=1e-9)
    for output, replica in ((0, 0), (2, 1), (1, 7)):
        at = np.column_stack([NEW, np.full(6, replica)])
        cross = three_levels(at, np.full(6, output), X, d)
        solved = np.linalg.solve(K, cross.T)
        mean, var = model.predict_f(NEW, output, replica=replica)
        np.testing.assert_allclose(mean[:, 0], solved.T @ y, rtol=1e-7, atol=1e-10)
        prior = sum(v for v, _ in THREE)
        np.testing.assert_allclose(var[:, 0], prior - np.sum(cross.T * solved, 0), rtol=1e-7)
        np.testing.assert_allclose(model.predict_y(NEW, output, replica=replica).var - var, 0.3, rtol=1e-9)


@pytest.mark.parametrize(("D", "R", "N"), [(1, 1, 3), (1, 4, 2), (4, 1, 3), (2, 2, 1), (3, 5, 2)])
def test_the_fast_path_is_exact_for_any_number_of_outputs_replicas_and_points(D, R, N, monkeypatch):
    """H18."""
    monkeypatch.setattr(hierarchies, "_COST_OF_BLOCKS", 0)
    data = grid_data(D, R, N)
    model = DHGP(data, kernel=levels_of(THREE), noise=0.3, scaling=None)
    assert model._blocks is not None
    X, d, y = stacked(data)
    K = three_levels(X, d, X, d) + 0.3 * np.eye(len(y))
    np.testing.assert_allclose(model.elbo(), multivariate_normal(np.zeros(len(y)), K).logpdf(y), rtol=1e-9)


def test_the_fast_path_does_not_depend_on_the_order_of_rows():
    """H18."""
    data = grid_data()
    frame = data.frame().sample(frac=1.0, random_state=3)
    again = MultiOutputData.from_long(frame, "x", replica="replica")
    models = [DHGP(one, kernel=levels_of(THREE), scaling=None) for one in (data, again)]
    assert all(m._blocks is not None for m in models)
    np.testing.assert_allclose(models[0].elbo(), models[1].elbo(), rtol=1e-10)


def test_dhgp_without_a_level_of_outputs_is_hgp_for_a_single_one():
    """H18: `k_e → 0`, one output."""
    for data in (grid_data(D=1), common_data(D=1)):
        g, f = levels_of()
        deep = DHGP(data, kernel=[g, Matern32(variance=1e-12), f], noise=0.2, scaling=None)
        flat = HGP(data, kernel=levels_of(), noise=0.2, scaling=None)
        np.testing.assert_allclose(deep.elbo(), flat.elbo(), rtol=1e-9)
        for one, other in zip(deep.predict_y(NEW, 0, replica=1), flat.predict_y(NEW, 0, replica=1), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


def test_the_gradient_of_the_fast_path_is_that_of_the_dense_one():
    model = DHGP(grid_data(), kernel=levels_of(THREE), noise=0.3, scaling=None)
    found = []
    for objective in (model.training_loss, lambda: -model._dense()):
        with tf.GradientTape() as tape:
            value = objective()
        found.append(tape.gradient(value, model.trainable_variables))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7)


def test_of_too_many_rows_evenly_spaced_ones_are_kept():
    data = uneven_data()
    model = DHGP(data, kernel=levels_of(THREE), noise=0.3, most_rows=9, scaling=None)
    assert model.num_rows == 9
    X, d, y = stacked(data)
    kept = np.unique(np.linspace(0, len(y) - 1, 9).round().astype(int))
    X, d, y = X[kept], d[kept], y[kept]
    K = three_levels(X, d, X, d) + 0.3 * np.eye(9)
    np.testing.assert_allclose(model.elbo(), multivariate_normal(np.zeros(9), K).logpdf(y), rtol=1e-9)
    assert DHGP(data, most_rows=10_000, scaling=None).num_rows == sum(data.sizes)


def test_dhgp_has_three_levels():
    with pytest.raises(ValueError, match="2 kernels; DHGP has three levels"):
        DHGP(common_data(), kernel=levels_of(), scaling=None)


def test_data_without_replicas_are_one_replica():
    data = MultiOutputData.from_arrays(np.arange(4.0), np.random.default_rng(0).normal(size=(4, 2)))
    with_zero = MultiOutputData.from_arrays(data.X, np.column_stack([o.Y for o in data]), replica=np.zeros(4, int))
    for kind in (HGP, DHGP):
        np.testing.assert_allclose(kind(data).elbo(), kind(with_zero).elbo(), rtol=1e-12)


@pytest.mark.parametrize("kind", [HGP, DHGP])
def test_float32_gives_float32(kind, float32):
    data = uneven_data()
    model = kind(data)
    assert model.elbo().dtype == np.float32
    assert np.isfinite(model.predict_y(NEW, 0, replica=1).var).all()


# ------------------------------------------------------------------------------------------------------------ the data


@pytest.mark.parametrize("kind", [HGP, DHGP])
def test_an_exact_gp_trains_on_the_data_it_was_built_on(kind):
    model = kind(grid_data())
    fit(model, grid_data(), steps=1, progress=False)
    with pytest.raises(ValueError, match=f"{kind.__name__} holds the data it was built on"):
        fit(model, grid_data(seed=1), steps=1, progress=False)


@pytest.mark.parametrize("kind", [HGP, DHGP])
def test_an_exact_gp_is_trained_with_lbfgs_unless_told_otherwise(kind):
    data = grid_data()
    (stage,) = kind(data).stages(data)
    assert isinstance(stage.optimizer, LBFGS)
    bounds = []
    for options in ({}, {"optimizer": LBFGS()}):
        model = kind(data)
        fit(model, data, steps=5, progress=False, **options)
        bounds.append(float(model.elbo()))
    assert bounds[0] == bounds[1]
