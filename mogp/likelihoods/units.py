"""Which likelihoods have targets with units, and what these units make of their functions."""

from __future__ import annotations

import gpflow
import numpy as np
import numpy.typing as npt
from gpflow.likelihoods import Likelihood

from mogp.likelihoods.annotated_values import AnnotatedValues
from mogp.likelihoods.continuous import HeteroscedasticGaussian

Array = npt.NDArray[np.float64]

__all__ = ["function_units", "has_units"]


def has_units(likelihood: Likelihood) -> bool:
    """Whether targets can be moved and stretched: real values, not counts, shares or classes.

    Args:
        likelihood: of one output.

    >>> from mogp.likelihoods import Gaussian, Poisson
    >>> has_units(Gaussian()), has_units(Poisson())
    (True, False)
    """
    return _one_function(likelihood) or _with_variances(likelihood)


def function_units(
    likelihood: Likelihood, functions: int, location: float, scale: float
) -> tuple[Array, Array]:
    r"""What functions of scaled targets are moved by and multiplied by, each `[functions]`.

    For $y = m + s\tilde y$ a mean is $f = m + s\tilde f$, a log variance $f = \tilde f + 2\log s$.

    Args:
        likelihood: of the output.
        functions: that it reads.
        location: $m$.
        scale: $s$.

    >>> from mogp.likelihoods import HeteroscedasticGaussian
    >>> moved, multiplied = function_units(HeteroscedasticGaussian(), 2, 5.0, 1.0)
    >>> moved.tolist(), multiplied.tolist()
    ([5.0, 0.0], [1.0, 1.0])
    """
    moved, multiplied = np.zeros(functions), np.ones(functions)
    if has_units(likelihood):
        moved[0], multiplied[0] = location, scale
        moved[1:] = 2 * np.log(scale)
    return moved, multiplied


def _one_function(likelihood: Likelihood) -> bool:
    """A mean, with a spread that is a parameter and not a function of inputs."""
    constant = isinstance(likelihood, gpflow.likelihoods.Gaussian) and not callable(
        likelihood.variance if likelihood.scale is None else likelihood.scale
    )
    return constant or isinstance(likelihood, gpflow.likelihoods.StudentT)


def _with_variances(likelihood: Likelihood) -> bool:
    """A mean, and log variances."""
    return isinstance(likelihood, HeteroscedasticGaussian | AnnotatedValues)
