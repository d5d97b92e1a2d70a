"""Where a number came from: data, versions, machine and time."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Protocol

_DISTRIBUTIONS = {
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "gpflow": ("gpflow",),
    "mogp": ("mogp-companion",),
    "tensorflow-probability": ("tensorflow-probability",),
    "numpy": ("numpy",),
    "scipy": ("scipy",),
    "pandas": ("pandas",),
    "scikit-learn": ("scikit-learn",),
    "matplotlib": ("matplotlib",),
}


class HasSource(Protocol):
    """What a data set must tell of itself."""

    @property
    def name(self) -> str:
        """Its name in the registry."""

    @property
    def source(self) -> str:
        """`real`, `stand-in` or `synthetic`."""

    @property
    def digest(self) -> str:
        """SHA-256 of its numbers."""


@dataclasses.dataclass(frozen=True)
class DataUse:
    """A data set as a chapter used it; `sha256` is of the numbers that were loaded."""

    name: str
    source: str
    sha256: str
    instead_of: str = ""

    @property
    def note(self) -> dict[str, str]:
        """Its fields, without those that say nothing."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value}

    @property
    def in_words(self) -> str:
        """For a reader: "motor", "a synthetic stand-in for motor", "bike in place of city",
        "toy-gp-1d (synthetic)".
        """
        if self.instead_of:
            return f"{self.name} in place of {self.instead_of}"
        return {"real": self.name, "stand-in": f"a synthetic stand-in for {self.name}"}.get(
            self.source, f"{self.name} ({self.source})"
        )


def data_use(dataset: HasSource) -> DataUse:
    """What is remembered of a loaded data set."""
    return DataUse(dataset.name, dataset.source, dataset.digest, getattr(dataset, "instead_of", ""))


@cache
def versions() -> Mapping[str, str]:
    """Versions of Python and of the packages that results depend on, read without importing
    them.
    """
    found = {"python": platform.python_version()}
    for name, distributions in _DISTRIBUTIONS.items():
        for distribution in distributions:
            try:
                found[name] = version(distribution)
                break
            except PackageNotFoundError:
                continue
    return found


def machine() -> str:
    """The kind of machine, without its name: "Linux x86_64, 2 cores"."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def describe(uses: Iterable[DataUse]) -> str:
    """Data sets in words, joined."""
    return "; ".join(use.in_words for use in uses)
