"""`Joint`, `JointGrid` and `Told` against dense formulas with explicit inverses."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy import optimize, stats

from mogp.errors import UnsupportedError
from mogp.posteriors import Full, Joint, JointGrid, Kronecker
from mogp.posteriors.optimum import Told, best_factorised, best_kronecker, inverse_root

M, N, G, R = 4, 6, 2, 2
L = G * R


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


def random_root(size: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.tril(0.3 * rng.normal(size=(size, size)), -1) + np.diag(rng.uniform(0.3, 1.5, size))


def built(seed: int = 0) -> Joint:
    posterior = Joint()
    posterior.build(G, R, M)
    posterior.q_mu.assign(np.random.default_rng(seed).normal(size=(L * M, 1)))
    posterior.q_sqrt.assign(random_root(L * M, seed)[None])
    return posterior


def kl_of(m: np.ndarray, S: np.ndarray, K: np.ndarray) -> float:
    """`KL[N(m, S) || N(0, K)]` with inverses."""
    inverse = np.linalg.inv(K)
    logs = np.linalg.slogdet(K)[1] - np.linalg.slogdet(S)[1]
    return float(0.5 * (np.trace(inverse @ S) + m @ inverse @ m - len(m) + logs))


def blocks(parts: list[np.ndarray]) -> np.ndarray:
    """A block diagonal matrix."""
    rows = [np.hstack([p if i == j else np.zeros((len(p), q.shape[1])) for j, q in enumerate(parts)]) for i, p in
            enumerate(parts)]  # fmt: skip
    return np.vstack(rows)


def dense_u(posterior: Joint, Kuu: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Prior covariance, mean and covariance of all `u`, one latent GP below the other."""
    root = blocks([np.linalg.cholesky(Kuu[latent % G]) for latent in range(L)])
    T = np.asarray(posterior.q_sqrt)[0]
    return root @ root.T, root @ np.asarray(posterior.q_mu)[:, 0], root @ T @ T.T @ root.T


def test_moments_between_latent_gps_equal_the_dense_ones(covariances):
    Kuu, Kuf, Kff = covariances
    posterior = built()
    factors = posterior.factorise(tf.constant(Kuu))
    K, m, S = dense_u(posterior, Kuu)
    cross = blocks([Kuf[latent % G] for latent in range(L)])
    A = np.linalg.solve(K, cross)
    expected = blocks([Kff[latent % G] for latent in range(L)]) + A.T @ (S - K) @ A
    mean, residual, told = posterior.project(factors, tf.constant(Kuf), tf.constant(Kff))
    flat = np.reshape(told, [L * N, -1])
    np.testing.assert_allclose(np.reshape(mean, -1), A.T @ m, rtol=1e-9)
    np.testing.assert_allclose(blocks(list(residual.numpy())) + flat @ flat.T, expected, rtol=1e-8, atol=1e-10)
    for copies in (1, 5):  # fewer rows than variables, and more
        several, variances = np.tile(Kuf, copies), np.tile(np.diagonal(Kff, axis1=1, axis2=2), copies)
        again, at_rows = posterior.project(factors, tf.constant(several), tf.constant(variances))
        np.testing.assert_allclose(again, np.tile(mean, copies), rtol=1e-12)
        cov = np.einsum("lnkn->lnk", expected.reshape(L, N, L, N))
        np.testing.assert_allclose(at_rows, np.tile(cov, (1, copies, 1)), rtol=1e-8, atol=1e-10)


def test_the_kl_is_that_of_all_variables_and_its_parts_are_those_of_the_chain_rule(covariances):
    posterior = built()
    factors = posterior.factorise(tf.constant(covariances[0]))
    K, m, S = dense_u(posterior, covariances[0])
    parts = posterior.kl(factors).numpy()
    np.testing.assert_allclose(parts.sum(), kl_of(m, S, K), rtol=1e-10)
    for n in range(1, L + 1):
        some = slice(0, n * M)
        np.testing.assert_allclose(parts[:n].sum(), kl_of(m[some], S[some, some], K[some, some]), rtol=1e-9)


