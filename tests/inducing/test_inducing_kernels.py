"""Variational inducing kernels in both variants: covariances against a fine grid, marginals against dense formulas."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import mogp
from mogp.data import MultiOutputData
from mogp.inducing import InducingPoints, SmoothedPoints
from mogp.kernels import ConvolvedStack, SmoothedStack, unit_kernels
from mogp.likelihoods import Gaussian, Poisson, ZeroInflatedPoisson
from mogp.models import SparseMOGP, ccgp, ccgp_cpm, ccgp_vik
from mogp.posteriors import Full, Parsimonious
from mogp.priors import CPM, LMC

J, Q, P, R, N, M = 2, 3, 2, 2, 6, 4


def draw(seed, normalised=False, input_dim=P):
    """Random hyper-parameters of both stacks, which agree in all but the inner smoothing."""
    rng = np.random.default_rng(seed)
    options = dict(
        lengthscales=rng.uniform(0.2, 1.5, Q),
        smoothing=rng.uniform(0.05, 0.8, (J, input_dim)),
        S=rng.normal(size=(J, R * Q)),
        rank=R,
        normalised=normalised,
    )
    width, W = rng.uniform(0.05, 0.8, (Q, input_dim)), rng.uniform(0.2, 1.5, Q) * rng.choice([-1, 1], Q)
    outer = ConvolvedStack(J, Q, input_dim, **options)
    inner = SmoothedStack(J, Q, input_dim, width=width, W=W, **options)
    return outer, inner, width, W


class OnGrid:
    """One latent GP, one copy, one input: smoothing as products with matrices on a fine grid."""

    def __init__(self, stack, width, q=0):
        self.x = np.linspace(-12, 12, 1601)
        self.step = self.x[1] - self.x[0]
        self.l = float(stack.kernels[q].lengthscales.numpy()[0])
        self.kappa = stack.smoothing.numpy()[:, 0]
        self.t = width[q, 0]
        tau = self.x[:, None] - self.x
        self.u = np.exp(-0.5 * (tau / self.l) ** 2)

    def density(self, a, sd):
        return np.exp(-0.5 * ((a[:, None] - self.x) / sd) ** 2) / (sd * np.sqrt(2 * np.pi)) * self.step


def test_covariances_of_both_variants_equal_sums_over_a_fine_grid():
    outer, inner, width, W = draw(3, input_dim=1)
    grid, q = OnGrid(outer, width), 0
    x, z = np.linspace(-1, 1, 4)[:, None], np.linspace(-0.8, 1.3, 3)[:, None]
    smooth = grid.density(grid.x, grid.t)
    scale = 1 / np.sqrt(grid.density(np.zeros(1), grid.t) @ grid.u @ grid.density(np.zeros(1), grid.t).T)
    points = SmoothedPoints(np.repeat(z[None], Q, 0), width)
    T = grid.density(z[:, 0], grid.t)
    np.testing.assert_allclose(points.Kuu(outer)[q], scale**2 * T @ grid.u @ T.T, atol=1e-9)
    by_function = points.with_functions(outer, tf.constant(x))
    latent_of_thesis = W[q] ** 2 * smooth @ grid.u @ smooth.T
    np.testing.assert_allclose(
        InducingPoints(np.repeat(z[None], Q, 0)).Kuu(inner)[q], W[q] ** 2 * T @ grid.u @ T.T, atol=1e-9
    )
    at_z = np.array([np.argmin(np.abs(grid.x - one)) for one in z[:, 0]])
    on_grid = grid.x[at_z][:, None]  # the second smoothing of the thesis is read off at points of the grid
    of_thesis = inner.with_latents(tf.constant(on_grid), tf.constant(x))
    for j in range(J):
        G = grid.density(x[:, 0], grid.kappa[j])
        np.testing.assert_allclose(by_function[q, :, j], scale * T @ grid.u @ G.T, atol=1e-9)
        np.testing.assert_allclose(of_thesis[q, :, j], latent_of_thesis[at_z] @ G.T, atol=1e-9)


def dense_parts(kernels, inducing, X):
    """K_ff [J N, J N], K_fu [J N, R Q M] and K_uu of all copies."""
    Kuu = np.asarray(inducing.Kuu(kernels))
    columns = np.asarray(inducing.with_functions(kernels, tf.constant(X)))
    S = kernels.S.numpy()
    latents = [(i, q) for i in range(kernels.rank) for q in range(len(kernels))]
    Kfu = np.block([[S[j, i * Q + q] * columns[q, :, j].T for i, q in latents] for j in range(J)])
    whole = np.zeros((len(latents) * M,) * 2)
    for place, (_, q) in enumerate(latents):
        whole[place * M : (place + 1) * M, place * M : (place + 1) * M] = Kuu[q]
    Kff = np.asarray(kernels.between_functions(tf.constant(X), tf.constant(X))).reshape(J * len(X), -1)
    return Kff, Kfu, whole


def smallest_over_largest(Kff, Kfu, Kuu):
    eigenvalues = np.linalg.eigvalsh(np.block([[Kff, Kfu], [Kfu.T, Kuu]]))
    return eigenvalues[0] / eigenvalues[-1]


@pytest.mark.parametrize("variant", ["classical", "thesis", "both"])
@pytest.mark.parametrize("normalised", [pytest.param(False, marks=pytest.mark.full), True])
def test_joint_covariance_is_positive_semidefinite_for_200_random_draws(variant, normalised):
    worst = 0.0
    for seed in range(100):  # 100 draws of each scaling of a variant: 200 a variant
        rng = np.random.default_rng([seed, 1])
        outer, inner, width, _ = draw(seed, normalised)
        Z, X = rng.normal(size=(Q, M, P)), rng.normal(size=(N, P))
        stack = outer if variant == "classical" else inner
        pair = stack, InducingPoints(Z) if variant == "thesis" else SmoothedPoints(Z, width)
        worst = min(worst, smallest_over_largest(*dense_parts(*pair, X)))
    assert worst > -1e-10


def test_printed_cross_covariance_of_the_thesis_is_not_positive_semidefinite():
    """The printed formula has one factor W_q where the derivation gives its square."""
    ratios = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        _, inner, _, _ = draw(seed)
        inner.W.assign(np.full(Q, 0.3))
        X = rng.normal(size=(N, P))
        inducing = InducingPoints(np.repeat(X[None, :M], Q, 0))
        Kff, Kfu, Kuu = dense_parts(inner, inducing, X)
        assert smallest_over_largest(Kff, Kfu, Kuu) > -1e-10
        ratios.append(smallest_over_largest(Kff, Kfu / 0.3, Kuu))
    assert max(ratios) < -1e-2


@pytest.mark.parametrize("posterior", [Full, lambda: Full(whiten=False), Parsimonious])
def test_marginals_on_smoothed_points_equal_dense_ones(posterior, randomise, rng):
    outer, _, width, _ = draw(7)
    Z, X = rng.normal(size=(Q, M, P)), rng.normal(size=(N, P))
    inducing = SmoothedPoints(Z, width)
    model = SparseMOGP(CPM(outer), inducing, [Gaussian()] * J, posterior())
    randomise(model, 2)
    Kff, Kfu, Kuu = dense_parts(outer, inducing, X)
    Kuu += (0 if posterior is Parsimonious else gpflow.default_jitter()) * np.eye(len(Kuu))
    m, V = (np.asarray(part) for part in model.posterior.moments(model.factors()))
    A = np.linalg.solve(Kuu, Kfu.T).T
    spread = np.zeros_like(Kuu)
    for place, block in enumerate(V):
        spread[place * M : (place + 1) * M, place * M : (place + 1) * M] = block
    cov = (Kff + A @ (spread - Kuu) @ A.T).reshape(J, N, J, N)
    f = model.predict_f(X, full_output_cov=True)
    np.testing.assert_allclose(f.mean, (A @ m.ravel()).reshape(J, N).T, atol=1e-8)
    for n in range(N):
        np.testing.assert_allclose(f.var[n], cov[:, n, :, n], atol=1e-8)


def test_inducing_kernels_of_the_thesis_are_a_convolution_process_with_other_parameters(rng):
    """VIK(L, t, W, S) = CPM(L + 2t, S W) with m_iota = W m_u: the same q(f) and the same bound."""
    _, inner, width, W = draw(11, normalised=True)
    L = np.array([kernel.lengthscales.numpy() ** 2 for kernel in inner.kernels]) + 2 * width**2
    plain = ConvolvedStack(
        J, Q, P, smoothing=inner.smoothing.numpy(), S=inner.S.numpy() * np.tile(W, R), rank=R, normalised=True
    )
    for kernel, own in zip(plain.kernels, L, strict=True):
        kernel.lengthscales.assign(np.sqrt(own))
    Z, X = rng.normal(size=(Q, M, P)), rng.normal(size=(N, P))
    data = MultiOutputData.from_arrays(X, rng.normal(size=(N, J)))
    m, V = rng.normal(size=(M, R * Q)), np.tril(rng.normal(size=(R * Q, M, M))) / 3 + np.eye(M)
    models = []
    with gpflow.config.as_context(gpflow.config.Config(jitter=1e-12)):
        for kernels, scale in ((inner, np.tile(W, R)), (plain, np.ones(R * Q))):
            model = SparseMOGP(CPM(kernels), InducingPoints(Z), [Gaussian(0.3)] * J, Full(whiten=False))
            model.posterior.q_mu.assign(m * scale)
            model.posterior.q_sqrt.assign(V * np.abs(scale)[:, None, None])
            models.append((model.predict_f(X), float(model.elbo(data))))
    (f_vik, elbo_vik), (f_cpm, elbo_cpm) = models
    np.testing.assert_allclose(f_vik.mean, f_cpm.mean, rtol=1e-8)
    np.testing.assert_allclose(f_vik.var, f_cpm.var, rtol=1e-8)
    np.testing.assert_allclose(elbo_vik, elbo_cpm, rtol=1e-8)


def test_classical_inducing_kernels_tend_to_points_on_latents_as_their_width_goes_to_zero(randomise, rng):
    outer, _, _, _ = draw(13)
    Z, X = rng.normal(size=(Q, M, P)), rng.normal(size=(N, P))
    data = MultiOutputData.from_arrays(X, rng.normal(size=(N, J)))
    found = []
    for inducing in (InducingPoints(Z), SmoothedPoints(Z, 1e-2), SmoothedPoints(Z, 1e-4)):
        model = SparseMOGP(CPM(outer), inducing, [Gaussian()] * J)
        model.posterior.q_mu.assign(np.linspace(-1, 1, M * R * Q).reshape(M, -1))
        found.append(float(model.elbo(data)))
    far, near = abs(found[1] - found[0]), abs(found[2] - found[0])
    assert near < 1e-3 * far
    np.testing.assert_allclose(found[2], found[0], rtol=1e-5)


def test_widths_of_classical_inducing_kernels_do_not_change_the_prior(rng):
    """At q(u) = p(u) the functions have their prior variances, whatever the widths; in the thesis they change."""
    outer, inner, _, _ = draw(17)
    Z, X = rng.normal(size=(Q, M, P)), rng.normal(size=(N, P))
    for width in (0.05, 2.0):
        model = SparseMOGP(CPM(outer), SmoothedPoints(Z, width), [Gaussian()] * J)
        np.testing.assert_allclose(model.predict_f(X).var, np.tile(outer.variances(), (N, 1)), rtol=1e-4)
    before = inner.variances().numpy()
    inner.width.assign(3 * inner.width.numpy())
    assert np.abs(inner.variances().numpy() / before - 1).min() > 1e-2


def counts(rng, rows=60):
    X = rng.uniform(-1, 1, (rows, 1))
    rate = np.exp(1 + np.sin(3 * X[:, 0]))
    return MultiOutputData.from_list([(X, rng.poisson(rate) * (rng.uniform(size=rows) > 0.4))], names=["count"])


CONSTRUCTORS = {
    "LMC": lambda data, kind: ccgp(data, kind, latents=2, rank=2, inducing=8, scaling=None),
    "CPM": lambda data, kind: ccgp_cpm(data, kind, latents=2, inducing=8, scaling=None),
    "VIK": lambda data, kind: ccgp_vik(data, kind, latents=2, inducing=8, scaling=None),
    "VIK thesis": lambda data, kind: ccgp_vik(data, kind, variant="thesis", latents=2, inducing=8, scaling=None),
}


@pytest.mark.parametrize("name", CONSTRUCTORS)
@pytest.mark.parametrize("kind", [pytest.param(Poisson, marks=pytest.mark.full), ZeroInflatedPoisson])
def test_named_models_of_counts_train_and_can_be_kept(name, kind, rng, tmp_path):
    data = counts(rng)
    model = CONSTRUCTORS[name](data, kind())
    before = float(model.elbo(data))
    mogp.fit(model, data, steps=30, optimizer=mogp.optimizers.NaturalAdam(0.1, 0.01), progress=False)
    assert float(model.elbo(data)) > before
    mogp.save(model, tmp_path / "model.mogp")
    again = mogp.load(tmp_path / "model.mogp")
    np.testing.assert_array_equal(model.predict_y(data.X)[0], again.predict_y(data.X)[0])


def test_by_default_there_is_a_copy_for_each_parameter_of_the_likelihood(rng):
    data = counts(rng)
    for make in (ccgp_cpm, ccgp_vik):
        assert make(data, ZeroInflatedPoisson(), latents=3, inducing=5).prior.copies == 2
        assert make(data, Poisson(), latents=3, inducing=5).prior.copies == 1


def test_float32_is_served(float32, rng):
    data = counts(rng)
    for variant in ("classical", "thesis"):
        model = ccgp_vik(data, ZeroInflatedPoisson(), variant=variant, latents=2, inducing=5, scaling=None)
        history = mogp.fit(model, data, steps=5, optimizer=mogp.optimizers.Vadam(), progress=False)
        assert history.status == "finished"
        assert model.predict_f(data.X).mean.dtype == tf.float32


def test_inducing_kernels_need_a_convolution_process():
    points = SmoothedPoints(np.zeros((1, 4, 1)))
    model = SparseMOGP(LMC(unit_kernels(1, 1), 1), points, Gaussian())
    with pytest.raises(TypeError, match="give the model the prior CPM"):
        model.predict_f([[0.0]])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: SmoothedPoints(np.zeros((3, 2))), r"shape \(3, 2\).*\[Q, M, P\]"),
        (lambda: SmoothedPoints(np.zeros((3, 2, 1)), [0.1, 0.2]), "widths have shape"),
        (lambda: SmoothedStack(1, 2, 1, width=0.0), "positive widths"),
        (
            lambda: ccgp_vik(counts(np.random.default_rng(0)), Poisson(), variant="other", scaling=None),
            "variant='other'",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
