"""What the pages of the book compute when they are built: counts, the reproduction report, errata,
maps, API pages.

`context` makes the values that `intro.md` and `chapters/guide/*.md` name in double braces. Nothing
here needs TensorFlow: the ledgers are CSV files, the library is read as source.
"""

from __future__ import annotations

import ast
import csv
import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from mogp import datasets, project
from mogp.book import cards, ledger, results
from mogp.book.markdown import markdown_table
from mogp.book.provenance import versions
from mogp.book.report import ArtefactStatus, ClaimStatus, Report, report
from mogp.book.sources import ChapterSource
from mogp.files import read_json

__all__ = ["SiteChapter", "api_pages", "chapter_facts", "context", "data_pages", "hero_figure"]

DOCUMENTS = {
    "ma": "Ma 2023",
    "hmogplv": "Ma, Leroy and Álvarez 2023",
    "giraldo": "Giraldo 2021",
    "panos": "Panos 2019",
    "xia": "Xia 2020",
}
_PACKAGE = Path(project.__file__).parent
_SHOWN = ("regenerated", "partly regenerated", "stand-in")
_HEROES = ("giraldo-fig-3-2", "giraldo-fig-3-3", "ma-fig-2-1", "ma-fig-2-2")
_JUDGED = ("holds", "does not hold")


