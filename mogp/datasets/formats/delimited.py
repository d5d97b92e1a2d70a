"""Tables of text: numbers or mixed columns between commas, tabs or blanks, with or without a header
line.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.text import (
    BLANKS,
    BOM,
    NUMERALS,
    decode,
    floats,
    lines_of,
    read_content,
    repeated,
    shown,
)

if TYPE_CHECKING:
    import pandas as pd

_LINE_END = re.compile(rb"\r\n|\r|\n")

LONGEST_FIELD = 2**17
"""Most characters of a field. The csv module has such a limit too, but one that any library may
have moved.
"""


def read_numbers(
    path: Path | str,
    *,
    delimiter: str | None = ",",
    header: Sequence[str] | None = None,
    columns: int | None = None,
    missing: str | None = None,
) -> NDArray[np.float64]:
    """`[N, C]` finite decimal numbers of a text file; a name that ends in `.gz` is unpacked.

    Args:
        path: the file.
        delimiter: between numbers; None for any run of blanks.
        header: the exact names that line 1 must hold; None for a file that starts with numbers.
        columns: the expected C; None for as many as the header or the first row has.
        missing: the token that stands for a missing number and is read as NaN; "" for an empty
            field.
    """
    return parse_numbers(
        read_content(path),
        path,
        delimiter=delimiter,
        header=header,
        columns=columns,
        missing=missing,
    )


def parse_numbers(
    content: bytes,
    name: Path | str,
    *,
    delimiter: str | None = ",",
    header: Sequence[str] | None = None,
    columns: int | None = None,
    missing: str | None = None,
    line: int = 1,
) -> NDArray[np.float64]:
    """`read_numbers` of `content`, which starts at line `line` of the file called `name` in
    errors.
    """
    body = content.removeprefix(BOM)
    if header is not None:
        end = _LINE_END.search(body)
        first, body = (body[: end.start()], body[end.end() :]) if end else (body, b"")
        _check_header(decode(first, name, line), name, delimiter, header, line)
        columns, line = len(header), line + 1
    body = body.rstrip(b" \r\n")
    if not body or body.isspace():
        raise DataFormatError(name, "no rows", line)
    values = _load(body, delimiter, missing)
    if values is None or (columns is not None and values.shape[1] != columns):
        raise _first_problem(body, name, delimiter, columns, missing, line)
    return values


def _check_header(
    text: str, name: Path | str, delimiter: str | None, names: Sequence[str], line: int
) -> None:
    try:
        found = (
            text.split()
            if delimiter is None
            else next(csv.reader([text], delimiter=delimiter, strict=True), [])
        )
    except csv.Error as error:
        raise DataFormatError(name, f"in the header: {error}", line) from None
    if len(found) != len(names):
        raise DataFormatError(
            name, f"the header has {len(found)} names, expected {len(names)}", line
        )
    for column, (got, expected) in enumerate(zip(found, names, strict=True), 1):
        if got != expected:
            raise DataFormatError(
                name, f"name {column} of the header is {shown(got)}, expected {expected!r}", line
            )


def _load(body: bytes, delimiter: str | None, missing: str | None) -> NDArray[np.float64] | None:
    """NumPy's compiled reader behind a check of the alphabet; None where anything is wrong."""
    present = body
    if missing is not None:
        token = _missing_token(delimiter, missing)
        present, body = token.sub(b"", body), token.sub(b"nan", body)
    if present.translate(None, NUMERALS + BLANKS + b"\r\n" + (delimiter or "").encode()):
        return None
    try:
        table = io.TextIOWrapper(io.BytesIO(body), "ascii")
        values: NDArray[np.float64] = np.loadtxt(table, delimiter=delimiter, comments=None, ndmin=2)
    except ValueError:
        return None
    return None if np.isinf(values).any() else values


def _missing_token(delimiter: str | None, missing: str) -> re.Pattern[bytes]:
    """Matches the token where it fills a field, so between delimiters, blanks and line ends."""
    if missing:
        edge = b"\\s" if delimiter is None else b"\\s" + re.escape(delimiter.encode())
        return re.compile(
            b"(?<![^" + edge + b"])" + re.escape(missing.encode()) + b"(?![^" + edge + b"])"
        )
    if delimiter is None:
        raise ValueError(
            "missing='' needs a delimiter: between blanks an empty field cannot be seen."
        )
    mark = re.escape(delimiter.encode())
    return re.compile(
        b"(?<="
        + mark
        + rb")[ \t]*(?=[\r\n]|\Z|"
        + mark
        + rb")|(?:(?<=[\r\n])|(?<!.))[ \t]*(?="
        + mark
        + b")",
        re.S,
    )


def _first_problem(
    body: bytes,
    name: Path | str,
    delimiter: str | None,
    columns: int | None,
    missing: str | None,
    line: int,
) -> DataFormatError:
    for number, row in enumerate(lines_of(decode(body, name, line)), line):
        text = row.strip("\r\n" if delimiter else " \t\r\n")
        if not text:
            continue
        fields = (
            [field.strip(" \t") for field in text.split(delimiter)]
            if delimiter
            else re.split(r"[ \t]+", text)
        )
        columns = columns or len(fields)
        if floats([field for field in fields[:columns] if field != missing]) is None:
            column = next(
                at
                for at, field in enumerate(fields)
                if field != missing and floats([field]) is None
            )
            problem = f"column {column + 1} holds {shown(fields[column])}, expected a finite number"
            return DataFormatError(name, problem, number)
        if len(fields) != columns:
            return DataFormatError(name, f"{len(fields)} columns, expected {columns}", number)
    return DataFormatError(name, "not a table of numbers", line)


