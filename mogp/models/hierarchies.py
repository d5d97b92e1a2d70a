"""Named models for outputs with replicas: HMOGP-LV, LVMOGP, the Bayesian GPLVM, and sparse
baselines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow import likelihoods as stock
from gpflow.kernels import Kernel, Linear, Matern32, SquaredExponential
from gpflow.likelihoods import Likelihood
from gpflow.utilities import set_trainable

from mogp.data import Array, MultiOutputData
from mogp.data.padded import distinct_inputs
from mogp.inducing import InducingPoints, ReplicaPoints, kmeans_points, replica_points
from mogp.kernels import expected_k, hierarchical, unit_kernels
from mogp.kernels.hierarchy import tree_size
from mogp.likelihoods import Bernoulli, Gaussian, Poisson
from mogp.models.latent import LatentMOGP
from mogp.models.latent_start import (
    Smoothed,
    Start,
    check_start,
    smooth,
    start_values,
    whitened_mean,
)
from mogp.models.lengthscales import start_lengthscales
from mogp.models.replicas import ReplicatedMOGP
from mogp.models.sparse import SparseMOGP
from mogp.posteriors import Full
from mogp.priors import LMC, Independent


def hmogp_lv(
    data: MultiOutputData,
    *,
    latent_dim: int = 2,
    inducing: int | ReplicaPoints = 3,
    latent_inducing: int = 5,
    kernels: Sequence[Kernel] | None = None,
    tree: npt.ArrayLike | None = None,
    likelihood: Likelihood | None = None,
    start: Start = "pca",
    nodes: int = 7,
    seed: int = 0,
) -> LatentMOGP:
    r"""Hierarchical multi-output GP with latent variables (Ma, Leroy and Álvarez; Ma, chapter 5).

    kernel      $k_H(h_d, h_{d'})\,\big(k_g(x, x') + \mathbb 1[r = r'] k_f(x, x')\big)$: a hierarchy
                of replicas, or of any depth with `tree`
    inducing    a grid of inputs with replica numbers and latent points
    posterior   Kronecker, whitened, and $q(H)$
    likelihood  Gaussian with a noise variance for each output, or one of a single function for all

    Args:
        data: outputs with replica numbers.
        latent_dim: $Q_H$.
        inducing: rows of $Z^X$ taken from each output (the documents' $M_X$), or the points.
        latent_inducing: $M_H$.
        kernels: on the inputs, from the root of the hierarchy to the replicas; Matérn-3/2 if None.
        tree: `[R, L]` paths of the replicas through the levels below the root, for hierarchies of
            three levels or more.
        likelihood: None for Gaussian targets.
        start: of the latent variables: "pca" of the smoothed outputs, "gplvm" on them, "random".
        nodes: see `LatentMOGP`.
        seed: of the start values.
    """
    if kernels is None:
        levels = 2 if tree is None else np.atleast_2d(np.asarray(tree)).shape[1] + 1
        kernels = [
            Matern32(variance=v, lengthscales=start_lengthscales(data.X, "range"))
            for v in _shares(levels)
        ]
    kernel = hierarchical(kernels, data.input_dim, tree)
    return _latent(
        data, kernel, latent_dim, inducing, latent_inducing, likelihood, start, nodes, seed
    )


def lvmogp(
    data: MultiOutputData,
    *,
    latent_dim: int = 2,
    inducing: int | ReplicaPoints = 3,
    latent_inducing: int = 5,
    kernel: Kernel | None = None,
    likelihood: Likelihood | None = None,
    start: Start = "pca",
    nodes: int = 7,
    seed: int = 0,
) -> LatentMOGP:
    r"""Latent-variable multi-output GP (Dai, Álvarez and Lawrence 2017): replicas are repeated
    observations.

    kernel      $k_H(h_d, h_{d'})\,k_X(x, x')$, squared exponential
    inducing    a grid of inputs and latent points
    posterior   Kronecker, whitened, and $q(H)$
    likelihood  Gaussian with a noise variance for each output, or one of a single function for all

    Arguments are those of `hmogp_lv`.
    """
    one = kernel or SquaredExponential(lengthscales=start_lengthscales(data.X, "range"))
    if isinstance(inducing, int):
        inducing = _without_replicas(replica_points(data, inducing))
    on_x = hierarchical([one], data.input_dim)
    return _latent(
        data, on_x, latent_dim, inducing, latent_inducing, likelihood, start, nodes, seed
    )


def bayesian_gplvm(
    Y: npt.ArrayLike,
    *,
    latent_dim: int = 2,
    latent_inducing: int = 20,
    noise: float = 0.1,
    seed: int = 0,
) -> tuple[LatentMOGP, MultiOutputData]:
    r"""Bayesian GPLVM (Titsias and Lawrence 2010): a latent variable for each row of `Y [N, C]`.

    A row is an output of a `LatentMOGP`, a column an input, and columns are independent:
    $\mathrm{cov}[f_n(c), f_{n'}(c')] = k_H(h_n, h_{n'})\,\mathbb 1[c = c']$. Returns the model and
    the data it reads. One noise level for all rows is what the original has:
    `set_trainable(model.noise, False)` keeps it.
    """
    table = np.asarray(Y, dtype=float)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise ValueError(f"Y has shape {table.shape}; expected [rows, columns] of finite numbers.")
    C = table.shape[1]
    data = MultiOutputData.from_arrays(
        np.eye(C), table.T, names=[f"row {n}" for n in range(len(table))]
    )
    columns = hierarchical([Linear(variance=1.0)], C)
    points = ReplicaPoints(np.eye(C), np.zeros(C, int))
    set_trainable(columns, False)
    set_trainable(points, False)
    smoothed = Smoothed(table, np.ones(table.shape))
    found = start_values("pca", smoothed, len(table), latent_dim, latent_inducing, seed)
    latent_kernel = SquaredExponential(
        variance=max(float(table.var()), 1e-6), lengthscales=np.ones(latent_dim)
    )
    model = LatentMOGP(
        columns,
        latent_kernel,
        points,
        found.Z,
        found.mean,
        found.var,
        noise=noise,
        names=data.schema,
    )
    _explain(model, table, np.ones(table.shape))
    return model, data


def hgp_ind(
    data: MultiOutputData,
    *,
    inducing: int | ReplicaPoints = 3,
    kernels: Sequence[Kernel] | None = None,
    tree: npt.ArrayLike | None = None,
    noise: float = 0.1,
) -> ReplicaMOGP:
    r"""Hierarchical GPs, one for each output, with inducing inputs that carry replica numbers
    ("HGPInd").

    prior       independent: $k_g + \mathbb 1[r = r'] k_f$ for each output, with parameters of its
                own
    inducing    points with replica numbers, a set for each output
    posterior   full, whitened
    likelihood  Gaussian, a noise variance for each output

    `inducing` is a number of rows of each output, at a constant stride.
    """
    D, P = data.num_outputs, data.input_dim
    if isinstance(inducing, int):
        inducing = _sets([replica_points(_only(data, d), inducing) for d in range(D)])
    own = []
    for _ in range(D):
        levels = 2 if tree is None else np.atleast_2d(np.asarray(tree)).shape[1] + 1
        fresh = [
            Matern32(variance=v, lengthscales=start_lengthscales(data.X, "range"))
            for v in _shares(levels)
        ]
        own.append(
            hierarchical(
                [gpflow.utilities.deepcopy(k) for k in kernels] if kernels else fresh, P, tree
            )
        )
    return ReplicaMOGP(
        prior=Independent(own),
        inducing=inducing,
        posterior=Full(whiten=True),
        likelihood=[Gaussian(variance=noise) for _ in data.names],
        names=data.schema,
    )


def lmc_stacked(
    data: MultiOutputData,
    *,
    latents: int = 2,
    inducing: int | InducingPoints = 20,
    noise: float = 0.1,
    seed: int = 0,
) -> ReplicaMOGP:
    """LMC that takes replicas for repeated observations of one function: the flat baseline of
    HMOGP-LV.

    prior       LMC, `latents` squared exponential GPs
    inducing    points, a set for each latent GP
    posterior   full, whitened
    likelihood  Gaussian, a noise variance for each output
    """
    flat = (
        kmeans_points(data, inducing, seed=seed).Z.numpy()
        if isinstance(inducing, int)
        else inducing.Z.numpy()
    )
    Z = np.repeat(flat[None], latents, axis=0) if flat.ndim == 2 else flat
    kernels = unit_kernels(latents, data.input_dim, start_lengthscales(data.X, "range"))
    return ReplicaMOGP(
        prior=LMC(
            [hierarchical([k], data.input_dim) for k in kernels],
            functions=data.num_outputs,
            seed=seed,
        ),
        inducing=ReplicaPoints(Z, np.zeros(Z.shape[:-1], int)),
        posterior=Full(whiten=True),
        likelihood=[Gaussian(variance=noise) for _ in data.names],
        names=data.schema,
    )


class ReplicaMOGP(ReplicatedMOGP, SparseMOGP):
    """A `SparseMOGP` whose kernels read `[x, replica]`, with the predictions of models with
    replicas.
    """

    @property
    def input_dim(self) -> int:
        """Columns of the inputs, without the replica number."""
        return self.inducing.input_dim - 1

    @property
    def num_replicas(self) -> int | None:
        """Replicas in the trees of the kernels; None if they need none."""
        return tree_size(self.prior)

    def batches(self, data: MultiOutputData, size: Any = None, seed: int = 0) -> Any:
        """Batches with the replica number as last column of the inputs."""
        return replica_as_input(data).batches(size, seed)

    def _batch(self, data: Any) -> Any:
        if isinstance(data, MultiOutputData):
            self.check(data)
            return replica_as_input(data).full()
        return data

    def check(self, data: Any) -> None:
        """Raise unless the model can be trained on the data."""
        ReplicatedMOGP.check(self, data)
        self.likelihood.check(data)

    def _log_densities(self, data: Any) -> dict[str, tf.Tensor]:
        return super()._log_densities(replica_as_input(data))


def replica_as_input(data: MultiOutputData) -> MultiOutputData:
    """The same observations with the replica number as last column of the inputs."""
    X, rows = distinct_inputs(replace(data, nested=False))
    outputs = [replace(o, rows=r) for o, r in zip(data.outputs, rows, strict=True)]
    return MultiOutputData(X, tuple(outputs))


def _latent(
    data: MultiOutputData,
    kernel: Kernel,
    latent_dim: int,
    inducing: int | ReplicaPoints,
    latent_inducing: int,
    likelihood: Likelihood | None,
    start: Start,
    nodes: int,
    seed: int,
) -> LatentMOGP:
    check_start(start)
    points = replica_points(data, inducing) if isinstance(inducing, int) else inducing
    smoothed = None if start == "random" else smooth(kernel, _as_gaussian(data, likelihood), points)
    found = start_values(start, smoothed, data.num_outputs, latent_dim, latent_inducing, seed)
    latent_kernel = SquaredExponential(lengthscales=np.ones(latent_dim))
    set_trainable(latent_kernel.variance, False)
    model = LatentMOGP(
        kernel, latent_kernel, points, found.Z, found.mean, found.var,
        likelihood=likelihood, names=data.schema, nodes=nodes,
    )  # fmt: skip
    if smoothed is not None:
        _explain(model, smoothed.F, smoothed.known)
    if likelihood is None:
        model.noise.assign(np.maximum(model.best_noise(data), 1e-4))
    return model


def _explain(model: LatentMOGP, F: Array, known: Array) -> None:
    """Set the posterior mean so that the functions at $Z^X$ come close to `F [D, M_X]` where they
    are known.
    """
    factors = model.factors()
    Psi = expected_k(model.latent_kernel, factors.Z_h, model.latent_mean, model.latent_var)
    model.q_mu.assign(
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


def _shares(levels: int) -> Array:
    return np.full(levels, 1.0 / levels)


def _only(data: MultiOutputData, d: int) -> MultiOutputData:
    return replace(data, outputs=(data.outputs[d],))


def _sets(parts: Sequence[ReplicaPoints]) -> ReplicaPoints:
    """Sets of equal size: shorter ones are filled up with points between their own."""
    size = max(p.num_inducing for p in parts)
    Z, replica = [], []
    for p in parts:
        own, numbers = p.Z.numpy(), p.replica
        missing = size - len(own)
        step = np.ptp(own, axis=0).max() / (4 * size) + 1e-3
        again = np.arange(missing) % len(own)
        Z.append(
            np.concatenate([own, own[again] + step * (1 + np.arange(missing)[:, None] // len(own))])
        )
        replica.append(np.concatenate([numbers, numbers[again]]))
    return ReplicaPoints(np.stack(Z), np.stack(replica))


def _without_replicas(points: ReplicaPoints) -> ReplicaPoints:
    distinct = np.unique(points.Z.numpy(), axis=0)
    return ReplicaPoints(distinct, np.zeros(len(distinct), int))
