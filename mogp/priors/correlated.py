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
        cov: between latent GPs at each row `[L, N, L]`, or also between rows `[L, N, L, N]`.
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
        W, bias = self._rows_of(self._W, functions), self._rows_of(self._bias, functions)
        if self._cov.shape.rank == 4:
            mean, cov = self._mean, self._cov
            if rows is not None:
                mean, cov = tf.gather(mean, rows, axis=1), tf.gather(cov, rows, axis=1)
                cov = tf.gather(cov, rows, axis=3)
            half = tf.tensordot(W, cov, 1)
            var = tf.einsum("jk,jnkm->jnm", W, half)
            return Marginals(tf.transpose(tf.linalg.matmul(W, mean)) + bias, var)
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
        W, bias = self._rows_of(self._W, functions), self._rows_of(self._bias, functions)
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
        """Joint draws of all latent GPs over all inputs, mixed."""
        L, N = self._mean.shape
        root = cholesky(
            tf.reshape(self._cov, [L * N, L * N]), name="the covariance of the latent GPs"
        )
        normal = tf.random.stateless_normal([samples, L * N], [seed, 0], dtype=root.dtype)
        apart = tf.linalg.matmul(normal, root, transpose_b=True)
        latents = self._mean + tf.reshape(apart, [samples, L, N])
        W, bias = self._rows_of(self._W, functions), self._rows_of(self._bias, functions)
        return tf.einsum("jl,sln->snj", W, latents) + bias

    @inherit_check_shapes
    def covariances(self, functions: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Covariances over rows and functions: see `Conditional.covariances`."""
        found = tf.gather(self._cov, rows, axis=3)
        told = tf.einsum("lnkg,gk->lng", found, tf.gather(self._W, functions))
        return tf.einsum("jl,lng->njg", self._W, told)

    def _by_input(self, rows: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean `[N, L]` and covariance `[N, L, L]` of the latent GPs at each row."""
        mean, C = tf.transpose(self._mean), tf.transpose(self._cov, [1, 0, 2])
        return (mean, C) if rows is None else (tf.gather(mean, rows), tf.gather(C, rows))

    @staticmethod
    def _rows_of(values: tf.Tensor, functions: range | tf.Tensor) -> tf.Tensor:
        if isinstance(functions, range):
            return values[functions.start : functions.stop]
        return tf.gather(values, functions)


def _spread(W: tf.Tensor, C: tf.Tensor, full: bool) -> tf.Tensor:
    """`w' C w` `[N, S]`, or `W C W'` `[N, S, S]`, for weights `[S, L]` or `[N, S, L]`."""
    half = tf.linalg.matmul(W, C)
    return tf.linalg.matmul(half, W, transpose_b=True) if full else tf.reduce_sum(half * W, -1)
