from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.io import arff
from scipy.spatial import cKDTree

from mogp.datasets import annotator_tables, annotators, store
from mogp.datasets.annotated_toys import annotators_synth_class, annotators_synth_reg
from mogp.datasets.annotator_tables import TABLES
from mogp.datasets.annotators import ENTRIES
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.packaged import PACKAGED


@pytest.fixture
def mirror(shared_data, monkeypatch):
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    return shared_data / "annotators_uci"


PUBLISHED = {
    "breast": (683, 9, (444, 239)),
    "bupa": (345, 6, (145, 200)),
    "ionosphere": (351, 34, (126, 225)),
    "pima": (768, 8, (500, 268)),
    "tic-tac-toe": (958, 9, (332, 626)),
    "skin": (245057, 3, (194198, 50859)),
    "wine": (178, 13, (59, 71, 48)),
    "segmentation": (2310, 18, (330,) * 7),
    "parkinsons": (195, 22, (48, 147)),
    "western": (2300, 9, (230, 690, 690, 690)),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_sizes_features_and_classes_are_the_published_ones(name, mirror):
    rows, features, counts = PUBLISHED[name]
    for data in (ENTRIES[name].load(), ENTRIES[name].standin()):
        assert data.X.shape == (rows, features)
        assert tuple(np.bincount(data.Y[:, 0].astype(int))) == counts
        assert len(data.classes[data.outputs[0]]) == len(counts)
        assert data.likelihoods == ("Bernoulli" if len(counts) == 2 else "Softmax",)


@pytest.mark.parametrize(
    ("name", "file"), [("bupa", "bupa.data"), ("pima", "pima-indians-diabetes.data"), ("wine", "keel_wine.dat")]
)
def test_features_are_those_of_the_file(name, file, mirror):
    raw = pd.read_csv(mirror / file, header=None, skipinitialspace=True).to_numpy(float)
    np.testing.assert_array_equal(ENTRIES[name].load(standardise=False).X, raw[:, :-1])
    scaled = ENTRIES[name].load()
    np.testing.assert_allclose(scaled.X.mean(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(scaled.X.std(axis=0), 1.0, atol=1e-10)


def test_both_breast_files_give_the_same_683_rows(mirror):
    marked, plain = (mirror / f"breast-cancer-wisconsin{middle}.data" for middle in ("", ".uci"))
    assert "?" not in marked.read_text()
    assert "?" in plain.read_text()
    pd.testing.assert_frame_equal(TABLES["breast"].read(marked), TABLES["breast"].read(plain), check_dtype=False)


def test_segmentation_is_the_two_weka_files_together(mirror):
    ours = ENTRIES["segmentation"].load(standardise=False)
    weka = pd.concat(
        [pd.DataFrame(arff.loadarff(mirror / f"segment-{part}.arff")[0]) for part in ("challenge", "test")]
    )
    theirs = weka.drop(columns=["region-pixel-count", "class"]).to_numpy(float)
    distance, match = cKDTree(theirs).query(ours.X)
    assert distance.max() < 5e-3  # Weka writes six digits, of values up to 1386
    names = np.array(ours.classes["texture"])[ours.Y[:, 0].astype(int)]
    np.testing.assert_array_equal(names, weka["class"].str.decode("ascii").to_numpy()[match])
    assert {tuple(row) for row in theirs} == {tuple(row) for row in theirs[match]}


def test_tic_tac_toe_standin_is_the_whole_real_set(mirror):
    entry = ENTRIES["tic-tac-toe"]
    sets = (entry.load(standardise=False), entry.standin(standardise=False))
    rows = [{(*x, *y) for x, y in zip(data.X, data.Y, strict=True)} for data in sets]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 958


@pytest.mark.parametrize(
    ("name", "carried"),
    [
        ("breast", "keel/wisconsin.dat"),
        ("bupa", "keel/bupa.dat"),
        ("pima", "keel/pima.dat"),
        ("tic-tac-toe", "annotators_uci/keel_tic-tac-toe.dat"),
    ],
)
def test_package_carries_the_same_rows_in_another_order(name, carried, mirror, tmp_path):
    try:
        content = PACKAGED[carried]()
    except ImportError as problem:
        pytest.skip(str(problem))
    path = tmp_path / carried.rpartition("/")[2]
    path.write_bytes(content)
    published = TABLES[name].table()
    frame = TABLES[name].read(path)
    classes = frame.iloc[:, -1].astype(str).map(dict(TABLES[name].labels))
    ours = np.column_stack([frame.iloc[:, :-1].to_numpy(float), classes])
    order, published_order = (np.lexsort(each.T) for each in (ours, published))
    np.testing.assert_array_equal(ours[order], published[published_order])


def test_package_is_enough_without_mirror_and_network(monkeypatch):
    monkeypatch.setenv("MOGP_OFFLINE", "1")
    monkeypatch.setattr(store, "PACKAGED", PACKAGED)
    try:
        PACKAGED["keel/bupa.dat"]()
    except ImportError as problem:
        pytest.skip(str(problem))
    for name in ("breast", "bupa", "pima", "tic-tac-toe", "wine", "segmentation"):
        data = ENTRIES[name].load()
        assert (data.source, len(data)) == ("real", PUBLISHED[name][0])


def test_wine_of_scikit_learn_is_the_same_up_to_order(mirror):
    from sklearn.datasets import load_wine

    theirs = np.column_stack([load_wine().data, load_wine().target])
    data = ENTRIES["wine"].load(standardise=False)
    ours = np.column_stack([data.X, data.Y])
    np.testing.assert_array_equal(ours[np.lexsort(ours.T)], theirs[np.lexsort(theirs.T)])


def test_western_has_ten_faults_on_request(mirror):
    data = annotators.western(labels="faults")
    assert tuple(np.bincount(data.Y[:, 0].astype(int))) == (230,) * 10
    raw = pd.read_csv(mirror / "cwru_feature_time_48k_2048_load_1.csv")
    assert [data.classes["fault"][int(k)] for k in data.Y[:, 0]] == raw["fault"].tolist()
    parts = annotators.western()
    assert {parts.classes["fault"][int(k)] for k in parts.Y[raw["fault"].str.startswith("OR"), 0]} == {"outer race"}


def test_simulated_annotators_come_with_the_table(mirror):
    data = ENTRIES["wine"].load(annotators="simulated")
    assert data.per_row["annotations"].shape == data.per_row["reliability"].shape == (178, 5)
    np.testing.assert_array_equal(data.per_row["annotations"] == data.Y, data.per_row["reliability"] >= 0.5)
    assert ENTRIES["wine"].load().per_row == {}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ENTRIES["wine"].standin(annotators="real"), 'None or "simulated"'),
        (lambda: annotators.western_standin(labels="sizes"), '"parts" or "faults"'),
        (lambda: annotators_synth_class(N=0), "at least one"),
        (lambda: annotators_synth_reg(test=1), "two test points"),
    ],
)
def test_unknown_options_are_met_with_what_there_is(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("bupa", "1,2,3,4,5,6,9\n", "label '9'"),
        ("bupa", "1,2,3,4,5,1\n", "5 features, expected 6"),
        ("bupa", "1,2,3,4,x,6,1\n", "not all numbers"),
        ("pima", "1,2,3,4,5,6,7,?,1\n", "missing value"),
        ("parkinsons", "a,b\n1,2\n", "'name' and 'status'"),
        ("skin", "r,g,b,skin\n1,2,3,1.5\n", "label '1.5'"),
    ],
)
def test_unexpected_content_is_refused_with_the_file(name, text, words, tmp_path, monkeypatch):
    path = tmp_path / "table.data"
    path.write_text(text)
    for module in (annotator_tables, annotators):
        monkeypatch.setattr(module, "path_of", lambda *paths: path)
    with pytest.raises(DataFormatError, match=words) as problem:
        ENTRIES[name].load()
    assert str(path) in str(problem.value)


