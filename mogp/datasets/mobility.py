"""Counts of people or bicycles in the cells of a city by the hour, most of them zero (Giraldo,
chapter 6; §10.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mogp.datasets.dataset import Array, Dataset, Source
from mogp.datasets.draws import draw, rounded
from mogp.datasets.entry import Entry, unavailable
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.json_array import read_json_array
from mogp.datasets.grids import grid_draw
from mogp.datasets.making import made, size
from mogp.datasets.store import path_of

PRIVATE_GUANGZHOU = (
    "the positions of phone users were never published; the nearest real data are 'bike-nyc'"
)
HOURS = 24


def guangzhou(*, day: int = 1, grid: int = 41) -> Dataset:
    """Phone users in the cells of Guangzhou by the hour, on a day of March 2019 (private).

    `day` is 1 to 31 (the 4th is a Monday). The document has a `grid` of 201 x 201 cells, 969624
    counts a day; the specification proposes 41. Inputs (x, y, hour) are scaled to [0, 1].
    """
    raise unavailable("guangzhou", PRIVATE_GUANGZHOU)


def guangzhou_standin(*, day: int = 1, grid: int = 41) -> Dataset:
    """A synthetic city: zero-inflated counts whose field repeats every week, with a little of each
    day's own.

    Counts are 0 with probability π = 1 / (1 + exp(-f_1)), else Poisson(exp f_2). Both f_j mix Q = 3
    processes u_q over (x, y, hour), u_q = 0.6 c_q + 0.7 w_q + 0.2 d_q, with c_q of the city, w_q of
    the weekday and d_q of the `day`. `extras`: the parameter functions `f` [N, 2]. The city is the
    same on every `grid`.
    """
    if not 1 <= day <= 31:
        raise ValueError(f"day={day}; expected a day of March, 1 to 31.")
    if grid < 2:
        raise ValueError(f"grid={grid}; expected at least 2 cells a side.")
    axes = (
        np.linspace(0.0, 1.0, grid),
        np.linspace(0.0, 1.0, grid),
        np.arange(HOURS) / (HOURS - 1),
    )
    X = np.column_stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")])
    city = np.column_stack([_field(axes, q, 0) for q in range(3)])
    week = np.column_stack([_field(axes, q, 100 + (day + 3) % 7) for q in range(3)])
    own = np.column_stack([_field(axes, q, 200 + day) for q in range(3)])
    u = 0.6 * city + 0.7 * week + 0.2 * own
    centre = ((X[:, :2] - 0.5) ** 2).sum(axis=1) / 0.08
    rhythm = np.cos(2.0 * np.pi * (X[:, 2] * 23.0 / 24.0 - 0.6))
    f = np.column_stack([-0.6 + 1.4 * centre - 0.5 * rhythm, 1.9 - 0.9 * centre + 0.6 * rhythm])
    f = rounded(f + u @ np.array([[-0.9, 0.7], [0.6, 0.5], [-0.3, 0.5]]))
    rng = np.random.default_rng([2019, day])
    inflated = rng.uniform(size=len(X)) < 1.0 / (1.0 + np.exp(-f[:, 0]))
    counts = np.where(inflated, 0, rng.poisson(np.exp(f[:, 1])))
    return made(
        "guangzhou",
        "stand-in",
        f"phone users in {grid} x {grid} cells by the hour, day {day} of March 2019, {len(X)}"
        " counts",
        X=X,
        Y=counts[:, None].astype(float),
        inputs=("x", "y", "hour"),
        outputs=("users",),
        likelihoods=("ZeroInflatedPoisson",),
        extras={"f": f},
    )


LENGTHSCALES = ((0.25, 0.25, 0.5), (0.12, 0.12, 0.3), (0.06, 0.06, 0.2))


def _field(axes: Sequence[Array], q: int, key: int) -> Array:
    """The process u_q at every place and hour; `key` tells draws of the same process apart."""
    return grid_draw(axes, LENGTHSCALES[q], np.random.default_rng([q, key])).ravel()


BIKES = "bike_nyc_grid/flow_bike_nyc_regular.json"
CELLS, DAYS = (16, 8), 92


def bike_nyc(*, first: int = 0, days: int = 1) -> Dataset:
    """Bicycles that arrive in and leave 16 x 8 cells of New York by the hour, 92 days (Citi Bike).

    `first` is the first day, 0 to 91, and `days` how many there are. Inputs: row and column of the
    cell and the hour since the first, scaled to [0, 1]. 41 % of all counts are zero.
    """
    return _bike_nyc("real", read_flows(path_of(BIKES)), first, days)


def bike_nyc_standin(*, first: int = 0, days: int = 1) -> Dataset:
    """Synthetic hires on the same grid: water that nobody crosses, a busy middle, two rush hours on
    working days.
    """
    rng = np.random.default_rng(128)
    row, column = (
        axis.ravel() for axis in np.meshgrid(np.arange(16.0), np.arange(8.0), indexing="ij")
    )
    river = (column - 0.25 * np.abs(row - 8.0) > 5.0) | (column + 0.35 * row < 2.0)
    level = (
        3.4
        - ((row - 8.0) / 4.5) ** 2
        - ((column - 2.0) / 2.0) ** 2
        + 0.7 * rng.standard_normal(128)
    )
    hour = np.arange(HOURS * DAYS)
    rushes = ((1.8, 8.3, 1.3), (0.9, 17.8, 2.5))
    rush = sum(
        size * np.exp(-0.5 * ((hour % HOURS - peak) / width) ** 2) for size, peak, width in rushes
    )
    rhythm = 1.6 * np.cos(2.0 * np.pi * (hour % HOURS - 15.0) / HOURS)
    working = ((hour // HOURS + 1) % 7 < 5).astype(float)
    weather = np.repeat(0.3 * rng.standard_normal(DAYS), HOURS)
    log_rate = level[:, None] + rhythm + weather + working * (rush - 0.4)
    rate = np.exp(np.clip(log_rate, -12.0, 6.0)) * ~river[:, None]
    return _bike_nyc(
        "stand-in", np.stack([rng.poisson(rate), rng.poisson(rate)]).astype(float), first, days
    )


def read_flows(path: Path) -> Array:
    """`[2, 128, 2208]`: bicycles in and out, cells row by row, hours."""
    flows = read_json_array(
        path, ("inflow", "outflow"), [str(cell) for cell in range(CELLS[0] * CELLS[1])]
    )
    if flows.shape[2:] != (HOURS * DAYS,) or (flows < 0).any() or (flows != np.rint(flows)).any():
        raise DataFormatError(path, f"shape {flows.shape}; expected counts of {HOURS * DAYS} hours")
    return flows


def _bike_nyc(source: Source, flows: Array, first: int, days: int) -> Dataset:
    if not (0 <= first < DAYS and 1 <= days <= DAYS - first):
        raise ValueError(f"first={first}, days={days}; the {DAYS} days are 0 to {DAYS - 1}.")
    hours = np.arange(HOURS * first, HOURS * (first + days))
    counts = flows[:, :, hours].reshape(2, *CELLS, len(hours))
    scale = (CELLS[0] - 1, CELLS[1] - 1, len(hours) - 1)
    axes = np.meshgrid(*(np.arange(n) for n in (*CELLS, len(hours))), indexing="ij")
    return made(
        "bike-nyc",
        source,
        f"bicycles in and out of {CELLS[0]} x {CELLS[1]} cells of New York by the hour, {days} days"
        f" from day {first}",
        X=np.column_stack([axis.ravel() / top for axis, top in zip(axes, scale, strict=True)]),
        Y=counts.reshape(2, -1).T,
        inputs=("row", "column", "hour"),
        outputs=("in", "out"),
        likelihoods=("ZeroInflatedPoisson",),
    )


ZIP_WEIGHTS = np.array([[-0.5, 1.1], [0.4, -0.3], [0.1, -0.8]])
ZIP_LENGTHSCALES = (0.1, 0.7, 0.02)


def zip_toy(*, N: int = 2000, Q: int = 2, seed: int = 106) -> Dataset:
    """Zero-inflated counts at 2000 points of [-1, 1] (the public demonstration of Giraldo, chapter
    6).

    The f_j = Σ_q w_qj u_q mix Q (1 to 3) unit-variance RBF processes of length-scales 0.1, 0.7 and
    0.02 with weights (-0.5, 1.1), (0.4, -0.3) and (0.1, -0.8). A count is 0 with probability 1 / (1
    + exp(-f_1)), else Poisson(exp f_2). `seed` draws both. `extras`: the processes `u` [N, Q], the
    parameter functions `f` [N, 2], the weights `W` [2, Q].
    """
    if N < 1 or not 1 <= Q <= 3:
        raise ValueError(f"N={N}, Q={Q}; expected at least one point, and Q = 1, 2 or 3.")
    rng = np.random.default_rng(seed)
    X = np.linspace(-1.0, 1.0, N)[:, None]
    u = np.column_stack([draw(X, lengthscale, rng) for lengthscale in ZIP_LENGTHSCALES[:Q]])
    f = rounded(u @ ZIP_WEIGHTS[:Q])
    inflated = rng.uniform(size=N) < 1.0 / (1.0 + np.exp(-f[:, 0]))
    return made(
        "zip-toy",
        "synthetic",
        f"zero-inflated counts at {N} points, {Q} latent processes",
        "J. J. Giraldo (2021), chapter 6, public demonstration",
        X=X,
        Y=np.where(inflated, 0.0, rng.poisson(np.exp(f[:, 1])))[:, None],
        inputs=("x",),
        outputs=("count",),
        likelihoods=("ZeroInflatedPoisson",),
        extras={"u": u, "f": f, "W": ZIP_WEIGHTS[:Q].T},
    )


ENTRIES = {
    "guangzhou": Entry(guangzhou, standin=guangzhou_standin, private=PRIVATE_GUANGZHOU),
    "bike-nyc": Entry(bike_nyc, standin=bike_nyc_standin),
    "zip-toy": Entry(zip_toy),
}

SHAPES: dict[str, Callable[[Path], str]] = {BIKES: lambda path: size(read_flows(path))}
