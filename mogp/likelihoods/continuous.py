"""Likelihoods of real targets: Gaussian noise, constant or varying, shares, positive targets."""

from __future__ import annotations

from functools import cache
from math import log, pi, sqrt
from typing import Any, ClassVar

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from check_shapes import check_shapes, inherit_check_shapes
from gpflow.base import MeanAndVariance, TensorType
from gpflow.likelihoods import ScalarLikelihood
from gpflow.likelihoods.base import DEFAULT_NUM_GAUSS_HERMITE_POINTS
from gpflow.quadrature import NDiagGHQuadrature
from numpy.typing import ArrayLike
from tensorflow_probability import distributions as tfd

from mogp.likelihoods.base import (
    DistributionLikelihood,
    bounded,
    bounded_exp,
    column,
    log_normal_dispersion,
)
from mogp.likelihoods.targets import POSITIVE, UNIT_INTERVAL

__all__ = ["Beta", "Exponential", "Gamma", "Gaussian", "HeteroscedasticGaussian"]


class Gaussian(gpflow.likelihoods.Gaussian):
    r"""Gaussian noise of constant variance: $y \sim \mathcal N(f, \sigma^2)$.

    This is GPflow's own likelihood, on one function.

    Args:
        variance: start value of $\sigma^2$; in a `LatentMOGP` it may be `[D]`, one for each output.
        trainable: whether $\sigma^2$ is learned.

    Shapes: F, Fmu, Fvar, Y [..., N, 1].

    >>> import numpy as np
    >>> from mogp.likelihoods import Gaussian
    >>> mean, var = Gaussian(variance=0.5).predict_mean_and_var(np.zeros((1, 0)), [[2.0]], [[0.25]])
    >>> mean.numpy().tolist(), var.numpy().tolist()
    ([[2.0]], [[0.75]])
    """

    function_labels: ClassVar[tuple[str, ...]] = ("mean",)

    def __init__(self, variance: ArrayLike = 1.0, *, trainable: bool = True) -> None:
        # GPflow's constructor, but for what all such likelihoods can share (there may be thousands)
        # and for a transform that is one bijector, not a chain of two.
        ScalarLikelihood.__init__(self, quadrature=_line(gpflow.default_float()))
        self.variance_lower_bound = gpflow.config.default_likelihood_positive_minimum()
        self.scale_lower_bound = sqrt(self.variance_lower_bound)
        transform = _above(self.variance_lower_bound, gpflow.default_float())
        self.variance = gpflow.Parameter(variance, transform=transform, trainable=trainable)
        self.scale = None
        self.latent_dim = self.observation_dim = 1


@cache
def _line(dtype: type[np.floating[Any]]) -> NDiagGHQuadrature:
    """The quadrature of GPflow's likelihoods of one function."""
    with tf.init_scope():
        return NDiagGHQuadrature(1, DEFAULT_NUM_GAUSS_HERMITE_POINTS)


@cache
def _above(lower: float, dtype: type[np.floating[Any]]) -> tfp.bijectors.Bijector:
    """What brings numbers above a bound: softplus, and the bound."""
    with tf.init_scope():
        return tfp.bijectors.Softplus(low=dtype(lower))


