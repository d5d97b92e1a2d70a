"""Targets as numbers: names of classes become codes, missing ones are told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

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

Array = npt.NDArray[Any]
Classes: TypeAlias = tuple[str, ...] | None
"""Names of the classes of an output; None if its targets are numbers."""
_TRUTH = ("False", "True")


class Targets(NamedTuple):
    """Targets as they were read.

    Attributes:
        Y: `[N, T]` floats; NaN where there is none.
        observed: `[N, T]` where there is one.
        classes: of each of the `T` columns.
        names: of each column, None where it has none.

    >>> read_targets(["b", None, "a"]).Y[:, 0]
    array([ 1., nan,  0.])
    """

    Y: Array
    observed: Array
    classes: tuple[Classes, ...]
    names: tuple[str | None, ...]


class _Named(NamedTuple):
    """A column of names `[N]` (None where missing), and the order of the classes if it has one."""

    values: Array
    order: Classes


def read_targets(
    Y: Any,
    what: str = "Y",
    mask: npt.ArrayLike | None = None,
    *,
    mask_name: str = "mask",
    together: bool = False,
    known: Sequence[Classes] | None = None,
) -> Targets:
    """Targets of any kind as floats.

    Numbers stay what they are. Strings and booleans are classes, coded 0 … C-1 in sorted order;
    categoricals in their own order.

    Args:
        Y: `[N, T]` or `[N]`, or a frame.
        what: how errors call it.
        mask: `[N, T]`, False where a target does not count, whatever stands there.
        mask_name: how errors call the mask.
        together: whether all columns have the same classes (annotators of one output).
        known: classes of each column that are known already; targets must be among them.

    >>> read_targets([True, False]).classes
    (('False', 'True'),)
    >>> read_targets(["b"], known=[("a", "b", "c")]).Y
    array([[1.]])
    """
    table = as_table(Y, what)
    names = table_names(table)
    asked = np.ones(table.shape, bool) if mask is None else _mask(mask, table.shape, mask_name)
    numbers = as_numbers(table)
    classes: list[Classes] = [None] * table.shape[1]
    if numbers is None or (known is not None and any(known)):
        read = [
            _column(values, asked[:, t], column_label(names, t), what)
            for t, values in enumerate(table_columns(table))
        ]
        every = list(range(len(read)))
        numbers = np.empty(table.shape)
        for group in [every] if together else [[t] for t in every]:
            if known is None:
                found = _classes([read[t] for t in group], what)
            else:
                found = known[group[0]]
                _check_kind([read[t] for t in group], found, what)
            for t in group:
                numbers[:, t] = _coded(read[t], found, column_label(names, t), what)
                classes[t] = found
    observed = _observed(numbers, asked, names, what)
    return Targets(numbers, observed, tuple(classes), tuple(names))


def _mask(mask: npt.ArrayLike, shape: tuple[int, ...], name: str) -> Array:
    values = np.asarray(mask)
    if values.ndim == 1 and shape[1] == 1:
        values = values[:, None]
    if values.shape != shape:
        raise ValueError(f"{name} has shape {values.shape}; the targets have shape {shape}.")
    if not np.isin(values, (0, 1)).all():
        raise ValueError(f"{name} must hold booleans (True where the target was observed).")
    return values.astype(bool)


def _observed(targets: Array, asked: Array, names: Sequence[str | None], what: str) -> Array:
    """Where targets were asked for and are not NaN; none of those may be infinite."""
    bad = np.isinf(targets) & asked
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"{what} has {int(bad.sum())} infinite targets, first at row {row}, column"
            f" {column_label(names, column)}; use NaN (or the mask) for missing targets."
        )
    observed: Array = np.isfinite(targets) & asked
    return observed


def _column(values: Any, asked: Array, label: str, what: str) -> Array | _Named:
    """One column: floats, NaN where there is none or none was asked for; or names."""
    if isinstance(values, np.ma.MaskedArray):
        asked = asked & ~np.ma.getmaskarray(values)  # type: ignore[no-untyped-call]
        values = values.data
    series = pd.Series(values)
    present = series.notna().to_numpy(bool) & asked
    there, dtype = series[present], series.dtype
    order: Classes = None
    if isinstance(dtype, pd.CategoricalDtype):
        order = tuple(str(c) for c in dtype.categories)
        if len(set(order)) < len(order):
            raise ValueError(
                f"{what}, column {label}: several categories are written alike,"
                f" {', '.join(map(repr, order))}; rename them."
            )
    elif len(there) and (dtype.kind == "b" or all(isinstance(v, bool | np.bool_) for v in there)):
        order = _TRUTH
    elif not len(there) or not all(isinstance(v, str) for v in there):
        return _floats(series, present, label, what)
    names = np.full(len(series), None, object)
    names[present] = [str(v) for v in there]
    return _Named(names, order)


def _floats(series: pd.Series, present: Array, label: str, what: str) -> Array:
    numbers = np.full(len(series), np.nan)
    there = series[present]
    if series.dtype.kind in "biuf":
        numbers[present] = there.to_numpy(np.float64)
        return numbers
    strange = first_strange(there)
    if strange is not None:
        raise ValueError(
            f"{what} holds values that are not numbers, first {strange[1]!r} at row"
            f" {np.flatnonzero(present)[strange[0]]}, column {label}; the targets of an output are"
            " numbers, or names of classes throughout (strings, categories, booleans)."
        )
    numbers[present] = there.to_numpy(object).astype(np.float64)
    return numbers


def _classes(columns: Sequence[Array | _Named], what: str) -> Classes:
    """The classes of an output, from its columns."""
    named = [c for c in columns if isinstance(c, _Named)]
    numbers = [c for c in columns if not isinstance(c, _Named) and not np.isnan(c).all()]
    if not named or (numbers and all(c.order == _TRUTH for c in named)):
        return None
    if numbers:
        raise ValueError(
            f"{what} has columns of numbers and columns of names; the targets of an output are"
            " numbers, or names of classes throughout."
        )
    orders = {c.order for c in named}
    if len(orders) == 1 and None not in orders:
        return named[0].order
    return tuple(sorted({name for c in named for name in c.values if name is not None}))


def _check_kind(columns: Sequence[Array | _Named], known: Classes, what: str) -> None:
    """Raise if names are given where numbers are known."""
    for column in columns:
        if known is None and isinstance(column, _Named) and column.order != _TRUTH:
            names = [name for name in column.values if name is not None]
            if names:
                raise ValueError(
                    f"{what} holds names of classes ({names[0]!r}), but the targets of that output"
                    " are numbers; give numbers."
                )


def _coded(column: Array | _Named, classes: Classes, label: str, what: str) -> Array:
    """Floats `[N]`: numbers as they are, names by their place among the classes."""
    if classes is None:
        if not isinstance(column, _Named):
            return column
        classes = _TRUTH
    given = column.values if isinstance(column, _Named) else _written(column)
    place = {name: float(code) for code, name in enumerate(classes)}
    unknown = [
        (row, name) for row, name in enumerate(given) if name is not None and name not in place
    ]
    if unknown:
        row, name = unknown[0]
        raise ValueError(
            f"{what} has the class {name!r} at row {row}, column {label}, which is not known; the"
            f" classes are {', '.join(map(repr, classes))}. Drop those rows, or train on data that"
            " have it."
        )
    return np.array([place.get(name, np.nan) for name in given], np.float64)


def _written(numbers: Array) -> Array:
    """Numbers as names of classes: 3.0 is "3"."""
    names = np.array([str(int(v)) if float(v).is_integer() else str(v) for v in numbers], object)
    names[np.isnan(numbers)] = None
    return names
