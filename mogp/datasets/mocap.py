"""Human motion of the CMU database: joint angles over time, trials as replicas or one trial with
many channels.

The documents read AMC files. The public conversions to BVH hold the same recordings with other
joints and axes, so here every recording is given the channels of AMC, whatever the format. What the
two formats of recordings 07_02 and 08_02 have in common tells how they correspond (`COUNTERPARTS`):

- BVH begins with a frame of rest that AMC has not; it is left out.
- Root, spine, neck and head are the same numbers. So is the wrist, but for the sign on the left.
- Bones with one degree of freedom turn about a tilted axis, which BVH spreads over three angles
  that move together; the one with the largest correlation is taken (0.9997 and more: tibia, radius,
  toes).
- Bones with more (humerus, femur, foot, hand, thumb) have their angles about other axes in BVH. The
  same number of BVH angles is taken, those that vary most, matched by correlation where that is
  clear.

Angles that jump by 360° are joined in both formats. `mocap_npz/mocap09.npz` holds AMC angles of
subject 9, centred, the first 120 frames of trials 1 to 9 and 11; it has no hands and toes, and
velocities for the root's position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from mogp.datasets import store
from mogp.datasets.dataset import Array, Dataset, Source
from mogp.datasets.draws import rounded
from mogp.datasets.entry import Entry
from mogp.datasets.formats.amc import read_amc
from mogp.datasets.formats.arrays import read_npz
from mogp.datasets.formats.bvh import read_bvh
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.motion import Motion
from mogp.datasets.making import made
from mogp.datasets.registry import registry
from mogp.datasets.scaling import standardised

Format = Literal["auto", "amc", "bvh"]
NPZ = "mocap_npz/mocap09.npz"

FRAME_TIME = 1.0 / 120.0
SMOOTHING = 5
"""Frames of the moving average that tells signal from noise."""


def mocap_7(
    *, motions: Sequence[int] = (2,), standardise: bool = True, format: Format = "auto"
) -> Dataset:
    """Forty joint angles of a walk against time, 329 frames: CMU subject 7, motion 2 (Giraldo's
    MOCAP7).

    The AMC channels 6 to 45, counted from 0: the spine, the head and both arms. The input is the
    time in seconds, at 120 frames a second; each channel has zero mean and unit variance. The
    clavicles and fingers do not move: those six channels are zero. The author's code reads motion
    2, which has 329 frames; the thesis prints 744, which is what motions 2 and 3 have together.
    `motions`, of 1 to 12, are put one after the other.

    `format` is "amc", "bvh", or "auto": AMC where it is on this machine, else BVH (see the module).
    `extras`: the `mean` and `sd` that undo the scaling.
    """
    return _channels("mocap-7", "real", *_recordings(7, _walks(motions), format), 40, standardise)


def mocap_7_standin(
    *, motions: Sequence[int] = (2,), standardise: bool = True, format: Format = "auto"
) -> Dataset:
    """A synthetic walk of the same length and channels."""
    return _channels(
        "mocap-7", "stand-in", *_synthetic(7, _walks(motions), format), 40, standardise
    )


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
    """Running: sixteen angles of head and legs, six trials of CMU subject 9 with 100 frames each
    (HMOGP-LV §5.3.2).

    `layout="replicas"` is as in "mocap-8". `layout="channels"` is Giraldo's MOCAP9: the AMC
    channels 6 to 25, counted from 0, of motion 2 against the time in seconds, as in "mocap-7"; then
    `points`, `repetition` and `seed` mean nothing, and `likelihood="Gamma"` gives the positive
    targets clip(2 y / max y, 1e-5, 2) of the author's code. (Thesis: 744 points; the recording has
    130.)

    `format="npz"` reads the AMC angles of the first 120 frames of each trial.
    """
    if layout == "channels":
        return _channels(
            "mocap-9", "real", *_recordings(9, (2,), format), 20, standardise, likelihood
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
            "mocap-9", "stand-in", *_synthetic(9, (2,), format), 20, standardise, likelihood
        )
    _check_layout(layout)
    return _replicas(
        "mocap-9",
        "stand-in",
        *_synthetic_of("mocap-9", format),
        points,
        standardise,
        repetition,
        seed,
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

    A replica is a trial, an output a degree of freedom of a bone, the input the frame. Frames and, in each trial, each
    channel have zero mean and unit variance; then `points` frames of each trial are taken at random, without
    replacement, in the order drawn (None takes all). Held out is replica (d + `repetition`) mod R of output d.

    Of the bones' channels those are kept that have the largest signal-to-noise ratios, as many as the documents have.
    The documents ask for more than 20 dB without defining it; here the ratio is the variance of a moving average over
    five frames to that of the rest, in the trial where it is smallest; `extras["snr"]` has it in dB.

    `format` is "amc", "bvh", or "auto": AMC where all trials are on this machine, else BVH (see the module).
    """
    standin.__doc__ = "Synthetic recordings of the same lengths and channels."
    return Entry(load, standin=standin)


