"""Small grey images: decoded from PNG, resized, straightened."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.formats.errors import DataFormatError

Filter = Literal["nearest", "box", "bilinear", "bicubic", "lanczos"]


def decode_png(content: bytes, name: Path | str, shape: tuple[int, int]) -> NDArray[np.uint8]:
    """The grey PNG image `content`, which must be of `shape` `[H, W]`; `name` is for errors.

    A binary image has values 0 and 1, a grey one 0 to 255, as stored: in Omniglot ink is 0 and
    paper 1.
    """
    from PIL import Image

    _check_chunks(content, name)
    width, height = struct.unpack_from(">II", content, 16)
    if (height, width) != shape:
        raise DataFormatError(
            name, f"is an image of {height} x {width} pixels; expected {shape[0]} x {shape[1]}"
        )
    try:
        with warnings.catch_warnings():
            for category in (UserWarning, RuntimeWarning):
                warnings.simplefilter("error", category)
            image = Image.open(io.BytesIO(content), formats=("PNG",))
            image.load()
    except Exception as error:  # Pillow's plugins document no set of exceptions
        raise DataFormatError(
            name, f"is a damaged PNG image ({str(error).partition(' <')[0]})"
        ) from error
    if image.mode not in ("1", "L") or image.size != (width, height):
        raise DataFormatError(
            name, f"is an image of mode {image.mode}; expected a binary or 8-bit grey one"
        )
    return np.asarray(image).astype(np.uint8)


def _check_chunks(content: bytes, name: Path | str) -> None:
    """That a PNG file is a header and whole chunks with the right checksums: Pillow does not check
    those of pixels.
    """
    if not content.startswith(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"):
        raise DataFormatError(name, "is not a PNG image")
    offset, kind = 8, b""
    while kind != b"IEND":
        if offset + 12 > len(content):
            raise DataFormatError(name, f"is truncated: no chunk at byte {offset}")
        length = int.from_bytes(content[offset : offset + 4], "big")
        kind, end = content[offset + 4 : offset + 8], offset + 8 + length
        if end + 4 > len(content):
            raise DataFormatError(
                name,
                f"declares a chunk of {length} bytes at byte {offset}, but the file ends before",
            )
        if zlib.crc32(content[offset + 4 : end]) != int.from_bytes(content[end : end + 4], "big"):
            raise DataFormatError(
                name, f"has a damaged chunk {kind!r} at byte {offset}: its checksum is wrong"
            )
        offset = end + 4
    if offset != len(content):
        raise DataFormatError(
            name, f"goes on for {len(content) - offset} bytes after its last chunk"
        )


def resize(
    images: NDArray[np.uint8], size: tuple[int, int] = (20, 20), filter: Filter = "nearest"
) -> NDArray[np.uint8] | NDArray[np.float32]:
    """Images `[N, H, W]` at another `size` `(h, w)`: `[N, h, w]`.

    `nearest` is what Pillow does with binary images whatever filter is asked for, and keeps values
    0 and 1; the other filters average and give float32.
    """
    from PIL import Image

    images = _stack_of_images(images)
    resample = Image.Resampling[filter.upper()]
    resized = np.empty((len(images), *size), np.float32)
    for n, image in enumerate(images):
        resized[n] = Image.fromarray(image.astype(np.float32)).resize(size[::-1], resample)
    return resized.astype(images.dtype) if filter == "nearest" else resized


def deskew(images: NDArray[Any], chunk: int = 4096) -> NDArray[np.float64]:
    r"""Images `[N, H, W]` in [0, 1], sheared upright and centred.

    With intensities as weights, $\mu$ the centroid and $\alpha = \mathrm{Cov}(\text{row},
    \text{col}) / \mathrm{Var}(\text{row})$, pixel $(r, c)$ takes the bilinearly interpolated value
    at row $\mu_r + r'$, column $\mu_c + c' + \alpha r'$, where $(r', c')$ is its offset from the
    middle of the image; outside there is no ink. Blank images stay blank.
    """
    images = _stack_of_images(images)
    if images.size and not (images.min() >= 0 and images.max() <= 1):
        raise ValueError(
            f"images have values from {images.min()} to {images.max()}; expected [0, 1]: divide by"
            " 255 first"
        )
    straight = np.empty(images.shape)
    for start in range(0, len(images), chunk):
        straight[start : start + chunk] = _deskew(images[start : start + chunk].astype(np.float64))
    return straight


def _deskew(images: NDArray[np.float64]) -> NDArray[np.float64]:
    _, H, W = images.shape
    rows, cols = np.arange(H) - (H - 1) / 2, np.arange(W) - (W - 1) / 2
    by_row, by_col = images.sum(2), images.sum(1)
    mass = np.maximum(by_row.sum(1), np.finfo(float).tiny)
    mu_row, mu_col = by_row @ rows / mass, by_col @ cols / mass
    variance = by_row @ rows**2 / mass - mu_row**2
    covariance = (images @ cols) @ rows / mass - mu_row * mu_col
    alpha = np.divide(covariance, variance, out=np.zeros_like(mass), where=variance > 1e-9)
    shifted = _interpolate(
        images.transpose(0, 2, 1), np.broadcast_to(mu_row[:, None], (len(images), W))
    )
    sheared = _interpolate(shifted.transpose(0, 2, 1), mu_col[:, None] + alpha[:, None] * rows)
    return np.clip(sheared, 0, 1)


def _interpolate(lines: NDArray[np.float64], shift: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lines `[N, A, B]` read at positions `b + shift[n, a]`, linearly between pixels, zero
    outside.
    """
    _, _, B = lines.shape
    whole = np.floor(shift)
    fraction = (shift - whole)[..., None]
    at = np.clip(np.arange(B) + whole[..., None], -2, B).astype(np.intp) + 2
    padded = np.pad(lines, ((0, 0), (0, 0), (2, 2)))
    left, right = np.take_along_axis(padded, at, 2), np.take_along_axis(padded, at + 1, 2)
    between: NDArray[np.float64] = left + fraction * (right - left)
    return between


def _stack_of_images(images: NDArray[Any]) -> NDArray[Any]:
    if images.ndim != 3:
        raise ValueError(f"images have shape {images.shape}; expected [N, H, W]")
    return images
