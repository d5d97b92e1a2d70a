"""Classification tables for many annotators: gold labels, and annotators simulated on request
(Giraldo, §9.2, §9.3).

Every table takes `standardise` (each feature with zero mean and unit deviation) and `annotators`:
None for the gold labels alone, "simulated" for five annotators as well (`annotate_classes`), whose
labels [N, 5] are in `per_row["annotations"]` and whose reliabilities in `per_row["reliability"]`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from mogp.datasets.annotate import annotate_classes
from mogp.datasets.columns import numbers
from mogp.datasets.dataset import Array, Dataset, Source
from mogp.datasets.entry import Entry
from mogp.datasets.formats.arff import read_arff
from mogp.datasets.formats.delimited import read_numbers, read_table
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.keel import read_keel
from mogp.datasets.making import made, size
from mogp.datasets.scaling import standardised
from mogp.datasets.store import path_of
from mogp.datasets.tables import Column, class_table

if TYPE_CHECKING:
    import pandas as pd

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
    """The data set of a table `raw` [N, P + 1], the class last; what the module says happens
    here.
    """
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


@dataclass(frozen=True)
class Table:
    """A table of P features and, last, a label.

    Attributes:
        summary: what it is.
        origin: its size, and who published it.
        paths: registered files with the same rows, any of which will do; the order of rows may
            differ.
        features: P names, or one for all.
        output: name of the label.
        labels: class of each label, as the files write it.
        classes: names of the classes.
        standin: generates a table [N, P + 1] whose last column is the class.
        read: gives the features and the labels of a file, as a frame whose last column is the
            label.
    """

    summary: str
    origin: str
    paths: tuple[str, ...]
    features: tuple[str, ...]
    output: str
    labels: Mapping[str, int]
    classes: tuple[str, ...]
    standin: Callable[[], Array]
    read: Callable[[Path], pd.DataFrame]

    def table(self) -> Array:
        """Features and class `[N, P + 1]` of whichever file is at hand."""
        path = path_of(*self.paths)
        frame = self.read(path)
        label = frame.iloc[:, -1].astype(str)
        unknown = sorted(set(label) - set(self.labels))
        if unknown:
            raise DataFormatError(
                path, f"label {unknown[0]!r}; expected one of {', '.join(self.labels)}"
            )
        features = numbers(frame.iloc[:, :-1], path)
        if len(self.features) not in {1, features.shape[1]}:
            raise DataFormatError(
                path, f"{features.shape[1]} features, expected {len(self.features)}"
            )
        return np.column_stack([features, label.map(dict(self.labels)).to_numpy(np.float64)])


def read_rows(path: Path) -> pd.DataFrame:
    """A table without header: KEEL's, or numbers between commas, with "?" for a missing one."""
    return (
        read_keel(path) if path.suffix == ".dat" else read_table(path, header=False, missing=("?",))
    )


def _breast(path: Path) -> pd.DataFrame:
    """Rows without a missing value, written "?" or -500; without the number of the patient, which
    KEEL leaves out.
    """
    table = read_rows(path)
    if path.suffix != ".dat":
        table = table.iloc[:, 1:]
    return table[~(table.isna() | (table == -500)).any(axis=1)]


def _tictactoe(path: Path) -> pd.DataFrame:
    """Squares written x, o, b are 1, 2, 3."""
    squares = {"x": 1, "o": 2, "b": 3}
    table: pd.DataFrame = read_rows(path).apply(
        lambda column: column.map(lambda value: squares.get(value, value))
    )
    return table


def _segments(path: Path) -> pd.DataFrame:
    """Without the third feature, the number of pixels, which is 9 in every region."""
    return read_rows(path).drop(columns=2)


def _parkinsons(path: Path) -> pd.DataFrame:
    """Without the name of the recording, the label last."""
    table = read_table(path)
    if "status" not in table or "name" not in table:
        raise DataFormatError(path, "has no columns 'name' and 'status'")
    return table[[*(name for name in table if name not in ("name", "status")), "status"]]


def _skin(path: Path) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(read_numbers(path, header=("r", "g", "b", "skin")))


