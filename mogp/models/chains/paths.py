"""Predictions of models that send rows through a chain along sampled paths."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
from gpflow.kernels import Kernel

from mogp.data import Array, MultiOutputData
from mogp.kernels import parameters_read_once
from mogp.likelihoods import PerOutput, sample_y
from mogp.linalg import cholesky
from mogp.models.base import Given, check_samples
from mogp.models.chains.path_model import (
    PathMOGP,
    Paths,
    check_known,
    total_variance,
)
from mogp.models.chains.weights import weighted_paths
from mogp.posteriors import Factors, Full
from mogp.priors import Marginals

_NUMBERS_AT_ONCE = 1 << 22
_MOST_PATHS = 1 << 16


class PredictsPaths(PathMOGP):
    r"""Predictions from `samples` paths: mixtures of $S$ Gaussians for each function.

    With $\mu_r, s_r^2$ the moments of a function along path $r$,
    $\mathbb E\,h = \frac1S\sum_r\mu_r$ and
    $\mathrm{Var}\,h = \frac1S\sum_r s_r^2 + \mathrm{Var}_r\,\mu_r$. The paths of a call depend on
    `seed` and on the place of a row among the rows, and on nothing else.
    """

    likelihood: PerOutput
    functions: tuple[Mapping[int, float], ...]
    location: Array
    scale: Array

    @property
    @abstractmethod
    def num_gps(self) -> int:
        """GPs in the chain."""

    @property
    @abstractmethod
    def num_inducing(self) -> int:
        """Inducing variables of a GP."""

    @abstractmethod
    def layers(self) -> Sequence[Any]:
        """What all rows share."""

    @abstractmethod
    def run(
        self,
        X: tf.Tensor,
        noise: tf.Tensor,
        layers: Sequence[Any] | None = None,
        given: Mapping[int, tf.Tensor] | None = None,
    ) -> Paths:
        """Send rows through the chain."""

    @abstractmethod
    def number_of(self, output: int | str) -> int:
        """The GP that is the one function of an output."""

    def paths(
        self,
        Xnew: Any,
        samples: int = 100,
        seed: int = 0,
        given: Given = None,
    ) -> Paths:
        """Sampled paths of the rows `Xnew [N, P]`, in the model's units.

        Args:
            Xnew: where.
            samples: paths, `S`.
            seed: of the draws.
            given: see `predict_f`.
        """
        return self._paths(self.at(Xnew), samples, seed, given)

    def _paths(self, X: tf.Tensor, samples: int = 100, seed: int = 0, given: Given = None) -> Paths:
        check_samples(samples)
        known = self._given(given, int(X.shape[0]))
        if not known:
            return self._forward(X, samples, seed, {})

        def propose(rows: Array, count: int) -> tuple[list[Array], Array]:
            at = tf.gather(X, rows)
            own = {d: tf.gather(values, rows) for d, values in known.items()}
            found = self._forward(at, count, seed, own)
            log_density = sum(self._log_density(at, found, d, values) for d, values in own.items())
            return [np.asarray(a) for a in self._drawn(found, own)], np.asarray(log_density)

        kept = weighted_paths(propose, int(X.shape[0]), samples, _MOST_PATHS)
        return Paths(*(tf.constant(a, X.dtype) for a in kept))

    def _forward(
        self, X: tf.Tensor, samples: int, seed: int, known: Mapping[int, tf.Tensor]
    ) -> Paths:
        """Paths of rows in parts; targets that are known `[N]`, by output, in place of draws."""
        N = int(X.shape[0])
        fixed = {self.number_of(d): values for d, values in known.items()}
        noise = tf.random.stateless_normal([self.num_gps, samples, N], [seed, 0], dtype=X.dtype)
        rows = max(1, _NUMBERS_AT_ONCE // (samples * self.num_inducing))
        with parameters_read_once():
            layers = self.layers()
            parts = [
                self.run(
                    X[start : start + rows],
                    noise[..., start : start + rows],
                    layers,
                    {c: values[start : start + rows] for c, values in fixed.items()},
                )
                for start in range(0, max(N, 1), rows)
            ]
        return Paths(*(tf.concat(same, 1) for same in zip(*parts, strict=True)))

    def _drawn(self, paths: Paths, known: Mapping[int, tf.Tensor]) -> list[tf.Tensor]:
        """Means, variances and draws; weights rest on draws of GPs before one that is known, and
        there these take the place of the moments.
        """
        mean, var, draws = paths[:3]
        last = np.max([np.where(np.isnan(y), -1, self.number_of(d)) for d, y in known.items()], 0)
        numbers = np.array([max(weights) for weights in self.functions])
        before = numbers < last[:, None]
        return [tf.where(before, draws, mean), tf.where(before, tf.zeros_like(var), var), draws]

    def _log_density(self, X: tf.Tensor, paths: Paths, d: int, y: tf.Tensor) -> tf.Tensor:
        """`[S, N]`, of the targets of an output that are known, along each path; 0 for others."""
        there = ~tf.math.is_nan(y)
        f = paths.of(self.likelihood.functions(d))
        S = paths.number
        Y = tf.tile(tf.where(there, y, tf.zeros_like(y))[:, None], [S, 1])
        tiled = tf.tile(X, [S, 1])
        log_p = self.likelihood.likelihoods[d].predict_log_density(tiled, f.mean, f.var, Y)
        log_p = tf.reshape(log_p, [S, -1])
        return tf.where(there, log_p, tf.zeros_like(log_p))

    def _mixed(self, paths: Paths, outputs: Sequence[int]) -> Marginals:
        """Moments of the mixtures over paths."""
        parts = []
        for d in outputs:
            own = self.likelihood.functions(d)
            mean, var = (a[..., own.start : own.stop] for a in paths[:2])
            parts.append(self._in_units(d, mean, var))
        return Marginals(*(tf.concat(same, 1) for same in zip(*parts, strict=True)))

    def _in_units(self, d: int, mean: tf.Tensor, var: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Moments over paths `[S, N, …]`, in the units of an output."""
        location, scale = (tf.constant(a[d], mean.dtype) for a in (self.location, self.scale))
        return location + scale * tf.reduce_mean(mean, 0), scale**2 * total_variance(mean, var)

    def _targets_of(self, X: tf.Tensor, paths: Paths, outputs: Sequence[int]) -> Marginals:
        tiled = tf.tile(X, [paths.number, 1])
        parts = []
        for d in outputs:
            likelihood, f = self.likelihood.likelihoods[d], paths.of(self.likelihood.functions(d))
            if (likelihood.latent_dim or 1) > 1:
                moments = (
                    likelihood.conditional_mean(tiled, f.draws),
                    likelihood.conditional_variance(tiled, f.draws),
                )
            else:
                moments = likelihood.predict_mean_and_var(tiled, f.mean, f.var)
            width = moments[0].shape[-1]
            mean, var = (tf.reshape(a, [paths.number, X.shape[0], width]) for a in moments)
            parts.append(self._in_units(d, mean, var))
        return Marginals(*(tf.concat(same, -1) for same in zip(*parts, strict=True)))

    def predict_log_density(
        self, data: MultiOutputData, samples: int = 100, seed: int = 0
    ) -> dict[str, tf.Tensor]:
        r"""Log predictive density $\log\frac1S\sum_r\int p(y\mid h)\,q_r(h)\,dh$ of every observed
        target.

        `[N_d]` for each output by name, observation noise included, in the units of the targets.
        """
        aligned = self.aligned(data)
        self.likelihood.check(aligned)
        batch = self.scaled(aligned).full()
        paths = self._paths(batch.X, samples, seed)
        found = {}
        for d, (name, own) in enumerate(zip(self.names, batch.outputs, strict=True)):
            likelihood, f = (
                self.likelihood.likelihoods[d],
                paths.of(self.likelihood.functions(d), own.rows),
            )
            X = tf.tile(batch.X if own.rows is None else tf.gather(batch.X, own.rows), [samples, 1])
            location, scale = (tf.constant(a[d], own.Y.dtype) for a in (self.location, self.scale))
            Y = tf.tile((own.Y - location) / scale, [samples, 1])
            if (likelihood.latent_dim or 1) > 1:
                log_p = likelihood.log_prob(X, f.draws, Y)
            else:
                log_p = likelihood.predict_log_density(X, f.mean, f.var, Y)
            log_p = tf.reshape(log_p, [samples, tf.shape(own.Y)[0]])
            found[name] = tf.reduce_logsumexp(log_p, 0) - np.log(samples) - tf.math.log(scale)
        return self.of_data(found, data)

    def _draw_y_apart(
        self, X: tf.Tensor, output: int, samples: int, seed: int, given: Given = None
    ) -> tf.Tensor:
        own = self.likelihood.functions(output)
        F = self._paths(X, samples, seed, given).draws[..., own.start : own.stop]
        return self._noisy(X, F, output, [seed, 2])

    def _draw_f(
        self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int, given: Given = None
    ) -> tf.Tensor:
        self._refuse_joint(given)
        F, parts = self._joint_draws(X, samples, seed), []
        for d in outputs:
            own = self.likelihood.functions(d)
            location, scale = (tf.constant(a[d], F.dtype) for a in (self.location, self.scale))
            parts.append(location + scale * F[..., own.start : own.stop])
        return tf.concat(parts, -1)

    def _draw_y(
        self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int, given: Given = None
    ) -> tf.Tensor:
        self._refuse_joint(given)
        F, parts = self._joint_draws(X, samples, seed), []
        for d in outputs:
            own = self.likelihood.functions(d)
            parts.append(self._noisy(X, F[..., own.start : own.stop], d, [seed, 2 + d]))
        return tf.concat(parts, -1)

    def _joint_draws(self, X: tf.Tensor, samples: int, seed: int) -> tf.Tensor:
        """Draws `[S, N, J]` in the model's units, joint over rows and functions.

        (Draws of `paths` are correlated over functions, not over rows.)
        """
        shape = [self.num_gps, samples, int(X.shape[0])]
        if X.shape[0] == 0:
            return tf.zeros([samples, 0, self.likelihood.num_functions], X.dtype)
        return self.joint(X, tf.random.stateless_normal(shape, [seed, 1], dtype=X.dtype))

    def _noisy(self, X: tf.Tensor, F: tf.Tensor, output: int, seed: Sequence[int]) -> tf.Tensor:
        """Draws of the targets of an output, given draws `[S, N, J_d]` of its functions."""
        tiled = tf.broadcast_to(X, tf.concat([tf.shape(F)[:1], tf.shape(X)], 0))
        drawn = sample_y(self.likelihood.likelihoods[output], F, list(seed), tiled)
        location, scale = (tf.constant(a[output], drawn.dtype) for a in (self.location, self.scale))
        return location + scale * drawn

    @abstractmethod
    def joint(self, X: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        """Joint draws `[S, N, J]` of the functions in the model's units, from noise
        `[GPs, S, N]`.
        """

    def _refuse_joint(self, given: Given) -> None:
        if given is not None:
            raise self.unsupported(
                "does not draw rows jointly given outputs that are known",
                "Use predict_y with given, which takes each row by itself, or GPAR.",
            )

    def _given(self, given: Given, rows: int) -> dict[int, tf.Tensor]:
        """Targets `[N]` in the model's units by output, of outputs known at some rows."""
        known = {}
        for output, given_values in (given or {}).items():
            d, values = self.index(output), np.asarray(given_values, float).reshape(-1)
            check_known(output, values, rows)
            self.number_of(d)
            if not np.isnan(values).all():
                known[d] = tf.constant(
                    (values - self.location[d]) / self.scale[d], gpflow.default_float()
                )
        return known


def joint_draw(
    kernel: Kernel,
    posterior: Full,
    Z: tf.Tensor,
    factors: Factors,
    columns: tf.Tensor,
    noise: tf.Tensor,
    inner: tf.Tensor,
) -> tf.Tensor:
    """A draw over all rows for each copy of a component and each path, `[R, S, N]`.

    Args:
        kernel: of the component.
        posterior: of the chain.
        Z: its inducing inputs.
        factors: of their covariance.
        columns: `[S, N, columns]`, what it reads along each path.
        noise: `[R, S, N]`.
        inner: `[R]` inner noise variances.
    """
    S, N = columns.shape[:2]
    flat = tf.reshape(columns, [S * N, columns.shape[2]])
    Kuf = tf.transpose(tf.reshape(kernel(Z, flat), [-1, S, N]), [1, 0, 2])
    Kff = kernel(columns)
    Kuu, L = (tf.repeat(a, S, 0) for a in (factors.Kuu, factors.cholesky))
    location, scale = (tf.repeat(a, S, 1) for a in (factors.location, factors.scale))
    mean, cov = posterior.project(Factors(Kuu, L, location, scale), Kuf, Kff)
    shape = tf.shape(noise)
    mean, cov = tf.reshape(mean, shape), tf.reshape(cov, tf.concat([shape, shape[-1:]], 0))
    cov += inner[:, None, None, None] * tf.eye(N, dtype=cov.dtype)
    return mean + tf.linalg.matvec(cholesky(cov, name="the covariance of a joint draw"), noise)
