"""The reproduction report: which artefacts were regenerated, and which claims hold.

It joins the ledger of record with what the last good run of each chapter left in the build folder
and, where that is silent, with the recorded results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mogp.book import ledger, provenance, records, results
from mogp.book.display import verdict_word
from mogp.book.provenance import DataUse
from mogp.book.sources import chapters

if TYPE_CHECKING:
    import pandas as pd

STATUSES = ("regenerated", "partly regenerated", "stand-in", "not yet", "impossible")
VERDICTS = ("holds", "does not hold", "not checked", "needs download")


@dataclass(frozen=True)
class ArtefactStatus:
    """How far an artefact has been reproduced; `status` is one of `STATUSES`."""

    id: str
    status: str
    chapter: str
    profile: str
    data: str
    why: str


@dataclass(frozen=True)
class ClaimStatus:
    """What became of a claim; `verdict` is one of `VERDICTS`."""

    id: str
    verdict: str
    published: str
    measured: str
    profile: str
    data: str
    note: str


@dataclass(frozen=True)
class Report:
    """Every artefact and every claim of the ledger, in its order."""

    artefacts: tuple[ArtefactStatus, ...]
    claims: tuple[ClaimStatus, ...]

    def as_dict(self) -> dict[str, list[dict[str, str]]]:
        """The report as `mogp report --json` prints it."""
        return {
            "artefacts": [asdict(row) for row in self.artefacts],
            "claims": [asdict(row) for row in self.claims],
        }

    def published(self) -> Report:
        """Only what the documents have; the rows of kind `finding` are the companion's own."""
        return Report(
            tuple(row for row in self.artefacts if ledger.artefact(row.id).kind != "finding"),
            tuple(row for row in self.claims if ledger.claim(row.id).kind != "finding"),
        )

    def counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """How many artefacts have each status, and how many claims each verdict."""
        statuses = Counter(row.status for row in self.artefacts)
        verdicts = Counter(row.verdict for row in self.claims)
        return {name: statuses[name] for name in STATUSES}, {
            name: verdicts[name] for name in VERDICTS
        }


@dataclass(frozen=True)
class ChangedVerdict:
    """A claim whose verdict in the build is not the recorded one; None stands for no verdict."""

    id: str
    chapter: str
    recorded: bool | None
    now: bool | None

    def __str__(self) -> str:
        then = "no record" if self.recorded is None else f"recorded {verdict_word(self.recorded)}"
        now = "not decided" if self.now is None else verdict_word(self.now)
        return f"{self.id} ({self.chapter}): {then}, now {now}"


def report(build: Path) -> Report:
    """The state of the reproduction in a build folder."""
    made = {note["id"]: note for note in results.produced(build)}
    decided: dict[str, list[Mapping[str, Any]]] = {}
    for verdict in results.verdicts(build):
        decided.setdefault(verdict["id"], []).append(verdict)
    written = _written()
    kept = {key: records.recorded(key) for key in written}
    return Report(
        tuple(_artefact(row, made, build, written) for row in ledger.artefacts().values()),
        tuple(_claim(row, decided.get(row.id, []), made, kept) for row in ledger.claims().values()),
    )


