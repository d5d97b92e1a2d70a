"""Pandas frames pickled into an npy file by pandas 1, read without running what the file names.

A pickle is a program for a small stack machine that may call any function. Here the few
instructions that such files need are interpreted by hand: a call is only noted down, as a `_Call`
of a name from a short list with its arguments, and the numbers are then picked out of these notes.
It works whatever pandas is installed.
"""

from __future__ import annotations

import math
import pickletools
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.formats.arrays import npy_header
from mogp.datasets.formats.errors import DataFormatError

if TYPE_CHECKING:
    import pandas as pd

PARTS = ("all", "train", "test")

_T = TypeVar("_T")

_ALLOWED = frozenset(
    {
        "builtins slice",
        "numpy dtype",
        "numpy ndarray",
        "numpy.core.multiarray _reconstruct",
        "numpy.core.multiarray scalar",
        "pandas.core.frame DataFrame",
        "pandas.core.indexes.base Index",
        "pandas.core.indexes.base _new_Index",
        "pandas.core.indexes.numeric Float64Index",
        "pandas.core.internals.managers BlockManager",
    }
)


def read_pickled_frames(path: Path | str) -> dict[str, dict[str, pd.DataFrame]]:
    """The frames of an npy file that holds `[{name: (all, train, test)}]`.

    They come as `{name: {"all": ..., "train": ..., "test": ...}}`. The frames are of real numbers;
    their index is numeric, their column labels are strings.
    """
    content = Path(path).read_bytes()
    descr, _, shape, start = npy_header(content, path)
    if (descr, shape) != ("|O", ()):
        raise DataFormatError(
            path, f"holds an array of type {descr!r} and shape {shape}; expected one pickled object"
        )
    try:
        with warnings.catch_warnings():
            # odd escapes in strings that are refused anyway
            warnings.simplefilter("ignore", DeprecationWarning)
            built = _interpret(content[start:])
        return _splits(built, len(content))
    except (ValueError, IndexError, KeyError) as error:
        raise DataFormatError(path, f"does not hold frames pickled by pandas 1: {error}") from error


@dataclass(frozen=True, eq=False)
class _Name:
    """A name that the pickle would import."""

    name: str


@dataclass(eq=False)
class _Call:
    """A call that the pickle would make, and the state it would set on what that returns."""

    name: str
    arguments: tuple[Any, ...]
    state: Any = None


def _interpret(pickle: bytes) -> Any:
    """What the pickle builds, with a `_Call` in place of each object."""
    machine = _Machine()
    for opcode, argument, position in pickletools.genops(pickle):
        if opcode.name not in _INSTRUCTIONS:
            raise ValueError(
                f"it uses the pickle instruction {opcode.name}, which is not on the list of what is"
                " read"
            )
        _INSTRUCTIONS[opcode.name](machine, argument)
        if opcode.name == "STOP" and position != len(pickle) - 1:
            raise ValueError("the file goes on after the end of the pickle")
    return machine.stack.pop()


