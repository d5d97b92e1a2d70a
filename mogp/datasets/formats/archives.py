"""Zip, tar and gzip files read in memory: nothing is ever extracted, and every unpacked byte is
counted.

A member whose name would leave the folder it is unpacked in, a link, a device or an encrypted
member condemns the whole archive. Sizes that an archive declares are not believed: reading stops at
`limit` bytes of actual output, over all members together, so a small file that unpacks to terabytes
costs no more than `limit`.
"""

from __future__ import annotations

import errno
import gzip
import io
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mogp.datasets.formats.errors import DataFormatError

if TYPE_CHECKING:
    from _typeshed import SupportsRead, WriteableBuffer

LIMIT = 2**30
_CHUNK = 2**16
_BLOCK = 512
_GZIP = b"\x1f\x8b"
_ERRORS = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, tarfile.TarError, zlib.error, EOFError),
    *(OSError, ValueError, OverflowError, NotImplementedError),
)


def read_members(
    path: Path | str, wanted: Callable[[str], bool] | None = None, limit: int = LIMIT
) -> dict[str, bytes]:
    """Contents of the files in a zip, tar or tar.gz by name, in sorted order of names; `wanted`
    picks names.
    """
    return dict(iter_members(path, wanted, limit))


def iter_members(
    path: Path | str, wanted: Callable[[str], bool] | None = None, limit: int = LIMIT
) -> Iterator[tuple[str, bytes]]:
    """The same one by one. A zip holds one member in memory at a time; a tar, which has no index,
    is unpacked first.
    """
    with _opened(path, limit) as (names, member):
        for name in sorted(names):
            if wanted is None or wanted(name):
                with member(name) as stream:
                    yield name, _drain(stream)


@contextmanager
def open_member(path: Path | str, name: str, limit: int = LIMIT) -> Iterator[io.BufferedReader]:
    """A binary stream over one member, for files too large to hold: its reads raise
    `DataFormatError` where damaged.
    """
    with _opened(path, limit) as (names, member):
        if name not in names:
            raise DataFormatError(
                path, f"has no member {name!r}; it has {', '.join(sorted(names)[:10]) or 'none'}"
            )
        with member(name) as stream:
            yield stream


def read_gzip(path: Path | str, limit: int = LIMIT) -> bytes:
    """The unpacked content of a gzip file."""
    with open(path, "rb") as file:
        return _gunzip(file, path, limit)


def gunzip(content: bytes, name: Path | str, limit: int = LIMIT) -> bytes:
    """The unpacked form of gzip `content`, called `name` in errors: for gzip files inside an
    archive.
    """
    return _gunzip(io.BytesIO(content), name, limit)


Member = Callable[[str], io.BufferedReader]


class _Metered(io.RawIOBase):
    """A stream of a library's decompressor: its errors become `DataFormatError`, as does spending
    all of `meter`.

    A stream that ends at another `size` than the one declared is an error too.
    """

    def __init__(
        self, stream: SupportsRead[bytes], meter: _Meter, member: str = "", size: int | None = None
    ) -> None:
        self._stream, self._meter, self._member, self._left = stream, meter, member, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        with _reported(self._meter.path, self._member):
            chunk = self._stream.read(len(view))
            if self._left is not None:
                self._left -= len(chunk)
                if self._left and not chunk:
                    raise EOFError(f"{self._left} of the bytes it declares are missing")
        self._meter.spend(len(chunk))
        view[: len(chunk)] = chunk
        return len(chunk)


class _Meter:
    """How many more bytes may be unpacked from a file."""

    def __init__(self, path: Path | str, limit: int) -> None:
        self.path, self.limit, self.left = path, limit, limit

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise DataFormatError(self.path, f"unpacks to more than {self.limit} bytes, the limit")


@contextmanager
def _reported(path: Path | str, member: str = "") -> Iterator[None]:
    where = f"member {member!r}" if member else "the file"
    try:
        yield
    except DataFormatError:
        raise
    except _ERRORS as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # the disk's doing; a seek to before the beginning is the archive's
        raise DataFormatError(
            path, f"{where} is damaged or truncated ({error or type(error).__name__})"
        ) from error


