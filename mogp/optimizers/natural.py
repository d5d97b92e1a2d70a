"""Natural gradients on the posterior beside another optimiser for the rest: HYB, NaturalAdam, FNG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import tensorflow as tf

from mogp.optimizers.adam import Adam
from mogp.optimizers.base import GradientOptimizer, Loss, Optimizer
from mogp.optimizers.exploratory import VAN, Exploratory, Vadam

_FIRST_SHARE = 1e-3
_MOST_HALVINGS = 60


class Natural(Optimizer):
    r"""A natural-gradient step with momentum on every $q(\mathbf u_l) = N(\mathbf m, \mathbf V)$, `rest` for the rest.

    $$\mathbf V_{t+1}^{-1} = \mathbf V_t^{-1} + 2\beta\nabla_{\mathbf V}\tilde{\mathcal L},\qquad
      \mathbf m_{t+1} = \mathbf m_t - \beta\mathbf V_{t+1}\nabla_{\mathbf m}\tilde{\mathcal L}
        + \upsilon\mathbf V_{t+1}\mathbf V_t^{-1}(\mathbf m_t - \mathbf m_{t-1}).$$

    The gradients come from reverse mode alone. With $\mathbf V_t = LL^\top$, $\bar L$ the gradient by $L$ and
    $\Phi$ the lower triangle with half the diagonal, $2\nabla_{\mathbf V} = L^{-\top} P L^{-1}$ for
    $P = \Phi(L^\top\bar L) + \Phi(L^\top\bar L)^\top$, so that

    $$\mathbf V_{t+1} = L\,(I + \beta P)^{-1} L^\top = L_{t+1}L_{t+1}^\top,\qquad L_{t+1} = L U^{-\top},\quad
      I + \beta P = UU^\top$$

    with $U$ upper triangular: a product, a Cholesky factor and a triangular solve of size $M$ a latent GP, no inverse
    and no Hessian. Where $I + \beta P$ is not positive definite (a likelihood that is not log-concave), $\beta$ is
    halved for that latent GP until it is.

    The parameters may be those of whitened values: for given hyper-parameters the step is the same.

    Args:
        rest: moves all other parameters; it decides where the loss is evaluated, for $q(\mathbf u)$ too.
        gamma: step size $\beta$; 1 jumps to the optimum of a conjugate model.
        momentum: $\upsilon$.
        clip: entries of the gradient with respect to the mean are brought into $[-\text{clip}, \text{clip}]$.
        warm_up: steps over which the step size grows from a thousandth of its value to its value.
        alternate: evaluate the loss again for `rest`, after $q(\mathbf u)$ has moved. Twice the work, and what large
            steps need; otherwise both move from one evaluation.
        sequential: move the latent GPs one after the other, with an evaluation each. Moving all at once from one
            gradient may overshoot when several latent GPs explain the same data and the step size is near one.
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
    ) -> None:
        if not 0 < gamma <= 1:
            raise ValueError(f"gamma={gamma}; a natural-gradient step size lies in (0, 1].")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum={momentum}; it must lie in [0, 1).")
        if clip is not None and not clip > 0:
            raise ValueError(f"clip={clip}; it must be positive, or None for no clipping.")
        self.rest, self.gamma, self.momentum, self.clip = rest, gamma, momentum, clip
        self.warm_up, self.alternate, self.sequential = warm_up, alternate, sequential

    def start(self, model: tf.Module) -> None:
        """Create the state of the natural gradient and that of the rest."""
        posterior: Any = getattr(model, "posterior", None)
        if not (hasattr(posterior, "q_mu") and hasattr(posterior, "q_sqrt")):
            raise ValueError(
                "natural gradients need a posterior with q_mu and q_sqrt, as mogp.posteriors.Full; "
                f"this model has {type(posterior).__name__}. Use Adam()."
            )
        if not (posterior.q_mu.trainable and posterior.q_sqrt.trainable):
            raise ValueError("q_mu or q_sqrt is set not trainable: use Adam(), which leaves them alone.")
        self._mean, self._sqrt = posterior.q_mu, posterior.q_sqrt
        self._own = [self._mean.unconstrained_variable, self._sqrt.unconstrained_variable]
        self._before = tf.Variable(self._own[0], trainable=False)
        self._count = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.rest.start_on([v for v in model.trainable_variables if not any(v is own for own in self._own)])

    def step(self, model: tf.Module, loss: Loss) -> tf.Tensor:
        """One natural-gradient step on `q(u)`, one step of the rest."""
        gamma = self._step_size()
        latents = int(self._sqrt.shape[0])
        turns = [[latent] for latent in range(latents)] if self.sequential else [list(range(latents))]
        for turn in turns:
            seen = self.rest.evaluate(loss, self._own)
            self._move(seen.others, gamma, turn)
        if self.alternate or self.sequential:
            seen = self.rest.evaluate(loss)
        self.rest.apply(seen)
        return seen.value

    @property
    def variables(self) -> Sequence[tf.Variable]:
        """The state of the rest, the means before the last step, and the number of steps."""
        return [*self.rest.variables, self._before, self._count]

    def draws(self, samples: int, seed: int = 0) -> Any:
        """See `Exploratory.draws`."""
        if not isinstance(self.rest, Exploratory):
            raise TypeError(f"{type(self.rest).__name__} has no exploratory distribution to draw from; use FNG().")
        return self.rest.draws(samples, seed)

    def _step_size(self) -> tf.Tensor:
        dtype = self._own[0].dtype
        grown = tf.minimum(tf.cast(self._count.assign_add(1), dtype) / max(self.warm_up, 1), 1)
        return tf.cast(self.gamma, dtype) * tf.cast(_FIRST_SHARE, dtype) ** (1 - grown)

    def _move(self, gradients: Sequence[tf.Tensor], gamma: tf.Tensor, latents: list[int]) -> None:
        by_mean = tf.transpose(gradients[0])
        if self.clip is not None:
            by_mean = tf.clip_by_value(by_mean, -self.clip, self.clip)
        by_sqrt = self._sqrt.transform.forward(gradients[1])
        before, m = tf.transpose(self._before), tf.transpose(self._own[0])
        L = tf.convert_to_tensor(self._sqrt)
        moved, factor = natural_step(m, L, by_mean, by_sqrt, gamma, self.momentum, before)
        if self.sequential:
            chosen = tf.reduce_any(tf.range(m.shape[0])[:, None] == latents, 1)
            moved = tf.where(chosen[:, None], moved, m)
            factor = tf.where(chosen[:, None, None], factor, L)
            before = tf.where(chosen[:, None], m, before)
        else:
            before = m
        self._before.assign(tf.transpose(before))
        self._own[0].assign(tf.transpose(moved))
        self._own[1].assign(self._sqrt.transform.inverse(factor))


