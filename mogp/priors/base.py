"""What a prior is: latent GPs `u_1 … u_L`, and how they make the latent parameter functions `f_1 … f_J`."""

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
        self, functions: range | tf.Tensor, rows: tf.Tensor | None = None, full_output_cov: bool = False
    ) -> Marginals:
        """Marginals of the named functions.

        Args:
            functions: a range of `J` functions, the same at every row; or a tensor `[N, S]`, `S` of them for each row.
            rows: `[N]` positions among the inputs; None for all.
            full_output_cov: also the covariance between the functions at each row.
        """

    @abstractmethod
    def draws(self, functions: range, samples: int, seed: int) -> tf.Tensor:
        """Joint draws of the functions over all inputs, `[samples, N, J]`; needs `full_cov` when conditioning."""


class Prior(gpflow.Module, ABC):
    """Latent GPs with `G` distinct kernels, `R` independent copies of each, and `J` functions made of them.

    Latent `l = i G + g` is copy `i` of kernel `g`: copies of a kernel share its inducing inputs and one factor of
    `Kuu [G, M, M]`.
    """

    kernels: KernelStack
    copies: int
    num_functions: int

    @property
    def num_latents(self) -> int:
        """Latent GPs, `L = G R`."""
        return len(self.kernels) * self.copies

    @abstractmethod
    def condition(
        self, X: tf.Tensor, inducing: InducingPoints, posterior: LatentPosterior, factors: Any, full_cov: bool = False
    ) -> Conditional:
        """The functions at `X [N, P]` given the posterior over the inducing variables."""
