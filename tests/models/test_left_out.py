"""Targets left out one by one, against models that never had them."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from cases import CASES, run_of
from gpflow.kernels import SquaredExponential
from scipy.stats import kstest, norm

from mogp import MultiOutputData, fit
from mogp.data import LabelData
from mogp.inducing import ReplicaPoints, given_points
from mogp.kernels import hierarchical
from mogp.likelihoods import Bernoulli, Gaussian, Softmax
from mogp.models import HGP, ExactLMC, LatentMOGP, SparseMOGP, lvmogp
from mogp.models.left_out import left_out, ranks
from mogp.optimizers import LBFGS
from mogp.posteriors import Full, JointGrid
from mogp.priors import LMC, Independent

X = np.linspace(0, 1, 9)[:, None]


def kernel():
    return SquaredExponential(1.3, 0.3)


def without(data: MultiOutputData, name: str, row: int) -> tuple[MultiOutputData, MultiOutputData]:
    """The data without one target, and that target alone."""
    n = len(data[name])
    rest = data.take({name: np.delete(np.arange(n), row)})
    others = {o.name: [] for o in data.outputs if o.name != name}
    return rest, data.take({name: [row], **others})


@pytest.mark.parametrize("scaling", [None, "standard"])
def test_an_exact_model_leaves_out_what_a_model_without_the_row_never_had(rng, scaling):
    Y = np.column_stack([np.sin(6 * X[:, 0]), 5 + 3 * np.cos(6 * X[:, 0])]) + 0.1 * rng.normal(size=(9, 2))
    data = MultiOutputData.from_arrays(X, Y, names=["a", "b"])
    model = ExactLMC(data, latents=2, scaling=scaling)
    found = left_out(model, data, 1)
    for row in (0, 4, 8):
        rest, one = without(data, "b", row)
        other = ExactLMC(rest, latents=2, scaling=None)
        # The same units and parameters, whatever the rest would have been scaled by.
        other.scaling = model.scaling
        scaled = model.scaled(rest)
        rows = [np.column_stack([scaled.inputs(d), np.full(len(o), d)]) for d, o in enumerate(scaled)]
        other._X, other._targets = np.concatenate(rows), np.concatenate([o.Y[:, 0] for o in scaled])
        gpflow.utilities.multiple_assign(other, gpflow.utilities.parameter_dict(model))
        expected = float(other.predict_log_density(one)["b"][0])
        assert found.log_density[row] == pytest.approx(expected, abs=1e-6)
        y = other.predict_y(data.inputs("b")[row : row + 1], "b")
        rank = norm.cdf((data["b"].Y[row, 0] - float(y.mean[0, 0])) / np.sqrt(float(y.var[0, 0])))
        assert found.rank[row] == pytest.approx(rank, abs=1e-6)


def test_a_hierarchy_leaves_out_what_it_would_predict_without_the_row(rng):
    x, run = np.tile(X[:4, 0], 3), np.repeat([0, 1, 2], 4)
    data = MultiOutputData.from_arrays(
        x, np.column_stack([np.sin(x), np.cos(x)]) + 0.1 * rng.normal(size=(12, 2)), replica=run
    )
    model = HGP(data, scaling=None)
    found = left_out(model, data, 0)
    rest, one = without(data, data.names[0], 5)
    other = HGP(rest, scaling=None)
    assert found.log_density[5] == pytest.approx(float(other.predict_log_density(one)[data.names[0]][0]), abs=1e-6)


def test_outputs_of_a_latent_space_leave_out_what_the_best_posterior_without_the_row_predicts(rng):
    x, run = np.tile(X[:4, 0], 2), np.repeat([0, 1], 4)
    data = MultiOutputData.from_arrays(
        x, np.column_stack([np.sin(6 * x), np.cos(6 * x)]) + 0.1 * rng.normal(size=(8, 2)), replica=run
    )
    H = np.array([[-1.0], [0.7]])

    def best(own: MultiOutputData) -> LatentMOGP:
        on_x = hierarchical([kernel(), kernel()], 1)
        points = ReplicaPoints(x[::2, None], run[::2])
        how = {"likelihood": Gaussian(np.array([0.02, 0.05])), "names": own.schema}
        model = LatentMOGP(on_x, SquaredExponential(), points, H, H, 1e-9, **how)
        model.joint_posterior(own)
        return model

    found = left_out(best(data), data, 0)
    for row in (0, 5):
        rest, one = without(data, data.names[0], row)
        other = best(rest)
        assert found.log_density[row] == pytest.approx(
            float(other.predict_log_density(one)[data.names[0]][0]), abs=1e-4
        )
        y = other.predict_y(x[row : row + 1], 0, replica=int(run[row]))
        rank = norm.cdf((data.outputs[0].Y[row, 0] - float(y.mean[0, 0])) / np.sqrt(float(y.var[0, 0])))
        assert found.rank[row] == pytest.approx(rank, abs=1e-4)


def test_a_hierarchy_trained_by_the_recipe_ends_in_a_joint_posterior_and_is_diagnosed(rng):
    x = np.tile(X[:4, 0], 2)
    Y = np.column_stack([np.sin(6 * x), np.cos(6 * x)]) + 0.1 * rng.normal(size=(8, 2))
    data = MultiOutputData.from_arrays(x, Y, replica=np.repeat([0, 1], 4))
    model = lvmogp(data, latent_dim=1, inducing=2, latent_inducing=2, start="random")
    history = fit(model, data, steps=2, progress=False)
    assert isinstance(model.posterior, JointGrid)
    assert history.last_step.startswith("Closed form of q(u): the bound rose")
    assert history.diagnosis is not None


def sparse(likelihood, points=X, latents: int = 1, functions: int = 1) -> SparseMOGP:
    prior = Independent([kernel()]) if latents == functions == 1 else LMC([kernel()] * latents, functions)
    return SparseMOGP(prior, given_points(points), likelihood, Full(whiten=True))


def test_a_sparse_model_at_its_optimum_leaves_out_as_the_exact_model(rng):
    y = np.sin(6 * X[:, 0]) + 0.2 * rng.normal(size=9)
    data = MultiOutputData.from_arrays(X, y)
    model = sparse([Gaussian(0.04)])
    gpflow.set_trainable(model.prior, False)
    gpflow.set_trainable(model.likelihood, False)
    gpflow.set_trainable(model.inducing, False)
    fit(model, data, steps=1000, optimizer=LBFGS(), progress=False)
    found = left_out(model, data, 0)
    K = kernel()(X).numpy() + 0.04 * np.eye(9)
    alpha, diag = np.linalg.solve(K, y), np.diag(np.linalg.inv(K))  # Rasmussen and Williams, (5.12)
    np.testing.assert_allclose(found.log_density, norm.logpdf(alpha / diag, scale=diag**-0.5), atol=2e-3)


def test_a_site_is_taken_away_as_from_the_dense_posterior_of_all_rows(rng):
    """Of q(f) = N(m, V) over all rows, any: the natural parameters of one row's site are subtracted."""
    y = (rng.uniform(size=9) < 0.5).astype(float)
    data = MultiOutputData.from_arrays(X, y)
    likelihood = Bernoulli()
    model = sparse([likelihood])
    K = kernel()(X).numpy()
    L = np.linalg.cholesky(K + 1e-6 * np.eye(9))
    mean, root = rng.normal(size=9), 0.3 * np.linalg.cholesky(K + 1e-6 * np.eye(9))
    model.posterior.q_mu.assign(np.linalg.solve(L, mean)[:, None])
    model.posterior.q_sqrt.assign(np.linalg.solve(L, root)[None])
    found = left_out(model, data, 0)
    f = model.predict_f(X, full_cov=True)
    m, V = np.asarray(f.mean)[:, 0], np.asarray(f.var)[0]
    for n in range(9):
        at = [tf.Variable([[m[n]]], dtype=tf.float64), tf.Variable([[V[n, n]]], dtype=tf.float64)]
        with tf.GradientTape() as tape:
            E = likelihood.variational_expectations(np.zeros((1, 0)), *at, y[n].reshape(1, 1))
        g, h = (float(d) for d in tape.gradient(E, at))
        precision = np.linalg.inv(V)
        shift = precision @ m
        shift[n] -= g - 2 * h * m[n]
        precision[n, n] += 2 * h
        V_c = np.linalg.inv(precision)
        m_c = V_c @ shift
        expected = likelihood.predict_log_density(
            np.zeros((1, 0)), m_c[n].reshape(1, 1), V_c[n, n].reshape(1, 1), y[n].reshape(1, 1)
        )
        assert found.log_density[n] == pytest.approx(float(expected[0]), abs=1e-4)


