"""Adam on all parameters, and Adam beside natural gradients on the posterior."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf
from gpflow.optimizers import NaturalGradient

from mogp.optimizers.base import Loss, Optimizer

_FIRST_SHARE = 1e-3


class Adam(Optimizer):
    r"""Adam (Kingma & Ba 2015) on every trainable parameter, with TensorFlow's fused update.

    $m \leftarrow \beta_1 m + (1-\beta_1) g$, $v \leftarrow \beta_2 v + (1-\beta_2) g^2$,
    $\theta \leftarrow \theta - \alpha_t\, m / (\sqrt v + \epsilon)$ with
    $\alpha_t = \alpha \sqrt{1-\beta_2^t} / (1-\beta_1^t)$.

    Args:
        learning_rate: step size $\alpha$, or a function of the step number (a Keras schedule, say).
        beta_1, beta_2, epsilon: as above.
        lazy: rows of a parameter that a mini-batch does not read (outputs or classes that are not in it) stay as they
            are, with their moments, and each row counts its own steps $t$: Adam as if it saw nothing but the batches it
            is in. Otherwise a row goes on moving by what is left of its last gradient, $1/\sqrt{1-\beta_2} \approx 32$
            times the step size in all. With many outputs it is also faster.
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
        self.learning_rate, self.beta_1, self.beta_2, self.epsilon = learning_rate, beta_1, beta_2, epsilon
        self.lazy = lazy

    def start(self, model: tf.Module) -> None:
        """Create the moments."""
        self._trained = self._select(model)
        self._m = [tf.Variable(tf.zeros_like(v), trainable=False) for v in self._trained]
        self._v = [tf.Variable(tf.zeros_like(v), trainable=False) for v in self._trained]
        self._steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        rows = [v.shape[:1] if self.lazy else [0] for v in self._trained]
        self._visits = [
            tf.Variable(tf.zeros(n, v.dtype), trainable=False) for n, v in zip(rows, self._trained, strict=True)
        ]

    def step(self, model: tf.Module, loss: Loss) -> tf.Tensor:
        """One Adam update."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._trained)
            value = loss()
        gradients = tape.gradient(value, self._trained)
        rate = self.learning_rate(self._steps) if callable(self.learning_rate) else self.learning_rate
        t = tf.cast(self._steps.assign_add(1), tf.float64)
        numbers = {
            "beta1_power": self.beta_1**t, "beta2_power": self.beta_2**t, "lr": rate,
            "beta1": self.beta_1, "beta2": self.beta_2, "epsilon": self.epsilon,
        }  # fmt: skip
        exact = {k: x if tf.is_tensor(x) else tf.constant(x, tf.float64) for k, x in numbers.items()}
        cast = {d: {k: tf.cast(x, d) for k, x in exact.items()} for d in {v.dtype for v in self._trained}}
        state = zip(self._trained, self._m, self._v, self._visits, gradients, strict=True)
        for variable, m, v, visits, gradient in state:
            if self.lazy and isinstance(gradient, tf.IndexedSlices):
                self._some_rows(variable, m, v, visits, gradient, cast[variable.dtype])
            elif gradient is not None:
                tf.raw_ops.ResourceApplyAdam(
                    var=variable.handle, m=m.handle, v=v.handle, grad=gradient, **cast[variable.dtype]
                )
        return value

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
        return [self._steps, *self._m, *self._v, *(self._visits if self.lazy else ())]

    def _select(self, model: tf.Module) -> list[tf.Variable]:
        return list(model.trainable_variables)


class NaturalAdam(Adam):
    """A natural-gradient step on `q(u)`, then an Adam step on everything else ("HYB" in Giraldo's thesis).

    The model needs a `Full` posterior.

    Args:
        gamma: step size of the natural gradient; 1 jumps to the optimum of a conjugate model.
        learning_rate: of Adam, on hyper-parameters and inducing inputs.
        warm_up: steps over which gamma grows from a thousandth of its value to its value.
    """

    def __init__(self, gamma: float = 0.1, learning_rate: float = 0.01, warm_up: int = 10) -> None:
        super().__init__(learning_rate)
        if not 0 < gamma <= 1:
            raise ValueError(f"gamma={gamma}; a natural-gradient step size lies in (0, 1].")
        self.gamma, self.warm_up = gamma, warm_up

    def start(self, model: tf.Module) -> None:
        """Create the moments and the step counter of the natural gradient."""
        posterior = getattr(model, "posterior", None)
        if not (hasattr(posterior, "q_mu") and hasattr(posterior, "q_sqrt")):
            raise ValueError(
                "natural gradients need a posterior with q_mu and q_sqrt, as mogp.posteriors.Full; "
                f"this model has {type(posterior).__name__}. Use Adam()."
            )
        assert posterior is not None
        if not (posterior.q_mu.trainable and posterior.q_sqrt.trainable):
            raise ValueError("q_mu or q_sqrt is set not trainable: use Adam(), which leaves them alone.")
        self._pair = (posterior.q_mu, posterior.q_sqrt)
        self._count = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._gamma = tf.Variable(0, dtype=posterior.q_mu.dtype, trainable=False)
        self._natural = NaturalGradient(self._gamma)
        super().start(model)

    def step(self, model: tf.Module, loss: Loss) -> tf.Tensor:
        """One natural-gradient step on `q(u)`, one Adam step on the rest."""
        grown = tf.minimum(tf.cast(self._count.assign_add(1), self._gamma.dtype) / max(self.warm_up, 1), 1)
        self._gamma.assign(self.gamma * _FIRST_SHARE ** (1 - grown))
        self._natural.minimize(loss, [self._pair])
        if self._trained:
            return super().step(model, loss)
        return loss()

    @property
    def variables(self) -> Sequence[tf.Variable]:
        """Adam's state and the step counter."""
        return [*super().variables, self._count]

    def _select(self, model: tf.Module) -> list[tf.Variable]:
        own = {id(p.unconstrained_variable) for p in self._pair}
        return [v for v in model.trainable_variables if id(v) not in own]
