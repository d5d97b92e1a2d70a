"""Data that people have annotated: genres of songs by paid workers, voices by physicians (Giraldo,
§9.3).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np

from mogp.datasets.annotate import annotate_classes
from mogp.datasets.annotators import classification
from mogp.datasets.columns import numbers
from mogp.datasets.dataset import Array, Dataset, Source
from mogp.datasets.entry import Entry, unavailable
from mogp.datasets.formats.arff import read_arff
from mogp.datasets.formats.delimited import read_table
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.making import made, size
from mogp.datasets.scaling import standardised
from mogp.datasets.store import path_of
from mogp.datasets.tables import Column, class_table

GOLD, TEST, WORKERS = (
    "music/music_genre_gold.csv",
    "music/music_genre_test.csv",
    "music/music_genre_mturk.csv",
)
GENRES = (
    "blues",
    "classical",
    "country",
    "disco",
    "hiphop",
    "jazz",
    "metal",
    "pop",
    "reggae",
    "rock",
)
FEATURES = tuple(f"feature{p}" for p in range(124))
SHARE = 0.2


def music(
    *,
    task: Literal["classification", "regression"] = "classification",
    workers: Literal["frequent", "all"] = "frequent",
) -> Dataset:
    """Genres of 1000 songs from 124 features of their sound; 700 are labelled by paid workers
    (Rodrigues et al., 2013).

    The published split trains on those 700 and holds 300 out. `per_row["annotations"]` [1000, R]
    holds the workers' genres, NaN where they gave none. `workers`: the R = 7 who labelled at least
    20 % of the songs, as in the document, or all 44. The file has 2945 labels; the document's 2946
    counts its header. `task` "regression" takes the number of the genre for a real value, the
    document's least squares. Features have zero mean and unit deviation.
    """
    return _music(
        "real", *read_music(path_of(GOLD), path_of(TEST), path_of(WORKERS)), task, workers
    )


def music_standin(
    *,
    task: Literal["classification", "regression"] = "classification",
    workers: Literal["frequent", "all"] = "frequent",
) -> Dataset:
    """Synthetic songs, with 44 workers of whom seven are busy: four good, three who guess."""
    raw = class_table(
        [100] * 10, [Column(0.0, 1.0, 6)] * 124, traits=9, separation=1.1, blur=0.6, seed=1000
    )
    rng = np.random.default_rng(44)
    busy = (368, 338, 308, 303, 296, 279, 150)
    skill = (0.18, 0.07, 0.75, 0.8, 0.11, 0.8, 0.77)
    annotations = np.full((1000, 44), np.nan)
    for worker in range(44):
        songs = rng.permutation(700)[: busy[worker] if worker < 7 else rng.integers(2, 47)]
        right = rng.uniform(size=len(songs)) < (skill[worker] if worker < 7 else 0.6)
        wrong = (raw[songs, -1] + rng.integers(1, 10, len(songs))) % 10
        annotations[songs, worker] = np.where(right, raw[songs, -1], wrong)
    return _music("stand-in", raw, annotations, task, workers)


def read_music(gold: Path, test: Path, workers: Path) -> tuple[Array, Array]:
    """Features and genre [1000, 125], the 700 labelled songs first, and the workers' genres [1000,
    44].
    """
    songs = [read_table(path, header=("id", *FEATURES, "class")) for path in (gold, test)]
    answers = read_table(workers, header=("id", "annotator", *FEATURES, "class"))
    for path, table in zip((gold, test, workers), (*songs, answers), strict=True):
        unknown = sorted(set(table["class"]) - set(GENRES))
        if unknown:
            raise DataFormatError(
                path, f"genre {unknown[0]!r}; expected one of {', '.join(GENRES)}"
            )
    number = {genre: float(k) for k, genre in enumerate(GENRES)}
    raw = np.vstack(
        [
            np.column_stack([numbers(table[list(FEATURES)], path), table["class"].map(number)])
            for path, table in zip((gold, test), songs, strict=True)
        ]
    )
    row = {song: n for n, song in enumerate(songs[0]["id"])}
    if not set(answers["id"]) <= set(row):
        raise DataFormatError(workers, f"labels a song that {gold.name} does not have")
    names = sorted(set(answers["annotator"]))
    annotations = np.full((len(raw), len(names)), np.nan)
    column = answers["annotator"].map({name: k for k, name in enumerate(names)})
    annotations[answers["id"].map(row), column] = answers["class"].map(number)
    return raw, annotations


def _music(source: Source, raw: Array, annotations: Array, task: str, workers: str) -> Dataset:
    if task not in ("classification", "regression") or workers not in ("frequent", "all"):
        raise ValueError(
            f'task={task!r}, workers={workers!r}; expected task "classification" or "regression",'
            ' and workers "frequent" or "all".'
        )
    held_out = np.arange(len(raw)) >= 700
    if workers == "frequent":
        annotations = annotations[:, np.isfinite(annotations).sum(axis=0) >= SHARE * 700]
    classes = {"genre": GENRES} if task == "classification" else {}
    return made(
        "music",
        source,
        f"genres of {len(raw)} songs from 124 features, {annotations.shape[1]} annotators of 700",
        X=standardised(raw[:, :-1])[0],
        Y=raw[:, -1:],
        inputs=("feature",),
        outputs=("genre",),
        likelihoods=("Softmax" if task == "classification" else "Gaussian",),
        held_out=held_out,
        classes=classes,
        per_row={"annotations": annotations},
    )


PRIVATE_VOICE = (
    "the recordings (MEEI, Kay Elemetrics) are sold, and the physicians' labels were never"
    " published; the nearest real data are 'parkinsons'"
)
SCALES = {"G": "grade", "R": "roughness", "B": "breathiness"}


def voice(*, scale: Literal["G", "R", "B"] = "G") -> Dataset:
    """Voices judged by physicians, 218 x 13 coefficients of their spectrum (MEEI; sold, and the
    labels are private).

    `scale`: the grade, roughness or breathiness of the GRBAS scheme, normal or not.
    """
    raise unavailable("voice", PRIVATE_VOICE)


def voice_standin(*, scale: Literal["G", "R", "B"] = "G") -> Dataset:
    """Synthetic voices with five simulated annotators, in `per_row["annotations"]`."""
    if scale not in SCALES:
        raise ValueError(f"scale={scale!r}; expected one of {', '.join(SCALES)}.")
    columns, seed = [Column(-20.0, 20.0, 4)] * 13, 218 + list(SCALES).index(scale)
    raw = class_table((80, 138), columns, traits=4, separation=0.9, seed=seed)
    summary, classes = "voices judged by physicians", ("normal", "affected")
    features = tuple(f"mfcc{p}" for p in range(1, 14))
    dataset = classification(
        "voice", "stand-in", summary, raw, features, SCALES[scale], classes, None, True
    )
    return annotate_classes(dataset, embedding="pca")


ENTRIES = {
    "music": Entry(music, standin=music_standin),
    "voice": Entry(voice, standin=voice_standin, private=PRIVATE_VOICE),
}

SHAPES: dict[str, Callable[[Path], str]] = {
    "music/*.arff": lambda path: size(np.asarray(read_arff(path).values)),
    "music/*.csv": lambda path: size(read_table(path).to_numpy()),
}
