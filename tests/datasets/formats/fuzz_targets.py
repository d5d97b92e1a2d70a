"""What is fuzzed, and how: each parser with a few small sound inputs, and mutations that damage them by a seed."""

from __future__ import annotations

import gzip
import io
import random
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.io
from pandas1 import frames_file
from PIL import Image

from mogp.datasets.formats.archives import read_gzip, read_members
from mogp.datasets.formats.arrays import parse_npy, read_npz
from mogp.datasets.formats.frames import read_pickled_frames
from mogp.datasets.formats.idx import read_idx
from mogp.datasets.formats.images import decode_png
from mogp.datasets.formats.matlab import read_mat

NUMBERS = [
    b"-1",
    b"0",
    b"1e999",
    b"-1e999",
    b"nan",
    b"inf",
    b"9" * 18,
    b"9" * 400,
    b"2147483648",
    b"0x10",
    b"1_0",
    b"1.",
]
WORDS = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1]
TOKENS = [
    *[bytes([value]) for value in b"\0\n\r\t ,:;?'\"{}[]()<>@%#&\\/.-+\x80\xff"],
    *[b"\r\n", b"../", b"nan", b"NaN", b"Infinity", b"null", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xf0\x9f\x90\x88"],
    *[b"@data\n", b"@attribute a numeric\n", b'<!DOCTYPE a [<!ENTITY b "c">]>', b"&b;", b"MOTION\n", b"[" * 3000],
]  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A parser under its name: `read(path)` parses a file; `seeds` are contents that it takes as sound.

    `mend` makes the checksums of a mutant right again, so that what lies behind them is reached.
    """

    name: str
    read: Callable[[Path], object]
    seeds: tuple[bytes, ...]
    suffix: str = ""
    mend: Callable[[bytes], bytes] = bytes


def mutant(target: Target, number: int) -> bytes:
    """Mutant `number` of a target's seeds, always the same."""
    source = random.Random(f"{target.name}/{number}")
    content = source.choice(target.seeds)
    for _ in range(source.choice([1, 1, 1, 2, 3, 5])):
        content = source.choice(MUTATIONS)(content, source, target.seeds)
    return target.mend(content)


def _flip(content: bytes, source: random.Random, seeds: tuple[bytes, ...]) -> bytes:
    changed = bytearray(content)
    for _ in range(source.choice([1, 2, 16]) if content else 0):
        changed[source.randrange(len(changed))] ^= 1 << source.randrange(8)
    return bytes(changed)


def _truncate(content: bytes, source: random.Random, seeds: tuple[bytes, ...]) -> bytes:
    return content[: source.randint(0, len(content))]


def _cut(content: bytes, source: random.Random, seeds: tuple[bytes, ...]) -> bytes:
    start, stop = _range(content, source)
    return content[:start] + content[stop:]


def _double(content: bytes, source: random.Random, seeds: tuple[bytes, ...]) -> bytes:
    start, stop = _range(content, source)
    return content[:stop] + content[start:stop] * source.choice([1, 2, 50]) + content[stop:]


def _splice(content: bytes, source: random.Random, seeds: tuple[bytes, ...]) -> bytes:
    other = source.choice(seeds)
    start, stop = _range(other, source)
    at, until = _range(content, source)
    return content[:at] + other[start:stop] + content[until:]


def _number(content: bytes, source: random.Random, seeds: tuple[bytes, ...]) -> bytes:
    found = list(re.finditer(rb"[-+]?\d+\.?\d*", content))
    if not found:
        return content
    match = source.choice(found)
    return content[: match.start()] + source.choice(NUMBERS) + content[match.end() :]


def _word(content: bytes, source: random.Random, seeds: tuple[bytes, ...]) -> bytes:
    code = source.choice("BHIQ")
    value = source.choice(WORDS) & (256 ** struct.calcsize(code) - 1)
    at = source.randint(0, len(content))
    packed = struct.pack(source.choice("<>") + code, value)
    return content[:at] + packed + content[at + len(packed) :]


def _line(content: bytes, source: random.Random, seeds: tuple[bytes, ...]) -> bytes:
    lines = content.splitlines(keepends=True)
    if not lines:
        return content
    at, other = source.randrange(len(lines)), source.randrange(len(lines))
    lines[at : at + 1] = source.choice([[], [lines[at]] * 2, [lines[other]], [lines[at].rstrip()], [b"\n", lines[at]]])
    return b"".join(lines)


def _token(content: bytes, source: random.Random, seeds: tuple[bytes, ...]) -> bytes:
    at = source.randint(0, len(content))
    return content[:at] + source.choice(TOKENS) + content[at:]


def _range(content: bytes, source: random.Random) -> tuple[int, int]:
    start = source.randint(0, len(content))
    length = source.choice([1, 4, 8, 64, 512, len(content)])
    return start, min(len(content), start + source.randint(0, length))


MUTATIONS = [_flip, _truncate, _cut, _double, _splice, _number, _word, _line, _token]


FILES = {"folder/a.txt": b"1 2 3\n" * 40, "folder/b.txt": b"", "c.bin": bytes(range(256))}


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return target.getvalue()


def tarred(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    content = target.getvalue().rstrip(b"\0")
    return content + bytes(-len(content) % 512 + 1024)


def mend_tar(content: bytes) -> bytes:
    """The checksum of every block that may be a header."""
    blocks = [bytearray(content[at : at + 512]) for at in range(0, len(content), 512)]
    for block in blocks:
        if block[257:262] == b"ustar":
            block[148:156] = b"%06o\0 " % (sum(block[:148]) + sum(block[156:]) + 256)
    return b"".join(blocks)


def mend_png(content: bytes) -> bytes:
    """The checksum of every chunk."""
    mended, offset = bytearray(content), 8
    while offset + 12 <= len(mended):
        end = offset + 8 + int.from_bytes(mended[offset : offset + 4], "big")
        mended[end : end + 4] = zlib.crc32(mended[offset + 4 : end]).to_bytes(4, "big")
        offset = end + 4
    return bytes(mended)


def gzipped(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">I{array.ndim}I", 0x800 + array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def png(array: np.ndarray) -> bytes:
    target = io.BytesIO()
    Image.fromarray(array).save(target, "PNG")
    return target.getvalue()


def npy(array: np.ndarray) -> bytes:
    target = io.BytesIO()
    np.save(target, array)
    return target.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    return zipped({f"{name}.npy": npy(array) for name, array in arrays.items()}, zipfile.ZIP_STORED)


def mat(variables: dict[str, object], **options: object) -> bytes:
    """A MATLAB file; in one of version 5 the text that tells the time is blotted out."""
    target = io.BytesIO()
    scipy.io.savemat(target, variables, **options)
    content = target.getvalue()
    return content if options.get("format") == "4" else b"MATLAB 5.0 MAT-file".ljust(116) + content[116:]


def cell(*arrays: np.ndarray) -> np.ndarray:
    cells = np.empty((1, len(arrays)), object)
    for n, array in enumerate(arrays):
        cells[0, n] = array
    return cells


def _variables() -> dict[str, object]:
    numbers = np.arange(6.0).reshape(2, 3)
    return {"a": numbers, "b": cell(numbers, numbers[:1].astype(np.uint8), np.zeros((0, 0))), "text": "other"}


def _table() -> pd.DataFrame:
    return pd.DataFrame(
        [[1.0, 2.0, np.nan], [4.0, 5.0, 6.0]], index=pd.Index([0.0, 0.5], name="time"), columns=["F3", "F4", "FZ"]
    )


_DRAWING = np.eye(12, 9, dtype=np.uint8)
_DRAWINGS = (png(_DRAWING.astype(bool)), png(200 * _DRAWING))
_NUMBERS = np.arange(24.0).reshape(2, 3, 4)


def _read_drawing(path: Path) -> object:
    return decode_png(path.read_bytes(), path, (12, 9))


TARGETS = [
    Target("zip", read_members, (zipped(FILES), zipped(FILES, zipfile.ZIP_STORED))),
    Target("tar", read_members, (tarred(FILES), gzipped(tarred(FILES)))),
    Target("tar-mended", read_members, (tarred(FILES),), mend=mend_tar),
    Target("gzip", read_gzip, (gzipped(FILES["folder/a.txt"]), gzipped(b"a") + gzipped(b"b"))),
    Target("idx", read_idx, (idx(np.ones((3, 4, 5))), idx(np.arange(9)), gzipped(idx(np.arange(9))))),
    Target("png", _read_drawing, _DRAWINGS),
    Target("png-mended", _read_drawing, _DRAWINGS, mend=mend_png),
    Target(
        "npy", lambda path: parse_npy(path.read_bytes(), path), (npy(_NUMBERS), npy(np.asfortranarray(_NUMBERS[0])))
    ),
    Target("npz", lambda path: read_npz(path, ["a", "b"]), (npz(a=_NUMBERS, b=np.arange(5)),)),
    Target(
        "mat",
        lambda path: read_mat(path, ["a", "b"]),
        (
            mat(_variables()),
            mat(_variables(), do_compression=True),
            mat({"a": _NUMBERS[0], "b": np.ones(3)}, format="4"),
        ),
    ),
    Target("frames", read_pickled_frames, (frames_file({"eeg": (_table(),) * 3}),)),
]
