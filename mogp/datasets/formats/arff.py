"""Weka's attribute-relation files, dense and sparse, and Mulan's: the same with an XML file that
names the labels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.sparse import repeated_row
from mogp.datasets.formats.text import floats, lines_of, naturals, read_text, shown

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Kind = Literal["numeric"] | tuple[str, ...]
Declared = Kind | Literal["string"]

MISSING = "?"
_QUOTED = r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*\""""
_WORD = rf"""(?:{_QUOTED}|[^\s,'"{{}}]+)"""
_ATTRIBUTE = re.compile(
    rf"""@attribute\s+({_QUOTED}|[^\s'"{{}}][^\s{{}}]*)(?:\s+|(?=\{{))(\S.*)""", re.IGNORECASE
)
_NUMERIC = re.compile(r"(?:numeric|real|integer)\s*(?:\[[^\]]*\])?", re.IGNORECASE)
_TEXT = re.compile(r"string|date\b.*", re.IGNORECASE)
_FIELD = re.compile(rf"\s*({_QUOTED}|[^,'\"\s][^,]*|)\s*(,|\Z)")
_PAIR = rf"\s*[0-9]+\s+{_WORD}\s*"
_SPARSE = re.compile(rf"\{{(?:{_PAIR}(?:,{_PAIR})*|\s*)\}}")
_PAIRS = re.compile(rf"([0-9]+)\s+({_WORD})")


@dataclass(frozen=True, eq=False)
class Arff:
    """N rows of C attributes.

    Attributes:
        relation: the name of the table.
        names: C names of attributes.
        kinds: C times "numeric" or the values that the numbers of the column point into: the
            declared ones of a nominal attribute, the ones met, in order, of a string or date
            attribute.
        values: `[N, C]` numbers, NaN where missing; CSR without stored zeros if the file is sparse.
    """

    relation: str
    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    values: NDArray[np.float64] | csr_matrix


@dataclass(frozen=True, eq=False)
class MultiLabel:
    """N rows of P features and K binary labels.

    Attributes:
        X: `[N, P]` features, dense or CSR as the file is.
        Y: `[N, K]` CSR of uint8: 1 where a row has a label.
        features: P names.
        labels: K names, in the order of the attributes.
    """

    X: NDArray[np.float64] | csr_matrix
    Y: csr_matrix
    features: tuple[str, ...]
    labels: tuple[str, ...]


def read_arff(path: Path | str) -> Arff:
    """The table of an ARFF file, of dense rows (`1, ?, red`) or sparse ones (`{3 1, 7 red}`; the
    rest is 0).
    """
    lines = [(number, line.strip()) for number, line in enumerate(lines_of(read_text(path)), 1)]
    lines = [(number, line) for number, line in lines if line and line[0] != "%"]
    relation, names, declared, start = _header(lines, path)
    rows = lines[start:]
    if not rows:
        raise DataFormatError(path, "no rows")
    if rows[0][1].startswith("{"):
        return Arff(relation, names, *_sparse(rows, names, declared, path))
    return Arff(relation, names, *_dense(rows, names, declared, path))


def _header(
    lines: Sequence[tuple[int, str]], path: Path | str
) -> tuple[str, tuple[str, ...], tuple[Declared, ...], int]:
    """Relation, names, kinds and the place in `lines` of the first row."""
    relation: str | None = None
    kinds: dict[str, Declared] = {}
    for place, (number, line) in enumerate(lines):
        keyword, *rest = line.split(None, 1)
        match keyword.lower():
            case "@relation" if relation is None:
                relation = _unquoted("".join(rest))
            case "@attribute" if relation is not None:
                name, kind = _attribute(line, path, number)
                if name in kinds:
                    raise DataFormatError(path, f"attribute {shown(name)} twice", number)
                kinds[name] = kind
            case "@data" if relation is not None and kinds and not rest:
                return relation, tuple(kinds), tuple(kinds.values()), place + 1
            case _:
                raise DataFormatError(
                    path, f"{shown(line)} is out of place before the data", number
                )
    raise DataFormatError(path, "no @data")


