from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from gpflow import kernels as k

from mogp.inducing import InducingPoints
from mogp.likelihoods import Gaussian
from mogp.models import SparseMOGP
from mogp.posteriors import Full, Parsimonious
from mogp.priors import ICM, LMC, Independent

J, P = 4, 2
PRIORS = {
    "independent": lambda: Independent([k.Matern32(0.5 + j, 0.7) for j in range(J)]),
    "independent, one kernel": lambda: Independent(k.Matern52(0.5), functions=J),
    "LMC": lambda: LMC([k.SquaredExponential(), k.Matern32(2.0), k.Linear()], J),
    "LMC of rank 2": lambda: LMC([k.SquaredExponential(), k.Matern32(2.0)], J, rank=2, bias=[0.1, 0.2, 0.3, 0.4]),
    "ICM of rank 3": lambda: ICM(k.Matern12(), J, rank=3, bias=1.0),
}
POSTERIORS = {"whitened": Full, "plain": lambda: Full(whiten=False), "parsimonious": Parsimonious}


def model(prior, posterior, sets: bool, randomise) -> SparseMOGP:
    Z = np.random.default_rng(5).normal(size=(len(prior.kernels), 5, P) if sets else (5, P))
    made = SparseMOGP(prior, InducingPoints(Z), [Gaussian()] * prior.num_functions, posterior)
    randomise(made, 6)
    return made


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("sets", [False, True], ids=["shared Z", "a Z each"])
def test_marginals_in_every_form_are_those_of_the_dense_formulas(prior, posterior, sets, rng, dense, randomise):
    case = model(PRIORS[prior](), POSTERIORS[posterior](), sets, randomise)
    X = rng.normal(size=(6, P))
    mean, cov = dense(case, X)
    close = {"rtol": 1e-6, "atol": 1e-7}
    n, j = np.arange(6), np.arange(J)

    conditional = case.condition(tf.constant(X))
    found = conditional.marginals(range(J))
    np.testing.assert_allclose(found.mean, mean, **close)
    np.testing.assert_allclose(found.var, cov[n[:, None], j, n[:, None], j], **close)

    some, rows = range(1, 3), [4, 0, 0]
    found = conditional.marginals(some, tf.constant(rows))
    np.testing.assert_allclose(found.mean, mean[rows][:, some], **close)
    np.testing.assert_allclose(found.var, [[cov[r, f, r, f] for f in some] for r in rows], **close)

    between = conditional.marginals(range(J), full_output_cov=True)
    np.testing.assert_allclose(between.var, [cov[r, :, r] for r in n], **close)

    names = rng.integers(0, J, size=(3, 2))
    found = conditional.marginals(tf.constant(names), tf.constant(rows))
    np.testing.assert_allclose(found.mean, [mean[r, fs] for r, fs in zip(rows, names, strict=True)], **close)
    np.testing.assert_allclose(
        found.var, [[cov[r, f, r, f] for f in fs] for r, fs in zip(rows, names, strict=True)], **close
    )
    found = conditional.marginals(tf.constant(names[:, :1]), tf.constant(rows), full_output_cov=True)
    np.testing.assert_allclose(
        found.var[:, 0, 0], [cov[r, f, r, f] for r, f in zip(rows, names[:, 0], strict=True)], **close
    )
    distinct = np.array([[0, 3], [2, 1], [3, 0]])
    found = conditional.marginals(tf.constant(distinct), tf.constant(rows), full_output_cov=True)
    np.testing.assert_allclose(
        found.var, [cov[r][np.ix_(fs, [r], fs)][:, 0] for r, fs in zip(rows, distinct, strict=True)], **close
    )

    functions = case.condition(tf.constant(X), full_cov=True).marginals(range(J))
    np.testing.assert_allclose(functions.mean, mean, **close)
    np.testing.assert_allclose(functions.var, [cov[:, f, :, f] for f in j], **close)


def prior_covariance(prior, X: np.ndarray) -> np.ndarray:
    """Entry by entry: `cov(f_j(x), f_j'(x')) = sum over latents of W_jl W_j'l k_l(x, x')`, `[J N, J N]`."""
    W = np.eye(prior.num_functions) if prior.W is None else np.asarray(prior.W)
    kernels = prior.kernels.kernels
    K = np.zeros((len(W), len(X), len(W), len(X)))
    for a in range(len(W)):
        for b in range(len(W)):
            for latent in range(W.shape[1]):
                K[a, :, b] += W[a, latent] * W[b, latent] * kernels[latent % len(kernels)](X).numpy()
    return K.reshape(len(W) * len(X), -1)


