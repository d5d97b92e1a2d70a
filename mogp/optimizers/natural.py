"""Natural gradients on the posterior and another optimiser on the rest: HYB, NaturalAdam, FNG."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal

import gpflow
import tensorflow as tf

from mogp.errors import UnsupportedError
from mogp.optimizers.adam import Adam
from mogp.optimizers.base import Ending, GradientOptimizer, Loss, Optimizer, Problem, Watch
from mogp.optimizers.exploratory import VAN, Exploratory, Vadam
from mogp.optimizers.natural_steps import natural_step, parsimonious_step
from mogp.posteriors import Full, Joint, Parsimonious, Posterior

__all__ = ["FNG", "Natural", "NaturalAdam", "hyb", "natural_step", "parsimonious_step"]

TRUST = 10.0
"""The longest natural step unless another is asked for, in nats for each inducing variable."""
_FIRST_SHARE = 1e-3


class Natural(Optimizer):
    r"""A natural-gradient step with momentum on every $q(\mathbf u_l)$, and `rest` on all else.

    For $q(\mathbf u_l) = N(\mathbf m, \mathbf V)$

    $$\mathbf V_{t+1}^{-1} = \mathbf V_t^{-1} + 2\beta\nabla_{\mathbf V}\tilde{\mathcal L},\qquad
      \mathbf m_{t+1} = \mathbf m_t - \beta\mathbf V_{t+1}\nabla_{\mathbf m}\tilde{\mathcal L}
        + \upsilon\mathbf V_{t+1}\mathbf V_t^{-1}(\mathbf m_t - \mathbf m_{t-1}).$$

    The gradients come from reverse mode alone. With $\mathbf V_t = LL^\top$, $\bar L$ the gradient
    by $L$ and $\Phi$ the lower triangle with half the diagonal,
    $2\nabla_{\mathbf V} = L^{-\top} P L^{-1}$ for
    $P = \Phi(L^\top\bar L) + \Phi(L^\top\bar L)^\top$, so that

    $$\mathbf V_{t+1} = L\,(I + \beta P)^{-1} L^\top = L_{t+1}L_{t+1}^\top,\qquad
      L_{t+1} = L U^{-\top},\quad I + \beta P = UU^\top$$

    with $U$ upper triangular: a product, a Cholesky factor and a triangular solve of size $M$ for
    each latent GP, no inverse of a covariance and no Hessian.

    $\beta$ is halved for a latent GP until $I + \beta P$ is positive definite (it may not be with a
    likelihood that is not log-concave) and the step is no longer than trusted,
    $\mathrm{KL}[q_{t+1}\|q_t] \le \text{trust}\cdot M$. A shorter step is the plain one.

    The parameters may be those of whitened values: for given hyper-parameters the step is the same.
    `Parsimonious` posteriors have another step (`parsimonious_step`).

    Args:
        rest: moves all other parameters; it decides where the loss is evaluated, for $q(\mathbf u)$
            too.
        gamma: step size $\beta$; 1 jumps to the optimum of a conjugate model.
        momentum: $\upsilon$.
        clip: entries of the gradient with respect to the mean are brought into
            $[-\text{clip}, \text{clip}]$.
        warm_up: steps over which the step size grows from a thousandth of its value to its value.
        alternate: evaluate the loss again for `rest`, after $q(\mathbf u)$ has moved. Twice the
            work, and what large steps need; otherwise both move from one evaluation.
        sequential: move the latent GPs one after the other, with an evaluation each. Moving all at
            once from one gradient may overshoot when several latent GPs explain the same data and
            the step size is near one.
        trust: the longest step of a $q(\mathbf u_l)$, in nats for each of its $M$ inducing
            variables; None for any length. One stray sample of the objective, as a chain trained
            with one path has now and then, cannot throw the posterior further than that. Steps of
            a training that goes well are a hundredth to three nats long.

    >>> import tensorflow as tf
    >>> from mogp.optimizers import Adam, Natural
    >>> from mogp.posteriors import Full
    >>> model = tf.Module()
    >>> model.posterior = Full()
    >>> model.posterior.build(kernels=1, copies=1, inducing=2)
    >>> def loss():  # the bound of a Gaussian likelihood with targets 1 and 3
    ...     kl = model.posterior.kl(model.posterior.factorise(tf.eye(2, 2, [1], tf.float64)))
    ...     residual = tf.constant([[1.0], [3.0]], tf.float64) - model.posterior.q_mu
    ...     spread = tf.reduce_sum(tf.square(model.posterior.q_sqrt))
    ...     return tf.reduce_sum(kl) + 0.5 * (tf.reduce_sum(residual**2) + spread)
    >>> optimizer = Natural(Adam(), gamma=1.0)
    >>> optimizer.start(model)
    >>> bound = optimizer.step(model, loss)
    >>> model.posterior.q_mu.numpy().round(3).tolist()
    [[0.5], [1.5]]
    """

    def __init__(
        self,
        rest: GradientOptimizer,
        gamma: float = 0.1,
        momentum: float = 0.0,
        clip: float | None = None,
        warm_up: int = 0,
        alternate: bool = False,
        sequential: bool = False,
        trust: float | None = TRUST,
    ) -> None:
        if not 0 < gamma <= 1:
            raise ValueError(f"gamma={gamma}; a natural-gradient step size lies in (0, 1].")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum={momentum}; it must lie in [0, 1).")
        if clip is not None and not clip > 0:
            raise ValueError(f"clip={clip}; it must be positive, or None for no clipping.")
        if trust is not None and not trust > 0:
            raise ValueError(f"trust={trust}; it must be positive, or None for any length.")
        self.rest, self.gamma, self.momentum, self.clip = rest, gamma, momentum, clip
        self.trust, self._share = trust, 1.0
        self._scale: tf.Variable | None = None
        self.warm_up, self.alternate, self.sequential = warm_up, alternate, sequential

    def start(self, model: tf.Module) -> None:
        """Create the state of the natural gradient and that of the rest."""
        self._moves = _moves(model)
        self._count = tf.Variable(0, dtype=tf.int64, trainable=False)
        own = self._moves.own
        self.rest.start_on(
            [v for v in model.trainable_variables if not any(v is one for one in own)]
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.rest!r}, gamma={self.gamma})"

    def scale_by(self, scale: tf.Variable) -> None:
        """Multiply the step sizes, of the rest too, by a variable from now on."""
        self._scale = scale
        self.rest.scale_by(scale)

    def run(self, problem: Problem, watch: Watch, jit_compile: bool = False) -> Ending:
        """Take steps until the watch says that it is enough: see `Optimizer.run`."""
        self._share = problem.share
        return super().run(problem, watch, jit_compile)

    def step(self, model: tf.Module, loss: Loss) -> tf.Tensor:
        """One natural-gradient step on `q(u)`, one step of the rest."""
        gamma = self._step_size()
        for turn in range(self._moves.latents if self.sequential else 1):
            seen = self.rest.evaluate(loss, self._moves.own)
            rows = tf.constant([turn]) if self.sequential else self._moves.read(seen.others[0])
            self._moves.move(rows, seen.others, self.clip, gamma, self.momentum, self.trust)
        if self.alternate or self.sequential:
            seen = self.rest.evaluate(loss)
        self.rest.apply(seen)
        return seen.value

    @property
    def variables(self) -> Sequence[tf.Variable]:
        """The state of the rest, the means before the last step, and the number of steps."""
        return [*self.rest.variables, self._moves.before, self._count]

    def draws(self, samples: int, seed: int = 0) -> Iterator[int]:
        """See `Exploratory.draws`."""
        if not isinstance(self.rest, Exploratory):
            raise TypeError(
                f"{type(self.rest).__name__} has no exploratory distribution to draw from; use"
                " FNG()."
            )
        return self.rest.draws(samples, seed)

    def _step_size(self) -> tf.Tensor:
        dtype = self._moves.own[0].dtype
        grown = tf.minimum(tf.cast(self._count.assign_add(1), dtype) / max(self.warm_up, 1), 1)
        gamma = tf.constant(self._share * self.gamma, dtype)
        if self._scale is not None:
            gamma *= tf.cast(self._scale, dtype)
        return gamma * tf.constant(_FIRST_SHARE, dtype) ** (1 - grown)


def _moves(model: Any) -> _Moves:
    """What moves the posterior of a model."""
    posterior = getattr(model, "posterior", None)
    if isinstance(posterior, Parsimonious):
        moves = _Moves(posterior, posterior.mu, posterior.sigma, partial(_parsimonious, model))
    elif isinstance(posterior, Full | Joint):
        moves = _Moves(posterior, posterior.q_mu, posterior.q_sqrt, _full)
    else:
        raise UnsupportedError(
            f"{type(model).__name__} has no posterior that natural gradients can move"
            " (mogp.posteriors.Joint, Full or Parsimonious). Use Adam()."
        )
    if not (moves.location.trainable and moves.scale.trainable):
        raise ValueError(
            "parameters of the posterior are set not trainable: use Adam(), which leaves them"
            " alone."
        )
    return moves


class _Moves:
    """Natural steps on the two parameters of `L` latent GPs: `location [M, L]`, and `scale`
    `[L, M, M]` or `[M, L]`.

    `step` takes numbers of latent GPs `[n]`, and for these locations `[n, M]`, scales
    `[n, M, …]`, the gradients by both, and how to step; it returns new locations and scales.
    """

    def __init__(
        self,
        posterior: Posterior,
        location: gpflow.Parameter,
        scale: gpflow.Parameter,
        step: Callable[..., tuple[tf.Tensor, tf.Tensor]],
    ) -> None:
        self.location, self.scale, self._step = location, scale, step
        self.own = [location.unconstrained_variable, scale.unconstrained_variable]
        self.latents = int(location.shape[1])
        self.before = tf.Variable(_by_latent(location), trainable=False)
        self._by_row = posterior.by_row

    def read(self, by_location: Any) -> tf.Tensor:
        """Numbers of the latent GPs on which the loss depends, `[n]`: all, or the rows of a sparse
        gradient.
        """
        if self._by_row and isinstance(by_location, tf.IndexedSlices):
            return tf.unique(by_location.indices)[0]
        return tf.range(self.latents)

    def move(
        self, rows: tf.Tensor, gradients: Sequence[Any], clip: float | None, *how: Any
    ) -> None:
        """Move some latent GPs, given gradients by both variables.

        The others keep their values, and their memory for the momentum.
        """
        now = [_by_latent(parameter) for parameter in (self.location, self.scale)]
        by = [
            _by_latent(_by_parameter(parameter, gradient))
            for parameter, gradient in zip((self.location, self.scale), gradients, strict=True)
        ]
        if clip is not None:
            by[0] = tf.clip_by_value(by[0], -clip, clip)
        some = (tf.gather(values, rows) for values in (*now, *by, self.before))
        new = self._step(rows, *some, *how)
        self.before.assign(_replaced(self.before, rows, tf.gather(now[0], rows)))
        for parameter, old, moved in zip((self.location, self.scale), now, new, strict=True):
            values = _by_latent(_replaced(old, rows, moved))
            parameter.unconstrained_variable.assign(parameter.transform.inverse(values))


def _by_latent(values: Any) -> tf.Tensor:
    """`[M, L]` as `[L, M]`, and back; what has latents first already stays as it is."""
    values = tf.convert_to_tensor(values)
    return tf.transpose(values) if values.shape.rank == 2 else values


def _by_parameter(parameter: gpflow.Parameter, by_variable: Any) -> tf.Tensor:
    """The gradient by a parameter, of that by its unconstrained variable."""
    # A tensor of its own: the transform would remember where the parameter's came from.
    value = tf.identity(tf.convert_to_tensor(parameter))
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(value)
        variable = parameter.transform.inverse(value)
    return tape.gradient(variable, value, output_gradients=tf.convert_to_tensor(by_variable))


def _replaced(values: tf.Tensor, rows: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
    """`[L, …]` with some rows `[n, …]` replaced."""
    return tf.tensor_scatter_nd_update(values, rows[:, None], new)


def _full(
    rows: tf.Tensor,
    m: tf.Tensor,
    L: tf.Tensor,
    by_m: tf.Tensor,
    by_L: tf.Tensor,
    before: tf.Tensor,
    step: tf.Tensor,
    momentum: float,
    trust: float | None,
) -> tuple[tf.Tensor, tf.Tensor]:
    return natural_step(m, L, by_m, by_L, step, momentum, before, trust)


def _parsimonious(
    model: Any,
    rows: tf.Tensor,
    mu: tf.Tensor,
    sigma: tf.Tensor,
    by_mu: tf.Tensor,
    by_sigma: tf.Tensor,
    before: tf.Tensor,
    step: tf.Tensor,
    momentum: float,
    trust: float | None,
) -> tuple[tf.Tensor, tf.Tensor]:
    Kuu = model.inducing.Kuu(model.prior.kernels)
    K = tf.gather(Kuu, rows % tf.cast(tf.shape(Kuu)[0], rows.dtype))
    return parsimonious_step(K, mu, sigma, by_mu, by_sigma, step, momentum, before, trust)


class NaturalAdam(Natural):
    """A natural-gradient step on `q(u)`, then an Adam step on everything else.

    Each has a separate evaluation of the loss. ("HYB" in Giraldo's thesis is the same with one
    evaluation for both: `hyb`.)

    Args:
        gamma: step size of the natural gradient; 1 jumps to the optimum of a conjugate model.
        learning_rate: step size of Adam, on hyper-parameters and inducing inputs.
        warm_up: steps over which gamma grows from a thousandth of its value to its value.
        trust: see `Natural`.

    >>> import tensorflow as tf
    >>> from mogp.optimizers import NaturalAdam
    >>> from mogp.posteriors import Full
    >>> model = tf.Module()
    >>> model.x, model.posterior = tf.Variable(1.0, dtype=tf.float64), Full()
    >>> model.posterior.build(kernels=1, copies=1, inducing=1)
    >>> optimizer = NaturalAdam(gamma=1.0, learning_rate=0.25, warm_up=0)
    >>> optimizer.start(model)
    >>> def loss():
    ...     q = model.posterior
    ...     kl = q.kl(q.factorise(tf.ones([1, 1, 1], tf.float64)))[0]
    ...     return kl + tf.reduce_sum((q.q_mu - 3.0) ** 2 + q.q_sqrt[0] ** 2) / 2 + model.x**2
    >>> value = optimizer.step(model, loss)
    >>> model.posterior.q_mu.numpy().round(2).tolist(), round(float(model.x), 2)
    ([[1.5]], 0.75)
    """

    def __init__(
        self,
        gamma: float = 0.1,
        learning_rate: float = 0.01,
        warm_up: int = 10,
        trust: float | None = TRUST,
    ) -> None:
        super().__init__(Adam(learning_rate), gamma, warm_up=warm_up, alternate=True, trust=trust)


def hyb(
    learning_rate: float = 0.005,
    gamma: float = 0.005,
    clip: float | None = 5.0,
    trust: float | None = TRUST,
) -> Natural:
    """HYB of Giraldo's chapters 4 and 5: natural gradients without momentum, and Adam on the rest.

    Args:
        learning_rate: step size of Adam.
        gamma: step size of the natural gradient on `q(u)`.
        clip: as in `Natural`.
        trust: as in `Natural`.

    >>> from mogp.optimizers import hyb
    >>> optimizer = hyb(learning_rate=0.01, gamma=0.1)
    >>> type(optimizer.rest).__name__, optimizer.gamma, optimizer.momentum
    ('Adam', 0.1, 0.0)
    """
    return Natural(Adam(learning_rate), gamma, clip=clip, trust=trust)


class FNG(Natural):
    r"""Fully natural gradients: on $q(\mathbf u)$ and on an exploratory $q(\theta)$.

    $q(\theta) = N(\mu, \mathrm{diag}\,\sigma^2)$ is over all hyper-parameters and inducing inputs,
    unconstrained. A step draws $\theta$, evaluates the loss once there, and moves $q(\mathbf u)$
    and $q(\theta)$ from that. Between steps the model holds $\theta = \mu$: predictions are those
    at the mean; `draws` gives models averaged over $q(\theta)$. A step costs one loss with its
    gradient (as Adam's) and $O(LM^3)$ for the $L$ latent GPs.

    Args:
        rule: how $q(\theta)$ moves. "vadam": as in the author's released code (`Vadam`); "root": as
            in Appendix G, with square roots in the update of the mean; "literal": Eqs. 3.24 and
            3.25 (both `VAN`).
        learning_rate: step size $\alpha$ of $q(\theta)$.
        gamma: step size $\beta$ of $q(\mathbf u)$.
        momentum: $\upsilon$ of $q(\mathbf u)$; also $\gamma$ of $q(\theta)$ for "root" and
            "literal".
        penalty: precision $\lambda_1$ of the penaliser $N(0, \lambda_1^{-1} I)$.
        start: $s_0 = \sigma_0^{-2} - \lambda_1$, squared gradients to begin with: the larger, the
            narrower $q(\theta)$ starts. (The author: 1000 to 10000 for up to three inputs, at most
            100 for more.)
        samples: draws of $\theta$ in a step; 0 evaluates at the mean.
        clip: entries of the gradient of the means of $q(\mathbf u)$ are brought into
            $[-\text{clip}, \text{clip}]$.
        trust: see `Natural`.
        seed: seed of the draws.

    >>> import tensorflow as tf
    >>> from mogp.optimizers import FNG
    >>> from mogp.posteriors import Full
    >>> model = tf.Module()
    >>> model.x, model.posterior = tf.Variable(1.0, dtype=tf.float64), Full()
    >>> model.posterior.build(kernels=1, copies=1, inducing=1)
    >>> optimizer = FNG(gamma=1.0, start=99.0, samples=0)
    >>> optimizer.start(model)
    >>> def loss():
    ...     q = model.posterior
    ...     kl = q.kl(q.factorise(tf.ones([1, 1, 1], tf.float64)))[0]
    ...     return kl + tf.reduce_sum((q.q_mu - 3.0) ** 2 + q.q_sqrt[0] ** 2) / 2 + model.x**2
    >>> value = optimizer.step(model, loss)
    >>> model.posterior.q_mu.numpy().round(2).tolist(), bool(model.x < 1.0)
    ([[1.5]], True)
    >>> len([draw for draw in optimizer.draws(5)])
    5
    """

    rest: Exploratory

    def __init__(
        self,
        rule: Literal["vadam", "root", "literal"] = "vadam",
        *,
        learning_rate: float = 0.005,
        gamma: float = 0.005,
        momentum: float = 0.9,
        penalty: float = 1.0,
        start: float = 1000.0,
        samples: int = 1,
        clip: float | None = 5.0,
        trust: float | None = TRUST,
        seed: int = 0,
    ) -> None:
        if rule not in ("vadam", "root", "literal"):
            raise ValueError(f'rule={rule!r}; expected "vadam", "root" or "literal".')
        rest: Exploratory
        if rule == "vadam":
            rest = Vadam(learning_rate, penalty=penalty, start=start, samples=samples, seed=seed)
        else:
            rest = VAN(
                learning_rate,
                penalty=penalty,
                start=start,
                momentum=momentum,
                root=rule == "root",
                samples=samples,
                seed=seed,
            )
        super().__init__(rest, gamma, momentum=momentum, clip=clip, trust=trust)
