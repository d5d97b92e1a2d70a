"""Landmine detection: radar features of 29 fields, each a classification task of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.dataset import Dataset, Source
from mogp.datasets.draws import rounded
from mogp.datasets.entry import Entry
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.matlab import read_mat
from mogp.datasets.making import made
from mogp.datasets.store import path_of

Floats = NDArray[np.float64]
Task = tuple[Floats, Floats]
"""Features [N, 9] and labels [N] of a field."""

FILE = "landmine/LandmineData.mat"
TASKS, FEATURES = 29, 9


def landmine(*, tasks: Sequence[int] = range(1, 11), standardise: bool = True) -> Dataset:
    """Mine or clutter from nine radar features in 29 fields, 14820 points (Duke University); the
    first ten by default.

    Args:
        tasks: the fields, from 1 to 29; 1 to 10 are foliated, as used by Xia (figure 4.15).
        standardise: the features, over all points of the chosen fields, to zero mean and unit
            standard deviation: the specification's choice, the author used them as they are.
            `extras` holds the `mean` and `sd` that undo it.
    """
    return _dataset("real", read_fields(path_of(FILE)), tasks, standardise)


def landmine_standin(*, tasks: Sequence[int] = range(1, 11), standardise: bool = True) -> Dataset:
    """Synthetic fields of the same sizes and imbalance: mines shift the features, otherwise in
    fields 16 to 29.
    """
    rng = np.random.default_rng(2007)
    fields = [_field(n, mines, number > 15, rng) for number, (n, mines) in enumerate(SIZES, 1)]
    return _dataset("stand-in", fields, tasks, standardise)


def read_fields(path: Path) -> list[Task]:
    """Features and labels of the 29 fields."""
    cells = read_mat(path, ("feature", "label"))
    fields = list(zip(cells["feature"].ravel(), cells["label"].ravel(), strict=False))
    if len(fields) != TASKS or cells["feature"].size != cells["label"].size:
        raise DataFormatError(path, f"holds {len(fields)} fields; expected {TASKS}")
    for number, (X, y) in enumerate(fields, 1):
        if np.ndim(X) != 2 or X.shape[1:] != (FEATURES,) or y.shape != (len(X), 1):
            raise DataFormatError(
                path, f"field {number} has features {X.shape} and labels {y.shape}"
            )
        if not (np.isin(y, (0, 1)).all() and np.isfinite(X).all()):
            raise DataFormatError(
                path,
                f"field {number} has labels other than 0 and 1, or features that are not finite",
            )
    return [(X.astype(float), y[:, 0].astype(float)) for X, y in fields]


def _dataset(
    source: Source, fields: list[Task], tasks: Sequence[int], standardise: bool
) -> Dataset:
    chosen = tuple(tasks)
    if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(range(1, TASKS + 1)):
        raise ValueError(f"tasks={chosen}; choose different ones of 1 to {TASKS}.")
    picked = [fields[task - 1] for task in chosen]
    X = np.vstack([X for X, _ in picked])
    mean, sd = (
        (X.mean(axis=0), X.std(axis=0)) if standardise else (np.zeros(FEATURES), np.ones(FEATURES))
    )
    outputs = tuple(f"task {task}" for task in chosen)
    return made(
        "landmine",
        source,
        f"mine or clutter from nine radar features, {len(X)} points in {len(chosen)} fields",
        X=(X - mean) / sd,
        Y=np.concatenate([y for _, y in picked])[:, None],
        inputs=tuple(f"feature {p + 1}" for p in range(FEATURES)),
        outputs=outputs,
        likelihoods=("Bernoulli",),
        output=np.repeat(np.arange(len(chosen)), [len(y) for _, y in picked]),
        classes=dict.fromkeys(outputs, ("clutter", "mine")),
        extras={"mean": mean, "sd": sd},
    )


SIZES = (
    *((690, 40), (690, 48), (689, 39), (508, 19), (509, 22), (509, 29)),
    *((510, 29), (511, 26), (508, 31), (509, 15), (689, 38), (688, 35)),
    *((508, 27), (510, 31), (507, 17), (445, 32), (449, 27), (448, 31)),
    *((449, 30), (449, 37), (451, 33), (454, 39), (447, 17), (449, 41)),
    *((445, 31), (448, 36), (448, 36), (454, 26), (449, 42)),
)
"""Points and mines of the 29 fields."""


def _field(n: int, mines: int, bare: bool, rng: np.random.Generator) -> Task:
    y = rng.permutation(np.repeat([1.0, 0.0], [mines, n - mines]))
    shared = rng.standard_normal((n, 1))
    shift = np.linspace(-0.1, 0.6, FEATURES) if bare else np.linspace(0.9, -0.2, FEATURES)
    shift = shift + 0.2 * rng.standard_normal(FEATURES)
    X: Floats = 0.6 * shared + 0.8 * rng.standard_normal((n, FEATURES)) + y[:, None] * shift
    return rounded(X), y


ENTRIES = {"landmine": Entry(landmine, standin=landmine_standin)}


def _shape(path: Path) -> str:
    fields = read_fields(path)
    rows, mines = sum(len(y) for _, y in fields), sum(int(y.sum()) for _, y in fields)
    first = [len(y) for _, y in fields[:10]]
    return (
        f"{len(fields)} tasks, {rows} rows x {FEATURES} features; tasks 1-10 n={first}; positives"
        f" {mines}"
    )


SHAPES: dict[str, Callable[[Path], str]] = {FILE: _shape}
