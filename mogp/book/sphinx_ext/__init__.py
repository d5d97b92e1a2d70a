"""Sphinx extension of the book: nothing is fetched from another host, and docstrings in Markdown
render as written.
"""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

from mogp.book.sphinx_ext import docstrings, offline

__all__ = ["setup"]


def setup(app: Sphinx) -> dict[str, Any]:
    """Entry point that Sphinx calls; `_config.yml` lists this package under `extra_extensions`."""
    offline.connect(app)
    docstrings.connect(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "version": "1"}