def report_frame(build: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The report as two frames, artefacts and claims, each joined with its row of the ledger."""
    import pandas as pd

    found = report(build).as_dict()
    rows = (
        (found["artefacts"], ledger.artefacts(), ("document", "kind", "number", "title", "models")),
        (found["claims"], ledger.claims(), ("document", "claim", "kind", "check", "spec_verdict")),
    )
    frames = [
        pd.DataFrame(
            [row | {name: getattr(table[row["id"]], name) for name in names} for row in found]
        )
        for found, table, names in rows
    ]
    return frames[0], frames[1]


def missing_artefacts(build: Path, keys: Iterable[str] | None = None) -> dict[str, list[str]]:
    """The artefacts that finished chapters (or those named) owe the ledger, by chapter."""
    made = {note["id"] for note in results.produced(build)}
    named = None if keys is None else set(keys)
    missing: dict[str, list[str]] = {}
    for chapter in chapters():
        if chapter.finished if named is None else chapter.key in named:
            for row in ledger.artefacts().values():
                owed = row.notebook == chapter.key and not row.impossible
                if owed and row.id not in made and made.isdisjoint(row.twins):
                    missing.setdefault(chapter.key, []).append(row.id)
    return missing


def changed_verdicts(build: Path, profile: str, *, any_scale: bool = False) -> list[ChangedVerdict]:
    """The claims that this build's runs at `profile` decide otherwise than the recorded runs do.

    A verdict without a record, and a record without a verdict, are changes too. With `any_scale`,
    only claims that can be decided at the smallest scale are compared. What a stand-in says is not
    compared with what real data said.
    """
    now: dict[str, dict[str, Mapping[str, Any]]] = {}
    for verdict in results.verdicts(build):
        now.setdefault(verdict["chapter"], {})[verdict["id"]] = verdict
    changes = []
    for chapter in chapters():
        run = results.run_note(build, chapter.key)
        if run is None or run["profile"] != profile:
            continue
        record = records.recorded(chapter.key).get(profile)
        then = record.claims if record else {}
        found = now.get(chapter.key, {})
        for identifier in sorted(then.keys() | found.keys()):
            if any_scale and not ledger.claim(identifier).any_scale:
                continue
            both = then.get(identifier), found.get(identifier)
            if None not in both and len({_on_standin(verdict) for verdict in both if verdict}) == 2:
                continue
            recorded, current = (
                None if verdict is None else bool(verdict["holds"]) for verdict in both
            )
            if recorded is not current:
                changes.append(ChangedVerdict(identifier, chapter.key, recorded, current))
    return changes


def _on_standin(verdict: Mapping[str, Any]) -> bool:
    return any(use["source"] == "stand-in" for use in verdict.get("data", ()))


def _artefact(
    row: ledger.Artefact,
    made: Mapping[str, Mapping[str, Any]],
    build: Path,
    written: frozenset[str],
) -> ArtefactStatus:
    same = next((twin for twin in (row.id, *row.twins) if twin in made), None)
    if same is None:
        status, why = (
            ("impossible", row.impossible)
            if row.impossible
            else ("not yet", _not_yet(row, build, written))
        )
        return ArtefactStatus(row.id, status, row.notebook, "", "", why)
    note = made[same]
    reasons = [f"shown as {same} in chapter {note['chapter']}"] if same != row.id else []
    if note["standin"]:
        reasons.append(
            f"made from {_data(use for use in note['data'] if use['source'] == 'stand-in')}"
        )
    if note["partial"]:
        reasons.append(note["partial"])
    status = (
        "stand-in"
        if note["standin"]
        else "partly regenerated"
        if note["partial"]
        else "regenerated"
    )
    return ArtefactStatus(
        row.id, status, note["chapter"], note["profile"], _data(note["data"]), "; ".join(reasons)
    )


def _not_yet(row: ledger.Artefact, build: Path, written: frozenset[str]) -> str:
    if row.notebook not in written:
        return f"chapter {row.notebook} is not written yet"
    if results.run_note(build, row.notebook) is None:
        return f"chapter {row.notebook} has not been run"
    return f"chapter {row.notebook} does not make it yet"


def _claim(
    row: ledger.Claim,
    decided: list[Mapping[str, Any]],
    made: Mapping[str, Mapping[str, Any]],
    kept: Mapping[str, Mapping[str, records.RunRecord]],
) -> ClaimStatus:
    at_record = [
        record
        for chapter in kept.values()
        for record in chapter.values()
        if row.id in record.claims
    ]
    tried = decided
    if _obtainable(row):
        decided = [verdict for verdict in decided if not _on_standin(verdict)]
        at_record = [record for record in at_record if not _on_standin(record.claims[row.id])]
    if decided:
        own = sorted(
            decided, key=lambda verdict: not verdict["chapter"].startswith(f"{row.document}/")
        )
        first, others = own[0], own[1:]
        notes = [first["note"] or row.note]
        notes += [
            f"{verdict_word(v['holds'])} in chapter {v['chapter']}: {v['measured']}" for v in others
        ]
        above = ledger.PROFILES[ledger.PROFILES.index(first["profile"]) + 1 :]
        notes += [_recorded(record, row.id) for record in at_record if record.profile in above]
    elif at_record:
        record = at_record[-1]
        first = {**record.claims[row.id], "profile": record.profile}
        notes = [f"{record.label}; not checked in this build", first["note"] or row.note]
    else:
        verdict, why = _unchecked(row, made, bool(tried))
        return ClaimStatus(row.id, verdict, row.published, "", "", "", _join([why, row.note]))
    return ClaimStatus(
        row.id,
        verdict_word(first["holds"]),
        row.published,
        first["measured"],
        first["profile"],
        _data(first["data"]),
        _join(notes),
    )


def _recorded(record: records.RunRecord, identifier: str) -> str:
    claim = record.claims[identifier]
    return f"{record.label}: {verdict_word(claim['holds'])}, {claim['measured']}"


def _obtainable(row: ledger.Claim) -> bool:
    """Whether the claim is about data that can be had, so that a stand-in decides nothing."""
    table = ledger.artefacts()
    statuses = {table[about].data_status for about in row.about if about in table}
    return bool(statuses & {"real-available", "download-only"})


def _unchecked(
    row: ledger.Claim, made: Mapping[str, Mapping[str, Any]], tried: bool
) -> tuple[str, str]:
    """Whether only missing data stands in the way of a check, and which.

    `tried` if a stand-in was looked at.
    """
    table = ledger.artefacts()
    downloads = [
        table[about].data
        for about in row.about
        if about in table
        and (
            tried
            or table[about].data_status == "download-only"
            or (
                table[about].data_status == "real-available"
                and about in made
                and made[about]["standin"]
            )
        )
    ]
    if downloads:
        return "needs download", f"needs {', '.join(dict.fromkeys(downloads))}: mogp data fetch"
    return "not checked", ""


def _written() -> frozenset[str]:
    try:
        return frozenset(chapter.key for chapter in chapters())
    except FileNotFoundError:
        return frozenset()


def _data(uses: Iterable[Mapping[str, str]]) -> str:
    return provenance.describe(DataUse(**use) for use in uses)


def _join(parts: Iterable[str]) -> str:
    return "; ".join(part for part in parts if part)
