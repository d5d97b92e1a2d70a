"""MATLAB files of versions 4 and 5: numeric arrays, and cell arrays of them.

SciPy reads the values. Its reader allocates what a compressed file declares, so before it sees a
file of version 5 the wanted variables are unpacked within a limit and every size they declare is
checked against the bytes that are there.
"""

from __future__ import annotations

import io
import math
import struct
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.formats.archives import LIMIT
from mogp.datasets.formats.errors import DataFormatError

_HEADER = 128
_INT8, _INT32, _UINT32, _MATRIX, _COMPRESSED = 1, 5, 6, 14, 15
_ITEM_BYTES = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8}
_CELL, _NUMERIC = 1, range(6, 16)
_COMPLEX = 0x800


def read_mat(path: Path | str, names: Sequence[str], limit: int = LIMIT) -> dict[str, NDArray[Any]]:
    """The named variables of a MATLAB file, in the order of `names`: arrays of numbers as stored,
    at least 2-D.

    A cell array comes as an object array of arrays of numbers. Strings, structures and complex or
    sparse arrays are refused, and so are files of version 7.3, which are HDF5.
    """
    content = Path(path).read_bytes()
    if content[1:4] == b"HDF" or content[124:126] in (b"\0\2", b"\2\0"):
        raise DataFormatError(
            path, "is a MATLAB 7.3 (HDF5) file; save it with '-v7' in MATLAB, or read it with h5py"
        )
    if 0 not in content[:4]:
        content = _checked(content, names, path, limit)
    variables = _load(content, names, path)
    missing = [name for name in names if name not in variables]
    if missing:
        raise DataFormatError(path, f"has no variable {missing[0]!r}; asked for {', '.join(names)}")
    return {name: _numbers(variables[name], name, path) for name in names}


def _load(content: bytes, names: Sequence[str], path: Path | str) -> dict[str, Any]:
    import scipy.io
    from scipy.io.matlab import MatReadError

    try:
        with warnings.catch_warnings():
            for category in (UserWarning, RuntimeWarning):  # such as "returned data may be corrupt"
                warnings.simplefilter("error", category)
            return dict(scipy.io.loadmat(io.BytesIO(content), variable_names=list(names)))
    except (
        MatReadError,
        ValueError,
        TypeError,
        OSError,
        OverflowError,
        KeyError,
        Warning,
    ) as error:
        raise DataFormatError(path, f"is not a sound MATLAB file ({error})") from error


def _numbers(value: Any, name: str, path: Path | str) -> NDArray[Any]:
    if isinstance(value, np.ndarray) and value.dtype == object:
        cells = np.empty(value.shape, object)
        for index, cell in np.ndenumerate(value):
            cells[index] = _numbers(cell, f"{name}{list(index)}", path)
        return cells
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
        raise DataFormatError(path, f"variable {name!r} is not an array of real numbers")
    return value.astype(value.dtype.newbyteorder("="))


class _Element(NamedTuple):
    """A data element of version 5: its type, and where its data start, stop and the next element
    starts.
    """

    kind: int
    start: int
    stop: int
    after: int


