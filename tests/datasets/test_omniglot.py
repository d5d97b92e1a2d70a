"""Omniglot has the alphabets of table 4.1, as the authors' code read them; stand-ins look like it."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from alike import assert_alike, assert_same_options
from PIL import Image
from sklearn.linear_model import LogisticRegression

from mogp.datasets import DataFormatError, DataUnavailableError, store
from mogp.datasets.omniglot import CHARACTERS, ENTRIES, FILES, SHAPES, folder, omniglot, omniglot_standin

PAIR = ("Ojibwe", "Blackfoot")
_kept = []


@pytest.fixture
def mirror(shared_data, monkeypatch, tmp_path_factory):
    """The real files, and a cache that lasts as long as the tests, because reading them takes seconds."""
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    monkeypatch.setenv("MOGP_DATA_CACHE", str(tmp_path_factory.getbasetemp() / "omniglot-cache"))
    return shared_data


@pytest.fixture
def everything(mirror):
    if not _kept:
        _kept.append(omniglot())
    return _kept[0]


def test_table_of_alphabets_adds_up_to_the_published_numbers():
    assert {part: len(counts) for part, counts in CHARACTERS.items()} == {"background": 30, "evaluation": 20}
    assert {part: sum(counts.values()) for part, counts in CHARACTERS.items()} == {"background": 964, "evaluation": 659}


def test_archives_hold_twenty_drawings_of_every_character_of_the_table(mirror):
    for part, (path, _) in FILES.items():
        with zipfile.ZipFile(mirror / path) as archive:
            found = {tuple(name.split("/")[1:3]) for name in archive.namelist() if name.endswith(".png")}
            drawings = sum(name.endswith(".png") for name in archive.namelist())
        alphabets = [alphabet for alphabet, _ in found]
        assert {name: alphabets.count(folder(name)) for name in CHARACTERS[part]} == CHARACTERS[part]
        assert drawings == 20 * sum(CHARACTERS[part].values())


def test_all_alphabets_come_in_the_order_of_their_folders(everything):
    assert len(everything) == 32460
    assert len(everything.outputs) == 50
    assert list(map(folder, everything.outputs)) == sorted(map(folder, everything.outputs))
    counts = CHARACTERS["background"] | CHARACTERS["evaluation"]
    for d, name in enumerate(everything.outputs):
        labels = everything.Y[everything.output == d, 0]
        np.testing.assert_array_equal(labels, np.repeat(np.arange(counts[name]), 20))
        assert len(everything.classes[name]) == counts[name]
    assert set(np.unique(everything.X)) == {0.0, 1.0}
    assert everything.image_shape == (20, 20)


def test_pixels_are_those_of_the_public_code(mirror):
    data = omniglot(alphabets=PAIR)
    assert data.outputs == PAIR
    with zipfile.ZipFile(mirror / FILES["background"][0]) as archive:
        for d, name in enumerate(PAIR):
            members = sorted(member for member in archive.namelist() if f"/{folder(name)}/" in member)
            assert len(members) == 280
            images = [np.array(Image.open(io.BytesIO(archive.read(m))).resize((20, 20))) + 0 for m in members]
            np.testing.assert_array_equal(data.X[data.output == d], np.reshape(images, (280, 400)))


def test_a_filter_averages_ink_over_the_pixels_it_joins(mirror):
    data = omniglot(alphabets="Keble", size=21, filter="box")
    assert data.X.shape == (520, 441)
    assert data.image_shape == (21, 21)
    with zipfile.ZipFile(mirror / FILES["evaluation"][0]) as archive:
        member = min(member for member in archive.namelist() if "/Keble/" in member)
        image = np.array(Image.open(io.BytesIO(archive.read(member)))).astype(float)
    np.testing.assert_allclose(data.X[0].reshape(21, 21), image.reshape(21, 5, 21, 5).mean(axis=(1, 3)), atol=1e-6)


def test_once_read_the_images_need_no_archive(everything, monkeypatch):
    monkeypatch.delenv("MOGP_DATA_MIRROR")
    monkeypatch.setenv("MOGP_OFFLINE", "1")
    monkeypatch.setattr(store, "find", lambda *_: None)
    assert omniglot().digest == everything.digest
    part = omniglot(alphabets="evaluation")
    assert len(part) == 659 * 20
    np.testing.assert_array_equal(part.X[:400], everything.X[everything.output == everything.outputs.index("Angelic")])


def test_archives_of_the_original_author_serve_as_well(monkeypatch):
    def path_of(*paths):
        raise DataUnavailableError(" or ".join(paths))

    monkeypatch.setattr("mogp.datasets.omniglot.path_of", path_of)
    with pytest.raises(DataUnavailableError, match=r"images_evaluation.zip or omniglot/official/images_evaluation.zip"):
        omniglot(alphabets="ULOG")
    assert set(SHAPES) == {path for paths in FILES.values() for path in paths}


def test_standin_has_the_same_form_and_difficulty(mirror):
    assert_same_options(ENTRIES["omniglot"])
    scores = []
    for load in (omniglot, omniglot_standin):
        data = load(alphabets=PAIR)
        train, test = next(data.folds(3))
        train, test = (part.take(part.output == 0) for part in (train, test))
        scores.append(
            LogisticRegression(max_iter=200, tol=1e-2).fit(train.X, train.Y[:, 0]).score(test.X, test.Y[:, 0])
        )
    assert scores[0] == pytest.approx(scores[1], abs=0.15)
    assert_alike(omniglot(alphabets=PAIR), data)
    assert omniglot_standin(alphabets=PAIR).digest == data.digest


def test_standin_of_an_alphabet_is_the_same_alone_and_among_others():
    every = omniglot_standin()
    assert len(every) == 32460
    alone = omniglot_standin(alphabets="Greek")
    np.testing.assert_array_equal(every.X[every.output == every.outputs.index("Greek")], alone.X)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"alphabets": "Klingon"}, "Alphabet of the Magi, Angelic"),
        ({"alphabets": ()}, "give 'all'"),
        ({"alphabets": ("Greek", "Greek")}, "different names"),
        ({"size": 0}, "at least one pixel"),
        ({"filter": "magic"}, "'nearest', 'box'"),
    ],
)
@pytest.mark.parametrize("load", [omniglot, omniglot_standin])
def test_an_unknown_option_is_met_with_those_there_are(load, options, said):
    with pytest.raises(ValueError, match=said):
        load(**options)


def test_without_the_files_the_error_says_how_to_get_them(monkeypatch):
    monkeypatch.setenv("MOGP_OFFLINE", "1")
    with pytest.raises(DataUnavailableError, match="mogp data fetch omniglot"):
        omniglot(alphabets="Greek")


def png() -> bytes:
    content = io.BytesIO()
    Image.new("1", (105, 105), 1).save(content, "PNG")
    return content.getvalue()


@pytest.mark.parametrize(
    ("members", "said"),
    [
        (["images/Klingon/character01/1_01.png"], "is no alphabet of the evaluation set"),
        (["images/ULOG/character01/1_01.png"], "ULOG: 1 drawings of 1 characters; expected 20 drawings of each of 26"),
        (["1_01.png"], "is no alphabet"),
        ([], "has no alphabet 'Angelic'"),
        ([f"i/ULOG/character{c:02d}/{d:02d}.png" for c in range(26) for d in range(20)], "has no alphabet 'Angelic'"),
    ],
)
def test_an_archive_with_other_content_is_refused(tmp_path, members, said):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for member in members:
            archive.writestr(member, png())
    with pytest.raises(DataFormatError, match=said):
        SHAPES[FILES["evaluation"][0]](tmp_path / "a.zip")
