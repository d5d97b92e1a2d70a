from __future__ import annotations

import gpflow
import numpy as np
import pytest
from gpflow import kernels as k
from scipy import stats

from mogp.data import MultiOutputData
from mogp.models import ExactLMC

KERNELS = {
    "one": lambda: [k.Matern32(1.0, 0.7)],
    "two, ARD": lambda: [k.SquaredExponential(0.8, [0.5, 1.5]), k.Matern12()],
    "sums and products": lambda: [k.Matern32() + k.Linear(), k.Matern52() * k.Linear(0.5) + k.Constant(0.2)],
    "some dimensions": lambda: [
        k.Matern32(active_dims=[1]),
        k.Matern12(active_dims=slice(0, 1)),
        k.Linear(active_dims=slice(1, None)),
    ],
    "periodic": lambda: [
        k.Periodic(k.SquaredExponential()),
        k.Matern32(active_dims=[0]) + k.Periodic(k.Matern12(active_dims=[1])),
    ],
}


def covariance(kernels, A, X, d, X2, d2) -> np.ndarray:
    """`sum_q (A_q A_qᵀ)_{d d'} k_q(x, x')` for rows `(X, d)` and `(X2, d2)`."""
    return sum((a @ a.T)[np.ix_(d, d2)] * kernel(X, X2).numpy() for a, kernel in zip(A, kernels, strict=True))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("rank", [1, 2])
def test_likelihood_and_prediction_are_those_of_the_dense_formulas(name, rank, uneven, rng):
    kernels = KERNELS[name]()
    A = rng.normal(size=(len(kernels), 3, rank))
    model = ExactLMC(uneven, kernel=kernels, rank=rank, A=A, noise=0.3, scaling=None)
    model.noise.assign([0.1, 0.2, 0.3])

    d = np.concatenate([np.full(len(o), i) for i, o in enumerate(uneven)])
    X = np.concatenate([uneven.inputs(i) for i in range(3)])
    y = np.concatenate([o.Y[:, 0] for o in uneven])
    K = covariance(kernels, A, X, d, X, d) + np.diag(np.array([0.1, 0.2, 0.3])[d])
    np.testing.assert_allclose(model.elbo(), stats.multivariate_normal(np.zeros(len(y)), K).logpdf(y), rtol=1e-6)

    new = rng.normal(size=(4, 2))
    for output in range(3):
        where = np.full(4, output)
        cross = covariance(kernels, A, new, where, X, d)
        mean, cov = model.predict_f(new, output, full_cov=True)
        np.testing.assert_allclose(mean[:, 0], cross @ np.linalg.solve(K, y), rtol=1e-6, atol=1e-6)
        expected = covariance(kernels, A, new, where, new, where) - cross @ np.linalg.solve(K, cross.T)
        np.testing.assert_allclose(cov[0], expected, rtol=1e-5, atol=1e-6)
        noisy = model.predict_y(new, output)[1][:, 0]
        np.testing.assert_allclose(noisy, np.diag(expected) + [0.1, 0.2, 0.3][output], rtol=1e-5)


def test_the_given_kernels_are_not_changed(uneven):
    kernel = k.Matern32() + k.Linear()
    before = [one.active_dims for one in kernel.kernels]
    model = ExactLMC(uneven, kernel=[kernel])
    gpflow.optimizers.Scipy().minimize(model.training_loss, model.trainable_variables, options={"maxiter": 3})
    assert [one.active_dims for one in kernel.kernels] == before
    assert float(kernel.kernels[0].variance.numpy()) == 1.0


def test_one_output_is_a_plain_regression(rng):
    X, Y = rng.normal(size=(8, 1)), rng.normal(size=(8, 1))
    model = ExactLMC(MultiOutputData.from_arrays(X, Y), kernel=k.Matern52(), A=[[[1.0]]], noise=0.2, scaling=None)
    plain = gpflow.models.GPR((X, Y), k.Matern52(), noise_variance=0.2)
    np.testing.assert_allclose(model.elbo(), plain.log_marginal_likelihood(), rtol=1e-9)


def test_a_seed_fixes_the_start(uneven):
    a, b, c = (ExactLMC(uneven, kernel=k.Matern32(), rank=2, seed=seed).elbo() for seed in (1, 1, 2))
    assert a == b != c


def test_what_exact_regression_cannot_take_is_refused(uneven):
    wide = MultiOutputData.from_list([([0.0, 1.0], np.ones((2, 3)))], names=["annotated"])
    with pytest.raises(ValueError, match="one target column an output; annotated has more"):
        ExactLMC(wide, kernel=k.Matern32())
    with pytest.raises(ValueError, match=r"A has shape \(1, 3\); expected .* \(1, 3, 1\)"):
        ExactLMC(uneven, kernel=k.Matern32(), A=np.ones((1, 3)))
