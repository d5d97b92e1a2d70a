"""Where models of annotators start: at functions that agree with what the annotators say together.

From functions that are zero a fit finds one of many optima: those in which the truth follows a few
annotators who are wrong in the same places explain the annotations nearly as well as others.
"""

from __future__ import annotations

import warnings

import numpy as np
import tensorflow as tf
from sklearn.exceptions import ConvergenceWarning

from mogp.data import Array, MultiOutputData
from mogp.likelihoods import AnnotatedClasses, Annotators
from mogp.linalg import cholesky
from mogp.models.consensus.random_answers import DGRL
from mogp.models.sparse import SparseMOGP

__all__ = ["first_functions", "start_at"]

_ROWS = 5000
_RIDGE, _SMOOTHING, _ITERATIONS, _TOLERANCE = 10.0, 1.0, 100, 1e-5
_GUESSES, _TRUST = 0.1, np.log(9.0)


def first_functions(data: MultiOutputData, likelihood: Annotators) -> Array | None:
    r"""What the functions may be at the rows of the data.

    For classes, a simpler relative of the model is fitted by EM (`DGRL`, Rodrigues et al. 2013:
    annotators of constant skill answer by a logistic regression, or guess). With its class
    probabilities $p_k(x)$ the functions of the classes and of an annotator who said $y^r$ are

    $$f_k = \log \tilde p_k - \operatorname{mean}_j \log \tilde p_j, \qquad
      \tilde p = \tfrac9{10} p + \tfrac1{10 K}, \qquad
      f_{K+r} = \frac{K p_{y^r} - 1}{K - 1} \log 9.$$

    An annotator who named a class that is sure starts with a reliability of 0.9, and one who named
    a class that is as probable as a guess with 0.5.

    Args:
        data: one output with a column for each annotator, in the units of the model.
        likelihood: of the annotators.

    Returns:
        `[N, J]`, NaN for an annotator who said nothing; None for values, which start at zero.
    """
    if not isinstance(likelihood, AnnotatedClasses):
        return None
    own, K = data[0], likelihood.num_classes
    p = _consensus(data, K)
    scores = np.log((1 - _GUESSES) * p + _GUESSES / K)
    told = np.take_along_axis(p, np.where(own.observed, own.Y, 0).astype(int), 1)
    trusts = np.where(own.observed, (K * told - 1) / (K - 1) * _TRUST, np.nan)
    return np.hstack([scores - scores.mean(1, keepdims=True), trusts])


def _consensus(data: MultiOutputData, classes: int) -> Array:
    """Class probabilities `[N, K]` at the inputs of all rows."""
    told = np.flatnonzero(data[0].observed.any(axis=1))
    told = told[np.linspace(0, len(told) - 1, min(len(told), _ROWS)).round().astype(int)]
    em = DGRL(classes, _RIDGE, _SMOOTHING, _ITERATIONS, _TOLERANCE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # near enough for a start
        em.fit(data.take({data.names[0]: told}))
    return em.predict_y(data.inputs(0))[0]


def start_at(model: SparseMOGP, X: Array, functions: Array) -> None:
    r"""Set $q(u)$ of a full posterior to the regression of latent GPs on given functions.

    The latent GPs are $t = W^+ (f - b)$, observed with noise of variance 1: with
    $A = L_u^{-1} K_{uf}$ the posterior of the whitened variables is

    $$S = (I + A A^\top)^{-1}, \qquad m = S A t.$$

    Args:
        model: with a latent GP for each kernel, and offsets.
        X: `[N, P]` inputs, in the units of the model.
        functions: `[N, J]`, NaN where not known, which is taken for the offset.
    """
    prior, posterior = model.prior, model.posterior
    rest = np.nan_to_num(functions - prior.bias.numpy())
    latents = rest if prior.W is None else rest @ np.linalg.pinv(prior.W.numpy()).T
    L = cholesky(model.inducing.Kuu(prior.kernels)).numpy()
    Kuf = model.inducing.Kuf(prior.kernels, tf.constant(X, L.dtype)).numpy()
    A = np.linalg.solve(L, Kuf)
    S = np.linalg.inv(np.eye(L.shape[1]) + A @ A.transpose(0, 2, 1))
    mean = S @ A @ latents.T[..., None]
    scale = np.linalg.cholesky(S)
    if not posterior.whiten:
        mean, scale = L @ mean, L @ scale
    posterior.q_mu.assign(mean[..., 0].T)
    posterior.q_sqrt.assign(scale)
