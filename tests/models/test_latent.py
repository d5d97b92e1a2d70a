"""`LatentMOGP` against textbook formulas: Kronecker products in full, quadrature, Monte Carlo and other GP models."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from dense_latent import (
    LEVELS,
    common_data,
    dense,
    dense_kl,
    dense_moments,
    dense_terms,
    exact_log_evidence,
    expectations,
    latent_kl,
    levels_of,
    mixture,
    nodes,
    over_replicas,
    random_posterior,
    table,
    toy,
    uneven_data,
)
from gpflow.kernels import Matern32, SquaredExponential
from gpflow.utilities import print_summary, set_trainable
from scipy import stats
from tensorflow_probability import distributions as tfd

import mogp
import mogp.likelihoods as lik
from mogp.data import MultiOutputData, Output
from mogp.data.padded import PaddedBatch
from mogp.errors import UnsupportedError
from mogp.inducing import ReplicaPoints
from mogp.kernels import hierarchical
from mogp.likelihoods import Gaussian
from mogp.models import LatentMOGP, hgp_ind, lvmogp
from mogp.models.latent_moments import latent_nodes
from mogp.optimizers import FNG, LBFGS, Adam, NaturalAdam
from mogp.training import fit

K_X = over_replicas()
DATA = {"common": common_data, "uneven": uneven_data}


@pytest.fixture
def little_jitter():
    """Equalities with exact formulas hold to the jitter."""
    with gpflow.config.as_context(gpflow.config.Config(jitter=1e-10)):
        yield


def total(model: LatentMOGP, data: MultiOutputData) -> float:
    """The bound without the divergence of the latent variables, which grows without end as they become certain."""
    return float(model.elbo(data) + tf.reduce_sum(model.kl_latent()))


def certain(model: LatentMOGP) -> LatentMOGP:
    model.latent_var.assign(np.full(model.latent_var.shape, 1e-12))
    return model


def at_the_data(data: MultiOutputData, latent: SquaredExponential, mean: np.ndarray, **options) -> LatentMOGP:
    """Inducing points at the inputs of the data, which all outputs share, and at the latent means."""
    X = table(data, 0)
    points = ReplicaPoints(X[:, :-1], X[:, -1])
    kernel = hierarchical(levels_of(), data.input_dim)
    noise = np.broadcast_to(options.pop("noise", np.linspace(0.2, 0.4, len(mean))), len(mean))
    Z = options.pop("Z", mean)
    return certain(LatentMOGP(kernel, latent, points, Z, mean, likelihood=Gaussian(noise), names=data.names, **options))


# ------------------------------------------------------------------------------------- H1: dense, Kronecker, point-wise


@pytest.mark.parametrize("name", DATA)
def test_the_bound_equals_the_dense_one(name):
    """H1: `K_UU = K_H ⊗ K_X` in full with explicit inverses, psi-statistics by quadrature."""
    data = DATA[name]()
    model = toy(data)
    terms = dense_terms(model, data, K_X)
    np.testing.assert_allclose(model.data_terms(data), terms, rtol=1e-8)
    np.testing.assert_allclose(model.kl_inducing(), dense_kl(model, K_X), rtol=1e-8)
    np.testing.assert_allclose(model.kl_latent(), latent_kl(model), rtol=1e-8)
    np.testing.assert_allclose(model.elbo(data), terms.sum() - dense_kl(model, K_X) - latent_kl(model).sum(), rtol=1e-8)


@pytest.mark.parametrize("name", DATA)
def test_the_best_noise_maximises_the_bound(name):
    data = DATA[name]()
    model = toy(data)
    model.noise.assign(model.best_noise(data))
    with tf.GradientTape() as tape:
        bound = model.elbo(data)
    np.testing.assert_allclose(tape.gradient(bound, model.noise.unconstrained_variable), 0, atol=1e-9)
    best = model.noise.numpy()
    for scale in (0.8, 1.25):
        model.noise.assign(scale * best)
        assert model.elbo(data) < bound
    np.testing.assert_allclose(model.best_noise(data), best, rtol=1e-12)


def test_only_gaussian_targets_have_a_noise_that_can_be_found():
    data = counts("Poisson")
    with pytest.raises(ValueError, match="Poisson, which has no noise"):
        toy(data, likelihood=gpflow.likelihoods.Poisson()).best_noise(data)


def test_the_bound_of_a_tree_of_three_levels_equals_the_dense_one():
    data, tree = uneven_data(), [(0, 0), (0, 1), (1, 0)]
    levels = (*LEVELS, (0.4, 0.9))
    model = toy(data, levels=levels, tree=tree)
    k_x = over_replicas(levels, tree)
    np.testing.assert_allclose(model.data_terms(data), dense_terms(model, data, k_x), rtol=1e-8)


@pytest.mark.parametrize(("D", "R", "M_x", "M_h", "Q"), [(1, 1, 1, 1, 1), (1, 2, 4, 2, 1), (4, 1, 3, 1, 3)])
def test_the_bound_equals_the_dense_one_at_the_smallest_sizes(D, R, M_x, M_h, Q):
    """One output, one replica, one inducing point of either kind, one latent dimension and three."""
    data = common_data(D, R, 3)
    model = toy(data, M_x=M_x, M_h=M_h, Q=Q)
    expected = dense_terms(model, data, K_X, count=25 if Q == 3 else 40).sum()
    expected -= dense_kl(model, K_X) + latent_kl(model).sum()
    np.testing.assert_allclose(model.elbo(data), expected, rtol=1e-7 if Q == 3 else 1e-8)


def test_inputs_of_several_columns_and_no_replicas():
    rng = np.random.default_rng(3)
    data = MultiOutputData.from_arrays(rng.uniform(0, 3, (5, 2)), rng.normal(size=(5, 3)))
    model = toy(data)
    np.testing.assert_allclose(model.data_terms(data), dense_terms(model, data, K_X), rtol=1e-8)


@pytest.mark.parametrize("complete", [True, False])
def test_gradients_of_the_forms_that_sum_first_and_of_the_point_wise_form_agree(complete):
    data = common_data() if complete else uneven_data()
    model = toy(data)
    batch = model.batches(data)(0)
    assert (batch.rows is None) == complete
    assert batch.X.shape[0] <= 10 * batch.Y.shape[1]
    with tf.GradientTape(persistent=True) as tape:
        one = model.elbo(batch) + model.kl_inducing() + tf.reduce_sum(model.kl_latent())
        other = tf.reduce_sum(model.data_terms(batch))
    for variable in model.trainable_variables:
        a, b = tape.gradient(one, variable), tape.gradient(other, variable)
        np.testing.assert_allclose(tf.convert_to_tensor(a), tf.convert_to_tensor(b), rtol=1e-7, atol=1e-8)


def test_common_and_different_inputs_give_the_same_bound():
    """H12: the rows of one output in another order, and its targets with them; one noise and one for each."""
    data = common_data()
    own = data.outputs[1]
    back = np.arange(len(own))[::-1]
    turned = Output(own.name, own.rows[back], own.Y[back], own.observed[back], own.replica[back])
    mixed = MultiOutputData(data.X, (data.outputs[0], turned, data.outputs[2]))
    model = toy(data)
    assert model.batches(data)(0).rows is None
    assert model.batches(mixed)(0).rows is not None
    for noise in (np.full(3, 0.2), np.array([0.1, 0.2, 0.4])):
        model.noise.assign(noise)
        np.testing.assert_allclose(model.elbo(mixed), model.elbo(data), rtol=1e-10)


# --------------------------------------------------------------------------------------------- H3, H4: exact evidence


def test_with_inducing_points_at_the_data_the_collapsed_bound_is_the_exact_evidence(little_jitter):
    """H3: `s → 0`, `Z^X = X`, `Z^H = μ` and the best `q(U)`; a noise variance for each output."""
    data = common_data()
    mean = np.array([[0.0, 0.4], [1.1, -0.3], [-0.6, -0.9]])
    model = at_the_data(data, SquaredExponential(variance=1.3, lengthscales=[0.9, 1.2]), mean)
    exact = exact_log_evidence(data, mean, model.latent_kernel, model.noise.numpy(), K_X)
    np.testing.assert_allclose(model.collapsed_elbo(data) + tf.reduce_sum(model.kl_latent()), exact, rtol=1e-6)


def test_the_collapsed_bound_is_that_of_the_best_dense_posterior():
    """Spec 3.9 in full: `S* = K (K + Φ/σ²)⁻¹ K` in the dense bound, with uncertain latent variables."""
    data = common_data()
    model = toy(data)
    q = dense(model, K_X)
    precision, linear, rest = np.zeros_like(q.K), np.zeros(len(q.K)), 0.0
    inverse = np.linalg.inv(q.K)
    for d, own in enumerate(data.outputs):
        X, y, noise = table(data, d), own.Y[:, 0], float(model.noise.numpy()[d])
        h, w = nodes(model.latent_mean.numpy()[d], model.latent_var.numpy()[d])
        Psi, Phi = expectations(q, h, w, X)
        precision += Phi / noise
        linear += Psi.T @ y / noise
        left = q.prior(X).sum() - np.trace(inverse @ Phi)
        rest -= 0.5 * (len(y) * np.log(2 * np.pi * noise) + (y @ y + left) / noise)
    S = q.K @ np.linalg.inv(q.K + precision) @ q.K
    m = q.K @ np.linalg.inv(q.K + precision) @ linear
    fit_term = linear @ inverse @ m - 0.5 * np.trace(inverse @ precision @ inverse @ (np.outer(m, m) + S))
    kl = 0.5 * (np.trace(inverse @ S) + m @ inverse @ m - len(m) + np.linalg.slogdet(q.K)[1] - np.linalg.slogdet(S)[1])
    expected = rest + fit_term - kl - latent_kl(model).sum()
    np.testing.assert_allclose(model.collapsed_elbo(data), expected, rtol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_kronecker_bound_below_collapsed_bound_below_exact_evidence_given_the_latent_variables(seed):
    """H4."""
    data = common_data(seed=seed)
    model = certain(toy(data, seed=seed))
    exact = exact_log_evidence(data, model.latent_mean.numpy(), model.latent_kernel, model.noise.numpy(), K_X)
    collapsed = float(model.collapsed_elbo(data) + tf.reduce_sum(model.kl_latent()))
    assert total(model, data) < collapsed < exact


def test_the_bound_is_below_the_importance_sampled_evidence():
    """H4: `log p(y) = log E p(y | H) p(H) / r(H)`, draws from `r`, half prior, half `q`; training comes close to it."""
    data = common_data(D=2, R=2, N=2)
    model = toy(data, M_x=4, M_h=2, Q=1)
    set_trainable(model.kernel, False)
    set_trainable(model.latent_kernel, False)
    set_trainable(model.noise, False)
    before = float(model.elbo(data))
    fit(model, data, steps=150, optimizer=LBFGS(), progress=False)
    mean, var = model.latent_mean.numpy(), model.latent_var.numpy()
    rng = np.random.default_rng(0)
    H = rng.normal(size=(20_000, 2, 1))
    H[::2] = mean + np.sqrt(var) * H[::2]
    k, noise = model.latent_kernel, model.noise.numpy()
    X = table(data, 0)
    y = np.concatenate([o.Y[:, 0] for o in data.outputs])
    K_h = k.variance.numpy() * np.exp(-0.5 * ((H - H.transpose(0, 2, 1)) / k.lengthscales.numpy()) ** 2)
    K = np.einsum("sde,nm->sdnem", K_h, K_X(X, X)).reshape(len(H), len(y), len(y)) + np.diag(np.repeat(noise, len(X)))
    logs = -0.5 * (
        np.linalg.slogdet(K)[1] + np.einsum("n,snm,m->s", y, np.linalg.inv(K), y) + len(y) * np.log(2 * np.pi)
    )
    prior, posterior = (stats.norm.logpdf(H, *q).sum((1, 2)) for q in ((0, 1), (mean, np.sqrt(var))))
    weights = logs + prior - np.logaddexp(prior, posterior) + np.log(2)
    evidence = float(np.logaddexp.reduce(weights) - np.log(len(weights)))
    effective = np.exp(2 * np.logaddexp.reduce(weights) - np.logaddexp.reduce(2 * weights))
    assert effective > 2000
    assert before < float(model.elbo(data)) < float(model.collapsed_elbo(data)) + 1e-6 < evidence + 0.02
    assert evidence - float(model.elbo(data)) < 2


# ---------------------------------------------------------------------------------------------- H5 to H9: special cases


def test_one_replica_gives_lvmogp_with_the_sum_of_the_kernels():
    """H5."""
    data = common_data(R=1, N=6)
    model = toy(data)
    flat = MultiOutputData(data.X, tuple(Output(o.name, o.rows, o.Y, o.observed) for o in data.outputs))
    g, f = levels_of()
    named = lvmogp(flat, kernel=g + f, inducing=model.inducing, latent_inducing=3, start="random", scaling=None)
    for target, value in gpflow.utilities.parameter_dict(model).items():
        if not target.startswith(".kernels") and target in gpflow.utilities.parameter_dict(named):
            gpflow.utilities.parameter_dict(named)[target].assign(value)
    named.latent_kernel.variance.assign(model.latent_kernel.variance)
    np.testing.assert_allclose(named.elbo(flat), model.elbo(data), rtol=1e-10)
    Xnew = np.linspace(-1, 4, 7)
    for one, other in zip(named.predict_y(Xnew), model.predict_y(Xnew), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_without_a_function_of_the_replica_replicas_are_repeated_observations():
    """H6: `σ_f² → 0`, LVMOGP with `k_g` on the stacked replicas."""
    data = uneven_data()
    model = toy(data, levels=(LEVELS[0], (1e-12, 0.6)))
    flat = MultiOutputData(data.X, tuple(Output(o.name, o.rows, o.Y, o.observed) for o in data.outputs))
    other = toy(data, levels=LEVELS[:1])
    np.testing.assert_allclose(other.elbo(flat), model.elbo(data), rtol=1e-9)
    k_g = over_replicas(LEVELS[:1])
    np.testing.assert_allclose(model.data_terms(data), dense_terms(other, flat, k_g), rtol=1e-8)


def test_without_a_shared_function_replicas_decouple():
    """H7: `σ_g² → 0` and block-diagonal `T_X`: the sum over replicas of models that share `H` and `T_H`."""
    data, levels = uneven_data(), ((1e-12, 1.3), LEVELS[1])
    model = toy(data, levels=levels, M_x=6)
    replica = model.inducing.replica
    order = np.argsort(replica, kind="stable")
    Z, replica = model.inducing.Z.numpy()[order], replica[order]
    model.inducing = ReplicaPoints(Z, replica)
    blocks = model.posterior.q_sqrt_x.numpy() * (replica[:, None] == replica)
    model.posterior.q_sqrt_x.assign(blocks)
    parts = 0.0
    for r in range(3):
        rows = {o.name: np.flatnonzero(o.replica == r) for o in data.outputs}
        chosen = [d for d, o in enumerate(data.outputs) if len(rows[o.name])]
        outputs = [data.outputs[d] for d in chosen]
        there = MultiOutputData(
            data.X, tuple(Output(o.name, o.rows[p], o.Y[p], o.observed[p]) for o in outputs for p in [rows[o.name]])
        )
        own = replica == r
        part = LatentMOGP(
            hierarchical(levels_of(levels[1:]), 1), model.latent_kernel, ReplicaPoints(Z[own], np.zeros(own.sum())),
            model.latent_inducing.numpy(), model.latent_mean.numpy()[chosen], model.latent_var.numpy()[chosen],
            likelihood=Gaussian(model.noise.numpy()[chosen]), names=there.names,
        )  # fmt: skip
        part.posterior.q_mu.assign(model.posterior.q_mu.numpy()[own])
        part.posterior.q_sqrt_h.assign(model.posterior.q_sqrt_h)
        part.posterior.q_sqrt_x.assign(blocks[np.ix_(own, own)])
        parts += total(part, there)
    np.testing.assert_allclose(total(model, data), parts, rtol=1e-8)


def one_output(seed: int = 0) -> tuple[MultiOutputData, LatentMOGP]:
    """A single output whose latent variable does not matter."""
    data = common_data(D=1, R=2, N=5, seed=seed)
    mean = np.array([[0.3, -0.4]])
    points = ReplicaPoints(np.linspace(0, 3, 4)[:, None], [0, 1, 0, 1])
    kernel = hierarchical(levels_of(), 1)
    latent = SquaredExponential(lengthscales=[1.0, 1.0])
    model = certain(LatentMOGP(kernel, latent, points, mean, mean, likelihood=Gaussian([0.3]), names=data.names))
    random_posterior(model, seed)
    model.posterior.q_sqrt_h.assign([[1.0]])
    return data, model


def test_a_single_output_has_the_bound_of_a_sparse_hierarchical_gp(little_jitter):
    """H8: GPflow's SVGP on `[x, r]`, and HGPInd."""
    data, model = one_output()
    X, Y = table(data, 0), data.outputs[0].Y
    kernel = hierarchical(levels_of(), 1)
    svgp = gpflow.models.SVGP(
        kernel, gpflow.likelihoods.Gaussian(0.3), np.asarray(model.inducing.inputs), num_data=len(X), whiten=True,
        q_mu=model.posterior.q_mu.numpy(), q_sqrt=model.posterior.q_sqrt_x.numpy()[None],
    )  # fmt: skip
    np.testing.assert_allclose(total(model, data), svgp.elbo((X, Y)), rtol=1e-7)
    named = hgp_ind(
        data, inducing=ReplicaPoints(model.inducing.Z.numpy(), model.inducing.replica), kernel=levels_of(), scaling=None
    )
    named.likelihood.likelihoods[0].variance.assign(0.3)
    named.posterior.q_mu.assign(model.posterior.q_mu.numpy())
    named.posterior.q_sqrt.assign(model.posterior.q_sqrt_x.numpy()[None])
    np.testing.assert_allclose(named.elbo(data), svgp.elbo((X, Y)), rtol=1e-8)
    new = np.column_stack([np.linspace(-1, 4, 6), np.ones(6)])
    for one, other, third in zip(
        model.predict_y(new[:, :1], 0, replica=1),
        named.predict_y(new[:, :1], 0, replica=1),
        svgp.predict_y(new),
        strict=True,
    ):
        np.testing.assert_allclose(one, third, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(other, third, rtol=1e-6, atol=1e-8)


def test_a_single_output_with_points_at_the_data_has_the_evidence_of_a_hierarchical_gp(little_jitter):
    """H8: GPflow's GPR."""
    data = common_data(D=1, R=2, N=5)
    model = at_the_data(data, SquaredExponential(lengthscales=[1.0]), np.zeros((1, 1)), noise=0.3)
    gpr = gpflow.models.GPR((table(data, 0), data.outputs[0].Y), hierarchical(levels_of(), 1), noise_variance=0.3)
    collapsed = model.collapsed_elbo(data) + tf.reduce_sum(model.kl_latent())
    np.testing.assert_allclose(collapsed, gpr.log_marginal_likelihood(), rtol=1e-6)


def test_certain_latent_variables_give_a_sparse_gp_with_a_product_kernel(little_jitter):
    """`S → 0`: GPflow's SGPR on `[x, r, h]`, whose inducing points are the grid of `Z^X` and `Z^H`."""
    data = common_data()
    model = certain(toy(data))
    H, Z_h, Z_x = model.latent_mean.numpy(), model.latent_inducing.numpy(), np.asarray(model.inducing.inputs)
    X = np.concatenate([np.column_stack([table(data, d), np.tile(H[d], (8, 1))]) for d in range(3)])
    Y = np.concatenate([o.Y for o in data.outputs])
    latent = SquaredExponential(
        variance=model.latent_kernel.variance.numpy(), lengthscales=model.latent_kernel.lengthscales.numpy(),
        active_dims=[2, 3],
    )  # fmt: skip
    grid = np.concatenate([np.column_stack([Z_x, np.tile(z, (len(Z_x), 1))]) for z in Z_h])
    model.noise.assign(np.full(3, 0.3))
    sgpr = gpflow.models.SGPR((X, Y), hierarchical(levels_of(), 1) * latent, grid, noise_variance=0.3)
    collapsed = model.collapsed_elbo(data) + tf.reduce_sum(model.kl_latent())
    np.testing.assert_allclose(collapsed, sgpr.elbo(), rtol=1e-6)


def test_a_long_latent_lengthscale_makes_all_outputs_one_function(little_jitter):
    """H9: `l_H → ∞`, one hierarchical GP with repeated observations, whatever `q(H)`."""
    data = common_data()
    mean = np.random.default_rng(0).normal(size=(3, 2))
    latent = SquaredExponential(lengthscales=[1e6, 1e6])
    model = at_the_data(data, latent, mean, Z=mean[:1], noise=0.3)
    model.latent_var.assign(np.full((3, 2), 0.7))
    X = np.concatenate([table(data, d) for d in range(3)])
    Y = np.concatenate([o.Y for o in data.outputs])
    gpr = gpflow.models.GPR((X, Y), hierarchical(levels_of(), 1), noise_variance=0.3)
    collapsed = model.collapsed_elbo(data) + tf.reduce_sum(model.kl_latent())
    np.testing.assert_allclose(collapsed, gpr.log_marginal_likelihood(), rtol=1e-6)
    random_posterior(model)
    f, var = model.predict_f(np.linspace(0, 3, 5), replica=1)
    np.testing.assert_allclose(f, np.tile(f[:, :1], 3), rtol=1e-6)
    np.testing.assert_allclose(var, np.tile(var[:, :1], 3), rtol=1e-6)


def test_a_short_latent_lengthscale_makes_outputs_independent(little_jitter):
    """H9: `l_H → 0`, `Z^H = μ`: the sum of the evidences of hierarchical GPs."""
    data = common_data()
    mean = np.array([[0.0, 0.0], [1.0, 0.5], [-1.0, 2.0]])
    model = at_the_data(data, SquaredExponential(lengthscales=[1e-2, 1e-2]), mean, noise=0.3)
    expected = sum(
        gpflow.models.GPR(
            (table(data, d), data.outputs[d].Y), hierarchical(levels_of(), 1), noise_variance=0.3
        ).log_marginal_likelihood()
        for d in range(3)
    )
    collapsed = model.collapsed_elbo(data) + tf.reduce_sum(model.kl_latent())
    np.testing.assert_allclose(collapsed, expected, rtol=1e-6)


# --------------------------------------------------------------------------------- H11, H13, H14: invariances, batches


def test_the_bound_does_not_depend_on_the_order_of_rows():
    """H11."""
    data = uneven_data()
    model, frame = toy(data), data.frame()
    for seed in range(3):
        shuffled = frame.sample(frac=1.0, random_state=seed)
        again = MultiOutputData.from_long(shuffled, "x", replica="replica")
        order = [again.index(name) for name in data.names]
        again = MultiOutputData(again.X, tuple(again.outputs[d] for d in order))
        np.testing.assert_allclose(model.elbo(again), model.elbo(data), rtol=1e-10)


def test_the_bound_does_not_depend_on_the_names_of_replicas():
    """H11: other numbers in the data and at the inducing points."""
    data = uneven_data()
    model, other = toy(data), toy(data)
    numbers = np.array([7, 0, 3])
    other.inducing.replica = numbers[model.inducing.replica]
    renamed = MultiOutputData(
        data.X, tuple(Output(o.name, o.rows, o.Y, o.observed, numbers[o.replica]) for o in data.outputs)
    )
    np.testing.assert_allclose(other.elbo(renamed), model.elbo(data), rtol=1e-10)


def test_the_bound_does_not_depend_on_the_order_of_outputs():
    """H11: `μ`, `s` and the noise go with them."""
    data = uneven_data()
    model, order = toy(data), [3, 0, 4, 2, 1]
    other = model.with_outputs(
        [data.names[d] for d in order],
        *(p.numpy()[order] for p in (model.latent_mean, model.latent_var)),
        Gaussian(model.noise.numpy()[order]),
    )
    turned = MultiOutputData(data.X, tuple(data.outputs[d] for d in order))
    np.testing.assert_allclose(other.elbo(turned), model.elbo(data), rtol=1e-10)


@pytest.mark.parametrize(
    ("size", "likelihood"),
    [(2, None), ((2, None), None), ((None, 4), None), ((2, 4), None), ((2, 4), gpflow.likelihoods.StudentT)],
)
def test_batches_of_a_pass_average_to_the_full_bound(size, likelihood):
    """H13: a partition of outputs, of rows, and of both."""
    data = common_data(D=4)
    model = toy(data, likelihood=likelihood and likelihood())
    source = model.batches(data, size, seed=3)
    steps = (4 // source.B) * (8 // source.n)
    parts = [float(model.elbo(source(step))) for step in range(steps)]
    np.testing.assert_allclose(np.mean(parts), model.elbo(data), rtol=1e-10)
    assert steps == 1 or np.std(parts) > 1e-3


def test_batches_of_outputs_with_different_rows_average_to_the_full_bound():
    """H13: five outputs of one to six rows; a pass over outputs, and one over rows (of which 60 hold every size)."""
    data = uneven_data()
    model = toy(data)
    source = model.batches(data, 1, seed=1)
    np.testing.assert_allclose(np.mean([model.elbo(source(s)) for s in range(5)]), model.elbo(data), rtol=1e-10)
    source = model.batches(data, (None, 2), seed=1)
    np.testing.assert_allclose(np.mean([model.elbo(source(s)) for s in range(6)]), model.elbo(data), rtol=1e-10)


def test_a_batch_of_outputs_has_gradients_for_its_outputs_alone_and_lazy_adam_moves_no_other():
    data = common_data(D=4)
    model = toy(data)
    source = model.batches(data, 2, seed=3)
    batch = source(0)
    inside = set(np.asarray(batch.outputs))
    own = [p.unconstrained_variable for p in (model.latent_mean, model.latent_var, model.noise)]
    with tf.GradientTape() as tape:
        loss = model.training_loss(batch)
    for gradient in tape.gradient(loss, own):
        assert isinstance(gradient, tf.IndexedSlices)
        assert set(np.asarray(gradient.indices)) == inside
    adam, before = Adam(0.1, lazy=True), [v.numpy() for v in own]
    adam.start(model)
    adam.step(model, lambda: model.training_loss(batch))
    adam.step(model, lambda: model.training_loss(batch))
    for variable, old in zip(own, before, strict=True):
        moved = np.any(np.reshape(variable.numpy() != old, (4, -1)), 1)
        assert set(np.flatnonzero(moved)) == inside


def test_divergences_are_zero_where_posterior_and_prior_are_the_same():
    """H14."""
    model = toy(common_data())
    model.latent_mean.assign(np.zeros((3, 2)))
    model.latent_var.assign(np.ones((3, 2)))
    np.testing.assert_allclose(model.kl_latent(), np.zeros(3), atol=1e-12)
    model.posterior.q_mu.assign(np.zeros((5, 3)))
    model.posterior.q_sqrt_x.assign(np.eye(5))
    model.posterior.q_sqrt_h.assign(np.eye(3))
    np.testing.assert_allclose(model.kl_inducing(), 0, atol=1e-12)
    np.testing.assert_allclose(dense_kl(model, K_X), 0, atol=1e-8)


# ----------------------------------------------------------------------------------------------------- H15: predictions


def test_predictions_have_the_moments_of_the_mixture_over_latent_variables():
    """By quadrature over `h` of the dense conditional moments; the noise is added to the targets."""
    data = uneven_data()
    model, Xnew = toy(data), np.linspace(-1, 4, 5)
    for d, replica in ((0, 0), (2, 1), (4, 2)):
        X = np.column_stack([Xnew, np.full(5, replica)])
        mean, cov = mixture(model, d, X, K_X)
        f_mean, f_var = model.predict_f(Xnew, d, replica=replica)
        np.testing.assert_allclose(f_mean[:, 0], mean, rtol=1e-7)
        np.testing.assert_allclose(f_var[:, 0], np.diag(cov), rtol=1e-6)
        y_mean, y_var = model.predict_y(Xnew, data.names[d], replica=replica)
        np.testing.assert_allclose(y_mean[:, 0], mean, rtol=1e-7)
        np.testing.assert_allclose(y_var[:, 0], np.diag(cov) + model.noise.numpy()[d], rtol=1e-6)


def test_predictive_variances_are_positive_and_those_of_the_prior_far_away():
    """H15."""
    data = uneven_data()
    model = toy(data)
    near = model.predict_f(np.linspace(-2, 5, 50), replica=np.arange(50) % 4)
    assert np.all(near.var.numpy() > 0)
    far = model.predict_f([1e3, -1e3], replica=1)
    np.testing.assert_allclose(far.mean, 0, atol=1e-10)
    np.testing.assert_allclose(far.var, 1.4 * (LEVELS[0][0] + LEVELS[1][0]), rtol=1e-10)


def test_with_the_prior_as_posterior_the_prior_variance_holds_everywhere():
    """H15."""
    model = toy(uneven_data())
    model.posterior.q_mu.assign(np.zeros((5, 3)))
    model.posterior.q_sqrt_x.assign(np.eye(5))
    model.posterior.q_sqrt_h.assign(np.eye(3))
    found = model.predict_f(np.linspace(-2, 5, 20), replica=2)
    np.testing.assert_allclose(found.mean, 0, atol=1e-12)
    np.testing.assert_allclose(found.var, 1.4 * (LEVELS[0][0] + LEVELS[1][0]), rtol=1e-8)


def test_a_replica_that_was_never_seen_is_known_through_the_shared_function_alone():
    """The mean by `k_g` alone, the prior variance in full; all unseen replicas are alike."""
    data = common_data()
    model, Xnew = certain(toy(data)), np.linspace(0, 3, 6)
    k_g = over_replicas(LEVELS[:1])
    Z, X = np.asarray(model.inducing.inputs), np.column_stack([Xnew, np.full(6, 9)])
    K_x = K_X(Z, Z) + gpflow.default_jitter() * np.eye(5)
    U = np.linalg.cholesky(K_x) @ model.posterior.q_mu.numpy()
    factors = np.linalg.solve(np.linalg.cholesky(_latent_covariance(model)), _latent_cross(model, 1))
    expected = k_g(X, Z) @ np.linalg.inv(K_x) @ U @ factors
    found = model.predict_f(Xnew, 1, replica=9)
    np.testing.assert_allclose(found.mean[:, 0], expected, rtol=1e-7)
    np.testing.assert_array_equal(found.mean, model.predict_f(Xnew, 1, replica=1234).mean)
    seen = model.predict_f(Xnew, 1, replica=0)
    assert np.mean(found.var) > np.mean(seen.var)


def _latent_covariance(model: LatentMOGP) -> np.ndarray:
    Z = model.latent_inducing.numpy()
    return model.latent_kernel(Z).numpy() + gpflow.default_jitter() * np.eye(len(Z))


def _latent_cross(model: LatentMOGP, d: int) -> np.ndarray:
    return model.latent_kernel(model.latent_inducing.numpy(), model.latent_mean.numpy()[[d]]).numpy()[:, 0]


def test_joint_draws_have_the_moments_of_the_predictions():
    model, Xnew = toy(uneven_data()), np.array([0.2, 1.0, 2.5])
    draws = model.predict_f_samples(Xnew, 0, samples=20_000, seed=4, replica=1).numpy()[..., 0]
    mean, var = (a.numpy()[:, 0] for a in model.predict_f(Xnew, 0, replica=1))
    assert draws.shape == (20_000, 3)
    assert np.all(np.abs(draws.mean(0) - mean) < 5 * np.sqrt(var / 20_000))
    np.testing.assert_allclose(draws.var(0), var, rtol=0.06)
    _, cov = mixture(model, 0, np.column_stack([Xnew, np.ones(3)]), K_X)
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.06 * var.max())


@pytest.mark.parametrize("likelihood", [None, gpflow.likelihoods.Gaussian(0.25)])
def test_log_densities_are_those_of_the_mixture(likelihood):
    data = uneven_data()
    model = toy(data, likelihood=likelihood, nodes=25)
    found = model.predict_log_density(data)
    assert [len(v) for v in found.values()] == list(data.sizes)
    for d, own in enumerate(data.outputs):
        noise = 0.25 if likelihood else model.noise.numpy()[d]
        h, w = nodes(model.latent_mean.numpy()[d], model.latent_var.numpy()[d], 25)
        means, covs = dense_moments(model, table(data, d), h, K_X)
        sd = np.sqrt(np.diagonal(covs, axis1=1, axis2=2) + noise)
        density = w @ stats.norm.pdf(own.Y[:, 0], means, sd)
        np.testing.assert_allclose(found[own.name], np.log(density), rtol=1e-6, atol=1e-7)


def far_apart() -> MultiOutputData:
    """Twelve outputs with inputs of their own, so that few predictions of all at all inputs would be used."""
    rng = np.random.default_rng(4)
    pairs = [(rng.uniform(0, 3, (3, 1)), rng.normal(size=(3, 1))) for _ in range(12)]
    return MultiOutputData.from_list(pairs, replicas=[np.array([0, 1, 1])] * 12)


@pytest.mark.parametrize("make", [uneven_data, far_apart])
def test_the_table_of_predictions_goes_with_the_rows_of_the_data(make):
    data = make()
    model = toy(data)
    frame = model.predictions(data, quantiles=())
    assert list(frame.columns) == ["row", "replica", "x", "output", "target", "observed", "mean", "sd"]
    assert len(frame) == sum(data.sizes)
    for name, part in frame.groupby("output", sort=False):
        own = data[name]
        np.testing.assert_array_equal(part["observed"], own.Y[:, 0])
        np.testing.assert_array_equal(part["replica"], own.replica)
        mean, var = model.predict_y(part["x"].to_numpy(), name, replica=part["replica"].to_numpy())
        np.testing.assert_allclose(part["mean"], mean[:, 0], rtol=1e-10)
        np.testing.assert_allclose(part["sd"], np.sqrt(var[:, 0]), rtol=1e-10)


# ---------------------------------------------------------------------------------------------- H16: a missing replica


def test_dropping_a_replica_equals_never_having_had_it():
    """H16: the bound of what is left, dense, with inducing points that still carry its number."""
    data = common_data(D=3, R=3, N=3)
    model = toy(data)
    kept = np.flatnonzero(data.outputs[0].replica != 2)
    dropped = data.take({"output 0": kept})
    pairs = [(data.inputs(d)[kept] if d == 0 else data.inputs(d), o.Y[kept] if d == 0 else o.Y)
             for d, o in enumerate(data.outputs)]  # fmt: skip
    never = MultiOutputData.from_list(
        pairs, names=data.names, replicas=[o.replica[kept] if d == 0 else o.replica for d, o in enumerate(data.outputs)]
    )
    np.testing.assert_allclose(model.elbo(dropped), model.elbo(never), rtol=1e-12)
    np.testing.assert_allclose(model.data_terms(dropped), dense_terms(model, never, K_X), rtol=1e-8)


def drawn(D: int = 4, R: int = 3, N: int = 8, noise: float = 0.02, seed: int = 5) -> tuple[MultiOutputData, np.ndarray]:
    """A draw of the model at common inputs, and its latent variables."""
    rng = np.random.default_rng(seed)
    H = np.column_stack([np.linspace(-1, 1, D), rng.normal(size=D)])
    X = np.column_stack([np.tile(np.linspace(0, 3, N), R), np.repeat(np.arange(R), N)])
    K = np.kron(np.exp(-0.5 * ((H[:, None] - H) ** 2).sum(-1)), K_X(X, X))
    y = np.linalg.cholesky(K + noise * np.eye(len(K))) @ rng.normal(size=len(K))
    return MultiOutputData.from_arrays(X[:, :1], y.reshape(D, -1).T, replica=X[:, 1].astype(int)), H


def test_a_missing_replica_is_predicted_with_more_uncertainty_than_observed_ones():
    """H16: finite, and on average wider; yet better than the prior, as other outputs have the replica."""
    data, H = drawn()
    kept = np.flatnonzero(data.outputs[1].replica != 2)
    train = data.take({"output 1": kept})
    X = table(data, 0)
    model = LatentMOGP(
        hierarchical(levels_of(), 1), SquaredExponential(lengthscales=np.ones(2)),
        ReplicaPoints(X[::2, :1], X[::2, 1]), H, H, 1e-3, likelihood=Gaussian(np.full(4, 0.02)), names=data.names,
    )  # fmt: skip
    for fixed in (model.kernel, model.latent_kernel, model.latent_mean, model.latent_var, model.inducing):
        set_trainable(fixed, False)
    fit(model, train, steps=80, optimizer=LBFGS(), progress=False)
    x = np.linspace(0, 3, 8)
    widths = [float(np.mean(model.predict_f(x, 1, replica=r).var)) for r in range(3)]
    assert np.isfinite(widths).all()
    assert widths[2] > max(widths[:2])
    held = data.outputs[1].Y[data.outputs[1].replica == 2]
    mean = model.predict_f(x, 1, replica=2).mean
    assert np.mean((held - mean) ** 2) < np.mean(held**2)


# ------------------------------------------------------------------------------------------------- other likelihoods


def counts(kind: str) -> MultiOutputData:
    data = uneven_data()
    rng = np.random.default_rng(2)
    draw = {"Poisson": lambda n: rng.poisson(1.5, n), "Bernoulli": lambda n: rng.integers(0, 2, n)}[kind]
    return MultiOutputData(
        data.X, tuple(Output(o.name, o.rows, draw((len(o), 1)).astype(float), o.observed, o.replica) for o in data)
    )


class Normal(lik.DistributionLikelihood):
    """Gaussian noise of variance 0.3, which the library takes for any likelihood of one function."""

    function_labels = ("mean",)

    def conditional(self, F):
        return tfd.Normal(F[..., 0], np.sqrt(0.3))


def likely(f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of 1 and of 0 for GPflow's Bernoulli, which keeps them a thousandth away from the ends."""
    p = 0.998 * stats.norm.cdf(f) + 0.001
    return p, 1 - p


@pytest.mark.parametrize("kind", ["Poisson", "Bernoulli"])
def test_bounds_of_counts_and_labels_equal_brute_force_monte_carlo(kind):
    """Draws of `h`, then of `f` given `h`, then the log density of the target; within five standard errors."""
    data = counts(kind)
    likelihood = getattr(gpflow.likelihoods, kind)()
    model = toy(data, likelihood=likelihood)
    model.posterior.q_mu.assign(0.4 * model.posterior.q_mu)
    found, rng = model.data_terms(data).numpy(), np.random.default_rng(0)
    for d, own in enumerate(data.outputs):
        y = own.Y[:, 0]
        h = model.latent_mean.numpy()[d] + np.sqrt(model.latent_var.numpy()[d]) * rng.normal(size=(5000, 2))
        means, covs = dense_moments(model, table(data, d), h, K_X)
        sd = np.sqrt(np.diagonal(covs, axis1=1, axis2=2))
        f = means + sd * rng.normal(size=(20, *means.shape))
        log_p = stats.poisson.logpmf(y, np.exp(f)) if kind == "Poisson" else np.log(np.where(y > 0, *likely(f)))
        sums = log_p.mean(0).sum(-1)
        assert abs(found[d] - np.mean(sums)) < 5 * np.std(sums) / np.sqrt(len(sums)) + 2e-3


@pytest.mark.parametrize("name", DATA)
def test_quadrature_gives_the_closed_form_of_gaussian_targets(name):
    data = DATA[name]()
    closed, quadrature = toy(data), toy(data, likelihood=Normal(), nodes=30)
    closed.noise.assign(np.full(data.num_outputs, 0.3))
    np.testing.assert_allclose(quadrature.data_terms(data), closed.data_terms(data), rtol=1e-8)
    np.testing.assert_allclose(quadrature.elbo(data), closed.elbo(data), rtol=1e-8)
    for one, other in zip(quadrature.predict_y([0.5, 2.0]), closed.predict_y([0.5, 2.0]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("options", [{"variance": 0.3}, {"scale": np.sqrt(0.3)}])
def test_one_noise_variance_for_all_outputs_is_that_of_each(name, options):
    data = DATA[name]()
    each, shared = toy(data), toy(data, likelihood=gpflow.likelihoods.Gaussian(**options))
    each.noise.assign(np.full(data.num_outputs, 0.3))
    np.testing.assert_allclose(shared.data_terms(data), each.data_terms(data), rtol=1e-12)
    np.testing.assert_allclose(shared.elbo(data), each.elbo(data), rtol=1e-12)
    for call in ("predict_y", "predict_y_samples"):
        for one, other in zip(*(getattr(m, call)([0.5, 2.0]) for m in (shared, each)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
    for one, other in zip(*(m.predict_log_density(data).values() for m in (shared, each)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


SCALAR = {
    "Exponential": (lik.Exponential, "positive"),
    "Poisson": (lik.Poisson, "counts"),
    "Bernoulli": (lik.Bernoulli, "labels"),
    "StudentT": (gpflow.likelihoods.StudentT, "real"),
    "stock Gamma": (gpflow.likelihoods.Gamma, "positive"),
    "stock Exponential": (gpflow.likelihoods.Exponential, "positive"),
    "stock Beta": (gpflow.likelihoods.Beta, "shares"),
}


def targets_like(kind: str) -> MultiOutputData:
    data = uneven_data()
    turn = {
        "positive": np.exp,
        "counts": lambda y: np.floor(np.exp(y)),
        "labels": lambda y: (y > 0).astype(float),
        "real": lambda y: y,
        "shares": lambda y: stats.norm.cdf(y),
    }[kind]
    return replace(data, outputs=tuple(replace(o, Y=turn(o.Y)) for o in data.outputs))


@pytest.mark.parametrize("name", SCALAR)
def test_any_likelihood_of_one_function_has_a_bound_and_predictions(name):
    """The data term against its own rule on the dense conditional moments, at the nodes of a rule over `h`."""
    make, kind = SCALAR[name]
    data, likelihood = targets_like(kind), make()
    model = toy(data, likelihood=likelihood, nodes=9)
    model.posterior.q_mu.assign(0.4 * model.posterior.q_mu)
    terms = []
    for d, own in enumerate(data.outputs):
        h, w = nodes(model.latent_mean.numpy()[d], model.latent_var.numpy()[d], 9)
        means, covs = dense_moments(model, table(data, d), h, K_X)
        var = np.diagonal(covs, axis1=1, axis2=2)
        rule = likelihood.variational_expectations
        rows = [rule(np.zeros((len(m), 0)), m[:, None], v[:, None], own.Y) for m, v in zip(means, var, strict=True)]
        terms.append(float(np.sum(w @ np.array(rows))))
    np.testing.assert_allclose(model.data_terms(data), terms, rtol=1e-5)
    np.testing.assert_allclose(
        model.elbo(data), sum(terms) - model.kl_inducing() - tf.reduce_sum(model.kl_latent()), rtol=1e-5
    )
    y = model.predict_y_samples([0.5], 0, samples=20_000, seed=1, replica=1).numpy()[:, 0, 0]
    mean, var = (float(a[0, 0]) for a in model.predict_y([0.5], 0, replica=1))
    if np.isfinite(var):
        assert abs(y.mean() - mean) < 6 * np.sqrt(var / len(y))
    assert all(np.isfinite(v).all() for v in model.predict_log_density(data).values())


def test_parameters_of_other_likelihoods_may_differ_by_output():
    """Output by output, against models whose likelihood has that output's scale for all."""
    data, scales = uneven_data(), np.linspace(0.3, 1.5, 5)
    model = toy(data, likelihood=gpflow.likelihoods.StudentT(scales))
    terms, densities = model.data_terms(data).numpy(), model.predict_log_density(data)
    mean, var = (a.numpy() for a in model.predict_y([0.5, 1.5], replica=1))
    draws = model.predict_y_samples([0.5, 1.5], samples=3, seed=2, replica=1).numpy()
    for d, scale in enumerate(scales):
        one = toy(data, likelihood=gpflow.likelihoods.StudentT(scale))
        np.testing.assert_allclose(terms[d], one.data_terms(data)[d], rtol=1e-10)
        np.testing.assert_allclose(densities[data.names[d]], one.predict_log_density(data)[data.names[d]], rtol=1e-10)
        for found, truth in zip((mean, var), one.predict_y([0.5, 1.5], replica=1), strict=True):
            np.testing.assert_allclose(found[:, d], truth[:, d], rtol=1e-10)
        np.testing.assert_allclose(
            draws[..., d], one.predict_y_samples([0.5, 1.5], samples=3, seed=2, replica=1)[..., d], rtol=1e-10
        )
    source = model.batches(data, 2, seed=3)
    average = np.mean([tf.reduce_sum(model.data_terms(source(s))) for s in range(5)])
    np.testing.assert_allclose(average, terms.sum(), rtol=1e-9)


def test_predictions_of_counts_equal_monte_carlo():
    data = counts("Poisson")
    model = toy(data, likelihood=gpflow.likelihoods.Poisson(), nodes=15)
    model.posterior.q_mu.assign(0.4 * model.posterior.q_mu)
    mean, var = (a.numpy()[:, 0] for a in model.predict_y([0.5, 2.0], 0, replica=1))
    f = model.predict_f_samples([0.5, 2.0], 0, samples=100_000, seed=1, replica=1).numpy()[..., 0]
    y = np.random.default_rng(0).poisson(np.exp(f))
    assert np.all(np.abs(y.mean(0) - mean) < 5 * y.std(0) / np.sqrt(len(y)))
    np.testing.assert_allclose(y.var(0), var, rtol=0.25)
    with pytest.raises(ValueError, match="Poisson, which has no noise"):
        _ = model.noise


def test_targets_that_a_likelihood_does_not_know_are_refused():
    model = toy(uneven_data(), likelihood=gpflow.likelihoods.Poisson())
    with pytest.raises(ValueError, match="negative"):
        model.elbo(uneven_data())


@pytest.mark.parametrize(("dim", "count"), [(1, 7), (2, 49), (3, 343), (5, 64)])
def test_rules_over_the_latent_space_average_over_a_standard_normal(dim, count):
    """A grid to rounding; quasi-random points too, but for products of dimensions: two standard errors of 64 draws."""
    points, weights = latent_nodes(dim, 7)
    assert points.shape == (count, dim)
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-12)
    moments = points.T * weights @ points
    np.testing.assert_allclose(weights @ points, 0, atol=1e-12)
    np.testing.assert_allclose(np.diag(moments), 1, rtol=1e-10)
    np.testing.assert_allclose(moments, np.eye(dim), atol=2 / np.sqrt(count) if dim > 3 else 1e-10)


def test_more_latent_dimensions_than_a_grid_can_hold_still_have_a_bound():
    data = counts("Poisson")
    model = toy(data, likelihood=gpflow.likelihoods.Poisson(), Q=5)
    assert np.isfinite(model.elbo(data))


# ------------------------------------------------------------------------------------------------------------ training


def tiny() -> tuple[LatentMOGP, MultiOutputData]:
    data, _ = drawn(D=6, R=2, N=4)
    return toy(data), data


def test_a_run_in_two_parts_has_the_history_of_one(tmp_path):
    """Batches of outputs and of their rows."""
    (whole, data), size = tiny(), (3, 4)
    expected = fit(whole, data, steps=9, optimizer=Adam(0.02), batch_size=size, seed=4, progress=False).elbo
    for steps in (4, 9):
        model, _ = tiny()
        history = fit(
            model, data, steps=steps, optimizer=Adam(0.02), batch_size=size, seed=4, progress=False,
            checkpoint=tmp_path / "run.npz",
        )  # fmt: skip
    np.testing.assert_array_equal(history.elbo, expected)
    np.testing.assert_array_equal(model.posterior.q_mu, whole.posterior.q_mu)


def test_lbfgs_raises_the_bound():
    model, data = tiny()
    before = float(model.elbo(data))
    history = fit(model, data, steps=30, optimizer=LBFGS(), progress=False)
    assert float(model.elbo(data)) > before + 1
    assert history.status == "finished"
    assert str(history)


@pytest.mark.parametrize("make", [NaturalAdam, FNG])
def test_natural_gradients_are_refused_with_what_to_use_instead(make):
    """A natural step on the Gaussian of all inducing variables would leave the Kronecker family."""
    model, data = tiny()
    before = model.posterior.q_mu.numpy()
    with pytest.raises(UnsupportedError, match=r"Use\s+Adam\(\)"):
        fit(model, data, steps=1, optimizer=make(), progress=False)
    np.testing.assert_array_equal(model.posterior.q_mu, before)


def test_lbfgs_refuses_mini_batches():
    model, data = tiny()
    with pytest.raises(ValueError, match="batch_size=None"):
        fit(model, data, steps=2, optimizer=LBFGS(), batch_size=2, progress=False)


def test_compiled_training_calls_no_python():
    model, data = tiny()
    source = model.batches(data, (2, 3))
    loss = tf.function(lambda step: model.training_loss(source(step)), autograph=False)
    graph = loss.get_concrete_function(tf.constant(0, tf.int64)).graph
    kinds = {op.type for g in (graph, *graph._functions.values()) for op in getattr(g, "get_operations", list)()}
    assert kinds
    assert not {kind for kind in kinds if "PyFunc" in kind}


def test_only_some_rows_of_many_distinct_inputs_are_projected():
    """Both ways to reach the rows of a batch give the same numbers."""
    data = uneven_data()
    model = toy(data)
    few, many = model.batches(data, (2, 2), seed=1)(0), model.batches(data, (None, 5), seed=1)(0)
    assert few.rows.shape.num_elements() < few.X.shape[0] <= many.rows.shape.num_elements()
    for batch in (few, many):
        of_rows = tf.function(partial(terms_at, model, batch), autograph=False)
        traced = of_rows.get_concrete_function(tf.TensorSpec([None, None], tf.int64))
        np.testing.assert_allclose(traced(batch.rows), model.data_terms(batch), rtol=1e-10)


def terms_at(model: LatentMOGP, batch: PaddedBatch, rows: tf.Tensor) -> tf.Tensor:
    return model.data_terms(batch._replace(rows=rows))


def test_print_summary_lists_every_parameter(capsys):
    model, _ = tiny()
    print_summary(model)
    said = capsys.readouterr().out
    for name in ("latent_mean", "latent_var", "latent_inducing", "likelihood.variance", "inducing.Z"):
        assert f"LatentMOGP.{name}" in said
    for name in ("posterior.q_mu", "posterior.q_sqrt_x", "posterior.q_sqrt_h"):
        assert f"LatentMOGP.{name}" in said


@pytest.mark.parametrize("likelihood", [None, gpflow.likelihoods.Poisson])
def test_predictions_survive_saving_and_loading(likelihood, tmp_path):
    data, tree = uneven_data(), [(0, 0), (0, 1), (1, 0)]
    model = toy(data, levels=(*LEVELS, (0.3, 1.0)), tree=tree, likelihood=likelihood and likelihood())
    set_trainable(model.inducing, False)
    loaded = mogp.load(mogp.save(model, tmp_path / "model.mogp"))
    assert type(loaded) is LatentMOGP
    assert (loaded.names, loaded.num_replicas, loaded.nodes) == (model.names, 3, model.nodes)
    assert not loaded.inducing.Z.trainable
    for one, other in zip(model.predict_y([0.3, 1.0], replica=2), loaded.predict_y([0.3, 1.0], replica=2), strict=True):
        np.testing.assert_array_equal(one, other)


def test_float32_models_train(float32):
    data, _ = drawn(D=4, R=2, N=4)
    model = toy(data)
    for rows in (data, data.take({"output 0": [0, 1, 5]})):
        assert model.elbo(rows).dtype == tf.float32
    history = fit(model, data, steps=5, optimizer=Adam(0.01), batch_size=(2, 3), progress=False)
    assert np.isfinite(history.elbo).all()
    assert model.predict_y([0.5], replica=1).var.dtype == tf.float32


# -------------------------------------------------------------------------------------------------------------- errors


def parts(**changes):
    return {
        "kernel": hierarchical([Matern32(), Matern32()], 1),
        "latent_kernel": SquaredExponential(lengthscales=np.ones(2)),
        "inducing": ReplicaPoints([[0.0], [1.0]], [0, 1]),
        "latent_inducing": np.zeros((1, 2)),
        "latent_mean": np.zeros((3, 2)),
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"latent_kernel": Matern32()}, TypeError, "Matern32.*SquaredExponential"),
        ({"likelihood": gpflow.likelihoods.Softmax(3)}, TypeError, "Softmax reads several functions"),
        ({"likelihood": gpflow.likelihoods.Gaussian(scale=gpflow.functions.Linear())}, TypeError, "of the inputs"),
        ({"likelihood": Gaussian([0.1, 0.2])}, ValueError, r"variance of Gaussian has the shape \(2,\).*each of 3"),
        ({"latent_inducing": np.zeros((2, 3))}, ValueError, "have 3 columns, latent means 2"),
        ({"names": ["a", "b"]}, ValueError, r"2 names \(a, b\) for 3 outputs"),
        ({"nodes": 0}, ValueError, "nodes=0"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes, error, said):
    with pytest.raises(error, match=said):
        LatentMOGP(**parts(**changes))


def test_inducing_points_need_a_replica_each():
    with pytest.raises(ValueError, match=r"shape \(3,\); expected \(2,\)"):
        ReplicaPoints([[0.0], [1.0]], [0, 1, 0])


def one_input(D: int = 3, replica=(0, 1)) -> MultiOutputData:
    return MultiOutputData.from_arrays([0.0, 1.0], np.ones((2, D)), replica=replica)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (one_input(2), "2 outputs.*the model has 3.*names and order must agree"),
        (MultiOutputData.from_arrays(np.zeros((2, 2)), np.ones((2, 3))), "2 input columns, the model reads 1"),
        (MultiOutputData.from_list([([0.0], [[1.0, 2.0]])] * 3), "one target column.*output 0, output 1"),
    ],
)
def test_data_that_do_not_fit_are_refused(data, said):
    model = LatentMOGP(**parts())
    for call in (model.elbo, model.check, lambda d: fit(model, d, steps=1, progress=False)):
        with pytest.raises(ValueError, match=said):
            call(data)


def test_replicas_that_are_not_in_the_tree_are_refused():
    kernel = hierarchical([Matern32()] * 3, 1, tree=[(0, 0), (0, 1)])
    model = LatentMOGP(**parts(kernel=kernel))
    assert np.isfinite(model.elbo(one_input()))
    with pytest.raises(ValueError, match="data have replica 2, the tree of the model 2"):
        model.elbo(one_input(replica=(0, 2)))
    with pytest.raises(ValueError, match="replica 2 is not in the tree of 2 replicas"):
        model.predict_f([0.5], 0, replica=2)


@pytest.mark.parametrize("replica", [-1, 0.5, [0, -2], "first"])
def test_replicas_that_are_no_numbers_are_refused(replica):
    with pytest.raises(ValueError, match=r"replicas are numbered 0, 1"):
        LatentMOGP(**parts()).predict_f([0.5, 0.6], 0, replica=replica)


def test_outputs_and_inputs_that_are_not_there_are_refused():
    model = LatentMOGP(**parts(names=["a", "b", "c"]))
    with pytest.raises(KeyError, match="no output 'd'; the outputs are 'a', 'b', 'c'"):
        model.predict_f([0.5], "d")
    with pytest.raises(IndexError, match="no output 3; there are 3"):
        model.predict_f([0.5], 3)
    with pytest.raises(ValueError, match=r"2 columns.* expected \[N, 1\]"):
        model.predict_f([[0.5, 0.2]])
    assert model.predict_f(np.zeros((0, 1)), "a").mean.shape == (0, 1)


def test_the_collapsed_bound_is_refused_where_it_is_not_known():
    data = uneven_data()
    with pytest.raises(ValueError, match="Gaussian targets of outputs that are all observed at the same inputs"):
        toy(data).collapsed_elbo(data)
    with pytest.raises(ValueError, match="Gaussian targets"):
        toy(common_data(), likelihood=gpflow.likelihoods.StudentT()).collapsed_elbo(common_data())


def test_missing_targets_are_missing_rows():
    Y = np.array([[1.0, np.nan], [2.0, 3.0], [np.nan, 1.0]])
    holes = MultiOutputData.from_arrays([0.0, 1.0, 2.0], Y, replica=[0, 1, 1])
    rows = MultiOutputData.from_list([([0.0, 1.0], [1.0, 2.0]), ([1.0, 2.0], [3.0, 1.0])], replicas=[[0, 1], [1, 1]])
    model = toy(rows, replicas=2)
    np.testing.assert_allclose(model.elbo(holes), model.elbo(rows), rtol=1e-12)
    np.testing.assert_allclose(model.data_terms(holes), dense_terms(model, rows, K_X), rtol=1e-8)
