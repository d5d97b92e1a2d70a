"""Paths through a chain, weighted by how well they explain what is known of later outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mogp.data import Array

LEAST_EFFECTIVE = 50
_NUMBERS_AT_ONCE = 1 << 21

Propose = Callable[[Array, int], tuple[Sequence[Array], Array]]
"""From rows `[n]` and a number of paths `P` to values `[P, n, …]` along them, and the log density
`[P, n]` of what is known at the rows (or `[1, n]`, the same for all paths)."""


def weighted_paths(propose: Propose, rows: int, samples: int, most: int) -> list[Array]:
    r"""Values `[samples, rows, …]` along paths that are conditioned on what is known.

    Paths $s$ are proposed forward, and have at each row the weight
    $w_s = p_s / \sum_r p_r$, with $p_s$ the density of what is known there along the path
    (self-normalised importance sampling). As many as were asked for are then picked in proportion
    to their weights, so that they are worth the same. $1 / \sum_s w_s^2$ is the number of
    *effective* paths. Rows at which it is below 50 get four times as many proposals, again and
    again.

    Args:
        propose: see `Propose`.
        rows: how many.
        samples: paths to be returned.
        most: proposals at most, unless more samples than that are asked for.

    >>> import numpy as np
    >>> def propose(rows, paths):  # a standard normal number, known to be near one
    ...     f = np.random.default_rng(0).normal(size=(paths, len(rows)))
    ...     return [f], -0.5 * (f - 1) ** 2 / 0.1
    >>> (f,) = weighted_paths(propose, 1, 1000, 4000)
    >>> bool(abs(f.mean() - 1 / 1.1) < 0.1)
    True
    """
    kept: list[Array] = []
    waiting, paths = np.arange(rows), samples
    while True:
        short = []
        for at in _blocks(waiting, paths):
            values, log_density = propose(at, paths)
            weights = _normalised(np.broadcast_to(log_density, (paths, len(at))))
            effective = 1 / np.sum(weights**2, 0)
            # Where all paths are worth the same, few are as good as many.
            enough = (effective >= LEAST_EFFECTIVE) | (effective > 0.99 * paths)
            if not kept:
                kept = [np.zeros((samples, rows, *v.shape[2:]), v.dtype) for v in values]
            picked = _picked(weights[:, enough], samples)
            for whole, part in zip(kept, values, strict=True):
                own = part[:, enough]
                index = picked.reshape(*picked.shape, *(1,) * (own.ndim - 2))
                whole[:, at[enough]] = np.take_along_axis(own, index, 0)
            short += [(row, e) for row, e in zip(at[~enough], effective[~enough], strict=True)]
        if not short:
            return kept
        if paths >= most:
            raise _too_few(short, paths)
        waiting, paths = np.array([row for row, _ in short]), min(4 * paths, max(most, paths))


def _blocks(rows: Array, paths: int) -> list[Array]:
    size = max(1, _NUMBERS_AT_ONCE // paths)
    return [rows[start : start + size] for start in range(0, max(len(rows), 1), size)]


def _normalised(log_density: Array) -> Array:
    """Weights `[P, n]`, a column a row; all alike where no path explains anything."""
    highest = log_density.max(0, initial=-np.inf)
    weights = np.exp(log_density - np.where(np.isfinite(highest), highest, 0.0))
    weights = np.where(np.isfinite(highest), weights, 1.0)
    found: Array = weights / weights.sum(0)
    return found


def _picked(weights: Array, samples: int) -> Array:
    """Numbers `[samples, n]` of paths, each as often as its weight says: systematic resampling.

    Equal weights pick every path once, in order.
    """
    marks = (np.arange(samples) + 0.5) / samples
    ends = np.cumsum(weights, 0)
    ends[-1:] = 1.0
    columns = [np.searchsorted(column, marks) for column in ends.T]
    return np.array(columns, np.int64).reshape(weights.shape[1], samples).T


def _too_few(short: Sequence[tuple[int, float]], paths: int) -> ValueError:
    row, effective = min(short, key=lambda one: one[1])
    return ValueError(
        f"what is given at row {row} leaves {effective:.3g} effective paths of {paths}, and"
        f" predictions take at least {LEAST_EFFECTIVE} (so do {len(short)} rows in all). Ask for"
        " more samples, put the outputs that are known first in the chain with order=, or check"
        " the values given: they may be ones that the model thinks impossible."
    )
