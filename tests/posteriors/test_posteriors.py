from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from mogp.posteriors import Full, Parsimonious, Posterior

M, N, G, R = 5, 7, 2, 3
FAMILIES = {"whitened": lambda: Full(), "plain": lambda: Full(whiten=False), "parsimonious": lambda: Parsimonious()}


@pytest.fixture(autouse=True)
def no_jitter():
    """Textbook formulas hold to rounding when nothing is added to Kuu."""
    with gpflow.config.as_context(gpflow.config.Config(jitter=0.0)):
        yield


@pytest.fixture
def covariances() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`Kuu`, `Kuf` and `Kff` of two kernels."""
    rng = np.random.default_rng(1)
    Z, X = rng.normal(size=(M, 2)), rng.normal(size=(N, 2))
    kernels = [gpflow.kernels.Matern32(1.5, 0.8), gpflow.kernels.Matern12(0.5)]
    return tuple(np.stack([k(*pair) for k in kernels]) for pair in ((Z,), (Z, X), (X,)))


def built(family: str, kernels: int = G, copies: int = R, seed: int = 0) -> Posterior:
    rng = np.random.default_rng(seed)
    posterior = FAMILIES[family]()
    posterior.build(kernels, copies, M)
    L = kernels * copies
    if family == "parsimonious":
        posterior.mu.assign(rng.normal(size=(M, L)))
        posterior.sigma.assign(rng.uniform(0.1, 3.0, size=(M, L)))
    else:
        posterior.q_mu.assign(rng.normal(size=(M, L)))
        posterior.q_sqrt.assign(np.tril(rng.normal(size=(L, M, M))))
    return posterior


def moments(posterior: Posterior, Kuu: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """`m`, `S` of every latent, `l = i G + g`, straight from the definitions."""
    found = []
    for latent in range(G * R):
        K = Kuu[latent % G]
        if isinstance(posterior, Parsimonious):
            sigma = np.asarray(posterior.sigma)[:, latent]
            found.append(
                (K @ np.asarray(posterior.mu)[:, latent], np.linalg.inv(np.linalg.inv(K) + np.diag(1 / sigma)))
            )
        else:
            root = np.linalg.cholesky(K) if posterior.whiten else np.eye(M)
            S = root @ np.asarray(posterior.q_sqrt)[latent]
            found.append((root @ np.asarray(posterior.q_mu)[:, latent], S @ S.T))
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_moments_of_the_inducing_values_follow_the_definition(family, covariances):
    posterior, Kuu = built(family), covariances[0]
    m, S = posterior.moments(posterior.factorise(tf.constant(Kuu)))
    expected = moments(posterior, Kuu)
    np.testing.assert_allclose(m, [e[0] for e in expected], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(S, [e[1] for e in expected], rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("family", FAMILIES)
def test_projection_is_the_textbook_conditional(family, covariances):
    Kuu, Kuf, Kff = covariances
    posterior = built(family)
    factors = posterior.factorise(tf.constant(Kuu))
    mean, cov = posterior.project(factors, tf.constant(Kuf), tf.constant(Kff))
    for latent, (m, S) in enumerate(moments(posterior, Kuu)):
        g = latent % G
        P = Kuf[g].T @ np.linalg.inv(Kuu[g])
        np.testing.assert_allclose(mean[latent], P @ m, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(cov[latent], Kff[g] - P @ Kuf[g] + P @ S @ P.T, rtol=1e-8, atol=1e-10)
    diagonal = np.diagonal(Kff, axis1=1, axis2=2)
    mean2, var = posterior.project(factors, tf.constant(Kuf), tf.constant(diagonal))
    np.testing.assert_allclose(mean2, mean, rtol=1e-14)
    np.testing.assert_allclose(var, np.diagonal(cov, axis1=1, axis2=2), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_kl_is_that_of_two_gaussians_by_tensorflow_probability(family, covariances):
    """Ma T2.5."""
    Kuu = covariances[0]
    posterior = built(family)
    kl = posterior.kl(posterior.factorise(tf.constant(Kuu)))
    for latent, (m, S) in enumerate(moments(posterior, Kuu)):
        q = tfp.distributions.MultivariateNormalTriL(m, np.linalg.cholesky(S))
        p = tfp.distributions.MultivariateNormalTriL(np.zeros(M), np.linalg.cholesky(Kuu[latent % G]))
        np.testing.assert_allclose(kl[latent], q.kl_divergence(p), rtol=1e-8)
        assert kl[latent] > 0


def test_kl_is_zero_at_the_prior(covariances):
    """Panos 10.14."""
    Kuu = covariances[0]
    for whiten in (True, False):
        posterior = Full(whiten)
        posterior.build(G, R, M)
        if not whiten:
            posterior.q_sqrt.assign(np.tile(np.linalg.cholesky(Kuu), (R, 1, 1)))
        np.testing.assert_allclose(posterior.kl(posterior.factorise(tf.constant(Kuu))), np.zeros(G * R), atol=1e-10)


def test_plain_equals_whitened_with_mapped_parameters(covariances):
    """Panos 10.17, Ma T2.5."""
    Kuu, Kuf, Kff = map(tf.constant, covariances)
    white, plain = built("whitened"), built("plain")
    root = np.tile(np.linalg.cholesky(Kuu), (R, 1, 1))
    plain.q_mu.assign(np.einsum("lmn,nl->ml", root, np.asarray(white.q_mu)))
    plain.q_sqrt.assign(root @ np.asarray(white.q_sqrt))
    a, b = white.factorise(Kuu), plain.factorise(Kuu)
    np.testing.assert_allclose(plain.kl(b), white.kl(a), rtol=1e-9)
    for theirs, ours in zip(white.project(a, Kuf, Kff), plain.project(b, Kuf, Kff), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


def test_parsimonious_equals_full_with_matched_moments(covariances):
    """Panos 10.10."""
    Kuu, Kuf, Kff = map(tf.constant, covariances)
    pp, fp = built("parsimonious"), built("plain")
    expected = moments(pp, covariances[0])
    fp.q_mu.assign(np.stack([m for m, _ in expected], 1))
    fp.q_sqrt.assign(np.stack([np.linalg.cholesky(S) for _, S in expected]))
    a, b = pp.factorise(Kuu), fp.factorise(Kuu)
    np.testing.assert_allclose(pp.kl(a), fp.kl(b), rtol=1e-10)
    for ours, theirs in zip(pp.project(a, Kuf, Kff), fp.project(b, Kuf, Kff), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)


def test_parsimonious_goes_from_the_prior_to_a_point_mass(covariances):
    """Panos 10.11."""
    Kuu, Kuf, Kff = map(tf.constant, covariances)
    posterior = Parsimonious(sigma=1e10)
    posterior.build(G, R, M)
    factors = posterior.factorise(Kuu)
    np.testing.assert_allclose(posterior.kl(factors), np.zeros(G * R), atol=1e-8)
    mean, cov = posterior.project(factors, Kuf, Kff)
    np.testing.assert_array_equal(mean, np.zeros((G * R, N)))
    np.testing.assert_allclose(cov, np.tile(covariances[2], (R, 1, 1)), atol=1e-8)
    kls = []
    for sigma in (1e-2, 1e-4, 2e-6):
        posterior.sigma.assign(np.full((M, G * R), sigma))
        factors = posterior.factorise(Kuu)
        kls.append(float(tf.reduce_sum(posterior.kl(factors))))
        assert np.abs(posterior.moments(factors)[1]).max() < 1.1 * sigma
    assert kls[0] < kls[1] < kls[2]
    assert kls[2] > 100


def test_parsimonious_is_finite_and_differentiable_when_kuu_is_singular():
    """Panos 10.12: duplicated inducing inputs, and a linear kernel with more points than dimensions."""
    Z = np.array([[0.0], [0.0], [1.0], [2.0], [3.0]])
    for kernel in (gpflow.kernels.SquaredExponential(), gpflow.kernels.Linear()):
        posterior = built("parsimonious", kernels=1, copies=1)
        with tf.GradientTape() as tape:
            factors = posterior.factorise(kernel(Z)[None])
            mean, var = posterior.project(factors, kernel(Z, Z + 0.1)[None], kernel(Z + 0.1, full_cov=False)[None])
            value = tf.reduce_sum(mean) + tf.reduce_sum(var) + tf.reduce_sum(posterior.kl(factors))
        assert np.isfinite(value)
        for gradient in tape.gradient(value, [*posterior.trainable_variables, *kernel.trainable_variables]):
            assert np.isfinite(gradient).all()


def test_copies_of_a_kernel_share_one_factor():
    posterior = built("plain", kernels=2, copies=3)
    factors = posterior.factorise(tf.eye(M, batch_shape=[2], dtype=tf.float64))
    assert factors.cholesky.shape == (2, M, M)


def test_a_posterior_serves_one_model_only():
    posterior = built("whitened")
    with pytest.raises(ValueError, match="give every model a new one"):
        posterior.build(1, 1, 3)


@pytest.mark.parametrize("sigma", [0.0, -1.0, np.nan])
def test_parsimonious_refuses_what_is_not_a_variance(sigma):
    with pytest.raises(ValueError, match="must be positive"):
        Parsimonious(sigma)


@pytest.mark.parametrize("family", FAMILIES)
def test_number_of_parameters_is_as_published(family):
    posterior = built(family, kernels=1, copies=1)
    free = sum(int(np.prod(v.shape)) for v in posterior.trainable_variables)
    assert free == (2 * M if family == "parsimonious" else M * (M + 3) // 2)
