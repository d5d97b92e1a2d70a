"""One exact or sparse GP regression, trained through a function that is compiled once for all
kernels of a form.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple

import gpflow
import numpy as np
import tensorflow as tf
from gpflow.config import as_context, config
from gpflow.kernels import Kernel

from mogp.data import Array
from mogp.kernels import KernelStack, parameters_read_once
from mogp.kernels.stack import form_of, key
from mogp.linalg import cholesky, cholesky_and_jitter, log_evidence
from mogp.optimizers import Search

LEAST, MOST = 1e-8, 1e8
_NUMBERS_AT_ONCE = 1 << 24


class Solved(NamedTuple):
    r"""What predictions share: the mean at a point is $k^\top a$, the variance
    $k(x, x) - k^\top R^\top s R k$.

    Attributes:
        points: `[m, P]`, training or inducing inputs.
        weights: `[m]`, $a$.
        root: `[r, m]`, $R$.
        signs: `[r]`, the diagonal $s$: 1 where a row of $R$ takes variance away, -1 where it gives
            some back.
    """

    points: tf.Tensor
    weights: tf.Tensor
    root: tf.Tensor
    signs: tf.Tensor


def logarithms() -> AbstractContextManager[None]:
    """Inside, GPflow's positive parameters are exponentials of what is trained: their
    logarithms.
    """
    context: AbstractContextManager[None] = as_context(replace(config(), positive_bijector="exp"))
    return context


class Regression(gpflow.Module):
    r"""$y_n = f(x_n) + \epsilon_n$, $f \sim GP(0, k)$, $\epsilon_n \sim N(0, \sigma^2)$.

    Exact, the objective is $\log N(\mathbf y \mid 0, \mathbf K + \sigma^2 \mathbf I)$. With
    inducing inputs `Z` and $\mathbf Q = \mathbf K_{fu}\mathbf K_{uu}^{-1}\mathbf K_{uf}$ it is the
    bound of Titsias (2009),
    $\log N(\mathbf y \mid 0, \mathbf Q + \sigma^2\mathbf I)
    - \frac1{2\sigma^2}\mathrm{tr}(\mathbf K - \mathbf Q)$.

    Args:
        kernel: $k$, of a form that `KernelStack` stacks, made inside `logarithms()`.
        likelihood: Gaussian, likewise; its variance is $\sigma^2$.
    """

    def __init__(self, kernel: Kernel, likelihood: gpflow.likelihoods.Gaussian) -> None:
        super().__init__()
        self.kernel = kernel
        self.likelihood = likelihood
        self.X: Array = np.empty((0, 0))
        self.y: Array = np.empty(0)
        self.Z: Array | None = None
        self._solved: tuple[bytes, Solved] | None = None

    @property
    def noise(self) -> tf.Tensor:
        r"""$\sigma^2$."""
        return tf.exp(self.likelihood.variance.unconstrained_variable)

    def observe(self, X: Array, y: Array, Z: Array | None = None) -> None:
        """The data: inputs `[n, P]`, targets `[n]`, and inducing inputs `[m, P]` that are not
        trained, or None.
        """
        self.X, self.y, self.Z = X, y, Z
        self._solved = None

    # --- training

    def evidence(self) -> float:
        """The log evidence of the targets, or with inducing inputs the bound on it."""
        logs, sizes = self._logarithms()
        return -float(self._objective()(*self._tensors(), tf.constant(logs), sizes)[0])

    @property
    def _parameters(self) -> list[gpflow.Parameter]:
        return [self.likelihood.variance, *self.kernel.parameters]

    def _logarithms(self) -> tuple[Array, Array]:
        """Of all parameters, one after the other; and the number of each."""
        each = [p.unconstrained_variable.numpy().reshape(-1) for p in self._parameters]
        return np.concatenate(each), np.array([len(v) for v in each], np.int32)

    def _tensors(self) -> tuple[tf.Tensor, ...]:
        given = (self.X, self.y) if self.Z is None else (self.X, self.y, self.Z)
        return tuple(tf.constant(a, gpflow.default_float()) for a in given)

    def _objective(self) -> Callable[..., tf.Tensor]:
        """The negative objective and its gradient `[1 + parameters]`, at data and logarithms of
        parameters.
        """
        dtype = tf.as_dtype(gpflow.default_float())
        name = (
            form_of(self.kernel),
            tuple(p.shape.rank for p in self._parameters),
            self.Z is None,
            dtype,
        )
        if name not in _COMPILED:
            _COMPILED[name] = _compile(self.kernel, sparse=self.Z is not None, dtype=dtype)
            if len(_COMPILED) > _MOST_COMPILED:
                del _COMPILED[next(iter(_COMPILED))]
        return _COMPILED[name]

    # --- prediction

    def mean(self, X: tf.Tensor) -> tf.Tensor:
        """Posterior mean `[N]` of $f$ at `X [N, P]`."""
        solved = self._posterior()
        with self._values():
            return tf.linalg.matvec(self._K(X, solved.points), solved.weights)

    def moments(self, X: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Posterior mean and variance `[..., N]` of $f$ at `X [..., N, P]`."""
        shape = tf.shape(X)[:-1]
        flat = tf.reshape(X, [-1, X.shape[-1]])
        solved = self._posterior()
        size = max(1, _NUMBERS_AT_ONCE // max(1, int(solved.points.shape[0])))
        starts = range(0, max(1, int(flat.shape[0])), size)
        with self._values():
            blocks = [self._block(flat[start : start + size], solved) for start in starts]
        mean, var = (tf.reshape(tf.concat(parts, 0), shape) for parts in zip(*blocks, strict=True))
        return mean, var

    def _block(self, X: tf.Tensor, solved: Solved) -> tuple[tf.Tensor, tf.Tensor]:
        cross = self._K(solved.points, X)
        known = tf.reduce_sum(
            solved.signs[:, None] * tf.square(tf.linalg.matmul(solved.root, cross)), 0
        )
        mean = tf.linalg.matvec(cross, solved.weights, transpose_a=True)
        return mean, tf.maximum(KernelStack(self.kernel).K_diag(X)[0] - known, 0)

    def draws(
        self, X: tf.Tensor, normal: tf.Tensor, known: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Draws of $f$, joint over points, given targets that are known at some of them.

        Args:
            X: points `[S, N, P]`, or `[1, N, P]` for all draws alike.
            normal: `[S, N]`, independent standard normal numbers; each draw is a function of its
                own.
            known: targets `[N]` at the points, noise included, NaN where there is none.

        Returns:
            The mean `[B, N]` and variance `[B, N]` of $f$, the draws `[S, N]`, and the log density
            `[B]` of the targets that are known; `B` is `S` or 1.
        """
        B, N = X.shape[:2]
        rows = np.empty(0, int) if known is None else np.flatnonzero(~np.isnan(known))
        y = None if known is None else tf.gather(known, rows)
        size = max(
            1, _NUMBERS_AT_ONCE // max(1, N * max(N, int(self._posterior().points.shape[0])))
        )
        parts = [
            self._draws(X[start : start + size], normal[start : start + size] if B > 1 else normal,
                        rows, y)
            for start in range(0, B, size)
        ]  # fmt: skip
        mean, var, drawn, log_density = (tf.concat(same, 0) for same in zip(*parts, strict=True))
        return mean, var, drawn, log_density

    def _draws(
        self, X: tf.Tensor, normal: tf.Tensor, rows: Array, y: tf.Tensor | None
    ) -> tuple[tf.Tensor, ...]:
        mean, cov = self._joint(X)
        log_density = tf.zeros(X.shape[:1], mean.dtype)
        if y is not None and len(rows):
            mean, cov, log_density = _told(mean, cov, self.noise, rows, y)
        L, _ = cholesky_and_jitter(cov, name="the covariance of a joint draw")
        if len(X) == 1:
            drawn = mean + tf.linalg.matmul(normal, L[0], transpose_b=True)
        else:
            drawn = mean + tf.linalg.matvec(L, normal)
        return mean, tf.maximum(tf.linalg.diag_part(cov), 0), drawn, log_density

    def _joint(self, X: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Posterior means `[B, N]` and covariances `[B, N, N]` of $f$ at `X [B, N, P]`."""
        solved = self._posterior()
        B, N, P = X.shape
        with self._values():
            cross = tf.reshape(self._K(solved.points, tf.reshape(X, [B * N, P])), [-1, B, N])
            prior = KernelStack(self.kernel).K(X)
        mean = tf.einsum("mbn,m->bn", cross, solved.weights)
        projected = tf.reshape(
            tf.linalg.matmul(solved.root, tf.reshape(cross, [-1, B * N])), [-1, B, N]
        )
        projected = tf.transpose(projected, [1, 0, 2])
        known = tf.linalg.matmul(projected, solved.signs[:, None] * projected, transpose_a=True)
        return mean, prior - known

    def _values(self) -> AbstractContextManager[None]:
        """Inside, stacks of the kernel find the values of its parameters."""
        values = {
            key([p]): tf.expand_dims(tf.exp(p.unconstrained_variable), 0)
            for p in self.kernel.parameters
        }
        return parameters_read_once(values)

    def _K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        return KernelStack(self.kernel).K(X, X2)[0]

    def _posterior(self) -> Solved:
        """Solved again only when a parameter has changed."""
        state = b"".join(np.asarray(p.unconstrained_variable).tobytes() for p in self._parameters)
        if self._solved is None or self._solved[0] != state:
            with self._values():
                self._solved = (
                    state,
                    self._solve_exactly() if self.Z is None else self._solve_sparsely(),
                )
        return self._solved[1]

    def _solve_exactly(self) -> Solved:
        X, y = self._tensors()
        eye = tf.eye(len(self.y), dtype=X.dtype)
        L, _ = cholesky_and_jitter(
            self._K(X) + self.noise * eye, jitter=0.0, name="the covariance of the data"
        )
        root = tf.linalg.triangular_solve(L, eye)
        weights = tf.linalg.matvec(root, tf.linalg.matvec(root, y), transpose_a=True)
        return Solved(X, weights, root, tf.ones([len(self.y)], X.dtype))

    def _solve_sparsely(self) -> Solved:
        r"""With $\mathbf L\mathbf L^\top = \mathbf K_{uu}$,
        $\mathbf A = \mathbf L^{-1}\mathbf K_{uf}/\sigma$ and

        $\mathbf L_B\mathbf L_B^\top = \mathbf I + \mathbf A\mathbf A^\top$: variance
        $k - |\mathbf L^{-1}k_u|^2 + |\mathbf L_B^{-1}\mathbf L^{-1}k_u|^2$, mean
        $k_u^\top\mathbf L^{-\top}(\mathbf L_B\mathbf L_B^\top)^{-1}\mathbf A\mathbf y/\sigma$.
        """
        X, y, Z = self._tensors()
        sigma, eye = tf.sqrt(self.noise), tf.eye(len(Z), dtype=X.dtype)
        L, _ = cholesky_and_jitter(self._K(Z), name="the covariance of inducing variables")
        root = tf.linalg.triangular_solve(L, eye)
        A = tf.linalg.matmul(root, self._K(Z, X)) / sigma
        L_B, _ = cholesky_and_jitter(eye + tf.linalg.matmul(A, A, transpose_b=True), jitter=0.0)
        back = tf.linalg.triangular_solve(L_B, root)
        inner = tf.linalg.cholesky_solve(L_B, tf.linalg.matvec(A, y)[:, None])[:, 0] / sigma
        ones = tf.ones([len(Z)], X.dtype)
        return Solved(
            Z,
            tf.linalg.matvec(root, inner, transpose_a=True),
            tf.concat([root, back], 0),
            tf.concat([ones, -ones], 0),
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_solved": None}


class LogSearch(Search):
    """The negative log evidence of a regression, over the logarithms of its trainable parameters.

    Parameters stay between 1e-8 and 1e8. `read` comes first: it takes the data as they are then.

    Args:
        layer: the regression.
    """

    def __init__(self, layer: Regression) -> None:
        # Looking for them takes as long as an evaluation.
        self._layer, self._parameters = layer, layer._parameters
        self._free = self._trainable()

    def read(self) -> Array:
        """The logarithms of the trainable parameters, one after the other."""
        layer = self._layer
        self._logs, self._sizes = layer._logarithms()
        self._given = (*layer._tensors(), tf.constant(self._sizes))
        self._objective = layer._objective()
        self._free = self._trainable()
        return np.asarray(self._logs[self._free], float)

    def at(self, x: Array) -> tuple[Array, Array]:
        """The negative log evidence, and its gradient."""
        self._logs[self._free] = x
        *data, sizes = self._given
        found = self._objective(*data, tf.constant(self._logs), sizes).numpy().astype(float)
        return found[0], found[1:][self._free]

    def write(self, x: Array) -> None:
        """Set the parameters to exponentials of `x`."""
        self._logs[self._free] = x
        parts = np.split(self._logs, np.cumsum(self._sizes)[:-1])
        for p, part in zip(self._parameters, parts, strict=True):
            p.unconstrained_variable.assign(part.reshape(p.shape))

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Logarithms of 1e-8 and 1e8, for each."""
        return [(float(np.log(LEAST)), float(np.log(MOST)))] * int(self._free.sum())

    def _trainable(self) -> Array:
        """`[numbers]`: whether each is trained."""
        sizes = [int(np.prod(p.shape)) for p in self._parameters]
        return np.repeat([p.trainable for p in self._parameters], sizes)


_COMPILED: dict[Any, Callable[..., tf.Tensor]] = {}
_MOST_COMPILED = 32


def _compile(kernel: Kernel, sparse: bool, dtype: tf.DType) -> Callable[..., tf.Tensor]:
    """The negative objective and its gradient for every kernel of this form, whatever the number of
    columns it reads.

    The kernel gives its formula only: logarithms of the noise and of its parameters come with each
    call, one after the other in `logs`, the number of each in `sizes`.
    """
    stack = KernelStack(kernel)
    parameters = kernel.parameters
    ranks = [0, *(p.shape.rank for p in parameters)]
    X, y, logs = (tf.TensorSpec([None] * rank, dtype) for rank in (2, 1, 1))
    sizes = tf.TensorSpec([len(ranks)], tf.int32)

    def loss(
        logs: tf.Tensor, sizes: tf.Tensor, X: tf.Tensor, y: tf.Tensor, *Z: tf.Tensor
    ) -> tf.Tensor:
        parts = tf.split(tf.exp(logs), sizes, num=len(ranks))
        noise, *values = (
            tf.reshape(p, [1] if r == 0 else [1, -1]) for p, r in zip(parts, ranks, strict=True)
        )
        with parameters_read_once(
            {key([p]): value for p, value in zip(parameters, values, strict=True)}
        ):
            return -(
                _bound(stack, noise[0], X, y, *Z) if sparse else _evidence(stack, noise[0], X, y)
            )

    def both(*arguments: tf.Tensor) -> tf.Tensor:
        *data, logs, sizes = arguments
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(logs)
            value = loss(logs, sizes, *data)
        return tf.concat([value[None], tape.gradient(value, logs)], 0)

    signature = [X, y, X, logs, sizes] if sparse else [X, y, logs, sizes]
    compiled: Callable[..., tf.Tensor] = tf.function(
        both, input_signature=signature, autograph=False
    )
    return compiled


def _told(
    mean: tf.Tensor, cov: tf.Tensor, noise: tf.Tensor, rows: Array, y: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Means `[B, N]` and covariances `[B, N, N]` given targets `y` at some rows, and the log
    density `[B]` of these.
    """
    across = tf.gather(cov, rows, axis=1)
    inner = tf.gather(across, rows, axis=2) + noise * tf.eye(len(rows), dtype=cov.dtype)
    L, _ = cholesky_and_jitter(inner, jitter=0.0, name="the covariance of what is known")
    root = tf.linalg.triangular_solve(L, across)
    away = tf.linalg.triangular_solve(L, (y - tf.gather(mean, rows, axis=1))[..., None])
    log_density = -0.5 * (
        tf.reduce_sum(tf.square(away), [1, 2]) + len(rows) * np.log(2 * np.pi)
    ) - tf.reduce_sum(tf.math.log(tf.linalg.diag_part(L)), 1)
    mean += tf.linalg.matmul(root, away, transpose_a=True)[..., 0]
    return mean, cov - tf.linalg.matmul(root, root, transpose_a=True), log_density


def _evidence(kernels: KernelStack, noise: tf.Tensor, X: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    K = kernels.K(X)[0]
    return log_evidence(y, tf.linalg.set_diag(K, tf.linalg.diag_part(K) + noise))


def _bound(
    kernels: KernelStack, noise: tf.Tensor, X: tf.Tensor, y: tf.Tensor, Z: tf.Tensor
) -> tf.Tensor:
    sigma, n = tf.sqrt(noise), tf.cast(tf.shape(y)[0], y.dtype)
    L = cholesky(kernels.K(Z)[0], name="the covariance of inducing variables")
    A = tf.linalg.triangular_solve(L, kernels.K(Z, X)[0]) / sigma
    B = tf.linalg.matmul(A, A, transpose_b=True)
    L_B = cholesky(B + tf.eye(tf.shape(B)[0], dtype=B.dtype), jitter=0.0)
    c = tf.linalg.triangular_solve(L_B, tf.linalg.matvec(A, y)[:, None]) / sigma
    logdet = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(L_B))) + 0.5 * n * tf.math.log(noise)
    fitted = 0.5 * (tf.reduce_sum(tf.square(y)) / noise - tf.reduce_sum(tf.square(c)))
    slack = 0.5 * (tf.reduce_sum(kernels.K_diag(X)) / noise - tf.linalg.trace(B))
    return -(0.5 * n * np.log(2 * np.pi) + logdet + fitted + slack)
