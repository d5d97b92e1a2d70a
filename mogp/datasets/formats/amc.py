"""Acclaim motion capture files: a numbered block of bones and their angles a frame."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.motion import Motion
from mogp.datasets.formats.text import floats, lines_of, read_text, shown

FRAME_TIME = 1.0 / 120.0
"""Seconds a frame: the file does not say, the CMU recordings have 120 frames a second."""

Words = tuple[int, list[str]]
"""The number of a line and its words."""


def read_amc(path: Path | str) -> Motion:
    """The `[T, C]` frames of an AMC file in degrees; channels in the order of the file, such as
    "lfemur.0".
    """
    lines = ((number, line.split()) for number, line in enumerate(lines_of(read_text(path)), 1))
    filled = [(number, words) for number, words in lines if words and not words[0].startswith("#")]
    blocks = _blocks(filled, path)
    _, skeleton = blocks[0]
    sizes: dict[str, int] = {}
    for number, (bone, *values) in skeleton:
        if bone in sizes:
            raise DataFormatError(path, f"bone {shown(bone)} twice", number)
        sizes[bone] = len(values)
    frames = np.stack([_frame(block, start, sizes, path) for start, block in blocks])
    return Motion(
        tuple(f"{bone}.{axis}" for bone, size in sizes.items() for axis in range(size)),
        frames,
        FRAME_TIME,
    )


def _blocks(lines: list[Words], path: Path | str) -> list[tuple[int, list[Words]]]:
    """The lines of bones of each frame, behind the line of the frame's number."""
    blocks: list[tuple[int, list[Words]]] = []
    flags: set[str] = set()
    for number, words in lines:
        if words[0].startswith(":") and not blocks:
            flags.add(words[0].upper())
        elif len(words) == 1:
            if words[0] != str(len(blocks) + 1):
                raise DataFormatError(
                    path, f"{shown(words[0])}, expected frame {len(blocks) + 1}", number
                )
            blocks.append((number, []))
        elif blocks:
            blocks[-1][1].append((number, words))
        else:
            raise DataFormatError(path, f"{shown(words[0])} before the first frame", number)
    if not blocks or not blocks[0][1]:
        raise DataFormatError(path, "no frames")
    if ":DEGREES" not in flags:
        raise DataFormatError(path, "no line :DEGREES; angles in other units are not read")
    return blocks


def _frame(
    block: list[Words], start: int, sizes: dict[str, int], path: Path | str
) -> NDArray[np.float64]:
    """`[C]` values of a frame, whose bones must be those of the first."""
    for (number, (bone, *values)), (expected, size) in zip(block, sizes.items(), strict=False):
        if bone != expected or len(values) != size:
            problem = (
                f"bone {shown(bone)} with {len(values)} values, expected {expected!r} with {size}"
            )
            raise DataFormatError(path, problem, number)
    if len(block) != len(sizes):
        raise DataFormatError(path, f"a frame of {len(block)} bones, expected {len(sizes)}", start)
    frame = floats([value for _, words in block for value in words[1:]])
    if frame is None:
        number = next(number for number, words in block if floats(words[1:]) is None)
        raise DataFormatError(path, "a bone's values must be finite numbers", number)
    return frame
