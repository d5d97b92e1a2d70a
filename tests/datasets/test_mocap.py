"""Motion capture: what AMC, BVH and NPZ have in common, the channels and replicas of the documents, stand-ins."""

from __future__ import annotations

import numpy as np
import pytest
from alike import assert_alike, assert_same_options
from scipy.ndimage import uniform_filter1d

from mogp.datasets import DataFormatError, DataUnavailableError, mocap
from mogp.datasets.formats.amc import read_amc
from mogp.datasets.formats.bvh import read_bvh
from mogp.datasets.mocap import ENTRIES, SHAPES
from mogp.datasets.mocap_recordings import COUNTERPARTS, NPZ, NPZ_CHANNELS, NPZ_TRIALS, read_recording
from mogp.datasets.mocap_standins import FRAMES

REPLICAS = {"mocap-8": (16, 4, 200), "mocap-9": (16, 6, 100), "mocap-64": (9, 6, 200), "mocap-118": (12, 4, 200)}


@pytest.fixture
def mirror(shared_data, monkeypatch):
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    return shared_data


def frames_of(path) -> dict[str, np.ndarray]:
    """The columns of a BVH file, read in another way than the parser: the numbers below the line of the frame time."""
    head, _, body = path.read_text().partition("Frame Time:")
    words = head.split()
    names: list[str] = []
    for i, word in enumerate(words):
        if word in ("ROOT", "JOINT"):
            joint = words[i + 1]
        elif word == "CHANNELS":
            names += [f"{joint}.{kind}" for kind in words[i + 2 : i + 2 + int(words[i + 1])]]
    table = np.array(" ".join(body.split()[1:]).split(), float).reshape(-1, len(names))
    return dict(zip(names, table.T, strict=True))


# Formats


@pytest.mark.parametrize("name", ["07_02", "08_02"])
def test_bvh_has_one_frame_more_and_the_same_trunk_as_amc(mirror, name):
    amc, bvh = (read_recording(mirror / f"mocap_{kind}" / f"{name}.{kind}") for kind in ("amc", "bvh"))
    assert read_amc(mirror / "mocap_amc" / f"{name}.amc").channels == bvh.channels == tuple(COUNTERPARTS)
    assert len(read_bvh(mirror / "mocap_bvh" / f"{name}.bvh").frames) == len(amc.frames) + 1 == len(bvh.frames) + 1
    np.testing.assert_allclose(bvh.frames[:, :24], amc.frames[:, :24], atol=1e-4)
    wrists = [amc.channels.index(wrist) for wrist in ("rwrist.0", "lwrist.0")]
    np.testing.assert_allclose(bvh.frames[:, wrists] * (1.0, -1.0), amc.frames[:, wrists], atol=1e-4)


@pytest.mark.parametrize("name", ["07_02", "08_02"])
@pytest.mark.parametrize("bone", ["rradius", "lradius", "rtibia", "ltibia", "rtoes", "ltoes"])
def test_bones_with_one_degree_of_freedom_move_alike_in_both_formats(mirror, name, bone):
    amc, bvh = (read_recording(mirror / f"mocap_{kind}" / f"{name}.{kind}") for kind in ("amc", "bvh"))
    c = amc.channels.index(f"{bone}.0")
    assert abs(np.corrcoef(amc.frames[:, c], bvh.frames[:, c])[0, 1]) > 0.9995


def test_npz_holds_the_angles_of_the_named_trials(mirror):
    arrays = np.load(mirror / NPZ)
    assert len(NPZ_CHANNELS) == 50
    same = [c for c, channel in enumerate(NPZ_CHANNELS) if 3 <= c < 24]
    for part, trials in NPZ_TRIALS.items():
        for i, trial in enumerate(trials):
            bvh = read_recording(mirror / "mocap_bvh" / f"09_{trial:02d}.bvh").frames[:120, 3:24]
            shift = arrays[part][i][:, same] - bvh
            assert np.ptp(shift, axis=0).max() < 2e-4


