"""The convolution process: functions that are smoothed mixtures of latent GPs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import inherit_check_shapes

from mogp.inducing import FunctionPoints, InducingPoints
from mogp.kernels import ConvolvedStack
from mogp.linalg import cholesky
from mogp.priors.base import Conditional, FunctionWise, LatentPosterior, Marginals, Prior
from mogp.priors.mixing import _Mixed, _offsets


class CPM(Prior):
    r"""Convolution process: functions that are smoothed mixtures of latent GPs.

    $$f_j(x) = \sum_{q,i} S^i_{jq}\int\mathcal E(x - r\mid\kappa_j)\,u^i_q(r)\,dr + b_j.$$

    What the inducing variables are decides how the functions are reached:

    - `FunctionPoints`: values of the functions (CPM-f). Each function is then a separate sparse GP,
      and functions share hyper-parameters only; with `joint=True` they form one block with the full
      covariance, through which they share data.
    - `InducingPoints`: values of the latent GPs (CPM-u), a set for each or one for all.
    - `SmoothedPoints`: values of the latent GPs after smoothing (VIK).

    Args:
        kernels: the latent GPs, widths and weights.
        bias: start value(s) of a trainable offset for each of the `J` functions; None for none.

    >>> import numpy as np
    >>> from mogp.kernels import ConvolvedStack
    >>> from mogp.priors import CPM
    >>> S = np.array([[1.0, 0.0], [0.5, 2.0]])
    >>> prior = CPM(ConvolvedStack(functions=2, latents=2, input_dim=1, smoothing=1e-3, S=S))
    >>> np.round(prior.coregionalisation(), 3).tolist()
    [[[1.0, 0.5], [0.5, 0.25]], [[0.0, 0.0], [0.0, 4.0]]]
    """

    kernels: ConvolvedStack

    def __init__(self, kernels: ConvolvedStack, bias: npt.ArrayLike | None = None) -> None:
        super().__init__()
        self.kernels = kernels
        self.copies = kernels.rank
        self.num_functions = kernels.num_functions
        self.bias = (
            None if bias is None else gpflow.Parameter(_offsets(bias, kernels.num_functions))
        )

    def blocks(self, inducing: InducingPoints) -> tuple[int, int]:
        """See `Prior.blocks`."""
        if not isinstance(inducing, FunctionPoints):
            return super().blocks(inducing)
        if inducing.Z.shape[0] != self.num_functions:
            raise ValueError(
                f"{inducing.Z.shape[0]} sets of inducing inputs for {self.num_functions} functions;"
                " give one each."
            )
        return inducing.num_sets, 1

    @inherit_check_shapes
    def condition(
        self,
        X: tf.Tensor,
        inducing: InducingPoints,
        posterior: LatentPosterior,
        factors: Any,
        full_cov: bool = False,
    ) -> Conditional:
        """The functions at `X [N, P]`: see `Prior.condition`."""
        bias = None if self.bias is None else tf.convert_to_tensor(self.bias)
        if isinstance(inducing, FunctionPoints) and not inducing.joint:
            if full_cov:
                Kff = self.kernels.of_functions(X, X)
            else:
                Kff = tf.repeat(self.kernels.variances()[:, None], tf.shape(X)[0], axis=1)
            mean, var = posterior.project(factors, inducing.Kuf(self.kernels, X), Kff)
            return _Mixed(mean, var, None, bias)
        J = self.num_functions
        if isinstance(inducing, FunctionPoints):
            columns = tf.reshape(inducing.Kuf(self.kernels, X), [1, inducing.num_inducing, J, -1])
            weights = tf.ones([1, J], X.dtype)
        else:
            columns = inducing.with_functions(self.kernels, X)
            weights = tf.transpose(self.kernels.S)
        joint = (
            tf.reshape(self.kernels.between_functions(X, X), [J * X.shape[0]] * 2)
            if full_cov
            else None
        )
        return _Projected(
            lambda Kuf, Kff: posterior.project(factors, Kuf, Kff),
            columns,
            weights,
            tf.reduce_sum(self.kernels.at_one_input(), 0),
            joint,
            bias,
        )

    @inherit_check_shapes
    def coregionalisation(self) -> tf.Tensor:
        """Covariances of the functions at one input, a matrix for each latent GP: `[Q, J, J]`."""
        return self.kernels.at_one_input()


class _Projected(FunctionWise):
    r"""Functions whose covariance with the inducing variables differs from function to function.

    With $a_{ljn}$ the projection of the column of function $j$ at row $n$ on the inducing variables
    of latent $l$, $m_{jn} = \sum_l w_{lj}\,a_{ljn}^\top m_l$ and $\mathrm{cov}(f_{jn}, f_{j'n}) =
    k_{jj'} + \sum_l w_{lj}w_{lj'}\, a_{ljn}^\top(V_l - K_l)a_{lj'n}$. A posterior gives the second
    term for $j = j'$; covariances are found from
    $2a^\top Cb = (a+b)^\top C(a+b) - a^\top Ca - b^\top Cb$, when asked for.

    Args:
        project: moments of the latents from `Kuf [G, M, n]` and prior moments, as
            `Posterior.project`.
        columns: `[G, M, J, N]`.
        weights: `[L, J]`.
        prior: `[J, J]` covariances of the functions at a row.
        joint: `[J N, J N]` covariances of all functions at all rows, for draws and `full_cov`.
        bias: `[J]`, or None.
    """

    def __init__(
        self,
        project: Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]],
        columns: tf.Tensor,
        weights: tf.Tensor,
        prior: tf.Tensor,
        joint: tf.Tensor | None,
        bias: tf.Tensor | None,
    ) -> None:
        self._project, self._columns, self._weights, self._prior = project, columns, weights, prior
        self._bias = tf.zeros_like(prior[0]) if bias is None else bias
        self._G, self._M, self._J = (int(n) for n in columns.shape[:3])
        flat = tf.reshape(columns, [self._G, self._M, -1])
        # Zeros for the prior moments: what comes back is `aᵀ(V - K)a` alone, and the prior of the
        # functions, which no latent has by itself, is added below.
        none = tf.zeros_like(
            flat[:, 0] if joint is None else flat[:, 0, :, None] * flat[:, 0, None]
        )
        mean, extra = project(flat, none)
        self._mean = tf.einsum("lj,ljn->jn", weights, self._by_function(mean)) + self._bias[:, None]
        self._joint: tf.Tensor | None = None
        if joint is None:
            self._own = self._by_function(extra)
        else:
            each = tf.repeat(weights, tf.shape(columns)[3], axis=1)
            self._joint = joint + tf.einsum("la,lb,lab->ab", each, each, extra)
            self._own = self._by_function(tf.linalg.diag_part(extra))
        self._var = tf.linalg.diag_part(prior)[:, None] + tf.einsum(
            "lj,ljn->jn", weights**2, self._own
        )

    @inherit_check_shapes
    def marginals(
        self,
        functions: range | tf.Tensor,
        rows: tf.Tensor | None = None,
        full_output_cov: bool = False,
    ) -> Marginals:
        if isinstance(functions, range):
            own = slice(functions.start, functions.stop)
            mean = self._rows(tf.transpose(self._mean[own]), rows)
            if self._joint is not None:
                N = self._mean.shape[1]
                by_function = tf.reshape(self._joint, [self._J, N, self._J, N])
                return Marginals(mean, tf.stack([by_function[j, :, j] for j in functions]))
            if full_output_cov:
                return Marginals(mean, self._rows(self._covariance, rows)[:, own, own])
            return Marginals(mean, self._rows(tf.transpose(self._var[own]), rows))
        if functions.shape.rank == 1:
            N = tf.shape(self._mean)[1] if rows is None else tf.shape(rows)[0]
            functions = tf.tile(functions[None], [N, 1])
        mean = tf.gather(self._rows(tf.transpose(self._mean), rows), functions, batch_dims=1)
        if full_output_cov:
            chosen = tf.gather(self._rows(self._covariance, rows), functions, batch_dims=1)
            return Marginals(mean, tf.gather(chosen, functions, axis=2, batch_dims=1))
        return Marginals(
            mean, tf.gather(self._rows(tf.transpose(self._var), rows), functions, batch_dims=1)
        )

    @property
    def num_functions(self) -> int:
        return self._J

    @property
    def num_rows(self) -> int | None:
        rows: int | None = self._mean.shape[1]
        return rows

    @inherit_check_shapes
    def draws(self, functions: range, samples: int, seed: int) -> tf.Tensor:
        assert self._joint is not None
        L = cholesky(self._joint, name="the covariance of the functions")
        noise = tf.random.stateless_normal([samples, L.shape[0], 1], [seed, 0], dtype=L.dtype)
        drawn = tf.reshape(tf.linalg.matmul(L, noise), [samples, *self._mean.shape]) + self._mean
        return tf.linalg.matrix_transpose(drawn[:, functions.start : functions.stop])

    @inherit_check_shapes
    def covariances(self, functions: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        assert self._joint is not None
        N = self._mean.shape[1]
        found = tf.reshape(tf.gather(self._joint, functions * N + rows), [-1, self._J, N])
        return tf.transpose(found, [2, 1, 0])

    @cached_property
    def _covariance(self) -> tf.Tensor:
        """`[N, J, J]`."""
        # The posterior only gives squares, so `aᵀCb` comes from that of `a + b`: see the class.
        one, two = (index.ravel() for index in np.indices((self._J, self._J)))
        sums = tf.gather(self._columns, one, axis=2) + tf.gather(self._columns, two, axis=2)
        flat = tf.reshape(sums, [self._G, self._M, -1])
        _, extra = self._project(flat, tf.zeros_like(flat[:, 0]))
        extra = tf.reshape(extra, [extra.shape[0], self._J, self._J, -1])
        twice = extra - self._own[:, :, None] - self._own[:, None]
        return 0.5 * tf.einsum("lj,lk,ljkn->njk", self._weights, self._weights, twice) + self._prior

    def _by_function(self, values: tf.Tensor) -> tf.Tensor:
        return tf.reshape(values, [values.shape[0], self._J, -1])

    @staticmethod
    def _rows(values: tf.Tensor, rows: tf.Tensor | None) -> tf.Tensor:
        return values if rows is None else tf.gather(values, rows)
