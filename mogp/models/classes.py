"""Named models of class labels: MOGPs-AR, MOCGPs-AR, MG-M, and the single-output G-A and G-M (Ma,
chapters 3 and 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.utilities import set_trainable

from mogp.data import MultiOutputData
from mogp.inducing import InducingPoints, kmeans_points, patch_subset
from mogp.kernels import KernelStack, Patches, PatchStack, unit_kernels
from mogp.likelihoods import AugmentReduce, PerOutput, Softmax
from mogp.likelihoods.augment import Theta
from mogp.likelihoods.multiclass import Covariance
from mogp.models.lengthscales import start_lengthscales
from mogp.models.sparse import SparseMOGP
from mogp.posteriors import Full
from mogp.priors import LMC, Independent

_IMAGES_FOR_SPREAD = 16

Classes = Sequence[int] | Mapping[str, int] | None


def mogps_ar(
    data: MultiOutputData,
    classes: Classes = None,
    *,
    latents: int = 10,
    inducing: int | InducingPoints = 100,
    negatives: int | None = 5,
    covariance: Covariance = "exact",
    theta: Theta = "collapsed",
    lengthscale: float | None = None,
    W: npt.ArrayLike | None = None,
    patches: Patches | None = None,
    seed: int = 0,
) -> SparseMOGP:
    """Outputs with many classes, by augment and reduce (Ma, chapter 3).

    prior       LMC over all class functions: one row of W for each (output, class)
    inducing    points, a set for each latent GP (patches of images with `patches`)
    posterior   full, whitened
    likelihood  softmax by augment and reduce, `negatives` sampled wrong classes a row

    Args:
        data: labels 0, 1, … of each output.
        classes: number of classes of each output; the largest label and one if None.
        latents: latent GPs `Q`.
        inducing: points a latent GP (k-means centres; random patches), or the inducing variables
            themselves.
        negatives: sampled wrong classes a row and step; all if None.
        covariance, theta: see `AugmentReduce`.
        lengthscale: start value; the median distance between inputs (patches) if None.
        W: `[C, Q]` start values of the mixing weights; if None, random directions of a length that
            gives every function unit variance (for images: between images).
        patches: for images, how they are cut; None for plain inputs.
        seed: of all start values and of the sampled classes.
    """
    counts = _classes(data, classes)
    likelihoods = {
        name: AugmentReduce(
            C,
            negatives,
            covariance=covariance,
            theta=theta,
            rows=len(data.X) if theta == "local" else None,
            seed=seed + d,
        )
        for d, (name, C) in enumerate(counts.items())
    }
    return _mixed(data, likelihoods, latents, inducing, lengthscale, W, patches, seed)


def mocgps_ar(
    data: MultiOutputData, patches: Patches, classes: Classes = None, **options: Any
) -> SparseMOGP:
    """Images with many classes: MOGPs-AR with latent GPs that are weighted sums over patches (Ma,
    chapter 4).

    prior       LMC over all class functions, weighted-patch kernels
    inducing    patches, a set for each latent GP
    posterior   full, whitened
    likelihood  softmax by augment and reduce

    `options` are those of `mogps_ar`.
    """
    return mogps_ar(data, classes, patches=patches, **options)


def mg_m(
    data: MultiOutputData,
    classes: Classes = None,
    *,
    latents: int = 10,
    inducing: int | InducingPoints = 100,
    samples: int = 20,
    covariance: Covariance = "exact",
    lengthscale: float | None = None,
    W: npt.ArrayLike | None = None,
    patches: Patches | None = None,
    seed: int = 0,
) -> SparseMOGP:
    """As MOGPs-AR with the softmax over all classes by Monte Carlo (Moreno-Muñoz et al. 2018).

    prior       LMC over all class functions
    inducing    points, a set for each latent GP
    posterior   full, whitened
    likelihood  softmax, `samples` draws a row and step
    """
    likelihoods = {
        name: Softmax(C, samples, covariance=covariance, seed=seed + d)
        for d, (name, C) in enumerate(_classes(data, classes).items())
    }
    return _mixed(data, likelihoods, latents, inducing, lengthscale, W, patches, seed)


def g_a(
    data: MultiOutputData,
    classes: Classes = None,
    *,
    inducing: int | InducingPoints = 100,
    negatives: int | None = None,
    kl_weight: float = 1.0,
    lengthscale: float | None = None,
    patches: Patches | None = None,
    seed: int = 0,
) -> SparseMOGP:
    """One output, an independent GP for each class, Gumbel-augmented softmax (Liu et al. 2019).

    prior       independent, one kernel shared by the classes
    inducing    points, shared by the classes
    posterior   full, whitened
    likelihood  softmax by augment and reduce, over all classes by default

    `kl_weight=len(data.X) / batch_size` gives the baseline as published, whose data term is not
    scaled up to the data.
    """
    ((name, C),) = _one_output(data, classes).items()
    likelihood = {name: AugmentReduce(C, negatives, seed=seed)}
    return _independent(data, likelihood, inducing, kl_weight, lengthscale, patches, seed)


def g_m(
    data: MultiOutputData,
    classes: Classes = None,
    *,
    inducing: int | InducingPoints = 100,
    samples: int = 20,
    kl_weight: float = 1.0,
    lengthscale: float | None = None,
    patches: Patches | None = None,
    seed: int = 0,
) -> SparseMOGP:
    """One output, an independent GP for each class, softmax by Monte Carlo.

    prior       independent, one kernel shared by the classes
    inducing    points, shared by the classes
    posterior   full, whitened
    likelihood  softmax, `samples` draws a row and step

    `kl_weight=len(data.X) / batch_size` gives the baseline as published, whose data term is not
    scaled up to the data.
    """
    ((name, C),) = _one_output(data, classes).items()
    likelihood = {name: Softmax(C, samples, seed=seed)}
    return _independent(data, likelihood, inducing, kl_weight, lengthscale, patches, seed)


def _mixed(
    data: MultiOutputData,
    likelihoods: Mapping[str, Softmax],
    latents: int,
    inducing: int | InducingPoints,
    lengthscale: float | None,
    W: npt.ArrayLike | None,
    patches: Patches | None,
    seed: int,
) -> SparseMOGP:
    if latents < 1:
        raise ValueError(f"latents={latents}; at least one latent GP is needed.")
    outputs = PerOutput(likelihoods)
    outputs.check(data)
    kernels = _kernels(data, latents, lengthscale, patches, seed)
    prior = LMC(kernels, functions=outputs.num_functions, W=W, seed=seed)
    mixing = prior.W
    if patches is not None and W is None and mixing is not None:
        mixing.assign(mixing.numpy() / _spread(data, kernels, seed))
    return SparseMOGP(
        prior=prior,
        inducing=_inducing(data, inducing, latents, patches, seed),
        posterior=Full(whiten=True),
        likelihood=outputs,
    )


def _independent(
    data: MultiOutputData,
    likelihood: Mapping[str, Softmax],
    inducing: int | InducingPoints,
    kl_weight: float,
    lengthscale: float | None,
    patches: Patches | None,
    seed: int,
) -> SparseMOGP:
    kernels = _kernels(data, 1, lengthscale, patches, seed)
    outputs = PerOutput(likelihood)
    outputs.check(data)
    (kernel,) = kernels.kernels
    variance = kernel.variance if patches is None else kernel.base_kernel.variance
    if patches is not None:
        variance.assign(_spread(data, kernels, seed).item() ** -2)
    set_trainable(variance, True)
    return SparseMOGP(
        prior=Independent(kernels, functions=outputs.num_functions),
        inducing=_inducing(data, inducing, None, patches, seed),
        posterior=Full(whiten=True),
        likelihood=outputs,
        kl_weight=kl_weight,
    )


def _classes(data: MultiOutputData, classes: Classes) -> dict[str, int]:
    """The number of classes of each output, by name."""
    if classes is None:
        return {o.name: max(2, int(np.max(o.Y, initial=0)) + 1) for o in data.outputs}
    if isinstance(classes, Mapping):
        for name in classes:
            data.index(name)
        missing = [name for name in data.names if name not in classes]
        if missing:
            raise ValueError(
                f"no number of classes for output {', '.join(map(repr, missing))}; name one for"
                " each."
            )
        return {name: int(classes[name]) for name in data.names}
    if len(classes) != data.num_outputs:
        raise ValueError(f"{len(classes)} numbers of classes for {data.num_outputs} outputs.")
    return dict(zip(data.names, map(int, classes), strict=True))


def _one_output(data: MultiOutputData, classes: Classes) -> dict[str, int]:
    if data.num_outputs != 1:
        raise ValueError(
            f"a single-output model, and {data.num_outputs} outputs; fit one model for each, or"
            " mogps_ar."
        )
    return _classes(data, classes)


def _kernels(
    data: MultiOutputData, count: int, lengthscale: float | None, patches: Patches | None, seed: int
) -> KernelStack:
    if patches is None:
        start = start_lengthscales(data.X, "median", seed) if lengthscale is None else lengthscale
        return KernelStack(unit_kernels(count, data.input_dim, start))
    if lengthscale is None:
        few = data.X[
            np.random.default_rng(seed).choice(len(data.X), min(len(data.X), 50), replace=False)
        ]
        different = np.unique(patches.cut(few).reshape(-1, patches.length), axis=0)
        lengthscale = start_lengthscales(different, "median", seed)
    return PatchStack(patches.kernels(count, lengthscale, seed), table=data.X)


def _spread(data: MultiOutputData, kernels: KernelStack, seed: int) -> npt.NDArray[np.float64]:
    """How much each latent GP varies between images, as a standard deviation `[G]`.

    Most of the variance of a sum over patches is common to all images, which are mostly paper, and
    says nothing about their classes. Class functions that start with unit variance *between* images
    learn from the first step on.
    """
    few = np.random.default_rng(seed).choice(
        len(data.X), min(len(data.X), _IMAGES_FOR_SPREAD), replace=False
    )
    K = np.asarray(kernels.K(tf.constant(data.X[few], gpflow.default_float())))
    spread: npt.NDArray[np.float64] = np.sqrt(
        np.maximum(np.trace(K, axis1=1, axis2=2) / len(few) - K.mean((1, 2)), 0)
    )
    return np.where(spread > 0, spread, 1.0)


def _inducing(
    data: MultiOutputData,
    inducing: int | InducingPoints,
    sets: int | None,
    patches: Patches | None,
    seed: int,
) -> InducingPoints:
    if isinstance(inducing, InducingPoints):
        return inducing
    if patches is None:
        return kmeans_points(data, inducing, sets=sets, seed=seed)
    return patch_subset(data, patches, inducing, sets=sets, seed=seed)
