from __future__ import annotations

import re

import numpy as np
import pytest
from fuzz_targets_text import AMC, BVH

from mogp.datasets.formats.amc import read_amc
from mogp.datasets.formats.bvh import read_bvh
from mogp.datasets.formats.errors import DataFormatError

BVH_FRAMES = {
    "07": [317, 330, 416, 450, 518, 418, 380, 363, 307, 302, 316, 264],
    "08": [310, 354, 284, 294],
    "09": [149, 131, 129, 138, 144, 142, 139, 129, 153, 133, 166],
    "64": [445, 413, 388, 377, 365, 453],
    "118": [498, 646, 692, 647],
}


@pytest.mark.parametrize(
    "content", [BVH, BVH.replace(b"\n", b"\r\n"), BVH.replace(b"\nMOTION", b"\n\nMOTION") + b"\n\n"]
)
def test_bvh_channels_and_frames(written, content):
    motion = read_bvh(written(content))
    assert motion.channels[:4] == ("Hips.Xposition", "Hips.Yposition", "Hips.Zposition", "Hips.Zrotation")
    assert motion.channels[6:] == ("Leg.Zrotation", "Leg.Yrotation", "Leg.Xrotation")
    np.testing.assert_array_equal(motion.frames, [np.arange(1, 10), [1.5, 2, -3, 4, 0.005, 6, 7, 8, 9]])
    assert motion.frame_time == 0.0083333


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        (BVH, b"", None, "ends before 'HIERARCHY'"),
        (b"HIERARCHY", b"SKELETON", 1, "expected 'HIERARCHY'"),
        (b"ROOT Hips", b"JOINT Hips", 2, "out of place"),
        (b"ROOT Hips\n{", b"ROOT Hips", 3, "out of place"),
        (b"}\nMOTION", b"MOTION", 15, "out of place"),
        (b"}\nMOTION", b"}\n}\nMOTION", 16, "out of place"),
        (b"0.0 0.0 0.0", b"0.0 0.0", 4, "out of place"),
        (b"0.0 0.0 0.0", b"0.0 nan 0.0", 4, "out of place"),
        (b"CHANNELS 6", b"CHANNELS 5", 5, "a count and as many channels"),
        (b"CHANNELS 6", b"CHANNELS 999999999999", 5, "a count and as many channels"),
        (b"Zposition", b"Wposition", 5, "a count and as many channels"),
        (b"Zposition", b"Xposition", 5, "'Hips.Xposition' twice"),
        (b"JOINT Leg", b"JOINT", 6, "out of place"),
        (b"MOTION", b"", 17, "out of place"),
        (BVH[BVH.index(b"MOTION") :], b"", None, "ends before its motion"),
        (BVH[BVH.index(b"Frames") :], b"", None, "ends before 'Frames:'"),
        (b"Frames: 2", b"Frames: two", 17, "'two' frames"),
        (b"Frames: 2", b"Frames: 3", 17, "2 frames follow, 3 were announced"),
        (b"Frames: 2", b"Frames: 999999999999", 17, "2 frames follow"),
        (b"Time: .0083333", b"Time: 0", 18, "seconds > 0"),
        (b"Time: .0083333", b"Time: nan", 18, "seconds > 0"),
        (b"Time: .0083333", b"Rate: 120", 18, "expected 'Frame Time:'"),
        (b"1.5 2 -3 4", b"1.5 2 -3", 20, "8 columns, expected 9"),
        (b"1.5 2 -3 4", b"1.5 2 -3 x", 20, "column 4 holds 'x'"),
        (b"1.5 2 -3 4", b"1.5 2 -3 inf", 20, "column 4 holds 'inf'"),
        (b"1.5 2", b"1.5 \xff", 20, "UTF-8"),
        (b"1.5 2", b"1.5 \0", 20, "NUL"),
        (BVH[BVH.index(b"1 2 3") :], b"", 19, "no rows"),
    ],
)
def test_bad_bvh_files_are_refused_with_their_line(written, old, new, line, problem):
    path = written(BVH.replace(old, new, 1))
    with pytest.raises(DataFormatError, match=problem) as caught:
        read_bvh(path)
    assert str(caught.value).startswith(str(path))
    assert caught.value.line == line


