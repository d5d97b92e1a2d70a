"""What would widen a sparse posterior that is too sure in gaps. Not in the library: it is not the best of the bound."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from mogp import MultiOutputData
from mogp.models import SparseMOGP
from mogp.posteriors import Joint
from mogp.posteriors.optimum import Told


def between_as_noise(model: SparseMOGP, data: MultiOutputData) -> None:
    r"""Puts in the joint posterior that takes what lies between the inducing inputs for noise of the targets.

    The bound takes targets for $y_d = \sum_l w_{dl} a_l^\top v_l + \epsilon$, as if the inducing variables told
    everything, and pays for the rest by a trace that q(u) does not see. Here the noise has the variance
    $\sigma_d^2 + \sum_l w_{dl}^2 (k_l(x, x) - |a_l|^2)$, as in FITC (Snelson and Ghahramani 2006).

    Args:
        model: an LMC of Gaussian outputs.
        data: all that it was trained on.
    """
    prior, batch, factors = model.prior, model._batch(data), model.factors()
    W, bias = np.asarray(prior.W), np.zeros(prior.num_functions) if prior.bias is None else np.asarray(prior.bias)
    A = tf.linalg.triangular_solve(factors.cholesky, model.inducing.Kuf(prior.kernels, batch.X)).numpy()
    latent = np.arange(W.shape[1]) % len(A)
    rest = np.maximum(prior.kernels.K_diag(batch.X).numpy() - np.square(A).sum(1), 0)[latent]
    precision, pull = np.zeros((A.shape[2], *2 * (W.shape[1],))), np.zeros((A.shape[2], W.shape[1]))
    for d, own in enumerate(batch.outputs):
        at = slice(None) if own.rows is None else own.rows.numpy()
        noise = float(model.likelihood.likelihoods[d].variance.numpy()) + W[d] ** 2 @ rest[:, at]
        weight = own.weight.numpy() / noise
        precision[at] += weight[:, None, None] * np.outer(W[d], W[d])
        pull[at] += (weight * (own.Y.numpy()[:, 0] - bias[d]))[:, None] * W[d]
    told = Told(W.shape[1], A.shape[1])
    told.add(A, precision, pull)
    best = told.best()
    model.posterior = Joint(replaces=True)
    model.posterior.build(len(A), prior.copies, A.shape[1])
    model.posterior.q_mu.assign(best.mean[:, None])
    model.posterior.q_sqrt.assign(best.root[None])
