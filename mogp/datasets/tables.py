"""Synthetic tables: what stands in for a table of features when the real one is out of reach.

Both generators draw latent traits t ~ N(0, I) for every row. Features are mixtures of the traits
with noise, pushed through a logistic curve into the range of the real column and rounded as it is
written. The target of a regression is a linear function of the traits plus a wiggly one plus noise;
classes are clusters of traits. The shares are chosen so that ridge regression or logistic
regression and nearest neighbours score about as on the real table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
WAVES = 32


class Column(NamedTuple):
    """Range and decimals of a column."""

    low: float
    high: float
    decimals: int = 2


def regression_table(
    rows: int,
    columns: Sequence[Column],
    target: Column,
    *,
    traits: int,
    linear: float,
    wiggly: float,
    noise: float,
    skew: float = 1.0,
    blur: float = 0.3,
    seed: int,
) -> Floats:
    """A table [rows, P + 1] of features and, last, the target s = linear·a(t) + wiggly·b(t) +
    noise·ε.

    a is a random direction, b a sum of waves that turn over about one unit of t; both have unit
    variance. `skew` > 1 crowds targets at the low end. `blur` is the noise of a feature, relative
    to the traits it shows.
    """
    rng = np.random.default_rng(seed)
    t = rng.standard_normal((rows, traits))
    direction = rng.standard_normal(traits)
    score = linear * (t @ direction) / np.sqrt(direction @ direction) + wiggly * _waves(t, rng)
    score = score + noise * rng.standard_normal(rows)
    score = score / np.sqrt(linear**2 + wiggly**2 + noise**2)
    y = target.low + (target.high - target.low) * _curve(score) ** skew
    return np.column_stack([_features(t, columns, blur, rng), np.round(y, target.decimals)])


def class_table(
    counts: Sequence[int],
    columns: Sequence[Column],
    *,
    traits: int,
    separation: float,
    clusters: int = 1,
    blur: float = 0.3,
    seed: int,
) -> Floats:
    """A table [sum(counts), P + 1] of features and, last, the class 0, 1, …; rows are shuffled.

    Each class has `clusters` centres, `separation` times a standard normal vector of traits, with
    unit variance around.
    """
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(counts)), counts)
    centres = separation * rng.standard_normal((len(counts), clusters, traits))
    t = centres[labels, rng.integers(clusters, size=len(labels))] + rng.standard_normal(
        (len(labels), traits)
    )
    t = t / np.sqrt(1.0 + separation**2)
    table = np.column_stack([_features(t, columns, blur, rng), labels])
    shuffled: Floats = table[rng.permutation(len(table))]
    return shuffled


def _waves(t: Floats, rng: np.random.Generator) -> Floats:
    frequencies = rng.standard_normal((t.shape[1], WAVES)) * (1.5 / np.sqrt(t.shape[1]))
    phases = rng.uniform(0.0, 2.0 * np.pi, WAVES)
    waves: Floats = (
        np.cos(t @ frequencies + phases) @ rng.standard_normal(WAVES) * np.sqrt(2.0 / WAVES)
    )
    return waves


def _features(
    t: Floats, columns: Sequence[Column], blur: float, rng: np.random.Generator
) -> Floats:
    """Feature p shows trait p, or a mixture of traits where there are more features than traits."""
    P, traits = len(columns), t.shape[1]
    mixing = np.eye(traits, P)
    if traits < P:
        mixing[:, traits:] = rng.standard_normal((traits, P - traits)) / np.sqrt(traits)
    z = t @ mixing
    if blur > 0.0:
        z += blur * rng.standard_normal(z.shape)
    low, high, decimals = np.array(columns).T
    units = 10.0**decimals
    features: Floats = _curve(z)
    features *= (high - low) * units
    features += low * units
    np.rint(features, out=features)
    features /= units
    return features


def _curve(z: Floats) -> Floats:
    """The logistic curve, near the normal distribution function."""
    curve: Floats = 1.0 / (1.0 + np.exp(-1.702 * z))
    return curve
