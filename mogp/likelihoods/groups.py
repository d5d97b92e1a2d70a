"""Outputs whose likelihoods are alike, evaluated together: one pass for forty outputs."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any, NamedTuple

import gpflow
import numpy as np
import tensorflow as tf
from gpflow.likelihoods import Likelihood, ScalarLikelihood
from gpflow.quadrature import GaussianQuadrature

from mogp.data.drawn import each_row
from mogp.kernels.stack import stacked
from mogp.likelihoods.base import DistributionLikelihood, ReadsFunctions
from mogp.modules import own_parameters, with_tensors


class Group(NamedTuple):
    """Outputs that one call serves.

    Attributes:
        outputs: their positions.
        members: the likelihood of each.
    """

    outputs: tuple[int, ...]
    members: tuple[Likelihood, ...]

    def likelihood(self, sizes: Sequence[tf.Tensor]) -> Any:
        """A likelihood for the outputs' rows one after the other, `sizes` of them each.

        Scalar parameters of different members (noise variances, say) are repeated row by row.
        """
        first = self.members[0]
        if all(member is first for member in self.members):
            return first
        if hasattr(first, "merged"):
            return first.merged(self.members, sizes)
        # The formulas of the class read tensors `[N, 1]` as they would read a scalar.
        by_row = {
            f".{name}": each_row(
                stacked([getattr(member, name) for member in self.members]), sizes
            )[:, None]
            for name in sorted(own_parameters(first))
        }
        return with_tensors(first, by_row)

    @property
    def reads_functions(self) -> bool:
        """Whether the likelihood asks for functions, rather than being handed marginals."""
        return isinstance(self.members[0], ReadsFunctions)

    @property
    def reads_inputs(self) -> bool:
        """Whether the likelihood may depend on the inputs; it is then grouped with itself only."""
        return _alike(self.members[0]) is None


def groups(likelihoods: Sequence[Likelihood]) -> tuple[Group, ...]:
    """The outputs, grouped by what their likelihoods have in common."""
    found: dict[Any, list[int]] = {}
    for d, likelihood in enumerate(likelihoods):
        key = _alike(likelihood)
        found.setdefault(id(likelihood) if key is None else key, []).append(d)
    return tuple(Group(tuple(ds), tuple(likelihoods[d] for d in ds)) for ds in found.values())


def _alike(likelihood: Likelihood) -> Any:
    """Equal for likelihoods that one call can serve; None for one that only goes with itself."""
    if hasattr(likelihood, "alike"):
        return None if likelihood.alike is None else (type(likelihood), likelihood.alike)
    if isinstance(likelihood, DistributionLikelihood) and not likelihood.parameters:
        return type(likelihood), likelihood.quadrature.n_gh
    if not isinstance(likelihood, ScalarLikelihood):
        return None
    settings = [
        (name, _setting(value))
        for name, value in sorted(vars(likelihood).items())
        if name[0] != "_"
    ]
    return (
        None if any(value is None for _, value in settings) else (type(likelihood), tuple(settings))
    )


def _setting(value: Any) -> Any:
    """What of an attribute two likelihoods must have in common; None if there is no telling.

    Scalar parameters may differ: `Group.likelihood` repeats them row by row.
    """
    if isinstance(value, gpflow.Parameter):
        return "parameter" if value.shape.rank == 0 else None
    if isinstance(value, GaussianQuadrature):
        return type(value), value.n_gh
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if isinstance(value, int | float | str | FunctionType):
        return value
    return "none" if value is None else None
