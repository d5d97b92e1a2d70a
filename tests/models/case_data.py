"""Small data of every kind that a model can be asked about: the cases of `cases.py` are built on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from mogp.data import LabelData, MultiOutputData
from mogp.data.inputs import give_back

Kind: TypeAlias = Literal["several", "one", "row", "gap"]
"""Two input columns; one, of dates; one row; missing targets and, where there are several outputs, one without any."""
KINDS: tuple[Kind, ...] = get_args(Kind)
Data: TypeAlias = MultiOutputData | LabelData

ROWS = 12
CLASSES = {"colour": ("blue", "green", "red"), "shape": ("cone", "cube", "disk", "ring")}
IMAGE = (4, 4)


def frame(kind: Kind, seed: int = 0, pixels: bool = False) -> pd.DataFrame:
    """A row a point: inputs, targets of all sorts, and the number of a `run` (replica) out of four."""
    rng = np.random.default_rng(seed)
    n = np.arange(ROWS)
    if pixels:
        inputs = {f"pixel {p}": rng.integers(0, 4, ROWS) / 4 for p in range(IMAGE[0] * IMAGE[1])}
        x = np.mean(list(inputs.values()), axis=0)
    elif kind == "one":
        inputs = {"day": pd.Timestamp("1970-01-01") + pd.to_timedelta(rng.permutation(ROWS), unit="D")}
        x = (inputs["day"] - pd.Timestamp("1970-01-01")).days.to_numpy() / ROWS
    else:
        inputs = {"east": rng.uniform(0, 1, ROWS), "north": rng.uniform(0, 2, ROWS)}
        x = inputs["east"] + inputs["north"] / 2
    waves = {name: np.sin(3 * x + d) + 0.1 * rng.normal(size=ROWS) for d, name in enumerate("abc")}
    more = {f"{name} {what}": values for name, wave in waves.items() for what, values in _discrete(wave, rng).items()}
    classes = {name: [labels[k % len(labels)] for k in rng.permutation(n)] for name, labels in CLASSES.items()}
    return pd.DataFrame({**inputs, **waves, **more, **classes, "run": n % 4}, index=[f"point {k}" for k in n])


def _discrete(wave: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {"count": rng.poisson(np.exp(wave)).astype(float), "yes": (wave > rng.normal(size=ROWS)).astype(float)}


def table(kind: Kind, targets: Sequence[str], seed: int = 0, pixels: bool = False, **replicas: Any) -> MultiOutputData:
    """Some targets of the frame, as data of a kind."""
    whole = frame(kind, seed, pixels)
    inputs = list(whole.columns[: whole.columns.get_loc("a")])
    full = MultiOutputData.from_table(whole, inputs, list(targets), **replicas)
    if kind == "row":
        return MultiOutputData.from_table(whole.iloc[:1], like=full, **replicas)
    if kind == "gap":
        some = whole.astype({name: object for name in targets})
        for d, name in enumerate(targets):
            last = d > 0 and d == len(targets) - 1
            some.loc[some.index[slice(None) if last else slice(d, d + 2)], name] = None
        return MultiOutputData.from_table(some, like=full, **replicas)
    return full


def reals(kind: Kind, seed: int = 0, **replicas: Any) -> MultiOutputData:
    """Three outputs of real numbers."""
    return table(kind, ["a", "b", "c"], seed, **replicas)


def real(kind: Kind, seed: int = 0) -> MultiOutputData:
    """One output of real numbers."""
    return table(kind, ["a"], seed)


def counts(kind: Kind, seed: int = 0, **replicas: Any) -> MultiOutputData:
    """Three outputs of counts."""
    return table(kind, ["a count", "b count", "c count"], seed, **replicas)


def count(kind: Kind, seed: int = 0) -> MultiOutputData:
    """One output of counts."""
    return table(kind, ["a count"], seed)


def answers(kind: Kind, seed: int = 0, **replicas: Any) -> MultiOutputData:
    """Three outputs of zeros and ones."""
    return table(kind, ["a yes", "b yes", "c yes"], seed, **replicas)


def answer(kind: Kind, seed: int = 0) -> MultiOutputData:
    """One output of zeros and ones."""
    return table(kind, ["a yes"], seed)


def mixed(kind: Kind, seed: int = 0) -> MultiOutputData:
    """Outputs of all sorts: a real number, a count, a class."""
    return table(kind, ["a", "b count", "colour"], seed)


def tame(kind: Kind, seed: int = 0) -> MultiOutputData:
    """Outputs of all sorts with bounded means: in a chain, an exponential has moments that draws do not show."""
    return table(kind, ["a", "b yes", "colour"], seed)


def colours(kind: Kind, seed: int = 0) -> MultiOutputData:
    """One output of three classes, with names."""
    return table(kind, ["colour"], seed)


def classes(kind: Kind, seed: int = 0) -> MultiOutputData:
    """Two outputs, of three and of four classes."""
    return table(kind, ["colour", "shape"], seed)


def images(kind: Kind, seed: int = 0) -> MultiOutputData:
    """Classes of small images."""
    return table(kind, ["colour", "shape"], seed, pixels=True)


def annotations(kind: Kind, seed: int = 0, values: bool = True) -> MultiOutputData:
    """What three annotators said of one output: values, or classes 0 to 2. Some said nothing of some rows."""
    rng = np.random.default_rng(seed)
    one = truth(kind, seed, values)
    Y = np.repeat(one[0].Y, 3, axis=1)
    wrong = rng.uniform(size=Y.shape) < 0.2
    Y = Y + 0.1 * rng.normal(size=Y.shape) if values else np.where(wrong, rng.integers(0, 3, Y.shape), Y)
    if kind == "gap":
        Y[rng.uniform(size=Y.shape) < 0.4] = np.nan
        Y[0] = np.nan
    return MultiOutputData.from_list([(_named(one), Y)], names=one.names)


def truth(kind: Kind, seed: int = 0, values: bool = True) -> MultiOutputData:
    """What the annotators speak of."""
    one = table("several" if kind == "gap" else kind, ["a" if values else "colour"], seed)
    return MultiOutputData.from_list([(_named(one), one[0].Y)], names=["truth"])


def _named(data: MultiOutputData) -> pd.DataFrame:
    columns = zip(data.input_names, data.columns, data.X.T, strict=True)
    return pd.DataFrame({name: give_back(values, column) for name, column, values in columns})


def points(kind: Kind, seed: int = 0) -> LabelData:
    """Points with some of five labels; in the kind with gaps a point has none, and a label has no points."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, 1 if kind == "one" else 3))
    Y = (rng.uniform(size=(ROWS, 5)) < 0.4).astype(int)
    if kind == "gap":
        Y[0], Y[:, 1] = 0, 0
    rows = slice(1) if kind == "row" else slice(None)
    return LabelData.of(X[rows], Y[rows])


def rows_of_a_table(kind: Kind, seed: int = 0) -> MultiOutputData:
    """A table, row by row: each is an output, whose inputs are the columns."""
    rng = np.random.default_rng(seed)
    rows, columns = 1 if kind == "row" else 6, 1 if kind == "one" else 3
    Y = rng.normal(size=(rows, 2)) @ rng.normal(size=(2, columns)) + 0.1 * rng.normal(size=(rows, columns))
    return MultiOutputData.from_arrays(np.eye(columns), Y.T, names=[f"row {n}" for n in range(rows)])


def new_inputs(data: Data, number: int = 4) -> np.ndarray:
    """Inputs `[number, P]` that are not those of the data, near to them."""
    return np.resize(np.asarray(data.X), (number, data.input_dim)) + 0.07 * np.arange(1, number + 1)[:, None]


def new_frame(data: MultiOutputData, number: int = 4) -> pd.DataFrame:
    """The same with names and an index, as the data had them: dates are dates."""
    X = new_inputs(data, number)
    columns = {c.name or n: give_back(x, c) for n, c, x in zip(data.input_names, data.columns, X.T, strict=True)}
    return pd.DataFrame(columns, index=[f"new {n}" for n in range(number)])
