"""`Entry`: how a data set of the catalogue comes to be."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mogp.datasets.dataset import Dataset
from mogp.datasets.store import DataUnavailableError


@dataclass(frozen=True)
class Entry:
    """How a data set comes to be.

    `load` gives the real or the generated data, `standin` what replaces real ones. `private` says
    of data that nobody can get why that is, and names the nearest real data.
    """

    load: Callable[..., Dataset]
    standin: Callable[..., Dataset] | None = None
    private: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """The keywords `load` takes, with their defaults."""
        return {
            name: parameter.default
            for name, parameter in inspect.signature(self.load).parameters.items()
        }

    @property
    def summary(self) -> str:
        """The first paragraph of the loader's documentation, on one line."""
        return " ".join((inspect.getdoc(self.load) or "").partition("\n\n")[0].split())


def unavailable(name: str, why: str) -> DataUnavailableError:
    """The error of a data set that nobody can get."""
    return DataUnavailableError(
        f'the data of {name!r} cannot be had: {why}. Load with stand_in="allow" to go on with a'
        " synthetic stand-in."
    )
