"""Kernels and inducing variables of models of classes, for plain inputs and for images."""

from __future__ import annotations

from collections.abc import Sequence

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.kernels import Kernel
from gpflow.utilities import set_trainable

from mogp.data import MultiOutputData
from mogp.inducing import InducingPoints, kmeans_points, patch_subset
from mogp.kernels import KernelStack, Patches, PatchStack, unit_kernels
from mogp.models.choices import KernelChoice, chosen_kernels, chosen_points
from mogp.models.data_start import StartName, check_start_name
from mogp.models.lengthscales import start_lengthscales

_IMAGES_FOR_SPREAD = 16


def latent_kernels(
    data: MultiOutputData,
    kernel: KernelChoice,
    count: int,
    lengthscale: float | None,
    patches: Patches | None,
    seed: int,
    start: StartName = "plain",
) -> KernelStack:
    """Those that were chosen, or squared exponentials of unit variance; on patches, for images.

    Unless it was given, the lengthscale begins at the median distance between inputs, or at half of
    it with `start="data"`.
    """
    check_start_name(start)
    if count < 1:
        raise ValueError(f"latents={count}; at least one latent GP is needed.")
    if patches is None:

        def default() -> Sequence[Kernel]:
            width = lengthscale
            if width is None:
                apart = start_lengthscales(data.X, "median", seed)
                width = apart / 2 if start == "data" else apart
            return unit_kernels(count, data.input_dim, width)

        return KernelStack(chosen_kernels(kernel, count, default))
    if kernel is not None:
        made = patches.kernels(count, seed=seed)
        for one, base in zip(made, chosen_kernels(kernel, count, list), strict=True):
            one.base_kernel = base
        return PatchStack(made, table=data.X)
    if lengthscale is None:
        few = data.X[
            np.random.default_rng(seed).choice(len(data.X), min(len(data.X), 50), replace=False)
        ]
        different = np.unique(patches.cut(few).reshape(-1, patches.length), axis=0)
        lengthscale = start_lengthscales(different, "median", seed)
    return PatchStack(patches.kernels(count, lengthscale, seed), table=data.X)


def shared_kernel(
    data: MultiOutputData,
    kernel: KernelChoice,
    lengthscale: float | None,
    patches: Patches | None,
    seed: int,
    start: StartName = "plain",
) -> KernelStack:
    """One kernel for all classes; the variance of the default one is trained."""
    kernels = latent_kernels(data, kernel, 1, lengthscale, patches, seed, start)
    if kernel is None:
        (one,) = kernels.kernels
        variance = one.variance if patches is None else one.base_kernel.variance
        if patches is not None:
            variance.assign(spread_between_images(data, kernels, seed).item() ** -2)
        set_trainable(variance, True)
    return kernels


def spread_between_images(
    data: MultiOutputData, kernels: KernelStack, seed: int
) -> npt.NDArray[np.float64]:
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


def inducing_points(
    data: MultiOutputData,
    inducing: int | InducingPoints,
    sets: int | None,
    patches: Patches | None,
    seed: int,
) -> InducingPoints:
    """Those that were chosen, or centres of clusters; patches, for images."""

    def make(count: int) -> InducingPoints:
        if patches is None:
            return kmeans_points(data, count, sets=sets, seed=seed)
        return patch_subset(data, patches, count, sets=sets, seed=seed)

    return chosen_points(inducing, make, data.scaled_by)
