"""Start values for models with latent outputs: smooth every output, then find the plane in which outputs differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import gpflow
import numpy as np
import tensorflow as tf
from gpflow.kernels import Kernel, SquaredExponential
from sklearn.cluster import KMeans

from mogp.data import Array, MultiOutputData
from mogp.inducing import ReplicaPoints
from mogp.kernels import KernelStack
from mogp.padded import PaddedSource

Start: TypeAlias = Literal["pca", "gplvm", "random"]
_MOST_ROWS = 200
_MOST_NUMBERS = 1 << 24


class LatentStart(NamedTuple):
    """Start values: `mean` and `var` `[D, Q_H]`, inducing points `Z [M_H, Q_H]`, functions `F [D, M_X]` at $Z^X$."""

    mean: Array
    var: Array
    Z: Array
    F: Array | None


def smooth(kernel: Kernel, data: MultiOutputData, inducing: ReplicaPoints, steps: int = 30) -> tuple[Array, float]:
    r"""Posterior means of every output at $Z^X$, `[D, M_X]`, from a GP of its own, and the noise variance of them all.

    The outputs share the hyper-parameters of `kernel` and the noise, which are first trained with `steps` iterations of
    L-BFGS on $\sum_d \log N(y_d \mid 0, K_d + \sigma^2 I)$, from where they are. Of an output with more than 200 rows,
    200 evenly spaced ones are used; of many outputs, as many as fit.
    """
    source = PaddedSource(data)
    batch = source(0)
    stack = KernelStack(kernel)
    taken = np.unique(np.linspace(0, source.longest - 1, min(_MOST_ROWS, source.longest)).round().astype(int))
    share = np.arange(source.num_outputs)
    at_once = max(1, _MOST_NUMBERS // len(taken) ** 2)
    if len(share) > at_once:
        share = np.unique(np.linspace(0, len(share) - 1, at_once).round().astype(int))
    rows = (
        batch.rows
        if batch.rows is not None
        else tf.broadcast_to(tf.range(len(source.X), dtype=tf.int64), batch.Y.shape)
    )
    present = tf.ones_like(batch.Y) if batch.weight is None else batch.weight
    variance = float(np.var(np.concatenate([o.Y[:, 0] for o in data.outputs])))
    noise = gpflow.Parameter(0.1 * max(variance, 1e-6), transform=gpflow.utilities.positive(lower=1e-6))

    def covariance(outputs: Array) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """`K + σ² I [B, n, n]` with rows of the identity in place of missing ones, the targets and the inputs."""
        chosen = [tf.gather(tf.gather(a, outputs), taken, axis=1) for a in (rows, present, batch.Y)]
        X, here = tf.gather(batch.X, chosen[0]), chosen[1]
        K = _batched(stack, X) * here[:, :, None] * here[:, None, :]
        return K + tf.linalg.diag(here * noise + (1 - here)), chosen[2] * here, X

    def loss() -> tf.Tensor:
        K, y, _ = covariance(share)
        L = tf.linalg.cholesky(K)
        alpha = tf.linalg.triangular_solve(L, y[:, :, None])
        return 0.5 * tf.reduce_sum(tf.square(alpha)) + tf.reduce_sum(tf.math.log(tf.linalg.diag_part(L)))

    if steps:
        variables = [*kernel.trainable_variables, *noise.trainable_variables]
        gpflow.optimizers.Scipy().minimize(loss, variables, options={"maxiter": steps})
    parts = []
    for start in range(0, source.num_outputs, at_once):
        outputs = np.arange(start, min(start + at_once, source.num_outputs))
        K, y, X = covariance(outputs)
        here = tf.gather(tf.gather(present, outputs), taken, axis=1)
        weights = tf.linalg.cholesky_solve(tf.linalg.cholesky(K), y[:, :, None])[..., 0] * here
        flat = tf.reshape(X, [-1, X.shape[-1]])
        cross = tf.reshape(stack.K(inducing.inputs, flat)[0], [inducing.num_inducing, *X.shape[:2]])
        parts.append(tf.einsum("mbn,bn->bm", cross, weights).numpy())
    return np.concatenate(parts), float(noise.numpy())


def _batched(stack: KernelStack, X: tf.Tensor) -> tf.Tensor:
    """`[B, n, n]` from `X [B, n, P]`, with one kernel."""
    return KernelStack(stack.kernels * int(X.shape[0])).K(X)


def start_values(
    start: Start, F: Array | None, outputs: int, latent_dim: int, latent_inducing: int, seed: int
) -> LatentStart:
    """Latent means, variances and inducing points.

    "pca": the principal components of the smoothed outputs, with unit variance. "gplvm": the same, then 50 iterations
    of a Bayesian GPLVM on them. "random": draws from the prior. Inducing points are k-means centres of the means.
    """
    rng = np.random.default_rng(seed)
    if latent_inducing < 1 or latent_dim < 1:
        raise ValueError(f"latent_inducing={latent_inducing}, latent_dim={latent_dim}; both must be at least 1.")
    mean = rng.standard_normal((outputs, latent_dim))
    var = np.full(mean.shape, 0.1)
    if start != "random":
        assert F is not None
        found = _components(F, latent_dim)
        mean[:, : found.shape[1]] = found
        mean[:, found.shape[1] :] *= 0.1
    Z = _centres(mean, latent_inducing, rng)
    if start == "gplvm":
        assert F is not None
        mean, var, Z = _gplvm(F, mean, Z)
    return LatentStart(mean, var, Z, F)


def _components(F: Array, count: int) -> Array:
    """Scores `[D, <= count]` of the principal components that there are, each with unit variance."""
    centred = F - F.mean(axis=0)
    U, values, _ = np.linalg.svd(centred, full_matrices=False)
    real = min(count, int(np.sum(values > 1e-8 * max(values[0], 1e-12))))
    scores: Array = U[:, :real] * np.sqrt(len(F))
    return scores


def _centres(mean: Array, count: int, rng: np.random.Generator) -> Array:
    distinct = np.unique(mean, axis=0)
    if count < len(distinct):
        return np.asarray(KMeans(count, n_init=3, random_state=int(rng.integers(1 << 31))).fit(mean).cluster_centers_)
    extra = rng.standard_normal((count - len(distinct), mean.shape[1]))
    return np.concatenate([distinct, extra])


def _gplvm(F: Array, mean: Array, Z: Array) -> tuple[Array, Array, Array]:
    scale = max(float(F.std()), 1e-12)
    model = gpflow.models.BayesianGPLVM(
        F / scale, mean, np.full(mean.shape, 0.1), SquaredExponential(lengthscales=np.ones(mean.shape[1])),
        inducing_variable=Z,
    )  # fmt: skip
    model.likelihood.variance.assign(0.01)
    gpflow.optimizers.Scipy().minimize(model.training_loss, model.trainable_variables, options={"maxiter": 50})
    return model.X_data_mean.numpy(), model.X_data_var.numpy(), np.asarray(model.inducing_variable.Z)


def whitened_mean(F: Array, L_x: Array, root_h: Array, Psi: Array) -> Array:
    r"""$\tilde M$ whose means at $Z^X$ come closest to `F [D, M_X]`: a ridge regression on $L_H^{-1}\Psi_d$."""
    B = root_h @ Psi.T
    values = np.linalg.solve(L_x, F.T)
    gram = B @ B.T
    ridge = 1e-3 * np.trace(gram) / len(gram) * np.eye(len(gram))
    fitted: Array = np.linalg.solve(gram + ridge, B @ values.T).T
    return fitted


def check_start(start: str, options: Sequence[str] = ("pca", "gplvm", "random")) -> None:
    """Raise unless the start is known."""
    if start not in options:
        raise ValueError(f"start={start!r}; choose one of {', '.join(map(repr, options))}.")
