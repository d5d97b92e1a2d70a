"""Notebooks to hand out: plain `.ipynb` files without outputs, made from the chapters' sources.

In a chapter, exercises are markdown cells tagged `exercise` and their answers are cells tagged
`solution`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mogp.book import sources
from mogp.book.errors import CompanionError
from mogp.book.sources import ChapterSource
from mogp.files import write_atomically

_PROMPTS = {"code": "# Your solution.\n", "markdown": "*Your answer.*", "raw": ""}


def teach(chapter: str, out: Path) -> list[Path]:
    """Write the student's, the instructor's and the solutions' notebook of a chapter to the folder
    `out`.

    The student's has a prompt in place of each solution. The instructor's is the whole chapter. The
    solutions' keeps every code cell, the chapter's own folded away, so that it runs; of the prose
    only the title and the exercises stay.
    """
    (source,) = sources.select([chapter])
    if not any(_tagged(cell, "exercise") for cell in source.notebook().cells):
        raise CompanionError(
            f"chapter {chapter} has no exercises: tag a markdown cell `exercise` and its answer"
            " `solution`."
        )
    stem = f"{source.slug}-{source.path.stem.partition('-')[2]}".rstrip("-")
    versions: dict[str, Callable[[Any], Any | None]] = {
        "student": _for_student,
        "instructor": lambda cell: cell,
        "solutions": _for_solutions,
    }
    return [_write(out / f"{stem}-{name}.ipynb", source, keep) for name, keep in versions.items()]


def notebooks(out: Path) -> list[Path]:
    """Write every chapter as a plain notebook to `out/<document>/<number>-<slug>.ipynb`; stock
    papermill runs them.
    """
    return [
        _write(out / source.document / f"{source.path.stem}.ipynb", source, lambda cell: cell)
        for source in sources.chapters()
    ]


def _write(path: Path, source: ChapterSource, keep: Callable[[Any], Any | None]) -> Path:
    import nbformat

    notebook = source.notebook()
    notebook.cells = [kept for cell in notebook.cells if (kept := keep(cell)) is not None]
    nbformat.validate(notebook)
    write_atomically(path, nbformat.writes(notebook) + "\n")
    return path


def _for_student(cell: Any) -> Any:
    if _tagged(cell, "solution"):
        cell.source = _PROMPTS[cell.cell_type]
        cell.metadata["tags"] = [
            tag if tag != "solution" else "answer" for tag in cell.metadata["tags"]
        ]
    return cell


def _for_solutions(cell: Any) -> Any | None:
    if _tagged(cell, "solution") or _tagged(cell, "exercise") or cell.source.startswith("# "):
        return cell if cell.cell_type != "code" or _tagged(cell, "solution") else _folded(cell)
    return _folded(cell) if cell.cell_type == "code" else None


def _folded(cell: Any) -> Any:
    cell.metadata["jupyter"] = {"source_hidden": True}
    return cell


def _tagged(cell: Any, tag: str) -> bool:
    return tag in cell.metadata.get("tags", ())
