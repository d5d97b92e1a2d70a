"""Posteriors with a row of parameters for each latent GP, and parsimonious starts of full ones."""

from __future__ import annotations

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from check_shapes import check_shapes

from mogp.linalg import cholesky
from mogp.posteriors.base import Posterior
from mogp.posteriors.full import Full


def latents_first(posterior: Posterior) -> None:
    """Keep the parameters `[M, L]` of a posterior in variables `[L, M]`, a row for each latent GP.

    The parameters themselves keep their shapes and values, and `by_row` of the posterior says so.
    (GPflow's natural gradients want the variables as they were; those of `mogp.optimizers` do not
    mind.)

    Args:
        posterior: one that a model has built; it is changed in place.

    >>> from mogp.posteriors import Parsimonious, latents_first
    >>> posterior = Parsimonious()
    >>> posterior.build(kernels=1, copies=5, inducing=3)
    >>> latents_first(posterior)
    >>> posterior.mu.shape.as_list(), posterior.mu.unconstrained_variable.shape.as_list()
    ([3, 5], [5, 3])
    """
    turned = tfp.bijectors.Transpose(perm=[1, 0])
    # The transpose goes into the transform: `tf.gather` on the variable then reads whole latents.
    for name, value in list(vars(posterior).items()):
        if isinstance(value, gpflow.Parameter) and value.shape.rank == 2:
            chained = tfp.bijectors.Chain([value.transform, turned])
            setattr(
                posterior,
                name,
                gpflow.Parameter(np.asarray(value), transform=chained, trainable=value.trainable),
            )
    posterior.by_row = True


@check_shapes("Kuu: [G, M, M]")
def start_like_parsimonious(posterior: Full, Kuu: tf.Tensor, sigma: float) -> None:
    r"""Start every $q(u_l)$ of a full posterior where `Parsimonious(sigma)` starts.

    There $m = 0$ and $S = (K_{uu}^{-1} + \sigma^{-1} I)^{-1}$; whitened,
    $S_v^{-1} = L_u^\top S^{-1} L_u = I + L_u^\top L_u / \sigma$.

    Args:
        posterior: one that a model has built; it is changed in place.
        Kuu: `[G, M, M]` of that model.
        sigma: the common diagonal entry.

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from mogp.posteriors import Full, start_like_parsimonious
    >>> posterior = Full()
    >>> posterior.build(kernels=1, copies=1, inducing=2)
    >>> start_like_parsimonious(posterior, tf.eye(2, batch_shape=[1], dtype=tf.float64), sigma=1.0)
    >>> np.round(np.square(posterior.q_sqrt)[0], 3).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    L = cholesky(Kuu, name="Kuu")
    precision = (
        tf.eye(L.shape[-1], dtype=L.dtype) + tf.linalg.matmul(L, L, transpose_a=True) / sigma
    )
    inverse = tf.linalg.triangular_solve(
        tf.linalg.cholesky(precision), tf.eye(L.shape[-1], dtype=L.dtype)
    )
    S_v = tf.linalg.matmul(inverse, inverse, transpose_a=True)
    root = tf.linalg.cholesky(S_v)
    root = root if posterior.whiten else tf.linalg.matmul(L, root)
    posterior.q_mu.assign(tf.zeros_like(posterior.q_mu))
    posterior.q_sqrt.assign(tf.tile(root, [posterior.copies, 1, 1]))
