"""A likelihood for each output, and which latent functions belong to which output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Protocol

import gpflow
import numpy as np
from gpflow.likelihoods import Likelihood
from numpy.typing import ArrayLike, NDArray

from mogp.likelihoods.targets import check_targets
from mogp.likelihoods.units import function_units

__all__ = ["PerOutput"]

Array = NDArray[np.float64]


class _Output(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def Y(self) -> ArrayLike: ...


class _Data(Protocol):
    @property
    def outputs(self) -> Sequence[_Output]: ...


class PerOutput(gpflow.base.Module):
    r"""The likelihoods of $D$ outputs, and which latent functions belong to which.

    Output $d$ has the likelihood `likelihoods[d]` with $J_d$ functions (`latent_dims[d]`). The
    $J = \sum_d J_d$ functions (`num_functions`) are numbered in the order of the outputs, and
    `functions(d)` are those of output $d$. One likelihood object may serve several outputs: they
    then share its parameters.

    Args:
        likelihoods: one for each output, in order; or a mapping from output names, which the
            outputs of the data must then have, in this order.

    >>> from mogp.likelihoods import HeteroscedasticGaussian, PerOutput, Poisson
    >>> likelihood = PerOutput({"price": HeteroscedasticGaussian(), "sales": Poisson()})
    >>> likelihood.num_functions, likelihood.functions(1)
    (3, range(2, 3))
    >>> likelihood.function_names(["price", "sales"])
    ['price/mean', 'price/log variance', 'sales/log rate']
    """

    def __init__(self, likelihoods: Sequence[Likelihood] | Mapping[str, Likelihood]) -> None:
        super().__init__()
        named = isinstance(likelihoods, Mapping)
        self.output_names: tuple[str, ...] | None = tuple(likelihoods) if named else None
        self.likelihoods: list[Any] = list(
            likelihoods.values() if isinstance(likelihoods, Mapping) else likelihoods
        )
        if not self.likelihoods:
            raise ValueError("PerOutput was given no likelihood; give one for each output.")
        for d, likelihood in enumerate(self.likelihoods):
            if not isinstance(likelihood, Likelihood):
                raise TypeError(
                    f"likelihood {d} is {likelihood!r}, not a gpflow.likelihoods.Likelihood; "
                    "give an object such as mogp.likelihoods.Poisson()."
                )
        self.latent_dims: tuple[int, ...] = tuple(
            likelihood.latent_dim or 1 for likelihood in self.likelihoods
        )
        self._ends: tuple[int, ...] = tuple(accumulate(self.latent_dims))

    @property
    def num_functions(self) -> int:
        """The number of latent functions of all outputs together, $J$."""
        return sum(self.latent_dims)

    def functions(self, d: int) -> range:
        """The numbers of the latent functions that output $d$ owns."""
        return range(self._ends[d] - self.latent_dims[d], self._ends[d])

    def function_names(self, output_names: Sequence[str]) -> list[str]:
        """A name such as "price/log variance" for each of the $J$ functions."""
        self._check_number(len(output_names))
        return [
            f"{name}/{label}"
            for name, likelihood, functions in zip(
                output_names, self.likelihoods, self.latent_dims, strict=True
            )
            for label in getattr(likelihood, "function_labels", _plain_labels(functions))
        ]

    def function_units(
        self, outputs: Sequence[int], location: Array, scale: Array
    ) -> tuple[Array, Array]:
        """What the functions of some outputs are moved by and multiplied by, `[J]`.

        Args:
            outputs: which.
            location: `[D]`, what the targets were moved by.
            scale: `[D]`, what they were divided by.
        """
        found = [
            function_units(self.likelihoods[d], self.latent_dims[d], location[d], scale[d])
            for d in outputs
        ]
        moved, multiplied = (np.concatenate(same) for same in zip(*found, strict=True))
        return moved, multiplied

    def check(self, data: _Data) -> None:
        """Raise a ValueError unless every output has a likelihood that takes its targets."""
        self._check_number(len(data.outputs))
        names = tuple(output.name for output in data.outputs)
        if self.output_names is not None and names != self.output_names:
            raise ValueError(
                f"the likelihoods are for the outputs {list(self.output_names)}, the data have"
                f" {list(names)}; give the likelihoods under the names of the outputs and in their"
                " order."
            )
        for likelihood, output in zip(self.likelihoods, data.outputs, strict=True):
            check_targets(likelihood, output.Y, output.name)

    def _check_number(self, outputs: int) -> None:
        if outputs != len(self.likelihoods):
            raise ValueError(
                f"{len(self.likelihoods)} likelihoods"
                f" ({', '.join(type(one).__name__ for one in self.likelihoods)}) for {outputs}"
                " outputs; give one likelihood for each output."
            )


def _plain_labels(functions: int) -> tuple[str, ...]:
    return ("f",) if functions == 1 else tuple(f"f{j}" for j in range(1, functions + 1))
