"""L-BFGS on objectives that do not exist everywhere."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from mogp.optimizers.line_search import LineSearch


def barrier(kind: str, theta: tf.Variable):
    """`(θ₁ - 3)² + 10 (θ₂ - θ₁²)² / 9` that cannot be evaluated beyond `θ₁ = 4` or below `θ₂ = -1`."""

    def loss() -> tf.Tensor:
        inside = (theta[0] < 4) & (theta[1] > -1)
        if kind == "raises":
            tf.debugging.Assert(inside, ["no Cholesky factor"])
        value = (theta[0] - 3) ** 2 + 10 / 9 * (theta[1] - theta[0] ** 2) ** 2
        outside = {"NaN": np.nan, "infinite": np.inf}.get(kind, 0.0)
        return value if kind == "raises" else tf.where(inside, value, tf.constant(outside, tf.float64))

    return loss


@pytest.mark.parametrize("kind", ["raises", "NaN", "infinite"])
def test_it_goes_round_points_that_cannot_be_evaluated(kind):
    theta = tf.Variable([-1.2, 20.0], dtype=tf.float64)
    search = LineSearch()
    result = search.minimize(barrier(kind, theta), [theta], options={"maxiter": 500}, tf_fun_args={"autograph": False})
    assert search.refused > 0
    assert result.success
    np.testing.assert_allclose(theta, [3, 9], atol=1e-3)


def test_without_such_points_it_is_gpflows():
    import gpflow

    ends = []
    for search in (LineSearch(), gpflow.optimizers.Scipy()):
        theta = tf.Variable([0.5, 1.0], dtype=tf.float64)
        result = search.minimize(barrier("raises", theta), [theta], tf_fun_args={"autograph": False})
        ends.append((theta.numpy().tolist(), result.nfev))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("kind", ["raises", "NaN"])
def test_a_start_that_cannot_be_evaluated_is_not_hidden(kind):
    theta = tf.Variable([5.0, 0.0], dtype=tf.float64)
    search = LineSearch()
    if kind == "raises":
        with pytest.raises(tf.errors.InvalidArgumentError, match="no Cholesky factor"):
            search.minimize(barrier(kind, theta), [theta], tf_fun_args={"autograph": False})
    else:
        result = search.minimize(barrier(kind, theta), [theta], tf_fun_args={"autograph": False})
        assert np.isnan(result.fun)
