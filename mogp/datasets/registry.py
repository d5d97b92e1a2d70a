"""The registry of data files, `data/registry.csv`: each file with its checksum, address, licence
and citation.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache

from mogp.project import data_folder


@dataclass(frozen=True)
class DataFile:
    """One row of the registry.

    Attributes:
        path: of the file in the cache and in a mirror.
        datasets: names of the data sets that are read from it.
        bytes: its size; 0 where nobody has told it.
        sha256: its checksum; empty where only `git_blob` or nothing is known.
        git_blob: the name git gives its content, a checksum too.
        url: where these exact bytes can be downloaded; empty where they cannot.
        package: the requirement of a Python package that carries them, or empty.
        shape: what parsing it must give.
        licence: of the data.
        citation: who to cite.
        used: the documents' experiments that use it.
        note: where it comes from, if not from `url`.
    """

    path: str
    datasets: tuple[str, ...]
    bytes: int = 0
    sha256: str = ""
    git_blob: str = ""
    url: str = ""
    package: str = ""
    shape: str = ""
    licence: str = ""
    citation: str = ""
    used: str = ""
    note: str = ""


@cache
def registry() -> dict[str, DataFile]:
    """Every registered file, by path."""
    with (data_folder() / "registry.csv").open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    return {
        row["path"]: DataFile(
            datasets=tuple(row.pop("datasets").split(";")), bytes=int(row.pop("bytes") or 0), **row
        )
        for row in rows
    }


def files(dataset: str) -> list[DataFile]:
    """The registered files of one data set."""
    return [file for file in registry().values() if dataset in file.datasets]
