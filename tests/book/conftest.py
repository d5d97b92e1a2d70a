"""A tiny book in a temporary folder, with chapters of trivial cells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

HEADER = """\
# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   mogp:
#     finished: {finished}
# ---

# %% [markdown]
# # {title}
#
# {prose}

# %% tags=["parameters"]
profile = "quick"
seed = 0
"""

WriteChapter = Callable[..., Path]


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty book; the ledgers are the project's own, results and records stay in the temporary folder."""
    root = tmp_path / "book"
    (root / "chapters").mkdir(parents=True)
    (root / "_toc.yml").write_text("format: jb-book\n")
    monkeypatch.setenv("MOGP_BOOK", str(root))
    monkeypatch.setenv("MOGP_BUILD", str(tmp_path / "build"))
    monkeypatch.delenv("MOGP_CHAPTER_OUT", raising=False)
    return root


@pytest.fixture
def build(book: Path, tmp_path: Path) -> Path:
    return tmp_path / "build"


@pytest.fixture
def write_chapter(book: Path) -> WriteChapter:
    """Writes `chapters/<document>/<number>-test.py` from code cells; a cell may carry its own `# %%` line."""

    def write(key: str, *cells: str, title: str = "A chapter", prose: str = "Text.", finished: bool = True) -> Path:
        document, number = key.split("/")
        path = book / "chapters" / document / f"{number}-test.py"
        path.parent.mkdir(exist_ok=True)
        marked = (cell if cell.startswith("# %%") else f"# %%\n{cell}" for cell in cells)
        header = HEADER.format(title=title, prose=prose, finished=str(finished).lower())
        path.write_text("\n\n".join([header, *marked]) + "\n")
        return path

    return write
