"""Likelihoods of two classes and of counts."""

from __future__ import annotations

import tensorflow as tf
import tensorflow_probability as tfp
from check_shapes import inherit_check_shapes
from gpflow.base import MeanAndVariance, TensorType
from tensorflow_probability import distributions as tfd

from mogp.likelihoods.base import (
    DistributionLikelihood,
    bounded,
    bounded_exp,
    column,
    log_normal_dispersion,
)
from mogp.likelihoods.targets import BINARY, COUNTS

__all__ = ["Bernoulli", "Poisson", "ZeroInflatedPoisson"]


class Bernoulli(DistributionLikelihood):
    r"""Yes or no: $y \in \{0, 1\}$ with $p(y = 1) = \sigma(f) = 1/(1 + e^{-f})$.

    $\log p = yf - \log(1 + e^{f})$ needs no clipping of probabilities; integrals are by quadrature.
    (GPflow's `Bernoulli` has a probit link.)

    Args:
        nodes: quadrature points.

    Shapes: F, Fmu, Fvar, Y [..., N, 1].

    >>> import numpy as np
    >>> from mogp.likelihoods import Bernoulli
    >>> Fmu, Fvar = np.array([[0.0], [2.0]]), np.ones((2, 1))
    >>> p, _ = Bernoulli().predict_mean_and_var(np.zeros((2, 0)), Fmu, Fvar)
    >>> np.round(p, 3).tolist()
    [[0.5], [0.845]]
    """

    function_labels = ("logit",)
    target_rules = BINARY

    def conditional(self, F: TensorType) -> tfd.Distribution:
        """The Bernoulli distribution with log-odds $f$."""
        return tfd.Bernoulli(logits=F[..., 0], dtype=F.dtype)

    @inherit_check_shapes
    def _predict_mean_and_var(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType
    ) -> MeanAndVariance:
        # Quadrature weights sum to one only up to rounding.
        p = tf.minimum(self.quadrature(tf.sigmoid, Fmu, Fvar), 1.0)
        return p, p - p**2


class Poisson(DistributionLikelihood):
    r"""Counts with rate $\rho = e^{f}$: $\log p = yf - e^{f} - \ln y!$.

    In closed form, with $\mu = e^{m+v/2}$: $\mathbb E_q\log p = ym - \mu - \ln y!$,
    $\mathbb E[y] = \mu$, $\mathrm{Var}[y] = \mu + \mu^2(e^{v} - 1)$.

    Args:
        nodes: quadrature points, for predictive densities.

    Shapes: F, Fmu, Fvar, Y [..., N, 1].

    >>> import numpy as np
    >>> from mogp.likelihoods import Poisson
    >>> Fmu, Fvar = np.log([[3.0]]), np.zeros((1, 1))
    >>> mean, var = Poisson().predict_mean_and_var(np.zeros((1, 0)), Fmu, Fvar)
    >>> np.round(mean, 3).tolist(), np.round(var, 3).tolist()
    ([[3.0]], [[3.0]])
    """

    function_labels = ("log rate",)
    target_rules = COUNTS

    def conditional(self, F: TensorType) -> tfd.Distribution:
        """The Poisson distribution with rate $e^{f}$."""
        return tfd.Poisson(log_rate=bounded(F[..., 0]))

    @inherit_check_shapes
    def _variational_expectations(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType, Y: TensorType
    ) -> tf.Tensor:
        y = column(Y, Fmu)
        return (
            y * bounded(Fmu[..., 0])
            - bounded_exp(Fmu + 0.5 * Fvar)[..., 0]
            - tf.math.lgamma(y + 1.0)
        )

    @inherit_check_shapes
    def _predict_mean_and_var(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType
    ) -> MeanAndVariance:
        mean = bounded_exp(Fmu + 0.5 * Fvar)
        return mean, mean + mean**2 * log_normal_dispersion(Fvar)


