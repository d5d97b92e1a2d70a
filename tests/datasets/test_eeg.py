"""EEG trials are those of the UCI archive, and their gaps those of the author's split file."""

from __future__ import annotations

import gzip
import io
import tarfile

import numpy as np
import pandas as pd
import pytest
from alike import assert_alike, assert_same_options

from mogp.datasets import DataFormatError, DataUnavailableError
from mogp.datasets.eeg import (
    ALL_TRIALS,
    ELECTRODES,
    ENTRIES,
    FIRST_TRIALS,
    GAPS,
    SHAPES,
    TEN_TRIALS,
    eeg,
    eeg_standin,
    read_trial,
)

PACKED = (337, 338, 339, 340, 341, 342, 344, 345, 364, 365, 368, 369, 370, 371, 372, 375)


@pytest.fixture
def mirror(shared_data, monkeypatch):
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    return shared_data


def test_base_split_is_the_authors(mirror):
    data = eeg()
    split = {
        part: pd.read_csv(mirror / f"gplar_splits/eeg_{part}.csv", index_col=0) for part in ("all", "train", "test")
    }
    assert data.outputs == tuple(split["all"].columns)
    np.testing.assert_array_equal(data.X[:, 0], split["all"].index)
    np.testing.assert_array_equal(data.Y, split["all"])
    np.testing.assert_array_equal(data.train.Y, split["train"])
    np.testing.assert_array_equal(data.test.Y[:, 4:], split["test"])
    np.testing.assert_array_equal(data.test.X[:, 0], split["test"].index)
    assert (data.test.X.min(), data.test.X.max()) == (0.609375, 0.99609375)


def test_variances_are_those_the_specification_prints(mirror):
    data = eeg()
    np.testing.assert_allclose(data.test.Y[:, 4:].var(axis=0), [4.0099, 5.2341, 5.4295], atol=5e-5)
    np.testing.assert_allclose(np.nanstd(data.train.Y[:, 4:], axis=0), [4.0047, 4.3557, 3.9565], atol=5e-5)


@pytest.mark.parametrize(
    ("missing", "first", "gaps"),
    [
        ("diagnosis", "FZ", {"FZ": (150, 200), "F1": (150, 200), "F2": (150, 200), "F3": (200, 256), "F4": (200, 256)}),
        ("failure", "F3", {"F3": (100, 150), "F4": (100, 150), "F1": (150, 200), "F2": (150, 200)}),
        ("cross-channel", "F3", {"F3": (150, 200), "F4": (150, 200)}),
        ("long", "F3", {"F3": (151, 256), "F4": (151, 256), "F5": (151, 256)}),
        (
            "bidirectional",
            "FZ",
            {
                **dict.fromkeys(("FZ", "F1", "F2"), (150, 200)),
                "F3": (50, 100),
                "F4": (50, 100),
                "F5": (100, 150),
                "F6": (100, 150),
            },
        ),
        ("combined", "FZ", GAPS["bidirectional"]),
        ({"F3": (0, 1)}, "F3", {"F3": (0, 1)}),
    ],
)
def test_gaps_of_the_other_experiments_are_those_of_the_specification(missing, first, gaps):
    data = eeg_standin(missing=missing)
    assert data.outputs[0] == first
    for output, held in zip(data.outputs, data.held_out.T, strict=True):
        start, stop = gaps.get(output, (0, 0))
        np.testing.assert_array_equal(np.flatnonzero(held), np.arange(start, stop))


def test_named_times_of_gaps_are_the_indices():
    """The document gives seconds: [0.6, 0.8] of §7.8 and [0.4, 0.6] of §7.9 are 150:200 and 100:150, to the sample."""
    data = eeg_standin(missing="failure")
    for output, start, stop in (("F3", 0.4, 0.6), ("F1", 0.6, 0.8)):
        held = data.X[data.held_out[:, data.outputs.index(output)], 0]
        np.testing.assert_allclose((held[0], held[-1]), (start, stop), atol=0.03)


def test_no_gaps_no_split():
    assert eeg_standin(missing=None).held_out is None
    assert eeg_standin(missing={}).held_out is None


@pytest.mark.parametrize("subject", [338, 345, 365, 372])
def test_trials_of_the_pack_are_its_tables(mirror, subject):
    group = "a" if subject >= 364 else "c"
    with tarfile.open(mirror / FIRST_TRIALS) as archive:
        name = next(name for name in archive.getnames() if f"co2{group}0000{subject}" in name)
        table = pd.read_csv(archive.extractfile(name), index_col=0)
    wide = table.pivot(index="time", columns="sensor position", values="sensor value")
    data = eeg(subject=subject, electrodes=("CZ", "Y", "FP1"), missing=None)
    np.testing.assert_array_equal(data.Y, wide[["CZ", "Y", "FP1"]])
    np.testing.assert_array_equal(data.X[:, 0], wide.index)


def test_pack_and_published_archive_agree(mirror, monkeypatch, tmp_path):
    published = {subject: eeg(subject=subject, electrodes=ELECTRODES, missing=None) for subject in (337, 364)}
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(tmp_path))
    (tmp_path / "eeg").mkdir()
    (tmp_path / FIRST_TRIALS).symlink_to(mirror / FIRST_TRIALS)
    for subject, data in published.items():
        assert eeg(subject=subject, electrodes=ELECTRODES, missing=None).digest == data.digest


