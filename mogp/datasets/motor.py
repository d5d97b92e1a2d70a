"""The motorcycle data: head acceleration against time after an impact, the standard test of
changing noise.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mogp.datasets.dataset import Array, Dataset, Source
from mogp.datasets.entry import Entry
from mogp.datasets.formats.delimited import read_numbers
from mogp.datasets.making import made, size
from mogp.datasets.store import path_of

FILE = "motor/mcycle.csv"


def motor(*, standardise: bool = True) -> Dataset:
    """Head acceleration (g) against time (ms) in simulated motorcycle impacts, 133 points
    (Silverman, 1985).

    With `standardise` both columns have zero mean and unit standard deviation, as in Giraldo's
    figures (§8.1 of the specification); `extras` holds the `mean` and `sd` of (time, acceleration)
    that undo it.
    """
    return _dataset("real", read_mcycle(path_of(FILE))[:, 1:], standardise)


def motor_standin(*, standardise: bool = True) -> Dataset:
    """A synthetic impact of the same size and difficulty: flat and quiet, a deep dip, a rebound,
    then loud noise.
    """
    rng = np.random.default_rng(1985)
    time = np.sort(np.round((2.4 + 55.2 * rng.beta(1.6, 2.0, 133)) / 0.2) * 0.2)
    signal = -120.0 * np.exp(-0.5 * ((time - 21.0) / 4.0) ** 2) + 45.0 * np.exp(
        -0.5 * ((time - 33.0) / 5.0) ** 2
    )
    noise_sd = 1.5 + 22.0 / (1.0 + np.exp(-(time - 15.0) / 1.2))
    acceleration = np.round(signal + noise_sd * rng.standard_normal(133), 1)
    return _dataset("stand-in", np.column_stack([time, acceleration]), standardise)


def read_mcycle(path: Path) -> Array:
    """Row number, time (ms) and acceleration (g), `[133, 3]`."""
    return read_numbers(path, header=("rownames", "times", "accel"))


def _dataset(source: Source, table: Array, standardise: bool) -> Dataset:
    mean, sd = (table.mean(axis=0), table.std(axis=0)) if standardise else (np.zeros(2), np.ones(2))
    table = (table - mean) / sd
    return made(
        "motor",
        source,
        "head acceleration of a motorcycle helmet after an impact, 133 points",
        X=table[:, :1],
        Y=table[:, 1:],
        inputs=("time",),
        outputs=("acceleration",),
        likelihoods=("HeteroscedasticGaussian",),
        extras={"mean": mean, "sd": sd},
    )


ENTRIES = {"motor": Entry(motor, standin=motor_standin)}
SHAPES = {FILE: lambda path: size(read_mcycle(path))}
