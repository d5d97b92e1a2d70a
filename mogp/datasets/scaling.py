"""Scaling of columns, as the documents do it before a model sees the data."""

from __future__ import annotations

import numpy as np

from mogp.datasets.dataset import Array


def standardised(values: Array) -> tuple[Array, Array, Array]:
    """Columns with zero mean and unit standard deviation, and the means and deviations [C] that
    undo it.

    A column that does not vary becomes zero, with deviation 1. Mean and deviation are those of 12
    digits: the last ones depend on how a platform adds, and would make every number depend on it.
    """
    mean, sd = _digits(values.mean(axis=0)), _digits(values.std(axis=0))
    constant = np.ptp(values, axis=0) == 0.0
    mean, sd = np.where(constant, values[0], mean), np.where(constant, 1.0, sd)
    return (values - mean) / sd, mean, sd


def unit_interval(
    values: Array, lowest: float = 0.0, highest: float = 1.0
) -> tuple[Array, Array, Array]:
    """Columns between their minimum (0) and maximum (1), clipped to [lowest, highest], with the
    minima and ranges [C].

    A column that does not vary becomes `lowest`, with range 1.
    """
    low, span = values.min(axis=0), np.ptp(values, axis=0)
    span = np.where(span == 0.0, 1.0, span)
    return np.clip((values - low) / span, lowest, highest), low, span


def _digits(values: Array) -> Array:
    return np.array([float(f"{value:.12g}") for value in np.ravel(values)]).reshape(
        np.shape(values)
    )