def test_synthetic_classes_follow_the_largest_of_three_curves():
    data = annotators_synth_class(N=300, test=50)
    for x, k in zip(data.X[:, 0], data.Y[:, 0], strict=True):
        curves = [np.sin(2 * np.pi * x), -np.sin(2 * np.pi * x), -np.sin(2 * np.pi * (x + 0.25)) + 0.5]
        assert curves[int(k)] == pytest.approx(max(curves))
    assert (len(data.train), len(data.test)) == (300, 50)
    np.testing.assert_allclose(data.test.X[:, 0], np.linspace(0, 1, 50))
    assert np.isfinite(data.train.per_row["annotations"]).all()
    assert np.isnan(data.test.per_row["annotations"]).all()


def test_synthetic_curve_and_default_sizes_are_the_documents():
    data = annotators_synth_reg()
    np.testing.assert_allclose(
        data.Y[:, 0], np.sin(2 * np.pi * data.X[:, 0]) * np.sin(6 * np.pi * data.X[:, 0]), atol=1e-9
    )
    assert (len(data.train), len(annotators_synth_class().train), len(annotators_synth_class().test)) == (
        100,
        1000,
        2000,
    )


def test_reading_leaves_no_file_behind(mirror, leftovers):
    ENTRIES["bupa"].load()
    assert leftovers() == []
