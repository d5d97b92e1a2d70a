"""Omniglot: handwritten characters of fifty alphabets, each drawn by twenty people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from mogp.datasets.dataset import Array, Dataset, Source
from mogp.datasets.entry import Entry
from mogp.datasets.formats.archives import iter_members
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.images import Filter, decode_png, resize
from mogp.datasets.making import made
from mogp.datasets.prepared import prepared
from mogp.datasets.store import path_of

Part = Literal["background", "evaluation"]

FILES: dict[Part, tuple[str, str]] = {
    "background": ("omniglot/images_background.zip", "omniglot/official/images_background.zip"),
    "evaluation": ("omniglot/images_evaluation.zip", "omniglot/official/images_evaluation.zip"),
}
DRAWINGS = 20
SIDE = 105

CHARACTERS: dict[Part, dict[str, int]] = {
    "background": {
        "Alphabet of the Magi": 20,
        "Anglo-Saxon Futhorc": 29,
        "Arcadian": 26,
        "Armenian": 41,
        "Asomtavruli (Georgian)": 40,
        "Balinese": 24,
        "Bengali": 46,
        "Blackfoot": 14,
        "Braille": 26,
        "Burmese (Myanmar)": 34,
        "Cyrillic": 33,
        "Early Aramaic": 22,
        "Futurama": 26,
        "Grantha": 43,
        "Greek": 24,
        "Gujarati": 48,
        "Hebrew": 22,
        "Inuktitut": 16,
        "Japanese (hiragana)": 52,
        "Japanese (katakana)": 47,
        "Korean": 40,
        "Latin": 26,
        "Malay (Jawi-Arabic)": 40,
        "Mkhedruli (Georgian)": 41,
        "N'Ko": 33,
        "Ojibwe": 14,
        "Sanskrit": 42,
        "Syriac (Estrangelo)": 23,
        "Tagalog": 17,
        "Tifinagh": 55,
    },
    "evaluation": {
        "Angelic": 20,
        "Atemayar Qelisayer": 26,
        "Atlantean": 26,
        "Aurek-Besh": 26,
        "Avesta": 26,
        "Ge'ez": 26,
        "Glagolitic": 45,
        "Gurmukhi": 45,
        "Kannada": 41,
        "Keble": 26,
        "Malayalam": 47,
        "Manipuri": 40,
        "Mongolian": 30,
        "Old Church Slavonic": 45,
        "Oriya": 46,
        "Sylheti": 28,
        "Syriac (Serto)": 23,
        "Tengwar": 25,
        "Tibetan": 42,
        "ULOG": 26,
    },
}
"""The alphabets of table 4.1 of Ma's thesis, in the order of the folders, and how many characters
each has.
"""

FOLDERS = {
    "Blackfoot": "Blackfoot_(Canadian_Aboriginal_Syllabics)",
    "Ge'ez": "Ge_ez",
    "Inuktitut": "Inuktitut_(Canadian_Aboriginal_Syllabics)",
    "Malay (Jawi-Arabic)": "Malay_(Jawi_-_Arabic)",
    "N'Ko": "N_Ko",
    "Ojibwe": "Ojibwe_(Canadian_Aboriginal_Syllabics)",
    "Old Church Slavonic": "Old_Church_Slavonic_(Cyrillic)",
}
"""Folders whose names differ from the table's by more than underscores."""


def omniglot(
    *, alphabets: str | Sequence[str] = "all", size: int = 20, filter: Filter = "nearest"
) -> Dataset:
    """1623 handwritten characters of 50 alphabets, 20 drawings of each, as 20 x 20 images (Lake et
    al., 2015).

    An output is an alphabet, a class a character. `alphabets` is "all" (50 in the order of their
    folders' names), "background" (30 of them, 964 characters), "evaluation" (20, 659 characters) or
    names of Ma's table 4.1 in any order (`("Ojibwe", "Blackfoot")`). Characters and drawings are in
    the order of their files.

    The binary images of 105 x 105 pixels are resized by `filter`. "nearest" is what Pillow does by
    default with binary images, so what the authors' code did: pixels stay 0 (ink) or 1 (paper).
    Other filters give values in between. Pixels are float64, the type that models compute in; all
    32460 images take 104 MB.
    """
    names = _chosen(alphabets, size, filter)
    images: dict[str, Array] = {}
    for part, counts in CHARACTERS.items():
        if not counts.keys().isdisjoint(names):
            images |= _images(part, size, filter)
    return _dataset("real", {name: images[name] for name in names}, size)


def omniglot_standin(
    *, alphabets: str | Sequence[str] = "all", size: int = 20, filter: Filter = "nearest"
) -> Dataset:
    """Synthetic characters, as many: a few curved strokes a character, redrawn with a wobble twenty
    times.

    They are drawn at the asked size: `filter` is not needed.
    """
    counts = {name: count for part in CHARACTERS.values() for name, count in part.items()}
    order = {name: a for a, name in enumerate(counts)}
    names = _chosen(alphabets, size, filter)
    return _dataset(
        "stand-in", {name: _draw(order[name], counts[name], size) for name in names}, size
    )


