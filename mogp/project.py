"""Where the project's files are: the book's checkout and the small data tables shipped with the
package.
"""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_folder() -> Path:
    """The folder of the registry, the ledgers and the recorded results: `data/` of a checkout,
    `_data` of a wheel.
    """
    packaged = _PACKAGE / "_data"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "data"


def bibliography() -> Path:
    """The BibTeX file of the book, which a wheel carries with its data."""
    packaged = _PACKAGE / "_data" / "references.bib"
    return packaged if packaged.is_file() else _PACKAGE.parent / "references.bib"


def book_root() -> Path:
    """The checkout that holds `_toc.yml` and `chapters/`.

    Looks at `MOGP_BOOK`, then at the folder of the package, then upwards from the working
    directory.
    """
    named = os.environ.get("MOGP_BOOK")
    candidates = [Path(named)] if named else [_PACKAGE.parent, Path.cwd(), *Path.cwd().parents]
    for folder in candidates:
        if (folder / "_toc.yml").is_file() and (folder / "chapters").is_dir():
            return folder.resolve()
    where = f"MOGP_BOOK={named}" if named else f"{Path.cwd()} and the folders above it"
    raise FileNotFoundError(
        f"no book found: looked in {where} for a folder with _toc.yml and chapters/. "
        "Run the command inside a checkout of the project, or set MOGP_BOOK to one."
    )


def build_folder() -> Path:
    """Where runs and the site are written: `MOGP_BUILD`, or `_build` in the checkout."""
    named = os.environ.get("MOGP_BUILD")
    return Path(named).resolve() if named else book_root() / "_build"
