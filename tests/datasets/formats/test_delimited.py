from __future__ import annotations

import gzip
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from mogp.datasets.formats.delimited import parse_numbers, parse_table, read_numbers, read_table
from mogp.datasets.formats.errors import DataFormatError


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("last", [True, False])
def test_numbers_do_not_depend_on_line_ends(end, last):
    content = end.join([b"1,2.5,-3e2", b" .5 ,+6,7.", b""]) if last else end.join([b"1,2.5,-3e2", b".5,6,7"])
    np.testing.assert_array_equal(parse_numbers(content, "name"), [[1, 2.5, -300], [0.5, 6, 7]])


def test_numbers_come_back_to_the_last_bit(rng, written):
    values = rng.standard_normal((50, 4)) * 10.0 ** rng.integers(-300, 300, (50, 4))
    content = "\n".join(",".join(map(repr, row)) for row in values.tolist()).encode()
    np.testing.assert_array_equal(read_numbers(written(content)), values)
    np.testing.assert_array_equal(read_numbers(written(gzip.compress(content), "a.csv.gz"), columns=4), values)
    np.testing.assert_array_equal(parse_numbers(content.replace(b",", b" \t"), "name", delimiter=None), values)


@pytest.mark.parametrize("content", [b"5", b"\xef\xbb\xbf5\n", b"\n5\n\n\n", b"  5  \n  \n"])
def test_one_number_is_a_table(content):
    assert parse_numbers(content, "name", delimiter=None).tolist() == [[5.0]]


@pytest.mark.parametrize(
    ("missing", "delimiter", "content"),
    [
        ("?", ",", b"1,?,3\n? , 5,?\n"),
        ("-", ",", b"1,-,3\n-,5,-"),
        ("NA", None, b"1 NA 3\nNA\t5 NA"),
        ("", ",", b"1,,3\r\n,5,\r\n"),
        ("", ";", b"1; ;3\n ;5;"),
        ("nan", ",", b"1,nan,3\nnan,5,nan"),
    ],
)
def test_missing_tokens_are_nan(missing, delimiter, content):
    values = parse_numbers(content, "name", delimiter=delimiter, missing=missing)
    np.testing.assert_array_equal(values, [[1, np.nan, 3], [np.nan, 5, np.nan]])


def test_an_empty_field_between_blanks_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="needs a delimiter"):
        parse_numbers(b"1 2", "name", delimiter=None, missing="")


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        (b"", 1, "no rows"),
        (b"\n \n", 1, "no rows"),
        (b"1,2\n3\n", 2, "1 columns, expected 2"),
        (b"1,2\n\n3,4,5\n", 3, "3 columns, expected 2"),
        (b"1,2\n3,\n", 2, "column 2 holds ''"),
        (b"1,2\n3,x\n", 2, "column 2 holds 'x', expected a finite number"),
        (b"1,2\n3,nan\n", 2, "'nan'"),
        (b"1,2\n3,inf\n", 2, "'inf'"),
        (b"1,2\n3,1e999\n", 2, "'1e999'"),
        (b"1,2\n3,1_0\n", 2, "'1_0'"),
        (b"1,2\n3,0x10\n", 2, "'0x10'"),
        (b"1,2\n3,1 0\n", 2, "'1 0'"),
        (b"1,2\n3,--1\n", 2, "'--1'"),
        (b"1,2\n3,?\n", 2, "'?'"),
        (b"1,2\n3,\xff\n", 2, "byte 0xff is not UTF-8"),
        (b"1,2\n3,\0\n", 2, "NUL"),
        ("1,2\n3,\u0664\n".encode(), 2, "finite number"),
        (b"1,2\n3,4\x0b\n", 2, r"'4\\x0b'"),
        (b"1;2\n", 1, "'1;2'"),
        (b"1," + b"9" * 1000 + b"\n", 1, r"9\.\.\.'"),
    ],
)
def test_bad_numbers_are_refused_with_their_line(written, content, line, problem):
    path = written(content)
    with pytest.raises(DataFormatError, match=problem) as caught:
        read_numbers(path)
    assert str(caught.value).startswith(str(path))
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        (b"a,c\n1,2\n", 1, "name 2 of the header is 'c', expected 'b'"),
        (b"a\n1\n", 1, "1 names, expected 2"),
        (b"1,2\n", 1, "name 1"),
        (b'a,"b\n1,2\n', 1, "header"),
        (b"a,b\n", 2, "no rows"),
        (b"a,b", 2, "no rows"),
        (b"", 1, "0 names"),
        (b"a,b\n1,2,3\n", 2, "3 columns, expected 2"),
        (b"a,b\r\n1,2\r\n1,\xff\r\n", 3, "UTF-8"),
        (b"a,\xff\n1,2\n", 1, "UTF-8"),
    ],
)
def test_a_header_must_be_the_expected_one(content, line, problem):
    with pytest.raises(DataFormatError, match=problem) as caught:
        parse_numbers(content, "name", header=["a", "b"])
    assert caught.value.line == line


