"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; bars inside cells are escaped, line breaks become spaces."""
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += [
        "| " + " | ".join(" ".join(str(cell).replace("|", r"\|").split()) for cell in row) + " |"
        for row in rows
    ]
    return "\n".join(lines)