def _attribute(line: str, path: Path | str, number: int) -> tuple[str, Declared]:
    found = _ATTRIBUTE.fullmatch(line)
    if found is None:
        raise DataFormatError(
            path, f"{shown(line)} is not an attribute with a name and a type", number
        )
    name, kind = _unquoted(found[1]), found[2].strip()
    if _NUMERIC.fullmatch(kind):
        return name, "numeric"
    if _TEXT.fullmatch(kind):
        return name, "string"
    values = _fields(kind[1:-1]) if kind.startswith("{") and kind.endswith("}") else None
    if not values or "" in values:
        raise DataFormatError(
            path, f"type {shown(kind)}, expected numeric, string, date or {{a, b}}", number
        )
    if len(set(values)) < len(values):
        raise DataFormatError(path, f"attribute {shown(name)} lists a value twice", number)
    return name, tuple(values)


def _fields(text: str) -> list[str] | None:
    """What stands between commas, without quotes and outer blanks; None if the quotes do not pair
    up.
    """
    if "'" not in text and '"' not in text:
        return [field.strip() for field in text.split(",")]
    fields, at, more = [], 0, ","
    while more:
        found = _FIELD.match(text, at)
        if found is None:
            return None
        fields.append(_unquoted(found[1].strip()))
        at, more = found.end(), found[2]
    return fields


def _unquoted(word: str) -> str:
    if len(word) > 1 and word[0] in "'\"" and word[-1] == word[0]:
        return re.sub(r"\\(.)", r"\1", word[1:-1])
    return word


def _dense(
    rows: Sequence[tuple[int, str]],
    names: tuple[str, ...],
    declared: tuple[Declared, ...],
    path: Path | str,
) -> tuple[tuple[Kind, ...], NDArray[np.float64]]:
    table: list[list[str]] = []
    for number, line in rows:
        fields = _fields(line)
        if fields is None or len(fields) != len(names):
            found = "unpaired quotes" if fields is None else f"{len(fields)} values"
            raise DataFormatError(path, f"{found}, expected {len(names)} values", number)
        table.append(fields)
    values = np.empty((len(rows), len(names)))
    kinds: list[Kind] = []
    for column, entries in enumerate(zip(*table, strict=True)):
        kind = declared[column]
        if kind == "string":
            kind = tuple(dict.fromkeys(entry for entry in entries if entry != MISSING))
        numbers = _numbers(entries, kind)
        if numbers is None:
            row = next(row for row, entry in enumerate(entries) if _numbers([entry], kind) is None)
            raise DataFormatError(path, _problem(names[column], entries[row], kind), rows[row][0])
        values[:, column] = numbers
        kinds.append(kind)
    return tuple(kinds), values


def _numbers(fields: Sequence[str], kind: Kind) -> NDArray[np.float64] | None:
    """A column of one kind as numbers, NaN where missing; None if a field does not fit."""
    if kind != "numeric":
        places = _places(kind)
        found = [places.get(field) for field in fields]
        return None if None in found else np.array(found, np.float64)
    if MISSING not in fields:
        return floats(fields)
    values = np.full(len(fields), np.nan)
    present = floats([field for field in fields if field != MISSING])
    if present is None:
        return None
    values[[field != MISSING for field in fields]] = present
    return values


def _problem(name: str, field: str, kind: Kind) -> str:
    expected = (
        "a finite number"
        if kind == "numeric"
        else f"one of {len(kind)} values such as {shown(kind[0])}"
    )
    return f"attribute {shown(name)} holds {shown(field)}, expected {expected}"


