"""Natural gradients on the posterior beside another optimiser for the rest: HYB, NaturalAdam,
FNG.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal

import gpflow
import tensorflow as tf

from mogp.linalg import cholesky
from mogp.optimizers.adam import Adam
from mogp.optimizers.base import GradientOptimizer, Loss, Optimizer
from mogp.optimizers.exploratory import VAN, Exploratory, Vadam
from mogp.posteriors import Parsimonious

_FIRST_SHARE = 1e-3
_MOST_HALVINGS = 60


class Natural(Optimizer):
    r"""A natural-gradient step with momentum on every $q(\mathbf u_l) = N(\mathbf m, \mathbf V)$,
    `rest` for the rest.

    $$\mathbf V_{t+1}^{-1} = \mathbf V_t^{-1} + 2\beta\nabla_{\mathbf V}\tilde{\mathcal L},\qquad
      \mathbf m_{t+1} = \mathbf m_t - \beta\mathbf V_{t+1}\nabla_{\mathbf m}\tilde{\mathcal L}
        + \upsilon\mathbf V_{t+1}\mathbf V_t^{-1}(\mathbf m_t - \mathbf m_{t-1}).$$

    The gradients come from reverse mode alone. With $\mathbf V_t = LL^\top$, $\bar L$ the gradient
    by $L$ and $\Phi$ the lower triangle with half the diagonal,
    $2\nabla_{\mathbf V} = L^{-\top} P L^{-1}$ for
    $P = \Phi(L^\top\bar L) + \Phi(L^\top\bar L)^\top$, so that

    $$\mathbf V_{t+1} = L\,(I + \beta P)^{-1} L^\top = L_{t+1}L_{t+1}^\top,\qquad L_{t+1} = L
      U^{-\top},\quad I + \beta P = UU^\top$$

    with $U$ upper triangular: a product, a Cholesky factor and a triangular solve of size $M$ a
    latent GP, no inverse and no Hessian. Where $I + \beta P$ is not positive definite (a likelihood
    that is not log-concave), $\beta$ is halved for that latent GP until it is.

    The parameters may be those of whitened values: for given hyper-parameters the step is the same.
    `Parsimonious` posteriors have a step of their own (`parsimonious_step`).

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
        self._moves = _moves(model)
        self._count = tf.Variable(0, dtype=tf.int64, trainable=False)
        own = self._moves.own
        self.rest.start_on(
            [v for v in model.trainable_variables if not any(v is one for one in own)]
        )

    def step(self, model: tf.Module, loss: Loss) -> tf.Tensor:
        """One natural-gradient step on `q(u)`, one step of the rest."""
        gamma = self._step_size()
        latents = self._moves.latents
        for turn in range(latents if self.sequential else 1):
            seen = self.rest.evaluate(loss, self._moves.own)
            by_mean = seen.others[0]
            if self.clip is not None:
                by_mean = tf.clip_by_value(by_mean, -self.clip, self.clip)
            chosen = tf.range(latents) == turn if self.sequential else tf.fill([latents], True)
            self._moves.move(by_mean, seen.others[1], gamma, self.momentum, chosen)
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
        return tf.constant(self.gamma, dtype) * tf.constant(_FIRST_SHARE, dtype) ** (1 - grown)


def _moves(model: Any) -> _Moves:
    """What moves the posterior of a model."""
    posterior: Any = getattr(model, "posterior", None)
    if isinstance(posterior, Parsimonious):
        moves = _Moves(posterior.mu, posterior.sigma, partial(_parsimonious, model))
    elif hasattr(posterior, "q_mu") and hasattr(posterior, "q_sqrt"):
        moves = _Moves(posterior.q_mu, posterior.q_sqrt, partial(_full, posterior))
    else:
        raise ValueError(
            "natural gradients need a posterior that is Gaussian over inducing variables, as"
            f" mogp.posteriors.Full or Parsimonious; this model has {type(posterior).__name__}. Use"
            " Adam()."
        )
    if not (moves.location.trainable and moves.scale.trainable):
        raise ValueError(
            "parameters of the posterior are set not trainable: use Adam(), which leaves them"
            " alone."
        )
    return moves


