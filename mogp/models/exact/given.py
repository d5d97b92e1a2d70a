"""Predictions of exact models at rows where targets of some outputs are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from mogp.data import Array
from mogp.linalg import cholesky
from mogp.models.given import Predictor, settled
from mogp.priors import Marginals


class ToldGaussian(Predictor):
    r"""Functions and targets of $D$ outputs at $N$ rows, given some of the targets.

    With $f \sim N(m, C)$, $y = f + \epsilon$ and $\Sigma$ the noise of the outputs at a row, the
    targets have covariance $C + \Sigma \otimes I_N$; functions and targets are conditioned on those
    that are known, as in `mogp.models.given`.

    Args:
        mean: `[D, N]`, of the functions, output after output.
        cov: `[D N, D N]`, of the functions.
        noise: $\Sigma$ `[D, D]`.
        known: targets `[N]` by output, NaN where not known.
    """

    def __init__(
        self, mean: tf.Tensor, cov: tf.Tensor, noise: tf.Tensor, known: Mapping[int, Array]
    ) -> None:
        self._known, self._shape = known, [int(n) for n in mean.shape]
        D, N = self._shape
        table = np.full((D, N), np.nan)
        for d, values in known.items():
            table[d] = values
        where = np.flatnonzero(~np.isnan(table))
        shared = noise[:, None, :, None] * tf.eye(N, dtype=cov.dtype)[:, None]
        noisy = cov + tf.reshape(shared, cov.shape)
        L = cholesky(
            tf.gather(tf.gather(noisy, where), where, axis=1),
            jitter=0.0,
            name="the covariance of the targets that are given",
        )
        flat = tf.reshape(mean, [-1])
        residual = tf.constant(table.reshape(-1)[where], flat.dtype) - tf.gather(flat, where)
        pull = tf.linalg.triangular_solve(L, residual[:, None])

        def told(joint: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            A = tf.linalg.triangular_solve(L, tf.gather(joint, where))
            moved = flat + tf.linalg.matmul(A, pull, transpose_a=True)[:, 0]
            return moved, joint - tf.linalg.matmul(A, A, transpose_a=True)

        f_mean, f_cov = told(cov)
        # What is known of the targets moves their functions, and with them their means, but also
        # the noise that outputs share at a row.
        y_mean, y_cov = told(noisy)
        self._f, self._y = (f_mean, f_cov), (y_mean, y_cov)

    def _some(
        self, joint: tuple[tf.Tensor, tf.Tensor], outputs: Sequence[int]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean `[k, N]` and covariance `[k, N, k, N]` of some outputs."""
        D, N = self._shape
        mean, cov = tf.reshape(joint[0], [D, N]), tf.reshape(joint[1], [D, N, D, N])
        own = list(outputs)
        return tf.gather(mean, own), tf.gather(tf.gather(cov, own), own, axis=2)

    def _marginals(self, joint: tuple[tf.Tensor, tf.Tensor], outputs: Sequence[int]) -> Marginals:
        mean, cov = self._some(joint, outputs)
        return Marginals(tf.transpose(mean), tf.transpose(tf.nn.relu(tf.einsum("dndn->dn", cov))))

    def _draws(
        self, joint: tuple[tf.Tensor, tf.Tensor], outputs: Sequence[int], samples: int, seed: int
    ) -> tf.Tensor:
        mean, cov = self._some(joint, outputs)
        k, N = mean.shape
        L = cholesky(tf.reshape(cov, [k * N, k * N]), name="the covariance of the draws")
        normal = tf.random.stateless_normal([samples, k * N], [seed, 0], dtype=L.dtype)
        drawn = tf.linalg.matmul(normal, L, transpose_b=True)
        return tf.transpose(tf.reshape(drawn, [samples, k, N]) + mean, [0, 2, 1])

    def _predict_f(self, X: tf.Tensor, outputs: Sequence[int], full_cov: bool = False) -> Marginals:
        if not full_cov:
            return self._marginals(self._f, outputs)
        mean, cov = self._some(self._f, outputs)
        return Marginals(tf.transpose(mean), tf.einsum("dndm->dnm", cov))

    def _predict_y(self, X: tf.Tensor, outputs: Sequence[int]) -> Marginals:
        mean, var = self._marginals(self._y, outputs)
        nothing = {d: 0 * known for d, known in self._known.items()}
        return Marginals(
            self._settled(mean, outputs, self._known), self._settled(var, outputs, nothing)
        )

    def _draw_f(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
        return self._draws(self._f, outputs, samples, seed)

    def _draw_y(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
        drawn = self._draws(self._y, outputs, samples, seed)
        return self._settled(drawn, outputs, self._known)

    def _draw_y_apart(self, X: tf.Tensor, output: int, samples: int, seed: int) -> tf.Tensor:
        mean, var = self._predict_y(X, [output])
        shape = [samples, *mean.shape]
        return mean + tf.sqrt(var) * tf.random.stateless_normal(shape, [seed, 2], dtype=mean.dtype)

    @staticmethod
    def _settled(
        values: tf.Tensor, outputs: Sequence[int], known: Mapping[int, Array]
    ) -> tf.Tensor:
        columns = tf.split(values, len(outputs), -1)
        return tf.concat(
            [settled(own, known.get(d)) for own, d in zip(columns, outputs, strict=True)], -1
        )