class _Machine:
    """The stack machine that a pickle is a program for: what it does, but for calls."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._marked: list[list[Any]] = []
        self._memo: dict[Any, Any] = {}

    def go_on(self, _: Any) -> None:
        """Do nothing."""

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def remember(self, key: Any) -> None:
        self._memo[key] = self.stack[-1]

    def recall(self, key: Any) -> None:
        self.stack.append(self._memo[key])

    def mark(self, _: Any) -> None:
        self._marked.append(self.stack)
        self.stack = []

    def _since_mark(self) -> list[Any]:
        items, self.stack = self.stack, self._marked.pop()
        return items

    def tuple_since_mark(self, _: Any) -> None:
        self.push(tuple(self._since_mark()))

    def tuple_of(self, size: int) -> None:
        self.push(tuple(reversed([self.stack.pop() for _ in range(size)])))

    def append(self, _: Any) -> None:
        self._extend([self.stack.pop()])

    def append_since_mark(self, _: Any) -> None:
        self._extend(self._since_mark())

    def _extend(self, items: list[Any]) -> None:
        _typed(self.stack[-1], list).extend(items)

    def set_item(self, _: Any) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set(key, value)

    def set_since_mark(self, _: Any) -> None:
        items = self._since_mark()
        for key, value in zip(items[::2], items[1::2], strict=True):
            self._set(key, value)

    def _set(self, key: Any, value: Any) -> None:
        _typed(self.stack[-1], dict)[_typed(key, str)] = value

    def name(self, name: Any) -> None:
        if name not in _ALLOWED:
            raise ValueError(
                f"it names {'.'.join(str(name).split())}, which is not on the list of what is read"
            )
        self.push(_Name(str(name)))

    def call(self, _: Any) -> None:
        """Note down a call in place of its result."""
        arguments, name = self.stack.pop(), self.stack.pop()
        self.push(_Call(_typed(name, _Name).name, _typed(arguments, tuple)))

    def set_state(self, _: Any) -> None:
        state = self.stack.pop()
        _typed(self.stack[-1], _Call).state = state


_INSTRUCTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("PROTO", "STOP"), _Machine.go_on),
    **dict.fromkeys(("BININT", "BININT1", "BININT2"), _Machine.push),
    **dict.fromkeys(("BINUNICODE", "BINBYTES", "SHORT_BINBYTES"), _Machine.push),
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), _Machine.remember),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), _Machine.recall),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "MARK": _Machine.mark,
    "TUPLE": _Machine.tuple_since_mark,
    "TUPLE1": lambda machine, _: machine.tuple_of(1),
    "TUPLE2": lambda machine, _: machine.tuple_of(2),
    "TUPLE3": lambda machine, _: machine.tuple_of(3),
    "APPEND": _Machine.append,
    "APPENDS": _Machine.append_since_mark,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_since_mark,
    "GLOBAL": _Machine.name,
    "REDUCE": _Machine.call,
    "NEWOBJ": _Machine.call,
    "BUILD": _Machine.set_state,
}
"""What each instruction that is read does with its argument; any other is refused."""


def _typed(value: Any, kind: type[_T]) -> _T:
    if not isinstance(value, kind):
        raise ValueError(f"the pickle has a {type(value).__name__} where a {kind.__name__} must be")
    return value


def _splits(root: Any, budget: int) -> dict[str, dict[str, pd.DataFrame]]:
    """All frames of the file; together they must not hold more cells than the file has bytes."""
    (splits,) = _objects(root)
    found: dict[str, dict[str, pd.DataFrame]] = {}
    for name, frames in _typed(splits, dict).items():
        found[name] = {}
        for part, frame in zip(PARTS, _typed(frames, tuple), strict=True):
            found[name][part] = _frame(frame, budget)
            budget -= found[name][part].size
    return found


def _frame(record: Any, budget: int) -> pd.DataFrame:
    """A frame, which pandas keeps as blocks `[columns, rows]`, each with its columns' places."""
    import pandas as pd

    match record:
        case _Call(
            "pandas.core.frame DataFrame",
            (),
            {
                "_data": _Call(
                    "pandas.core.internals.managers BlockManager",
                    (),
                    (_, _, _, {"0.14.1": {"axes": [columns, index], "blocks": list(blocks)}}),
                )
            },
        ):
            pass
        case _:
            raise ValueError("a frame is not laid out as pandas 1 does")
    (labels, columns_name), (positions, index_name) = _axis(columns), _axis(index)
    rows, names = _numbers(positions), [_label(label) for label in _objects(labels)]
    if rows.ndim != 1 or not 0 < len(rows) * len(names) <= budget:
        raise ValueError(f"a frame has an index of shape {rows.shape} and {len(names)} columns")
    values, filled = np.empty((len(rows), len(names))), np.zeros(len(names), int)
    for block in blocks:
        match block:
            case {
                "values": held,
                "mgr_locs": _Call("builtins slice", (int(first), int(stop), int(step))),
            }:
                places = slice(first, stop, step)
                values[:, places] = _numbers(held).T
                filled[places] += 1
            case _:
                raise ValueError("a block of a frame has no values or no place")
    if not (filled == 1).all():
        raise ValueError("the blocks of a frame do not make up its columns")
    return pd.DataFrame(
        values, index=pd.Index(rows, name=index_name), columns=pd.Index(names, name=columns_name)
    )


def _axis(record: Any) -> tuple[Any, str | None]:
    match record:
        case _Call(
            "pandas.core.indexes.base _new_Index",
            (_Name(), {"data": data, "name": None | str() as name}),
        ):
            return data, name
    raise ValueError("a frame has an axis that is not a plain index")


def _label(record: Any) -> str:
    match record:
        case str():
            return record
        case _Call(
            "numpy.core.multiarray scalar",
            (_Call("numpy dtype", (str(code), *_), (_, "<", *_)), bytes(text)),
        ):
            if re.fullmatch(r"U\d{1,4}", code) and len(text) == 4 * int(code[1:]):
                return text.decode("utf-32-le").rstrip("\0")
    raise ValueError("a column has a label that is not a string")


def _objects(record: Any) -> list[Any]:
    """The items of an array of objects."""
    match record:
        case _Call(
            "numpy.core.multiarray _reconstruct",
            _,
            (1, tuple(), _Call("numpy dtype", ("O8", *_)), _, list(items)),
        ):
            return items
    raise ValueError("the pickle has something else where an array of objects must be")


def _numbers(record: Any) -> NDArray[np.float64]:
    """An array of real numbers."""
    match record:
        case _Call(
            "numpy.core.multiarray _reconstruct",
            _,
            (
                1,
                tuple(shape),
                _Call("numpy dtype", (("f8" | "f4" | "i8" | "i4") as code, *_), (_, "<", *_)),
                bool(fortran),
                bytes(data),
            ),
        ):
            if any(_typed(size, int) < 0 for size in shape) or math.prod(shape) * int(
                code[1]
            ) != len(data):
                raise ValueError(f"an array of shape {shape} has {len(data)} bytes of type {code}")
            return (
                np.frombuffer(data, f"<{code}")
                .reshape(shape, order="F" if fortran else "C")
                .astype(np.float64)
            )
    raise ValueError("the pickle has something else where an array of numbers must be")
