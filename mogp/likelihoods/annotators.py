"""Targets told by several annotators, each more or less reliable depending on the input (Giraldo,
paper L).
"""

from __future__ import annotations

import abc
import functools
from math import log, pi

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from check_shapes import check_shapes, inherit_check_shapes
from gpflow.base import MeanAndVariance, TensorType
from gpflow.likelihoods import Likelihood
from scipy import special
from scipy.stats import qmc
from tensorflow_probability import distributions as tfd

from mogp.likelihoods.base import (
    ReadsFunctions,
    Targets,
    bounded,
    bounded_exp,
    draw,
    log_normal_dispersion,
)
from mogp.likelihoods.continuous import HeteroscedasticGaussian
from mogp.likelihoods.quadrature import SMALLEST_VARIANCE, GaussHermite
from mogp.likelihoods.targets import TargetRule, labels
from mogp.priors import View

__all__ = ["AnnotatedClasses", "AnnotatedValues", "Annotators"]

LARGEST_TENSOR = 3
"""Up to so many classes expectations over the class functions are by quadrature, from more on by
quasi-Monte Carlo.
"""


class Annotators(Likelihood, ReadsFunctions, abc.ABC):
    r"""Annotations $y^1..y^R$ of a hidden truth, the *gold standard*: Y [N, R], a column an
    annotator.

    Any annotation may be missing. Which ones were given, $r \in R_n$, is the mask of the data
    (`observed`), and the expected log-likelihood of a row is
    $\sum_{r \in R_n} \mathbb E_q \log p(y_n^r \mid f)$ under the product of the marginals of the
    functions, as in the document. Predictions of the target are of the gold standard.

    A subclass says how the truth and the reliability of each annotator depend on the functions.
    """

    def __init__(self, annotators: int, truths: int, nodes: int) -> None:
        if annotators < 1:
            raise ValueError(f"annotators={annotators}; at least one is needed.")
        super().__init__(input_dim=None, latent_dim=truths + annotators, observation_dim=None)
        self.num_annotators = annotators
        with tf.init_scope():
            self._line = GaussHermite(1, nodes)

    @property
    def target_columns(self) -> int:
        """Columns of the targets: one an annotator."""
        return self.num_annotators

    @property
    def joint(self) -> bool:
        """Functions are taken to be independent at a row."""
        return False

    @abc.abstractmethod
    def each(self, Fmu: TensorType, Fvar: TensorType, Y: TensorType) -> tf.Tensor:
        r"""$\mathbb E_q \log p(y^r \mid f)$ for every annotator, given or not, [..., N, R]."""

    @abc.abstractmethod
    def gold(self, Fmu: TensorType, Fvar: TensorType) -> MeanAndVariance:
        """Mean and variance of what the truth is a draw of (class probabilities), or of the truth
        itself (a value).
        """

    @abc.abstractmethod
    def gold_log_density(self, Fmu: TensorType, Fvar: TensorType, Y: TensorType) -> tf.Tensor:
        """Log predictive density [N] of the truth, Y [N, 1]."""

    @abc.abstractmethod
    def reliability(self, Fmu: TensorType, Fvar: TensorType) -> MeanAndVariance:
        """Mean and variance of what says how far each annotator can be trusted, [..., N, R]."""

    @abc.abstractmethod
    def annotations_log_density(
        self, Fmu: TensorType, Fvar: TensorType, Y: TensorType, observed: TensorType
    ) -> tf.Tensor:
        """Log predictive density [N] of all the annotations of a row that were given."""

    def expectations(self, f: View, targets: Targets) -> tf.Tensor:
        """The sum over the annotators who told something, `[N]`."""
        Fmu, Fvar = f.marginals()
        return _given(self.each(Fmu, Fvar, targets.Y), targets.observed)

    def predictive(self, f: View) -> tuple[tf.Tensor, tf.Tensor]:
        """Of the gold standard: class probabilities and variances of the classes' indicators, or
        mean and variance.
        """
        Fmu, Fvar = f.marginals()
        found: tuple[tf.Tensor, tf.Tensor] = self._predict_mean_and_var(
            tf.zeros_like(Fmu[..., :0]), Fmu, Fvar
        )
        return found

    def log_density(self, f: View, targets: Targets) -> tf.Tensor:
        """Of the annotations that were given, `[N]`."""
        Fmu, Fvar = f.marginals()
        return self.annotations_log_density(Fmu, Fvar, targets.Y, targets.observed)

    @inherit_check_shapes
    def _variational_expectations(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType, Y: TensorType
    ) -> tf.Tensor:
        return tf.reduce_sum(self.each(Fmu, Fvar, Y), -1)

    @inherit_check_shapes
    def _predict_log_density(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType, Y: TensorType
    ) -> tf.Tensor:
        return self.annotations_log_density(Fmu, Fvar, Y, tf.ones_like(Y, tf.bool))

    def _nodes(self, dtype: tf.DType) -> tuple[tf.Tensor, tf.Tensor]:
        """Nodes and log weights [H] of a standard normal variable."""
        return tf.cast(self._line.Z[:, 0], dtype), tf.math.log(tf.cast(self._line.dZ[:, 0], dtype))


