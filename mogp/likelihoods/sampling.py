"""Samples of y given function values, from our likelihoods and from GPflow's own."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import tensorflow as tf
from gpflow import likelihoods as stock
from gpflow.base import TensorType
from gpflow.functions import Function
from tensorflow_probability import distributions as tfd

from mogp.likelihoods.base import draw

__all__ = ["conditional", "sample_y"]


def sample_y(
    likelihood: Any, F: TensorType, seed: int | TensorType, X: TensorType | None = None
) -> tf.Tensor:
    """One draw of y for each row of function values.

    Args:
        likelihood: one of ours, or of GPflow's.
        F: [..., N, J] function values.
        seed: a whole number or a pair of them (shape [2]); the same seed gives the same draw, in
            any order of calls, in or out of a `tf.function`.
        X: [..., N, P] inputs, needed only where the noise of a GPflow likelihood is a function of
            them.

    Returns:
        [..., N, 1].

    >>> import numpy as np
    >>> from mogp.likelihoods import Poisson, sample_y
    >>> y = sample_y(Poisson(), np.full((1000, 1), np.log(50.0)), seed=1)
    >>> y.shape.as_list(), round(float(np.mean(y)) / 50, 1)
    ([1000, 1], 1.0)
    """
    F = tf.convert_to_tensor(F)
    if hasattr(likelihood, "sample_y"):
        return likelihood.sample_y(F, seed)
    return draw(conditional(likelihood, F, X), F.dtype, seed)


@singledispatch
def conditional(likelihood: Any, F: TensorType, X: TensorType | None = None) -> tfd.Distribution:
    """The distribution of y given F [..., N, J], of batch shape [..., N].

    Ours come from the likelihood's method `conditional(F)`. Another class is made known with
    `@conditional.register(ItsClass)`.

    Args:
        likelihood: one of ours, or of GPflow's.
        F: [..., N, J] function values.
        X: [..., N, P] inputs, as in `sample_y`.

    >>> import gpflow
    >>> import numpy as np
    >>> from mogp.likelihoods import conditional
    >>> y = conditional(gpflow.likelihoods.Gaussian(0.25), np.array([[1.0], [2.0]]))
    >>> y.mean().numpy().tolist(), y.stddev().numpy().tolist()
    ([1.0, 2.0], [0.5, 0.5])
    """
    if not hasattr(likelihood, "conditional"):
        raise TypeError(
            f"cannot sample from the likelihood {type(likelihood).__name__}: it has no method"
            " conditional(F) that returns the distribution of y. Add one, or register a function"
            " for the class with"
            f" @mogp.likelihoods.conditional.register({type(likelihood).__name__})."
        )
    return likelihood.conditional(F)


@conditional.register(stock.Gaussian)
def _(likelihood: stock.Gaussian, F: TensorType, X: TensorType | None = None) -> tfd.Distribution:
    variance = likelihood.conditional_variance(_inputs(likelihood, F, X), F)
    return tfd.Normal(F, tf.sqrt(variance))[..., 0]


@conditional.register(stock.StudentT)
def _(likelihood: stock.StudentT, F: TensorType, X: TensorType | None = None) -> tfd.Distribution:
    scale = tf.broadcast_to(likelihood._scale(_inputs(likelihood, F, X)), tf.shape(F))
    return tfd.StudentT(tf.constant(likelihood.df, F.dtype), F, scale)[..., 0]


@conditional.register(stock.Exponential)
def _(
    likelihood: stock.Exponential, F: TensorType, X: TensorType | None = None
) -> tfd.Distribution:
    return tfd.Exponential(1.0 / likelihood.invlink(F[..., 0]))


@conditional.register(stock.Gamma)
def _(likelihood: stock.Gamma, F: TensorType, X: TensorType | None = None) -> tfd.Distribution:
    shape = tf.broadcast_to(likelihood._shape(_inputs(likelihood, F, X)), tf.shape(F))
    return tfd.Gamma(shape[..., 0], 1.0 / likelihood.invlink(F[..., 0]))


@conditional.register(stock.Beta)
def _(likelihood: stock.Beta, F: TensorType, X: TensorType | None = None) -> tfd.Distribution:
    mean, scale = likelihood.invlink(F), likelihood._scale(_inputs(likelihood, F, X))
    return tfd.Beta((mean * scale)[..., 0], ((1.0 - mean) * scale)[..., 0])


@conditional.register(stock.Poisson)
def _(likelihood: stock.Poisson, F: TensorType, X: TensorType | None = None) -> tfd.Distribution:
    return tfd.Poisson(likelihood.conditional_mean(X, F)[..., 0])


@conditional.register(stock.Bernoulli)
def _(likelihood: stock.Bernoulli, F: TensorType, X: TensorType | None = None) -> tfd.Distribution:
    return tfd.Bernoulli(probs=likelihood.invlink(F[..., 0]))


@conditional.register(stock.Softmax)
def _(likelihood: stock.Softmax, F: TensorType, X: TensorType | None = None) -> tfd.Distribution:
    return tfd.Categorical(logits=F)


@conditional.register(stock.MultiClass)
def _(likelihood: stock.MultiClass, F: TensorType, X: TensorType | None = None) -> tfd.Distribution:
    probabilities = likelihood.invlink(tf.reshape(F, [-1, likelihood.num_classes]))
    return tfd.Categorical(probs=tf.reshape(probabilities, tf.shape(F)))


@conditional.register(stock.MultiLatentTFPConditional)
def _(
    likelihood: stock.MultiLatentTFPConditional, F: TensorType, X: TensorType | None = None
) -> tfd.Distribution:
    return likelihood.conditional_distribution(F)[..., 0]


def _inputs(likelihood: Any, F: TensorType, X: TensorType | None) -> TensorType:
    """The inputs X, or as many empty ones where the noise does not depend on them."""
    if X is not None:
        return X
    varying = [name for name, value in vars(likelihood).items() if isinstance(value, Function)]
    if varying:
        raise ValueError(
            f"the {varying[0]} of the likelihood {type(likelihood).__name__} is a function of the"
            " inputs: give them, as sample_y(likelihood, F, seed, X=X)."
        )
    return tf.zeros(tf.concat([tf.shape(F)[:-1], [0]], 0), F.dtype)
