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
from mogp.likelihoods import PerOutput, sample_y
from mogp.likelihoods.groups import Group, groups
from mogp.models.given import Predictor, settled
from mogp.models.row_shapes import dense, outputs_first, reads_jointly, tiled
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
        found: dict[int, Marginals] = {}
        for group in groups([self.likelihood.likelihoods[d] for d in outputs]):
            own = [outputs[i] for i in group.outputs]
            found |= zip(own, self._moments(X, conditional, own, group), strict=True)
        each = [found[d] for d in outputs]
        return Marginals(*(tf.concat(list(same), -1) for same in zip(*each, strict=True)))

    def _moments(
        self, X: tf.Tensor, conditional: Conditional, outputs: Sequence[int], group: Group
    ) -> list[Marginals]:
        """Mean and variance of the targets of outputs with like likelihoods."""
        own = [self.likelihood.functions(d) for d in outputs]
        if group.reads_functions:
            views = [View(conditional, one.start, len(one), None) for one in own]
            pairs = zip(group.members, views, strict=True)
            return [Marginals(*likelihood.predictive(view)) for likelihood, view in pairs]
        f = conditional.marginals(self._functions(outputs))
        mean, var = (outputs_first(a, len(outputs)) for a in f)
        if len(outputs) > 1:
            # Without columns for likelihoods that do not read inputs.
            rows = tf.zeros([tf.shape(mean)[0], 0], mean.dtype)
            X = tf.tile(dense(X), [len(outputs), 1]) if group.reads_inputs else rows
        likelihood = group.likelihood([f.mean.shape[0]] * len(outputs))
        y = likelihood.predict_mean_and_var(X, mean, var)
        parts = (tf.split(a, len(outputs)) for a in y)
        return [Marginals(*one) for one in zip(*parts, strict=True)]

    def _counted_with(self, output: int) -> Sequence[int]:
        """Outputs whose predictions have as many columns as those of this one."""
        for group in groups(self.likelihood.likelihoods):
            if output in group.outputs and not group.reads_functions:
                return group.outputs
        return [output]

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

    def _moments(
        self, X: tf.Tensor, conditional: Conditional, outputs: Sequence[int], group: Group
    ) -> list[Marginals]:
        found = []
        for d, y in zip(outputs, super()._moments(X, conditional, outputs, group), strict=True):
            known = self._known.get(d)
            certain = None if known is None else 0 * known
            found.append(Marginals(settled(y.mean, known), settled(y.var, certain)))
        return found

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