def test_no_angle_jumps_by_a_turn(mirror):
    bvh = read_recording(mirror / "mocap_bvh" / "64_03.bvh")
    raw = frames_of(mirror / "mocap_bvh" / "64_03.bvh")
    assert np.abs(np.diff(raw["RightArm.Zrotation"][1:])).max() > 300
    assert np.abs(np.diff(bvh.frames, axis=0)).max() < 180
    turns = (bvh.frames - np.column_stack([raw[channel][1:] for channel in COUNTERPARTS.values()])) / 360
    np.testing.assert_allclose(turns, turns.round(), atol=1e-9)


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("mocap_bvh/07_01.bvh", "317 frames x 96 channels"),
        ("mocap_bvh/118_17.bvh", "647 frames x 96 channels"),
        ("mocap_amc/07_02.amc", "329 frames x 62 channels"),
        ("mocap_amc/08_04.amc", "484 frames x 62 channels"),
        (NPZ, "train 6 x 120 x 50, validation 2 x 120 x 50, test 2 x 120 x 50"),
    ],
)
def test_shapes_are_the_verified_ones(shared_data, path, shape):
    pattern = path if path in SHAPES else f"{path.partition('/')[0]}/*.{path.rpartition('.')[2]}"
    assert SHAPES[pattern](shared_data / path) == shape


def test_a_recording_of_another_skeleton_is_refused(tmp_path):
    text = "HIERARCHY\nROOT Hips\n{\nOFFSET 0 0 0\nCHANNELS 1 Xposition\nEnd Site\n{\nOFFSET 0 0 0\n}\n}\n"
    (tmp_path / "a.bvh").write_text(f"{text}MOTION\nFrames: 2\nFrame Time: 0.1\n0\n1\n")
    with pytest.raises(DataFormatError, match=r"has no channel 'Hips.Yposition'; expected the skeleton"):
        read_recording(tmp_path / "a.bvh")


# Replicas


def test_signal_to_noise_is_the_ratio_of_a_moving_average_to_the_rest():
    rng = np.random.default_rng(0)
    frames = np.cumsum(rng.standard_normal((90, 4)), axis=0)
    smooth = uniform_filter1d(frames, 5, axis=0, mode="nearest")
    expected = 10 * np.log10(smooth.var(axis=0) / (frames - smooth).var(axis=0))
    np.testing.assert_allclose(mocap.signal_to_noise(frames), expected)
    assert (mocap.signal_to_noise(np.ones((9, 2))) < 0).all()


@pytest.mark.parametrize("name", REPLICAS)
def test_outputs_replicas_and_points_are_as_many_as_the_documents_print(mirror, name):
    (D, R, points), data = REPLICAS[name], ENTRIES[name].load()
    assert data.Y.shape == (R * points, D)
    assert np.bincount(data.replica).tolist() == [points] * R
    assert data.extras["snr"].shape == (D,)
    assert data.extras["snr"].min() >= 20.0
    limbs = [output for output in data.outputs if "neck" not in output and "head" not in output]
    assert {output[0] for output in limbs} == {"l", "r"}
    assert not np.isnan(data.Y).any()


def test_candidates_are_the_degrees_of_freedom_of_the_bones():
    assert {name: len(study.candidates) for name, study in mocap.STUDIES.items()} == {
        "mocap-8": 18,
        "mocap-9": 21,
        "mocap-64": 10,
        "mocap-118": 12,
    }


def test_channels_left_out_are_the_noisiest(mirror):
    assert set(mocap.STUDIES["mocap-8"].candidates) - set(mocap.ENTRIES["mocap-8"].load().outputs) == {
        "lhumerus.2",
        "rfemur.2",
    }
    assert set(mocap.STUDIES["mocap-64"].candidates) - set(mocap.ENTRIES["mocap-64"].load().outputs) == {"lwrist.0"}
    assert mocap.mocap_9().outputs == mocap.mocap_9(format="npz").outputs


