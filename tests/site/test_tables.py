"""The small pieces of text that pages are made of."""

from __future__ import annotations

import pytest
from docutils.nodes import entry
from myst_parser.parsers.docutils_ import Parser

from mogp.book.markdown import markdown_table
from mogp.book.site_pages import duration

DURATIONS = {
    0: "0 s",
    0.42: "0.42 s",
    9.4: "9.4 s",
    9.6: "10 s",
    59.7: "1 min 0 s",
    65: "1 min 5 s",
    119.6: "2 min 0 s",
}


@pytest.mark.parametrize(("seconds", "text"), DURATIONS.items())
def test_durations_read_as_people_say_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_cells_survive_bars_and_line_breaks() -> None:
    from docutils.core import publish_doctree

    cells = [["a | b", "two\nlines"], ["`x | None`", ""]]
    tree = publish_doctree(markdown_table(["one", "two"], cells), parser=Parser())
    assert [cell.astext() for cell in tree.findall(entry)] == ["one", "two", "a | b", "two lines", "x | None", ""]


def test_a_table_without_rows_is_a_heading_alone() -> None:
    assert markdown_table(["a", "b"], []).splitlines() == ["| a | b |", "| --- | --- |"]