def _sparse(
    rows: Sequence[tuple[int, str]],
    names: tuple[str, ...],
    declared: tuple[Declared, ...],
    path: Path | str,
) -> tuple[tuple[Kind, ...], csr_matrix]:
    from scipy.sparse import csr_matrix

    kinds = tuple(kind for kind in declared if kind != "string")
    if len(kinds) < len(names):
        raise DataFormatError(
            path,
            f"sparse rows of {shown(names[declared.index('string')])}, which is text",
            rows[0][0],
        )
    tokens: list[str] = []
    starts = [0]
    for number, line in rows:
        if _SPARSE.fullmatch(line) is None:
            raise DataFormatError(
                path, f"{shown(line)} is not a sparse row {{place value, ...}}", number
            )
        if "'" in line or '"' in line:
            tokens.extend(_unquoted(word) for pair in _PAIRS.findall(line) for word in pair)
        else:
            tokens.extend(line[1:-1].replace(",", " ").split())
        starts.append(len(tokens) // 2)
    places, words = tokens[::2], tokens[1::2]
    at = naturals(places)
    if at is None or (at >= len(names)).any():
        entry = next(entry for entry, place in enumerate(places) if not _within(place, len(names)))
        problem = f"place {shown(places[entry])}, expected 0 to {len(names) - 1}"
        raise DataFormatError(path, problem, _line(rows, starts, entry))
    values = _entries(at, words, kinds)
    if values is None:
        entry = next(
            entry for entry, word in enumerate(words) if _numbers([word], kinds[at[entry]]) is None
        )
        place = at[entry]
        raise DataFormatError(
            path, _problem(names[place], words[entry], kinds[place]), _line(rows, starts, entry)
        )
    matrix = csr_matrix((values, at, starts), shape=(len(rows), len(names)))
    matrix.sort_indices()
    row = repeated_row(matrix)
    if row is not None:
        raise DataFormatError(path, "a place twice in a sparse row", rows[row][0])
    matrix.eliminate_zeros()
    return kinds, matrix


def _within(place: str, size: int) -> bool:
    number = naturals([place])
    return number is not None and bool(number[0] < size)


def _line(rows: Sequence[tuple[int, str]], starts: Sequence[int], entry: int) -> int:
    return rows[int(np.searchsorted(starts, entry, "right")) - 1][0]


def _entries(
    at: NDArray[np.int64], words: Sequence[str], kinds: Sequence[Kind]
) -> NDArray[np.float64] | None:
    """The value of each stored entry, whose attribute is `at`; None if one does not fit."""
    values = np.empty(len(words))
    numeric = np.array([kind == "numeric" for kind in kinds])[at]
    numbers = _numbers([words[entry] for entry in np.flatnonzero(numeric)], "numeric")
    places = [{} if kind == "numeric" else _places(kind) for kind in kinds]
    others = [places[at[entry]].get(words[entry]) for entry in np.flatnonzero(~numeric)]
    if numbers is None or None in others:
        return None
    values[numeric], values[~numeric] = numbers, others
    return values


def _places(values: tuple[str, ...]) -> dict[str, float]:
    return {MISSING: np.nan, **{value: float(place) for place, value in enumerate(values)}}


def read_mulan(arff: Path | str, xml: Path | str) -> MultiLabel:
    """A multi-label set: the attributes that the XML file names are the labels, all others the
    features.
    """
    from scipy.sparse import csr_matrix

    table = read_arff(arff)
    chosen = dict.fromkeys(read_labels(xml))
    place = {name: column for column, name in enumerate(table.names)}
    for label in chosen:
        if label not in place:
            raise DataFormatError(xml, f"label {shown(label)} is not an attribute of {arff}")
        if table.kinds[place[label]] not in ("numeric", ("0", "1")):
            raise DataFormatError(arff, f"label {shown(label)} has other values than 0 and 1")
    labels = tuple(name for name in table.names if name in chosen)
    features = tuple(name for name in table.names if name not in chosen)
    Y = csr_matrix(table.values[:, [place[name] for name in labels]])
    if not np.isin(Y.data, (0.0, 1.0)).all():
        raise DataFormatError(arff, "a label is neither 0 nor 1")
    X = table.values[:, [place[name] for name in features]]
    return MultiLabel(X, Y.astype(np.uint8), features, labels)


def read_labels(xml: Path | str) -> tuple[str, ...]:
    """Names in a Mulan XML file, at any depth; document types, and so entities, are refused."""
    names: dict[str, None] = {}
    root: list[str] = []
    parser = expat.ParserCreate(namespace_separator=" ")

    def start(tag: str, attributes: dict[str, str]) -> None:
        tag, line = tag.rpartition(" ")[2], parser.CurrentLineNumber
        if tag == "labels" and not root:
            root.append(tag)
            return
        if tag != "label" or not root or "name" not in attributes:
            raise DataFormatError(
                xml, f"element {shown(tag)}, expected a <label name=...> in <labels>", line
            )
        if attributes["name"] in names:
            raise DataFormatError(xml, f"label {shown(attributes['name'])} twice", line)
        names[attributes["name"]] = None

    def refuse(*_: object) -> None:
        raise DataFormatError(xml, "a document type; expected none", parser.CurrentLineNumber)

    parser.StartElementHandler, parser.StartDoctypeDeclHandler = start, refuse
    try:
        parser.Parse(read_text(xml), True)
    except expat.ExpatError as error:
        raise DataFormatError(xml, expat.ErrorString(error.code), error.lineno) from None
    if not names:
        raise DataFormatError(xml, "no labels")
    return tuple(names)
