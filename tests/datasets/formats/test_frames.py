from __future__ import annotations

import os
import pickle
import struct

import numpy as np
import pandas as pd
import pytest
from pandas1 import Call, Name, array, dtype, emit, frame, frames_file, index, labels, npy, npy_of_pickle, numbers

from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.frames import read_pickled_frames


@pytest.fixture
def file(tmp_path):
    def write(content: bytes):
        (tmp_path / "file.npy").write_bytes(content)
        return tmp_path / "file.npy"

    return write


@pytest.fixture
def table(rng) -> pd.DataFrame:
    values = rng.normal(size=(5, 3))
    values[2, 1] = np.nan
    return pd.DataFrame(values, index=pd.Index(np.linspace(0, 1, 5), name="time"), columns=["F3", "FZ", "Ω"])


def test_frames_come_back_with_their_labels(table, file):
    found = read_pickled_frames(file(frames_file({"eeg": (table, table[:3], table[["FZ"]]), "fx": (table,) * 3})))
    assert list(found) == ["eeg", "fx"]
    assert list(found["eeg"]) == ["all", "train", "test"]
    for expected, part in zip((table, table[:3], table[["FZ"]]), found["eeg"].values(), strict=True):
        pd.testing.assert_frame_equal(part, expected)


class System:
    """Runs a command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_run_a_command_is_refused(protocol, file, tmp_path):
    harm = pickle.dumps(System(f"touch {tmp_path}/harm"), protocol)
    with pytest.raises(DataFormatError):
        read_pickled_frames(file(npy_of_pickle(harm)))
    assert not (tmp_path / "harm").exists()
    pickle.loads(harm)
    assert (tmp_path / "harm").exists()


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "builtins.getattr", "numpy.load", "pandas.read_pickle"])
def test_a_name_that_is_not_on_the_list_is_refused_and_told(name, table, file):
    module, function = name.split(".")
    content = npy([{"eeg": (frame(table), frame(table), Call(Name(module, function), ("1",)))}])
    with pytest.raises(DataFormatError, match=f"file.npy: .*it names {name}"):
        read_pickled_frames(file(content))


def test_huge_memo_numbers_cost_nothing(table, file):
    content = frames_file({"eeg": (table,) * 3})
    put = content[:-1] + b"r" + struct.pack("<I", 2**32 - 1) + b"."
    assert list(read_pickled_frames(file(put))) == ["eeg"]


def test_one_frame_repeated_by_reference_is_refused_once_it_outgrows_the_file(table, file):
    once = b"\x80\x03" + emit(frame(pd.concat([table] * 200))) + b"q\x00"
    splits = b"".join(emit(f"set{n}") + b"h\x00h\x00h\x00\x87" for n in range(2000))
    start, end = emit(array((), "O8", "|", ["here"])).split(emit("here"))
    with pytest.raises(DataFormatError, match="a frame has an index of shape"):
        read_pickled_frames(file(npy_of_pickle(once + start + b"}(" + splits + b"u" + end + b".")))


def test_deep_tuples_as_keys_are_refused_before_they_are_hashed(file):
    with pytest.raises(DataFormatError, match="a tuple where a str must be"):
        read_pickled_frames(file(npy_of_pickle(b"\x80\x03})" + b"q\x00h\x00\x86" * 100_000 + b"Ns.")))


def _frame(axes: list, blocks: list) -> Call:
    manager = Name("pandas.core.internals.managers", "BlockManager")
    state = (axes, [], [], {"0.14.1": {"axes": axes, "blocks": blocks}})
    return Call(Name("pandas.core.frame", "DataFrame"), (), {"_data": Call(manager, (), state)})


def _block(values: object, *places: int) -> dict[str, object]:
    return {"values": values, "mgr_locs": Call(Name("builtins", "slice"), places)}


COLUMNS = index("base", "Index", labels(["a", "b"]))
ROWS = index("numeric", "Float64Index", numbers([0.0, 1.0, 2.0]))
VALUES = numbers(np.zeros((2, 3)))
SHORT = Call(Name("numpy.core.multiarray", "scalar"), (dtype("U2", "<"), b"ab"))


def test_the_hand_made_frame_is_sound(file):
    sound = _frame([COLUMNS, ROWS], [_block(VALUES, 0, 2, 1)])
    assert read_pickled_frames(file(npy([{"eeg": (sound,) * 3}])))["eeg"]["test"].shape == (3, 2)


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        "frame",
        Call(Name("pandas.core.frame", "DataFrame"), ()),
        _frame([COLUMNS], [_block(VALUES, 0, 2, 1)]),
        _frame([COLUMNS, COLUMNS], [_block(VALUES, 0, 2, 1)]),
        _frame([ROWS, COLUMNS], [_block(VALUES, 0, 2, 1)]),
        _frame([COLUMNS, ROWS], []),
        _frame([COLUMNS, ROWS], [_block(VALUES, 0, 1, 1)]),
        _frame([COLUMNS, ROWS], [_block(VALUES, 0, 2, 0)]),
        _frame([COLUMNS, ROWS], [_block(VALUES, 0, 2, 1)] * 2),
        _frame([COLUMNS, ROWS], [_block(numbers(np.zeros((2, 4))), 0, 2, 1)]),
        _frame([COLUMNS, ROWS], [_block(array((2, 3), "f8", "<", bytes(40)), 0, 2, 1)]),
        _frame([COLUMNS, ROWS], [_block(array((2**30, 2**30), "f8", "<", bytes(48)), 0, 2, 1)]),
        _frame([COLUMNS, ROWS], [_block(array((-2, -3), "f8", "<", bytes(48)), 0, 2, 1)]),
        _frame([COLUMNS, ROWS], [_block(array((2, 3), "M8", "<", bytes(48)), 0, 2, 1)]),
        _frame([COLUMNS, ROWS], [_block(array((2, 3), "O8", "|", [1] * 6), 0, 2, 1)]),
        _frame([index("base", "Index", array((2,), "O8", "|", ["a", 2])), ROWS], [_block(VALUES, 0, 2, 1)]),
        _frame([index("base", "Index", array((2,), "O8", "|", ["a", SHORT])), ROWS], [_block(VALUES, 0, 2, 1)]),
    ],
)
def test_frames_that_do_not_fit_together_are_refused(damaged, file):
    with pytest.raises(DataFormatError, match="does not hold frames pickled by pandas 1"):
        read_pickled_frames(file(npy([{"eeg": (damaged,) * 3}])))


def test_other_contents_are_refused(table, file):
    for content in (npy([]), npy([1]), npy([{"eeg": (frame(table),)}]), npy_of_pickle(b"."), npy_of_pickle(b"")):
        with pytest.raises(DataFormatError):
            read_pickled_frames(file(content))
    with pytest.raises(DataFormatError, match="goes on after the end"):
        read_pickled_frames(file(frames_file({"eeg": (table,) * 3}) + b"."))
    path = file(b"")
    np.save(path, np.ones(3))
    with pytest.raises(DataFormatError, match="expected one pickled object"):
        read_pickled_frames(path)


def test_truncation_anywhere_is_an_error(table, file):
    content = frames_file({"eeg": (table,) * 3})
    for length in range(0, len(content), 11):
        with pytest.raises(DataFormatError):
            read_pickled_frames(file(content[:length]))


def test_the_authors_frames_equal_the_tables_made_from_them(shared_data):
    folder = shared_data / "gplar_splits"
    for name, parts in read_pickled_frames(folder / "eeg_exchange.npy").items():
        for part, found in parts.items():
            table = pd.read_csv(folder / f"{name}_{part}.csv", index_col=0, float_precision="round_trip")
            pd.testing.assert_frame_equal(found, table, check_exact=True)
