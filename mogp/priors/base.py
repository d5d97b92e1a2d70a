"""What a prior is: latent GPs `u_1 … u_L`, and the functions `f_1 … f_J` that they make."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Protocol

import gpflow
import tensorflow as tf
from check_shapes import check_shapes, inherit_check_shapes

from mogp.inducing import InducingPoints
from mogp.kernels import KernelStack
from mogp.linalg import cholesky


class Marginals(NamedTuple):
    """Gaussian marginals of latent parameter functions under the posterior, in GPflow's layout.

    Attributes:
        mean: `[N, J]`.
        var: `[N, J]` variances; `[N, J, J]` with `full_output_cov`, `[J, N, N]` with `full_cov`.

    >>> import numpy as np
    >>> from mogp.priors import Marginals
    >>> f = Marginals(mean=np.zeros((5, 2)), var=np.full((5, 2), 0.25))
    >>> (f.mean + 2 * np.sqrt(f.var)).max()
    1.0
    """

    mean: tf.Tensor
    var: tf.Tensor


class LatentPosterior(Protocol):
    """What a prior asks of the posterior `q(u)`: see `mogp.posteriors`.

    Attributes:
        correlated: whether latent GPs depend on each other under it.
    """

    correlated: ClassVar[bool]

    def project(self, factors: Any, Kuf: tf.Tensor, Kff: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Mean `[L, N]` and variance `[L, N]` (or covariance `[L, N, N]`) of the latent GPs; see
        `Joint.project` for those that are correlated.
        """


