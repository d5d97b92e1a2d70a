"""NumPy's own files of numbers, without pickles; a header is checked against the bytes that follow
it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.formats.archives import LIMIT, read_members
from mogp.datasets.formats.errors import DataFormatError

_MAGIC = b"\x93NUMPY"
_HEADER = re.compile(
    r"\{'descr': '(?P<descr>[^']{1,16})', 'fortran_order': (?P<fortran>True|False), "
    r"'shape': \((?P<shape>(?:\d{1,18}, ?)*(?:\d{1,18})?)\),? *\} *\n"
)


class NpyHeader(NamedTuple):
    """What the first bytes of an npy file say, and where they end."""

    descr: str
    fortran: bool
    shape: tuple[int, ...]
    end: int


def read_npz(path: Path | str, names: Sequence[str], limit: int = LIMIT) -> dict[str, NDArray[Any]]:
    """The named arrays of numbers of an npz file, in the order of `names`."""
    members = read_members(path, {f"{name}.npy" for name in names}.__contains__, limit)
    missing = [name for name in names if f"{name}.npy" not in members]
    if missing:
        raise DataFormatError(path, f"has no array {missing[0]!r}; asked for {', '.join(names)}")
    return {name: parse_npy(members[f"{name}.npy"], f"{path}, member {name}.npy") for name in names}


def parse_npy(content: bytes, name: Path | str) -> NDArray[Any]:
    """The array of numbers in npy `content`, called `name` in errors."""
    descr, fortran, shape, start = npy_header(content, name)
    if not re.fullmatch(r"[<>|=]?[biufc]\d{1,2}", descr):
        raise DataFormatError(name, f"holds values of type {descr!r}; only numbers are read")
    try:
        dtype = np.dtype(descr)
    except TypeError as error:
        raise DataFormatError(name, f"declares a type that does not exist: {descr!r}") from error
    declared = math.prod(shape) * dtype.itemsize
    if 0 in shape or declared != len(content) - start:
        raise DataFormatError(
            name, f"declares shape {shape}, {declared} bytes, but holds {len(content) - start}"
        )
    array = np.frombuffer(content, dtype, offset=start).reshape(
        shape, order="F" if fortran else "C"
    )
    return array.astype(dtype.newbyteorder("="), order="C")


def npy_header(content: bytes, name: Path | str) -> NpyHeader:
    """The header of an npy file, read by its exact form rather than evaluated as Python."""
    if len(content) < 10 or not content.startswith(_MAGIC) or content[6] not in (1, 2):
        raise DataFormatError(name, "is not an npy file of format 1 or 2")
    start, size = (10, content[8:10]) if content[6] == 1 else (12, content[8:12])
    end = start + int.from_bytes(size, "little")
    match = _HEADER.fullmatch(content[start : min(end, start + 1000)].decode("latin-1"))
    if end > len(content) or match is None:
        raise DataFormatError(
            name, "has a truncated header, or one that is not a type, an order and a shape"
        )
    shape = tuple(int(size) for size in re.findall(r"\d+", match["shape"]))
    if len(shape) > 32:
        raise DataFormatError(name, f"declares {len(shape)} dimensions")
    return NpyHeader(match["descr"], match["fortran"] == "True", shape, end)