class _Moves:
    """Natural steps on two parameters, `location [M, L]` and `scale`, a column or a matrix for each
    of `L` latent GPs.

    `step` takes locations `[L, M]`, scales, the gradients by both variables, step size, momentum
    and the locations before, and returns new locations `[L, M]` and scales.
    """

    def __init__(
        self,
        location: gpflow.Parameter,
        scale: gpflow.Parameter,
        step: Callable[..., tuple[tf.Tensor, tf.Tensor]],
    ) -> None:
        self.location, self.scale, self._step = location, scale, step
        self.own = [location.unconstrained_variable, scale.unconstrained_variable]
        self.latents = int(location.shape[1])
        self.before = tf.Variable(self.own[0], trainable=False)

    def move(
        self,
        by_location: tf.Tensor,
        by_scale: tf.Tensor,
        gamma: tf.Tensor,
        momentum: float,
        chosen: tf.Tensor,
    ) -> None:
        """Move the latent GPs that are `chosen [L]`, given gradients by both variables."""
        now, before, g = (
            tf.transpose(values) for values in (self.own[0], self.before, by_location)
        )
        old = tf.convert_to_tensor(self.scale)
        location, scale = self._step(now, old, g, by_scale, gamma, momentum, before)
        self.before.assign(tf.where(chosen, self.own[0], self.before))
        self.own[0].assign(tf.where(chosen, tf.transpose(location), self.own[0]))
        which = chosen[:, None, None] if old.shape.rank == 3 else chosen
        self.own[1].assign(self.scale.transform.inverse(tf.where(which, scale, old)))


def _full(
    posterior: Any, m: tf.Tensor, L: tf.Tensor, by_m: tf.Tensor, by_packed: tf.Tensor, *how: Any
) -> Any:
    return natural_step(m, L, by_m, posterior.q_sqrt.transform.forward(by_packed), *how)