def test_targets_are_sampled_rows_of_standardised_trials(mirror):
    data = mocap.mocap_9()
    for r, trial in ((0, 1), (3, 5), (5, 11)):
        raw = frames_of(mirror / "mocap_bvh" / f"09_{trial:02d}.bvh")
        angle = raw["Head.Yrotation"][1:]
        frame = np.arange(len(angle))
        rows = np.random.RandomState(1).choice(len(angle), size=100, replace=False)
        of = data.replica == r
        np.testing.assert_allclose(
            data.Y[of, data.outputs.index("head.1")], ((angle - angle.mean()) / angle.std())[rows]
        )
        np.testing.assert_allclose(data.X[of, 0], ((frame - frame.mean()) / frame.std())[rows])


def test_without_sampling_and_scaling_targets_are_the_angles(mirror):
    data = mocap.ENTRIES["mocap-118"].load(points=None, standardise=False)
    raw = frames_of(mirror / "mocap_bvh" / "118_04.bvh")["LeftLeg.Xrotation"][1:]
    of = data.replica == 1
    assert len(data) == 497 + 645 + 691 + 646
    np.testing.assert_allclose(data.Y[of, data.outputs.index("ltibia.0")], raw)
    np.testing.assert_array_equal(data.X[of, 0], np.arange(645))


@pytest.mark.parametrize("repetition", [0, 2])
def test_output_d_misses_replica_d_plus_repetition(mirror, repetition):
    data = mocap.ENTRIES["mocap-64"].load(repetition=repetition)
    for d in range(9):
        np.testing.assert_array_equal(data.held_out[:, d], data.replica == (d + repetition) % 6)
    assert mocap.ENTRIES["mocap-64"].load(seed=2).digest != mocap.ENTRIES["mocap-64"].load().digest


def test_format_is_amc_only_where_all_trials_are_there(mirror):
    assert "(BVH)" in mocap.ENTRIES["mocap-8"].load().description
    assert "(AMC)" in mocap.mocap_7().description
    assert "(BVH)" in mocap.mocap_7(format="bvh").description


# Channels of one trial


