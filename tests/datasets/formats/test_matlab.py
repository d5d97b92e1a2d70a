from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from fuzz_targets import cell, mat

from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.matlab import read_mat


@pytest.fixture
def file(tmp_path):
    def write(content: bytes):
        (tmp_path / "file.mat").write_bytes(content)
        return tmp_path / "file.mat"

    return write


@pytest.mark.parametrize("options", [{}, {"do_compression": True}, {"format": "4"}], ids=["5", "5 packed", "4"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "i2", "u2", "u1"])
def test_arrays_are_read_as_they_were_saved(options, dtype, file, rng):
    array = (9 * rng.uniform(size=(4, 3))).astype(dtype)
    found = read_mat(file(mat({"x": array, "y": array[:1], "other": "text"}, **options)), ["y", "x"])
    assert list(found) == ["y", "x"]
    np.testing.assert_array_equal(found["x"], array)
    np.testing.assert_array_equal(found["y"], array[:1])


@pytest.mark.parametrize("packed", [False, True])
def test_cells_are_arrays_of_arrays(packed, file):
    arrays = np.arange(6.0).reshape(2, 3), np.arange(4, dtype=np.uint8)[:, None], np.zeros((0, 0)), np.ones((1, 1))
    found = read_mat(file(mat({"cells": cell(*arrays)}, do_compression=packed)), ["cells"])["cells"]
    assert found.shape == (1, 4)
    for array, expected in zip(found.flat, arrays, strict=True):
        np.testing.assert_array_equal(array, expected)


def test_more_than_two_dimensions_are_kept(file, rng):
    array = rng.normal(size=(2, 3, 4))
    np.testing.assert_array_equal(read_mat(file(mat({"x": array})), ["x"])["x"], array)


@pytest.mark.parametrize(
    "value",
    [
        "text",
        np.array([1j]),
        {"a": 1.0},
        scipy.sparse.eye(3).tocsc(),
        cell(np.ones(2), np.array("text")),
        cell(cell(np.ones(1))),
        cell(np.array([1j])),
    ],
    ids=["string", "complex", "structure", "sparse", "cell with string", "nested cells", "cell with complex"],
)
def test_anything_but_real_numbers_is_refused_if_asked_for(value, file):
    path = file(mat({"x": np.ones(2), "odd": value}))
    read_mat(path, ["x"])
    with pytest.raises(DataFormatError, match="not an array of real numbers"):
        read_mat(path, ["odd"])


def test_deeply_nested_cells_do_not_exhaust_the_stack(file):
    inner = b""
    for _ in range(3000):
        inner = _matrix(flag=1, sizes=(1, 1), data=inner)
    with pytest.raises(DataFormatError, match="not an array of real numbers"):
        read_mat(file(_file(_matrix(flag=1, sizes=(1, 1), name=b"x", data=inner))), ["x"])


def test_version_4_strings_are_refused(file):
    with pytest.raises(DataFormatError, match="'x' is not an array of real numbers"):
        read_mat(file(mat({"x": "text"}, format="4")), ["x"])


def test_missing_and_repeated_variables_are_named(file):
    content = mat({"x": np.ones(2)})
    with pytest.raises(DataFormatError, match=r"file.mat: has no variable 'z'; asked for x, z"):
        read_mat(file(content), ["x", "z"])
    with pytest.raises(DataFormatError, match="two variables 'x'"):
        read_mat(file(content + content[128:]), ["x"])


def test_hdf5_files_are_refused_by_name(file):
    for content in (b"\x89HDF\r\n\x1a\n" + bytes(600), b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM" + bytes(600)):
        with pytest.raises(DataFormatError, match=r"MATLAB 7\.3"):
            read_mat(file(content), ["x"])


@pytest.mark.parametrize("packed", [False, True])
def test_truncation_anywhere_is_an_error(packed, file):
    content = mat({"x": np.arange(12.0).reshape(3, 4)}, do_compression=packed)
    for length in range(len(content)):
        with pytest.raises(DataFormatError):
            read_mat(file(content[:length]), ["x"])


def _element(kind: int, data: bytes) -> bytes:
    return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)


def _matrix(flag: int, sizes: tuple[int, ...], data: bytes, name: bytes = b"") -> bytes:
    head = _element(6, struct.pack("<II", flag, 0)) + _element(5, struct.pack(f"<{len(sizes)}i", *sizes))
    return _element(14, head + _element(1, name) + data)


def _packed(matrix: bytes) -> bytes:
    content = zlib.compress(matrix)
    return struct.pack("<II", 15, len(content)) + content


def _file(*elements: bytes) -> bytes:
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM" + b"".join(elements)


def test_the_hand_made_file_is_sound(file):
    matrix = _matrix(6, (1, 2), _element(9, struct.pack("<2d", 3, 4)), b"x")
    for content in (_file(matrix), _file(_packed(matrix))):
        np.testing.assert_array_equal(read_mat(file(content), ["x"])["x"], [[3, 4]])
        np.testing.assert_array_equal(scipy.io.loadmat(file(content))["x"], [[3, 4]])


