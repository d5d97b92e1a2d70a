"""Variational optimisation: minimise by moving a Gaussian over the arguments (Giraldo, ch. 2)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import tensorflow as tf

from mogp.forms import handed
from mogp.optimizers.base import Evaluation, Flat, GradientOptimizer, Loss
from mogp.optimizers.derivatives import second_derivatives


class Exploratory(GradientOptimizer):
    r"""An optimiser with an exploratory distribution $q(\theta) = N(\mu, \mathrm{diag}\,\sigma^2)$.

    It lowers $\mathbb E_{q(\theta)}[g(\theta)]$, an upper bound on $\min_\theta g(\theta)$, with or
    without a penalty $\mathrm{KL}[q(\theta)\|N(0, \lambda^{-1}I)]$ that keeps $q$ from collapsing
    too soon. The parameters are the unconstrained ones of all trainable variables. A step evaluates
    the loss at `samples` draws of $\theta$ (at the mean for 0); between steps the variables hold
    $\mu$.

    Args:
        samples: draws of $\theta$ in a step.
        seed: seed of the draws.

    >>> import tensorflow as tf
    >>> from mogp.optimizers import Vadam
    >>> model = tf.Module()
    >>> model.x = tf.Variable(1.0)
    >>> optimizer = Vadam(penalty=1.0, start=99.0)
    >>> optimizer.start(model)
    >>> round(float(optimizer.deviation[0]), 3)
    0.1
    >>> seen = [float(model.x) for _ in optimizer.draws(3)]
    >>> len(set(seen)), float(model.x)
    (3, 1.0)
    """

    _untraced = ("seed",)

    def __init__(self, samples: int, seed: int) -> None:
        if samples < 0:
            raise ValueError(
                f"samples={samples}; give the number of draws in a step, or 0 to use the mean."
            )
        self.samples, self.seed, self._seed = samples, seed, handed(int(seed), tf.int64)

    def _create(self, variables: Sequence[tf.Variable]) -> None:
        self.parameters = Flat(variables)
        self._steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._create_moments(self.parameters.size)

    @abstractmethod
    def _create_moments(self, size: int) -> None: ...

    @property
    @abstractmethod
    def deviation(self) -> tf.Tensor:
        r"""Standard deviations $\sigma$ `[n]` of the parameters, in the order of the variables."""

    @property
    def mean(self) -> tf.Tensor:
        r"""The mean $\mu$ `[n]` of the parameters."""
        return self.parameters.read()

    def evaluate(self, loss: Loss, others: Sequence[tf.Variable] = ()) -> Evaluation:
        r"""Means over draws of $\theta$ of the loss, its gradients and their squares.

        The squares are the `curvature`.
        """
        if not self.samples:
            return self._flat_look(loss, others)
        mu = self.mean

        def look_at(draw: tf.Tensor | int) -> Evaluation:
            self.parameters.write(mu + self._spread(self._noise(draw)))
            return self._flat_look(loss, others)

        seen = look_at(0)
        if self.samples > 1:
            parts = tf.nest.flatten(seen)

            def add(draw: tf.Tensor, *sums: tf.Tensor) -> tuple[tf.Tensor, ...]:
                return draw + 1, *(
                    a + b for a, b in zip(sums, tf.nest.flatten(look_at(draw)), strict=True)
                )

            _, *sums = tf.while_loop(
                lambda draw, *_: draw < self.samples, add, (tf.constant(1, tf.int64), *parts)
            )
            seen = tf.nest.pack_sequence_as(seen, [total / self.samples for total in sums])
        self.parameters.write(mu)
        return seen

    def _flat_look(self, loss: Loss, others: Sequence[tf.Variable]) -> Evaluation:
        """The loss at the parameters' present values, with one gradient for all of them."""
        seen = self._look(loss, others)
        return seen._replace(gradients=[self.parameters.flatten(seen.gradients)])

    def _look(self, loss: Loss, others: Sequence[tf.Variable]) -> Evaluation:
        """The loss at the parameters' present values."""
        seen = super().evaluate(loss, others)
        return seen._replace(curvature=self.parameters.flatten(seen.gradients) ** 2)

    def _noise(self, draw: tf.Tensor | int) -> tf.Tensor:
        # Stateless: a run resumed at step t draws what it would have drawn.
        number = self._steps * max(self.samples, 1) + draw
        seed = tf.stack([self._seed, number])
        return tf.random.stateless_normal([self.parameters.size], seed, dtype=self.parameters.dtype)

    def _spread(self, noise: tf.Tensor) -> tf.Tensor:
        r"""Standard normal noise `[n]` with the covariance of $q$."""
        return self.deviation * noise

    def draws(self, samples: int, seed: int = 0) -> Iterator[int]:
        r"""Put draws of $\theta$ into the model one after the other, and the mean back at the end.

        `for _ in optimizer.draws(50): ...` sees a model with other hyper-parameters each time.
        """
        mu = self.mean
        rng = np.random.default_rng(seed)
        try:
            for draw in range(samples):
                noise = tf.constant(rng.standard_normal(self.parameters.size), mu.dtype)
                self.parameters.write(mu + self._spread(noise))
                yield draw
        finally:
            self.parameters.write(mu)


