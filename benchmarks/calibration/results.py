"""Rows of results: one for each simulated data set, one for each split of real data."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

FOLDER = Path(__file__).parent
SIMULATED, REAL = FOLDER / "simulated.csv", FOLDER / "why.csv"
FIELDS: dict[Path, tuple[str, ...]] = {
    SIMULATED: ("family", "number", "near", "away", "rise"),
    REAL: (
        *("data", "split", "model", "posterior", "nmse", "nlpd", "inside50", "inside80", "inside95", "targets"),
        *("ratio", "sd", "bound", "noise_sd", "lengthscale", "cpu_s"),
    ),
}


def append(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add rows, below a header if they are the first."""
    new = not file.exists()
    with file.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, FIELDS[_kind(file)], lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows({name: _short(value) for name, value in row.items()} for row in rows)


def read(file: Path) -> pd.DataFrame:
    """All rows; none if there is no file."""
    return pd.read_csv(file) if file.exists() else pd.DataFrame(columns=list(FIELDS[_kind(file)]))


def _kind(file: Path) -> Path:
    """The file whose columns these are: a file elsewhere has those of its name."""
    return FOLDER / file.name


def _short(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value
