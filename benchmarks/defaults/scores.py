"""How well targets were predicted, in their own units: the same numbers for every method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from defaults.tasks import Data, Kind, Split, Task
from mogp import LabelData, MultiOutputData

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Column:
    """One output as plain arrays, as those read it who know nothing of `MultiOutputData`.

    Attributes:
        name: of the output.
        kind: "real", "count" or "classes".
        classes: how many, 0 for numbers.
        X: `[N, P]` inputs to train on; a replica is one of further columns of zeros and ones.
        y: `[N]` targets to train on; annotations are summed up first, by majority or mean.
        X_test: `[n, P]` inputs to test with.
        y_test: `[n]` targets to test with.
        replicas: how many of the columns of `X`, the last ones, are replicas.
    """

    name: str
    kind: Kind
    classes: int
    X: Array
    y: Array
    X_test: Array
    y_test: Array
    replicas: int = 0


@dataclass(frozen=True)
class Prediction:
    """Of the test targets of one output.

    Attributes:
        log_density: `[n]` of the observed targets, noise included, in the units of the data.
        mean: `[n]`; for classes the number of the most probable one.
        lower, upper: `[n]` ends of the 95 % interval; None for classes.
    """

    log_density: Array
    mean: Array
    lower: Array | None = None
    upper: Array | None = None

    @classmethod
    def gaussian(cls, y: Array, mean: Array, sd: Array) -> Prediction:
        """Normal with these moments."""
        log_density = -0.5 * ((y - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
        return cls(log_density, mean, mean - 1.959964 * sd, mean + 1.959964 * sd)

    @classmethod
    def of_classes(cls, y: Array, p: Array) -> Prediction:
        """Classes with probabilities `p [n, C]`."""
        return cls(np.log(p[np.arange(len(y)), y.astype(int)]), p.argmax(axis=1).astype(float))


def columns(task: Task, split: Split) -> list[Column]:
    """Outputs that are tested, as plain arrays."""
    if isinstance(split.train, LabelData):
        X, X_test = (np.asarray(part.X) for part in (split.train, split.test))
        Y, Y_test = (part.Y.toarray().astype(float) for part in (split.train, split.test))
        return [Column(f"label {k}", "classes", 2, X, Y[:, k], X_test, Y_test[:, k]) for k in range(Y.shape[1])]
    found = []
    for name in split.test.names:
        own, kind = split.test[name], task.kind(name)
        if len(own) == 0:
            continue
        y = _summed_up(split.train, name, kind)
        classes = int(max(y.max(), own.Y.max())) + 1 if kind == "classes" else 0
        X, X_test = inputs_of(split.train, split.train, name), inputs_of(split.test, split.train, name)
        more = X.shape[1] - split.train.input_dim
        found.append(Column(name, kind, classes, X, y, X_test, own.Y[:, 0], more))
    return found


def inputs_of(data: MultiOutputData, train: MultiOutputData, name: str) -> Array:
    """Inputs of an output, with a column of zeros and ones for each replica of the training data."""
    X, replica = np.asarray(data.inputs(name)), data[name].replica
    if replica is None:
        return X
    there = np.unique(np.concatenate([o.replica for o in ([train[name]] if train.nested else train.outputs)]))
    return np.column_stack([X, replica[:, None] == there[None, :]]).astype(float)


def _summed_up(data: MultiOutputData, name: str, kind: Kind) -> Array:
    """Targets; of annotations the most frequent class (the smallest of several), or the mean."""
    own = data[name]
    if own.Y.shape[1] == 1:
        return own.Y[:, 0]
    told = np.where(own.observed, own.Y, np.nan)
    if kind != "classes":
        return np.nanmean(told, axis=1)
    votes = (told[:, :, None] == np.arange(np.nanmax(told) + 1)).sum(axis=1)
    return votes.argmax(axis=1).astype(float)


def score(wanted: Sequence[Column], predictions: Mapping[str, Prediction]) -> dict[str, float]:
    """NLPD a target, error, coverage of the 95 % interval, and how many targets.

    NLPD and coverage are means over all targets of all outputs. The error of an output is the mean squared error over
    the variance of the test targets, or the share of wrong classes; outputs count alike. Classes have no coverage.
    """
    density, errors, covered = [], [], []
    for column in wanted:
        y, found = column.y_test, predictions[column.name]
        if found.log_density.shape != y.shape or found.mean.shape != y.shape:
            raise ValueError(f"{column.name}: {found.log_density.shape}, {found.mean.shape} for {y.shape} targets.")
        density.append(found.log_density)
        if column.kind == "classes":
            errors.append(np.mean(found.mean != y))
            continue
        errors.append(np.mean((found.mean - y) ** 2) / max(np.var(y), 1e-300))
        if found.lower is not None and found.upper is not None:
            covered.append((found.lower <= y) & (y <= found.upper))
    return {
        "nlpd": float(-np.mean(np.concatenate(density))),
        "error": float(np.mean(errors)),
        "coverage": float(np.mean(np.concatenate(covered))) if covered else float("nan"),
        "targets": int(sum(len(d) for d in density)),
    }


def of_model(model: Any, task: Task, test: Data) -> dict[str, Prediction]:
    """What one of our models predicts."""
    if isinstance(test, LabelData):
        p, Y = np.asarray(model.predict_proba(test.X)), test.Y.toarray().astype(float)
        both = np.stack([1 - p, p], axis=2)
        return {f"label {k}": Prediction.of_classes(Y[:, k], both[:, k]) for k in range(Y.shape[1])}
    densities = {name: np.asarray(values) for name, values in model.predict_log_density(test).items()}
    names = [name for name, size in zip(test.names, test.sizes, strict=True) if size]
    numbers = [name for name in names if task.kind(name) != "classes"]
    table = model.predictions(test, quantiles=(0.025, 0.975)) if numbers else None
    found = {}
    for name in names:
        density = densities[name].reshape(len(test[name]))
        if name in numbers:
            own = table[table["output"] == name]
            np.testing.assert_allclose(own["observed"], test[name].Y[:, 0])
            moments = (own[column].to_numpy(float) for column in ("mean", "q0.025", "q0.975"))
            found[name] = Prediction(density, *moments)
        else:
            p = np.asarray(model.predict_y(test.inputs(name), name).mean)
            best = p.argmax(axis=1) if p.shape[1] > 1 else p[:, 0] > 0.5
            found[name] = Prediction(density, best.astype(float))
    return found
