"""The tables of the reproduction report and the errata, as HTML of the site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from mogp.book import ledger
from mogp.book.report import ArtefactStatus, ClaimStatus

__all__ = ["DOCUMENTS", "artefact_table", "claim_table", "errata", "raw_html"]

DOCUMENTS = {
    "ma": "Ma 2023",
    "hmogplv": "Ma, Leroy and Álvarez 2023",
    "giraldo": "Giraldo 2021",
    "panos": "Panos 2019",
    "xia": "Xia 2020",
}


def artefact_table(rows: Sequence[ArtefactStatus], places: Mapping[str, str]) -> str:
    """Every artefact with its status; `places` are addresses by identifier."""
    cells = []
    for row in rows:
        artefact = ledger.artefact(row.id)
        place = next((places[name] for name in (row.id, *artefact.twins) if name in places), None)
        about = (
            f"<span class='mogp-muted'>{escape(artefact.label)}.</span> {escape(artefact.title)}"
        )
        cells.append(
            [_linked(row.id, place), about, _badge(row.status), _run_of(row), escape(row.why)]
        )
    columns = ["id", "what it is", "status", "run", "why"]
    return _sortable("artefacts", columns, cells, [row.status for row in rows])


def claim_table(rows: Sequence[ClaimStatus], places: Mapping[str, str]) -> str:
    """Every claim with its verdict; `places` are addresses by identifier."""
    cells = []
    for row in rows:
        note = f" <span class='mogp-muted'>{escape(row.note)}</span>" if row.note else ""
        text = escape(ledger.claim(row.id).claim) + note
        name, verdict = _linked(row.id, places.get(row.id)), _badge(row.verdict)
        values = escape(row.published), escape(row.measured), _run_of(row)
        cells.append([name, text, verdict, *values])
    columns = ["id", "claim", "verdict", "published", "measured", "run"]
    return _sortable("claims", columns, cells, [row.verdict for row in rows])


def _run_of(row: ArtefactStatus | ClaimStatus) -> str:
    return escape(", ".join(part for part in (row.profile, row.data) if part))


def _linked(identifier: str, place: str | None) -> str:
    text = f"<code>{escape(identifier)}</code>"
    return f"<a href='{escape(place)}'>{text}</a>" if place else text


def _badge(status: str) -> str:
    return f"<span class='mogp-badge mogp-is-{status.replace(' ', '-')}'>{escape(status)}</span>"


def _sortable(
    what: str, columns: Sequence[str], rows: Sequence[Sequence[str]], kinds: Sequence[str]
) -> str:
    """A table that `mogp.js` makes sortable and filterable, in a container that scrolls."""
    head = "".join(f"<th scope='col'>{escape(column)}</th>" for column in columns)
    body = "\n".join(
        f"<tr data-kind='{escape(kind)}'>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
        for kind, row in zip(kinds, rows, strict=True)
    )
    table = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    return raw_html(
        f"<div class='mogp-report' id='{what}-table' data-what='{what}'><div"
        f" class='mogp-scroll'>{table}</div></div>"
    )


def errata(
    doubted: Sequence[ledger.Claim], rows: Sequence[ClaimStatus], places: Mapping[str, str]
) -> str:
    """The claims that the specification doubts or contradicts, document by document."""
    status = {row.id: row for row in rows}
    sections: list[str] = []
    for document, label in DOCUMENTS.items():
        entries = [claim for claim in doubted if claim.document == document]
        if entries:
            sections.append(f"## {label}\n")
            sections += [
                _erratum(claim, status[claim.id], places.get(claim.id)) for claim in entries
            ]
    return "\n".join(sections)


def _erratum(claim: ledger.Claim, row: ClaimStatus, place: str | None) -> str:
    published = (
        f" <span class='mogp-muted'>Published: {escape(claim.published)}.</span>"
        if claim.published
        else ""
    )
    outcome = _badge(row.verdict)
    if row.measured:
        outcome += f" {escape(row.measured)}" + (
            f" (<a href='{escape(place)}'>see it</a>)" if place else ""
        )
    return raw_html(
        f"<div class='mogp-erratum' id='erratum-{claim.id}'>\n"
        f"<p><code>{claim.id}</code> {_badge(claim.spec_verdict)}"
        f" {escape(claim.claim)}{published}</p>\n"
        f"<p>{escape(claim.note)}</p>\n<p>{outcome}</p>\n</div>"
    )


def raw_html(html: str) -> str:
    """HTML as a block of MyST Markdown."""
    return f"```{{raw}} html\n{html}\n```\n"
