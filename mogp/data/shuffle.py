"""Random orders without memory: the element at any position of a shuffled stream, computed on its
own.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import tensorflow as tf

_ROUNDS = 6


def handed(seed: int) -> tf.Variable | tf.Tensor:
    """A seed that a graph is handed: written into it, each seed would need a graph of its own.

    Data that are drawn from inside a graph only have theirs written into it.

    Args:
        seed: any whole number that 64 bits hold.

    >>> int(handed(7))
    7
    """
    if tf.inside_function():
        return tf.constant(int(seed), tf.int64)
    return tf.Variable(int(seed), trainable=False, dtype=tf.int64)


def shuffled(
    position: tf.Tensor,
    size: int | npt.NDArray[np.int64] | tf.Tensor,
    seed: int | npt.NDArray[np.int64] | tf.Tensor,
) -> tf.Tensor:
    """Elements at `position` of an endless stream that runs through `range(size)` in a new random
    order every pass.

    The order of a pass is a Feistel cipher on the smallest even number of bits that holds `size`;
    values that fall outside the range are enciphered again (cycle walking), which keeps it a
    permutation.

    Args:
        position: `[...]` whole numbers.
        size: of the one stream, or of a stream for each position (its shape broadcasts to that of
            `position`); at least 1.
        seed: likewise.

    >>> sorted(shuffled(tf.range(4), size=4, seed=0).numpy().tolist())
    [0, 1, 2, 3]
    """
    position = tf.cast(position, tf.int64)
    epoch, index = position // size, position % size
    half = _half_bits(size)
    mask = tf.bitwise.left_shift(tf.ones_like(half), half) - 1
    keys = [(seed * 0x85EBCA6B + key * 0xC2B2AE35) % (1 << 31) for key in range(_ROUNDS)]

    def encipher(value: tf.Tensor) -> tf.Tensor:
        left, right = tf.bitwise.right_shift(value, half), tf.bitwise.bitwise_and(value, mask)
        for key in keys:
            mixed = _mix(right + epoch * 0x9E3779B1 + key)
            left, right = right, tf.bitwise.bitwise_xor(left, tf.bitwise.bitwise_and(mixed, mask))
        return tf.bitwise.left_shift(left, half) + right

    def again(value: tf.Tensor) -> tuple[tf.Tensor]:
        return (tf.where(value >= size, encipher(value), value),)

    return tf.while_loop(lambda value: tf.reduce_any(value >= size), again, (encipher(index),))[0]


def _half_bits(size: int | npt.NDArray[np.int64] | tf.Tensor) -> tf.Tensor:
    """Half the bits of the smallest even number of bits that holds `size` values, at least one."""
    largest = tf.maximum(tf.convert_to_tensor(size, tf.int64), 2) - 1
    bits = tf.reduce_sum(tf.cast(largest[..., None] >= [1 << b for b in range(62)], tf.int64), -1)
    return (bits + 1) // 2


def _mix(value: tf.Tensor) -> tf.Tensor:
    """A 31-bit integer hash (the finaliser of MurmurHash3) on int64 tensors."""
    low = (1 << 31) - 1
    value = tf.bitwise.bitwise_and(value, low)
    for shift, factor in ((16, 0x45D9F3B), (15, 0x2C1B3C6D), (16, 0x297A2D39)):
        value = tf.bitwise.bitwise_xor(
            value, tf.bitwise.right_shift(value, tf.cast(shift, tf.int64))
        )
        value = tf.bitwise.bitwise_and(value * factor, low)
    return tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, tf.cast(15, tf.int64)))