def test_moments_and_weights_of_inducing_values(covariances):
    Kuu, Kuf, Kff = covariances
    posterior = built()
    factors = posterior.factorise(tf.constant(Kuu))
    _, m, S = dense_u(posterior, Kuu)
    mean, cov = posterior.moments(factors)
    np.testing.assert_allclose(np.reshape(mean, -1), m, rtol=1e-10)
    for latent in range(L):
        own = slice(latent * M, (latent + 1) * M)
        np.testing.assert_allclose(cov[latent], S[own, own], rtol=1e-9)
    alpha = posterior.weights(factors).numpy().reshape(L, M)
    expected = posterior.project(factors, tf.constant(Kuf), tf.constant(Kff))[0]
    np.testing.assert_allclose(np.einsum("lm,lmn->ln", alpha, np.concatenate([Kuf] * R)), expected, rtol=1e-9)


def test_a_block_diagonal_joint_posterior_is_a_full_one(covariances):
    Kuu, Kuf, Kff = (tf.constant(K) for K in covariances)
    rng, full, joint = np.random.default_rng(0), Full(), Joint()
    for posterior in (full, joint):
        posterior.build(G, R, M)
    full.q_mu.assign(rng.normal(size=(M, L)))
    full.q_sqrt.assign(np.stack([random_root(M, seed) for seed in range(L)]))
    joint.q_mu.assign(np.asarray(full.q_mu).T.reshape(-1, 1))
    joint.q_sqrt.assign(blocks(list(np.asarray(full.q_sqrt)))[None])
    own, others = (q.factorise(Kuu) for q in (full, joint))
    np.testing.assert_allclose(joint.kl(others), full.kl(own), rtol=1e-10)
    variances = tf.linalg.diag_part(Kff)
    (mean, var), (same, cov) = full.project(own, Kuf, variances), joint.project(others, Kuf, variances)
    np.testing.assert_allclose(same, mean, rtol=1e-10)
    np.testing.assert_allclose(cov, np.einsum("ln,lk->lnk", var, np.eye(L)), atol=1e-10)


def test_the_factorised_posterior_is_the_closest_of_all(covariances):
    """No other block-diagonal Gaussian is as close, in KL from it to the joint one."""
    Kuu = tf.constant(covariances[0])
    m, T = np.asarray(built().q_mu)[:, 0], random_root(L * M)
    mean, roots = best_factorised(m, T, M)
    np.testing.assert_allclose(mean.reshape(-1), m)

    def distance(values: np.ndarray) -> float:
        root = blocks(list(np.tril(values.reshape(L, M, M))))
        return kl_of(np.zeros(L * M), root @ root.T, T @ T.T)

    least = distance(roots)
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1e-2, 0.1):
        for _ in range(5):
            assert distance(roots + scale * rng.normal(size=roots.shape)) > least
    for whiten in (None, True, False):
        posterior = Joint(replaces=whiten)
        posterior.build(G, R, M)
        posterior.q_mu.assign(m[:, None])
        posterior.q_sqrt.assign(T[None])
        full = posterior.factorised(Kuu)
        assert full.whiten is (whiten is not False)
        K, mu, _ = dense_u(posterior, covariances[0])
        found, S = full.moments(full.factorise(Kuu))
        np.testing.assert_allclose(np.reshape(found, -1), mu, rtol=1e-9)
        factor = np.linalg.cholesky(K)
        np.testing.assert_allclose(
            blocks(list(np.asarray(S))), factor @ blocks(list(roots @ np.swapaxes(roots, 1, 2))) @ factor.T, atol=1e-9
        )