@pytest.mark.parametrize(
    "matrix",
    [
        _matrix(6, (2**31 - 1, 2**31 - 1), _element(9, bytes(16)), b"x"),
        _matrix(1, (2**31 - 1, 1000), b"", b"x"),
        _matrix(6, (-1, -2), _element(9, bytes(16)), b"x"),
        _matrix(6, (1, 3), _element(9, bytes(16)), b"x"),
        _matrix(6, (1, 2), _element(8, bytes(16)), b"x"),
        _matrix(6, (1, 2), struct.pack("<II", 9, 2**32 - 1) + bytes(16), b"x"),
        _matrix(6, (1,) * 33, _element(9, bytes(8)), b"x"),
        _matrix(6, (2,), _element(9, bytes(16)), b"x"),
        _matrix(200, (1, 2), _element(9, bytes(16)), b"x"),
        _element(14, b""),
        _element(3, b"12345678"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_declared_sizes_must_be_there_before_anything_is_allocated(matrix, packed, file):
    with pytest.raises(DataFormatError):
        read_mat(file(_file(_packed(matrix) if packed else matrix)), ["x"])


def test_a_packed_bomb_stops_at_the_limit(file):
    bomb = _packed(_matrix(9, (2**24, 1), _element(2, bytes(2**24)), b"x"))
    assert read_mat(file(_file(bomb)), ["x"])["x"].shape == (2**24, 1)
    with pytest.raises(DataFormatError, match="unpacks to more than 1048576 bytes"):
        read_mat(file(_file(bomb)), ["x"], limit=2**20)
    small = [_packed(_matrix(9, (1000, 1), _element(2, bytes(1000)), name)) for name in (b"x", b"y", b"z")]
    with pytest.raises(DataFormatError, match="unpacks to more than"):
        read_mat(file(_file(*small)), ["x"], limit=2200)


def test_byte_order_is_made_native(file):
    header = b"MATLAB 5.0 MAT-file".ljust(124) + b"\1\0MI"
    parts = (6, struct.pack(">II", 6, 0)), (5, struct.pack(">2i", 1, 2)), (1, b"x"), (9, struct.pack(">2d", 3, 4))
    body = b"".join(struct.pack(">II", kind, len(data)) + data + bytes(-len(data) % 8) for kind, data in parts)
    found = read_mat(file(header + struct.pack(">II", 14, len(body)) + body), ["x"])["x"]
    np.testing.assert_array_equal(found, [[3, 4]])
    assert found.dtype == np.dtype("=f8")


def test_formats_of_lost_machines_are_refused(file):
    content = bytearray(mat({"x": np.ones((2, 2))}, format="4"))
    content[0:4] = struct.pack("<i", 2000)
    with pytest.raises(DataFormatError, match="VAX"):
        read_mat(file(bytes(content)), ["x"])


def test_a_string_of_version_4_whose_letters_are_no_numbers_is_refused_without_a_warning(file):
    content = struct.pack("<5i", 1, 1, 2, 0, 2) + b"x\0" + struct.pack("<2d", np.nan, 1e300)
    with pytest.raises(DataFormatError, match="invalid value"):
        read_mat(file(content), ["x"])


@pytest.mark.parametrize("content", [b"", b"MATL", b"text " * 100, bytes(100), bytes(200), b"\0" * 19])
def test_other_files_are_refused(content, file):
    with pytest.raises(DataFormatError):
        read_mat(file(content), ["x"])


def test_real_files_have_their_published_shapes(shared_data):
    mines = read_mat(shared_data / "landmine" / "LandmineData.mat", ["feature", "label"])
    sizes = [task.shape for task in mines["feature"].flat]
    assert len(sizes) == 29
    assert [rows for rows, _ in sizes[:10]] == [690, 690, 689, 508, 509, 509, 510, 511, 508, 509]
    assert (sum(rows for rows, _ in sizes), {columns for _, columns in sizes}) == (14820, {9})
    assert sum(int(task.sum()) for task in mines["label"].flat) == 904
    london = read_mat(shared_data / "london" / "london.mat", ["X", "Yprice", "Ytype", "Ycontract", "Ynew"])
    assert [array.shape for array in london.values()] == [(19483, 2), *[(19483, 1)] * 4]
    counts = {name: np.bincount(london[name].ravel()).tolist() for name in ("Ytype", "Ycontract", "Ynew")}
    assert counts == {"Ytype": [11615, 7868], "Ycontract": [8719, 10764], "Ynew": [18401, 1082]}
    sarcos = read_mat(shared_data / "sarcos" / "sarcos_inv_test.mat", ["sarcos_inv_test"])["sarcos_inv_test"]
    np.testing.assert_array_equal(
        sarcos, scipy.io.loadmat(shared_data / "sarcos" / "sarcos_inv_test.mat")["sarcos_inv_test"]
    )
    assert sarcos.shape == (4449, 28)
