"""Predictions of a `LatentMOGP`: the latent variables of outputs are integrated out, or drawn."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from mogp.data import MultiOutputData
from mogp.data.padded import PaddedBatch, PaddedSource
from mogp.data.replicas import replica_numbers
from mogp.inducing import ReplicaPoints
from mogp.kernels import KernelStack
from mogp.likelihoods import sample_y
from mogp.models.latent_terms import (
    GridFactors,
    Projected,
    curves,
    expectations,
    given_latent,
    latent_nodes,
    moments,
    on_rows,
)
from mogp.models.replicas import LEAST_VARIANCE, ReplicatedMOGP
from mogp.priors import Marginals

_MOST_JOINT = 4096


class PredictsLatents(ReplicatedMOGP):
    """The half of `LatentMOGP` that predicts; the other half has the parameters and the bound."""

    kernels: KernelStack
    inducing: ReplicaPoints
    likelihood: Any
    noise: gpflow.Parameter
    q_sqrt_x: gpflow.Parameter
    nodes: int

    @property
    @abstractmethod
    def num_outputs(self) -> int:
        """$D$."""

    @property
    @abstractmethod
    def latent_dim(self) -> int:
        """$Q_H$."""

    @abstractmethod
    def factors(self, Kuu: tf.Tensor | None = None) -> GridFactors:
        """The covariances of the inducing variables, factorised."""

    @abstractmethod
    def _at(self, X: tf.Tensor) -> tuple[GridFactors, Projected]: ...

    @abstractmethod
    def _at_rows(self, batch: PaddedBatch) -> tuple[GridFactors, Projected]: ...

    @abstractmethod
    def _latent(self, outputs: tf.Tensor | None) -> Marginals: ...

    @abstractmethod
    def _of(self, parameter: gpflow.Parameter, outputs: tf.Tensor) -> tf.Tensor: ...

    def _given_latent(
        self, x: Projected, mean: tf.Tensor, var: tf.Tensor, factors: GridFactors
    ) -> tuple[Marginals, tf.Tensor]:
        """Mean and variance `[B, S, n]` of the functions given each of `S` values of `h`, and the
        weights `[S]`.
        """
        nodes, weights = latent_nodes(self.latent_dim, self.nodes)
        h = mean[:, None] + tf.sqrt(var)[:, None] * tf.constant(nodes, mean.dtype)
        return given_latent(factors, x, h), tf.constant(weights, mean.dtype)

    def _predict_f(self, X: tf.Tensor, outputs: Sequence[int], full_cov: bool = False) -> Marginals:
        rule = self._covariances if full_cov else self._variances
        parts = [rule(at, some) for at, some in self._told_apart(X, outputs)]
        mean, var = zip(*parts, strict=True)
        return Marginals(tf.concat(mean, 1), tf.concat(var, 0 if full_cov else 1))

    def _told_apart(
        self, X: tf.Tensor, outputs: Sequence[int]
    ) -> list[tuple[tf.Tensor, Sequence[int]]]:
        """Inputs and outputs that go together: where replicas are nested, an output has its own
        numbers.
        """
        if not self.schema.nested:
            return [(X, outputs)]
        return [(self._own(X, d), [d]) for d in outputs]

    def _own(self, X: tf.Tensor, output: int) -> tf.Tensor:
        """Inputs with the replica numbers that the kernel knows."""
        number = replica_numbers(X[:, -1:], output, self.num_outputs, self.schema.nested)
        return tf.concat([X[:, :-1], number], 1)

    def _variances(self, X: tf.Tensor, outputs: Sequence[int]) -> Marginals:
        """Mean and variance `[N, len(outputs)]`, with the latent variables integrated out."""
        factors, x = self._at(X)
        m, e = moments(
            factors,
            Projected(*(a[None] for a in x)),
            self._latent(tf.constant(list(outputs), tf.int64)),
        )
        return Marginals(
            tf.transpose(m), tf.transpose(tf.maximum(e - tf.square(m), LEAST_VARIANCE))
        )

    def _covariances(self, X: tf.Tensor, outputs: Sequence[int]) -> Marginals:
        """The same with covariances between rows, `[len(outputs), N, N]`."""
        factors, A, TA = self._projected(X)
        latent = self._latent(tf.constant(list(outputs), tf.int64))
        Psi, Phi, prior, posterior = expectations(factors, latent)
        E = tf.linalg.matmul(A, factors.mean, transpose_a=True)
        m = tf.linalg.matmul(Psi, E, transpose_b=True)
        cov = (
            factors.kernel.variance * self.kernels.K(X)[0]
            - prior[:, None, None] * tf.linalg.matmul(A, A, transpose_a=True)
            + posterior[:, None, None] * tf.linalg.matmul(TA, TA, transpose_a=True)
            + tf.linalg.matmul(tf.linalg.matmul(E, Phi), E, transpose_b=True)
            - m[:, :, None] * m[:, None, :]
        )
        return Marginals(tf.transpose(m), cov)

    def _projected(self, X: tf.Tensor) -> tuple[GridFactors, tf.Tensor, tf.Tensor]:
        r"""The factors, $a_n$ and $T_X^\top a_n$ `[M_X, N]`."""
        factors = self.factors()
        A = tf.linalg.triangular_solve(factors.L_x, self.inducing.Kuf(self.kernels, X)[0])
        return factors, A, tf.linalg.matmul(self.q_sqrt_x, A, transpose_a=True)

    def _predict_y(self, X: tf.Tensor, outputs: Sequence[int]) -> Marginals:
        if self.likelihood is None:
            f = self._predict_f(X, outputs)
            return Marginals(f.mean, f.var + tf.gather(self.noise, list(outputs)))
        parts = [self._integrated(at, some) for at, some in self._told_apart(X, outputs)]
        return Marginals(*(tf.concat(same, 1) for same in zip(*parts, strict=True)))

    def _integrated(self, X: tf.Tensor, outputs: Sequence[int]) -> Marginals:
        """Mean and variance of targets that are not Gaussian, by the rule over $q(h)$."""
        factors, x = self._at(X)
        latent = self._latent(tf.constant(list(outputs), tf.int64))
        f, weights = self._given_latent(Projected(*(a[None] for a in x)), *latent, factors)
        y_mean, y_var = on_rows(self.likelihood.predict_mean_and_var, f)
        m = tf.tensordot(weights, y_mean, [[0], [1]])
        e = tf.tensordot(weights, y_var + tf.square(y_mean), [[0], [1]])
        return Marginals(tf.transpose(m), tf.transpose(e - tf.square(m)))

    def predict_log_density(self, data: MultiOutputData) -> dict[str, tf.Tensor]:
        """Log predictive density of every observed target, `[N_d]` for each output by name.

        The density is a mixture over `q(h)`, by the rule with `nodes` nodes. (The documents score
        Gaussian outputs by a normal density with the two moments of `predict_y`.)
        """
        source = PaddedSource(self.aligned(data))
        batch = source(0)
        factors, x = self._at_rows(batch)
        f, weights = self._given_latent(x, *self._latent(batch.outputs), factors)
        Y = tf.broadcast_to(batch.Y[:, None], tf.shape(f.mean))
        if self.likelihood is None:
            var = f.var + self._of(self.noise, batch.outputs)[:, None, None]
            density = -0.5 * (tf.math.log(2 * np.pi * var) + tf.square(Y - f.mean) / var)
        else:
            density = on_rows(self.likelihood.predict_log_density, f, Y)
        mixed = tf.reduce_logsumexp(density + tf.math.log(weights)[:, None], 1)
        found = {
            name: mixed[d, :size]
            for d, (name, size) in enumerate(zip(self.names, source.sizes, strict=True))
        }
        return self.of_data(found, data)

    def _draw_f(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
        """A latent variable for each output, then curves of all of them together."""
        D, N, Q = len(outputs), X.shape[0], self.latent_dim
        if D * N > _MOST_JOINT:
            raise ValueError(
                f"joint draws of {D} outputs at {N} rows need a covariance of {D * N} rows; name an"
                " output, or ask for fewer rows."
            )
        where = tf.concat([self._own(X, d) for d in outputs], 0)
        factors, A, TA = self._projected(where)
        mean, var = self._latent(tf.constant(list(outputs), tf.int64))
        noise = tf.random.stateless_normal([samples, D, Q], [seed, 1], dtype=X.dtype)
        h = mean + tf.sqrt(var) * noise
        normal = tf.random.stateless_normal([samples, D * N], [seed, 2], dtype=X.dtype)
        covariances = (
            self.kernels.K(where)[0],
            tf.linalg.matmul(A, A, transpose_a=True),
            tf.linalg.matmul(TA, TA, transpose_a=True),
        )
        E = tf.linalg.matmul(A, factors.mean, transpose_a=True)
        size = max(1, _MOST_JOINT**2 // max(1, D * N) ** 2)
        parts = [
            curves(factors, E, covariances, h[s : s + size], normal[s : s + size])
            for s in range(0, samples, size)
        ]
        return tf.transpose(tf.reshape(tf.concat(parts, 0), [samples, D, N]), [0, 2, 1])

    def _draw_y(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
        F = self._draw_f(X, outputs, samples, seed)
        return tf.concat(
            [self._noisy(F[..., i : i + 1], d, seed) for i, d in enumerate(outputs)], -1
        )

    def _draw_y_apart(self, X: tf.Tensor, output: int, samples: int, seed: int) -> tf.Tensor:
        factors, x = self._at(self._own(X, output))
        mean, var = self._latent(tf.constant([output], tf.int64))
        shape = [1, samples, self.latent_dim]
        h = mean + tf.sqrt(var) * tf.random.stateless_normal(shape, [seed, 1], dtype=X.dtype)
        f = given_latent(factors, Projected(*(a[None] for a in x)), h)
        normal = tf.random.stateless_normal([samples, X.shape[0]], [seed, 2], dtype=X.dtype)
        return self._noisy((f.mean[0] + tf.sqrt(f.var[0]) * normal)[..., None], output, seed)

    def _noisy(self, F: tf.Tensor, output: int, seed: int) -> tf.Tensor:
        """Draws of the targets of one output, given draws `[S, N, 1]` of its function."""
        if self.likelihood is not None:
            return sample_y(self.likelihood, F, [seed, 3 + output])
        normal = tf.random.stateless_normal(tf.shape(F), [seed, 3 + output], dtype=F.dtype)
        return F + tf.sqrt(self.noise[output]) * normal