class HeteroscedasticGaussian(DistributionLikelihood):
    r"""Gaussian noise whose variance depends on the input: $y \sim \mathcal N(f_1, e^{f_2})$.

    In closed form (Giraldo, §3.4 and Appendix F), with $r = (y - m_1)^2 + v_1$:

    - $\mathbb E_q \log p = -\tfrac12\log 2\pi - \tfrac12 m_2 - \tfrac12 e^{-m_2 + v_2/2}\, r$
    - $\mathbb E[y] = m_1$, $\mathrm{Var}[y] = v_1 + e^{m_2 + v_2/2}$
    - $p(y) = \mathbb E_{f_2}\, \mathcal N(y \mid m_1, v_1 + e^{f_2})$: quadrature over $f_2$ alone

    Args:
        nodes: quadrature points.

    Shapes: F, Fmu, Fvar [..., N, 2]; Y [..., N, 1].

    >>> import numpy as np
    >>> from mogp.likelihoods import HeteroscedasticGaussian
    >>> Fmu, Fvar = np.array([[2.0, 0.0], [2.0, 3.0]]), np.zeros((2, 2))
    >>> _, var = HeteroscedasticGaussian().predict_mean_and_var(np.zeros((2, 0)), Fmu, Fvar)
    >>> np.round(var, 2).tolist()
    [[1.0], [20.09]]
    """

    function_labels = ("mean", "log variance")

    def conditional(self, F: TensorType) -> tfd.Distribution:
        """The normal distribution with mean $f_1$ and variance $e^{f_2}$."""
        return tfd.Normal(F[..., 0], tf.exp(0.5 * bounded(F[..., 1])))

    @inherit_check_shapes
    def _variational_expectations(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType, Y: TensorType
    ) -> tf.Tensor:
        return self._expected_log_prob(Fmu, Fvar, column(Y, Fmu) - Fmu[..., 0])

    @check_shapes(
        "Fmu: [batch..., 2]", "Fcov: [batch..., 2, 2]", "Y: [batch..., 1]", "return: [batch...]"
    )
    def variational_expectations_joint(
        self, Fmu: TensorType, Fcov: TensorType, Y: TensorType
    ) -> tf.Tensor:
        r"""$\mathbb E \log p(y \mid f_1, f_2)$ when the two functions are correlated under $q$.

        With $c = \mathrm{Cov}(f_1, f_2)$ the term $(y - m_1)^2$ becomes $(y - m_1 + c)^2$. Shapes:
        Fmu [..., N, 2], Fcov [..., N, 2, 2], Y [..., N, 1]; the result is [..., N].
        """
        return self._expected_log_prob(
            Fmu, tf.linalg.diag_part(Fcov), column(Y, Fmu) - Fmu[..., 0] + Fcov[..., 0, 1]
        )

    def _expected_log_prob(
        self, Fmu: TensorType, Fvar: TensorType, residual: tf.Tensor
    ) -> tf.Tensor:
        m2, v1, v2 = Fmu[..., 1], Fvar[..., 0], Fvar[..., 1]
        precision = bounded_exp(-m2 + 0.5 * v2)
        return -0.5 * (log(2 * pi) + bounded(m2) + precision * (residual**2 + v1))

    @inherit_check_shapes
    def _predict_mean_and_var(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType
    ) -> MeanAndVariance:
        return tf.identity(Fmu[..., :1]), Fvar[..., :1] + bounded_exp(
            Fmu[..., 1:] + 0.5 * Fvar[..., 1:]
        )

    @inherit_check_shapes
    def _predict_log_density(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType, Y: TensorType
    ) -> tf.Tensor:
        m1, v1 = Fmu[..., :1], Fvar[..., :1]

        def log_density(f2: tf.Tensor) -> tf.Tensor:
            return tfd.Normal(m1, tf.sqrt(v1 + bounded_exp(f2))).log_prob(tf.cast(Y, f2.dtype))

        return self._line.logspace(log_density, Fmu[..., 1:], Fvar[..., 1:])[..., 0]


class Beta(DistributionLikelihood):
    r"""Shares between 0 and 1: $y \sim \mathrm{Beta}(a, b)$ with $a = e^{f_1}$, $b = e^{f_2}$.

    $$\mathbb E_q\log p = (e^{m_1+v_1/2} - 1)\log y + (e^{m_2+v_2/2} - 1)\log(1-y)
      - \mathbb E_q\log B(a, b),$$

    with quadrature for the last term only.

    Args:
        nodes: quadrature points for each function.

    Shapes: F, Fmu, Fvar [..., N, 2]; Y [..., N, 1].

    >>> import numpy as np
    >>> from mogp.likelihoods import Beta
    >>> F = np.log([[2.0, 6.0]])
    >>> Beta().conditional_mean(np.zeros((1, 0)), F).numpy().tolist()
    [[0.25]]
    """

    function_labels = ("log a", "log b")
    target_rules = UNIT_INTERVAL

    def conditional(self, F: TensorType) -> tfd.Distribution:
        """The Beta distribution with parameters $e^{f_1}$ and $e^{f_2}$."""
        return tfd.Beta(bounded_exp(F[..., 0]), bounded_exp(F[..., 1]))

    def sample_y(self, F: TensorType, seed: int | TensorType) -> tf.Tensor:
        """As in the base class; draws that rounding put on 0 or 1 are moved inside."""
        y = super().sample_y(F, seed)
        precision = np.finfo(y.dtype.as_numpy_dtype)
        return tf.clip_by_value(y, precision.tiny, 1 - precision.eps)

    @inherit_check_shapes
    def _variational_expectations(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType, Y: TensorType
    ) -> tf.Tensor:
        def log_beta(F: tf.Tensor) -> tf.Tensor:
            return tfp.math.lbeta(bounded_exp(F[..., :1]), bounded_exp(F[..., 1:]))

        y, mean = column(Y, Fmu), bounded_exp(Fmu + 0.5 * Fvar)
        density = (mean[..., 0] - 1.0) * tf.math.log(y) + (mean[..., 1] - 1.0) * tf.math.log1p(-y)
        return density - self.quadrature(log_beta, Fmu, Fvar)[..., 0]


