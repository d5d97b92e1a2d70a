"""Recordings of the CMU motion database with the channels of AMC, whatever the format.

The documents read AMC files. The public conversions to BVH hold the same recordings with other
joints and axes. What the two formats of recordings 07_02 and 08_02 have in common tells how they
correspond (`COUNTERPARTS`):

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
from pathlib import Path

import numpy as np

from mogp.datasets import store
from mogp.datasets.formats.amc import read_amc
from mogp.datasets.formats.arrays import read_npz
from mogp.datasets.formats.bvh import read_bvh
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.motion import Motion
from mogp.datasets.registry import registry

NPZ = "mocap_npz/mocap09.npz"
FRAME_TIME = 1.0 / 120.0


def _counterparts() -> dict[str, str]:
    root = [f"Hips.{axis}{kind}" for kind in ("position", "rotation") for axis in "XYZ"]
    trunk = {
        "lowerback": "LowerBack",
        "upperback": "Spine",
        "thorax": "Spine1",
        "lowerneck": "Neck",
        "upperneck": "Neck1",
        "head": "Head",
    }
    arm = {
        "clavicle": ("Shoulder", "YZ"),
        "humerus": ("Arm", "YXZ"),
        "radius": ("ForeArm", "Y"),
        "wrist": ("Hand", "X"),
        "hand": ("FingerBase", "ZY"),
        "fingers": ("HandIndex1", "X"),
        "thumb": ("Thumb", "ZY"),
    }
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


def recordings(subject: int, trials: Sequence[int], format: str) -> tuple[list[Motion], str]:
    """The recordings and the format they were read from."""
    check_format(format, subject)
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


def check_format(format: str, subject: int) -> None:
    """Refuse a format that the recordings of the subject do not have."""
    formats = ("auto", "amc", "bvh", "npz") if subject == 9 else ("auto", "amc", "bvh")
    if format not in formats:
        raise ValueError(f"format={format!r}; choose one of {', '.join(map(repr, formats))}.")


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


SHAPES: dict[str, Callable[[Path], str]] = {
    "mocap_bvh/*.bvh": _motion_shape(read_bvh),
    "mocap_amc/*.amc": _motion_shape(read_amc),
    NPZ: _npz_shape,
}
