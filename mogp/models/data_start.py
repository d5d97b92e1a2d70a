"""Start values read off the targets: offsets of functions, and what outputs have in common."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, get_args

import gpflow
import numpy as np
from gpflow.likelihoods import Likelihood
from scipy.spatial import cKDTree

from mogp.data import Array, Matrix, MultiOutputData
from mogp.inducing import InducingPoints
from mogp.likelihoods import PerOutput, best_constants, density_slopes
from mogp.models.latent_start import components
from mogp.models.lengthscales import start_lengthscales

StartName: TypeAlias = Literal["data", "plain"]
"""Where parameters start: read off the data; or random directions of the mixing weights, no
offsets and lengthscales of a tenth of the diagonal, as the documents have them."""
NOISE = 0.3
"""Start value of a Gaussian's noise variance, of scaled targets, where none was given."""
_UNSAID = 1.0
_LEAST_SHARED = 0.5
_MOST_ROWS = 5000
_JITTER = 0.1


class DataStart(NamedTuple):
    """`W [J, L]` and offsets `bias [J]`; None for those that the prior finds itself."""

    W: Array | None
    bias: Array | None


def check_start_name(start: str) -> None:
    """Raise unless it is a start.

    >>> check_start_name("data")
    """
    if start not in get_args(StartName):
        raise ValueError(f"start={start!r}; choose 'data' or 'plain'.")


def data_start(data: MultiOutputData, outputs: PerOutput, latents: int, seed: int) -> DataStart:
    r"""Start values of an LMC.

    Offsets are the constants that explain each output best (`best_constants`). The mixing weights
    are the principal components of a table with a row for each input and a column for each function
    $f_j$: $\partial \log p(y \mid f)/\partial f_j$ at these constants, standardised; for a Gaussian
    output that is the output itself, in units of its spread. What is missing is filled in from the
    components. They are orthogonal, so that a posterior that takes latent GPs for independent loses
    little.
    Where outputs hardly share inputs there is nothing to be read off: random directions then.

    Args:
        data: in the units of the model.
        outputs: the likelihoods.
        latents: columns of the mixing weights.
        seed: of small random numbers that are added to the weights, by which latent GPs differ that
            the table says nothing about.

    >>> from mogp.likelihoods import Gaussian
    >>> y = np.array([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, 1.0]])
    >>> data = MultiOutputData.from_arrays(np.arange(4.0), y)
    >>> found = data_start(data, PerOutput([Gaussian(), Gaussian()]), latents=1, seed=0)
    >>> bool(found.W[0, 0] * found.W[1, 0] < 0), found.bias.round(3).tolist()
    (True, [0.0, 0.0])
    """
    constants = [
        best_constants(one, own.Y)
        for one, own in zip(outputs.likelihoods, data.outputs, strict=True)
    ]
    dims = outputs.latent_dims
    bias = np.concatenate(
        [np.zeros(j) if b is None else b for b, j in zip(constants, dims, strict=True)]
    )
    if any(b is None for b in constants) or latents < 1:
        return DataStart(None, bias)
    table = _table(data, outputs.likelihoods, [b for b in constants if b is not None])
    return DataStart(None if table is None else _weights(table, latents, seed), bias)


def _table(
    data: MultiOutputData, likelihoods: list[Likelihood], constants: list[Array]
) -> Array | None:
    """Standardised slopes, `[N, J]`, NaN where an output was not observed; None if outputs share
    too few rows.
    """
    N = data.X.shape[0]
    seen = np.zeros(N)
    blocks = []
    for own, likelihood, b in zip(data.outputs, likelihoods, constants, strict=True):
        slopes = density_slopes(likelihood, b, own.Y)
        spread = slopes.std(0)
        block = np.full((N, len(b)), np.nan)
        block[own.rows] = (slopes - slopes.mean(0)) / np.where(spread > 0, spread, 1.0)
        seen[own.rows] += 1
        blocks.append(block)
    several = seen[seen > 0]
    shared = np.mean(several > 1) if data.num_outputs > 1 else 1.0
    if len(several) < 2 or shared < _LEAST_SHARED:
        return None
    table: Array = np.concatenate(blocks, axis=1)[seen > 0]
    if len(table) > _MOST_ROWS:
        table = table[np.linspace(0, len(table) - 1, _MOST_ROWS).round().astype(int)]
    return table


def _weights(table: Array, latents: int, seed: int) -> Array:
    """Loadings `[J, L]` of the principal components, rows of length one at most."""
    J = table.shape[1]
    count = min(latents, J)
    known = np.where(np.isnan(table), 1e-3, 1.0)
    _, filled = components(np.nan_to_num(table), known, count)
    values, directions = np.linalg.eigh(np.cov(filled, rowvar=False).reshape(J, J))
    order = np.argsort(values)[::-1][:count]
    loadings = directions[:, order] * np.sqrt(np.maximum(values[order], 0))
    noise = np.random.default_rng(seed).normal(size=(J, latents))
    W: Array = _JITTER * noise / np.sqrt(latents)
    W[:, :count] += loadings
    return W


def spaced_lengthscale(X: Matrix, Z: Array) -> float:
    r"""$\max(b/10, \min(2s, d))$: a tenth of the diagonal $b$ of the box that holds the inputs, or
    as much as lets inducing inputs see each other: twice the median distance $s$ to the nearest of
    the others, at most the median distance $d$ between inputs.

    Args:
        X: `[N, P]` inputs, dense or sparse.
        Z: `[M, P]` inducing inputs.

    >>> spaced_lengthscale(np.array([[0.0], [10.0]]), np.array([[0.0], [5.0], [10.0]]))
    10.0
    """
    least = start_lengthscales(X, "diagonal")
    if len(Z) < 2:
        return least
    near = float(np.median(cKDTree(Z).query(Z, 2)[0][:, 1]))
    return max(least, min(2 * near, start_lengthscales(X, "median")))


def first_lengthscale(X: Matrix, points: InducingPoints, start: StartName) -> float:
    """Where the lengthscale of a squared exponential begins.

    Args:
        X: `[N, P]` inputs.
        points: inducing inputs.
        start: "data" for `spaced_lengthscale`, "plain" for a tenth of the diagonal.

    >>> points = InducingPoints([[0.0], [5.0], [10.0]])
    >>> first_lengthscale(np.array([[0.0], [10.0]]), points, "plain")
    1.0
    """
    check_start_name(start)
    if start == "plain":
        return start_lengthscales(X, "diagonal")
    Z = points.Z.numpy()
    return spaced_lengthscale(X, Z if Z.ndim == 2 else Z[0])


def start_noise(likelihoods: list[Likelihood]) -> None:
    """Let Gaussian noise that nobody gave a start value begin at `NOISE`, of scaled targets.

    A variance of 1, the default of the likelihood, takes the whole spread of a scaled target for
    noise.

    >>> from mogp.likelihoods import Gaussian
    >>> level = Gaussian()
    >>> start_noise([level])
    >>> round(float(level.variance.numpy()), 6)
    0.3
    """
    for one in likelihoods:
        variance = getattr(one, "variance", None)
        if (
            isinstance(one, gpflow.likelihoods.Gaussian)
            and isinstance(variance, gpflow.Parameter)
            and variance.trainable
            and np.all(variance.numpy() == _UNSAID)
        ):
            variance.assign(np.full(variance.shape, NOISE))