@pytest.mark.parametrize("prior", ["LMC", "LMC of rank 2", "ICM of rank 3"])
def test_sum_of_kronecker_products_is_the_entrywise_covariance(prior, rng):
    """Ma T2.4."""
    made, X = PRIORS[prior](), rng.normal(size=(5, P))
    B = made.coregionalisation().numpy()
    kronecker = sum(np.kron(b, kernel(X)) for b, kernel in zip(B, made.kernels.kernels, strict=True))
    np.testing.assert_allclose(kronecker, prior_covariance(made, X), rtol=1e-12, atol=1e-14)


def test_rank_of_coregionalisation_is_the_number_of_copies():
    B = LMC([k.Matern12(), k.Matern32()], 5, rank=2).coregionalisation().numpy()
    assert [np.linalg.matrix_rank(b) for b in B] == [2, 2]
    assert np.linalg.eigvalsh(B).min() > -1e-12


@pytest.mark.parametrize("prior", PRIORS)
def test_without_data_the_functions_have_the_prior_covariance(prior, rng):
    """Samples aside: at q = p the posterior is the prior, between points and between functions."""
    made = PRIORS[prior]()
    with gpflow.config.as_context(gpflow.config.Config(jitter=1e-12)):
        X = rng.normal(size=(5, P))
        case = SparseMOGP(made, InducingPoints(X), [Gaussian()] * J, Full())
        K = prior_covariance(made, X).reshape(J, 5, J, 5)
        points, functions = case.predict_f(X, full_cov=True), case.predict_f(X, full_output_cov=True)
    np.testing.assert_allclose(points.var, [K[f, :, f] for f in range(J)], atol=1e-6)
    np.testing.assert_allclose(functions.var, [K[:, n, :, n] for n in range(5)], atol=1e-6)
    np.testing.assert_allclose(points.mean, np.broadcast_to(0 if made.bias is None else made.bias, (5, J)), atol=1e-12)


def elbo_and_prediction(prior, data, W=None):
    case = SparseMOGP(prior, InducingPoints(data.X[:5]), [Gaussian(0.3)] * data.num_outputs)
    rng = np.random.default_rng(0)
    case.posterior.q_mu.assign(rng.normal(size=case.posterior.q_mu.shape))
    case.posterior.q_sqrt.assign(np.tril(0.3 * rng.normal(size=case.posterior.q_sqrt.shape)) + np.eye(5))
    return case.elbo(data), *case.predict_f(data.X)


def test_lmc_with_one_latent_equals_icm(shared):
    """Ma T2.3."""
    W = [[1.0], [-0.5], [2.0]]
    lmc = elbo_and_prediction(LMC([k.Matern32()], 3, W=W), shared)
    for a, b in zip(lmc, elbo_and_prediction(ICM(k.Matern32(), 3, W=W), shared), strict=True):
        np.testing.assert_array_equal(a, b)


def test_lmc_with_identity_mixing_equals_independent_functions(shared):
    """Ma T2.3, Giraldo 11.16."""
    kernels = [k.Matern32(lengthscales=s) for s in (0.5, 1.0, 2.0)]
    lmc = elbo_and_prediction(LMC(kernels, 3, W=np.eye(3)), shared)
    for a, b in zip(lmc, elbo_and_prediction(Independent(kernels), shared), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_one_shared_kernel_equals_copies_of_it(shared):
    one = elbo_and_prediction(Independent(k.Matern32(0.7), functions=3), shared)
    for a, b in zip(one, elbo_and_prediction(Independent([k.Matern32(0.7) for _ in range(3)]), shared), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Independent(k.Matern12()), "one shared kernel and functions=None"),
        (lambda: Independent([k.Matern12()], functions=2), "1 kernels and functions=2"),
        (lambda: Independent(k.Matern12(), functions=0), "functions=0"),
        (lambda: Independent([]), "0 kernels"),
        (lambda: LMC([k.Matern12()], functions=0), "functions=0, rank=1: both must be at least 1"),
        (lambda: LMC([k.Matern12()], functions=1, rank=0), "rank=0"),
        (lambda: LMC([], functions=2), "at least one"),
        (lambda: LMC([k.Matern12()], 2, W=np.ones((1, 2))), r"W has shape \(1, 2\); expected .* \(2, 1\)"),
        (lambda: ICM(k.Matern12(), 2, rank=2, W=np.ones((2, 1))), r"\(2, 2\)"),
        (lambda: LMC([k.Matern12()], 2, bias=[1.0, 2.0, 3.0]), "bias"),
    ],
)
def test_priors_that_do_not_fit_together_are_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
