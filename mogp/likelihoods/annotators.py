"""What models of annotators share: targets told by several people, each more or less reliable.

How reliable an annotator is depends on the input (Giraldo, paper L).
"""

from __future__ import annotations

import abc

import tensorflow as tf
from check_shapes import inherit_check_shapes
from gpflow.base import MeanAndVariance, TensorType
from gpflow.likelihoods import Likelihood

from mogp.likelihoods.base import ReadsFunctions, Targets
from mogp.likelihoods.quadrature import SMALLEST_VARIANCE, GaussHermite
from mogp.priors import View

__all__ = ["Annotators", "deviation", "numbered", "over_given"]


class Annotators(Likelihood, ReadsFunctions, abc.ABC):
    r"""Annotations $y^1..y^R$ of a hidden truth, the *gold standard*: the base class.

    Any annotation may be missing. Which ones were given, $r \in R_n$, is the mask of the data
    (`observed`), and the expected log-likelihood of a row is
    $\sum_{r \in R_n} \mathbb E_q \log p(y_n^r \mid f)$ under the product of the marginals of the
    functions, as in the document. Predictions of the target are predictions of the gold standard.

    A subclass says how the truth and the reliability of each annotator depend on the functions.

    Args:
        annotators: $R$; targets Y are [N, R], a column for each annotator.
        truths: functions of the truth; with one for each annotator there are $J$ = truths + $R$.
        nodes: points of the one-dimensional quadrature.

    >>> import numpy as np
    >>> from mogp.likelihoods import AnnotatedValues
    >>> likelihood = AnnotatedValues(annotators=2)
    >>> likelihood.function_labels
    ('truth', 'log variance of annotator 0', 'log variance of annotator 1')
    >>> Fmu, Fvar = np.array([[1.0, -2.0, 0.0]]), np.full((1, 3), 0.1)
    >>> np.round(likelihood.reliability(Fmu, Fvar)[0], 3).tolist()
    [[0.142, 1.051]]
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
        """Columns of the targets: one for each annotator."""
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
        """Mean and variance of a true value, or of the probabilities of a true class."""

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
        return over_given(self.each(Fmu, Fvar, targets.Y), targets.observed)

    def predictive(self, f: View) -> tuple[tf.Tensor, tf.Tensor]:
        """Predictive moments of the gold standard.

        These are class probabilities and the variances of the classes' indicators, or mean and
        variance.
        """
        Fmu, Fvar = f.marginals()
        found: tuple[tf.Tensor, tf.Tensor] = self._predict_mean_and_var(
            tf.zeros_like(Fmu[..., :0]), Fmu, Fvar
        )
        return found

    def log_density(self, f: View, targets: Targets) -> tf.Tensor:
        """Log predictive density of the annotations that were given, `[N]`."""
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


def over_given(each: tf.Tensor, observed: TensorType) -> tf.Tensor:
    """The sum over annotators of [..., N, R] where something was told."""
    return tf.reduce_sum(tf.where(observed, each, tf.zeros_like(each)), -1)


def deviation(variance: TensorType) -> tf.Tensor:
    """Standard deviations, of variances that rounding may have brought to zero or below it."""
    return tf.sqrt(tf.maximum(variance, SMALLEST_VARIANCE))


def numbered(what: str, count: int) -> tuple[str, ...]:
    """Names such as "class 0", "class 1"."""
    return tuple(f"{what} {k}" for k in range(count))
