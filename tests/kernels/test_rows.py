"""Kernels whose parameters are rows, against GPflow's kernels one by one."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from mogp.kernels import KernelRows, KernelStack, kernels_of


@pytest.mark.parametrize("form", [gpflow.kernels.SquaredExponential, gpflow.kernels.Matern32])
@pytest.mark.parametrize("lengthscales", [0.7, [0.7, 1.4]])
def test_rows_are_the_kernels_one_by_one_and_any_of_them_can_be_taken(rng, form, lengthscales):
    rows = KernelRows(form(variance=1.2, lengthscales=lengthscales), 4)
    rows.form.variance.assign(rng.uniform(0.5, 2, 4))
    rows.form.lengthscales.assign(rng.uniform(0.5, 2, rows.form.lengthscales.shape))
    X, Z = rng.normal(size=(5, 2)), rng.normal(size=(4, 3, 2))
    truth = np.stack([k(z, X) for k, z in zip(rows.kernels, Z, strict=True)])
    np.testing.assert_allclose(rows.K(tf.constant(Z), tf.constant(X)), truth, atol=1e-12)
    np.testing.assert_allclose(rows.K(tf.constant(X)), [k(X) for k in rows.kernels], atol=1e-12)
    np.testing.assert_allclose(rows.K_diag(tf.constant(X)), [k(X, full_cov=False) for k in rows.kernels])
    some = kernels_of(rows, tf.constant([2, 0]))
    assert len(some) == 2
    np.testing.assert_allclose(some.K(tf.constant(Z[[2, 0]]), tf.constant(X)), truth[[2, 0]], atol=1e-12)


def test_one_kernel_for_all_is_taken_as_often_as_asked_and_different_ones_are_refused():
    one, other = gpflow.kernels.SquaredExponential(), gpflow.kernels.SquaredExponential()
    assert kernels_of(KernelStack([one] * 5), tf.constant([3, 1])).kernels == (one, one)
    with pytest.raises(ValueError, match="use KernelRows"):
        kernels_of(KernelStack([one, other]), tf.constant([1]))
    with pytest.raises(TypeError, match="Linear"):
        KernelRows(gpflow.kernels.Linear(), 2)
    with pytest.raises(ValueError, match="count=0"):
        KernelRows(one, 0)
