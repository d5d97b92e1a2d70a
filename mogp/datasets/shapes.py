"""What parsing a registered file gives: its shape as text, which `mogp data verify` compares with
the registry's.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

from mogp.datasets.catalogue import MODULES

SHAPES: dict[str, Callable[[Path], str]] = {
    pattern: shape for module in MODULES for pattern, shape in getattr(module, "SHAPES", {}).items()
}
"""For every registered file, by a pattern of its path, what parses a copy and says what was in it.
"""


def shape_of(path: str, copy: Path) -> str:
    """Parse `copy`, a sound copy of the registered file `path`, with its data set's reader, and say
    what was in it.
    """
    for pattern, shape in SHAPES.items():
        if fnmatchcase(path, pattern):
            return shape(copy)
    raise LookupError(f"no data set reads {path}; add a pattern to SHAPES of its module.")