@dataclass(frozen=True)
class SiteChapter:
    """A chapter on the site: its entry `file` in the table of contents, its source, and the folder
    of its last run.
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
        """Its page without suffix, seen from the pages of the guide:
        `../ma/2-gaussian-processes`.
        """
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
        "artefact_table": _artefact_table(found.artefacts, figures),
        "claim_table": _claim_table(found.claims, boxes),
        "progress": _progress(published, chapters),
        "runs": _runs(chapters),
        "errata": _errata(doubted, found.claims, boxes),
        "chapter_map": _chapter_map(chapters),
        "chapter": functools.partial(_chapter_link, pages),
        "hero": _hero(chapters, figures),
        "notation": _notation(),
        "models": _models(pages),
        "datasets": cards.index(build),
        "sets": len(datasets.names()),
        "versions": markdown_table(["package", "version"], versions().items()),
        "api_index": _api_index(),
    }


def _places(notes: Iterable[Mapping[str, Any]], pages: Mapping[str, str]) -> dict[str, str]:
    """Where on the site each produced artefact or verdict stands, as an address seen from the
    guide.
    """
    return {
        note["id"]: f"{pages[note['chapter']]}.html#{note['id']}"
        for note in notes
        if note["chapter"] in pages
    }


def chapter_facts(chapter: SiteChapter, notice: str) -> str:
    """The line under a chapter's title: how it was run, and the notebook and source to take
    away.
    """
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
    return line + (
        f"\n:::{{note}}\n{notice}\nRun it with `mogp run {chapter.key}`.\n:::\n" if notice else ""
    )


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
    return _raw(
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
        rows.append(
            [
                f"[{chapter.key}]({chapter.page})",
                facts.get("profile", "not run"),
                duration(facts["seconds"]) if facts else "",
                facts.get("date", "").replace("T", " ").replace("+00:00", " UTC"),
                "; ".join(
                    dict.fromkeys(
                        f"{use['name']} ({use['source']})" for use in facts.get("data", [])
                    )
                ),
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
        rows.append(
            [
                label,
                str(
                    sum(
                        chapter.has_run
                        for chapter in chapters
                        if chapter.source.document == document
                    )
                ),
                f"{sum(row.status in _SHOWN for row in artefacts)} of {len(artefacts)}",
                (
                    f"{verdicts['holds']} hold, {verdicts['does not hold']} do not, of"
                    f" {verdicts.total()}"
                ),
            ]
        )
    return markdown_table(["document", "chapters run", "figures and tables", "claims"], rows)


def _artefact_table(rows: Sequence[ArtefactStatus], places: Mapping[str, str]) -> str:
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
    return _sortable(
        "artefacts",
        ["id", "what it is", "status", "run", "why"],
        cells,
        [row.status for row in rows],
    )


def _claim_table(rows: Sequence[ClaimStatus], places: Mapping[str, str]) -> str:
    cells = []
    for row in rows:
        note = f" <span class='mogp-muted'>{escape(row.note)}</span>" if row.note else ""
        text = escape(ledger.claim(row.id).claim) + note
        name = _linked(row.id, places.get(row.id))
        cells.append(
            [
                name,
                text,
                _badge(row.verdict),
                escape(row.published),
                escape(row.measured),
                _run_of(row),
            ]
        )
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
    """A table that `mogp.js` makes sortable and filterable, inside a container that scrolls by
    itself.
    """
    head = "".join(f"<th scope='col'>{escape(column)}</th>" for column in columns)
    body = "\n".join(
        f"<tr data-kind='{escape(kind)}'>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
        for kind, row in zip(kinds, rows, strict=True)
    )
    table = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    return _raw(
        f"<div class='mogp-report' id='{what}-table' data-what='{what}'><div"
        f" class='mogp-scroll'>{table}</div></div>"
    )


def _errata(
    doubted: Sequence[ledger.Claim], rows: Sequence[ClaimStatus], places: Mapping[str, str]
) -> str:
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
    return _raw(
        f"<div class='mogp-erratum' id='erratum-{claim.id}'>\n"
        f"<p><code>{claim.id}</code> {_badge(claim.spec_verdict)}"
        f" {escape(claim.claim)}{published}</p>\n"
        f"<p>{escape(claim.note)}</p>\n<p>{outcome}</p>\n</div>"
    )


def _raw(html: str) -> str:
    return f"```{{raw}} html\n{html}\n```\n"


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
    }
    columns |= {"giraldo": "Giraldo", "panos": "Panos", "xia": "Xia"}
    rows = [[row[name] for name in columns] for row in _rows("notation.csv")]
    return (
        ":::{div} mogp-scroll mogp-wide mogp-notation\n"
        + markdown_table(list(columns.values()), rows)
        + "\n:::"
    )


def _models(pages: Mapping[str, str]) -> dict[str, str]:
    """The model map, a table a family; a constructor is linked once `mogp.models` has it."""
    built = _public_names(_PACKAGE / "models" / "__init__.py")
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
        for name in dict.fromkeys(
            re.findall(r"""\.load\(\s*["']([\w-]+)["']""", chapter.source.path.read_text("utf-8"))
        ):
            used.setdefault(name, []).append(chapter.key)
    return cards.pages(build, {chapter.key: chapter.page for chapter in chapters}, used)


def api_pages() -> dict[str, str]:
    """A page of reference for every public module, by file name; autodoc fills them from the
    docstrings.
    """
    return {
        f"chapters/guide/api/{module.name}": (
            f"# `{module.name}`\n\n```{{eval-rst}}\n.. automodule:: {module.name}\n  "
            f" :members:\n{'   :imported-members:' + chr(10) if module.package else ''}  "
            " :show-inheritance:\n```\n"
        )
        for module in _modules()
    }


def _api_index() -> str:
    """Every public module with its first line and its names."""
    rows = [
        [
            f"[`{module.name}`](api/{module.name})",
            module.summary,
            ", ".join(f"`{name}`" for name in module.names),
        ]
        for module in _modules()
    ]
    table = markdown_table(["module", "what it is for", "public names"], rows)
    return f":::{{div}} mogp-scroll mogp-wide\n{table}\n:::"


@dataclass(frozen=True)
class _Module:
    name: str
    summary: str
    names: tuple[str, ...]
    package: bool


def _modules() -> list[_Module]:
    """The modules a user imports from: those directly in `mogp`, and its packages."""
    sources = [
        path
        for path in sorted(_PACKAGE.glob("*.py"))
        if path.stem not in ("__init__", "cli", "files", "project")
    ]
    sources += sorted(_PACKAGE.glob("*/__init__.py"))
    modules = []
    for path in sources:
        names = _public_names(path)
        package = path.stem == "__init__"
        if names and (package or not path.stem.startswith("_")):
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            summary = re.split(r"\n\s*\n", docstring)[0].replace("\n", " ")
            name = f"mogp.{path.parent.name if package else path.stem}"
            modules.append(_Module(name, summary, tuple(names), package))
    return sorted(modules, key=lambda module: module.name)


def _public_names(path: Path) -> list[str]:
    """The names in `__all__` of a source file, or its public functions and classes; nothing is
    imported.
    """
    if not path.is_file():
        return []
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for node in body:
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
        ):
            return [str(name) for name in ast.literal_eval(node.value)]
    defined = [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return [name for name in defined if not name.startswith("_")]
