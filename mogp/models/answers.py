"""Predictions of functions and targets from a posterior of functions and a likelihood for each
output.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
from gpflow.likelihoods import Likelihood

from mogp.data import Array
from mogp.likelihoods import PerOutput, ReadsFunctions, sample_y
from mogp.models.given import Predictor, settled
from mogp.models.row_shapes import dense, reads_jointly, tiled
from mogp.priors import Conditional, Informed, Known, Marginals, View, independent_functions


class LikelihoodPredictor(Predictor):
    """Predicts from the posterior of all functions, and the likelihood of each output.

    Attributes:
        likelihood: of each output.
    """

    likelihood: PerOutput

    @abstractmethod
    def condition(self, X: tf.Tensor, factors: Any = None, full_cov: bool = False) -> Conditional:
        """The posterior of all functions at `X [N, P]`."""

    def noiseless(self, X: tf.Tensor, full_cov: bool = False) -> Conditional:
        """What the likelihoods add noise to: the functions, and an effect of each row if a model
        has one.
        """
        return self.condition(X, full_cov=full_cov)

    def known_noise(self, known: Known, variances: tf.Tensor) -> tf.Tensor:
        """Covariance `[G, G]` of targets around their functions.

        Args:
            known: the targets.
            variances: `[G]`, those of their likelihoods.
        """
        return tf.linalg.diag(variances)

    def _functions(self, outputs: Sequence[int]) -> range | tf.Tensor:
        """The functions of some outputs: a range where they are neighbours."""
        numbers = [j for d in outputs for j in self.likelihood.functions(d)]
        if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            return range(numbers[0], numbers[0] + len(numbers))
        return tf.constant(numbers, tf.int64)

    def _predict_f(self, X: tf.Tensor, outputs: Sequence[int], full_cov: bool = False) -> Marginals:
        X = dense(X) if full_cov else X
        return self.condition(X, full_cov=full_cov).marginals(self._functions(outputs))

    def _predict_y(self, X: tf.Tensor, outputs: Sequence[int]) -> Marginals:
        conditional = self.noiseless(X)
        parts = [self._moments(X, conditional, d) for d in outputs]
        return Marginals(*(tf.concat(list(same), -1) for same in zip(*parts, strict=True)))

    def _moments(self, X: tf.Tensor, conditional: Conditional, output: int) -> Marginals:
        """Mean and variance of the targets of one output."""
        likelihood = self.likelihood.likelihoods[output]
        functions = self.likelihood.functions(output)
        if isinstance(likelihood, ReadsFunctions):
            view = View(conditional, functions.start, len(functions), None)
            return Marginals(*likelihood.predictive(view))
        f = conditional.marginals(functions)
        return Marginals(*likelihood.predict_mean_and_var(X, f.mean, f.var))

    def _draw_f(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
        conditional = self.condition(dense(X), full_cov=True)
        functions = self._functions(outputs)
        if isinstance(functions, range):
            return conditional.draws(functions, samples, seed)
        whole = conditional.draws(range(self.likelihood.num_functions), samples, seed)
        return tf.gather(whole, functions, axis=2)

    def _draw_y(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
        conditional, parts = self.noiseless(dense(X), full_cov=True), []
        own = [self.likelihood.functions(d) for d in outputs]
        first, last = min(r.start for r in own), max(r.stop for r in own)
        together = conditional.draws(range(first, last), samples, seed)
        for d, functions in zip(outputs, own, strict=True):
            F = together[..., functions.start - first : functions.stop - first]
            if len(functions) > 1 and not reads_jointly(self.likelihood.likelihoods[d]):
                each = [
                    conditional.draws(range(j, j + 1), samples, seed + 7919 * (1 + j))
                    for j in functions
                ]
                F = tf.concat(each, -1)
            parts.append(self._noisy(X, F, d, [seed, 2 + d]))
        return tf.concat(parts, -1)

    def _draw_y_apart(self, X: tf.Tensor, output: int, samples: int, seed: int) -> tf.Tensor:
        conditional, functions = self.noiseless(X), self.likelihood.functions(output)
        if not reads_jointly(self.likelihood.likelihoods[output]):
            conditional = independent_functions(conditional.marginals(functions))
            functions = range(len(functions))
        shape = [samples, X.shape[0], conditional.num_latents]
        F = conditional.points(
            functions, tf.random.stateless_normal(shape, [seed, 1], dtype=X.dtype)
        )
        return self._noisy(X, F, output, [seed, 2])

    def _noisy(self, X: tf.Tensor, F: tf.Tensor, output: int, seed: Sequence[int]) -> tf.Tensor:
        """Draws of the targets of one output, from draws `[S, N, J_d]` of its functions."""
        likelihood = self.likelihood.likelihoods[output]
        return sample_y(likelihood, F, list(seed), tiled(X, F.shape[0]))


class ToldPredictor(LikelihoodPredictor):
    """Predictions of a model at rows where targets of some outputs are known: `mogp.models.given`.

    Args:
        model: whose likelihoods of these outputs are Gaussian.
        X: `[N, P]`, the rows: predictions are at these, and no others.
        known: targets `[N]` by output, NaN where not known.
    """

    def __init__(
        self, model: LikelihoodPredictor, X: tf.Tensor, known: Mapping[int, Array]
    ) -> None:
        self.likelihood, self._model, self._X, self._known = model.likelihood, model, X, known
        rows = {d: np.flatnonzero(~np.isnan(values)) for d, values in known.items()}
        each = [self.likelihood.functions(d).start for d in rows for _ in rows[d]]
        self._where = Known(
            tf.constant(each, tf.int64),
            tf.constant(np.concatenate(list(rows.values())), tf.int64),
            tf.constant(np.concatenate([known[d][own] for d, own in rows.items()]), X.dtype),
        )
        variances = {d: self.likelihood.likelihoods[d].variance_at(X)[:, 0] for d in rows}
        self._variances = tf.concat([tf.gather(variances[d], own) for d, own in rows.items()], 0)

    def condition(self, X: tf.Tensor, factors: Any = None, full_cov: bool = False) -> Conditional:
        """The posterior of all functions at the rows."""
        return self._told_functions.over_rows() if full_cov else self._told_functions

    def noiseless(self, X: tf.Tensor, full_cov: bool = False) -> Conditional:
        """What the likelihoods add noise to, at the rows."""
        return self._told_noiseless.over_rows() if full_cov else self._told_noiseless

    @cached_property
    def _told_functions(self) -> Informed:
        noise = self._model.known_noise(self._where, self._variances)
        apart, joint = (self._model.condition(self._X, full_cov=full) for full in (False, True))
        return Informed(apart, joint, self._where, noise)

    @cached_property
    def _told_noiseless(self) -> Informed:
        noise = tf.linalg.diag(self._variances)
        apart, joint = (self._model.noiseless(self._X, full_cov=full) for full in (False, True))
        return Informed(apart, joint, self._where, noise)

    def _moments(self, X: tf.Tensor, conditional: Conditional, output: int) -> Marginals:
        mean, var = super()._moments(X, conditional, output)
        known = self._known.get(output)
        return Marginals(settled(mean, known), settled(var, None if known is None else 0 * known))

    def _noisy(self, X: tf.Tensor, F: tf.Tensor, output: int, seed: Sequence[int]) -> tf.Tensor:
        return settled(super()._noisy(X, F, output, seed), self._known.get(output))


def is_gaussian(likelihood: Likelihood) -> bool:
    """Whether targets are a function with Gaussian noise.

    Args:
        likelihood: of an output.

    >>> from mogp.likelihoods import Gaussian, HeteroscedasticGaussian
    >>> is_gaussian(Gaussian(0.1)), is_gaussian(HeteroscedasticGaussian())
    (True, False)
    """
    return isinstance(likelihood, gpflow.likelihoods.Gaussian)