def test_classification_leaves_out_nearly_as_the_true_posterior(rng):
    """Of three rows: the integral over their functions by a grid of quadrature nodes."""
    x, y = np.array([[0.0], [0.2], [0.5]]), np.array([1.0, 1.0, 0.0])
    data = MultiOutputData.from_arrays(x, y)
    model = SparseMOGP(Independent([kernel()]), given_points(x), [Bernoulli()], Full(whiten=True))
    for part in (model.prior, model.inducing):
        gpflow.set_trainable(part, False)
    fit(model, data, steps=500, optimizer=LBFGS(), progress=False)
    found = left_out(model, data, 0)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    grid = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), -1).reshape(-1, 3)
    w = np.prod(np.stack(np.meshgrid(weights, weights, weights, indexing="ij"), -1).reshape(-1, 3), 1)
    F = grid @ np.linalg.cholesky(kernel()(x).numpy() + 1e-10 * np.eye(3)).T
    p = 1 / (1 + np.exp(-np.where(y == 1, F, -F)))
    for n in range(3):
        others = np.prod(np.delete(p, n, 1), 1)
        assert found.log_density[n] == pytest.approx(np.log(w @ (others * p[:, n]) / (w @ others)), abs=0.02)


def test_classes_are_left_out_by_weights_as_by_an_integral_over_one_row(rng):
    """Of one row alone: E[1/p]^-1 under q, by quadrature over two functions."""
    data = MultiOutputData.from_arrays([[0.0]], [1.0])
    model = SparseMOGP(Independent([kernel(), kernel()]), given_points(np.zeros((1, 1))), [Softmax(2)], Full())
    model.posterior.q_mu.assign([[0.3, -0.2]])
    model.posterior.q_sqrt.assign([[[0.5]], [[0.4]]])
    found = left_out(model, data, 0, samples=20_000)
    f = model.predict_f([[0.0]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    m, s = np.asarray(f.mean)[0], np.sqrt(np.asarray(f.var)[0])
    f0, f1 = m[0] + s[0] * nodes[:, None], m[1] + s[1] * nodes[None]
    p = 1 / (1 + np.exp(f0 - f1))
    expected = -np.log(np.sum(weights[:, None] * weights[None] / p))
    assert found.log_density[0] == pytest.approx(expected, abs=0.02)
    assert found.probability[0].sum() == pytest.approx(1.0)


def test_ranks_of_calibrated_predictions_are_uniform_also_for_counts(rng):
    y, draws = rng.poisson(2.0, size=4000).astype(float), rng.poisson(2.0, size=(500, 4000)).astype(float)
    assert kstest(ranks(y, draws), "uniform").pvalue > 1e-3


def test_a_posterior_wider_than_its_site_allows_cannot_be_left_out():
    data = MultiOutputData.from_arrays(X, np.zeros(9))
    model = sparse([Gaussian(1e-3)])  # q(u) is the prior, and claims to have seen precise targets
    found = left_out(model, data, 0)
    assert found.share_missing == 1.0
    assert np.isnan(found.rank).all()


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name, marks=run_of(c)) for c in CASES])
def test_every_model_answers_or_says_that_it_cannot(case):
    data = case.data("several", 0)
    if isinstance(data, LabelData):
        return
    model = case.build(data)
    for d, own in enumerate(model.aligned(data).outputs):
        found = left_out(model, data, d, samples=50)
        if found is not None:
            assert found.log_density.shape == (len(own),)
            known = np.isfinite(found.log_density)
            if found.rank is not None:
                assert np.all((found.rank[known] >= 0) & (found.rank[known] <= 1))
            if found.probability is not None:
                np.testing.assert_allclose(found.probability[known].sum(1), 1.0, rtol=1e-6)
