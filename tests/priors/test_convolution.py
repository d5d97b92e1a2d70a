"""Convolution processes: covariances against numerical integration, marginals against dense formulas."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate

import mogp
from mogp.data import MultiOutputData
from mogp.inducing import FunctionPoints, InducingPoints, given_points
from mogp.kernels import ConvolvedStack, unit_kernels
from mogp.likelihoods import Bernoulli, Gaussian, HeteroscedasticGaussian, Poisson, Softmax
from mogp.models import SparseMOGP, hetmogp_cpm
from mogp.posteriors import Full, Parsimonious
from mogp.priors import CPM, LMC

J, Q, P, R, N = 3, 2, 2, 2, 7
POSTERIORS = {"whitened": Full, "plain": lambda: Full(whiten=False), "parsimonious": Parsimonious}


def stack(seed=0, rank=R, normalised=False) -> ConvolvedStack:
    rng = np.random.default_rng(seed)
    return ConvolvedStack(
        J, Q, P, lengthscales=[0.7, 1.2], smoothing=rng.uniform(0.1, 0.6, (J, P)), rank=rank, normalised=normalised
    )


class Dense:
    """The covariances of the specification, written out entry by entry."""

    def __init__(self, kernels: ConvolvedStack) -> None:
        self.L = np.array([kernel.lengthscales.numpy() ** 2 for kernel in kernels.kernels])
        self.kappa = kernels.smoothing.numpy() ** 2
        self.S = kernels.S.numpy().reshape(len(self.kappa), kernels.rank, len(self.L))

    def gaussian(self, q, A, X, X2):
        tau = X[:, None] - X2[None]
        return np.sqrt(np.prod(self.L[q]) / np.prod(A)) * np.exp(-0.5 * (tau**2 / A).sum(-1))

    def uu(self, q, X, X2):
        return self.gaussian(q, self.L[q], X, X2)

    def fu(self, j, i, q, X, Z):
        return self.S[j, i, q] * self.gaussian(q, self.kappa[j] + self.L[q], X, Z)

    def ff(self, j, k, X, X2):
        return sum(
            self.S[j, :, q] @ self.S[k, :, q] * self.gaussian(q, self.kappa[j] + self.kappa[k] + self.L[q], X, X2)
            for q in range(len(self.L))
        )

    def all_functions(self, X, X2):
        return np.block([[self.ff(j, k, X, X2) for k in range(J)] for j in range(J)])


def block_diagonal(blocks):
    size = len(blocks[0])
    whole = np.zeros((size * len(blocks),) * 2)
    for place, block in enumerate(blocks):
        whole[place * size : (place + 1) * size, place * size : (place + 1) * size] = block
    return whole


def dense_moments(model: SparseMOGP, Kuu, Kfu, Kff):
    m, V = (np.asarray(part) for part in model.posterior.moments(model.factors()))
    A = np.linalg.solve(Kuu, Kfu.T).T
    return (A @ m.ravel()).reshape(J, N), (Kff + A @ (block_diagonal(V) - Kuu) @ A.T).reshape(J, N, J, N)


def on_latents(posterior, randomise, rng):
    kernels, Z, X = stack(), rng.normal(size=(Q, 4, P)), rng.normal(size=(N, P))
    model = SparseMOGP(CPM(kernels, bias=[0.1, 0.2, 0.3]), InducingPoints(Z), [Gaussian()] * J, posterior)
    randomise(model, 1)
    dense, jitter = Dense(kernels), 0 if isinstance(posterior, Parsimonious) else gpflow.default_jitter()
    latents = [(i, q) for i in range(R) for q in range(Q)]
    Kuu = block_diagonal([dense.uu(q, Z[q], Z[q]) + jitter * np.eye(4) for _, q in latents])
    Kfu = np.block([[dense.fu(j, i, q, X, Z[q]) for i, q in latents] for j in range(J)])
    mean, cov = dense_moments(model, Kuu, Kfu, dense.all_functions(X, X))
    return model, X, mean + np.array([[0.1], [0.2], [0.3]]), cov


def on_functions_jointly(posterior, randomise, rng):
    kernels, Z, X = stack(), rng.normal(size=(J, 4, P)), rng.normal(size=(N, P))
    model = SparseMOGP(CPM(kernels), FunctionPoints(Z, joint=True), [Gaussian()] * J, posterior)
    randomise(model, 1)
    dense, jitter = Dense(kernels), 0 if isinstance(posterior, Parsimonious) else gpflow.default_jitter()
    Kuu = np.block([[dense.ff(j, k, Z[j], Z[k]) for k in range(J)] for j in range(J)]) + jitter * np.eye(4 * J)
    Kfu = np.block([[dense.ff(j, k, X, Z[k]) for k in range(J)] for j in range(J)])
    return model, X, *dense_moments(model, Kuu, Kfu, dense.all_functions(X, X))


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("case", [on_latents, on_functions_jointly], ids=["on latents", "on functions, jointly"])
def test_marginals_in_every_form_are_those_of_the_dense_formulas(case, posterior, randomise, rng):
    model, X, mean, cov = case(POSTERIORS[posterior](), randomise, rng)
    close = {"rtol": 1e-6, "atol": 1e-7}
    n, j = np.arange(N), np.arange(J)
    conditional = model.condition(tf.constant(X))
    f = conditional.marginals(range(J))
    np.testing.assert_allclose(f.mean, mean.T, **close)
    np.testing.assert_allclose(f.var, cov[j, n[:, None], j, n[:, None]], **close)
    between = model.predict_f(X, full_output_cov=True)
    np.testing.assert_allclose(between.var, [cov[:, r, :, r] for r in n], **close)
    over = model.predict_f(X, full_cov=True)
    np.testing.assert_allclose(over.var, [cov[f, :, f] for f in j], **close)

    rows, names = [4, 0, 0], np.array([[1, 2], [0, 1], [2, 0]])
    some = conditional.marginals(range(1, 3), tf.constant(rows))
    np.testing.assert_allclose(some.mean, mean.T[rows][:, 1:], **close)
    by_row = conditional.marginals(tf.constant(names), tf.constant(rows), full_output_cov=True)
    expected = [[[cov[a, r, b, r] for b in fs] for a in fs] for r, fs in zip(rows, names, strict=True)]
    np.testing.assert_allclose(by_row.var, expected, **close)
    reference = np.array([2, 0, 1])
    contrast = conditional.contrasts(tf.constant(names), tf.constant(reference), tf.constant(rows))
    for place, (r, fs, ref) in enumerate(zip(rows, names, reference, strict=True)):
        np.testing.assert_allclose(contrast.mean[place], [mean[f, r] - mean[ref, r] for f in fs], **close)
        variances = [cov[f, r, f, r] + cov[ref, r, ref, r] - 2 * cov[f, r, ref, r] for f in fs]
        np.testing.assert_allclose(contrast.var[place], variances, **close)
    apart = conditional.contrasts(tf.constant(names), tf.constant(reference), tf.constant(rows), independent=True)
    first = [cov[f, 4, f, 4] + cov[2, 4, 2, 4] for f in names[0]]
    np.testing.assert_allclose(apart.var[0], first, **close)


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("case", [on_latents, on_functions_jointly], ids=["on latents", "on functions, jointly"])
def test_predictions_given_targets_are_those_of_dense_conditioning(case, posterior, randomise, rng, told):
    model, X, mean, cov = case(POSTERIORS[posterior](), randomise, rng)
    known = np.full((N, J), np.nan)
    known[[0, 1, 3], 0] = rng.normal(size=3)
    known[[0, 2], 2] = rng.normal(size=2)
    given = {model.names[d]: known[:, d] for d in (0, 2)}
    f_mean, f_cov, y_mean, y_cov = told(mean.T, cov.transpose(1, 0, 3, 2), np.eye(J), known)
    close = {"rtol": 1e-8, "atol": 1e-8}
    f = model.predict_f(X, given=given, full_cov=True)
    np.testing.assert_allclose(f.mean, f_mean, **close)
    np.testing.assert_allclose(f.var, np.einsum("njmj->jnm", f_cov), **close)
    between = model.predict_f(X, given=given, full_output_cov=True)
    np.testing.assert_allclose(between.var, np.einsum("njnk->njk", f_cov), **close)
    y = model.predict_y(X, given=given)
    np.testing.assert_allclose(y.mean, y_mean, **close)
    np.testing.assert_allclose(y.var, np.einsum("njnj->nj", y_cov), **close)


@pytest.mark.parametrize("case", [on_latents, on_functions_jointly], ids=["on latents", "on functions, jointly"])
def test_draws_have_the_moments_of_the_functions(case, randomise, rng):
    model, X, mean, cov = case(Full(), randomise, rng)
    draws = np.asarray(model.predict_f_samples(X, samples=20_000))
    assert draws.shape == (20_000, N, J)
    np.testing.assert_allclose(draws.mean(0), mean.T, atol=0.05)
    whole = np.cov(draws.transpose(2, 1, 0).reshape(J * N, -1))
    np.testing.assert_allclose(whole, cov.reshape(J * N, J * N), atol=0.06)
    noise = tf.random.stateless_normal([20_000, N, J], [1, 2], dtype=tf.float64)
    points = np.asarray(model.condition(tf.constant(X)).points(range(J), noise))
    np.testing.assert_allclose(np.cov(points[:, 3].T), cov[:, 3, :, 3], atol=0.05)


def test_with_points_on_functions_every_function_is_a_sparse_gp_of_its_own(randomise, rng):
    kernels, Z, X = stack(), rng.normal(size=(J, 4, P)), rng.normal(size=(N, P))
    model = SparseMOGP(CPM(kernels), FunctionPoints(Z), [Gaussian()] * J, Full(False))
    randomise(model, 1)
    dense = Dense(kernels)
    m, V = (np.asarray(part) for part in model.posterior.moments(model.factors()))
    f, over = model.predict_f(X), model.predict_f(X, full_cov=True)
    for j in range(J):
        K = dense.ff(j, j, Z[j], Z[j]) + gpflow.default_jitter() * np.eye(4)
        A = np.linalg.solve(K, dense.ff(j, j, Z[j], X)).T
        cov = dense.ff(j, j, X, X) + A @ (V[j] - K) @ A.T
        np.testing.assert_allclose(f.mean[:, j], A @ m[j], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(f.var[:, j], np.diag(cov), rtol=1e-8)
        np.testing.assert_allclose(over.var[j], cov, rtol=1e-7, atol=1e-9)
        kl = 0.5 * (
            np.trace(np.linalg.solve(K, V[j])) + m[j] @ np.linalg.solve(K, m[j]) - 4
            + np.linalg.slogdet(K)[1] - np.linalg.slogdet(V[j])[1]
        )  # fmt: skip
        np.testing.assert_allclose(model.posterior.kl(model.factors())[j], kl, rtol=1e-7)


def test_covariances_are_those_of_numerical_integration():
    """Giraldo 11.12, in one dimension, to 1e-10."""
    kernels = ConvolvedStack(2, 1, 1, lengthscales=0.5, smoothing=[0.3, 0.7], S=[[1.3], [-0.4]])
    (l,), kappa, S = kernels.kernels[0].lengthscales.numpy(), np.array([0.3, 0.7]) ** 2, [1.3, -0.4]

    def smooth(j, x, r):
        return S[j] * np.exp(-0.5 * (x - r) ** 2 / kappa[j]) / np.sqrt(2 * np.pi * kappa[j])

    def k(r, s):
        return np.exp(-0.5 * (r - s) ** 2 / l**2)

    x, z = np.array([[0.2], [-0.4]]), np.array([[0.9], [0.1]])
    options = {"epsabs": 1e-12, "epsrel": 1e-12}
    cross = kernels.with_latents(tf.constant(z), tf.constant(x)).numpy()
    between = kernels.between_functions(tf.constant(x), tf.constant(z)).numpy()
    for n in range(2):
        for m in range(2):
            for j in range(2):
                value, _ = integrate.quad(
                    lambda r, j=j, n=n, m=m: smooth(j, x[n, 0], r) * k(r, z[m, 0]), -9, 9, **options
                )
                np.testing.assert_allclose(S[j] * cross[0, m, j, n], value, atol=1e-10)
    value, _ = integrate.dblquad(
        lambda r, s: smooth(0, x[0, 0], r) * k(r, s) * smooth(1, z[1, 0], s), -7, 7, -7, 7, **options
    )
    np.testing.assert_allclose(between[0, 0, 1, 1], value, atol=1e-10)
    own, _ = integrate.dblquad(
        lambda r, s: smooth(1, x[1, 0], r) * k(r, s) * smooth(1, z[0, 0], s), -7, 7, -7, 7, **options
    )
    np.testing.assert_allclose(kernels.of_functions(tf.constant(x), tf.constant(z))[1, 1, 0], own, atol=1e-10)


def smallest_eigenvalue(blocks) -> float:
    values = np.linalg.eigvalsh(np.block(blocks))
    return float(values[0] / values[-1])


@pytest.mark.parametrize("seed", range(60))
def test_functions_and_latents_are_jointly_positive_semi_definite_for_any_parameters(seed):
    rng = np.random.default_rng(seed)
    D = int(rng.integers(1, 4))
    kernels = ConvolvedStack(
        J, Q, D, lengthscales=10 ** rng.uniform(-2, 1, Q), smoothing=10 ** rng.uniform(-2, 1, (J, D)),
        S=10 ** rng.uniform(-1, 1, (J, Q * R)) * rng.choice([-1, 1], (J, Q * R)), rank=R,
    )  # fmt: skip
    X, Z = tf.constant(rng.normal(size=(6, D))), tf.constant(rng.normal(size=(5, D)))
    ff = kernels.between_functions(X, X).numpy().reshape(J * 6, J * 6)
    uu = block_diagonal(list(kernels.K(Z).numpy()) * R)
    cross = kernels.with_latents(Z, X).numpy()
    S = kernels.S.numpy()
    uf = np.vstack([(cross[q] * S[:, i * Q + q][:, None]).reshape(5, -1) for i in range(R) for q in range(Q)])
    assert smallest_eigenvalue([[ff, uf.T], [uf, uu]]) > -1e-10


def test_adding_lengthscales_instead_of_variances_is_not_positive_semi_definite():
    """What the published code does: unit-variance kernels whose lengthscales are added."""
    x = np.linspace(0, 1, 12)[:, None]

    def wrong(width):
        return np.exp(-0.5 * (x - x.T) ** 2 / width**2)

    l, s = 0.1, 0.3
    assert smallest_eigenvalue([[wrong(l + 2 * s), wrong(l + s)], [wrong(l + s), wrong(l)]]) < -0.01


@pytest.mark.parametrize(("kappa", "most"), [(1e-4, 3e-3), (1e-8, 3e-7)])
def test_without_smoothing_the_convolution_process_is_the_lmc(kappa, most, randomise, rng):
    """Giraldo 11.13: at L = 0.02, half of kappa / L for one smoothing, kappa / L for two."""
    l, S = np.sqrt(0.02), np.array([[1.0], [0.6]])
    Z, X = np.linspace(0, 1, 6)[:, None], rng.uniform(size=(9, 1))
    cpm = SparseMOGP(
        CPM(ConvolvedStack(2, 1, 1, lengthscales=l, smoothing=np.sqrt(kappa), S=S)),
        given_points(Z),
        [Gaussian()] * 2,
        Full(),
    )
    lmc = SparseMOGP(LMC(unit_kernels(1, 1, l), 2, W=S), given_points(Z), [Gaussian()] * 2, Full())
    ours = cpm.prior.kernels.between_functions(tf.constant(X), tf.constant(X)).numpy()
    K = lmc.prior.kernels.K(tf.constant(X))[0].numpy()
    theirs = np.einsum("j,k,nm->jnkm", S[:, 0], S[:, 0], K)
    assert np.abs(ours - theirs).max() / np.abs(theirs).max() <= 2 * most
    cross = cpm.prior.kernels.with_latents(tf.constant(X), tf.constant(X)).numpy()[0]
    assert np.abs(cross - K[:, None]).max() <= most
    for model in (cpm, lmc):
        randomise(model, 3)
    data = MultiOutputData.from_arrays(X, rng.normal(size=(9, 2)))
    np.testing.assert_allclose(cpm.elbo(data), lmc.elbo(data), rtol=30 * most)
    for a, b in zip(cpm.predict_f(X), lmc.predict_f(X), strict=True):
        np.testing.assert_allclose(a, b, atol=30 * most)


def test_normalised_kernels_are_a_rescaling_of_the_weights():
    unit = stack(rank=1)
    scaled = stack(rank=1, normalised=True)
    L = np.array([kernel.lengthscales.numpy() ** 2 for kernel in unit.kernels])
    factor = (2 * np.pi) ** (P / 4) * np.prod(L, axis=1) ** 0.25
    scaled.S.assign(unit.S.numpy() * factor)
    X = tf.constant(np.random.default_rng(0).normal(size=(4, P)))
    np.testing.assert_allclose(scaled.between_functions(X, X), unit.between_functions(X, X), rtol=1e-12)
    np.testing.assert_allclose(scaled.variances(), unit.variances(), rtol=1e-12)
    np.testing.assert_allclose(scaled.K(X), unit.K(X) / factor[:, None, None] ** 2, rtol=1e-12)
    np.testing.assert_allclose(scaled.K_diag(X), np.asarray([np.diag(K) for K in scaled.K(X)]), rtol=1e-12)


def test_covariances_at_one_input_agree_in_all_forms():
    kernels = stack()
    x = tf.constant(np.zeros((1, P)))
    whole = kernels.between_functions(x, x).numpy()[:, 0, :, 0]
    np.testing.assert_allclose(np.sum(kernels.at_one_input(), 0), whole, rtol=1e-12)
    np.testing.assert_allclose(kernels.variances(), np.diag(whole), rtol=1e-12)
    np.testing.assert_allclose(CPM(kernels).coregionalisation(), kernels.at_one_input())


def several(rng, rows=25) -> MultiOutputData:
    X = rng.uniform(size=(rows, 1))
    return MultiOutputData.from_list(
        [(X, np.sin(6 * X[:, 0])), (X[:18], rng.integers(0, 2, 18)), (X, rng.poisson(2.0, rows))],
        names=["real", "binary", "count"],
    )


KINDS = {"real": HeteroscedasticGaussian(), "binary": Bernoulli(), "count": Poisson()}


def natural_fit(model, data):
    """Only q(u), hyper-parameters as they are."""
    for part in (model.prior, model.inducing):
        gpflow.set_trainable(part, False)
    mogp.fit(model, data, steps=150, optimizer=mogp.optimizers.NaturalAdam(0.5), progress=False)
    return model


def test_as_published_outputs_share_nothing_but_hyperparameters(rng):
    """Giraldo: predictions of one output do not change when the data of all others are removed."""
    data = several(rng)
    other = data.take({"real": range(25), "binary": [0], "count": [0]})
    X = np.linspace(0, 1, 5)[:, None]
    a, b = (
        natural_fit(hetmogp_cpm(data, KINDS, inducing=6, scaling=None), part).predict_f(X, "real")
        for part in (data, other)
    )
    np.testing.assert_allclose(a.mean, b.mean, atol=1e-9)
    np.testing.assert_allclose(a.var, b.var, atol=1e-9)
    for on in ("joint", "latents"):
        a, b = (
            natural_fit(hetmogp_cpm(data, KINDS, inducing=6, on=on, scaling=None), part).predict_f(X, "real")
            for part in (data, other)
        )
        assert np.abs(a.mean - b.mean).max() > 1e-3


@pytest.mark.parametrize("on", ["functions", "latents", "joint"])
def test_models_train_predict_are_saved_and_diagnosed(on, rng, tmp_path):
    data = several(rng)
    model = hetmogp_cpm(data, KINDS, latents=2, inducing=5, on=on, scaling=None)
    before = float(model.elbo(data))
    history = mogp.fit(model, data, steps=150, batch_size={"real": 10, "binary": 5, "count": 20}, progress=False)
    assert float(model.elbo(data)) > before
    assert history.diagnosis is not None
    again = mogp.load(mogp.save(model, tmp_path / "model.mogp"))
    table, same = model.predict([[0.1], [0.7]]), again.predict([[0.1], [0.7]])
    assert list(table["output"].unique()) == ["real", "binary", "count"]
    np.testing.assert_array_equal(table["mean"], same["mean"])
    np.testing.assert_array_equal(table["q0.5"], same["q0.5"])
    assert model.global_coregionalisation().shape == (3, 3)


def test_classes_read_correlated_functions_of_a_convolution_process(rng):
    data = MultiOutputData.from_arrays(rng.normal(size=(30, 1)), rng.integers(0, 3, 30), names=["class"])
    model = SparseMOGP(CPM(ConvolvedStack(3, 2, 1)), given_points(data.X[:5], 2), Softmax(3))
    before = float(model.elbo(data))
    mogp.fit(model, data, steps=100, optimizer=mogp.optimizers.Adam(0.05), progress=False)
    assert float(model.elbo(data)) > before
    probabilities = np.asarray(model.predict_y(data.X)[0])
    np.testing.assert_allclose(probabilities.sum(1), 1.0, atol=1e-6)


def test_float32_is_served(float32, rng):
    data = MultiOutputData.from_arrays(rng.normal(size=(20, 2)), rng.normal(size=(20, 2)))
    for on in ("functions", "latents", "joint"):
        model = hetmogp_cpm(data, [Gaussian(), Gaussian()], inducing=4, on=on, scaling=None)
        history = mogp.fit(model, data, steps=5, optimizer=mogp.optimizers.FNG(start=100.0), progress=False)
        assert history.status == "finished"
        assert model.predict_f(data.X).mean.dtype == tf.float32


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ConvolvedStack(0, 1, 1), "functions=0"),
        (lambda: ConvolvedStack(2, 1, 1, S=[[1.0]]), r"S has shape \(1, 1\).*\(2, 1\)"),
        (lambda: ConvolvedStack(2, 1, 1, smoothing=-0.1), "positive widths"),
        (lambda: FunctionPoints(np.zeros((3, 2))), r"shape \(3, 2\).*\[J, M, P\]"),
        (
            lambda: SparseMOGP(CPM(stack()), FunctionPoints(np.zeros((2, 4, P))), [Gaussian()] * J),
            "2 sets.*3 functions",
        ),
        (lambda: SparseMOGP(CPM(stack()), InducingPoints(np.zeros((3, 4, P))), [Gaussian()] * J), "3 sets.*2 distinct"),
        (lambda: CPM(stack(), bias=[1.0, 2.0]), "bias has shape"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_points_on_functions_need_a_convolution_process(rng):
    model = SparseMOGP(LMC(unit_kernels(1, 1), 1), FunctionPoints(np.zeros((1, 4, 1))), Gaussian())
    with pytest.raises(TypeError, match="give the model the prior CPM"):
        model.predict_f([[0.0]])


def test_an_unknown_place_for_inducing_points_is_refused(rng):
    with pytest.raises(ValueError, match="on='outputs'"):
        hetmogp_cpm(several(rng), KINDS, on="outputs", scaling=None)
