"""Named models for outputs with replicas, their start values, and how they compare on data drawn from HMOGP-LV."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from dense_latent import LEVELS, common_data, levels_of, over_replicas, rbf, table, uneven_data
from gpflow.kernels import Matern32, SquaredExponential
from scipy.stats import norm

from mogp import likelihoods as lik
from mogp import metrics
from mogp.book.baselines.networks import Networks
from mogp.data import MultiOutputData, Output
from mogp.inducing import InducingPoints, ReplicaPoints, replica_points
from mogp.kernels import hierarchical
from mogp.likelihoods import Gaussian
from mogp.models import (
    LatentMOGP,
    SparseMOGP,
    bayesian_gplvm,
    hgp_ind,
    hmogp_lv,
    lmc_stacked,
    lvmogp,
    rows_as_outputs,
)
from mogp.models.hierarchies import replica_as_input
from mogp.models.latent_start import components, smooth
from mogp.optimizers import Adam
from mogp.posteriors import Full
from mogp.priors import LMC
from mogp.training import fit, start

NEW = np.linspace(0, 3, 5)


@pytest.fixture
def little_jitter():
    with gpflow.config.as_context(gpflow.config.Config(jitter=1e-10)):
        yield


def started(model: LatentMOGP, data: MultiOutputData) -> LatentMOGP:
    """The model with the start values that take training."""
    start(model, data)
    return model


def without_replicas(data: MultiOutputData) -> MultiOutputData:
    return MultiOutputData(data.X, tuple(Output(o.name, o.rows, o.Y, o.observed) for o in data.outputs))


# ------------------------------------------------------------------------------------------------------ Bayesian GPLVM


def test_the_bayesian_gplvm_has_the_bound_of_gpflows(little_jitter):
    """With the same parameters; the columns are independent given the latent variables."""
    Y = np.random.default_rng(0).normal(size=(7, 4))
    data = rows_as_outputs(Y)
    model = bayesian_gplvm(data, latent_dim=2, latent_inducing=3, noise=0.3)
    model.latent_kernel.lengthscales.assign([0.8, 1.4])
    model.latent_var.assign(np.random.default_rng(1).uniform(0.1, 0.8, (7, 2)))
    kernel = SquaredExponential(variance=model.latent_kernel.variance.numpy(), lengthscales=[0.8, 1.4])
    other = gpflow.models.BayesianGPLVM(
        Y, model.latent_mean.numpy(), model.latent_var.numpy(), kernel, inducing_variable=model.latent_inducing.numpy()
    )
    other.likelihood.variance.assign(0.3)
    np.testing.assert_allclose(model.collapsed_elbo(data), other.elbo(), rtol=1e-6)
    assert float(model.elbo(data)) < float(other.elbo())


@pytest.mark.parametrize("Y", [np.zeros(3), [[1.0, np.nan]]])
def test_tables_that_are_none_are_refused(Y):
    with pytest.raises(ValueError, match=r"expected \[rows, columns\] of finite numbers"):
        rows_as_outputs(Y)


def test_the_bayesian_gplvm_reads_tables_only():
    missing = MultiOutputData.from_arrays(np.eye(2), [[1.0, 2.0], [3.0, np.nan]])
    for data in (common_data(), missing):
        with pytest.raises(ValueError, match=r"make the data with rows_as_outputs\(Y\)"):
            bayesian_gplvm(data)


# ----------------------------------------------------------------------------------------------------- HMOGP-LV, LVMOGP


@pytest.mark.parametrize("kind", ["pca", "gplvm", "random"])
def test_every_start_gives_a_model_of_the_data(kind):
    data = uneven_data()
    model = started(hmogp_lv(data, latent_dim=2, inducing=2, latent_inducing=3, start=kind, scaling=None), data)
    assert isinstance(model, LatentMOGP)
    assert model.names == data.names
    assert model.latent_inducing.shape == (3, 2)
    assert np.isfinite(model.elbo(data))
    assert not model.latent_kernel.variance.trainable


def test_a_start_from_the_smoothed_outputs_is_closer_to_the_data_than_a_random_one():
    data = drawn_data(D=6, R=2, N=5)[0]
    residual = {}
    for kind in ("pca", "random"):
        table_of = started(hmogp_lv(data, inducing=6, latent_inducing=5, start=kind, scaling=None), data).predictions(
            data
        )
        residual[kind] = np.mean((table_of["observed"] - table_of["mean"]) ** 2)
    assert residual["pca"] < 0.5 * residual["random"]


def test_unknown_starts_and_sizes_are_refused():
    data = common_data()
    with pytest.raises(ValueError, match="start='best'; choose one of 'pca', 'gplvm', 'random'"):
        hmogp_lv(data, start="best", scaling=None)
    with pytest.raises(ValueError, match="0 inducing points"):
        hmogp_lv(data, inducing=0, scaling=None)
    with pytest.raises(ValueError, match="latent_inducing=0, latent_dim=2"):
        hmogp_lv(data, latent_inducing=0, start="random", scaling=None)
    with pytest.raises(ValueError, match="latent_inducing=3, latent_dim=0"):
        hmogp_lv(data, latent_dim=0, start="random", scaling=None)


def test_a_tree_gives_a_level_for_each_step_of_its_paths():
    data, tree = uneven_data(), [(0, 0, 0), (0, 0, 1), (1, 0, 0)]
    model = hmogp_lv(data, tree=tree, inducing=2, latent_inducing=2, start="random", scaling=None)
    assert model.num_replicas == 3
    variances = [v.numpy() for name, v in gpflow.utilities.parameter_dict(model.kernel).items() if "variance" in name]
    np.testing.assert_allclose(variances, np.full(4, 0.25))


@pytest.mark.parametrize(
    "data",
    [
        MultiOutputData.from_arrays(np.arange(5.0), np.sin(np.arange(5.0))),
        MultiOutputData.from_arrays(np.arange(5.0), np.sin(np.arange(15.0)).reshape(5, 3)),
        MultiOutputData.from_list([([1.0], [2.0]), ([2.0, 3.0], [1.0, 0.0])], replicas=[[3], [0, 3]]),
        MultiOutputData.from_arrays(np.zeros((4, 1)), np.arange(8.0).reshape(4, 2), replica=[0, 0, 1, 1]),
        MultiOutputData.from_arrays(np.arange(4.0), np.ones((4, 2)), replica=[0, 0, 1, 1]),
    ],
    ids=["one output", "no replicas", "single points", "one input", "constant targets"],
)
def test_data_at_the_edge_have_models(data):
    for make, kind in ((hmogp_lv, "pca"), (lvmogp, "random")):
        model = started(make(data, inducing=2, latent_inducing=2, start=kind, scaling=None), data)
        assert np.isfinite(model.elbo(data))
        assert np.isfinite(model.predict_y([0.5], replica=1).var).all()
    model = hgp_ind(data, inducing=2, scaling=None)
    assert np.isfinite(model.elbo(data))


def test_counts_have_start_values_too():
    rng = np.random.default_rng(0)
    data = MultiOutputData.from_arrays(np.arange(6.0), rng.poisson(2.0, (6, 3)), replica=[0, 0, 0, 1, 1, 1])
    for likelihood in (gpflow.likelihoods.Poisson(), gpflow.likelihoods.Bernoulli()):
        y = data if isinstance(likelihood, gpflow.likelihoods.Poisson) else binary(data)
        model = started(hmogp_lv(y, likelihood, inducing=3, latent_inducing=2, scaling=None), y)
        assert np.isfinite(model.elbo(y))
        assert np.all(model.predict_y([1.0, 2.0], replica=1).mean.numpy() > 0)


def binary(data: MultiOutputData) -> MultiOutputData:
    return MultiOutputData(
        data.X, tuple(Output(o.name, o.rows, (o.Y > 1).astype(float), o.observed, o.replica) for o in data.outputs)
    )


def test_lvmogp_and_lmc_predict_the_same_for_all_replicas():
    data = uneven_data()
    models = [
        started(lvmogp(data, inducing=3, latent_inducing=2, scaling=None), data),
        lmc_stacked(data, inducing=4, scaling=None),
    ]
    models[1].posterior.q_mu.assign(np.random.default_rng(0).normal(size=models[1].posterior.q_mu.shape))
    for model in models:
        one, other = (model.predict_y(NEW, "missing", replica=r) for r in (0, 2))
        np.testing.assert_array_equal(one.mean, other.mean)
        np.testing.assert_array_equal(one.var, other.var)


def test_lvmogp_reads_data_with_replicas_as_repeated_observations():
    data = uneven_data()
    model = started(lvmogp(data, inducing=3, latent_inducing=2, seed=1, scaling=None), data)
    np.testing.assert_allclose(model.elbo(data), model.elbo(without_replicas(data)), rtol=1e-10)


# --------------------------------------------------------------------------------------------------- sparse baselines


def test_hgp_ind_is_a_sparse_gp_for_each_output(randomise):
    """GPflow's SVGP on `[x, r]` for each; sets of inducing points of different sizes are filled up."""
    data = uneven_data()
    model = hgp_ind(data, inducing=3, kernel=levels_of(), noise=0.2, scaling=None)
    randomise(model, 1)
    Z = np.asarray(model.inducing.inputs)
    assert Z.shape == (5, 3, 2)
    expected = 0.0
    for d, own in enumerate(data.outputs):
        svgp = gpflow.models.SVGP(
            hierarchical(levels_of(), 1), gpflow.likelihoods.Gaussian(0.2), Z[d], num_data=len(own), whiten=True,
            q_mu=model.posterior.q_mu.numpy()[:, [d]], q_sqrt=model.posterior.q_sqrt.numpy()[[d]],
        )  # fmt: skip
        expected += svgp.elbo((table(data, d), own.Y))
        at = np.column_stack([NEW, np.full(5, 2)])
        for one, other in zip(model.predict_y(NEW, d, replica=2), svgp.predict_y(at), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.elbo(data), expected, rtol=1e-8)


