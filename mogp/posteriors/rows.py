"""Posteriors whose parameters have a row for each latent GP, and full ones that start where
parsimonious ones do.
"""

from __future__ import annotations

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from mogp.linalg import cholesky
from mogp.posteriors.base import Posterior
from mogp.posteriors.full import Full


def latents_first(posterior: Posterior) -> None:
    """Keep the parameters `[M, L]` of a posterior in variables `[L, M]`, so that a latent GP owns a
    row of each.

    The parameters themselves keep their shapes and values. (GPflow's natural gradients want them as
    they were.)
    """
    turned = tfp.bijectors.Transpose(perm=[1, 0])
    for name, value in list(vars(posterior).items()):
        if isinstance(value, gpflow.Parameter) and value.shape.rank == 2:
            chained = tfp.bijectors.Chain([value.transform, turned])
            setattr(
                posterior,
                name,
                gpflow.Parameter(np.asarray(value), transform=chained, trainable=value.trainable),
            )


def start_like_parsimonious(posterior: Full, Kuu: tf.Tensor, sigma: float) -> None:
    r"""Set every $q(u_l)$ to the start of `Parsimonious(sigma)`: $m = 0$,
    $S = (K_{uu}^{-1} + \sigma^{-1} I)^{-1}$.

    Whitened, $S_v^{-1} = L_u^\top S^{-1} L_u = I + L_u^\top L_u / \sigma$.

    Args:
        posterior: one that a model has built.
        Kuu: `[G, M, M]` of that model.
        sigma: the common diagonal entry.
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
