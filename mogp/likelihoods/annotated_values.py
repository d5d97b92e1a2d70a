"""Real values told by annotators, each with noise that depends on the input."""

from __future__ import annotations

from math import log, pi

import tensorflow as tf
from check_shapes import check_shapes, inherit_check_shapes
from gpflow.base import MeanAndVariance, TensorType
from tensorflow_probability import distributions as tfd

from mogp.likelihoods.annotators import Annotators, deviation, numbered, over_given
from mogp.likelihoods.base import bounded, bounded_exp, log_normal_dispersion
from mogp.likelihoods.continuous import HeteroscedasticGaussian

__all__ = ["AnnotatedValues"]


class AnnotatedValues(Annotators):
    r"""Real values told by annotators who each have their own noise (CCGPMA-R).

    $$y^r \sim \mathcal N(f_1, e^{f_{1+r}}).$$

    An annotator alone is a `HeteroscedasticGaussian` on $(f_1, f_{1+r})$, and so is the
    expectation. The gold standard is $f_1$ itself, without noise. What says how far an annotator
    can be trusted is the noise variance $v^r = e^{f_{1+r}}$, with $\mathbb E[v^r] = e^{m + s/2}$
    and $\mathrm{Var}[v^r] = e^{2m + s}(e^s - 1)$ for $f_{1+r} \sim \mathcal N(m, s)$: the smaller,
    the better.

    Args:
        annotators: $R$.
        nodes: points of the quadrature.

    Shapes: F, Fmu, Fvar [..., N, 1 + R]; Y [..., N, R].

    >>> import numpy as np
    >>> from mogp.likelihoods import AnnotatedValues
    >>> likelihood = AnnotatedValues(annotators=2)
    >>> Fmu, Fvar = np.array([[1.0, -2.0, 0.0]]), np.full((1, 3), 0.1)
    >>> Y = np.array([[1.1, 3.0]])
    >>> np.round(likelihood.each(Fmu, Fvar, Y), 2).tolist()
    [[-0.35, -3.07]]
    """

    def __init__(self, annotators: int, *, nodes: int = 20) -> None:
        super().__init__(annotators, 1, nodes)
        self._alone = HeteroscedasticGaussian(nodes)

    @property
    def function_labels(self) -> tuple[str, ...]:
        """A name for each function."""
        return ("truth", *numbered("log variance of annotator", self.num_annotators))

    @check_shapes(
        "Fmu: [batch..., J]", "Fvar: [batch..., J]", "Y: [batch..., R]", "return: [batch..., R]"
    )
    def each(self, Fmu: TensorType, Fvar: TensorType, Y: TensorType) -> tf.Tensor:
        """See `Annotators.each`."""
        means, variances = (_pairs(F) for F in (Fmu, Fvar))
        no_inputs = tf.zeros([*[1] * (len(means.shape) - 1), 0], means.dtype)
        return self._alone.variational_expectations(no_inputs, means, variances, Y[..., None])

    def gold(self, Fmu: TensorType, Fvar: TensorType) -> MeanAndVariance:
        """Mean and variance of $f_1$, [..., N, 1]."""
        return tf.identity(Fmu[..., :1]), tf.identity(Fvar[..., :1])

    @check_shapes(
        "Fmu: [batch..., J]", "Fvar: [batch..., J]", "Y: [batch..., 1]", "return: [batch...]"
    )
    def gold_log_density(self, Fmu: TensorType, Fvar: TensorType, Y: TensorType) -> tf.Tensor:
        r"""$\log\mathcal N(y \mid m_1, v_1)$, [..., N]."""
        return tfd.Normal(Fmu[..., 0], deviation(Fvar[..., 0])).log_prob(
            tf.cast(Y[..., 0], Fmu.dtype)
        )

    @check_shapes(
        "Fmu: [batch..., J]",
        "Fvar: [batch..., J]",
        "return[0]: [batch..., R]",
        "return[1]: [batch..., R]",
    )
    def reliability(self, Fmu: TensorType, Fvar: TensorType) -> MeanAndVariance:
        r"""$\mathbb E[v^r]$ and $\mathrm{Var}[v^r]$ of the noise variances."""
        mean = bounded_exp(Fmu[..., 1:] + 0.5 * Fvar[..., 1:])
        return mean, tf.square(mean) * log_normal_dispersion(Fvar[..., 1:])

    @check_shapes(
        "Fmu: [batch..., J]",
        "Fvar: [batch..., J]",
        "Y: [batch..., R]",
        "observed: [batch..., R]",
        "return: [batch...]",
    )
    def annotations_log_density(
        self, Fmu: TensorType, Fvar: TensorType, Y: TensorType, observed: TensorType
    ) -> tf.Tensor:
        r"""Log density of the annotations that were given, [..., N].

        $$\log\mathbb E_{f_1}\prod_{r \in R_n}
          \mathbb E_{f_{1+r}}\,\mathcal N(y^r \mid f_1, e^{f_{1+r}}).$$
        """
        z, log_weights = self._nodes(Fmu.dtype)
        log_variance = bounded(Fmu[..., 1:, None] + deviation(Fvar[..., 1:, None]) * z)

        def given_truth(f: tf.Tensor) -> tf.Tensor:
            square = tf.square(tf.cast(Y, f.dtype) - f)[..., None]
            told = -0.5 * (log(2 * pi) + log_variance + square * tf.exp(-log_variance))
            return over_given(tf.reduce_logsumexp(told + log_weights, -1), observed)[..., None]

        return self._line.logspace(given_truth, Fmu[..., :1], Fvar[..., :1])[..., 0]

    def sample_y(self, F: TensorType, seed: int | TensorType) -> tf.Tensor:
        """The truth at each row of F, [..., N, 1]: nothing is left to draw."""
        return tf.convert_to_tensor(F)[..., :1]

    @inherit_check_shapes
    def _log_prob(self, X: TensorType, F: TensorType, Y: TensorType) -> tf.Tensor:
        return tf.reduce_sum(self._alone.conditional(_pairs(F)).log_prob(tf.cast(Y, F.dtype)), -1)

    @inherit_check_shapes
    def _conditional_mean(self, X: TensorType, F: TensorType) -> tf.Tensor:
        return tf.identity(F[..., :1])

    @inherit_check_shapes
    def _conditional_variance(self, X: TensorType, F: TensorType) -> tf.Tensor:
        return tf.zeros_like(F[..., :1])

    @inherit_check_shapes
    def _predict_mean_and_var(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType
    ) -> MeanAndVariance:
        return self.gold(Fmu, Fvar)


def _pairs(F: TensorType) -> tf.Tensor:
    """The truth beside each annotator's function, [..., N, R, 2]."""
    F = tf.convert_to_tensor(F)
    return tf.stack([tf.broadcast_to(F[..., :1], tf.shape(F[..., 1:])), F[..., 1:]], -1)
