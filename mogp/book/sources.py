"""The chapters of the book: which notebooks there are, what they are called and whether they are
finished.

A chapter is a jupytext `py:percent` file `chapters/<document>/<number>-<slug>.py`; its key is
`<document>/<number>`. Its header may say `mogp: {finished: false}`; a chapter that does not say so
is finished, and must then produce every artefact the ledger gives to it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mogp import project
from mogp.book import ledger
from mogp.book.errors import CompanionError, unknown


@dataclass(frozen=True)
class ChapterSource:
    """One chapter's notebook, before it is run."""

    key: str
    path: Path
    title: str
    finished: bool

    @property
    def document(self) -> str:
        """The document it belongs to: "ma" of "ma/2"."""
        return self.key.split("/")[0]

    @property
    def number(self) -> str:
        """Its number in the document: "2" of "ma/2"."""
        return self.key.split("/")[1]

    @property
    def slug(self) -> str:
        """The key as a file name: "ma-2"."""
        return slug(self.key)

    def notebook(self) -> Any:
        """The notebook (`nbformat.NotebookNode`), without outputs, with cell ids that depend on
        position only.
        """
        import jupytext

        notebook = jupytext.read(self.path)
        for position, cell in enumerate(notebook.cells):
            cell["id"] = f"cell-{position}"
        notebook.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        notebook.metadata["language_info"] = {"name": "python"}
        notebook.metadata.pop("jupytext", None)
        return notebook


def slug(key: str) -> str:
    """A chapter's key as a file name: "ma/2" becomes "ma-2"."""
    return key.replace("/", "-")


def chapters() -> list[ChapterSource]:
    """Every chapter of the book, document by document in the order of the ledger, each in its own
    order.
    """
    found = [
        _source(path)
        for path in (project.book_root() / "chapters").glob("*/*.py")
        if _is_notebook(path)
    ]
    documents = list(dict.fromkeys(row.document for row in ledger.artefacts().values()))
    found.sort(
        key=lambda c: (
            _position(documents, c.document),
            c.document,
            not c.number.isdigit(),
            c.number.zfill(3),
        )
    )
    keys = [chapter.key for chapter in found]
    for chapter in found:
        if keys.count(chapter.key) > 1:
            files = ", ".join(other.path.name for other in found if other.key == chapter.key)
            raise CompanionError(
                f"two notebooks are chapter {chapter.key}: {files}. Rename one of them."
            )
    return found


def select(keys: Iterable[str]) -> list[ChapterSource]:
    """The chapters with these keys, in the order given; an unknown key raises with the nearest
    ones.
    """
    known = {chapter.key: chapter for chapter in chapters()}
    for key in keys:
        if key not in known:
            raise unknown("chapter", key, known, "`mogp chapters` lists them all.")
    return [known[key] for key in dict.fromkeys(keys)]


def parameters(notebook: Any) -> Mapping[str, Any]:
    """The names and values assigned in the cell tagged `parameters`."""
    found: dict[str, Any] = {}
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", ()):
            try:
                found |= dict(_assignments(cell.source))
            except (SyntaxError, ValueError) as problem:
                raise CompanionError(
                    "the cell tagged parameters must hold assignments of plain values, e.g. seed ="
                    f" 0; found {problem}."
                ) from None
    return found


def _assignments(code: str) -> Iterator[tuple[str, Any]]:
    for statement in ast.parse(code).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, ast.literal_eval(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, ast.literal_eval(value)


_HEADING = re.compile(r"^# # (.+)$", re.MULTILINE)
_FINISHED = re.compile(r"^#\s+finished:\s*(\w+)\s*$", re.MULTILINE)


def _source(path: Path) -> ChapterSource:
    text = path.read_text(encoding="utf-8")
    header = text.split("# ---", 2)[1] if text.startswith("# ---") else ""
    heading, finished = _HEADING.search(text), _FINISHED.search(header)
    if finished and finished[1] not in ("true", "false"):
        raise CompanionError(
            f"{path.name}: the header says finished: {finished[1]}; write true or false."
        )
    return ChapterSource(
        key=f"{path.parent.name}/{path.stem.split('-')[0]}",
        path=path,
        title=heading[1].strip() if heading else path.stem,
        finished=finished is None or finished[1] == "true",
    )


def _is_notebook(path: Path) -> bool:
    return any(line.startswith("# %%") for line in path.read_text(encoding="utf-8").splitlines())


def _position(items: list[str], item: str) -> int:
    return items.index(item) if item in items else len(items)
