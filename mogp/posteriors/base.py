"""What a posterior is: a Gaussian `q(u_l)` for each of the `L` latent GPs, over `M` inducing
variables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import gpflow
import tensorflow as tf


class Factors(NamedTuple):
    """What is computed once a step and shared by `project` and `kl`.

    Attributes:
        Kuu: `[G, M, M]`.
        cholesky: the factor(s) the posterior works with.
        location: `[R, G, M]`, the parameters of the mean.
        scale: the parameters of the covariance, `[R, G, M, M]` or `[R, G, M]`.
    """

    Kuu: tf.Tensor
    cholesky: tf.Tensor
    location: tf.Tensor
    scale: tf.Tensor


class Posterior(gpflow.Module, ABC):
    """A variational family. A model calls `build` once, with the number of latents and of inducing
    variables.
    """

    def __init__(self) -> None:
        super().__init__()
        self.copies = 0

    def build(self, kernels: int, copies: int, inducing: int) -> None:
        """Create the variational parameters of `L = kernels * copies` latents with `M = inducing`
        variables each.
        """
        if self.copies:
            raise ValueError(
                "this posterior already belongs to a model; give every model a posterior of its"
                " own."
            )
        self.copies = copies
        self._create(kernels * copies, inducing)

    @abstractmethod
    def _create(self, latents: int, inducing: int) -> None: ...

    @abstractmethod
    def factorise(self, Kuu: tf.Tensor) -> Factors:
        """Factorise `Kuu [G, M, M]`, and lay out the variational parameters by copy and kernel."""

    @abstractmethod
    def project(
        self, factors: Factors, Kuf: tf.Tensor, Kff: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Moments of the latent GPs.

        Args:
            factors: of `Kuu`.
            Kuf: `[G, M, N]`.
            Kff: `[G, N]` prior variances, or `[G, N, N]` covariances.

        Returns:
            Mean `[L, N]`, and variance `[L, N]` or covariance `[L, N, N]` as `Kff`.
        """

    @abstractmethod
    def kl(self, factors: Factors) -> tf.Tensor:
        """`KL[q(u_l) || p(u_l)]` of every latent, `[L]`."""

    @abstractmethod
    def moments(self, factors: Factors) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean `m [L, M]` and covariance `S [L, M, M]` of the inducing values `u` themselves."""

    @abstractmethod
    def weights(self, factors: Factors) -> tf.Tensor:
        r"""$\alpha$ in the mean $k(x, Z)\alpha_l$ of latent GP $l$ at any $x$, `[R, G, M]`."""

    def _by_copy(self, columns: tf.Tensor) -> tf.Tensor:
        """`[M, L]` parameters as `[R, G, M]`."""
        return tf.reshape(
            tf.transpose(tf.convert_to_tensor(columns)), [self.copies, -1, columns.shape[0]]
        )


def squares(A: tf.Tensor, Kff: tf.Tensor) -> tf.Tensor:
    """`AᵀA`, or only its diagonal, as `Kff` has covariances or variances; `A [..., M, N]`."""
    return (
        tf.linalg.matmul(A, A, transpose_a=True)
        if Kff.shape.rank == 3
        else tf.reduce_sum(A * A, -2)
    )


def by_latent(values: tf.Tensor) -> tf.Tensor:
    """`[R, G, …]` as `[L, …]`."""
    inner = values.shape[2:] if values.shape[2:].is_fully_defined() else tf.shape(values)[2:]
    return tf.reshape(values, tf.concat([[-1], inner], 0))
