"""What the pages of the book compute when they are built: counts, tables, maps of chapters.

`context` makes the values that `intro.md` and `chapters/guide/*.md` name in double braces. Nothing
here needs TensorFlow: the ledgers are CSV files, the library is read as source.
"""

from __future__ import annotations

import csv
import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from mogp import datasets
from mogp.book import cards, ledger, results
from mogp.book.markdown import markdown_table
from mogp.book.provenance import versions
from mogp.book.report import Report, report
from mogp.book.site_api import PACKAGE, api_index, public_names
from mogp.book.site_tables import DOCUMENTS, artefact_table, claim_table, errata, raw_html
from mogp.book.sources import ChapterSource
from mogp.files import read_json

__all__ = ["SiteChapter", "chapter_facts", "context", "data_pages", "duration", "hero_figure"]

_SHOWN = ("regenerated", "partly regenerated", "stand-in")
_HEROES = ("giraldo-fig-3-2", "giraldo-fig-3-3", "ma-fig-2-1", "ma-fig-2-2")
_JUDGED = ("holds", "does not hold")
_LOADS = re.compile(r"""\.load\(\s*["']([\w-]+)["']""")


@dataclass(frozen=True)
class SiteChapter:
    """A chapter on the site.

    `file` is its entry in the table of contents, `run` the folder of its last run.
    """

    file: str
    source: ChapterSource
    run: Path

    @property
    def key(self) -> str:
        """What the command line calls it, `ma/2`."""
        return self.source.key

    @property
    def page(self) -> str:
        """Its page without suffix, seen from the guide: `../ma/2-gaussian-processes`."""
        return "../" + self.file.removeprefix("chapters/")

    @property
    def executed(self) -> Path:
        """The notebook of the last good run."""
        return self.run / "notebook.ipynb"

    @property
    def has_run(self) -> bool:
        """Whether there is a run to show."""
        return self.executed.is_file()

    @functools.cached_property
    def facts(self) -> Mapping[str, Any]:
        """What the runner wrote about the run: profile, seconds, date, data."""
        return read_json(self.run / "run.json") or {}


def context(build: Path, chapters: Sequence[SiteChapter]) -> dict[str, Any]:
    """The values that pages name in double braces."""
    found = report(build)
    pages = {chapter.key: chapter.page for chapter in chapters}
    figures = _places(results.produced(build), pages)
    boxes = _places(results.verdicts(build), pages)
    published = found.published()
    statuses, verdicts = published.counts()
    doubted = [
        claim
        for claim in ledger.claims().values()
        if claim.spec_verdict in ("doubtful", "contradicted")
    ]
    return {
        "artefacts": len(published.artefacts),
        "claims": len(published.claims),
        "findings": len(found.claims) - len(published.claims),
        "shown": sum(statuses[status] for status in _SHOWN),
        "judged": sum(verdicts[verdict] for verdict in _JUDGED),
        "statuses": _tally(statuses),
        "verdicts": _tally(verdicts),
        "doubtful": sum(claim.spec_verdict == "doubtful" for claim in doubted),
        "contradicted": sum(claim.spec_verdict == "contradicted" for claim in doubted),
        "doubted": len(doubted),
        "artefact_table": artefact_table(found.artefacts, figures),
        "claim_table": claim_table(found.claims, boxes),
        "progress": _progress(published, chapters),
        "runs": _runs(chapters),
        "errata": errata(doubted, found.claims, boxes),
        "chapter_map": _chapter_map(chapters),
        "chapter": functools.partial(_chapter_link, pages),
        "hero": _hero(chapters, figures),
        "notation": _notation(),
        "models": _models(pages),
        "datasets": cards.index(build),
        "sets": len(datasets.names()),
        "versions": markdown_table(["package", "version"], versions().items()),
        "api_index": api_index(),
    }


def _places(notes: Iterable[Mapping[str, Any]], pages: Mapping[str, str]) -> dict[str, str]:
    """Where on the site each artefact or verdict stands, as an address seen from the guide."""
    return {
        note["id"]: f"{pages[note['chapter']]}.html#{note['id']}"
        for note in notes
        if note["chapter"] in pages
    }


def chapter_facts(chapter: SiteChapter, notice: str) -> str:
    """The line under a chapter's title: how it was run, and what to take away."""
    ran = ""
    if chapter.has_run:
        facts = chapter.facts
        ran = f" ({facts['profile']} profile, {duration(facts['seconds'])}, {facts['date'][:10]})"
    parts = [
        f"`mogp run {chapter.key}`{ran}",
        f"{{download}}`notebook </notebooks/{chapter.source.slug}.ipynb>`",
        f"source `{chapter.file}.py`",
    ]
    line = "{.mogp-chapter-facts}\n" + " · ".join(parts) + "\n"
    if not notice:
        return line
    return f"{line}\n:::{{note}}\n{notice}\nRun it with `mogp run {chapter.key}`.\n:::\n"


