"""Inducing points: values of the latent GPs at chosen inputs, and ways to choose them."""

from __future__ import annotations

import warnings

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from sklearn.cluster import MiniBatchKMeans

from mogp.data import Array, MultiOutputData
from mogp.data.labels import LabelData, Matrix, is_sparse, sparse_rows
from mogp.kernels import ConvolvedStack, KernelStack, with_replica


class InducingPoints(gpflow.Module):
    """Inducing inputs `Z [M, P]` shared by all kernels, or `[G, M, P]`, a set for each.

    With `u_g = u_g(Z_g)`, `Kuu [G, M, M]` and `Kuf [G, M, N]` are covariances of those values and
    of the latent GPs.

    Args:
        Z: start values.
        unit: read every point as `z / |z|`, a point of the unit sphere, wherever `Z` itself goes in
            training.
    """

    def __init__(self, Z: npt.ArrayLike, unit: bool = False) -> None:
        super().__init__()
        self.unit = unit
        values = np.asarray(Z, dtype=float)
        if values.ndim == 1:
            values = values[:, None]
        if values.ndim not in (2, 3) or 0 in values.shape:
            raise ValueError(
                f"inducing inputs have shape {values.shape}; expected [M, P], or [G, M, P] for a"
                " set each."
            )
        if not np.isfinite(values).all():
            raise ValueError(f"{int((~np.isfinite(values)).sum())} inducing inputs are not finite.")
        self.Z = gpflow.Parameter(values)

    @property
    def num_inducing(self) -> int:
        """Points in a set, `M`."""
        return int(self.Z.shape[-2])

    @property
    def input_dim(self) -> int:
        """Columns of the inputs that the model reads."""
        return int(self.Z.shape[-1])

    @property
    def num_sets(self) -> int | None:
        """Number of sets, or None when one set is shared."""
        return int(self.Z.shape[0]) if self.Z.shape.rank == 3 else None

    @property
    def inputs(self) -> tf.Tensor:
        """What the kernels read."""
        Z = tf.convert_to_tensor(self.Z)
        return tf.math.l2_normalize(Z, axis=-1) if self.unit else Z

    def Kuu(self, kernels: KernelStack) -> tf.Tensor:
        """`[G, M, M]`."""
        return kernels.K(self.inputs)

    def Kuf(self, kernels: KernelStack, X: tf.Tensor) -> tf.Tensor:
        """`[G, M, N]` for `X [N, P]`."""
        return kernels.K(self.inputs, X)

    def with_functions(self, kernels: ConvolvedStack, X: tf.Tensor) -> tf.Tensor:
        """Covariances with the functions of a convolution process before weighting,
        `[Q, M, J, N]`.
        """
        return kernels.with_latents(self.inputs, X)


class ReplicaPoints(InducingPoints):
    """Inducing inputs `Z [M, P]` or `[G, M, P]` that each belong to a replica, `[M]` or `[G, M]`.

    Kernels read `[z, r]`. The inputs are trained, the replica numbers are not.
    """

    def __init__(self, Z: npt.ArrayLike, replica: npt.ArrayLike) -> None:
        super().__init__(Z)
        self.replica = np.asarray(replica).astype(np.int64)
        if self.replica.shape != tuple(self.Z.shape[:-1]):
            raise ValueError(
                f"replica numbers have shape {self.replica.shape}; expected"
                f" {tuple(self.Z.shape[:-1])}, one a point."
            )

    @property
    def input_dim(self) -> int:
        """Columns of the inputs that the model reads, the replica number among them."""
        return super().input_dim + 1

    @property
    def inputs(self) -> tf.Tensor:
        """`[…, M, P + 1]`."""
        return with_replica(self.Z, self.replica)


def kmeans_points(
    data: MultiOutputData | LabelData | npt.ArrayLike,
    count: int,
    sets: int | None = None,
    seed: int = 0,
    unit: bool = False,
) -> InducingPoints:
    """Centres of `count` clusters of the inputs; `sets` of them (all alike at the start), or one
    shared set.
    """
    return given_points(cluster_centres(_distinct(data), count, seed), sets, unit)


def cluster_centres(X: Matrix, count: int, seed: int = 0) -> Array:
    """Centres `[count, P]` of clusters of the rows of `X [N, P]`, dense or sparse; the rows
    themselves if too few.
    """
    if _too_many(count, X.shape[0]):
        few: Array = X.toarray() if is_sparse(X) else X
        return few
    means = MiniBatchKMeans(count, batch_size=4096, n_init=3, random_state=seed).fit(X)
    centres: Array = means.cluster_centers_
    return centres


def subset_points(
    data: MultiOutputData | npt.ArrayLike, count: int, sets: int | None = None, seed: int = 0
) -> InducingPoints:
    """A random subset of the distinct inputs; `sets` of them (all alike at the start), or one
    shared set.
    """
    X = _distinct(data)
    if _too_many(count, X.shape[0]):
        return given_points(X, sets)
    return given_points(X[np.random.default_rng(seed).choice(len(X), count, replace=False)], sets)


def given_points(Z: npt.ArrayLike, sets: int | None = None, unit: bool = False) -> InducingPoints:
    """The points given, `[M, P]`, as one shared set or copied to `sets` of them."""
    points = np.asarray(Z, dtype=float)
    points = points[:, None] if points.ndim == 1 else points
    return InducingPoints(points if sets is None else np.repeat(points[None], sets, axis=0), unit)


def replica_points(data: MultiOutputData, count: int) -> ReplicaPoints:
    """About `count` rows for each output, evenly spaced through its rows, with their replica
    numbers.

    The rows of an output are taken in the order of the data: replica by replica, as a rule. Output
    `d` of `D` begins `d / D` of a stride later than the first, so that outputs which share their
    inputs take different ones. Rows that occur twice are kept once, so that there may be fewer.
    """
    if count < 1:
        raise ValueError(f"{count} inducing points were asked for; at least 1 is needed.")
    taken = []
    for d, own in enumerate(data.outputs):
        replica = np.zeros(len(own), np.int64) if own.replica is None else own.replica
        rows = np.column_stack([data.inputs(d), replica])
        places = (np.arange(count) + d / data.num_outputs) * len(own) / count
        taken.append(rows[places.astype(int)] if len(own) else rows)
    distinct = np.unique(np.concatenate(taken), axis=0)
    return ReplicaPoints(distinct[:, :-1], distinct[:, -1])


def _distinct(data: MultiOutputData | LabelData | npt.ArrayLike) -> Matrix:
    X = data.X if isinstance(data, MultiOutputData | LabelData) else data
    if is_sparse(X):
        return sparse_rows(X)
    X = np.asarray(X, dtype=float)
    distinct: Array = np.unique(X[:, None] if X.ndim == 1 else X, axis=0)
    return distinct


def _too_many(count: int, distinct: int) -> bool:
    if count < 1:
        raise ValueError(f"{count} inducing points were asked for; at least 1 is needed.")
    if count > distinct:
        warnings.warn(
            f"{count} inducing points were asked for, the data have {distinct} distinct inputs:"
            " using those.",
            stacklevel=3,
        )
    return count >= distinct
