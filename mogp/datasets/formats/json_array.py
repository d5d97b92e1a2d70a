"""JSON read strictly, and arrays of numbers in it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from math import isinf
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.text import line_of, read_text, repeated, shown

DEEPEST = 32
"""Most brackets that may be open at a time."""

LONGEST_INTEGER = 300
"""Most digits of an integer: what fits a float."""

_STRING = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"?')


def read_json_array(path: Path | str, *keys: Sequence[str]) -> NDArray[np.float64]:
    """`[len(keys[0]), len(keys[1]), ..., shape of the lists]` finite numbers of a JSON file.

    Each of `keys` is an axis that the file writes as objects: they must have exactly these keys,
    and the axis has their order. Below are lists of numbers, or lists of lists, all of one shape.
    """
    return _array(load_json(path), keys, path)


def load_json(path: Path | str) -> Any:
    """What a JSON file holds; deep nesting, NaN, infinities and a key twice in an object are
    refused.
    """
    text = read_text(path)
    _check_depth(text, path)

    def integer(number: str) -> int:
        if len(number) > LONGEST_INTEGER:
            raise DataFormatError(path, f"{shown(number)} is too large")
        return int(number)

    def finite(number: str) -> float:
        value = float(number)
        if isinf(value):
            raise DataFormatError(path, f"{shown(number)} is too large")
        return value

    def refuse(constant: str) -> NoReturn:
        raise DataFormatError(path, f"{constant} is not JSON")

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = repeated(name for name, _ in pairs)
        if twice is not None:
            raise DataFormatError(path, f"key {shown(twice)} twice in an object")
        return dict(pairs)

    try:
        return json.loads(
            text,
            parse_int=integer,
            parse_float=finite,
            parse_constant=refuse,
            object_pairs_hook=distinct,
        )
    except json.JSONDecodeError as error:
        raise DataFormatError(path, error.msg, error.lineno) from None


def _check_depth(text: str, path: Path | str) -> None:
    bare = _STRING.sub("", text).encode()
    symbols = np.frombuffer(bare, np.uint8)
    step = np.isin(symbols, list(b"[{")).astype(np.int32) - np.isin(symbols, list(b"]}"))
    deep = np.flatnonzero(np.cumsum(step, dtype=np.int32) > DEEPEST)
    if deep.size:
        raise DataFormatError(
            path, f"more than {DEEPEST} open brackets", line_of(bare, int(deep[0]))
        )


def _array(value: Any, keys: Sequence[Sequence[str]], path: Path | str) -> NDArray[np.float64]:
    if keys:
        if not isinstance(value, dict) or set(value) != set(keys[0]):
            found = (
                f"keys {', '.join(map(shown, list(value)[:4]))}, ..."
                if isinstance(value, dict)
                else "no object"
            )
            raise DataFormatError(
                path,
                f"{found}; expected an object with the {len(keys[0])} keys {keys[0][0]!r}, ...",
            )
        parts = [_array(value[key], keys[1:], path) for key in keys[0]]
    elif isinstance(value, list) and value and all(isinstance(part, list) for part in value):
        parts = [_array(part, (), path) for part in value]
    else:
        return _numbers(value, path)
    if len({part.shape for part in parts}) > 1:
        raise DataFormatError(
            path, f"lists of different lengths: shapes {sorted({part.shape for part in parts})[:4]}"
        )
    return np.stack(parts)


def _numbers(value: Any, path: Path | str) -> NDArray[np.float64]:
    if not isinstance(value, list) or not value or not {int, float}.issuperset(map(type, value)):
        raise DataFormatError(path, f"{shown(json.dumps(value)[:60])}, expected a list of numbers")
    return np.array(value, np.float64)