def duration(seconds: float) -> str:
    """Seconds for a reader: "0.4 s", "43 s", "2 min 5 s"."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes:
        return f"{minutes} min {rest} s"
    return f"{seconds:.2g} s" if seconds < 9.5 else f"{rest} s"


def _tally(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items() if number)


def hero_figure(chapters: Sequence[SiteChapter]) -> Path | None:
    """The figure of the landing page: the first of those we like best that a chapter has made."""
    wanted = (chapter.run / "artefacts" / f"{name}.svg" for name in _HEROES for chapter in chapters)
    return next((path for path in wanted if path.is_file()), None)


def _hero(chapters: Sequence[SiteChapter], places: Mapping[str, str]) -> str:
    figure = hero_figure(chapters)
    if figure is None:
        return ""
    artefact, place = ledger.artefact(figure.stem), places[figure.stem].removeprefix("../")
    return raw_html(
        f"<figure class='mogp-artefact'><a href='chapters/{escape(place)}'><img"
        f" src='_static/figures/{figure.name}' alt='{escape(artefact.title)}'></a><figcaption"
        f" class='mogp-provenance'>{escape(artefact.label)}:"
        f" {escape(artefact.title)}</figcaption></figure>"
    )


def _chapter_map(chapters: Sequence[SiteChapter]) -> str:
    """The chapters of each document, for the landing page."""
    lines = []
    for document, label in DOCUMENTS.items():
        own = [chapter for chapter in chapters if chapter.source.document == document]
        if own:
            links = " · ".join(f"[{chapter.source.title}]({chapter.file})" for chapter in own)
            lines.append(f"{label}\n: {links}\n")
    return "\n".join(lines)


def _chapter_link(pages: Mapping[str, str], key: str, text: str) -> str:
    """A link to a chapter, for pages of the guide; plain text while the book does not have it."""
    return f"[{text}]({pages[key]})" if key in pages else text


def _runs(chapters: Sequence[SiteChapter]) -> str:
    rows = []
    for chapter in chapters:
        facts = chapter.facts if chapter.has_run else {}
        used = [f"{use['name']} ({use['source']})" for use in facts.get("data", [])]
        rows.append(
            [
                f"[{chapter.key}]({chapter.page})",
                facts.get("profile", "not run"),
                duration(facts["seconds"]) if facts else "",
                facts.get("date", "").replace("T", " ").replace("+00:00", " UTC"),
                "; ".join(dict.fromkeys(used)),
            ]
        )
    return markdown_table(["chapter", "profile", "time", "finished", "data"], rows)


def _progress(found: Report, chapters: Sequence[SiteChapter]) -> str:
    """What each document has so far: figures and tables shown, claims judged."""
    rows = []
    for document, label in DOCUMENTS.items():
        artefacts = [row for row in found.artefacts if ledger.artefact(row.id).document == document]
        verdicts = Counter(
            row.verdict for row in found.claims if ledger.claim(row.id).document == document
        )
        run = sum(c.has_run for c in chapters if c.source.document == document)
        shown = f"{sum(row.status in _SHOWN for row in artefacts)} of {len(artefacts)}"
        judged = f"{verdicts['holds']} hold, {verdicts['does not hold']} do not"
        rows.append([label, str(run), shown, f"{judged}, of {verdicts.total()}"])
    return markdown_table(["document", "chapters run", "figures and tables", "claims"], rows)


def _rows(name: str) -> list[dict[str, str]]:
    with (ledger.ledger_folder() / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _notation() -> str:
    columns = {
        "concept": "concept",
        "symbol": "here",
        "code": "in code",
        "ma": "Ma",
        "hmogplv": "HMOGP-LV paper",
        "giraldo": "Giraldo",
        "panos": "Panos",
        "xia": "Xia",
    }
    rows = [[row[name] for name in columns] for row in _rows("notation.csv")]
    table = markdown_table(list(columns.values()), rows)
    return f":::{{div}} mogp-scroll mogp-wide mogp-notation\n{table}\n:::"


def _models(pages: Mapping[str, str]) -> dict[str, str]:
    """The model map, a table a family; a constructor is linked once `mogp.models` has it."""
    built = public_names(PACKAGE / "models" / "__init__.py")
    tables: dict[str, list[list[str]]] = {}
    for row in _rows("models.csv"):
        name = row["constructor"]
        made = f"[`{name}`](#mogp.models.{name})" if name in built else ""
        chapters = row["chapter"].split(";")
        shown = ", ".join(f"[{key}]({pages[key]})" if key in pages else key for key in chapters)
        where = shown if made or not name else f"arrives with {shown}"
        choices = [row[column] for column in ("prior", "inducing", "posterior", "likelihood")]
        tables.setdefault(row["family"], []).append([f"**{row['model']}**", *choices, made, where])
    columns = ["model", "prior", "inducing", "posterior", "likelihood", "constructor", "chapter"]
    return {
        family: ":::{div} mogp-scroll mogp-wide\n" + markdown_table(columns, rows) + "\n:::"
        for family, rows in tables.items()
    }


def data_pages(build: Path, chapters: Sequence[SiteChapter]) -> dict[str, bytes]:
    """A card for every data set, and its picture, by file name."""
    used: dict[str, list[str]] = {}
    for chapter in chapters:
        loaded = _LOADS.findall(chapter.source.path.read_text("utf-8"))
        for name in dict.fromkeys(loaded):
            used.setdefault(name, []).append(chapter.key)
    return cards.pages(build, {chapter.key: chapter.page for chapter in chapters}, used)