def natural_step(
    m: tf.Tensor,
    L: tf.Tensor,
    by_m: tf.Tensor,
    by_L: tf.Tensor,
    step: tf.Tensor,
    momentum: float = 0.0,
    before: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    r"""One step of `Natural` on a batch of Gaussians $N(\mathbf m, LL^\top)$.

    Args:
        m: `[..., M]` means.
        L: `[..., M, M]` lower factors of the covariances.
        by_m: `[..., M]` gradient with respect to the means.
        by_L: `[..., M, M]` gradient with respect to the lower triangles.
        step: $\beta$.
        momentum: $\upsilon$.
        before: the means before the last step; needed with momentum.

    Returns:
        The new means and lower factors.
    """
    inner = tf.linalg.band_part(tf.linalg.matmul(L, by_L, transpose_a=True), -1, 0)
    inner = tf.linalg.set_diag(inner, 0.5 * tf.linalg.diag_part(inner))
    P = inner + tf.linalg.matrix_transpose(inner)
    eye = tf.eye(P.shape[-1], dtype=P.dtype)

    def factor(beta: tf.Tensor) -> tf.Tensor:
        """Upper `U` with `U Uᵀ = I + β P`: the lower factor of the matrix read backwards, read backwards."""
        C = eye + beta[..., None, None] * P
        return tf.reverse(tf.linalg.cholesky(tf.reverse(C, [-2, -1])), [-2, -1])

    def failed(U: tf.Tensor) -> tf.Tensor:
        return tf.reduce_any(tf.math.is_nan(tf.linalg.diag_part(U)), -1)

    def halved(beta: tf.Tensor, U: tf.Tensor, halvings: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        smaller = tf.where(failed(U), 0.5 * beta, beta)
        return smaller, factor(smaller), halvings + 1

    beta = tf.fill(tf.shape(P)[:-2], tf.cast(step, P.dtype))
    beta, U, _ = tf.while_loop(
        lambda beta, U, halvings: tf.reduce_any(failed(U)) & (halvings < _MOST_HALVINGS),
        halved,
        (beta, factor(beta), tf.constant(0)),
    )
    new_L = tf.linalg.matrix_transpose(tf.linalg.triangular_solve(U, tf.linalg.matrix_transpose(L), lower=False))
    new_m = m - beta[..., None] * tf.linalg.matvec(new_L, tf.linalg.matvec(new_L, by_m, transpose_a=True))
    if momentum:
        assert before is not None
        change = tf.linalg.triangular_solve(L, (m - before)[..., None])
        pushed = tf.linalg.matmul(new_L, tf.linalg.triangular_solve(U, change, lower=False))
        new_m += momentum * pushed[..., 0]
    return new_m, new_L


class NaturalAdam(Natural):
    """A natural-gradient step on `q(u)`, then an Adam step on everything else, each with an evaluation of its own.

    ("HYB" in Giraldo's thesis is the same with one evaluation for both: `hyb`.) The model needs a `Full` posterior.

    Args:
        gamma: step size of the natural gradient; 1 jumps to the optimum of a conjugate model.
        learning_rate: of Adam, on hyper-parameters and inducing inputs.
        warm_up: steps over which gamma grows from a thousandth of its value to its value.
    """

    def __init__(self, gamma: float = 0.1, learning_rate: float = 0.01, warm_up: int = 10) -> None:
        super().__init__(Adam(learning_rate), gamma, warm_up=warm_up, alternate=True)


def hyb(learning_rate: float = 0.005, gamma: float = 0.005, clip: float | None = 5.0) -> Natural:
    """HYB of Giraldo's chapters 4 and 5: natural gradients without momentum on `q(u)`, Adam on the rest."""
    return Natural(Adam(learning_rate), gamma, clip=clip)


class FNG(Natural):
    r"""The fully natural gradient scheme: natural gradients on $q(\mathbf u)$ and on an exploratory $q(\theta)$.

    $q(\theta) = N(\mu, \mathrm{diag}\,\sigma^2)$ is over all hyper-parameters and inducing inputs, unconstrained. A
    step draws $\theta$, evaluates the loss once there, and moves $q(\mathbf u)$ and $q(\theta)$ from that. Between
    steps the model holds $\theta = \mu$: predictions are those at the mean; `draws` gives models averaged over
    $q(\theta)$. A step costs one loss with its gradient (as Adam's) and $O(LM^3)$ for the $L$ latent GPs.

    Args:
        rule: how $q(\theta)$ moves. "vadam": as in the author's released code (`Vadam`); "root": as in Appendix G, with
            square roots in the update of the mean; "literal": Eqs. 3.24 and 3.25 (both `VAN`).
        learning_rate: step size $\alpha$ of $q(\theta)$.
        gamma: step size $\beta$ of $q(\mathbf u)$.
        momentum: $\upsilon$ of $q(\mathbf u)$; also $\gamma$ of $q(\theta)$ for "root" and "literal".
        penalty: precision $\lambda_1$ of the penaliser $N(0, \lambda_1^{-1} I)$.
        start: $s_0 = \sigma_0^{-2} - \lambda_1$, squared gradients to begin with: the larger, the narrower
            $q(\theta)$ starts. (The author: 1000 to 10000 for up to three inputs, at most 100 for more.)
        samples: draws of $\theta$ a step; 0 evaluates at the mean.
        clip: entries of the gradient of the means of $q(\mathbf u)$ are brought into $[-\text{clip}, \text{clip}]$.
        seed: of the draws.
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
        super().__init__(rest, gamma, momentum=momentum, clip=clip)