class Gamma(DistributionLikelihood):
    r"""Positive targets with a Gamma distribution, whose shape and rate are functions.

    $y \sim \mathrm{Gamma}(\alpha, \beta)$ with the shape $\alpha = e^{f_1}$ and the rate
    $\beta = e^{f_2}$. With $A = \mathbb E[\alpha] = e^{m_1+v_1/2}$ and
    $B = \mathbb E[1/\beta] = e^{-m_2+v_2/2}$,

    $$\mathbb E_q\log p = -\mathbb E\ln\Gamma(\alpha) + A\,(m_2 + \log y) - \log y
      - y\,e^{m_2+v_2/2},$$

    with quadrature over $f_1$ for the first term only, and $\mathbb E[y] = AB$,
    $\mathrm{Var}[y] = AB^2e^{v_2} + A^2B^2(e^{v_1+v_2} - 1)$.

    Args:
        nodes: quadrature points.

    Shapes: F, Fmu, Fvar [..., N, 2]; Y [..., N, 1].

    >>> import numpy as np
    >>> from mogp.likelihoods import Gamma
    >>> Fmu, Fvar = np.log([[3.0, 2.0]]), np.zeros((1, 2))
    >>> mean, var = Gamma().predict_mean_and_var(np.zeros((1, 0)), Fmu, Fvar)
    >>> np.round(mean, 3).tolist(), np.round(var, 3).tolist()
    ([[1.5]], [[0.75]])
    """

    function_labels = ("log shape", "log rate")
    target_rules = POSITIVE

    def conditional(self, F: TensorType) -> tfd.Distribution:
        """The Gamma distribution with shape $e^{f_1}$ and rate $e^{f_2}$."""
        return tfd.Gamma(bounded_exp(F[..., 0]), log_rate=bounded(F[..., 1]))

    def sample_y(self, F: TensorType, seed: int | TensorType) -> tf.Tensor:
        """As in the base class; draws that rounding put on 0 are moved inside."""
        y = super().sample_y(F, seed)
        return tf.maximum(y, np.finfo(y.dtype.as_numpy_dtype).tiny)

    @inherit_check_shapes
    def _variational_expectations(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType, Y: TensorType
    ) -> tf.Tensor:
        y, mean = column(Y, Fmu), bounded_exp(Fmu + 0.5 * Fvar)
        shape, rate, log_y = mean[..., 0], mean[..., 1], tf.math.log(y)
        log_gamma = self._expect(
            lambda f: tf.math.lgamma(bounded_exp(f)), Fmu[..., 0], Fvar[..., 0]
        )
        return -log_gamma + shape * (bounded(Fmu[..., 1]) + log_y) - log_y - y * rate

    @inherit_check_shapes
    def _predict_mean_and_var(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType
    ) -> MeanAndVariance:
        shape, scale = (
            bounded_exp(Fmu[..., :1] + 0.5 * Fvar[..., :1]),
            bounded_exp(-Fmu[..., 1:] + 0.5 * Fvar[..., 1:]),
        )
        mean, v = shape * scale, tf.nn.relu(Fvar)
        spread = log_normal_dispersion(v[..., :1] + v[..., 1:])
        return mean, mean * (scale * bounded_exp(v[..., 1:]) + mean * spread)


class Exponential(DistributionLikelihood):
    r"""Waiting times: $p(y) = b\,e^{-by}$ on $y > 0$ with rate $b = e^{f}$.

    The mean is $e^{-f}$. (GPflow's `Exponential` has the mean $e^{f}$ instead.) In closed form,
    with $\mu = e^{-m+v/2}$: $\mathbb E_q\log p = m - y\,e^{m+v/2}$, $\mathbb E[y] = \mu$,
    $\mathrm{Var}[y] = \mu^2(2e^{v} - 1)$.

    Args:
        nodes: quadrature points, for predictive densities.

    Shapes: F, Fmu, Fvar, Y [..., N, 1].

    >>> import numpy as np
    >>> from mogp.likelihoods import Exponential
    >>> Fmu, Fvar = np.log([[2.0]]), np.zeros((1, 1))
    >>> mean, var = Exponential().predict_mean_and_var(np.zeros((1, 0)), Fmu, Fvar)
    >>> np.round(mean, 3).tolist(), np.round(var, 3).tolist()
    ([[0.5]], [[0.25]])
    """

    function_labels = ("log rate",)
    target_rules = POSITIVE

    def conditional(self, F: TensorType) -> tfd.Distribution:
        """The exponential distribution with rate $e^{f}$."""
        return tfd.Exponential(bounded_exp(F[..., 0]))

    @inherit_check_shapes
    def _variational_expectations(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType, Y: TensorType
    ) -> tf.Tensor:
        return (bounded(Fmu) - tf.cast(Y, Fmu.dtype) * bounded_exp(Fmu + 0.5 * Fvar))[..., 0]

    @inherit_check_shapes
    def _predict_mean_and_var(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType
    ) -> MeanAndVariance:
        mean = bounded_exp(-Fmu + 0.5 * Fvar)
        return mean, mean**2 * (2.0 * log_normal_dispersion(Fvar) + 1.0)
