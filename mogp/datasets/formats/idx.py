"""MNIST's idx format: a magic number, big-endian sizes, bytes."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.formats.archives import LIMIT, gunzip
from mogp.datasets.formats.errors import DataFormatError

_DIMENSIONS = {0x801: 1, 0x803: 3}


def read_idx(path: Path | str, limit: int = LIMIT) -> NDArray[np.uint8]:
    """Labels `[N]` or images `[N, H, W]` of an idx file, packed by gzip or not."""
    content = Path(path).read_bytes()
    return parse_idx(
        gunzip(content, path, limit) if content.startswith(b"\x1f\x8b") else content, path
    )


def parse_idx(content: bytes, name: Path | str) -> NDArray[np.uint8]:
    """Labels `[N]` or images `[N, H, W]` in idx `content`, called `name` in errors."""
    magic = int.from_bytes(content[:4], "big")
    if len(content) < 4 or magic not in _DIMENSIONS:
        raise DataFormatError(
            name,
            f"begins with {content[:4].hex() or 'nothing'}; an idx file has 00000801 or 00000803",
        )
    start = 4 + 4 * _DIMENSIONS[magic]
    if len(content) < start:
        raise DataFormatError(name, f"ends within its header: {len(content)} bytes of {start}")
    shape = struct.unpack_from(f">{_DIMENSIONS[magic]}I", content, 4)
    if 0 in shape or math.prod(shape) != len(content) - start:
        raise DataFormatError(
            name,
            f"declares shape {shape}, {math.prod(shape)} bytes, but holds {len(content) - start}",
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()
