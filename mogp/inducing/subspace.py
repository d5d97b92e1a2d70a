"""Inducing points in a subspace of the inputs: few coordinates each, whatever the number of
inputs.
"""

from __future__ import annotations

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from scipy.sparse.linalg import svds

from mogp.data.labels import LabelData, Matrix, is_sparse
from mogp.inducing.points import InducingPoints, cluster_centres
from mogp.kernels import KernelStack
from mogp.kernels.products import inner, square_norms

_SMALLEST_SQUARE = 1e-12
"""Of the length of a point that is brought to length one; as in `tf.math.l2_normalize`."""


class SubspacePoints(InducingPoints):
    r"""Inducing inputs $Z = A\tilde X$ with coordinates $A$ `[M, R]` on a basis $\tilde X$
    `[R, P]`.

    Kernels that read inputs through inner products alone need $Z Z^\top = A G A^\top$ with
    $G = \tilde X\tilde X^\top$, and $Z x = A(\tilde X x)$: $Z$ is never formed, and nothing of a
    step costs $PM$. With weights on single inputs (a lengthscale each) $G$ would change with the
    weights, and $Z$ is formed, as it is where the basis is trained: only the number of parameters
    is less.

    Args:
        A: start values of the coordinates.
        basis: $\tilde X$.
        train_basis: the basis is a parameter too; otherwise it is a constant.
        unit: read every point as $z/|z|$.
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
        self.A = self.Z
        del self.Z
        fixed = tf.constant(directions, gpflow.default_float())
        self.basis = gpflow.Parameter(directions) if train_basis else fixed
        self._gram = None if train_basis else tf.linalg.matmul(fixed, fixed, transpose_b=True)

    @property
    def num_inducing(self) -> int:
        """Points, `M`."""
        return int(self.A.shape[0])

    @property
    def input_dim(self) -> int:
        """Columns of the inputs that the model reads."""
        return int(self.basis.shape[1])

    @property
    def num_sets(self) -> None:
        """One set, shared by all kernels."""
        return

    @property
    def inputs(self) -> tf.Tensor:
        """`Z [M, P]`, for kernels that need it."""
        Z = tf.linalg.matmul(self.A, self.basis)
        return tf.math.l2_normalize(Z, axis=-1) if self.unit else Z

    def Kuu(self, kernels: KernelStack) -> tf.Tensor:
        """`[G, M, M]`."""
        if self._forms_Z(kernels):
            return kernels.K(self.inputs)
        A, lengths = self._coordinates()
        products = tf.linalg.matmul(tf.linalg.matmul(A, self._gram), A, transpose_b=True)
        return kernels.from_products(products, lengths, lengths)

    def Kuf(self, kernels: KernelStack, X: tf.Tensor | tf.SparseTensor) -> tf.Tensor:
        """`[G, M, N]` for `X [N, P]`."""
        if self._forms_Z(kernels):
            return kernels.K(self.inputs, X)
        A, lengths = self._coordinates()
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
    r"""Points in the span of the `rank` leading right singular vectors $V$ of the inputs,
    $\tilde X = V^\top$.

    They start at the centres of `count` clusters of the coordinates $XV$.
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


def leading_directions(X: Matrix, rank: int, seed: int = 0) -> npt.NDArray[np.float64]:
    """The `rank` leading right singular vectors of `X [N, P]`, `[rank, P]`, orthonormal, the
    largest first.
    """
    most = min(X.shape)
    if not 1 <= rank <= most:
        raise ValueError(
            f"rank={rank}; inputs of shape {X.shape} have 1 to {most} singular vectors."
        )
    directions: npt.NDArray[np.float64]
    if rank == most or (rank > most // 2 and most <= 4000):
        directions = np.linalg.svd(X.toarray() if is_sparse(X) else X, full_matrices=False)[2][
            :rank
        ]
    else:
        start = np.random.default_rng(seed).normal(size=most)
        _, values, found = svds(X.astype(float), k=rank, v0=start)
        directions = found[np.argsort(values)[::-1]]
    return directions
