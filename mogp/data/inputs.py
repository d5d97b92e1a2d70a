"""Input columns with names and dates: what a model remembers of the inputs it was trained on, and
how it reads new ones.

A date is a float: days since 1970-01-01 (UTC).
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mogp.data.columns import (
    as_numbers,
    as_table,
    column_label,
    first_strange,
    table_columns,
    table_names,
)
from mogp.data.matrices import Matrix, as_dense, is_sparse, sparse_inputs

Array = npt.NDArray[Any]
_DAY = 86_400_000_000
"""Microseconds of a day."""
_LAST_DAY = 106_000_000
"""Days that microseconds in 64 bits can count."""


@dataclass(frozen=True)
class InputColumn:
    """One input column.

    Args:
        name: None if the data came without names.
        date: whether the numbers are days since 1970-01-01.

    >>> InputColumn("time", date=True)
    InputColumn(name='time', date=True)
    """

    name: str | None = None
    date: bool = False


def column_names(columns: Sequence[InputColumn]) -> tuple[str, ...]:
    """Names of input columns; those without are "x" if there is one column, else "x0", "x1", ….

    Args:
        columns: `P` of them.

    >>> column_names([InputColumn()])
    ('x',)
    >>> column_names([InputColumn("lon"), InputColumn()])
    ('lon', 'x1')
    """
    return tuple(
        column.name or ("x" if len(columns) == 1 else f"x{p}") for p, column in enumerate(columns)
    )


def columns_agree(a: Sequence[InputColumn], b: Sequence[InputColumn]) -> bool:
    """Whether two data sets have the same input columns: as many, dates where the other has dates,
    and the same names wherever both have one.

    Args:
        a: columns of the one.
        b: columns of the other.

    >>> columns_agree([InputColumn("time")], [InputColumn()])
    True
    >>> columns_agree([InputColumn("time")], [InputColumn("time", date=True)])
    False
    """
    return len(a) == len(b) and all(
        one.date == other.date and (one.name == other.name or None in (one.name, other.name))
        for one, other in zip(a, b, strict=True)
    )


def read_inputs(X: Any, columns: Sequence[InputColumn], what: str = "X") -> Array:
    """New inputs `[N, P]` for a model with these columns.

    A data frame is read by name: the order of its columns does not matter, and others are ignored.
    If the columns have no names, it is read by position, and so is an array. Dates become days
    since 1970-01-01; numbers in a date column are days already.

    Args:
        X: a frame, or an array `[N, P]` (or `[N]` if `P = 1`).
        columns: `P` of them.
        what: how errors call `X`.

    >>> import pandas as pd
    >>> day = InputColumn("day", date=True)
    >>> read_inputs(pd.DataFrame({"y": [5], "day": [pd.Timestamp("1970-01-02 12:00")]}), [day])
    array([[1.5]])
    """
    P, named = len(columns), any(c.name is not None for c in columns)
    if isinstance(X, pd.DataFrame) and named:
        X = _by_name(X, column_names(columns))
    table = as_table(X, what)
    if table.shape[1] != P:
        raise ValueError(
            f"{what} has {table.shape[1]} columns; the model has {P}"
            f" ({', '.join(map(repr, column_names(columns)))}): expected [N, {P}]"
            f"{' or [N]' if P == 1 else ''}."
        )
    given = table_names(table)
    names = [column.name or name for column, name in zip(columns, given, strict=True)]
    matrix, dates = _read_table(table, names, what)
    for p, (date, column) in enumerate(zip(dates, columns, strict=True)):
        if date and not column.date:
            day = give_back(matrix[:1, p], InputColumn(date=True))[0]
            raise ValueError(
                f"{what} has dates in column {column_label(names, p)} ({day} at row 0); the model"
                " was given numbers there: give numbers on the same scale."
            )
    return matrix


def recognise_inputs(X: Any, what: str = "X") -> tuple[Matrix, tuple[InputColumn, ...]]:
    """Inputs `[N, P]` as floats, and what their columns are: named as in a frame, dates where `X`
    holds dates.

    Args:
        X: a frame, an array `[N, P]` or `[N]`, or a SciPy sparse matrix, which stays sparse.
        what: how errors call it.

    >>> import numpy as np
    >>> recognise_inputs(np.array(["1970-01-02"], "datetime64[D]"))
    (array([[1.]]), (InputColumn(name=None, date=True),))
    """
    if is_sparse(X):
        rows = sparse_inputs(X, what)
        return rows, (InputColumn(),) * rows.shape[1]
    table = as_table(X, what)
    names = table_names(table)
    matrix, dates = _read_table(table, names, what)
    return matrix, tuple(InputColumn(n, date) for n, date in zip(names, dates, strict=True))


def give_back(values: Any, column: InputColumn) -> Any:
    """The values of a column as the user gave them: days of a date column as `datetime64[ns]`,
    rounded to the microsecond; those of other columns unchanged.

    Years that nanoseconds cannot hold (before 1678, after 2261) come as `datetime64[us]`.

    Args:
        values: `[N]` array or series.
        column: the column that they are of.

    >>> import numpy as np
    >>> give_back(np.array([0.5]), InputColumn(date=True))
    array(['1970-01-01T12:00:00.000000000'], dtype='datetime64[ns]')
    """
    if not column.date:
        return values
    days = np.asarray(values, np.float64)
    there = np.isfinite(days)
    if (np.abs(days[there]) > _LAST_DAY).any():
        far = days[there][np.argmax(np.abs(days[there]))]
        raise ValueError(f"day {far:g} after 1970-01-01 is too far away to be a date.")
    whole = np.floor(np.where(there, days, 0.0))
    # Whole days and the rest apart: their product with _DAY would lose the last microsecond.
    rest = np.round((np.where(there, days, 0.0) - whole) * _DAY).astype(np.int64)
    stamps = whole.astype(np.int64).astype("datetime64[D]") + rest.astype("timedelta64[us]")
    stamps[~there] = np.datetime64("NaT")
    holds = (np.abs(whole) < 106_000).all()
    dates = stamps.astype("datetime64[ns]") if holds else stamps
    return pd.Series(dates, values.index) if isinstance(values, pd.Series) else dates


def input_frame(X: Matrix, columns: Sequence[InputColumn]) -> pd.DataFrame:
    """Inputs as the user gave them: named columns, and dates where they were dates.

    Args:
        X: `[N, P]`, dense or sparse.
        columns: `P` of them.

    >>> import numpy as np
    >>> input_frame(np.array([[0.0]]), [InputColumn("day", date=True)]).iloc[0, 0]
    Timestamp('1970-01-01 00:00:00')
    """
    names = column_names(columns)
    each, X = zip(names, columns, strict=True), as_dense(X)
    return pd.DataFrame({name: give_back(X[:, p], column) for p, (name, column) in enumerate(each)})


def _by_name(frame: pd.DataFrame, wanted: Sequence[str]) -> pd.DataFrame:
    labels = [str(label) for label in frame.columns]
    missing = [name for name in wanted if name not in labels]
    if missing:
        raise ValueError(
            f"the table has no column {', '.join(map(repr, missing))}; its columns are"
            f" {', '.join(map(repr, labels)) or 'none'}, the inputs of the model are"
            f" {', '.join(map(repr, wanted))}."
        )
    twice = [name for name in wanted if labels.count(name) > 1]
    if twice:
        raise ValueError(f"the table has several columns {twice[0]!r}; rename or drop one.")
    return frame.iloc[:, [labels.index(name) for name in wanted]]


def _read_table(
    table: pd.DataFrame | Array, names: Sequence[str | None], what: str
) -> tuple[Array, list[bool]]:
    """Floats `[N, P]`, all finite, and which columns are dates."""
    matrix, dates = as_numbers(table), [False] * table.shape[1]
    if matrix is None:
        read = [
            _read(values, column_label(names, p), what)
            for p, values in enumerate(table_columns(table))
        ]
        matrix, dates = np.column_stack([v for v, _ in read]), [date for _, date in read]
    bad = ~np.isfinite(matrix)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        value = "NaT" if dates[column] else matrix[row, column]
        raise ValueError(
            f"{what} has {int(bad.sum())} values that are not finite, first at row {row}, column"
            f" {column_label(names, column)} ({value}); missing inputs cannot be used: drop or"
            " impute those rows."
        )
    return matrix, dates


def _read(values: Any, label: str, what: str) -> tuple[Array, bool]:
    """Floats `[N]` (NaN where missing), and whether they are days of dates."""
    if isinstance(values, np.ma.MaskedArray):
        hidden = np.flatnonzero(np.ma.getmaskarray(values))  # type: ignore[no-untyped-call]
        if len(hidden):
            raise ValueError(
                f"{what} has {len(hidden)} values that are masked, first at row {hidden[0]}, column"
                f" {label}; missing inputs cannot be used: drop or impute those rows."
            )
        values = values.data
    series = pd.Series(values)
    dtype = series.dtype
    if len(series) == 0:
        return np.empty(0), False
    if isinstance(dtype, pd.DatetimeTZDtype) or dtype.kind == "M":
        return _days(series), True
    if dtype.kind in "biuf" and not isinstance(dtype, pd.CategoricalDtype):
        return series.to_numpy(np.float64, na_value=np.nan), False
    there = series[series.notna()]
    if dtype.kind == "O" and len(there) and all(isinstance(v, _DATES) for v in there):
        return _days(pd.to_datetime(series, utc=True)), True
    strange = first_strange(series) if dtype.kind == "O" else (0, series.iloc[0])
    if strange is not None or isinstance(dtype, pd.CategoricalDtype):
        row, value = strange or (0, series.iloc[0])
        raise ValueError(
            f"{what} holds values that are not numbers, first {value!r} at row {row}, column"
            f" {label}; encode categories as numbers first (pandas.factorize gives class labels 0,"
            " 1, …), read dates with pandas.to_datetime."
        )
    return series.to_numpy(object, na_value=np.nan).astype(np.float64), False


_DATES = (datetime.date, np.datetime64)


def _days(dates: pd.Series) -> Array:
    if isinstance(dates.dtype, pd.DatetimeTZDtype):
        dates = dates.dt.tz_convert(None)
    stamps = dates.to_numpy("datetime64[us]")
    midnight = stamps.astype("datetime64[D]")
    days = midnight.astype(np.int64) + (stamps - midnight).astype(np.int64) / _DAY
    return np.where(np.isnat(stamps), np.nan, days)
