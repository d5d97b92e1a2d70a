"""Functions that are mixtures of latent GPs that depend on each other under the posterior."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from check_shapes import inherit_check_shapes

from mogp.linalg import cholesky
from mogp.priors.base import Conditional, Marginals


class CorrelatedLatents(Conditional):
    r"""Functions $f_j = w_j^\top g + b_j$ of latent GPs with covariances $C(x)$ between them.

    $\mathrm{var} f_j(x) = w_j^\top C(x) w_j$ and
    $\mathrm{cov}(f_j(x), f_{j'}(x)) = w_j^\top C(x) w_{j'}$.

    Args:
        mean: of the latent GPs, `[L, N]`.
        cov: between latent GPs at each row, `[L, N, L]`.
        W: `[J, L]`; the identity if None.
        bias: $b$, `[J]`, or None.

    >>> import tensorflow as tf
    >>> from mogp.priors import CorrelatedLatents
    >>> C = tf.constant([[[1.0, 0.5]], [[0.5, 1.0]]])
    >>> W = tf.constant([[1.0, 1.0], [1.0, -1.0]])
    >>> CorrelatedLatents(tf.zeros([2, 1]), C, W, None).marginals(range(2)).var.numpy().tolist()
    [[3.0, 1.0]]
    """

    def __init__(self, mean: tf.Tensor, cov: tf.Tensor, W: Any | None, bias: Any | None) -> None:
        identity = W is None
        self._mean, self._cov = mean, cov
        self._W = tf.eye(mean.shape[0], dtype=mean.dtype) if identity else tf.convert_to_tensor(W)
        self._bias = tf.zeros_like(self._W[:, 0]) if bias is None else tf.convert_to_tensor(bias)

    @inherit_check_shapes
    def marginals(
        self,
        functions: range | tf.Tensor,
        rows: tf.Tensor | None = None,
        full_output_cov: bool = False,
    ) -> Marginals:
        """Marginals of mixtures: see `Conditional.marginals`."""
        W, bias = _of(self._W, functions), _of(self._bias, functions)
        mean, C = self._by_input(rows)
        if W.shape.rank == 2:
            mixed = tf.linalg.matmul(mean, W, transpose_b=True) + bias
        else:
            mixed = tf.linalg.matvec(W, mean) + bias
        return Marginals(mixed, _spread(W, C, full_output_cov))

    @inherit_check_shapes
    def contrasts(
        self,
        functions: tf.Tensor,
        reference: tf.Tensor,
        rows: tf.Tensor | None = None,
        independent: bool = False,
    ) -> Marginals:
        """Marginals of differences, which are mixtures too, with the difference of the weights."""
        both = tf.concat([reference[:, None], functions], 1)
        if independent:
            f = self.marginals(both, rows)
            return Marginals(f.mean[:, 1:] - f.mean[:, :1], f.var[:, 1:] + f.var[:, :1])
        W, bias = tf.gather(self._W, both), tf.gather(self._bias, both)
        W, bias = W[:, 1:] - W[:, :1], bias[:, 1:] - bias[:, :1]
        mean, C = self._by_input(rows)
        return Marginals(tf.linalg.matvec(W, mean) + bias, _spread(W, C, False))

    @inherit_check_shapes
    def points(
        self, functions: range, noise: tf.Tensor, rows: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Draws at each row by itself, from a factor of the covariances there."""
        mean, C = self._by_input(rows)
        L = cholesky(C, name="the covariance of the latent GPs at a row")
        noise = tf.broadcast_to(noise, tf.concat([tf.shape(noise)[:1], tf.shape(mean)], 0))
        latents = mean + tf.einsum("nlk,snk->snl", L, noise)
        W, bias = _of(self._W, functions), _of(self._bias, functions)
        return tf.linalg.matmul(latents, W, transpose_b=True) + bias

    @property
    def num_latents(self) -> int:
        """The number of latent GPs, `L`."""
        return int(self._mean.shape[0])

    @property
    def num_rows(self) -> int | None:
        """The number of inputs, `N`."""
        rows: int | None = self._mean.shape[1]
        return rows

    @inherit_check_shapes
    def draws(self, functions: range, samples: int, seed: int) -> tf.Tensor:
        """Not known without covariances between rows: see `CorrelatedCurves`."""
        raise ValueError("joint draws over rows need covariances between them: full_cov=True.")

    @inherit_check_shapes
    def covariances(self, functions: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Not known without covariances between rows: see `CorrelatedCurves`."""
        raise ValueError("covariances between rows need full_cov=True.")

    def _by_input(self, rows: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean `[N, L]` and covariance `[N, L, L]` of the latent GPs at each row."""
        mean, C = tf.transpose(self._mean), tf.transpose(self._cov, [1, 0, 2])
        return (mean, C) if rows is None else (tf.gather(mean, rows), tf.gather(C, rows))


class CorrelatedCurves(Conditional):
    r"""The same functions with covariances between rows, $C_{ll'} = \mathbb 1[l = l'] K_l + R_l
    R_{l'}^\top$.

    $K_l$ is what the inducing variables leave open, and $R_l$ `[N, V]` how the latent GP moves with
    all of them: the covariance of all latent GPs at all rows, `[L N, L N]`, is never formed.

    Args:
        mean: of the latent GPs, `[L, N]`.
        residual: $K$, `[L, N, N]`.
        told: $R$, `[L, N, V]`.
        W: `[J, L]`; the identity if None.
        bias: `[J]`, or None.

    >>> import tensorflow as tf
    >>> from mogp.priors import CorrelatedCurves
    >>> R = tf.constant([[[1.0]], [[1.0]]])
    >>> curves = CorrelatedCurves(tf.zeros([2, 1]), tf.ones([2, 1, 1]), R, None, None)
    >>> curves.covariances(tf.constant([0]), tf.constant([0]))[0].numpy().tolist()
    [[2.0], [1.0]]
    """

    def __init__(
        self,
        mean: tf.Tensor,
        residual: tf.Tensor,
        told: tf.Tensor,
        W: Any | None,
        bias: Any | None,
    ) -> None:
        self._mean, self._residual, self._told = mean, residual, told
        C = tf.einsum("lnv,knv->lnk", told, told)
        apart = tf.linalg.diag(tf.transpose(tf.linalg.diag_part(residual)))
        self._rows = CorrelatedLatents(mean, C + tf.transpose(apart, [1, 0, 2]), W, bias)
        self._W, self._bias = self._rows._W, self._rows._bias

    @inherit_check_shapes
    def marginals(
        self,
        functions: range | tf.Tensor,
        rows: tf.Tensor | None = None,
        full_output_cov: bool = False,
    ) -> Marginals:
        """Marginals with covariances `[J, N, N]` between rows."""
        mean, K, R = self._mean, self._residual, self._told
        if rows is not None:
            mean, K, R = (tf.gather(a, rows, axis=1) for a in (mean, K, R))
            K = tf.gather(K, rows, axis=2)
        W, bias = _of(self._W, functions), _of(self._bias, functions)
        half = tf.tensordot(W, R, 1)
        var = tf.linalg.matmul(half, half, transpose_b=True) + tf.tensordot(W * W, K, 1)
        return Marginals(tf.transpose(tf.linalg.matmul(W, mean)) + bias, var)

    @inherit_check_shapes
    def contrasts(
        self,
        functions: tf.Tensor,
        reference: tf.Tensor,
        rows: tf.Tensor | None = None,
        independent: bool = False,
    ) -> Marginals:
        """Marginals of differences at each row."""
        return self._rows.contrasts(functions, reference, rows, independent)

    @inherit_check_shapes
    def points(
        self, functions: range, noise: tf.Tensor, rows: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Draws at each row by itself."""
        return self._rows.points(functions, noise, rows)

    @property
    def num_latents(self) -> int:
        """The number of latent GPs, `L`."""
        return self._rows.num_latents

    @property
    def num_rows(self) -> int | None:
        """The number of inputs, `N`."""
        return self._rows.num_rows

    @inherit_check_shapes
    def draws(self, functions: range, samples: int, seed: int) -> tf.Tensor:
        """Joint draws: of the inducing variables first, then of what they leave open."""
        L, N = self._mean.shape
        dtype, V = self._told.dtype, self._told.shape[-1]
        root = cholesky(self._residual, name="the covariance of the latent GPs")
        moved = tf.random.stateless_normal([samples, V], [seed, 0], dtype=dtype)
        apart = tf.random.stateless_normal([samples, L, N, 1], [seed, 13], dtype=dtype)
        latents = self._mean + tf.einsum("lnv,sv->sln", self._told, moved)
        latents += tf.linalg.matmul(root, apart)[..., 0]
        W, bias = _of(self._W, functions), _of(self._bias, functions)
        return tf.einsum("jl,sln->snj", W, latents) + bias

    @inherit_check_shapes
    def covariances(self, functions: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Covariances over rows and functions: see `Conditional.covariances`."""
        W = tf.gather(self._W, functions)
        told = tf.einsum("gl,lgv->gv", W, tf.gather(self._told, rows, axis=1))
        half = tf.tensordot(self._W, self._told, 1)
        apart = tf.gather(self._residual, rows, axis=2)
        return tf.einsum("jnv,gv->njg", half, told) + tf.einsum("jl,gl,lng->njg", self._W, W, apart)


def _of(values: tf.Tensor, functions: range | tf.Tensor) -> tf.Tensor:
    """Rows of the functions named."""
    if isinstance(functions, range):
        return values[functions.start : functions.stop]
    return tf.gather(values, functions)


def _spread(W: tf.Tensor, C: tf.Tensor, full: bool) -> tf.Tensor:
    """`w' C w` `[N, S]`, or `W C W'` `[N, S, S]`, for weights `[S, L]` or `[N, S, L]`."""
    half = tf.linalg.matmul(W, C)
    return tf.linalg.matmul(half, W, transpose_b=True) if full else tf.reduce_sum(half * W, -1)
