"""What a posterior is: a Gaussian `q(u_l)` over `M` inducing variables for each latent GP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import gpflow
import tensorflow as tf
from check_shapes import check_shapes


class Factors(NamedTuple):
    """What is computed once a step and shared by `project` and `kl`.

    Attributes:
        Kuu: `[G, M, M]`.
        cholesky: the factor(s) the posterior works with.
        location: `[R, G, M]`, the parameters of the mean.
        scale: the parameters of the covariance, `[R, G, M, M]` or `[R, G, M]`.

    >>> import tensorflow as tf
    >>> from mogp.posteriors import Full
    >>> posterior = Full()
    >>> posterior.build(kernels=2, copies=3, inducing=4)
    >>> factors = posterior.factorise(tf.eye(4, batch_shape=[2], dtype=tf.float64))
    >>> factors.location.shape.as_list(), factors.scale.shape.as_list()
    ([3, 2, 4], [3, 2, 4, 4])
    """

    Kuu: tf.Tensor
    cholesky: tf.Tensor
    location: tf.Tensor
    scale: tf.Tensor


class Posterior(gpflow.Module, ABC):
    """A variational family `q(u_1) … q(u_L)` over the inducing variables.

    A model calls `build` once, with the number of latents and of inducing variables, and after that
    asks for `factorise`, `project` and `kl` at every step.

    Attributes:
        copies: latent GPs that share each kernel.
        by_row: whether variables have a row for each latent GP (`latents_first`).
        correlated: whether latent GPs depend on each other under it (`Joint`); then `project`
            gives covariances between them.

    >>> import tensorflow as tf
    >>> from mogp.posteriors import Full
    >>> posterior = Full()
    >>> posterior.build(kernels=1, copies=2, inducing=3)
    >>> factors = posterior.factorise(tf.eye(3, batch_shape=[1], dtype=tf.float64))
    >>> posterior.kl(factors).numpy().tolist()
    [0.0, 0.0]
    """

    correlated: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.copies = 0
        self.by_row = False

    def build(self, kernels: int, copies: int, inducing: int) -> None:
        """Create the variational parameters.

        Args:
            kernels: number of covariances `Kuu`, `G`.
            copies: latent GPs that share each, `R`, so that `L = G R`.
            inducing: inducing variables of each, `M`.
        """
        if self.copies:
            raise ValueError(
                "this posterior already belongs to a model; give every model a new one."
            )
        self.copies = copies
        self._create(kernels * copies, inducing)

    @abstractmethod
    def _create(self, latents: int, inducing: int) -> None: ...

    @abstractmethod
    @check_shapes("Kuu: [G, M, M]", "return.Kuu: [G, M, M]", "return.location: [R, G, M]")
    def factorise(self, Kuu: tf.Tensor) -> Factors:
        """Factorise `Kuu [G, M, M]`, and lay out the variational parameters by copy and kernel."""

    @abstractmethod
    @check_shapes(
        "factors.Kuu: [broadcast G, M, M]",
        "Kuf: [G, M, N]",
        "Kff: [G, N, ...]",
        "return[0]: [L, N]",
        "return[1]: [L, N, ...]",
    )
    def project(self, factors: Factors, Kuf: tf.Tensor, Kff: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Moments of the latent GPs at some inputs.

        Args:
            factors: what `factorise` made of `Kuu`. With one kernel, `Kuf` and `Kff` may have any
                number `G` of sets of inputs for it.
            Kuf: `[G, M, N]`.
            Kff: `[G, N]` prior variances, or `[G, N, N]` covariances.

        Returns:
            Mean `[L, N]`, and variance `[L, N]` or covariance `[L, N, N]` as `Kff`. Where latent
            GPs are `correlated`, see `Joint.project`.
        """

    @abstractmethod
    @check_shapes("factors.Kuu: [G, M, M]", "factors.location: [R, G, M]", "return: [L]")
    def kl(self, factors: Factors) -> tf.Tensor:
        """`KL[q(u_l) || p(u_l)]` of every latent, `[L]`."""

    @abstractmethod
    @check_shapes("factors.Kuu: [G, M, M]", "return[0]: [L, M]", "return[1]: [L, M, M]")
    def moments(self, factors: Factors) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean `m [L, M]` and covariance `S [L, M, M]` of the inducing values `u` themselves."""

    @abstractmethod
    @check_shapes("factors.location: [R, G, M]", "return: [R, G, M]")
    def weights(self, factors: Factors) -> tf.Tensor:
        r"""Weights $\alpha$ `[R, G, M]` in the mean $k(x, Z)\alpha_l$ of latent GP $l$ at $x$."""

    def _by_copy(self, columns: tf.Tensor) -> tf.Tensor:
        """`[M, L]` parameters as `[R, G, M]`."""
        return tf.reshape(
            tf.transpose(tf.convert_to_tensor(columns)), [self.copies, -1, columns.shape[0]]
        )


def squares(A: tf.Tensor, Kff: tf.Tensor) -> tf.Tensor:
    """`AᵀA`, or only its diagonal, as `Kff` has covariances or variances; `A [..., M, N]`."""
    return tf.linalg.matmul(A, A, transpose_a=True) if Kff.shape.rank == 3 else column_squares(A)


def column_squares(A: tf.Tensor) -> tf.Tensor:
    """Sums of squares of the columns of `A [..., M, N]`, `[..., N]`, with a gradient of one pass
    over `A`.
    """

    @tf.custom_gradient
    def sums(A: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        return tf.reduce_sum(tf.square(A), -2), lambda upstream: 2 * upstream[..., None, :] * A

    squared: tf.Tensor = sums(A)
    return squared


def by_latent(values: tf.Tensor) -> tf.Tensor:
    """`[R, G, …]` as `[L, …]`."""
    # The static shape where it is known: later code reads it while the graph is traced.
    inner = values.shape[2:] if values.shape[2:].is_fully_defined() else tf.shape(values)[2:]
    return tf.reshape(values, tf.concat([[-1], inner], 0))
