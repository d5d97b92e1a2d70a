"""Inducing points in a subspace of the inputs: few coordinates, however many inputs there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes, inherit_check_shapes
from scipy.sparse.linalg import svds

from mogp.data import Array
from mogp.data.labels import LabelData, Matrix, is_sparse
from mogp.inducing.points import InducingPoints, cluster_centres
from mogp.kernels import KernelStack
from mogp.kernels.products import inner, square_norms
from mogp.kernels.stack import key, made_once

_SMALLEST_SQUARE = 1e-12
"""Least square length of a point that is scaled to length one, as in `tf.math.l2_normalize`."""


class SubspacePoints(InducingPoints):
    r"""Inducing inputs $Z = A\tilde X$ with coordinates $A$ on a basis $\tilde X$.

    Kernels that read inputs through inner products alone need $Z Z^\top = A G A^\top$ with
    $G = \tilde X\tilde X^\top$, and $Z x = A(\tilde X x)$: $Z$ is never formed, and nothing in a
    step costs $PM$. With weights on single inputs (a lengthscale for each) $G$ would change with
    the weights, and $Z$ is formed, as it is where the basis is trained: only the number of
    parameters is smaller.

    Args:
        A: `[M, R]` start values of the coordinates.
        basis: $\tilde X$, `[R, P]`.
        train_basis: the basis is a parameter too; otherwise it is a constant.
        unit: read every point as $z/|z|$.

    >>> import numpy as np
    >>> from mogp.inducing import SubspacePoints
    >>> points = SubspacePoints(A=[[1.0, 0.0], [1.0, 2.0]], basis=np.eye(2, 1000))
    >>> points.inputs.shape.as_list(), points.A.shape.as_list()
    ([2, 1000], [2, 2])
    """

    def __init__(
        self, A: npt.ArrayLike, basis: npt.ArrayLike, train_basis: bool = False, unit: bool = False
    ) -> None:
        super().__init__(A, unit)
        directions = np.asarray(basis, dtype=float)
        if self.Z.shape.rank != 2 or directions.ndim != 2 or directions.shape[0] != self.Z.shape[1]:
            raise ValueError(
                f"coordinates of shape {tuple(self.Z.shape)} on a basis of shape"
                f" {directions.shape}; expected [M, R] and [R, P]."
            )
        # The base class checked the coordinates under the name of the inputs, which they are not.
        self.A = self.Z
        del self.Z
        fixed = tf.constant(directions, gpflow.default_float())
        self.basis = gpflow.Parameter(directions) if train_basis else fixed
        self._gram = None if train_basis else tf.linalg.matmul(fixed, fixed, transpose_b=True)

    def moved(self, place: Callable[[Array], Array]) -> Self:
        """The same coordinates: they are in the units of the basis.

        Args:
            place: see `InducingPoints.moved`.
        """
        moved: Self = gpflow.utilities.deepcopy(self)
        return moved

    @property
    def num_inducing(self) -> int:
        """Number of points, `M`."""
        return int(self.A.shape[0])

    @property
    def input_dim(self) -> int:
        """Number of input columns that the model reads, `P`."""
        return int(self.basis.shape[1])

    @property
    def num_sets(self) -> None:
        """One set, shared by all kernels."""
        return

    @property
    def inputs(self) -> tf.Tensor:
        """`Z [M, P]`, for kernels that need it."""
        return made_once(("inputs", key([self.A, self.basis])), self._inputs)

    def _inputs(self) -> tf.Tensor:
        Z = tf.linalg.matmul(self.A, self.basis)
        return tf.math.l2_normalize(Z, axis=-1) if self.unit else Z

    @inherit_check_shapes
    def Kuu(self, kernels: KernelStack) -> tf.Tensor:
        """Covariances `[G, M, M]` of the inducing variables."""
        if self._forms_Z(kernels):
            return kernels.K(self.inputs)
        A, lengths = made_once(("coordinates", key([self.A])), self._coordinates)
        products = tf.linalg.matmul(tf.linalg.matmul(A, self._gram), A, transpose_b=True)
        return kernels.from_products(products, lengths, lengths)

    @inherit_check_shapes
    def Kuf(self, kernels: KernelStack, X: tf.Tensor | tf.SparseTensor) -> tf.Tensor:
        """Covariances `[G, M, N]` with the latent GPs at `X [N, P]`, which may be sparse."""
        if self._forms_Z(kernels):
            return kernels.K(self.inputs, X)
        A, lengths = made_once(("coordinates", key([self.A])), self._coordinates)
        products = tf.linalg.matmul(A, inner(tf.convert_to_tensor(self.basis), X))
        return kernels.from_products(
            products, lengths, square_norms(X, tf.ones([1, 1, 1], A.dtype))[0]
        )

    def _forms_Z(self, kernels: KernelStack) -> bool:
        return self._gram is None or not kernels.isotropic

    def _coordinates(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Coordinates as kernels read them, and the square lengths of the points."""
        A = tf.convert_to_tensor(self.A)
        lengths = tf.reduce_sum(tf.linalg.matmul(A, self._gram) * A, -1)
        if not self.unit:
            return A, lengths
        unit = A * tf.math.rsqrt(tf.maximum(lengths, _SMALLEST_SQUARE))[:, None]
        # Points too short to be scaled keep the length that `l2_normalize` would leave them.
        return unit, tf.where(
            lengths > _SMALLEST_SQUARE, tf.ones_like(lengths), lengths / _SMALLEST_SQUARE
        )


