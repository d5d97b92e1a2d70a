"""What the last good run of each chapter left in the build folder.

`<build>/chapters/<document>-<number>/` holds `notebook.ipynb` (executed), `run.json` (key,
parameters, data, versions, seconds), `artefacts/` and `claims/`. A run replaces the whole folder at
once, so what is read here is from one run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mogp.book.sources import slug
from mogp.files import read_json


def result_folder(build: Path, chapter: str) -> Path:
    """Where the last good run of a chapter is."""
    return build / "chapters" / slug(chapter)


def run_note(build: Path, chapter: str) -> dict[str, Any] | None:
    """The `run.json` of a chapter's last good run; None where it was never run."""
    note: dict[str, Any] | None = read_json(result_folder(build, chapter) / "run.json")
    return note


def produced(build: Path) -> Iterator[dict[str, Any]]:
    """The provenance of every artefact in the build."""
    yield from _notes(build, "artefacts")


def verdicts(build: Path) -> Iterator[dict[str, Any]]:
    """Every verdict in the build."""
    yield from _notes(build, "claims")


def _notes(build: Path, kind: str) -> Iterator[dict[str, Any]]:
    for path in sorted((build / "chapters").glob(f"[!.]*/{kind}/*.json")):
        yield read_json(path)