def read_table(
    path: Path | str,
    *,
    delimiter: str | None = ",",
    header: Sequence[str] | bool = True,
    columns: int | None = None,
    missing: Sequence[str] = (),
    index: bool = False,
    skip: int = 0,
    footer: int = 0,
    comment: str | None = None,
) -> pd.DataFrame:
    """A table of mixed columns, N rows and C columns: int64 or float64 where every value is a
    number, text elsewhere.

    Fields are quoted as in CSV; blanks after a delimiter and lines of blanks are dropped. A name
    that ends in `.gz` is unpacked.

    Args:
        path: the file.
        delimiter: between fields; None for any run of blanks (then without quoting).
        header: True takes the names from the first line, False names the columns 0 to C - 1, a
            sequence is the exact names that the first line must hold.
        columns: the expected C; None for as many as the header or the first row has.
        missing: fields that stand for a missing value, read as NaN; "" for an empty field.
        index: the first field of a row is its index, and has an empty name in the header or none at
            all.
        skip: lines before the table.
        footer: lines after the table, not counting blank ones at the end of the file.
        comment: lines that start with it are skipped.
    """
    return parse_table(
        read_content(path),
        path,
        delimiter=delimiter,
        header=header,
        columns=columns,
        missing=missing,
        index=index,
        skip=skip,
        footer=footer,
        comment=comment,
    )


def parse_table(
    content: bytes,
    name: Path | str,
    *,
    delimiter: str | None = ",",
    header: Sequence[str] | bool = True,
    columns: int | None = None,
    missing: Sequence[str] = (),
    index: bool = False,
    skip: int = 0,
    footer: int = 0,
    comment: str | None = None,
) -> pd.DataFrame:
    """`read_table` of `content`, the bytes of the file called `name` in errors."""
    import pandas as pd

    text = decode(content, name).rstrip(" \r\n")
    lines = [
        (number, line)
        for number, line in enumerate(lines_of(text), 1)
        if number > skip and not (comment and line.startswith(comment))
    ]
    records = _records(lines[: max(0, len(lines) - footer)], name, delimiter)
    names: list[str] | None = None
    if header is not False:
        number, names = next(records, (skip + 1, []))
        if index and names and not names[0]:
            names = names[1:]
        _check_names(names, name, None if header is True else header, number)
    width = columns if names is None else len(names)
    if columns is not None and columns != width:
        raise DataFormatError(name, f"the header has {width} names, expected {columns}", number)
    rows: list[list[str]] = []
    for number, row in records:
        width = len(row) - index if width is None else width
        if len(row) != width + index:
            raise DataFormatError(name, f"{len(row)} fields, expected {width + index}", number)
        rows.append(row)
    if not rows:
        raise DataFormatError(name, "no rows")
    values = [column_of(column, frozenset(missing)) for column in zip(*rows, strict=True)]
    labels = values.pop(0) if index else None
    return pd.DataFrame(dict(enumerate(values)), index=labels).set_axis(
        range(width or 0) if names is None else names, axis=1
    )


def _records(
    lines: list[tuple[int, str]], name: Path | str, delimiter: str | None
) -> Iterator[tuple[int, list[str]]]:
    """Rows of fields, each with the number of the line that it starts on; rows of blanks are left
    out.
    """
    if delimiter is None:
        yield from ((number, line.split()) for number, line in lines if line.strip())
        return
    reader = csv.reader(
        (line for _, line in lines), delimiter=delimiter, strict=True, skipinitialspace=True
    )
    at = 0
    try:
        for row in reader:
            if max(map(len, row), default=0) > LONGEST_FIELD:
                raise csv.Error(f"field larger than {LONGEST_FIELD} characters")
            if len(row) > 1 or any(row):
                yield lines[at][0], row
            at = reader.line_num
    except csv.Error as error:
        raise DataFormatError(name, str(error), lines[min(at, len(lines) - 1)][0]) from None


def _check_names(
    names: Sequence[str], name: Path | str, expected: Sequence[str] | None, line: int
) -> None:
    if expected is not None and list(names) != list(expected):
        raise DataFormatError(
            name, f"the header names {_shown_names(names)}, expected {_shown_names(expected)}", line
        )
    if not names:
        raise DataFormatError(name, "no header", line)
    twice = repeated(names)
    if twice is not None:
        raise DataFormatError(name, f"the header names {shown(twice)} twice", line)


def _shown_names(names: Sequence[str]) -> str:
    return ", ".join(map(shown, names[:8])) + (
        f" and {len(names) - 8} more" if len(names) > 8 else ""
    )


def column_of(
    fields: Sequence[str], missing: Collection[str]
) -> NDArray[np.int64] | NDArray[np.float64] | list[str | None]:
    """A column as integers, as numbers with NaN, or as text with None."""
    present = [field for field in fields if field not in missing] if missing else fields
    numbers = floats(present)
    if numbers is None:
        return [None if field in missing else field for field in fields]
    if len(present) == len(fields):
        try:
            return np.fromiter(map(int, fields), np.int64, len(fields))
        except (ValueError, OverflowError):
            return numbers
    values = np.full(len(fields), np.nan)
    values[[field not in missing for field in fields]] = numbers
    return values
