"""Named models of one output with many classes: one-vs-each, its linear baseline, and robust-max
(Panos, chapter 3).
"""

from __future__ import annotations

import warnings

import numpy as np
from gpflow.kernels import Kernel, SquaredExponential

from mogp.data import Array, MultiOutputData
from mogp.data.class_batches import class_labels
from mogp.inducing import InducingPoints, distinct_points, kmeans_points
from mogp.kernels import KernelRows
from mogp.likelihoods import OneVsEach, RobustMax
from mogp.models.choices import (
    KernelChoice,
    PosteriorName,
    ScalingChoice,
    check_posterior,
    chosen_kernels,
    chosen_points,
    in_units,
)
from mogp.models.lengthscales import start_lengthscales
from mogp.models.one_vs_each import LinearOneVsEach, OneVsEachMOGP
from mogp.models.sparse import SparseMOGP
from mogp.posteriors import Full, Parsimonious, Posterior, start_like_parsimonious
from mogp.priors import Independent


def ovse(
    data: MultiOutputData,
    classes: int | None = None,
    *,
    shared: bool = False,
    posterior: PosteriorName = "full",
    inducing: int | InducingPoints = 100,
    kernel: KernelChoice = None,
    shared_kernel: bool = True,
    lengthscale: float | None = None,
    variance: float = 1.0,
    rivals: int = 1,
    whiten: bool = True,
    sigma: float = 1.0,
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> OneVsEachMOGP:
    r"""One output with many classes, by one-vs-each (Panos, chapter 3).

    prior       independent, a bias for each class; one kernel for all classes, or one for each
    inducing    points, a set for each class, or one set for all
    posterior   full or parsimonious
    likelihood  one-vs-each

    Train it with `fit(model, data, optimizer=Adam(lazy=True), batch_size=...)`.

    Args:
        data: labels 0, 1, … of one output; every class has rows.
        classes: number of classes; the largest label and one if None.
        shared: one set of inducing inputs for all classes, not one for each.
        posterior: "full", or "parsimonious" with $2M$ numbers for each class.
        inducing: points a set (k-means centres; of the rows of a class for sets of its own), or the
            points themselves.
        kernel: a GPflow kernel of the class functions, or a function that makes one; a squared
            exponential with one lengthscale if None.
        shared_kernel: one kernel, a copy of `kernel`, for all classes; if False each class gets a
            copy, and the kernel must be isotropic and stationary.
        lengthscale: start value of the default kernel; the median distance between inputs if None.
        variance: start value of the default kernel's variance.
        rivals: classes with which a step compares the one it reads.
        whiten: parametrise full posteriors by whitened variables (the thesis does not).
        sigma: start value of the parsimonious $\Sigma = \sigma I$. Full posteriors start with the
            same moments.
        scaling: "standard" to compute with input columns of mean 0 and standard deviation 1, which
            is what kernels are of; None for the units of the data.
        seed: of the start values.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import ovse
    >>> X = np.random.default_rng(0).normal(size=(12, 2))
    >>> data = MultiOutputData.from_arrays(X, np.arange(12) % 4)
    >>> ovse(data, inducing=2).inducing.Z.shape  # a set for each class
    TensorShape([4, 2, 2])
    >>> ovse(data, shared=True, posterior="parsimonious", inducing=5).inducing.Z.shape
    TensorShape([5, 2])
    """
    check_posterior(posterior)
    data = in_units(scaling, data, sparse=True)
    labels = class_labels(data, classes)
    C = int(labels.max()) + 1 if classes is None else classes
    own = _kernel(data, kernel, lengthscale, variance, seed)
    if not shared_kernel:
        prior = Independent(KernelRows(own, C), bias=0.0)
    elif shared:
        prior = Independent(own, functions=C, bias=0.0)
    else:
        prior = Independent([own] * C, bias=0.0)
    model = OneVsEachMOGP(
        prior=prior,
        inducing=chosen_points(
            inducing,
            lambda M: (
                kmeans_points(data, M, seed=seed) if shared else class_points(data, labels, M, seed)
            ),
            data.scaled_by,
        ),
        likelihood=OneVsEach(C, seed=seed),
        posterior=_posterior(posterior, whiten, sigma),
        rivals=rivals,
        names=data.schema,
        scaling=data.scaled_by,
    )
    _match_start(model, sigma)
    return model


def robust_max(
    data: MultiOutputData,
    classes: int | None = None,
    *,
    posterior: PosteriorName = "full",
    inducing: int | InducingPoints = 100,
    kernel: KernelChoice = None,
    lengthscale: float | None = None,
    variance: float = 1.0,
    epsilon: float = 1e-3,
    whiten: bool = True,
    sigma: float = 1.0,
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> SparseMOGP:
    """One output with classes of which the largest function names the label (Panos, chapter 3).

    prior       independent, a bias for each class, one kernel for all
    inducing    points, one set for all classes
    posterior   full or parsimonious
    likelihood  robust-max

    A step reads all classes.

    Args:
        data, classes, posterior, lengthscale, variance, whiten, sigma, scaling, seed: as in
            `ovse`.
        inducing: points that all classes share (k-means centres), or the points themselves.
        kernel: a GPflow kernel, of which one copy serves all classes, or a function that makes one;
            a squared exponential with one lengthscale if None.
        epsilon: probability of a label that the largest function does not name.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import robust_max
    >>> X = np.random.default_rng(0).normal(size=(12, 2))
    >>> model = robust_max(MultiOutputData.from_arrays(X, np.arange(12) % 4), inducing=5)
    >>> model.prior.num_functions, model.inducing.Z.shape
    (4, TensorShape([5, 2]))
    """
    check_posterior(posterior)
    data = in_units(scaling, data, sparse=True)
    labels = class_labels(data, classes)
    C = int(labels.max()) + 1 if classes is None else classes
    own = _kernel(data, kernel, lengthscale, variance, seed)
    model = SparseMOGP(
        prior=Independent(own, functions=C, bias=0.0),
        inducing=chosen_points(
            inducing, lambda M: kmeans_points(data, M, seed=seed), data.scaled_by
        ),
        likelihood=[RobustMax(C, epsilon, nodes=10)],
        names=data.schema,
        scaling=data.scaled_by,
        posterior=_posterior(posterior, whiten, sigma),
    )
    _match_start(model, sigma)
    return model


def ovse_linear(
    data: MultiOutputData,
    classes: int | None = None,
    *,
    penalty: float = 1.0,
    rivals: int = 1,
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> LinearOneVsEach:
    """Linear scores trained with the one-vs-each bound, the baseline of `ovse` (OvsE-LIN).

    Args:
        data: labels 0, 1, … of one output; every class has rows.
        classes: number of classes; the largest label and one if None.
        penalty: on the squared weights.
        rivals: classes with which a step compares the one it reads.
        scaling: as in `ovse`.
        seed: as all constructors have it; weights and biases start at zero, nothing is drawn.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import ovse_linear
    >>> data = MultiOutputData.from_arrays(np.arange(6.0), np.arange(6) % 3)
    >>> ovse_linear(data).weights.shape
    TensorShape([3, 1])
    """
    data = in_units(scaling, data, sparse=True)
    labels = class_labels(data, classes)
    C = int(labels.max()) + 1 if classes is None else classes
    return LinearOneVsEach(C, data.input_dim, penalty, rivals, data.schema, data.scaled_by)


def class_points(data: MultiOutputData, labels: Array, count: int, seed: int = 0) -> InducingPoints:
    """For each class the centres of `count` clusters of its own inputs, `[C, M, P]`.

    A class with fewer distinct inputs than that sets the number for all.
    """
    X = data.inputs(0)
    own = [distinct_points(X[labels == k]) for k in range(int(labels.max()) + 1)]
    fewest = min(rows.shape[0] for rows in own)
    if count > fewest:
        warnings.warn(
            f"{count} inducing points a class were asked for, a class has {fewest} distinct inputs:"
            f" using {fewest}.",
            stacklevel=3,
        )
    sets = [kmeans_points(rows, min(count, fewest), seed=seed).Z.numpy() for rows in own]
    return InducingPoints(np.stack(sets))


def _kernel(
    data: MultiOutputData,
    kernel: KernelChoice,
    lengthscale: float | None,
    variance: float,
    seed: int,
) -> Kernel:
    """The one that was chosen, or a squared exponential."""

    def default() -> list[Kernel]:
        start = start_lengthscales(data.X, "median", seed) if lengthscale is None else lengthscale
        return [SquaredExponential(variance=variance, lengthscales=start)]

    return chosen_kernels(kernel, 1, default)[0]


def _posterior(posterior: PosteriorName, whiten: bool, sigma: float) -> Posterior:
    return Parsimonious(sigma) if posterior == "parsimonious" else Full(whiten)


def _match_start(model: SparseMOGP, sigma: float) -> None:
    if isinstance(model.posterior, Full):
        start_like_parsimonious(model.posterior, model.inducing.Kuu(model.prior.kernels), sigma)
