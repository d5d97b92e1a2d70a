from __future__ import annotations

import numpy as np
import pytest
from fuzz_targets_text import DENSE_ARFF, SPARSE_ARFF, XML
from scipy.io import arff as scipy_arff
from scipy.sparse import issparse

from mogp.datasets.formats.arff import read_arff, read_labels, read_mulan
from mogp.datasets.formats.errors import DataFormatError

HEAD = b"@relation r\n@attribute a numeric\n@attribute b {no, yes}\n@data\n"


def test_dense_values_point_into_the_kinds(written):
    table = read_arff(written(DENSE_ARFF))
    assert table.relation == "a relation"
    assert table.names == ("width", "a 'name", "text", "day", "n")
    assert table.kinds[:3] == ("numeric", ("red", "dark blue", "3"), ("it's", "b"))
    assert table.kinds[3:] == (("2001-01-01", "2001-01-02"), ("0", "1"))
    nan = np.nan
    np.testing.assert_array_equal(table.values, [[1.5, 0, 0, 0, 0], [nan, 1, 1, nan, 1], [-2000, 2, 1, 1, nan]])


def test_sparse_values_point_into_the_kinds(written):
    table = read_arff(written(SPARSE_ARFF))
    assert issparse(table.values)
    assert table.kinds == ("numeric", ("0", "1"), ("no", "yes", "not sure"))
    np.testing.assert_array_equal(table.values.toarray(), [[1.5, 0, 1], [0, 0, 0], [0, 1, 2], [-1, 0, np.nan]])


def test_stored_zeros_are_dropped(written):
    table = read_arff(written(HEAD + b"{0 0, 1 no}\n{0 2}"))
    assert table.values.nnz == 1


@pytest.mark.parametrize("content", [DENSE_ARFF, SPARSE_ARFF])
def test_line_ends_do_not_matter(written, content):
    table, other = read_arff(written(content)), read_arff(written(content.replace(b"\n", b"\r\n"), "other"))
    first, second = (each.values.toarray() if issparse(each.values) else each.values for each in (table, other))
    np.testing.assert_array_equal(first, second)
    assert table.kinds == other.kinds


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        (b"", None, "no @data"),
        (b"% only a comment\n", None, "no @data"),
        (b"@relation r\n@attribute a numeric\n", None, "no @data"),
        (b"@relation r\n@data\n1\n", 2, "out of place"),
        (b"@attribute a numeric\n@data\n1\n", 1, "out of place"),
        (b"@relation r\n@relation r\n", 2, "out of place"),
        (b"1,2,3\n", 1, "out of place"),
        (b"@relation r\n@attribute a\n@data\n1\n", 2, "not an attribute"),
        (b"@relation r\n@attribute 'a numeric\n@data\n1\n", 2, "not an attribute"),
        (b"@relation r\n@attribute a relational\n@data\n1\n", 2, "type 'relational'"),
        (b"@relation r\n@attribute a {}\n@data\n1\n", 2, "type '{}'"),
        (b"@relation r\n@attribute a {x,\n@data\n1\n", 2, "type '{x,'"),
        (b"@relation r\n@attribute a {x,x}\n@data\nx\n", 2, "lists a value twice"),
        (b"@relation r\n@attribute a real\n@attribute a real\n@data\n1,2\n", 3, "attribute 'a' twice"),
        (HEAD, None, "no rows"),
        (HEAD + b"1,yes\n1\n", 6, "1 values, expected 2"),
        (HEAD + b"1,yes\n1,no,2\n", 6, "3 values, expected 2"),
        (HEAD + b"1,yes\n'1,no\n", 6, "unpaired quotes"),
        (HEAD + b"1,yes\n% c\nx,no\n", 7, "attribute 'a' holds 'x', expected a finite number"),
        (HEAD + b"1,yes\n?,no\nx,no\n", 7, "'x'"),
        (HEAD + b"1,yes\nnan,no\n", 6, "'nan'"),
        (HEAD + b"1,yes\n1e999,no\n", 6, "'1e999'"),
        (HEAD + b"1,yes\n1,maybe\n", 6, "holds 'maybe', expected one of 2 values such as 'no'"),
        (HEAD + b"1,yes\n{0 1}\n", 6, "1 values, expected 2"),
        (HEAD + b"1,yes\n1,\xff\n", 6, "UTF-8"),
        (HEAD + b"1,yes\n1,\0\n", 6, "NUL"),
        (HEAD + b"{0 1}\n1,yes\n", 6, "not a sparse row"),
        (HEAD + b"{0 1}\n{0 1\n", 6, "not a sparse row"),
        (HEAD + b"{0 1}\n{0 1 1}\n", 6, "not a sparse row"),
        (HEAD + b"{0 1}\n{0 1,}\n", 6, "not a sparse row"),
        (HEAD + b"{0 1}\n{-1 1}\n", 6, "not a sparse row"),
        (HEAD + b"{0 1}\n{2 1}\n", 6, "place '2', expected 0 to 1"),
        (HEAD + b"{0 1}\n{}\n{99999999999999999999 1}\n", 7, "expected 0 to 1"),
        (HEAD + b"{0 1}\n{1 yes, 0 1, 1 no}\n", 6, "a place twice"),
        (HEAD + b"{0 1}\n{0 x}\n", 6, "attribute 'a' holds 'x'"),
        (HEAD + b"{0 1}\n{}\n{0 2, 1 maybe}\n", 7, "attribute 'b' holds 'maybe'"),
        (HEAD.replace(b"numeric", b"string") + b"{0 x}\n", 5, "which is text"),
    ],
)
def test_bad_files_are_refused_with_their_line(written, content, line, problem):
    path = written(content)
    with pytest.raises(DataFormatError, match=problem) as caught:
        read_arff(path)
    assert str(caught.value).startswith(str(path))
    assert caught.value.line == line