def _chosen(alphabets: str | Sequence[str], size: int, filter: str) -> tuple[str, ...]:
    """The alphabets asked for, once all options are found to be sound."""
    if size < 1:
        raise ValueError(f"size={size}; images must have at least one pixel a side.")
    if filter not in get_args(Filter):
        raise ValueError(
            f"filter={filter!r}; choose one of {', '.join(map(repr, get_args(Filter)))}."
        )
    every = {name for part in CHARACTERS.values() for name in part}
    if alphabets == "all":
        return tuple(sorted(every, key=folder))
    for part, counts in CHARACTERS.items():
        if alphabets == part:
            return tuple(counts)
    names = (alphabets,) if isinstance(alphabets, str) else tuple(alphabets)
    unknown = [name for name in names if name not in every]
    if unknown or not names or len(set(names)) != len(names):
        raise ValueError(
            f"alphabets={alphabets!r}; give 'all', 'background', 'evaluation' or different names of"
            f" {', '.join(sorted(every, key=folder))}."
        )
    return names


def folder(alphabet: str) -> str:
    """The name of an alphabet's folder in the published archives."""
    return FOLDERS.get(alphabet, alphabet.replace(" ", "_"))


def _images(part: Part, size: int, filter: Filter) -> dict[str, Array]:
    """Images `[20 C, size, size]` of each alphabet, read once and kept resized."""

    def make() -> dict[str, Array]:
        return {
            name: resize(stack, (size, size), filter)
            for name, stack in _decode(path_of(*FILES[part]), part)
        }

    return prepared(f"omniglot-{part}-{size}x{size}-{filter}-v1", FILES[part], make)


def _decode(path: Path, part: Part) -> Iterator[tuple[str, Array]]:
    """Each alphabet with its images `[20 C, 105, 105]` in the order of their files, as many as the
    table says.
    """
    missing = {folder(name): name for name in CHARACTERS[part]}
    members = iter_members(path, lambda member: member.endswith(".png"))
    for where, group in groupby(members, lambda member: member[0].rsplit("/", 2)[0]):
        name = missing.pop(where.rpartition("/")[2], None)
        if name is None:
            raise DataFormatError(
                path, f"{where!r} is no alphabet of the {part} set, or is there twice"
            )
        images, characters = [], []
        for member, content in group:
            images.append(decode_png(content, f"{path}, member {member}", (SIDE, SIDE)))
            characters.append(member.rsplit("/", 2)[-2])
        counts = np.unique(characters, return_counts=True)[1]
        if len(counts) != CHARACTERS[part][name] or (counts != DRAWINGS).any():
            expected = f"{DRAWINGS} drawings of each of {CHARACTERS[part][name]} characters"
            raise DataFormatError(
                path,
                f"{name}: {len(images)} drawings of {len(counts)} characters; expected {expected}",
            )
        yield name, np.stack(images)
    if missing:
        raise DataFormatError(path, f"has no alphabet {next(iter(missing.values()))!r}")


def _draw(seed: int, characters: int, size: int) -> Array:
    """Images `[20 C, size, size]`, ink 0 on paper 1: three arcs of a slow curve a character, each
    point a pixel.
    """
    rng = np.random.default_rng([seed, characters])
    weights = rng.standard_normal((characters, 1, 2, 3, 3)) / np.arange(1, 4)
    weights = weights + 0.14 * rng.standard_normal((characters, DRAWINGS, 2, 3, 3))
    t = np.linspace(0.0, 1.0, 3 * size)
    basis = np.stack([np.cos(np.pi * k * t) for k in range(3)])
    curve = np.tensordot(weights, basis, axes=1).reshape(characters * DRAWINGS, 2, -1)
    centre = rng.normal(0.0, 0.16, (characters * DRAWINGS, 2, 1))
    low, high = curve.min(axis=2, keepdims=True), curve.max(axis=2, keepdims=True)
    pixels = np.clip(
        size * (0.5 + 0.6 * ((curve - low) / (high - low) - 0.5) + 0.5 * centre), 0, size - 1
    ).astype(int)
    images = np.ones((characters * DRAWINGS, size, size), np.uint8)
    images[np.arange(len(images))[:, None], pixels[:, 0], pixels[:, 1]] = 0
    return images


def _dataset(source: Source, images: dict[str, Array], size: int) -> Dataset:
    counts = [len(stack) // DRAWINGS for stack in images.values()]
    return made(
        "omniglot",
        source,
        f"{sum(counts)} handwritten characters of {len(images)} alphabets, {DRAWINGS} drawings of"
        " each",
        X=np.concatenate([stack.reshape(len(stack), -1) for stack in images.values()]).astype(
            float
        ),
        Y=np.concatenate([np.repeat(np.arange(count, dtype=float), DRAWINGS) for count in counts])[
            :, None
        ],
        inputs=("pixel",),
        outputs=tuple(images),
        likelihoods=("Softmax",),
        output=np.repeat(np.arange(len(images)), DRAWINGS * np.array(counts)),
        classes={
            name: tuple(f"character{c + 1:02d}" for c in range(count))
            for name, count in zip(images, counts, strict=True)
        },
        image_shape=(size, size),
    )


def _shape(part: Part) -> Callable[[Path], str]:
    def shape(path: Path) -> str:
        drawn = [len(images) for _, images in _decode(path, part)]
        return (
            f"{sum(drawn)} PNG {SIDE} x {SIDE}, {len(drawn)} alphabets, {sum(drawn) // DRAWINGS}"
            " characters"
        )

    return shape


ENTRIES = {"omniglot": Entry(omniglot, standin=omniglot_standin)}
SHAPES = {path: _shape(part) for part, paths in FILES.items() for path in paths}
