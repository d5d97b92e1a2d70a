"""The Kronecker posterior against a Gaussian over all inducing variables, with every matrix in full."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from gpflow.utilities import parameter_dict
from numpy.linalg import inv, slogdet

from mogp.posteriors import Kronecker

M_X, M_H, N = 4, 3, 5


def spd(rng, size):
    A = rng.normal(size=(size, size))
    return A @ A.T + 0.5 * np.eye(size)


@pytest.fixture
def case(rng):
    """A posterior away from its start, the covariances of the grid, and rows at which it is asked."""
    posterior = Kronecker()
    posterior.build(inputs=M_X, latents=M_H)
    posterior.q_mu.assign(rng.normal(size=(M_X, M_H)))
    for parameter, size in ((posterior.q_sqrt_x, M_X), (posterior.q_sqrt_h, M_H)):
        parameter.assign(np.tril(0.4 * rng.normal(size=(size, size))) + np.eye(size))
    joint = spd(rng, M_X + N)
    return posterior, joint[:M_X, :M_X], spd(rng, M_H), joint[:M_X, M_X:], joint[M_X:, M_X:]


def dense(posterior, K_x, K_h):
    """Prior covariance, mean and covariance of `vec(U)`, the columns of `U` one after the other."""
    K_x, K_h = (K + gpflow.default_jitter() * np.eye(len(K)) for K in (K_x, K_h))
    root = np.kron(np.linalg.cholesky(K_h), np.linalg.cholesky(K_x))
    T = root @ np.kron(posterior.q_sqrt_h.numpy(), posterior.q_sqrt_x.numpy())
    return np.kron(K_h, K_x), root @ posterior.q_mu.numpy().reshape(-1, order="F"), T @ T.T


def test_moments_are_those_of_the_gaussian_over_all_variables(case):
    posterior, K_x, K_h, _, _ = case
    _, m, S = dense(posterior, K_x, K_h)
    M, S_x, S_h = (a.numpy() for a in posterior.moments(posterior.factorise(K_x, K_h)))
    np.testing.assert_allclose(M.reshape(-1, order="F"), m, rtol=1e-10)
    np.testing.assert_allclose(np.kron(S_h, S_x), S, rtol=1e-9, atol=1e-12)


def test_the_divergence_is_that_of_the_gaussian_over_all_variables(case):
    posterior, K_x, K_h, _, _ = case
    K, m, S = dense(posterior, K_x, K_h)
    kl = 0.5 * (np.trace(inv(K) @ S) + m @ inv(K) @ m - len(m) + slogdet(K)[1] - slogdet(S)[1])
    np.testing.assert_allclose(posterior.kl(), kl, rtol=1e-10)


@pytest.mark.parametrize("full_cov", [False, True])
def test_projected_rows_give_the_moments_of_functions(case, rng, full_cov):
    """Of `f(x, h)` with covariance `k_H(h, h') k_X(x, x')`, for one `h` with `k_H(Z, h) = k` and `k_H(h, h) = c`."""
    posterior, K_x, K_h, Kuf, Kff = case
    k, c = rng.normal(size=M_H), 3.0
    K, m, S = dense(posterior, K_x, K_h)
    weights = np.kron(k[None], Kuf.T) @ inv(K)
    mean, cov = weights @ m, c * Kff - weights @ (K - S) @ weights.T
    factors = posterior.factorise(K_x, K_h)
    x = posterior.project(factors, Kuf, tf.constant(Kff if full_cov else np.diag(Kff)))
    prior, own = (k @ P.numpy() @ k for P in (factors.prior, factors.posterior))
    np.testing.assert_allclose(x.E @ k[:, None], mean[:, None], rtol=1e-9)
    found = c * x.Kff - prior * x.prior + own * x.posterior
    np.testing.assert_allclose(found, cov if full_cov else np.diag(cov), rtol=1e-8, atol=1e-10)


def test_at_the_prior_the_divergence_is_zero():
    posterior = Kronecker()
    posterior.build(inputs=M_X, latents=M_H)
    posterior.q_sqrt_x.assign(2.0 * np.eye(M_X))
    posterior.q_sqrt_h.assign(0.5 * np.eye(M_H))
    np.testing.assert_allclose(posterior.kl(), 0, atol=1e-12)


def test_the_parameters_are_few_and_made_once():
    posterior = Kronecker()
    posterior.build(inputs=M_X, latents=M_H)
    assert sorted(parameter_dict(posterior)) == [".q_mu", ".q_sqrt_h", ".q_sqrt_x"]
    numbers = sum(int(np.prod(v.shape)) for v in posterior.trainable_variables)
    assert numbers == M_X * M_H + M_X * (M_X + 1) // 2 + M_H * (M_H + 1) // 2
    with pytest.raises(ValueError, match="already belongs to a model"):
        posterior.build(inputs=1, latents=1)