def test_lmc_stacked_is_the_lmc_on_inputs_alone(randomise):
    data = uneven_data()
    model = lmc_stacked(data, inducing=4, seed=2, scaling=None)
    randomise(model, 1)
    kernels = [SquaredExponential(lengthscales=k.lengthscales.numpy()) for k in model.prior.kernels.kernels]
    flat = SparseMOGP(
        LMC(kernels, functions=5, W=model.prior.W.numpy()),
        InducingPoints(model.inducing.Z.numpy()),
        {name: Gaussian(0.1) for name in data.names},
        Full(whiten=True),
    )
    flat.posterior.q_mu.assign(model.posterior.q_mu)
    flat.posterior.q_sqrt.assign(model.posterior.q_sqrt)
    np.testing.assert_allclose(model.elbo(data), flat.elbo(without_replicas(data)), rtol=1e-9)


@pytest.mark.parametrize("make", [hgp_ind, lmc_stacked])
def test_sparse_baselines_train_predict_and_score(make):
    data = uneven_data()
    model = make(data, inducing=3)
    before = float(model.elbo(data))
    history = fit(model, data, steps=20, optimizer=Adam(0.05), batch_size=3, progress=False)
    assert history.status == "finished"
    assert float(model.elbo(data)) > before
    frame = model.predictions(data, quantiles=())
    density = model.predict_log_density(data)
    expected = norm.logpdf(frame["observed"], frame["mean"], frame["sd"])
    np.testing.assert_allclose(np.concatenate(list(density.values())), expected, rtol=1e-7)