def test_a_deep_skeleton_is_no_recursion(written):
    depth = 20_000
    joints = b"".join(b"JOINT j%d\n{\nOFFSET 0 0 0\nCHANNELS 1 Xrotation\n" % n for n in range(depth))
    content = b"HIERARCHY\nROOT r\n{\n" + joints + b"}\n" * (depth + 1) + b"MOTION\nFrames: 1\nFrame Time: 1\n"
    assert read_bvh(written(content + b" ".join([b"1"] * depth))).frames.shape == (1, depth)


@pytest.mark.parametrize("content", [AMC, AMC.replace(b"\n", b"\r\n"), AMC.rstrip()])
def test_amc_channels_and_frames(written, content):
    motion = read_amc(written(content))
    assert motion.channels[5:] == ("root.5", "lfemur.0", "lfemur.1", "lfemur.2", "ltibia.0")
    np.testing.assert_array_equal(
        motion.frames, [[1, 2, 3, 4.5, 5, 6, -1, 2e-14, 3, 7], [1, 2, 3, 4.5, 5, 7, -1, 2, 3, 8]]
    )
    assert motion.frame_time == 1 / 120


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        (AMC, b"", None, "no frames"),
        (AMC[AMC.index(b"1\n") :], b"", None, "no frames"),
        (AMC[AMC.index(b"root") :], b"", None, "no frames"),
        (b":DEGREES", b":RADIANS", None, "no line :DEGREES"),
        (b"\n1\n", b"\n", 4, "'root' before the first frame"),
        (b"\n1\n", b"\n0\n", 4, "'0', expected frame 1"),
        (b"\n2\n", b"\n3\n", 8, "'3', expected frame 2"),
        (b"\n2\n", b"\n", 8, "bone 'root' twice"),
        (b"ltibia 8\n", b"", 8, "a frame of 2 bones, expected 3"),
        (b"ltibia 8\n", b"ltibia 8\nhead 1\n", 8, "a frame of 4 bones, expected 3"),
        (b"ltibia 8\n", b"rtibia 8\n", 11, "'rtibia' with 1 values, expected 'ltibia' with 1"),
        (b"ltibia 8\n", b"ltibia 8 9\n", 11, "'ltibia' with 2 values"),
        (b"ltibia 8\n", b"ltibia\n", 11, "'ltibia', expected frame 3"),
        (b"ltibia 8\n", b"ltibia nan\n", 11, "finite numbers"),
        (b"ltibia 7\n", b"lfemur 7\n", 7, "bone 'lfemur' twice"),
        (b"ltibia 8\n", b"ltibia \xff\n", 11, "UTF-8"),
        (b"ltibia 8\n", b"ltibia \0\n", 11, "NUL"),
    ],
)
def test_bad_amc_files_are_refused_with_their_line(written, old, new, line, problem):
    path = written(AMC.replace(old, new, 1))
    with pytest.raises(DataFormatError, match=problem) as caught:
        read_amc(path)
    assert str(caught.value).startswith(str(path))
    assert caught.value.line == line


@pytest.mark.parametrize("subject", sorted(BVH_FRAMES))
def test_real_bvh_files_have_their_published_shapes(shared_data, subject):
    paths = sorted((shared_data / "mocap_bvh").glob(f"{subject}_*.bvh"))
    motions = [read_bvh(path) for path in paths]
    assert [motion.frames.shape for motion in motions] == [(count, 96) for count in BVH_FRAMES[subject]]
    text = paths[0].read_text()
    last = np.array(text.split()[-96:], float)
    np.testing.assert_array_equal(motions[0].frames[-1], last)
    assert len(motions[0].channels) == sum(map(int, re.findall(r"CHANNELS (\d)", text)))


@pytest.mark.parametrize(("name", "frames"), [("07_02", 329), ("08_02", 309), ("08_04", 484)])
def test_real_amc_files_have_their_published_shapes(shared_data, name, frames):
    path = shared_data / "mocap_amc" / f"{name}.amc"
    motion = read_amc(path)
    assert motion.frames.shape == (frames, 62)
    text = path.read_text()
    for bone in ("root", "lfemur", "rhand"):
        rows = np.array([row.split() for row in re.findall(rf"^{bone} (.*)$", text, re.MULTILINE)], float)
        columns = [motion.channels.index(f"{bone}.{axis}") for axis in range(rows.shape[1])]
        np.testing.assert_array_equal(motion.frames[:, columns], rows)
