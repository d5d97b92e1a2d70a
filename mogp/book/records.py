"""Recorded results: what a run measured, kept with the project.

`mogp run … --record` writes `data/results/<document>-<number>.<profile>.json` (verdicts, measured
values, provenance) and one CSV for each table beside it. Nothing else writes there. A chapter shows
recorded numbers of larger profiles beside its own, each labelled with the run it came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mogp import project
from mogp.book import ledger
from mogp.book.errors import CompanionError
from mogp.book.sources import slug
from mogp.files import read_json, write_atomically, write_json

if TYPE_CHECKING:
    import pandas as pd

_LARGEST_TABLE = 256 * 1024
_OF_CLAIM = ("holds", "measured", "note", "data")
_OF_RUN = (
    "chapter",
    "profile",
    "parameters",
    "seconds",
    "date",
    "machine",
    "versions",
    "data",
)


@dataclass(frozen=True)
class RunRecord:
    """One recorded run of a chapter.

    `claims` maps a claim's id to its `holds`, `measured`, `note` and `data`; `tables` maps a
    table's id to its CSV.
    """

    chapter: str
    profile: str
    parameters: Mapping[str, Any]
    seconds: float
    date: str
    machine: str
    versions: Mapping[str, str]
    data: tuple[Mapping[str, str], ...]
    claims: Mapping[str, Mapping[str, Any]]
    tables: Mapping[str, Path]

    @property
    def label(self) -> str:
        """The run in words: "recorded: long profile, 2026-11-16, 1804 s on Linux, 2 cores"."""
        return (
            f"recorded: {self.profile} profile, {self.date[:10]}, {self.seconds:.0f} s on"
            f" {self.machine}"
        )

    def table(self, identifier: str) -> pd.DataFrame:
        """A recorded table."""
        import pandas as pd

        if identifier not in self.tables:
            raise CompanionError(
                f"the {self.profile} record of {self.chapter} has tables {sorted(self.tables)}, not"
                f" {identifier!r}."
            )
        return pd.read_csv(self.tables[identifier])


def recorded(chapter: str) -> dict[str, RunRecord]:
    """The recorded runs of a chapter by profile, smallest first; empty where there is none."""
    found: dict[str, RunRecord] = {}
    for profile in ledger.PROFILES:
        path = results_folder() / f"{slug(chapter)}.{profile}.json"
        if (stored := read_json(path)) is not None:
            stored["tables"] = {
                identifier: path.parent / name for identifier, name in stored["tables"].items()
            }
            found[profile] = RunRecord(**{**stored, "data": tuple(stored["data"])})
    return found


def larger(chapter: str, profile: str) -> list[RunRecord]:
    """The recorded runs of a chapter at scales above `profile`."""
    above = ledger.PROFILES[ledger.PROFILES.index(profile) + 1 :]
    return [record for name, record in recorded(chapter).items() if name in above]


def write_record(result: Path) -> Path:
    """Keep the numbers of the finished run in the folder `result`; returns the JSON file."""
    run = read_json(result / "run.json")
    stem = f"{slug(run['chapter'])}.{run['profile']}"
    folder = project.book_root() / "data" / "results"
    tables = {}
    for table in sorted((result / "artefacts").glob("*.csv")):
        if table.stat().st_size > _LARGEST_TABLE:
            raise CompanionError(
                f"table {table.stem} has {table.stat().st_size} bytes; a record is kept with the"
                f" project and holds tables of at most {_LARGEST_TABLE}. Summarise it in the"
                " chapter."
            )
        tables[table.stem] = f"{stem}.{table.name}"
        write_atomically(folder / tables[table.stem], table.read_bytes())
    verdicts = [read_json(path) for path in sorted((result / "claims").glob("*.json"))]
    claims = {verdict["id"]: {name: verdict[name] for name in _OF_CLAIM} for verdict in verdicts}
    note = {name: run[name] for name in _OF_RUN}
    write_json(folder / f"{stem}.json", {**note, "claims": claims, "tables": tables})
    for stale in set(folder.glob(f"{stem}.*.csv")) - {folder / name for name in tables.values()}:
        stale.unlink()
    return folder / f"{stem}.json"


def results_folder() -> Path:
    """The folder of the recorded results: of the book, else of the installed package."""
    try:
        return project.book_root() / "data" / "results"
    except FileNotFoundError:
        return project.data_folder() / "results"