def test_a_missing_file_is_the_callers_business(tmp_path):
    for read in (read_numbers, read_table):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "absent.csv")


def test_a_damaged_gzip_is_refused(written):
    packed = gzip.compress(b"1,2\n" * 1000)
    with pytest.raises(DataFormatError):
        read_numbers(written(packed[:-10], "a.gz"))


def test_memory_grows_with_the_file_and_not_with_what_it_might_hold():
    content = b"1,2,3,4\n" * 100_000
    tracemalloc.start()
    parse_numbers(content, "name")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * len(content)


def test_table_agrees_with_pandas_where_both_are_strict():
    content = b'name,"size",n,text\n"a ""quoted"", b",1.5,1,007x\n"two\nlines",-2e3,2,8\n\nc,?,3,9\n'
    frame = parse_table(content, "name", missing=["?"])
    expected = pd.DataFrame(
        {
            "name": ['a "quoted", b', "two\nlines", "c"],
            "size": [1.5, -2000.0, np.nan],
            "n": [1, 2, 3],
            "text": ["007x", "8", "9"],
        }
    )
    pd.testing.assert_frame_equal(frame, expected)


@pytest.mark.parametrize("field", ["nan", "inf", "True", "1_000", "0x1", "", "1e999", "\u0661"])
def test_a_column_with_anything_else_than_a_number_is_text(field):
    frame = parse_table(f"a,b\n1,2\n{field},3\n".encode(), "name")
    assert frame["a"].tolist() == ["1", field]
    assert frame["b"].dtype == np.int64


def test_integers_beyond_64_bits_are_floats():
    assert parse_table(b"a\n1\n99999999999999999999\n", "name")["a"].tolist() == [1.0, 1e20]


def test_a_column_of_missing_values_is_nan():
    frame = parse_table(b"a,b\n?,x\n?,?\n", "name", missing=["?"])
    assert np.isnan(frame["a"]).all()
    assert frame["b"].isna().tolist() == [False, True]


@pytest.mark.parametrize("header", [b'"date","n"\n', b',"date","n"\n', b'"","date","n"\n'])
def test_the_index_has_an_empty_name_or_none(header):
    frame = parse_table(header + b'"140","2015-02-02 14:19:00",1\n"141",2015-02-03,2\n', "name", index=True)
    assert list(frame.columns) == ["date", "n"]
    assert frame.index.tolist() == [140, 141]
    assert frame["n"].tolist() == [1, 2]


def test_what_surrounds_a_table_is_left_out():
    content = b'<html>\n<pre>"title"\nday,rate\n1,\n2,0.5\n"(C) 2014"\n</pre></html>\n\n'
    frame = parse_table(content, "name", header=["day", "rate"], skip=2, footer=2, missing=[""])
    np.testing.assert_array_equal(frame["rate"], [np.nan, 0.5])
    content = b"# a\n0 FP1 0 -8.9\n# b\n0 FP2 1 2\n"
    frame = parse_table(content, "name", delimiter=None, header=False, comment="#")
    assert frame.to_numpy().tolist() == [[0, "FP1", 0, -8.9], [0, "FP2", 1, 2.0]]
    assert list(frame.columns) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        (b"", 1, "no header"),
        (b"a,b\n", None, "no rows"),
        (b"a,a\n1,2\n", 1, "names 'a' twice"),
        (b"a,b\n1,2\n3\n", 3, "1 fields, expected 2"),
        (b"a,b\n1,2,3\n", 2, "3 fields, expected 2"),
        (b'a,b\n"1\n\n",2\n3\n', 5, "1 fields"),
        (b'a,b\n1,2\n"3,4\n5,6\n', 3, "unexpected end of data"),
        (b'a,b\n"1"x,2\n', 2, "expected after"),
        (b"a,b\n1,\xe9\n", 2, "not UTF-8"),
        (b"a,b\n1,\0\n", 2, "NUL"),
        (b"a,b\n1," + b"x" * 200_000, 2, "field larger"),
    ],
)
def test_bad_tables_are_refused_with_their_line(content, line, problem):
    with pytest.raises(DataFormatError, match=problem) as caught:
        parse_table(content, "name")
    assert caught.value.line == line


