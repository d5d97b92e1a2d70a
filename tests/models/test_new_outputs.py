"""Outputs that come after the training: their latent variables from a few points."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from dense_latent import dense_terms, over_replicas, table, toy, uneven_data
from gpflow.kernels import SquaredExponential
from scipy.optimize import minimize

from mogp.data import MultiOutputData, Output
from mogp.inducing import ReplicaPoints
from mogp.kernels import hierarchical
from mogp.likelihoods import Gaussian
from mogp.models import LatentMOGP, add_outputs

LEVELS = ((1.0, 1.5), (0.2, 1.0))
K_X = over_replicas(LEVELS)
NOISE = 0.01


def known(seed: int = 3) -> tuple[LatentMOGP, MultiOutputData, np.ndarray]:
    """A model that knows its data: exact `q(U)` of a draw at common inputs, latent variables as they were.

    Also a further output, drawn with the others, and its latent variable.
    """
    rng = np.random.default_rng(seed)
    H = np.concatenate([rng.uniform(-1.5, 1.5, (12, 1)), [[0.4]]])
    X = np.column_stack([np.tile(np.linspace(0, 6, 12), 2), np.repeat([0, 1], 12)])
    K_h = np.exp(-0.5 * (H - H.T) ** 2)
    draw = np.linalg.cholesky(np.kron(K_h, K_X(X, X)) + 1e-8 * np.eye(13 * 24)) @ rng.normal(size=13 * 24)
    F = draw.reshape(13, 24).T
    Y = F + np.sqrt(NOISE) * rng.normal(size=F.shape)
    Z = np.linspace(-1.5, 1.5, 5)[:, None]
    kernels = [gpflow.kernels.Matern32(variance=v, lengthscales=s) for v, s in LEVELS]
    model = LatentMOGP(
        hierarchical(kernels, 1), SquaredExponential(lengthscales=[1.0]), ReplicaPoints(X[:, :1], X[:, 1]), Z,
        H[:12], 1e-4, likelihood=Gaussian(np.full(12, NOISE)),
    )  # fmt: skip
    factors = model.factors()
    A = np.linalg.solve(factors.L_x.numpy(), K_X(X, X))
    B = factors.root.numpy() @ np.exp(-0.5 * (Z - H[:12].T) ** 2)
    G = np.kron(B @ B.T, A @ A.T) / NOISE + np.eye(5 * 24)
    mean = np.linalg.solve(G, (A @ Y[:, :12] @ B.T / NOISE).reshape(-1, order="F"))
    model.posterior.q_mu.assign(mean.reshape(24, 5, order="F"))
    model.posterior.q_sqrt_x.assign(0.05 * np.eye(24))
    model.posterior.q_sqrt_h.assign(np.eye(5))
    new = MultiOutputData.from_arrays(X[:, :1], Y[:, 12:], names=["new"], replica=X[:, 1].astype(int))
    return model, new, F[:, 12]


def test_three_points_of_a_new_output_predict_the_rest_of_it_better_than_the_prior():
    model, new, truth = known()
    seen = [2, 7, 18]
    found = add_outputs(model, new.take({"new": seen}))
    hidden = np.setdiff1d(np.arange(24), seen)
    X = table(new, 0)
    mean, var = (a.numpy()[:, 0] for a in found.predict_f(X[:, :1], "new", replica=X[:, 1].astype(int)))
    error = np.mean((mean - truth)[hidden] ** 2)
    assert error < 0.3 * np.mean(truth[hidden] ** 2)
    assert np.all(var > 0)
    more = add_outputs(model, new.take({"new": np.arange(0, 24, 2)}))
    assert float(more.latent_var.numpy()[-1, 0]) < float(found.latent_var.numpy()[-1, 0])
    np.testing.assert_allclose(more.latent_mean.numpy()[-1, 0], 0.4, atol=0.3)


def test_nothing_that_was_learned_changes():
    model, new, _ = known()
    x = np.linspace(-1, 7, 9)
    before = model.predict_y(x, replica=1)
    values = {k: v.numpy().copy() for k, v in gpflow.utilities.parameter_dict(model).items()}
    found = add_outputs(model, new.take({"new": [0, 5]}), restarts=2, candidates=10, steps=20)
    for k, v in gpflow.utilities.parameter_dict(model).items():
        np.testing.assert_array_equal(v, values[k])
    assert found.names == (*model.names, "new")
    assert found.num_outputs == 13
    after = found.predict_y(x, replica=1)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(other[:, :12], one, rtol=1e-12)
    found.posterior.q_mu.assign(0 * found.posterior.q_mu)
    np.testing.assert_array_equal(model.posterior.q_mu, values[".posterior.q_mu"])


def test_the_latent_variable_found_is_the_best_of_its_part_of_the_bound():
    """Against a search of another kind, on the dense bound of the new output alone."""
    model, new, _ = known()
    few = new.take({"new": [1, 9, 16]})
    found = add_outputs(model, few)
    alone = model.with_outputs(["new"], np.zeros((1, 1)), np.ones((1, 1)), Gaussian([NOISE]))

    def loss(at: np.ndarray) -> float:
        alone.latent_mean.assign([[at[0]]])
        alone.latent_var.assign([[np.exp(at[1])]])
        kl = 0.5 * (at[0] ** 2 + np.exp(at[1]) - 1 - at[1])
        return float(kl - dense_terms(alone, few, K_X, count=20)[0])

    starts = [(m, np.log(0.1)) for m in (-1.0, 0.0, 1.0)]
    best = min(minimize(loss, s, method="Nelder-Mead", options={"maxfev": 60}).fun for s in starts)
    reached = loss([found.latent_mean.numpy()[-1, 0], np.log(found.latent_var.numpy()[-1, 0])])
    assert reached < best + 1e-3


def test_several_outputs_are_found_as_each_alone():
    model, new, _ = known()
    pair = MultiOutputData.from_list(
        [(new.inputs(0)[:3], new["new"].Y[:3]), (new.inputs(0)[10:20], -new["new"].Y[10:20])],
        names=["a", "b"],
        replicas=[new["new"].replica[:3], new["new"].replica[10:20]],
    )
    both = add_outputs(model, pair, noise=[0.01, 0.3])
    np.testing.assert_allclose(both.noise.numpy()[-2:], [0.01, 0.3], rtol=1e-6)
    for name, noise in (("a", 0.01), ("b", 0.3)):
        own = pair[name]
        one = add_outputs(model, MultiOutputData(pair.X, (own,)), noise=noise)
        np.testing.assert_allclose(
            both.latent_mean.numpy()[both.index(name)], one.latent_mean.numpy()[-1], rtol=0.02, atol=5e-3
        )


def test_counts_of_a_new_output_have_a_latent_variable_too():
    data = uneven_data()
    outputs = [Output(o.name, o.rows, np.abs(o.Y).round(), o.observed, o.replica) for o in data.outputs]
    model = toy(data, likelihood=gpflow.likelihoods.Poisson())
    new = MultiOutputData(
        data.X, (Output("new", *[getattr(outputs[0], k) for k in ("rows", "Y", "observed", "replica")]),)
    )
    found = add_outputs(model, new, candidates=6, restarts=2, steps=10)
    assert np.isfinite(found.predict_y([0.5], "new", replica=1).mean).all()
    bad = MultiOutputData(
        data.X, (Output("bad", outputs[0].rows, outputs[0].Y - 9, outputs[0].observed, outputs[0].replica),)
    )
    with pytest.raises(ValueError, match="negative"):
        add_outputs(model, bad)


def test_names_that_are_taken_and_sizes_out_of_range_are_refused():
    data = uneven_data()
    model = toy(data)
    with pytest.raises(ValueError, match="'a', 'e', 'missing' is an output already; give new ones other names"):
        add_outputs(model, data)
    new = MultiOutputData.from_list([([0.5], [1.0])], names=["new"], replicas=[[1]])
    for size in ("candidates", "restarts", "steps"):
        with pytest.raises(ValueError, match=f"{size}=0"):
            add_outputs(model, new, **{size: 0})
    wide = MultiOutputData.from_arrays(np.zeros((2, 2)), np.ones(2), names=["new"])
    with pytest.raises(ValueError, match="2 input columns, the model reads 1"):
        add_outputs(model, wide)


def test_the_default_noise_is_the_median_of_those_known():
    model = toy(uneven_data())
    new = MultiOutputData.from_list([([0.5], [1.0])], names=["new"], replicas=[[1]])
    found = add_outputs(model, new, candidates=4, restarts=1, steps=3)
    np.testing.assert_allclose(found.noise.numpy()[-1], np.median(model.noise.numpy()), rtol=1e-6)
    assert tf.reduce_all(found.latent_var > 0)


def test_outputs_that_share_one_noise_go_on_sharing_it():
    data = uneven_data()
    new = MultiOutputData.from_list([([0.5], [1.0])], names=["new"], replicas=[[1]])
    model = toy(data, likelihood=Gaussian(0.3))
    found = add_outputs(model, new, candidates=4, restarts=1, steps=3)
    assert found.noise.numpy() == pytest.approx(0.3)
    for likelihood in (Gaussian(0.3), gpflow.likelihoods.StudentT()):
        with pytest.raises(ValueError, match=r"no output has noise of its own.*Leave noise out"):
            add_outputs(toy(data, likelihood=likelihood), new, noise=0.1)


def test_other_parameters_that_differ_by_output_start_at_the_median_too():
    data, scales = uneven_data(), np.linspace(0.3, 1.5, 5)
    new = MultiOutputData.from_list([([0.5], [1.0])], names=["new"], replicas=[[1]])
    model = toy(data, likelihood=gpflow.likelihoods.StudentT(scales))
    found = add_outputs(model, new, candidates=4, restarts=1, steps=3)
    np.testing.assert_allclose(found.likelihood.scale, [*scales, 0.9], rtol=1e-6)
    np.testing.assert_allclose(model.likelihood.scale, scales, rtol=1e-12)
