"""Likelihoods of class labels, one function for each class: softmax and robust-max."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any, Literal, TypeAlias, get_args

import gpflow
import numpy as np
import tensorflow as tf
from check_shapes import check_shapes, inherit_check_shapes
from gpflow.base import MeanAndVariance, TensorType
from gpflow.quadrature import hermgauss

from mogp.likelihoods.base import ReadsFunctions, Targets
from mogp.likelihoods.quadrature import SMALLEST_VARIANCE
from mogp.priors import View, independent_functions

__all__ = ["Covariance", "RobustMax", "Softmax"]

_NUMBERS_AT_ONCE = 1 << 24

Covariance: TypeAlias = Literal["exact", "independent"]
"""How the class functions of a row depend on each other: as under q, or not at all."""


class Softmax(gpflow.likelihoods.Softmax, ReadsFunctions):
    r"""The softmax $p(y = k \mid f) = e^{f_k} / \sum_c e^{f_c}$ of $C$ classes, by Monte Carlo.

    GPflow's likelihood with randomness that can be repeated. Training draws $S$ (`samples`) new
    points of $q(f)$ for every row from the likelihood's own `generator`; its state is a variable,
    which a checkpoint keeps. Prediction uses one fixed set of `prediction_samples` standard normal
    draws for every row: the probabilities of a row sum to one, are the same in every call and
    whatever the other rows, and asking for them leaves the generator alone.

    In a `SparseMOGP` the draws are of the $L$ latent GPs, mixed to class functions, so the classes
    are correlated as they are under $q$ (`covariance="exact"`); `"independent"` draws every class
    function from its marginal.

    Args:
        classes: $C$; labels are 0..C-1.
        samples: draws $S$ for each row and step.
        covariance: "exact" or "independent", see above.
        prediction_samples: draws in prediction.
        seed: seed of both kinds of draws.

    Shapes: F, Fmu, Fvar [N, C]; Y [N, 1].

    >>> import numpy as np
    >>> from mogp.likelihoods import Softmax
    >>> likelihood = Softmax(classes=3)
    >>> Fmu, Fvar = np.array([[2.0, 0.0, 0.0]]), np.full((1, 3), 1e-6)
    >>> p, _ = likelihood.predict_mean_and_var(np.zeros((1, 0)), Fmu, Fvar)
    >>> np.round(p, 2).tolist()
    [[0.79, 0.11, 0.11]]
    """

    def __init__(
        self,
        classes: int,
        samples: int = 20,
        *,
        covariance: Covariance = "exact",
        prediction_samples: int = 1000,
        seed: int = 0,
    ) -> None:
        _at_least_two(type(self).__name__, classes)
        if covariance not in get_args(Covariance):
            raise ValueError(f"covariance={covariance!r}; choose 'exact' or 'independent'.")
        if samples < 1 or prediction_samples < 1:
            raise ValueError(
                f"samples={samples}, prediction_samples={prediction_samples}; at least one draw is"
                " needed."
            )
        super().__init__(classes)
        self.covariance = covariance
        self.num_monte_carlo_points = samples
        self.prediction_samples = prediction_samples
        self.seed = seed
        self.generator = tf.random.Generator.from_seed(seed, alg="philox")

    @property
    def function_labels(self) -> tuple[str, ...]:
        """A name for each function."""
        return _class_labels(self.num_classes)

    @inherit_check_shapes
    def _log_prob(self, X: TensorType, F: TensorType, Y: TensorType) -> tf.Tensor:
        return _of_class(tf.nn.log_softmax(F), Y)

    @inherit_check_shapes
    def _variational_expectations(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType, Y: TensorType
    ) -> tf.Tensor:
        shape = tf.concat([[self.num_monte_carlo_points], tf.shape(Fmu)], axis=0)
        F = _reparametrise(Fmu, Fvar, self.generator.normal(shape, dtype=Fmu.dtype))
        return tf.reduce_mean(self._log_prob(X, F, Y), axis=0)

    @inherit_check_shapes
    def _predict_mean_and_var(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType
    ) -> MeanAndVariance:
        p = tf.exp(self._log_probabilities(Fmu, Fvar))
        return p, p - p**2

    @inherit_check_shapes
    def _predict_log_density(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType, Y: TensorType
    ) -> tf.Tensor:
        return _of_class(self._log_probabilities(Fmu, Fvar), Y)

    def expectations(self, f: View, targets: Targets) -> tf.Tensor:
        """The mean log-softmax of `samples` draws, `[N]`."""
        f = self._seen(f)
        Y: Any = targets.Y
        shape = [self.num_monte_carlo_points, tf.shape(Y)[0], f.num_latents]
        F = f.points(self.generator.normal(shape, dtype=Y.dtype))
        return tf.reduce_mean(_of_class(tf.nn.log_softmax(F), Y), axis=0)

    def predictive(self, f: View) -> tuple[tf.Tensor, tf.Tensor]:
        """Class probabilities `[N, C]`, and the variances of the indicators of the classes."""
        p = tf.exp(self._joint(f))
        return p, p - p**2

    @property
    def joint(self) -> bool:
        """Whether class functions are dependent at a row."""
        return self.covariance == "exact"

    def log_density(self, f: View, targets: Targets) -> tf.Tensor:
        """Log probability of the label, `[N]`."""
        return _of_class(self._joint(f), targets.Y)

    def _joint(self, f: View) -> tf.Tensor:
        seen = self._seen(f)
        return self._mean_softmax(
            seen.points, [1, seen.num_latents], seen.num_rows, gpflow.default_float()
        )

    def _seen(self, f: View) -> View:
        """The functions as this likelihood takes them to be distributed."""
        if self.covariance == "exact":
            return f
        return View(independent_functions(f.marginals()), 0, self.num_classes, None)

    def _log_probabilities(self, Fmu: TensorType, Fvar: TensorType) -> tf.Tensor:
        shape = [*[1] * (len(Fmu.shape) - 1), self.num_classes]
        return self._mean_softmax(
            lambda noise: _reparametrise(Fmu, Fvar, noise), shape, Fmu.shape[-2], Fmu.dtype
        )

    def _mean_softmax(
        self,
        draw: Callable[[tf.Tensor], tf.Tensor],
        shape: list[int],
        rows: int | None,
        dtype: tf.DType,
        log_p: Callable[[tf.Tensor], tf.Tensor] = tf.nn.log_softmax,
        numbers: int | None = None,
    ) -> tf.Tensor:
        """The log of the mean softmax over the fixed draws.

        The draws come as many at a time as fit in 128 MB, at most 100. `log_p` may stand in for the
        logarithm of the softmax; `numbers` is how many it holds for a row and a draw.
        """
        most = min(
            100, max(1, _NUMBERS_AT_ONCE // ((numbers or self.num_classes) * max(rows or 1, 1)))
        )
        # Blocks of equal size, so that the draws are the same however many fit at a time.
        block = max(b for b in range(1, most + 1) if self.prediction_samples % b == 0)
        blocks = [self.prediction_samples // block, block, *shape]
        fixed = tf.cast(np.random.default_rng(self.seed).standard_normal(blocks), dtype)
        sums = [tf.reduce_logsumexp(log_p(draw(noise)), axis=0) for noise in tf.unstack(fixed)]
        return tf.reduce_logsumexp(tf.stack(sums), axis=0) - log(self.prediction_samples)


class RobustMax(gpflow.likelihoods.MultiClass):
    r"""The largest function wins: $p(y = k \mid f) = 1 - \epsilon$ if $f_k$ is the largest.

    Other classes have $\epsilon / (C - 1)$. GPflow's `MultiClass`, with
    $\pi_k = P(f_k\text{ is the largest})$ by quadrature. Here the predicted $\pi_k$ are divided by
    their sum, which quadrature leaves off one, so that the probabilities
    $p(y = k) = (1 - \epsilon)\pi_k + \frac{\epsilon}{C-1}(1 - \pi_k)$ sum to one (Panos prints only
    the first term).

    Args:
        classes: $C$; labels are 0..C-1.
        epsilon: $\epsilon$.
        nodes: quadrature points.

    Shapes: F, Fmu, Fvar [N, C]; Y [N, 1].

    >>> import numpy as np
    >>> from mogp.likelihoods import RobustMax
    >>> likelihood = RobustMax(classes=3, epsilon=0.1)
    >>> Fmu, Fvar = np.array([[5.0, 0.0, 0.0]]), np.full((1, 3), 0.01)
    >>> p, _ = likelihood.predict_mean_and_var(np.zeros((1, 0)), Fmu, Fvar)
    >>> np.round(p, 3).tolist()
    [[0.9, 0.05, 0.05]]
    """

    def __init__(self, classes: int, epsilon: float = 1e-3, *, nodes: int = 20) -> None:
        _at_least_two("RobustMax", classes)
        super().__init__(classes, invlink=gpflow.likelihoods.RobustMax(classes, epsilon))
        self.function_labels = _class_labels(classes)
        self.num_gauss_hermite_points = nodes

    @inherit_check_shapes
    def _log_prob(self, X: TensorType, F: TensorType, Y: TensorType) -> tf.Tensor:
        return _of_class(tf.math.log(self._conditional_mean(X, F)), Y)

    @inherit_check_shapes
    def _conditional_mean(self, X: TensorType, F: TensorType) -> tf.Tensor:
        largest = tf.one_hot(tf.argmax(F, axis=-1), self.num_classes, dtype=F.dtype)
        return self._class_probabilities(largest)

    @inherit_check_shapes
    def _predict_mean_and_var(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType
    ) -> MeanAndVariance:
        p = self._class_probabilities(self.probability_largest(Fmu, Fvar))
        return p, p - p**2

    @inherit_check_shapes
    def _predict_log_density(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType, Y: TensorType
    ) -> tf.Tensor:
        return _of_class(tf.math.log(self._predict_mean_and_var(X, Fmu, Fvar)[0]), Y)

    @check_shapes("Fmu: [N, C]", "Fvar: [N, C]", "return: [N, C]")
    def probability_largest(self, Fmu: TensorType, Fvar: TensorType) -> tf.Tensor:
        r"""The probabilities $\pi_k$ under $q$ that $f_k$ is the largest function, [N, C]."""
        points, weights = (
            tf.cast(part, Fmu.dtype) for part in hermgauss(self.num_gauss_hermite_points)
        )
        label = tf.ones([tf.shape(Fmu)[0], 1], tf.int32)
        each = [
            self.invlink.prob_is_largest(k * label, Fmu, Fvar, points, weights)
            for k in range(self.num_classes)
        ]
        pi = tf.concat(each, axis=-1)
        return pi / tf.reduce_sum(pi, axis=-1, keepdims=True)

    def _class_probabilities(self, pi: tf.Tensor) -> tf.Tensor:
        return (1.0 - self.invlink.epsilon) * pi + self.invlink.eps_k1 * (1.0 - pi)


def _of_class(values: tf.Tensor, Y: TensorType) -> tf.Tensor:
    """The entry of `values` [..., N, C] that belongs to the label in Y [..., N, 1]."""
    chosen = tf.one_hot(tf.cast(Y[..., 0], tf.int32), values.shape[-1], dtype=values.dtype)
    return tf.reduce_sum(chosen * values, axis=-1)


def _reparametrise(Fmu: TensorType, Fvar: TensorType, noise: tf.Tensor) -> tf.Tensor:
    return Fmu + tf.sqrt(tf.maximum(Fvar, SMALLEST_VARIANCE)) * noise


def _class_labels(classes: int) -> tuple[str, ...]:
    return tuple(f"class {k}" for k in range(classes))


def _at_least_two(kind: str, classes: int) -> None:
    if classes < 2:
        raise ValueError(
            f"{kind} needs at least 2 classes, got {classes}; give the number of distinct labels."
        )
