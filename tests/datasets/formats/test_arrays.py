from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from fuzz_targets import npy, npz, zipped

from mogp.datasets.formats.arrays import parse_npy, read_npz
from mogp.datasets.formats.errors import DataFormatError


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "f4", "i8", ">i2", "u1", "bool", "c16"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(), (1,), (4, 3), (2, 3, 4)])
def test_arrays_of_numbers_come_back_in_native_order(dtype, order, shape):
    array = np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape), dtype, order=order)
    found = parse_npy(npy(array), "name")
    np.testing.assert_array_equal(found, array)
    assert found.shape == shape
    assert found.dtype == array.dtype.newbyteorder("=")
    assert found.flags.writeable


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_named_arrays_of_an_npz_file_are_read(save, tmp_path):
    a, b = np.arange(6.0).reshape(2, 3), np.arange(4)
    save(tmp_path / "file.npz", a=a, b=b, other=np.array({"an": "object"}))
    found = read_npz(tmp_path / "file.npz", ["b", "a"])
    assert list(found) == ["b", "a"]
    np.testing.assert_array_equal(found["a"], a)
    np.testing.assert_array_equal(found["b"], b)


def test_objects_and_missing_arrays_are_refused(tmp_path):
    np.savez(tmp_path / "file.npz", a=np.array({"an": "object"}), text=np.array(["a"]))
    for name in ("a", "text"):
        with pytest.raises(DataFormatError, match=rf"file.npz, member {name}.npy: .*only numbers are read"):
            read_npz(tmp_path / "file.npz", [name])
    with pytest.raises(DataFormatError, match="has no array 'b'"):
        read_npz(tmp_path / "file.npz", ["b"])


def header(text: str, data: bytes = b"", version: int = 1) -> bytes:
    packed = text.encode("latin-1") + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(packed).to_bytes(2 if version == 1 else 4, "little") + packed + data


SOUND = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }"


def test_both_versions_of_the_format_are_read():
    for version in (1, 2):
        np.testing.assert_array_equal(parse_npy(header(SOUND, bytes(16), version), "name"), [0, 0])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY\x01\x00",
        header(SOUND, bytes(16), version=9),
        header(SOUND, bytes(15)),
        header(SOUND, bytes(17)),
        header(SOUND)[:-5],
        header(SOUND.replace("2,", "1000000000000000, 1000000000000000"), bytes(16)),
        header(SOUND.replace("2,", "0, 99999999999"), b""),
        header(SOUND.replace("2,", "-2, -1"), bytes(16)),
        header(SOUND.replace("2,", "2, " + "1, " * 40), bytes(16)),
        header(SOUND.replace("2,", "9" * 5000), bytes(16)),
        header(SOUND.replace("<f8", "<f3"), bytes(16)),
        header(SOUND.replace("<f8", "|V8"), bytes(16)),
        header(SOUND.replace("'<f8'", "[('a', '<f8')]"), bytes(16)),
        header("-" * 9000 + "1"),
        header("(" * 9000),
        header("__import__('os').system('false')"),
    ],
)
def test_headers_that_do_not_fit_are_refused(content):
    with pytest.raises(DataFormatError, match=r"^name: "):
        parse_npy(content, "name")


def test_npz_files_with_unsafe_names_are_refused(tmp_path):
    (tmp_path / "file").write_bytes(zipped({"a.npy": npy(np.arange(3)), "../b.npy": b""}, zipfile.ZIP_STORED))
    with pytest.raises(DataFormatError, match="unsafe name"):
        read_npz(tmp_path / "file", ["a"])


def test_the_reading_equals_numpys(tmp_path, rng):
    arrays = {"a": rng.normal(size=(5, 2)), "b": rng.integers(0, 9, 7)}
    with np.load(io.BytesIO(npz(**arrays)), allow_pickle=False) as expected:
        (tmp_path / "file").write_bytes(npz(**arrays))
        for name, found in read_npz(tmp_path / "file", list(arrays)).items():
            np.testing.assert_array_equal(found, expected[name])


def test_mocap_has_its_published_shapes(shared_data):
    found = read_npz(shared_data / "mocap_npz" / "mocap09.npz", ["test", "validation", "train"])
    assert [array.shape for array in found.values()] == [(2, 120, 50), (2, 120, 50), (6, 120, 50)]
