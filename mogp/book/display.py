"""What a chapter shows of its results: HTML for a page, text for a terminal."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mogp.book import ledger, provenance
from mogp.book.provenance import DataUse

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Shown",
    "artefact_html",
    "artefact_text",
    "cell_anchor",
    "claim_box",
    "folded",
    "picture_html",
    "show",
    "summary_table",
    "table_html",
    "table_text",
    "verdict_word",
]


@dataclass(frozen=True)
class Shown:
    """Something shown: HTML for a page, text for a terminal, a picture where neither will do."""

    page: str
    text: str
    png: bytes | None = None

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        bundle = {"text/html": self.page, "text/plain": self.text}
        return bundle | ({"image/png": base64.b64encode(self.png).decode()} if self.png else {})

    def __repr__(self) -> str:
        return self.text


def show(output: Shown) -> None:
    """Show it, in a notebook or in a terminal."""
    from IPython.display import display

    display(output)  # type: ignore[no-untyped-call]


def picture_html(image: bytes, mime: str, alt: str) -> str:
    """An image inside the page itself."""
    encoded = base64.b64encode(image).decode()
    return (
        f'<img src="data:{mime};base64,{encoded}" alt="{html.escape(alt)}"'
        ' style="max-width:100%;height:auto">'
    )


def table_html(frame: pd.DataFrame, *, index: bool) -> str:
    """A table for a page."""
    shown: str = frame.to_html(index=index, border=0, na_rep="–", float_format=_significant)
    return shown


def table_text(frame: pd.DataFrame, *, index: bool) -> str:
    """A table for a terminal."""
    return frame.to_string(index=index, na_rep="–", float_format=_significant)


def folded(label: str, content: str) -> str:
    """Content of a page below a line that opens it."""
    return f"<details><summary>{html.escape(_sentence(label))}</summary>{content}</details>"


def artefact_html(row: ledger.Artefact, content: str, kept: Mapping[str, Any]) -> str:
    """An artefact on a page: its content, and below it where it comes from."""
    line = " · ".join(html.escape(part) for part in _provenance_parts(row, kept))
    return (
        f'<figure class="mogp-artefact" id="{row.id}"'
        f' aria-label="{html.escape(row.title)}">{content}<figcaption'
        f' class="mogp-provenance">{line} · <a'
        f' href="#{cell_anchor(row.id)}">cell</a></figcaption></figure>'
    )


def artefact_text(row: ledger.Artefact, content: str, kept: Mapping[str, Any]) -> str:
    """The same for a terminal."""
    parts = (row.title, content, " · ".join(_provenance_parts(row, kept)))
    return "\n".join(part for part in parts if part)


def _provenance_parts(row: ledger.Artefact, kept: Mapping[str, Any]) -> list[str]:
    data = provenance.describe(DataUse(**use) for use in kept["data"])
    parts = [
        row.id,
        row.label,
        f"{kept['profile']} profile",
        f"data: {data}" if data else "no data",
        f"{kept['seconds']:.1f} s",
    ]
    return [*parts, f"partly regenerated: {kept['partial']}"] if kept["partial"] else parts


def cell_anchor(identifier: str) -> str:
    """The anchor that the runner puts before the cell that made an artefact."""
    return f"cell-{identifier}"


def claim_box(
    row: ledger.Claim,
    verdict: Mapping[str, Any],
    data: str,
    earlier: Sequence[tuple[str, Mapping[str, Any]]],
) -> Shown:
    """The verdict on a claim, with the verdicts of `earlier` runs by label."""
    word = verdict_word(verdict["holds"]) + _stand_in(verdict)
    where = f"{verdict['profile']} profile{', data: ' + data if data else ''}"
    lines = [
        ("Published", row.published),
        ("Measured", f"{verdict['measured']} ({where})"),
        *(
            (_sentence(label), f"{verdict_word(was['holds'])}; {was['measured']}")
            for label, was in earlier
        ),
        ("Rule", row.check),
        ("Note", verdict["note"]),
    ]
    given = [(name, value) for name, value in lines if value]
    items = "".join(
        f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" for name, value in given
    )
    page = (
        f'<div class="mogp-claim mogp-{"holds" if verdict["holds"] else "fails"}" id="{row.id}">'
        f"<p><strong>{row.id}: {word}.</strong> {html.escape(row.claim)}</p><dl>{items}</dl></div>"
    )
    text = "\n".join(
        [f"{row.id}: {word}. {row.claim}", *(f"  {name}: {value}" for name, value in given)]
    )
    return Shown(page, text)


def _stand_in(verdict: Mapping[str, Any]) -> str:
    if not verdict["standin"]:
        return ""
    real = all(use.get("instead_of") for use in verdict["data"] if use["source"] == "stand-in")
    return " on other data" if real else " on the synthetic stand-in"


def verdict_word(holds: bool) -> str:
    """A verdict in words."""
    return "holds" if holds else "does not hold"


def summary_table(title: str, rows: Sequence[tuple[str, str, str]]) -> Shown:
    """What a run produced: rows of an identifier, what it is, and its state."""
    cells = [
        (
            identifier if state == "not produced" else f'<a href="#{identifier}">{identifier}</a>',
            html.escape(what),
            state,
        )
        for identifier, what, state in rows
    ]
    lines = "".join(
        f'<tr><td style="white-space:nowrap">{"</td><td>".join(row)}</td></tr>' for row in cells
    )
    page = f'<table class="dataframe"><caption>{title}</caption><tbody>{lines}</tbody></table>'
    text = "\n".join([title, *(f"{i}: {state} ({what})" for i, what, state in rows)])
    return Shown(f'<div class="mogp-table mogp-summary">{page}</div>', text)


def _significant(value: float) -> str:
    return f"{value:.4g}"


def _sentence(label: str) -> str:
    return label[:1].upper() + label[1:]
