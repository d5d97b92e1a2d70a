"""What is known of the patches of some images before training: which there are, and how far apart.

Either lets a covariance between sums over patches be found without the kernel of every pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf

if TYPE_CHECKING:
    from mogp.kernels.patches import Patches

_LARGEST_TABLE = 1024
_CODES = 2**62

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class DistinctPatches:
    """The distinct patches of some images, found again by code: pixel levels as digits.

    Attributes:
        levels: `[L]` values that pixels have, ascending.
        codes: `[U]`, ascending.
        patches: `[U, E]`.

    >>> from mogp.kernels import Patches
    >>> cut = Patches(image=(1, 4), patch=(1, 2))
    >>> found = DistinctPatches.of([[0.0, 0.0, 0.0, 1.0]], cut)
    >>> found.patches.tolist()
    [[0.0, 0.0], [0.0, 1.0]]
    """

    levels: Array
    codes: npt.NDArray[np.int64]
    patches: Array

    @property
    def table(self) -> tf.Tensor:
        """The patches, as models compute with them."""
        return tf.constant(self.patches, gpflow.default_float())

    @staticmethod
    def of(images: npt.ArrayLike, patches: Patches) -> DistinctPatches | None:
        """The distinct patches of images; None if there are too many for a table to pay.

        Args:
            images: `[N, pixels]`.
            patches: how they are cut.
        """
        levels = np.unique(np.asarray(images, dtype=float))
        if len(levels) == 0 or len(levels) ** patches.length >= _CODES:
            return None
        cut = patches.cut(images).reshape(-1, patches.length)
        codes = np.searchsorted(levels, cut) @ _digits(len(levels), patches.length)
        codes, first = np.unique(codes, return_index=True)
        if len(codes) > _LARGEST_TABLE:
            return None
        return DistinctPatches(levels, codes, cut[first])

    def find(self, X: tf.Tensor, patches: Patches) -> tuple[tf.Tensor, tf.Tensor]:
        """`ids [N, P]` of the patches of `X`, and whether the table has all of them.

        Args:
            X: `[N, pixels]`.
            patches: how they are cut.
        """
        levels = tf.constant(self.levels, X.dtype)
        level = tf.minimum(
            tf.searchsorted(levels, tf.reshape(X, [-1]), out_type=tf.int64), len(self.levels) - 1
        )
        exact = tf.reduce_all(tf.gather(levels, level) == tf.reshape(X, [-1]))
        digits = patches.windows(tf.reshape(level, tf.shape(X))) * _digits(
            len(self.levels), patches.length
        )
        # A patch is a number in base `len(levels)`: only equal patches have equal codes.
        code = tf.reduce_sum(digits, -1)
        ids = tf.searchsorted(tf.constant(self.codes), tf.reshape(code, [-1]), out_type=tf.int64)
        ids = tf.minimum(tf.reshape(ids, tf.shape(code)), len(self.codes) - 1)
        return ids, exact & tf.reduce_all(tf.gather(tf.constant(self.codes), ids) == code)


@dataclass(frozen=True)
class TwoLevels:
    r"""The two values that the pixels of some images have.

    Two patches then differ in some number $h = 0 \dots E$ of pixels, and their squared distance is
    $h\,(\text{high} - \text{low})^2$: a kernel of the distance has $E + 1$ values, however many
    pairs of patches there are.

    Attributes:
        low, high: the values.

    >>> TwoLevels.of([[0.0, 1.0], [1.0, 1.0]])
    TwoLevels(low=0.0, high=1.0)
    """

    low: float
    high: float

    @staticmethod
    def of(images: npt.ArrayLike) -> TwoLevels | None:
        """Those of the images; None if their pixels have more values, or fewer.

        Args:
            images: `[N, pixels]`.
        """
        levels = np.unique(np.asarray(images, dtype=float))
        return TwoLevels(float(levels[0]), float(levels[1])) if len(levels) == 2 else None

    def known(self, X: tf.Tensor) -> tf.Tensor:
        """Whether the pixels of images `X` have no other values.

        Args:
            X: `[N, pixels]`.
        """
        low, high = (tf.constant(level, X.dtype) for level in (self.low, self.high))
        return tf.reduce_all((low == X) | (high == X))

    def square_distances(self, length: int) -> tf.Tensor:
        """Those of patches that differ in `0 … length` pixels, `[length + 1]`.

        Args:
            length: pixels of a patch, `E`.
        """
        apart = tf.constant((self.high - self.low) ** 2, gpflow.default_float())
        return tf.range(length + 1, dtype=apart.dtype) * apart

    def sums(self, patches: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        r"""Sums of the products of weights by distance, `[G, n, E + 1]`.

        $S_{gnh} = \sum_{p,p'} w_{gp} w_{gp'}$ over the pairs of patches of image $n$ that differ in
        $h$ pixels.

        Args:
            patches: `[n, P, E]` of those two values.
            w: `[G, P]`.
        """
        P, E = patches.shape[1:]
        # Pairs one way round: those of two different patches count twice.
        one, other = np.triu_indices(P)
        products = tf.gather(w, one, axis=1) * tf.gather(w, other, axis=1)
        products *= tf.constant(np.where(one == other, 1, 2), w.dtype)
        # Counts of pixels are small whole numbers, which float32 has exactly.
        marked = tf.cast(patches == tf.constant(self.high, patches.dtype), tf.float32)
        size = tf.reduce_sum(marked, -1)
        differ = (
            size[:, :, None]
            + size[:, None]
            - 2 * tf.linalg.matmul(marked, marked, transpose_b=True)
        )
        h = tf.gather(tf.reshape(differ, [-1, P * P]), one * P + other, axis=1)
        # A matrix with a one for each pair, in the row of its image and distance.
        n = tf.shape(h, tf.int64)[0]
        row = tf.cast(h, tf.int64) + (E + 1) * tf.range(n)[:, None]
        pair = tf.tile(tf.range(len(one), dtype=tf.int64), [n])
        cells = tf.SparseTensor(
            tf.stack([tf.reshape(row, [-1]), pair], 1),
            tf.ones(tf.shape(pair), w.dtype),
            tf.stack([n * (E + 1), tf.constant(len(one), tf.int64)]),
        )
        total = tf.sparse.sparse_dense_matmul(cells, tf.transpose(products))
        return tf.transpose(tf.reshape(total, [-1, E + 1, w.shape[0]]), [2, 0, 1])


def _digits(levels: int, length: int) -> npt.NDArray[np.int64]:
    return np.int64(levels) ** np.arange(length, dtype=np.int64)
