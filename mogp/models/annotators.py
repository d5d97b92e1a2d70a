"""Named models of targets told by several annotators: CGPMA and CCGPMA, for classes and for
values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.kernels import Kernel

from mogp.data import Array, MultiOutputData
from mogp.inducing import InducingPoints, kmeans_points
from mogp.kernels import unit_kernels
from mogp.likelihoods import AnnotatedClasses, AnnotatedValues, Annotators, check_targets
from mogp.models.annotator_start import first_functions, start_at
from mogp.models.choices import (
    KernelChoice,
    ScalingChoice,
    chosen_kernels,
    chosen_points,
    in_units,
)
from mogp.models.data_start import StartName, first_lengthscale
from mogp.models.sparse import SparseMOGP
from mogp.posteriors import Full
from mogp.priors import LMC, Independent, Marginals, Prior

_SPREAD = 0.1


class AnnotatedMOGP(SparseMOGP):
    """A model of what annotators told, which predicts the truth behind it and how far each of them
    can be trusted.

    Its data have one output with a column for each annotator
    (`MultiOutputData.from_list([(X, annotations)])`, NaN where an annotator said nothing).
    `predict_y`, `predict`, `predict_classes` are of the truth; `predict_log_density` is of what the
    data hold: annotations (a column for each annotator), or the truth (one column).

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import cgpma
    >>> told = np.array([[0, 0], [1, 0], [1, 1], [0, np.nan]])
    >>> model = cgpma(MultiOutputData.from_list([(np.arange(4.0), told)]), 2, inducing=2)
    >>> model.predict_y([0.5]).mean.shape.as_list(), model.reliability([0.5]).mean.shape.as_list()
    ([1, 2], [1, 2])
    """

    @property
    def annotators(self) -> Annotators:
        """The likelihood of the one output."""
        likelihood: Annotators = self.likelihood.likelihoods[0]
        return likelihood

    def predict_gold(self, Xnew: npt.ArrayLike) -> Marginals:
        """What is known of the truth at `Xnew [N, P]`.

        Class probabilities `[N, K]` and how sure they are (the variances of the probabilities,
        where `predict_y` has those of the labels); or the value and its variance, `[N, 1]`.
        """
        return Marginals(*self.annotators.gold(*self.predict_f(Xnew)))

    def reliability(self, Xnew: npt.ArrayLike) -> Marginals:
        """Mean and variance `[N, R]` of each annotator's reliability at `Xnew [N, P]`.

        For classes the probability of knowing the class rather than guessing; for values the noise
        variance.
        """
        return Marginals(*self.annotators.reliability(*self.predict_f(Xnew)))

    def predict_log_density(self, data: Any) -> dict[str, tf.Tensor]:
        """Log predictive density of annotations, or of the truth, `[N]`, by name of the output."""
        own = self.aligned(data).outputs[0]
        if own.Y.shape[1] == 1 < self.annotators.num_annotators:
            return {self.names[0]: self.gold_log_density(data)}
        return super().predict_log_density(data)

    def gold_log_density(self, data: MultiOutputData) -> tf.Tensor:
        """Log predictive density of true targets, one column, `[N]`."""
        own = data.outputs[0]
        if data.num_outputs != 1 or own.Y.shape[1] != 1:
            raise ValueError(
                f"the data have {data.num_outputs} outputs, the first with {own.Y.shape[1]}"
                " columns; the truth is one output with one column. For annotations use"
                " predict_log_density."
            )
        if isinstance(self.annotators, AnnotatedClasses):
            _check_labels(self.annotators.num_classes, own.Y, own.name)
        return self.annotators.gold_log_density(*self.predict_f(data.inputs(0)), tf.constant(own.Y))


def ccgpma(
    data: MultiOutputData,
    classes: int | None = None,
    *,
    latents: int | None = None,
    inducing: int | InducingPoints = 40,
    kernel: KernelChoice = None,
    whiten: bool = True,
    start: StartName = "data",
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> AnnotatedMOGP:
    """Correlated chained GPs for many annotators: CCGPMA-C with `classes`, CCGPMA-R without
    (Giraldo, paper L).

    prior       LMC over the functions of the truth and those of the annotators; by default as many
                latent GPs, and weights that start near the identity; one lengthscale a latent GP
    inducing    points, a set for each latent GP
    posterior   full, whitened
    likelihood  annotators whose reliability is a function of the input

    Args:
        data: one output with a column for each annotator, NaN where an annotator said nothing.
        classes: number of classes of the truth; None for values.
        latents: latent GPs `Q`; one for each function if None.
        inducing: inducing inputs of each latent GP (centres of clusters), or the inducing points.
        kernel: a GPflow kernel, of which every latent GP gets a copy, or a function that makes one;
            a squared exponential of unit variance if None.
        whiten: parametrise the posterior by whitened variables.
        start: "data" for lengthscales by which inducing inputs see each other and, for classes,
            functions that agree with what the annotators say together (`first_functions`); "plain"
            for a tenth of the diagonal of the inputs, and functions that are zero.
        scaling: as in `hetmogp_lmc`.
        seed: of the inducing inputs and mixing weights.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import ccgpma
    >>> X = np.linspace(0, 1, 6)[:, None]
    >>> told = np.array([[0, 0], [0, 1], [1, 1], [1, np.nan], [0, 0], [np.nan, 1]])
    >>> model = ccgpma(MultiOutputData.from_list([(X, told)]), classes=2, inducing=4)
    >>> model.predict_gold(X).mean.shape, model.reliability(X).mean.shape
    (TensorShape([6, 2]), TensorShape([6, 2]))
    """
    likelihood = _likelihood(data, classes)
    data = in_units(scaling, data, [likelihood])
    J = likelihood.latent_dim
    Q = J if latents is None else latents
    if Q < 1:
        raise ValueError(f"latents={latents}; at least one latent GP is needed.")
    W = None
    if Q == J:
        W = np.eye(J) + _SPREAD * np.random.default_rng(seed).standard_normal((J, J))
    points = _points(data, inducing, Q, seed)
    kernels = _kernels(data, kernel, Q, points, start)
    functions = _functions(data, likelihood, start)
    prior = LMC(kernels, functions=J, W=W, bias=_offsets(functions), seed=seed)
    return _annotated(data, likelihood, prior, points, whiten, functions)


def cgpma(
    data: MultiOutputData,
    classes: int | None = None,
    *,
    inducing: int | InducingPoints = 40,
    kernel: KernelChoice = None,
    whiten: bool = True,
    start: StartName = "data",
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> AnnotatedMOGP:
    """Chained GPs for many annotators, independent of each other: CGPMA-C with `classes`, CGPMA-R
    without.

    prior       independent, unit variance (the documents' LMC with identity weights); one
                lengthscale a function
    inducing    points, a set for each function
    posterior   full, whitened
    likelihood  annotators whose reliability is a function of the input

    Args:
        data, classes, whiten, start, scaling, seed: as in `ccgpma`.
        inducing: inducing inputs of each function (centres of clusters), or the inducing points.
        kernel: a GPflow kernel, of which every function gets a copy, or a function that makes one;
            a squared exponential of unit variance if None.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import cgpma
    >>> X = np.linspace(0, 1, 5)[:, None]
    >>> model = cgpma(MultiOutputData.from_list([(X, np.hstack([X, X + 0.1]))]), inducing=4)
    >>> model.predict_gold(X).mean.shape  # the value behind what two annotators told
    TensorShape([5, 1])
    """
    likelihood = _likelihood(data, classes)
    data = in_units(scaling, data, [likelihood])
    J = likelihood.latent_dim
    points = _points(data, inducing, J, seed)
    kernels = _kernels(data, kernel, J, points, start)
    functions = _functions(data, likelihood, start)
    prior = Independent(kernels, bias=_offsets(functions))
    return _annotated(data, likelihood, prior, points, whiten, functions)


def _annotated(
    data: MultiOutputData,
    likelihood: Annotators,
    prior: Prior,
    points: InducingPoints,
    whiten: bool,
    functions: Array | None,
) -> AnnotatedMOGP:
    model = AnnotatedMOGP(
        prior=prior,
        inducing=points,
        posterior=Full(whiten),
        likelihood=[likelihood],
        names=data.schema,
        scaling=data.scaled_by,
    )
    if functions is not None:
        start_at(model, data.inputs(0), functions)
    return model


def _functions(data: MultiOutputData, likelihood: Annotators, start: StartName) -> Array | None:
    return first_functions(data, likelihood) if start == "data" else None


def _offsets(functions: Array | None) -> Array | None:
    """The mean of each function over the rows where it is known, or zero."""
    if functions is None:
        return None
    known = ~np.isnan(functions)
    mean: Array = np.where(known, functions, 0).sum(0) / np.maximum(known.sum(0), 1)
    return mean


def _points(
    data: MultiOutputData, inducing: int | InducingPoints, sets: int, seed: int
) -> InducingPoints:
    def make(M: int) -> InducingPoints:
        return kmeans_points(data, M, sets=sets, seed=seed)

    return chosen_points(inducing, make, data.scaled_by)


def _kernels(
    data: MultiOutputData,
    kernel: KernelChoice,
    count: int,
    points: InducingPoints,
    start: StartName,
) -> Sequence[Kernel]:
    """Those that were chosen, or squared exponentials with one lengthscale each."""
    width = first_lengthscale(data.X, points, start)
    return chosen_kernels(
        kernel, count, lambda: unit_kernels(count, data.input_dim, width, ard=False)
    )


def _likelihood(data: MultiOutputData, classes: int | None) -> Annotators:
    if data.num_outputs != 1:
        raise ValueError(
            "annotations are one output with a column for each annotator, the data have"
            f" {data.num_outputs} outputs; build them with MultiOutputData.from_list([(X,"
            " annotations)])."
        )
    own = data.outputs[0]
    R = own.Y.shape[1]
    likelihood = AnnotatedValues(R) if classes is None else AnnotatedClasses(classes, R)
    check_targets(likelihood, own.Y, own.name)
    return likelihood


def _check_labels(classes: int, Y: npt.ArrayLike, name: str) -> None:
    check_targets(AnnotatedClasses(classes, 1), Y, name)
