"""The multi-class sets hold what the thesis says of them; stand-ins have the same form and are about as difficult."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pandas as pd
import pytest
from alike import assert_alike, assert_same_options
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.preprocessing import StandardScaler

from mogp.datasets import DataFormatError, DataUnavailableError, indoors, many_classes
from mogp.datasets.indoors import UJI
from mogp.datasets.many_classes import BALANCE, BIBTEX, CNAE9, MEDIAMILL

ENTRIES = many_classes.ENTRIES | indoors.ENTRIES
SHAPES = many_classes.SHAPES | indoors.SHAPES

REAL = ("balance", "cnae9", "mediamill-single", "bibtex-single", "ujiindoorloc")


@pytest.fixture
def mirror(shared_data, monkeypatch, tmp_path_factory):
    """The real files, and a cache that lasts as long as the tests, because some take seconds to read."""
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    monkeypatch.setenv("MOGP_DATA_CACHE", str(tmp_path_factory.getbasetemp() / "many-classes-cache"))
    return shared_data


# Synthetic


@pytest.mark.parametrize("spacing", ["equal", "uniform"])
def test_two_class_labels_follow_the_larger_class_function(spacing):
    data = many_classes.ma_two_class(spacing=spacing)
    f, x = data.extras["f"], data.X[:, 0]
    assert len(data) == 2000
    np.testing.assert_array_equal(data.Y[:, 0], np.argmax(f, axis=1))
    np.testing.assert_allclose(np.outer(data.extras["a"], data.extras["a"]), data.extras["B"], rtol=1e-6)
    np.testing.assert_allclose(f, np.outer(data.extras["u"], data.extras["a"]))
    assert (np.ptp(np.diff(x)) < 1e-12) == (spacing == "equal")
    assert -10 <= x.min() < -9.9
    assert 9.9 < x.max() <= 10


def test_two_class_functions_vary_over_the_thesis_lengthscale():
    u = np.array([many_classes.ma_two_class(n=201, seed=seed).extras["u"] for seed in range(60)])
    for lag, expected in ((1, np.exp(-0.5)), (2, np.exp(-2.0)), (5, np.exp(-12.5))):
        assert np.mean(u[:, lag:] * u[:, :-lag]) == pytest.approx(expected, abs=0.03)


def test_s20_is_the_call_of_the_public_code():
    X, y = make_classification(
        2000, 5, n_informative=5, n_redundant=0, n_classes=20, n_clusters_per_class=1, random_state=1
    )
    data = many_classes.s20()
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.Y[:, 0], y)
    assert np.unique(y, return_counts=True)[1].max() - 100 <= 3


# Tables


def test_balance_is_the_published_table_and_so_is_its_standin(mirror):
    table = pd.read_csv(mirror / BALANCE, header=None)
    data = many_classes.balance()
    names = np.array(data.classes["class"])[data.Y[:, 0].astype(int)]
    np.testing.assert_array_equal(names, table[0])
    np.testing.assert_array_equal(data.X, table.iloc[:, 1:])
    assert np.bincount(data.Y[:, 0].astype(int)).tolist() == [288, 288, 49]
    assert many_classes.balance_standin().digest == data.digest


def test_cnae9_is_the_published_table(mirror):
    table = np.loadtxt(mirror / CNAE9, delimiter=",")
    data = many_classes.cnae9()
    np.testing.assert_array_equal(data.X, table[:, 1:])
    np.testing.assert_array_equal(data.Y[:, 0], table[:, 0] - 1)
    assert data.X.shape == (1080, 856)
    assert np.bincount(data.Y[:, 0].astype(int)).tolist() == [120] * 9


def test_bibtex_is_the_published_table_with_its_splits(mirror):
    data = many_classes.bibtex_single()
    with zipfile.ZipFile(mirror / BIBTEX) as archive:
        with archive.open("Bibtex/Bibtex_data.txt") as lines:
            first = np.loadtxt([next(lines) for _ in range(40)])
        tables = [np.loadtxt(io.BytesIO(archive.read(f"Bibtex/bibtex_{p}Split.txt"))) for p in ("tr", "tst")]
    np.testing.assert_array_equal(data.X[:40].toarray(), first[:, :-1])
    np.testing.assert_array_equal(data.Y[:40, 0], first[:, -1])
    assert data.X.shape == (7395, 1836)
    assert data.X.nnz == 507746
    assert set(data.X.data) == {1.0}
    sizes = np.bincount(data.Y[:, 0].astype(int))
    assert (len(sizes), sizes.min(), sizes.max()) == (148, 1, 518)
    for split in (0, 1, 2, 9):
        held_out = many_classes.bibtex_single(split=split).held_out
        assert ((~held_out).sum(), held_out.sum()) == (4880, 2515)
        for table, rows in zip(tables, (~held_out, held_out), strict=True):
            np.testing.assert_array_equal(np.sort(table[:, split]) - 1, np.flatnonzero(rows))


def test_ujiindoorloc_without_sampling_is_both_published_tables(mirror):
    with zipfile.ZipFile(mirror / UJI) as archive:
        parts = [archive.read(f"UJIndoorLoc/{part}Data.csv") for part in ("training", "validation")]
    tables = [pd.read_csv(io.BytesIO(part)) for part in parts]
    assert [table.shape for table in tables] == [(19937, 529), (1111, 529)]
    table = pd.concat(tables).sort_values(["BUILDINGID", "FLOOR"], kind="stable")
    data = indoors.ujiindoorloc(points_per_floor=None, standardise=False)
    np.testing.assert_array_equal(data.X, table.iloc[:, :520])
    np.testing.assert_array_equal(data.output, table["BUILDINGID"])
    np.testing.assert_array_equal(data.Y[:, 0], table["FLOOR"])
    np.testing.assert_allclose(data.per_row["position"], table[["LONGITUDE", "LATITUDE"]], rtol=1e-15)
    assert table.groupby(["BUILDINGID", "FLOOR"]).size().min() == 995
    quiet = indoors.ujiindoorloc(points_per_floor=None, standardise=False, no_signal=-105.0)
    np.testing.assert_array_equal(quiet.X, table.iloc[:, :520].replace(100, -105))


def test_ujiindoorloc_has_200_points_of_each_floor_standardised_in_each_building(mirror):
    data, raw = indoors.ujiindoorloc(), indoors.ujiindoorloc(standardise=False)
    assert data.data.sizes == (800, 800, 1000)
    assert [len(data.classes[building]) for building in data.outputs] == [4, 4, 5]
    for b in range(3):
        of = data.output == b
        assert set(np.bincount(data.Y[of, 0].astype(int))) == {200}
        np.testing.assert_allclose(data.X[of], StandardScaler().fit_transform(raw.X[of]), atol=1e-9)
    assert not np.isnan(data.X).any()
    assert len(np.unique(np.column_stack([raw.X, raw.per_row["position"], raw.Y]), axis=0)) > 2000
    assert indoors.ujiindoorloc(seed=1).digest != data.digest == indoors.ujiindoorloc().digest


def test_mediamill_takes_the_last_column_as_label(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X, labels = rng.uniform(size=(7, 120)), np.array([4, 9, 4, 30, 9, 9, 4])
    np.savetxt(tmp_path / "data.txt", np.column_stack([X, labels]))
    monkeypatch.setattr(many_classes, "path_of", lambda path: tmp_path / "data.txt")
    data = many_classes.mediamill_single()
    np.testing.assert_array_equal(data.X, X)
    assert data.Y[:, 0].tolist() == [0, 1, 0, 2, 1, 1, 0]
    assert data.classes["class"] == ("4", "9", "30")
    assert SHAPES[MEDIAMILL](tmp_path / "data.txt") == "7 x 121"


@pytest.mark.parametrize(
    ("path", "shape"),
    [(BALANCE, "625 x 5, classes R 288, L 288, B 49"), (CNAE9, "1080 x 857")],
)
def test_shapes_are_the_verified_ones(shared_data, path, shape):
    assert SHAPES[path](shared_data / path) == shape


# Stand-ins


@pytest.mark.parametrize("name", REAL)
def test_standins_take_the_same_options_and_never_change(name):
    entry = ENTRIES[name]
    assert_same_options(entry)
    first, second = entry.standin(), entry.standin()
    assert first.source == "stand-in"
    assert first.digest == second.digest


@pytest.mark.parametrize("name", ["cnae9", "bibtex-single", "ujiindoorloc"])
def test_standins_have_the_same_form_and_difficulty(mirror, name):
    real, standin = ENTRIES[name].load(), ENTRIES[name].standin()
    assert_alike(real, standin)
    assert score(standin) == pytest.approx(score(real), abs=0.15)


def score(data) -> float:
    """Accuracy of a simple classifier, averaged over outputs."""
    train, test = (data.train, data.test) if data.held_out is not None else next(data.folds(3))
    model = LogisticRegression(max_iter=200, tol=1e-2) if data.held_out is None else MultinomialNB(alpha=0.1)
    outputs = [np.zeros(len(part), int) if part.output is None else part.output for part in (train, test)]
    scores = []
    for d in range(len(data.outputs)):
        a, b = outputs[0] == d, outputs[1] == d
        scores.append(model.fit(train.X[a], train.Y[a, 0]).score(test.X[b], test.Y[b, 0]))
    return float(np.mean(scores))


def test_standin_of_mediamill_has_the_sizes_of_the_thesis_and_is_as_hard():
    data = many_classes.mediamill_single_standin()
    sizes = np.bincount(data.Y[:, 0].astype(int))
    assert data.X.shape == (6689, 120)
    assert (len(sizes), sizes.min(), sizes.max()) == (35, 31, 545)
    train, test = data.split()
    accuracy = LogisticRegression(max_iter=200, tol=1e-2).fit(train.X, train.Y[:, 0]).score(test.X, test.Y[:, 0])
    assert 0.15 < accuracy < 0.45


def test_standins_of_bibtex_have_ten_splits():
    splits = [many_classes.bibtex_single_standin(split=split).held_out for split in range(10)]
    assert {split.sum() for split in splits} == {2515}
    assert len({split.tobytes() for split in splits}) == 10


# Errors


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("ma-two-class", {"n": 0}, "at least one"),
        ("ma-two-class", {"spacing": "grid"}, "'equal' or 'uniform'"),
        ("bibtex-single", {"split": 10}, "0 to 9"),
        ("bibtex-single", {"split": -1}, "0 to 9"),
        ("ujiindoorloc", {"points_per_floor": 996}, "floor 3 of Building II has 995 points"),
        ("ujiindoorloc", {"points_per_floor": 0}, "points_per_floor=0"),
    ],
)
def test_an_unknown_option_is_met_with_those_there_are(name, options, said):
    entry = ENTRIES[name]
    with pytest.raises(ValueError, match=said):
        (entry.standin or entry.load)(**options)


@pytest.mark.parametrize("name", REAL)
def test_without_the_files_the_error_says_how_to_get_them(name, monkeypatch):
    monkeypatch.setenv("MOGP_OFFLINE", "1")
    with pytest.raises(DataUnavailableError, match=f"mogp data fetch {name}"):
        ENTRIES[name].load()


@pytest.mark.parametrize(
    ("load", "content", "said"),
    [
        (many_classes.balance, "L,1,1,1,6\n", "integers from 1 to 5"),
        (many_classes.balance, "X,1,1,1,5\n", "classes X; expected B, L and R"),
        (many_classes.cnae9, ",".join(["10", *["0"] * 856]), "categories 1 to 9"),
        (many_classes.mediamill_single, " ".join(["0.5"] * 121), "whole numbers, the labels"),
    ],
)
def test_a_table_with_other_content_is_refused(tmp_path, monkeypatch, load, content, said):
    (tmp_path / "table").write_text(content)
    monkeypatch.setattr(many_classes, "path_of", lambda path: tmp_path / "table")
    with pytest.raises(DataFormatError, match=said):
        load()


ROW = " ".join(["0"] * 1836 + ["0"])


@pytest.mark.parametrize(
    ("data", "train", "said"),
    [
        (ROW.replace("0", "2", 1), "1 " * 10, "words must be 0 or 1"),
        (ROW[:-1] + "3", "1 " * 10, "the labels 0, 1"),
        (f"{ROW}\n{ROW}", "1 " * 10, "does not name every row once"),
        (f"{ROW}\n{ROW[:-2]}", "1 " * 10, "line 2: 1836 columns, expected 1837"),
        (ROW, None, "has no member"),
    ],
)
def test_a_bibtex_archive_with_other_content_is_refused(tmp_path, monkeypatch, data, train, said):
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("Bibtex/Bibtex_data.txt", data)
        if train is not None:
            archive.writestr("Bibtex/bibtex_trSplit.txt", train)
            archive.writestr("Bibtex/bibtex_tstSplit.txt", "1 " * 10)
    monkeypatch.setattr(many_classes, "path_of", lambda path: tmp_path / "b.zip")
    with pytest.raises(DataFormatError, match=said):
        many_classes.bibtex_single()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ((-60.5, 0.0), "whole numbers from -128 to 0"),
        ((-60.0, 0.0), "buildings 0 to 2 with 4, 4 and 5 floors"),
    ],
)
def test_a_ujiindoorloc_archive_with_other_content_is_refused(tmp_path, monkeypatch, row, said):
    signal, floor = row
    lines = ",".join(indoors.UJI_COLUMNS) + "\n" + ",".join(map(str, [signal] * 520 + [0, 0, floor] + [0] * 6))
    with zipfile.ZipFile(tmp_path / "u.zip", "w") as archive:
        for member in indoors.UJI_MEMBERS:
            archive.writestr(member, lines)
    monkeypatch.setattr(indoors, "path_of", lambda path: tmp_path / "u.zip")
    with pytest.raises(DataFormatError, match=said):
        indoors.ujiindoorloc()
