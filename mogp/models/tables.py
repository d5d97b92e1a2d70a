"""Predictions as data frames: for `MOGP.predict` and `MOGP.predictions`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import gpflow
import numpy as np
import numpy.typing as npt
import pandas as pd
import tensorflow as tf

from mogp.data import Array, InputColumn, LabelData, MultiOutputData, column_names
from mogp.data.batches import gather_rows
from mogp.data.inputs import give_back
from mogp.errors import UnsupportedError
from mogp.models.naming import listed

if TYPE_CHECKING:
    from mogp.models.base import MOGP
    from mogp.models.given import Predictor

_ROWS_AT_ONCE = 8192
_NUMBERS_AT_ONCE = 1 << 20
_MOST_COLUMNS = 20
_MOST_ROWS = 20_000_000
_MOST_UNUSED = 10
_target_counts: WeakKeyDictionary[MOGP, dict[int, int]] = WeakKeyDictionary()


class Spread(NamedTuple):
    """How quantiles are found: which, from how many draws, with which seed."""

    quantiles: Sequence[float]
    samples: int
    seed: int


def target_count(model: MOGP, output: int) -> int:
    """How many columns `predict_y` has for an output; found by a prediction at no rows, once.

    Args:
        model: that predicts.
        output: which.
    """
    known = _target_counts.setdefault(model, {})
    if output not in known:
        nothing = tf.zeros([0, model.input_dim + model.has_replicas], gpflow.default_float())
        count = int(model._predict_y(nothing, [output]).mean.shape[-1])
        known |= dict.fromkeys(model._counted_with(output), count)
    return known[output]


def predicted(
    model: MOGP,
    X: tf.Tensor,
    shown: tf.Tensor,
    outputs: Sequence[int],
    rows: Any,
    spread: Spread,
    told: Predictor | None = None,
) -> pd.DataFrame:
    """The table of `MOGP.predict`.

    Args:
        model: that predicts.
        X: inputs as its kernels read them.
        shown: the same as the user gave them.
        outputs: which.
        rows: labels of the rows; 0, 1, … if None.
        spread: of the quantiles.
        told: what predicts in place of the model, for all these rows at once.
    """
    _check_quantiles(spread.quantiles)
    parts = []
    told = model if told is None else told
    size = _ROWS_AT_ONCE if told is model else max(X.shape[0], 1)
    targets = {d: model.targets(d) for d in outputs}
    _check_size(X.shape[0] * sum(map(len, targets.values())))
    for start in range(0, max(X.shape[0], 1), size):
        block = _rows(X, start, size)
        where = np.arange(start, start + block.shape[0])
        labels = where if rows is None else rows[where]
        inputs = _inputs(model, block, _rows(shown, start, size))
        for d in outputs:
            found = model._y_units(told._predict_y(block, [d]), [d])
            mean, var = (np.asarray(a) for a in found)
            values = {"mean": mean, "sd": np.sqrt(var)}
            if spread.quantiles:
                draws = told._draw_y_apart(block, d, spread.samples, spread.seed + start)
                values |= _quantiles(model._y_draws(draws, [d]), mean.shape[-1], spread)
            parts.append(_part(model, d, labels, inputs, targets[d], values))
    return pd.concat(parts, ignore_index=True)


def compared(model: MOGP, data: MultiOutputData | LabelData, spread: Spread) -> pd.DataFrame:
    """The table of `MOGP.predictions`.

    Args:
        model: that predicts.
        data: aligned with it.
        spread: of the quantiles.
    """
    _check_quantiles(spread.quantiles)
    shown, rows = model.observed_at(data)
    X = model.scaled_inputs(shown)
    outputs = [d for d in model.reported if len(rows[d])]
    everywhere = None
    if isinstance(data, MultiOutputData) and X.shape[0] <= min(
        _MOST_UNUSED * max(map(len, rows)), _ROWS_AT_ONCE
    ):
        # Outputs that share inputs share the work on them.
        together = model._y_units(model._predict_y(X, outputs), outputs)
        sizes = np.cumsum([len(model.targets(d)) for d in outputs])[:-1]
        everywhere = [np.split(np.asarray(a), sizes, axis=1) for a in together]
    parts = []
    for i, d in enumerate(outputs):
        targets = model.targets(d)
        observed, known = _observed(data, d, targets)
        here = [] if everywhere is None else [a[i][rows[d]] for a in everywhere]
        blocks = list(_blocks(len(rows[d])))
        for block in blocks:
            at = gather_rows(X, rows[d][block])
            found = [a[block] for a in here] or model._y_units(model._predict_y(at, [d]), [d])
            mean, var = (np.asarray(a) for a in found)
            values = {"observed": observed[block], "mean": mean, "sd": np.sqrt(var)}
            if spread.quantiles:
                draws = model._draw_y_apart(at, d, spread.samples, spread.seed + block.start)
                values |= _quantiles(model._y_draws(draws, [d]), len(targets), spread)
            inputs = _inputs(model, at, gather_rows(shown, rows[d][block]))
            part = _part(model, d, rows[d][block], inputs, targets, values)
            parts.append(part[known[block].reshape(-1)])
    return (
        pd.concat(parts, ignore_index=True)
        if parts
        else predicted(model, X[:0], X[:0], model.reported, None, spread).assign(observed=0.0)
    )


def most_probable(model: MOGP, X: tf.Tensor, output: int) -> npt.NDArray[np.int64]:
    """Number of the most probable class at each row, `[N]`.

    Args:
        model: that predicts.
        X: inputs as its kernels read them.
        output: which.
    """
    count = len(model.targets(output))
    if count < 2:
        raise ValueError(
            f"output {model.names[output]!r} has no classes: its predictions have one column; use"
            " predict_y."
        )
    size = max(1, min(_ROWS_AT_ONCE, _NUMBERS_AT_ONCE // count))
    blocks = [_rows(X, start, size) for start in range(0, X.shape[0], size)]
    picked = [np.argmax(model._predict_y(block, [output])[0], axis=-1) for block in blocks]
    return np.concatenate([np.empty(0, np.int64), *picked])


def described(model: MOGP) -> str:
    """What a model is of and made of, a line each: for `print(model)`.

    Args:
        model: any.
    """
    schema = model.schema
    columns = f": {listed(schema.input_names)}" if schema.columns else ""
    choices = model.choices()
    said = {
        "outputs": f"{len(model.names)}: {listed(model.names)}",
        "inputs": f"{model.input_dim}{columns}",
        **choices,
        "units": "; ".join([_units(model), *[choices[k] for k in ("units",) if k in choices]]),
    }
    lines = [f"  {what:<12}{value}" for what, value in said.items()]
    return "\n".join([type(model).__name__, *lines])


def _units(model: MOGP) -> str:
    scaling = model.scaling
    if scaling is None:
        return "those of the data"
    inputs = bool(scaling.centre.any() or (scaling.width != 1).any())
    targets = int(np.sum((scaling.location != 0) | (scaling.scale != 1)))
    parts = ["inputs"] * inputs + [f"targets of {targets} outputs"] * bool(targets)
    said = " and ".join(parts) or "nothing"
    return f"those of the data; inside, {said} scaled to mean 0 and sd 1"


def _part(
    model: MOGP,
    output: int,
    rows: Any,
    inputs: dict[str, Array],
    targets: Sequence[Any],
    values: dict[str, Array],
) -> pd.DataFrame:
    """Rows of a table for one output: each row of inputs as often as there are targets."""
    T = len(targets)
    table = {
        "row": np.repeat(np.asarray(rows), T),
        **{name: np.repeat(column, T) for name, column in inputs.items()},
        "output": model.names[output],
        "target": np.tile(
            np.array(targets, object if isinstance(targets[0], str) else int), len(rows)
        ),
        **{name: np.asarray(column).reshape(-1) for name, column in values.items()},
    }
    return pd.DataFrame(table)


def _inputs(model: MOGP, X: tf.Tensor, shown: tf.Tensor) -> dict[str, Array]:
    """Input columns as the user gave them, under names that no other column of the table has."""
    columns = model.schema.columns or (InputColumn(),) * model.input_dim
    replica = {"replica": np.asarray(X[:, -1]).astype(int)} if model.has_replicas else {}
    if len(columns) > _MOST_COLUMNS or isinstance(X, tf.SparseTensor):
        return replica
    taken = {"row", "replica", "output", "target", "observed", "mean", "sd"}
    values = np.asarray(shown)
    found = {
        f"input {name}" if name in taken else name: give_back(values[:, p], column)
        for p, (name, column) in enumerate(zip(column_names(columns), columns, strict=True))
    }
    return {**replica, **found}


def _quantiles(draws: tf.Tensor, targets: int, spread: Spread) -> dict[str, Array]:
    """Quantiles of draws `[S, N, T]` of the targets of one output."""
    values = np.asarray(draws)
    if values.shape[-1] != targets:
        # Class labels as indicators, where the predictive mean has a column a class.
        values = (values == np.arange(targets)).astype(float)
    found = np.quantile(values, spread.quantiles, axis=0)
    return {f"q{q:g}": each for q, each in zip(spread.quantiles, found, strict=True)}


def _observed(
    data: MultiOutputData | LabelData, output: int, targets: Sequence[Any]
) -> tuple[Array, Array]:
    """Targets `[N_d, T]` in the units of predictions, and which of them were observed."""
    T = len(targets)
    if isinstance(data, LabelData):
        return data.Y.toarray().astype(float), np.ones(data.Y.shape, bool)
    own = data.outputs[output]
    if own.Y.shape[1] == T:
        return own.Y, own.observed
    if own.Y.shape[1] != 1:
        raise UnsupportedError(
            f"output {own.name!r} of the data has {own.Y.shape[1]} columns, its predictions {T}:"
            " they cannot stand side by side. Give data of what is predicted (the truth, in place"
            " of annotations)."
        )
    return (np.arange(T) == own.Y).astype(float), np.repeat(own.observed, T, axis=1)


def _check_quantiles(quantiles: Sequence[float]) -> None:
    if any(not 0 < q < 1 for q in quantiles):
        raise ValueError(f"quantiles lie strictly between 0 and 1, got {list(quantiles)}.")


def _check_size(rows: int) -> None:
    if rows > _MOST_ROWS:
        raise UnsupportedError(
            f"the table would have {rows} rows. For labels use top_labels, which has the best of"
            " each point; else predict in parts, or use predict_y."
        )


def _blocks(rows: int) -> Iterator[slice]:
    return (
        slice(start, min(start + _ROWS_AT_ONCE, rows)) for start in range(0, rows, _ROWS_AT_ONCE)
    )


def _rows(X: tf.Tensor | tf.SparseTensor, start: int, count: int) -> tf.Tensor | tf.SparseTensor:
    """Rows `start`, …, at most `count` of them."""
    if isinstance(X, tf.SparseTensor):
        return tf.sparse.slice(X, [start, 0], [count, X.shape[1]])
    return X[start : start + count]
