"""`Motion`: what the motion capture formats hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Motion:
    """T frames of C channels.

    Attributes:
        channels: C names, a joint and what moves, such as "LeftUpLeg.Zrotation".
        frames: `[T, C]` values: angles in degrees, positions in the unit of the file.
        frame_time: seconds from a frame to the next.
    """

    channels: tuple[str, ...]
    frames: NDArray[np.float64]
    frame_time: float
