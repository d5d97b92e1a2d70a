"""Predictions of models that send rows through a chain along sampled paths."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.kernels import Kernel

from mogp.data import Array, MultiOutputData
from mogp.kernels import parameters_read_once
from mogp.likelihoods import PerOutput, sample_y
from mogp.linalg import cholesky
from mogp.models.base import MOGP, Given, Replica
from mogp.posteriors import Factors, Full
from mogp.priors import Marginals

_NUMBERS_AT_ONCE = 1 << 22


class Paths(NamedTuple):
    """Latent functions of rows along `S` sampled paths, in the model's units.

    Attributes:
        mean: `[S, N, J]`, of each function given what was drawn before it.
        var: `[S, N, J]`, likewise.
        draws: `[S, N, J]`, the values drawn.
    """

    mean: tf.Tensor
    var: tf.Tensor
    draws: tf.Tensor

    @property
    def number(self) -> int:
        """Paths, `S`."""
        return int(self.mean.shape[0])

    def of(self, functions: range, rows: tf.Tensor | None = None) -> Paths:
        """Some functions at some rows, path after path: `[S B, J_d]`."""
        own = (a[..., functions.start : functions.stop] for a in self)
        picked = (a if rows is None else tf.gather(a, rows, axis=1) for a in own)
        return Paths(*(tf.reshape(a, [-1, len(functions)]) for a in picked))


class PathMOGP(MOGP):
    """A model whose predictions are mixtures over sampled paths: any chain.

    Predictions take two more arguments than those of other models, the number of paths and the
    seed of their draws.
    """

    @abstractmethod
    def paths(self, Xnew: Any, samples: int = 100, seed: int = 0, given: Given = None) -> Paths:
        """Sampled paths of the rows `Xnew [N, P]`."""

    @abstractmethod
    def _mixed(self, paths: Paths, outputs: Sequence[int]) -> Marginals:
        """Moments of the functions of some outputs, over paths."""

    @abstractmethod
    def _targets_of(self, X: tf.Tensor, paths: Paths, outputs: Sequence[int]) -> Marginals:
        """Moments of the targets of some outputs, over paths."""

    def predict_f(
        self,
        Xnew: Any,
        output: int | str | None = None,
        *,
        replica: Replica = None,
        given: Given = None,
        full_cov: bool = False,
        samples: int = 100,
        seed: int = 0,
    ) -> Marginals:
        """Mean and variance of the latent functions at `Xnew [N, P]`: see `MOGP.predict_f`.

        Functions of Gaussian outputs are in the units of the data.

        Args:
            Xnew: where.
            output: only the functions of this output; all `J` if None.
            replica: chains have none.
            given: values `[N]` of outputs that are known at these rows, which later ones then read
                in place of draws. They should be the first of the chain: nothing that comes before
                them learns of them.
            full_cov: see `predict_f_samples` for what a chain has in its place.
            samples: paths.
            seed: of the draws.
        """
        if full_cov:
            raise self.unsupported(
                "has no covariances between rows: functions of a chain are not Gaussian",
                "Use predict_f_samples, which draws them jointly.",
            )
        paths = self.paths(self.at(Xnew, replica), samples, seed, given)
        wanted = range(len(self.names)) if output is None else [self.index(output)]
        return self._mixed(paths, wanted)

    def predict_y(
        self,
        Xnew: Any,
        output: int | str | None = None,
        *,
        replica: Replica = None,
        given: Given = None,
        samples: int = 100,
        seed: int = 0,
    ) -> Marginals:
        """Mean and variance of the targets at `Xnew [N, P]`: see `MOGP.predict_y`.

        Args:
            Xnew: where.
            output: only this one.
            replica: chains have none.
            given: see `predict_f`.
            samples: paths.
            seed: of the draws.
        """
        X = self.at(Xnew, replica)
        return self._targets_of(X, self.paths(X, samples, seed, given), self._wanted(output))

    def _predict_f(self, X: tf.Tensor, outputs: Sequence[int], full_cov: bool = False) -> Marginals:
        return self._mixed(self.paths(X), outputs)

    def _predict_y(self, X: tf.Tensor, outputs: Sequence[int]) -> Marginals:
        return self._targets_of(X, self.paths(X), outputs)


class PredictsPaths(PathMOGP):
    r"""Predictions from `samples` paths: mixtures of $S$ Gaussians for each function.

    With $\mu_r, s_r^2$ the moments of a function along path $r$,
    $\mathbb E\,h = \frac1S\sum_r\mu_r$ and
    $\mathrm{Var}\,h = \frac1S\sum_r s_r^2 + \mathrm{Var}_r\,\mu_r$. The paths of a call depend on
    `seed` and on the place of a row among the rows, and on nothing else.
    """

    likelihood: PerOutput
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
        if samples < 1:
            raise ValueError(f"samples={samples}; at least one path is needed.")
        X = self.at(Xnew)
        N = int(X.shape[0])
        fixed = self._given(given or {}, N)
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
        batch = aligned.full()
        paths = self.paths(batch.X, samples, seed)
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

    def _draw_y_apart(self, X: tf.Tensor, output: int, samples: int, seed: int) -> tf.Tensor:
        own = self.likelihood.functions(output)
        F = self.paths(X, samples, seed).draws[..., own.start : own.stop]
        return self._noisy(X, F, output, [seed, 2])

    def _draw_f(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
        F, parts = self._joint_draws(X, samples, seed), []
        for d in outputs:
            own = self.likelihood.functions(d)
            location, scale = (tf.constant(a[d], F.dtype) for a in (self.location, self.scale))
            parts.append(location + scale * F[..., own.start : own.stop])
        return tf.concat(parts, -1)

    def _draw_y(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
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

    def _given(self, given: Mapping[str, npt.ArrayLike], rows: int) -> dict[int, tf.Tensor]:
        fixed = {}
        for output, values in given.items():
            d, known = self.index(output), np.asarray(values, float).reshape(-1)
            check_known(output, known, rows)
            fixed[self.number_of(d)] = tf.constant(
                (known - self.location[d]) / self.scale[d], gpflow.default_float()
            )
        return fixed


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


def check_known(output: str, values: Array, rows: int) -> None:
    """Raise unless there is a value for each row; NaN says that it is not known there."""
    if values.shape != (rows,) or np.isinf(values).any():
        raise ValueError(
            f"given[{output!r}] has {values.size} values for {rows} rows; give a finite number for"
            " each, NaN where it is not known."
        )


def where_known(known: tf.Tensor | None, drawn: tf.Tensor) -> tf.Tensor:
    """Draws `[S, N]`, with known values `[N]` in their place where there are any."""
    if known is None:
        return drawn
    everywhere = tf.broadcast_to(known, tf.shape(drawn))
    return tf.where(tf.math.is_nan(everywhere), drawn, everywhere)


def total_variance(mean: tf.Tensor, var: tf.Tensor) -> tf.Tensor:
    """Of a mixture of the paths, `[N, J]`."""
    return tf.reduce_mean(var, 0) + tf.math.reduce_variance(mean, 0)