def test_the_replica_number_becomes_the_last_input():
    data = uneven_data()
    wide = replica_as_input(data)
    assert wide.input_dim == 2
    for d, own in enumerate(data.outputs):
        np.testing.assert_array_equal(wide.inputs(d), table(data, d))
        np.testing.assert_array_equal(wide.outputs[d].Y, own.Y)


def test_points_at_a_stride_are_rows_of_each_output_with_their_replicas():
    data = uneven_data()
    points = replica_points(data, 2)
    rows = {tuple(row) for d in range(5) for row in table(data, d)}
    taken = [tuple(row) for row in np.asarray(points.inputs)]
    assert len(set(taken)) == len(taken)
    assert set(taken) <= rows
    for d in range(5):
        assert len({tuple(row) for row in table(data, d)} & set(taken)) >= min(2, len({*map(tuple, table(data, d))}))


def test_outputs_with_the_same_inputs_contribute_different_points():
    """Documents: joint models have `D` times the inducing inputs of an output."""
    x, replica = np.tile(np.linspace(0, 1, 10), 3), np.repeat(range(3), 10)
    data = MultiOutputData.from_arrays(x, np.random.default_rng(0).normal(size=(30, 4)), replica=replica)
    points = replica_points(data, 3)
    assert points.num_inducing == 12
    np.testing.assert_array_equal(np.bincount(points.replica), [4, 4, 4])
    for r in range(3):
        places = np.sort(points.Z.numpy()[points.replica == r, 0])
        np.testing.assert_allclose(places, [x[i] for i in (0, 2, 5, 7)])
    assert replica_points(data, 30).num_inducing == 30