class _Walker:
    """Reads tags of `content` (byte order `order`); every size is checked against the end of what
    holds the element.
    """

    def __init__(self, content: bytes, order: str, path: Path | str) -> None:
        self.content, self.order, self.path = content, order, path

    def element(self, offset: int, end: int, kinds: Sequence[int]) -> _Element:
        """The element at `offset`, whose type must be one of `kinds`, and which must stop by
        `end`.
        """
        if offset + 8 > end:
            raise DataFormatError(self.path, f"ends within a tag at byte {offset}")
        kind, size = struct.unpack_from(f"{self.order}II", self.content, offset)
        start, small = offset + 8, kind >> 16
        if small:
            kind, size, start = kind & 0xFFFF, small, offset + 4
        stop = start + size
        if kind not in kinds:
            raise DataFormatError(
                self.path, f"has an element of type {kind} at byte {offset}; expected {list(kinds)}"
            )
        if stop > end or small > 4:
            raise DataFormatError(
                self.path,
                f"declares {size} bytes at byte {offset}, but {max(end - start, 0)} remain",
            )
        return _Element(kind, start, stop, offset + 8 if small else min(stop + -size % 8, end))

    def name(self, matrix: _Element) -> str:
        """Name of a matrix: its third element."""
        flags = self.element(matrix.start, matrix.stop, [_UINT32])
        shape = self.element(flags.after, matrix.stop, [_INT32])
        name = self.element(shape.after, matrix.stop, [_INT8])
        return self.content[name.start : name.stop].decode("latin-1")

    def check(self, matrix: _Element, cells: bool = True) -> None:
        """That a matrix is a real numeric array or, if `cells`, a cell array of them, as large as
        it declares.
        """
        flags = self.element(matrix.start, matrix.stop, [_UINT32])
        shape = self.element(flags.after, matrix.stop, [_INT32])
        name = self.element(shape.after, matrix.stop, [_INT8])
        if (
            flags.stop - flags.start != 8
            or (shape.stop - shape.start) % 4
            or not 8 <= shape.stop - shape.start <= 128
        ):
            raise DataFormatError(self.path, f"has a damaged array header at byte {matrix.start}")
        (flag,) = struct.unpack_from(f"{self.order}I", self.content, flags.start)
        sizes = struct.unpack_from(
            f"{self.order}{(shape.stop - shape.start) // 4}i", self.content, shape.start
        )
        if min(sizes) < 0:
            raise DataFormatError(
                self.path, f"declares an array of shape {sizes} at byte {matrix.start}"
            )
        offset, count = name.after, math.prod(sizes)
        if flag & 0xFF == _CELL and cells:
            for _ in range(count):
                cell = self.element(offset, matrix.stop, [_MATRIX])
                if cell.stop > cell.start:
                    self.check(cell, cells=False)
                offset = cell.after
        elif flag & 0xFF in _NUMERIC and not flag & _COMPLEX:
            data = self.element(offset, matrix.stop, list(_ITEM_BYTES))
            if data.stop - data.start != count * _ITEM_BYTES[data.kind]:
                raise DataFormatError(
                    self.path,
                    f"declares an array of shape {sizes} at byte {matrix.start}, but its data do"
                    " not fill it",
                )
        else:
            raise DataFormatError(
                self.path,
                f"has a variable at byte {matrix.start} that is not an array of real numbers",
            )


def _checked(content: bytes, names: Sequence[str], path: Path | str, limit: int) -> bytes:
    """A file of version 5 with only the wanted variables of `content`, unpacked and checked."""
    order = {b"IM": "<", b"MI": ">"}.get(content[126:_HEADER])
    if order is None or struct.unpack_from(f"{order}H", content, 124) != (0x100,):
        raise DataFormatError(
            path, "does not begin with the header of a MATLAB file of version 4 or 5"
        )
    found: dict[str, bytes] = {}
    for element in _elements(content, order, path, limit):
        walker = _Walker(element, order, path)
        matrix = walker.element(0, len(element), [_MATRIX])
        name = walker.name(matrix)
        if name in names:
            if name in found:
                raise DataFormatError(path, f"has two variables {name!r}")
            walker.check(matrix)
            found[name] = element
    return content[:_HEADER] + b"".join(found.values())


def _elements(content: bytes, order: str, path: Path | str, limit: int) -> Iterator[bytes]:
    """The top-level elements, unpacked: together at most `limit` bytes."""
    walker, offset = _Walker(content, order, path), _HEADER
    while offset < len(content):
        element = walker.element(offset, len(content), [_MATRIX, _COMPRESSED])
        if element.kind == _MATRIX:
            yield content[offset : element.stop]
        else:
            unpacker = zlib.decompressobj()
            try:
                unpacked = unpacker.decompress(content[element.start : element.stop], limit + 1)
            except zlib.error as error:
                raise DataFormatError(
                    path, f"has a damaged compressed variable at byte {offset} ({error})"
                ) from error
            if not unpacker.eof or len(unpacked) > limit:
                raise DataFormatError(
                    path,
                    f"has a variable at byte {offset} that is truncated or unpacks to more than"
                    f" {limit} bytes",
                )
            limit -= len(unpacked)
            yield unpacked
        offset = element.stop