def _parsimonious(
    model: Any, mu: tf.Tensor, sigma: tf.Tensor, by_mu: tf.Tensor, by_variable: tf.Tensor, *how: Any
) -> tuple[tf.Tensor, tf.Tensor]:
    parameter = model.posterior.sigma
    slope = tf.exp(
        parameter.transform.forward_log_det_jacobian(
            parameter.unconstrained_variable, event_ndims=0
        )
    )
    K = tf.tile(model.inducing.Kuu(model.prior.kernels), [model.posterior.copies, 1, 1])
    mu, new = parsimonious_step(
        K, mu, tf.transpose(sigma), by_mu, tf.transpose(by_variable / slope), *how
    )
    return mu, tf.transpose(new)


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
        """Upper `U` with `U Uᵀ = I + β P`: the lower factor of the matrix read backwards, read
        backwards.
        """
        C = eye + beta[..., None, None] * P
        return tf.reverse(tf.linalg.cholesky(tf.reverse(C, [-2, -1])), [-2, -1])

    def failed(U: tf.Tensor) -> tf.Tensor:
        return tf.reduce_any(tf.math.is_nan(tf.linalg.diag_part(U)), -1)

    def halved(
        beta: tf.Tensor, U: tf.Tensor, halvings: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        smaller = tf.where(failed(U), 0.5 * beta, beta)
        return smaller, factor(smaller), halvings + 1

    beta = tf.fill(tf.shape(P)[:-2], tf.convert_to_tensor(step, P.dtype))
    beta, U, _ = tf.while_loop(
        lambda beta, U, halvings: tf.reduce_any(failed(U)) & (halvings < _MOST_HALVINGS),
        halved,
        (beta, factor(beta), tf.constant(0)),
    )
    new_L = tf.linalg.matrix_transpose(
        tf.linalg.triangular_solve(U, tf.linalg.matrix_transpose(L), lower=False)
    )
    new_m = m - beta[..., None] * tf.linalg.matvec(
        new_L, tf.linalg.matvec(new_L, by_m, transpose_a=True)
    )
    if momentum:
        assert before is not None
        change = tf.linalg.triangular_solve(L, (m - before)[..., None])
        pushed = tf.linalg.matmul(new_L, tf.linalg.triangular_solve(U, change, lower=False))
        new_m += momentum * pushed[..., 0]
    return new_m, new_L


def parsimonious_step(
    K: tf.Tensor,
    mu: tf.Tensor,
    sigma: tf.Tensor,
    by_mu: tf.Tensor,
    by_sigma: tf.Tensor,
    step: tf.Tensor,
    momentum: float = 0.0,
    before: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    r"""One step of `Natural` on a batch of `Parsimonious` posteriors: means $m = K\mu$, precisions
    $K^{-1} + \Lambda$.

    With the statistics $(u, u\circ u)$ this is an exponential family, with natural parameters
    $S^{-1}m$ and $-\tfrac12\lambda$ for $\Lambda = \mathrm{diag}\,\lambda = \Sigma^{-1}$. As
    $\partial S_{ii}/\partial\lambda_j = -S_{ij}^2$,

    $$\lambda_{t+1} = \lambda_t - 2\beta(S\circ S)^{-1}\nabla_\lambda,\qquad
      m_{t+1} = m_t - \beta S_{t+1}\nabla_m + \upsilon S_{t+1}S_t^{-1}(m_t - m_{t-1}),$$

    where $K^{-1}S_{t+1} = (K + \Sigma_{t+1})^{-1}\Sigma_{t+1}$ gives the step of $\mu$. $\beta$ is
    halved where a $\lambda$ would not stay positive.

    Args:
        K: `[..., M, M]` covariances of the inducing variables.
        mu, sigma: `[..., M]` parameters.
        by_mu, by_sigma: `[..., M]` gradients.
        step: $\beta$.
        momentum: $\upsilon$.
        before: `mu` before the last step; needed with momentum.

    Returns:
        The new `mu` and `sigma`.
    """
    factor = cholesky(K, name="Kuu")
    A = tf.linalg.triangular_solve(cholesky(K + tf.linalg.diag(sigma), 0.0, "Kuu + Sigma"), K)
    S = K - tf.linalg.matmul(A, A, transpose_a=True)
    by_lambda = -tf.square(sigma) * by_sigma
    change = (
        -2 * tf.linalg.cholesky_solve(cholesky(S * S, name="S o S"), by_lambda[..., None])[..., 0]
    )
    precision = 1 / sigma

    def outside(beta: tf.Tensor) -> tf.Tensor:
        return tf.reduce_any(~(precision + beta[..., None] * change > 0), -1)

    beta = tf.fill(tf.shape(K)[:-2], tf.convert_to_tensor(step, K.dtype))
    (beta,) = tf.while_loop(
        lambda beta: tf.reduce_any(outside(beta)),
        lambda beta: (tf.where(outside(beta), 0.5 * beta, beta),),
        (beta,),
        maximum_iterations=_MOST_HALVINGS,
    )
    new = 1 / (precision + beta[..., None] * change)
    direction = -beta[..., None] * tf.linalg.cholesky_solve(factor, by_mu[..., None])[..., 0]
    if momentum:
        assert before is not None
        lately = mu - before
        direction += momentum * (lately + precision * tf.linalg.matvec(K, lately))
    moved = tf.linalg.cholesky_solve(
        cholesky(K + tf.linalg.diag(new), 0.0, "Kuu + Sigma"), (new * direction)[..., None]
    )
    return mu + moved[..., 0], new


class NaturalAdam(Natural):
    """A natural-gradient step on `q(u)`, then an Adam step on everything else, each with an
    evaluation of its own.

    ("HYB" in Giraldo's thesis is the same with one evaluation for both: `hyb`.)

    Args:
        gamma: step size of the natural gradient; 1 jumps to the optimum of a conjugate model.
        learning_rate: of Adam, on hyper-parameters and inducing inputs.
        warm_up: steps over which gamma grows from a thousandth of its value to its value.
    """

    def __init__(self, gamma: float = 0.1, learning_rate: float = 0.01, warm_up: int = 10) -> None:
        super().__init__(Adam(learning_rate), gamma, warm_up=warm_up, alternate=True)


def hyb(learning_rate: float = 0.005, gamma: float = 0.005, clip: float | None = 5.0) -> Natural:
    """HYB of Giraldo's chapters 4 and 5: natural gradients without momentum on `q(u)`, Adam on the
    rest.
    """
    return Natural(Adam(learning_rate), gamma, clip=clip)


class FNG(Natural):
    r"""The fully natural gradient scheme: natural gradients on $q(\mathbf u)$ and on an exploratory
    $q(\theta)$.

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
        samples: draws of $\theta$ a step; 0 evaluates at the mean.
        clip: entries of the gradient of the means of $q(\mathbf u)$ are brought into
            $[-\text{clip}, \text{clip}]$.
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
