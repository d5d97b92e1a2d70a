"""Named models of class labels: MOGPs-AR, MOCGPs-AR, MG-M, and the single-output G-A and G-M (Ma,
chapters 3 and 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from mogp.data import MultiOutputData
from mogp.inducing import InducingPoints
from mogp.kernels import KernelStack, Patches
from mogp.likelihoods import AugmentReduce, PerOutput, Softmax
from mogp.likelihoods.augment import Theta
from mogp.likelihoods.multiclass import Covariance
from mogp.models.choices import KernelChoice, ScalingChoice, in_units
from mogp.models.class_parts import (
    inducing_points,
    latent_kernels,
    shared_kernel,
    spread_between_images,
)
from mogp.models.data_start import StartName
from mogp.models.sparse import SparseMOGP
from mogp.posteriors import Full
from mogp.priors import LMC, Independent

Classes = Sequence[int] | Mapping[str, int] | None
NEGATIVES = 50
"""Wrong classes a row and step unless the caller says otherwise."""
LATENTS = 20
"""Latent GPs at most, unless the caller says otherwise."""
SURE = 3.0
"""Standard deviation with which class functions start: probabilities near 0 and 1 are likely."""


def mogps_ar(
    data: MultiOutputData,
    classes: Classes = None,
    *,
    latents: int | None = None,
    inducing: int | InducingPoints = 100,
    shared: bool = False,
    negatives: int | None = NEGATIVES,
    covariance: Covariance = "exact",
    theta: Theta = "collapsed",
    kernel: KernelChoice = None,
    lengthscale: float | None = None,
    W: npt.ArrayLike | None = None,
    patches: Patches | None = None,
    whiten: bool = True,
    start: StartName = "data",
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> SparseMOGP:
    """Outputs with many classes, by augment and reduce (Ma, chapter 3).

    prior       LMC over all class functions: one row of W for each (output, class)
    inducing    points, a set for each latent GP (patches of images with `patches`)
    posterior   full, whitened
    likelihood  softmax by augment and reduce, `negatives` sampled wrong classes a row

    Args:
        data: labels 0, 1, … of each output; inputs may be sparse.
        classes: number of classes of each output; the largest label and one if None.
        latents: latent GPs `Q`; if None, one for each class function, 20 at most.
        inducing: points a latent GP (k-means centres; random patches), or the inducing variables
            themselves.
        shared: one set of inducing points for all latent GPs, not one for each: fewer parameters,
            and steps with kernels of one lengthscale find distances once for all latent GPs.
        negatives: sampled wrong classes a row and step; all if None, or if there are no more. The
            fewer, the further the collapsed bound is too large on average, and the surer of itself
            the model gets; the thesis takes 1 to 5.
        covariance, theta: see `AugmentReduce`.
        kernel: a GPflow kernel, of which every latent GP gets a copy, or a function that makes one;
            a squared exponential of unit variance if None. For images it is that of patches, and
            must be isotropic and stationary.
        lengthscale: start value of the default kernel; see `start` if None.
        W: `[C, Q]` start values of the mixing weights; if None, random directions of a length that
            gives every function a standard deviation: see `start` (for images: 1 between images).
        patches: for images, how they are cut; None for plain inputs.
        whiten: parametrise the posterior by whitened variables.
        start: where lengthscales and weights begin that nobody gave: at half the median distance
            between inputs and a standard deviation of 3 ("data"), or at that distance and 1
            ("plain", and for patches).
        scaling: "standard" to compute with input columns of mean 0 and standard deviation 1, which
            is what kernels are of; None for the units of the data. Images are left alone.
        seed: of all start values and of the sampled classes.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import mogps_ar
    >>> labels = np.stack([np.arange(8) % 4, np.arange(8) % 2], axis=1)
    >>> data = MultiOutputData.from_arrays(np.linspace(0, 1, 8), labels, names=["room", "floor"])
    >>> model = mogps_ar(data, latents=3, inducing=4, negatives=1)
    >>> model.prior.W.shape  # six classes, three latent GPs
    TensorShape([6, 3])
    """
    data = in_units(scaling, data, inputs=patches is None, sparse=patches is None)
    counts = _classes(data, classes)
    likelihoods = {
        name: AugmentReduce(
            C,
            negatives,
            covariance=covariance,
            theta=theta,
            rows=data.X.shape[0] if theta == "local" else None,
            seed=seed + d,
        )
        for d, (name, C) in enumerate(counts.items())
    }
    Q = _latents(latents, sum(counts.values()))
    kernels = latent_kernels(data, kernel, Q, lengthscale, patches, seed, start)
    return _mixed(data, likelihoods, kernels, inducing, shared, W, patches, whiten, seed, start)


def mocgps_ar(
    data: MultiOutputData,
    classes: Classes = None,
    *,
    patches: Patches,
    latents: int = 10,
    inducing: int | InducingPoints = 100,
    shared: bool = False,
    negatives: int | None = NEGATIVES,
    covariance: Covariance = "exact",
    theta: Theta = "collapsed",
    kernel: KernelChoice = None,
    lengthscale: float | None = None,
    W: npt.ArrayLike | None = None,
    whiten: bool = True,
    seed: int = 0,
) -> SparseMOGP:
    """Images with many classes: MOGPs-AR with latent GPs that are weighted sums over patches (Ma,
    chapter 4).

    prior       LMC over all class functions, weighted-patch kernels
    inducing    patches, a set for each latent GP
    posterior   full, whitened
    likelihood  softmax by augment and reduce

    Args:
        data: images, a row of pixels each, and labels 0, 1, … of each output.
        patches: how images are cut.
        inducing: inducing patches of each latent GP (drawn from the images), or the patches.
        shared: one set of inducing patches for all latent GPs, not one for each as in the thesis; a
            step takes about half the time.
        classes, latents, negatives, covariance, theta, kernel, lengthscale, W, whiten, seed: as in
            `mogps_ar`.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.kernels import Patches
    >>> from mogp.models import mocgps_ar
    >>> images = np.random.default_rng(0).random((6, 16))
    >>> data = MultiOutputData.from_arrays(images, np.arange(6) % 3)
    >>> model = mocgps_ar(data, patches=Patches((4, 4), (2, 2)), latents=2, inducing=5)
    >>> model.inducing.Z.shape  # five patches of four pixels for each of two latent GPs
    TensorShape([2, 5, 4])
    """
    return mogps_ar(
        data,
        classes,
        latents=latents,
        inducing=inducing,
        shared=shared,
        negatives=negatives,
        covariance=covariance,
        theta=theta,
        kernel=kernel,
        lengthscale=lengthscale,
        W=W,
        patches=patches,
        whiten=whiten,
        seed=seed,
    )


def mg_m(
    data: MultiOutputData,
    classes: Classes = None,
    *,
    latents: int | None = None,
    inducing: int | InducingPoints = 100,
    shared: bool = False,
    samples: int = 20,
    covariance: Covariance = "exact",
    kernel: KernelChoice = None,
    lengthscale: float | None = None,
    W: npt.ArrayLike | None = None,
    patches: Patches | None = None,
    whiten: bool = True,
    start: StartName = "data",
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> SparseMOGP:
    """As MOGPs-AR with the softmax over all classes by Monte Carlo (Moreno-Muñoz et al. 2018).

    prior       LMC over all class functions
    inducing    points, a set for each latent GP
    posterior   full, whitened
    likelihood  softmax, `samples` draws a row and step

    Args:
        samples: draws of the functions for each row and step.
        covariance: see `Softmax`.
        data, classes, latents, inducing, shared, kernel, lengthscale, W: as in `mogps_ar`.
        patches, whiten, start, scaling, seed: as in `mogps_ar`.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import mg_m
    >>> data = MultiOutputData.from_arrays(np.linspace(0, 1, 8), np.arange(8) % 4)
    >>> mg_m(data, latents=3, inducing=4).prior.W.shape  # four classes, three latent GPs
    TensorShape([4, 3])
    """
    data = in_units(scaling, data, inputs=patches is None, sparse=patches is None)
    counts = _classes(data, classes)
    likelihoods = {
        name: Softmax(C, samples, covariance=covariance, seed=seed + d)
        for d, (name, C) in enumerate(counts.items())
    }
    Q = _latents(latents, sum(counts.values()))
    kernels = latent_kernels(data, kernel, Q, lengthscale, patches, seed, start)
    return _mixed(data, likelihoods, kernels, inducing, shared, W, patches, whiten, seed, start)


def g_a(
    data: MultiOutputData,
    classes: Classes = None,
    *,
    inducing: int | InducingPoints = 100,
    negatives: int | None = None,
    kl_weight: float = 1.0,
    kernel: KernelChoice = None,
    lengthscale: float | None = None,
    patches: Patches | None = None,
    whiten: bool = True,
    start: StartName = "data",
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> SparseMOGP:
    """One output, an independent GP for each class, Gumbel-augmented softmax (Liu et al. 2019).

    prior       independent, one kernel shared by the classes
    inducing    points, shared by the classes
    posterior   full, whitened
    likelihood  softmax by augment and reduce, over all classes by default

    `kl_weight=len(data.X) / batch_size` gives the baseline as published, whose data term is not
    scaled up to the data.

    Args:
        data: labels 0, 1, … of one output; inputs may be sparse.
        inducing: points that all classes share, or the inducing variables themselves.
        negatives: sampled wrong classes a row and step; all if None.
        kl_weight: of the divergence in the bound.
        kernel: a GPflow kernel, of which one copy serves all classes, or a function that makes one;
            a squared exponential if None. For images it is that of patches.
        classes, lengthscale, patches, whiten, start, scaling, seed: as in `mogps_ar`.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import g_a
    >>> data = MultiOutputData.from_arrays(np.linspace(0, 1, 8), np.arange(8) % 4)
    >>> model = g_a(data, inducing=4)
    >>> model.prior.num_functions, len(model.prior.kernels)
    (4, 1)
    """
    data = in_units(scaling, data, inputs=patches is None, sparse=patches is None)
    ((name, C),) = _one_output(data, classes).items()
    likelihood = {name: AugmentReduce(C, negatives, seed=seed)}
    kernels = shared_kernel(data, kernel, lengthscale, patches, seed, start)
    return _independent(data, likelihood, kernels, inducing, kl_weight, patches, whiten, seed)


def g_m(
    data: MultiOutputData,
    classes: Classes = None,
    *,
    inducing: int | InducingPoints = 100,
    samples: int = 20,
    kl_weight: float = 1.0,
    kernel: KernelChoice = None,
    lengthscale: float | None = None,
    patches: Patches | None = None,
    whiten: bool = True,
    start: StartName = "data",
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> SparseMOGP:
    """One output, an independent GP for each class, softmax by Monte Carlo.

    prior       independent, one kernel shared by the classes
    inducing    points, shared by the classes
    posterior   full, whitened
    likelihood  softmax, `samples` draws a row and step

    `kl_weight=len(data.X) / batch_size` gives the baseline as published, whose data term is not
    scaled up to the data.

    Args:
        data: labels 0, 1, … of one output; inputs may be sparse.
        inducing: points that all classes share, or the inducing variables themselves.
        samples: draws of the functions for each row and step.
        kl_weight: of the divergence in the bound.
        kernel: a GPflow kernel, of which one copy serves all classes, or a function that makes one;
            a squared exponential if None. For images it is that of patches.
        classes, lengthscale, patches, whiten, start, scaling, seed: as in `mogps_ar`.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import g_m
    >>> data = MultiOutputData.from_arrays(np.linspace(0, 1, 8), np.arange(8) % 4)
    >>> model = g_m(data, inducing=4)
    >>> model.prior.num_functions, len(model.prior.kernels)
    (4, 1)
    """
    data = in_units(scaling, data, inputs=patches is None, sparse=patches is None)
    ((name, C),) = _one_output(data, classes).items()
    likelihood = {name: Softmax(C, samples, seed=seed)}
    kernels = shared_kernel(data, kernel, lengthscale, patches, seed, start)
    return _independent(data, likelihood, kernels, inducing, kl_weight, patches, whiten, seed)


def _mixed(
    data: MultiOutputData,
    likelihoods: Mapping[str, Softmax],
    kernels: KernelStack,
    inducing: int | InducingPoints,
    shared: bool,
    W: npt.ArrayLike | None,
    patches: Patches | None,
    whiten: bool,
    seed: int,
    start: StartName,
) -> SparseMOGP:
    outputs = PerOutput(likelihoods)
    outputs.check(data)
    prior = LMC(kernels, functions=outputs.num_functions, W=W, seed=seed)
    mixing = prior.W
    if W is None and mixing is not None:
        if patches is not None:
            mixing.assign(mixing.numpy() / spread_between_images(data, kernels, seed))
        elif start == "data":
            mixing.assign(SURE * mixing.numpy())
    return SparseMOGP(
        prior=prior,
        inducing=inducing_points(data, inducing, None if shared else len(kernels), patches, seed),
        posterior=Full(whiten),
        likelihood=outputs,
        names=data.schema,
        scaling=data.scaled_by,
    )


def _independent(
    data: MultiOutputData,
    likelihood: Mapping[str, Softmax],
    kernels: KernelStack,
    inducing: int | InducingPoints,
    kl_weight: float,
    patches: Patches | None,
    whiten: bool,
    seed: int,
) -> SparseMOGP:
    outputs = PerOutput(likelihood)
    outputs.check(data)
    return SparseMOGP(
        prior=Independent(kernels, functions=outputs.num_functions),
        inducing=inducing_points(data, inducing, None, patches, seed),
        posterior=Full(whiten),
        likelihood=outputs,
        names=data.schema,
        scaling=data.scaled_by,
        kl_weight=kl_weight,
    )


def _latents(latents: int | None, functions: int) -> int:
    """The number asked for, or one for each function, 20 at most."""
    return min(functions, LATENTS) if latents is None else latents


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
