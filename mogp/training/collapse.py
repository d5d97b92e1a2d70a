"""Parts of a model that have collapsed: they do nothing, do the same, or have run to a bound."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from mogp.data import Array
from mogp.models.sparse import SparseMOGP

_NOTHING = 1e-3
_SAME = 1e-3
_AT_BOUND = 1.5
_LARGE = 1e6


def posterior_as_prior(model: Any) -> list[str]:
    """Whether nothing was learnt by any latent GP.

    Args:
        model: any.

    >>> posterior_as_prior(None)
    []
    """
    if not isinstance(model, SparseMOGP):
        return []
    try:
        kl = np.asarray(model.posterior.kl(model.factors())).reshape(-1)
    except tf.errors.InvalidArgumentError:
        return []  # `_jitter` tells of it
    if not np.all(kl < _NOTHING):
        return []
    return [
        "The posterior of every latent GP equals its prior: nothing was learnt from the data. Look"
        " at the lengthscales and at the noise, or start again with another seed."
    ]


def latents_alike(model: Any) -> list[str]:
    """Latent GPs with one kernel whose weights are parallel: they do the work of one.

    Args:
        model: any.

    >>> latents_alike(None)
    []
    """
    W = getattr(getattr(model, "prior", None), "W", None)
    if W is None or model.prior.copies != 1 or W.shape[1] < 2 or W.shape[0] < 2:
        return []
    weights = np.asarray(tf.convert_to_tensor(W)).astype(float)
    unit = weights / np.maximum(np.linalg.norm(weights, axis=0), 1e-300)
    kernels = [_numbers(kernel) for kernel in model.prior.kernels.kernels]
    alike = all(
        len(one) == len(kernels[0]) and np.allclose(one, kernels[0], rtol=0.01) for one in kernels
    )
    if not alike or np.abs(unit.T @ unit).min() < 1 - _SAME:
        return []
    return [
        f"All {W.shape[1]} latent GPs are alike, in kernel and in weights: outputs are multiples of"
        " one function. Start from other weights (seed=…), or use latents=1."
    ]


def noise_at_bound(model: Any) -> list[str]:
    """Noise variances at the least value that they can have.

    Args:
        model: any.

    >>> noise_at_bound(None)
    []
    """
    parameters = getattr(model, "parameters", ())
    noise = {id(p) for p in _noises(model)}
    low = sum(id(p) in noise and bool(_at_bound(p).any()) for p in parameters)
    if not low:
        return []
    return [
        f"The noise of {low} likelihood{'s' if low > 1 else ''} is at its lower bound: functions go"
        " through the targets. Bands between rows are then often too narrow: start from a larger"
        " noise, give it a prior, or use fewer inducing points."
    ]


def kernels_run_off(model: Any) -> list[str]:
    """Kernel variances that no data of order one ask for.

    Args:
        model: any.

    >>> kernels_run_off(None)
    []
    """
    found = []
    for module in getattr(model, "submodules", ()):
        variance = getattr(module, "variance", None)
        if isinstance(module, gpflow.kernels.Kernel) and isinstance(variance, gpflow.Parameter):
            largest = float(np.max(np.asarray(variance)))
            if not largest < _LARGE:
                found.append(largest)
    if not found:
        return []
    return [
        f"A kernel variance has run off to {max(found):.2g}: functions have become straight lines,"
        " or training diverged. Give it a prior, or train with smaller steps."
    ]


COLLAPSED = (posterior_as_prior, latents_alike, noise_at_bound, kernels_run_off)
"""Each from a model to findings."""


def _numbers(module: Any) -> Array:
    return np.concatenate([np.ravel(np.asarray(p)) for p in module.parameters] or [np.empty(0)])


def _noises(model: Any) -> list[gpflow.Parameter]:
    found = []
    for module in getattr(model, "submodules", ()):
        if isinstance(module, gpflow.likelihoods.Gaussian):
            found += [module.variance, module.scale]
    return [p for p in found if isinstance(p, gpflow.Parameter) and p.trainable]


def _at_bound(parameter: gpflow.Parameter) -> Array:
    least = np.asarray(
        parameter.transform.forward(tf.fill(parameter.shape, tf.cast(-np.inf, parameter.dtype)))
    )
    return np.asarray(np.asarray(parameter) < _AT_BOUND * least)
