"""Results of runs as text: what a run may return, and the folder that keeps one small JSON file for
each run.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

LARGEST = 1_000_000
"""Numbers an array in a result may hold; a table of runs is no place for more."""


def encode(result: Any, reserved: Collection[str] = ()) -> str:
    """A result as JSON, bit for bit: names (not the `reserved` ones) of numbers, strings, None,
    lists or arrays.
    """
    if not isinstance(result, Mapping):
        raise TypeError(f"a run must return a dict of named results, not a {_type(result)}.")
    for name in result:
        if not isinstance(name, str):
            raise TypeError(
                f"a run must return a dict with names as keys; {name!r} is a {_type(name)}."
            )
        if name in reserved:
            raise ValueError(
                f"result {name!r} has the name of another column of the table, an argument or"
                " `seconds`."
            )
    return json.dumps({name: _plain(value, name) for name, value in result.items()})


def decode(text: str) -> dict[str, Any]:
    """The inverse of `encode`; tuples come back as lists, scalars of numpy as those of Python."""
    return {name: _rich(value) for name, value in json.loads(text).items()}


@dataclass(frozen=True)
class Record:
    """What is kept of a run: its result as `encode` wrote it, and how long it took."""

    result: str
    seconds: float


class RecordFolder:
    """One file `<key>.json` a run; a file is there whole or not at all, and an unreadable one
    counts as absent.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise OSError(
                f"results of the sweep cannot be kept in {folder} ({error.strerror}). Give a folder"
                " you can write: sweep(..., cache=FOLDER)."
            ) from error

    def get(self, key: str) -> Record | None:
        """The record of a run, if there is a sound one."""
        try:
            stored = json.loads((self.folder / f"{key}.json").read_text("utf-8"))
            record = Record(json.dumps(stored["result"]), float(stored["seconds"]))
            decode(record.result)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return record

    def put(self, key: str, record: Record, point: Mapping[str, Any]) -> None:
        """Keep a record; the point goes with it for whoever opens the file."""
        stored = {
            "point": {name: repr(value)[:200] for name, value in point.items()},
            "result": json.loads(record.result),
            "seconds": record.seconds,
        }
        with tempfile.NamedTemporaryFile(
            "w", dir=self.folder, prefix=".part-", delete=False, encoding="utf-8"
        ) as part:
            json.dump(stored, part)
        os.replace(part.name, self.folder / f"{key}.json")


def _plain(value: Any, name: str) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return _plain(value.item(), name)
    if isinstance(value, list | tuple):
        return [_plain(element, name) for element in value]
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        if array.dtype.kind in "biuf" and array.size <= LARGEST:
            return (
                array.item()
                if array.ndim == 0
                else {"dtype": array.dtype.str, "array": array.tolist()}
            )
        raise TypeError(
            f"result {name!r} is an array of {array.size} values of type {array.dtype}; at most"
            f" {LARGEST} numbers can be kept. Return a summary of it."
        )
    raise TypeError(
        f"result {name!r} is a {_type(value)}; a run returns numbers, strings, None, lists of these"
        " or numeric arrays. Return what you need of it."
    )


def _rich(value: Any) -> Any:
    if isinstance(value, dict):
        return np.array(value["array"], dtype=value["dtype"])
    return [_rich(element) for element in value] if isinstance(value, list) else value


def _type(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
