"""Regression tables of the UCI repository as data sets.

`regression_tables` says how the `likelihood` maps the target, and what `extras` holds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np

from mogp.datasets.columns import numbers
from mogp.datasets.dataset import Array, Dataset, Source
from mogp.datasets.entry import Entry
from mogp.datasets.formats.arff import read_arff
from mogp.datasets.formats.delimited import read_table
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.making import size
from mogp.datasets.regression_tables import (
    TABLES,
    Likelihood,
    RegressionTable,
    read_plain,
    regression,
)
from mogp.datasets.store import path_of
from mogp.datasets.tables import Column, regression_table

OPTIONS = """

`likelihood` maps the target as `regression_tables` says; with `standardise` every input has zero
mean and unit standard deviation."""


def _entry(name: str, table: RegressionTable) -> Entry:
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
    """Fuel consumption of cars (miles per gallon), 398 x 7 (Quinlan, 1993; UCI).

    The document says 398 x 8. The horsepower of six cars is not known: `missing` puts the mean of
    the others there, which keeps the document's 398 rows (how it filled them is not stated), or
    drops those cars, which leaves 392. `likelihood` maps the target as `regression_tables` says;
    with `standardise` every input has zero mean and unit standard deviation.
    """
    paths = AUTOMPG if _how(missing) == "drop" else AUTOMPG[:1]
    return _autompg("real", read_autompg(path_of(*paths)), likelihood, standardise, missing)


def autompg_standin(
    *,
    likelihood: Likelihood = "HeteroscedasticGaussian",
    standardise: bool = True,
    missing: Literal["mean", "drop"] = "mean",
) -> Dataset:
    """A synthetic table of the same shape and about the same difficulty, six values unknown."""
    columns = (
        Column(3, 8, 0),
        Column(68, 455, 0),
        Column(46, 230, 0),
        Column(1613, 5140, 0),
        Column(8, 24.8, 1),
        Column(70, 82, 0),
        Column(1, 3, 0),
    )
    raw = regression_table(
        398,
        columns,
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
    """Location of CT slices from histograms, 53500 x 379 (Graf et al., 2011; UCI).

    The location is axial, the histograms are of bone and air. Of 384 inputs the document uses 379,
    presumably those that vary: `constant` drops or keeps the others. The number of the patient,
    which the file has first, is not an input. `likelihood` maps the target as `regression_tables`
    says; with `standardise` every input has zero mean and unit standard deviation.
    """
    raw = read_plain(path_of(CTSLICE), 386)[:, 1:]
    return _ctslice("real", raw, likelihood, standardise, constant)


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
