"""The catalogue: every data set by name, how it is loaded and, where the data may be out of reach, its stand-in."""

from __future__ import annotations

import difflib
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mogp.datasets import motor, toys
from mogp.datasets.dataset import Dataset
from mogp.datasets.store import DataUnavailableError

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """How a data set comes to be: `load` gives the real or the generated data, `standin` what replaces them."""

    load: Callable[..., Dataset]
    standin: Callable[..., Dataset] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The keywords `load` takes, with their defaults."""
        return {name: parameter.default for name, parameter in inspect.signature(self.load).parameters.items()}

    @property
    def summary(self) -> str:
        """The first line of the loader's documentation."""
        return (inspect.getdoc(self.load) or "").partition("\n")[0]


CATALOGUE: dict[str, Entry] = {
    "motor": Entry(motor.motor, standin=motor.motor_standin),
    "toy-gp-1d": Entry(toys.toy_gp_1d),
    "panos-toy-1d": Entry(toys.panos_toy_1d),
    "xia-seven-points": Entry(toys.xia_seven_points),
    "giraldo-toy": Entry(toys.giraldo_toy),
}


def names() -> tuple[str, ...]:
    """The names `load` knows."""
    return tuple(CATALOGUE)


def load(name: str, allow_standin: bool = False, **options: Any) -> Dataset:
    """The data set called `name`.

    A real data set is looked for in the cache, in the mirror, in installed packages and on the network, in this order.
    If it is nowhere, `DataUnavailableError` says what to run; with `allow_standin` a data set that has a stand-in gives
    that instead, marked `source="stand-in"`.

    >>> load("giraldo-toy", variant="T2", N=100).outputs[3:]
    ('Gamma', 'Exponential')
    """
    entry = find(name)
    unknown = sorted(set(options) - set(entry.options))
    if unknown:
        takes = ", ".join(f"{option}={default!r}" for option, default in entry.options.items()) or "no options"
        raise TypeError(f"data set {name!r} has no option {', '.join(map(repr, unknown))}; it takes {takes}.")
    try:
        return entry.load(**options)
    except DataUnavailableError as problem:
        if not allow_standin or entry.standin is None:
            raise
        _log.info("using the synthetic stand-in for %r: %s", name, problem)
        return entry.standin(**options)


def find(name: str) -> Entry:
    """The catalogue's entry; an unknown name is met with those that look like it."""
    if name not in CATALOGUE:
        close = difflib.get_close_matches(name, CATALOGUE, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(map(repr, close))}? " if close else ""
        raise ValueError(f"no data set {name!r}. {hint}There are: {', '.join(CATALOGUE)}.")
    return CATALOGUE[name]
