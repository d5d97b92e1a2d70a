"""What the likelihoods share: each is a distribution of y given the values of latent functions."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf
from check_shapes import inherit_check_shapes
from gpflow.base import MeanAndVariance, TensorType
from gpflow.likelihoods import QuadratureLikelihood
from tensorflow_probability import distributions as tfd

from mogp.likelihoods.quadrature import GaussHermite
from mogp.likelihoods.targets import TargetRule
from mogp.priors import View

__all__ = [
    "DistributionLikelihood",
    "ReadsFunctions",
    "Targets",
    "bounded",
    "bounded_exp",
    "column",
    "draw",
    "log_normal_dispersion",
]

FUNCTION_LIMIT = 20.0


def bounded(f: TensorType) -> tf.Tensor:
    r"""Slow a function down beyond $|f| = 20$, so that $e^{g(f)}$ never overflows.

    $g(f) = f$ for $|f| \le 20$ and $\pm(20 + \log(1 + |f| - 20))$ beyond. $g$ is increasing with a
    continuous slope that is never zero: $e^{g}$ is $e^{f}$ continued by its tangent, and a function
    that has gone too far is led back. (A hard clip would leave it there, with a gradient of zero.)

    Args:
        f: any shape.

    >>> import numpy as np
    >>> from mogp.likelihoods import bounded
    >>> np.round(bounded(np.array([-5.0, 20.0, 1000.0])), 3).tolist()
    [-5.0, 20.0, 26.889]
    """
    f = tf.convert_to_tensor(f)
    excess = tf.nn.relu(tf.abs(f) - FUNCTION_LIMIT)
    return tf.clip_by_value(f, -FUNCTION_LIMIT, FUNCTION_LIMIT) + tf.sign(f) * tf.math.log1p(excess)


def bounded_exp(f: TensorType) -> tf.Tensor:
    """The exponential $e^{g(f)}$ of a `bounded` function.

    It is $e^{f}$ up to $e^{20}$, its tangent beyond, and the reciprocal of that for negative $f$.

    Args:
        f: any shape.

    >>> import numpy as np
    >>> from mogp.likelihoods import bounded_exp
    >>> bool(np.isfinite(bounded_exp(np.array([1e6]))).all())
    True
    >>> np.round(bounded_exp(np.array([0.0, 1.0])), 3).tolist()
    [1.0, 2.718]
    """
    return tf.exp(bounded(f))


def log_normal_dispersion(variance: TensorType) -> tf.Tensor:
    r"""$e^{v} - 1$: the variance of $e^{f}$, $f \sim \mathcal N(m, v)$, over its squared mean; zero
    for $v \le 0$.
    """
    return tf.math.expm1(bounded(tf.nn.relu(variance)))


def column(Y: TensorType, F: TensorType) -> tf.Tensor:
    """The targets Y [..., N, 1] as [..., N], in the precision of F."""
    return tf.cast(Y, F.dtype)[..., 0]


def draw(distribution: tfd.Distribution, dtype: tf.DType, seed: int | TensorType) -> tf.Tensor:
    """A draw [..., N, 1] from a distribution of batch shape [..., N] that depends on the seed and
    on nothing else.
    """
    # A seed of 64 bits as the pair of 32 that stateless sampling takes.
    pair = (
        np.array([seed], np.int64).view(np.int32)
        if isinstance(seed, int | np.integer)
        else tf.cast(seed, tf.int32)
    )
    return tf.cast(distribution.sample(seed=pair), dtype)[..., None]


class Targets(NamedTuple):
    """What was observed at the rows of a batch.

    Attributes:
        Y: `[N, T]`, finite everywhere; or the `Labels` that the rows have.
        observed: `[N, T]`, which entries of `Y` count; None for labels.
        ids: `[N]`, which rows of the data they are.

    >>> import tensorflow as tf
    >>> from mogp.likelihoods import Targets
    >>> Y = tf.constant([[1.0, 0.0], [2.0, 5.0]])
    >>> targets = Targets(Y, observed=tf.constant([[True, False], [True, True]]), ids=tf.range(2))
    >>> tf.boolean_mask(targets.Y, targets.observed).numpy().tolist()
    [1.0, 2.0, 5.0]
    """

    Y: Any
    observed: tf.Tensor | None
    ids: tf.Tensor


class ReadsFunctions(abc.ABC):
    """A likelihood that asks the posterior for what it needs.

    It may ask for some functions of a row, their covariance, or joint draws.

    (Others are handed the marginals of all their functions, and so take the functions to be
    independent at a row.)

    >>> import numpy as np
    >>> from mogp.likelihoods import Softmax
    >>> from mogp.priors import Marginals, View, independent_functions
    >>> f = independent_functions(Marginals(np.array([[2.0, 0.0]]), np.full((1, 2), 0.01)))
    >>> p, _ = Softmax(classes=2).predictive(View(f, first=0, size=2, rows=None))
    >>> np.round(p, 2).tolist()
    [[0.88, 0.12]]
    """

    @property
    def joint(self) -> bool:
        """Whether the functions of a row are dependent when targets are drawn."""
        return True

    @property
    def stored_rows(self) -> int | None:
        """Rows for which it keeps something from step to step; None if it keeps nothing."""
        return None

    def update_local(self, f: View, targets: Targets) -> None:
        """Bring what it keeps for the rows of the targets up to date with the functions."""
        return

    @abc.abstractmethod
    def expectations(self, f: View, targets: Targets) -> tf.Tensor:
        """The expected log-likelihood of each row, or a bound on it, `[N]`.

        Args:
            f: the functions at the rows.
            targets: what was observed there.
        """

    @abc.abstractmethod
    def predictive(self, f: View) -> tuple[tf.Tensor, tf.Tensor]:
        """Predictive mean and variance of the targets, `[N, T]`."""

    @abc.abstractmethod
    def log_density(self, f: View, targets: Targets) -> tf.Tensor:
        """Log predictive density of the targets, `[N]`."""


class DistributionLikelihood(QuadratureLikelihood, abc.ABC):
    r"""A likelihood $p(y \mid f_1..f_J)$ given as a distribution: the base class.

    A subclass names its functions (`function_labels`, one for each of the $J$), says which targets
    it takes (`target_rules`) and returns the distribution of $y$ for function values F, shape
    [..., N, J], in `conditional`, as a TensorFlow Probability distribution of batch shape [..., N].
    The density, the moments and samples follow from it. What is left are integrals over
    $q(f) = \prod_j \mathcal N(f_j \mid m_j, v_j)$ (Fmu, Fvar [..., N, J]; Y [..., N, 1]):
    Gauss-Hermite quadrature with `nodes` points for each function, unless the subclass has them in
    closed form.

    Functions enter exponentials through `bounded`: nothing overflows for any f, and gradients stay
    finite.

    Args:
        nodes: quadrature points for each function.

    >>> import numpy as np
    >>> from mogp.likelihoods import DistributionLikelihood
    >>> from tensorflow_probability import distributions as tfd
    >>> class Laplace(DistributionLikelihood):
    ...     function_labels = ("median",)
    ...
    ...     def conditional(self, F):
    ...         return tfd.Laplace(F[..., 0], np.float64(1.0))
    >>> Fmu, Fvar = np.array([[3.0]]), np.array([[0.5]])
    >>> mean, var = Laplace().predict_mean_and_var(np.zeros((1, 0)), Fmu, Fvar)
    >>> np.round(mean, 2).tolist(), np.round(var, 2).tolist()
    ([[3.0]], [[2.5]])
    """

    function_labels: ClassVar[tuple[str, ...]]
    target_rules: ClassVar[tuple[TargetRule, ...]] = ()

    def __init__(self, nodes: int = 20) -> None:
        functions = len(self.function_labels)
        with tf.init_scope():
            grid = GaussHermite(functions, nodes)
            self._line = grid if functions == 1 else GaussHermite(1, nodes)
        super().__init__(input_dim=None, latent_dim=functions, observation_dim=1, quadrature=grid)

    @abc.abstractmethod
    def conditional(self, F: TensorType) -> tfd.Distribution:
        """The distribution of y given F [..., N, J]; its batch shape is [..., N]."""

    def sample_y(self, F: TensorType, seed: int | TensorType) -> tf.Tensor:
        """One draw of y for each row of F [..., N, J], shape [..., N, 1]; the same seed gives the
        same draw.
        """
        F = tf.convert_to_tensor(F)
        return draw(self.conditional(F), F.dtype, seed)

    def _expect(
        self, function: Callable[[tf.Tensor], tf.Tensor], mean: TensorType, variance: TensorType
    ) -> tf.Tensor:
        r"""$\mathbb E\, h(f)$ for one function $f \sim \mathcal N(m, v)$ and an element-wise $h$;
        m, v [..., N].
        """
        return self._line(function, mean[..., None], variance[..., None])[..., 0]

    @inherit_check_shapes
    def _log_prob(self, X: TensorType, F: TensorType, Y: TensorType) -> tf.Tensor:
        return self.conditional(tf.convert_to_tensor(F)).log_prob(column(Y, F))

    @inherit_check_shapes
    def _conditional_mean(self, X: TensorType, F: TensorType) -> tf.Tensor:
        return self.conditional(tf.convert_to_tensor(F)).mean()[..., None]

    @inherit_check_shapes
    def _conditional_variance(self, X: TensorType, F: TensorType) -> tf.Tensor:
        return self.conditional(tf.convert_to_tensor(F)).variance()[..., None]

    @inherit_check_shapes
    def _predict_mean_and_var(
        self, X: TensorType, Fmu: TensorType, Fvar: TensorType
    ) -> MeanAndVariance:
        """The law of total variance, which rounding cannot make negative as it can the difference
        of two moments.
        """
        mean = self.quadrature(lambda F: self.conditional_mean(X, F), Fmu, Fvar)

        def spread(F: tf.Tensor) -> tf.Tensor:
            return self.conditional_variance(X, F) + tf.square(self.conditional_mean(X, F) - mean)

        return mean, self.quadrature(spread, Fmu, Fvar)
