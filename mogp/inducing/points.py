"""Inducing points: values of the latent GPs at chosen inputs, and ways to choose them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Self

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes
from sklearn.cluster import MiniBatchKMeans

from mogp.data import Array, MultiOutputData
from mogp.data.labels import LabelData
from mogp.data.matrices import Matrix, as_dense, distinct_rows, is_sparse, sparse_rows
from mogp.data.replicas import replica_numbers
from mogp.kernels import ConvolvedStack, KernelStack, with_replica
from mogp.kernels.stack import key, made_once


class InducingPoints(gpflow.Module):
    """Values of the latent GPs at inducing inputs, `u_g = u_g(Z_g)`.

    `Kuu [G, M, M]` holds the covariances of those values, `Kuf [G, M, N]` those with the latent GPs
    at other inputs.

    Args:
        Z: start values, `[M, P]` shared by all kernels, or `[G, M, P]`, a set for each.
        unit: read every point as `z / |z|`, a point of the unit sphere, wherever `Z` itself goes in
            training.

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from gpflow.kernels import Matern32, SquaredExponential
    >>> from mogp.inducing import InducingPoints
    >>> from mogp.kernels import KernelStack
    >>> points = InducingPoints(np.linspace(0, 1, 4))
    >>> kernels = KernelStack([SquaredExponential(), Matern32()])
    >>> points.Kuf(kernels, tf.zeros([7, 1], tf.float64)).shape.as_list()
    [2, 4, 7]
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

    def moved(self, place: Callable[[Array], Array]) -> Self:
        """The same points in other units.

        Args:
            place: from inputs `[..., P]` to inputs in those units.

        >>> InducingPoints([[0.0], [2.0]]).moved(lambda Z: Z / 2).Z.numpy().tolist()
        [[0.0], [1.0]]
        """
        moved: Self = gpflow.utilities.deepcopy(self)
        moved.Z.assign(place(self.Z.numpy()))
        return moved

    @property
    def num_inducing(self) -> int:
        """Number of points in a set, `M`."""
        return int(self.Z.shape[-2])

    @property
    def input_dim(self) -> int:
        """Number of input columns that the model reads, `P`."""
        return int(self.Z.shape[-1])

    @property
    def num_sets(self) -> int | None:
        """Number of sets, or None when one set is shared."""
        return int(self.Z.shape[0]) if self.Z.shape.rank == 3 else None

    @property
    def inputs(self) -> tf.Tensor:
        """What the kernels read, made once inside `parameters_read_once`."""
        return made_once(("inputs", key([self.Z])), self._inputs)

    def _inputs(self) -> tf.Tensor:
        Z = tf.convert_to_tensor(self.Z)
        return tf.math.l2_normalize(Z, axis=-1) if self.unit else Z

    @check_shapes("return: [G, M, M]")
    def Kuu(self, kernels: KernelStack) -> tf.Tensor:
        """Covariances `[G, M, M]` of the inducing variables."""
        return kernels.K(self.inputs)

    @check_shapes("X: [N, P]", "return: [G, M, N]")
    def Kuf(self, kernels: KernelStack, X: tf.Tensor) -> tf.Tensor:
        """Covariances `[G, M, N]` with the latent GPs at `X [N, P]`, which may be sparse."""
        return kernels.K(self.inputs, X)

    @check_shapes("X: [N, P]", "return: [Q, M, J, N]")
    def with_functions(self, kernels: ConvolvedStack, X: tf.Tensor) -> tf.Tensor:
        """Covariances `[Q, M, J, N]` with unweighted functions of a convolution process at `X`."""
        return kernels.with_latents(self.inputs, X)


class ReplicaPoints(InducingPoints):
    """Inducing inputs that each belong to a replica: kernels read `[z, r]`.

    The inputs are trained, the replica numbers are not.

    Args:
        Z: start values, `[M, P]` or `[G, M, P]`.
        replica: `[M]` or `[G, M]` whole numbers.

    >>> import numpy as np
    >>> from mogp.inducing import ReplicaPoints
    >>> points = ReplicaPoints(Z=[[0.0], [0.5]], replica=[0, 1])
    >>> points.inputs.numpy().tolist()
    [[0.0, 0.0], [0.5, 1.0]]
    """

    def __init__(self, Z: npt.ArrayLike, replica: npt.ArrayLike) -> None:
        super().__init__(Z)
        self.replica = np.asarray(replica).astype(np.int64)
        if self.replica.shape != tuple(self.Z.shape[:-1]):
            raise ValueError(
                f"replica numbers have shape {self.replica.shape}; expected"
                f" {tuple(self.Z.shape[:-1])}, one for each point."
            )

    @property
    def input_dim(self) -> int:
        """Number of input columns that the model reads, the replica number among them."""
        return super().input_dim + 1

    @property
    def inputs(self) -> tf.Tensor:
        """The points with their replica numbers, `[…, M, P + 1]`."""
        return with_replica(self.Z, self.replica)


def kmeans_points(
    data: MultiOutputData | LabelData | npt.ArrayLike,
    count: int,
    sets: int | None = None,
    seed: int = 0,
    unit: bool = False,
) -> InducingPoints:
    """Inducing inputs at the centres of clusters of the inputs.

    Args:
        data: the inputs, `[N, P]`, dense or sparse, or data that have them.
        count: inducing inputs in a set, `M`.
        sets: number of sets, which start alike; None for one that all kernels share.
        seed: seed of the clustering.
        unit: as in `InducingPoints`.

    >>> import numpy as np
    >>> from mogp.inducing import kmeans_points
    >>> X = np.array([0.0, 0.1, 0.2, 5.0, 5.1, 5.2])
    >>> np.sort(np.round(kmeans_points(X, count=2).Z[:, 0])).tolist()
    [0.0, 5.0]
    """
    return given_points(cluster_centres(distinct_points(data), count, seed), sets, unit)


