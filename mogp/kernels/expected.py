"""Expectations of a squared exponential over uncertain inputs: the psi-statistics of the GPLVM."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gpflow.kernels import SquaredExponential


def expected_k(
    kernel: SquaredExponential, Z: tf.Tensor, mean: tf.Tensor, var: tf.Tensor
) -> tf.Tensor:
    r"""Expectation of a squared exponential kernel over uncertain inputs.

    $\Psi_{dm} = \mathbb E\,k(h_d, z_m)$ for $h_d \sim N(\mu_d, \mathrm{diag}\,s_d)$:

    $$\Psi_{dm} = \sigma^2 \prod_j \big(1 + s_{dj}/l_j^2\big)^{-1/2}
      \exp\!\Big(-\frac{(\mu_{dj} - z_{mj})^2}{2 (l_j^2 + s_{dj})}\Big)$$

    Args:
        kernel: $k$, with lengthscales $l$ and variance $\sigma^2$.
        Z: `[M, Q]`.
        mean: $\mu$, `[D, Q]`.
        var: $s$, `[D, Q]`.

    Returns:
        `[D, M]`.

    >>> import numpy as np
    >>> from gpflow.kernels import SquaredExponential
    >>> from mogp.kernels import expected_k
    >>> Z, mean = np.array([[0.0], [1.0]]), np.array([[0.0]])
    >>> np.round(expected_k(SquaredExponential(), Z, mean, var=np.array([[3.0]])), 3).tolist()
    [[0.5, 0.441]]
    """
    squares, scale = _parameters(kernel)
    wide = squares + var
    damping = -0.5 * tf.reduce_sum(tf.math.log(wide) - tf.math.log(squares), -1, keepdims=True)
    return scale * tf.exp(damping - 0.5 * _distances(mean, 1 / wide, Z))


def expected_kk(
    kernel: SquaredExponential, Z: tf.Tensor, mean: tf.Tensor, var: tf.Tensor
) -> tf.Tensor:
    r"""Expectation of the product of two kernel values over uncertain inputs.

    $\Phi_{d,mm'} = \mathbb E[k(h_d, z_m)\, k(h_d, z_{m'})]$ for the pairs $m \ge m'$. With
    $\bar z = \tfrac12 (z_m + z_{m'})$

    $$\Phi_{d,mm'} = \sigma^4 \prod_j \big(1 + 2 s_{dj}/l_j^2\big)^{-1/2} \exp\!\Big(
      -\frac{(z_{mj} - z_{m'j})^2}{4 l_j^2}
      - \frac{(\mu_{dj} - \bar z_j)^2}{l_j^2 + 2 s_{dj}}\Big).$$

    `symmetric` puts pairs into matrices, `paired` takes them out.

    Args:
        kernel: $k$, with lengthscales $l$ and variance $\sigma^2$.
        Z: `[M, Q]`.
        mean: $\mu$, `[D, Q]`.
        var: $s$, `[D, Q]`.

    Returns:
        `[D, M (M + 1) / 2]`.

    >>> import numpy as np
    >>> from gpflow.kernels import SquaredExponential
    >>> from mogp.kernels import expected_kk
    >>> Z, mean = np.array([[0.0], [1.0]]), np.array([[0.0]])
    >>> np.round(expected_kk(SquaredExponential(), Z, mean, var=np.array([[4.0]])), 3).tolist()
    [[0.333, 0.252, 0.298]]
    """
    squares, scale = _parameters(kernel)
    lower, upper = np.tril_indices(Z.shape[0])
    first, second = tf.gather(Z, lower), tf.gather(Z, upper)
    apart = tf.reduce_sum(tf.square(first - second) / squares, -1)
    wide = squares + 2 * var
    damping = -0.5 * tf.reduce_sum(tf.math.log(wide) - tf.math.log(squares), -1, keepdims=True)
    return scale**2 * tf.exp(
        damping - 0.25 * apart - _distances(mean, 1 / wide, 0.5 * (first + second))
    )


def symmetric(pairs: tf.Tensor, size: int) -> tf.Tensor:
    """Matrices `[..., M, M]` from their lower triangles `[..., M (M + 1) / 2]`, row by row."""
    m, n = np.indices((size, size))
    low, high = np.minimum(m, n), np.maximum(m, n)
    return tf.gather(pairs, high * (high + 1) // 2 + low, axis=-1)


def paired(matrices: tf.Tensor) -> tf.Tensor:
    r"""Weights whose product with pairs is $\mathrm{Tr}(A \Phi)$, for symmetric $A$.

    Args:
        matrices: $A$, `[..., M, M]`.

    Returns:
        `[..., M (M + 1) / 2]`.
    """
    lower, upper = np.tril_indices(matrices.shape[-1])
    flat = tf.reshape(matrices, tf.concat([tf.shape(matrices)[:-2], [-1]], 0))
    twice = np.where(lower == upper, 1.0, 2.0)
    return tf.gather(flat, lower * matrices.shape[-1] + upper, axis=-1) * tf.constant(
        twice, matrices.dtype
    )


def _parameters(kernel: SquaredExponential) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.square(tf.convert_to_tensor(kernel.lengthscales)), tf.convert_to_tensor(
        kernel.variance
    )


def _distances(mean: tf.Tensor, weight: tf.Tensor, Z: tf.Tensor) -> tf.Tensor:
    r"""$\sum_j w_{dj} (\mu_{dj} - z_{mj})^2$, `[D, M]`, in one product.

    Both are centred first, which keeps digits.
    """
    centre = tf.reduce_mean(Z, 0)
    mean, Z = mean - centre, Z - centre
    own = tf.reduce_sum(weight * tf.square(mean), -1, keepdims=True)
    left = tf.concat([weight, weight * mean, own], -1)
    right = tf.concat([tf.square(Z), -2 * Z, tf.ones_like(Z[:, :1])], -1)
    return tf.maximum(tf.linalg.matmul(left, right, transpose_b=True), 0)