def test_networks_fit_each_output_and_have_no_variance():
    x = np.linspace(-1, 1, 20)
    data = MultiOutputData.from_arrays(x, np.column_stack([x, 1 - x]), replica=np.arange(20) % 2)
    model = Networks(epochs=150).fit(data)
    mean, var = model.predict_y(x, replica=1)
    assert np.abs(mean.numpy() - np.column_stack([x, 1 - x])).max() < 0.2
    assert np.isnan(var.numpy()).all()
    np.testing.assert_array_equal(mean, Networks(epochs=150).fit(data).predict_y(x, replica=0).mean)
    with pytest.raises(ValueError, match="epochs=0"):
        Networks(epochs=0)


# -------------------------------------------------------------------------------------------------------- start values


def test_smoothed_outputs_are_posterior_means_of_a_gp_each():
    """And `known` is the share of the prior variance that an output explains, at every inducing point."""
    data = uneven_data()
    points, kernel = replica_points(data, 2), hierarchical(levels_of(), 1)
    found = smooth(kernel, data, points, steps=0)
    noise = 0.1 * np.var(np.concatenate([o.Y for o in data.outputs]))
    for d, own in enumerate(data.outputs):
        gpr = gpflow.models.GPR((table(data, d), own.Y), hierarchical(levels_of(), 1), noise_variance=noise)
        mean, var = gpr.predict_f(np.asarray(points.inputs))
        np.testing.assert_allclose(found.F[d], mean[:, 0], rtol=1e-5, atol=1e-8)
        share = 1 - var[:, 0] / (LEVELS[0][0] + LEVELS[1][0])
        np.testing.assert_allclose(found.known[d], np.clip(share, 1e-3, 1), atol=1e-6)


@pytest.mark.parametrize("kind", ["pca", "random"])
@pytest.mark.parametrize("make", [hmogp_lv, lvmogp])
def test_the_noise_starts_where_the_bound_is_largest(make, kind):
    data = uneven_data()
    model = started(make(data, inducing=2, latent_inducing=2, start=kind, scaling=None), data)
    with tf.GradientTape() as tape:
        bound = model.elbo(data)
    np.testing.assert_allclose(tape.gradient(bound, model.noise.unconstrained_variable), 0, atol=1e-9)


def test_components_of_a_table_that_is_known_are_its_principal_components():
    F = np.random.default_rng(0).normal(size=(9, 4)) * [3, 2, 1, 0.5]
    scores, filled = components(F, np.ones(F.shape), 2)
    U = np.linalg.svd(F - F.mean(0), full_matrices=False)[0]
    np.testing.assert_allclose(np.abs(scores), 3 * np.abs(U[:, :2]), rtol=1e-9)
    np.testing.assert_array_equal(filled, F)


def test_components_fill_in_what_is_not_known():
    """A table of rank one with holes."""
    a, b = np.linspace(-1, 1, 12), np.array([1.0, -2.0, 0.5, 3.0])
    F, known = np.outer(a, b), np.ones((12, 4))
    known[np.arange(12), np.arange(12) % 4] = 1e-3
    scores, filled = components(F * (known > 0.5), known, 1)
    np.testing.assert_allclose(np.abs(np.corrcoef(scores[:, 0], a)[0, 1]), 1, atol=1e-3)
    assert np.abs(filled - F).max() < 0.2 * np.abs(F).max()


# ------------------------------------------------------------------------------------------------------------------ H19