def test_long_lines_with_unpaired_quotes_are_refused(written):
    """A quadratic search would take minutes."""
    for row in (b"'" + b"\\" * 100_001, b"{0 '" + b"a'b" * 50_000, b"1," * 100_000 + b"'"):
        with pytest.raises(DataFormatError):
            read_arff(written(HEAD + row))


def test_labels_are_found_wherever_they_are(written):
    xml = written(b'<labels><label name="y2"/><label name="y1"/></labels>', "a.xml")
    head = b"@relation r\n@attribute y1 {0,1}\n@attribute a real\n@attribute y2 {0,1}\n@attribute b {u,v}\n@data\n"
    dense = read_mulan(written(head + b"1,2.5,0,v\n0,-1,0,u\n1,0,1,u\n", "dense"), xml)
    sparse = read_mulan(written(head + b"{0 1,1 2.5,3 v}\n{1 -1}\n{0 1,2 1}\n", "sparse"), xml)
    for found in (dense, sparse):
        assert (found.features, found.labels) == (("a", "b"), ("y1", "y2"))
        np.testing.assert_array_equal(found.Y.toarray(), [[1, 0], [0, 0], [1, 1]])
        assert found.Y.dtype == np.uint8
        assert found.Y.nnz == 3
    np.testing.assert_array_equal(dense.X, [[2.5, 1], [-1, 0], [0, 0]])
    np.testing.assert_array_equal(sparse.X.toarray(), dense.X)


@pytest.mark.parametrize(
    ("kind", "rows", "problem"),
    [
        (b"numeric", b"2,1\n", "neither 0 nor 1"),
        (b"{0,1}", b"?,1\n", "neither 0 nor 1"),
        (b"{1,0}", b"1,1\n", "label 'y' has other values than 0 and 1"),
        (b"string", b"0,1\n", "label 'y' has other values than 0 and 1"),
    ],
)
def test_labels_are_zero_or_one(written, kind, rows, problem):
    arff = written(b"@relation r\n@attribute y " + kind + b"\n@attribute a real\n@data\n" + rows, "a.arff")
    with pytest.raises(DataFormatError, match=problem):
        read_mulan(arff, written(b'<labels><label name="y"/></labels>', "a.xml"))


def test_every_label_is_an_attribute(written):
    with pytest.raises(DataFormatError, match="label 'one' is not an attribute"):
        read_mulan(written(DENSE_ARFF), written(XML, "a.xml"))


