"""How `MultiOutputData` is built from arrays, lists and tables; users call its `from_…` methods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from mogp.data.columns import as_table
from mogp.data.inputs import (
    InputColumn,
    column_names,
    columns_agree,
    read_inputs,
    recognise_inputs,
)
from mogp.data.matrices import Matrix, is_sparse, merge_rows
from mogp.data.outputs import Output, make_output
from mogp.data.replicas import replica_labels
from mogp.data.targets import Classes, Targets, read_targets

if TYPE_CHECKING:
    from mogp.data.table import MultiOutputData

Array = npt.NDArray[Any]
Names = str | Sequence[str]


class Parts(NamedTuple):
    """What `MultiOutputData` is made of.

    Attributes:
        X: `[N, P]` inputs.
        outputs: what was observed at them; replicas still as they were labelled.
        columns: of `X`.

    >>> of_arrays([5.0], [1.0], None, None, None).columns
    (InputColumn(name=None, date=False),)
    """

    X: Matrix
    outputs: list[Output]
    columns: tuple[InputColumn, ...]


def of_arrays(
    X: Any,
    Y: Any,
    names: Sequence[str] | None,
    mask: npt.ArrayLike | None,
    replica: npt.ArrayLike | None,
) -> Parts:
    """See `MultiOutputData.from_arrays`.

    >>> of_arrays([5.0, 6.0], [1.0, None], ["a"], None, None).outputs[0].rows
    array([0])
    """
    inputs, columns = recognise_inputs(X, "X")
    _not_empty(inputs.shape, "X")
    table = as_table(Y, "Y")
    _not_empty(table.shape, "Y")
    _same_length(inputs.shape[0], len(table), "X", "Y")
    targets = read_targets(table, "Y", mask)
    replicas = replica_labels(replica, inputs.shape[0], "replica")
    return Parts(inputs, _one_each(targets, output_names(names, targets), replicas), columns)


def of_list(
    pairs: Sequence[tuple[Any, Any]],
    names: Sequence[str] | None,
    masks: Sequence[npt.ArrayLike | None] | None,
    replicas: Sequence[npt.ArrayLike | None] | None,
) -> Parts:
    """See `MultiOutputData.from_list`.

    >>> of_list([([5.0], [1.0]), ([5.0], [2.0])], None, None, None).X
    array([[5.]])
    """
    if len(pairs) == 0:
        raise ValueError("from_list needs at least one (X, Y) pair, got an empty list.")
    given = _names(names, len(pairs))
    for what, values in (("masks", masks), ("replicas", replicas)):
        if values is not None and len(values) != len(pairs):
            raise ValueError(
                f"{len(values)} {what} for {len(pairs)} outputs; give one an output (None for"
                " none)."
            )
    for d, pair in enumerate(pairs):
        if len(pair) != 2:
            raise ValueError(f"pairs[{d}] has {len(pair)} elements; expected (X, Y).")
    blocks, columns = _blocks([x for x, _ in pairs], given)
    X, where = merge_rows(blocks)
    outputs = []
    starts = np.cumsum([0, *(block.shape[0] for block in blocks)])
    for d, (name, start, stop) in enumerate(zip(given, starts[:-1], starts[1:], strict=True)):
        targets = read_targets(
            pairs[d][1],
            f"Y of {name!r}",
            None if masks is None else masks[d],
            mask_name=f"mask of {name!r}",
            together=True,
        )
        if targets.Y.shape[1] == 0:
            _not_empty(targets.Y.shape, f"Y of {name!r}")
        _same_length(stop - start, len(targets.Y), f"X of {name!r}", f"Y of {name!r}")
        labels = replica_labels(
            None if replicas is None else replicas[d], stop - start, f"replica of {name!r}"
        )
        kept = np.flatnonzero(targets.observed.any(axis=1))
        outputs.append(
            make_output(
                name,
                where[start:stop][kept],
                targets.Y[kept],
                targets.observed[kept],
                None if labels is None else labels[kept],
                targets.classes[0],
            )
        )
    return Parts(X, outputs, columns)


def of_table(
    frame: pd.DataFrame,
    inputs: Names | None,
    targets: Names | None,
    replica: str | None,
    like: MultiOutputData | None,
) -> Parts:
    """See `MultiOutputData.from_table`.

    >>> of_table(pd.DataFrame({"x": [5], "y": [1]}), "x", "y", None, None).outputs[0].name
    'y'
    """
    if like is None and targets is None:
        raise ValueError(
            "targets is missing: name the columns that hold the targets, or give like."
        )
    if targets is None:
        assert like is not None
        targets = [name for name in like.names if name in frame.columns]
        if not targets:
            raise ValueError(
                f"the table has no column {', '.join(map(repr, like.names))}; its columns are"
                f" {', '.join(map(repr, frame.columns))}."
            )
    wanted = _list_of(targets)
    check_columns(frame, [*wanted, *([replica] if replica else [])])
    X, columns = _frame_inputs(frame, inputs, like)
    known = None if like is None else [_known(like, str(name), 1) for name in wanted]
    read = read_targets(frame[wanted], "the table", known=known)
    labels = replica_labels(
        None if replica is None else frame[replica].to_numpy(), len(frame), f"column {replica!r}"
    )
    outputs = _one_each(read, [str(name) for name in wanted], labels)
    return Parts(X, outputs if like is None else _in_order(outputs, like), columns)


def of_long(
    frame: pd.DataFrame,
    inputs: Names | None,
    output: str,
    target: str,
    replica: str | None,
    like: MultiOutputData | None,
) -> Parts:
    """See `MultiOutputData.from_long`.

    >>> table = pd.DataFrame({"x": [5], "what": ["y"], "value": [1]})
    >>> of_long(table, "x", "what", "value", None, None).outputs[0].name
    'y'
    """
    check_columns(frame, [output, target, *([replica] if replica else [])])
    if len(frame) == 0:
        raise ValueError("the table has no rows.")
    unnamed = int(frame[output].isna().sum())
    if unnamed:
        raise ValueError(
            f"column {output!r} is empty in {unnamed} rows; every observation must name its output."
        )
    x, columns = _frame_inputs(frame, inputs, like)
    unique, where = np.unique(x, axis=0, return_inverse=True)
    where = where.reshape(-1)
    labels = replica_labels(
        None if replica is None else frame[replica].to_numpy(), len(frame), f"column {replica!r}"
    )
    codes, names = pd.factorize(frame[output])
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(names)))
    outputs = []
    values = frame[target]
    plain = isinstance(values.dtype, np.dtype) and values.dtype.kind in "iuf"
    whole = read_targets(values, f"column {target!r}") if plain else None
    for name, rows in zip(map(str, names), np.split(order, ends[:-1]), strict=True):
        known = None if like is None else [_known(like, name, 1)]
        if whole is None or (known is not None and known[0] is not None):
            own = values.iloc[rows]
            if isinstance(own.dtype, pd.CategoricalDtype):
                own = own.cat.remove_unused_categories()
            read = read_targets(own, f"column {target!r} of output {name!r}", known=known)
            Y, observed, classes = read.Y, read.observed[:, 0], read.classes[0]
        else:
            Y, observed, classes = whole.Y[rows], whole.observed[rows, 0], None
        kept = rows[observed]
        own_labels = None if labels is None else labels[kept]
        outputs.append(make_output(name, where[kept], Y[observed], None, own_labels, classes))
    return Parts(unique, outputs if like is None else _in_order(outputs, like), columns)


def output_names(names: Sequence[str] | None, targets: Targets) -> list[str]:
    """Names of outputs: as given, else those of the columns of a frame, else "output 0", ….

    Args:
        names: `D` names, or None.
        targets: of `D` columns.

    >>> output_names(None, read_targets([1.0, 2.0]))
    ['output 0']
    """
    if names is None and None not in targets.names:
        return [str(name) for name in targets.names]
    return _names(names, targets.Y.shape[1])


def check_columns(frame: pd.DataFrame, wanted: Sequence[str]) -> None:
    """Raise unless the table has the columns, and no two of the same name.

    Args:
        frame: the table.
        wanted: names of at least one column.

    >>> check_columns(pd.DataFrame({"x": [5]}), ["y"])
    Traceback (most recent call last):
    ValueError: the table has no column 'y'; its columns are 'x'.
    """
    if len(wanted) == 0:
        raise ValueError("no columns were named; name at least one.")
    if len(frame.columns) != len(set(frame.columns)):
        raise ValueError(
            f"columns of the table have the same name: {', '.join(map(repr, frame.columns))}."
        )
    missing = [c for c in wanted if c not in frame.columns]
    if missing:
        there = ", ".join(map(repr, frame.columns))
        raise ValueError(
            f"the table has no column {', '.join(map(repr, missing))}; its columns are {there}."
        )


def check_names(outputs: Sequence[Output]) -> None:
    """Raise if two outputs have the same name.

    Args:
        outputs: all of them.

    >>> check_names(of_arrays([5.0], [[1.0, 2.0]], ["a", "a"], None, None).outputs)
    Traceback (most recent call last):
    ValueError: output names must differ; given twice: 'a'.
    """
    times = Counter(o.name for o in outputs)
    twice = sorted(name for name, count in times.items() if count > 1)
    if twice:
        raise ValueError(f"output names must differ; given twice: {', '.join(map(repr, twice))}.")


def _one_each(targets: Targets, names: Sequence[str], replicas: Array | None) -> list[Output]:
    """An output for each column of targets."""
    outputs = []
    for d, name in enumerate(names):
        rows = np.flatnonzero(targets.observed[:, d])
        own = None if replicas is None else replicas[rows]
        Y = targets.Y[rows, d : d + 1]
        outputs.append(make_output(name, rows, Y, None, own, targets.classes[d]))
    return outputs


def _blocks(
    given: Sequence[Any], names: Sequence[str]
) -> tuple[list[Matrix], tuple[InputColumn, ...]]:
    """The inputs of each output, and the columns that all of them have.

    Inputs without rows say nothing about columns but how many there are.
    """
    read = [recognise_inputs(x, f"X of {name!r}") for x, name in zip(given, names, strict=True)]
    first = next((d for d, (x, _) in enumerate(read) if x.shape[0]), 0)
    common = list(read[first][1])
    if not common:
        _not_empty(read[first][0].shape, f"X of {names[first]!r}")
    blocks = []
    for name, (x, columns) in zip(names, read, strict=True):
        if x.shape[0] == 0 and (x.shape[1] == 1 or x.shape[1] == len(common)):
            blocks.append(read[first][0][:0])
            continue
        _alike(x, read[first][0], name, names[first])
        if x.shape[1] != len(common):
            raise ValueError(
                f"inputs of {name!r} have {x.shape[1]} columns, those of {names[first]!r} have"
                f" {len(common)}; all outputs live on one input space: give every output the same"
                " input columns."
            )
        own, known = [c.name for c in columns], [c.name for c in common]
        if None not in own and None not in known and sorted(own) == sorted(known):  # type: ignore[type-var]
            order = [own.index(name) for name in known]
            x, columns = x[:, order], tuple(columns[p] for p in order)
        if not columns_agree(columns, common):
            raise ValueError(
                f"inputs of {name!r} are {_described(columns)}, those of {names[first]!r} are"
                f" {_described(common)}; give every output the same input columns."
            )
        common = [replace(b, name=b.name or c.name) for b, c in zip(common, columns, strict=True)]
        blocks.append(x)
    return blocks, tuple(common)


def _alike(x: Matrix, other: Matrix, name: str, first: str) -> None:
    if is_sparse(x) != is_sparse(other):
        kinds = ["sparse" if is_sparse(one) else "dense" for one in (x, other)]
        raise ValueError(
            f"inputs of {name!r} are {kinds[0]}, those of {first!r} are {kinds[1]}; give all alike:"
            " make them dense with X.toarray(), or sparse with scipy.sparse.csr_array(X)."
        )


def _described(columns: Sequence[InputColumn]) -> str:
    return ", ".join(
        f"{name!r}{' (dates)' if column.date else ''}"
        for name, column in zip(column_names(columns), columns, strict=True)
    )


def _frame_inputs(
    frame: pd.DataFrame, inputs: Names | None, like: MultiOutputData | None
) -> tuple[Array, tuple[InputColumn, ...]]:
    """The input columns of a table, `[N, P]`, and what they are."""
    if inputs is None and like is None:
        raise ValueError("inputs is missing: name the columns that hold the inputs, or give like.")
    if like is None:
        assert inputs is not None
        wanted = _list_of(inputs)
        check_columns(frame, wanted)
        X, columns = recognise_inputs(frame[wanted], "the table")
    else:
        columns = like.columns
        wanted = list(like.input_names) if inputs is None else _list_of(inputs)
        named = None not in [c.name for c in columns]
        if named and sorted(map(str, wanted)) != sorted(like.input_names):
            raise ValueError(
                f"inputs={wanted}, but the inputs of like are"
                f" {', '.join(map(repr, like.input_names))}; leave inputs out."
            )
        check_columns(frame, wanted)
        X = read_inputs(frame if named else frame[wanted], columns, "the table")
    _not_empty(X.shape, "the table")
    return X, columns


def _known(like: MultiOutputData, name: str, columns: int) -> Classes:
    """Classes of the output of that name, which must be there."""
    if name not in like.names:
        raise ValueError(
            f"the table has the output {name!r}, like does not: its outputs are"
            f" {', '.join(map(repr, like.names))}."
        )
    wide = like[name].Y.shape[1]
    if wide != columns:
        raise ValueError(
            f"output {name!r} of like has {wide} target columns, the table has {columns}; use"
            " from_list."
        )
    return like[name].classes


def _in_order(outputs: Sequence[Output], like: MultiOutputData) -> list[Output]:
    """The outputs in the order of other data; those that are not there without rows."""
    check_names(outputs)
    here = {o.name: o for o in outputs}
    replica = None if all(o.replica is None for o in outputs) else np.empty(0, np.int64)
    return [
        here[o.name]
        if o.name in here
        else Output(o.name, o.rows[:0], o.Y[:0], o.observed[:0], replica, o.classes)
        for o in like.outputs
    ]


def _names(names: Sequence[str] | None, count: int) -> list[str]:
    if names is None:
        return [f"output {d}" for d in range(count)]
    if len(names) != count:
        raise ValueError(f"{len(names)} names for {count} outputs; give one name an output.")
    return [str(name) for name in names]


def _not_empty(shape: tuple[int, ...], name: str) -> None:
    if 0 in shape:
        raise ValueError(
            f"{name} is empty (shape {shape}); there must be at least one row and one column."
        )


def _same_length(a: int, b: int, first: str, second: str) -> None:
    if a != b:
        raise ValueError(
            f"{first} has {a} rows and {second} has {b}; they must have the same number."
        )


def _list_of(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
