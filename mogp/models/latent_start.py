"""Start values for models with latent outputs: smooth every output, then find the plane in which
outputs differ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow import likelihoods as stock
from gpflow.kernels import Kernel, SquaredExponential
from gpflow.likelihoods import Likelihood
from gpflow.utilities import set_trainable
from sklearn.cluster import KMeans

from mogp.data import Array, MultiOutputData
from mogp.data.padded import PaddedSource
from mogp.inducing import ReplicaPoints
from mogp.kernels import expected_k
from mogp.likelihoods import Bernoulli, Gaussian, Poisson
from mogp.linalg import log_evidence
from mogp.models.latent import LatentMOGP
from mogp.optimizers.line_search import LineSearch

Start: TypeAlias = Literal["pca", "gplvm", "random"]
_MOST_ROWS = 200
_MOST_OUTPUTS = 300
_MOST_NUMBERS = 1 << 24


class LatentStart(NamedTuple):
    """Start values: `mean` and `var` `[D, Q_H]`, and inducing points `Z [M_H, Q_H]`."""

    mean: Array
    var: Array
    Z: Array


class Smoothed(NamedTuple):
    """Every output by itself: means `F [D, M_X]` at $Z^X$, and how much of them is `known` (0 to
    1).
    """

    F: Array
    known: Array


def latent_model(
    data: MultiOutputData,
    start: Start,
    *,
    kernel: Kernel,
    points: ReplicaPoints,
    likelihood: Likelihood | None,
    latent_dim: int,
    latent_inducing: int,
    nodes: int,
    noise: npt.ArrayLike | None,
    seed: int,
) -> LatentMOGP:
    """A `LatentMOGP` of the given parts. Unless the start is "random", its kernel is trained.

    Args:
        data: outputs to smooth, and to fit the noise to.
        start: see `start_values`.
        kernel: $k_X$.
        points: $Z^X$.
        likelihood: see `LatentMOGP`; None for Gaussian targets, a noise variance for each output.
        latent_dim: $Q_H$.
        latent_inducing: $M_H$.
        nodes: see `LatentMOGP`.
        noise: of Gaussian targets; None for the variances that fit the other values best.
        seed: of the draws.
    """
    smoothed = None if start == "random" else smooth(kernel, _as_gaussian(data, likelihood), points)
    found = start_values(start, smoothed, data.num_outputs, latent_dim, latent_inducing, seed)
    latent_kernel = SquaredExponential(lengthscales=np.ones(latent_dim))
    set_trainable(latent_kernel.variance, False)
    level = np.broadcast_to(0.1 if noise is None else np.asarray(noise, float), data.num_outputs)
    own = Gaussian(level) if likelihood is None else likelihood
    model = LatentMOGP(
        kernel, latent_kernel, points, found.Z, found.mean, found.var,
        likelihood=own, names=data.schema, nodes=nodes, scaling=data.scaled_by,
    )  # fmt: skip
    if smoothed is not None:
        explain(model, smoothed.F, smoothed.known)
    if likelihood is None and noise is None:
        model.noise.assign(np.maximum(model.best_noise(data), 1e-4))
    return model


def trained_start(
    data: MultiOutputData,
    *,
    start: Start,
    kernel: Kernel,
    points: ReplicaPoints,
    likelihood: Likelihood | None,
    **sizes: Any,
) -> LatentMOGP:
    """A model with the start values that `start` finds by training, from copies of the parts.

    Arguments are those of `latent_model`. (A model keeps this function of the data, with its own
    parts, until it is started: `MOGP.start`.)
    """
    copy = gpflow.utilities.deepcopy
    own = None if likelihood is None else copy(likelihood)
    return latent_model(
        data, start, kernel=copy(kernel), points=copy(points), likelihood=own, **sizes
    )


def explain(model: LatentMOGP, F: Array, known: Array) -> None:
    """Set the posterior mean so that the functions at $Z^X$ come close to `F [D, M_X]` where they
    are known.
    """
    factors = model.factors()
    Z = tf.convert_to_tensor(model.latent_inducing)
    Psi = expected_k(model.latent_kernel, Z, model.latent_mean, model.latent_var)
    model.posterior.q_mu.assign(
        whitened_mean(F, known, factors.L_x.numpy(), factors.root.numpy(), Psi.numpy())
    )


def _as_gaussian(data: MultiOutputData, likelihood: Any) -> MultiOutputData:
    """Targets on the scale of the function, roughly: for start values only."""
    if likelihood is None:
        return data
    outputs = []
    for o in data.outputs:
        y = o.Y
        if isinstance(likelihood, stock.Poisson | Poisson):
            y = np.log(y + 0.5)
        elif isinstance(likelihood, stock.Bernoulli | Bernoulli):
            y = 2.0 * y - 1.0
        outputs.append(replace(o, Y=y))
    return replace(data, outputs=tuple(outputs))


def smooth(
    kernel: Kernel, data: MultiOutputData, inducing: ReplicaPoints, steps: int = 30
) -> Smoothed:
    r"""Every output at $Z^X$, from a GP of its own: the posterior mean, and the share of the
    variance it explains.

    The outputs share the hyper-parameters of `kernel` and the noise, which are first trained with
    `steps` iterations of L-BFGS on $\sum_d \log N(y_d \mid 0, K_d + \sigma^2 I)$, from where they
    are. Of an output with more than 200 rows, 200 evenly spaced ones are used; of more than 300
    outputs, 300 train the hyper-parameters.
    """
    source = PaddedSource(data)
    batch = source(0)
    taken = np.unique(
        np.linspace(0, source.longest - 1, min(_MOST_ROWS, source.longest)).round().astype(int)
    )
    share = np.arange(source.num_outputs)
    at_once = max(1, _MOST_NUMBERS // len(taken) ** 2)
    if len(share) > _MOST_OUTPUTS:
        share = np.unique(np.linspace(0, len(share) - 1, _MOST_OUTPUTS).round().astype(int))
    rows = (
        batch.rows
        if batch.rows is not None
        else tf.broadcast_to(tf.range(len(source.X), dtype=tf.int64), batch.Y.shape)
    )
    present = tf.ones_like(batch.Y) if batch.weight is None else batch.weight
    variance = float(np.var(np.concatenate([o.Y[:, 0] for o in data.outputs])))
    noise = gpflow.Parameter(
        max(0.1 * variance, 2e-6), transform=gpflow.utilities.positive(lower=1e-6)
    )

    def covariance(outputs: Array) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """`K + σ² I [B, n, n]` with rows of the identity in place of missing ones, the targets and
        the inputs.
        """
        chosen = [tf.gather(tf.gather(a, outputs), taken, axis=1) for a in (rows, present, batch.Y)]
        X, here = tf.gather(batch.X, chosen[0]), chosen[1]
        K = kernel(X) * here[:, :, None] * here[:, None, :]
        return K + tf.linalg.diag(here * noise + (1 - here)), chosen[2] * here, X

    def loss() -> tf.Tensor:
        K, y, _ = covariance(share)
        return -tf.reduce_sum(log_evidence(y, K))

    if steps:
        variables = [*kernel.trainable_variables, *noise.trainable_variables]
        LineSearch().minimize(
            loss, variables, options={"maxiter": steps}, tf_fun_args={"autograph": False}
        )
    means, known = [], []
    Z = tf.convert_to_tensor(inducing.inputs)
    diagonal = kernel(Z, full_cov=False)
    for start in range(0, source.num_outputs, at_once):
        outputs = np.arange(start, min(start + at_once, source.num_outputs))
        K, y, X = covariance(outputs)
        here = tf.gather(tf.gather(present, outputs), taken, axis=1)
        cross = (
            tf.reshape(kernel(tf.reshape(X, [-1, X.shape[-1]]), Z), [*X.shape[:2], Z.shape[0]])
            * here[:, :, None]
        )
        L = tf.linalg.cholesky(K)
        A = tf.linalg.triangular_solve(L, cross)
        means.append(
            tf.linalg.matmul(A, tf.linalg.triangular_solve(L, y[:, :, None]), transpose_a=True)[
                ..., 0
            ]
        )
        known.append(tf.reduce_sum(tf.square(A), 1) / diagonal)
    return Smoothed(np.concatenate(means), np.clip(np.concatenate(known), 1e-3, 1.0))


def start_values(
    start: Start,
    smoothed: Smoothed | None,
    outputs: int,
    latent_dim: int,
    latent_inducing: int,
    seed: int,
) -> LatentStart:
    """Latent means, variances and inducing points.

    "pca": the principal components of the smoothed outputs, with unit variance. "gplvm": the same,
    then 50 iterations of a Bayesian GPLVM on them. "random": draws from the prior. Inducing points
    are k-means centres of the means.
    """
    rng = np.random.default_rng(seed)
    if latent_inducing < 1 or latent_dim < 1:
        raise ValueError(
            f"latent_inducing={latent_inducing}, latent_dim={latent_dim}; both must be at least 1."
        )
    mean = rng.standard_normal((outputs, latent_dim))
    var = np.full(mean.shape, 0.1)
    if smoothed is not None:
        scores, filled = components(smoothed.F, smoothed.known, latent_dim)
        mean[:, : scores.shape[1]] = scores
        mean[:, scores.shape[1] :] *= 0.1
    Z = _centres(mean, latent_inducing, rng)
    if start == "gplvm" and smoothed is not None:
        mean, var, Z = _gplvm(filled, mean, Z)
    return LatentStart(mean, var, Z)


def components(F: Array, known: Array, count: int, rounds: int = 50) -> tuple[Array, Array]:
    """Principal components of a table of which each entry is `known` to a degree between 0 and 1.

    What is not known is filled in from the components, and these are found again, `rounds` times.
    (An output that misses a replica has nothing but the prior mean there: taken at its word,
    outputs would differ by what they miss.)

    Returns:
        Scores `[D, <= count]` of the components that there are, each with unit variance, and the
        table filled in.
    """
    filled, count = F, min(count, *F.shape)
    for _ in range(rounds if known.min() < 0.99 else 1):
        centre = np.average(filled, axis=0)
        U, values, V = np.linalg.svd(filled - centre, full_matrices=False)
        filled = known * F + (1 - known) * (centre + (U[:, :count] * values[:count]) @ V[:count])
    real = min(count, int(np.sum(values > 1e-8 * max(values[0], 1e-12))))
    scores: Array = U[:, :real] * np.sqrt(len(F))
    return scores, filled


def _centres(mean: Array, count: int, rng: np.random.Generator) -> Array:
    distinct = np.unique(mean, axis=0)
    if count < len(distinct):
        return np.asarray(
            KMeans(count, n_init=3, random_state=int(rng.integers(1 << 31)))
            .fit(mean)
            .cluster_centers_
        )
    extra = rng.standard_normal((count - len(distinct), mean.shape[1]))
    return np.concatenate([distinct, extra])


def _gplvm(F: Array, mean: Array, Z: Array) -> tuple[Array, Array, Array]:
    spread = float(F.std())
    scale = spread if spread > 1e-12 else max(float(np.abs(F).max()), 1e-12)
    kernel = SquaredExponential(lengthscales=np.ones(mean.shape[1]))
    model = gpflow.models.BayesianGPLVM(
        F / scale, mean, np.full(mean.shape, 0.1), kernel, inducing_variable=Z
    )
    model.likelihood.variance.assign(0.01)
    LineSearch().minimize(model.training_loss, model.trainable_variables, options={"maxiter": 50})
    return (
        model.X_data_mean.numpy(),
        model.X_data_var.numpy(),
        np.asarray(model.inducing_variable.Z),
    )


def whitened_mean(F: Array, known: Array, L_x: Array, root_h: Array, Psi: Array) -> Array:
    r"""$\tilde M$ whose means at $Z^X$ come closest to `F [D, M_X]`: ridge regressions on
    $L_H^{-1}\Psi_d$.

    There is one for each point of $Z^X$, in which output $d$ counts as much as it is `known` there.
    """
    B = root_h @ Psi.T
    gram = np.einsum("id,jd,dm->mij", B, B, known)
    # The least ridge is for latent points so far from all outputs that B is 0.
    ridge = max(1e-3 * np.trace(B @ B.T) / len(B), 1e-12) * np.eye(len(B))
    values = np.linalg.solve(gram + ridge, np.einsum("id,dm->mi", B, known * F)[..., None])[..., 0]
    fitted: Array = np.linalg.solve(L_x, values)
    return fitted


def check_start(start: str) -> None:
    """Raise unless the start is known."""
    if start not in get_args(Start):
        raise ValueError(f"start={start!r}; choose one of {', '.join(map(repr, get_args(Start)))}.")
