"""Columns of a table that a parser read, checked to be numbers before a loader computes with
them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mogp.datasets.dataset import Array
from mogp.datasets.formats.errors import DataFormatError

if TYPE_CHECKING:
    import pandas as pd


def numbers(frame: pd.DataFrame, path: Path) -> Array:
    """The frame as float64 `[N, C]`; a column that is not all numbers is refused with the file it
    came from.
    """
    for name in frame:
        try:
            column = frame[name].to_numpy(np.float64)
        except (ValueError, TypeError) as error:
            raise DataFormatError(path, f"column {name!r} is not all numbers ({error})") from None
        if not np.isfinite(column).all():
            raise DataFormatError(path, f"column {name!r} has a missing value")
    return frame.to_numpy(np.float64)