def _games() -> Array:
    """Every board at the end of a game that x began: squares 1 (x), 2 (o), 3 (blank), then 1 where
    x has won.
    """
    lines = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
    boards = []
    for board in itertools.product((1, 2, 3), repeat=9):
        x, o = board.count(1), board.count(2)
        x_wins, o_wins = (
            any(all(board[square] == who for square in line) for line in lines) for who in (1, 2)
        )
        over = (x_wins and x == o + 1 and not o_wins) or (o_wins and x == o and not x_wins)
        if over or (x == 5 and o == 4 and not x_wins and not o_wins):
            boards.append((*board, x_wins))
    return np.array(boards, np.float64)


SEGMENTS = ("brickface", "sky", "foliage", "cement", "window", "path", "grass")
UNIT = Column(0.0, 1.0, 5)

TABLES = {
    "breast": Table(
        "benign and malignant breast tumours from nine graded features of cells",
        "683 x 9 (Wisconsin; UCI); rows with a missing value are left out",
        (
            *(
                "annotators_uci/breast-cancer-wisconsin.data",
                "annotators_uci/breast-cancer-wisconsin.uci.data",
            ),
            "keel/wisconsin.dat",
        ),
        (
            *(
                "clump thickness",
                "size uniformity",
                "shape uniformity",
                "adhesion",
                "epithelial size",
                "bare nuclei",
            ),
            *("bland chromatin", "normal nucleoli", "mitoses"),
        ),
        "tumour",
        {"2": 0, "4": 1},
        ("benign", "malignant"),
        lambda: class_table((444, 239), [Column(1, 10, 0)] * 9, traits=4, separation=1.9, seed=699),
        _breast,
    ),
    "bupa": Table(
        "liver disorders from blood tests and drinking",
        "345 x 6 (BUPA; UCI)",
        ("annotators_uci/bupa.data", "keel/bupa.dat"),
        ("mcv", "alkphos", "sgpt", "sgot", "gammagt", "drinks"),
        "selector",
        {"1": 0, "2": 1, "1.0": 0, "2.0": 1},
        ("selector 1", "selector 2"),
        lambda: class_table(
            (145, 200),
            (
                *(Column(65, 103, 0), Column(23, 138, 0), Column(4, 155, 0)),
                *(Column(5, 82, 0), Column(5, 297, 0), Column(0, 20, 1)),
            ),
            traits=4,
            separation=0.6,
            seed=345,
        ),
        read_rows,
    ),
    "ionosphere": Table(
        "good and bad radar returns from the ionosphere",
        "351 x 34 (Johns Hopkins; UCI)",
        ("annotators_uci/ionosphere.data",),
        ("pulse",),
        "return",
        {"0": 0, "1": 1},
        ("bad", "good"),
        lambda: class_table(
            (126, 225),
            (Column(0, 1, 0), Column(0, 0, 0), *[Column(-1.0, 1.0, 5)] * 32),
            traits=8,
            separation=0.75,
            clusters=2,
            seed=351,
        ),
        read_rows,
    ),
    "pima": Table(
        "diabetes among Pima women",
        "768 x 8 (National Institute of Diabetes; UCI)",
        ("annotators_uci/pima-indians-diabetes.data", "keel/pima.dat"),
        ("pregnancies", "glucose", "pressure", "skin", "insulin", "bmi", "pedigree", "age"),
        "diabetes",
        {"0": 0, "1": 1, "tested_negative": 0, "tested_positive": 1},
        ("negative", "positive"),
        lambda: class_table(
            (500, 268),
            (
                *(Column(0, 17, 0), Column(0, 199, 0), Column(0, 122, 0), Column(0, 99, 0)),
                *(Column(0, 846, 0), Column(0, 67.1, 1), Column(0.078, 2.42, 3), Column(21, 81, 0)),
            ),
            traits=4,
            separation=0.4,
            seed=768,
        ),
        read_rows,
    ),
    "tic-tac-toe": Table(
        "boards at the end of tic-tac-toe games, and whether x has won",
        "958 x 9 (UCI): all there are; 1, 2, 3 are x, o and blank",
        ("annotators_uci/tic-tac-toe.data", "annotators_uci/keel_tic-tac-toe.dat"),
        ("square",),
        "x wins",
        {"0": 0, "1": 1, "negative": 0, "positive": 1},
        ("no", "yes"),
        _games,
        _tictactoe,
    ),
    "skin": Table(
        "skin and other pixels by colour",
        "245057 x 3 (UCI); the document says 4 features",
        ("annotators_uci/Skin_NonSkin.txt",),
        ("red", "green", "blue"),
        "pixel",
        {"2.0": 0, "1.0": 1},
        ("other", "skin"),
        lambda: class_table(
            (194198, 50859), [Column(0, 255, 0)] * 3, traits=3, separation=2.6, clusters=2, seed=255
        ),
        _skin,
    ),
    "wine": Table(
        "three Italian wines by chemical analysis",
        "178 x 13 (Forina; UCI)",
        ("annotators_uci/keel_wine.dat",),
        (
            *(
                "alcohol",
                "malic acid",
                "ash",
                "alcalinity",
                "magnesium",
                "phenols",
                "flavanoids",
                "nonflavanoids",
            ),
            *("proanthocyanins", "colour", "hue", "OD280", "proline"),
        ),
        "cultivar",
        {"1": 0, "2": 1, "3": 2},
        ("1", "2", "3"),
        lambda: class_table(
            (59, 71, 48),
            (
                *(
                    Column(11, 14.9),
                    Column(0.7, 5.8),
                    Column(1.3, 3.3),
                    Column(10, 30, 1),
                    Column(70, 162, 0),
                ),
                *(
                    Column(0.9, 3.9),
                    Column(0.3, 5.1),
                    Column(0.1, 0.7),
                    Column(0.4, 3.6),
                    Column(1.2, 13),
                ),
                *(Column(0.4, 1.8), Column(1.2, 4.0), Column(278, 1680, 0)),
            ),
            traits=5,
            separation=1.7,
            seed=178,
        ),
        read_rows,
    ),
    "segmentation": Table(
        "seven textures in 3 x 3 regions of outdoor images",
        "2310 x 18 (UCI); of 19 features one does not vary",
        ("annotators_uci/keel_segment.dat",),
        (
            *(
                "column",
                "row",
                "lines 5",
                "lines 2",
                "vedge mean",
                "vedge sd",
                "hedge mean",
                "hedge sd",
                "intensity",
            ),
            *(
                "red",
                "blue",
                "green",
                "excess red",
                "excess blue",
                "excess green",
                "value",
                "saturation",
                "hue",
            ),
        ),
        "texture",
        {str(k + 1): k for k in range(7)},
        SEGMENTS,
        lambda: class_table(
            [330] * 7, [Column(0, 150, 4)] * 18, traits=6, separation=1.3, seed=2310
        ),
        _segments,
    ),
    "parkinsons": Table(
        "Parkinson's disease from measures of the voice",
        "195 x 22 (Little et al., 2007; UCI); the nearest real data to 'voice'",
        ("annotators_uci/parkinsons.data",),
        ("measure",),
        "status",
        {"0": 0, "1": 1},
        ("healthy", "parkinson"),
        lambda: class_table(
            (48, 147), [UNIT] * 22, traits=6, separation=0.65, clusters=2, seed=195
        ),
        _parkinsons,
    ),
}


def _entry(name: str, table: Table) -> Entry:
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
    """Faults of bearings from nine features of their vibration, 2300 x 9 (Case Western Reserve
    University).

    The nearest public table to the document's, which has 7 features, 3413 rows and 4 classes.
    `labels`: the faulty part, four classes, or each of ten faults. The module says what
    `annotators` and `standardise` do.
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
        part = np.array(
            [list(PARTS).index(fault.partition("_")[0]) for fault in FAULTS], np.float64
        )
        raw, classes = (
            np.column_stack([raw[:, :-1], part[raw[:, -1].astype(int)]]),
            tuple(PARTS.values()),
        )
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
    "annotators_uci/Skin_NonSkin.txt": lambda path: size(_skin(path).to_numpy()),
    "annotators_uci/parkinsons.data": lambda path: size(read_table(path).to_numpy()),
    "annotators_uci/*.arff": lambda path: size(np.asarray(read_arff(path).values)),
    BEARINGS: lambda path: size(read_bearings(path)),
    **dict.fromkeys(
        ("annotators_uci/*", "keel/*.dat"), lambda path: size(read_rows(path).to_numpy())
    ),
}