# What the documents use


@dataclass(frozen=True)
class Study:
    """What HMOGP-LV takes of a subject: the trials, the bones on both sides of the body, the number
    of channels D.
    """

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


STUDIES = {
    "mocap-8": Study(
        8, "walking", (2, 3, 8, 9), ("humerus", "radius", "wrist", "femur", "tibia"), 16
    ),
    "mocap-9": Study(
        9,
        "running",
        (1, 2, 3, 5, 6, 11),
        ("lowerneck", "upperneck", "head", "femur", "tibia", "foot"),
        16,
    ),
    "mocap-64": Study(64, "golf swing", (3, 4, 5, 7, 8, 9), ("humerus", "radius", "wrist"), 9),
    "mocap-118": Study(118, "jumping", (3, 4, 11, 17), ("femur", "tibia", "foot"), 12),
}


def _counterparts() -> dict[str, str]:
    root = [f"Hips.{axis}{kind}" for kind in ("position", "rotation") for axis in "XYZ"]
    trunk = {"lowerback": "LowerBack", "upperback": "Spine", "thorax": "Spine1"}
    trunk |= {"lowerneck": "Neck", "upperneck": "Neck1", "head": "Head"}
    arm = {
        "clavicle": ("Shoulder", "YZ"),
        "humerus": ("Arm", "YXZ"),
        "radius": ("ForeArm", "Y"),
        "wrist": ("Hand", "X"),
    }
    arm |= {"hand": ("FingerBase", "ZY"), "fingers": ("HandIndex1", "X"), "thumb": ("Thumb", "ZY")}
    leg = {
        "femur": ("UpLeg", "XYZ"),
        "tibia": ("Leg", "X"),
        "foot": ("Foot", "XY"),
        "toes": ("ToeBase", "X"),
    }
    channels = {f"root.{i}": channel for i, channel in enumerate(root)}
    channels |= {
        f"{bone}.{i}": f"{joint}.{axis}rotation"
        for bone, joint in trunk.items()
        for i, axis in enumerate("XYZ")
    }
    for limb in (arm, leg):
        for side in ("Right", "Left"):
            for bone, (joint, axes) in limb.items():
                prefix = side[0] if joint == "Thumb" else side
                for i, axis in enumerate(axes):
                    channels[f"{side[0].lower()}{bone}.{i}"] = f"{prefix}{joint}.{axis}rotation"
    return channels


COUNTERPARTS = _counterparts()
"""The 62 channels of AMC in their order, and the channel of BVH that is, or stands for, each."""

NPZ_TRIALS = {"train": (5, 6, 7, 8, 9, 11), "validation": (1, 2), "test": (3, 4)}
NPZ_CHANNELS = tuple(
    channel
    for channel in COUNTERPARTS
    if channel.partition(".")[0][1:] not in {"hand", "fingers", "thumb", "toes"}
)


# Reading


def read_recording(path: Path) -> Motion:
    """A recording with the channels of AMC, from a file of either format."""
    if path.suffix == ".amc":
        motion = read_amc(path)
        wanted, frames = list(COUNTERPARTS), motion.frames
    else:
        motion = read_bvh(path)
        wanted, frames = list(COUNTERPARTS.values()), motion.frames[1:]
    column = {channel: c for c, channel in enumerate(motion.channels)}
    missing = [channel for channel in wanted if channel not in column]
    if missing:
        raise DataFormatError(
            path, f"has no channel {missing[0]!r}; expected the skeleton of the CMU database"
        )
    frames = frames[:, [column[channel] for channel in wanted]]
    return Motion(tuple(COUNTERPARTS), np.unwrap(frames, axis=0, period=360.0), motion.frame_time)


def _recordings(subject: int, trials: Sequence[int], format: str) -> tuple[list[Motion], str]:
    """The recordings and the format they were read from."""
    _check_format(format, subject)
    if format == "npz":
        arrays = read_npz(store.path_of(NPZ), tuple(NPZ_TRIALS))
        by_trial = {
            t: arrays[part][i]
            for part, numbers in NPZ_TRIALS.items()
            for i, t in enumerate(numbers)
        }
        return [Motion(NPZ_CHANNELS, by_trial[trial], FRAME_TIME) for trial in trials], "NPZ"
    names = [f"{subject:02d}_{trial:02d}" for trial in trials]
    amc = [f"mocap_amc/{name}.amc" for name in names]
    if format == "auto":
        here = all(path in registry() and store.find(registry()[path]) is not None for path in amc)
        format = "amc" if here else "bvh"
    paths = amc if format == "amc" else [f"mocap_bvh/{name}.bvh" for name in names]
    unknown = [path for path in paths if path not in registry()]
    if unknown:
        raise ValueError(f"{unknown[0]} is not in the registry of data files; use format='bvh'.")
    return [read_recording(store.path_of(path)) for path in paths], format.upper()


