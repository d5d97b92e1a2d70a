"""Priors whose functions are linear mixtures of latent GPs: independent functions, LMC and ICM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_probability as tfp
from check_shapes import check_shapes, inherit_check_shapes
from gpflow.kernels import Kernel

from mogp.inducing import InducingPoints
from mogp.kernels import KernelStack
from mogp.linalg import cholesky
from mogp.priors.base import Conditional, LatentPosterior, Marginals, Prior
from mogp.priors.correlated import CorrelatedCurves, CorrelatedLatents

_SMALLEST_VARIANCE = 1e-12
Kernels: TypeAlias = Kernel | Sequence[Kernel] | KernelStack


def kernel_count(kernels: Kernels) -> int:
    """How many distinct kernels these are.

    >>> from gpflow.kernels import Matern32
    >>> kernel_count(Matern32()), kernel_count([Matern32(), Matern32()])
    (1, 2)
    """
    return 1 if isinstance(kernels, Kernel) else len(kernels)


class MixingPrior(Prior):
    r"""Functions that are linear mixtures of latent GPs: the base class of `LMC` and `Independent`.

    $$f_j(x) = \sum_l W_{jl} u_l(x) + b_j, \qquad u_l \text{ independent GPs}.$$

    One pass over the latents gives their mean and variance at all rows. The functions that a batch
    needs are then mixed from their rows of `W`, which costs `N L` for each of them and nothing for
    the others.

    Args:
        kernels: one GPflow kernel, several, or a `KernelStack`: `G` of them.
        functions: number of functions `J`.
        copies: copies `R` of every latent GP, so that `L = G R`.
        W: `[J, L]` mixing weights; None for the identity.
        bias: start value(s) of a trainable offset for each function; None for none.

    >>> import numpy as np
    >>> from gpflow.kernels import SquaredExponential
    >>> from mogp.priors import MixingPrior
    >>> W = np.array([[1.0, 0.0], [0.5, 0.5]])
    >>> prior = MixingPrior(SquaredExponential(), functions=2, copies=2, W=W, bias=[0.0, 10.0])
    >>> prior.mix(np.array([[1.0, 3.0]])).numpy().tolist()
    [[1.0, 12.0]]
    """

    def __init__(
        self,
        kernels: Kernels,
        functions: int,
        copies: int,
        W: Any | None,
        bias: npt.ArrayLike | None,
    ) -> None:
        super().__init__()
        self.kernels = kernels if isinstance(kernels, KernelStack) else KernelStack(kernels)
        self.copies = copies
        self.num_functions = functions
        self.W = W
        self.bias = None if bias is None else gpflow.Parameter(_offsets(bias, functions))

    @inherit_check_shapes
    def condition(
        self,
        X: tf.Tensor,
        inducing: InducingPoints,
        posterior: LatentPosterior,
        factors: Any,
        full_cov: bool = False,
    ) -> Conditional:
        """The functions at `X [N, P]`, from one pass over the latent GPs: see `Prior.condition`."""
        Kff = self.kernels.K(X) if full_cov else self.kernels.K_diag(X)
        Kuf = inducing.Kuf(self.kernels, X)
        if posterior.correlated and full_cov:
            mean, residual, told = posterior.project(factors, Kuf, Kff)
            return CorrelatedCurves(mean, residual, told, self.W, self.bias)
        mean, var = posterior.project(factors, Kuf, Kff)
        if posterior.correlated:
            return CorrelatedLatents(mean, var, self.W, self.bias)
        return _Mixed(mean, var, by_rows(self.W), by_rows(self.bias))

    @check_shapes("latents: [N, L]", "return: [N, J]")
    def mix(self, latents: tf.Tensor, functions: range | None = None) -> tf.Tensor:
        """The functions `[N, J]` where the latent GPs have the values `[N, L]`.

        Args:
            latents: values.
            functions: some that follow one another; None for all.
        """
        W, bias = self.W, self.bias
        if functions is not None:
            latents = latents if W is not None else latents[:, functions.start : functions.stop]
            rows = (by_rows(p) for p in (W, bias))
            W, bias = (None if p is None else _some(p, functions) for p in rows)
        mixed = latents if W is None else tf.linalg.matmul(latents, W, transpose_b=True)
        return mixed if bias is None else mixed + bias

    @inherit_check_shapes
    def coregionalisation(self) -> tf.Tensor:
        r"""Coregionalisation matrices $B_g = \sum_i w_{g}^{i} w_{g}^{i\top}$, `[G, J, J]`.

        They give $\mathrm{cov}(f_j(x), f_{j'}(x')) = \sum_g B_{g,jj'} k_g(x, x')$.
        """
        W = (
            tf.eye(self.num_functions, dtype=gpflow.default_float())
            if self.W is None
            else tf.convert_to_tensor(self.W)
        )
        by_kernel = tf.reshape(W, [self.num_functions, self.copies, len(self.kernels)])
        return tf.einsum("jig,kig->gjk", by_kernel, by_kernel)


def by_rows(parameter: Any | None) -> tf.Tensor | tf.Variable | None:
    """Values of which some rows will be read: the variable itself, where it holds the values.

    A tensor of all values would be a copy of them at every step, once an optimiser writes single
    rows.
    """
    if parameter is None:
        return None
    plain = isinstance(parameter, gpflow.Parameter) and isinstance(
        parameter.transform, tfp.bijectors.Identity
    )
    return parameter.unconstrained_variable if plain else tf.convert_to_tensor(parameter)


def _offsets(bias: npt.ArrayLike, functions: int) -> npt.NDArray[np.float64]:
    values = np.asarray(bias, dtype=float)
    if values.shape not in ((), (functions,)):
        raise ValueError(
            f"bias has shape {values.shape}; expected one number, or one for each of {functions}"
            " functions."
        )
    return np.broadcast_to(values, (functions,))


class _Mixed(Conditional):
    """Latent moments `mean [L, N]`, `var [L, N]` or `[L, N, N]`, mixed by `W [J, L]`.

    `W` is the identity if None.
    """

    def __init__(
        self, mean: tf.Tensor, var: tf.Tensor, W: tf.Tensor | None, bias: tf.Tensor | None
    ) -> None:
        self._mean, self._var, self._W, self._bias = mean, var, W, bias

    @inherit_check_shapes
    def marginals(
        self,
        functions: range | tf.Tensor,
        rows: tf.Tensor | None = None,
        full_output_cov: bool = False,
    ) -> Marginals:
        if isinstance(functions, range) or functions.shape.rank == 1:
            return self._shared(functions, *self.latents(rows), full_output_cov)
        return self._by_row(functions, rows, full_output_cov)

    @inherit_check_shapes
    def contrasts(
        self,
        functions: tf.Tensor,
        reference: tf.Tensor,
        rows: tf.Tensor | None = None,
        independent: bool = False,
    ) -> Marginals:
        both = tf.concat([reference[:, None], functions], 1)
        # Without mixing the functions are independent anyway.
        if independent or self._W is None:
            f = self.marginals(both, rows)
            return Marginals(f.mean[:, 1:] - f.mean[:, :1], f.var[:, 1:] + f.var[:, :1])
        mean, var = self._by_input(rows)
        # A difference of functions is a mixture too, with the difference of the weights: its
        # variance needs no covariance between the functions.
        W = tf.gather(self._W, both)
        W = W[:, 1:] - W[:, :1]
        offset = 0
        if self._bias is not None:
            bias = tf.gather(self._bias, both)
            offset = bias[:, 1:] - bias[:, :1]
        return Marginals(_mix(W, mean) + offset, _mix(W * W, var))

    @inherit_check_shapes
    def points(
        self, functions: range, noise: tf.Tensor, rows: tf.Tensor | None = None
    ) -> tf.Tensor:
        own = slice(functions.start, functions.stop)
        mean, var = self._by_input(rows)
        offset = 0 if self._bias is None else self._bias[own]
        if self._W is None:
            return mean[:, own] + tf.sqrt(_positive(var[:, own])) * noise[..., own] + offset
        latents = mean + tf.sqrt(_positive(var)) * noise
        return tf.linalg.matmul(latents, self._W[own], transpose_b=True) + offset

    @property
    def num_latents(self) -> int:
        return int(self._mean.shape[0])

    @property
    def num_rows(self) -> int | None:
        rows: int | None = self._mean.shape[1]
        return rows

    def latents(self, rows: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance of the latent GPs at the inputs, or at those in `rows`, `[L, N]`."""
        if rows is None:
            return self._mean, self._var
        return tf.gather(self._mean, rows, axis=1), tf.gather(self._var, rows, axis=1)

    @inherit_check_shapes
    def draws(self, functions: range, samples: int, seed: int) -> tf.Tensor:
        L = cholesky(self._var, name="the covariance of the latent GPs")
        noise = tf.random.stateless_normal(
            [samples, *self._mean.shape, 1], [seed, 0], dtype=L.dtype
        )
        latents = self._mean + tf.linalg.matmul(L, noise)[..., 0]
        own = slice(functions.start, functions.stop)
        mixed = (
            latents[:, own] if self._W is None else tf.einsum("jl,sln->sjn", self._W[own], latents)
        )
        return tf.linalg.matrix_transpose(mixed) + (0 if self._bias is None else self._bias[own])

    @inherit_check_shapes
    def covariances(self, functions: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        if self._W is None:
            found = tf.gather_nd(self._var, tf.stack([functions, rows], 1))
            own = tf.one_hot(functions, self._var.shape[0], dtype=found.dtype)
            return tf.einsum("gj,gn->njg", own, found)
        found = tf.gather(self._var, rows, axis=1)
        return tf.einsum("gl,jl,lgn->njg", tf.gather(self._W, functions), self._W, found)

    def _shared(
        self, functions: range | tf.Tensor, mean: tf.Tensor, var: tf.Tensor, full_output_cov: bool
    ) -> Marginals:
        offset = 0 if self._bias is None else _some(self._bias, functions)
        if self._W is None:
            mean, var = _some(mean, functions), _some(var, functions)
            if var.shape.rank == 3:
                return Marginals(tf.transpose(mean) + offset, var)
            mixed = tf.transpose(var)
            return Marginals(
                tf.transpose(mean) + offset, tf.linalg.diag(mixed) if full_output_cov else mixed
            )
        W = _some(self._W, functions)
        mean = tf.linalg.matmul(mean, W, transpose_a=True, transpose_b=True) + offset
        if var.shape.rank == 3:
            return Marginals(mean, tf.einsum("jl,lnm->jnm", W * W, var))
        if full_output_cov:
            return Marginals(mean, tf.einsum("jl,kl,ln->njk", W, W, var))
        return Marginals(mean, tf.linalg.matmul(var, W * W, transpose_a=True, transpose_b=True))

    def _by_input(self, rows: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance of the latent GPs, `[N, L]`."""
        mean, var = tf.transpose(self._mean), tf.transpose(self._var)
        return (mean, var) if rows is None else (tf.gather(mean, rows), tf.gather(var, rows))

    def _by_row(
        self, functions: tf.Tensor, rows: tf.Tensor | None, full_output_cov: bool
    ) -> Marginals:
        offset = 0 if self._bias is None else tf.gather(self._bias, functions)
        mean, var = self._by_input(rows)
        if self._W is None:
            mean, var = (
                tf.gather(mean, functions, batch_dims=1),
                tf.gather(var, functions, batch_dims=1),
            )
            return Marginals(mean + offset, tf.linalg.diag(var) if full_output_cov else var)
        W = tf.gather(self._W, functions)
        mean = _mix(W, mean) + offset
        if full_output_cov:
            return Marginals(mean, tf.einsum("nsl,ntl,nl->nst", W, W, var))
        return Marginals(mean, _mix(W * W, var))


def _mix(W: tf.Tensor, latents: tf.Tensor) -> tf.Tensor:
    """`[N, S]` from weights `[N, S, L]` and latents `[N, L]`."""
    # With one function for each row there is no need for a batch of `[1, L]` matrix products.
    return (
        tf.reduce_sum(W * latents[:, None], -1) if W.shape[1] == 1 else tf.linalg.matvec(W, latents)
    )


def _some(values: tf.Tensor | tf.Variable, functions: range | tf.Tensor) -> tf.Tensor:
    """Rows of the functions named."""
    if isinstance(functions, range):
        return values[functions.start : functions.stop]
    return tf.gather(values, functions)


def _positive(variance: tf.Tensor) -> tf.Tensor:
    """Variances, those raised that rounding brought to zero or below it."""
    return tf.maximum(variance, _SMALLEST_VARIANCE)


@check_shapes("f.mean: [N, J]", "f.var: [N, J]")
def independent_functions(f: Marginals) -> Conditional:
    """Functions with given marginals, independent of each other, as a `Conditional`.

    Args:
        f: mean and variance `[N, J]`.

    >>> import tensorflow as tf
    >>> from mogp.priors import Marginals, independent_functions
    >>> f = Marginals(tf.constant([[0.0, 1.0]]), tf.constant([[1.0, 2.0]]))
    >>> conditional = independent_functions(f)
    >>> conditional.marginals(range(2), full_output_cov=True).var.numpy().tolist()
    [[[1.0, 0.0], [0.0, 2.0]]]
    """
    return _Mixed(tf.transpose(f.mean), tf.transpose(f.var), None, None)


class Independent(MixingPrior):
    """Functions that do not share latent GPs: `f_j = u_j + b_j`.

    Args:
        kernels: one kernel for each function, or one kernel that all functions share (with one
            `Kuu` for all).
        functions: number of functions `J`; needed with a shared kernel.
        bias: start value(s) of a trainable offset for each function; None for none.

    >>> from gpflow.kernels import SquaredExponential
    >>> from mogp.priors import Independent
    >>> prior = Independent(SquaredExponential(), functions=3)
    >>> prior.num_latents, len(prior.kernels)
    (3, 1)
    >>> prior.coregionalisation().numpy().tolist()
    [[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]
    """

    def __init__(
        self, kernels: Kernels, functions: int | None = None, bias: npt.ArrayLike | None = None
    ) -> None:
        shared = isinstance(kernels, Kernel) or (
            isinstance(kernels, KernelStack) and len(kernels) == 1
        )
        count = functions if shared else kernel_count(kernels)
        if count is None or (functions is not None and functions != count) or count < 1:
            raise ValueError(
                f"{'one shared kernel' if shared else f'{kernel_count(kernels)} kernels'} and"
                f" functions={functions}: give one kernel for each function, or one shared kernel"
                " and the number of functions."
            )
        super().__init__(kernels, count, copies=count if shared else 1, W=None, bias=bias)


class LMC(MixingPrior):
    r"""Linear model of coregionalisation: functions mixed from latent GPs with several kernels.

    $$f_j = \sum_{g=1}^{G} \sum_{i=1}^{R} W_{j,(i,g)}\, u_g^i + b_j, \qquad u_g^i \sim GP(0, k_g).$$

    Args:
        kernels: the `G` distinct kernels (unit variance is usual: `W` carries the amplitude).
        functions: number of functions `J`.
        rank: copies `R` of every latent GP, the rank of each coregionalisation matrix.
        W: `[J, R G]` start values of the mixing weights; if None, rows of length one in random
            directions, so that every function starts with unit variance.
        bias: start value(s) of a trainable offset for each function; None for none.
        seed: seed of the draw of `W`.

    >>> from gpflow.kernels import Matern32, SquaredExponential
    >>> from mogp.priors import LMC
    >>> kernels = [SquaredExponential(lengthscales=0.5), Matern32(lengthscales=2.0)]
    >>> prior = LMC(kernels, functions=2, W=[[1.0, 0.0], [0.5, 2.0]])
    >>> prior.coregionalisation().numpy().tolist()
    [[[1.0, 0.5], [0.5, 0.25]], [[0.0, 0.0], [0.0, 4.0]]]
    """

    def __init__(
        self,
        kernels: Kernels,
        functions: int,
        rank: int = 1,
        W: npt.ArrayLike | None = None,
        bias: npt.ArrayLike | None = None,
        seed: int = 0,
    ) -> None:
        if functions < 1 or rank < 1:
            raise ValueError(f"functions={functions}, rank={rank}: both must be at least 1.")
        latents = rank * kernel_count(kernels)
        if W is None:
            W = np.random.default_rng(seed).normal(size=(functions, latents))
            W /= np.linalg.norm(W, axis=1, keepdims=True)
        weights = np.asarray(W, dtype=gpflow.default_float())
        if weights.shape != (functions, latents):
            raise ValueError(
                f"W has shape {weights.shape}; expected [functions, kernels x rank] = ({functions},"
                f" {latents})."
            )
        super().__init__(kernels, functions, copies=rank, W=gpflow.Parameter(weights), bias=bias)


class ICM(LMC):
    r"""Intrinsic coregionalisation model: functions mixed from latent GPs with one kernel.

    $$\mathrm{cov}(f_j(x), f_{j'}(x')) = B_{jj'}\, k(x, x'), \qquad B = W W^\top.$$

    Args:
        kernel: the one kernel.
        functions: number of functions `J`.
        rank: rank `R` of `B`.
        W: `[J, R]` start values of the mixing weights; if None, random rows of length one.
        bias: start value(s) of a trainable offset for each function; None for none.
        seed: seed of the draw of `W`.

    >>> from gpflow.kernels import SquaredExponential
    >>> from mogp.priors import ICM
    >>> prior = ICM(SquaredExponential(), functions=2, W=[[1.0], [-2.0]])
    >>> prior.coregionalisation()[0].numpy().tolist()
    [[1.0, -2.0], [-2.0, 4.0]]
    """

    def __init__(
        self,
        kernel: Kernel,
        functions: int,
        rank: int = 1,
        W: npt.ArrayLike | None = None,
        bias: npt.ArrayLike | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(kernel, functions, rank, W, bias, seed)