class AnnotatedClasses(Annotators):
    r"""Labels $y^r \in 0..K-1$ of annotators who know the class, or guess (CCGPMA-C).

    Class functions $f_1..f_K$ and a reliability function $f_{K+r}$ for each annotator make

    $$p(y^r = k \mid f) = \zeta_k^{\lambda^r}\,K^{-(1-\lambda^r)},\qquad
      \zeta = \mathrm{softmax}(f_1..f_K),\quad \lambda^r = \varsigma(f_{K+r}),$$

    with $\varsigma$ the logistic function. For $0 < \lambda < 1$ it does not sum to one over the
    classes: a pseudo-likelihood, whose bound says nothing about that of another model. Under the
    product of marginals

    $$\mathbb E_q\log p(y^r) = \mathbb E[\lambda^r]\,\mathbb E[\log\zeta_{y^r}] - (1 - \mathbb
      E[\lambda^r])\log K.$$

    $\mathbb E[\lambda^r]$ is a quadrature with `nodes` points. $\zeta$ depends on differences of
      class functions only,
    so for $K \le 3$ expectations over it are quadratures in $K - 1$ dimensions; for more classes
      they are means over
    `samples` (in prediction `prediction_samples`) fixed Sobol points, half of them mirror images of
      the others.

    Shapes: F, Fmu, Fvar [..., N, K + R]; Y [..., N, R].
    """

    def __init__(
        self,
        classes: int,
        annotators: int,
        *,
        nodes: int = 20,
        samples: int = 128,
        prediction_samples: int = 1024,
        seed: int = 0,
    ) -> None:
        if classes < 2:
            raise ValueError(
                f"classes={classes}; at least two are needed. For real values use AnnotatedValues."
            )
        if min(samples, prediction_samples) < 2:
            raise ValueError(
                f"samples={samples}, prediction_samples={prediction_samples}; at least two are"
                " needed."
            )
        super().__init__(annotators, classes, nodes)
        self.num_classes, self.samples, self.prediction_samples, self.seed = (
            classes,
            samples,
            prediction_samples,
            seed,
        )
        with tf.init_scope():
            self._grid = GaussHermite(classes - 1, nodes) if classes <= LARGEST_TENSOR else None

    @property
    def function_labels(self) -> tuple[str, ...]:
        """A name for each function."""
        return _names("class", self.num_classes) + _names(
            "reliability of annotator", self.num_annotators
        )

    @property
    def target_rules(self) -> tuple[TargetRule, ...]:
        """Labels are 0, 1, …, K - 1."""
        return labels(self.num_classes)

    @check_shapes(
        "Fmu: [batch..., J]", "Fvar: [batch..., J]", "Y: [batch..., R]", "return: [batch..., R]"
    )
    def each(self, Fmu: TensorType, Fvar: TensorType, Y: TensorType) -> tf.Tensor:
        """See `Annotators.each`."""
        log_zeta, weights = self._log_zeta(Fmu, Fvar, self.samples)
        of_class = tf.tensordot(weights, log_zeta, 1)
        trust = self.reliability(Fmu, Fvar)[0]
        return trust * self._told(of_class, Y) - (1 - trust) * log(self.num_classes)

    @check_shapes(
        "Fmu: [batch..., J]",
        "Fvar: [batch..., J]",
        "return[0]: [batch..., K]",
        "return[1]: [batch..., K]",
    )
    def gold(self, Fmu: TensorType, Fvar: TensorType) -> MeanAndVariance:
        r"""$\mathbb E[\zeta_k]$ and $\mathrm{Var}[\zeta_k]$."""
        log_zeta, weights = self._log_zeta(Fmu, Fvar, self.prediction_samples)
        zeta = tf.exp(log_zeta)
        mean = tf.tensordot(weights, zeta, 1)
        return mean, tf.tensordot(weights, tf.square(zeta - mean), 1)

    @check_shapes(
        "Fmu: [batch..., J]", "Fvar: [batch..., J]", "Y: [batch..., 1]", "return: [batch...]"
    )
    def gold_log_density(self, Fmu: TensorType, Fvar: TensorType, Y: TensorType) -> tf.Tensor:
        r"""$\log\mathbb E[\zeta_y]$."""
        log_zeta, weights = self._log_zeta(Fmu, Fvar, self.prediction_samples)
        weighted = log_zeta + _leading(tf.math.log(weights), log_zeta)
        return self._told(tf.reduce_logsumexp(weighted, 0), Y)[..., 0]

    @check_shapes(
        "Fmu: [batch..., J]",
        "Fvar: [batch..., J]",
        "return[0]: [batch..., R]",
        "return[1]: [batch..., R]",
    )
    def reliability(self, Fmu: TensorType, Fvar: TensorType) -> MeanAndVariance:
        r"""$\mathbb E[\lambda^r]$ and $\mathrm{Var}[\lambda^r]$."""
        z, log_weights = self._nodes(Fmu.dtype)
        trust = tf.sigmoid(
            self._trusts(Fmu)[..., None] + _deviation(self._trusts(Fvar))[..., None] * z
        )
        weights = tf.exp(log_weights)
        mean = tf.linalg.matvec(trust, weights)
        return mean, tf.linalg.matvec(tf.square(trust - mean[..., None]), weights)

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
        r"""$\log\mathbb E_\zeta\prod_{r \in R_n}\mathbb E_{\lambda^r}\,\zeta_{y^r}^{\lambda^r}K^{\lambda^r-1}$."""
        log_zeta, weights = self._log_zeta(Fmu, Fvar, self.prediction_samples)
        z, log_weights = self._nodes(Fmu.dtype)
        gain = self._told(
            log_zeta, tf.broadcast_to(Y, tf.concat([tf.shape(log_zeta)[:-1], tf.shape(Y)[-1:]], 0))
        )
        gain += log(self.num_classes)
        mean, deviation = self._trusts(Fmu), _deviation(self._trusts(Fvar))
        nodes = zip(tf.unstack(z), tf.unstack(log_weights), strict=True)
        terms = (
            tf.sigmoid(mean + deviation * node) * gain + log_weight for node, log_weight in nodes
        )
        told = functools.reduce(
            tfp.math.log_add_exp, terms
        )  # one node at a time: all at once would take much memory
        rows = _given(told - log(self.num_classes), observed)
        return tf.reduce_logsumexp(rows + _leading(tf.math.log(weights), rows), 0)

    def sample_y(self, F: TensorType, seed: int | TensorType) -> tf.Tensor:
        """One draw of the true class for each row of F, [..., N, 1]."""
        F = tf.convert_to_tensor(F)
        return draw(tfd.Categorical(logits=self._scores(F)), F.dtype, seed)

    @inherit_check_shapes
    def _log_prob(self, X: TensorType, F: TensorType, Y: TensorType) -> tf.Tensor:
        trust = tf.sigmoid(self._trusts(F))
        told = self._told(tf.nn.log_softmax(self._scores(F)), Y)
        return tf.reduce_sum(trust * told - (1 - trust) * log(self.num_classes), -1)

    @inherit_check_shapes
    def _conditional_mean(self, X: TensorType, F: TensorType) -> tf.Tensor:
        return tf.nn.softmax(self._scores(F))

    @inherit_check_shapes
    def _conditional_variance(self, X: TensorType, F: TensorType) -> tf.Tensor:
        zeta = tf.nn.softmax(self._scores(F))
        return zeta - zeta**2

    @inherit_check_shapes
    def _predict_mean_and_var(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType
    ) -> MeanAndVariance:
        p = self.gold(Fmu, Fvar)[0]
        return p, p - p**2

    def _log_zeta(
        self, Fmu: TensorType, Fvar: TensorType, samples: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Log class probabilities [S, ..., N, K] at points of the class functions, and the points'
        weights [S].
        """
        mean, var = self._scores(Fmu), tf.maximum(self._scores(Fvar), SMALLEST_VARIANCE)
        if self._grid is not None:
            z = _leading(tf.cast(self._grid.Z, mean.dtype), mean[None], keep=1)
            weights = tf.cast(self._grid.dZ[:, 0], mean.dtype)
            return tf.nn.log_softmax(_differences(mean, var, z)), weights
        half = special.ndtri(qmc.Sobol(self.num_classes, rng=self.seed).random(samples // 2))
        z = _leading(tf.constant(np.concatenate([half, -half]), mean.dtype), mean[None], keep=1)
        weights = tf.fill([z.shape[0]], tf.constant(1 / z.shape[0], mean.dtype))
        return tf.nn.log_softmax(mean + tf.sqrt(var) * z), weights

    def _told(self, values: tf.Tensor, Y: TensorType) -> tf.Tensor:
        """The entries of `values` [..., N, K] that belong to the labels in Y [..., N, R]: [..., N,
        R].
        """
        chosen = tf.one_hot(tf.cast(Y, tf.int32), self.num_classes, dtype=values.dtype)
        return tf.linalg.matvec(chosen, values)

    def _scores(self, F: TensorType) -> tf.Tensor:
        return F[..., : self.num_classes]

    def _trusts(self, F: TensorType) -> tf.Tensor:
        return F[..., self.num_classes :]


class AnnotatedValues(Annotators):
    r"""Values $y^r \sim \mathcal N(f_1, e^{f_{1+r}})$: the truth, with noise of each annotator's
    own (CCGPMA-R).

    An annotator alone is a `HeteroscedasticGaussian` on $(f_1, f_{1+r})$, and so is the
    expectation. The gold standard is $f_1$ itself, without noise. What says how far an annotator
    can be trusted is the noise variance $v^r = e^{f_{1+r}}$, with $\mathbb E[v^r] = e^{m + s/2}$
    and $\mathrm{Var}[v^r] = e^{2m + s}(e^s - 1)$ for $f_{1+r} \sim \mathcal N(m, s)$: the smaller,
    the better.

    Shapes: F, Fmu, Fvar [..., N, 1 + R]; Y [..., N, R].
    """

    def __init__(self, annotators: int, *, nodes: int = 20) -> None:
        super().__init__(annotators, 1, nodes)
        self._alone = HeteroscedasticGaussian(nodes)

    @property
    def function_labels(self) -> tuple[str, ...]:
        """A name for each function."""
        return ("truth", *_names("log variance of annotator", self.num_annotators))

    @check_shapes(
        "Fmu: [batch..., J]", "Fvar: [batch..., J]", "Y: [batch..., R]", "return: [batch..., R]"
    )
    def each(self, Fmu: TensorType, Fvar: TensorType, Y: TensorType) -> tf.Tensor:
        """See `Annotators.each`."""
        means, variances = (_pairs(F) for F in (Fmu, Fvar))
        no_inputs = tf.zeros([*[1] * (len(means.shape) - 1), 0], means.dtype)
        return self._alone.variational_expectations(no_inputs, means, variances, Y[..., None])

    def gold(self, Fmu: TensorType, Fvar: TensorType) -> MeanAndVariance:
        """Of $f_1$, [..., N, 1]."""
        return tf.identity(Fmu[..., :1]), tf.identity(Fvar[..., :1])

    @check_shapes(
        "Fmu: [batch..., J]", "Fvar: [batch..., J]", "Y: [batch..., 1]", "return: [batch...]"
    )
    def gold_log_density(self, Fmu: TensorType, Fvar: TensorType, Y: TensorType) -> tf.Tensor:
        r"""$\log\mathcal N(y \mid m_1, v_1)$."""
        return tfd.Normal(Fmu[..., 0], _deviation(Fvar[..., 0])).log_prob(
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
        r"""$\log\mathbb E_{f_1}\prod_{r \in R_n}\mathbb E_{f_{1+r}}\,\mathcal N(y^r \mid f_1, e^{f_{1+r}})$."""
        z, log_weights = self._nodes(Fmu.dtype)
        log_variance = bounded(Fmu[..., 1:, None] + _deviation(Fvar[..., 1:, None]) * z)

        def given_truth(f: tf.Tensor) -> tf.Tensor:
            square = tf.square(tf.cast(Y, f.dtype) - f)[..., None]
            told = -0.5 * (log(2 * pi) + log_variance + square * tf.exp(-log_variance))
            return _given(tf.reduce_logsumexp(told + log_weights, -1), observed)[..., None]

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


def _differences(mean: tf.Tensor, var: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
    r"""Points of $f_k - f_K$ for two or three independent functions: mean, var [..., K], z [S, ...,
    K - 1].

    With $a^2 = v_1 + v_3$, the factor of the covariance of $(f_1 - f_3, f_2 - f_3)$ has the rows
    $(a, 0)$ and $(v_3/a, \sqrt{v_2 + v_1v_3/a^2})$.
    """
    last = mean[..., -1:]
    a = tf.sqrt(var[..., 0] + var[..., -1])
    points = [a * z[..., 0]]
    if mean.shape[-1] == LARGEST_TENSOR:
        rest = tf.sqrt(var[..., 1] + var[..., 0] * var[..., 2] / tf.square(a))
        points.append(var[..., 2] / a * z[..., 0] + rest * z[..., 1])
    return (mean - last) + tf.stack([*points, tf.zeros_like(points[0])], -1)


def _pairs(F: TensorType) -> tf.Tensor:
    """The truth beside each annotator's function, [..., N, R, 2]."""
    F = tf.convert_to_tensor(F)
    return tf.stack([tf.broadcast_to(F[..., :1], tf.shape(F[..., 1:])), F[..., 1:]], -1)


def _given(each: tf.Tensor, observed: TensorType) -> tf.Tensor:
    """The sum over annotators of [..., N, R] where something was told."""
    return tf.reduce_sum(tf.where(observed, each, tf.zeros_like(each)), -1)


def _deviation(variance: TensorType) -> tf.Tensor:
    return tf.sqrt(tf.maximum(variance, SMALLEST_VARIANCE))


def _leading(values: tf.Tensor, like: tf.Tensor, keep: int = 0) -> tf.Tensor:
    """`values` [S, ...] with axes of length one after the first, so that it meets `like` [S, ...,
    N, K].

    The last `keep` axes stay last.
    """
    shape = [int(n) for n in values.shape]
    return tf.reshape(values, [shape[0], *[1] * (len(like.shape) - 1 - keep), *shape[1:]])


def _names(what: str, count: int) -> tuple[str, ...]:
    return tuple(f"{what} {k}" for k in range(count))
