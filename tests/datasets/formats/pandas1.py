"""Pickles as pandas 1 and NumPy 1 wrote them, put together instruction by instruction."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd


@dataclass
class Name:
    module: str
    name: str


@dataclass
class Call:
    name: Name
    arguments: tuple[Any, ...]
    state: Any = None


def frames_file(splits: dict[str, tuple[pd.DataFrame, ...]]) -> bytes:
    """An npy file of one object: a list with a dictionary of tuples of frames."""
    return npy([{name: tuple(map(frame, frames)) for name, frames in splits.items()}])


def npy(items: list[Any]) -> bytes:
    return npy_of_pickle(b"\x80\x03" + emit(array((), "O8", "|", items)) + b".")


def npy_of_pickle(pickle: bytes) -> bytes:
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (), }".ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + pickle


def frame(table: pd.DataFrame) -> Call:
    """The first column in a block of its own, the others in a second one."""
    values = np.ascontiguousarray(table.to_numpy(float).T)
    width = len(values)
    axes = [index("base", "Index", labels(list(table.columns))), index("numeric", "Float64Index", numbers(table.index))]
    axes[1].arguments[1]["name"] = table.index.name
    blocks = [
        {"values": numbers(values[places]), "mgr_locs": Call(Name("builtins", "slice"), (places.start, places.stop, 1))}
        for places in (slice(0, 1), slice(1, width))
        if places.start < width
    ]
    state = (axes, [], [], {"0.14.1": {"axes": axes, "blocks": blocks}})
    manager = Call(Name("pandas.core.internals.managers", "BlockManager"), (), state)
    return Call(Name("pandas.core.frame", "DataFrame"), (), {"_data": manager, "_typ": "dataframe"})


def index(module: str, name: str, data: Call) -> Call:
    kind = Name(f"pandas.core.indexes.{module}", name)
    return Call(Name("pandas.core.indexes.base", "_new_Index"), (kind, {"data": data, "name": None}))


def labels(names: list[str]) -> Call:
    """The first as a NumPy string, the others as Python's."""
    first = Call(
        Name("numpy.core.multiarray", "scalar"), (dtype(f"U{len(names[0])}", "<"), names[0].encode("utf-32-le"))
    )
    return array((len(names),), "O8", "|", [first, *names[1:]])


def numbers(values: Any) -> Call:
    values = np.asarray(values, "<f8")
    return array(values.shape, "f8", "<", values.tobytes())


def array(shape: tuple[int, ...], code: str, order: str, data: Any) -> Call:
    reconstruct = (Name("numpy", "ndarray"), (0,), b"b")
    return Call(Name("numpy.core.multiarray", "_reconstruct"), reconstruct, (1, shape, dtype(code, order), False, data))


def dtype(code: str, order: str) -> Call:
    return Call(Name("numpy", "dtype"), (code, 0, 1), (3, order, None, None, None, -1, -1, 0))


def emit(value: Any) -> bytes:
    match value:
        case None:
            return b"N"
        case bool():
            return b"\x88" if value else b"\x89"
        case int():
            return b"J" + struct.pack("<i", value)
        case str():
            return b"X" + struct.pack("<I", len(value.encode())) + value.encode()
        case bytes():
            return b"B" + struct.pack("<I", len(value)) + value
        case tuple():
            return b"(" + b"".join(map(emit, value)) + b"t"
        case list():
            return b"](" + b"".join(map(emit, value)) + b"e"
        case dict():
            return b"}(" + b"".join(emit(key) + emit(item) for key, item in value.items()) + b"u"
        case Name():
            return f"c{value.module}\n{value.name}\n".encode()
        case Call():
            state = b"" if value.state is None else emit(value.state) + b"b"
            return emit(value.name) + emit(value.arguments) + b"R" + state
    raise TypeError(type(value))
