from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from fuzz_targets import mutant
from fuzz_targets_text import TARGETS
from scipy.sparse import csr_matrix, vstack
from sklearn.datasets import load_svmlight_file

from mogp.datasets.formats import extreme
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.extreme import iter_extreme, read_extreme, read_split
from mogp.datasets.formats.sparse import repeated_row

CONTENT = b"5 4 3\n0,2 0:1.0 3:-2.5e-1\n 1:3\n1\n2,1 3:1 2:0 \n\n"
FEATURES = [[1, 0, 0, -0.25], [0, 3, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
LABELS = [[1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 1, 1], [0, 0, 0]]


@pytest.mark.parametrize("content", [CONTENT, CONTENT.replace(b"\n", b"\r\n"), CONTENT + b"\n \n"])
def test_rows_may_lack_labels_or_features_and_be_in_any_order(written, content):
    X, Y = read_extreme(written(content))
    np.testing.assert_array_equal(X.toarray(), FEATURES)
    np.testing.assert_array_equal(Y.toarray(), LABELS)
    assert (X.dtype, Y.dtype) == (np.float64, np.uint8)
    assert X.has_sorted_indices
    assert Y.has_sorted_indices


def test_the_first_rows_alone_do_not_need_the_rest(written):
    X, Y = read_extreme(written(CONTENT.replace(b"2,1 3:1", b"broken")), rows=3)
    np.testing.assert_array_equal(X.toarray(), FEATURES[:3])
    np.testing.assert_array_equal(Y.toarray(), LABELS[:3])


@pytest.mark.parametrize("chunk", [1, 2, 5, 100])
def test_blocks_stack_to_the_whole(written, chunk):
    blocks = list(iter_extreme(written(CONTENT), chunk))
    assert all(X.shape[0] <= chunk for X, _ in blocks)
    np.testing.assert_array_equal(vstack([X for X, _ in blocks]).toarray(), FEATURES)
    np.testing.assert_array_equal(vstack([Y for _, Y in blocks]).toarray(), LABELS)


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        (b"", 1, "expected the numbers of rows"),
        (b"2 4\n0 1:1\n1 1:1\n", 1, "expected the numbers of rows"),
        (b"-2 4 3\n0 1:1\n", 1, "expected the numbers of rows"),
        (b"0 4 3\n", 1, "expected the numbers of rows"),
        (b"2 99999999999 3\n0 1:1\n", 1, "expected the numbers of rows"),
        (b"2 4 3\n0 1:1\n", None, "1 rows, the header announces 2"),
        (b"2000000000 4 3\n0 1:1\n", None, "1 rows, the header announces 2000000000"),
        (b"1 4 3\n0 1:1\n1 1:1\n", 3, "a row after the 1"),
        (b"2 4 3\n0 1:1\n3 1:1\n", 3, "from 0 to 2"),
        (b"2 4 3\n0 1:1\n-1 1:1\n", 3, "from 0 to 2"),
        (b"2 4 3\n0 1:1\n1,,2 1:1\n", 3, "from 0 to 2"),
        (b"2 4 3\n0 1:1\n0 4:1\n", 3, "from 0 to 3"),
        (b"2 4 3\n0 1:1\n0 -1:1\n", 3, "from 0 to 3"),
        (b"2 4 3\n0 1:1\n0 1.0:1\n", 3, "from 0 to 3"),
        (b"2 4 3\n0 1:1\n0 1\n", 3, "values must be finite"),
        (b"2 4 3\n0 1:1\n0 1:\n", 3, "values must be finite"),
        (b"2 4 3\n0 1:1\n0 1:nan\n", 3, "values must be finite"),
        (b"2 4 3\n0 1:1\n0 1:1e999\n", 3, "values must be finite"),
        (b"2 4 3\n0 1:1\n0 1:1:1\n", 3, "values must be finite"),
        (b"2 4 3\n0 1:1\n0 2:1 1:0 2:1\n", 3, "a feature twice"),
        (b"2 4 3\n0 1:1\n0,1,0 2:1\n", 3, "a label twice"),
        (b"2 4 3\n0 1:1\n0 2:1 # c\n", 3, "from 0 to 3"),
        (b"2 4 3\n0 1:1\n0 2:\xff\n", 3, "not ASCII"),
        (b"2 4 3\n0 1:1\n0 2:\0\n", 3, "values must be finite"),
    ],
)
def test_bad_rows_are_refused_with_their_line(written, content, line, problem):
    path = written(content)
    with pytest.raises(DataFormatError, match=problem) as caught:
        read_extreme(path)
    assert str(caught.value).startswith(str(path))
    assert caught.value.line == line
    with pytest.raises(DataFormatError, match=problem):
        list(iter_extreme(path, chunk=1))