def _drain(stream: SupportsRead[bytes]) -> bytes:
    content = io.BytesIO()
    shutil.copyfileobj(stream, content, _CHUNK)
    return content.getvalue()


def _gunzip(file: io.BufferedIOBase, name: Path | str, limit: int) -> bytes:
    if file.read(2) != _GZIP:
        raise DataFormatError(name, "is not a gzip file: it does not begin with 1f 8b")
    file.seek(0)
    with gzip.GzipFile(fileobj=file) as stream:
        return _drain(_Metered(stream, _Meter(name, limit)))


@contextmanager
def _opened(path: Path | str, limit: int) -> Iterator[tuple[frozenset[str], Member]]:
    """Names of the files in an archive, all checked, and a function that opens one."""
    with open(path, "rb") as file:
        magic = file.read(2)
        file.seek(0)
        if magic == b"PK":
            with _reported(path):
                archive = zipfile.ZipFile(file)
            with archive:
                yield _in_zip(archive, path, _Meter(path, limit))
        elif magic:
            packed = magic == _GZIP
            content = (
                _gunzip(file, path, limit)
                if packed
                else _drain(_Metered(file, _Meter(path, limit)))
            )
            yield _in_tar(content, path)
        else:
            raise DataFormatError(path, "is empty; expected a zip, tar or tar.gz file")


def _in_zip(
    archive: zipfile.ZipFile, path: Path | str, meter: _Meter
) -> tuple[frozenset[str], Member]:
    infos: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.orig_filename
        _check_name(name, name in infos, path)
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise DataFormatError(
                path, f"member {name!r} is a link or a device; only files and folders are read"
            )
        if info.flag_bits & 1:
            raise DataFormatError(path, f"member {name!r} is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataFormatError(
                path, f"member {name!r} is packed by method {info.compress_type}, not 0 or 8"
            )
        infos[name] = info

    def member(name: str) -> io.BufferedReader:
        with _reported(path, name):
            stream = archive.open(infos[name])
        return io.BufferedReader(_Metered(stream, meter, name, infos[name].file_size), _CHUNK)

    return frozenset(name for name in infos if not name.endswith("/")), member


def _in_tar(content: bytes, path: Path | str) -> tuple[frozenset[str], Member]:
    """Headers of 512 bytes, each followed by its file filled up to 512; a header of zeros ends the
    archive.

    Extended headers (long names, sparse files) are refused with the links and the devices.
    """
    spans: dict[str, tuple[int, int]] = {}
    offset = 0
    while (header := content[offset : offset + _BLOCK]) != bytes(_BLOCK):
        with _reported(path):
            info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        _check_name(info.name, info.name in spans, path)
        start = offset + _BLOCK
        if info.isdir():
            offset = start
            continue
        if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise DataFormatError(
                path,
                f"member {info.name!r} is of type {info.type!r}: a link, a device or an extension;"
                " only files are read",
            )
        if not 0 <= info.size <= len(content) - start:
            raise DataFormatError(
                path,
                f"member {info.name!r} declares {info.size} bytes, {len(content) - start} remain",
            )
        spans[info.name] = start, start + info.size
        offset = start + info.size + -info.size % _BLOCK

    def member(name: str) -> io.BufferedReader:
        start, stop = spans[name]
        return io.BufferedReader(
            _Metered(io.BytesIO(content[start:stop]), _Meter(path, stop - start), name), _CHUNK
        )

    return frozenset(spans), member


def _check_name(name: str, seen: bool, path: Path | str) -> None:
    if (
        not name.isprintable()
        or name.startswith("/")
        or "\\" in name
        or ".." in name.split("/")
        or re.match("[A-Za-z]:", name)
        or not name.strip("/")
    ):
        raise DataFormatError(
            path, f"member {name!r} has an unsafe name; names must be plain relative paths with '/'"
        )
    if seen:
        raise DataFormatError(path, f"member {name!r} is there twice")
