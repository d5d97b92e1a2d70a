"""Softmax over many classes by augment and reduce: Gumbel noise makes a sum that can be sampled."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import gpflow
import numpy as np
import tensorflow as tf
from check_shapes import inherit_check_shapes
from gpflow.base import TensorType

from mogp.likelihoods.base import Targets
from mogp.likelihoods.multiclass import Covariance
from mogp.likelihoods.negatives import SampledClasses
from mogp.priors import View

__all__ = ["AugmentReduce", "collapsed_bound", "local_bound"]

Theta: TypeAlias = Literal["collapsed", "local"]


def collapsed_bound(log_P: TensorType, scale: TensorType = 1.0) -> tf.Tensor:
    r"""Form 1, $-\log(1 + \kappa\sum_c P_c)$ with $\kappa$ the `scale`: log_P [..., S], scale
    [...], returns [...].
    """
    return -tf.nn.softplus(_log_total(log_P, scale))


def local_bound(log_P: TensorType, log_theta: TensorType, scale: TensorType = 1.0) -> tf.Tensor:
    r"""Form 0, $1 - \log\theta - (1 + \kappa\sum_c P_c)/\theta$: linear in $P$; log_P [..., S],
    log_theta [...].

    At $\theta = 1 + \kappa\sum_c P_c$ it equals Form 1, elsewhere it is smaller.
    """
    return 1.0 - log_theta - tf.exp(tf.nn.softplus(_log_total(log_P, scale)) - log_theta)


def _log_total(log_P: TensorType, scale: TensorType) -> tf.Tensor:
    log_P = tf.convert_to_tensor(log_P)
    factor = tf.cast(scale if tf.is_tensor(scale) else np.asarray(scale, np.float64), log_P.dtype)
    return tf.reduce_logsumexp(log_P, axis=-1) + tf.math.log(factor)


class AugmentReduce(SampledClasses):
    r"""The softmax over many classes, with a bound whose cost does not depend on their number $C$.

    $p(y = k \mid f) = e^{f_k} / \sum_c e^{f_c}$. With Gumbel noise $\varepsilon$ on the score of
    the true class, $\log p(y, \varepsilon \mid f)$ is a sum over the wrong classes.
    $q(\varepsilon) = \mathrm{Gumbel}(\log\theta, 1)$ gives for each row

    $$1 - \log\theta - \frac{1 + \mathcal P}{\theta}\ \le\ -\log(1 + \mathcal P)\ \le\ \mathbb E_q
      \log p(y \mid f), \qquad \mathcal P = \sum_{c \ne y} \mathbb E_q\, e^{f_c - f_y},$$

    Forms 0 and 1. $\mathcal P$ is estimated by $\frac{C-1}{s}\sum_{c \in \mathcal S}$ over $s$
    wrong classes, drawn without replacement for every row at every step. Form 0 with a stored
    $\theta$ is linear in $\mathcal P$, so the estimate is unbiased; Form 1 has the sum inside a
    logarithm, and its estimate is too large on average.

    With $\mu$, $v$ the moments of $f_c - f_y$ under $q$,
    $\mathbb E_q\, e^{f_c - f_y} = e^{\mu + v/2}$. `covariance="exact"` takes $v$ as it is, so the
    right-hand inequality holds. `"independent"` (eq. 3.24 of Ma's thesis) takes $v = v_c + v_y$, as
    if the class functions were independent: where they are negatively correlated the result is not
    a bound.

    Prediction is that of `Softmax`, over all classes.

    Args:
        classes: number of classes $C$.
        negatives: wrong classes $s$ for each row and step; all $C - 1$ if None or larger.
        covariance: "exact", or "independent" as published.
        theta: "collapsed" (Form 1), or "local" (Form 0): $\theta$ is stored for each row of the
            data, and before every step moved by `rate` towards $1 + \mathcal P$, estimated with
            other classes than the step's.
        rows: rows of the data's input matrix, `len(data.X)`; needed for `theta="local"`.
        rate: step size of the update of $\theta$.
        prediction_samples, seed: as in `Softmax`.

    Shapes: F, Fmu, Fvar [N, C]; Y [N, 1].

    >>> import numpy as np
    >>> from mogp.likelihoods import AugmentReduce
    >>> likelihood = AugmentReduce(classes=4)
    >>> Fmu, Fvar = np.array([[3.0, 0.0, 0.0, 0.0]]), np.full((1, 4), 0.1)
    >>> X, Y = np.zeros((1, 0)), np.array([[0]])
    >>> np.round(likelihood.variational_expectations(X, Fmu, Fvar, Y), 3).tolist()
    [-0.153]
    """

    def __init__(
        self,
        classes: int,
        negatives: int | None = None,
        *,
        covariance: Covariance = "exact",
        theta: Theta = "collapsed",
        rows: int | None = None,
        rate: float = 0.1,
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
        if theta not in get_args(Theta):
            raise ValueError(f"theta={theta!r}; choose 'collapsed' or 'local'.")
        if theta == "local" and (rows is None or rows < 1):
            raise ValueError(
                f"theta='local' stores a number for each row of the data, got rows={rows}; give"
                " len(data.X)."
            )
        if not 0 < rate <= 1:
            raise ValueError(f"rate={rate}; the weight of an update lies in (0, 1].")
        self.rate = rate
        self.log_theta: tf.Variable | None = None
        if theta == "local":
            start = np.full(rows or 0, np.log(classes), gpflow.default_float())
            self.log_theta = tf.Variable(start, trainable=False, name="log_theta")

    @inherit_check_shapes
    def _variational_expectations(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType, Y: TensorType
    ) -> tf.Tensor:
        bound = collapsed_bound(self.log_ratios(*self._view(Fmu, Fvar, Y)), self._scale)
        return tf.reshape(bound, tf.shape(Fmu)[:-1])

    def expectations(self, f: View, targets: Targets) -> tf.Tensor:
        """Form 1, or Form 0 with the stored theta, estimated on sampled classes, `[N]`."""
        log_P = self.log_ratios(f, targets.Y)
        if self.log_theta is None:
            return collapsed_bound(log_P, self._scale)
        return local_bound(log_P, tf.gather(self.log_theta, targets.ids), self._scale)

    @property
    def stored_rows(self) -> int | None:
        r"""Rows for which $\theta$ is kept; None for the collapsed form."""
        return None if self.log_theta is None else int(self.log_theta.shape[0])

    def update_local(self, f: View, targets: Targets) -> None:
        r"""Move the stored $\theta$ of the rows of a batch towards its optimum.

        $\theta \leftarrow (1 - \rho)\theta + \rho(1 + \hat{\mathcal P})$, with $\rho$ the `rate`.
        """
        if self.log_theta is None:
            return
        ids, towards = targets.ids, -collapsed_bound(self.log_ratios(f, targets.Y), self._scale)
        now = tf.gather(self.log_theta, ids)
        # The mean is taken of exponentials, in logarithms: theta may be as large as e^(f_c - f_y).
        kept = (
            now + float(np.log1p(-self.rate))
            if self.rate < 1
            else tf.fill(tf.shape(now), now.dtype.min)
        )
        moved = tf.reduce_logsumexp(tf.stack([kept, towards + float(np.log(self.rate))]), axis=0)
        self.log_theta.scatter_nd_update(ids[:, None], moved)

    def log_ratios(self, f: View, Y: tf.Tensor) -> tf.Tensor:
        r"""$\log \mathbb E_q\, e^{f_c - f_y}$ for the sampled wrong classes $c$ of each row,
        `[N, s]`.
        """
        difference = self.contrasts(f, Y)
        return difference.mean + 0.5 * difference.var

    @property
    def alike(self) -> Any:
        """As for sampled classes; a likelihood that stores theta goes with itself only."""
        return super().alike if self.log_theta is None else None
