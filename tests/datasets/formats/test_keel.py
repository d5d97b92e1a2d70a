from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fuzz_targets_text import KEEL

from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.keel import read_keel


def test_a_header_names_and_types_the_columns(written):
    frame = read_keel(written(KEEL))
    expected = pd.DataFrame({"length": [5.1, np.nan], "n": [3.0, np.nan], "class": ["setosa", "virginica"]})
    pd.testing.assert_frame_equal(frame, expected)
    assert frame.attrs == {"relation": "iris", "inputs": ("length", "n"), "outputs": ("class",)}


def test_nominal_numbers_stay_text(written):
    frame = read_keel(written(b"@relation r\n@attribute a {1, 2}\n@output a\n@data\n1\n2\n"))
    assert frame["a"].tolist() == ["1", "2"]
    assert frame.attrs["outputs"] == ("a",)


def test_a_file_without_header_has_numbered_columns(written):
    frame = read_keel(written(b"1, .5, a\r\n2, ?, b \r\n\r\n3, <null>, <null>\r\n"))
    assert list(frame.columns) == [0, 1, 2]
    assert frame[0].tolist() == [1, 2, 3]
    np.testing.assert_array_equal(frame[1], [0.5, np.nan, np.nan])
    assert frame[2].tolist()[:2] == ["a", "b"]
    assert frame[2].isna().tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        (b"", None, "no rows"),
        (KEEL.partition(b"5.1")[0], None, "no rows"),
        (KEEL.partition(b"@data")[0], None, "no @data"),
        (b"@relation r\n@data\n1\n", 2, "out of place"),
        (b"@relation r\n1\n", 2, "out of place"),
        (KEEL.replace(b"real [4.3, 7.9]", b"text"), 2, "expected a new attribute"),
        (KEEL.replace(b"@attribute n", b"@attribute length"), 3, "expected a new attribute"),
        (KEEL.replace(b"@outputs class", b"@outputs kind"), 6, "not an attribute"),
        (KEEL.replace(b"5.1,", b"x,"), 8, "attribute 'length' holds 'x', expected a finite number"),
        (KEEL.replace(b"5.1,", b"nan,"), 8, "'nan'"),
        (KEEL.replace(b"virginica\n", b"versicolor\n"), 9, "holds 'versicolor', expected one of 2 values"),
        (KEEL + b"1, 2\n", 10, "2 values, expected 3"),
        (KEEL + b"1, , setosa\n", 10, "an empty value"),
        (KEEL + b"1, 2, \xff\n", 10, "UTF-8"),
        (KEEL + b"1, 2, \0\n", 10, "NUL"),
        (b"1,2\n3\n", 2, "1 values, expected 2"),
    ],
)
def test_bad_files_are_refused_with_their_line(written, content, line, problem):
    path = written(content)
    with pytest.raises(DataFormatError, match=problem) as caught:
        read_keel(path)
    assert str(caught.value).startswith(str(path))
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("name", "shape", "classes"), [("wine", (178, 14), 3), ("segment", (2310, 20), 7), ("tic-tac-toe", (958, 10), 2)]
)
def test_real_files_equal_what_pandas_reads(shared_data, name, shape, classes):
    path = shared_data / "annotators_uci" / f"keel_{name}.dat"
    frame = read_keel(path)
    expected = pd.read_csv(path, header=None, skipinitialspace=True, float_precision="round_trip")
    assert frame.shape == shape
    assert frame[shape[1] - 1].nunique() == classes
    np.testing.assert_array_equal(frame.to_numpy(), expected.to_numpy())
