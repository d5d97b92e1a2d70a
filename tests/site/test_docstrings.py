"""Docstrings in Markdown become reStructuredText that docutils reads without a complaint."""

from __future__ import annotations

import inspect
from io import StringIO

import docutils.nodes
import pytest
from docutils.core import publish_doctree

from mogp.book.sphinx_ext.docstrings import to_rst


def parse(docstring: str) -> docutils.nodes.document:
    """The tree that docutils makes of a translated docstring; any warning fails the test."""
    complaints = StringIO()
    text = "\n".join(to_rst(inspect.cleandoc(docstring).splitlines()))
    tree = publish_doctree(text, settings_overrides={"warning_stream": complaints, "report_level": 1})
    assert complaints.getvalue() == "", text
    return tree


def found(tree: docutils.nodes.document, kind: type[docutils.nodes.Node]) -> list[str]:
    return [node.astext() for node in tree.findall(kind)]


def test_backticks_are_literals_and_dollars_are_mathematics() -> None:
    tree = parse(r"The `mean` of $f_j$ and `Likelihood`s at $x_*$; the 2nd is `W [J, L]`, worth \$5.")
    assert found(tree, docutils.nodes.literal) == ["mean", "Likelihood", "W [J, L]"]
    assert found(tree, docutils.nodes.math) == ["f_j", "x_*"]


@pytest.mark.parametrize("text", ["u_* and |A|", "*args, **kwargs", "f_ ends", "a*b*c | d", "1 * 2", "`x`_y"])
def test_signs_that_mean_something_to_restructuredtext_are_text(text: str) -> None:
    tree = parse(text)
    assert tree.astext().replace("`", "") == text.replace("`", "")


def test_display_equations_stand_alone_even_inside_a_paragraph() -> None:
    tree = parse("The bound is\n$$a =\n  b$$\nand more `text`.")
    assert found(tree, docutils.nodes.math_block) == ["a =\n  b"]
    assert found(tree, docutils.nodes.literal) == ["text"]


def test_aligned_columns_are_definitions() -> None:
    tree = parse("Title.\n\nprior       LMC over $J$ functions\n            and more\ninducing    `points`")
    assert found(tree, docutils.nodes.term) == ["prior", "inducing"]
    assert found(tree, docutils.nodes.definition) == ["LMC over J functions\nand more", "points"]


def test_tables_keep_their_cells() -> None:
    tree = parse("| name | targets |\n|---|---|\n| `Beta` | in (0, 1) |")
    assert found(tree, docutils.nodes.entry) == ["name", "targets", "Beta", "in (0, 1)"]


def test_lists_need_no_empty_lines() -> None:
    tree = parse("There are:\n- one that\n  goes on\n* two `x`")
    assert found(tree, docutils.nodes.list_item) == ["one that\ngoes on", "two x"]


def test_ragged_blocks_and_code_are_shown_as_they_stand() -> None:
    tree = parse("One.\n\nragged\n   lines `x`\n\n```\ncode *here*\n\nmore\n```\n\nIndented::\n\n    a  *b*\n        c")
    assert found(tree, docutils.nodes.literal_block) == [
        "ragged\n   lines `x`",
        "code *here*\n\nmore",
        "a  *b*\n    c",
    ]


def test_sections_are_left_to_napoleon() -> None:
    lines = to_rst(["Do it.", "", "Args:", "    x: the `input`.", "    y: a number,", "        at most $N$."])
    assert lines[2:6] == ["Args:", "    x: the ``input``.", "    y: a number,", "        at most :math:`N`."]


def test_an_empty_docstring_stays_empty() -> None:
    assert to_rst([]) == []
    assert to_rst(["", ""]) == []
