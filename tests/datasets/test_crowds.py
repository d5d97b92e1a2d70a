from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mogp.datasets import crowds
from mogp.datasets.crowds import music, music_standin, voice_standin
from mogp.datasets.formats.errors import DataFormatError


@pytest.fixture
def mirror(shared_data, monkeypatch):
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    return shared_data / "music"


def test_seven_workers_labelled_a_fifth_of_the_songs(mirror):
    answers = pd.read_csv(mirror / "music_genre_mturk.csv", usecols=["id", "annotator", "class"])
    assert answers["annotator"].nunique() == 44
    assert len(answers) == 2945  # the 2946 of the document counts the header
    frequent = answers["annotator"].value_counts()
    frequent = sorted(frequent[frequent >= 0.2 * 700].index)
    data = music()
    assert data.per_row["annotations"].shape == (1000, 7)
    gold = pd.read_csv(mirror / "music_genre_gold.csv", usecols=["id", "class"])
    labels = data.per_row["annotations"]
    for row in answers[answers["annotator"].isin(frequent)].itertuples():
        song, worker = gold.index[gold["id"] == row.id][0], frequent.index(row.annotator)
        assert crowds.GENRES[int(labels[song, worker])] == row[3]
    assert np.isfinite(labels).sum() == answers["annotator"].isin(frequent).sum() == 2042


def test_workers_answers_are_those_of_the_original_list(mirror):
    original = pd.read_csv(mirror / "mturk_answers.csv", lineterminator="\r")
    table = pd.read_csv(mirror / "music_genre_mturk.csv", usecols=["id", "annotator", "class"])
    keys = ["Input.song", "WorkerID", "Answer.pred_label"]
    assert sorted(map(tuple, original[keys].to_numpy())) == sorted(
        map(tuple, table[["id", "annotator", "class"]].to_numpy())
    )


def test_songs_are_split_as_published(mirror):
    data = music(workers="all")
    assert (len(data.train), len(data.test)) == (700, 300)
    assert data.X.shape == (1000, 124)
    np.testing.assert_array_equal(np.bincount(data.Y[:, 0].astype(int)), [100] * 10)
    assert np.isfinite(data.per_row["annotations"]).sum() == 2945
    assert np.isnan(data.test.per_row["annotations"]).all()
    assert np.isfinite(data.train.per_row["annotations"]).any(axis=1).all()
    raw = pd.concat([pd.read_csv(mirror / f"music_genre_{part}.csv") for part in ("gold", "test")])
    features = raw[[f"feature{p}" for p in range(124)]].to_numpy()
    np.testing.assert_allclose(data.X, (features - features.mean(0)) / features.std(0), atol=1e-7)
    assert [crowds.GENRES[int(k)] for k in data.Y[:, 0]] == raw["class"].tolist()


def test_regression_takes_the_number_of_the_genre_for_a_value():
    classes, values = music_standin(), music_standin(task="regression")
    np.testing.assert_array_equal(classes.Y, values.Y)
    assert (classes.likelihoods, values.likelihoods) == (("Softmax",), ("Gaussian",))
    assert values.classes == {}


def test_standin_workers_are_like_the_real_ones():
    data = music_standin(workers="all")
    assert data.per_row["annotations"].shape == (1000, 44)
    assert music_standin().per_row["annotations"].shape == (1000, 7)
    assert 2700 < np.isfinite(data.per_row["annotations"]).sum() < 3200


def test_voice_standin_has_annotators_on_each_scale():
    for scale in "GRB":
        data = voice_standin(scale=scale)
        assert data.X.shape == (218, 13)
        assert data.per_row["annotations"].shape == (218, 5)
    assert voice_standin().digest != voice_standin(scale="R").digest


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: music_standin(task="ranking"), "regression"),
        (lambda: music_standin(workers="some"), '"frequent" or "all"'),
        (lambda: voice_standin(scale="A"), "G, R, B"),
    ],
)
def test_unknown_options_are_met_with_what_there_is(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_unexpected_content_is_refused(tmp_path):
    names = ",".join(crowds.FEATURES)
    numbers = ",".join(["1"] * 124)
    files = {"gold": f"id,{names},class\na,{numbers},jazz\n", "test": f"id,{names},class\nb,{numbers},rock\n"}
    files["workers"] = f"id,annotator,{names},class\na,w,{numbers},pop\n"

    def read(**changes):
        for name, text in {**files, **changes}.items():
            (tmp_path / name).write_text(text)
        return crowds.read_music(*(tmp_path / name for name in ("gold", "test", "workers")))

    raw, annotations = read()
    assert (raw.shape, annotations.tolist()[0]) == ((2, 125), [7.0])
    with pytest.raises(DataFormatError, match="polka"):
        read(gold=files["gold"].replace("jazz", "polka"))
    with pytest.raises(DataFormatError, match="does not have"):
        read(workers=files["workers"].replace("\na,", "\nz,"))