def test_the_kronecker_posterior_is_the_closest_of_all():
    """Against a general-purpose minimiser of the KL."""
    M_h, M_x = 2, 3
    T = random_root(M_h * M_x, 3)

    def distance(values: np.ndarray) -> float:
        T_h, T_x = np.zeros((M_h, M_h)), np.zeros((M_x, M_x))
        T_h[np.tril_indices(M_h)], T_x[np.tril_indices(M_x)] = values[:3], values[3:]
        root = np.kron(T_h, T_x)
        return kl_of(np.zeros(len(T)), root @ root.T, T @ T.T)

    start = np.concatenate([np.eye(M_h)[np.tril_indices(M_h)], np.eye(M_x)[np.tril_indices(M_x)]])
    found = optimize.minimize(distance, start, method="BFGS", options={"gtol": 1e-9})
    T_h, T_x = best_kronecker(T, (M_h, M_x))
    ours = distance(np.concatenate([T_h[np.tril_indices(M_h)], T_x[np.tril_indices(M_x)]]))
    np.testing.assert_allclose(ours, found.fun, rtol=1e-7)


# ---------------------------------------------------------------------------- the optimum


def random_rows(alike: bool = False, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    A, half = rng.normal(size=(G, M, N)), rng.normal(size=(1 if alike else N, L, L + 1))
    return A, np.broadcast_to(half @ np.swapaxes(half, 1, 2), (N, L, L)), rng.normal(size=(N, L))


@pytest.mark.parametrize("alike", [False, True])
def test_sums_over_rows_in_pieces_are_the_dense_precision(alike):
    """Each row reads `z = (a_l' v_l)_l` through a matrix `B_n`: P = I + Σ B_n' Λ_n B_n."""
    A, precision, pull = random_rows(alike)
    told = Told(L, M)
    for piece in (slice(0, 2), slice(2, 2), slice(2, N)):
        told.add(A[:, :, piece], precision[piece], pull[piece])
    P, r = np.eye(L * M), np.zeros(L * M)
    for n in range(N):
        B = blocks([A[latent % G, :, n][None] for latent in range(L)])
        P += B.T @ precision[n] @ B
        r += B.T @ pull[n]
    np.testing.assert_allclose(told.precision(), P, rtol=1e-12, atol=1e-12)
    best = told.best()
    np.testing.assert_allclose(best.root @ best.root.T, np.linalg.inv(P), rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(best.root, np.tril(best.root))
    np.testing.assert_allclose(best.mean, np.linalg.solve(P, r), rtol=1e-9)
    assert np.linalg.eigvalsh(P).min() > 1 - 1e-9


def test_what_a_posterior_lacks_is_its_kl_from_the_best():
    A, precision, pull = random_rows()
    told = Told(L, M)
    told.add(A, precision, pull)
    best, m, T = told.best(), np.random.default_rng(2).normal(size=L * M), random_root(L * M)
    S = best.root @ best.root.T
    expected = kl_of(m - best.mean, T @ T.T, S)
    assert told.excess(m, told.trace(T), np.linalg.slogdet(T @ T.T)[1], best) == pytest.approx(expected)
    roots = np.stack([random_root(M, seed) for seed in range(L)])
    whole = blocks(list(roots))
    expected = kl_of(m - best.mean, whole @ whole.T, S)
    found = told.excess(m, told.trace(roots), np.linalg.slogdet(whole @ whole.T)[1], best)
    assert found == pytest.approx(expected)
    assert told.excess(best.mean, told.trace(best.root), np.linalg.slogdet(S)[1], best) == pytest.approx(0, abs=1e-9)


def test_the_root_of_an_inverse_of_a_badly_conditioned_precision_is_precise():
    """Eigenvalues from 1 to 1e10, as many rows with little noise give."""
    Q = stats.ortho_group.rvs(30, random_state=0)
    values = np.logspace(0, 10, 30)
    T = inverse_root(Q @ np.diag(values) @ Q.T)
    np.testing.assert_allclose(np.diag(Q.T @ T @ T.T @ Q), 1 / values, rtol=1e-4)


# ---------------------------------------------------------------------------- the grid


def grids() -> tuple[Kronecker, JointGrid]:
    """A Kronecker posterior, and the same as a joint one."""
    M_x, M_h = 4, 3
    kronecker, joint = Kronecker(), JointGrid()
    for posterior in (kronecker, joint):
        posterior.build(inputs=M_x, latents=M_h)
        posterior.q_mu.assign(np.arange(12.0).reshape(M_x, M_h) / 10)
    kronecker.q_sqrt_x.assign(random_root(M_x, 1))
    kronecker.q_sqrt_h.assign(random_root(M_h, 2))
    joint.q_sqrt.assign(np.kron(kronecker.q_sqrt_h, kronecker.q_sqrt_x))
    return kronecker, joint


def covariance_of(size: int, seed: int) -> tf.Tensor:
    root = random_root(size, seed)
    return tf.constant(root @ root.T)


@pytest.mark.parametrize("rows", [6, 20])
def test_a_joint_grid_with_a_kronecker_covariance_is_that_of_kronecker(rows):
    kronecker, joint = grids()
    K_x, K_h, rng = covariance_of(4, 5), covariance_of(3, 6), np.random.default_rng(3)
    own, others = (q.factorise(K_x, K_h) for q in (kronecker, joint))
    np.testing.assert_allclose(joint.kl(), kronecker.kl(), rtol=1e-10)
    half = rng.normal(size=(2, 3, 5))
    Phi = tf.constant(half @ np.swapaxes(half, 1, 2))
    lower, upper = np.tril_indices(3)
    pairs, k = tf.constant(np.asarray(Phi)[:, lower, upper]), tf.constant(rng.normal(size=(2, 7, 3)))
    Kuf, Kff = tf.constant(rng.normal(size=(4, rows))), tf.constant(np.ones(rows))
    first, second = (q.project(f, Kuf, Kff) for q, f in ((kronecker, own), (joint, others)))
    np.testing.assert_allclose(second.E, first.E, rtol=1e-9)
    for name in ("by_row", "total"):
        np.testing.assert_allclose(getattr(others, name)(second), getattr(own, name)(first), rtol=1e-8)
    whole = [type(x)(*(a[None] for a in x)) for x in (first, second)]
    np.testing.assert_allclose(others.variances(whole[1], pairs), own.variances(whole[0], pairs), rtol=1e-8)
    np.testing.assert_allclose(others.given(whole[1], k), own.given(whole[0], k), rtol=1e-8)
    np.testing.assert_allclose(others.by_row(second).numpy() @ np.asarray(pairs)[0], own.variances(whole[0], pairs)[0])
    Kff = tf.constant(np.eye(rows))
    first, second = (q.project(f, Kuf, Kff) for q, f in ((kronecker, own), (joint, others)))
    np.testing.assert_allclose(others.covariances(second, Phi), own.covariances(first, Phi), rtol=1e-8, atol=1e-9)
    M, S_x, S_h = kronecker.moments(own)
    np.testing.assert_allclose(joint.moments(others)[0], M, rtol=1e-8)
    np.testing.assert_allclose(joint.moments(others)[1], np.kron(S_h, S_x), rtol=1e-7, atol=1e-9)
    back = joint.factorised()
    np.testing.assert_allclose(back.q_mu, kronecker.q_mu)
    np.testing.assert_allclose(
        np.kron(back.q_sqrt_h, back.q_sqrt_x), np.kron(kronecker.q_sqrt_h, kronecker.q_sqrt_x), rtol=1e-6, atol=1e-9
    )


def test_too_many_variables_are_refused():
    for build in (lambda: Joint().build(2, 1, 1501), lambda: JointGrid().build(inputs=1501, latents=2)):
        with pytest.raises(UnsupportedError, match=r"3002 inducing variables.*3000.*fewer"):
            build()