class ZeroInflatedPoisson(DistributionLikelihood):
    r"""Counts with extra zeros: $p(y) = \pi\,\mathbb 1[y = 0] + (1 - \pi)\,\rho^y e^{-\rho} / y!$.

    $\pi = \sigma(f_1)$, $\rho = e^{f_2}$. With $P = \mathbb E[1 - \pi]$ and $R = e^{m_2+v_2/2}$:

    - $y > 0$: $\mathbb E_q\log p = -\mathbb E\log(1 + e^{f_1}) + y m_2 - R - \ln y!$, quadrature
      over $f_1$ only
    - $y = 0$: quadrature over both functions of
      $\log(e^{\log\sigma(f_1)} + e^{\log\sigma(-f_1) - \rho})$ (Giraldo's form of it overflows
      through $e^{\rho}$)
    - $\mathbb E[y] = PR$, $\mathrm{Var}[y] = PR + PR^2(e^{v_2} - P)$

    Args:
        nodes: quadrature points for each function.

    Shapes: F, Fmu, Fvar [..., N, 2]; Y [..., N, 1].

    >>> import numpy as np
    >>> from mogp.likelihoods import ZeroInflatedPoisson
    >>> F = np.array([[0.0, np.log(4.0)]])
    >>> ZeroInflatedPoisson().conditional_mean(np.zeros((1, 0)), F).numpy().tolist()
    [[2.0]]
    """

    function_labels = ("logit of extra zeros", "log rate")
    target_rules = COUNTS

    def conditional(self, F: TensorType) -> tfd.Distribution:
        """A point mass at zero, with log-odds $f_1$, mixed with the Poisson distribution of rate
        $e^{f_2}$.
        """
        poisson, zero = (
            tfd.Poisson(log_rate=bounded(F[..., 1])),
            tfd.Deterministic(tf.zeros_like(F[..., 0])),
        )
        odds = tfd.Categorical(logits=tf.stack([F[..., 0], tf.zeros_like(F[..., 0])], axis=-1))
        return tfd.Mixture(odds, [zero, poisson])

    @inherit_check_shapes
    def _log_prob(self, X: TensorType, F: TensorType, Y: TensorType) -> tf.Tensor:
        y, log_rate = column(Y, F), bounded(F[..., 1])
        counted = tf.math.log_sigmoid(-F[..., 0]) + tfd.Poisson(log_rate=log_rate).log_prob(y)
        return tf.where(
            y > 0.0, counted, tfp.math.log_add_exp(tf.math.log_sigmoid(F[..., 0]), counted)
        )

    @inherit_check_shapes
    def _conditional_variance(self, X: TensorType, F: TensorType) -> tf.Tensor:
        counted, rate = tf.sigmoid(-F[..., :1]), bounded_exp(F[..., 1:])
        return counted * rate * (1.0 + tf.sigmoid(F[..., :1]) * rate)

    @inherit_check_shapes
    def _variational_expectations(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType, Y: TensorType
    ) -> tf.Tensor:
        y = column(Y, Fmu)
        zero = super()._variational_expectations(X, Fmu, Fvar, tf.zeros_like(Y))
        counted = self._expect(tf.math.softplus, Fmu[..., 0], Fvar[..., 0])
        rate = bounded_exp(Fmu[..., 1] + 0.5 * Fvar[..., 1])
        return tf.where(
            y > 0.0, -counted + y * bounded(Fmu[..., 1]) - rate - tf.math.lgamma(y + 1.0), zero
        )

    @inherit_check_shapes
    def _predict_mean_and_var(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType
    ) -> MeanAndVariance:
        counted = self._expect(lambda f: tf.sigmoid(-f), Fmu[..., 0], Fvar[..., 0])[..., None]
        rate = bounded_exp(Fmu[..., 1:] + 0.5 * Fvar[..., 1:])
        return counted * rate, counted * rate * (
            1.0 + rate * (log_normal_dispersion(Fvar[..., 1:]) + (1.0 - counted))
        )
