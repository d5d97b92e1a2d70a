"""The notebook of a run: the chapter as written, with outputs and anchors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mogp.book.display import cell_anchor
from mogp.files import write_atomically

__all__ = ["compose", "write_notebook"]

_ARTEFACT = re.compile(r'<figure class="mogp-artefact" id="([^"]+)"')


def compose(source: Any, executed: Any) -> Any:
    """The chapter's notebook with the outputs of a run.

    An anchor stands before each cell that made an artefact. `source` and `executed` have the same
    code cells in the same order; `executed` may hold the one with parameters that papermill adds.
    """
    import nbformat

    injected = [cell for cell in executed.cells if _tagged(cell, "injected-parameters")]
    code = [cell for cell in executed.cells if cell.cell_type == "code"]
    ran = iter([cell for cell in code if not _tagged(cell, "injected-parameters")])
    cells: list[Any] = []
    for cell in source.cells:
        if cell.cell_type != "code":
            cells.append(nbformat.from_dict(cell))
            continue
        done = next(ran)
        anchors = "".join(
            f'<span id="{cell_anchor(made)}"></span>' for made in _ARTEFACT.findall(_html_of(done))
        )
        if anchors and cells and cells[-1].cell_type == "markdown":
            cells[-1].source += f"\n\n{anchors}"
        elif anchors:
            cells.append(nbformat.v4.new_markdown_cell(anchors, id=f"anchor-{len(cells)}"))
        cells.append(done)
        if _tagged(cell, "parameters"):
            cells += injected
    metadata = nbformat.from_dict(
        {**source.metadata, "papermill": executed.metadata.get("papermill", {})}
    )
    for path in ("input_path", "output_path"):
        metadata.papermill.pop(path, None)
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def _tagged(cell: Any, tag: str) -> bool:
    return tag in cell.metadata.get("tags", ())


def _html_of(cell: Any) -> str:
    return "\n".join(str(output.get("data", {}).get("text/html", "")) for output in cell.outputs)


def write_notebook(path: Path, notebook: Any) -> None:
    """Write a notebook, whole or not at all."""
    import nbformat

    write_atomically(path, nbformat.writes(notebook) + "\n")
