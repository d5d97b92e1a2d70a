"""What a prior is: latent GPs `u_1 … u_L`, and how they make the latent parameter functions
`f_1 … f_J`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol

import gpflow
import tensorflow as tf

from mogp.inducing import InducingPoints
from mogp.kernels import KernelStack


class Marginals(NamedTuple):
    """Gaussian marginals of latent parameter functions under the posterior, in GPflow's layout.

    Attributes:
        mean: `[N, J]`.
        var: `[N, J]` variances; `[N, J, J]` with `full_output_cov`, `[J, N, N]` with `full_cov`.
    """

    mean: tf.Tensor
    var: tf.Tensor


class LatentPosterior(Protocol):
    """What a prior asks of the posterior `q(u)`: see `mogp.posteriors`."""

    def project(self, factors: Any, Kuf: tf.Tensor, Kff: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean `[L, N]` and variance `[L, N]` (or covariance `[L, N, N]`) of the latent GPs."""


class Conditional(ABC):
    """The posterior of the functions at one set of inputs, from which marginals are read off."""

    @abstractmethod
    def marginals(
        self,
        functions: range | tf.Tensor,
        rows: tf.Tensor | None = None,
        full_output_cov: bool = False,
    ) -> Marginals:
        """Marginals of the named functions.

        Args:
            functions: a range of `J` functions or a tensor `[J]`, the same at every row; or a
                tensor `[N, S]`, `S` of them for each row.
            rows: `[N]` positions among the inputs; None for all.
            full_output_cov: also the covariance between the functions at each row.
        """

    @abstractmethod
    def contrasts(
        self,
        functions: tf.Tensor,
        reference: tf.Tensor,
        rows: tf.Tensor | None = None,
        independent: bool = False,
    ) -> Marginals:
        """Marginals `[N, S]` of the differences `f_s - f_r` at each row, with their covariance.

        Args:
            functions: `[N, S]`, which functions `s` at each row.
            reference: `[N]`, the function `r` of each row.
            rows: `[N]` positions among the inputs; None for all.
            independent: take the functions to be independent, as in a product of their marginals.
        """

    @abstractmethod
    def points(
        self, functions: range, noise: tf.Tensor, rows: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Draws `[S, N, J]` of the functions at each row, correlated over functions and independent
        over rows.

        Args:
            functions: which.
            noise: `[S, N, L]` standard normal draws for the latent GPs; `[S, 1, L]` serves all
                rows.
            rows: `[N]` positions among the inputs; None for all.
        """

    @property
    @abstractmethod
    def num_latents(self) -> int:
        """Latent GPs, `L`."""

    @property
    @abstractmethod
    def num_rows(self) -> int | None:
        """Inputs, `N`; None if not known before the graph runs."""

    @abstractmethod
    def draws(self, functions: range, samples: int, seed: int) -> tf.Tensor:
        """Joint draws of the functions over all inputs, `[samples, N, J]`; needs `full_cov` when
        conditioning.
        """


class View(NamedTuple):
    """The functions that outputs own, at their rows: what a likelihood is shown of the posterior.

    Functions are numbered from 0 within each output, so a likelihood need not know where its own
    begin.

    Attributes:
        conditional: the posterior at a set of inputs.
        first: the number of function 0: one for all rows, or `[N]`, one a row, for rows of several
            outputs.
        size: how many functions; of any use for rows of one output only.
        rows: `[N]` positions among the inputs; None for all.
    """

    conditional: Conditional
    first: int | tf.Tensor
    size: int
    rows: tf.Tensor | None

    @property
    def num_latents(self) -> int:
        """Latent GPs, `L`."""
        return self.conditional.num_latents

    @property
    def num_rows(self) -> int | None:
        """Rows, `N`; None if not known before the graph runs."""
        rows = self.conditional.num_rows if self.rows is None else self.rows.shape[0]
        return None if rows is None else int(rows)

    def marginals(self) -> Marginals:
        """Of all functions of the one output, `[N, J]`."""
        return self.conditional.marginals(self._all, self.rows)

    def some(self, functions: tf.Tensor, rows: tf.Tensor | None = None) -> Marginals:
        """Of functions of the one output: `[J]`, the same at every row; or `[N, S]`, some for each
        of the `rows`.
        """
        if not isinstance(self.first, int):
            raise ValueError("these rows belong to several outputs; name the functions of each.")
        if rows is not None and self.rows is not None:
            rows = tf.gather(self.rows, rows)
        return self.conditional.marginals(
            functions + self.first, self.rows if rows is None else rows
        )

    def contrasts(
        self, functions: tf.Tensor, reference: tf.Tensor, independent: bool = False
    ) -> Marginals:
        """Of the differences `f_s - f_r`, `[N, S]`: see `Conditional.contrasts`."""
        first = tf.cast(self.first, functions.dtype)
        shift = first[:, None] if first.shape.rank else first
        return self.conditional.contrasts(
            functions + shift, reference + first, self.rows, independent
        )

    def points(self, noise: tf.Tensor) -> tf.Tensor:
        """Draws of all functions of the one output, `[S, N, J]`: see `Conditional.points`."""
        return self.conditional.points(self._all, noise, self.rows)

    @property
    def _all(self) -> range:
        if not isinstance(self.first, int):
            raise ValueError("these rows belong to several outputs; name the functions of each.")
        return range(self.first, self.first + self.size)


class Prior(gpflow.Module, ABC):
    """Latent GPs with `G` distinct kernels, `R` independent copies of each, and `J` functions made
    of them.

    Latent `l = i G + g` is copy `i` of kernel `g`: copies of a kernel share its inducing inputs and
    one factor of `Kuu [G, M, M]`.
    """

    kernels: KernelStack
    copies: int
    num_functions: int

    @property
    def num_latents(self) -> int:
        """Latent GPs, `L = G R`."""
        return len(self.kernels) * self.copies

    def blocks(self, inducing: InducingPoints) -> tuple[int, int]:
        """How many covariances `Kuu` of inducing variables there are, and how many copies share
        each: `G` and `R`.
        """
        return len(self.kernels), self.copies

    @abstractmethod
    def coregionalisation(self) -> tf.Tensor:
        """Covariances of the functions through each latent kernel, `[G, J, J]`."""

    @abstractmethod
    def condition(
        self,
        X: tf.Tensor,
        inducing: InducingPoints,
        posterior: LatentPosterior,
        factors: Any,
        full_cov: bool = False,
    ) -> Conditional:
        """The functions at `X [N, P]` given the posterior over the inducing variables."""
