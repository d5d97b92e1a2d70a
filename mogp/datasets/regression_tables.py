"""Regression tables: one real target and P features (Giraldo, §8.1 and §9.3).

`regression` maps the target y, over all N rows, to what the `likelihood` can explain
(specification, question 14):

    HeteroscedasticGaussian    (y - mean) / sd
    Beta                       (y - min) / (max - min), clipped to [1e-5, 0.999]
    Gamma                      the same, clipped to [1e-5, 1]

`extras` holds the `mean` and `sd` [P] of the inputs, and `offset` and `scale` [1] with y = offset +
scale * Y.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from mogp.datasets.dataset import Array, Dataset, Source
from mogp.datasets.formats.delimited import read_numbers
from mogp.datasets.making import made
from mogp.datasets.scaling import standardised, unit_interval
from mogp.datasets.store import path_of
from mogp.datasets.tables import Column, regression_table

__all__ = ["TABLES", "Likelihood", "RegressionTable", "read_plain", "regression"]

Likelihood = Literal["HeteroscedasticGaussian", "Beta", "Gamma"]


def regression(
    name: str,
    source: Source,
    summary: str,
    raw: Array,
    inputs: tuple[str, ...],
    output: str,
    likelihood: Likelihood,
    standardise: bool,
) -> Dataset:
    """The data set of a table `raw` [N, P + 1], the target last, mapped as the module says."""
    X, y = raw[:, :-1], raw[:, -1:]
    if likelihood == "HeteroscedasticGaussian":
        Y, offset, scale = standardised(y)
    elif likelihood in get_args(Likelihood):
        Y, offset, scale = unit_interval(y, 1e-5, 0.999 if likelihood == "Beta" else 1.0)
    else:
        raise ValueError(
            f"likelihood={likelihood!r}; expected one of {', '.join(get_args(Likelihood))}."
        )
    mean, sd = np.zeros(X.shape[1]), np.ones(X.shape[1])
    if standardise:
        X, mean, sd = standardised(X)
    return made(
        name,
        source,
        f"{summary}, {X.shape[0]} x {X.shape[1]}",
        X=X,
        Y=Y,
        inputs=inputs,
        outputs=(output,),
        likelihoods=(likelihood,),
        extras={"mean": mean, "sd": sd, "offset": offset, "scale": scale},
    )


@dataclass(frozen=True)
class RegressionTable:
    """A table of P inputs and, last, the target.

    Attributes:
        summary: what it is.
        origin: its size, and who published it.
        paths: registered files with the same content, any of which will do.
        inputs: P names.
        output: name of the target.
        standin: generates a table of the same shape.
    """

    summary: str
    origin: str
    paths: tuple[str, ...]
    inputs: tuple[str, ...]
    output: str
    standin: Callable[[], Array]

    def read(self) -> Array:
        """The table `[N, P + 1]` from whichever file is at hand."""
        return read_plain(path_of(*self.paths), len(self.inputs) + 1)


def read_plain(path: Path, columns: int | None = None) -> Array:
    """A table of numbers, between commas in a `.csv`, else between blanks."""
    return read_numbers(path, delimiter="," if ".csv" in path.suffixes else None, columns=columns)


TABLES = {
    "yacht": RegressionTable(
        "residuary resistance of sailing yachts",
        "308 x 6 (Delft, 1981; UCI)",
        ("uci_regression/yacht.txt",),
        ("buoyancy", "prismatic", "length-displacement", "beam-draught", "length-beam", "Froude"),
        "resistance",
        lambda: regression_table(
            308,
            (
                Column(-5.0, 0.0),
                Column(0.53, 0.6, 3),
                *[Column(2.7, 5.4)] * 3,
                Column(0.125, 0.45, 3),
            ),
            Column(0.01, 62.42),
            traits=6,
            linear=0.85,
            wiggly=0.4,
            noise=0.1,
            skew=2.5,
            seed=308,
        ),
    ),
    "boston": RegressionTable(
        "median home value in Boston's census tracts",
        "506 x 13 (Harrison and Rubinfeld, 1978); the document says 505 rows",
        ("uci_regression/bostonHousing.txt", "mlxtend/boston_housing.csv"),
        (
            "crim",
            "zn",
            "indus",
            "chas",
            "nox",
            "rm",
            "age",
            "dis",
            "rad",
            "tax",
            "ptratio",
            "b",
            "lstat",
        ),
        "medv",
        lambda: regression_table(
            506,
            (
                Column(0.006, 88.98, 5),
                Column(0.0, 100.0, 1),
                Column(0.46, 27.74),
                Column(0.0, 1.0, 0),
                Column(0.385, 0.871, 4),
                Column(3.56, 8.78, 3),
                Column(2.9, 100.0, 1),
                Column(1.13, 12.13, 4),
                Column(1.0, 24.0, 0),
                Column(187.0, 711.0, 0),
                Column(12.6, 22.0, 1),
                Column(0.32, 396.9),
                Column(1.73, 37.97),
            ),
            Column(5.0, 50.0, 1),
            traits=6,
            linear=0.7,
            wiggly=0.4,
            noise=0.1,
            skew=1.3,
            blur=0.15,
            seed=506,
        ),
    ),
    "concrete": RegressionTable(
        "compressive strength of concrete from its mixture and age",
        "1030 x 8 (Yeh, 1998; UCI)",
        ("uci_regression/concrete.txt",),
        (
            "cement",
            "slag",
            "fly ash",
            "water",
            "plasticiser",
            "coarse aggregate",
            "fine aggregate",
            "age",
        ),
        "strength",
        lambda: regression_table(
            1030,
            (
                Column(102.0, 540.0, 1),
                Column(0.0, 359.4, 1),
                Column(0.0, 200.1, 1),
                Column(121.8, 247.0, 1),
                Column(0.0, 32.2, 1),
                Column(801.0, 1145.0, 1),
                Column(594.0, 992.6, 1),
                Column(1.0, 365.0, 0),
            ),
            Column(2.33, 82.6),
            traits=3,
            linear=0.5,
            wiggly=0.6,
            noise=0.3,
            seed=1030,
        ),
    ),
    "protein": RegressionTable(
        "distance of decoy protein structures from the native one",
        "45730 x 9 (CASP; UCI)",
        ("uci_regression/protein-tertiary-structure.txt",),
        tuple(f"F{p}" for p in range(1, 10)),
        "RMSD",
        lambda: regression_table(
            45730,
            (
                Column(2392.05, 40034.9),
                Column(403.5, 15312.0),
                Column(0.092, 0.578, 5),
                Column(10.31, 369.3, 3),
                Column(319490.2, 5472011.4, 1),
                Column(31.97, 598.4, 3),
                Column(0.0, 105948.2),
                Column(0.0, 350.0, 0),
                Column(15.228, 55.301, 4),
            ),
            Column(0.0, 21.0, 3),
            traits=3,
            linear=0.5,
            wiggly=0.8,
            noise=1.0,
            skew=1.3,
            seed=45730,
        ),
    ),
}