def test_a_line_without_end_is_not_read(written, monkeypatch):
    monkeypatch.setattr(extreme, "LONGEST_LINE", 100)
    with pytest.raises(DataFormatError, match="more than 100 bytes"):
        read_extreme(written(b"1 4 3\n0 " + b"1" * 1000))


@pytest.mark.parametrize("options", [{"chunk": 0}, {"chunk": -1}])
def test_a_block_has_a_row_at_least(written, options):
    with pytest.raises(ValueError, match="1 or more"):
        next(iter_extreme(written(CONTENT), **options))


def test_streaming_needs_the_memory_of_a_block(written):
    path = written(b"5000 50 9\n" + b"1,2,3 0:1.5 7:2.5 9:1 20:0.25 30:1\n" * 5_000)

    def peak(chunk: int) -> int:
        tracemalloc.start()
        for _ in iter_extreme(path, chunk):
            pass
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(100)
    assert peak(100) < peak(5_000) / 10


def test_split_counts_from_zero(written):
    split = read_split(written(b"2 1\n3 2\n1 3\n"), columns=2, size=3)
    np.testing.assert_array_equal(split, [[1, 0], [2, 1], [0, 2]])
    assert split.dtype == np.int64


def test_a_repeated_entry_is_found_in_its_row(rng):
    for _ in range(300):
        rows = [sorted(rng.integers(0, 6, rng.integers(0, 4)).tolist()) for _ in range(5)]
        expected = next((row for row, columns in enumerate(rows) if len(set(columns)) < len(columns)), None)
        columns = [column for row in rows for column in row]
        starts = np.cumsum([0, *map(len, rows)])
        assert repeated_row(csr_matrix((np.ones(len(columns)), columns, starts), shape=(5, 6))) == expected


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "no rows"),
        (b"1 2\n\n0 3\n", "line 3: 0 in column 1, expected a row number from 1 to 3"),
        (b"1 2\n2 4\n", "line 2: 4 in column 2"),
        (b"1 2\n2 -1\n", "-1 in column 2"),
        (b"1 2\n2 1.5\n", "1.5 in column 2"),
        (b"1 2\n1 3\n", "column 1 holds a row number twice"),
        (b"1 2\n3\n", "line 2: 1 columns"),
        (b"1 2 3\n", "3 columns, expected 2"),
        (b"1 99999999999999999999\n", "1e\\+20 in column 2"),
    ],
)
def test_bad_splits_are_refused(written, content, problem):
    with pytest.raises(DataFormatError, match=problem):
        read_split(written(content), columns=2, size=3)


@pytest.mark.parametrize(("part", "rows", "stored"), [("train", 12920, 231722), ("test", 3185, 62892)])
def test_delicious_equals_what_scikit_learn_reads(shared_data, tmp_path, part, rows, stored):
    X, Y = read_extreme(shared_data / "delicious" / f"{part}.txt")
    assert (X.shape, Y.shape, X.nnz) == ((rows, 500), (rows, 983), stored)
    body = (shared_data / "delicious" / f"{part}.txt").read_bytes().partition(b"\n")[2]
    (tmp_path / "body").write_bytes(body)
    features, labels = load_svmlight_file(str(tmp_path / "body"), n_features=500, multilabel=True, zero_based=True)
    assert (features != X).nnz == 0
    assert [tuple(map(float, row.indices)) for row in Y] == [tuple(sorted(row)) for row in labels]


def test_rows_read_at_once_and_one_by_one_agree_on_damaged_rows():
    target = next(target for target in TARGETS if target.name == "extreme")
    compared = 0
    for number in range(3000):
        rows = [f"{row}\n" for row in mutant(target, number).decode("latin-1").split("\n")[1:] if row.isascii()]
        together = extreme._plain(rows, 5, 3) if rows else None
        if together is None:
            continue
        apart, compared = extreme._matrices(rows, 5, 3), compared + 1
        if isinstance(apart, str):
            assert isinstance(together, str)
        else:
            for one, other in zip(together, apart, strict=True):
                np.testing.assert_array_equal(one.toarray(), other.toarray())
    assert compared > 100