def test_mocap_7_is_forty_channels_of_the_second_motion(mirror):
    data = mocap.mocap_7()
    raw = read_amc(mirror / "mocap_amc" / "07_02.amc")
    assert data.outputs == raw.channels[6:46]
    np.testing.assert_allclose(data.X[:, 0], np.arange(329) / 120)
    moving = raw.frames[:, 6:46].std(axis=0) > 1e-6
    np.testing.assert_allclose(data.Y[:, moving].mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(data.Y[:, moving].std(axis=0), 1.0)
    undone = data.Y * data.extras["sd"] + data.extras["mean"]
    np.testing.assert_allclose(undone, raw.frames[:, 6:46], atol=1e-9)
    still = {output.partition(".")[0] for output, moves in zip(data.outputs, moving, strict=True) if not moves}
    assert still == {"rclavicle", "lclavicle", "rfingers", "lfingers"}
    assert (data.Y[:, ~moving] == 0.0).all()
    assert not mocap.mocap_7(format="bvh").Y[:, ~moving].any()
    np.testing.assert_allclose(mocap.mocap_7(format="bvh").Y[:, :18], data.Y[:, :18], atol=1e-3)


def test_two_motions_of_subject_7_have_the_printed_number_of_frames(mirror):
    data = mocap.mocap_7(motions=(2, 3), standardise=False)
    assert len(data) == 744
    np.testing.assert_allclose(data.Y[:329], mocap.mocap_7(standardise=False, format="bvh").Y)
    assert_alike(data, mocap.mocap_7_standin(motions=(2, 3), standardise=False))
    for motion, frames in FRAMES[7].items():
        assert len(read_recording(mirror / "mocap_bvh" / f"07_{motion:02d}.bvh").frames) == frames


@pytest.mark.parametrize("motions", [(), (0,), (2, 13)])
def test_unknown_motions_are_met_with_those_there_are(motions):
    with pytest.raises(ValueError, match="1 to 12"):
        mocap.mocap_7(motions=motions)


def test_a_motion_that_is_nowhere_as_amc_is_refused_in_that_format(mirror):
    with pytest.raises(ValueError, match=r"07_05.amc is not in the registry of data files; use format='bvh'"):
        mocap.mocap_7(motions=(5,), format="amc")


def test_mocap_9_channels_agree_between_formats(mirror):
    bvh, npz = (mocap.mocap_9(layout="channels", standardise=False, format=format) for format in ("bvh", "npz"))
    assert (bvh.Y.shape, npz.Y.shape) == ((130, 20), (120, 20))
    assert bvh.outputs == npz.outputs == tuple(COUNTERPARTS)[6:26]
    assert np.ptp(bvh.Y[:120] - npz.Y, axis=0).max() < 2e-4


def test_gamma_targets_are_positive(mirror):
    data = mocap.mocap_9(layout="channels", likelihood="Gamma")
    raw = mocap.mocap_9(layout="channels", standardise=False).Y
    assert data.likelihoods == ("Gamma",)
    assert data.Y.min() >= 1e-5
    assert data.Y.max() <= 2.0
    moving = raw.max(axis=0) > 1e-6
    np.testing.assert_allclose(data.Y[:, moving], np.clip(2 * raw[:, moving] / raw[:, moving].max(axis=0), 1e-5, 2))


# Stand-ins and errors


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.parametrize("layout", ["replicas", "channels"])
def test_standins_have_the_same_form_and_never_change(mirror, name, layout):
    entry = ENTRIES[name]
    assert_same_options(entry)
    options = {"layout": layout} if "layout" in entry.options else {}
    assert_alike(entry.load(**options), entry.standin(**options))
    assert entry.standin(**options).digest == entry.standin(**options).digest


@pytest.mark.parametrize("name", REPLICAS)
def test_a_missing_replica_is_as_hard_to_guess_from_the_others_as_in_the_real_data(mirror, name):
    def score(load):
        errors, spreads = [], []
        for repetition in range(3):
            data = load(repetition=repetition)
            for d in range(len(data.outputs)):
                test = data.held_out[:, d]
                nearest = np.argsort(np.abs(data.X[test] - data.X[~test].T), axis=1, kind="stable")[:, :10]
                errors.append(np.mean((data.Y[test, d] - data.Y[~test, d][nearest].mean(axis=1)) ** 2))
                spreads.append(data.Y[test, d].var())
        return 1 - np.mean(errors) / np.mean(spreads)

    assert score(ENTRIES[name].standin) == pytest.approx(score(ENTRIES[name].load), abs=0.15)


@pytest.mark.parametrize("load", [mocap.mocap_9, mocap.mocap_9_standin])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"points": 129}, "the shortest trial has 128 frames"),
        ({"points": 0}, "points=0"),
        ({"repetition": -1}, "count from 0"),
        ({"format": "c3d"}, "'auto', 'amc', 'bvh', 'npz'"),
        ({"layout": "wide"}, "'replicas' or 'channels'"),
        ({"layout": "channels", "likelihood": "Beta"}, "'HeteroscedasticGaussian' or 'Gamma'"),
    ],
)
def test_an_unknown_option_is_met_with_those_there_are(mirror, load, options, said):
    with pytest.raises(ValueError, match=said):
        load(**options)


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.parametrize("format", ["auto", "amc"])
def test_without_the_files_the_error_says_how_to_get_them(name, format, monkeypatch):
    monkeypatch.setenv("MOGP_OFFLINE", "1")
    with pytest.raises(DataUnavailableError, match=f"mogp data fetch {name}"):
        ENTRIES[name].load(format=format)