def test_trials_count_within_their_condition(mirror):
    data = eeg(subject=364, condition="S2 nomatch", trial=3)
    with tarfile.open(mirror / TEN_TRIALS[364, "S2 nomatch"]) as archive:
        text = gzip.decompress(archive.extractfile("a_n_co2a0000364/co2a0000364.rd.031.gz").read()).decode()
    assert "S2 nomatch, trial 31" in text
    values = [float(line.split()[3]) for line in text.splitlines() if line.split()[1] == "FZ" and line[0] != "#"]
    np.testing.assert_array_equal(data.Y[:, data.outputs.index("FZ")], values)


def test_every_subject_of_the_pack_loads_and_others_need_the_whole_archive(mirror):
    digests = {eeg(subject=subject).digest for subject in (339, 375)}
    assert len(digests) == 2
    for subject, options in ((346, {}), (338, {"trial": 1}), (338, {"condition": "S2 match"})):
        with pytest.raises(DataUnavailableError, match=ALL_TRIALS):
            eeg(subject=subject, **options)


def text_of(volts, trial=0, condition="S1 obj"):
    lines = ["# co2c0000346.rd", "# 120 trials", "# 3.906000 msecs uV", f"# {condition} , trial {trial}"]
    for chan, name in enumerate(ELECTRODES):
        lines.append(f"# {name} chan {chan}")
        lines += [f"{trial} {name} {sample} {value:.3f}" for sample, value in enumerate(volts[chan])]
    return "\n".join(lines).encode()


def test_the_whole_archive_serves_where_it_is(tmp_path, monkeypatch, rng):
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(tmp_path))
    trials = {(2, "S2 match"): rng.normal(size=(64, 256)), (7, "S1 obj"): rng.normal(size=(64, 256))}
    (tmp_path / "eeg").mkdir()
    with tarfile.open(tmp_path / ALL_TRIALS, "w:gz", format=tarfile.USTAR_FORMAT) as archive:
        for (trial, condition), volts in trials.items():
            content = gzip.compress(text_of(volts, trial, condition))
            info = tarfile.TarInfo(f"SMNI_CMI_TRAIN/co2c0000346/co2c0000346.rd.{trial:03}.gz")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    data = eeg(subject=346, electrodes=ELECTRODES, missing=None)
    np.testing.assert_allclose(data.Y.T, trials[7, "S1 obj"], atol=6e-4)
    with pytest.raises(DataFormatError, match="holds 1 trials 'S1 obj' of subject 346, no trial 1"):
        eeg(subject=346, trial=1)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[:-20], "sample twice, or lacks one|4|fields"),
        (lambda text: text.replace(b"0 FP1 3 ", b"0 FP1 2 "), "twice"),
        (lambda text: text.replace(b"0 FP1 3 ", b"0 FP1 300 "), "samples 0 to 255"),
        (lambda text: text.replace(b" FP1 ", b" FP2 "), "63 electrodes"),
        (lambda text: text.replace(b"0 FP1 3 ", b"0 FP1 x "), "not numbers"),
        (lambda text: b"a,b\n1,2\n", "lacks the columns|fields"),
        (lambda text: b"", "rows|header|names"),
    ],
)
def test_damaged_trials_are_refused(damage, message):
    with pytest.raises(DataFormatError, match=message):
        read_trial(damage(text_of(np.zeros((64, 256)))), "trial.rd")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subject": 343}, "there are 337, 338"),
        ({"trial": 10}, "0 to 9"),
        ({"condition": "S3"}, "'S1 obj', 'S2 match'"),
        ({"electrodes": ("F3", "F33"), "missing": None}, "FP1, FP2"),
        ({"electrodes": (), "missing": None}, "choose different"),
        ({"electrodes": ("F3", "F3"), "missing": None}, "choose different"),
        ({"electrodes": ("F3",)}, "a gap in 'FZ', which is not among the chosen F3"),
        ({"missing": "most"}, "'base', 'diagnosis'"),
        ({"missing": {"F3": (10, 10)}}, "0 <= start < stop <= 256"),
        ({"missing": {"F3": (10, 300)}}, "0 <= start < stop <= 256"),
    ],
)
@pytest.mark.parametrize("load", [eeg, eeg_standin])
def test_unknown_options_are_met_with_the_known_ones(load, options, message, request):
    if load is eeg:
        request.getfixturevalue("mirror")
    with pytest.raises(ValueError, match=message):
        load(**options)


def fitted(data):
    """Mean R² over the gaps of a linear regression on the outputs without one."""
    scores = []
    complete = ~data.held_out.any(axis=0)
    A = np.column_stack([np.ones(len(data)), data.Y[:, complete]])
    for column, held in zip(data.Y.T[~complete], data.held_out.T[~complete], strict=True):
        weights = np.linalg.lstsq(A[~held], column[~held], rcond=None)[0]
        scores.append(1 - np.mean((A[held] @ weights - column[held]) ** 2) / np.var(column[held]))
    return np.mean(scores)


def test_standin_has_the_form_and_difficulty_of_a_real_trial(mirror):
    assert_same_options(ENTRIES["eeg"])
    real, standin = eeg(), eeg_standin()
    assert_alike(real, standin)
    assert standin.digest == eeg_standin().digest
    assert standin.digest != eeg_standin(subject=338).digest
    assert fitted(standin) == pytest.approx(fitted(real), abs=0.15)
    assert standin.Y.std() == pytest.approx(real.Y.std(), rel=0.3)


def test_shapes_are_those_of_the_readme(mirror):
    first = TEN_TRIALS[337, "S1 obj"]
    assert SHAPES["eeg/*.tar.gz"](mirror / first) == "10 trials x 64 x 256"
    assert SHAPES["eeg/*.csv"](mirror / "eeg/mogptk_eeg.csv") == "300 x 22"
    assert SHAPES["eeg/*.tar.gz"](mirror / FIRST_TRIALS) == f"{len(PACKED)} subjects x 64 x 256"
