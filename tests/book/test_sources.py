"""Chapters are found, ordered and described from their sources alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from mogp.book import CompanionError, chapters
from mogp.book.sources import parameters, select


def test_chapters_come_in_the_order_of_the_documents_and_their_numbers(write_chapter):
    for key in ("xia/2", "giraldo/L", "giraldo/10", "giraldo/2", "hmogplv/paper", "ma/3"):
        write_chapter(key)
    assert [c.key for c in chapters()] == ["ma/3", "hmogplv/paper", "giraldo/2", "giraldo/10", "giraldo/L", "xia/2"]


def test_title_is_the_first_heading_and_the_header_says_whether_it_is_finished(write_chapter):
    write_chapter("ma/1", title="Introduction")
    write_chapter("ma/2", title="Half done", finished=False)
    assert [(c.title, c.finished) for c in chapters()] == [("Introduction", True), ("Half done", False)]


def test_a_chapter_that_does_not_say_is_finished(book: Path):
    (book / "chapters" / "ma").mkdir()
    (book / "chapters" / "ma" / "1-plain.py").write_text("# %% [markdown]\n# # Plain\n")
    assert [c.finished for c in chapters()] == [True]


def test_python_files_that_are_not_notebooks_are_no_chapters(book: Path):
    (book / "chapters" / "ma").mkdir()
    (book / "chapters" / "ma" / "helpers.py").write_text("x = 1\n")
    assert chapters() == []


def test_a_doubtful_finished_entry_is_refused(write_chapter):
    path = write_chapter("ma/1")
    path.write_text(path.read_text().replace("finished: true", "finished: maybe"))
    with pytest.raises(CompanionError, match="finished: maybe; write true or false"):
        chapters()


def test_two_notebooks_of_one_chapter_are_refused(write_chapter):
    path = write_chapter("ma/1")
    path.with_name("1-other.py").write_text(path.read_text())
    with pytest.raises(CompanionError, match=r"two notebooks are chapter ma/1: .*Rename"):
        chapters()


def test_unknown_chapter_is_met_with_the_nearest(write_chapter):
    write_chapter("giraldo/3")
    with pytest.raises(CompanionError, match=r"unknown chapter 'girald/3'; did you mean: giraldo/3"):
        select(["girald/3"])


def test_parameters_are_the_literals_of_the_tagged_cell(write_chapter):
    write_chapter("ma/1", '# %% tags=["parameters"]\nranks: list = [1, 2]\nstep = 1e-3', "other = 5")
    (chapter,) = chapters()
    assert parameters(chapter.notebook()) == {"profile": "quick", "seed": 0, "ranks": [1, 2], "step": 1e-3}


@pytest.mark.parametrize("code", ["n = 2 * size", "n = = 2"])
def test_parameters_that_are_not_plain_values_are_refused(write_chapter, code):
    write_chapter("ma/1", f'# %% tags=["parameters"]\n{code}')
    (chapter,) = chapters()
    with pytest.raises(CompanionError, match="must hold assignments of plain values"):
        parameters(chapter.notebook())
