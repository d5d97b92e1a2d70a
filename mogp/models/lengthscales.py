"""Lengthscales to start from, read off the inputs: one function for all models."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
from scipy.spatial.distance import pdist

from mogp.data import Matrix
from mogp.data.matrices import as_dense, ranges

One = Literal["diagonal", "range", "median"]
Rule = One | Literal["columns"]
_LEAST = 1e-3
_ROWS_FOR_DISTANCES = 500


@overload
def start_lengthscales(X: Matrix, rule: One, seed: int = 0) -> float: ...


@overload
def start_lengthscales(X: Matrix, rule: Literal["columns"], seed: int = 0) -> list[float]: ...


def start_lengthscales(X: Matrix, rule: Rule, seed: int = 0) -> float | list[float]:
    """Lengthscales to start from, for kernels over inputs `X [N, P]`.

    Args:
        X: the inputs, dense or sparse.
        rule: "diagonal": a tenth of the diagonal of the box that holds the inputs; "range": a
            quarter of the range of a column, averaged over columns; "columns": a tenth of the
            range of each column, one each; "median": the median distance between different inputs.
        seed: of the 500 inputs that the median distance is taken over, where there are more.

    Returns:
        One lengthscale for all columns, or with "columns" one for each.

    >>> X = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> start_lengthscales(X, "diagonal"), start_lengthscales(X, "median")
    (0.5, 5.0)
    >>> start_lengthscales(X, "range"), start_lengthscales(X, "columns")
    (0.875, [0.3, 0.4])
    """
    span = ranges(X)
    if rule == "diagonal":
        return max(float(np.linalg.norm(span)) / 10, _LEAST)
    if rule == "range":
        return max(float(np.mean(span)) / 4, _LEAST)
    if rule == "columns":
        return [float(s) / 10 if s > 0 else 1.0 for s in span]
    if rule == "median":
        return _median_distance(X, seed)
    raise ValueError(f"rule={rule!r}; choose 'diagonal', 'range', 'columns' or 'median'.")


def _median_distance(X: Matrix, seed: int) -> float:
    rng = np.random.default_rng(seed)
    few, N = X, X.shape[0]
    if N > _ROWS_FOR_DISTANCES:
        few = X[rng.choice(N, _ROWS_FOR_DISTANCES, replace=False)]
    distances = pdist(as_dense(few))
    distances = distances[distances > 0]
    return float(np.median(distances)) if len(distances) else 1.0