def test_labels_may_be_nested(written):
    assert read_labels(written(XML)) == ("one", "two", "below & two")
    depth = 20_000
    deep = b"".join(b'<label name="%d">' % n for n in range(depth)) + b"</label>" * depth
    assert len(read_labels(written(b"<labels>" + deep + b"</labels>"))) == depth


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        (b"", 1, "no element found"),
        (b"<labels></labels>", None, "no labels"),
        (b'<labels>\n<label name="a"/>', 2, "no element found"),
        (b'<labels>\n<label name="a"/><label name="a"/></labels>', 2, "label 'a' twice"),
        (b"<labels>\n<label/></labels>", 2, "expected a <label name"),
        (b'<labels>\n<other name="a"/></labels>', 2, "expected a <label name"),
        (b'<label name="a"/>', 1, "expected a <label name"),
        (b'<!DOCTYPE labels [<!ENTITY a "b">]><labels><label name="&a;"/></labels>', 1, "document type"),
        (b'<!DOCTYPE labels SYSTEM "file:///etc/passwd"><labels><label name="a"/></labels>', 1, "document type"),
        (b'<labels>\n<label name="&a;"/></labels>', 2, "undefined entity"),
        ('<?xml version="1.0" encoding="utf-16"?><labels/>'.encode("utf-16"), 1, "UTF-8|NUL"),
        (b'<labels>\n<label name="\xff"/></labels>', 2, "UTF-8"),
    ],
)
def test_bad_label_files_are_refused_with_their_line(written, content, line, problem):
    path = written(content)
    with pytest.raises(DataFormatError, match=problem) as caught:
        read_labels(path)
    assert str(caught.value).startswith(str(path))
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("file", "shape"),
    [
        ("uci_regression/autompg.arff", (398, 8)),
        ("annotators_uci/segment-challenge.arff", (1500, 20)),
        ("annotators_uci/segment-test.arff", (810, 20)),
        ("music/marsyas_features.arff", (1000, 125)),
    ],
)
def test_real_dense_files_equal_what_scipy_reads(shared_data, file, shape):
    table = read_arff(shared_data / file)
    expected, meta = scipy_arff.loadarff(shared_data / file)
    assert table.values.shape == shape
    assert table.names == tuple(meta.names())
    for column, name in enumerate(meta.names()):
        ours, kind = table.values[:, column], table.kinds[column]
        if kind == "numeric":
            np.testing.assert_array_equal(ours, expected[name])
        else:
            assert [kind[int(place)] for place in ours] == [value.decode() for value in expected[name]]


@pytest.mark.parametrize(
    ("name", "xml", "rows", "features", "labels", "stored"),
    [
        ("bibtex/bibtex-train", "bibtex/bibtex", 4880, 1836, 159, 345866),
        ("bibtex/bibtex-test", "bibtex/bibtex", 2515, 1836, 159, 179642),
        ("mulan_extra/yeast-train", "mulan_extra/yeast", 1500, 103, 14, None),
        ("mulan_extra/yeast-test", "mulan_extra/yeast", 917, 103, 14, None),
        ("mulan_extra/Corel5k-train-sparse", "mulan_extra/Corel5k", 4500, 499, 374, None),
        ("mulan_extra/Corel5k-test-sparse", "mulan_extra/Corel5k", 500, 499, 374, None),
    ],
)
def test_real_multi_label_sets_have_their_published_shapes(shared_data, name, xml, rows, features, labels, stored):
    found = read_mulan(shared_data / f"{name}.arff", shared_data / f"{xml}.xml")
    assert (found.X.shape, found.Y.shape) == ((rows, features), (rows, labels))
    assert stored is None or found.X.nnz + found.Y.nnz == stored
    text = (shared_data / f"{name}.arff").read_text()
    if issparse(found.X):
        assert found.X.nnz + found.Y.nnz == sum(row.count(" 1") for row in text.splitlines() if row.startswith("{"))
    else:
        last = np.array([row.split(",")[features:] for row in text.partition("@data")[2].split()], float)
        np.testing.assert_array_equal(found.Y.toarray(), last)
