"""The ledger of record: every figure, table and algorithm of the documents, and every claim they
make.

Two CSV files hold it, `data/artefacts.csv` and `data/claims.csv`. An artefact belongs to one
notebook (column `notebook`; the appendices of a thesis belong to the chapter they support). A claim
carries the rule that checks it.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from mogp import project
from mogp.book.errors import CompanionError, unknown

PROFILES = ("smoke", "quick", "long", "paper")
"""The scales at which a chapter runs, smallest first."""

_NEEDS_DATA = ("real-available", "download-only", "stand-in")


@dataclass(frozen=True)
class Artefact:
    """A row of `artefacts.csv`; `same_as` names artefacts of other documents that show the same
    thing.
    """

    id: str
    document: str
    kind: str
    number: str
    title: str
    chapter: str
    notebook: str
    experiment: str
    models: str
    data: str
    data_status: str
    same_as: str
    spec_ref: str
    impossible: str

    @property
    def label(self) -> str:
        """What the document calls it: "Figure 2.1 of ma"."""
        number = "" if self.kind == "finding" else f" {self.number.removeprefix('unnumbered ')}"
        return f"{self.kind.capitalize()}{number} of {self.document}"

    @property
    def needs_data(self) -> bool:
        """Whether it shows a data set that exists outside this project."""
        return self.data_status in _NEEDS_DATA

    @property
    def twins(self) -> tuple[str, ...]:
        """The ids in `same_as`."""
        return _split(self.same_as)


@dataclass(frozen=True)
class Claim:
    """A row of `claims.csv`; `check` is the rule, opened by the scale it applies to ("any: …",
    "quick: …").
    """

    id: str
    document: str
    artefacts: str
    claim: str
    kind: str
    published: str
    check: str
    spec_verdict: str
    note: str

    @property
    def about(self) -> tuple[str, ...]:
        """The ids of the artefacts it speaks of."""
        return _split(self.artefacts)

    @property
    def any_scale(self) -> bool:
        """Whether it can be decided at the smallest scale."""
        return self.check.startswith("any:")


def ledger_folder() -> Path:
    """The folder of the ledgers: `data/` of the book where it has them, otherwise of the installed
    package.
    """
    try:
        folder = project.book_root() / "data"
    except FileNotFoundError:
        return project.data_folder()
    return folder if (folder / "artefacts.csv").is_file() else project.data_folder()


def artefacts() -> Mapping[str, Artefact]:
    """Every artefact by id, in the order of the file."""
    return _read(ledger_folder() / "artefacts.csv", Artefact)


def claims() -> Mapping[str, Claim]:
    """Every claim by id, in the order of the file."""
    return _read(ledger_folder() / "claims.csv", Claim)


def artefact(identifier: str) -> Artefact:
    """The artefact with this id; an unknown id raises with the nearest ones."""
    return _look_up(artefacts(), identifier, "artefact", "data/artefacts.csv")


def claim(identifier: str) -> Claim:
    """The claim with this id; an unknown id raises with the nearest ones."""
    return _look_up(claims(), identifier, "claim", "data/claims.csv")


Row = TypeVar("Row", Artefact, Claim)


def _look_up(rows: Mapping[str, Row], identifier: str, what: str, file: str) -> Row:
    if identifier not in rows:
        raise unknown(
            what,
            identifier,
            rows,
            f"The ids are in {file}; a finding of our own is added there first.",
        )
    return rows[identifier]


@cache
def _read(path: Path, kind: type[Any]) -> Mapping[str, Any]:
    names = [field.name for field in fields(kind)]
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if list(reader.fieldnames or ()) != names:
            raise CompanionError(f"{path.name} has columns {reader.fieldnames}; expected {names}.")
        lines = list(reader)
    for number, line in enumerate(lines, 1):
        if None in line or None in line.values():
            raise CompanionError(
                f"{path.name}, row {number} ({line[names[0]]}) has not {len(names)} columns; quote"
                " cells with commas."
            )
    rows = [kind(**line) for line in lines]
    table = {row.id: row for row in rows}
    if len(table) != len(rows):
        seen = [row.id for row in rows]
        raise CompanionError(
            f"{path.name} has an id twice:"
            f" {', '.join(sorted({i for i in seen if seen.count(i) > 1}))}."
        )
    return table


def _split(value: str) -> tuple[str, ...]:
    return tuple(part for part in value.split(";") if part)
