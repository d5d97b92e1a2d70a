"""Random orders without memory: the element at any position of a shuffled stream, computed on its
own.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import tensorflow as tf

_ROUNDS = 6


def shuffled(
    position: tf.Tensor,
    size: int | npt.NDArray[np.int64] | tf.Tensor,
    seed: int | npt.NDArray[np.int64] | tf.Tensor,
) -> tf.Tensor:
    r"""Elements at `position` of an endless stream that runs through `range(size)` in a new random
    order every pass.

    The order of a pass is a Feistel cipher on a rectangle of $a \times b$ places that is hardly
    larger than `size` ($a = \lceil\sqrt{\text{size}}\rceil$, $b = \lceil\text{size}/a\rceil$): a
    place is a row and a column, and each in turn is moved round by a hash of the other. Values that
    fall outside the range are enciphered again (cycle walking), which keeps it a permutation.

    Args:
        position: `[...]` whole numbers.
        size: of the one stream, or of a stream for each position (its shape broadcasts to that of
            `position`); at least 1.
        seed: likewise.

    >>> sorted(shuffled(tf.range(4), size=4, seed=0).numpy().tolist())
    [0, 1, 2, 3]
    """
    position, size = tf.cast(position, tf.int64), tf.convert_to_tensor(size, tf.int64)
    epoch, index = position // size, position % size
    rows = tf.cast(tf.math.ceil(tf.sqrt(tf.cast(size, tf.float64))), tf.int64)
    columns = (size + rows - 1) // rows
    base = epoch * 0x9E3779B1 + seed * 0x85EBCA6B
    keys = [base + turn * 0xC2B2AE35 for turn in range(_ROUNDS)]

    def encipher(value: tf.Tensor) -> tf.Tensor:
        row, column = value // columns, value % columns
        for one, other in zip(keys[::2], keys[1::2], strict=True):
            row = (row + _mix(column + one)) % rows
            column = (column + _mix(row + other)) % columns
        return row * columns + column

    def again(value: tf.Tensor) -> tuple[tf.Tensor]:
        return (tf.where(value >= size, encipher(value), value),)

    return tf.while_loop(lambda value: tf.reduce_any(value >= size), again, (encipher(index),))[0]


def _mix(value: tf.Tensor) -> tf.Tensor:
    """A 31-bit integer hash (the finaliser of MurmurHash3, with Wellons' factors) on int64
    tensors.
    """
    low = (1 << 31) - 1
    value = tf.bitwise.bitwise_and(value, low)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        value = tf.bitwise.bitwise_xor(
            value, tf.bitwise.right_shift(value, tf.cast(shift, tf.int64))
        )
        value = tf.bitwise.bitwise_and(value * factor, low)
    return tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, tf.cast(16, tf.int64)))
