"""Are the columns of the data of the size that the kernels expect?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
from scipy.spatial.distance import cdist

from mogp.data import Array, LabelData, MultiOutputData, is_sparse
from mogp.likelihoods import has_units
from mogp.models.base import MOGP

_UNUSED = 100.0
_APART = 3.0
_SAMPLE = 300
_OTHERS = 20_000
_LARGE, _SMALL = 100.0, 0.01
_MOST_COLUMNS = 500


def badly_scaled(model: MOGP, data: MultiOutputData | LabelData) -> list[str]:
    """Input columns that no kernel uses or that keep rows apart, and targets far from order one.

    Args:
        model: fitted.
        data: it was trained on.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import ExactLMC
    >>> x = np.linspace(0, 1, 8)
    >>> data = MultiOutputData.from_arrays(x, 1000 + np.sin(6 * x), names=["rain"])
    >>> for sentence in badly_scaled(ExactLMC(data, scaling=None), data):
    ...     print(sentence)
    Targets of 'rain' run from 999 to 1e+03, and the model, without scaling, expects ...
    """
    scaled = model.scaled(model.aligned(data))
    found = (
        [] if model.scaling is not None or isinstance(data, LabelData) else _targets(model, data)
    )
    if is_sparse(data.X) or not len(data.X) > 1 or data.X.shape[1] > _MOST_COLUMNS:
        return found
    X = np.asarray(scaled.X, float)
    lengths = list(_lengthscales(model, X.shape[1]))
    return found + (_inputs(model, data, X, np.array(lengths)) if lengths else [])


def _targets(model: MOGP, data: MultiOutputData) -> list[str]:
    found = []
    for d, own in enumerate(data.outputs):
        likelihood = getattr(model, "likelihood", None)
        members = getattr(likelihood, "likelihoods", None)
        one = likelihood if members is None else members[model.index(own.name)]
        if len(own) < 2 or own.classes or (one is not None and not has_units(one)):
            continue
        y = own.Y[own.observed]
        if np.sqrt(np.mean(y**2)) > _LARGE or y.std() < _SMALL * max(1.0, float(np.abs(y).max())):
            found.append((data.names[d], y.min(), y.max()))
    if not found:
        return []
    name, low, high = found[0]
    more = f" (and of {len(found) - 1} other outputs alike)" if len(found) > 1 else ""
    return [
        f"Targets of {name!r}{more} run from {low:.3g} to {high:.3g}, and the model, without"
        ' scaling, expects means near 0 and sizes near 1: build it with scaling="standard", or'
        " standardise them."
    ]


def _lengthscales(model: MOGP, columns: int) -> Iterator[Array]:
    """Lengthscales `[P]` of kernels of the inputs; infinite for columns that one does not read."""
    latent = getattr(model, "latent_kernel", None)
    aside = set() if latent is None else {id(latent), *map(id, latent.submodules)}
    for kernel in model.submodules:
        if not isinstance(kernel, gpflow.kernels.Stationary) or id(kernel) in aside:
            continue
        own = np.asarray(tf.convert_to_tensor(kernel.lengthscales)).astype(float)
        dims = kernel.active_dims
        read = np.arange(columns) if isinstance(dims, slice) and dims == slice(None) else None
        if read is None:
            read = np.r_[dims] if isinstance(dims, slice) else np.asarray(dims)
        if own.ndim > 1 or read.max(initial=-1) >= columns or own.size not in (1, len(read)):
            continue
        found = np.full(columns, np.inf)
        found[read] = own
        yield found


def _inputs(model: MOGP, data: Any, X: Array, lengths: Array) -> list[str]:
    names = getattr(data, "input_names", tuple(f"x{p}" for p in range(X.shape[1])))
    span, found = np.ptp(X, axis=0), []
    least = lengths.min(0)
    unused = np.flatnonzero((least > _UNUSED * span) & (span > 0) & np.isfinite(least))
    scale = (
        "standardise them"
        if isinstance(data, LabelData)
        else 'build the model with scaling="standard"'
        if model.scaling is None
        else ""
    )
    if len(unused):
        p = unused[0]
        found.append(
            f"Input {_listed(names, unused)} is not used: a lengthscale of {least[p]:.3g} on a"
            f" range of {span[p]:.3g}. If it should matter,"
            f" {scale or 'train from a shorter lengthscale'}; else leave it out."
        )
    apart, column = _out_of_reach(X, lengths)
    if apart > _APART:
        found.append(
            f"Rows are out of reach of each other: the nearest is typically {apart:.2g}"
            f" lengthscales away, most of it in input {names[column]!r}, and nothing is shared:"
            f" {scale and scale + ', '}start from longer lengthscales, or use fewer columns."
        )
    return found


def _out_of_reach(X: Array, lengths: Array) -> tuple[float, int]:
    """Distance of nearest other rows in lengthscales (median; of the kernel that reaches furthest),
    and the column in which they are furthest.
    """
    rng = np.random.default_rng(0)
    X = X[np.sort(rng.permutation(len(X))[:_OTHERS])]
    some = np.sort(rng.permutation(len(X))[:_SAMPLE])
    best, column = np.inf, 0
    for own in np.unique(lengths, axis=0)[:20]:
        Z = X / own
        distance = cdist(Z[some], Z)
        distance[np.arange(len(some)), some] = np.inf
        nearest = distance.argmin(1)
        far = float(np.median(distance[np.arange(len(some)), nearest]))
        if far < best:
            best = far
            column = int(np.argmax(np.median(np.abs(Z[some] - Z[nearest]), axis=0)))
    return best, column


def _listed(names: Any, which: Array) -> str:
    shown = ", ".join(repr(names[p]) for p in which[:3])
    return f"{shown} and {len(which) - 3} others" if len(which) > 3 else shown
