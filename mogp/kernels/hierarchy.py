"""Kernels over a tree of replicas: rows of inputs carry, as last column, their replica's number."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.kernels import Kernel


class SameNode(Kernel):
    r"""Whether two replicas hang from the same node of a tree.

    $$k(r, r') = \mathbb 1[\text{node}(r) = \text{node}(r')].$$

    Args:
        column: the input column that holds the replica number.
        nodes: `[R]` the node that each replica hangs from; None if every replica is a node.

    >>> import numpy as np
    >>> from mogp.kernels import SameNode
    >>> k = SameNode(column=0, nodes=[0, 0, 1])
    >>> k(np.array([[0.0], [1.0], [2.0]])).numpy().tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    def __init__(self, column: int, nodes: npt.ArrayLike | None = None) -> None:
        super().__init__(active_dims=[column])
        self.nodes: tuple[int, ...] | None = (
            None if nodes is None else tuple(int(n) for n in np.asarray(nodes))
        )

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        """`[..., N, N']` from `X [..., N, 1]` and `X2 [..., N', 1]` (X itself if None)."""
        a = self._node(X)
        b = a if X2 is None else self._node(X2)
        return tf.cast(a[..., :, None] == b[..., None, :], X.dtype)

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        """Ones, `[..., N]`."""
        return tf.ones(tf.shape(X)[:-1], X.dtype)

    def _node(self, X: tf.Tensor) -> tf.Tensor:
        leaf = tf.cast(tf.round(X[..., 0]), tf.int64)
        return leaf if self.nodes is None else tf.gather(tf.constant(self.nodes, tf.int64), leaf)


def hierarchical(
    kernels: Sequence[Kernel], input_dim: int, tree: npt.ArrayLike | None = None
) -> Kernel:
    r"""The covariance of a tree of functions, each drawn around the one above it.

    With $k_0 \dots k_L$ from the root to the leaves and $\text{node}_l(r)$ the node at depth $l$
    above replica $r$,

    $$k\big((x, r), (x', r')\big) = k_0(x, x')
      + \sum_{l=1}^{L} \mathbb 1[\text{node}_l(r) = \text{node}_l(r')]\, k_l(x, x').$$

    Two kernels are the hierarchy of Hensman et al. (2013), $k_g + \mathbb 1[r = r'] k_f$; one
    kernel knows nothing of replicas. The result is a sum of products of GPflow kernels, read from
    `[x, r]`, the replica number in column `input_dim`.

    Args:
        kernels: on the inputs `x`, one for each level, the root first. They become part of the
            result.
        input_dim: columns of `x`.
        tree: `[R, L]` the path of each replica, such as (lab, strain, replica). A node is its whole
            path: strain 1 of one lab is not strain 1 of another. Needed from three levels on.

    >>> import numpy as np
    >>> from gpflow.kernels import Matern32
    >>> from mogp.kernels import hierarchical
    >>> k = hierarchical([Matern32(), Matern32(), Matern32()], 1, tree=[(0, 0), (0, 1), (1, 0)])
    >>> k(np.array([[0.0, 0], [0.0, 1], [0.0, 2]])).numpy().tolist()
    [[3.0, 2.0, 1.0], [2.0, 3.0, 1.0], [1.0, 1.0, 3.0]]
    """
    if not kernels:
        raise ValueError(
            "no kernels were given; give one for each level of the hierarchy, the root first."
        )
    levels = _levels(len(kernels) - 1, tree)
    parts = [on_inputs(kernels[0], input_dim)]
    for kernel, nodes in zip(kernels[1:], levels, strict=True):
        parts.append(on_inputs(kernel, input_dim) * SameNode(input_dim, nodes))
    return reduce(add, parts)


def on_inputs(kernel: Kernel, input_dim: int) -> Kernel:
    """Keep a kernel, and all that it is combined of, to the first columns.

    Args:
        kernel: it is changed in place, and returned.
        input_dim: columns that it may read.

    >>> import numpy as np
    >>> from gpflow.kernels import SquaredExponential
    >>> from mogp.kernels import on_inputs
    >>> k = on_inputs(SquaredExponential() + SquaredExponential(), input_dim=1)
    >>> k(np.array([[0.0, 0.0], [0.0, 99.0]])).numpy().tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """
    for part in getattr(kernel, "kernels", ()):
        on_inputs(part, input_dim)
    if isinstance(kernel.active_dims, slice):
        kernel.active_dims = slice(*kernel.active_dims.indices(input_dim))
    return kernel


def with_replica(X: tf.Tensor, replica: tf.Tensor) -> tf.Tensor:
    """Append replica numbers to inputs as a last column.

    Args:
        X: `[..., N, P]`.
        replica: `[..., N]`.

    Returns:
        `[..., N, P + 1]`.

    >>> from mogp.kernels import with_replica
    >>> with_replica([[0.5], [0.7]], [0, 1]).numpy().tolist()
    [[0.5, 0.0], [0.7, 1.0]]
    """
    X = tf.convert_to_tensor(X, gpflow.default_float())
    return tf.concat([X, tf.cast(replica, X.dtype)[..., None]], -1)


def tree_size(module: tf.Module) -> int | None:
    """The replicas that the trees in a module know; None if there is no tree."""
    sizes = [
        len(part.nodes)
        for part in module.submodules
        if isinstance(part, SameNode) and part.nodes is not None
    ]
    return min(sizes, default=None)


def _levels(depth: int, tree: npt.ArrayLike | None) -> list[npt.NDArray[np.int64] | None]:
    if tree is None:
        if depth > 1:
            raise ValueError(
                f"{depth + 1} kernels make a hierarchy of {depth + 1} levels: give tree=[R,"
                f" {depth}], the path from the root to each replica."
            )
        return [None] * depth
    paths = np.asarray(tree)
    if paths.ndim == 1 and depth == 1:
        paths = paths[:, None]
    if paths.ndim != 2 or paths.shape[1] != depth or not len(paths):
        raise ValueError(
            f"tree has shape {paths.shape}; expected [replicas, {depth}], a path for each replica"
            f" through the {depth} levels below the root, as there are {depth + 1} kernels."
        )
    return [
        np.unique(paths[:, : level + 1], axis=0, return_inverse=True)[1].reshape(-1)
        for level in range(depth)
    ]
