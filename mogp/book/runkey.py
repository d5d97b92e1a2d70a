"""The run key of a chapter: everything its results depend on, as one hash for each kind of thing.

Two runs with equal keys give the same results. Kept apart, the hashes also say why a chapter must
run again.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mogp.book import ledger, provenance, records
from mogp.book.errors import CompanionError


def before_run(chapter: str, notebook: Any, parameters: Mapping[str, Any]) -> dict[str, str]:
    """The parts known before a run: code, parameters, package source, versions, recorded and
    published numbers.
    """
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    shown = [asdict(record) for record in records.larger(chapter, parameters["profile"])]
    return {
        "code": _hash(code),
        "parameters": _hash(parameters),
        "package": package_hash(),
        "versions": _hash(provenance.versions()),
        "records": _hash(shown),
        "published": _published_hash(),
    }


def after_run(
    data: Sequence[Mapping[str, Any]], artefacts: Iterable[str], claims: Iterable[str]
) -> dict[str, str]:
    """The parts a run reveals, as they stand now: the data it loaded and the rows of the ledger it
    showed.
    """
    rows: list[Any] = []
    try:
        rows += [asdict(ledger.artefact(identifier)) for identifier in sorted(artefacts)]
        rows += [asdict(ledger.claim(identifier)) for identifier in sorted(claims)]
    except CompanionError as gone:
        rows.append(str(gone))
    return {"data": _hash([_data_now(use) for use in data]), "ledger": _hash(rows)}


def why_run(then: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Which parts differ between two keys, in words; empty where none does."""
    return ", ".join(part for part in now if then.get(part) != now[part])


def package_hash() -> str:
    """The hash of the source of `mogp`."""
    return source_hash(Path(__file__).resolve().parents[1])


def source_hash(root: Path) -> str:
    """The hash of every Python file below `root`, names included."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _published_hash() -> str:
    """The hash of the tables that chapters read: those that the documents print, and recorded runs
    of peers.
    """
    tables = [
        path
        for kind in ("published", "peers")
        for path in sorted((ledger.ledger_folder() / kind).glob("*.csv"))
    ]
    return _hash([[path.name, hashlib.sha256(path.read_bytes()).hexdigest()] for path in tables])


def _data_now(use: Mapping[str, Any]) -> list[Any]:
    """A data set as a run would meet it now: checksums of its registered files, and which of them
    can be had.

    Numbers that were real stay valid while the registry names the same files. A stand-in is
    outdated as soon as another file it may be read from is on this machine. What is generated
    follows from the package source and the options.
    """
    files = [row for row in _registry() if use["name"] in row["datasets"].split(";")]
    here: list[str] = []
    if use["source"] == "stand-in" and files:
        from mogp.datasets import registry, store

        here = [file.path for file in registry.files(use["name"]) if store.find(file) is not None]
    return [
        use["name"],
        use["options"],
        use["source"],
        here,
        sorted(row["sha256"] + row["git_blob"] for row in files),
    ]


def _registry() -> list[dict[str, str]]:
    path = ledger.ledger_folder() / "registry.csv"
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
