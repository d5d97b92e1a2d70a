"""What every chain has: predictions that are mixtures over sampled paths."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from mogp.data import Array
from mogp.models.base import MOGP, Given, Replica
from mogp.models.given import Predictor
from mogp.priors import Marginals


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


class TargetPaths(NamedTuple):
    """Functions and targets of rows along `S` sampled paths, in the units of the data.

    Attributes:
        mean: `[S, N, L]`, of each function given what was drawn before it.
        var: `[S, N, L]`, likewise.
        draws: `[S, N, L]`, of the targets.
        y_mean: `[S, N, L]`, of each target given what was drawn before it.
        y_var: `[S, N, L]`, likewise.
    """

    mean: tf.Tensor
    var: tf.Tensor
    draws: tf.Tensor
    y_mean: tf.Tensor
    y_var: tf.Tensor


class PathMOGP(MOGP):
    """A model whose predictions are mixtures over sampled paths: any chain.

    Predictions take two more arguments than those of other models, the number of paths and the
    seed of their draws.
    """

    @abstractmethod
    def paths(
        self, Xnew: Any, samples: int = 100, seed: int = 0, given: Given = None
    ) -> Paths | TargetPaths:
        """Sampled paths of the rows `Xnew [N, P]`."""

    @abstractmethod
    def _paths(
        self, X: tf.Tensor, samples: int = 100, seed: int = 0, given: Given = None
    ) -> Paths | TargetPaths:
        """The same, of rows as the kernels read them."""

    @abstractmethod
    def _mixed(self, paths: Any, outputs: Sequence[int]) -> Marginals:
        """Moments of the functions of some outputs, over paths."""

    @abstractmethod
    def _targets_of(self, X: tf.Tensor, paths: Any, outputs: Sequence[int]) -> Marginals:
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
            given: targets `[N]` of outputs that are known at these rows, by name, NaN where they
                are not: later outputs read them, and earlier ones learn of them by weights of
                paths. Each row is taken by itself.
            full_cov: see `predict_f_samples` for what a chain has in its place.
            samples: paths.
            seed: of the draws.
        """
        if full_cov:
            raise self.unsupported(
                "has no covariances between rows: functions of a chain are not Gaussian",
                "Use predict_f_samples, which draws them jointly.",
            )
        paths = self._paths(self.at(Xnew, replica), samples, seed, given)
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
        X, outputs = self.at(Xnew, replica), self._wanted(output)
        found = self._targets_of(X, self._paths(X, samples, seed, given), outputs)
        return self._as_known(found, outputs, given)

    def _predict_f(
        self,
        X: tf.Tensor,
        outputs: Sequence[int],
        full_cov: bool = False,
        given: Given = None,
    ) -> Marginals:
        return self._mixed(self._paths(X, given=given), outputs)

    def _predict_y(self, X: tf.Tensor, outputs: Sequence[int], given: Given = None) -> Marginals:
        return self._as_known(
            self._targets_of(X, self._paths(X, given=given), outputs), outputs, given
        )

    @abstractmethod
    def _draw_f(
        self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int, given: Given = None
    ) -> tf.Tensor:
        """Joint draws of the functions of some outputs, given what is known."""

    @abstractmethod
    def _draw_y_apart(
        self, X: tf.Tensor, output: int, samples: int, seed: int, given: Given = None
    ) -> tf.Tensor:
        """Draws of the targets of one output, each row by itself, given what is known."""

    @abstractmethod
    def _draw_y(
        self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int, given: Given = None
    ) -> tf.Tensor:
        """Joint draws of the targets of some outputs, given what is known."""

    def _log_densities(self, data: Any) -> dict[str, tf.Tensor]:
        return self.predict_log_density(data)

    def _conditioned(self, X: tf.Tensor, known: Mapping[int, Array]) -> Predictor:
        return _Told(self, {self.names[d]: values for d, values in known.items()})

    def _as_known(self, found: Marginals, outputs: Sequence[int], given: Given) -> Marginals:
        """Moments of targets, with what is known in their place: that value, and no variance."""
        known = {self.index(output): values for output, values in (given or {}).items()}
        if not known:
            return found
        ends = np.cumsum([len(self.targets(d)) for d in outputs])
        mean, var = (np.array(a) for a in found)
        for d, end in zip(outputs, ends, strict=True):
            if d in known:
                values = np.asarray(known[d], float).reshape(-1)
                there = ~np.isnan(values)
                mean[there, end - 1], var[there, end - 1] = values[there], 0.0
        return Marginals(tf.constant(mean), tf.constant(var))


class _Told(Predictor):
    """A chain that is told targets of some outputs at the rows it is asked about."""

    def __init__(self, model: PathMOGP, given: Given) -> None:
        self._model, self._given = model, given

    def _predict_f(self, X: tf.Tensor, outputs: Sequence[int], full_cov: bool = False) -> Marginals:
        return self._model._predict_f(X, outputs, full_cov, self._given)

    def _predict_y(self, X: tf.Tensor, outputs: Sequence[int]) -> Marginals:
        return self._model._predict_y(X, outputs, self._given)

    def _draw_f(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
        return self._model._draw_f(X, outputs, samples, seed, self._given)

    def _draw_y(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
        return self._model._draw_y(X, outputs, samples, seed, self._given)

    def _draw_y_apart(self, X: tf.Tensor, output: int, samples: int, seed: int) -> tf.Tensor:
        return self._model._draw_y_apart(X, output, samples, seed, self._given)


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