def test_a_table_must_have_the_expected_names_and_width():
    with pytest.raises(DataFormatError, match="the header names 'a', 'b', expected 'a', 'c'"):
        parse_table(b"a,b\n1,2\n", "name", header=["a", "c"])
    with pytest.raises(DataFormatError, match="2 names, expected 3"):
        parse_table(b"a,b\n1,2\n", "name", columns=3)
    with pytest.raises(DataFormatError, match="2 fields, expected 3"):
        parse_table(b"1,2\n", "name", header=False, columns=3)
    with pytest.raises(DataFormatError, match="no header"):
        parse_table(b"a,b\n1,2\n", "name", footer=9)


@pytest.mark.parametrize(
    ("file", "shape", "options"),
    [
        ("annotators_uci/breast-cancer-wisconsin.uci.data", (699, 11), {"missing": "?"}),
        ("annotators_uci/Skin_NonSkin.txt", (245057, 4), {"header": ["r", "g", "b", "skin"]}),
        ("cnae9/CNAE-9.data", (1080, 857), {}),
        ("naval/naval.txt", (11934, 18), {"delimiter": None}),
        ("uci_regression/bostonHousing.txt", (506, 14), {"delimiter": None}),
        ("uci_regression/concrete.txt", (1030, 9), {"delimiter": None}),
        ("uci_regression/yacht.txt", (308, 7), {"delimiter": None}),
        ("uci_regression/protein-tertiary-structure.txt", (45730, 10), {"delimiter": None}),
        ("uci_regression/bike.csv.gz", (17379, 18), {}),
        ("exchange/fx2007-processed.csv", (251, 13), {}),
        ("kalinka/kalinka09_mel_pdata.csv", (56, 2), {}),
    ],
)
def test_real_numbers_equal_those_of_pandas(shared_data, file, shape, options):
    values = read_numbers(shared_data / file, **options)
    separator = options.get("delimiter", ",") or r"\s+"
    frame = pd.read_csv(
        shared_data / file, sep=separator, header=0 if "header" in options else None, na_values="?",
        float_precision="round_trip",
    )  # fmt: skip
    assert values.shape == shape
    np.testing.assert_array_equal(values, frame)


@pytest.mark.parametrize(
    ("file", "shape", "missing", "options"),
    [
        ("balance/balance-scale.data", (625, 5), 0, {"header": False}),
        ("kalinka/kalinka09_mel.csv", (3590, 57), 0, {"header": False}),
        ("annotators_uci/parkinsons.data", (195, 24), 0, {}),
        ("occupancy/datatest.txt", (2665, 7), 0, {"index": True}),
        ("occupancy/datatest2.txt", (9752, 7), 0, {"index": True}),
        ("music/music_genre_gold.csv", (700, 126), 0, {}),
        ("music/mturk_answers.csv", (2945, 4), 0, {}),
        ("traffic/london_20002016_all_raw_8am.csv", (12763, 13), 0, {}),
        ("eeg/mogptk_eeg.csv", (300, 22), 0, {"index": True}),
        ("exchange/fxdata2007.csv", (251, 16), 59, {"missing": [""]}),
        ("exchange/fxdata03-06.csv", (1003, 16), 107, {"missing": [""], "skip": 3, "footer": 2}),
        ("exchange/fxdata07-10.csv", (1005, 16), 119, {"missing": [""], "skip": 3, "footer": 2}),
        ("exchange/fxdata11-13.csv", (1002, 16), 92, {"missing": [""], "skip": 3, "footer": 2}),
        ("exchange/fxdata2454103-2454466-13outputs.txt", (251, 16), 0, {"delimiter": None}),
        ("gplar_splits/exchange_train.csv", (251, 14), 362, {"missing": [""]}),
    ],
)
def test_real_tables_equal_those_of_pandas(shared_data, file, shape, missing, options):
    frame = read_table(shared_data / file, **options)
    expected = pd.read_csv(
        shared_data / file,
        sep=options.get("delimiter", ",") or r"\s+",
        header=None if options.get("header") is False else 0,
        index_col=0 if options.get("index") else None,
        skiprows=options.get("skip", 0),
        skipfooter=options.get("footer", 0),
        dtype=str,  # pandas converts numbers itself only to within a bit
        engine="python",
    )
    assert frame.shape == shape
    assert frame.isna().to_numpy().sum() == missing
    assert list(frame.columns) == list(expected.columns)
    assert list(map(str, frame.index)) == list(map(str, expected.index))
    for (name, ours), (_, theirs) in zip(frame.items(), expected.items(), strict=True):
        numeric = pd.api.types.is_numeric_dtype(ours)
        np.testing.assert_array_equal(ours, theirs.astype(float) if numeric else theirs, err_msg=str(name))