@check_shapes("X: [N, P]", "return: [M, P]")
def cluster_centres(X: Matrix, count: int, seed: int = 0) -> Array:
    """Centres of clusters of the rows of a matrix; the rows themselves if there are too few.

    Args:
        X: `[N, P]`, dense or sparse.
        count: number of clusters, `M`.
        seed: seed of the clustering.

    Returns:
        `[M, P]`.

    >>> import numpy as np
    >>> from mogp.inducing import cluster_centres
    >>> X = np.array([[0.0, 0.0], [0.0, 0.2], [9.0, 0.0], [9.0, 0.2]])
    >>> np.sort(np.round(cluster_centres(X, count=2)), axis=0).tolist()
    [[0.0, 0.0], [9.0, 0.0]]
    """
    if _too_many(count, X.shape[0]):
        return as_dense(X)
    means = MiniBatchKMeans(count, batch_size=4096, n_init=3, random_state=seed).fit(X)
    centres: Array = means.cluster_centers_
    return centres


def subset_points(
    data: MultiOutputData | npt.ArrayLike, count: int, sets: int | None = None, seed: int = 0
) -> InducingPoints:
    """A random subset of the distinct inputs as inducing inputs.

    Args:
        data: the inputs, `[N, P]`, dense or sparse, or data that have them.
        count: inducing inputs in a set, `M`.
        sets: number of sets, which start alike; None for one that all kernels share.
        seed: seed of the choice.

    >>> import numpy as np
    >>> from mogp.inducing import subset_points
    >>> points = subset_points(np.linspace(0, 1, 100), count=10, sets=3)
    >>> points.Z.shape.as_list()
    [3, 10, 1]
    """
    X = distinct_points(data)
    if _too_many(count, X.shape[0]):
        return given_points(as_dense(X), sets)
    chosen = np.random.default_rng(seed).choice(X.shape[0], count, replace=False)
    return given_points(as_dense(X[chosen]), sets)


def given_points(Z: npt.ArrayLike, sets: int | None = None, unit: bool = False) -> InducingPoints:
    """The given inducing inputs, as one shared set or copied to several.

    Args:
        Z: `[M, P]`.
        sets: number of sets, which start alike; None for one that all kernels share.
        unit: as in `InducingPoints`.

    >>> import numpy as np
    >>> from mogp.inducing import given_points
    >>> given_points(np.linspace(0, 1, 5), sets=2).Z.shape.as_list()
    [2, 5, 1]
    """
    points = np.asarray(Z, dtype=float)
    points = points[:, None] if points.ndim == 1 else points
    return InducingPoints(points if sets is None else np.repeat(points[None], sets, axis=0), unit)


def replica_points(data: MultiOutputData, count: int) -> ReplicaPoints:
    """About `count` rows of each output, evenly spaced, with their replica numbers.

    The rows of an output are taken in the order of the data: replica by replica, as a rule. Output
    `d` of `D` begins `d / D` of a stride later than the first, so that outputs which share their
    inputs take different ones. Rows that occur twice are kept once, so that there may be fewer.
    Nested replicas are told apart: replica `r` of output `d` has number `r * D + d`.

    Args:
        data: outputs with replicas.
        count: rows to take of each output.

    >>> import numpy as np
    >>> from mogp.data import MultiOutputData
    >>> from mogp.inducing import replica_points
    >>> x = np.linspace(0, 1, 6)
    >>> data = MultiOutputData.from_list([(x, x**2), (x, x**3)])
    >>> replica_points(data, count=3).inputs.shape.as_list()
    [6, 2]
    """
    if count < 1:
        raise ValueError(f"{count} inducing points were asked for; at least 1 is needed.")
    taken = []
    for d, own in enumerate(data.outputs):
        replica = np.zeros(len(own), np.int64) if own.replica is None else own.replica
        numbers = replica_numbers(replica, d, data.num_outputs, data.nested)
        rows = np.column_stack([data.inputs(d), numbers])
        # Shifted by the output's share of a stride: outputs with common inputs take different ones.
        places = (np.arange(count) + d / data.num_outputs) * len(own) / count
        taken.append(rows[places.astype(int)] if len(own) else rows)
    distinct = np.unique(np.concatenate(taken), axis=0)
    return ReplicaPoints(distinct[:, :-1], distinct[:, -1])


def distinct_points(data: MultiOutputData | LabelData | Matrix | npt.ArrayLike) -> Matrix:
    """The distinct rows of inputs, in lexicographic order; those of `LabelData` as they are, if
    they are sparse.

    Args:
        data: the inputs, `[N, P]`, dense or sparse, or data that have them.

    >>> distinct_points([[2.0, 0.0], [1.0, 1.0], [2.0, 0.0]]).tolist()
    [[1.0, 1.0], [2.0, 0.0]]
    """
    X = data.X if isinstance(data, MultiOutputData | LabelData) else data
    if is_sparse(X):
        rows = sparse_rows(X)
        return rows if isinstance(data, LabelData) else rows[distinct_rows(rows)[0]]
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
