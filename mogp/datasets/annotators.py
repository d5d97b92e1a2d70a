"""Classification tables for many annotators, simulated on request (Giraldo, §9.2, §9.3).

Every table takes `standardise` (each feature with zero mean and unit deviation) and `annotators`:
None for the gold labels alone, "simulated" for five annotators as well (`annotate_classes`), whose
labels [N, 5] are in `per_row["annotations"]` and whose reliabilities in `per_row["reliability"]`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np

from mogp.datasets.annotate import annotate_classes
from mogp.datasets.annotator_tables import TABLES, ClassTable, read_rows, read_skin
from mogp.datasets.columns import numbers
from mogp.datasets.dataset import Array, Dataset, Source
from mogp.datasets.entry import Entry
from mogp.datasets.formats.arff import read_arff
from mogp.datasets.formats.delimited import read_table
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.making import made, size
from mogp.datasets.scaling import standardised
from mogp.datasets.store import path_of
from mogp.datasets.tables import Column, class_table

Annotators = Literal["simulated"] | None


def classification(
    name: str,
    source: Source,
    summary: str,
    raw: Array,
    features: tuple[str, ...],
    output: str,
    classes: tuple[str, ...],
    annotators: str | None,
    standardise: bool,
) -> Dataset:
    """The data set of a table `raw` [N, P + 1], the class last, with the options of all tables."""
    if annotators not in (None, "simulated"):
        raise ValueError(f'annotators={annotators!r}; expected None or "simulated".')
    X = standardised(raw[:, :-1])[0] if standardise else raw[:, :-1]
    dataset = made(
        name,
        source,
        f"{summary}, {X.shape[0]} x {X.shape[1]}",
        X=X,
        Y=raw[:, -1:],
        inputs=features,
        outputs=(output,),
        likelihoods=("Bernoulli" if len(classes) == 2 else "Softmax",),
        classes={output: classes},
    )
    return dataset if annotators is None else annotate_classes(dataset)


def _entry(name: str, table: ClassTable) -> Entry:
    def made_of(source: Source, raw: Array, annotators: str | None, standardise: bool) -> Dataset:
        fields = (table.features, table.output, table.classes)
        return classification(name, source, table.summary, raw, *fields, annotators, standardise)

    def load(*, annotators: Annotators = None, standardise: bool = True) -> Dataset:
        return made_of("real", table.table(), annotators, standardise)

    def standin(*, annotators: Annotators = None, standardise: bool = True) -> Dataset:
        return made_of("stand-in", table.standin(), annotators, standardise)

    options = "\n\nThe module says what `annotators` and `standardise` do."
    load.__name__, standin.__name__ = name, f"{name}_standin"
    load.__doc__ = f"{table.summary[0].upper()}{table.summary[1:]}, {table.origin}.{options}"
    standin.__doc__ = (
        f"A synthetic table of the same shape and about the same difficulty as {name!r}.{options}"
    )
    return Entry(load, standin=standin)


BEARINGS = "annotators_uci/cwru_feature_time_48k_2048_load_1.csv"
BEARING_FEATURES = ("max", "min", "mean", "sd", "rms", "skewness", "kurtosis", "crest", "form")
PARTS = {"Normal": "normal", "Ball": "ball", "IR": "inner race", "OR": "outer race"}
FAULTS = (
    "Normal_1",
    *(f"{part}_{width}_1" for part in ("Ball", "IR") for width in ("007", "014", "021")),
    *(f"OR_{width}_6_1" for width in ("007", "014", "021")),
)


def western(
    *,
    labels: Literal["parts", "faults"] = "parts",
    annotators: Annotators = None,
    standardise: bool = True,
) -> Dataset:
    """Faults of bearings from their vibration, 2300 x 9 (Case Western Reserve University).

    The nearest public table to the document's,
    which has 7 features, 3413 rows and 4 classes. `labels`: the faulty part, four classes, or each
    of ten faults. The module says what `annotators` and `standardise` do.
    """
    return _western("real", read_bearings(path_of(BEARINGS)), labels, annotators, standardise)


def western_standin(
    *,
    labels: Literal["parts", "faults"] = "parts",
    annotators: Annotators = None,
    standardise: bool = True,
) -> Dataset:
    """A synthetic table of the same shape and about the same difficulty."""
    raw = class_table([230] * 10, [Column(-6.3, 6.9, 6)] * 9, traits=5, separation=2.4, seed=2300)
    return _western("stand-in", raw, labels, annotators, standardise)


def read_bearings(path: Path) -> Array:
    """`[2300, 10]`: nine features and the fault, its place in `FAULTS`."""
    table = read_table(path, header=(*BEARING_FEATURES, "fault"))
    unknown = sorted(set(table["fault"]) - set(FAULTS))
    if unknown:
        raise DataFormatError(path, f"fault {unknown[0]!r}; expected one of {', '.join(FAULTS)}")
    faults = table["fault"].map({name: float(k) for k, name in enumerate(FAULTS)})
    return np.column_stack([numbers(table[list(BEARING_FEATURES)], path), faults])


def _western(
    source: Source, raw: Array, labels: str, annotators: str | None, standardise: bool
) -> Dataset:
    if labels not in ("parts", "faults"):
        raise ValueError(f'labels={labels!r}; expected "parts" or "faults".')
    classes = FAULTS
    if labels == "parts":
        parts = [list(PARTS).index(fault.partition("_")[0]) for fault in FAULTS]
        part = np.array(parts, np.float64)[raw[:, -1].astype(int)]
        raw, classes = np.column_stack([raw[:, :-1], part]), tuple(PARTS.values())
    return classification(
        "western",
        source,
        "faults of bearings from their vibration",
        raw,
        BEARING_FEATURES,
        "fault",
        classes,
        annotators,
        standardise,
    )


ENTRIES = {
    **{name: _entry(name, table) for name, table in TABLES.items()},
    "western": Entry(western, standin=western_standin),
}

SHAPES: dict[str, Callable[[Path], str]] = {
    "annotators_uci/Skin_NonSkin.txt": lambda path: size(read_skin(path).to_numpy()),
    "annotators_uci/parkinsons.data": lambda path: size(read_table(path).to_numpy()),
    "annotators_uci/*.arff": lambda path: size(np.asarray(read_arff(path).values)),
    BEARINGS: lambda path: size(read_bearings(path)),
    **dict.fromkeys(
        ("annotators_uci/*", "keel/*.dat"), lambda path: size(read_rows(path).to_numpy())
    ),
}
