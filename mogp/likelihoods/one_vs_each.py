"""Softmax over many classes by one-vs-each: comparisons of two classes, which can be sampled."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from check_shapes import check_shapes, inherit_check_shapes
from gpflow.base import TensorType

from mogp.likelihoods.base import Targets
from mogp.likelihoods.logistic import expected_softplus
from mogp.likelihoods.multiclass import Covariance
from mogp.likelihoods.negatives import SampledClasses
from mogp.priors import View

__all__ = ["OneVsEach", "expected_log_sigmoid", "log_one_vs_each"]


@check_shapes("F: [batch..., C]", "return: [batch..., C]")
def log_one_vs_each(F: TensorType) -> tf.Tensor:
    r"""$\sum_{\ell \ne k} \log\sigma(f_k - f_\ell)$ for every class $k$ of scores F [..., C]."""
    F = tf.convert_to_tensor(F)
    beaten = tf.reduce_sum(tf.nn.softplus(F[..., None, :] - F[..., :, None]), axis=-1)
    return tf.math.log(tf.constant(2.0, F.dtype)) - beaten


@check_shapes("mean: [batch...]", "var: [batch...]", "return: [batch...]")
def expected_log_sigmoid(mean: TensorType, var: TensorType, nodes: int = 10) -> tf.Tensor:
    r"""$\mathbb E \log\sigma(d)$ for $d \sim \mathcal N(m, v)$, by quadrature."""
    return -expected_softplus(-tf.convert_to_tensor(mean), tf.convert_to_tensor(var), nodes)


class OneVsEach(SampledClasses):
    r"""The softmax over many classes, bounded by comparisons of two classes each.

    From $1 + \sum_\ell a_\ell \le \prod_\ell (1 + a_\ell)$ with $a_\ell = e^{f_\ell - f_k}$,

    $$p(y = k \mid f) = \frac{e^{f_k}}{\sum_c e^{f_c}}\ \ge\ \tilde p(k \mid f)
      = \prod_{\ell \ne k} \sigma(f_k - f_\ell),$$

    an equality for two classes (Titsias 2016). $\tilde p$ has the largest entry where the softmax
    has it, and sums to at most one. The expectation of $\log\tilde p$ under $q$ is a sum over
    rivals $\ell$ of one-dimensional integrals over $f_k - f_\ell$; $s$ of them (`negatives`), drawn
    without replacement and scaled by $(C-1)/s$, estimate it without bias. (`OneVsEachMOGP` draws
    classes for a whole step, so that only they are read.)

    Prediction is that of `Softmax`, over all classes; `log_bound` gives $\tilde p$ integrated over
    $q$ in its place.

    Args:
        classes: number of classes $C$.
        negatives: rivals $s$ for each row and step; all $C - 1$ if None or larger.
        nodes: quadrature points.
        covariance, prediction_samples, seed: as in `Softmax`.

    Shapes: F, Fmu, Fvar [N, C]; Y [N, 1].

    >>> import numpy as np
    >>> from mogp.likelihoods import OneVsEach
    >>> likelihood = OneVsEach(classes=4)
    >>> Fmu, Fvar = np.array([[3.0, 0.0, 0.0, 0.0]]), np.full((1, 4), 0.1)
    >>> X, Y = np.zeros((1, 0)), np.array([[0]])
    >>> np.round(likelihood.variational_expectations(X, Fmu, Fvar, Y), 3).tolist()
    [-0.16]
    """

    def __init__(
        self,
        classes: int,
        negatives: int | None = None,
        *,
        nodes: int = 10,
        covariance: Covariance = "exact",
        prediction_samples: int = 1000,
        seed: int = 0,
    ) -> None:
        super().__init__(
            classes,
            negatives,
            covariance=covariance,
            prediction_samples=prediction_samples,
            seed=seed,
        )
        if nodes < 1:
            raise ValueError(f"nodes={nodes}; quadrature needs at least one.")
        self.nodes = nodes

    @inherit_check_shapes
    def _variational_expectations(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType, Y: TensorType
    ) -> tf.Tensor:
        return tf.reshape(self._expected(*self._view(Fmu, Fvar, Y)), tf.shape(Fmu)[:-1])

    def expectations(self, f: View, targets: Targets) -> tf.Tensor:
        r"""$\frac{C-1}{s}\sum_\ell \mathbb E_q \log\sigma(f_y - f_\ell)$ over the drawn rivals,
        `[N]`.
        """
        return self._expected(f, targets.Y)

    def _expected(self, f: View, Y: tf.Tensor) -> tf.Tensor:
        below = self.contrasts(f, Y)
        total = tf.reduce_sum(expected_log_sigmoid(-below.mean, below.var, self.nodes), -1)
        return tf.cast(self._scale, total.dtype) * total

    def log_bound(self, f: View, normalise: bool = False) -> tf.Tensor:
        r"""$\log\int\tilde p(k \mid f)\,q(f)\,df$ for every class $k$, `[N, C]`, over fixed draws.

        Args:
            f: the functions of the output.
            normalise: divide by the sum over classes, which is at most one.
        """
        seen = self._seen(f)
        log_p = self._mean_softmax(
            seen.points,
            [1, seen.num_latents],
            seen.num_rows,
            seen.marginals().mean.dtype,
            log_one_vs_each,
            self.num_classes**2,
        )
        return tf.nn.log_softmax(log_p) if normalise else log_p

    @property
    def alike(self) -> Any:
        """As for any likelihood with sampled classes, with the nodes of the quadrature."""
        return *super().alike, self.nodes
