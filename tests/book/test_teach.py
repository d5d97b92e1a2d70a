"""Notebooks to hand out: complete, without outputs, without solutions where there must be none, and runnable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from mogp.book import CompanionError
from mogp.book.teach import notebooks, teach

CELLS = (
    "base = 20 + seed",
    "# %% [markdown]\n# Some theory.",
    '# %% [markdown] tags=["exercise"]\n# Double the number.',
    '# %% tags=["solution"]\nanswer = 2 * base',
    '# %% [markdown] tags=["solution"]\n# Because two is double.',
    "print('base', base)",
)


def read(path: Path) -> nbformat.NotebookNode:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def execute(notebook: nbformat.NotebookNode) -> dict:
    """Run the code cells in plain Python."""
    space: dict = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            exec(cell.source, space)
    return space


def test_student_has_prompts_instructor_everything_solutions_the_answers(write_chapter, tmp_path):
    write_chapter("ma/3", *CELLS, title="Many classes")
    paths = teach("ma/3", tmp_path / "out")
    assert [path.name for path in paths] == [f"ma-3-test-{who}.ipynb" for who in ("student", "instructor", "solutions")]
    student, instructor, solutions = (read(path) for path in paths)

    text = nbformat.writes(student)
    assert "2 * base" not in text
    assert "Because two" not in text
    assert [c.source for c in student.cells if "answer" in c.metadata.get("tags", ())] == [
        "# Your solution.\n",
        "*Your answer.*",
    ]
    assert "answer" not in execute(student)

    assert execute(instructor)["answer"] == 40
    assert "Some theory." in nbformat.writes(instructor)

    assert execute(solutions)["answer"] == 40
    assert [c.source for c in solutions.cells if c.cell_type == "markdown"] == [
        "# Many classes\n\nText.",
        "Double the number.",
        "Because two is double.",
    ]
    hidden = [c.source for c in solutions.cells if c.metadata.get("jupyter", {}).get("source_hidden")]
    assert "base = 20 + seed" in hidden
    assert "answer = 2 * base" not in hidden
    for notebook in (student, instructor, solutions):
        assert all(cell.get("outputs", []) == [] for cell in notebook.cells)


def test_a_chapter_without_exercises_cannot_be_taught_from(write_chapter, tmp_path):
    write_chapter("ma/3", "x = 1")
    with pytest.raises(CompanionError, match="ma/3 has no exercises"):
        teach("ma/3", tmp_path)
    assert not list(tmp_path.glob("*.ipynb"))


def test_notebooks_run_under_the_stock_papermill_command(write_chapter, tmp_path):
    write_chapter("ma/3", *CELLS)
    (path,) = notebooks(tmp_path / "out")
    assert path == tmp_path / "out" / "ma" / "3-test.ipynb"
    papermill = Path(sys.executable).with_name("papermill")
    done = tmp_path / "done.ipynb"
    subprocess.run(
        [papermill, "--no-progress-bar", "-p", "seed", "3", path, done], check=True, capture_output=True, env=os.environ
    )
    assert "base 23\n" in [output.get("text") for cell in read(done).cells for output in cell.get("outputs", ())]
