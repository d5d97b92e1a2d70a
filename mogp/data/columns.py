"""Columns of whatever a user passes: arrays, series, frames, lists. What inputs and targets share
when they are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.extensions import ExtensionArray

Array = npt.NDArray[Any]


def as_table(values: Any, what: str) -> pd.DataFrame | Array:
    """A frame if pandas made it, else an array `[N, C]`, whatever it holds; masked arrays stay
    masked.

    Args:
        values: a frame, a series, or `[N, C]` or `[N]` of anything that NumPy makes an array of.
        what: how errors call it.

    >>> as_table([1, 2, 3], "X").shape
    (3, 1)
    """
    if isinstance(values, pd.DataFrame):
        return values
    if isinstance(values, pd.Series | pd.Index | ExtensionArray):
        return pd.Series(values).to_frame()
    try:
        array: Array = np.asanyarray(values)
        if array.dtype.kind in "US" and not isinstance(values, np.ndarray):
            # Of a list with one string NumPy makes strings of all: numbers, and NaN too.
            array = np.array(values, dtype=object)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{what} holds values that are not numbers in rows of equal length ({error})."
        ) from error
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(f"{what} has shape {array.shape}; expected [N, columns] or [N].")
    return array


def table_columns(table: pd.DataFrame | Array) -> list[Any]:
    """The `C` columns `[N]` of a table.

    Args:
        table: `[N, C]`.

    >>> table_columns(np.array([[1, 2], [3, 4]]))
    [array([1, 3]), array([2, 4])]
    """
    if isinstance(table, pd.DataFrame):
        return [table.iloc[:, c] for c in range(table.shape[1])]
    return [table[:, c] for c in range(table.shape[1])]


def table_names(table: pd.DataFrame | Array) -> list[str | None]:
    """Names of the columns; an array, and a frame that numbers its columns, have none.

    Args:
        table: `[N, C]`.

    >>> table_names(pd.DataFrame([[1, 2]])), table_names(pd.DataFrame({"time": [1]}))
    ([None, None], ['time'])
    """
    labels = list(table.columns) if isinstance(table, pd.DataFrame) else list(range(table.shape[1]))
    if all(isinstance(label, int | np.integer) for label in labels):
        return [None] * len(labels)
    names = [str(label) for label in labels]
    if len(set(names)) < len(names):
        raise ValueError(
            f"columns of the table have the same name: {', '.join(map(repr, names))}; rename them."
        )
    return list(names)


def column_label(names: Sequence[str | None], column: int) -> str:
    """How errors call a column: by its name, or its number if it has none.

    Args:
        names: `C` names or None.
        column: its number.

    >>> column_label(["time", None], 0), column_label(["time", None], 1)
    ("'time'", '1')
    """
    name = names[column]
    return str(column) if name is None else repr(name)


def as_numbers(table: pd.DataFrame | Array) -> Array | None:
    """A fresh `[N, C]` of float64 if the table holds nothing but plain numbers, else None.

    Booleans are left out: as targets they are classes.

    Args:
        table: `[N, C]`.

    >>> as_numbers(np.array([[1, 2]]))
    array([[1., 2.]])
    >>> as_numbers(np.array([["a"]])) is None
    True
    """
    if isinstance(table, pd.DataFrame):
        plain = all(isinstance(t, np.dtype) and t.kind in "iuf" for t in table.dtypes)
        return np.array(table, dtype=np.float64) if plain else None
    if isinstance(table, np.ma.MaskedArray) or table.dtype.kind not in "iuf":
        return None
    return table.astype(np.float64)


def first_strange(values: Any) -> tuple[int, Any] | None:
    """The first entry that is neither missing nor a real number, and its row.

    Args:
        values: `[N]` of anything.

    >>> first_strange(np.array([1, None, "a"], object))
    (2, 'a')
    """
    missing = np.asarray(pd.isna(values))
    for row, value in enumerate(values):
        if not missing[row] and not _is_number(value):
            return row, value
    return None


def _is_number(value: Any) -> bool:
    if isinstance(value, str | bytes | complex | np.datetime64 | np.timedelta64):
        return False
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
