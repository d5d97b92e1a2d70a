"""What named models let a user choose: kernels of latent GPs or of the levels of a hierarchy,
inducing inputs, the posterior.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias, get_args

import gpflow
from gpflow.kernels import Kernel, Matern32
from gpflow.likelihoods import Likelihood

from mogp.data import Array, MultiOutputData, Scaling
from mogp.data.matrices import check_dense
from mogp.data.transforms import TransformName
from mogp.errors import UnsupportedError
from mogp.inducing import InducingPoints
from mogp.likelihoods import has_units
from mogp.models.lengthscales import start_lengthscales

KernelChoice: TypeAlias = Kernel | Callable[[], Kernel] | Sequence[Kernel] | None
"""A kernel, of which every latent GP gets a copy; a function that makes one; one for each; or
None."""

LevelKernels: TypeAlias = KernelChoice
"""A kernel, of which every level gets a copy; a kernel for each, the root first; a function that
makes one; or None."""
ScalingChoice: TypeAlias = Scaling | Literal["standard"] | Mapping[str, TransformName] | None
"""The units in which a model computes: scaled to order one (after transforms of targets, by name of
the output), or those of the data."""
PosteriorName = Literal["full", "parsimonious"]
"""A full covariance for each latent GP, or `mogp.posteriors.Parsimonious`."""


def chosen_kernels(
    kernel: KernelChoice, count: int, default: Callable[[], Sequence[Kernel]]
) -> Sequence[Kernel]:
    """`count` kernels with parameters of their own.

    Args:
        kernel: what the user chose.
        count: how many are needed.
        default: makes them where the user chose nothing.

    >>> from gpflow.kernels import Matern32
    >>> first, second = chosen_kernels(Matern32(lengthscales=0.2), 2, list)
    >>> first.lengthscales is second.lengthscales, float(second.lengthscales)
    (False, 0.2)
    """
    if kernel is None:
        return default()
    if isinstance(kernel, Kernel):
        return [gpflow.utilities.deepcopy(kernel) for _ in range(count)]
    if isinstance(kernel, Sequence) and all(isinstance(one, Kernel) for one in kernel):
        if len(kernel) != count:
            raise ValueError(
                f"{len(kernel)} kernels for {count} latent GPs; give one for each, or a single one."
            )
        return [gpflow.utilities.deepcopy(one) for one in kernel]
    if not callable(kernel):
        raise TypeError(
            f"kernel is a {type(kernel).__name__}; expected a GPflow kernel, such as"
            " gpflow.kernels.Matern32(), or a function that makes one."
        )
    made = [kernel() for _ in range(count)]
    wrong = [one for one in made if not isinstance(one, Kernel)]
    if wrong:
        raise TypeError(
            f"the function given as kernel makes a {type(wrong[0]).__name__}; expected a GPflow"
            " kernel."
        )
    return made


def chosen_levels(kernel: LevelKernels, levels: int, X: Array) -> list[Kernel]:
    """Kernels of the levels of a hierarchy, from the root to the replicas, with parameters of their
    own.

    Args:
        kernel: what the user chose. A sequence is taken at its length. None for Matérn-3/2 kernels,
            each with an equal share of a variance of 1 and a quarter of the range of the inputs as
            lengthscale.
        levels: how many are needed.
        X: `[N, P]` inputs.

    >>>     >>> root, leaf = chosen_levels(None, 2, np.array([[0.0], [8.0]]))
    >>> float(root.variance.numpy()), float(leaf.lengthscales.numpy())
    (0.5, 2.0)
    """

    def default() -> list[Kernel]:
        length = start_lengthscales(X, "range")
        return [Matern32(variance=1.0 / levels, lengthscales=length) for _ in range(levels)]

    if not isinstance(kernel, Sequence):
        return list(chosen_kernels(kernel, levels, default))
    wrong = [one for one in kernel if not isinstance(one, Kernel)]
    if wrong or not kernel:
        raise TypeError(
            f"kernel is a sequence {f'with a {type(wrong[0]).__name__}' if wrong else 'of none'};"
            " expected a GPflow kernel for each level of the hierarchy, the root first."
        )
    return [gpflow.utilities.deepcopy(one) for one in kernel]


def chosen_points(
    inducing: int | InducingPoints,
    default: Callable[[int], InducingPoints],
    scaling: Scaling | None = None,
) -> InducingPoints:
    """The inducing points that were given, or `default(number)`.

    Args:
        inducing: points in the units of the data, or how many.
        default: makes them, in the units of the model.
        scaling: the units of the model.

    >>> from mogp.inducing import given_points
    >>> chosen_points(3, lambda number: given_points([[0.0]] * number)).num_inducing
    3
    """
    if isinstance(inducing, InducingPoints):
        return inducing if scaling is None else inducing.moved(scaling.inputs)
    if isinstance(inducing, bool) or not isinstance(inducing, int):
        raise TypeError(
            f"inducing is a {type(inducing).__name__}; expected how many inducing inputs each set"
            " has, or the points: mogp.inducing.given_points(Z)."
        )
    return default(inducing)


def check_posterior(posterior: str) -> None:
    """Raise unless it is the name of a posterior.

    >>> check_posterior("full")
    """
    if posterior not in get_args(PosteriorName):
        raise ValueError(f"posterior={posterior!r}; choose 'full' or 'parsimonious'.")


def in_units(
    scaling: ScalingChoice,
    data: MultiOutputData,
    likelihoods: Sequence[Likelihood] = (),
    inputs: bool = True,
    transforms: bool = True,
    sparse: bool = False,
) -> MultiOutputData:
    """The data in the units in which a model computes, which are their `scaled_by`.

    Args:
        scaling: what the user chose: "standard" for means of 0 and standard deviations of 1; the
            same after transforms of targets, as `{"rain": "log"}`; None for the units of the data.
        data: to train on, in their own units.
        likelihoods: of the outputs; targets are scaled where these allow it. None are, if it is
            empty.
        inputs: whether input columns may be scaled.
        transforms: whether predictions of targets are Gaussian, so that targets may be transformed.
        sparse: whether the model reads sparse inputs; if not, they are refused.

    >>> from mogp.likelihoods import Gaussian
    >>> data = MultiOutputData.from_arrays([0.0, 2.0], [5.0, 7.0])
    >>> in_units("standard", data, [Gaussian()]).outputs[0].Y[:, 0].tolist()
    [-1.0, 1.0]
    """
    if not sparse:
        check_dense(data.X)
    named = scaling if isinstance(scaling, Mapping) else {}
    if named:
        _check_transforms(named, data, likelihoods if transforms else ())
    if named or (isinstance(scaling, str) and scaling == "standard"):
        real = [has_units(one) for one in likelihoods] or False
        scaling = Scaling.of(data, real, inputs, named)
    if scaling is not None and not isinstance(scaling, Scaling):
        raise ValueError(
            f"scaling={scaling!r}; choose 'standard', {{'rain': 'log'}} to transform targets, None"
            " for the units of the data, or a mogp.data.Scaling."
        )
    return data if scaling is None else scaling.data(data)


def _check_transforms(
    named: Mapping[str, str], data: MultiOutputData, likelihoods: Sequence[Likelihood]
) -> None:
    """Raise unless predictions of these outputs are Gaussian: what a transform makes of their
    moments is then known.
    """
    for output in named:
        d = data.index(output)
        if not likelihoods or not isinstance(likelihoods[d], gpflow.likelihoods.Gaussian):
            kind = type(likelihoods[d]).__name__ if likelihoods else "of this model"
            raise UnsupportedError(
                f"targets of {output!r} cannot be transformed inside: predictions"
                f" ({kind}) are not Gaussian. Transform the column before you give it to the model."
            )
