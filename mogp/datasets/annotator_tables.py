"""The classification tables that the documents give to several annotators, and their stand-ins."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mogp.datasets.columns import numbers
from mogp.datasets.dataset import Array
from mogp.datasets.formats.delimited import read_numbers, read_table
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.keel import read_keel
from mogp.datasets.store import path_of
from mogp.datasets.tables import Column, class_table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TABLES", "ClassTable", "read_rows", "read_skin"]


@dataclass(frozen=True)
class ClassTable:
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


def _read_breast(path: Path) -> pd.DataFrame:
    """Rows without a missing value, which is written "?" or -500.

    The number of the patient, which KEEL leaves out, is dropped.
    """
    table = read_rows(path)
    if path.suffix != ".dat":
        table = table.iloc[:, 1:]
    return table[~(table.isna() | (table == -500)).any(axis=1)]


def _read_boards(path: Path) -> pd.DataFrame:
    """Squares written x, o, b are 1, 2, 3."""
    squares = {"x": 1, "o": 2, "b": 3}
    table: pd.DataFrame = read_rows(path).apply(
        lambda column: column.map(lambda value: squares.get(value, value))
    )
    return table


def _read_segments(path: Path) -> pd.DataFrame:
    """Without the third feature, the number of pixels, which is 9 in every region."""
    return read_rows(path).drop(columns=2)


def _read_parkinsons(path: Path) -> pd.DataFrame:
    """Without the name of the recording, the label last."""
    table = read_table(path)
    if "status" not in table or "name" not in table:
        raise DataFormatError(path, "has no columns 'name' and 'status'")
    return table[[*(name for name in table if name not in ("name", "status")), "status"]]


def read_skin(path: Path) -> pd.DataFrame:
    """Colours and the class of pixels."""
    import pandas as pd

    return pd.DataFrame(read_numbers(path, header=("r", "g", "b", "skin")))


def _games() -> Array:
    """Every board at the end of a game that x began, and 1 where x has won.

    Squares are 1 (x), 2 (o) or 3 (blank).
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
    "breast": ClassTable(
        "benign and malignant breast tumours from nine graded features of cells",
        "683 x 9 (Wisconsin; UCI); rows with a missing value are left out",
        (
            "annotators_uci/breast-cancer-wisconsin.data",
            "annotators_uci/breast-cancer-wisconsin.uci.data",
            "keel/wisconsin.dat",
        ),
        (
            "clump thickness",
            "size uniformity",
            "shape uniformity",
            "adhesion",
            "epithelial size",
            "bare nuclei",
            "bland chromatin",
            "normal nucleoli",
            "mitoses",
        ),
        "tumour",
        {"2": 0, "4": 1},
        ("benign", "malignant"),
        lambda: class_table((444, 239), [Column(1, 10, 0)] * 9, traits=4, separation=1.9, seed=699),
        _read_breast,
    ),
    "bupa": ClassTable(
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
                Column(65, 103, 0),
                Column(23, 138, 0),
                Column(4, 155, 0),
                Column(5, 82, 0),
                Column(5, 297, 0),
                Column(0, 20, 1),
            ),
            traits=4,
            separation=0.6,
            seed=345,
        ),
        read_rows,
    ),
    "ionosphere": ClassTable(
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
    "pima": ClassTable(
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
                Column(0, 17, 0),
                Column(0, 199, 0),
                Column(0, 122, 0),
                Column(0, 99, 0),
                Column(0, 846, 0),
                Column(0, 67.1, 1),
                Column(0.078, 2.42, 3),
                Column(21, 81, 0),
            ),
            traits=4,
            separation=0.4,
            seed=768,
        ),
        read_rows,
    ),
    "tic-tac-toe": ClassTable(
        "boards at the end of tic-tac-toe games, and whether x has won",
        "958 x 9 (UCI): all there are; 1, 2, 3 are x, o and blank",
        ("annotators_uci/tic-tac-toe.data", "annotators_uci/keel_tic-tac-toe.dat"),
        ("square",),
        "x wins",
        {"0": 0, "1": 1, "negative": 0, "positive": 1},
        ("no", "yes"),
        _games,
        _read_boards,
    ),
    "skin": ClassTable(
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
        read_skin,
    ),
    "wine": ClassTable(
        "three Italian wines by chemical analysis",
        "178 x 13 (Forina; UCI)",
        ("annotators_uci/keel_wine.dat",),
        (
            "alcohol",
            "malic acid",
            "ash",
            "alcalinity",
            "magnesium",
            "phenols",
            "flavanoids",
            "nonflavanoids",
            "proanthocyanins",
            "colour",
            "hue",
            "OD280",
            "proline",
        ),
        "cultivar",
        {"1": 0, "2": 1, "3": 2},
        ("1", "2", "3"),
        lambda: class_table(
            (59, 71, 48),
            (
                Column(11, 14.9),
                Column(0.7, 5.8),
                Column(1.3, 3.3),
                Column(10, 30, 1),
                Column(70, 162, 0),
                Column(0.9, 3.9),
                Column(0.3, 5.1),
                Column(0.1, 0.7),
                Column(0.4, 3.6),
                Column(1.2, 13),
                Column(0.4, 1.8),
                Column(1.2, 4.0),
                Column(278, 1680, 0),
            ),
            traits=5,
            separation=1.7,
            seed=178,
        ),
        read_rows,
    ),
    "segmentation": ClassTable(
        "seven textures in 3 x 3 regions of outdoor images",
        "2310 x 18 (UCI); of 19 features one does not vary",
        ("annotators_uci/keel_segment.dat",),
        (
            "column",
            "row",
            "lines 5",
            "lines 2",
            "vedge mean",
            "vedge sd",
            "hedge mean",
            "hedge sd",
            "intensity",
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
        "texture",
        {str(k + 1): k for k in range(7)},
        SEGMENTS,
        lambda: class_table(
            [330] * 7, [Column(0, 150, 4)] * 18, traits=6, separation=1.3, seed=2310
        ),
        _read_segments,
    ),
    "parkinsons": ClassTable(
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
        _read_parkinsons,
    ),
}
