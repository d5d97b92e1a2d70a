"""Class labels told by annotators who know the class, or guess."""

from __future__ import annotations

import functools
from math import log

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from check_shapes import check_shapes, inherit_check_shapes
from gpflow.base import MeanAndVariance, TensorType
from scipy import special
from scipy.stats import qmc
from tensorflow_probability import distributions as tfd

from mogp.likelihoods.annotators import Annotators, deviation, numbered, over_given
from mogp.likelihoods.base import draw
from mogp.likelihoods.quadrature import SMALLEST_VARIANCE, GaussHermite
from mogp.likelihoods.targets import TargetRule, labels

__all__ = ["AnnotatedClasses"]

LARGEST_TENSOR = 3
"""With up to so many classes expectations are by quadrature; with more, by quasi-Monte Carlo."""


class AnnotatedClasses(Annotators):
    r"""Labels $y^r \in 0..K-1$ of annotators who know the class, or guess (CCGPMA-C).

    Class functions $f_1..f_K$ and a reliability function $f_{K+r}$ for each annotator make

    $$p(y^r = k \mid f) = \zeta_k^{\lambda^r}\,K^{-(1-\lambda^r)},\qquad
      \zeta = \mathrm{softmax}(f_1..f_K),\quad \lambda^r = \varsigma(f_{K+r}),$$

    with $\varsigma$ the logistic function. For $0 < \lambda < 1$ it does not sum to one over the
    classes: a pseudo-likelihood, whose bound says nothing about that of another model. Under the
    product of marginals

    $$\mathbb E_q\log p(y^r) = \mathbb E[\lambda^r]\,\mathbb E[\log\zeta_{y^r}]
      - (1 - \mathbb E[\lambda^r])\log K.$$

    $\mathbb E[\lambda^r]$ is a quadrature with `nodes` points. $\zeta$ depends on differences of
    class functions only, so for $K \le 3$ expectations over it are quadratures in $K - 1$
    dimensions; for more classes they are means over `samples` (in prediction `prediction_samples`)
    fixed Sobol points, half of them mirror images of the others.

    Args:
        classes: $K$.
        annotators: $R$.
        nodes: quadrature points for each dimension.
        samples: Sobol points in training.
        prediction_samples: Sobol points in prediction.
        seed: seed of the Sobol points.

    Shapes: F, Fmu, Fvar [..., N, K + R]; Y [..., N, R].

    >>> import numpy as np
    >>> from mogp.likelihoods import AnnotatedClasses
    >>> likelihood = AnnotatedClasses(classes=2, annotators=3)
    >>> Fmu = np.array([[2.0, 0.0, 4.0, 0.0, -4.0]])
    >>> Fvar = np.full((1, 5), 0.01)
    >>> np.round(likelihood.gold(Fmu, Fvar)[0], 2).tolist()
    [[0.88, 0.12]]
    >>> np.round(likelihood.reliability(Fmu, Fvar)[0], 2).tolist()
    [[0.98, 0.5, 0.02]]
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
        return numbered("class", self.num_classes) + numbered(
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
        r"""$\mathbb E[\zeta_k]$ and $\mathrm{Var}[\zeta_k]$, [..., N, K]."""
        log_zeta, weights = self._log_zeta(Fmu, Fvar, self.prediction_samples)
        zeta = tf.exp(log_zeta)
        mean = tf.tensordot(weights, zeta, 1)
        return mean, tf.tensordot(weights, tf.square(zeta - mean), 1)

    @check_shapes(
        "Fmu: [batch..., J]", "Fvar: [batch..., J]", "Y: [batch..., 1]", "return: [batch...]"
    )
    def gold_log_density(self, Fmu: TensorType, Fvar: TensorType, Y: TensorType) -> tf.Tensor:
        r"""$\log\mathbb E[\zeta_y]$, [..., N]."""
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
        r"""$\mathbb E[\lambda^r]$ and $\mathrm{Var}[\lambda^r]$, [..., N, R]."""
        z, log_weights = self._nodes(Fmu.dtype)
        trust = tf.sigmoid(
            self._trusts(Fmu)[..., None] + deviation(self._trusts(Fvar))[..., None] * z
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
        r"""Log density of the annotations that were given, [..., N].

        $$\log\mathbb E_\zeta\prod_{r \in R_n}
          \mathbb E_{\lambda^r}\,\zeta_{y^r}^{\lambda^r}K^{\lambda^r-1}.$$
        """
        log_zeta, weights = self._log_zeta(Fmu, Fvar, self.prediction_samples)
        z, log_weights = self._nodes(Fmu.dtype)
        gain = self._told(
            log_zeta, tf.broadcast_to(Y, tf.concat([tf.shape(log_zeta)[:-1], tf.shape(Y)[-1:]], 0))
        )
        gain += log(self.num_classes)
        mean, sd = self._trusts(Fmu), deviation(self._trusts(Fvar))
        nodes = zip(tf.unstack(z), tf.unstack(log_weights), strict=True)
        terms = (tf.sigmoid(mean + sd * node) * gain + log_weight for node, log_weight in nodes)
        # One node at a time: all at once would hold [S, N, R, nodes] numbers.
        told = functools.reduce(tfp.math.log_add_exp, terms)
        rows = over_given(told - log(self.num_classes), observed)
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
        # Mirrored points make odd moments exact, and fixed ones make repeated calls agree.
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


def _leading(values: tf.Tensor, like: tf.Tensor, keep: int = 0) -> tf.Tensor:
    """`values` [S, ...] with axes of length one after the first, so that it meets `like` [S, ...,
    N, K].

    The last `keep` axes stay last.
    """
    shape = [int(n) for n in values.shape]
    return tf.reshape(values, [shape[0], *[1] * (len(like.shape) - 1 - keep), *shape[1:]])