def drawn_data(D: int, R: int, N: int, seed: int = 1) -> tuple[MultiOutputData, np.ndarray]:
    """A small draw of the generator of synthetic 1, every output at inputs of its own, and its latent variables."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, D)
    H = np.column_stack([t, t])
    x = rng.uniform(0, 10, (D, N))
    d, r, n = np.indices((D, R, N)).reshape(3, -1)
    X = np.column_stack([x[d, n], r])
    K = rbf(H[d], H[d], 1.0, np.ones(2)) * over_replicas(((0.1, 1.0), (1.0, 1.0)))(X, X)
    y = np.linalg.cholesky(K + 0.02 * np.eye(len(K))) @ rng.normal(size=len(K))
    data = MultiOutputData.from_list(
        [(X[d == i, :1], y[d == i]) for i in range(D)], replicas=[r[d == i] for i in range(D)]
    )
    return data, H


def test_on_data_from_the_model_hmogp_lv_beats_models_that_ignore_replicas():
    """H19: half of the points of each output held out, the same in all its replicas."""
    data, _ = drawn_data(D=8, R=3, N=10)
    held = np.tile(np.arange(10) % 2 == 1, 3)
    train = data.take({name: np.flatnonzero(~held) for name in data.names})
    test = data.take({name: np.flatnonzero(held) for name in data.names})
    scores = {}
    for name, model in {
        "HMOGP-LV": hmogp_lv(train, inducing=6, latent_inducing=4, scaling=None),
        "LVMOGP": lvmogp(train, inducing=6, latent_inducing=4, scaling=None),
        "LMC": lmc_stacked(train, inducing=20, scaling=None),
    }.items():
        fit(model, train, steps=250, optimizer=Adam(0.05), progress=False)
        frame = model.predictions(test, quantiles=())
        density = norm.logpdf(frame["observed"], frame["mean"], frame["sd"])
        scores[name] = (metrics.nmse(frame["observed"], frame["mean"]), -float(np.mean(density)))
    for other in ("LVMOGP", "LMC"):
        assert scores["HMOGP-LV"][0] < scores[other][0], scores
        assert scores["HMOGP-LV"][1] < scores[other][1], scores


def test_points_given_are_the_points_used():
    data = common_data()
    points = ReplicaPoints([[0.0], [1.0]], [0, 1])
    assert hmogp_lv(data, inducing=points, kernel=Matern32(), start="random", scaling=None).inducing is points


# ------------------------------------------------------------------------------------------------- our own likelihoods


def replicated(draw) -> MultiOutputData:
    rng = np.random.default_rng(3)
    x, replica = np.tile(np.linspace(0, 3, 6), 2), np.repeat([0, 1], 6)
    Y = np.column_stack([draw(rng, np.sin(x + d)) for d in range(3)])
    return MultiOutputData.from_arrays(x, Y, replica=replica)


@pytest.mark.parametrize("make", [hmogp_lv, lvmogp])
def test_our_poisson_gives_the_bound_of_gpflows(make):
    data = replicated(lambda rng, f: rng.poisson(np.exp(f)))
    counts = (lik.Poisson(), gpflow.likelihoods.Poisson())
    ours, stock = (started(make(data, one, latent_inducing=3, seed=1), data) for one in counts)
    np.testing.assert_allclose(ours.elbo(data), stock.elbo(data), rtol=1e-7)
    for one, other in zip(ours.predict_y(NEW, 0), stock.predict_y(NEW, 0), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("make", [hmogp_lv, lvmogp])
def test_rates_and_means_of_exponential_targets_are_mirror_images(make):
    """Ours has the rate $e^f$, GPflow's the mean $e^f$: the same bound for functions of opposite signs."""
    data = replicated(lambda rng, f: rng.exponential(np.exp(f)))
    waits = (lik.Exponential(), gpflow.likelihoods.Exponential())
    ours, stock = (started(make(data, one, latent_inducing=3, seed=1), data) for one in waits)
    ours.posterior.q_mu.assign(-stock.posterior.q_mu)
    np.testing.assert_allclose(ours.elbo(data), stock.elbo(data), rtol=1e-7)


def test_yes_or_no_targets_are_learned_by_our_bernoulli():
    data = replicated(lambda rng, f: (f > 0).astype(float))
    model = hmogp_lv(data, likelihood=lik.Bernoulli(), latent_inducing=3, scaling=None)
    fit(model, data, steps=100, optimizer=Adam(0.05), progress=False)
    seen = model.predictions(data, quantiles=())
    assert ((seen["mean"] > 0.5) == (seen["observed"] > 0.5)).mean() > 0.9


def test_likelihoods_of_several_functions_are_refused():
    data = replicated(lambda rng, f: f)
    with pytest.raises(TypeError, match="HeteroscedasticGaussian reads several functions"):
        hmogp_lv(data, likelihood=lik.HeteroscedasticGaussian(), start="random", scaling=None)
