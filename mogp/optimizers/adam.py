"""Adam, with rows that a mini-batch does not read left alone on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from mogp.optimizers.base import Evaluation, GradientOptimizer


class Adam(GradientOptimizer):
    r"""Adam (Kingma & Ba 2015) on every trainable parameter, with TensorFlow's fused update.

    $m \leftarrow \beta_1 m + (1-\beta_1) g$, $v \leftarrow \beta_2 v + (1-\beta_2) g^2$,
    $\theta \leftarrow \theta - \alpha_t\, m / (\sqrt v + \epsilon)$ with
    $\alpha_t = \alpha \sqrt{1-\beta_2^t} / (1-\beta_1^t)$.

    Args:
        learning_rate: step size $\alpha$, or a function of the step number (a Keras schedule, say).
        beta_1, beta_2, epsilon: as above.
        lazy: rows of a parameter that a mini-batch does not read (outputs or classes that are not
            in it) stay as they are, with their moments, and each row counts its own steps $t$: Adam
            as if it saw nothing but the batches it is in. Otherwise a row goes on moving by what is
            left of its last gradient, $1/\sqrt{1-\beta_2} \approx 32$ times the step size in all.
            With many outputs it is also faster.

    >>> import tensorflow as tf
    >>> from mogp.optimizers import Adam
    >>> model = tf.Module()
    >>> model.x = tf.Variable(1.0)
    >>> optimizer = Adam(learning_rate=0.25)
    >>> optimizer.start(model)
    >>> loss = optimizer.step(model, lambda: model.x**2)
    >>> round(float(loss), 2), round(float(model.x), 2)
    (1.0, 0.75)
    """

    def __init__(
        self,
        learning_rate: float | Callable[[tf.Tensor], tf.Tensor] = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        lazy: bool = False,
    ) -> None:
        if not callable(learning_rate) and not learning_rate > 0:
            raise ValueError(f"learning_rate={learning_rate} must be positive.")
        self.learning_rate, self.beta_1, self.beta_2, self.epsilon = (
            learning_rate,
            beta_1,
            beta_2,
            epsilon,
        )
        self.lazy = lazy
        self._scale: tf.Variable | None = None

    def __repr__(self) -> str:
        return f"Adam({self.learning_rate}{', lazy=True' if self.lazy else ''})"

    def scale_by(self, scale: tf.Variable) -> None:
        """Multiply the step size by a variable from now on."""
        self._scale = scale

    def _create(self, variables: Sequence[tf.Variable]) -> None:
        self._m = [_zeros(v.shape, v.dtype) for v in variables]
        self._v = [_zeros(v.shape, v.dtype) for v in variables]
        self._steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._visits = [_zeros(v.shape[:1], v.dtype) for v in variables] if self.lazy else []

    def apply(self, seen: Evaluation) -> None:
        """One Adam update."""
        rate = (
            self.learning_rate(self._steps) if callable(self.learning_rate) else self.learning_rate
        )
        if self._scale is not None:
            rate = tf.cast(rate, tf.float64) * self._scale
        t = tf.cast(self._steps.assign_add(1), tf.float64)
        numbers = {
            "beta1_power": self.beta_1**t, "beta2_power": self.beta_2**t, "lr": rate,
            "beta1": self.beta_1, "beta2": self.beta_2, "epsilon": self.epsilon,
        }  # fmt: skip
        exact = {
            k: x if tf.is_tensor(x) else tf.constant(x, tf.float64) for k, x in numbers.items()
        }
        cast = {
            d: {k: tf.cast(x, d) for k, x in exact.items()}
            for d in {v.dtype for v in self._trained}
        }
        state = zip(self._trained, self._m, self._v, seen.gradients, strict=True)
        for i, (variable, m, v, gradient) in enumerate(state):
            if self.lazy and isinstance(gradient, tf.IndexedSlices):
                self._some_rows(variable, m, v, self._visits[i], gradient, cast[variable.dtype])
            elif gradient is not None:
                tf.raw_ops.ResourceApplyAdam(
                    var=variable.handle,
                    m=m.handle,
                    v=v.handle,
                    grad=gradient,
                    **cast[variable.dtype],
                )

    def _some_rows(
        self,
        variable: tf.Variable,
        m: tf.Variable,
        v: tf.Variable,
        visits: tf.Variable,
        gradient: tf.IndexedSlices,
        numbers: Mapping[str, tf.Tensor],
    ) -> None:
        """Update the rows that have a gradient."""
        # A row may occur several times in a gradient; its parts are summed before the moments.
        rows, place = tf.unique(gradient.indices)
        g = tf.math.unsorted_segment_sum(gradient.values, place, tf.shape(rows)[0])
        t = tf.gather(visits, rows) + 1
        first = numbers["beta1"] * tf.gather(m, rows) + (1 - numbers["beta1"]) * g
        second = numbers["beta2"] * tf.gather(v, rows) + (1 - numbers["beta2"]) * g * g
        rate = numbers["lr"] * tf.sqrt(1 - numbers["beta2"] ** t) / (1 - numbers["beta1"] ** t)
        rate = tf.reshape(rate, tf.concat([tf.shape(rate), tf.ones(tf.rank(g) - 1, tf.int32)], 0))
        change = rate * first / (tf.sqrt(second) + numbers["epsilon"])
        for where, update in ((m, first), (v, second), (visits, t)):
            tf.raw_ops.ResourceScatterUpdate(resource=where.handle, indices=rows, updates=update)
        tf.raw_ops.ResourceScatterSub(resource=variable.handle, indices=rows, updates=change)

    @property
    def variables(self) -> Sequence[tf.Variable]:
        """Step counter and moments."""
        return [self._steps, *self._m, *self._v, *self._visits]


def _zeros(shape: tf.TensorShape, dtype: tf.DType) -> tf.Variable:
    return tf.Variable(np.zeros(shape, dtype.as_numpy_dtype), trainable=False)
