"""Folders in which the real data files may be."""

from __future__ import annotations

import os
from pathlib import Path

MIRRORS = [
    *map(Path, filter(None, [os.environ.get("MOGP_DATA_MIRROR")])),
    Path(__file__).resolve().parents[3] / "shared" / "data",
]
