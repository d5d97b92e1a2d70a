"""Very many labels, some points and some labels at a time: no table of all of them is made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from mogp.data import Array
from mogp.priors import MixingPrior

NUMBERS_AT_ONCE = 1 << 22
"""Numbers in the largest table that a block of points makes (32 MB in float64)."""

_LABELS_AT_ONCE = 1 << 13
_GROUP = 64


class Ranking(NamedTuple):
    """The best labels of each point, best first: their numbers `[N, k]` and their scores
    `[N, k]`.
    """

    labels: npt.NDArray[np.int64]
    scores: Array


def blocks(points: int, width: int) -> Iterator[slice]:
    """Rows of blocks that have about `NUMBERS_AT_ONCE` numbers, `width` a row."""
    return _cut(points, max(1, NUMBERS_AT_ONCE // width))


def tiles(points: int, labels: int) -> Iterator[tuple[slice, slice]]:
    """Points and labels of tiles of about `NUMBERS_AT_ONCE` numbers: the tiles of some points one
    after the other, in the order of their labels.

    At most 2^13 labels are in a tile, so that it has 512 points, and weights of labels are not read
    for each of them anew.
    """
    width = min(labels, _LABELS_AT_ONCE)
    for rows in _cut(points, max(1, NUMBERS_AT_ONCE // width)):
        for own in _cut(labels, width):
            yield rows, own


def _cut(total: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, total)) for start in range(0, total, size))


def best_labels(prior: MixingPrior, latents: tf.Tensor, k: int) -> Ranking:
    """The `k` functions with the largest values at each point; of equal ones the first.

    Args:
        prior: how the functions are mixed.
        latents: values `[N, L]` of the latent GPs.
        k: how many.
    """
    found: list[tuple[tf.Tensor, tf.Tensor]] = []
    for rows, labels in tiles(latents.shape[0], prior.num_functions):
        tile = prior.mix(latents[rows], range(labels.start, labels.stop))
        own = _best_of_tile(tile, min(k, tile.shape[1]), labels.start)
        if labels.start:
            own = _better(found.pop(), own, k)
        found.append(own)
    return Ranking(
        np.concatenate([np.empty((0, k), np.int64), *(np.asarray(one) for one, _ in found)]),
        np.concatenate([np.empty((0, k)), *(np.asarray(scores) for _, scores in found)]),
    )


def _best_of_tile(scores: tf.Tensor, k: int, first: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Numbers, counted from `first`, and scores of the best `k` of `scores [N, W]`.

    A selection costs several passes over the scores, a maximum one. The best `k` are in those `k`
    of the groups of neighbours which have the largest maxima: each of these groups has a number
    that beats all of the other groups. The first of equal numbers is in the first of equal groups.
    """
    points, width = scores.shape
    groups = -(-width // _GROUP)
    if groups <= 4 * k:
        found = tf.math.top_k(scores, k)
        return tf.cast(found.indices, tf.int64) + first, found.values
    missing = groups * _GROUP - width
    if missing:
        scores = tf.pad(scores, [[0, 0], [0, missing]], constant_values=-np.inf)
    grouped = tf.reshape(scores, [points, groups, _GROUP])
    leading = tf.sort(tf.math.top_k(tf.reduce_max(grouped, -1), k).indices)
    found = tf.math.top_k(tf.reshape(tf.gather(grouped, leading, batch_dims=1), [points, -1]), k)
    group = tf.gather(leading, found.indices // _GROUP, batch_dims=1)
    return tf.cast(group * _GROUP + found.indices % _GROUP, tf.int64) + first, found.values


def _better(
    before: tuple[tf.Tensor, tf.Tensor], after: tuple[tf.Tensor, tf.Tensor], k: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """The best `k` labels of two selections, of equal ones those from before."""
    labels, scores = (tf.concat(pair, 1) for pair in zip(before, after, strict=True))
    found = tf.math.top_k(scores, min(k, scores.shape[1]))
    return tf.gather(labels, found.indices, batch_dims=1), found.values
