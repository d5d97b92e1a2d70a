"""`load` gives one typed object whatever the source; every data set can be had, is registered and is accounted for."""

from __future__ import annotations

import csv
import inspect
import json
import pickle
import subprocess
import sys
import warnings
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest

import mogp.likelihoods
from mogp.datasets import DataUnavailableError, StandInWarning, load, names, store
from mogp.datasets.catalogue import CATALOGUE
from mogp.datasets.packaged import PACKAGED
from mogp.datasets.registry import files, registry
from mogp.datasets.shapes import SHAPES
from mogp.project import data_folder

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text(encoding="utf-8"))


def offered(name):
    """What there is without files: the generated data, or the stand-in."""
    return load(name, stand_in="only")


def totals(dataset) -> dict[str, float]:
    """A few numbers that follow from all the others."""
    weights = np.cos(np.arange(len(dataset)))
    Y = dataset.Y if hasattr(dataset.Y, "indptr") else np.nan_to_num(dataset.Y)
    return {"X": float(np.sum(dataset.X.T @ weights)), "Y": float(np.sum(Y.T @ weights))}


@pytest.mark.parametrize("name", names())
def test_every_data_set_is_complete_reproducible_and_read_only(name):
    """Compared with numbers recorded on another run: the same on every platform."""
    dataset = offered(name)
    assert dataset.name == name
    assert dataset.source == ("stand-in" if CATALOGUE[name].standin else "synthetic")
    assert all([dataset.description, dataset.licence, dataset.citation])
    assert set(dataset.likelihoods) <= set(mogp.likelihoods.__all__)
    assert len(set(dataset.outputs)) == len(dataset.outputs)
    for array in (dataset.X, dataset.Y):
        values = array.data if hasattr(array, "indptr") else array
        assert values.dtype in (np.float64, np.float32, np.uint8)
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 0
    assert np.isfinite(dataset.X.data if hasattr(dataset.X, "indptr") else dataset.X).all()
    for output, classes in dataset.classes.items():
        d = dataset.outputs.index(output)
        y = dataset.Y[:, d] if dataset.output is None else dataset.Y[dataset.output == d, 0]
        assert set(np.unique(y[~np.isnan(y)])) == set(range(len(classes)))
    assert totals(dataset) == pytest.approx(RECORDED[name], rel=1e-6, abs=1e-6)
    assert pickle.loads(pickle.dumps(dataset)).digest == dataset.digest


@pytest.mark.parametrize("name", names())
def test_every_data_set_loads_without_files_when_a_stand_in_is_allowed(name, monkeypatch):
    monkeypatch.setenv("MOGP_OFFLINE", "1")
    entry = CATALOGUE[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dataset = load(name, stand_in="allow", **cheap(entry))
    if entry.standin is None:
        assert not caught
        assert dataset.source == "synthetic"
        return
    assert dataset.source == "stand-in"
    assert "stand-in" in dataset.description
    assert [w.category for w in caught] == [StandInWarning]
    with pytest.raises(DataUnavailableError) as failure:
        load(name, **cheap(entry))
    assert 'stand_in="allow"' in str(failure.value)
    if not entry.private:
        assert f"mogp data fetch {name}" in str(failure.value) or "MOGP_DATA_MIRROR" in str(failure.value)


def cheap(entry) -> dict[str, int]:
    """Few rows, where the loader can be asked for them."""
    return {"rows": 500} if "rows" in entry.options else {}


@pytest.mark.parametrize("name", [name for name, entry in CATALOGUE.items() if entry.standin])
def test_stand_in_takes_the_same_options(name):
    entry = CATALOGUE[name]
    assert inspect.signature(entry.load).parameters == inspect.signature(entry.standin).parameters


def test_unknown_name_is_met_with_similar_ones():
    with pytest.raises(ValueError, match=r"no data set 'moter'\. Did you mean 'motor'"):
        load("moter")
    with pytest.raises(ValueError, match="There are: toy-gp-1d, "):
        load("")


def test_unknown_option_is_met_with_the_known_ones():
    with pytest.raises(TypeError, match=r"no option 'size'; it takes n=10, noise_variance=0\.001, seed=0"):
        load("panos-toy-1d", size=3)


def test_unknown_way_with_stand_ins_is_refused():
    with pytest.raises(ValueError, match='expected "forbid", "allow" or "only"'):
        load("motor", stand_in=True)


def test_every_data_set_of_the_ledger_is_in_the_catalogue():
    with (data_folder() / "artefacts.csv").open(newline="", encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if row["kind"] != "finding"]
    named = {name for row in rows for name in row["data"].split(";") if name}
    assert named - set(names()) == set()


def test_the_registry_says_which_experiments_use_a_file():
    """Its column agrees with the ledger of artefacts."""
    with (data_folder() / "artefacts.csv").open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    for file in registry().values():
        documents = {row["document"] for row in rows if set(file.datasets) & set(row["data"].split(";"))}
        assert file.used
        assert all(document in file.used for document in documents), file.path


def test_registry_rows_are_complete():
    for path, file in registry().items():
        assert not path.startswith(("/", "."))
        assert ".." not in path
        assert len(file.sha256) in (0, 64)
        assert len(file.git_blob) in (0, 40)
        assert file.bytes > 0 or not file.sha256 or file.url
        assert file.licence
        assert file.citation
        assert file.url or file.package or file.note
        assert file.sha256 or file.git_blob or "no checksum is known" in file.note, path
        assert set(file.datasets) <= set(names())
        assert bool(file.package) == (path in PACKAGED)


def test_every_registered_file_has_a_reader():
    unread = [path for path in registry() if not any(fnmatchcase(path, pattern) for pattern in SHAPES)]
    assert unread == []


def test_every_real_data_set_has_files_and_a_stand_in():
    for name, entry in CATALOGUE.items():
        if files(name):
            assert entry.standin is not None, name
        if entry.standin is not None:
            assert files(name) or entry.private, name


@pytest.mark.parametrize("path", PACKAGED)
def test_installed_packages_carry_the_registered_bytes(path, monkeypatch):
    monkeypatch.setattr(store, "PACKAGED", PACKAGED)
    assert store.check(store.path_of(path), registry()[path]) is None


def test_importing_the_data_layer_does_not_import_tensorflow():
    code = (
        "import sys, mogp.datasets, mogp.datasets.cli; sys.exit('tensorflow' in sys.modules or 'pandas' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
