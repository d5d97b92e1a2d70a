"""Biovision hierarchy files: a skeleton, then a line of joint angles a frame."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mogp.datasets.formats.delimited import parse_numbers
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.motion import Motion
from mogp.datasets.formats.text import floats, lines_of, naturals, read_text, shown

CHANNELS = frozenset(f"{axis}{kind}" for axis in "XYZ" for kind in ("position", "rotation"))


def read_bvh(path: Path | str) -> Motion:
    """The `[T, C]` frames of a BVH file; channels in the order of the file, such as
    "LeftUpLeg.Zrotation".
    """
    lines = lines_of(read_text(path))
    filled = ((number, line.split()) for number, line in enumerate(lines, 1) if line.strip())
    channels = _channels(filled, path)
    count = _after(filled, ["Frames:"], path)
    frame_time = _after(filled, ["Frame", "Time:"], path)
    frame_count, seconds = naturals([count[1]]), floats([frame_time[1]])
    if frame_count is None:
        raise DataFormatError(path, f"{shown(count[1])} frames, expected a number", count[0])
    if seconds is None or seconds[0] <= 0.0:
        raise DataFormatError(
            path, f"frame time {shown(frame_time[1])}, expected seconds > 0", frame_time[0]
        )
    start = frame_time[0]
    rows = "".join(lines[start:]).encode()
    frames = parse_numbers(rows, path, delimiter=None, columns=len(channels), line=start + 1)
    if len(frames) != frame_count[0]:
        raise DataFormatError(
            path, f"{len(frames)} frames follow, {frame_count[0]} were announced", count[0]
        )
    return Motion(channels, frames, float(seconds[0]))


def _channels(lines: Iterator[tuple[int, list[str]]], path: Path | str) -> tuple[str, ...]:
    """Walks the hierarchy up to the line MOTION."""
    _after(lines, ["HIERARCHY"], path, values=0)
    joints: list[str] = []  # from the root to where we are; "" is an end site
    opening: str | None = None  # a joint named, its brace to come
    channels: dict[str, None] = {}
    for number, words in lines:
        match words:
            case ["ROOT" | "JOINT" as kind, *name] if (
                opening is None and name and (kind == "ROOT") != bool(joints)
            ):
                opening = " ".join(name)
            case ["End", "Site"] if opening is None and joints:
                opening = ""
            case ["{"] if opening is not None:
                joints.append(opening)
                opening = None
            case ["}"] if opening is None and joints:
                joints.pop()
            case ["OFFSET", *offset] if (
                opening is None and joints and len(offset) == 3 and floats(offset) is not None
            ):
                pass
            case ["CHANNELS", count, *kinds] if opening is None and joints and joints[-1]:
                if count != str(len(kinds)) or not CHANNELS.issuperset(kinds):
                    raise DataFormatError(
                        path,
                        f"{shown(' '.join(words))} is not a count and as many channels",
                        number,
                    )
                for channel in (f"{joints[-1]}.{each}" for each in kinds):
                    if channel in channels:
                        raise DataFormatError(path, f"channel {shown(channel)} twice", number)
                    channels[channel] = None
            case ["MOTION"] if opening is None and not joints and channels:
                return tuple(channels)
            case _:
                raise DataFormatError(
                    path, f"{shown(' '.join(words))} is out of place in the hierarchy", number
                )
    raise DataFormatError(path, "ends before its motion", None)


def _after(
    lines: Iterator[tuple[int, list[str]]], words: list[str], path: Path | str, values: int = 1
) -> tuple[int, str]:
    """The next line must be `words` and one value, or `words` alone; gives its number and the
    value.
    """
    expected = " ".join(words)
    number, found = next(lines, (0, []))
    if not number:
        raise DataFormatError(path, f"ends before {expected!r}")
    if found[: len(words)] != words or len(found) != len(words) + values:
        raise DataFormatError(path, f"{shown(' '.join(found))}, expected {expected!r}", number)
    return number, found[-1]
