"""Human motion of the CMU database: trials as replicas, or one trial with many channels.

`mocap_recordings` says how the channels of the documents' AMC files are read from other formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mogp.datasets.dataset import Array, Dataset, Source
from mogp.datasets.entry import Entry
from mogp.datasets.formats.motion import Motion
from mogp.datasets.making import made
from mogp.datasets.mocap_recordings import COUNTERPARTS, FRAME_TIME, SHAPES, recordings
from mogp.datasets.mocap_standins import FRAMES, synthetic
from mogp.datasets.scaling import standardised

__all__ = [
    "ENTRIES",
    "SHAPES",
    "STUDIES",
    "Study",
    "mocap_7",
    "mocap_7_standin",
    "mocap_9",
    "mocap_9_standin",
    "signal_to_noise",
]

Format = Literal["auto", "amc", "bvh"]
SMOOTHING = 5
"""Frames of the moving average that tells signal from noise."""


def mocap_7(
    *, motions: Sequence[int] = (2,), standardise: bool = True, format: Format = "auto"
) -> Dataset:
    """Forty joint angles of a walk, 329 frames of CMU subject 7, motion 2 (Giraldo's MOCAP7).

    The AMC channels 6 to 45, counted from 0: the spine, the head and both arms. The input is the
    time in seconds, at 120 frames a second; each channel has zero mean and unit variance. The
    clavicles and fingers do not move: those six channels are zero. The author's code reads motion
    2, which has 329 frames; the thesis prints 744, which is what motions 2 and 3 have together.
    `motions`, of 1 to 12, are put one after the other.

    `format` is "amc", "bvh", or "auto": AMC where it is on this machine, else BVH (see
    `mocap_recordings`). `extras`: the `mean` and `sd` that undo the scaling.
    """
    return _channels("mocap-7", "real", *recordings(7, _walks(motions), format), 40, standardise)


def mocap_7_standin(
    *, motions: Sequence[int] = (2,), standardise: bool = True, format: Format = "auto"
) -> Dataset:
    """A synthetic walk of the same length and channels."""
    return _channels("mocap-7", "stand-in", *synthetic(7, _walks(motions), format), 40, standardise)


def _walks(motions: Sequence[int]) -> Sequence[int]:
    if not motions or not set(motions) <= set(FRAMES[7]):
        raise ValueError(f"motions={motions!r}; there are 1 to 12.")
    return motions


def mocap_9(
    *,
    layout: Literal["replicas", "channels"] = "replicas",
    points: int | None = 100,
    standardise: bool = True,
    repetition: int = 0,
    seed: int = 1,
    likelihood: Literal["HeteroscedasticGaussian", "Gamma"] = "HeteroscedasticGaussian",
    format: Format | Literal["npz"] = "auto",
) -> Dataset:
    """Running: sixteen angles, six trials of CMU subject 9, 100 frames each (HMOGP-LV §5.3.2).

    The angles are of head and legs.

    `layout="replicas"` is as in "mocap-8". `layout="channels"` is Giraldo's MOCAP9: the AMC
    channels 6 to 25, counted from 0, of motion 2 against the time in seconds, as in "mocap-7"; then
    `points`, `repetition` and `seed` mean nothing, and `likelihood="Gamma"` gives the positive
    targets clip(2 y / max y, 1e-5, 2) of the author's code. (Thesis: 744 points; the recording has
    130.)

    `format="npz"` reads the AMC angles of the first 120 frames of each trial.
    """
    if layout == "channels":
        return _channels(
            "mocap-9", "real", *recordings(9, (2,), format), 20, standardise, likelihood
        )
    _check_layout(layout)
    return _replicas(
        "mocap-9", "real", *_recordings_of("mocap-9", format), points, standardise, repetition, seed
    )


def mocap_9_standin(
    *,
    layout: Literal["replicas", "channels"] = "replicas",
    points: int | None = 100,
    standardise: bool = True,
    repetition: int = 0,
    seed: int = 1,
    likelihood: Literal["HeteroscedasticGaussian", "Gamma"] = "HeteroscedasticGaussian",
    format: Format | Literal["npz"] = "auto",
) -> Dataset:
    """Synthetic runs of the same lengths and channels."""
    if layout == "channels":
        return _channels(
            "mocap-9", "stand-in", *synthetic(9, (2,), format), 20, standardise, likelihood
        )
    _check_layout(layout)
    motions, read_from = _synthetic_of("mocap-9", format)
    return _replicas(
        "mocap-9", "stand-in", motions, read_from, points, standardise, repetition, seed
    )


def _entry(name: str, about: str) -> Entry:
    """The loader and the stand-in of a study of trials with 200 frames each."""

    def load(
        *,
        points: int | None = 200,
        standardise: bool = True,
        repetition: int = 0,
        seed: int = 1,
        format: Format = "auto",
    ) -> Dataset:
        return _replicas(
            name, "real", *_recordings_of(name, format), points, standardise, repetition, seed
        )

    def standin(
        *,
        points: int | None = 200,
        standardise: bool = True,
        repetition: int = 0,
        seed: int = 1,
        format: Format = "auto",
    ) -> Dataset:
        return _replicas(
            name, "stand-in", *_synthetic_of(name, format), points, standardise, repetition, seed
        )

    load.__doc__ = f"""{about} with 200 frames each (HMOGP-LV §5.3.2).

    A replica is a trial, an output a degree of freedom of a bone, the input the frame. Frames and,
    in each trial, each channel have zero mean and unit variance; then `points` frames of each trial
    are taken at random, without replacement, in the order drawn (None takes all). Held out is
    replica (d + `repetition`) mod R of output d.

    Of the bones' channels those are kept that have the largest signal-to-noise ratios, as many as
    the documents have. The documents ask for more than 20 dB without defining it; here the ratio is
    the variance of a moving average over five frames to that of the rest, in the trial where it is
    smallest; `extras["snr"]` has it in dB.

    `format` is "amc", "bvh", or "auto": AMC where all trials are on this machine, else BVH (see
    `mocap_recordings`).
    """
    standin.__doc__ = "Synthetic recordings of the same lengths and channels."
    return Entry(load, standin=standin)


@dataclass(frozen=True)
class Study:
    """What HMOGP-LV takes of a subject: trials, bones on both sides, the number of channels D."""

    subject: int
    motion: str
    trials: tuple[int, ...]
    bones: tuple[str, ...]
    D: int

    @property
    def candidates(self) -> list[str]:
        """The channels of the bones, in the order of AMC."""
        bones = {*self.bones, *(f"{side}{bone}" for side in "rl" for bone in self.bones)}
        return [channel for channel in COUNTERPARTS if channel.partition(".")[0] in bones]


ARM = ("humerus", "radius", "wrist")
LEG = ("femur", "tibia", "foot")
NECK = ("lowerneck", "upperneck", "head")
STUDIES = {
    "mocap-8": Study(8, "walking", (2, 3, 8, 9), (*ARM, "femur", "tibia"), 16),
    "mocap-9": Study(9, "running", (1, 2, 3, 5, 6, 11), (*NECK, *LEG), 16),
    "mocap-64": Study(64, "golf swing", (3, 4, 5, 7, 8, 9), ARM, 9),
    "mocap-118": Study(118, "jumping", (3, 4, 11, 17), LEG, 12),
}


def _recordings_of(name: str, format: str) -> tuple[list[Motion], str]:
    return recordings(STUDIES[name].subject, STUDIES[name].trials, format)


def _check_layout(layout: str) -> None:
    if layout != "replicas":
        raise ValueError(f"layout={layout!r}; choose 'replicas' or 'channels'.")


def signal_to_noise(frames: Array) -> Array:
    """Signal-to-noise ratios [C] of `frames` [T, C] in dB.

    The signal is a moving average, the noise what it leaves; the ratio is that of their variances.
    """
    half = SMOOTHING // 2
    sums = np.cumsum(np.pad(frames, ((half + 1, half), (0, 0)), mode="edge"), axis=0)
    smooth = (sums[SMOOTHING:] - sums[:-SMOOTHING]) / SMOOTHING
    signal, noise = smooth.var(axis=0), (frames - smooth).var(axis=0)
    ratio = np.divide(signal, noise, out=np.zeros_like(signal), where=noise > 1e-20)
    return np.asarray(10.0 * np.log10(np.maximum(ratio, 1e-9)))


def _replicas(
    name: str,
    source: Source,
    motions: Sequence[Motion],
    format: str,
    points: int | None,
    standardise: bool,
    repetition: int,
    seed: int,
) -> Dataset:
    study = STUDIES[name]
    if repetition < 0:
        raise ValueError(f"repetition={repetition}; repetitions count from 0.")
    shortest = min(len(motion.frames) for motion in motions)
    if points is not None and not 1 <= points <= shortest:
        raise ValueError(f"points={points}; the shortest trial has {shortest} frames.")
    angles = [columns_of(motion, study.candidates) for motion in motions]
    worst = np.min([signal_to_noise(trial) for trial in angles], axis=0)
    kept = np.sort(np.argsort(-worst, kind="stable")[: study.D])
    X, Y, replica = [], [], []
    for r, trial in enumerate(angles):
        table = np.column_stack([np.arange(len(trial)), trial[:, kept]])
        if standardise:
            table = _scaled(table)[0]
        if points is not None:
            table = table[np.random.RandomState(seed).choice(len(table), points, replace=False)]
        X.append(table[:, :1])
        Y.append(table[:, 1:])
        replica.append(np.full(len(table), r))
    replicas = np.concatenate(replica)
    missing = (np.arange(study.D) + repetition) % len(motions)
    return made(
        name,
        source,
        f"{study.motion}: {study.D} joint angles of CMU subject {study.subject} in {len(motions)}"
        f" trials ({format})",
        X=np.concatenate(X),
        Y=np.concatenate(Y),
        inputs=("frame",),
        outputs=tuple(np.array(study.candidates)[kept].tolist()),
        likelihoods=("Gaussian",),
        replica=replicas,
        held_out=replicas[:, None] == missing,
        extras={"snr": worst[kept], "trial": np.array(study.trials)},
    )


def _channels(
    name: str,
    source: Source,
    motions: Sequence[Motion],
    format: str,
    D: int,
    standardise: bool,
    likelihood: str = "HeteroscedasticGaussian",
) -> Dataset:
    outputs = list(COUNTERPARTS)[6 : 6 + D]
    Y = np.concatenate([columns_of(motion, outputs) for motion in motions])
    mean, sd = np.zeros(D), np.ones(D)
    if likelihood == "Gamma":
        top = Y.max(axis=0)
        Y = np.clip(2.0 * Y / np.where(np.abs(top) > 1e-6, top, 1.0), 1e-5, 2.0)
    elif likelihood != "HeteroscedasticGaussian":
        raise ValueError(f"likelihood={likelihood!r}; choose 'HeteroscedasticGaussian' or 'Gamma'.")
    elif standardise:
        Y, mean, sd = _scaled(Y)
    return made(
        name,
        source,
        f"{D} joint angles of CMU subject {name.removeprefix('mocap-')} against time, {len(Y)}"
        f" frames ({format})",
        X=np.arange(len(Y))[:, None] * FRAME_TIME,
        Y=Y,
        inputs=("time (s)",),
        outputs=tuple(outputs),
        likelihoods=(likelihood,),
        extras={"mean": mean, "sd": sd},
    )


def columns_of(motion: Motion, channels: Sequence[str]) -> Array:
    return motion.frames[:, [motion.channels.index(channel) for channel in channels]]


def _scaled(table: Array) -> tuple[Array, Array, Array]:
    """`standardised`, where angles that vary by rounding alone count as still."""
    return standardised(np.where(table.std(axis=0) < 1e-6, table[0], table))


def _synthetic_of(name: str, format: str) -> tuple[list[Motion], str]:
    return synthetic(STUDIES[name].subject, STUDIES[name].trials, format)


ENTRIES = {
    "mocap-7": Entry(mocap_7, standin=mocap_7_standin),
    "mocap-8": _entry(
        "mocap-8", "Walking: sixteen angles of arms and legs, four trials of CMU subject 8"
    ),
    "mocap-9": Entry(mocap_9, standin=mocap_9_standin),
    "mocap-64": _entry(
        "mocap-64", "Golf swings: nine angles of both arms, six trials of CMU subject 64"
    ),
    "mocap-118": _entry(
        "mocap-118", "Jumping: twelve angles of both legs, four trials of CMU subject 118"
    ),
}