class Conditional(ABC):
    """The posterior of the functions at one set of inputs, from which marginals are read off.

    `Prior.condition` makes it: the work on all `N` inputs is done once, and each likelihood then
    asks for the functions and rows it needs.

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from mogp.priors import Marginals, independent_functions
    >>> f = Marginals(tf.constant([[0.0, 1.0], [2.0, 3.0]]), tf.ones([2, 2]))
    >>> conditional = independent_functions(f)
    >>> conditional.marginals(range(1, 2)).mean.numpy().tolist()
    [[1.0], [3.0]]
    >>> conditional.contrasts(tf.constant([[1], [1]]), tf.constant([0, 0])).var.numpy().tolist()
    [[2.0], [2.0]]
    """

    @abstractmethod
    @check_shapes("rows: [N]", "return.mean: [N, J]")
    def marginals(
        self,
        functions: range | tf.Tensor,
        rows: tf.Tensor | None = None,
        full_output_cov: bool = False,
    ) -> Marginals:
        """Marginals of the named functions.

        Args:
            functions: a range of `J` functions or a tensor `[J]`, the same at every row; or a
                tensor `[N, J]`, `J` functions for each row.
            rows: `[N]` positions among the inputs; None for all.
            full_output_cov: also the covariance between the functions at each row.

        Returns:
            The mean `[N, J]`, and the variance in the layout of `Marginals`.
        """

    @abstractmethod
    @check_shapes(
        "functions: [N, S]",
        "reference: [N]",
        "rows: [N]",
        "return.mean: [N, S]",
        "return.var: [N, S]",
    )
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
    @check_shapes("noise: [S, broadcast N, L]", "rows: [N]", "return: [S, N, J]")
    def points(
        self, functions: range, noise: tf.Tensor, rows: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Draws `[S, N, J]` of the functions: correlated over functions, independent over rows.

        Args:
            functions: which.
            noise: `[S, N, L]` standard normal draws for the latent GPs; `[S, 1, L]` serves all
                rows.
            rows: `[N]` positions among the inputs; None for all.
        """

    @property
    @abstractmethod
    def num_latents(self) -> int:
        """The number of latent GPs, `L`."""

    @property
    @abstractmethod
    def num_rows(self) -> int | None:
        """The number of inputs, `N`; None if it is not known before the graph runs."""

    @abstractmethod
    @check_shapes("return: [S, N, J]")
    def draws(self, functions: range, samples: int, seed: int) -> tf.Tensor:
        """Joint draws `[S, N, J]` of the functions over all inputs.

        Args:
            functions: which.
            samples: the number of draws, `S`.
            seed: the same seed gives the same draws.

        The inputs must have been conditioned on with `full_cov`.
        """

    @abstractmethod
    @check_shapes("functions: [G]", "rows: [G]", "return: [N, J, G]")
    def covariances(self, functions: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Covariances `[N, J, G]` of all functions at all inputs with some of these values.

        Args:
            functions: `[G]`, the function of each value.
            rows: `[G]`, its position among the inputs.

        The inputs must have been conditioned on with `full_cov`.
        """


class FunctionWise(Conditional):
    """Functions that have a covariance at each row and no cheaper form, such as few latent GPs."""

    @property
    @abstractmethod
    def num_functions(self) -> int:
        """The number of functions, `J`."""

    @property
    def num_latents(self) -> int:
        """Standard normal draws that `points` needs for a row: one for each function."""
        return self.num_functions

    @inherit_check_shapes
    def contrasts(
        self,
        functions: tf.Tensor,
        reference: tf.Tensor,
        rows: tf.Tensor | None = None,
        independent: bool = False,
    ) -> Marginals:
        """Marginals of differences, from the covariances at each row."""
        f = self.marginals(
            tf.concat([reference[:, None], functions], 1), rows, full_output_cov=not independent
        )
        mean = f.mean[:, 1:] - f.mean[:, :1]
        if independent:
            return Marginals(mean, f.var[:, 1:] + f.var[:, :1])
        variances = tf.linalg.diag_part(f.var)
        return Marginals(mean, variances[:, 1:] + variances[:, :1] - 2 * f.var[:, 0, 1:])

    @inherit_check_shapes
    def points(
        self, functions: range, noise: tf.Tensor, rows: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Draws at each row by itself, from a factor of the covariances there."""
        own = slice(functions.start, functions.stop)
        mean, cov = self.marginals(range(self.num_functions), rows, full_output_cov=True)
        L = cholesky(cov, name="the covariance of the functions at a row")
        return mean[:, own] + tf.einsum(
            "njk,snk->snj", L[:, own], tf.broadcast_to(noise, [noise.shape[0], *mean.shape])
        )


class View(NamedTuple):
    """The functions that outputs own, at their rows: what a likelihood is shown of the posterior.

    Functions are numbered from 0 within each output, so a likelihood need not know where its own
    begin.

    Attributes:
        conditional: the posterior at a set of inputs.
        first: the number of function 0: one for all rows, or `[N]`, one for each row, where the
            rows belong to several outputs.
        size: how many functions; it only matters for rows of one output.
        rows: `[N]` positions among the inputs; None for all.

    >>> import tensorflow as tf
    >>> from mogp.priors import Marginals, View, independent_functions
    >>> f = Marginals(tf.constant([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]), tf.ones([2, 3]))
    >>> second = View(independent_functions(f), first=1, size=2, rows=tf.constant([1]))
    >>> second.marginals().mean.numpy().tolist()
    [[4.0, 5.0]]
    """

    conditional: Conditional
    first: int | tf.Tensor
    size: int
    rows: tf.Tensor | None

    @property
    def num_latents(self) -> int:
        """The number of latent GPs, `L`."""
        return self.conditional.num_latents

    @property
    def num_rows(self) -> int | None:
        """The number of rows, `N`; None if it is not known before the graph runs."""
        rows = self.conditional.num_rows if self.rows is None else self.rows.shape[0]
        return None if rows is None else int(rows)

    @check_shapes("return.mean: [N, J]", "return.var: [N, J]")
    def marginals(self) -> Marginals:
        """Marginals `[N, J]` of all functions of the one output."""
        return self.conditional.marginals(self._all, self.rows)

    @check_shapes("functions: [..., J]", "rows: [N]", "return.mean: [N, J]", "return.var: [N, J]")
    def some(self, functions: tf.Tensor, rows: tf.Tensor | None = None) -> Marginals:
        """Marginals of some functions of the one output.

        Args:
            functions: `[J]`, the same at every row; or `[N, J]`, some for each row.
            rows: `[N]` positions among the rows of the view; None for all.
        """
        if not isinstance(self.first, int):
            raise ValueError("these rows belong to several outputs; name the functions of each.")
        if rows is not None and self.rows is not None:
            rows = tf.gather(self.rows, rows)
        return self.conditional.marginals(
            functions + self.first, self.rows if rows is None else rows
        )

    @check_shapes(
        "functions: [N, S]", "reference: [N]", "return.mean: [N, S]", "return.var: [N, S]"
    )
    def contrasts(
        self, functions: tf.Tensor, reference: tf.Tensor, independent: bool = False
    ) -> Marginals:
        """Marginals `[N, S]` of the differences `f_s - f_r`: see `Conditional.contrasts`."""
        first = tf.cast(self.first, functions.dtype)
        shift = first[:, None] if first.shape.rank else first
        return self.conditional.contrasts(
            functions + shift, reference + first, self.rows, independent
        )

    @check_shapes("noise: [S, broadcast N, L]", "return: [S, N, J]")
    def points(self, noise: tf.Tensor) -> tf.Tensor:
        """Draws `[S, N, J]` of all functions of the one output: see `Conditional.points`."""
        return self.conditional.points(self._all, noise, self.rows)

    @property
    def _all(self) -> range:
        if not isinstance(self.first, int):
            raise ValueError("these rows belong to several outputs; name the functions of each.")
        return range(self.first, self.first + self.size)


class Prior(gpflow.Module, ABC):
    """Latent GPs, and the `J` functions made of them.

    There are `G` distinct kernels and `R` independent copies of each. Latent `l = i G + g` is copy
    `i` of kernel `g`: copies of a kernel share its inducing inputs and one factor of
    `Kuu [G, M, M]`.

    >>> from gpflow.kernels import Matern32, SquaredExponential
    >>> from mogp.priors import LMC
    >>> prior = LMC([SquaredExponential(), Matern32()], functions=5, rank=3)
    >>> prior.num_latents, prior.num_functions
    (6, 5)
    >>> prior.coregionalisation().shape.as_list()
    [2, 5, 5]
    """

    kernels: KernelStack
    copies: int
    num_functions: int

    @property
    def num_latents(self) -> int:
        """The number of latent GPs, `L = G R`."""
        return len(self.kernels) * self.copies

    def blocks(self, inducing: InducingPoints) -> tuple[int, int]:
        """How many covariances `Kuu` there are, and how many copies share each: `G` and `R`."""
        return len(self.kernels), self.copies

    @abstractmethod
    @check_shapes("return: [G, J, J]")
    def coregionalisation(self) -> tf.Tensor:
        """Covariances `[G, J, J]` of the functions through each latent kernel."""

    @abstractmethod
    @check_shapes("X: [N, P]")
    def condition(
        self,
        X: tf.Tensor,
        inducing: InducingPoints,
        posterior: LatentPosterior,
        factors: Any,
        full_cov: bool = False,
    ) -> Conditional:
        """The functions at some inputs, given the posterior over the inducing variables.

        Args:
            X: `[N, P]` inputs, dense or a `tf.SparseTensor`.
            inducing: the inducing variables.
            posterior: the distribution `q(u)` of their values.
            factors: what `posterior.factorise` made of `Kuu`.
            full_cov: keep covariances between inputs, as `Conditional.draws` needs them.
        """