def _recordings_of(name: str, format: str) -> tuple[list[Motion], str]:
    return _recordings(STUDIES[name].subject, STUDIES[name].trials, format)


def _check_format(format: str, subject: int) -> None:
    formats = ("auto", "amc", "bvh", "npz") if subject == 9 else ("auto", "amc", "bvh")
    if format not in formats:
        raise ValueError(f"format={format!r}; choose one of {', '.join(map(repr, formats))}.")


def _check_layout(layout: str) -> None:
    if layout != "replicas":
        raise ValueError(f"layout={layout!r}; choose 'replicas' or 'channels'.")


# Making a data set


def signal_to_noise(frames: Array) -> Array:
    """[C] ratio in dB of the variance of a moving average of `frames` [T, C] to the variance of
    what it leaves.
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
    angles = [_columns(motion, study.candidates) for motion in motions]
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
    Y = np.concatenate([_columns(motion, outputs) for motion in motions])
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


def _columns(motion: Motion, channels: Sequence[str]) -> Array:
    return motion.frames[:, [motion.channels.index(channel) for channel in channels]]


def _scaled(table: Array) -> tuple[Array, Array, Array]:
    """`standardised`, where angles that vary by rounding alone count as still."""
    return standardised(np.where(table.std(axis=0) < 1e-6, table[0], table))


# Stand-ins

FRAMES = {
    7: dict(enumerate((316, 329, 415, 449, 517, 417, 379, 362, 306, 301, 315, 263), start=1)),
    8: {2: 309, 3: 353, 8: 283, 9: 293},
    9: {1: 148, 2: 130, 3: 128, 5: 143, 6: 141, 11: 165},
    64: {3: 444, 4: 412, 5: 387, 7: 376, 8: 364, 9: 452},
    118: {3: 497, 4: 645, 11: 691, 17: 646},
}
MANNER = {7: (2.2, 0.2), 8: (2.2, 0.2), 9: (1.6, 0.33), 64: (0.8, 0.14), 118: (0.9, 0.36)}
"""Periods of the motion in a trial, and how much trials differ."""
NOISY = {
    8: ("lhumerus.2", "rfemur.2"),
    9: ("lowerneck.0", "lowerneck.2", "upperneck.0", "head.0", "rfoot.1"),
    64: ("lwrist.0",),
}
"""Channels that the rule on noise leaves out of the recordings in BVH."""


def _synthetic(subject: int, trials: Sequence[int], format: str) -> tuple[list[Motion], str]:
    """Mixtures of five periodic motions, which all trials share up to their pace, phase and a
    little of their own.
    """
    _check_format(format, subject)
    rng = np.random.default_rng(subject)
    C, L, harmonics = len(COUNTERPARTS), 5, np.arange(1, 4)
    periods, spread = MANNER[subject]
    mixing = rng.uniform(1.0, 20.0, (C, 1)) * rng.standard_normal((C, L))
    weights = rng.standard_normal((2, L, 3)) / harmonics
    still = [
        c
        for c, name in enumerate(COUNTERPARTS)
        if name.partition(".")[0][1:] in {"clavicle", "fingers"}
    ]
    noise = np.full(C, 0.015)
    noise[[list(COUNTERPARTS).index(channel) for channel in NOISY.get(subject, ())]] = 0.5
    noise *= np.sqrt((mixing**2).sum(axis=1))
    motions = []
    for trial in trials:
        T = 120 if format == "npz" else FRAMES[subject][trial]
        pace, phase = periods * rng.uniform(0.94, 1.06), spread * rng.standard_normal()
        angle = (2.0 * np.pi * pace * np.linspace(0.0, 1.0, T) + phase)[:, None] * harmonics
        own = weights + spread * rng.standard_normal(weights.shape) / harmonics
        shared = np.cos(angle) @ own[0].T + np.sin(angle) @ own[1].T
        frames = rounded(shared @ mixing.T + noise * rng.standard_normal((T, C)))
        frames[:, still] = 0.0
        motions.append(Motion(tuple(COUNTERPARTS), frames, FRAME_TIME))
    return motions, "synthetic"


def _synthetic_of(name: str, format: str) -> tuple[list[Motion], str]:
    return _synthetic(STUDIES[name].subject, STUDIES[name].trials, format)


def _motion_shape(read: Callable[[Path], Motion]) -> Callable[[Path], str]:
    def shape(path: Path) -> str:
        motion = read(path)
        return f"{len(motion.frames)} frames x {len(motion.channels)} channels"

    return shape


def _npz_shape(path: Path) -> str:
    arrays = read_npz(path, tuple(NPZ_TRIALS))
    return ", ".join(
        f"{part} {' x '.join(map(str, array.shape))}" for part, array in arrays.items()
    )


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
SHAPES: dict[str, Callable[[Path], str]] = {
    "mocap_bvh/*.bvh": _motion_shape(read_bvh),
    "mocap_amc/*.amc": _motion_shape(read_amc),
    NPZ: _npz_shape,
}
