"""What the text formats share: bounded reading, strict decoding, strict numbers."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.formats.errors import DataFormatError

LIMIT = 2**30
"""Most bytes that a compressed text file may unpack to."""

BOM = b"\xef\xbb\xbf"
NUMERALS = b"0123456789+-.eE"
BLANKS = b" \t"


def read_content(path: Path | str) -> bytes:
    """The bytes of a file, unpacked where its name ends in `.gz`."""
    path = Path(path)
    if path.suffix == ".gz":
        from mogp.datasets.formats.archives import read_gzip

        return read_gzip(path, LIMIT)
    return path.read_bytes()


def read_text(path: Path | str) -> str:
    """The text of a UTF-8 file."""
    return decode(read_content(path), path)


def decode(content: bytes, name: Path | str, line: int = 1) -> str:
    """UTF-8 text without its byte order mark; other encodings and NUL bytes are refused with their
    line.

    `content` starts at line `line` of the file called `name`.
    """
    content = content.removeprefix(BOM)
    nul = content.find(b"\0")
    if nul >= 0:
        raise DataFormatError(name, "a NUL byte; expected text", line_of(content, nul) + line - 1)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        problem = f"byte 0x{content[error.start]:02x} is not UTF-8"
        raise DataFormatError(name, problem, line_of(content, error.start) + line - 1) from None


def lines_of(text: str) -> list[str]:
    """Lines with their ends as written: LF, CR LF or CR."""
    return list(io.StringIO(text, newline=""))


def line_of(content: bytes, at: int) -> int:
    """Number of the line that holds byte `at`."""
    before = content[:at]
    return 1 + before.count(b"\n") + before.count(b"\r") - before.count(b"\r\n")


def floats(tokens: Sequence[str]) -> NDArray[np.float64] | None:
    """`[N]` finite decimal numbers, blanks around them allowed; None if a token is anything
    else.
    """
    joined = "".join(tokens)
    if not joined.isascii() or joined.encode().translate(None, NUMERALS + BLANKS):
        return None
    try:
        values = np.fromiter(map(float, tokens), np.float64, len(tokens))
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None


def naturals(tokens: Sequence[str]) -> NDArray[np.int64] | None:
    """`[N]` integers >= 0 written in digits only; None if a token is anything else or beyond 18
    digits.
    """
    joined = "".join(tokens)
    if (
        not joined.isascii()
        or (tokens and not joined.isdigit())
        or max(map(len, tokens), default=0) > 18
    ):
        return None
    try:
        return np.fromiter(map(int, tokens), np.int64, len(tokens))
    except ValueError:
        return None


def repeated(names: Iterable[str]) -> str | None:
    """The first name that has come before."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def shown(token: str) -> str:
    """A token as messages quote it."""
    return repr(token if len(token) <= 40 else token[:37] + "...")