def subspace_points(
    data: LabelData | npt.ArrayLike,
    count: int,
    rank: int,
    train_basis: bool = False,
    unit: bool = False,
    seed: int = 0,
) -> SubspacePoints:
    r"""Points in the span of the leading right singular vectors $V$ of the inputs.

    The basis is $\tilde X = V^\top$; the points start at the centres of clusters of the coordinates
    $XV$.

    Args:
        data: the inputs, `[N, P]`, dense or sparse, or data that have them.
        count: inducing inputs, `M`.
        rank: singular vectors, `R`.
        train_basis: the basis is a parameter too; otherwise it is a constant.
        unit: read every point as $z/|z|$.
        seed: seed of the singular vectors and of the clustering.

    >>> import numpy as np
    >>> from mogp.inducing import subspace_points
    >>> X = np.random.default_rng(0).normal(size=(50, 20))
    >>> points = subspace_points(X, count=8, rank=3)
    >>> points.A.shape.as_list(), points.basis.shape.as_list()
    ([8, 3], [3, 20])
    """
    X: Matrix = (
        data.X
        if isinstance(data, LabelData)
        else data
        if is_sparse(data)
        else np.asarray(data, dtype=float)
    )
    basis = leading_directions(X, rank, seed)
    return SubspacePoints(cluster_centres(X @ basis.T, count, seed), basis, train_basis, unit)


@check_shapes("X: [N, P]", "return: [R, P]")
def leading_directions(X: Matrix, rank: int, seed: int = 0) -> npt.NDArray[np.float64]:
    """The leading right singular vectors of a matrix, orthonormal, the largest first.

    Args:
        X: `[N, P]`, dense or sparse.
        rank: how many, `R`.
        seed: seed of the iteration's start.

    Returns:
        `[R, P]`.

    >>> import numpy as np
    >>> from mogp.inducing import leading_directions
    >>> X = np.diag([3.0, 2.0, 1.0])
    >>> np.abs(np.round(leading_directions(X, rank=2), 3)).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    most = min(X.shape)
    if not 1 <= rank <= most:
        raise ValueError(
            f"rank={rank}; inputs of shape {X.shape} have 1 to {most} singular vectors."
        )
    directions: npt.NDArray[np.float64]
    # `svds` needs rank < most, and is slower than a dense SVD for most of the singular vectors.
    if rank == most or (rank > most // 2 and most <= 4000):
        directions = np.linalg.svd(X.toarray() if is_sparse(X) else X, full_matrices=False)[2][
            :rank
        ]
    else:
        start = np.random.default_rng(seed).normal(size=most)
        _, values, found = svds(X.astype(float), k=rank, v0=start)
        directions = found[np.argsort(values)[::-1]]
    return directions
