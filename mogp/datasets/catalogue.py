"""The catalogue: every data set by name, how it is loaded and, where the data may be out of reach,
its stand-in.
"""

from __future__ import annotations

import difflib
import warnings
from typing import Any, Literal

from mogp.datasets import (
    annotated_toys,
    annotators,
    bike,
    chains,
    crowds,
    eeg,
    exchange,
    genes,
    heterogeneous,
    hierarchies,
    indoors,
    landmine,
    london,
    many_classes,
    many_labels,
    mnist,
    mobility,
    mocap,
    motor,
    occupancy,
    omniglot,
    rings,
    toys,
    traffic,
    uci,
)
from mogp.datasets.dataset import Dataset
from mogp.datasets.entry import Entry
from mogp.datasets.store import DataUnavailableError

StandIn = Literal["forbid", "allow", "only"]
"""What to do about a stand-in: never use it, use it where the data cannot be had, use nothing else.
"""

MODULES = (
    toys,
    many_classes,
    indoors,
    omniglot,
    genes,
    mocap,
    hierarchies,
    motor,
    uci,
    bike,
    heterogeneous,
    traffic,
    occupancy,
    london,
    annotated_toys,
    annotators,
    crowds,
    mobility,
    rings,
    mnist,
    many_labels,
    chains,
    eeg,
    exchange,
    landmine,
)
"""Modules with `ENTRIES`, data sets by name, and, where those have files, `SHAPES`: what reads each
of them.
"""

CATALOGUE: dict[str, Entry] = {
    name: entry for module in MODULES for name, entry in module.ENTRIES.items()
}


class StandInWarning(UserWarning):
    """Synthetic data were given in place of real ones."""


def names() -> tuple[str, ...]:
    """The names `load` knows."""
    return tuple(CATALOGUE)


def load(name: str, stand_in: StandIn = "forbid", **options: Any) -> Dataset:
    """The data set called `name`.

    A real data set is looked for in the cache, in the mirror, in installed packages and on the
    network, in this order. If it is nowhere, `DataUnavailableError` says what to run; with
    `stand_in="allow"` you get synthetic data of the same shape instead, marked `source="stand-in"`,
    and a `StandInWarning` says why. With `stand_in="only"` you get those even where the real ones
    are at hand, to try a notebook without them. Options are those of the data set's loader.

    >>> load("giraldo-toy", variant="T2", N=100).outputs[3:]
    ('Gamma', 'Exponential')
    """
    entry = find(name)
    if stand_in not in ("forbid", "allow", "only"):
        raise ValueError(f'stand_in={stand_in!r}; expected "forbid", "allow" or "only".')
    unknown = sorted(set(options) - set(entry.options))
    if unknown:
        takes = (
            ", ".join(f"{option}={default!r}" for option, default in entry.options.items())
            or "no options"
        )
        raise TypeError(
            f"data set {name!r} has no option {', '.join(map(repr, unknown))}; it takes {takes}."
        )
    if stand_in == "only" and entry.standin is not None:
        return entry.standin(**options)
    try:
        return entry.load(**options)
    except DataUnavailableError as problem:
        if stand_in == "forbid" or entry.standin is None:
            raise
        warnings.warn(
            f"{name}: a synthetic stand-in is used. {problem}", StandInWarning, stacklevel=2
        )
        return entry.standin(**options)


def find(name: str) -> Entry:
    """The catalogue's entry; an unknown name is met with those that look like it."""
    if name not in CATALOGUE:
        close = difflib.get_close_matches(name, CATALOGUE, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(map(repr, close))}? " if close else ""
        raise ValueError(f"no data set {name!r}. {hint}There are: {', '.join(CATALOGUE)}.")
    return CATALOGUE[name]
