r"""Exact algebra with the covariance of a tree of functions, by elimination of its blocks.

Row $i$ observes $y_i = F_{l(i)}(x_i) + \epsilon_i$ with noise $\sigma^2$; $F_l$ is the function at
leaf $l$ of a tree, where each function is drawn around the one above it, with a kernel for each
level. What the rows below a node say of its function at their $u$ distinct inputs is a precision
$\Lambda$ and a vector $b$. Passing them on to the function above takes the kernel $K$ of the level:
with $\Lambda = R R^\top$,

$$I + R^\top K R = L L^\top, \qquad W = R L^{-\top}, \qquad
  (\Lambda^{-1} + K)^{-1} = W W^\top, \qquad w = L^{-1} R^{-1} b.$$

The node above adds up the precisions $W W^\top$ and the vectors $W w$ of its children, each at the
inputs of the child. Nodes with the same inputs, and the same below them, are of one *pattern*: they
share $R$, $L$ and $W$. So one matrix of the size $u$ is factorised for each pattern, in place of
one of the size of all rows.

With $\hat F = \Lambda^{-1} b$ at a node, what its child $c$ says differs from it by
$w_c - W_c^\top \hat F$. These residuals of all nodes, and $w$ of the root, are $A y$, where
$A^\top A = C^{-1}$ is the inverse of the covariance of all rows; and $|C|$ is the product of
$\sigma^2$ for all rows and of $|L|^2$ for all nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from mogp.linalg import cholesky

Whole = npt.NDArray[np.int64]


class TreeBlocks:
    r"""Which blocks the covariance of rows of a tree has.

    Args:
        place: `[rows]` the number of the row's input among the distinct ones.
        nodes: for each level of the tree, the leaves first and the root last, `[rows]` the node
            above the row.

    Attributes:
        cost: the sum of $u^3$ over all patterns (the largest $u$ of a level for each of them); a
            dense factor has the cube of all rows.

    Two outputs around one function, observed twice and once at the inputs 0 and 1:

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> output, root = np.array([0, 0, 1, 1, 1]), np.zeros(5, int)
    >>> blocks = TreeBlocks(np.array([0, 1, 0, 1, 0]), [output, root])
    >>> K = tf.eye(2, dtype=tf.float64)
    >>> found = blocks.factorise([K, K], tf.constant(0.5, tf.float64))
    >>> shared = np.array([[2, 0, 1, 0, 1], [0, 2, 0, 1, 0]])
    >>> C = np.vstack([shared, [[1, 0, 2, 0, 2], [0, 1, 0, 2, 0], [1, 0, 2, 0, 2]]]) + np.eye(5) / 2
    >>> A = found.whiten(tf.eye(5, dtype=tf.float64)).numpy()
    >>> np.allclose(A.T @ A, np.linalg.inv(C)), np.isclose(found.logdet, np.linalg.slogdet(C)[1])
    (True, True)
    """

    def __init__(self, place: Whole, nodes: Sequence[Whole]) -> None:
        self.rows, self.inputs = len(place), int(place.max()) + 1
        self.levels: list[_Level] = []
        below = _Nodes.of_rows(place)
        for above in nodes:
            below, level = below.under(above)
            self.levels.append(level)
        self.cost = float(
            sum(np.prod(level.place.shape) * level.place.shape[1] ** 2 for level in self.levels)
        )

    def factorise(self, kernels: Sequence[tf.Tensor], noise: tf.Tensor) -> TreeFactors:
        r"""The factors for covariances `[U, U]` of the levels at the distinct inputs, the leaves
        first, and $\sigma^2$.
        """
        steps, logdet = [], self.rows * tf.math.log(noise)
        precision = tf.fill([self.inputs, 1, 1], 1 / noise)
        for level, K in zip(self.levels, kernels, strict=True):
            step = _step(level.added(precision), level.own(tf.ensure_shape(K, [self.inputs] * 2)))
            logs = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(step.L)), -1)
            logdet += 2 * tf.reduce_sum(tf.constant(level.members, K.dtype) * logs)
            steps.append(step)
            precision = tf.linalg.matmul(step.W, step.W, transpose_b=True)
        return TreeFactors(self.levels, steps, noise, logdet)


class TreeFactors:
    r"""A factor of $C^{-1}$, and $\log|C|$: see `TreeBlocks`."""

    def __init__(
        self, levels: list[_Level], steps: list[_Step], noise: tf.Tensor, logdet: tf.Tensor
    ) -> None:
        self._levels, self._steps, self._sd = levels, steps, tf.sqrt(noise)
        self.logdet = logdet

    def whiten(self, V: tf.Tensor) -> tf.Tensor:
        r"""`A V [at least rows, n]` for `V [rows, n]`, with $A^\top A = C^{-1}$."""
        n, found = V.shape[1], []
        w, W = V / self._sd, 1 / self._sd
        for level, step in zip(self._levels, self._steps, strict=True):
            flat = [len(level.summand), n]
            b = level.summed(tf.reshape(_times(W, w), flat))
            c = tf.linalg.triangular_solve(step.R, b)
            estimate = level.handed(tf.linalg.triangular_solve(step.R, c, adjoint=True), n)
            residual = w - _times(W, tf.reshape(estimate, w.shape), transpose=True)
            found.append(tf.reshape(residual, flat))
            w, W = tf.linalg.triangular_solve(step.L, c), step.W
        return tf.concat([*found, tf.reshape(w, [level.size, n])], 0)


class _Step(NamedTuple):
    """What is computed for the patterns of a level, `[P, u, u]` each."""

    R: tf.Tensor
    L: tf.Tensor
    W: tf.Tensor


def _step(precision: tf.Tensor, K: tf.Tensor) -> _Step:
    R = cholesky(precision, jitter=0.0, name="the precision of a block")
    inner = tf.linalg.matmul(tf.linalg.matmul(R, K, transpose_a=True), R)
    L = cholesky(
        inner + tf.eye(K.shape[-1], dtype=K.dtype), jitter=0.0, name="the covariance of a block"
    )
    return _Step(R, L, tf.linalg.adjoint(tf.linalg.triangular_solve(L, tf.linalg.adjoint(R))))


def _times(W: tf.Tensor, vectors: tf.Tensor, transpose: bool = False) -> tf.Tensor:
    return W * vectors if W.shape.rank == 0 else tf.linalg.matmul(W, vectors, transpose_a=transpose)


class _Level(NamedTuple):
    """The patterns of a level; vectors of its nodes are `[P, u, m n]`, a column for each member.

    Attributes:
        place: `[P, u]` inputs of each pattern, -1 behind the last one.
        members: `[P]` nodes of each pattern, `m` at most.
        summand: `[s]` for each number of the level below, where in `[P, u, m]` it is added; -1
            where there is none.
        child, parent, weight: `[k]` patterns of the level below, whose precisions are added to
            patterns of this one, and how many times.
        inside: `[k, u']` where among the inputs of the parent those of the child are.
    """

    place: Whole
    members: Whole
    summand: Whole
    child: Whole
    parent: Whole
    weight: Whole
    inside: Whole

    @property
    def size(self) -> int:
        """`P u m`."""
        return self.place.size * int(self.members.max())

    def own(self, K: tf.Tensor) -> tf.Tensor:
        """`[P, u, u]` out of `[U, U]`, 0 where a pattern has no input."""
        here = tf.constant(self.place >= 0)
        at = tf.constant(np.maximum(self.place, 0))
        some = tf.gather(tf.reshape(K, [-1]), at[:, :, None] * K.shape[0] + at[:, None, :])
        return tf.where(here[:, :, None] & here[:, None, :], some, tf.zeros_like(some))

    def added(self, precision: tf.Tensor) -> tf.Tensor:
        """`[P, u, u]`: the sums of the precisions of the level below, 1 where there is no input."""
        P, u = self.place.shape
        inside = tf.constant(self.inside)
        i, j = inside[:, :, None], inside[:, None, :]
        at = (tf.constant(self.parent)[:, None, None] * u + i) * u + j
        at = tf.where((i >= 0) & (j >= 0), at, -1)
        weight = tf.constant(self.weight, precision.dtype)[:, None, None]
        parts = weight * tf.gather(precision, self.child)
        total = tf.math.unsorted_segment_sum(parts, at, P * u * u)
        return tf.reshape(total, [P, u, u]) + tf.linalg.diag(
            tf.constant(self.place < 0, precision.dtype)
        )

    def summed(self, numbers: tf.Tensor) -> tf.Tensor:
        """`[P, u, m n]`: sums of `[s, n]`, what the level below says."""
        P, u = self.place.shape
        total = tf.math.unsorted_segment_sum(numbers, tf.constant(self.summand), self.size)
        return tf.reshape(total, [P, u, self.size // (P * u) * numbers.shape[1]])

    def handed(self, vectors: tf.Tensor, n: int) -> tf.Tensor:
        """`[s, n]`: `[P, u, m n]` where the level below is, 0 where it is not."""
        flat = tf.reshape(vectors, [self.size, n])
        each = tf.gather(flat, np.maximum(self.summand, 0))
        return each * tf.constant(self.summand >= 0, each.dtype)[:, None]


class _Nodes(NamedTuple):
    """The nodes of a level while the next one is set up.

    Attributes:
        above: `[rows]` the node above each row.
        pattern: `[nodes]`.
        inputs: of each pattern, in rising order.
        slots: for each node, where its inputs are among the `s` numbers of the level.
        size: `s`.
    """

    above: Whole
    pattern: Whole
    inputs: list[Whole]
    slots: list[Whole]
    size: int

    @classmethod
    def of_rows(cls, place: Whole) -> _Nodes:
        """Every row is a node with one input."""
        rows, inputs = np.arange(len(place)), np.arange(place.max() + 1)
        return cls(rows, place, list(inputs[:, None]), list(rows[:, None]), len(rows))

    def under(self, node: Whole) -> tuple[_Nodes, _Level]:
        """The next level, of which `[rows]` are the nodes above the rows."""
        label = np.empty(len(self.pattern), np.int64)
        label[self.above] = node
        _, parent = np.unique(label, return_inverse=True)
        order = np.argsort(parent, kind="stable")
        children = np.split(order, np.cumsum(np.bincount(parent))[:-1])
        keys = [tuple(sorted(self.pattern[own].tolist())) for own in children]
        kinds = {key: p for p, key in enumerate(dict.fromkeys(keys))}
        inputs = [np.unique(np.concatenate([self.inputs[q] for q in set(key)])) for key in kinds]
        pattern = np.array([kinds[key] for key in keys])
        members = np.bincount(pattern)
        m, u = int(members.max()), max(map(len, inputs))
        number = [int(np.sum(pattern[:k] == p)) for k, p in enumerate(pattern)]
        slots = [
            (p * u + np.arange(len(inputs[p]))) * m + j
            for p, j in zip(pattern, number, strict=True)
        ]
        summand = np.full(self.size, -1)
        for own, p, to in zip(children, pattern, slots, strict=True):
            for c in own:
                inside = np.searchsorted(inputs[p], self.inputs[self.pattern[c]])
                summand[self.slots[c]] = to[inside]
        links = [(q, p, n) for key, p in kinds.items() for q, n in Counter(key).items()]
        child, above, weight = np.array(links).T
        insides = [np.searchsorted(inputs[p], self.inputs[q]) for q, p, _ in links]
        level = _Level(_padded(inputs), members, summand, child, above, weight, _padded(insides))
        return _Nodes(parent[self.above], pattern, inputs, slots, m * u * len(inputs)), level


def _padded(rows: Sequence[Whole]) -> Whole:
    """Rows of unequal lengths as a table, with -1 behind the last of each."""
    table = np.full((len(rows), max(map(len, rows))), -1)
    for own, row in zip(table, rows, strict=True):
        own[: len(row)] = row
    return table
