"""The registry of data files, `data/registry.csv`: each file with its checksum, address, licence and citation."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache

from mogp.project import data_folder


@dataclass(frozen=True)
class DataFile:
    """One row of the registry.

    `path` is relative to the cache and to a mirror. `url` is empty for a file that cannot be downloaded with these
    exact bytes; `package` is the requirement of an installed package that carries the data, or empty.
    """

    path: str
    dataset: str
    bytes: int
    sha256: str
    url: str = ""
    package: str = ""
    licence: str = ""
    citation: str = ""
    note: str = ""


@cache
def registry() -> dict[str, DataFile]:
    """Every registered file, by path."""
    with (data_folder() / "registry.csv").open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    return {row["path"]: DataFile(bytes=int(row.pop("bytes")), **row) for row in rows}


def files(dataset: str) -> list[DataFile]:
    """The registered files of one data set."""
    return [file for file in registry().values() if file.dataset == dataset]
