"""Predictions of a `LatentMOGP`: the latent variables of outputs are integrated out, or drawn."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from mogp.compiling import repeated
from mogp.data import MultiOutputData
from mogp.data.padded import PaddedBatch, PaddedSource
from mogp.data.replicas import replica_numbers
from mogp.inducing import ReplicaPoints
from mogp.kernels import KernelStack
from mogp.likelihoods import sample_y
from mogp.models.latent_likelihood import noise_of, on_rows
from mogp.models.latent_moments import (
    Latents,
    covariances,
    curves,
    given_latent,
    moments,
    over_latents,
)
from mogp.models.latent_terms import at_rows
from mogp.models.replicas import LEAST_VARIANCE, ReplicatedMOGP
from mogp.posteriors import GridFactors, JointGrid, Kronecker, Projected
from mogp.priors import Marginals

_MOST_JOINT = 4096


class PredictsLatents(ReplicatedMOGP):
    """The half of `LatentMOGP` that predicts; the other half has the parameters and the bound."""

    compiles = True
    kernels: KernelStack
    inducing: ReplicaPoints
    likelihood: Any
    posterior: Kronecker | JointGrid
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
    def factors(self, K_x: tf.Tensor | None = None) -> GridFactors:
        """The covariances of the inducing variables, factorised."""

    @abstractmethod
    def _at(self, X: tf.Tensor) -> tuple[GridFactors, Projected]: ...

    @abstractmethod
    def _of(self, outputs: tf.Tensor) -> tuple[Latents, Any]: ...

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
        factors, x = self._at_all(X)
        m, e = moments(factors, x, self._of(_numbers(outputs))[0])
        return Marginals(
            tf.transpose(m), tf.transpose(tf.maximum(e - tf.square(m), LEAST_VARIANCE))
        )

    def _covariances(self, X: tf.Tensor, outputs: Sequence[int]) -> Marginals:
        """The same with covariances between rows, `[len(outputs), N, N]`."""
        m, cov = covariances(*self._joint(X), self._of(_numbers(outputs))[0])
        return Marginals(tf.transpose(m), cov)

    def _at_all(self, X: tf.Tensor) -> tuple[GridFactors, Projected]:
        """What is known of rows that all outputs share, `[1, N]`."""
        factors, x = self._at(X)
        return factors, Projected(*(a[None] for a in x))

    def _joint(self, X: tf.Tensor) -> tuple[GridFactors, Projected]:
        """The same with covariances between rows."""
        factors = self.factors()
        Kuf, Kff = self.inducing.Kuf(self.kernels, X)[0], self.kernels.K(X)[0]
        return factors, self.posterior.project(factors, Kuf, Kff)

    def _predict_y(self, X: tf.Tensor, outputs: Sequence[int]) -> Marginals:
        parts = [self._targets(at, some) for at, some in self._told_apart(X, outputs)]
        return Marginals(*(tf.concat(same, 1) for same in zip(*parts, strict=True)))

    def _targets(self, X: tf.Tensor, outputs: Sequence[int]) -> Marginals:
        """Mean and variance of targets `[N, len(outputs)]`, by the rule over $q(h)$ unless they
        are Gaussian.
        """
        numbers = _numbers(outputs)
        latents, likelihood = self._of(numbers)
        noise = noise_of(likelihood, numbers)
        if noise is not None:
            f = self._variances(X, outputs)
            return Marginals(f.mean, f.var + noise)
        f, weights = over_latents(*self._at_all(X), latents, self.nodes)
        y_mean, y_var = on_rows(likelihood, "predict_mean_and_var", f)
        m = tf.tensordot(weights, y_mean, [[0], [1]])
        e = tf.tensordot(weights, y_var + tf.square(y_mean), [[0], [1]])
        return Marginals(tf.transpose(m), tf.transpose(e - tf.square(m)))

    def _log_densities(self, data: MultiOutputData) -> dict[str, tf.Tensor]:
        """The density is a mixture over `q(h)`, by the rule with `nodes` nodes. (The documents
        score Gaussian outputs by a normal density with the two moments of `predict_y`.)
        """
        source = PaddedSource(data)
        batch = source(0)
        mixed = repeated(lambda: self._densities(batch))
        return {
            name: mixed[d, :size]
            for d, (name, size) in enumerate(zip(self.names, source.sizes, strict=True))
        }

    def _densities(self, batch: PaddedBatch) -> tf.Tensor:
        """Log predictive densities of padded rows, `[D, N]`."""
        latents, likelihood = self._of(batch.outputs)
        f, weights = over_latents(*at_rows(self._at, batch), latents, self.nodes)
        Y = tf.broadcast_to(batch.Y[:, None], tf.shape(f.mean))
        density = on_rows(likelihood, "predict_log_density", f, Y)
        return tf.reduce_logsumexp(density + tf.math.log(weights)[:, None], 1)

    def _draw_f(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
        """A latent variable for each output, then curves of all of them together."""
        D, N, Q = len(outputs), X.shape[0], self.latent_dim
        if D * N > _MOST_JOINT:
            raise ValueError(
                f"joint draws of {D} outputs at {N} rows need a covariance of {D * N} rows; name an"
                " output, or ask for fewer rows."
            )
        where = tf.concat([self._own(X, d) for d in outputs], 0)
        factors, x = self._joint(where)
        latents, _ = self._of(_numbers(outputs))
        noise = tf.random.stateless_normal([samples, D, Q], [seed, 1], dtype=X.dtype)
        h = latents.mean + tf.sqrt(latents.var) * noise
        normal = tf.random.stateless_normal([samples, D * N], [seed, 2], dtype=X.dtype)
        size = max(1, _MOST_JOINT**2 // max(1, D * N) ** 2)
        parts = [
            curves(factors, x, latents, h[s : s + size], normal[s : s + size], [seed, -1 - s])
            for s in range(0, samples, size)
        ]
        return tf.transpose(tf.reshape(tf.concat(parts, 0), [samples, D, N]), [0, 2, 1])

    def _draw_y(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
        F = self._draw_f(X, outputs, samples, seed)
        return tf.concat(
            [self._noisy(F[..., i : i + 1], d, seed) for i, d in enumerate(outputs)], -1
        )

    def _draw_y_apart(self, X: tf.Tensor, output: int, samples: int, seed: int) -> tf.Tensor:
        latents, _ = self._of(_numbers([output]))
        shape = [1, samples, self.latent_dim]
        noise = tf.random.stateless_normal(shape, [seed, 1], dtype=X.dtype)
        h = latents.mean + tf.sqrt(latents.var) * noise
        f = given_latent(*self._at_all(self._own(X, output)), latents, h)
        normal = tf.random.stateless_normal([samples, X.shape[0]], [seed, 2], dtype=X.dtype)
        return self._noisy((f.mean[0] + tf.sqrt(f.var[0]) * normal)[..., None], output, seed)

    def _noisy(self, F: tf.Tensor, output: int, seed: int) -> tf.Tensor:
        """Draws of the targets of one output, given draws `[S, N, 1]` of its function."""
        _, likelihood = self._of(_numbers([output]))
        return sample_y(likelihood, F, [seed, 3 + output])


def _numbers(outputs: Sequence[int]) -> tf.Tensor:
    return tf.constant(list(outputs), tf.int64)
