"""What named models let a user choose: kernels of latent GPs, inducing inputs, the posterior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, get_args

import gpflow
from gpflow.kernels import Kernel

from mogp.inducing import InducingPoints

KernelChoice: TypeAlias = Kernel | Callable[[], Kernel] | None
"""A kernel, of which every latent GP gets a copy; a function that makes one; or None."""
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


def chosen_points(
    inducing: int | InducingPoints, default: Callable[[int], InducingPoints]
) -> InducingPoints:
    """The inducing points that were given, or `default(number)`.

    >>> from mogp.inducing import given_points
    >>> chosen_points(3, lambda number: given_points([[0.0]] * number)).num_inducing
    3
    """
    if isinstance(inducing, InducingPoints):
        return inducing
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