class VAN(Exploratory):
    r"""Variational adaptive Newton with natural momentum.

    Without a penalty it is plain variational optimisation. With $\hat\nabla$ over the draws of a
    step,

    $$\Sigma_{t+1}^{-1} = \Sigma_t^{-1} + 2\alpha'\hat\nabla_\Sigma\tilde{\mathcal L},\qquad
      \mu_{t+1} = \mu_t - \alpha\Sigma_{t+1}\hat\nabla_\mu\tilde{\mathcal L}
        + \gamma\Sigma_{t+1}\Sigma_t^{-1}(\mu_t - \mu_{t-1}),$$
    $$\hat\nabla_\mu\tilde{\mathcal L} = \hat{\mathbb E}[\nabla g] + \lambda\mu,\qquad
      2\hat\nabla_\Sigma\tilde{\mathcal L}
        = \hat{\mathbb E}[\nabla^2 g] + \lambda I - \Sigma^{-1},$$

    and only the expectations without a penalty. (The exact mirror-descent problem with momentum has
    a further term $\gamma(\Sigma_t^{-1} - \Sigma_{t-1}^{-1})$ in the precision; it is dropped, as
    in the thesis.) With Gauss-Newton curvature $\nabla^2 g \approx \nabla g\circ\nabla g$ and
    $\mathbf p = \sigma^{-2} - \lambda$ it is Vprop,
    $\mathbf p \leftarrow (1-\alpha')\mathbf p + \alpha'\hat{\mathbb E}[\nabla g\circ\nabla g]$, and
    from $\mathbf p_0 \ge 0$ keeps $0 \le \mathbf p$, $\sigma^2 \le 1/\lambda$. An exact Hessian may
    be negative: a precision that would not stay positive is left as it is (diagonal), or its step
    is halved until it does (full).

    Args:
        learning_rate: $\alpha$, step size of the mean.
        precision_rate: $\alpha'$, step size of the precision; $\alpha$ if None.
        penalty: $\lambda$; None for no penalty.
        start: $\mathbf p_0$, so that $\sigma_0^{-2} = \mathbf p_0 + \lambda$. It may be negative if
            the sum is not: $q$ then begins wider than the penalty.
        momentum: $\gamma$.
        root: $\sqrt{\mathbf p}$ in place of $\mathbf p$ in the update of the mean (Appendix G).
        curvature: "gauss-newton", or "hessian" for exact second derivatives (of few parameters).
        covariance: "diagonal", or "full" (with "hessian", of few parameters).
        samples: draws of $\theta$ in a step; 0 evaluates at the mean.
        seed: seed of the draws.

    >>> import tensorflow as tf
    >>> from mogp.optimizers import VAN
    >>> model = tf.Module()
    >>> model.x = tf.Variable(1.0)
    >>> optimizer = VAN(1.0, penalty=None, start=1.0, curvature="hessian", samples=0)
    >>> optimizer.start(model)
    >>> loss = optimizer.step(model, lambda: 1.5 * model.x**2)
    >>> round(float(model.x), 3), optimizer.precision.numpy().tolist()
    (0.25, [4.0])
    """

    def __init__(
        self,
        learning_rate: float = 0.01,
        *,
        precision_rate: float | None = None,
        penalty: float | None = 1.0,
        start: float = 1.0,
        momentum: float = 0.0,
        root: bool = False,
        curvature: Literal["gauss-newton", "hessian"] = "gauss-newton",
        covariance: Literal["diagonal", "full"] = "diagonal",
        samples: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__(samples, seed)
        self.learning_rate = learning_rate
        self.precision_rate = learning_rate if precision_rate is None else precision_rate
        for name, rate in (
            ("learning_rate", self.learning_rate),
            ("precision_rate", self.precision_rate),
        ):
            if not rate > 0:
                raise ValueError(f"{name}={rate} must be positive.")
        _check_penalty(penalty, start)
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum={momentum}; it must lie in [0, 1).")
        if curvature not in ("gauss-newton", "hessian") or covariance not in ("diagonal", "full"):
            raise ValueError(
                f'curvature={curvature!r}, covariance={covariance!r}; expected "gauss-newton" or'
                ' "hessian", and "diagonal" or "full".'
            )
        if covariance == "full" and (root or curvature == "gauss-newton"):
            raise ValueError('a full covariance needs curvature="hessian" and root=False.')
        self.penalised, self.penalty, self.p_start = penalty is not None, penalty or 0.0, start
        self.momentum, self.root, self.curvature, self.covariance = (
            momentum,
            root,
            curvature,
            covariance,
        )

    def _create_moments(self, size: int) -> None:
        start = tf.fill([size], tf.constant(self.p_start + self.penalty, self.parameters.dtype))
        self.precision = tf.Variable(
            tf.linalg.diag(start) if self.covariance == "full" else start, trainable=False
        )
        self._before = tf.Variable(self.mean, trainable=False)

    @property
    def deviation(self) -> tf.Tensor:
        r"""$\sigma$ `[n]`: the marginal ones with a full covariance."""
        if self.covariance == "diagonal":
            return tf.math.rsqrt(self.precision)
        return tf.sqrt(tf.linalg.diag_part(tf.linalg.inv(self.precision)))

    def _look(self, loss: Loss, others: Sequence[tf.Variable]) -> Evaluation:
        if self.curvature == "gauss-newton":
            return super()._look(loss, others)
        value, gradients, hessian, beside = second_derivatives(
            loss, self._trained, self.parameters, others
        )
        wanted = hessian if self.covariance == "full" else tf.linalg.diag_part(hessian)
        return Evaluation(value, gradients, wanted, beside)

    def apply(self, seen: Evaluation) -> None:
        """Move the precision, then the mean."""
        mu, lam = self.mean, self.penalty
        g = seen.gradients[0] + lam * mu
        old = tf.convert_to_tensor(self.precision)
        if self.covariance == "full":
            new = self._full_precision(old, seen.curvature)
            solve = tf.linalg.cholesky_solve
            factor = tf.linalg.cholesky(new)
            change = -self.learning_rate * g + self.momentum * tf.linalg.matvec(
                old, mu - self._before
            )
            moved = mu + solve(factor, change[:, None])[:, 0]
        else:
            target = seen.curvature + lam - old if self.penalised else seen.curvature
            new = old + self.precision_rate * target
            # An exact second derivative may be negative, a precision may not.
            new = tf.where(new > 0, new, old)
            scale_old, scale_new = self._scale(old), self._scale(new)
            moved = (
                mu
                + (-self.learning_rate * g + self.momentum * scale_old * (mu - self._before))
                / scale_new
            )
        self._before.assign(mu)
        self.precision.assign(new)
        self.parameters.write(moved)
        self._steps.assign_add(1)

    def _scale(self, precision: tf.Tensor) -> tf.Tensor:
        if not self.root:
            return precision
        return tf.sqrt(tf.maximum(precision - self.penalty, 0)) + self.penalty

    def _full_precision(self, old: tf.Tensor, hessian: tf.Tensor) -> tf.Tensor:
        """The new precision; the step is halved until it is positive definite."""
        eye = tf.eye(tf.shape(old)[0], dtype=old.dtype)
        target = hessian + self.penalty * eye - old if self.penalised else hessian

        def indefinite(rate: tf.Tensor) -> tf.Tensor:
            return tf.reduce_min(tf.linalg.eigvalsh(old + rate * target)) <= 0

        (rate,) = tf.while_loop(
            indefinite,
            lambda rate: (0.5 * rate,),
            (tf.constant(self.precision_rate, old.dtype),),
            maximum_iterations=60,
        )
        return old + rate * target

    def _spread(self, noise: tf.Tensor) -> tf.Tensor:
        if self.covariance == "diagonal":
            return super()._spread(noise)
        L = tf.linalg.cholesky(self.precision)
        return tf.linalg.triangular_solve(L, noise[:, None], adjoint=True)[:, 0]

    @property
    def variables(self) -> Sequence[tf.Variable]:
        """Precision, the mean before the last step, and the number of steps."""
        return [self.precision, self._before, self._steps]


class Vadam(Exploratory):
    r"""Variational Adam (Khan et al. 2018): Adam with weight noise, as FNG was run by its author.

    $$\sigma = (s + \lambda)^{-1/2},\quad g = \nabla\text{loss}(\mu + \sigma\epsilon),$$
    $$m \leftarrow \beta_1 m + (1-\beta_1)(g + \lambda\mu),\quad
      s \leftarrow \beta_2 s + (1-\beta_2)\,g\circ g,$$
    $$\mu \leftarrow \mu - \alpha_t\,m / (\sqrt s + \lambda),\qquad
      \alpha_t = \alpha\sqrt{1-\beta_2^t}/(1-\beta_1^t).$$

    Without noise, from $s = 0$ and with $\lambda = \epsilon$ tiny, it is Adam.

    Args:
        learning_rate: $\alpha$.
        penalty: $\lambda$.
        start: $s_0$.
        beta_1, beta_2: as above.
        samples: draws of $\theta$ in a step; 0 evaluates at the mean.
        seed: seed of the draws.

    >>> import tensorflow as tf
    >>> from mogp.optimizers import Vadam
    >>> model = tf.Module()
    >>> model.x = tf.Variable(1.0)
    >>> optimizer = Vadam(learning_rate=0.25, penalty=1e-8, start=0.0, samples=0)
    >>> optimizer.start(model)
    >>> loss = optimizer.step(model, lambda: model.x**2)
    >>> round(float(model.x), 2)
    0.75
    """

    def __init__(
        self,
        learning_rate: float = 0.005,
        *,
        penalty: float = 1.0,
        start: float = 1000.0,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        samples: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__(samples, seed)
        if not learning_rate > 0:
            raise ValueError(f"learning_rate={learning_rate} must be positive.")
        _check_penalty(penalty, start)
        if not start >= 0:
            raise ValueError(f"start={start}; a sum of squared gradients is not negative.")
        self.learning_rate, self.penalty, self.s_start = learning_rate, penalty, start
        self.beta_1, self.beta_2 = beta_1, beta_2

    def _create_moments(self, size: int) -> None:
        dtype = self.parameters.dtype
        self._m = tf.Variable(tf.zeros([size], dtype), trainable=False)
        self._s = tf.Variable(tf.fill([size], tf.constant(self.s_start, dtype)), trainable=False)

    @property
    def deviation(self) -> tf.Tensor:
        r"""$\sigma$ `[n]`."""
        return tf.math.rsqrt(self._s + self.penalty)

    def apply(self, seen: Evaluation) -> None:
        """One update."""
        mu, b1, b2 = self.mean, self.beta_1, self.beta_2
        t = tf.cast(self._steps.assign_add(1), mu.dtype)
        m = self._m.assign(b1 * self._m + (1 - b1) * (seen.gradients[0] + self.penalty * mu))
        s = self._s.assign(b2 * self._s + (1 - b2) * seen.curvature)
        rate = self.learning_rate * tf.sqrt(1 - b2**t) / (1 - b1**t)
        self.parameters.write(mu - rate * m / (tf.sqrt(s) + self.penalty))

    @property
    def variables(self) -> Sequence[tf.Variable]:
        """Both moments and the number of steps."""
        return [self._m, self._s, self._steps]


class Newton(GradientOptimizer):
    r"""Newton's method, $\theta \leftarrow \theta - \alpha H^{-1}\nabla g$, for few parameters.

    The Hessian $H$ is formed. It goes to the next point where the gradient vanishes, be it a
    minimum or not.

    Args:
        learning_rate: $\alpha$; 1 for the full step.

    >>> import tensorflow as tf
    >>> from mogp.optimizers import Newton
    >>> model = tf.Module()
    >>> model.x = tf.Variable([1.0, -2.0])
    >>> optimizer = Newton()
    >>> optimizer.start(model)
    >>> loss = optimizer.step(model, lambda: tf.reduce_sum((model.x - 3.0) ** 2))
    >>> model.x.numpy().round(3).tolist()
    [3.0, 3.0]
    """

    def __init__(self, learning_rate: float = 1.0) -> None:
        if not learning_rate > 0:
            raise ValueError(f"learning_rate={learning_rate} must be positive.")
        self.learning_rate = learning_rate

    def _create(self, variables: Sequence[tf.Variable]) -> None:
        self.parameters = Flat(variables)

    def evaluate(self, loss: Loss, others: Sequence[tf.Variable] = ()) -> Evaluation:
        """The loss, its gradients and its Hessian (as `curvature`)."""
        return Evaluation(*second_derivatives(loss, self._trained, self.parameters, others))

    def apply(self, seen: Evaluation) -> None:
        """One step."""
        g = self.parameters.flatten(seen.gradients)
        direction = tf.linalg.solve(seen.curvature, g[:, None])[:, 0]
        self.parameters.write(self.parameters.read() - self.learning_rate * direction)

    @property
    def variables(self) -> Sequence[tf.Variable]:
        """None: a step depends on nothing but where it starts."""
        return []


def _check_penalty(penalty: float | None, start: float) -> None:
    if penalty is not None and not penalty >= 0:
        raise ValueError(f"penalty={penalty}; a precision is not negative (None for no penalty).")
    if not start + (penalty or 0.0) > 0:
        raise ValueError(
            f"start={start}, penalty={penalty}: the precision to begin with, their sum, must be"
            " positive."
        )
