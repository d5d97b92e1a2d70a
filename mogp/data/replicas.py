"""Replicas: labels become numbers, and numbers of nested replicas are told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from mogp.data.outputs import Output

Array = npt.NDArray[Any]
Numbers = TypeVar("Numbers")


def replica_numbers(replica: Numbers, output: Any, outputs: int, nested: bool) -> Numbers:
    """Replica numbers that say by themselves which replica is meant.

    Crossed replicas keep their numbers: the same number is the same replica in every output. Nested
    ones are told apart: replica `r` of output `d` of `D` gets `r * D + d`.

    Args:
        replica: `[N]` numbers, an array or a tensor (or one number).
        output: number of the output that they are of, or `[N]` of them.
        outputs: number of outputs, `D`.
        nested: whether replicas are nested in outputs.

    >>> replica_numbers(np.array([0, 1, 2]), 1, outputs=2, nested=True)
    array([1, 3, 5])
    >>> replica_numbers(np.array([0, 1, 2]), 1, outputs=2, nested=False)
    array([0, 1, 2])
    """
    return replica * outputs + output if nested else replica  # type: ignore[operator]


def replica_labels(replica: npt.ArrayLike | None, rows: int, name: str) -> Array | None:
    """Labels `[N]` of any kind, checked: one a row, none missing, none infinite.

    Args:
        replica: the labels, or None.
        rows: `N`.
        name: how errors call them.

    >>> replica_labels([7, 9], 2, "replica")
    array([7, 9])
    """
    if replica is None:
        return None
    values = np.asarray(replica)
    if values.shape != (rows,):
        raise ValueError(
            f"{name} has shape {values.shape}; expected one replica number a row, ({rows},)."
        )
    missing = int(pd.isna(values).sum())
    if missing:
        raise ValueError(
            f"{name} is missing in {missing} rows; give every row a replica number, or leave"
            " replica out."
        )
    labels: Array = np.asarray(values.tolist())
    if labels.dtype.kind == "f" and np.isinf(labels).any():
        raise ValueError(
            f"{name} is infinite, first at row {int(np.argmax(np.isinf(labels)))}; expected numbers"
            " 0, 1, … or labels."
        )
    return labels if len(labels) else np.empty(0, np.int64)


def numbered(outputs: Sequence[Output], nested: bool) -> tuple[Output, ...]:
    """Replica labels as numbers: whole numbers as they are, others by their place among the labels
    of all outputs (of the output, if they are nested).

    Args:
        outputs: with labels `[N_d]` as replicas.
        nested: whether replicas are nested in outputs.

    >>> one = np.ones((2, 1))
    >>> own = Output("a", np.arange(2), one, one > 0, replica=np.array(["q", "p"]))
    >>> numbered([own], nested=False)[0].replica
    array([1, 0])
    """
    labels = [o.replica for o in outputs if o.replica is not None and len(o)]
    if not labels:
        return tuple(
            o if o.replica is None else replace(o, replica=np.empty(0, np.int64)) for o in outputs
        )
    every = np.concatenate(labels)
    whole = every.dtype.kind in "biuf" and bool(
        np.all((every >= 0) & (every < 2.0**53) & (every == np.floor(every.astype(float))))
    )
    together = np.unique(every)

    def numbers(own: Array) -> Array:
        if whole or not len(own):
            return own.astype(np.int64) if len(own) else np.empty(0, np.int64)
        own = own.astype(every.dtype)
        return np.searchsorted(np.unique(own) if nested else together, own).astype(np.int64)

    return tuple(
        o if o.replica is None else replace(o, replica=numbers(o.replica)) for o in outputs
    )
